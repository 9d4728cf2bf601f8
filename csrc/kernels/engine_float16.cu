#include "kernels/engine.cuh"

namespace convt3d {

template struct Engine<__half>;

}  // namespace convt3d
