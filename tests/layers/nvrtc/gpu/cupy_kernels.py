# SPDX-License-Identifier: Apache-2.0
"""CuPy from its wheel: raw modules and elementwise kernels, checked against NumPy. Exits with 77 if
there is no GPU or no CuPy."""

import hashlib
import sys
import time

from start import wait_for_start

try:
    import cupy
    import numpy
    COUNT = cupy.cuda.runtime.getDeviceCount()
except Exception as error:  # the exception depends on what is missing
    print(f"skipped: {error}")
    sys.exit(77)

SOURCE = r"""
#include <cupy/complex.cuh>
template <typename T> __global__ void axpy(T a, const T *x, T *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] += a * x[i];
    }
}
extern "C" __global__ void conjugate(const complex<float> *x, complex<float> *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = conj(x[i]);
    }
}
"""


def raw_module(results):
    module = cupy.RawModule(code=SOURCE, options=("-std=c++17",),
                            name_expressions=["axpy<float>", "axpy<double>"])
    n = 10000
    for dtype, name in ((numpy.float32, "axpy<float>"), (numpy.float64, "axpy<double>")):
        x = cupy.arange(n, dtype=dtype)
        y = cupy.ones(n, dtype=dtype)
        module.get_function(name)(((n + 255) // 256,), (256,), (dtype(2), x, y, numpy.int32(n)))
        numpy.testing.assert_array_equal(y.get(), 1 + 2 * numpy.arange(n, dtype=dtype))
        results.append(y.get())
    x = (cupy.arange(n) + 1j).astype(numpy.complex64)
    y = cupy.zeros_like(x)
    module.get_function("conjugate")(((n + 255) // 256,), (256,), (x, y, numpy.int32(n)))
    numpy.testing.assert_array_equal(y.get(), x.get().conj())
    results.append(y.get())


@cupy.fuse()
def fused(a, b):
    return cupy.sin(a) * b + a


def elementwise(results):
    x = cupy.linspace(0, 1, 4096, dtype=numpy.float32)
    squared = cupy.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared")
    total = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "total")
    for values in (squared(x, 0.5), total(x), fused(x, x), cupy.sort(x[::-1]), x @ x):
        results.append(values.get())
    numpy.testing.assert_allclose(results[-5], (x.get() - 0.5) ** 2, rtol=1e-6)
    numpy.testing.assert_array_equal(results[-2], x.get())


def main():
    results = []
    cupy.cuda.runtime.free(0)  # creates the context
    wait_for_start()
    start = time.perf_counter()
    raw_module(results)
    elementwise(results)
    cupy.cuda.runtime.deviceSynchronize()
    print(f"kernels took {(time.perf_counter() - start) * 1e3:.0f} ms", file=sys.stderr)
    digest = hashlib.sha256(b"".join(numpy.ascontiguousarray(r).tobytes() for r in results))
    print(f"results {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
