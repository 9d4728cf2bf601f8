// The choice of plans and their cache, without torch or a GPU; run by tests/test_plan.py.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "core/devices.h"
#include "planning/plan_cache.h"

namespace {

using namespace convt3d;

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("not so: %s\n", what);
}

PlanQuery some_query() {
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

std::string searched(const PlanQuery& query) { return to_string(choose(query)); }

void test_same_query_is_searched_once() {
  PlanCache cache(4);
  const auto first = cache.get(some_query());
  expect(to_string(*first) == searched(some_query()), "the plan is the search's");
  expect(cache.get(some_query()) == first && cache.size() == 1, "the second call gets the first one's plan");
}

void test_every_part_of_a_query_counts() {
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
  add([](PlanQuery& query) { query.device.bytes_per_ms /= 2; });
  add([](PlanQuery& query) { query.device.clocks_per_ms /= 2; });
  add([](PlanQuery& query) { query.device.rates.product_clocks *= 2; });
  add([](PlanQuery& query) { query.device.rates.l2_bytes /= 2; });
  add([](PlanQuery& query) { query.device.rates.shared_bytes /= 2; });
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

void test_oldest_plan_is_forgotten_and_stays_valid() {
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

void test_threads() {
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

// A forward that every engine could compute: of groups with four products, strides 2.
PlanQuery query_of_few_channels() {
  PlanQuery query = some_query();
  query.problem.in_channels = query.problem.out_channels = 8;
  query.problem.groups = 4;
  query.problem.dilation = {1, 1, 1};
  return query;
}

Engine engine_of(PlanQuery query, std::initializer_list<Engine> compiled) {
  query.device.engines = 0;
  for (const Engine engine : compiled) query.device.engines |= engine_bit(engine);
  return *choose(query).engine();
}

void test_order_of_the_forwards_engines() {
  const PlanQuery query = query_of_few_channels();
  expect(engine_of(query, {Engine::kSimt, Engine::kWgmma, Engine::kDepthwise}) == Engine::kDepthwise,
         "few channels go to the depthwise engine");
  expect(engine_of(query, {Engine::kSimt, Engine::kMma, Engine::kWgmma}) == Engine::kWgmma, "Hopper's own are next");
  expect(engine_of(query, {Engine::kSimt}) == Engine::kSimt, "an engine that is not compiled is not chosen");
  PlanQuery small = some_query();
  small.problem.in_channels = small.problem.out_channels = 16;
  small.problem.groups = 1;
  small.problem.input_size = {1, 1, 8};
  small.problem.kernel_size = small.problem.stride = small.problem.dilation = {1, 1, 1};
  small.problem.padding = {0, 0, 0};
  expect(choose(small).engine() == Engine::kWgmma, "an order decides between the forward's engines");
  small.engine = Engine::kSimt;
  expect(choose(small).cost.ms > 0, "... and the other has a plan, too");
  PlanQuery gradient = some_query();
  for (const Operator op : {Operator::kInputGrad, Operator::kWeightGrad}) {
    gradient.op = op;
    expect(choose(gradient).engine() == Engine::kMma, "costs give gradients to the tensor cores");
    gradient.dtype = DataType::kFloat64;
    expect(choose(gradient).engine() == Engine::kSimt, "float64 is the general engine's");
    gradient.dtype = DataType::kFloat16;
  }
}

// Of a layer that no tap of which meets another, with few channels.
PlanQuery some_backward(Operator op) {
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

void test_a_backward_is_one_plan_or_several() {
  for (const Operator op : {Operator::kBackward, Operator::kBackwardAndBias}) {
    const bool bias = op == Operator::kBackwardAndBias;
    PlanQuery query = some_backward(op);
    const OperatorPlan together = choose(query);
    const auto* const plan = std::get_if<mma::BackwardPlan>(&together.plan);
    expect(together.engine() == Engine::kMma && plan != nullptr && plan->grad.bias.has_value() == bias,
           "one read of grad_output is cheaper than several");
    query.problem.kernel_size[1] = 3;
    query.operands.first = dense_operand(query.problem.out_channels, query.problem.output_size(), true);
    const OperatorPlan apart = choose(query);
    const auto* const separate = std::get_if<SeparatePlan>(&apart.plan);
    expect(!apart.engine() && separate != nullptr && (separate->bias_grad != nullptr || separate->sums_bias()) == bias,
           "taps that meet have a plan for each gradient");
    expect(to_string(apart) == std::string("separate: input_grad=mma weight_grad=mma") +
                                   (!bias                    ? ""
                                    : separate->sums_bias() ? " with_bias_grad"
                                                            : " bias_grad=simt"),
           "the plan says who computes what");
    expect(apart.workspace_bytes == separate->workspace_bytes() && apart.workspace_bytes > 0, "... in one workspace");
    PlanQuery one = query;
    one.operands.second = dense_operand(query.problem.out_channels, query.problem.kernel_size, false);
    one.op = Operator::kInputGrad;
    double ms = choose(one).cost.ms;
    one.op = Operator::kWeightGrad;
    one.operands.result = one.operands.second;
    one.operands.second = query.operands.second;
    ms += choose(one).cost.ms;
    expect(bias ? apart.cost.ms > ms : apart.cost.ms == ms, "separate gradients cost what all of them cost");
    query.engine = Engine::kSimt;
    expect(!choose(query).engine() && candidates(query).empty(),
           "an engine without such a plan computes each by itself");
  }
  PlanQuery wide = some_backward(Operator::kBackward);
  wide.dtype = DataType::kFloat64;
  expect(to_string(choose(wide)) == "separate: input_grad=simt weight_grad=simt", "float64 is the general engine's");
}

// Of a layer whose gradients both read grad_output by its channels.
PlanQuery some_separate_backward(const Int3& size) {
  PlanQuery query = some_backward(Operator::kBackwardAndBias);
  query.problem.out_channels = 48;
  query.problem.input_size = size;
  query.problem.kernel_size = {3, 3, 3};
  query.problem.padding = {1, 1, 1};
  query.problem.stride = {2, 2, 2};
  query.operands = dense_operands(query.problem, false);
  std::swap(query.operands.first, query.operands.result);
  query.operands.second = query.operands.result;
  return query;
}

const SeparatePlan* separate_of(const OperatorPlan& plan) { return std::get_if<SeparatePlan>(&plan.plan); }

void test_ways_of_separate_gradients() {
  const PlanQuery query = some_separate_backward({16, 17, 31});
  const std::vector<OperatorPlan> all = candidates(query);
  std::set<std::string> copied;
  std::set<bool> sums_bias;
  bool beside = false;
  for (const OperatorPlan& plan : all) {
    const SeparatePlan* const way = separate_of(plan);
    if (way == nullptr) continue;
    sums_bias.insert(way->sums_bias());
    expect(way->sums_bias() == (way->bias_grad == nullptr), "the bias's gradient is computed once");
    copied.insert(way->input_copy.exists ? "both" : way->grad_copy.exists ? "grad_output" : "none");
    const auto* const input = std::get_if<mma::CorrelationPlan>(&way->input_grad->plan);
    const auto* const weight = std::get_if<mma::WeightGradPlan>(&way->weight_grad->plan);
    expect(input != nullptr && weight != nullptr && weight->beside == (way->beside > 0),
           "the weight gradient knows whether it is beside the other");
    expect(!way->grad_copy.exists || (!input->copy.exists && !weight->grad_copy.exists), "nobody copies twice");
    if (way->beside > 0) {
      beside = true;
      expect(input->blocks() <= way->beside && weight->blocks() <= query.device.multiprocessors - way->beside,
             "each block has a multiprocessor");
      expect(way->weight_grad_offset() >= way->input_grad_offset() + way->input_grad->workspace_bytes,
             "... and each gradient memory of its own");
    }
    expect(plan.workspace_bytes >= way->weight_grad_offset() + way->weight_grad->workspace_bytes &&
               plan.workspace_bytes >=
                   way->bias_grad_offset() + (way->bias_grad ? way->bias_grad->workspace_bytes : 0) &&
               way->input_grad_offset() >= way->input_copy_offset() + way->input_copy.bytes() &&
               way->input_copy_offset() >= way->grad_copy.bytes(),
           "the workspace has all parts");
    expect(plan.cost.ms >= all[0].cost.ms, "the cheapest is chosen");
  }
  expect(copied == std::set<std::string>{"none", "grad_output", "both"} && beside && sums_bias.size() == 2,
         "all ways are there");
  expect(to_string(choose(query)) == to_string(all[0]), "the first is the choice");

  PlanQuery slice = query;
  slice.operands.first.stride[0] *= 2;
  for (const OperatorPlan& plan : candidates(slice)) {
    expect(separate_of(plan) == nullptr || !separate_of(plan)->grad_copy.exists, "a slice is not copied");
  }
  PlanQuery older = query;
  older.device = device_of_capability(8, 0).traits;
  for (const OperatorPlan& plan : candidates(older)) {
    expect(separate_of(plan) == nullptr || separate_of(plan)->beside == 0,
           "kernels that do not begin early are not beside each other");
  }
  PlanQuery masked = query;
  masked.operands.mask = query.operands.first;
  for (const OperatorPlan& plan : candidates(masked)) {
    const SeparatePlan* const way = separate_of(plan);
    if (way == nullptr) continue;
    const bool masks = std::get<mma::WeightGradPlan>(way->weight_grad->plan).layouts.masked;
    expect(way->grad_copy.masked == way->grad_copy.exists && !(masks && way->grad_copy.exists),
           "a copy has the mask's zeros");
  }
  const PlanQuery large = some_separate_backward({128, 130, 129});
  for (const OperatorPlan& plan : candidates(large)) {
    expect(separate_of(plan) == nullptr ||
               separate_of(plan)->grad_copy.bytes() + separate_of(plan)->input_copy.bytes() <= kMostCopiedBytes,
           "copies are bounded");
  }
}

// What separate plans take for granted: they are made before anybody knows the weight's strides.
void test_no_plan_looks_at_the_weight() {
  for (const Operator op : {Operator::kInputGrad, Operator::kWeightGrad}) {
    PlanQuery query = some_separate_backward({16, 17, 31});
    query.op = op;
    OperandTraits Operands::* const weight = op == Operator::kInputGrad ? &Operands::second : &Operands::result;
    query.operands.*weight = dense_operand(query.problem.out_channels, query.problem.kernel_size, false);
    for (const auto engine : {std::optional<Engine>(), std::optional(Engine::kSimt), std::optional(Engine::kMma)}) {
      query.engine = engine;
      const std::string before = to_string(choose(query));
      PlanQuery other = query;
      other.operands.*weight = {{3, 77, 1, 5, 11}, 2, true};
      expect(to_string(choose(other)) == before, "another weight's strides do not change the plan");
    }
  }
}

void test_an_engine_that_is_asked_alone() {
  PlanQuery query = query_of_few_channels();
  for (const Engine engine : {Engine::kSimt, Engine::kMma, Engine::kWgmma, Engine::kDepthwise}) {
    query.engine = engine;
    const OperatorPlan plan = choose(query);
    expect(plan.engine() == engine && plan.cost.ms > 0, "the engine that is asked computes it");
  }
  query.engine = Engine::kDepthwise;
  query.op = Operator::kWeightGrad;
  try {
    choose(query);
    expect(false, "an engine without a plan is an error");
  } catch (const std::invalid_argument& error) {
    expect(std::string(error.what()) == "convt3d: the engine depthwise has no plan for this call",
           "the error names the engine");
  }
}

void test_candidates_of_an_engine() {
  PlanCache cache(1);
  for (const Engine engine : {Engine::kMma, Engine::kWgmma, Engine::kSimt, Engine::kDepthwise}) {
    for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad, Operator::kBiasGrad,
                              Operator::kBackward, Operator::kBackwardAndBias}) {
      PlanQuery query = is_backward(op) ? some_backward(op) : query_of_few_channels();
      query.engine = engine;
      query.op = op;
      if (is_backward(op) && engine != Engine::kMma) continue;
      const std::vector<OperatorPlan> all = candidates(query);
      const bool searches = engine == Engine::kMma || engine == Engine::kWgmma;
      const bool forward = op == Operator::kForward;
      const bool computes = engine == Engine::kSimt || forward || (engine == Engine::kMma && op != Operator::kBiasGrad);
      expect(computes ? searches ? all.size() > 1 : all.size() == 1 : all.empty(),
             "an engine has the plans it searches");
      std::set<std::string> different;
      for (size_t i = 0; i < all.size() && i < 20; ++i) {
        different.insert(to_string(all[i]));
        expect(i < 2 || all[i - 1].cost.ms <= all[i].cost.ms, "candidates are in the order of their costs");
        query.candidate = static_cast<int32_t>(i);
        expect(to_string(*cache.get(query)) == to_string(all[i]), "a cache has the same candidates");
        expect(searched(query) == to_string(all[i]),
               "a candidate is chosen by its number; the engine's own is the first");
      }
      expect(different.size() == std::min<size_t>(all.size(), 20), "no candidate is there twice");
      query.candidate = static_cast<int32_t>(all.size());
      try {
        cache.get(query);
        expect(false, "a number past the last candidate's is an error");
      } catch (const std::invalid_argument& error) {
        const std::string words = error.what();
        expect(words.find(all.empty() ? "no plan for this call" : " plans for this call, none with the number ") !=
                   std::string::npos,
               "the error says how many candidates there are");
      }
    }
  }
}

// Who measures plans tells them apart by their words: of problems with taps that have a phase, or a residue, to
// themselves, and with several.
void test_words_tell_plans_apart() {
  for (const Int3 kernel : {Int3{2, 3, 2}, Int3{4, 4, 4}}) {
    for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad}) {
      PlanQuery query = some_query();
      query.engine = Engine::kMma;
      query.op = op;
      query.problem.groups = 1;
      query.problem.in_channels = 64;
      query.problem.out_channels = 56;
      query.problem.input_size = {5, 6, 7};
      query.problem.kernel_size = kernel;
      query.problem.stride = {2, kernel[1] == 4 ? 2 : 1, 2};
      query.problem.padding = query.problem.output_padding = {0, 0, 0};
      query.problem.dilation = {1, 1, 1};
      std::set<std::string> words;
      const std::vector<OperatorPlan> all = candidates(query);
      for (const OperatorPlan& plan : all) words.insert(to_string(plan));
      expect(all.size() > 1 && words.size() == all.size(), "plans of different words are different plans");
    }
  }
}

// The numbers of a plan that devices decide.
void test_plans_are_for_their_device() {
  PlanQuery query = some_query();
  query.problem.batch = 16;
  const OperatorPlan whole = choose(query);
  query.device.multiprocessors /= 4;
  expect(choose(query).cost.ms > whole.cost.ms, "fewer multiprocessors take longer");
  query = some_query();
  query.device.shared_bytes = 120 * 1024;
  const OperatorPlan small = choose(query);
  const auto* const halo = std::get_if<HaloPlan>(&small.plan);
  expect(halo != nullptr && halo->memory.bytes <= 120 * 1024, "shared memory is the device's");
  for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad, Operator::kBiasGrad}) {
    query = some_query();
    query.problem.batch = 1024;
    query.op = op;
    query.engine = Engine::kSimt;
    const double ms = choose(query).cost.ms;
    query.device.clocks_per_ms /= 2;
    query.device.bytes_per_ms /= 2;
    const double slower = choose(query).cost.ms;
    expect(slower > 1.9 * ms && slower < 2.1 * ms, "a device half as fast takes twice as long");
  }
}

void test_table_of_devices() {
  const auto name_of = [](const char* driver_name) {
    const KnownDevice* const known = find_device(driver_name);
    return std::string(known == nullptr ? "unknown" : known->name);
  };
  expect(name_of("NVIDIA H200") == "H200" && name_of("NVIDIA GeForce RTX 4090") == "GeForce RTX 4090",
         "names are found");
  expect(name_of("NVIDIA A100-SXM4-40GB") == "A100" && name_of("NVIDIA A100-SXM4-80GB") == "A100-SXM4-80GB" &&
             name_of("NVIDIA A10") == "A10" && name_of("NVIDIA L40S") == "L40S" && name_of("NVIDIA L40") == "unknown" &&
             name_of("NVIDIA H200 NVL") == "H200 NVL" && name_of("NVIDIA GH200 480GB") == "unknown" &&
             name_of("NVIDIA GeForce RTX 2080 Ti") == "GeForce RTX 2080 Ti" && name_of("Tesla T4") == "T4" &&
             name_of("NVIDIA H100 80GB HBM3") == "H100" && name_of("NVIDIA H100 PCIe") == "H100 PCIe",
         "names that contain one another are told apart");
  expect(std::string(device_of_capability(9, 0).name) == "H200" && device_of_capability(9, 0).measured,
         "the measured device stands for its capability");
  expect(device_of_capability(8, 7).traits.capability_minor == 6 &&
             device_of_capability(10, 3).traits.capability_major == 10 &&
             device_of_capability(13, 0).traits.capability_major == 12,
         "an unknown capability is the nearest before it");
  for (const char* const driver_name : {"NVIDIA A100-SXM4-80GB", "NVIDIA A40", "NVIDIA GeForce RTX 3090", "NVIDIA L40S",
                                        "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090"}) {
    const KnownDevice* const known = find_device(driver_name);
    const DeviceTraits& traits = known->traits;
    const double tflops =
        2.0 * 16 * 8 * 16 / traits.rates.product_clocks * traits.multiprocessors * traits.clocks_per_ms / 1e9;
    const std::string name = known->name;
    const double peak = name == "A40"                ? 149.7
                        : name == "GeForce RTX 3090" ? 71
                        : name == "L40S"             ? 362.05
                        : name == "GeForce RTX 4090" ? 165.2
                        : name == "GeForce RTX 5090" ? 209.5
                                                     : 312;
    expect(std::abs(tflops / peak - 1) < 0.02, ("products at their rate are the data sheet's peak of " + name).c_str());
  }
  for (const int capability : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121, 130}) {
    const int major = capability / 10, minor = capability % 10;
    const MultiprocessorRates rates = multiprocessor_rates(major, minor, "NVIDIA Graphics Device");
    const MultiprocessorRates table = device_of_capability(major, minor).traits.rates;
    expect(rates.product_clocks > 1 && rates.product_clocks <= table.product_clocks && rates.l2_bytes > 1 &&
               rates.l2_bytes == table.l2_bytes && rates.shared_bytes == 128,
           "a device that the table lacks has rates");
  }
  expect(compiled_engines(9, 0, "sm_80 sm_90a") & engine_bit(Engine::kWgmma), "Hopper has its engine");
  expect(device_of_capability(7, 5).traits.capability_major == 7 &&
             device_of_capability(8, 0).traits.multiprocessors == 108,
         "Turing and Ampere are told apart");
  expect(compiled_engines(8, 0, "sm_80") & engine_bit(Engine::kMma), "Ampere has mma.sync for every type");
  expect(compiled_engines(7, 5, "sm_75") == (engine_bit(Engine::kSimt) | engine_bit(Engine::kDepthwise)),
         "Turing has not");
  expect(!(compiled_engines(9, 0, "sm_80") & engine_bit(Engine::kWgmma)) &&
             !(compiled_engines(10, 0, "sm_90a") & engine_bit(Engine::kWgmma)),
         "without its machine code, or on another architecture, it has not");
  expect(!(compiled_engines(8, 6, "sm_75 compute_75") & engine_bit(Engine::kMma)),
         "code for an earlier GPU has only that GPU's engines");
}

void test_plans_of_another_device() {
  const DeviceTraits hopper = device_of_capability(9, 0).traits;
  const DeviceTraits ada = device_of_capability(8, 9).traits;
  expect(imposed_on(hopper, ada).engines == ada.engines && imposed_on(hopper, ada).multiprocessors == 128,
         "Ada's plans on Hopper are all Ada's");
  DeviceTraits without_code = hopper;
  without_code.engines = engine_bit(Engine::kSimt);
  expect(imposed_on(without_code, ada).engines == engine_bit(Engine::kSimt), "an engine is on both");
  bool refused = false;
  try {
    imposed_on(ada, hopper);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  expect(refused, "plans that may need more shared memory are refused");
}

}  // namespace

int main() {
  test_order_of_the_forwards_engines();
  test_a_backward_is_one_plan_or_several();
  test_ways_of_separate_gradients();
  test_no_plan_looks_at_the_weight();
  test_an_engine_that_is_asked_alone();
  test_candidates_of_an_engine();
  test_words_tell_plans_apart();
  test_plans_are_for_their_device();
  test_table_of_devices();
  test_plans_of_another_device();
  test_same_query_is_searched_once();
  test_every_part_of_a_query_counts();
  test_oldest_plan_is_forgotten_and_stays_valid();
  test_threads();
  return failures == 0 ? 0 : 1;
}
