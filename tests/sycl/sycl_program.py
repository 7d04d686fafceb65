# SPDX-License-Identifier: Apache-2.0
"""What the test and the bench of SYCL programs share: running examples/sycl/tensor_statistics.py with
a given cache, and damaging caches. Both are run by scripts/with-runtime sycl, with its Python."""

import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent.parent / "examples/sycl/tensor_statistics.py"
TIMEOUT_SECONDS = 300

# What steers a SYCL program, its OpenCL or Kiln. The runtime's own choice stays.
STEERING = ("KILN_", "SYCL_", "UR_", "ONEAPI_", "OPENCL_", "CL_CONFIG_", "LD_LIBRARY_PATH", "XDG_")


def environment(**more):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
    return plain | more


def sycl_cache(folder):
    """The variables that turn SYCL's own persistent cache on."""
    return {"SYCL_CACHE_PERSISTENT": "1", "SYCL_CACHE_DIR": str(folder)}


def kiln_cache(folder, *layers):
    """The variables that put layers under a program, from the lowest up, with a cache directory."""
    return {"KILN_DIR": str(folder), "OPENCL_LAYERS": ":".join(str(layer) for layer in layers)}


class Run:
    """One run of the program, from start to end."""

    def __init__(self, variables, command=()):
        self.start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.process = subprocess.Popen(
            [*command, sys.executable, PROGRAM, "--json"], env=variables, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.errors = ""
        self.results = []
        self.times = {}

    def finish(self):
        """Waits for the end; returns itself."""
        try:
            output, self.errors = self.process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, self.errors = self.process.communicate()
        self.end_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        lines = output.splitlines()
        if self.process.returncode == 0 and lines:
            self.results = lines[:-1]
            self.times = json.loads(lines[-1])
        return self

    def ending(self):
        return f"status {self.process.returncode}\n{self.errors}"

    def seconds(self):
        """Each stretch, by name."""
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
    """What a counting layer below all others saw: builds of anything but binaries."""
    builds = 0
    for line in Path(file).read_text().splitlines():
        counts = dict(field.split("=") for field in line.split()[1:])
        builds += int(counts["builds"]) - int(counts["binaries"])
    return builds


# ---- damage ----


def flip_bit(file, chance):
    content = bytearray(file.read_bytes())
    place = chance.randrange(8 * len(content))
    content[place // 8] ^= 1 << place % 8
    file.write_bytes(content)
    return f"{file}: bit {place} flipped"


def truncate(file, chance):
    length = chance.randrange(file.stat().st_size)
    os.truncate(file, length)
    return f"{file}: truncated to {length}"


def empty(file, chance):
    os.truncate(file, 0)
    return f"{file}: emptied"


def cached_files(folder):
    return sorted(f for f in Path(folder).rglob("*") if f.is_file() and f.stat().st_size > 0)


class DamagedRuns:
    """Runs the program on copies of a cache, each with one random damage."""

    def __init__(self, cache, variables_for, expected, seed):
        """@variables_for: a function that gives the environment for a cache's folder."""
        self.cache = cache
        self.variables_for = variables_for
        self.expected = expected
        self.seed = seed

    def run_one(self, damage, number, check=None):
        """Returns nothing where all went well, else what went wrong."""
        chance = random.Random(f"{self.seed} {damage.__name__} {number}")
        with tempfile.TemporaryDirectory(prefix="kiln-damaged-") as scratch:
            copy = Path(scratch) / "cache"
            shutil.copytree(self.cache, copy)
            done = damage(chance.choice(cached_files(copy)), chance)
            ended = run(self.variables_for(copy))
            if ended.results != self.expected:
                return f"{done}: {'wrong results' if ended.results else ended.ending()}"
            return check(copy, done) if check else None

    def run_all(self, damage, count, check=None):
        """Two at a time. Returns what went wrong, a text for each run."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ended = pool.map(lambda number: self.run_one(damage, number, check), range(count))
            return [wrong for wrong in ended if wrong]
