// The cheapest layouts of one correlation whose source is read in one way.
#pragma once

#include <vector>

#include "engines/mma/correlation/plan.h"

namespace convt3d::mma {

struct CorrelationQuery {
  const Tensors& tensors;
  int32_t element_bytes;  // of the destination
  const DeviceTraits& device;
  int64_t most_copied;  // bytes of a copy
  bool keep_all;        // else `plans` has one, the cheapest
};

// Adds what a base becomes, which has axes, channels, groups and the way of loading.
void search_correlation(const CorrelationPlan& base, const CorrelationQuery& query,
                        std::vector<CorrelationPlan>& plans);

}  // namespace convt3d::mma
