#include "kernels/engine.cuh"

namespace convt3d {

template struct Engine<double>;

}  // namespace convt3d
