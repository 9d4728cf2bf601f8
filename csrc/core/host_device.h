// Marks what kernels use too.
#pragma once

#if defined(__CUDACC__)
#define CONVT3D_HOST_DEVICE __host__ __device__
#else
#define CONVT3D_HOST_DEVICE
#endif
