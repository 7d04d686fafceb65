#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what programs pay for compiling at run time, from the end of their imports: with all
caches empty, with their own caches filled, with Kiln's store empty, with Kiln's store filled and
their own caches empty, and in eight processes that start together with everything empty.

A row is one framework; "all" is one program that uses all of them. Rows whose framework or GPU is
missing are skipped, and a note names them. The median of five runs counts for programs under five
seconds, otherwise one run. Run by scripts/bench doors. In an existing build,
python3 bench/doors/doors.py is enough."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from measuring import TOOL, Scratch, note, report, result

ROWS = ["cupy", "cuda-core", "triton", "inductor", "jax", "ptx", "jiterator", "all"]
ROUNDS, SHORT_SECONDS = 5, 5.0
RANKS = 8
SKIPPED = 77
TIMEOUT_SECONDS = 280

WARM_LIMIT = 1.15  # of the time with the program's own caches filled
COLD_LIMIT = 1.05  # of the time with all caches empty
RANKS_LIMIT = 1.3  # of the time that one process takes with Kiln's store empty

STEERING = ("KILN_", "CUDA_CACHE_", "CUPY_", "PYTORCH_KERNEL_CACHE_", "TORCHINDUCTOR_", "TRITON_",
            "JAX_", "NVRTC_", "XDG_")


class Skipped(Exception):
    pass


class Row:
    def __init__(self, name, python, scratch):
        names = [other for other in ROWS if other != "all"] if name == "all" else [name]
        self.name = name
        self.command = [python, str(Path(__file__).with_name("rows.py")), *names]
        self.scratch = scratch
        self.folders = scratch.folder() + "/folders"
        self.results = None

    def start(self, own, store):
        """Starts a process whose own caches are below a folder, with Kiln if a store is given."""
        plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        os.makedirs(own + "/tmp", exist_ok=True)
        # The packages of the user must be found in their real home.
        variables = plain | {"HOME": own, "TMPDIR": own + "/tmp", "PYTHONUSERBASE":
                             os.environ.get("PYTHONUSERBASE", os.path.expanduser("~/.local")),
                             # Otherwise each rank would take most of the GPU's memory.
                             "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if store:
            variables |= {"KILN_DIR": store, "KILN_FOLDERS": self.folders}
        else:
            variables |= {"JAX_COMPILATION_CACHE_DIR": own + "/jax",
                          "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        kiln = [str(TOOL), "run", "--"] if store else []
        return subprocess.Popen([*kiln, *self.command], env=variables, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, processes):
        """Lets processes that were started begin together. Returns the seconds of each."""
        outputs = [None] * len(processes)
        ready = [process.stdout.readline() for process in processes]

        def wait(number):
            outputs[number] = processes[number].communicate(timeout=TIMEOUT_SECONDS)

        threads = [threading.Thread(target=wait, args=(number,))
                   for number in range(len(processes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = []
        for process, line, output in zip(processes, ready, outputs):
            if output is None:
                process.kill()
                raise RuntimeError("no end")
            if process.returncode == SKIPPED:
                raise Skipped(line.strip())
            if process.returncode != 0:
                raise RuntimeError(f"exit status {process.returncode}\n{output[1][-2000:]}")
            seconds, *results = output[0].splitlines()
            self.results = self.results or results
            if results != self.results:
                note("doors", f"{self.name}: the results differ: {results} {self.results}")
            found.append(float(seconds.split()[1]))
        return found

    def empty_folders(self):
        """Empties what is at the same place in every container."""
        shutil.rmtree(self.folders, ignore_errors=True)

    def run(self, own=None, store=None):
        self.empty_folders()
        (seconds,) = self.finish([self.start(own or self.scratch.folder(), store)])
        return seconds

    def ranks(self):
        """Returns the seconds until eight processes have their results, and the builds and keys."""
        self.empty_folders()
        own, store = self.scratch.folder(), self.scratch.folder()
        found = self.finish([self.start(f"{own}/{rank}", store) for rank in range(RANKS)])
        return max(found), counts(store)


def counts(store):
    """Returns how often was built, and how many entries there are."""
    printed = subprocess.run([str(TOOL), "stats", "--json", "--dir", store], capture_output=True,
                             text=True)
    try:
        stats = json.loads(printed.stdout)
        return stats["builds"], stats["entries"]
    except (ValueError, KeyError, TypeError):
        return None


def several(run):
    """Returns the median and the spread of runs."""
    found = [run()]
    while found[0] < SHORT_SECONDS and len(found) < ROUNDS:
        found.append(run())
    return statistics.median(found), max(found) - min(found)


def bench(row):
    own, store = row.scratch.folder(), row.scratch.folder()
    began = time.monotonic()
    columns = {"all caches empty": several(row.run)}
    row.run(own)
    columns["own caches filled"] = several(lambda: row.run(own))
    columns["Kiln cold"] = several(lambda: row.run(store=row.scratch.folder()))
    row.run(store=store)
    columns["Kiln warm"] = several(lambda: row.run(store=store))
    crowd, counted = row.ranks()
    columns[f"{RANKS} ranks cold"] = (crowd, 0.0)
    for name, (median, spread) in columns.items():
        note("doors", f"{row.name}: {name}: {median:.3f} s, spread {spread:.3f}")
    note("doors", f"{row.name}: builds and keys of {RANKS} ranks: {counted}; measured in "
                  f"{time.monotonic() - began:.0f} s")
    empty, filled, cold, warm = (columns[name][0] for name in (
        "all caches empty", "own caches filled", "Kiln cold", "Kiln warm"))
    return [
        result(f"{row.name}: Kiln warm against own caches filled", warm, filled, WARM_LIMIT),
        result(f"{row.name}: Kiln cold against all caches empty", cold, empty, COLD_LIMIT),
        result(f"{row.name}: Kiln warm against all caches empty", warm, empty, None),
        result(f"{row.name}: {RANKS} ranks cold against one", crowd, cold, RANKS_LIMIT),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--row", action="append", choices=ROWS, help="default: all rows")
    parser.add_argument("--python", default=sys.executable, help="has the frameworks")
    options = parser.parse_args()
    results = []
    with Scratch() as scratch:
        for name in options.row or ROWS:
            try:
                results += bench(Row(name, options.python, scratch))
            except Skipped as why:
                note("doors", f"{name}: {why}")
            except (RuntimeError, subprocess.TimeoutExpired) as why:
                note("doors", f"{name}: FAILED: {why}")
                results.append(result(f"{name}: failed", 1, 1, 0.0))
    return report("doors", results, options.json)


if __name__ == "__main__":
    sys.exit(main())
