// What several costs know of any multiprocessor.
#pragma once

#include <algorithm>
#include <initializer_list>

namespace convt3d {

constexpr double kSchedulers = 4;
constexpr double kIssued = 0.6;  // instructions of a scheduler in a clock, with many warps; fitted on an H200
// Of the rate of L2, that adding and storing the splits of a weight gradient reach; fitted on an H200.
constexpr double kSumShare = 0.2;
constexpr double kStoreShare = 0.44;

// The slowest of what happens at the same time, to which all others add this share of theirs.
inline double at_once(std::initializer_list<double> clocks, double alongside) {
  double slowest = 0;
  double sum = 0;
  for (const double one : clocks) {
    slowest = std::max(slowest, one);
    sum += one;
  }
  return slowest + alongside * (sum - slowest);
}

}  // namespace convt3d
