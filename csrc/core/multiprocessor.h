// What several costs know of a multiprocessor and of launches. Fitted to times measured on an H200, where nothing else
// is said.
#pragma once

namespace convt3d {

constexpr double kSchedulers = 4;
constexpr double kIssued = 0.6;           // instructions of a scheduler in a clock, with many warps
constexpr double kMemoryShare = 0.885;    // of memory's peak, that kernels reach
constexpr double kNextLaunchMs = 0.0035;  // of a kernel that follows another one; not measured

}  // namespace convt3d
