// What the costs of two engines are worth beside each other. Knows nothing of torch or CUDA.
#pragma once

#include "core/device_traits.h"
#include "core/operator.h"

namespace convt3d {

// How many times as much as the other engine's plan the first one's has to cost before the other's is taken: what costs
// that were never compared with one another's measured times are worth. Those of forwards by wgmma and mma were fitted
// apart, and are right to about a sixth each (root mean square); beside those of matmul both are about a sixth too low.
// Those of groups that mma fills up with other groups' zeros, beside the depthwise engine, nobody measured. Those of
// mma and the general engine were compared, and so were those of input gradients by wgmma and mma; beside those of
// matmul both are a tenth too low.
double margin(Operator op, Engine first, Engine other);

}  // namespace convt3d
