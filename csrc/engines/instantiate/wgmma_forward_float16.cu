#include "engines/wgmma/run.cuh"

namespace convt3d::wgmma {

template void forward<__half>(const Problem&, const HaloPlan&, ConstTensor, ConstTensor, const Epilogue&, MutableTensor,
                              void*, Stream);

}  // namespace convt3d::wgmma
