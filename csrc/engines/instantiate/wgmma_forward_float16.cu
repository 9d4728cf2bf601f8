#include "engines/wgmma/run.cuh"
#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

// In wgmma_forward_wide_float16.cu.
extern template void run_wgmma_forward<__half, true>(const WgmmaParams<__half>&, Stream);

template void run_wgmma_forward<__half, false>(const WgmmaParams<__half>&, Stream);
template void correlate<__half>(const WgmmaProblem&, const WgmmaPlan&, ConstTensor, ConstTensor,
                                const WgmmaWeightStrides&, const Epilogue&, MutableTensor, void*, Stream);

}  // namespace convt3d::wgmma
