// The operators' schemas and their registration per device, through the LibTorch stable ABI; no Python symbol here.
// Fake, autograd, autocast and vmap kernels are registered in Python.
#include <string>
#include <type_traits>

#include <torch/csrc/stable/library.h>

#include "ops/backend.h"
#include "ops/norm_operators.h"
#include "ops/operators.h"

namespace {

void define_operators(torch::stable::detail::StableLibrary& m) {
  m.def(
      "conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, "
      "int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor");
  m.def(
      "conv_transpose3d_relu(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, "
      "int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor");
  m.def(
      "conv_transpose3d_input_grad(Tensor grad_output, Tensor weight, Tensor? relu_output=None, int[3] stride=1, "
      "int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor");
  m.def(
      "conv_transpose3d_weight_grad(Tensor grad_output, Tensor input, int[3] kernel_size, Tensor? relu_output=None, "
      "int[3] stride=1, int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor");
  m.def("conv_transpose3d_bias_grad(Tensor grad_output, Tensor? relu_output=None) -> Tensor");
  m.def(
      "conv_transpose3d_backward(Tensor grad_output, Tensor input, Tensor weight, Tensor? relu_output=None, "
      "int[3] stride=1, int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1, "
      "bool[3] output_mask=[True, True, True]) -> (Tensor, Tensor, Tensor)");
  m.def(
      "conv_transpose3d_relu_group_norm(Tensor input, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, "
      "int[3] output_padding, int groups, int[3] dilation, int num_groups, Tensor? norm_weight=None, "
      "Tensor? norm_bias=None, float eps=1e-05) -> Tensor");
  m.def(
      "conv_transpose3d_group_norm(Tensor input, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, "
      "int[3] output_padding, int groups, int[3] dilation, int num_groups, Tensor? norm_weight=None, "
      "Tensor? norm_bias=None, float eps=1e-05, bool relu=False, float negative_slope=1.0, ScalarType? dtype=None) "
      "-> Tensor");
  m.def(
      "conv_transpose3d_group_norm_forward(Tensor input, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, "
      "int[3] output_padding, int groups, int[3] dilation, int num_groups, Tensor? norm_weight=None, "
      "Tensor? norm_bias=None, float eps=1e-05, bool relu=False, float negative_slope=1.0, ScalarType? dtype=None) "
      "-> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "group_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, "
      "int num_groups, bool relu=False, float negative_slope=1.0, bool[3] output_mask=[True, True, True]) "
      "-> (Tensor, Tensor, Tensor)");
}

template <typename Backend, typename Norm>
void register_backend(torch::stable::detail::StableLibrary& m) {
  using Ops = convt3d::Operators<Backend>;
  m.impl("conv_transpose3d", TORCH_BOX(&Ops::conv_transpose3d));
  m.impl("conv_transpose3d_relu", TORCH_BOX(&Ops::conv_transpose3d_relu));
  m.impl("conv_transpose3d_input_grad", TORCH_BOX(&Ops::conv_transpose3d_input_grad));
  m.impl("conv_transpose3d_weight_grad", TORCH_BOX(&Ops::conv_transpose3d_weight_grad));
  m.impl("conv_transpose3d_bias_grad", TORCH_BOX(&Ops::conv_transpose3d_bias_grad));
  m.impl("conv_transpose3d_backward", TORCH_BOX(&Ops::conv_transpose3d_backward));
  using NormOps = convt3d::NormOperators<Norm>;
  m.impl("conv_transpose3d_relu_group_norm", TORCH_BOX(&NormOps::conv_transpose3d_relu_group_norm));
  m.impl("conv_transpose3d_group_norm", TORCH_BOX(&NormOps::conv_transpose3d_group_norm));
  m.impl("conv_transpose3d_group_norm_forward", TORCH_BOX(&NormOps::conv_transpose3d_group_norm_forward));
  // On the CPU its kernel is one in Python.
  if constexpr (std::is_same_v<Norm, convt3d::CudaNorm>) {
    m.impl("group_norm_backward", TORCH_BOX(&NormOps::group_norm_backward));
  }
}

template <typename Backend, typename Norm>
void register_compiled_backend(torch::stable::detail::StableLibrary& m) {
  register_backend<Backend, Norm>(m);
  m.impl("conv_transpose3d_channel_norms", TORCH_BOX(&convt3d::NormOperators<Norm>::conv_transpose3d_channel_norms));
}

}  // namespace

STABLE_TORCH_LIBRARY(convt3d, m) { define_operators(m); }

STABLE_TORCH_LIBRARY_IMPL(convt3d, CPU, m) { register_backend<convt3d::CpuBackend, convt3d::CpuNorm>(m); }
STABLE_TORCH_LIBRARY_IMPL(convt3d, CUDA, m) { register_backend<convt3d::CudaBackend, convt3d::CudaNorm>(m); }

// Sparse tensors come here only to be refused by the checks, which name the argument.
STABLE_TORCH_LIBRARY_IMPL(convt3d, SparseCPU, m) { register_backend<convt3d::CpuBackend, convt3d::CpuNorm>(m); }
STABLE_TORCH_LIBRARY_IMPL(convt3d, SparseCUDA, m) { register_backend<convt3d::CudaBackend, convt3d::CudaNorm>(m); }
STABLE_TORCH_LIBRARY_IMPL(convt3d, SparseCsrCPU, m) { register_backend<convt3d::CpuBackend, convt3d::CpuNorm>(m); }
STABLE_TORCH_LIBRARY_IMPL(convt3d, SparseCsrCUDA, m) { register_backend<convt3d::CudaBackend, convt3d::CudaNorm>(m); }

// The same operators for code that TorchInductor has compiled, below autograd and autocast: without those kernels in
// Python, a third of a call's time on the host. And what it makes of a norm (convt3d/_registrations/inductor.py).
STABLE_TORCH_LIBRARY(convt3d_inductor, m) {
  define_operators(m);
  m.def(
      "conv_transpose3d_channel_norms(Tensor input, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, "
      "int[3] output_padding, int groups, int[3] dilation, int num_groups, Tensor? norm_weight=None, "
      "Tensor? norm_bias=None, float eps=1e-05, bool relu=False) -> (Tensor, Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(convt3d_inductor, CPU, m) {
  register_compiled_backend<convt3d::CpuBackend, convt3d::CpuNorm>(m);
}
STABLE_TORCH_LIBRARY_IMPL(convt3d_inductor, CUDA, m) {
  register_compiled_backend<convt3d::CudaBackend, convt3d::CudaNorm>(m);
}

// Facts about this build, one "key=value" per line: for bug reports and for the package's version check.
extern "C" __attribute__((visibility("default"))) const char* convt3d_build_info() {
  static const std::string info =
      std::string("version=" CONVT3D_VERSION "\ntorch=" TORCH_VERSION "\ncuda=") + convt3d::CudaBackend::toolkit() +
      "\narchitectures=" + convt3d::CudaBackend::architectures() + "\nrelease_architectures=" CONVT3D_RELEASE_ARCHS;
  return info.c_str();
}
