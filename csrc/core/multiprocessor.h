// What the costs of several engines know of a multiprocessor. Fitted to times measured on an H200.
#pragma once

namespace convt3d {

constexpr double kSchedulers = 4;
constexpr double kIssued = 0.6;         // instructions of a scheduler in a clock, with many warps
constexpr double kMemoryShare = 0.885;  // of memory's peak, that kernels reach

}  // namespace convt3d
