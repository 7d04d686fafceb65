#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures many processes that start together on the same programs, with nothing cached: how many
builds they make and how long they take, compared with one process alone and with the same crowd
without Kiln.

The program is eight_programs.c. All processes build its programs in the same order, which is the
worst case, or they begin with different ones. Rows without a limit are for information. Run by
scripts/bench stampede."""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(BENCH / "lib"), str(BENCH.parent / "tests/layers/opencl/sycl")]
from measuring import (
    BUILD, COUNTING_LAYER, LAYER, Others, Scratch, busy_seconds, has_runtime, in_turns, note, report,
    result)
from sycl_program import builds_at_driver

PROGRAM = BUILD / "bench/eight_programs"
PROGRAMS = 8
CROWD = 16
TIMEOUT_SECONDS = 600
AGAIN_MAX = 20

ALONE_LIMIT = 1.3  # of the time that one process takes alone
PEER_LIMIT = 1.0  # of the time that the same crowd takes without Kiln

STEERING = ("KILN_", "POCL_", "OCL_", "OPENCL_", "CL_CONFIG_", "XDG_")


class WrongResults(Exception):
    pass


def same_order(number):
    return 0


def elsewhere(number):
    return number % PROGRAMS


ORDERS = {"same order": same_order, "different orders": elsewhere}


def knows(process, folder):
    try:
        return folder.encode() in (process / "environ").read_bytes()
    except OSError:  # the process has ended, or this user may not inspect it
        return False


def wait_for_helpers(folder):
    """Waits until no process has the folder in its environment: helpers that a crowd started must
    not disturb the next crowd."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end and any(
            knows(process, folder) for process in Path("/proc").glob("[0-9]*")):
        time.sleep(0.1)


class Bench:
    def __init__(self, runtime, scratch):
        self.scratch = scratch
        # Some processes fail if several build the same program on PoCL at the same time: each
        # removes what others left in PoCL's cache, and one that finds nothing to remove gives up.
        self.may_fail = runtime == "pocl"
        plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        self.base = plain | {"OCL_ICD_VENDORS": str(BUILD / "runtimes" / runtime / "vendors")}
        self.runs = {}  # the results of each variant, run by run

    # ---- environments ----

    def without(self):
        """Returns the environment of the runtime alone. If it has its own cache, that is empty."""
        return self.base | {"POCL_CACHE_DIR": self.scratch.folder()}

    def with_kiln(self, cache=None):
        return self.without() | {
            "KILN_DIR": cache or self.scratch.folder(),
            "OPENCL_LAYERS": f"{COUNTING_LAYER}:{LAYER}",  # the lowest comes first
            "COUNTING_LAYER_FILE": os.path.join(self.scratch.folder(), "counts"),
        }

    # ---- running ----

    def finish(self, process, variables):
        """Waits until a process has ended. If OpenCL failed, starts the process again, as its user
        would do. Returns the number of such restarts."""
        for again in range(AGAIN_MAX + 1):
            status = process.wait(TIMEOUT_SECONDS)
            if status == 0:
                return again
            if status != 1 or not self.may_fail:
                break
            process = subprocess.Popen(process.args, env=variables, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)
        raise WrongResults(f"exit status {status}")

    def run(self, count, variables, first=same_order):
        """Starts processes together. Returns the seconds until the last has ended, and further
        counts. Builds at the driver are counted only with Kiln, by a counting layer below
        Kiln's."""
        start, begin = os.pipe()
        processes = [
            subprocess.Popen([PROGRAM, str(first(number))], env=variables, stdin=start,
                             stdout=subprocess.PIPE)
            for number in range(count)
        ]
        os.close(start)
        for process in processes:
            process.stdout.readline()
            process.stdout.close()
        busy_before, start_seconds = busy_seconds(), time.monotonic()
        os.close(begin)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            again = list(pool.map(lambda process: self.finish(process, variables), processes))
        ran = {
            "seconds": time.monotonic() - start_seconds,
            "processor seconds": busy_seconds() - busy_before,
            "started again": sum(again),
        }
        wait_for_helpers(variables["POCL_CACHE_DIR"])
        if "COUNTING_LAYER_FILE" in variables:
            ran["builds"] = builds_at_driver(variables["COUNTING_LAYER_FILE"])
        return ran

    def way(self, name, count, variables, first=same_order):
        """A variant for in_turns. @variables: a function that returns the environment of one
        run."""

        def run():
            ran = self.run(count, variables(), first)
            self.runs.setdefault(name, []).append(ran)
            return ran

        return run

    def spread(self, name):
        """The time of a variant's slowest run divided by that of its fastest."""
        seconds = [ran["seconds"] for ran in self.runs[name]]
        return max(seconds) / min(seconds)

    def most(self, name, stretch):
        return max(ran[stretch] for ran in self.runs[name])


def bench_intel(bench, rounds):
    """Here the first process makes each build once, and the others load it."""
    filled = bench.scratch.folder()
    bench.run(1, bench.with_kiln(filled))
    ways = {
        "alone": bench.way("alone", 1, bench.with_kiln),
        "warm": bench.way("warm", CROWD, lambda: bench.with_kiln(filled)),
    }
    for order, first in ORDERS.items():
        ways[order] = bench.way(order, CROWD, bench.with_kiln, first)
    medians = in_turns(ways, rounds)
    medians |= in_turns({"without": bench.way("without", CROWD, bench.without)}, 1)

    alone, whole, busy = medians["alone"]["seconds"], "seconds", "processor seconds"
    rows = []
    for order in ORDERS:
        title = f"intel, {CROWD} processes cold, {order}"
        rows += [
            result(f"{title}: builds against programs", bench.most(order, "builds"), PROGRAMS, 1.0),
            result(f"{title}: {whole} against one alone", medians[order][whole], alone,
                   ALONE_LIMIT),
            result(f"{title}: {whole} against without Kiln", medians[order][whole],
                   medians["without"][whole], PEER_LIMIT),
        ]
    title = f"intel, {CROWD} processes warm"
    return rows + [
        result(f"{title}: {whole} against one alone, cold", medians["warm"][whole], alone, None),
        result(f"{title}: {busy} against one alone, cold", medians["warm"][busy],
               medians["alone"][busy], None),
    ]


def bench_pocl(bench, rounds):
    """PoCL builds part of each program when a kernel is launched. Its own cache is empty at each
    start here."""
    ways = {}
    for order, first in ORDERS.items():
        ways[f"kiln, {order}"] = bench.way(f"kiln, {order}", CROWD, bench.with_kiln, first)
        ways[f"plain, {order}"] = bench.way(f"plain, {order}", CROWD, bench.without, first)
    medians = in_turns(ways, rounds)
    rows = []
    for order in ORDERS:
        kiln, plain = f"kiln, {order}", f"plain, {order}"
        title = f"pocl, {CROWD} processes cold, {order}"
        rows += [
            result(f"{title}: {stretch} against without Kiln", medians[kiln][stretch],
                   medians[plain][stretch], limit)
            for stretch, limit in (("seconds", PEER_LIMIT), ("processor seconds", None))
        ]
        rows.append(
            result(f"{title}: most restarts of processes, with and without Kiln",
                   bench.most(kiln, "started again"), bench.most(plain, "started again"), None,
                   ratio=bench.most(kiln, "started again") / CROWD))
        note("stampede", f"{title}: slowest run / fastest {bench.spread(kiln):.2f}, without "
             f"Kiln {bench.spread(plain):.2f}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, help="default: 5 on Intel's runtime, 3 on PoCL")
    options = parser.parse_args()
    results = []
    with Scratch() as scratch:
        for runtime, bench, rounds in ("intel", bench_intel, 5), ("pocl", bench_pocl, 3):
            if has_runtime(runtime):
                others = Others()
                results += bench(Bench(runtime, scratch), options.rounds or rounds)
                note("stampede", f"{runtime}: other processes kept {others.processors():.2f} of "
                     f"{os.cpu_count()} processors busy")
            else:
                note("stampede", f"the runtime {runtime} is not installed")
    return report("stampede", results, options.json)


if __name__ == "__main__":
    sys.exit(main())
