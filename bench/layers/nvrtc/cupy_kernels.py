#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program with 62 kernels of CuPy, for upgrade.py: elementwise kernels, reductions and raw
modules. Checks results against NumPy, and prints a digest of them. Exits with 77 if there is no GPU
or no CuPy."""

import hashlib
import sys
import time

try:
    import cupy
    import numpy
    COUNT = cupy.cuda.runtime.getDeviceCount()
except Exception as error:  # the exception depends on what is missing
    print(f"skipped: {error}")
    sys.exit(77)

ELEMENTWISE, REDUCTIONS, MODULES = 40, 12, 10
MODULE = r"""
#include <cupy/complex.cuh>
extern "C" __global__ void rotate(const complex<float> *x, complex<float> *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * complex<float>(%d, 1);
    }
}
"""


def main():
    x = cupy.zeros(4096, dtype=cupy.float32)
    x.set(numpy.arange(4096, dtype=numpy.float32) / 4096)
    begin = time.perf_counter()
    results = []
    for number in range(ELEMENTWISE):
        kernel = cupy.ElementwiseKernel("T x", "T y", f"y = x * {number} + sin(x * {number})",
                                        f"elementwise_{number}")
        results.append(kernel(x).get())
        numpy.testing.assert_allclose(results[-1], x.get() * number + numpy.sin(x.get() * number),
                                      rtol=1e-4, atol=1e-4)
    for number in range(REDUCTIONS):
        kernel = cupy.ReductionKernel("T x", "T y", f"x * {number}", "max(a, b)", "y = a", "0",
                                      f"reduction_{number}")
        results.append(kernel(x).get())
        numpy.testing.assert_allclose(results[-1], x.get().max() * number, rtol=1e-6)
    z = x.view(cupy.complex64)
    for number in range(MODULES):
        y = cupy.empty_like(z)
        module = cupy.RawModule(code=MODULE % number)
        module.get_function("rotate")((z.size // 256,), (256,), (z, y, numpy.int32(z.size)))
        results.append(y.get())
        numpy.testing.assert_allclose(results[-1], z.get() * (number + 1j), rtol=1e-5, atol=1e-5)
    print(f"kernels took {time.perf_counter() - begin:.2f} s", file=sys.stderr)
    digest = hashlib.sha256(b"".join(numpy.ascontiguousarray(r).tobytes() for r in results))
    print(f"results {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
