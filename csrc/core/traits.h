// What distinguishes one plan from another, as data: the ways that the kernels go. Tests draw problems until every
// value of every trait, and every pair of values of one plan, was met. Knows nothing of torch or CUDA.
//
// An engine joins by a function of its own that names its traits. A trait has few values: counts are named by what the
// kernel does differently ("1" and "many"), not by their numbers.
#pragma once

#include <string>
#include <vector>

#include "core/call.h"
#include "core/problem.h"

namespace convt3d {

struct Trait {
  const char* name;
  std::string value;
};
using Traits = std::vector<Trait>;

// What is told a forward beside its tensors.
struct ForwardArguments {
  DataType dtype;
  Float32Mode mode;
  bool bias;
  bool relu;
};

// What the traits of an engine's plan begin with, and the parameters that all of them name.
Traits engine_traits(const char* engine, const char* operation, const std::string& type);
void add_parameters(const Problem& problem, Traits& traits);

// "name=value name=value ..."
std::string to_string(const Traits& traits);

}  // namespace convt3d
