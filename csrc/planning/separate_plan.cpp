#include "planning/separate_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/operands.h"
#include "planning/backward_ms.h"
#include "planning/grad_copies.h"
#include "planning/grad_copy.h"

namespace convt3d {
namespace {

constexpr double kBeside = 1.05;  // of what each takes by itself, as they share L2 and memory; set by reasoning
// Of input gradients by wgmma beside another kernel, without a copy: they took that much longer than expected on an
// H100.
constexpr double kWgmmaBeside = 1.16;
constexpr int32_t kFewThreads = 256;  // of a block that has a multiprocessor alone; seen on an H100
constexpr int32_t kParts = 8;         // of the multiprocessors, that gradients beside each other share

class Separate {
 public:
  explicit Separate(const PlanQuery& query) : query_(query) {}

  std::optional<OperatorPlan> best() const {
    const std::vector<Way> ways = all_ways();
    if (ways.empty()) return std::nullopt;
    const Way* best = cheapest(ways);
    std::vector<Way> beside;
    for (const Way& way : ways) {
      // The shorter gradient may vanish behind the longer one; no more.
      const double least = way.ms - std::min(way.input_grad.cost.ms, way.weight_grad.cost.ms);
      if (may_be_beside(way) && least < best->ms) add_beside(way, beside);
    }
    if (!beside.empty() && cheapest(beside)->ms < best->ms) best = cheapest(beside);
    return plan_of(*best);
  }

  std::vector<OperatorPlan> all() const {
    const std::vector<Way> ways = all_ways();
    std::vector<Way> beside;
    for (const Way& way : ways) {
      if (may_be_beside(way)) add_beside(way, beside);
    }
    std::vector<OperatorPlan> plans;
    for (const Way& way : ways) plans.push_back(plan_of(way));
    for (const Way& way : beside) plans.push_back(plan_of(way));
    return plans;
  }

 private:
  struct Way {
    GradCopies copies;
    OperatorPlan input_grad;  // of the images of a round
    OperatorPlan weight_grad;
    std::optional<OperatorPlan> bias_grad;
    double ms;
    int32_t beside;    // SeparatePlan
    bool leaves_copy;  // SeparatePlan
  };

  static const Way* cheapest(const std::vector<Way>& ways) {
    return &*std::min_element(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.ms < b.ms; });
  }

  // Of all images at once, with operands as they lie. `sums_bias`: the weight gradient has the bias's, if it can.
  std::optional<Way> whole(bool sums_bias) const {
    if (sums_bias && (query_.op != Operator::kBackwardAndBias || !sees_all_outputs(query_))) return std::nullopt;
    return way_with(no_copies(query_.problem), sums_bias, false);
  }

  // Nothing is copied: with the bias's gradient by itself and, where it can be, with the weight's.
  std::vector<Way> whole_ways() const {
    std::vector<Way> ways;
    for (const bool sums_bias : {false, true}) {
      if (std::optional<Way> way = whole(sums_bias)) ways.push_back(*std::move(way));
    }
    return ways;
  }

  // One gradient after another.
  std::vector<Way> all_ways() const {
    std::vector<Way> ways;
    for (Way& first : whole_ways()) {
      std::vector<Way> copied = copied_ways(first);
      ways.push_back(std::move(first));
      for (Way& way : copied) ways.push_back(std::move(way));
    }
    return ways;
  }

  // With copies, which the input's gradient reads or not, and the bias's gradient as in a way without.
  std::vector<Way> copied_ways(const Way& first) const {
    std::vector<Way> ways;
    const OperandCopy grad = copied_grad(query_);
    if (!grad.exists || !may_copy_grad(query_)) return ways;
    const OperandCopy input = copied_input(query_);
    const auto add = [&](const OperandCopy& other) {
      const std::optional<GradCopies> copies = grad_copies(query_, grad, other);
      if (!copies) return;
      for (const bool leaves_copy : {false, true}) {
        // Some images may not begin as the first one does.
        if (leaves_copy && (rounds_of(*copies) > 1 || query_.engine)) continue;
        std::optional<Way> way = way_with(*copies, first.weight_grad.sums_bias(), leaves_copy);
        if (way) ways.push_back(*std::move(way));
      }
    };
    add({});
    if (input.exists) add(input);
    return ways;
  }

  int64_t rounds_of(const GradCopies& copies) const { return copies.rounds(query_.problem); }

  // `weight`: as the input's gradient reads it.
  PlanQuery gradient(Operator op, const GradCopies& copies, const DeviceTraits& device,
                     const OperandTraits& weight = {}) const {
    PlanQuery query = gradient_of_copies(query_, op, copies, weight);
    query.device = device;
    return query;
  }
  // Of all images at once, from a copy that has all of them. Whichever engine is asked alone, the general one has it.
  PlanQuery bias_gradient(const GradCopies& copies) const {
    PlanQuery query =
        gradient(Operator::kBiasGrad, rounds_of(copies) == 1 ? copies : no_copies(query_.problem), query_.device);
    query.problem = bias_grad_problem(query_.whole ? query_.whole->problem : query_.problem);
    query.mode = Float32Mode::kIeee;
    query.engine.reset();
    query.operands = query_.whole ? Operands{query_.whole->tensor, {}, query_.whole->mask, {}}
                                  : Operands{query.operands.first, {}, query.operands.mask, {}};
    return query;
  }

  // The weight beside a plan of its gradient: all gradients read a copy where one needs it in another layout.
  OperandTraits read_weight(const OperatorPlan& weight_grad) const {
    return weight_grad.joins_weight() ? OperandTraits{} : query_.operands.weight;
  }

  static GradCopies read_by_input_grad(const GradCopies& copies, bool leaves_copy) {
    return leaves_copy ? GradCopies{{}, {}, copies.images} : copies;
  }

  // choose_if_any(), which searches once for what several ways have in common. A gradient's queries differ in what it
  // reads, the images of a round and the multiprocessors that it has.
  const std::optional<OperatorPlan>& chosen_if_any(const PlanQuery& query) const {
    const Operands& operands = query.operands;
    const ChosenKey key{query.op,
                        query.engine ? static_cast<int>(*query.engine) : -1,
                        query.sums_bias,
                        query.problem.batch,
                        operands.first.stride,
                        operands.second.present,
                        operands.second.stride,
                        query.device.multiprocessors};
    const auto found = chosen_.find(key);
    return found != chosen_.end() ? found->second : chosen_.emplace(key, choose_if_any(query)).first->second;
  }

  // None where a gradient cannot be computed round by round, or with the bias's, or the input's without the copy, or by
  // the only engine that is asked.
  std::optional<Way> way_with(const GradCopies& copies, bool sums_bias, bool leaves_copy) const {
    const auto rounds = static_cast<double>(rounds_of(copies));
    PlanQuery weight = gradient(Operator::kWeightGrad, copies, query_.device);
    weight.sums_bias = sums_bias;
    std::optional<OperatorPlan> weight_grad = chosen_if_any(weight);
    if (!weight_grad) return std::nullopt;
    PlanQuery input = gradient(Operator::kInputGrad, read_by_input_grad(copies, leaves_copy), query_.device,
                               read_weight(*weight_grad));
    if (leaves_copy) input.engine = Engine::kMatmul;  // others would transpose what is there as a copy
    std::optional<OperatorPlan> input_grad = chosen_if_any(input);
    if (!input_grad) return std::nullopt;
    Way way{copies, *std::move(input_grad), *std::move(weight_grad), std::nullopt, 0, 0, leaves_copy};
    if (rounds > 1 && !sums_rounds(way.weight_grad)) return std::nullopt;
    way.ms = rounds * (input_grad_ms(way.input_grad) + way.weight_grad.cost.ms);
    way.ms += copies_ms(query_, copies);
    way.ms *= backward_factor(way.input_grad, way.weight_grad, copies.grad.exists, query_.dtype);
    if (query_.op == Operator::kBackwardAndBias && !sums_bias) {
      way.bias_grad = choose(bias_gradient(copies));
      way.ms += way.bias_grad->cost.ms;
    }
    return way;
  }

  // Blocks of an input gradient that may be beside another kernel: of an engine that lets others begin, and without a
  // copy of its own.
  static std::optional<int64_t> blocks_beside(const OperatorPlan& input_grad) {
    if (const auto* const of_mma = std::get_if<mma::CorrelationPlan>(&input_grad.plan)) {
      return of_mma->copy.exists ? std::nullopt : std::optional(of_mma->blocks());
    }
    if (const auto* const product = std::get_if<MatmulPlan>(&input_grad.plan)) {
      // One block of few warps leaves a multiprocessor idle.
      return product->threads() >= kFewThreads ? std::optional(product->blocks()) : std::nullopt;
    }
    const auto* const of_wgmma = std::get_if<WgmmaPlan>(&input_grad.plan);
    return of_wgmma == nullptr || of_wgmma->copy.exists ? std::nullopt : std::optional<int64_t>(of_wgmma->grid.blocks);
  }

  // Likewise of a weight gradient.
  static std::optional<int64_t> weight_blocks_beside(const OperatorPlan& weight_grad) {
    if (const auto* const of_mma = std::get_if<mma::WeightGradPlan>(&weight_grad.plan)) {
      return of_mma->copies_operands() ? std::nullopt : std::optional(of_mma->blocks());
    }
    const auto* const of_wgmma = std::get_if<WgmmaWeightGradPlan>(&weight_grad.plan);
    return of_wgmma == nullptr ? std::nullopt : std::optional(of_wgmma->blocks());
  }

  // Kernels of both gradients are made for it, take little, and copy nothing themselves.
  bool may_be_beside(const Way& way) const {
    return query_.device.begins_early() && rounds_of(way.copies) == 1 && blocks_beside(way.input_grad) &&
           weight_blocks_beside(way.weight_grad) &&
           way.input_grad.cost.ms + way.weight_grad.cost.ms < query_.device.launches.beside;
  }

  void add_beside(const Way& way, std::vector<Way>& found) const {
    add_beside(way, way.leaves_copy ? std::optional(Engine::kMatmul) : query_.engine, found);
    if (!way.leaves_copy && !query_.engine && has_product(way)) add_beside(way, Engine::kMatmul, found);
  }
  bool has_product(const Way& way) const {
    PlanQuery query = gradient(Operator::kInputGrad, way.copies, query_.device, read_weight(way.weight_grad));
    query.engine = Engine::kMatmul;
    return chosen_if_any(query).has_value();
  }
  // With the multiprocessors shared out by what the gradients take, and once more by what they took then. `engine`: the
  // only one that is asked for the input's gradient.
  void add_beside(const Way& way, std::optional<Engine> engine, std::vector<Way>& found) const {
    const int32_t all = query_.device.multiprocessors;
    double share = way.input_grad.cost.ms / (way.input_grad.cost.ms + way.weight_grad.cost.ms);
    int32_t before = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto part = static_cast<int32_t>(std::lround(std::clamp(share * kParts, 1.0, kParts - 1.0)));
      const int32_t first = all * part / kParts;
      if (first == before || first == 0) return;
      before = first;
      Way beside = way;
      beside.beside = first;
      PlanQuery weight_query = gradient(Operator::kWeightGrad, way.copies, part_of_device(all - first));
      weight_query.sums_bias = way.weight_grad.sums_bias();
      std::optional<OperatorPlan> weight_grad = chosen_if_any(weight_query);
      if (!weight_grad) return;
      beside.weight_grad = *std::move(weight_grad);
      PlanQuery input_query = gradient(Operator::kInputGrad, read_by_input_grad(way.copies, way.leaves_copy),
                                       part_of_device(first), read_weight(beside.weight_grad));
      input_query.engine = engine;
      std::optional<OperatorPlan> input_grad = chosen_if_any(input_query);
      if (!input_grad) return;
      beside.input_grad = *std::move(input_grad);
      const bool slower = beside.input_grad.engine() == Engine::kWgmma && !way.copies.grad.exists;
      const double input = input_grad_ms(beside.input_grad) * (slower ? kWgmmaBeside : 1);
      const double weight = beside.weight_grad.cost.ms;
      share = first * input / (first * input + (all - first) * weight);
      beside.ms += kBeside * std::max(input, weight) - input_grad_ms(way.input_grad) - way.weight_grad.cost.ms;
      if (fits_beside(beside, first)) found.push_back(std::move(beside));
    }
  }

  DeviceTraits part_of_device(int32_t multiprocessors) const {
    DeviceTraits part = query_.device;
    part.bytes_per_ms *= static_cast<double>(multiprocessors) / part.multiprocessors;
    part.multiprocessors = multiprocessors;
    part.kernel_blocks = 1;  // a second block would have one of the other gradient's multiprocessors
    return part;
  }

  bool fits_beside(const Way& way, int32_t first) const {
    return may_be_beside(way) && *blocks_beside(way.input_grad) <= first &&
           *weight_blocks_beside(way.weight_grad) <= query_.device.multiprocessors - first;
  }

  OperatorPlan plan_of(const Way& way) const {
    OperatorPlan input_grad = way.input_grad;
    // Behind copies or a bias's gradient, which wait for all that was before: the bias's for copies, too.
    const bool copies = way.copies.grad.exists || way.copies.input.exists;
    const bool packs_beside = (way.bias_grad || copies) && rounds_of(way.copies) == 1;
    const bool source_beside = packs_beside && copies && !way.bias_grad;  // or that of what begins with it
    if (auto* const of_mma = std::get_if<mma::CorrelationPlan>(&input_grad.plan)) {
      of_mma->packs_beside = packs_beside;
      of_mma->source_beside = source_beside;
    }
    if (auto* const of_wgmma = std::get_if<WgmmaPlan>(&input_grad.plan)) {
      of_wgmma->packs_beside = packs_beside;
      of_wgmma->source_beside = source_beside || of_wgmma->copy.exists;
    }
    OperatorPlan weight_grad = way.weight_grad;
    if (auto* const of_mma = std::get_if<mma::WeightGradPlan>(&weight_grad.plan)) of_mma->beside = way.beside > 0;
    if (auto* const grad = std::get_if<WgmmaWeightGradPlan>(&weight_grad.plan)) grad->beside = way.beside > 0;
    SeparatePlan plan{std::make_shared<const OperatorPlan>(std::move(input_grad)),
                      std::make_shared<const OperatorPlan>(std::move(weight_grad)),
                      nullptr,
                      way.copies.grad,
                      way.copies.input,
                      rounds_of(way.copies),
                      way.beside,
                      way.leaves_copy};
    Cost cost{way.ms, way.input_grad.cost.fitted && way.weight_grad.cost.fitted};
    if (way.bias_grad) {
      plan.bias_grad = std::make_shared<const OperatorPlan>(*way.bias_grad);
      cost.fitted &= way.bias_grad->cost.fitted;
    }
    return {plan, plan.workspace_bytes(), cost};
  }

  using ChosenKey =
      std::tuple<Operator, int, bool, int64_t, std::array<int64_t, 5>, bool, std::array<int64_t, 5>, int32_t>;

  const PlanQuery& query_;
  mutable std::map<ChosenKey, std::optional<OperatorPlan>> chosen_;
};

}  // namespace

std::optional<OperatorPlan> separate_plan(const PlanQuery& query) { return Separate(query).best(); }

std::vector<OperatorPlan> separate_plans(const PlanQuery& query) { return Separate(query).all(); }

}  // namespace convt3d
