#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that opens the OpenCL loader, closes it and opens it again, as plug-ins do. The cache
must answer before and after."""

import _ctypes
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile

SOURCE = b"__kernel void f(__global int *out) { out[get_global_id(0)] = 7; }"
ANY_DEVICE = ctypes.c_ulong(0xFFFFFFFF)
ROUNDS = 2


def require(status, what):
    if status != 0:
        sys.exit("%s gives %d" % (what, status))


def build_once():
    """Opens the loader, builds a program, and closes the loader."""
    opencl = ctypes.CDLL("libOpenCL.so.1")
    opencl.clCreateContext.restype = opencl.clCreateProgramWithSource.restype = ctypes.c_void_p
    platform, device, status = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    require(opencl.clGetPlatformIDs(1, ctypes.byref(platform), None), "clGetPlatformIDs")
    require(opencl.clGetDeviceIDs(platform, ANY_DEVICE, 1, ctypes.byref(device), None), "clGetDeviceIDs")
    context = ctypes.c_void_p(
        opencl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(status))
    )
    require(status.value, "clCreateContext")
    source = ctypes.c_char_p(SOURCE)
    program = ctypes.c_void_p(
        opencl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, ctypes.byref(status))
    )
    require(status.value, "clCreateProgramWithSource")
    require(opencl.clBuildProgram(program, 0, None, b"", None, None), "clBuildProgram")
    require(opencl.clReleaseProgram(program), "clReleaseProgram")
    require(opencl.clReleaseContext(context), "clReleaseContext")
    _ctypes.dlclose(opencl._handle)


def counters(kiln, cache):
    run = subprocess.run(
        [kiln, "run", "--summary", "--json", "--dir", cache, "--", sys.executable, __file__, "--build"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    require(run.returncode, "the program under kiln run: " + run.stderr)
    return json.loads(run.stderr.splitlines()[-1])


def main():
    if sys.argv[1:] == ["--build"]:
        for _ in range(ROUNDS):
            build_once()
        return 0
    cache = tempfile.mkdtemp(prefix="kiln-conformance-")
    try:
        cold, warm = (counters(sys.argv[1], cache) for _ in range(2))
    finally:
        shutil.rmtree(cache)
    print("cold:", cold)
    print("warm:", warm)
    asked = [c["hits_memory"] + c["hits_store"] + c["builds"] for c in (cold, warm)]
    return 0 if asked == [ROUNDS, ROUNDS] and cold["builds"] == 1 and warm["builds"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
