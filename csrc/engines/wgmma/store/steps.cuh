// The steps of 16 columns that a warp stages one after another, from any of them on.
#pragma once

#include <type_traits>

namespace convt3d {

template <int kIndex>
using HaloStep = std::integral_constant<int, kIndex>;

// Calls `stage` with one step after another, from `first` on, until it says that a batch ends there; returns what
// `after` says of that step, or `none` after the last one. A jump leads to the first step, and the steps are the only
// unrolled code.
template <typename Stage, typename After>
__device__ __forceinline__ int from_step(int first, int none, Stage&& stage, After&& after) {
  switch (first) {
    case 0:
      if (stage(HaloStep<0>())) return after(0);
      [[fallthrough]];
    case 1:
      if (stage(HaloStep<1>())) return after(1);
      [[fallthrough]];
    case 2:
      if (stage(HaloStep<2>())) return after(2);
      [[fallthrough]];
    case 3:
      if (stage(HaloStep<3>())) return after(3);
      [[fallthrough]];
    case 4:
      if (stage(HaloStep<4>())) return after(4);
      [[fallthrough]];
    case 5:
      if (stage(HaloStep<5>())) return after(5);
      [[fallthrough]];
    case 6:
      if (stage(HaloStep<6>())) return after(6);
      [[fallthrough]];
    case 7:
      if (stage(HaloStep<7>())) return after(7);
      [[fallthrough]];
    case 8:
      if (stage(HaloStep<8>())) return after(8);
      [[fallthrough]];
    case 9:
      if (stage(HaloStep<9>())) return after(9);
      [[fallthrough]];
    case 10:
      if (stage(HaloStep<10>())) return after(10);
      [[fallthrough]];
    case 11:
      if (stage(HaloStep<11>())) return after(11);
      [[fallthrough]];
    case 12:
      if (stage(HaloStep<12>())) return after(12);
      [[fallthrough]];
    case 13:
      if (stage(HaloStep<13>())) return after(13);
      [[fallthrough]];
    case 14:
      if (stage(HaloStep<14>())) return after(14);
      [[fallthrough]];
    case 15:
      if (stage(HaloStep<15>())) return after(15);
      [[fallthrough]];
    default:
      return none;
  }
}

}  // namespace convt3d
