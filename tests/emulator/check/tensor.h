// Tensors in memory of their own, with any strides; what lies between their elements is poisoned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check/case.h"
#include "check/memory_block.h"

namespace check {

using Random = std::mt19937_64;

inline int64_t between(Random& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}
inline bool chance(Random& random, int percent) { return between(random, 0, 99) < percent; }

int64_t element_count(const Size5& size);

double load_element(const unsigned char* at, convt3d::DataType type);
// Rounds to nearest even.
void store_element(unsigned char* at, convt3d::DataType type, double value);
double rounded(double value, convt3d::DataType type);

class Tensor {
 public:
  // Poisoned.
  Tensor(std::string name, const Size5& size, convt3d::DataType type, Layout layout, const Arrangement& arrangement,
         bool written, Random& random);

  const Size5& size() const { return size_; }
  const Size5& stride() const { return stride_; }
  unsigned char* data() const { return block_->begin(); }
  convt3d::ConstTensor source() const { return {data(), stride_}; }
  convt3d::MutableTensor target() const { return {data(), stride_}; }

  // Elements in the order of their indices, the last one fastest.
  std::vector<double> values() const;
  template <typename Next>
  void fill(Next&& next) {
    for_each([&](unsigned char* at) { store_element(at, type_, next()); });
  }
  // Kernels may use it, and write only what they are to write.
  void hand_out();
  bool surroundings_untouched() const { return block_->surroundings_untouched(); }

 private:
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (int64_t n = 0; n < size_[0]; ++n) {
      for (int64_t c = 0; c < size_[1]; ++c) {
        for (int64_t d = 0; d < size_[2]; ++d) {
          for (int64_t h = 0; h < size_[3]; ++h) {
            for (int64_t w = 0; w < size_[4]; ++w) {
              const int64_t offset = n * stride_[0] + c * stride_[1] + d * stride_[2] + h * stride_[3] + w * stride_[4];
              visit(data() + offset * convt3d::element_size(type_));
            }
          }
        }
      }
    }
  }

  std::string name_;
  Size5 size_;
  Size5 stride_;
  convt3d::DataType type_;
  bool written_;
  std::unique_ptr<MemoryBlock> block_;
};

}  // namespace check
