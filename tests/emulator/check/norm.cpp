#include "check/norm.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "check/left_moments.h"
#include "check/norm_reference.h"
#include "check/tensor.h"
#include "kernels/norm_api.h"
#include "machine/block.h"
#include "machine/launch.h"
#include "machine/memory.h"

namespace check {
namespace {

using convt3d::DataType;

// Half of the distance between neighbours, relative to the smaller.
double rounding_of(DataType type) {
  return std::ldexp(1.0, type == DataType::kFloat64   ? -53
                         : type == DataType::kFloat32 ? -24
                         : type == DataType::kFloat16 ? -11
                                                      : -8);
}
double least_of(DataType type) { return type == DataType::kFloat16 ? std::ldexp(1.0, -14) : std::ldexp(1.0, -126); }

class NormRun {
 public:
  explicit NormRun(const NormCase& item) : item_(item), random_(item.seed), wide_(item.type == Type::kFloat64) {
    emulator::begin_run(random_());
    emulator::clear_regions();
  }

  Outcome operator()() {
    try {
      item_.backward ? backward() : forward();
    } catch (const std::runtime_error& error) {
      outcome_.failure = error.what();
    }
    return outcome_;
  }

 private:
  Size5 vector_size() const { return {1, item_.size[1], 1, 1, 1}; }

  std::unique_ptr<Tensor> tensor(const char* name, const Size5& size, DataType type, const Arrangement& arrangement,
                                 bool written) {
    return std::make_unique<Tensor>(name, size, type, item_.layout, arrangement, written, random_);
  }
  void fill_input(Tensor& x) {
    std::normal_distribution<double> normal;
    const double mean = item_.values == NormValues::kLargeMean ? 1000 : item_.values == NormValues::kConstant ? 7.3 : 0;
    const double deviation = item_.values == NormValues::kConstant ? 0 : 1;
    bool first = item_.values == NormValues::kOutlierFirst;
    x.fill([&] {
      const double value = first ? 30000 : mean + deviation * normal(random_);
      first = false;
      return item_.relu ? std::max(value, 0.0) : value;
    });
  }
  std::unique_ptr<Tensor> affine(const char* name, bool present, double around) {
    if (!present) return nullptr;
    auto vector = tensor(name, vector_size(), item_.affine_type(),
                         arrangement_of(chance(random_, 60) ? "dense" : "slice_w"), false);
    std::normal_distribution<double> normal;
    vector->fill([&] { return around + normal(random_); });
    vector->hand_out();
    return vector;
  }
  static convt3d::ConstVector vector_of(const std::unique_ptr<Tensor>& tensor) {
    return tensor ? convt3d::ConstVector{tensor->data(), tensor->stride()[1]} : convt3d::ConstVector{};
  }
  std::vector<double> values_of(const std::unique_ptr<Tensor>& tensor, double absent) const {
    return tensor ? tensor->values() : std::vector<double>(static_cast<std::size_t>(item_.size[1]), absent);
  }
  std::unique_ptr<MemoryBlock> block(const char* name, int64_t bytes) {
    auto made = std::make_unique<MemoryBlock>(static_cast<std::size_t>(bytes), 256, 0, true);
    std::memset(made->begin(), 0xFF, made->bytes());
    emulator::add_region({made->begin(), made->begin() + made->bytes(), true, name});
    return made;
  }
  void fail(const std::string& what) {
    if (outcome_.failure.empty()) outcome_.failure = what;
  }
  // |actual - expected| against the rounding of a type and the accumulators' share of a magnitude.
  void compare(const char* name, std::size_t i, double actual, double expected, double magnitude, DataType type) {
    const double accumulator = std::ldexp(1.0, wide_ ? -48 : -20);
    const double bound = 2 * rounding_of(type) * std::fabs(expected) + accumulator * magnitude + least_of(type);
    if (std::fabs(actual - expected) <= bound) return;
    std::ostringstream text;
    text << name << "[" << i << "] is " << actual << ", not " << expected << " within " << bound;
    fail(text.str());
  }
  void compare_all(const char* name, const std::vector<double>& actual, const std::vector<double>& expected,
                   const std::vector<double>& magnitude, DataType type) {
    for (std::size_t i = 0; i < actual.size(); ++i) compare(name, i, actual[i], expected[i], magnitude[i], type);
  }
  void check_around(const char* name, const Tensor& tensor) {
    if (!tensor.surroundings_untouched()) fail(std::string("memory around ") + name + " is written");
  }

  // Calls twice, in different orders of threads and blocks; what was written must be the same to the bit.
  template <typename Call>
  void call_twice(const std::vector<std::pair<unsigned char*, std::size_t>>& written, const Tensor* restored,
                  Call&& call) {
    std::vector<std::vector<unsigned char>> before, first;
    for (const auto& [data, bytes] : written) before.emplace_back(data, data + bytes);
    call();
    for (const auto& [data, bytes] : written) first.emplace_back(data, data + bytes);
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (restored != nullptr && written[i].first == restored->data()) {
        std::memcpy(written[i].first, before[i].data(), before[i].size());
      }
    }
    emulator::begin_run(random_());
    call();
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (std::memcmp(written[i].first, first[i].data(), first[i].size()) != 0) fail("a second call has other bits");
    }
  }
  // From the first element of a tensor to its last one.
  static std::pair<unsigned char*, std::size_t> extent_of(const Tensor& tensor, DataType type) {
    int64_t elements = 1;
    for (std::size_t i = 0; i < 5; ++i) elements += (tensor.size()[i] - 1) * tensor.stride()[i];
    return {tensor.data(), static_cast<std::size_t>(elements * convt3d::element_size(type))};
  }

  void forward() {
    auto x = tensor("x", item_.size, item_.data_type(), *item_.input, item_.in_place);
    fill_input(*x);
    x->hand_out();
    const std::vector<double> values = x->values();
    const auto weight = affine("weight", item_.weight, 1);
    const auto bias = affine("bias", item_.bias, 0);
    const auto own = tensor("result", item_.size, item_.result_type(), arrangement_of("dense"), true);
    own->hand_out();
    const Tensor& result = item_.in_place ? *x : *own;
    const convt3d::norm::Plan plan = planned(*x);
    const convt3d::norm::Vectors vectors = convt3d::norm::forward_vectors(
        plan, item_.size, item_.data_type(), item_.result_type(), x->source(), result.target());
    convt3d::EpilogueMoments moments;
    const bool leaves = item_.type != Type::kFloat64 && chance(random_, 40);  // no engine does of float64
    const std::unique_ptr<MemoryBlock> left = leaves ? left_moments(values, moments) : nullptr;
    const auto space =
        block("the workspace",
              forward_workspace_bytes(convt3d::norm::Shape::of(item_.size, item_.groups), plan, moments.count));
    const int64_t statistics = item_.size[0] * item_.groups;
    const auto saved = block("the statistics", 2 * statistics * 8);
    auto* const mean = reinterpret_cast<double*>(saved->begin());
    const bool saves = !item_.in_place;
    const convt3d::norm::Arguments arguments{vector_of(weight), vector_of(bias),
                                             item_.affine_type() == DataType::kFloat32, item_.slope, kEps};
    std::vector<std::pair<unsigned char*, std::size_t>> written = {extent_of(result, item_.result_type())};
    if (saves) written.emplace_back(saved->begin(), saved->bytes());
    call_twice(written, item_.in_place ? x.get() : nullptr, [&] {
      convt3d::group_norm(item_.size, item_.groups, plan, vectors, item_.data_type(), item_.result_type(), x->source(),
                          moments, arguments, result.target(),
                          saves ? convt3d::norm::Statistics{mean, mean + statistics} : convt3d::norm::Statistics{},
                          space->begin(), nullptr);
    });
    check_around("the result", result);
    if (!space->surroundings_untouched()) fail("memory around the workspace is written");
    const NormReference reference(item_, values, values_of(weight, 1), values_of(bias, 0), kEps);
    if (item_.type != Type::kFloat64) norms_of_channels(plan, x->source(), vectors, moments, arguments, reference);
    if (saves) {
      for (std::size_t i = 0; i < reference.mean.size(); ++i) {
        compare("mean", i, mean[i], reference.mean[i], reference.spread(i), DataType::kFloat64);
        compare("rstd", i, mean[statistics + static_cast<int64_t>(i)], reference.rstd[i],
                reference.rstd[i] * (1 + reference.rstd[i] * reference.spread(i)), DataType::kFloat64);
      }
    }
    const std::vector<double> actual = result.values();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      compare("result", i, actual[i], reference.activated(i), reference.magnitude(i), item_.result_type());
    }
  }

  std::unique_ptr<MemoryBlock> left_moments(const std::vector<double>& values, convt3d::EpilogueMoments& moments) {
    const int64_t rows = item_.size[0] * item_.size[1];
    const int parts = chance(random_, 20) ? between(random_, 100, 400) : between(random_, 1, 9);
    auto space = block("the moments", rows * parts * static_cast<int64_t>(sizeof(convt3d::PartMoments)));
    moments = {reinterpret_cast<convt3d::PartMoments*>(space->begin()), parts, item_.size[1]};
    leave_moments(item_.size, values, random_, moments);
    return space;
  }

  // The norms of channels, by which an epilogue makes the same result.
  void norms_of_channels(const convt3d::norm::Plan& plan, const convt3d::ConstTensor& x,
                         const convt3d::norm::Vectors& vectors, const convt3d::EpilogueMoments& moments,
                         const convt3d::norm::Arguments& arguments, const NormReference& reference) {
    if (item_.in_place && moments.parts == nullptr) return;  // x is no more
    const convt3d::norm::Shape shape = convt3d::norm::Shape::of(item_.size, item_.groups);
    const auto space = block("the workspace", forward_workspace_bytes(shape, plan, moments.count));
    const auto norms = block("the norms", shape.rows() * static_cast<int64_t>(sizeof(convt3d::ChannelNorm)));
    auto* const of_channels = reinterpret_cast<convt3d::ChannelNorm*>(norms->begin());
    convt3d::group_norm_of_channels(item_.size, item_.groups, plan, vectors, item_.data_type(), x, moments, arguments,
                                    {}, of_channels, space->begin(), nullptr);
    if (!space->surroundings_untouched()) fail("memory around the workspace is written");
    if (!norms->surroundings_untouched()) fail("memory around the norms is written");
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape.rows() * shape.positions); ++i) {
      const convt3d::ChannelNorm& norm = of_channels[i / static_cast<std::size_t>(shape.positions)];
      const double value = (reference.input(i) - norm.center) * norm.scale + norm.shift;
      compare("norm of a channel", i, value > 0 ? value : value * norm.slope, reference.activated(i),
              reference.magnitude(i), DataType::kFloat32);
    }
  }

  void backward() {
    auto x = tensor("x", item_.size, item_.data_type(), *item_.input, false);
    fill_input(*x);
    x->hand_out();
    const auto weight = affine("weight", item_.weight, 1);
    const auto bias = affine("bias", item_.bias, 0);
    const NormReference reference(item_, x->values(), values_of(weight, 1), values_of(bias, 0), kEps);
    auto grad = tensor("grad_result", item_.size, item_.result_type(), *item_.grad, false);
    std::normal_distribution<double> normal;
    std::size_t next = 0;
    grad->fill([&] {
      // Near the activation's corner either side is right.
      const std::size_t i = next++;
      const bool near = item_.slope != 1 && std::fabs(reference.normalised(i)) <= 1e-4 * reference.magnitude(i);
      return near ? 0 : 0.5 + normal(random_);
    });
    grad->hand_out();
    const auto grad_x = tensor("grad_x", item_.size, item_.data_type(), arrangement_of("dense"), true);
    grad_x->hand_out();
    const auto grad_weight = tensor("grad_weight", vector_size(), item_.affine_type(), arrangement_of("dense"), true);
    grad_weight->hand_out();
    const auto grad_bias = tensor("grad_bias", vector_size(), item_.affine_type(), arrangement_of("dense"), true);
    grad_bias->hand_out();
    const convt3d::norm::Plan plan = planned(*x);
    const auto space = block("the workspace", plan.workspace_bytes);
    const int64_t statistics = item_.size[0] * item_.groups;
    const auto saved = block("the statistics", 2 * statistics * 8);
    auto* const mean = reinterpret_cast<double*>(saved->begin());
    for (std::size_t i = 0; i < reference.mean.size(); ++i) {
      mean[i] = reference.mean[i];
      mean[statistics + static_cast<int64_t>(i)] = reference.rstd[i];
    }
    const convt3d::norm::Arguments arguments{vector_of(weight), vector_of(bias),
                                             item_.affine_type() == DataType::kFloat32, item_.slope, kEps};
    const bool wants_x = chance(random_, 75);
    const bool wants_weight = chance(random_, 75);
    const bool wants_bias = chance(random_, 75);
    const convt3d::MutableTensor wanted_x = wants_x ? grad_x->target() : convt3d::MutableTensor{};
    const convt3d::norm::Vectors vectors = convt3d::norm::backward_vectors(
        plan, item_.size, item_.data_type(), item_.result_type(), x->source(), grad->source(), wanted_x);
    call_twice({extent_of(*grad_x, item_.data_type()), extent_of(*grad_weight, item_.affine_type()),
                extent_of(*grad_bias, item_.affine_type())},
               nullptr, [&] {
                 convt3d::group_norm_backward(item_.size, item_.groups, plan, vectors, item_.data_type(),
                                              item_.result_type(), grad->source(), x->source(),
                                              {mean, mean + statistics}, arguments, item_.relu, wanted_x,
                                              wants_weight ? grad_weight->data() : nullptr,
                                              wants_bias ? grad_bias->data() : nullptr, space->begin(), nullptr);
               });
    check_around("grad_x", *grad_x);
    check_around("grad_weight", *grad_weight);
    check_around("grad_bias", *grad_bias);
    if (!space->surroundings_untouched()) fail("memory around the workspace is written");
    const NormReference::Gradients expected = reference.gradients(grad->values());
    if (wants_x) compare_all("grad_x", grad_x->values(), expected.x, expected.x_magnitude, item_.data_type());
    if (wants_weight) {
      compare_all("grad_weight", grad_weight->values(), expected.weight, expected.weight_magnitude,
                  item_.affine_type());
    }
    if (wants_bias) {
      compare_all("grad_bias", grad_bias->values(), expected.bias, expected.bias_magnitude, item_.affine_type());
    }
  }

  convt3d::norm::Plan planned(const Tensor& x) {
    convt3d::norm::Plan plan = convt3d::norm::make_plan(item_.size, x.stride(), item_.groups, item_.data_type());
    if (chance(random_, 50)) share_among_few_threads(plan);
    outcome_.plan = to_string(plan);
    return plan;
  }

  // As plans of large tensors do: threads take several steps of slots, of sums and of maps other numbers.
  void share_among_few_threads(convt3d::norm::Plan& plan) {
    const convt3d::norm::Shape shape = convt3d::norm::Shape::of(item_.size, item_.groups);
    int32_t& along = plan.channels_last ? plan.others : plan.lanes;
    along = std::max<int32_t>(1, along >> between(random_, 1, 6));
    int64_t length = shape.positions;
    if (!plan.channels_last) {
      plan.others = convt3d::norm::kThreads / plan.lanes;
      plan.units = (shape.rows() + plan.others - 1) / plan.others;
      length = convt3d::norm::most_slots_of_row(shape.positions, plan.slot);
    }
    const auto share = [&](int64_t& splits, int64_t& split_length) {
      split_length = int64_t{along} * convt3d::norm::kMostUnroll * between(random_, 1, 5);
      splits = (length + split_length - 1) / split_length;
    };
    share(plan.splits, plan.split_length);
    share(plan.map_splits, plan.map_split_length);
    const int planes = std::max(convt3d::norm::kMomentPlanes, convt3d::norm::kGradientPlanes);
    plan.workspace_bytes = partial_bytes(shape, plan.splits, planes) + shape.statistics() * 2 * 8;
  }

  static constexpr double kEps = 1e-5;
  const NormCase& item_;
  Random random_;
  bool wide_;
  Outcome outcome_;
};

}  // namespace

Outcome run_norm(const NormCase& item) { return NormRun(item)(); }

}  // namespace check
