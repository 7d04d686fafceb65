# SPDX-License-Identifier: Apache-2.0
"""Runs examples/sycl/tensor_statistics.py with a given cache, for the test and the bench of SYCL
programs. Both run under scripts/with-runtime sycl, with the Python of that runtime."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[4] / "examples/sycl/tensor_statistics.py"
TIMEOUT_SECONDS = 300

# The program's arguments. Tests of caches append SOME_RESULTS: with these, the program builds a
# third of its device images, in a fifth of the time.
arguments = ["--json"]
SOME_RESULTS = ("--results", "6")

# Variables that affect a SYCL program, its OpenCL or Kiln. The choice of the runtime stays.
STEERING = ("KILN_", "SYCL_", "UR_", "ONEAPI_", "OPENCL_", "CL_CONFIG_", "LD_LIBRARY_PATH", "XDG_")


def environment(**more):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
    return plain | more


def sycl_cache(folder):
    """Returns the variables that turn on SYCL's own persistent cache."""
    return {"SYCL_CACHE_PERSISTENT": "1", "SYCL_CACHE_DIR": str(folder)}


def kiln_cache(folder, *layers):
    """Returns the variables that put layers under a program, from the lowest up, with a cache
    directory."""
    return {"KILN_DIR": str(folder), "OPENCL_LAYERS": ":".join(str(layer) for layer in layers)}


class Run:
    """One run of the program, from start to end."""

    def __init__(self, variables, command=()):
        self.start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.process = subprocess.Popen(
            [*command, sys.executable, PROGRAM, *arguments], env=variables, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.errors = ""
        self.hung = False
        self.results = []
        self.times = {}

    def finish(self, seconds=TIMEOUT_SECONDS):
        """Waits for the end of the program, which is killed after @seconds. Returns the run."""
        try:
            output, self.errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.hung = True
            self.process.kill()
            output, self.errors = self.process.communicate()
        self.end_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        lines = output.splitlines()
        if self.process.returncode == 0 and lines:
            self.results = lines[:-1]
            self.times = json.loads(lines[-1])
        return self

    def ending(self):
        how = "hung" if self.hung else f"status {self.process.returncode}"
        return f"{how}\n{self.errors}"

    def seconds(self):
        """Returns the time of each phase, by name."""
        times = self.times
        return {
            "time to results": (times["results_ns"] - self.start_ns) / 1e9,
            "device work": (times["results_ns"] - times["device_ns"]) / 1e9,
            "whole process": (self.end_ns - self.start_ns) / 1e9,
        }


def run(variables, command=()):
    return Run(variables, command).finish()


def run_together(count, variables, command=()):
    runs = [Run(variables, command) for _ in range(count)]
    return [one.finish() for one in runs]


def builds_at_driver(file):
    """Returns the number of builds that a counting layer below all other layers has counted. Builds
    of binaries do not count."""
    builds = 0
    for line in Path(file).read_text().splitlines():
        counts = dict(field.split("=") for field in line.split()[1:])
        builds += int(counts["builds"]) - int(counts["binaries"])
    return builds
