#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what programs pay for compiling at run time, from the end of their imports: with all
caches empty, with their own caches filled, with Kiln's store empty, with Kiln's store filled and
their own caches empty, and in eight processes that start together with everything empty.

A row is one framework; "all" is one program that uses all of them. Rows whose framework or GPU is
missing are skipped, and a note names them. The median of five runs counts for programs under five
seconds, otherwise one run; once a column has taken its time, runs are not repeated. Notes have the
seconds of each run. With --state, columns can be measured by several commands, which report the
ratios of all that have been measured. Run by scripts/bench doors. In an existing build,
python3 bench/doors/doors.py is enough."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from measuring import TOOL, Scratch, note, report, result

ROWS = ["cupy", "cuda-core", "triton", "triton-timings", "inductor", "jax", "ptx", "jiterator", "all"]
ROUNDS, SHORT_SECONDS = 5, 5.0
RANKS = 8
SKIPPED = 77

# The columns, in the order in which they fill the folders of those after them, and how long a
# column repeats runs. What it leaves of that time is for the columns after it.
COLUMNS = {"own-empty": 36, "own-filled": 18, "kiln-empty": 42, "kiln-filled": 24, "ranks": 0}
FILLED_BY = {"own-filled": "own-empty", "kiln-filled": "kiln-empty"}
START_SECONDS, RUN_SECONDS, RANKS_SECONDS = 120, 120, 240

WARM_LIMIT = 1.15  # of the time with the program's own caches filled
COLD_LIMIT = 1.05  # of the time with all caches empty
RANKS_LIMIT = 1.3  # of the time that one process takes with Kiln's store empty

RATIOS = [
    ("kiln-filled", "own-filled", WARM_LIMIT, "Kiln warm against own caches filled"),
    ("kiln-empty", "own-empty", COLD_LIMIT, "Kiln cold against all caches empty"),
    ("kiln-filled", "own-empty", None, "Kiln warm against all caches empty"),
    ("ranks", "kiln-empty", RANKS_LIMIT, f"{RANKS} ranks cold against one"),
]

STEERING = ("KILN_", "CUDA_CACHE_", "CUPY_", "PYTORCH_KERNEL_CACHE_", "TORCHINDUCTOR_", "TRITON_",
            "JAX_", "NVRTC_", "XDG_")


# The programs of rows that are not those of the same name. In the row triton-timings, Triton keeps
# the timings of autotuning. Otherwise each process measures again, on the GPU that all share.
PROGRAMS = {"triton-timings": ["triton"],
            "all": [row for row in ROWS if row not in ("all", "triton-timings")]}
VARIABLES = {"triton-timings": {"TRITON_CACHE_AUTOTUNING": "1"}}


class Skipped(Exception):
    pass


class Failed(Exception):
    pass


class Process:
    """A process of a row, in a process group of its own, whose output goes to files: what it started
    may outlive it, and would keep a pipe open."""

    def __init__(self, command, variables, folder):
        self.paths = [os.path.join(folder, name) for name in ("output", "errors")]
        with open(self.paths[0], "w") as output, open(self.paths[1], "w") as errors:
            self.process = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE,
                                            stdout=output, stderr=errors, start_new_session=True)

    def read(self, number=0):
        with open(self.paths[number], errors="replace") as file:
            return file.read()

    def wait_for_imports(self, deadline):
        while "\n" not in self.read() and self.process.poll() is None:
            if time.monotonic() > deadline:
                raise Failed(f"no imports within {START_SECONDS} s: {self.read(1)[-2000:]}")
            time.sleep(0.02)

    def begin(self):
        self.process.stdin.close()

    def finish(self, deadline):
        """Returns the lines that the process has printed."""
        try:
            self.process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise Failed(f"no end: {self.read(1)[-2000:]}") from error
        if self.process.returncode == SKIPPED:
            raise Skipped(self.read().strip())
        if self.process.returncode != 0:
            raise Failed(f"exit status {self.process.returncode}\n{self.read(1)[-2000:]}")
        return self.read().splitlines()

    def end(self):
        """Ends the process and all that it started and that is still there."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Row:
    def __init__(self, name, python, scratch, folder):
        names = PROGRAMS.get(name, [name])
        self.name = name
        self.command = [python, str(Path(__file__).with_name("rows.py")), *names]
        self.scratch = scratch
        self.folder = folder  # what is kept for the next command: state.json, and filled folders
        self.folders = folder + "/folders"
        self.state = {"results": None, "seconds": {}}
        with contextlib.suppress(FileNotFoundError), open(folder + "/state.json") as file:
            self.state = json.load(file)
        self.repeats_until = time.monotonic()

    def start(self, own, store):
        """Starts a process whose own caches are below a folder, with Kiln if a store is given."""
        plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        os.makedirs(own + "/tmp", exist_ok=True)
        # The packages of the user must be found in their real home.
        variables = plain | {"HOME": own, "TMPDIR": own + "/tmp", "PYTHONUSERBASE":
                             os.environ.get("PYTHONUSERBASE", os.path.expanduser("~/.local")),
                             # Otherwise each rank would take most of the GPU's memory.
                             "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        variables |= VARIABLES.get(self.name, {})
        if store:
            variables |= {"KILN_DIR": store, "KILN_FOLDERS": self.folders}
        else:
            variables |= {"JAX_COMPILATION_CACHE_DIR": own + "/jax",
                          "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        # With a summary, the tool ends when folders are kept.
        kiln = [str(TOOL), "run", "--summary", "--"] if store else []
        return Process([*kiln, *self.command], variables, self.scratch.folder())

    def measure(self, owns, store, seconds):
        """Runs processes that begin together, each with a folder for its own caches. Returns the
        seconds of each."""
        shutil.rmtree(self.folders, ignore_errors=True)  # it is at the same place in each container
        processes = []
        try:
            for own in owns:
                processes.append(self.start(own, store))
            deadline = time.monotonic() + START_SECONDS
            for process in processes:
                process.wait_for_imports(deadline)
            for process in processes:
                process.begin()
            deadline = time.monotonic() + seconds
            return [self.check(process.finish(deadline)) for process in processes]
        finally:
            for process in processes:
                process.end()

    def check(self, lines):
        """Compares the results of a process with those of the first one. Returns its seconds."""
        seconds = float(lines[lines.index("ready") + 1].split()[1])
        results = lines[lines.index("ready") + 2:]
        if self.state["results"] is None:
            self.state["results"] = results
            for line in results:
                if line.startswith("missing"):
                    note("doors", f"{self.name}: {line}")
        if results != self.state["results"]:
            note("doors", f"{self.name}: the results differ: {results} {self.state['results']}")
        return seconds

    def run(self, own=None, store=None):
        (seconds,) = self.measure([own or self.scratch.folder()], store, RUN_SECONDS)
        return seconds

    def filled(self, name):
        return os.path.join(self.folder, name)

    def emptied(self, name):
        shutil.rmtree(self.filled(name), ignore_errors=True)
        os.makedirs(self.filled(name))
        return self.filled(name)

    def repeated(self, name, run, first=None):
        """Returns the median of runs, which are repeated until the column's time is used up.
        first() is the first of them, if it differs: it fills a folder for other columns."""
        found = [(first or run)()]
        while (found[0] < SHORT_SECONDS and len(found) < ROUNDS
               and time.monotonic() < self.repeats_until):
            found.append(run())
        note("doors", f"{self.name}: {name}: {statistics.median(found):.3f} s, spread "
                      f"{max(found) - min(found):.3f}, runs {' '.join(map('{:.3f}'.format, found))}")
        return statistics.median(found)

    def ranks(self):
        """Returns the seconds until eight processes that start with everything empty have their
        results."""
        store = self.scratch.folder()
        found = self.measure([self.scratch.folder() for _ in range(RANKS)], store, RANKS_SECONDS)
        note("doors", f"{self.name}: ranks: {RANKS} cold: {max(found):.3f} s, the first "
                      f"{min(found):.3f}, builds and keys {counts(store)}")
        return max(found)

    def column(self, name):
        """Measures a column, and keeps its seconds."""
        if name in FILLED_BY and FILLED_BY[name] not in self.state["seconds"]:
            raise Failed(f"{name} needs {FILLED_BY[name]}, by this command or with the same --state")
        self.repeats_until += COLUMNS[name]
        self.state["seconds"][name] = {
            "own-empty": lambda: self.repeated(name, self.run, lambda: self.run(
                self.emptied("own"))),
            "own-filled": lambda: self.repeated(name, lambda: self.run(self.filled("own"))),
            "kiln-empty": lambda: self.repeated(
                name, lambda: self.run(store=self.scratch.folder()),
                lambda: self.run(store=self.emptied("store"))),
            "kiln-filled": lambda: self.repeated(
                name, lambda: self.run(store=self.filled("store"))),
            "ranks": self.ranks,
        }[name]()
        with open(self.folder + "/state.json", "w") as file:
            json.dump(self.state, file)

    def ratios(self):
        """Returns the results of all columns that have been measured."""
        return [result(f"{self.name}: {text}", self.state["seconds"][name],
                       self.state["seconds"][against], limit)
                for name, against, limit, text in RATIOS
                if name in self.state["seconds"] and against in self.state["seconds"]]


def counts(store):
    """Returns how often was built, and how many entries there are."""
    printed = subprocess.run([str(TOOL), "stats", "--json", "--dir", store], capture_output=True,
                             text=True)
    try:
        stats = json.loads(printed.stdout)
        return stats["builds"], stats["entries"]
    except (ValueError, KeyError, TypeError):
        return None


def bench(row, columns):
    began = time.monotonic()
    failures = []
    for name in columns:
        try:
            row.column(name)
        except Failed as why:
            row.state["seconds"].pop(name, None)
            failures.append(failure(f"{row.name}: {name}", why))
    note("doors", f"{row.name}: measured in {time.monotonic() - began:.0f} s")
    return row.ratios() + failures


def failure(name, why):
    note("doors", f"{name}: FAILED: {why}")
    return result(f"{name}: failed", 1, 1, 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--row", action="append", choices=ROWS, help="default: all rows")
    parser.add_argument("--column", action="append", choices=list(COLUMNS),
                        help="default: all columns")
    parser.add_argument("--state", help="keeps what columns have filled, and their times, in this "
                                        "folder")
    parser.add_argument("--python", default=sys.executable, help="has the frameworks")
    options = parser.parse_args()
    columns = [name for name in COLUMNS if name in (options.column or COLUMNS)]
    results = []
    with Scratch() as scratch:
        state = os.path.abspath(options.state or scratch.folder())
        for name in options.row or ROWS:
            try:
                folder = os.path.join(state, name)
                os.makedirs(folder, exist_ok=True)
                results += bench(Row(name, options.python, scratch, folder), columns)
            except Skipped as why:
                note("doors", f"{name}: {why}")
    return report("doors", results, options.json)


if __name__ == "__main__":
    sys.exit(main())
