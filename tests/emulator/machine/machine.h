// What the stand-ins for CUDA's headers and for csrc/device/ptx/ call: one multiprocessor that runs one block at a
// time, its threads one after another, each until it waits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

constexpr int kWarpThreads = 32;
constexpr int kMostThreads = 1024;
constexpr int64_t kMostSharedBytes = 227 * 1024;        // of a block, once it is allowed
constexpr int64_t kMostUnaskedSharedBytes = 48 * 1024;  // ... before

// The block fails with this report, and its threads stop.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The thread that runs, or ran last.
extern int thread_here;
inline int thread_index() { return thread_here; }
inline int lane() { return thread_here % kWarpThreads; }
inline int warp() { return thread_here / kWarpThreads; }

// All lanes of a warp come to the same operation; the name is for the report of those who do not.
void meet_warp(const char* operation);
// So many threads of the block come to one of its 16 barriers.
void meet_threads(int barrier, int threads);
void arrive_at_threads(int barrier, int threads);  // without waiting
void meet_block();
// What `from` brings along.
uint32_t exchange(uint32_t value, int from);
// A bit of each lane.
uint32_t vote(bool of_lane);

// "mbarrier"
void init_barrier(const uint64_t* barrier, int arrivals);
void arrive(const uint64_t* barrier, uint32_t expected_bytes);
void wait(const uint64_t* barrier, uint32_t parity);

// Shared memory. Addresses count from the beginning of what the launch gave the block.
extern unsigned char* dynamic_shared;
unsigned char* static_shared(const void* key, std::size_t bytes, std::size_t alignment);
uint32_t shared_address(const void* pointer);
unsigned char* shared(uint32_t address, int bytes, int alignment, const char* operation);

// Global memory: fails unless all bytes belong to a tensor that may be read, or written.
void check_read(const void* pointer, std::size_t bytes, std::size_t alignment);
void check_write(const void* pointer, std::size_t bytes, std::size_t alignment);

// The copy engine; completes on the barrier some time later.
void copy_to_shared(void* destination, const void* source, uint32_t bytes, const uint64_t* barrier);
void copy_box_to_shared(void* destination, const void* map, const int32_t (&origin)[5], const uint64_t* barrier);
void copy_box_to_global(const void* map, const void* source, const int32_t (&origin)[5]);
void commit_copies();
void wait_until_read(int pending);

// "cp.async": arrive some time before the thread's wait for their group ends.
void copy_of_thread(uint32_t destination, const void* source, uint32_t bytes, uint32_t exist);
void commit_copies_of_thread();
void wait_for_copies_of_thread(int pending);
void arrive_when_copied(const uint64_t* barrier);  // once all that the thread has begun has arrived

// Matrices of 8 x 8 elements of 16 bits.
void load_matrices(uint32_t* matrix, int count, uint32_t row, bool transposed);
void store_matrices(uint32_t row, const uint32_t (&matrix)[4], bool transposed);

// "mma.sync", 16 x 8 by 32 bytes.
enum class MatrixElement { kTf32, kFloat16, kBFloat16 };
void multiply_add(MatrixElement element, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

// "wgmma": the products of a group are computed at some time between its commit and the wait for it.
struct Product {
  MatrixElement element;
  int columns;
  bool add;
  bool n_major;
  bool m_major;
  uint64_t a;
  uint64_t b;
};
// `a`: four words of each lane where A is in registers, which have to stay until the product is computed.
void multiply(float* accumulators, const Product& product, const uint32_t* a = nullptr);
void commit_products();
void wait_for_products(int pending);

}  // namespace emulator
