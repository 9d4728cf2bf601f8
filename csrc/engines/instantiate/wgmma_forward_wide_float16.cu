#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

template void run_wgmma_forward<__half, true>(const WgmmaParams<__half>&, Stream);

}  // namespace convt3d::wgmma
