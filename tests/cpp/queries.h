// Queries that the tests of the choice share, and how these say what fails.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include "core/devices.h"
#include "planning/choose.h"

namespace convt3d {

inline int failures = 0;

inline void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("not so: %s\n", what);
}

inline PlanQuery some_query() {
  PlanQuery query{};
  query.problem.batch = 2;
  query.problem.in_channels = 32;
  query.problem.out_channels = 48;
  query.problem.groups = 2;
  query.problem.input_size = {5, 6, 17};
  query.problem.kernel_size = {3, 2, 4};
  query.problem.stride = {2, 1, 2};
  query.problem.padding = {1, 0, 1};
  query.problem.dilation = {1, 2, 1};
  query.dtype = DataType::kFloat16;
  query.mode = Float32Mode::kIeee;
  query.op = Operator::kForward;
  query.operands.first = {{8160, 510, 102, 17, 1}, 0, true};
  query.operands.second = {{24 * 24, 24, 8, 4, 1}, 0, true};
  query.operands.result = {{48 * 3960, 3960, 396, 36, 1}, 0, true};
  query.device = device_of_capability(9, 0).traits;
  return query;
}

inline std::string searched(const PlanQuery& query) { return to_string(choose(query)); }

// A forward that every engine could compute: of groups with four products, strides 2.
inline PlanQuery query_of_few_channels() {
  PlanQuery query = some_query();
  query.problem.in_channels = query.problem.out_channels = 8;
  query.problem.groups = 4;
  query.problem.dilation = {1, 1, 1};
  return query;
}

// Of a layer that no tap of which meets another, with few channels.
inline PlanQuery some_backward(Operator op) {
  PlanQuery query = some_query();
  query.op = op;
  query.problem = {};
  query.problem.batch = 2;
  query.problem.in_channels = 32;
  query.problem.out_channels = 16;
  query.problem.input_size = {64, 64, 64};
  query.problem.kernel_size = query.problem.stride = {2, 2, 2};
  query.operands = dense_operands(query.problem, true);
  std::swap(query.operands.first, query.operands.result);
  query.operands.second = query.operands.result;
  return query;
}

}  // namespace convt3d
