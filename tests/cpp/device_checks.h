// What devices make of plans, and the table of devices.
#pragma once

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "core/devices.h"
#include "planning/choose.h"
#include "queries.h"

namespace convt3d {

// The numbers of a plan that devices decide.
inline void test_plans_are_for_their_device() {
  PlanQuery query = some_query();
  query.problem.batch = 16;
  const OperatorPlan whole = choose(query);
  query.device.multiprocessors /= 4;
  expect(choose(query).cost.ms > whole.cost.ms, "fewer multiprocessors take longer");
  query = some_query();
  query.device.shared_bytes = 120 * 1024;
  const OperatorPlan small = choose(query);
  const auto* const of_wgmma = std::get_if<WgmmaPlan>(&small.plan);
  expect(of_wgmma != nullptr && of_wgmma->memory.bytes <= 120 * 1024, "shared memory is the device's");
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

// A device on which everything takes twice as long: no cost has a number of milliseconds that is not the device's.
inline void test_costs_are_in_the_times_of_the_device() {
  int compared = 0;
  for (const int capability : {75, 80, 89, 90, 120}) {
    for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16}) {
      for (const bool channels_last : {false, true}) {
        for (const Operator op : {Operator::kForward, Operator::kInputGrad, Operator::kWeightGrad, Operator::kBiasGrad,
                                  Operator::kBackward, Operator::kBackwardAndBias}) {
          for (const int64_t groups : {1, 32}) {
            PlanQuery query = some_backward(op);
            query.problem.groups = groups;
            if (groups > 1) query.problem.out_channels = 32;
            query.problem.input_size = {8, 12, 36};
            query.operands = dense_operands(query.problem, channels_last);
            if (op != Operator::kForward) std::swap(query.operands.first, query.operands.result);
            if (op == Operator::kWeightGrad || is_backward(op)) query.operands.second = query.operands.result;
            query.dtype = dtype;
            for (const Engine engine : {Engine::kSimt, Engine::kDepthwise, Engine::kWgmma, Engine::kMma}) {
              // One engine has plans for each gradient, and one for all at once.
              if (is_backward(op) && engine != Engine::kSimt && engine != Engine::kMma) continue;
              query.engine = engine;
              query.device = device_of_capability(capability / 10, capability % 10).traits;
              const std::optional<OperatorPlan> plan =
                  query.device.has(engine) ? choose_if_any(query) : std::optional<OperatorPlan>();
              if (!plan) continue;
              query.device.clocks_per_ms /= 2;
              query.device.bytes_per_ms /= 2;
              LaunchTimes& launches = query.device.launches;
              for (double* ms : {&launches.next, &launches.early, &launches.summed, &launches.packed,
                                 &launches.packed_and_summed, &launches.beside}) {
                *ms *= 2;
              }
              const OperatorPlan slower = choose(query);
              expect(to_string(slower) == to_string(*plan) && std::abs(slower.cost.ms / plan->cost.ms - 2) < 1e-9,
                     "a device half as fast takes twice as long for the same plan");
              ++compared;
            }
          }
        }
      }
    }
  }
  expect(compared > 200, "plans of every engine are compared");
}

inline void test_table_of_devices() {
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

inline void test_plans_of_another_device() {
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

}  // namespace convt3d
