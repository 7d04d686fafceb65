# SPDX-License-Identifier: Apache-2.0
"""cuda.core: templates that are compiled to CUBIN, PTX and LTO-IR. CuPy runs the CUBIN, and the
results are checked against NumPy. Exits with 77 if there is no GPU, no cuda.core or no CuPy."""

import hashlib
import sys

try:
    import cupy
    import numpy
    cupy.cuda.runtime.getDeviceCount()
    try:
        from cuda.core import Device, Program, ProgramOptions
    except ImportError:
        from cuda.core.experimental import Device, Program, ProgramOptions
except Exception as error:  # the exception depends on what is missing
    print(f"skipped: {error}")
    sys.exit(77)

SOURCE = """
template <typename T> __global__ void scale(T *x) { x[threadIdx.x] = x[threadIdx.x] * %d + sqrt(x[threadIdx.x]); }
"""


def main():
    device = Device()
    device.set_current()
    arch = "sm_" + "".join(map(str, device.compute_capability))
    digest = hashlib.sha256()
    for number in range(1, 5):
        for target in ("cubin", "ptx", "ltoir"):
            options = ProgramOptions(arch=arch, link_time_optimization=target == "ltoir")
            built = Program(SOURCE % number, "c++", options).compile(
                target, name_expressions=("scale<float>", "scale<double>"))
            code = bytes(built.code)
            digest.update(code if target != "ltoir" else b"")
            if target == "cubin":
                module = cupy.cuda.function.Module()
                module.load(code)
                for dtype, name in ((numpy.float32, "scale<float>"),
                                    (numpy.float64, "scale<double>")):
                    lowered = getattr(built, "symbol_mapping", None) or built._sym_map
                    lowered = lowered[name]
                    lowered = lowered.decode() if isinstance(lowered, bytes) else lowered
                    x = cupy.asarray(numpy.arange(32, dtype=dtype))
                    module.get_function(lowered)((1,), (32,), (x,))
                    expected = numpy.arange(32) * number + numpy.sqrt(numpy.arange(32))
                    numpy.testing.assert_allclose(x.get(), expected, rtol=1e-6)
    print(f"results {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
