#include "norm/vectors.h"

namespace convt3d::norm {
namespace {

class Slots {
 public:
  Slots(const Plan& plan, const Size& size, DataType type, const ConstTensor& x)
      : plan_(plan), size_(size), x_(x), phase_(address(x, type) % (kSlotsOfLine * plan.slot)) {}

  int64_t phase() const { return phase_; }

  // Slots of a tensor begin at multiples of a slot, as those of x do.
  bool aligned(const ConstTensor& tensor, DataType type) const {
    const int64_t step = position_stride(size_, tensor.stride);
    if (!plan_.channels_last) return step == 1 && whole(address(tensor, type) - phase_);
    const bool images = size_[0] == 1 || whole(tensor.stride[0]);
    return tensor.stride[1] == 1 && images && whole(step) && whole(address(tensor, type));
  }

  // Aligned, and so are the rows of a tensor beside x where those of x are.
  bool aligned_beside(const ConstTensor& tensor, DataType type) const {
    const auto agree = [&](size_t axis) { return size_[axis] == 1 || whole(tensor.stride[axis] - x_.stride[axis]); };
    return aligned(tensor, type) && agree(0) && (plan_.channels_last || agree(1));
  }

 private:
  // In elements.
  static int64_t address(const ConstTensor& tensor, DataType type) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data)) / element_size(type);
  }
  bool whole(int64_t elements) const { return elements % plan_.slot == 0; }

  const Plan& plan_;
  const Size& size_;
  const ConstTensor& x_;
  int64_t phase_;
};

}  // namespace

Vectors forward_vectors(const Plan& plan, const Size& size, DataType type, DataType result_type, const ConstTensor& x,
                        const MutableTensor& result) {
  const Slots slots(plan, size, type, x);
  Vectors vectors;
  vectors.phase = static_cast<int32_t>(slots.phase());
  vectors.x = slots.aligned(x, type);
  vectors.result = slots.aligned_beside({result.data, result.stride}, result_type);
  return vectors;
}

Vectors backward_vectors(const Plan& plan, const Size& size, DataType type, DataType result_type, const ConstTensor& x,
                         const ConstTensor& grad_result, const MutableTensor& grad_x) {
  const Slots slots(plan, size, type, x);
  Vectors vectors;
  vectors.phase = static_cast<int32_t>(slots.phase());
  vectors.x = slots.aligned(x, type);
  vectors.grad_result = slots.aligned_beside(grad_result, result_type);
  vectors.grad_x = grad_x.data != nullptr && slots.aligned_beside({grad_x.data, grad_x.stride}, type);
  return vectors;
}

}  // namespace convt3d::norm
