#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

template void run_halo_forward<__half, true>(const HaloParams<__half>&, Stream);

}  // namespace convt3d::wgmma
