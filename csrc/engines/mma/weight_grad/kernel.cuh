// Weight gradient: a block sums one tile of (tap and output channel) x input channel over one split of the boxes of
// positions. Some of its warps load boxes, the others multiply those that are there. A second kernel adds the sums.
#pragma once

#include "device/overlap.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "device/ptx/threads.cuh"
#include "engines/mma/tile/pipeline.cuh"
#include "engines/mma/weight_grad/bias_rows.cuh"
#include "engines/mma/weight_grad/params.cuh"
#include "engines/mma/weight_grad/product.cuh"
#include "engines/mma/weight_grad/tables.cuh"

namespace convt3d::mma {

static_assert(sizeof(StageBarriers) <= kGradBarrierBytes && kMostGradStages <= kMostPipelineStages);

// What the loading warps do. Both operands go through the same code, one after the other. kSumsBias: they may sum rows
// for the bias's gradient.
template <typename T, bool kSumsBias = true>
class GradLoader {
 public:
  // `thread`: number among the loading threads.
  __device__ __forceinline__ GradLoader(const WeightGradParams<T>& params, const GradTile& tile, unsigned char* shared,
                                        int32_t thread)
      : params_(params),
        tile_(tile),
        shared_(shared),
        thread_(thread),
        barriers_(*reinterpret_cast<StageBarriers*>(shared + params.layout.barriers)),
        meet_(&barriers_.loaders),
        sums_bias_(kSumsBias && sums_bias(params, tile)),
        bias_rows_(params, tile, shared, thread) {}

  // `waits`: the kernel before may make an operand, or still use the workspace, and is waited for.
  __device__ __forceinline__ void run(bool waits) {
    Boxes beginning(params_, tile_.split);
    Boxes arriving = beginning;
    const int32_t boxes = beginning.walk.left;
    const bool rows = params_.source[0].way == LoadWay::kRows || params_.source[1].way == LoadWay::kRows;
    loader(operand()).make_fixed(fillers());
    if (sums_bias_) bias_rows_.clear();
    if (waits) wait_for_kernel_before();
    meet_();
    int32_t begun = 0;
    int32_t done = 0;
    while (true) {
      const bool begins = begun < boxes && begun - done < params_.ahead;
      if (sums_bias_) sum_bias(done == boxes ? boxes : boxes_before(begins, begun, done));
      if (done == boxes) break;
      if (begins) {
        begin(beginning);
        if (params_.only_copies) {
          hopper::barrier_arrive_copied(&barriers_.full[beginning.turn.index]);
          ++done;
        } else {
          async_commit();
        }
        beginning.advance(params_);
        ++begun;
        continue;
      }
      wait_for_copies(begun - done - 1);
      if (rows) meet_();
      if (params_.only_rows) wait_until_empty(arriving.turn);
#pragma unroll 1
      for (int o = 0; o < 2; ++o) {
        if (!loader(o).settles()) continue;
        const LoadBox box = box_of(arriving, o);
        loader(o).settle(stage_of(arriving, box, o));
      }
      arrive_warp(&barriers_.full[arriving.turn.index]);
      arriving.advance(params_);
      ++done;
    }
    async_commit();
    async_wait<0>();  // of stages that nobody awaited here
    if (!sums_bias_) return;
    meet_();
    bias_rows_.gather();
    meet_();
    bias_rows_.store();
  }

 private:
  // A walk over the split's boxes, with the stage, the table and the raw rows in shared memory that each box has.
  struct Boxes {
    BoxWalk walk;
    StageTurn turn;
    int32_t table = 0;
    int32_t raw = 0;

    __device__ __forceinline__ Boxes(const WeightGradParams<T>& params, int64_t split) : walk(params, split) {}
    __device__ __forceinline__ void advance(const WeightGradParams<T>& params) {
      walk.advance(params);
      turn.advance(params.stages);
      if (++table == params.tables) table = 0;
      if (++raw == params.ahead) raw = 0;
    }
  };

  __device__ __forceinline__ void wait_until_empty(const StageTurn& turn) const {
    hopper::barrier_wait(&barriers_.empty[turn.index], turn.parity ^ 1);
  }
  // Boxes whose stage is empty before that of the next one to begin or to settle is waited for.
  __device__ __forceinline__ int32_t boxes_before(bool begins, int32_t begun, int32_t done) const {
    if (begins == params_.only_rows) return 0;  // nothing waits
    return (begins ? begun : done) + 1 - params_.stages;
  }
  // Sums the bias's rows of the boxes up to this number, which have all begun.
  __device__ __forceinline__ void sum_bias(int32_t boxes) {
    for (; summed_ < boxes; ++summed_) {
      if (summed_ == 0) {
        sync_threads(kBiasTables, kGradThreads);
        bias_rows_.begin();
        meet_();
      }
      hopper::barrier_wait(&barriers_.full[summing_.index], summing_.parity);
      bias_rows_.add(hopper::shared_address(shared_) +
                     static_cast<uint32_t>(params_.layout.stages + summing_.index * params_.layout.stage_bytes));
      arrive_warp(&barriers_.empty[summing_.index]);
      summing_.advance(params_.stages);
    }
  }

  // Half of the warps make the tables of each operand.
  __device__ __forceinline__ int operand() const { return thread_ / (kLoadingThreads / 2); }
  __device__ __forceinline__ Fillers fillers() const { return {thread_ % (kLoadingThreads / 2), kLoadingThreads / 2}; }

  using Loader = TileLoader<T, kLoadingThreads, kIsPaired<T> ? LoadedTiles::kChannelRows : LoadedTiles::kAny>;
  __device__ __forceinline__ Loader loader(int o) const {
    return {params_.source[o], thread_, shared_ + (o == 0 ? params_.layout.grad_fixed : params_.layout.input_fixed)};
  }

  __device__ __forceinline__ LoadBox box_of(const Boxes& at, int o) const {
    LoadBox box{};
    box.image = int64_t{at.walk.at[0]} * params_.source[0].tile.images;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      box.first[a] = int64_t{at.walk.at[a + 1]} * params_.box[a].value;
      if (o == 0) box.first[a] = box.first[a] * params_.taps[a].step + tile_.offset[a];
    }
    return box;
  }
  __device__ __forceinline__ unsigned char* table_of(const Boxes& at, int o) const {
    return shared_ + params_.layout.tables + at.table * params_.layout.table_bytes +
           (o == 0 ? 0 : params_.layout.input_table);
  }
  __device__ __forceinline__ LoadStage stage_of(const Boxes& at, const LoadBox& box, int o) const {
    const GradLayout& layout = params_.layout;
    const int32_t channels = o == 0 ? params_.row_channels : params_.n_channels;
    const int32_t from = o == 0 ? tile_.row_first : tile_.n_first;
    const uint32_t shared = hopper::shared_address(shared_);
    return {box, hopper::shared_address(table_of(at, o)), tile_.group * params_.source_group[o] + from,
            // A block of several groups has all of their channels.
            params_.warps_groups > 1 ? params_.warps_groups * channels : channels - from,
            shared +
                static_cast<uint32_t>(layout.stages + at.turn.index * layout.stage_bytes + (o == 0 ? 0 : layout.input)),
            shared + static_cast<uint32_t>(layout.raw + at.raw * layout.raw_bytes + (o == 0 ? 0 : layout.input_raw))};
  }

  // All that reads the table, and the raw rows, that are written here is done: whoever meets has settled the box
  // before.
  __device__ __forceinline__ void begin(const Boxes& at) {
    loader(operand()).make_table(box_of(at, operand()), table_of(at, operand()), fillers());
    meet_();
    if (!params_.only_rows) wait_until_empty(at.turn);
#pragma unroll 1
    for (int o = 0; o < 2; ++o) {
      const LoadBox box = box_of(at, o);
      loader(o).load(stage_of(at, box, o));
    }
  }

  const WeightGradParams<T>& params_;
  const GradTile& tile_;
  unsigned char* shared_;
  int32_t thread_;
  StageBarriers& barriers_;
  LoaderMeetings meet_;
  bool sums_bias_;
  BiasRows<T> bias_rows_;
  int32_t summed_ = 0;  // boxes whose rows are summed
  StageTurn summing_;   // the stage of the box after these
};

// A GradMultiplier's RowSums where its warps sum no rows of grad_output.
struct NoRowSums {
  static constexpr bool kExist = false;

  __device__ __forceinline__ bool wanted() const { return false; }
  template <typename Product>
  __device__ __forceinline__ void add(const GradShare&, const Product&) const {}
};

constexpr int kGradMultipliers = 2;  // the named barrier of the warps that multiply

// What the multiplying warps do. What a warp knows of its share lies in shared memory, so that nothing of it that only
// the store needs is in registers while the warp multiplies.
template <typename T, int kTerms, int kRows, int kColumns, typename RowSums = NoRowSums>
class GradMultiplier {
  using Product = GradProduct<T, kTerms, kRows, kColumns, RowSums::kExist>;

 public:
  __device__ __forceinline__ GradMultiplier(const WeightGradParams<T>& params, unsigned char* shared,
                                            const RowSums& row_sums = {})
      : params_(params), shared_(shared), row_sums_(row_sums) {}

  __device__ __forceinline__ void run() const {
    const GradShare& share = share_of(static_cast<int32_t>(threadIdx.x));
    const auto* const eight = reinterpret_cast<const GradEight*>(shared_ + params_.layout.eights) + 2 * share.first;
    const int32_t last = share.eights - 1;
    const int32_t grad_step = params_.source[0].tile.channel_step(sizeof(T));
    const int32_t input_step = params_.source[1].tile.channel_step(sizeof(T));
    const auto grad_group = static_cast<uint32_t>(share.group * params_.row_channels * grad_step);
    Product product(share.rows, {grad_step, input_step}, params_.source[0].tile.column_step,
                    // An eight that the warp does not have reads where one does that it has.
                    [&](int32_t i) { return eight[max(0, min(i, last))].grad + grad_group; });
    constexpr uint32_t kEntriesBytes = kGradStep * sizeof(PositionEntry);
    const auto address = [&](int32_t offset) {
      return hopper::shared_address(shared_) + static_cast<uint32_t>(hopper::computed_here(offset));
    };
    const auto barriers = [&]() -> StageBarriers& {
      return *reinterpret_cast<StageBarriers*>(shared_ + hopper::computed_here(params_.layout.barriers));
    };
    StageTurn turn;
    for (int32_t left = share.boxes; left > 0; --left) {
      hopper::barrier_wait(&barriers().full[turn.index], turn.parity);
      const uint32_t grad =
          address(params_.layout.stages) + static_cast<uint32_t>(turn.index * params_.layout.stage_bytes);
      const GradShare& here = share_here();
      const uint32_t input = grad + static_cast<uint32_t>(params_.layout.input) +
                             Product::to_columns(here.group * params_.n_channels + here.n * kColumns * 8,
                                                 params_.source[1].tile.channel_step(sizeof(T)), hopper::lane_here());
      product.add(address(params_.layout.positions) + static_cast<uint32_t>(here.k) * kEntriesBytes,
                  static_cast<uint32_t>(params_.warps_k) * kEntriesBytes, here.steps, grad, input, summed_here());
      arrive_warp(&barriers().empty[turn.index]);
      turn.advance(params_.stages);
      if (left == share_here().joins_at) {
        store(product, left);
        if (summed_here().step > 0) row_sums_.add(share_here(), product);
        product.clear();
        __syncwarp();  // all lanes have read joins_at
        if (hopper::lane_here() == 0) share_here().joins_at = joins_next(params_, left);
      }
    }
  }

 private:
  __device__ __forceinline__ GradShare& share_of(int32_t thread) const {
    return reinterpret_cast<GradShare*>(shared_ + params_.layout.shares)[thread / 32];
  }
  // The share, of which nothing is kept in registers while the warp multiplies.
  __device__ __forceinline__ GradShare& share_here() const {
    return share_of(hopper::computed_here(static_cast<int32_t>(threadIdx.x)));
  }

  // Which positions of a box the warp sums rows of.
  __device__ __forceinline__ Summed summed_here() const {
    if (!row_sums_.wanted()) return {};
    const GradShare& share = share_here();
    if (share.n != 0) return {};  // warps beside each other have the same rows
    if constexpr (!Product::kRowParts) {
      return {positions_of_box(params_) - share.k * kGradStep, params_.warps_k * kGradStep};
    } else {
      const int32_t step = params_.warps_k * kGradStep;
      Summed summed{positions_of_box(params_) - share.k * kGradStep, step};
      // Halves begin at 0, 8, step, step + 8, ...: those that begin before the positions that are left.
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t entry = hopper::lane_here() % 4 * 2 + i;
        const int32_t position = params_.source[0].tile.has_channel_rows() ? position_of_entry(entry) : entry;
        const int32_t left = summed.left - position;
        summed.halves[i] = small_quotient(max(0, left + step - 1), step) +
                           small_quotient(max(0, left - kGradStep / 2 + step - 1), step);
      }
      return summed;
    }
  }

  // Joins the sums in memory, or begins them. No other warp has these elements of this partial. `left`: boxes left, the
  // one at hand among them.
  __device__ __forceinline__ void store(const Product& product, int32_t left) const {
    const int thread = hopper::computed_here(static_cast<int>(threadIdx.x));
    const GradShare& share = share_of(thread);
    const bool first = !params_.joins && share.boxes - left < params_.segment_boxes;
    const auto* const eight = reinterpret_cast<const GradEight*>(shared_ + params_.layout.eights) + 2 * share.first;
    const int32_t row = thread % 32 / 4;
    const int32_t column = thread % 4 * 2;
    const int32_t columns = share.columns - column;
    float* const sums = share.sums + int64_t{row} * params_.n_pitch + column;
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (2 * m + half >= share.eights) continue;
        const GradEight at = eight[2 * m + half];
        if (row >= at.channels) continue;
        auto* const to = reinterpret_cast<float2*>(sums + int64_t{at.row} * params_.n_pitch);
        float2 before[kColumns] = {};
        if (!first) {
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            if (n * 8 < columns) before[n] = to[n * 4];
          }
        }
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          const float* const sum = product.sum[m][n] + 2 * half;
          if (n * 8 < columns) to[n * 4] = {before[n].x + sum[0], before[n].y + sum[1]};
        }
      }
    }
  }

  const WeightGradParams<T>& params_;
  unsigned char* shared_;
  RowSums row_sums_;
};

template <typename T, int kTerms, int kColumns>
__global__ void __launch_bounds__(kGradThreads, 1)
    convt3d_mma_weight_grad(const __grid_constant__ WeightGradParams<T> params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // elsewhere an empty body, which the plan never chooses
  begin_dependents();                                // who adds the sums waits for them
  unsigned char* const shared = dynamic_shared_memory;
  const GradTile tile(params, blockIdx.x);
  const auto thread = static_cast<int32_t>(threadIdx.x) - 32 * kGradWarps;
  const bool sums = sums_bias(params, tile);
  if (tile.eights(params) == 0) {
    if (sums && thread >= 0) BiasRows<T>(params, tile, shared, thread).store();
    return;
  }
  if (threadIdx.x == 0) {
    reinterpret_cast<StageBarriers*>(shared + params.layout.barriers)
        ->begin(params.stages, kLoadingWarps, kGradWarps + (sums ? kLoadingWarps : 0), params.only_copies);
  }
  __syncthreads();
  if (thread >= 0) {
    GradLoader<T>(params, tile, shared, thread).run(!params.beside);
    if (params.beside) wait_for_kernel_before();  // which ends first, as what follows waits for this kernel alone
  } else {
    fill_tables(params, tile, kColumns, shared, {static_cast<int32_t>(threadIdx.x), 32 * kGradWarps});
    if (sums) arrive_threads(kBiasTables, kGradThreads);
    sync_threads(kGradMultipliers, 32 * kGradWarps);
    GradMultiplier<T, kTerms, grad_rows(kColumns, kTerms), kColumns>(params, shared).run();
  }
#endif
}

}  // namespace convt3d::mma
