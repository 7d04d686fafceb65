#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_folders.py KILN: checks the folder of CUDA's driver on a machine with an NVIDIA GPU. A program
loads six modules of PTX, which the driver compiles. Under kiln run, it is run with everything empty,
and then on what looks like a new machine: the folder is gone, and the store is left. Prints the
seconds that the program needs for its modules, and exits with 1 if the second run compiled, or if
results differ."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time

MODULES, KERNELS, STEPS = 6, 30, 60


def ptx_of(module):
    lines = [".version 7.0", ".target sm_70", ".address_size 64"]
    for kernel in range(KERNELS):
        lines += [f".visible .entry k{kernel}(.param .u64 out)", "{", ".reg .f32 %f<3>;",
                  ".reg .b64 %rd<3>;", "ld.param.u64 %rd1, [out];", "cvta.to.global.u64 %rd2, %rd1;",
                  "mov.f32 %f1, 0f3F800000;", f"mov.f32 %f2, 0f3F80{module:02X}{kernel:02X};"]
        for step in range(STEPS):
            lines += ["fma.rn.f32 %f1, %f1, %f2, %f2;", "sqrt.rn.f32 %f1, %f1;"][:1 + step % 2]
        lines += ["st.global.f32 [%rd2], %f1;", "ret;", "}"]
    return "\n".join(lines).encode() + b"\0"


def program():
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(cuda, name)(*arguments)
        if status != 0:
            sys.exit(f"{name}: {status}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    buffer = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4))
    results, seconds = [], 0.0
    for number in range(MODULES):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        text = ptx_of(number)
        begin = time.perf_counter()
        call("cuModuleLoadData", ctypes.byref(module), text)
        seconds += time.perf_counter() - begin
        call("cuModuleGetFunction", ctypes.byref(function), module, b"k7")
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(buffer), ctypes.c_void_p))
        call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
        value = ctypes.c_uint32()
        call("cuMemcpyDtoH_v2", ctypes.byref(value), buffer, ctypes.c_size_t(4))
        results.append(f"{value.value:08x}")
    print(f"{seconds:.3f}", *results)


def run_under_kiln(kiln, scratch):
    place = os.path.join(scratch, "place")
    shutil.rmtree(place, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("KILN_", "CUDA_CACHE"))}
    environment.update(KILN_DIR=os.path.join(scratch, "cache"), KILN_FOLDERS=place,
                       HOME=scratch)
    result = subprocess.run([kiln, "run", "--summary", "--", sys.executable, __file__],
                            env=environment, stdout=subprocess.PIPE, check=True, timeout=300)
    seconds, *results = result.stdout.decode().split()
    return float(seconds), results


def main(kiln):
    scratch = tempfile.mkdtemp(prefix="kiln-gpu-")
    try:
        cold, expected = run_under_kiln(kiln, scratch)
        warm, results = run_under_kiln(kiln, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"cold {cold:.3f} s, warm on a new machine {warm:.3f} s, {len(results)} modules")
    return 0 if results == expected and warm < cold / 3 else 1


if __name__ == "__main__":
    sys.exit(program() if len(sys.argv) == 1 else main(os.path.abspath(sys.argv[1])))
