// A forward on a CUDA device: its output and its plan, then as many runs as its caller needs.
#pragma once

#include <memory>
#include <optional>

#include "kernels/api.h"
#include "ops/backend.h"

namespace convt3d {

// The device of the input is the current one; the tensors outlive it. `norm_result`: of the norm behind it, if any.
class CudaForward {
 public:
  CudaForward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
              const std::optional<Tensor>& bias, Activation activation,
              std::optional<DataType> norm_result = std::nullopt);

  const Tensor& output() const { return output_; }
  // Null where the batch is empty: nothing is run.
  const OperatorPlan* plan() const { return plan_.get(); }

  // The norm behind it, without what derivatives need, as it is planned for: with them a call has the same bits.
  const std::optional<NormTask>& norm() const { return norm_; }

  // Launches the forward, as often as the caller wants.
  void run() const { run({}, {}, true); }
  void run(const EpilogueMoments& moments, const EpilogueNorm& norm, bool stores) const;

 private:
  const char* op_;
  const Problem& problem_;
  const Tensor& input_;
  const Tensor& weight_;
  const std::optional<Tensor>& bias_;
  Activation activation_;
  Tensor output_;
  std::optional<NormTask> norm_;
  std::shared_ptr<const OperatorPlan> plan_;
};

}  // namespace convt3d
