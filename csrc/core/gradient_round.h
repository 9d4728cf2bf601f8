// One of several calls that sum a gradient.
#pragma once

namespace convt3d {

// Of a gradient that several calls sum, some images each: whether sums of a call before are joined, and whether all of
// them are added up in the end.
struct GradRound {
  bool joins = false;
  bool adds = true;
};

}  // namespace convt3d
