// Matrices in registers and in shared memory ("ldmatrix", "stmatrix", "mma", "wgmma"). A warp's share of a product of a
// warpgroup, 16 of its 64 rows, is computed for itself.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "machine/block.h"
#include "machine/tensor_map.h"
#include "machine/types.h"

namespace emulator {
namespace {

constexpr int kRows = 16;
constexpr int kMostColumns = 256;
constexpr int kOperandBytes = 32;  // of a row of A or a column of B
constexpr int kPieceBytes = 16;
constexpr int kMostK = kOperandBytes / 2;

struct IssuedProduct {
  Product product;
  float* accumulators[kWarpThreads];
  const uint32_t* a[kWarpThreads];  // null: in shared memory
};
using Group = std::vector<IssuedProduct>;

// What a lane has of the operands of a product, widened; words of TF32 have one element.
struct Fragments {
  double a[4][2];
  double b[2][2];
};

struct Warp {
  const unsigned char* rows[kWarpThreads];  // of matrices in shared memory
  uint32_t matrices[kWarpThreads][4];
  Group open;
  int issued[kWarpThreads];  // products of the open group, by each lane
  std::deque<Group> groups;
  Fragments fragments[2][kWarpThreads];  // of products of a warp, one after the other
  int turn[kWarpThreads];
};

Warp warps[kMostThreads / kWarpThreads];

constexpr const char* kLoads[][2] = {{"a load of a matrix", "a load of a transposed matrix"},
                                     {"a load of two matrices", "a load of two transposed matrices"},
                                     {"a load of four matrices", "a load of four transposed matrices"}};
constexpr const char* kProducts[] = {"a product of a warp in TF32", "a product of a warp in float16",
                                     "a product of a warp in bfloat16"};

// The fields of a descriptor, in bytes.
struct Operand {
  uint32_t start;
  uint32_t leading;
  uint32_t stride;
  int row_bytes;  // 128, 64, 32, or 0 without swizzle

  explicit Operand(uint64_t bits)
      : start(static_cast<uint32_t>(bits & 0x3FFF) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3FFF) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3FFF) << 4),
        row_bytes(bits >> 62 == 0 ? 0 : 256 >> (bits >> 62)) {}
};

// The elements of a word, two or, of TF32, one; returns how many there are.
template <typename Value>
int widen_word(uint32_t word, MatrixElement element, Value* values) {
  if (element == MatrixElement::kTf32) {
    values[0] = Value{float_of_bits(word & 0xFFFFE000)};
    return 1;
  }
  for (int k = 0; k < 2; ++k) {
    const auto bits = static_cast<uint16_t>(word >> 16 * k);
    values[k] = Value{element == MatrixElement::kBFloat16 ? bfloat16_to_float(bits) : float16_to_float(bits)};
  }
  return 2;
}

void widen(const unsigned char* piece, MatrixElement element, float* values) {
  uint32_t words[4];
  std::memcpy(words, piece, sizeof(words));
  for (const uint32_t word : words) values += widen_word(word, element, values);
}

void read_piece(uint32_t address, MatrixElement element, float* values) {
  widen(shared(address, kPieceBytes, kPieceBytes, "an operand of a product"), element, values);
}

// Toward zero, as tensor cores cut a sum where their adders end.
float truncated(double value) {
  const auto nearest = static_cast<float>(value);
  if (!std::isfinite(nearest) || std::fabs(double{nearest}) <= std::fabs(value)) return nearest;
  return std::nextafter(nearest, 0.0f);
}

struct Operands {
  float a[kRows][kMostK];
  float b[kMostK][kMostColumns];
};

// A piece of neighbours along M or N, which are contiguous, at each of `k` steps along K: `to` says where its elements
// go. `bytes`: from the operand's first row or column.
template <typename To>
void read_line(const Operand& operand, MatrixElement element, int bytes, int k, To&& to) {
  const auto row_bytes = static_cast<uint32_t>(operand.row_bytes);
  const auto first = static_cast<uint32_t>(bytes);
  float values[8] = {};
  for (int i = 0; i < k; ++i) {
    const auto row = static_cast<uint32_t>(i);
    const uint32_t at = operand.start + first / row_bytes * operand.leading + row / 8 * operand.stride +
                        row % 8 * row_bytes + first % row_bytes;
    read_piece(swizzled(at, operand.row_bytes), element, values);
    for (int of_piece = 0; of_piece < 8; ++of_piece) to(i, of_piece) = values[of_piece];
  }
}

void read_a(const Product& product, int warp_in_group, Operands& operands) {
  const int element_bytes = product.element == MatrixElement::kTf32 ? 4 : 2;
  const int k = kOperandBytes / element_bytes;
  const int in_piece = kPieceBytes / element_bytes;
  const Operand a(product.a);
  if ((a.row_bytes != 0) != product.m_major) fail("the first operand of a product is swizzled, or not");
  for (int r = 0; product.m_major && r < kRows; r += in_piece) {
    read_line(a, product.element, (warp_in_group * kRows + r) * element_bytes, k,
              [&](int i, int of_piece) -> float& { return operands.a[r + of_piece][i]; });
  }
  for (int r = 0; !product.m_major && r < kRows; ++r) {
    const uint32_t row = static_cast<uint32_t>(warp_in_group * kRows + r);
    for (int half = 0; half < 2; ++half) {
      const uint32_t core = a.start + static_cast<uint32_t>(half) * a.leading + row / 8 * a.stride;
      read_piece(core + row % 8 * kPieceBytes, product.element, operands.a[r] + half * in_piece);
    }
  }
}

// Rows lane/4 and ... + 8, K lane%4 and ... + 4.
void read_a_of_registers(const IssuedProduct& issued, Operands& operands) {
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const uint32_t bits = issued.a[lane][i] & 0xFFFFE000;
      std::memcpy(&operands.a[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4], &bits, sizeof(bits));
    }
  }
}

void read_operands(const IssuedProduct& issued, int warp_in_group, Operands& operands) {
  const Product& product = issued.product;
  if (issued.a[0] != nullptr) {
    read_a_of_registers(issued, operands);
  } else {
    read_a(product, warp_in_group, operands);
  }
  const int element_bytes = product.element == MatrixElement::kTf32 ? 4 : 2;
  const int k = kOperandBytes / element_bytes;
  const int in_piece = kPieceBytes / element_bytes;
  float values[8];
  const Operand b(product.b);
  if (b.row_bytes == 0) {
    // Eights of columns, a piece of each beside the others.
    if (product.n_major) fail("the second operand of a product is not swizzled");
    for (int n = 0; n < product.columns; ++n) {
      const auto column = static_cast<uint32_t>(n);
      for (int half = 0; half < 2; ++half) {
        const uint32_t core = b.start + static_cast<uint32_t>(half) * b.leading + column / 8 * b.stride;
        read_piece(core + column % 8 * kPieceBytes, product.element, values);
        for (int i = 0; i < in_piece; ++i) operands.b[half * in_piece + i][n] = values[i];
      }
    }
    return;
  }
  const uint32_t row_bytes = static_cast<uint32_t>(b.row_bytes);
  if (product.n_major) {
    for (int n = 0; n < product.columns; n += in_piece) {
      read_line(b, product.element, n * element_bytes, k,
                [&](int i, int of_piece) -> float& { return operands.b[i][n + of_piece]; });
    }
    return;
  }
  for (int n = 0; n < product.columns; ++n) {
    const uint32_t column = static_cast<uint32_t>(n);
    const uint32_t at = b.start + column / 8 * b.stride + column % 8 * row_bytes;
    for (int half = 0; half < 2; ++half) {
      read_piece(swizzled(at + static_cast<uint32_t>(half * kPieceBytes), b.row_bytes), product.element, values);
      for (int i = 0; i < in_piece; ++i) operands.b[half * in_piece + i][n] = values[i];
    }
  }
}

// Which of a lane's accumulators is at a row and column, and whose: see csrc/device/ptx/wgmma.cuh.
template <typename Visit>
void for_each_accumulator(const IssuedProduct& issued, Visit&& visit) {
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    for (int j = 0; j < issued.product.columns / 8; ++j) {
      for (int i = 0; i < 4; ++i) {
        visit(issued.accumulators[lane][4 * j + i], lane / 4 + 8 * (i / 2), 8 * j + 2 * (lane % 4) + i % 2);
      }
    }
  }
}

void compute(const IssuedProduct& issued, int warp_in_group) {
  static Operands operands;
  static float c[kRows][kMostColumns];
  const Product& product = issued.product;
  const int k = product.element == MatrixElement::kTf32 ? kMostK / 2 : kMostK;
  read_operands(issued, warp_in_group, operands);
  for_each_accumulator(issued, [&](float value, int row, int column) { c[row][column] = product.add ? value : 0; });
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < k; ++i) {
      const float a = operands.a[row][i];
      for (int n = 0; n < product.columns; ++n) c[row][n] += a * operands.b[i][n];
    }
  }
  for_each_accumulator(issued, [&](float& value, int row, int column) { value = c[row][column]; });
}

void compute_groups(int warp, int left) {
  std::deque<Group>& groups = warps[warp].groups;
  while (static_cast<int>(groups.size()) > left) {
    for (const IssuedProduct& issued : groups.front()) compute(issued, warp % 4);
    groups.pop_front();
  }
}

}  // namespace

void begin_matrices(int count) {
  for (int i = 0; i < count; ++i) {
    warps[i].open.clear();
    warps[i].groups.clear();
    std::fill(std::begin(warps[i].issued), std::end(warps[i].issued), 0);
    std::fill(std::begin(warps[i].turn), std::end(warps[i].turn), 0);
  }
}

void end_matrices(int count) {
  for (int i = 0; i < count; ++i) {
    if (!warps[i].open.empty() || !warps[i].groups.empty()) fail("the block ends before its products are done");
  }
}

void load_matrices(uint32_t* matrix, int count, uint32_t row, bool transposed) {
  Warp& own = warps[warp()];
  // Lanes past those of the last matrix name nothing.
  if (lane() < 8 * count) own.rows[lane()] = shared(row, 16, 16, "a load of matrices");
  meet_warp(kLoads[count / 2][transposed ? 1 : 0]);
  for (int i = 0; i < count; ++i) {
    const unsigned char* const* const rows = own.rows + 8 * i;
    const int pair = 2 * (lane() % 4);
    const int other = lane() / 4;
    uint16_t two[2];
    for (int k = 0; k < 2; ++k) {
      const unsigned char* const from = transposed ? rows[pair + k] + 2 * other : rows[other] + 2 * (pair + k);
      std::memcpy(&two[k], from, sizeof(two[k]));
    }
    std::memcpy(&matrix[i], two, sizeof(matrix[i]));
  }
  meet_warp("the end of a load of matrices");
}

void store_matrices(uint32_t row, const uint32_t (&matrix)[4], bool transposed) {
  Warp& own = warps[warp()];
  std::memcpy(own.matrices[lane()], matrix, sizeof(matrix));
  meet_warp("a store of matrices");
  unsigned char* to = shared(row, 16, 16, "a store of matrices");
  const int number = lane() / 8;
  const int r = lane() % 8;
  for (int column = 0; column < 8; ++column) {
    const int first = transposed ? column : r;
    const int second = transposed ? r : column;
    const auto value = static_cast<uint16_t>(own.matrices[4 * first + second / 2][number] >> (16 * (second % 2)));
    std::memcpy(to + 2 * column, &value, sizeof(value));
  }
  meet_warp("the end of a store of matrices");
}

// Every lane computes its own four elements, of which its neighbours have the operands.
void multiply_add(MatrixElement element, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Warp& own = warps[warp()];
  // Those who wait at the next product have no need of the one before this any more.
  Fragments(&fragments)[kWarpThreads] = own.fragments[own.turn[lane()]];
  own.turn[lane()] ^= 1;
  Fragments& mine = fragments[lane()];
  for (int word = 0; word < 4; ++word) widen_word(a[word], element, mine.a[word]);
  for (int word = 0; word < 2; ++word) widen_word(b[word], element, mine.b[word]);
  meet_warp(kProducts[static_cast<int>(element)]);
  const int of_word = element == MatrixElement::kTf32 ? 1 : 2;
  const Fragments* const rows = fragments + 4 * (lane() / 4);
  const Fragments* const columns = fragments + 8 * (lane() % 4);
  double sums[4] = {c[0], c[1], c[2], c[3]};
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < of_word; ++k) {
        for (int row = 0; row < 2; ++row) {
          for (int column = 0; column < 2; ++column)
            sums[2 * row + column] += rows[i].a[row + 2 * half][k] * columns[4 * column + i].b[half][k];
        }
      }
    }
  }
  for (int i = 0; i < 4; ++i) c[i] = truncated(sums[i]);
}

void multiply(float* accumulators, const Product& product, const uint32_t* a) {
  Warp& own = warps[warp()];
  const auto number = static_cast<std::size_t>(own.issued[lane()]++);
  if (number == own.open.size()) own.open.push_back({product, {}, {}});
  IssuedProduct& issued = own.open[number];
  const Product& first = issued.product;
  if (first.a != product.a || first.b != product.b || first.columns != product.columns || first.add != product.add) {
    fail("divergence: the lanes of a warp multiply different operands");
  }
  issued.accumulators[lane()] = accumulators;
  issued.a[lane()] = a;
}

void commit_products() {
  Warp& own = warps[warp()];
  meet_warp("a commit of products");
  if (lane() == 0) {
    for (const int count : own.issued) {
      if (count != static_cast<int>(own.open.size())) fail("divergence: some lanes of a warp multiply less");
    }
    own.groups.push_back(own.open);
    own.open.clear();
    std::fill(std::begin(own.issued), std::end(own.issued), 0);
    if (!schedule.late_products) compute_groups(warp(), 0);
  }
  meet_warp("the end of a commit of products");
}

void wait_for_products(int pending) {
  meet_warp("a wait for products");
  if (lane() == 0) compute_groups(warp(), pending);
  meet_warp("the end of a wait for products");
}

}  // namespace emulator
