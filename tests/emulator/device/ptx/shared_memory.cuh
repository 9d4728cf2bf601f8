// csrc/device/ptx/shared_memory.cuh on a CPU.
#pragma once

#include <cstring>

#include "cuda_runtime.h"
#include "machine/machine.h"

namespace convt3d {

inline unsigned char* const& dynamic_shared_memory = emulator::dynamic_shared;
inline unsigned char* dynamic_shared_memory_of_boxes() { return emulator::dynamic_shared; }

template <typename T>
inline T& static_shared_memory() {
  static const char key = 0;
  return *reinterpret_cast<T*>(emulator::static_shared(&key, sizeof(T), alignof(T)));
}

}  // namespace convt3d

namespace convt3d::hopper {

inline uint32_t shared_address(const void* pointer) { return emulator::shared_address(pointer); }

template <typename Piece>
inline Piece load_shared(uint32_t address) {
  Piece value;
  std::memcpy(&value, emulator::shared(address, sizeof(Piece), sizeof(Piece), "a load"), sizeof(Piece));
  return value;
}

template <typename Piece>
inline void store_piece_shared(uint32_t address, const Piece& value) {
  std::memcpy(emulator::shared(address, sizeof(Piece), sizeof(Piece), "a store"), &value, sizeof(Piece));
}

inline void store_shared(uint32_t address, uint32_t word) { store_piece_shared(address, word); }
inline void store_shared(uint32_t address, const uint2& pair) { store_piece_shared(address, pair); }
inline void store_shared(uint32_t address, const uint4& four) { store_piece_shared(address, four); }
inline void store_shared(uint32_t address, const uint4& value, bool exists) {
  if (exists) store_piece_shared(address, value);
}

template <uint32_t kNone, typename Word, typename... Words>
inline void store_shared_unless(uint32_t address, uint32_t entry, Word first, Words... others) {
  struct Piece {
    Word words[1 + sizeof...(others)];
  };
  if (entry != kNone) store_piece_shared(address, Piece{{first, others...}});
}

template <int kCount>
inline void store_shared_neighbours(uint32_t address, uint32_t missing, const float (&values)[kCount]) {
  for (uint32_t i = 0; i < kCount; ++i) {
    if (missing < 4 - i) store_piece_shared(address + 4 * i, values[i]);
  }
}
template <int kCount>
inline void store_shared_neighbours(uint32_t address, uint32_t missing, const uint32_t (&pairs)[kCount]) {
  for (uint32_t i = 0; i < 2 * kCount; ++i) {
    const auto element = static_cast<uint16_t>(pairs[i / 2] >> (16 * (i % 2)));
    if (missing < 4 - i) store_piece_shared(address + 2 * i, element);
  }
}

}  // namespace convt3d::hopper
