// Bytes that are read or written at once.
#pragma once

#include <cstdint>
#include <type_traits>

namespace convt3d {

// 2, 4, 8 or 16 of them, in a register or several.
template <int kBytes>
using WordsOf =
    std::conditional_t<kBytes == 16, uint4,
                       std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, uint32_t, uint16_t>>>;

}  // namespace convt3d
