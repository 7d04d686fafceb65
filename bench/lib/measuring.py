# SPDX-License-Identifier: Apache-2.0
"""What benches share: scratch folders, runs in turns, and results and their output."""

import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent.parent / "build"
LAYER = BUILD / "layers/opencl/libkiln_opencl_layer.so"
TOOL = BUILD / "tools/kiln/kiln"
COUNTING_LAYER = BUILD / "tests/layers/opencl/conformance/libcounting_layer.so"


class Scratch:
    """New, empty directories for one bench, removed at its end."""

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="kiln-bench-")
        return self

    def __exit__(self, *failure):
        shutil.rmtree(self.root)

    def folder(self):
        return tempfile.mkdtemp(dir=self.root)


def busy_seconds():
    """Returns the processor seconds of this process and of its children that have ended."""
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in times)


class Others:
    """Measures from now on how busy other processes keep the processors, apart from the bench's own
    processes."""

    def __init__(self):
        self.start = time.monotonic()
        self.busy = self.busy_everywhere() - busy_seconds()

    @staticmethod
    def busy_everywhere():
        with open("/proc/stat") as file:
            user, nice, system, _idle, _iowait, *interrupts = file.readline().split()[1:9]
        return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")

    def processors(self):
        """The number of busy processors, on average."""
        busy = self.busy_everywhere() - busy_seconds() - self.busy
        return max(0.0, busy) / (time.monotonic() - self.start)


def has_runtime(name):
    return (BUILD / "runtimes" / name / "vendors").is_dir()


def in_turns(ways, rounds):
    """Runs each variant once per round, and reverses the order after each round. Returns the median
    of each stretch, by variant.

    A variant is a function that runs once and returns the seconds of each stretch, by name."""
    runs = {name: [] for name in ways}
    order = list(ways)
    for _ in range(rounds):
        for name in order:
            runs[name].append(ways[name]())
        order.reverse()
    return {
        name: {stretch: statistics.median(r[stretch] for r in of_way) for stretch in of_way[0]}
        for name, of_way in runs.items()
    }


def result(name, value, peer, limit, ratio=None):
    """@limit: None if the row is for information only.
    @ratio: given if it is not value divided by peer."""
    if ratio is None:
        ratio = value / peer
    return {
        "name": name,
        "value": round(value, 6),
        "floor_or_peer": round(peer, 6),
        "ratio": round(ratio, 4),
        "limit": None if limit is None else round(limit, 4),
        "pass": limit is None or ratio <= limit,
    }


def print_table(results):
    if not results:
        return
    width = max(len(r["name"]) for r in results)
    print(f"{'':{width}}  {'value':>9}  {'against':>9}  {'ratio':>7}  {'limit':>7}")
    for r in results:
        line = f"{r['name']:{width}}  {r['value']:9.4f}  {r['floor_or_peer']:9.4f}  {r['ratio']:7.4f}"
        if r["limit"] is not None:
            line += f"  {r['limit']:7.4f}  {'pass' if r['pass'] else 'FAIL'}"
        print(line)


def report(bench, results, as_json):
    """Returns the bench's exit status."""
    if as_json:
        print(json.dumps({"bench": bench, "results": results}))
    else:
        print_table(results)
    return 0 if all(r["pass"] for r in results) else 1


def note(bench, text):
    print(f"{bench}: {text}", file=sys.stderr, flush=True)
