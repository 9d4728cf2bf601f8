#include "check/tensor.h"

#include <cstring>
#include <utility>

#include "machine/memory.h"
#include "machine/types.h"

namespace check {
namespace {

using convt3d::DataType;

constexpr int64_t kAlignment = 256;      // of what an allocator hands out
constexpr unsigned char kPoison = 0xFF;  // a NaN in every type

template <typename T>
T load_as(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
template <typename T>
void store_as(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

// To an odd float where it is not one: rounding that again, to fewer bits, then rounds as if there had been one only.
float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  const uint32_t bits = emulator::bits_of_float(nearest);
  if (bits % 2 != 0) return nearest;
  const bool away = (static_cast<double>(nearest) < value) == (value > 0);
  return emulator::float_of_bits(away ? bits + 1 : bits - 1);
}

}  // namespace

int64_t element_count(const Size5& size) { return size[0] * size[1] * size[2] * size[3] * size[4]; }

double load_element(const unsigned char* at, DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return load_as<double>(at);
    case DataType::kFloat32:
      return static_cast<double>(load_as<float>(at));
    case DataType::kFloat16:
      return static_cast<double>(emulator::float16_to_float(load_as<uint16_t>(at)));
    case DataType::kBFloat16:
      return static_cast<double>(emulator::bfloat16_to_float(load_as<uint16_t>(at)));
  }
  return 0;
}

void store_element(unsigned char* at, DataType type, double value) {
  switch (type) {
    case DataType::kFloat64:
      return store_as(at, value);
    case DataType::kFloat32:
      return store_as(at, static_cast<float>(value));
    case DataType::kFloat16:
      return store_as(at, emulator::float_to_float16(rounded_to_odd(value)));
    case DataType::kBFloat16:
      return store_as(at, emulator::float_to_bfloat16(rounded_to_odd(value)));
  }
}

double rounded(double value, DataType type) {
  unsigned char element[sizeof(double)];
  store_element(element, type, value);
  return load_element(element, type);
}

Tensor::Tensor(std::string name, const Size5& size, DataType type, Layout layout, const Arrangement& arrangement,
               bool written, Random& random)
    : name_(std::move(name)), size_(size), type_(type), written_(written) {
  const Place place = place_of(size, layout, arrangement);
  stride_ = place.stride;
  int64_t elements = 1;
  for (std::size_t i = 0; i < 5; ++i) elements += (size[i] - 1) * stride_[i];
  // Kernels look at addresses modulo 16: what is read then ends close to the page behind.
  const int64_t alignment = written ? kAlignment : 16;
  const int64_t element = convt3d::element_size(type);
  const auto shift = static_cast<std::size_t>(place.first * element % alignment);
  block_ = std::make_unique<MemoryBlock>(static_cast<std::size_t>(elements * element),
                                         static_cast<std::size_t>(alignment), shift, chance(random, 50));
  std::memset(data(), kPoison, block_->bytes());
}

std::vector<double> Tensor::values() const {
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(element_count(size_)));
  for_each([&](const unsigned char* at) { result.push_back(load_element(at, type_)); });
  return result;
}

void Tensor::hand_out() {
  if (!written_) block_->make_readonly();
  emulator::add_region({data(), data() + block_->bytes(), written_, name_});
}

}  // namespace check
