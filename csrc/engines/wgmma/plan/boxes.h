// How the tensor-core engine's tiles come to shared memory and how its outputs leave: what a plan leaves to the launch,
// which knows strides and addresses. Knows nothing of torch or CUDA.
#pragma once

#include "core/call.h"
#include "core/host_device.h"
#include "device/tensor_box.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

// How tiles of the input come to shared memory.
enum class HaloLoad {
  kThreads,    // threads read them, whatever the layout
  kCopy,       // the copy engine, where channels are contiguous: boxes of channels, images, width, height, depth
  kCopyRows,   // ... where positions are, too: boxes of positions, channels, rows of positions, depth, images
  kTranspose,  // the copy engine and then threads, where the width is: boxes of width, height, depth, channels, images;
               // of whole planes their elements take the place of the width, and the height is 1
};

// By one thread.
CONVT3D_HOST_DEVICE inline bool copies(HaloLoad load) { return load == HaloLoad::kCopy || load == HaloLoad::kCopyRows; }

// Every 16 bytes of a group's channels are aligned and whole.
bool has_channel_pieces(const HaloPlan& plan, DataType dtype, const ConstTensor& input);
// How the tiles of the input are loaded, and the boxes of it that the copy engine then reads.
HaloLoad choose_load(const Problem& problem, const HaloPlan& plan, DataType dtype, const ConstTensor& input,
                     TensorBox& box);

// Residues of the output that have boxes of their own.
int output_boxes(const HaloPlan& plan);
// The boxes that the copy engine stores, of one of them.
TensorBox output_box(const Problem& problem, const HaloPlan& plan, DataType dtype, const MutableTensor& output,
                     int index);
// The copy engine stores.
bool stores_boxes(const Problem& problem, const HaloPlan& plan, DataType dtype, const MutableTensor& output);

}  // namespace convt3d
