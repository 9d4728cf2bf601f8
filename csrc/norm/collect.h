// Moments that the epilogue of a convolution has left (epilogue/epilogue.h) -> partial moments of each channel, as the
// pass over the tensor would leave them. No CUDA header.
#pragma once

#include "core/call.h"
#include "epilogue/epilogue.h"
#include "norm/plan.h"

namespace convt3d::norm {

// `partial`: [plane][split][n][c], of kMomentPlanes planes.
void collect(const Shape& shape, const CollectPlan& plan, const PartMoments* parts, double* partial, Stream stream);

}  // namespace convt3d::norm
