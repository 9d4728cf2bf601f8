// What several costs know of any multiprocessor.
#pragma once

namespace convt3d {

constexpr double kSchedulers = 4;
constexpr double kIssued = 0.6;  // instructions of a scheduler in a clock, with many warps; fitted on an H200

}  // namespace convt3d
