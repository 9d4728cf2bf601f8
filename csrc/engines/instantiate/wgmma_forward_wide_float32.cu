#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

template void run_halo_forward<float, true>(const HaloParams<float>&, Stream);

}  // namespace convt3d::wgmma
