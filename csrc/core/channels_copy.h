// An operand that is copied with its channels last before the kernel that reads it, as data:
// device/channels_last_copy.cuh copies. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>

#include "core/device_traits.h"
#include "core/operands.h"
#include "core/problem.h"

namespace convt3d {

constexpr int64_t kCopiedPiece = 16;                      // bytes of channels that a group's are filled up to
constexpr int64_t kMostCopiedBytes = int64_t{256} << 20;  // of all that is copied at a time

struct DepthRange {
  int64_t first;
  int64_t count;
};
// The depths that boxes read: the b-th along the depth those from b*step + first to b*step + last, where there are any.
struct DepthReach {
  int64_t step;
  int64_t first;
  int64_t last;

  // The depths that the boxes first_box .. end_box - 1 read, of `size` that there are.
  DepthRange of(int64_t first_box, int64_t end_box, int64_t size) const;
};

// How the operand is read. Strips are 16 bytes of positions that are neighbours in memory; else a thread gathers a
// piece of channels, and neighbouring threads have pieces or positions that are neighbours. One byte, as below: kernels
// have plans among their parameters.
enum class CopyWay : int8_t { kStrips, kGatheredPieces, kGatheredPositions };
// Whether strips begin at multiples of 16 bytes: not all do; all do of copies that begin with the first depth; all do.
enum class StripAlignment : int8_t { kNone, kFromFirstDepth, kAll };

struct OperandCopy {
  bool exists;
  bool masked;  // the mask is applied to the copy
  CopyWay way;
  int32_t run_axes;  // from the width on, whose positions are neighbours in memory all together
  StripAlignment alignment;
  bool vectors;     // all strips of all portions are aligned
  bool quads;       // four neighbouring channels are one load
  int32_t spacing;  // elements from a position to the next along the width; more than a sector counts as a sector
  int64_t groups;
  int32_t channels;  // channels of a group
  int32_t padded;    // channels of a group in the copy, whole pieces
  Int3 size;         // of the operand
  DepthReach reach;  // depths that the plan's boxes read
  int64_t images;    // most images that are copied at a time
  int64_t depths;    // most depths of an image that are copied at a time
  int32_t element_bytes;
  bool beside;  // made beside the kernel before, and is there after that one's end

  int64_t image_positions() const { return depths * size[1] * size[2]; }
  int64_t bytes() const { return exists ? images * image_positions() * groups * padded * element_bytes : 0; }
};

// `channels`: of a group.
OperandCopy operand_copy(const OperandTraits& tensor, const OperandTraits& mask, const Int3& size, int64_t groups,
                         int64_t channels, int64_t element_bytes);
// Whether an operand of so many images, of which this would be a copy, is copied where that pays. What is a copy
// already is not: one kernel does not wait for the one that makes it. A slice of a larger tensor is read where it lies,
// as autograd hands over slices of a network's largest tensors, which nobody shall copy; but for small ones, of copies
// that are not mostly zeros: a layer of few positions takes twice as long without, and its copy stays in the L2.
constexpr int64_t kMostSliceBytes = 16 << 20;  // of the copy
bool may_copy(const OperandTraits& tensor, const OperandCopy& copy, int64_t images);
// Sets the copy to have all images and depths at once.
void copy_whole(OperandCopy& copy, int64_t images);
// What is known of the copy as an operand of the kernel that reads it.
OperandTraits copied_operand(const OperandCopy& copy);
// The time that copying so many whole images takes, beside the launch: expected, a model.
double copy_ms(const OperandCopy& copy, int64_t images, const DeviceTraits& device);

}  // namespace convt3d
