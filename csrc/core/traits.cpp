#include "core/traits.h"

#include "core/trait_values.h"

namespace convt3d {

Traits engine_traits(const char* engine, const char* operation, const std::string& type) {
  return {{"engine", engine}, {"operator", operation}, {"type", type}};
}

void add_parameters(const Problem& problem, Traits& traits) {
  for (int i = 0; i < 3; ++i) traits.push_back({kStrideNames[i], one_two_many(problem.stride[i])});
  for (int i = 0; i < 3; ++i) traits.push_back({kDilationNames[i], one_or_many(problem.dilation[i])});
}

std::string to_string(const Traits& traits) {
  std::string text;
  for (const Trait& trait : traits) {
    if (!text.empty()) text += ' ';
    text += trait.name;
    text += '=';
    text += trait.value;
  }
  return text;
}

}  // namespace convt3d
