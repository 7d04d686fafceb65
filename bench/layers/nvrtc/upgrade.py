#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first start of a program after an upgrade of NVRTC: without Kiln's cache (cold), and with the
entries of the older NVRTC, whose builds the helper repeats ahead of the program.

    upgrade.py --kiln KILN --old LIBNVRTC --new LIBNVRTC [--programs N] [--repeat N]
    upgrade.py --kiln KILN --old LIBNVRTC --new LIBNVRTC [--python PYTHON] [--repeat N] SCRIPT

The first form compiles N kernels with each library, and needs no GPU. The second runs a Python
script, such as cupy_kernels.py. Its NVRTC is in a folder in which the new library replaces the old
one, as in an upgrade; the headers there are those of the new library. Both must have the same major
version. Prints the medians and their ratio, and how many kernels the program still built itself."""

import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.abspath(__file__)
# Several headers' worth of templates, so that a kernel takes as long as one of CuPy's.
SOURCE = """
template <int N> struct sum { static __device__ float of(const float *x) {
    return __sinf(x[N]) * sum<N - 1>::of(x) + %(number)d; } };
template <> struct sum<0> { static __device__ float of(const float *x) { return *x; } };
extern "C" __global__ void kernel_%(number)d(float *x) { x[threadIdx.x] = sum<120>::of(x); }
"""


# CuPy and cuda.core use the libnvrtc that is loaded already, and the headers beside it.
PRELOAD = """
import ctypes, os, runpy, sys
ctypes.CDLL(sys.argv[1])
sys.argv = sys.argv[2:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def install(library, toolkit, headers):
    """Makes a toolkit that has the library. Returns the library's path there."""
    shutil.rmtree(toolkit, ignore_errors=True)
    os.makedirs(os.path.join(toolkit, "lib"))
    os.symlink(headers, os.path.join(toolkit, "include"))
    for path in glob.glob(os.path.join(os.path.dirname(library), "libnvrtc*.so*")):
        shutil.copy2(path, os.path.join(toolkit, "lib"), follow_symlinks=False)
    return os.path.join(toolkit, "lib", os.path.basename(library))


def compile_all(library, count):
    """Compiles the kernels, as a program does."""
    import ctypes
    nvrtc = ctypes.CDLL(library)
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
    for number in range(count):
        program = ctypes.c_void_p()
        source = (SOURCE % {"number": number}).encode()
        assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 0, None, None) == 0
        assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def run(command, environment, kiln):
    """Returns the seconds that a run took, and its counters."""
    begin = time.monotonic()
    result = subprocess.run([kiln, "run", "--json", "--", *command], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    seconds = time.monotonic() - begin
    if result.returncode != 0:
        print((result.stdout + result.stderr[-3000:]).decode(errors="replace"))
        sys.exit(result.returncode)
    return seconds, json.loads(result.stderr.splitlines()[-1]), result.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--old")
    parser.add_argument("--new", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--programs", type=int, default=62)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("script", nargs="?")
    options = parser.parse_args()
    if options.compile:
        compile_all(options.new, options.programs)
        return 0
    scratch = tempfile.mkdtemp(prefix="kiln-upgrade-")
    base = {name: value for name, value in os.environ.items() if not name.startswith("KILN_")}

    def command(which):
        library = os.path.abspath(getattr(options, which))
        if options.script:
            headers = os.path.join(os.path.dirname(os.path.abspath(options.new)), "../include")
            library = install(library, os.path.join(scratch, "toolkit"), headers)
            return [options.python, "-c", PRELOAD, library, os.path.abspath(options.script)]
        return [sys.executable, HERE, "--compile", "--kiln", options.kiln, "--programs",
                str(options.programs), "--new", library]

    def environment(cache):
        shutil.rmtree(os.path.join(scratch, "home"), ignore_errors=True)
        os.mkdir(os.path.join(scratch, "home"))
        return {**base, "KILN_DIR": cache, "CUPY_CACHE_DIR": os.path.join(scratch, "home", "cupy")}

    try:
        warm = os.path.join(scratch, "old")
        for _ in range(2):  # the second run is the one whose order counts
            _, _, results = run(command("old"), environment(warm), options.kiln)
        times = {"cold": [], "ahead": []}
        for number in range(options.repeat):
            for kind in times:
                cache = os.path.join(scratch, f"{kind}-{number}")
                if kind == "ahead":
                    shutil.copytree(warm, cache)
                seconds, counters, found = run(command("new"), environment(cache), options.kiln)
                times[kind].append(seconds)
                print(f"{kind}: {seconds:.2f} s, {counters['builds']} builds, "
                      f"{counters['hits_store']} hits"
                      f"{'' if found == results else ', DIFFERENT RESULTS'}", flush=True)
                # The helper of the run must not disturb the next one.
                subprocess.run([options.kiln, "capture", "--dir", cache, "--wait-ms", "600000"],
                               env=base, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cold, ahead = (statistics.median(times[kind]) for kind in ("cold", "ahead"))
        print(f"{os.cpu_count()} processors: cold {cold:.2f} s, built ahead {ahead:.2f} s, "
              f"ratio {ahead / cold:.2f}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
