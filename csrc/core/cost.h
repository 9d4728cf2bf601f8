// What a plan is expected to take, in the unit that all engines share.
#pragma once

namespace convt3d {

struct Cost {
  double ms = 0;
  bool fitted = false;  // to measured times, on fitted_device(); else by a model that nobody measured
};

}  // namespace convt3d
