// What the costs of this engine know of its own code on a multiprocessor: instructions and clocks of its warps, and the
// shares of a device's rates (core/device_traits.h) that they reach, fitted to times measured on an H200.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/multiprocessor.h"

namespace convt3d::mma {

constexpr double kAloneClocks = 5.1;     // from an instruction of a warp to its next, where it waits for the one before
constexpr double kAlongside = 0.08;      // of what is not slowest, that adds to what is
constexpr double kRoundedWord = 0.8;     // instructions that round a word to TF32; neighbours wait for nothing
constexpr double kProductShare = 0.835;  // of the rate of products, that is reached
constexpr double kL2Share = 0.7;         // of the rate of L2, that loading warps reach

// A byte that is staged, in clocks of a multiprocessor, about: of L2, and of the warps that load it.
constexpr double kStagedByte = 0.05;

// Instructions of a lane for an element that is stored with its neighbours along the channels, of which a lane has
// `of_lane` and stores `vector` at once.
inline double stored_in_channels(int32_t vector, int32_t of_lane) {
  constexpr double kStored = 1.55;  // of an element, where all are one store
  constexpr double kStore = 3;      // of each further store; set by hand
  return kStored + kStore * (1.0 / vector - 1.0 / of_lane);
}

// The slowest of what happens at the same time, which the others disturb.
inline double at_once(std::initializer_list<double> clocks) { return convt3d::at_once(clocks, kAlongside); }

}  // namespace convt3d::mma
