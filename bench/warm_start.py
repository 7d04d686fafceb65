#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much sooner a program starts with its builds in the cache, and what the layer costs otherwise.

The program is examples/opencl/three_programs. Run by scripts/bench warm-start."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"
PROGRAM = BUILD / "examples/opencl/three_programs"
LAYER = BUILD / "layers/opencl/libkiln_opencl_layer.so"

ADDED_LIMIT = 1.03  # what the layer may add where it saves nothing
WARM_LIMIT = 1 / 20  # of the time that a cold start takes


class Scratch:
    """Directories of one bench, each new and empty, gone at its end."""

    def __init__(self, root):
        self.root = root

    def folder(self):
        return tempfile.mkdtemp(dir=self.root)


def environment(runtime, **more):
    """The caller's own, with one OpenCL runtime and nothing else that steers it or Kiln."""
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


def interleave(ways, rounds, scratch):
    """Runs each way once a round, in turning order. Returns the median of each stretch, by way.

    A way is a function that gives the environment for one run."""
    runs = {name: [] for name in ways}
    order = list(ways)
    for _ in range(rounds):
        for name in order:
            runs[name].append(run(ways[name](), scratch))
        order.reverse()
    return {
        name: {stretch: statistics.median(r[stretch] for r in of_way) for stretch in of_way[0]}
        for name, of_way in runs.items()
    }


def result(name, value, peer, limit):
    ratio = value / peer
    return {
        "name": name,
        "value": round(value, 6),
        "floor_or_peer": round(peer, 6),
        "ratio": round(ratio, 4),
        "limit": round(limit, 4),
        "pass": ratio <= limit,
    }


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
    medians = interleave(
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


def bench_pocl(scratch):
    """PoCL keeps a cache of its own: once with that empty, once with it filled."""

    def base(cache):
        return environment("pocl", POCL_CACHE_DIR=cache)

    empty = interleave(
        {
            "plain": lambda: base(scratch.folder()),
            "layer": lambda: with_layer(scratch.folder(), base(scratch.folder())),
        },
        15,
        scratch,
    )
    filled = base(scratch.folder())
    run(filled, scratch)
    warm = interleave(
        {"plain": lambda: filled, "layer": lambda: with_layer(scratch.folder(), filled)},
        61,
        scratch,
    )
    return added("pocl, its cache empty, with the layer against without", empty) + added(
        "pocl, its cache filled, with the layer against without", warm
    )


def print_table(results):
    width = max(len(r["name"]) for r in results)
    print(f"{'':{width}}  {'seconds':>9}  {'against':>9}  {'ratio':>7}  {'limit':>7}")
    for r in results:
        print(
            f"{r['name']:{width}}  {r['value']:9.4f}  {r['floor_or_peer']:9.4f}"
            f"  {r['ratio']:7.4f}  {r['limit']:7.4f}  {'pass' if r['pass'] else 'FAIL'}"
        )


def main():
    results = []
    root = tempfile.mkdtemp(prefix="kiln-bench-")
    try:
        for runtime, bench in (("intel", bench_intel), ("pocl", bench_pocl)):
            if (BUILD / "runtimes" / runtime / "vendors").is_dir():
                results += bench(Scratch(root))
            else:
                print(f"warm-start: the runtime {runtime} is not there", file=sys.stderr)
    finally:
        shutil.rmtree(root)
    if sys.argv[1:] == ["--json"]:
        print(json.dumps({"bench": "warm-start", "results": results}))
    else:
        print_table(results)
    return 0 if all(r["pass"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
