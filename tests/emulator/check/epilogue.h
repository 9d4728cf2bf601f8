// What the epilogue of a forward does for a norm behind it (csrc/epilogue/epilogue.h): moments, the norm itself, and
// not to store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check/case.h"
#include "check/compare.h"
#include "check/memory_block.h"
#include "check/reference.h"
#include "check/tensor.h"
#include "epilogue/epilogue.h"

namespace check {

// Drawn for a case whose plan leaves so many parts of moments.
class NormEpilogue {
 public:
  // `exact`: numbers are such that sums stay exact.
  NormEpilogue(const Case& item, int64_t parts, const Tensor& output, bool exact, Random& random);

  void add_to(convt3d::Epilogue& epilogue) const;
  // What is wrong about the output and the moments; `expected`: of the forward without a norm. Empty: nothing.
  std::string compare(const Expected& expected, const Bounds& bounds) const;

 private:
  convt3d::EpilogueMoments moments() const;
  std::string compare_moments(const Expected& expected, Bounds bounds) const;
  Expected normalised(Expected expected, const Bounds& bounds) const;

  Size5 size_;
  int64_t parts_;
  const Tensor& output_;
  std::vector<double> before_;  // of the output, where it is not stored
  std::unique_ptr<MemoryBlock> parts_block_;
  std::unique_ptr<MemoryBlock> norms_block_;
};

}  // namespace check
