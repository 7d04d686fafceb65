#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures programs that include headers, made with Kiln's device ops over NVRTC: built, found in a
store by a new process, and requested again in the same process. They are compared with NVRTC called
by hand. The driver's own cache, which NVRTC uses if there is a driver, is off. No GPU is needed. If
there is no NVRTC, the bench is skipped, and a note says so. Run by scripts/bench nvrtc-ops."""

import argparse
import glob
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))
from measuring import BUILD, Scratch, in_turns, note, report, result

BENCH = "nvrtc-ops"
PROGRAM = str(BUILD / "bench/nvrtc_ops")
FOUND_LIMIT = 1 / 50  # of the time that NVRTC takes
TIMEOUT_SECONDS = 120
KERNEL = '\nextern "C" __global__ void first(int *x) { x[0] = 1; }\n'
INCLUDED = {
    "no header": "",
    "cuda_fp16.h": "#include <cuda_fp16.h>",
    "cooperative_groups.h": "#include <cooperative_groups.h>",
    "curand_kernel.h": "#include <curand_kernel.h>",
    "CUB's block_reduce": "#include <cub/block/block_reduce.cuh>",
}


def run(*arguments):
    ran = subprocess.run([PROGRAM, *arguments], env=os.environ | {"CUDA_CACHE_DISABLE": "1"},
                         capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if ran.returncode != 0:
        raise RuntimeError(f"exit status {ran.returncode}: {ran.stdout}{ran.stderr}")
    return json.loads(ran.stdout)


def bench_program(name, source, nvrtc, folders, rounds, scratch):
    options = " ".join(f"-I{folder}" for folder in folders)
    filled = scratch.folder()
    run(nvrtc, source, options, filled)
    medians = in_turns({
        "by hand": lambda: run(nvrtc, source, options),
        "cold": lambda: run(nvrtc, source, options, scratch.folder()),
        "warm": lambda: run(nvrtc, source, options, filled),
    }, rounds)
    by_hand = medians["by hand"]["code"]
    return [
        result(f"{name}, ms: found against compiled by NVRTC", medians["warm"]["code"], by_hand,
               FOUND_LIMIT),
        result(f"{name}, ms: requested again against compiled", medians["warm"]["again"], by_hand,
               FOUND_LIMIT),
        result(f"{name}, ms: compiled and stored against compiled", medians["cold"]["code"],
               by_hand, None),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cuda", default="/usr/local/cuda", help="folder of a CUDA toolkit")
    options = parser.parse_args()
    libraries = sorted(glob.glob(options.cuda + "/lib*/libnvrtc.so.[0-9]*"))
    if not libraries:
        note(BENCH, f"skipped: no NVRTC in {options.cuda}")
        return 0
    folders = [options.cuda + "/include", options.cuda + "/include/cccl"]
    results = []
    with Scratch() as scratch:
        for name, include in INCLUDED.items():
            try:
                results += bench_program(name, include + KERNEL, libraries[-1], folders,
                                         options.rounds, scratch)
            except (RuntimeError, subprocess.TimeoutExpired) as why:
                note(BENCH, f"{name}: FAILED: {why}")
                results.append(result(f"{name}: failed", 1, 1, 0.0))
    return report(BENCH, results, options.json)


if __name__ == "__main__":
    sys.exit(main())
