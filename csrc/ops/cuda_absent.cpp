// Stands in for cuda.cpp in a CPU-only build.
#include <stdexcept>
#include <string>

#include "ops/backend.h"
#include "ops/norm_backend.h"

namespace convt3d {
namespace {

[[noreturn]] void refuse(const char* op) {
  throw std::runtime_error(std::string(op) +
                           ": tensors must be on the CPU, got a CUDA device: this build of convt3d is CPU-only; "
                           "install a CUDA wheel, or build with nvcc and a CUDA build of PyTorch");
}

}  // namespace

Tensor CudaBackend::forward(const char* op, const Problem&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                            Activation) {
  refuse(op);
}

Tensor CudaBackend::input_grad(const char* op, const Problem&, const Tensor&, const std::optional<Tensor>&,
                               const Tensor&) {
  refuse(op);
}

Tensor CudaBackend::weight_grad(const char* op, const Problem&, const Tensor&, const std::optional<Tensor>&,
                                const Tensor&) {
  refuse(op);
}

Tensor CudaBackend::bias_grad(const char* op, const Tensor&, const std::optional<Tensor>&) { refuse(op); }

Gradients CudaBackend::backward(const char* op, const Problem&, const Tensor&, const std::optional<Tensor>&,
                                const Tensor&, const Tensor&, const WantedGradients&) {
  refuse(op);
}

Tensor CudaNorm::forward(const char* op, const ConvolutionArguments&, const NormArguments&) { refuse(op); }

NormResult CudaNorm::forward_and_keep(const char* op, const ConvolutionArguments&, const NormArguments&) { refuse(op); }

NormOfChannels CudaNorm::of_channels(const char* op, const ConvolutionArguments&, const NormArguments&) { refuse(op); }

Gradients CudaNorm::backward(const char* op, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             const NormArguments&, bool, const WantedGradients&) {
  refuse(op);
}

std::string CudaBackend::toolkit() { return ""; }

std::string CudaBackend::architectures() { return ""; }

}  // namespace convt3d
