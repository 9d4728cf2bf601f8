#include "engines/wgmma/run.cuh"
#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

// In wgmma_forward_wide_float32.cu.
extern template void run_wgmma_forward<float, true>(const WgmmaParams<float>&, Stream);

template void run_wgmma_forward<float, false>(const WgmmaParams<float>&, Stream);
template void correlate<float>(const WgmmaProblem&, const WgmmaPlan&, ConstTensor, ConstTensor,
                               const WgmmaWeightStrides&, const Epilogue&, MutableTensor, void*, Stream);

}  // namespace convt3d::wgmma
