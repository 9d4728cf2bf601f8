// What a plan of the tensor-core engine is expected to cost, in clocks of one multiprocessor.
#pragma once

#include <cstdint>

namespace convt3d {

struct HaloPlan;
struct Problem;

constexpr double kHaloClocksPerMs = 1.9e6;  // of an H200 under load

double expected_clocks(const Problem& problem, int element_bytes, bool channels_last, const HaloPlan& plan);

}  // namespace convt3d
