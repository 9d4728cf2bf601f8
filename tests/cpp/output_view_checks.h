// The outputs that taps meet, as a view, against the operator's definition.
#pragma once

#include <set>

#include "core/output_view.h"
#include "terms.h"

namespace convt3d {

// Along axis 0: the view's problem has the layer's terms, each output by its number in the view.
inline void check_met_outputs(const Problem& problem) {
  const std::set<Term> terms = defined_terms(problem);
  std::set<int> met;
  for (const auto& [i, k, o] : terms) met.insert(o);
  const std::optional<OutputView> view = met_outputs(problem);
  if (!view) return;
  const auto first = static_cast<int>(view->first[0]);
  const auto step = static_cast<int>(view->step[0]);
  std::set<Term> of_view;
  for (const auto& [i, k, u] : defined_terms(view->problem)) of_view.insert({i, k, first + step * u});
  expect(of_view == terms, "a view has the terms of the layer", problem);
  const int64_t size = problem.output_size(0);
  const int64_t viewed_size = view->problem.output_size(0);
  expect(first + (viewed_size - 1) * step < size && first + viewed_size * step >= size,
         "a view has every so many-th output", problem);
  expect(!met_outputs(view->problem), "a view is not viewed", problem);
}

}  // namespace convt3d
