#include "kernels/engine.cuh"

namespace convt3d {

template struct Engine<__nv_bfloat16>;

}  // namespace convt3d
