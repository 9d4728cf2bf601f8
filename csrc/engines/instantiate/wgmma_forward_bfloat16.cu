#include "engines/wgmma/run.cuh"
#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

// In wgmma_forward_wide_bfloat16.cu.
extern template void run_wgmma_forward<__nv_bfloat16, true>(const WgmmaParams<__nv_bfloat16>&, Stream);

template void run_wgmma_forward<__nv_bfloat16, false>(const WgmmaParams<__nv_bfloat16>&, Stream);
template void correlate<__nv_bfloat16>(const WgmmaProblem&, const WgmmaPlan&, ConstTensor, ConstTensor,
                                       const WgmmaWeightStrides&, const Epilogue&, MutableTensor, void*, Stream);

}  // namespace convt3d::wgmma
