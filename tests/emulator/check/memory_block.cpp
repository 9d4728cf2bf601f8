#include "check/memory_block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace check {
namespace {

constexpr unsigned char kUntouched = 0xA5;

}  // namespace

MemoryBlock::MemoryBlock(std::size_t bytes, std::size_t alignment, std::size_t shift, bool at_end) : bytes_(bytes) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  page_bytes_ = (bytes + 2 * alignment + shift + page - 1) / page * page;
  mapped_bytes_ = page_bytes_ + 2 * page;
  void* mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mapped_ = static_cast<unsigned char*>(mapped);
  pages_ = mapped_ + page;
  mprotect(pages_, page_bytes_, PROT_READ | PROT_WRITE);
  std::memset(pages_, kUntouched, page_bytes_);
  const std::size_t room = page_bytes_ - bytes - shift;
  begin_ = pages_ + (at_end ? room / alignment * alignment : 0) + shift;
}

MemoryBlock::~MemoryBlock() { munmap(mapped_, mapped_bytes_); }

void MemoryBlock::make_readonly() { mprotect(pages_, page_bytes_, PROT_READ); }

bool MemoryBlock::surroundings_untouched() const {
  const auto untouched = [](unsigned char byte) { return byte == kUntouched; };
  return std::all_of(pages_, begin_, untouched) && std::all_of(begin_ + bytes_, pages_ + page_bytes_, untouched);
}

}  // namespace check
