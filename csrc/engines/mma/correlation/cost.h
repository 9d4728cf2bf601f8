// What a plan is expected to take, and how many blocks share its boxes.
#pragma once

#include "engines/mma/correlation/plan.h"

namespace convt3d::mma {

// Clocks of a multiprocessor for the products of a box, of all phases. `steps`: of K, of one tap.
double box_products(const CorrelationPlan& plan, const DeviceTraits& device, int32_t steps);
// Of the products alone: no plan with these boxes costs less.
double products_ms(const CorrelationPlan& plan, const DeviceTraits& device, int32_t steps);

// Sets the cost and the walkers. `element_bytes`: of the destination.
void set_cost(CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device);
// Where its epilogue gathers moments and stores nothing.
double unstored_ms(const CorrelationPlan& plan, int32_t element_bytes, const DeviceTraits& device);
// What both are multiplied by, of a source that is transposed, for all blocks or by each: such plans took so much more
// beside those that read channel rows as they lie. Fitted to 52 calls in NCDHW on an H100, which with it are by plans
// that take 1.036 times as long as the fastest in the mean, 1.049 without.
inline double transposed(const CorrelationPlan& plan) {
  constexpr double kTransposed = 1.1;
  return plan.copy.exists || plan.way == LoadWay::kRows ? kTransposed : 1;
}

}  // namespace convt3d::mma
