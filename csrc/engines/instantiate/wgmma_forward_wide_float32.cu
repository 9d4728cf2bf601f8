#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

template void run_wgmma_forward<float, true>(const WgmmaParams<float>&, Stream);

}  // namespace convt3d::wgmma
