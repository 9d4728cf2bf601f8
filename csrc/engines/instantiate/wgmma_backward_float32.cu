#include "engines/mma/backward/warpgroup_run.cuh"

namespace convt3d::mma {

template void launch_backward_of_warpgroup<float>(const BackwardPlan&, const BackwardParams<float>&, Stream);

}  // namespace convt3d::mma
