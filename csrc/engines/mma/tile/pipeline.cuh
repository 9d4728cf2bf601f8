// Stages of shared memory, one after another in turn, that some warps of a block fill and the others use.
//
//     loading warps                      warps that use the stages
//     wait(empty[turn], turn.parity ^ 1) wait(full[turn], turn.parity)
//     fill the stage                     use it
//     arrive_warp(full[turn])            arrive_warp(empty[turn])
//     turn.advance(stages)               turn.advance(stages)
#pragma once

#include "device/ptx/async_copy.cuh"
#include "device/ptx/barrier.cuh"
#include "device/ptx/threads.cuh"

namespace convt3d::mma {

// All but the thread's last `pending` groups have arrived, or more.
__device__ __forceinline__ void wait_for_copies(int32_t pending) {
  if (pending <= 0) {
    async_wait<0>();
  } else if (pending == 1) {
    async_wait<1>();
  } else {
    async_wait<2>();
  }
}

constexpr int kMostPipelineStages = 8;

struct StageBarriers {
  uint64_t full[kMostPipelineStages];
  uint64_t empty[kMostPipelineStages];
  uint64_t loaders;  // where the loading warps meet

  // By one thread; then all threads of the block meet. Stages of nothing but copies can be filled without anybody
  // waiting for them (`copied`): each loading thread arrives by hopper::barrier_arrive_copied(), not each warp.
  __device__ __forceinline__ void begin(int32_t stages, int32_t loading_warps, int32_t using_warps,
                                        bool copied = false) {
#pragma unroll 1  // hundreds of instructions would be fetched that hardly anybody executes
    for (int32_t i = 0; i < stages; ++i) {
      hopper::barrier_init(&full[i], copied ? 32 * loading_warps : loading_warps);
      hopper::barrier_init(&empty[i], using_warps);
    }
    hopper::barrier_init(&loaders, loading_warps);
  }
};

// A stage, and which of a barrier's phases ends with what is done to it this time round. Those who wait for stages to
// be empty begin a phase later: nobody has to empty a stage that was never filled.
struct StageTurn {
  int32_t index = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int32_t stages) {
    if (++index < stages) return;
    index = 0;
    parity ^= 1;
  }
};

// Arrives for all lanes of a warp: whoever waits sees what they did before. Where `lane` is hopper::lane_here(), no
// register keeps it meanwhile.
__device__ __forceinline__ void arrive_warp(uint64_t* barrier, int lane = static_cast<int>(threadIdx.x) % 32) {
  __syncwarp();
  if (lane == 0) hopper::barrier_arrive(barrier);
}

// Meetings of the loading warps, one after another.
class LoaderMeetings {
 public:
  __device__ __forceinline__ explicit LoaderMeetings(uint64_t* barrier) : barrier_(barrier) {}

  __device__ __forceinline__ void operator()() {
    arrive_warp(barrier_);
    hopper::barrier_wait(barrier_, parity_);
    parity_ ^= 1;
  }

 private:
  uint64_t* barrier_;
  uint32_t parity_ = 0;
};

}  // namespace convt3d::mma
