// The cache of plans: one search for each query, bounded, from several threads at once.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "planning/plan_cache.h"
#include "queries.h"

namespace convt3d {

inline void test_same_query_is_searched_once() {
  PlanCache cache(4);
  const auto first = cache.get(some_query());
  expect(to_string(*first) == searched(some_query()), "the plan is the search's");
  expect(cache.get(some_query()) == first && cache.size() == 1, "the second call gets the first one's plan");
}

inline void test_every_part_of_a_query_counts() {
  std::vector<PlanQuery> queries{some_query()};
  const auto add = [&](const std::function<void(PlanQuery&)>& change) {
    queries.push_back(some_query());
    change(queries.back());
  };
  add([](PlanQuery& query) { query.problem.batch = 3; });
  add([](PlanQuery& query) { query.problem.in_channels = 64; });
  add([](PlanQuery& query) { query.problem.out_channels = 64; });
  add([](PlanQuery& query) { query.problem.groups = 1; });
  Int3 Problem::* const triples[] = {&Problem::input_size, &Problem::kernel_size,    &Problem::stride,
                                     &Problem::padding,    &Problem::output_padding, &Problem::dilation};
  for (auto triple : triples) {
    for (int axis = 0; axis < 3; ++axis) add([=](PlanQuery& query) { (query.problem.*triple)[axis] += 3; });
  }
  add([](PlanQuery& query) { query.dtype = DataType::kFloat32; });
  add([](PlanQuery& query) { query.mode = Float32Mode::kTf32; });
  add([](PlanQuery& query) { query.engine = Engine::kSimt; });
  for (const Operator op : {Operator::kInputGrad, Operator::kWeightGrad, Operator::kBiasGrad, Operator::kBackward,
                            Operator::kBackwardAndBias}) {
    add([=](PlanQuery& query) { query.op = op; });
  }
  OperandTraits Operands::* const operands[] = {&Operands::first, &Operands::second, &Operands::mask,
                                                &Operands::result};
  for (auto operand : operands) {
    for (size_t i = 0; i < 5; ++i) add([=](PlanQuery& query) { (query.operands.*operand).stride[i] += 8; });
    add([=](PlanQuery& query) { (query.operands.*operand).address = 8; });
    add([=](PlanQuery& query) { (query.operands.*operand).present ^= true; });
  }
  add([](PlanQuery& query) { query.most_copied /= 2; });
  add([](PlanQuery& query) { query.device.kernel_blocks = 1; });
  add([](PlanQuery& query) { ++query.device.multiprocessors; });
  add([](PlanQuery& query) { query.device.shared_bytes -= 1024; });
  add([](PlanQuery& query) { query.device.l2_bytes /= 2; });
  for (int changed = 0; changed < kDeviceMeasures; ++changed) {
    add([=](PlanQuery& query) {
      int number = 0;
      visit_measures(query.device, [&](double& value) { value *= number++ == changed ? 2 : 1; });
    });
  }
  add([](PlanQuery& query) { query.device.engines = engine_bit(Engine::kSimt); });
  add([](PlanQuery& query) { query.device = device_of_capability(8, 0).traits; });
  for (const int candidate : {1, 2}) {
    add([=](PlanQuery& query) {
      query.engine = Engine::kMma;
      query.candidate = candidate;
    });
  }

  PlanCache cache(queries.size());
  for (const PlanQuery& query : queries) {
    expect(to_string(*cache.get(query)) == searched(query), "a query that differs gets its own plan");
  }
  expect(cache.size() == queries.size(), "each query has its own entry");
}

inline void test_oldest_plan_is_forgotten_and_stays_valid() {
  PlanCache cache(2);
  const auto first = cache.get(some_query());
  for (int batch = 3; batch < 8; ++batch) {
    PlanQuery query = some_query();
    query.problem.batch = batch;
    cache.get(query);
    expect(cache.size() == 2, "the cache is bounded");
  }
  expect(to_string(*first) == searched(some_query()), "a forgotten plan stays with who holds it");
  expect(cache.get(some_query()) != first, "a forgotten plan is searched again");
}

inline void test_threads() {
  PlanCache cache(3);
  std::vector<std::string> expected;
  for (int batch = 0; batch < 8; ++batch) {
    PlanQuery query = some_query();
    query.problem.batch = batch + 1;
    expected.push_back(searched(query));
  }
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      for (int turn = 0; turn < 500; ++turn) {
        PlanQuery query = some_query();
        const int batch = (turn * (worker + 1)) % 8;
        query.problem.batch = batch + 1;
        if (to_string(*cache.get(query)) != expected[batch]) ++wrong[worker];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) expect(count == 0, "threads get the plans they asked for");
}

}  // namespace convt3d
