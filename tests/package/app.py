# SPDX-License-Identifier: Apache-2.0
"""app.py opencl | nvrtc LIBRARY: compiles a kernel, as an application in Python does that needs no
package. With OpenCL, it also runs the kernel."""

import ctypes
import sys

SOURCE = b"__kernel void twice(__global int *value) { value[0] *= 2; }"
CUDA_SOURCE = b'extern "C" __global__ void twice(int *value) { value[0] *= 2; }'


def check(status):
    if status != 0:
        sys.exit(f"status {status}")


def run_opencl():
    cl = ctypes.CDLL("libOpenCL.so.1")
    handle, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for name in ("clCreateContext", "clCreateProgramWithSource", "clCreateKernel",
                 "clCreateBuffer", "clCreateCommandQueue"):
        getattr(cl, name).restype = handle
    platform, device, status = handle(), handle(), number()
    check(cl.clGetPlatformIDs(1, ctypes.byref(platform), None))
    check(cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None))
    context = handle(cl.clCreateContext(None, 1, ctypes.byref(device), None, None,
                                        ctypes.byref(status)))
    program = handle(cl.clCreateProgramWithSource(
        context, 1, ctypes.byref(ctypes.c_char_p(SOURCE)), None, ctypes.byref(status)))
    check(cl.clBuildProgram(program, 1, ctypes.byref(device), b"", None, None))
    kernel = handle(cl.clCreateKernel(program, b"twice", ctypes.byref(status)))
    value = number(21)
    buffer = handle(cl.clCreateBuffer(context, ctypes.c_uint64(1 | 1 << 5), size(4),
                                      ctypes.byref(value), ctypes.byref(status)))
    queue = handle(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0),
                                           ctypes.byref(status)))
    check(cl.clSetKernelArg(kernel, 0, size(8), ctypes.byref(buffer)))
    check(cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(size(1)), None, 0, None,
                                    None))
    check(cl.clEnqueueReadBuffer(queue, buffer, 1, size(0), size(4), ctypes.byref(value), 0, None,
                                 None))
    print(value.value)


def compile_cuda(library):
    nvrtc = ctypes.CDLL(library)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), CUDA_SOURCE, b"twice.cu", 0, None, None))
    option = ctypes.c_char_p(b"-arch=sm_90")
    check(nvrtc.nvrtcCompileProgram(program, 1, ctypes.byref(option)))
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, text))
    print(b".entry twice" in text.value)


if sys.argv[1] == "opencl":
    run_opencl()
else:
    compile_cuda(sys.argv[2])
