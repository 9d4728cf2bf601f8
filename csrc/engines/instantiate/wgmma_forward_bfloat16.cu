#include "engines/wgmma/run.cuh"
#include "engines/wgmma/run_kernel.cuh"

namespace convt3d::wgmma {

// In wgmma_forward_wide_bfloat16.cu.
extern template void run_halo_forward<__nv_bfloat16, true>(const HaloParams<__nv_bfloat16>&, Stream);

template void run_halo_forward<__nv_bfloat16, false>(const HaloParams<__nv_bfloat16>&, Stream);
template void forward<__nv_bfloat16>(const Problem&, const HaloPlan&, ConstTensor, ConstTensor, const Epilogue&,
                                     MutableTensor, void*, Stream);

}  // namespace convt3d::wgmma
