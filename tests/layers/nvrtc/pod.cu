/* SPDX-License-Identifier: Apache-2.0 */
#include <cuda_fp16.h>

template <typename T> __global__ void axpy(T a, T *x, T *y)
{
    y[threadIdx.x] += a * x[threadIdx.x];
}

template __global__ void axpy(float a, float *x, float *y);
template __global__ void axpy(__half a, __half *x, __half *y);
