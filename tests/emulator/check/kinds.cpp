#include "check/kinds.h"

#include <array>

namespace check {
namespace {

using convt3d::Problem;

constexpr double kMostProducts = 8e6;  // of the reference
constexpr double kMostElements = 4e5;  // of the output

void narrow_kernels(Drawing& d, int64_t most_size, int64_t most_kernel) {
  Problem& p = d.problem;
  d.axes([&](std::size_t i) {
    p.input_size[i] = d.draw(1, most_size);
    p.stride[i] = d.draw(1, 2);
    p.kernel_size[i] = d.draw(1, most_kernel);
    p.padding[i] = d.draw(0, 2);
    p.output_padding[i] = d.coin(70) ? 0 : p.stride[i] - 1;
    p.dilation[i] = d.coin(85) ? 1 : 2;
  });
}

// One channel a group, kernels of up to 7 and strides of 1 and 2: past a tile of the depthwise engine.
void depthwise_tiles(Drawing& d) {
  Problem& p = d.problem;
  p.batch = d.one_of({1, 1, 2, 3});
  d.channels(d.one_of({1, 2, 3, 4, 5, 8, 12, 16, 20, 33, 36}), 1, 1);
  const bool same = d.coin(30);
  d.axes([&](std::size_t i) {
    p.kernel_size[i] = same && i > 0 ? p.kernel_size[0] : d.coin(40) ? d.one_of({1, 3, 3, 5, 7}) : d.draw(1, 7);
    p.stride[i] = same && i > 0 ? p.stride[0] : d.draw(1, 2);
    p.padding[i] = d.coin(50) ? p.kernel_size[i] / 2 : d.draw(0, 7);
    p.output_padding[i] = d.coin(50) ? 0 : p.stride[i] - 1;
    p.dilation[i] = 1;
    p.input_size[i] = d.draw(1, d.coin(60) ? 9 : 24);
  });
  if (d.coin(40)) p.input_size[2] = d.one_of({8, 16, 4, 20, 12});
  if (d.coin(10)) p.input_size[static_cast<std::size_t>(d.draw(0, 2))] = d.draw(60, 200);
}

// ... whose height and width have the taps of its patches.
void depthwise_patches(Drawing& d) {
  depthwise_tiles(d);
  Problem& p = d.problem;
  d.channels(d.one_of({1, 2, 3, 4, 6, 8, 12, 16, 20, 33, 36, 40, 68, 132}), 1, 1);
  constexpr std::array<std::array<int64_t, 2>, 4> kKernels = {{{3, 1}, {3, 2}, {5, 2}, {7, 2}}};
  const auto& kernel = kKernels[static_cast<std::size_t>(d.draw(0, 3))];
  for (const std::size_t i : {1, 2}) {
    p.kernel_size[i] = kernel[0];
    p.stride[i] = kernel[1];
    p.padding[i] = d.coin(70) ? kernel[0] / 2 : d.draw(0, 7);
    p.output_padding[i] = d.coin(30) ? 0 : p.stride[i] - 1;
  }
  if (d.coin(10)) p.input_size[1] = d.draw(60, 140);
  if (!d.coin(15)) return;
  // So many channels and so flat that a thread has several walks.
  d.channels(d.one_of({132, 160, 300}), 1, 1);
  p.kernel_size[0] = d.draw(3, 7);
  p.input_size = {d.draw(16, 30), d.draw(1, 3), d.draw(12, 30)};
}

}  // namespace

void any(Drawing& d) {
  Problem& p = d.problem;
  const int64_t groups = d.coin(60) ? 1 : d.one_of({2, 2, 3, 4, 7});
  const int64_t most = groups > 2 ? 20 : d.coin(70) ? 40 : 100;
  p.batch = d.coin(20) ? d.draw(8, 19) : d.draw(1, 3);
  d.channels(groups, d.some_channels(most), d.some_channels(most));
  const bool same = d.coin(40);
  d.axes([&](std::size_t i) {
    p.input_size[i] = d.draw(1, p.batch > 3 ? 5 : 9);
    p.stride[i] = d.draw(1, d.coin(85) ? 2 : 6);
    p.kernel_size[i] = d.draw(1, d.coin(90) ? 4 : 9);
    p.dilation[i] = d.coin(75) ? 1 : d.draw(1, 4);
    p.padding[i] = d.draw(0, d.coin(80) ? 2 : 6);
    if (same && i > 0) {
      p.stride[i] = p.stride[0];
      p.kernel_size[i] = p.kernel_size[0];
      p.padding[i] = p.padding[0];
      p.dilation[i] = p.dilation[0];
    }
    p.output_padding[i] = d.coin(60) ? 0 : d.draw(0, std::max(p.stride[i], p.dilation[i]) - 1);
  });
  if (d.coin(50)) p.input_size[2] = (p.input_size[2] + 7) / 8 * 8;
}

// As upsampling layers: no tap meets another.
void kernel_is_stride(Drawing& d) {
  Problem& p = d.problem;
  narrow_kernels(d, 9, 2);
  p.batch = d.draw(1, 3);
  const int64_t groups = d.coin(70) ? 1 : d.draw(2, 4);
  const bool whole = d.coin(70) || groups > 1;
  d.channels(groups, whole ? 16 * d.draw(1, 5) : d.draw(1, 70), d.draw(1, 50));
  d.axes([&](std::size_t i) {
    p.kernel_size[i] = d.coin(85) ? p.stride[i] : 1;
    p.dilation[i] = 1;
    p.padding[i] = i < 2 ? d.draw(0, 3) : d.coin(80) ? 0 : d.draw(0, 2);
    p.output_padding[i] = d.draw(0, p.stride[i] - 1);
  });
  p.input_size[0] = d.draw(1, 5);
  p.input_size[2] = 8 * d.draw(1, 6);
}

// Small images, which share a tile.
void many_images(Drawing& d) {
  Problem& p = d.problem;
  narrow_kernels(d, 5, 4);
  p.batch = d.draw(8, 20);
  d.channels(d.coin(70) ? 1 : 2, d.draw(1, 40), d.draw(1, 70));
  if (d.coin(70)) {
    constexpr std::array<std::array<int64_t, 2>, 6> kPlanes = {{{2, 8}, {4, 4}, {8, 4}, {1, 8}, {6, 4}, {3, 8}}};
    const auto& plane = kPlanes[static_cast<std::size_t>(d.draw(0, 5))];
    p.input_size = {d.draw(1, 4), plane[0], plane[1]};
  }
}

void long_rows(Drawing& d) {
  narrow_kernels(d, 3, 4);
  d.problem.batch = d.draw(1, 2);
  d.channels(1, d.draw(1, 24), d.draw(1, 36));
  const bool width = d.coin(70);
  d.problem.input_size[width ? 2 : 1] = d.draw(1, width ? 400 : 200);
}

void many_channels(Drawing& d) {
  narrow_kernels(d, 4, 3);
  d.problem.batch = d.draw(1, 2);
  const bool outputs = d.coin(30);
  d.channels(d.coin(70) ? 1 : 2, outputs ? d.draw(8, 40) : d.draw(60, 400), outputs ? d.draw(60, 260) : d.draw(8, 40));
  if (d.coin(50)) d.problem.input_size[2] = 8 * d.draw(1, 2);
}

// As many as fill the rows and columns of Hopper's matrix units, of both tensors.
void wide_channels(Drawing& d) {
  Problem& p = d.problem;
  narrow_kernels(d, 6, 4);
  p.batch = d.coin(30) ? d.draw(4, 17) : d.draw(1, 3);
  if (p.batch > 3) p.input_size = {d.draw(1, 2), d.draw(1, 4), d.draw(1, 4)};
  const bool odd = d.coin(20);
  d.channels(d.coin(75) ? 1 : 2, odd ? d.draw(32, 90) : 8 * d.draw(4, 20), odd ? d.draw(32, 90) : 8 * d.draw(4, 20));
  d.axes([&](std::size_t i) {
    if (d.coin(15)) p.stride[i] = d.draw(3, 8);
    if (d.coin(10)) p.kernel_size[i] = d.draw(5, 9);
    p.output_padding[i] = d.coin(70) ? 0 : d.draw(0, std::max(p.stride[i], p.dilation[i]) - 1);
  });
  if (d.coin(30)) p.input_size[2] = d.one_of({8, 16, 17, 24});
  if (d.coin(5)) {  // positions that a block sums in segments
    d.channels(1, 40, 40);
    p.batch = 1;
    p.input_size = {d.draw(4, 5), d.draw(16, 19), d.draw(30, 34)};
    p.kernel_size = p.stride = p.dilation = {1, 1, 1};
    p.padding = p.output_padding = {0, 0, 0};
    return;
  }
  if (!d.coin(40)) return;
  // As layers that double each axis have them.
  const int64_t kernel = d.one_of({2, 3, 3, 4});
  d.axes([&](std::size_t i) {
    p.kernel_size[i] = kernel;
    p.stride[i] = 2;
    p.padding[i] = kernel == 2 ? 0 : 1;
    p.output_padding[i] = kernel == 3 ? 1 : 0;
    p.dilation[i] = 1;
  });
}

void several_tiles(Drawing& d) {
  narrow_kernels(d, 18, 3);
  d.problem.batch = d.draw(1, 2);
  d.channels(1, d.draw(1, 12), d.draw(1, 20));
  d.problem.input_size[0] = d.draw(1, 6);
  if (d.coin(50)) d.problem.input_size[2] = 4 * d.draw(1, 8);
}

// Positions that are folded: strides of 1 and few outputs.
void folds(Drawing& d) {
  Problem& p = d.problem;
  any(d);
  d.channels(p.groups, d.some_channels(40), d.draw(1, 40));
  d.axes([&](std::size_t i) {
    if (i < 2 && d.coin(80)) p.stride[i] = 1;
    if (d.coin(70)) p.kernel_size[i] = d.draw(2, 4);
    p.output_padding[i] = d.coin(60) ? 0 : d.draw(0, std::max(p.stride[i], p.dilation[i]) - 1);
  });
}

void long_kernels(Drawing& d) {
  Problem& p = d.problem;
  narrow_kernels(d, 6, 2);
  p.batch = d.coin(30) ? d.draw(8, 12) : d.draw(1, 2);
  d.channels(1, d.draw(1, 12), d.draw(1, 20));
  const auto axis = static_cast<std::size_t>(d.draw(0, 2));
  p.kernel_size[axis] = d.coin(40) ? p.stride[axis] * 16 : d.draw(6, 33);
  p.padding[axis] = d.draw(0, std::min<int64_t>(40, p.dilation[axis] * p.kernel_size[axis]));
  p.input_size[axis] = d.draw(1, 20);
}

void depthwise(Drawing& d) {
  if (d.coin(30)) return depthwise_patches(d);
  if (d.coin(50)) return depthwise_tiles(d);
  Problem& p = d.problem;
  const bool pure = d.coin(60);
  p.batch = d.one_of({1, 1, 2, 3});
  d.channels(d.one_of({1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 33, 36, 64, 132}), pure ? 1 : d.one_of({1, 1, 2, 3, 4}),
             pure ? 1 : d.one_of({1, 2, 3, 4}));
  constexpr std::array<std::array<int64_t, 3>, 5> kKernels = {{{2, 2, 0}, {3, 2, 1}, {3, 2, 0}, {4, 2, 1}, {3, 1, 1}}};
  const auto& common = kKernels[static_cast<std::size_t>(d.draw(0, 4))];
  d.axes([&](std::size_t i) {
    const bool odd = d.coin(12);
    p.kernel_size[i] = odd ? d.draw(1, 6) : common[0];
    p.stride[i] = odd ? d.draw(1, 4) : common[1];
    p.padding[i] = odd ? d.draw(0, 5) : common[1] == 1 ? d.draw(0, 4) : common[2] + 2 * d.draw(0, 2);
    p.dilation[i] = odd ? d.one_of({1, 1, 2, 3}) : 1;
    p.output_padding[i] = d.coin(50) ? 0 : d.draw(0, std::max(p.stride[i], p.dilation[i]) - 1);
    p.input_size[i] = d.draw(1, d.coin(66) ? 7 : 17);
  });
  if (d.coin(50)) p.input_size[2] = d.one_of({8, 16, 4, 2, 6});
}

// Past a tile of the general engine in each direction.
void general(Drawing& d) {
  Problem& p = d.problem;
  d.channels(d.one_of({1, 1, 2, 3}), d.one_of({1, 3, 4, 5, 8, 9, 16, 20, 36}),
             d.one_of({1, 3, 4, 5, 8, 9, 12, 20, 36, 68}));
  p.batch = d.one_of({1, 1, 2, 3});
  d.axes([&](std::size_t i) {
    p.kernel_size[i] = d.draw(1, 5);
    p.stride[i] = d.draw(1, d.coin(60) ? 3 : 8);
    p.dilation[i] = d.one_of({1, 1, 2, 3});
    p.padding[i] = d.draw(0, 5);
    p.output_padding[i] = d.coin(50) ? 0 : d.draw(0, std::max(p.stride[i], p.dilation[i]) - 1);
    p.input_size[i] = d.draw(1, d.coin(66) ? 6 : 20);
  });
}

// No tap meets another, and all of grad_output belongs to a tap or is out of reach.
void whole_strides(Drawing& d) {
  Problem& p = d.problem;
  p.batch = d.coin(25) ? d.draw(4, 9) : d.draw(1, 3);
  d.channels(d.coin(70) ? 1 : d.draw(2, 3), d.coin(50) ? d.one_of({8, 16, 32, 48, 64}) : d.draw(1, 64),
             d.coin(50) ? d.one_of({8, 16, 24, 32, 40}) : d.draw(1, 40));
  const int64_t same = d.coin(60) ? d.one_of({2, 2, 2, 3, 4}) : 0;
  d.axes([&](std::size_t i) {
    p.kernel_size[i] = p.stride[i] = same > 0 ? same : d.one_of({1, 1, 2, 2, 3, 5, 8});
    p.padding[i] = d.coin(75) ? 0 : d.draw(0, 4);
    p.output_padding[i] = 0;
    p.dilation[i] = p.kernel_size[i] == 1 && d.coin(20) ? 3 : 1;
    p.input_size[i] = d.draw(1, d.coin(70) ? 8 : 20);
  });
  if (d.coin(40)) p.input_size[2] = d.one_of({4, 8, 16});
}

bool is_affordable(const Problem& problem) {
  double outputs = static_cast<double>(problem.batch * problem.out_channels);
  double inputs = static_cast<double>(problem.batch * problem.in_channels);
  for (int i = 0; i < 3; ++i) {
    if (problem.output_size(i) < 1) return false;
    outputs *= static_cast<double>(problem.output_size(i));
    inputs *= static_cast<double>(problem.input_size[static_cast<std::size_t>(i)]);
  }
  const double products = inputs * static_cast<double>(problem.out_channels_per_group() * problem.taps());
  return outputs <= kMostElements && products <= kMostProducts;
}

// So that the input gradient is a forward.
}  // namespace check
