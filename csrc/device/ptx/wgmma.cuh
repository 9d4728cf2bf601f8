// The 64 x N matrix product of one warpgroup: B in shared memory, A there or, of TF32, in registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace convt3d::hopper {

// c += a * b or, without kAdd, c = a * b, of which `a` and `b` are the bits of descriptors. A is 64 x 32 bytes, B kN x
// 32 bytes (8 tf32 or 16 half along K); a thread owns, of each 8 columns j, elements c[4j], c[4j+1] in row 16*warp +
// lane/4 and c[4j+2], c[4j+3] in row ... + 8, at columns 8j + 2*(lane%4) and the next. In memory K is contiguous or, of
// 16-bit elements, N of B with kNMajor and M of A with kMMajor.
template <typename T, int kN>
struct Wgmma;

// The same of TF32 with A in registers, which stay as they are until the product is done: a[0] and a[1] in rows
// 16*warp + lane/4 and ... + 8, at K lane%4, a[2] and a[3] in the same rows at K lane%4 + 4.
template <int kN>
struct WgmmaOfRegisters;

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The registers of N columns, and the elements of c that they hold; each list begins with the one before.
#define CONVT3D_LIST_8 "%0, %1, %2, %3"
#define CONVT3D_FRAGMENT_8 "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
#define CONVT3D_LIST_16 CONVT3D_LIST_8 ", %4, %5, %6, %7"
#define CONVT3D_FRAGMENT_16 CONVT3D_FRAGMENT_8, "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
#define CONVT3D_LIST_32 CONVT3D_LIST_8 ", %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CONVT3D_FRAGMENT_32                                                                                \
  CONVT3D_FRAGMENT_8, "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), \
      "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
#define CONVT3D_LIST_64 \
  CONVT3D_LIST_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CONVT3D_FRAGMENT_64                                                                                       \
  CONVT3D_FRAGMENT_32, "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), \
      "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),     \
      "+f"(c[31])
#define CONVT3D_LIST_80 \
  CONVT3D_LIST_64       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define CONVT3D_FRAGMENT_80                                                                                       \
  CONVT3D_FRAGMENT_64, "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), \
      "+f"(c[39])
#define CONVT3D_LIST_96 CONVT3D_LIST_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define CONVT3D_FRAGMENT_96                                                                                       \
  CONVT3D_FRAGMENT_80, "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), \
      "+f"(c[47])
#define CONVT3D_LIST_128                       \
  CONVT3D_LIST_96                              \
  ", %48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define CONVT3D_FRAGMENT_128                                                                                      \
  CONVT3D_FRAGMENT_96, "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), \
      "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),     \
      "+f"(c[63])
#define CONVT3D_LIST_160 \
  CONVT3D_LIST_128       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define CONVT3D_FRAGMENT_160                                                                                       \
  CONVT3D_FRAGMENT_128, "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), \
      "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]),      \
      "+f"(c[79])
#define CONVT3D_LIST_192 \
  CONVT3D_LIST_160       \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CONVT3D_FRAGMENT_192                                                                                       \
  CONVT3D_FRAGMENT_160, "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), \
      "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]),      \
      "+f"(c[95])
#define CONVT3D_LIST_240                                                                           \
  CONVT3D_LIST_192                                                                                 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119"
#define CONVT3D_FRAGMENT_240                                                                                          \
  CONVT3D_FRAGMENT_192, "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), \
      "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), \
      "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), \
      "+f"(c[119])
#define CONVT3D_LIST_256 CONVT3D_LIST_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define CONVT3D_FRAGMENT_256                                                                                \
  CONVT3D_FRAGMENT_240, "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), \
      "+f"(c[126]), "+f"(c[127])

// INSTRUCTION: what stands between the shape's K and the operands; TAIL: the immediates after the predicate.
#define CONVT3D_WGMMA(T, N, A, B, ADD, INSTRUCTION, TAIL)                                                         \
  template <>                                                                                                     \
  struct Wgmma<T, N> {                                                                                            \
    template <bool kAdd = true, bool kNMajor = false, bool kMMajor = false>                                       \
    __device__ __forceinline__ static void multiply(float (&c)[N / 2], uint64_t a, uint64_t b) {                  \
      static_assert(!(kNMajor || kMMajor) || sizeof(T) == 2);                                                     \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD                                                    \
                   ", 0;\n"                                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N INSTRUCTION " {" CONVT3D_LIST_##N "}, " A ", " B        \
                                                                                            ", add, " TAIL ";\n}" \
                   : CONVT3D_FRAGMENT_##N                                                                         \
                   : "l"(a), "l"(b), "n"(kAdd ? 1 : 0), "n"(kNMajor ? 1 : 0), "n"(kMMajor ? 1 : 0));              \
    }                                                                                                             \
  };
#define CONVT3D_WGMMA_TYPES(N, A, B, ADD, N_MAJOR, M_MAJOR)                             \
  CONVT3D_WGMMA(float, N, A, B, ADD, "k8.f32.tf32.tf32", "1, 1")                        \
  CONVT3D_WGMMA(__half, N, A, B, ADD, "k16.f32.f16.f16", "1, 1, " M_MAJOR ", " N_MAJOR) \
  CONVT3D_WGMMA(__nv_bfloat16, N, A, B, ADD, "k16.f32.bf16.bf16", "1, 1, " M_MAJOR ", " N_MAJOR)
CONVT3D_WGMMA_TYPES(8, "%4", "%5", "%6", "%7", "%8")
CONVT3D_WGMMA_TYPES(64, "%32", "%33", "%34", "%35", "%36")
CONVT3D_WGMMA_TYPES(80, "%40", "%41", "%42", "%43", "%44")
CONVT3D_WGMMA_TYPES(128, "%64", "%65", "%66", "%67", "%68")
CONVT3D_WGMMA_TYPES(160, "%80", "%81", "%82", "%83", "%84")
CONVT3D_WGMMA_TYPES(192, "%96", "%97", "%98", "%99", "%100")
CONVT3D_WGMMA_TYPES(240, "%120", "%121", "%122", "%123", "%124")
CONVT3D_WGMMA_TYPES(256, "%128", "%129", "%130", "%131", "%132")

#define CONVT3D_WGMMA_OF_REGISTERS(N, A, B, ADD)                                                                  \
  template <>                                                                                                     \
  struct WgmmaOfRegisters<N> {                                                                                    \
    __device__ __forceinline__ static void multiply(float (&c)[N / 2], const uint32_t (&a)[4], uint64_t b) {      \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD                                                    \
                   ", 0;\n"                                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" CONVT3D_LIST_##N "}, {" A "}, " B  \
                                                                                                ", add, 1, 1;\n}" \
                   : CONVT3D_FRAGMENT_##N                                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(1));                                 \
    }                                                                                                             \
  };
CONVT3D_WGMMA_OF_REGISTERS(16, "%8, %9, %10, %11", "%12", "%13")
CONVT3D_WGMMA_OF_REGISTERS(32, "%16, %17, %18, %19", "%20", "%21")
CONVT3D_WGMMA_OF_REGISTERS(64, "%32, %33, %34, %35", "%36", "%37")
CONVT3D_WGMMA_OF_REGISTERS(96, "%48, %49, %50, %51", "%52", "%53")
CONVT3D_WGMMA_OF_REGISTERS(128, "%64, %65, %66, %67", "%68", "%69")
CONVT3D_WGMMA_OF_REGISTERS(160, "%80, %81, %82, %83", "%84", "%85")
CONVT3D_WGMMA_OF_REGISTERS(256, "%128, %129, %130, %131", "%132", "%133")
#undef CONVT3D_WGMMA_OF_REGISTERS
#undef CONVT3D_LIST_8
#undef CONVT3D_FRAGMENT_8
#undef CONVT3D_LIST_16
#undef CONVT3D_FRAGMENT_16
#undef CONVT3D_LIST_32
#undef CONVT3D_FRAGMENT_32
#undef CONVT3D_LIST_64
#undef CONVT3D_FRAGMENT_64
#undef CONVT3D_LIST_80
#undef CONVT3D_FRAGMENT_80
#undef CONVT3D_LIST_96
#undef CONVT3D_FRAGMENT_96
#undef CONVT3D_LIST_128
#undef CONVT3D_FRAGMENT_128
#undef CONVT3D_LIST_160
#undef CONVT3D_FRAGMENT_160
#undef CONVT3D_LIST_192
#undef CONVT3D_FRAGMENT_192
#undef CONVT3D_LIST_240
#undef CONVT3D_FRAGMENT_240
#undef CONVT3D_LIST_256
#undef CONVT3D_FRAGMENT_256
#undef CONVT3D_WGMMA
#undef CONVT3D_WGMMA_TYPES

}  // namespace convt3d::hopper
