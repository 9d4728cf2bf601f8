// Forward on Hopper's matrix units: one block computes block_m_tiles x 64 rows of M at its tile of positions, for every
// outer residue.
//
//   A (64 x K of a stage)  weights, from the ring that a bulk copy fills ahead
//   B (K x 64 positions)   8 x 8 positions of the tile, shifted by the offset of the tap
// Two warpgroups: beside each other along M where the block has two tiles of M, else along N.
#pragma once

#include "kernels/halo_loader.cuh"
#include "kernels/hopper.cuh"
#include "kernels/wgmma.cuh"

namespace convt3d {

constexpr int kHaloStagingRows = 4;       // fragments of a warp in its staging at a time
constexpr int kHaloFragmentFloats = 192;  // 16 rows x 8 columns, padded
constexpr int kHaloStagingFloats = kHaloStagingRows * kHaloFragmentFloats;  // of a warp

constexpr int kHaloRunSteps = 4;  // steps issued together

template <int kNTiles>
struct HaloFragment {
  float tile[kNTiles][32];
};

template <int kNTiles>
__device__ __forceinline__ void clear(HaloFragment<kNTiles>& c) {
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 32; ++i) c.tile[n][i] = 0;
  }
}

// The compiler knows of no other link between the accumulators and the wait for the products that fill them.
template <int kNTiles>
__device__ __forceinline__ void fence_registers(HaloFragment<kNTiles>& c) {
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(c.tile[n][i])::"memory");
  }
}

// One step of K for every N tile of a warpgroup.
template <typename T, int kNTiles>
__device__ __forceinline__ void multiply_step(HaloFragment<kNTiles>& c, uint64_t a, const uint64_t (&b_base)[kNTiles],
                                              uint32_t b_offset) {
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) hopper::wgmma<T>(c.tile[n], a, b_base[n] + b_offset);
}

struct HaloBarriers {
  uint64_t full[kHaloRing];
  uint64_t empty[kHaloRing];
};

// From one warp's accumulators (a slab: 16 rows) to memory: through shared memory, into whichever order is contiguous
// there, then bias, ReLU and one rounding. What a lane stores where is the same for every fragment of 16 rows x 8
// columns.
template <typename T>
class HaloEpilogue {
 public:
  __device__ __forceinline__ HaloEpilogue(const HaloParams<T>& params, const HaloSlab& slab, int64_t group,
                                          float* staging)
      : params_(params), staging_(staging) {
    const HaloPlan& plan = params.plan;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool channels_last = params.destination_channels_contiguous;
    const int outs_log = plan.pair_width ? 4 : 3;  // outputs along the width of one fragment
    const int channels_log = 7 - outs_log;         // ... and its channels
    const int fast_log = channels_last ? channels_log : outs_log;
    pitch_ = (1 << fast_log) + 4;
    // A thread's four accumulators are neighbours as they are.
    direct_ = params.destination_vectors && plan.pair_width && !channels_last;
    // Where the four accumulators of a fragment go.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int column = lane % 4 * 2 + i % 2;
      const int channel = plan.pair_width ? lane / 4 : row;
      const int out = plan.pair_width ? 2 * column + i / 2 : column;
      put_[i] = channels_last ? out * pitch_ + channel : channel * pitch_ + out;
    }
    // What this lane stores: four neighbours, or one of each 32.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int index = params.destination_vectors ? 4 * lane + i : lane + 32 * i;
      const int fast = index & ((1 << fast_log) - 1);
      const int slow = index >> fast_log;
      const int channel = slab.channel + (channels_last ? fast : slow);
      const int out = channels_last ? slow : fast;
      get_[i] = slow * pitch_ + fast;
      out_[i] = plan.pair_width ? out : out * plan.axis[2].stride + slab.width;
      const int64_t dst_channel = group * plan.out_channels + channel;
      exists_[i] = channel < plan.out_channels;
      offset_[i] = dst_channel * params.destination_stride.c + out_[i] * params.destination_stride.w;
      bias_[i] = params.bias != nullptr && exists_[i]
                     ? to_accumulator(__ldg(params.bias + dst_channel * params.bias_stride))
                     : 0;
    }
  }

  // The fragments of neighbouring height rows.
  __device__ __forceinline__ void store(const float* fragments, const int64_t (&row_offset)[kHaloStagingRows],
                                        const bool (&row_exists)[kHaloStagingRows], int first_out) {
    if (direct_) {
#pragma unroll
      for (int row = 0; row < kHaloStagingRows; ++row) {
        const float* c = fragments + 4 * row;
        if (row_exists[row]) store_four(c[0], c[2], c[1], c[3], row_offset[row], first_out);
      }
      return;
    }
#pragma unroll
    for (int row = 0; row < kHaloStagingRows; ++row) {
#pragma unroll
      for (int i = 0; i < 4; ++i) staging_[row * kHaloFragmentFloats + put_[i]] = fragments[4 * row + i];
    }
    __syncwarp();
#pragma unroll
    for (int row = 0; row < kHaloStagingRows; ++row) {
      if (row_exists[row]) store_row(staging_ + row * kHaloFragmentFloats, row_offset[row], first_out);
    }
    __syncwarp();
  }

 private:
  __device__ __forceinline__ void store_row(const float* staged, int64_t row_offset, int first_out) {
    if (params_.destination_vectors) {
      const float4 value = *reinterpret_cast<const float4*>(staged + get_[0]);
      store_four(value.x, value.y, value.z, value.w, row_offset, first_out);
      return;
    }
    const int left = params_.plan.axis[2].dst_size - first_out;
    T* destination = params_.destination + row_offset;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (exists_[i] && out_[i] < left) destination[offset_[i]] = finish(staged[get_[i]], i);
    }
  }
  __device__ __forceinline__ void store_four(float a, float b, float c, float d, int64_t row_offset, int first_out) {
    if (!exists_[0] || out_[0] >= params_.plan.axis[2].dst_size - first_out) return;
    Quad<T> quad;
    quad.value[0] = finish(a, 0);
    quad.value[1] = finish(b, 1);
    quad.value[2] = finish(c, 2);
    quad.value[3] = finish(d, 3);
    store_quad_vector(params_.destination + row_offset + offset_[0], quad);
  }
  __device__ __forceinline__ T finish(float value, int i) const {
    value += bias_[i];
    if (params_.relu && value < 0) value = 0;  // a NaN stays
    return from_accumulator<T>(value);
  }

  const HaloParams<T>& params_;
  float* staging_;
  bool direct_;
  int pitch_;
  int put_[4];
  int get_[4];
  int out_[4];
  bool exists_[4];
  int64_t offset_[4];
  float bias_[4];
};

template <typename T, int kNTiles>
__global__ void __launch_bounds__(kHaloThreads, halo_blocks_per_sm(kNTiles))
    convt3d_halo_forward(const __grid_constant__ HaloParams<T> params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere an empty body, which the plan never chooses
  const HaloPlan& plan = params.plan;
  extern __shared__ __align__(128) unsigned char shared[];
  HaloBarriers& barriers = *reinterpret_cast<HaloBarriers*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warpgroup = warp / 4;
  float* staging = reinterpret_cast<float*>(shared + 1024) + warp * kHaloStagingFloats;
  unsigned char* ring = shared + 1024 + (kHaloThreads / 32) * kHaloStagingFloats * 4;
  const uint32_t stage_bytes = static_cast<uint32_t>(plan.stage_steps * plan.step_bytes);
  unsigned char* planes = ring + kHaloRing * stage_bytes;

  // Which tile: width fastest, then height, depth, block of M, group, image.
  int64_t rest = blockIdx.x;
  const int tile_w = static_cast<int>(rest % plan.tiles[2]);
  rest /= plan.tiles[2];
  const int tile_h = static_cast<int>(rest % plan.tiles[1]);
  rest /= plan.tiles[1];
  const int m_blocks = plan.m_tiles / plan.block_m_tiles;
  const int m_block = static_cast<int>(rest % m_blocks);
  rest /= m_blocks;
  const int tile_d = static_cast<int>(rest % plan.tiles[0]);
  rest /= plan.tiles[0];
  const int64_t group = rest % plan.groups;
  const int64_t image = rest / plan.groups;

  const int first[3] = {tile_d * plan.tile[0], tile_h * plan.tile[1], tile_w * plan.tile[2]};
  const int origin[3] = {first[0] + plan.axis[0].low, first[1] + plan.axis[1].low, first[2] + plan.axis[2].low};
  const int64_t source_offset = image * params.source.stride.n + group * plan.in_channels * params.source.stride.c;

  const int chunks = plan.planes / plan.chunk_planes;
  const int stages = (plan.steps + plan.stage_steps - 1) / plan.stage_steps;
  const unsigned char* stream = params.weight + (group * m_blocks + m_block) * plan.steps * plan.step_bytes;
  const auto fill = [&](int stage) {
    const int slot = stage % kHaloRing;
    const int64_t first_byte = static_cast<int64_t>(stage) * stage_bytes;
    const uint32_t bytes =
        static_cast<uint32_t>(min(static_cast<int64_t>(stage_bytes), plan.steps * plan.step_bytes - first_byte));
    hopper::barrier_arrive_expect(&barriers.full[slot], bytes);
    hopper::copy_to_shared(ring + slot * stage_bytes, stream + first_byte, bytes, &barriers.full[slot]);
  };

  if (threadIdx.x == 0) {
    for (int i = 0; i < kHaloRing; ++i) {
      hopper::barrier_init(&barriers.full[i], 1);
      hopper::barrier_init(&barriers.empty[i], kHaloThreads / 128);
    }
    hopper::barrier_init_fence();
    for (int i = 0; i < kHaloRing && i < stages; ++i) fill(i);
  }

  const uint32_t ring_address = hopper::shared_address(ring);
  const uint32_t planes_address = hopper::shared_address(planes);
  const uint32_t plane_bytes = static_cast<uint32_t>(plan.plane_positions) * 16;
  const uint32_t row_plane_bytes = static_cast<uint32_t>(64 * plan.block_m_tiles) * 16;
  const int m_of_block = plan.block_m_tiles == 2 ? warpgroup : 0;
  const int first_n_tile = plan.block_m_tiles == 2 ? 0 : warpgroup * kNTiles;
  const int n_tiles_w = plan.tile[2] / 8;

  // Descriptors: of the ring's first rows, and of each N tile's first positions. Bytes further on are added in units
  // of 16.
  const uint64_t a_base = hopper::matrix_descriptor(ring_address + m_of_block * 64 * 16, row_plane_bytes, 128);
  uint64_t b_base[kNTiles];
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) {
    const int tile = first_n_tile + n;
    const int position = tile / n_tiles_w * plan.halo[1] * plan.halo[2] + tile % n_tiles_w * 8;
    b_base[n] = hopper::matrix_descriptor(planes_address + position * 16, plane_bytes, plan.halo[2] * 16);
  }
  const uint32_t a_step = static_cast<uint32_t>(plan.step_bytes / 16);
  const uint32_t b_step = 2 * static_cast<uint32_t>(plan.plane_positions);

  const HaloSlab slab = halo_slab(plan, (m_block * plan.block_m_tiles + m_of_block) * 4 + warp % 4);
  int stage = 0;       // of the stream
  int stage_step = 0;  // in the stage
  for (int outer_d = 0; outer_d < plan.axis[0].outer; ++outer_d) {
    for (int outer_h = 0; outer_h < plan.axis[1].outer; ++outer_h) {
      const HaloTaps& taps_d = plan.axis[0].taps[outer_d];
      const HaloTaps& taps_h = plan.axis[1].taps[outer_h];
      const HaloTaps& taps_w = plan.axis[2].taps[0];
      const int chunk_steps = plan.chunk_planes / 2;
      HaloFragment<kNTiles> c;
      clear(c);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        if (chunks > 1 || (outer_d == 0 && outer_h == 0)) {
          __syncthreads();
          if (params.source.pieces) {
            load_halo_tile<T, true>(params, source_offset, origin, chunk * plan.chunk_planes, planes);
          } else {
            load_halo_tile<T, false>(params, source_offset, origin, chunk * plan.chunk_planes, planes);
          }
          hopper::fence_async_proxy();
          __syncthreads();
        }
        for (int d = 0; d < taps_d.count; ++d) {
          for (int h = 0; h < taps_h.count; ++h) {
            for (int w = 0; w < taps_w.count; ++w) {
              const int shift =
                  ((taps_d.offset[d] - plan.axis[0].low) * plan.halo[1] + taps_h.offset[h] - plan.axis[1].low) *
                      plan.halo[2] +
                  taps_w.offset[w] - plan.axis[2].low;
              for (int step = 0; step < chunk_steps;) {
                const int slot = stage % kHaloRing;
                if (stage_step == 0) hopper::barrier_wait(&barriers.full[slot], stage / kHaloRing % 2);
                // Whole runs are unrolled; what is left of a stage or a chunk goes step by step.
                const int left = min(chunk_steps - step, plan.stage_steps - stage_step);
                // (the shuffle shows the compiler that the branch is uniform; else it serializes the products)
                const int run = __shfl_sync(0xffffffff, left >= kHaloRunSteps ? kHaloRunSteps : 1, 0);
                const uint64_t a = a_base + slot * (stage_bytes / 16) + stage_step * a_step;
                const uint32_t b_offset = shift + step * b_step;
                hopper::wgmma_fence();
                if (run == kHaloRunSteps) {
#pragma unroll
                  for (int i = 0; i < kHaloRunSteps; ++i) {
                    multiply_step<T>(c, a + i * a_step, b_base, b_offset + i * b_step);
                  }
                } else {
                  multiply_step<T>(c, a, b_base, b_offset);
                }
                hopper::wgmma_commit();
                step += run;
                stage_step += run;
                if (stage_step < plan.stage_steps) continue;
                stage_step = 0;
                // The products of the stages before are done: hand the last one's slot back, and refill the one before
                // that, which the other warpgroup has left by now too.
                hopper::wgmma_wait<1>();
                if (stage > 0 && threadIdx.x % 128 == 0)
                  hopper::barrier_arrive(&barriers.empty[(stage - 1) % kHaloRing]);
                if (threadIdx.x == 0 && stage >= 2 && stage - 2 + kHaloRing < stages) {
                  hopper::barrier_wait(&barriers.empty[(stage - 2) % kHaloRing], (stage - 2) / kHaloRing % 2);
                  fill(stage - 2 + kHaloRing);
                }
                ++stage;
              }
            }
          }
        }
        hopper::wgmma_wait<0>();
      }
      fence_registers(c);

      const int residue_d = plan.axis[0].in_m > 1 ? slab.depth : outer_d;
      const int residue_h = plan.axis[1].in_m > 1 ? slab.height : outer_h;
      if (slab.channel < plan.out_channels) {
        HaloEpilogue<T> epilogue(params, slab, group, staging);
        const int64_t image_offset = image * params.destination_stride.n;
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) {
          const int tile = first_n_tile + n;
          const int out_d = (first[0] + tile / n_tiles_w) * plan.axis[0].stride + residue_d;
          const int out_w = (first[2] + tile % n_tiles_w * 8) * plan.axis[2].stride;
          if (out_d >= plan.axis[0].dst_size || out_w >= plan.axis[2].dst_size) continue;
#pragma unroll
          for (int j = 0; j < 8; j += kHaloStagingRows) {
            int64_t row_offset[kHaloStagingRows];
            bool row_exists[kHaloStagingRows];
#pragma unroll
            for (int row = 0; row < kHaloStagingRows; ++row) {
              const int out_h = (first[1] + j + row) * plan.axis[1].stride + residue_h;
              row_exists[row] = out_h < plan.axis[1].dst_size;
              row_offset[row] = image_offset + params.destination_stride.spatial(out_d, out_h, out_w);
            }
            epilogue.store(&c.tile[n][4 * j], row_offset, row_exists, out_w);
          }
        }
      }
    }
  }
#endif
}

}  // namespace convt3d
