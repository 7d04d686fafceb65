#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what NVRTC's compilations cost programs on an NVIDIA GPU: without Kiln, with an empty
cache, with a filled cache, and in eight processes that start together.

The programs are those of tests/layers/nvrtc/gpu, unmodified except that they can start together.
Their own caches are empty in each run. The driver's cache is off unless a row says that it is
filled. Rows without a limit are for information. If there is no GPU, CuPy or PyTorch, the parts
that need it are skipped, and a note names them. Run by scripts/bench nvrtc."""

import argparse
import collections
import glob
import os
import re
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))
from measuring import BUILD, TOOL, Scratch, in_turns, note, report, result

GPU_TESTS = BUILD.parent / "tests/layers/nvrtc/gpu"
KERNELS = 20
CROWD = 8
SKIPPED = 77
TIMEOUT_SECONDS = 300

COMPILE_LIMIT = 1 / 50  # of the time that NVRTC takes
LAUNCH_LIMIT = 1.2  # of the time that it takes with CUBINs that are loaded by hand
ALONE_LIMIT = 1.3  # of the time that one process takes alone

STEERING = ("KILN_", "CUDA_CACHE_", "CUPY_CACHE_", "PYTORCH_KERNEL_CACHE_", "NVRTC_")
COMPILED = ("built", "built-privately", "failed")


class Skipped(Exception):
    pass


def find_nvrtc():
    folders = ["/usr/local/cuda/lib64", sysconfig.get_path("purelib") + "/nvidia/*/lib"]
    for folder in folders:
        libraries = sorted(glob.glob(folder + "/libnvrtc.so.[0-9]*"))
        if libraries:
            return libraries[-1]
    raise Skipped("no NVRTC")


class Traced:
    """What KILN_TRACE reports about all processes of a run."""

    def __init__(self, path):
        text = path.read_text() if path.exists() else ""
        requests = re.findall(r"\] ([a-z-]+) key=([0-9a-f]+)", text)
        self.text = text
        self.compiled = collections.Counter(key for way, key in requests if way in COMPILED)
        self.keys = {key for _, key in requests}
        self.passed = len(re.findall(r"\] passed-through nvrtc", text))

    def twice(self):
        """Yields each key that was compiled more than once, with its trace lines."""
        for key, count in self.compiled.items():
            if count > 1:
                yield key, [line for line in self.text.splitlines() if key in line]


class Program:
    """One of the programs, with its environment and its expected results."""

    def __init__(self, name, command, scratch):
        self.name = name
        self.command = command
        self.scratch = scratch
        self.results = None  # the results of its first run

    def environment(self, driver_cache=None):
        plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        driver = {"CUDA_CACHE_PATH": driver_cache} if driver_cache else {"CUDA_CACHE_DISABLE": "1"}
        return plain | driver | {
            "CUPY_CACHE_DIR": self.scratch.folder(),
            "PYTORCH_KERNEL_CACHE_PATH": self.scratch.folder(),
        }

    def check(self, status, output, errors):
        if status == SKIPPED:
            raise Skipped(output.strip())
        if status != 0:
            raise RuntimeError(f"{self.name}: exit status {status}\n{errors}")
        results = [line for line in output.splitlines() if line.startswith("results ")]
        self.results = self.results or results
        if not results or results != self.results:
            raise RuntimeError(f"{self.name}: the results differ")

    def run(self, cache=None, more=(), driver_cache=None):
        """Runs the program once, with Kiln if @cache is given. Returns the milliseconds of each
        stretch."""
        kiln = [TOOL, "run", "--"] if cache else []
        variables = self.environment(driver_cache) | ({"KILN_DIR": cache} if cache else {})
        ran = subprocess.run([*kiln, *self.command, *more], env=variables, capture_output=True,
                             text=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
        self.check(ran.returncode, ran.stdout, ran.stderr)
        times = re.findall(r"(\w+)(?: took)? ([\d.]+) ms", ran.stderr)
        return {stretch: float(ms) for stretch, ms in times}

    # ---- several at once ----

    def start(self, cache, trace):
        kiln = [TOOL, "run", "--"] if cache else []
        variables = self.environment() | {"WAIT_FOR_START": "1", "KILN_TRACE": str(trace)}
        variables |= {"KILN_DIR": cache} if cache else {}
        process = subprocess.Popen([*kiln, *self.command], env=variables, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if process.stdout.readline() != "ready\n":
            output, errors = process.communicate()
            self.check(process.returncode, output, errors)
        return process

    def crowd(self, count, with_kiln):
        """Starts processes that begin together, with nothing cached. Returns the seconds until all
        have their results, and what Kiln traced."""
        cache = self.scratch.folder() if with_kiln else None
        trace = Path(self.scratch.folder()) / "trace"
        processes = [self.start(cache, trace) for _ in range(count)]
        ends, outputs = [0.0] * count, [None] * count

        def wait(number):
            process = processes[number]
            first = process.stdout.readline()
            ends[number] = time.monotonic()
            rest, errors = process.communicate(timeout=TIMEOUT_SECONDS)
            outputs[number] = (process.returncode, first + rest, errors)

        begin = time.monotonic()
        for process in processes:
            process.stdin.close()
            process.stdin = None
        threads = [threading.Thread(target=wait, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for output in outputs:
            self.check(*output)
        return max(ends) - begin, Traced(trace)


def tell_twice(name, traced):
    for key, lines in traced.twice():
        note("nvrtc", f"{name}: compiled {traced.compiled[key]} times: {key}")
        for line in lines[:20]:
            note("nvrtc", f"  {line}")


def bench_crowd(program, rounds):
    most = {"compiled": 0, "distinct": 1, "passed": 0}

    def way(count, with_kiln):
        def run():
            seconds, traced = program.crowd(count, with_kiln)
            if with_kiln and count == CROWD:
                tell_twice(program.name, traced)
                compiled = sum(traced.compiled.values())
                if compiled / max(len(traced.keys), 1) >= most["compiled"] / most["distinct"]:
                    most.update(compiled=compiled, distinct=max(len(traced.keys), 1))
                most["passed"] = max(most["passed"], traced.passed)
            return {"seconds": seconds}

        return run

    medians = in_turns({"alone": way(1, True), "crowd": way(CROWD, True),
                        "without": way(CROWD, False)}, rounds)
    alone, crowd, without = (medians[name]["seconds"] for name in ("alone", "crowd", "without"))
    title = f"{program.name}, {CROWD} processes cold"
    return [
        result(f"{title}: compilations against distinct kernels", most["compiled"],
               most["distinct"], 1.0),
        result(f"{title}: compilations past the cache", most["passed"], most["distinct"], None),
        result(f"{title}: seconds against one alone", crowd, alone, ALONE_LIMIT),
        result(f"{title}: seconds against without Kiln", crowd, without, None),
    ]


def in_ways(program, rounds, more=None):
    """Medians in milliseconds: without Kiln, with an empty cache and with a filled one; and, with
    the driver's own cache filled, without Kiln and with a filled cache."""
    filled, driver_cache = program.scratch.folder(), program.scratch.folder()
    program.run(filled)
    program.run(driver_cache=driver_cache)
    ways = {
        "plain": program.run,
        "cold": lambda: program.run(program.scratch.folder()),
        "warm": lambda: program.run(filled),
        "driver's": lambda: program.run(driver_cache=driver_cache),
        "both": lambda: program.run(filled, driver_cache=driver_cache),
    }
    return in_turns(ways | (more or {}), rounds)


def bench_c_program(program, rounds):
    saved = program.scratch.folder()
    program.run(more=["save", saved])
    by_hand = ["load", saved]
    medians = in_ways(program, rounds, {
        "hand": lambda: program.run(more=by_hand),
        "hand under Kiln": lambda: program.run(program.scratch.folder(), by_hand),
    })
    plain, cold, warm, hand = (medians[name] for name in ("plain", "cold", "warm", "hand"))

    def launched(way):
        return way["load"] + way["launch"]

    title = f"C program, {KERNELS} kernels, ms"
    return [
        result(f"{title}: found against compiled by NVRTC", warm["compile"], plain["compile"],
               COMPILE_LIMIT),
        result(f"{title}: compiled and stored against compiled", cold["compile"], plain["compile"],
               None),
        result(f"{title}: compiled, the driver's cache filled against off",
               medians["driver's"]["compile"], plain["compile"], None),
        result(f"{title}: found against compiled, the driver's cache filled for both",
               medians["both"]["compile"], medians["driver's"]["compile"], None),
        result(f"{title}: load and first launch, warm against CUBINs by hand", launched(warm),
               launched(hand), LAUNCH_LIMIT),
        result(f"{title}: the same for CUBINs by hand, under kiln run against without",
               launched(medians["hand under Kiln"]), launched(hand), None),
        result(f"{title}: look-up, load and launch against reading and launching CUBINs by hand",
               launched(warm) + warm["compile"], launched(hand) + hand["compile"], None),
    ]


def bench_python_program(program, rounds):
    medians = in_ways(program, rounds)
    plain, cold, warm, drivers, both = (
        medians[name]["kernels"] for name in ("plain", "cold", "warm", "driver's", "both"))
    title = f"{program.name}, kernels, ms"
    return [
        result(f"{title}: warm against without Kiln", warm, plain, None),
        result(f"{title}: cold against without Kiln", cold, plain, None),
        result(f"{title}: without Kiln, the driver's cache filled against off", drivers,
               plain, None),
        result(f"{title}: warm against without Kiln, the driver's cache filled for both", both,
               drivers, None),
    ]


def describe_machine():
    try:
        told = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version",
                               "--format=csv,noheader"], capture_output=True, text=True)
        note("nvrtc", told.stdout.strip() or "nvidia-smi finds no GPU")
    except OSError as error:
        note("nvrtc", f"nvidia-smi: {error.strerror}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, help="default: 15 for the C program, 3 for all else")
    parser.add_argument("--program", action="append", help="C program, CuPy, PyTorch; default: all")
    parser.add_argument("--python", default=sys.executable, help="has CuPy and PyTorch")
    options = parser.parse_args()
    describe_machine()
    results = []
    with Scratch() as scratch:
        programs = [
            ("C program", bench_c_program, 15, lambda: [
                str(BUILD / "tests/layers/nvrtc/nvrtc_launch"), find_nvrtc(), str(KERNELS)]),
            ("CuPy", bench_python_program, 3, lambda: [
                options.python, str(GPU_TESTS / "cupy_kernels.py")]),
            ("PyTorch", bench_python_program, 3, lambda: [
                options.python, str(GPU_TESTS / "torch_kernels.py")]),
        ]
        for name, bench, rounds, command in programs:
            if options.program and name not in options.program:
                continue
            try:
                program = Program(name, command(), scratch)
                results += bench(program, options.rounds or rounds)
                results += bench_crowd(program, options.rounds or 3)
            except Skipped as why:
                note("nvrtc", f"{name}: {why}")
            except (RuntimeError, subprocess.TimeoutExpired) as why:
                note("nvrtc", f"{name}: FAILED: {why}")
                results.append(result(f"{name}: failed", 1, 1, 0.0))
    return report("nvrtc", results, options.json)


if __name__ == "__main__":
    sys.exit(main())
