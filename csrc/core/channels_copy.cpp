#include "core/channels_copy.h"

#include <algorithm>

#include "core/access.h"
#include "core/integer.h"
#include "core/multiprocessor.h"

namespace convt3d {
namespace {

constexpr int64_t kSectorBytes = 32;  // what memory is read by
// Instructions for 16 bytes of the copy, as many as the machine code of sm_90a has, or fewer; not fitted.
constexpr double kStrip = 100;     // read from strips that are aligned
constexpr double kOddStrip = 130;  // read from strips that are not aligned
constexpr double kGathered = 190;  // gathered element by element
// What gathering takes of memory for each of a row's bytes, a sector for each element at most; two copies of every
// second element on an H100, of 16 and 32 bits.
constexpr double kGatheredBytes = 4;

}  // namespace

DepthRange DepthReach::of(int64_t first_box, int64_t end_box, int64_t size) const {
  const int64_t begin = std::clamp<int64_t>(first_box * step + first, 0, size);
  const int64_t end = std::clamp<int64_t>((end_box - 1) * step + last + 1, 0, size);
  return {begin, std::max<int64_t>(0, end - begin)};
}

OperandCopy operand_copy(const OperandTraits& tensor, const OperandTraits& mask, const Int3& size, int64_t groups,
                         int64_t channels, int64_t element_bytes) {
  const int64_t in_piece = kCopiedPiece / element_bytes;
  OperandCopy copy{};
  copy.exists = true;
  copy.masked = mask.present;
  copy.groups = groups;
  copy.channels = static_cast<int32_t>(channels);
  copy.padded = static_cast<int32_t>(round_up(channels, in_piece));
  copy.size = size;
  copy.element_bytes = static_cast<int32_t>(element_bytes);
  const auto all_of = [&](auto&& has) { return has(tensor) && (!mask.present || has(mask)); };
  copy.way = all_of([](const OperandTraits& of) { return of.stride[4] == 1; }) ? CopyWay::kStrips
             : tensor.stride[1] == 1                                           ? CopyWay::kGatheredPieces
                                                                               : CopyWay::kGatheredPositions;
  copy.spacing = static_cast<int32_t>(std::clamp<int64_t>(tensor.stride[4], 1, kSectorBytes / element_bytes));
  copy.run_axes = 1;
  const auto joins = [&](std::size_t axis) {
    return all_of([&](const OperandTraits& of) { return of.stride[axis] == of.stride[axis + 1] * size[axis - 1]; });
  };
  if (joins(3)) copy.run_axes = joins(2) ? 3 : 2;
  const auto aligned = [&](std::size_t axis) {
    return all_of([&](const OperandTraits& of) { return of.stride[axis] % in_piece == 0; });
  };
  if (aligned(0) && aligned(1) && (copy.run_axes == 3 || aligned(2)) && (copy.run_axes >= 2 || aligned(3)) &&
      all_of([](const OperandTraits& of) { return of.address == 0; })) {
    copy.alignment = aligned(2) ? StripAlignment::kAll : StripAlignment::kFromFirstDepth;
  }
  copy.quads = has_quads(tensor, mask, element_bytes, channels);
  return copy;
}

bool may_copy(const OperandTraits& tensor, const OperandCopy& copy, int64_t images) {
  if (tensor.is_copy) return false;
  if (tensor.is_of_dense || has_dense_images(tensor, copy.groups * copy.channels, copy.size)) return true;
  const int64_t positions = images * copy.size[0] * copy.size[1] * copy.size[2];
  return positions * copy.groups * copy.padded * copy.element_bytes <= kMostSliceBytes &&
         2 * copy.channels >= copy.padded;
}

void copy_whole(OperandCopy& copy, int64_t images) {
  copy.images = images;
  copy.depths = copy.size[0];
  copy.reach = {0, 0, copy.size[0] - 1};
  copy.vectors = copy.alignment != StripAlignment::kNone;
}

OperandTraits copied_operand(const OperandCopy& copy) {
  OperandTraits operand = dense_operand(copy.groups * copy.padded, copy.size, true);
  operand.is_copy = true;
  return operand;
}

double copy_ms(const OperandCopy& copy, int64_t images, const DeviceTraits& device) {
  const auto positions = static_cast<double>(images * copy.image_positions());
  const double elements = positions * static_cast<double>(copy.groups * copy.channels);
  const double apart =
      copy.way == CopyWay::kGatheredPositions
          ? std::min(kGatheredBytes * copy.spacing, kSectorBytes / static_cast<double>(copy.element_bytes))
          : 1;
  const double bytes = elements * copy.element_bytes * apart * (copy.masked ? 2 : 1) +
                       positions * static_cast<double>(copy.groups * copy.padded) * copy.element_bytes;
  const double pieces = positions * static_cast<double>(copy.groups * copy.padded * copy.element_bytes) / kCopiedPiece;
  const double instructions = pieces * (copy.way != CopyWay::kStrips ? kGathered : copy.vectors ? kStrip : kOddStrip);
  return std::max(bytes / (device.memory.ahead * device.bytes_per_ms),
                  instructions / (32 * kSchedulers * kIssued * device.multiprocessors * device.clocks_per_ms));
}

}  // namespace convt3d
