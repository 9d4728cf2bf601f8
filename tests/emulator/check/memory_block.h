// Memory between pages that nobody may touch: what is read or written past its end, or before its beginning, ends the
// program with a report.
#pragma once

#include <cstddef>

namespace check {

class MemoryBlock {
 public:
  // `begin` is a multiple of `alignment` bytes, `shift` bytes further. With `at_end` the last byte touches the page
  // behind, as far as the alignment allows, else the first one that before.
  MemoryBlock(std::size_t bytes, std::size_t alignment, std::size_t shift, bool at_end);
  ~MemoryBlock();
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  unsigned char* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  void make_readonly();
  // Whether what lies around, in the same pages, is as it was.
  bool surroundings_untouched() const;

 private:
  unsigned char* mapped_;
  std::size_t mapped_bytes_;
  unsigned char* pages_;
  std::size_t page_bytes_;
  unsigned char* begin_;
  std::size_t bytes_;
};

}  // namespace check
