#include "engines/wgmma/plan/search.h"

#include <cstdint>
#include <optional>

#include "core/integer.h"
#include "device/swizzle.h"
#include "engines/wgmma/plan/cost.h"

namespace convt3d {
namespace {

// Positions (height x width) up to which images may share a tile; it costs neighbours along the width.
constexpr int64_t kSmallPlane = 128;
// Channels of joined groups, in bytes, up to which joining may pay: beyond, it only multiplies by more zeros.
constexpr int64_t kMostJoinedBytes = 128;
// Most bytes of a packed weight: a thread of the packing, whose number has 31 bits, writes at least 16 bytes.
constexpr int64_t kMostPackedBytes = int64_t{16} << 31;

class Search {
 public:
  Search(const WgmmaProblem& problem, const WgmmaStrides& stride, WgmmaElement element, bool channels_last,
         const OperandCopy& copy, const DeviceTraits& device,
         const std::function<void(const WgmmaPlanParts&, double)>& visit)
      : problem_(problem),
        stride_(stride),
        element_(element),
        channels_last_(channels_last),
        copy_(copy),
        device_(device),
        visit_(visit) {}

  void products() const {
    for (int joined = 1; joined <= kWgmmaMaxJoined; joined *= 2) {
      if (problem_.groups % joined != 0) break;
      const int64_t bytes = joined * problem_.in_channels_per_group() * element_.bytes;
      if (joined > 1 && bytes > kMostJoinedBytes) break;
      arrangements(make_product(problem_, element_, joined));
    }
  }

 private:
  void arrangements(const WgmmaProduct& product) const {
    constexpr WgmmaSlabForm kForms[] = {WgmmaSlabForm::kChannels, WgmmaSlabForm::kWidthPairs, WgmmaSlabForm::kWidthSets,
                                        WgmmaSlabForm::kWidthPairsHeightSets, WgmmaSlabForm::kChannelSets};
    for (const bool width_in_m : {true, false}) {
      for (const WgmmaSlabForm form : kForms) {
        for (const bool folds : {false, true}) {
          for (const bool phase_halos : {false, true}) {
            for (const bool apart : {false, true}) {
              const auto arrangement =
                  arrange(problem_, stride_, channels_last_, product, {width_in_m, form, folds, phase_halos, apart});
              if (arrangement) tiles(product, *arrangement);
            }
          }
        }
      }
    }
  }

  void tiles(const WgmmaProduct& product, const WgmmaArrangement& arrangement) const {
    // One phase of a contiguous width alone is stored only where images share a tile, together with the next pass's.
    const bool apart = !channels_last_ && stride_[2].is_two() && !arrangement.both_widths();
    const int64_t plane = int64_t{arrangement.axis[1].positions} * arrangement.axis[2].positions;
    for (const WgmmaInstruction& instruction : kWgmmaInstructions) {
      if (instruction.sets != arrangement.sets() || instruction.terms != product.terms) continue;
      for (const int image_log : {0, 3}) {
        if (image_log > 0 && (problem_.batch < 8 || plane > kSmallPlane || arrangement.width_pairs())) continue;
        if (!channels_last_ && (image_log > 0 ? !instruction.images : apart)) continue;
        for (int splits = 1; splits <= arrangement.passes(); ++splits) {
          if (arrangement.passes() % (splits * arrangement.summed_phases()) != 0) continue;
          if (apart && arrangement.passes() / splits % 2 != 0) continue;
          visit_tiles(product, arrangement, channels_last_, {instruction, image_log, splits},
                      [&](const WgmmaTile& tile) { cheapest(product, arrangement, tile); });
        }
      }
    }
  }

  struct Candidate {
    WgmmaPlanParts parts;
    double clocks;
  };

  // Panels, pipelines and staging for a tile: the cheapest way.
  void cheapest(const WgmmaProduct& product, const WgmmaArrangement& arrangement, const WgmmaTile& tile) const {
    const WgmmaLoad of_tile = load_of_tile(problem_, element_.bytes, channels_last_, product, arrangement, tile);
    const auto shape = make_store_shape(problem_, element_.bytes, channels_last_, product, arrangement, tile);
    if (!shape) return;
    const WgmmaStore least = make_store(element_.bytes, arrangement, tile, *shape, shape->least_burst, 0);
    std::optional<Candidate> best;
    const int64_t channel_bytes = round_up(int64_t{product.in_channels} * element_.bytes, kWgmmaOperandBytes);
    for (const int position_bytes : {128, 64, 32}) {
      const WgmmaLoad load =
          channels_last_ || copy_.exists ? load_of_channels(element_.bytes, product, position_bytes) : of_tile;
      bool whole_tiles = false;  // two of them: nothing is gained by smaller chunks
      for (int chunks = 1; chunks <= channel_bytes / position_bytes && !whole_tiles; ++chunks) {
        const auto panels =
            make_panels(element_.bytes, device_.shared_bytes, product, arrangement, tile, load, position_bytes, chunks);
        if (!panels) continue;
        const auto loops = make_loops(product, arrangement, *panels);
        if (!loops || packed_weight_bytes(product, arrangement, *loops) > kMostPackedBytes) continue;
        whole_tiles = share({product, arrangement, tile, load, *panels, *loops, *shape, least}, best) && chunks == 1;
      }
    }
    if (best) visit_(best->parts, best->clocks);
  }

  // What shared memory is shared out for.
  struct Sharing {
    const WgmmaProduct& product;
    const WgmmaArrangement& arrangement;
    const WgmmaTile& tile;
    const WgmmaLoad& load;
    const WgmmaPanels& panels;
    const WgmmaLoops& loops;
    const WgmmaStoreShape& shape;
    const WgmmaStore& least;  // of the shape, with the smallest bursts
  };

  // The candidates of every pipeline that may pay, of which a cheaper one replaces `best`. Whether one holds two whole
  // chunks.
  bool share(const Sharing& of, std::optional<Candidate>& best) const {
    const auto store_of = [&](int32_t least_burst, int64_t bytes) {
      return make_store(element_.bytes, of.arrangement, of.tile, of.shape, least_burst, bytes);
    };
    const WgmmaPartBytes tables = table_bytes(of.tile, of.loops, of.load, of.shape.segments);
    const int64_t taken = most_bytes(tables) + of.panels.tile_bytes + kWgmmaLeastWeightStages * kWgmmaWeightStageBytes;
    if (taken + staging_bytes(of.least) > device_.shared_bytes) return false;
    // With larger bursts more is stored in the background, with smaller ones there are more tiles and weights ahead.
    const WgmmaStore widest = store_of(of.least.burst, whole_patterns(device_.shared_bytes - taken));
    bool two_tiles = false;
    for (const bool wide : {false, true}) {
      if (wide && widest.burst == of.least.burst) continue;
      const WgmmaStore& staged = wide ? widest : of.least;
      const auto shares =
          share_memory(device_.shared_bytes, of.arrangement, of.tile, of.panels, of.loops, tables, staged);
      if (!shares) continue;
      const WgmmaStore store = store_of(staged.burst, staging_bytes(staged) + whole_patterns(shares->spare));
      if (!reads_stay_inside(of.arrangement, of.tile, of.load, of.panels, *shares, store)) continue;
      const WgmmaMemory memory = place_parts(of.panels, *shares, tables, store);
      for (const bool ping_pong : {true, false}) {
        if (ping_pong && !can_ping_pong(of.arrangement, of.panels, of.loops, *shares)) continue;
        const WgmmaPipelines pipelines = make_pipelines(of.arrangement, of.tile, of.loops, *shares, ping_pong);
        const WgmmaGrid grid = make_grid(of.product, of.tile, pipelines, device_.multiprocessors);
        const WgmmaPlanParts parts{of.product, of.arrangement, of.tile, of.load, of.panels, of.loops,
                                   pipelines,  store,          memory,  grid,    copy_};
        const double clocks = expected_clocks(problem_, element_.bytes, device_, parts);
        if (!best || clocks < best->clocks) best = Candidate{parts, clocks};
      }
      two_tiles = two_tiles || shares->tile_stages >= 2;
    }
    return two_tiles;
  }

  static int64_t whole_patterns(int64_t bytes) { return bytes / kSwizzleBytes * kSwizzleBytes; }

  const WgmmaProblem& problem_;
  const WgmmaStrides& stride_;
  WgmmaElement element_;
  bool channels_last_;
  const OperandCopy& copy_;
  const DeviceTraits& device_;
  const std::function<void(const WgmmaPlanParts&, double)>& visit_;
};

}  // namespace

void visit_plans(const WgmmaProblem& problem, WgmmaElement element, bool channels_last, bool copies,
                 const DeviceTraits& device, const std::function<void(const WgmmaPlanParts&, double)>& visit) {
  const std::optional<WgmmaStrides> stride = wgmma_strides(problem);
  if (!stride) return;
  // Larger channels are left to the engine that is tested with them.
  for (const Int3& size : {problem.input_size, problem.output_size}) {
    if (size[0] * size[1] * size[2] > UINT32_MAX) return;
  }
  const OperandCopy none{};
  Search(problem, *stride, element, channels_last, none, device, visit).products();
  if (!copies || channels_last || !can_copy(problem, element)) return;
  const OperandTraits input = dense_operand(problem.in_channels, problem.input_size, false);
  const OperandCopy copy = input_copy(problem, element.bytes, input);
  Search(problem, *stride, element, channels_last, copy, device, visit).products();
}

}  // namespace convt3d
