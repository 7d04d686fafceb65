# SPDX-License-Identifier: Apache-2.0
"""A PyOpenCL program: prints a digest of the results of element-wise operations, reductions, a scan
and a kernel of its own, and checks that the program has its own source."""

import hashlib
import os
import re

import numpy
import pyopencl
import pyopencl.array
import pyopencl.characterize
from pyopencl.elementwise import ElementwiseKernel
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import GenericScanKernel

OWN = "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }"

# On PoCL, PyOpenCL relies on PoCL's cache instead of its own. Earlier versions did not.
if os.environ.get("ARRAYS_OWN_CACHE"):
    pyopencl.characterize.has_src_build_cache = lambda device: None

context = pyopencl.Context(pyopencl.get_platforms()[0].get_devices()[:1])
queue = pyopencl.CommandQueue(context)
x = pyopencl.array.to_device(queue, numpy.arange(4096, dtype=numpy.float32))
y = pyopencl.array.empty_like(x)
ElementwiseKernel(context, "float *x, float *y", "y[i] = sin(x[i]) * 3", "sine")(x, y)
squares = ReductionKernel(
    context, numpy.float32, neutral="0", reduce_expr="a + b", map_expr="x[i] * x[i]",
    arguments="__global float *x")
ones = pyopencl.array.to_device(queue, numpy.ones(4096, numpy.int32))
GenericScanKernel(
    context, numpy.int32, arguments="__global int *x", input_expr="x[i]", scan_expr="a + b",
    neutral="0", output_statement="x[i] = item;")(ones)
results = [(x * 2 + 1).get(), pyopencl.array.sum(x).get(), y.get(), squares(x).get(), ones.get()]
z = (x.astype(numpy.complex64) * (1 + 2j)).get()
results += [z.real, z.imag]

program = pyopencl.Program(context, OWN).build()
pyopencl.Kernel(program, "twice")(queue, x.shape, None, x.data)
results.append(x.get())
print(hashlib.sha256(b"".join(numpy.ascontiguousarray(r).tobytes() for r in results)).hexdigest())
source = program.get_info(pyopencl.program_info.SOURCE)
print(repr(re.sub("[0-9a-f]{32}", "NUMBER", source).replace(OWN, "OWN")))
