#include "kernels/engine.cuh"

namespace convt3d {

template struct Engine<float>;

}  // namespace convt3d
