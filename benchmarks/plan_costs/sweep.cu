// Times plans of the tensor-core engine on a GPU, some candidates a case: see costs.py. Prints lines of case and plan,
//   NAME PRECISION LAYOUT MILLISECONDS PLAN
// Arguments: candidates of a case, how far they may be from the cheapest (standard deviation of a random factor, as a
// logarithm), seed. The first line of a case is the plan that would be chosen.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "core/devices.h"
#include "engines/wgmma/run.h"

namespace convt3d {
std::string compiled_architectures() { return "sm_90a"; }
}  // namespace convt3d

namespace {

using namespace convt3d;

constexpr int kRepetitions = 3;
constexpr size_t kFlushBytes = size_t{256} << 20;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::cerr << "sweep: " << cudaGetErrorString(error) << '\n';
  std::exit(1);
}

// Random bits of a hash, as numbers between -1 and 1.
template <typename T>
__global__ void fill(T* values, size_t count, unsigned seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    unsigned bits = static_cast<unsigned>(i) * 2654435761u + seed;
    bits = (bits ^ bits >> 16) * 0x85ebca6bu;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
    values[i] = T(static_cast<float>(static_cast<int>((bits ^ bits >> 16) & 0xFFFF)) / 32768.0f - 1.0f);
  }
}

// Device memory that is freed with its owner.
template <typename T>
struct Buffer {
  T* data = nullptr;
  size_t count;

  explicit Buffer(size_t count) : count(count) {
    if (count > 0) check(cudaMalloc(&data, count * sizeof(T)));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  void randomize(unsigned seed) {
    if (count > 0) fill<<<1024, 256>>>(data, count, seed);
    check(cudaGetLastError());
  }
};

std::array<int64_t, 5> strides(int64_t channels, const Int3& size, bool channels_last) {
  const int64_t plane = size[1] * size[2];
  const int64_t volume = size[0] * plane;
  if (channels_last) return {channels * volume, 1, channels * plane, channels * size[2], channels};
  return {channels * volume, volume, plane, size[2], 1};
}

size_t elements(int64_t outer, int64_t inner, const Int3& size) {
  return static_cast<size_t>(outer * inner * size[0] * size[1] * size[2]);
}

template <typename T>
class Runner {
 public:
  explicit Runner(const Case& value)
      : case_(value),
        input_(elements(value.problem.batch, value.problem.in_channels, value.problem.input_size)),
        weight_(elements(value.problem.in_channels, value.problem.out_channels_per_group(), value.problem.kernel_size)),
        bias_(value.bias ? static_cast<size_t>(value.problem.out_channels) : 0),
        output_(elements(value.problem.batch, value.problem.out_channels, value.problem.output_size())),
        flushed_(kFlushBytes) {
    input_.randomize(1);
    weight_.randomize(2);
    bias_.randomize(3);
    check(cudaStreamCreate(&stream_));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
    check(cudaDeviceSynchronize());
  }
  Runner(const Runner&) = delete;
  ~Runner() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  // Median of replays of a CUDA graph, the L2 flushed before each; the first one does not count.
  float milliseconds(const HaloPlan& plan) {
    const Problem& p = case_.problem;
    const bool last = case_.channels_last();
    Buffer<unsigned char> workspace(static_cast<size_t>(plan.workspace_bytes()));
    const ConstTensor input{input_.data, strides(p.in_channels, p.input_size, last)};
    const ConstTensor weight{weight_.data, strides(p.out_channels_per_group(), p.kernel_size, false)};
    const ConstVector bias{bias_.data, 1};
    const MutableTensor output{output_.data, strides(p.out_channels, p.output_size(), last)};
    cudaGraph_t graph;
    cudaGraphExec_t run;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    wgmma::forward<T>(p, plan, input, weight, {bias, Activation::kNone}, output, workspace.data, stream_);
    check(cudaStreamEndCapture(stream_, &graph));
    check(cudaGraphInstantiate(&run, graph, 0));
    std::vector<float> times;
    for (int i = 0; i <= kRepetitions; ++i) {
      check(cudaMemsetAsync(flushed_.data, i, kFlushBytes, stream_));
      check(cudaEventRecord(begin_, stream_));
      check(cudaGraphLaunch(run, stream_));
      check(cudaEventRecord(end_, stream_));
      check(cudaEventSynchronize(end_));
      float time;
      check(cudaEventElapsedTime(&time, begin_, end_));
      if (i > 0) times.push_back(time);
    }
    check(cudaGraphExecDestroy(run));
    check(cudaGraphDestroy(graph));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  const Case& case_;
  Buffer<T> input_;
  Buffer<T> weight_;
  Buffer<T> bias_;
  Buffer<T> output_;
  Buffer<unsigned char> flushed_;
  cudaStream_t stream_;
  cudaEvent_t begin_;
  cudaEvent_t end_;
};

template <typename T>
void sweep(const Case& value, int count, double jitter, unsigned seed) {
  const std::vector<HaloPlan> plans =
      halo_candidates(value.problem, value.element(), value.operands(), fitted_device());
  if (plans.empty()) return;
  const std::string name = value.name + std::to_string(seed);
  std::seed_seq seeds(name.begin(), name.end());
  std::mt19937 random(seeds);
  std::normal_distribution<double> normal;
  const auto cheapest = std::min_element(plans.begin(), plans.end(),
                                         [](const HaloPlan& a, const HaloPlan& b) { return a.cost < b.cost; });
  std::vector<std::pair<double, const HaloPlan*>> order;
  for (const HaloPlan& plan : plans) {
    order.emplace_back(&plan == &*cheapest ? 0 : plan.cost * std::exp(jitter * normal(random)), &plan);
  }
  std::sort(order.begin(), order.end());
  Runner<T> runner(value);
  runner.milliseconds(*cheapest);  // warms up
  for (size_t i = 0; i < order.size() && i < static_cast<size_t>(count); ++i) {
    const HaloPlan& plan = *order[i].second;
    std::printf("%s %s %s %.5f %s\n", value.name.c_str(), value.precision.c_str(), value.layout.c_str(),
                runner.milliseconds(plan), to_string(plan).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: sweep COUNT JITTER SEED < CASES\n";
    return 2;
  }
  const int count = std::atoi(argv[1]);
  const double jitter = std::atof(argv[2]);
  const unsigned seed = static_cast<unsigned>(std::atoi(argv[3]));
  Case value;
  while (std::cin >> value) {
    if (value.half()) {
      sweep<__half>(value, count, jitter, seed);
    } else {
      sweep<float>(value, count, jitter, seed);
    }
  }
}
