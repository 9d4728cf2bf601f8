#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

template void run_wgmma_forward<__nv_bfloat16, true>(const WgmmaParams<__nv_bfloat16>&, Stream);

}  // namespace convt3d::wgmma
