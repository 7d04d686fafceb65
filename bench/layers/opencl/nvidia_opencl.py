#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures starts of an OpenCL program on an NVIDIA GPU: cold, with only the driver's own cache
(ComputeCache), with only Kiln, and with both. Also measures what the driver does with binaries.

The program is examples/opencl/three_programs. All rows are for information. If there is no
NVIDIA GPU, the bench is skipped, and a note says so. Run by scripts/bench nvidia-opencl."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))
from measuring import BUILD, TOOL, Scratch, in_turns, note, report, result

BENCH = "nvidia-opencl"
PLATFORM = "NVIDIA CUDA"
PROGRAM = [str(BUILD / "examples/opencl/three_programs"), "--time", "--platform", PLATFORM,
           "--kernels", str(BUILD.parent / "examples/opencl")]
BINARIES = [str(BUILD / "bench/nvidia_binaries")]
STEERING = ("KILN_", "CUDA_CACHE_", "OPENCL_LAYERS")
TIMEOUT_SECONDS = 120


class Skipped(Exception):
    pass


def loader_variables():
    """The variables by which `kiln run` lets a program find its loader and drivers. Runs without
    Kiln get the same ones."""
    shown = subprocess.run([TOOL, "run", "--", "env", "-0"], capture_output=True, text=True)
    if shown.stderr:
        raise Skipped(shown.stderr.strip())
    variables = dict(line.split("=", 1) for line in shown.stdout.split("\0") if "=" in line)
    return {name: variables[name] for name in ("LD_LIBRARY_PATH", "OCL_ICD_VENDORS")
            if name in variables}


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        self.base = plain | loader_variables()

    def own_cache(self, folder=None):
        """The driver's own cache: in a folder, or off."""
        return {"CUDA_CACHE_PATH": folder} if folder else {"CUDA_CACHE_DISABLE": "1"}

    def run(self, own, cache=None):
        """Runs the program once. @own: variables of the driver's own cache; @cache: Kiln's
        directory. Returns the milliseconds of each stretch."""
        kiln = [TOOL, "run", "--"] if cache else []
        variables = self.base | own | ({"KILN_DIR": cache} if cache else {})
        ran = subprocess.run([*kiln, *PROGRAM], env=variables, capture_output=True, text=True,
                             timeout=TIMEOUT_SECONDS)
        if "no device of a platform" in ran.stderr or "clGetPlatformIDs" in ran.stderr:
            raise Skipped(ran.stderr.strip())
        if ran.returncode != 0:
            raise RuntimeError(f"exit status {ran.returncode}: {ran.stdout}{ran.stderr}")
        times = json.loads(ran.stdout.splitlines()[-1])
        return {
            "builds": times["build_ns"] / 1e6,
            "builds and first launches": (times["build_ns"] + times["launch_ns"]) / 1e6,
            "until the results": (times["results_ns"] - times["main_ns"]) / 1e6,
        }

    def starts(self, rounds):
        new = self.scratch.folder
        own, with_empty, with_off = new(), new(), new()
        self.run(self.own_cache(own))
        self.run(self.own_cache(), with_off)
        both_own, both = new(), new()
        self.run(self.own_cache(both_own), both)  # builds from source
        self.run(self.own_cache(both_own), both)  # the driver's own cache stores what a hit loads
        self.run(self.own_cache(new()), with_empty)
        medians = in_turns({
            "cold": lambda: self.run(self.own_cache(new())),
            "cold, the driver's cache off": lambda: self.run(self.own_cache()),
            "cold with Kiln's layer": lambda: self.run(self.own_cache(new()), new()),
            "ComputeCache only": lambda: self.run(self.own_cache(own)),
            "Kiln only, the driver's cache off": lambda: self.run(self.own_cache(), with_off),
            "Kiln only, the driver's cache empty": lambda: self.run(self.own_cache(new()),
                                                                    with_empty),
            "both": lambda: self.run(self.own_cache(both_own), both),
        }, rounds)
        cold = medians.pop("cold")
        rows = [result(f"{name} against cold: {stretch}, ms", way[stretch], cold[stretch], None)
                for name, way in medians.items() for stretch in cold]
        compute_cache = medians["ComputeCache only"]
        return rows + [
            result(f"both against ComputeCache only: {stretch}, ms", medians["both"][stretch],
                   compute_cache[stretch], None) for stretch in cold]

    # ---- binaries ----

    def binaries(self, own, *options):
        ran = subprocess.run([*BINARIES, *options], env=self.base | own, capture_output=True, text=True,
                             timeout=TIMEOUT_SECONDS)
        if ran.returncode != 0:
            raise RuntimeError(f"nvidia_binaries: {ran.returncode}: {ran.stdout}{ran.stderr}")
        told = json.loads(ran.stdout)
        self.told = told
        return {name: value for name, value in told.items() if name.endswith("_ms")}

    def loads(self, rounds):
        """Returns the time to make a program from each kind of binary."""
        filled = self.scratch.folder()
        options = ["--cubin"]
        try:
            self.binaries(self.own_cache(filled), *options)
        except RuntimeError as why:  # loading a CUBIN is undocumented and may crash the driver
            note(BENCH, f"CUBIN: {why}")
            options = []
        self.binaries(self.own_cache(filled), *options)
        ways = {
            "ComputeCache off": lambda: self.binaries(self.own_cache(), *options),
            "ComputeCache filled": lambda: self.binaries(self.own_cache(filled), *options),
        }
        medians = in_turns(ways, rounds)
        note(BENCH, f"binaries: {json.dumps(self.told)}")
        return [
            result(f"{way}, {stretch[:-3].replace('_', ' ')} against from source, ms", ms,
                   of_way["source_launch_ms" if "launch" in stretch else "source_build_ms"], None)
            for way, of_way in medians.items() for stretch, ms in of_way.items()
            if not stretch.startswith("source")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    results = []
    with Scratch() as scratch:
        for part in Bench.starts, Bench.loads:
            try:
                results += part(Bench(scratch), options.rounds)
            except Skipped as why:
                note(BENCH, f"skipped: {why}")
                break
            except (RuntimeError, subprocess.TimeoutExpired) as why:
                note(BENCH, f"{part.__name__}: FAILED: {why}")
                results.append(result(f"{part.__name__}: failed", 1, 1, 0.0))
    return report(BENCH, results, options.json)


if __name__ == "__main__":
    sys.exit(main())
