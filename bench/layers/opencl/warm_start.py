#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much sooner a program starts with its builds in the cache, and what the layer costs
otherwise.

The program is examples/opencl/three_programs. Run by scripts/bench warm-start."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))
from measuring import BUILD, LAYER, TOOL, Scratch, has_runtime, in_turns, note, report, result

PROGRAM = BUILD / "examples/opencl/three_programs"

ADDED_LIMIT = 1.03  # what the layer may add if it saves nothing
WARM_LIMIT = 1 / 20  # of the time that a cold start takes
WARM_LIMIT_POCL = 1 / 10  # the same


def environment(runtime, **more):
    """The caller's environment, with one OpenCL runtime and no other variable that affects it or
    Kiln."""
    steering = ("KILN_", "POCL_", "OCL_", "OPENCL_", "CL_CONFIG_")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
    return plain | {"OCL_ICD_VENDORS": str(BUILD / "runtimes" / runtime / "vendors")} | more


def with_layer(cache, base):
    return base | {"OPENCL_LAYERS": str(LAYER), "KILN_DIR": cache}


def run(variables, scratch):
    """Runs the program once. Returns the seconds of each stretch, by name."""
    with tempfile.TemporaryFile(dir=scratch.root) as output:
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        subprocess.run([PROGRAM, "--time"], env=variables, stdout=output, check=True)
        end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        output.seek(0)
        times = json.loads(output.read().splitlines()[-1])
    return {
        "build and first launches": (times["build_ns"] + times["launch_ns"]) / 1e9,
        "first results": (times["results_ns"] - start) / 1e9,
        "whole process": (end - start) / 1e9,
    }


def medians_of(ways, rounds, scratch):
    """A variant is a function that returns the environment for one run."""

    def running(variables):
        return lambda: run(variables(), scratch)

    return in_turns({name: running(variables) for name, variables in ways.items()}, rounds)


def added(title, medians):
    return [
        result(f"{title}: {stretch}", medians["layer"][stretch], medians["plain"][stretch],
               ADDED_LIMIT)
        for stretch in ("first results", "whole process")
    ]


def bench_intel(scratch):
    base = environment("intel")
    warm_cache = scratch.folder()
    run(with_layer(warm_cache, base), scratch)
    medians = medians_of(
        {
            "plain": lambda: base,
            "layer": lambda: with_layer(scratch.folder(), base),
            "warm": lambda: with_layer(warm_cache, base),
        },
        15,
        scratch,
    )
    stretch = "build and first launches"
    warm, cold = medians["warm"][stretch], medians["layer"][stretch]
    return [result(f"intel, warm against cold: {stretch}", warm, cold, WARM_LIMIT)] + added(
        "intel, cold with the layer against without", medians
    )


def capture_outside(cache, base):
    """Makes the captures that programs on PoCL would make in the background, at a time when nothing
    is measured."""
    subprocess.run([TOOL, "capture", "--dir", cache], env=base, stdout=subprocess.DEVNULL, check=True)


def bench_pocl(scratch):
    """Measures PoCL with its own cache empty, and with it filled.

    A process that would capture while the next run is measured is replaced by one that ends at
    once. The time to start this process counts. The capture, which has the lowest priority, does
    not."""

    def base(cache):
        return environment("pocl", POCL_CACHE_DIR=cache, KILN_TOOL="/usr/bin/true")

    filled, warm_cache = base(scratch.folder()), scratch.folder()
    run(with_layer(warm_cache, filled), scratch)
    capture_outside(warm_cache, filled)
    run(with_layer(warm_cache, filled), scratch)
    stretch = "build and first launches"

    cold = medians_of(
        {
            "plain": lambda: base(scratch.folder()),
            "layer": lambda: with_layer(scratch.folder(), base(scratch.folder())),
            "warm": lambda: with_layer(warm_cache, base(scratch.folder())),
        },
        15,
        scratch,
    )
    warm = medians_of(
        {"plain": lambda: filled, "layer": lambda: with_layer(warm_cache, filled)}, 61, scratch
    )
    first = medians_of(
        {"plain": lambda: filled, "layer": lambda: with_layer(scratch.folder(), filled)},
        31,
        scratch,
    )
    return (
        [
            result(f"pocl, its cache gone, warm against cold: {stretch}", cold["warm"][stretch],
                   cold["layer"][stretch], WARM_LIMIT_POCL),
            result(f"pocl, its cache filled, warm against without: {stretch}",
                   warm["layer"][stretch], warm["plain"][stretch], ADDED_LIMIT),
        ]
        + added("pocl, its cache empty, cold with the layer against without", cold)
        + added("pocl, its cache filled, cold with the layer against without", first)
    )


def main():
    results = []
    with Scratch() as scratch:
        for runtime, bench in (("intel", bench_intel), ("pocl", bench_pocl)):
            if has_runtime(runtime):
                results += bench(scratch)
            else:
                note("warm-start", f"the runtime {runtime} is not installed")
    return report("warm-start", results, sys.argv[1:] == ["--json"])


if __name__ == "__main__":
    sys.exit(main())
