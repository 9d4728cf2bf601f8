// The operator's definition along the first axis of a problem, and how the tests of the plans say what fails.
#pragma once

#include <cstdio>
#include <set>
#include <tuple>

#include "core/problem.h"

namespace convt3d {

inline int failures = 0;

inline void expect(bool condition, const char* what, const Problem& problem) {
  if (condition) return;
  ++failures;
  if (failures > 20) return;
  std::printf("FAILED %s: input %lld k %lld s %lld p %lld op %lld d %lld\n", what,
              static_cast<long long>(problem.input_size[0]), static_cast<long long>(problem.kernel_size[0]),
              static_cast<long long>(problem.stride[0]), static_cast<long long>(problem.padding[0]),
              static_cast<long long>(problem.output_padding[0]), static_cast<long long>(problem.dilation[0]));
}

using Term = std::tuple<int, int, int>;  // (input position, tap, output position)

// Every (i, k, o) with i*stride = o + padding - k*dilation inside both tensors.
inline std::set<Term> defined_terms(const Problem& problem) {
  std::set<Term> terms;
  for (int i = 0; i < problem.input_size[0]; ++i) {
    for (int k = 0; k < problem.kernel_size[0]; ++k) {
      const int64_t o = i * problem.stride[0] - problem.padding[0] + k * problem.dilation[0];
      if (o >= 0 && o < problem.output_size(0)) terms.insert({i, k, static_cast<int>(o)});
    }
  }
  return terms;
}

// The same of the input gradient: (position of grad_output, tap, position of grad_input).
inline std::set<Term> defined_input_grad_terms(const Problem& problem) {
  std::set<Term> terms;
  for (const auto& [i, k, o] : defined_terms(problem)) terms.insert({o, k, i});
  return terms;
}

}  // namespace convt3d
