#include "engines/wgmma/run.cuh"

namespace convt3d::wgmma {

template void forward<float>(const Problem&, const HaloPlan&, ConstTensor, ConstTensor, const Epilogue&, MutableTensor,
                             void*, Stream);

}  // namespace convt3d::wgmma
