#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a SYCL program that uses Kiln with one that uses SYCL's own persistent cache: how soon
the program has its results, how many builds a crowd of processes makes, and, with --faults, what
the program does if its cache is damaged or cannot be written.

The program is examples/sycl/tensor_statistics.py. Run by scripts/bench sycl."""

import argparse
import os
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(BENCH / "lib"), str(BENCH.parent / "tests/layers/opencl/sycl")]
from measuring import COUNTING_LAYER, LAYER, Scratch, in_turns, note, report, result
import faults
from sycl_program import (
    builds_at_driver, environment, kiln_cache, run, run_together, sycl_cache)

WARM_LIMIT = 1.05  # of the time that SYCL's own cache takes
COLD_LIMIT = 1 / 20  # of the device work of a start without a cache
ADDED_LIMIT = 1.03  # what filling the cache may add to a start without a cache
COLD_ROUNDS = 15
WARM_ROUNDS = 25
CROWD = 8

# Each fault, with the number of trials with Kiln, the number of trials with SYCL's own cache, and
# whether SYCL's own cache is bounded. The second number is smaller if such trials take a long time.
# A bounded cache also has locks for its size.
FAULTS = (
    ("one bit flipped", faults.bit_flipped, 200, 40, False),
    ("a file truncated", faults.file_truncated, 50, 10, False),
    ("a file emptied, or all", faults.files_emptied, 10, 10, False),
    ("stale locks and temporaries", faults.leftover, 20, 20, True),
    ("killed while filling", faults.killed, 30, 30, False),
    ("read-only, filled", faults.read_only, 4, 4, True),
    ("read-only, empty", faults.read_only_empty, 4, 4, True),
    ("a full disk", faults.full_disk, 10, 10, False),
)


class WrongResults(Exception):
    pass


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        self.own = Path(scratch.folder())
        self.kiln = Path(scratch.folder())
        self.expected = run(environment()).results
        if not self.expected:
            raise WrongResults("the program fails by itself")
        self.own_seconds = self.timed(self.with_own(self.own))["whole process"]
        self.kiln_seconds = self.timed(self.with_kiln(self.kiln))["whole process"]
        # The number of programs that SYCL itself distinguishes.
        self.distinct = len(list(self.own.rglob("*.bin")))

    @staticmethod
    def with_own(folder, **more):
        return environment(**sycl_cache(folder), **more)

    @staticmethod
    def with_kiln(folder, **more):
        return environment(**kiln_cache(folder, LAYER), **more)

    def checked(self, ended):
        if ended.results != self.expected:
            raise WrongResults(ended.ending())
        return ended

    def timed(self, variables):
        return self.checked(run(variables)).seconds()

    # ---- starts ----

    def starts(self):
        both = self.scratch.folder()
        with_both = self.with_kiln(both, **sycl_cache(self.scratch.folder()))
        self.timed(with_both)
        cold = in_turns(
            {
                "none": lambda: self.timed(environment()),
                "kiln": lambda: self.timed(self.with_kiln(self.scratch.folder())),
            },
            COLD_ROUNDS,
        )
        warm = in_turns(
            {
                "own": lambda: self.timed(self.with_own(self.own)),
                "kiln": lambda: self.timed(self.with_kiln(self.kiln)),
                "both": lambda: self.timed(with_both),
            },
            WARM_ROUNDS,
        )
        work, whole = "device work", "time to results"
        return [
            result(f"warm against cold without a cache: {work}",
                   warm["kiln"][work], cold["none"][work], COLD_LIMIT),
            result(f"cold with Kiln against without a cache: {whole}",
                   cold["kiln"][whole], cold["none"][whole], ADDED_LIMIT),
            result(f"warm against SYCL's own cache, warm: {whole}",
                   warm["kiln"][whole], warm["own"][whole], WARM_LIMIT),
            result(f"warm against SYCL's own cache, warm: {work}",
                   warm["kiln"][work], warm["own"][work], None),
            result(f"both warm against SYCL's own cache, warm: {whole}",
                   warm["both"][whole], warm["own"][whole], WARM_LIMIT),
        ]

    # ---- a crowd ----

    def crowd(self, variables, *layers):
        """Returns the builds and the seconds of processes that start together on an empty cache."""
        counts = os.path.join(self.scratch.folder(), "counts")
        layered = {
            "OPENCL_LAYERS": ":".join(str(layer) for layer in (COUNTING_LAYER, *layers)),
            "COUNTING_LAYER_FILE": counts,
        }
        ended = [self.checked(one) for one in run_together(CROWD, variables | layered)]
        seconds = (max(e.end_ns for e in ended) - min(e.start_ns for e in ended)) / 1e9
        return builds_at_driver(counts), seconds

    def crowds(self):
        builds, seconds = self.crowd(self.with_kiln(self.scratch.folder()), LAYER)
        own_builds, own_seconds = self.crowd(self.with_own(self.scratch.folder()))
        title = f"{CROWD} processes together, cold"
        return [
            result(f"{title}: builds against distinct programs", builds, self.distinct, 1.0),
            result(f"{title}: builds against SYCL's own cache", builds, own_builds, 1.0),
            result(f"{title}: seconds against SYCL's own cache", seconds, own_seconds, 1.0),
        ]

    # ---- faults ----

    def tried(self, fault, cache, count, seed):
        """Returns the number of trials with wrong results or a crash, and the number of trials
        after which the cache never became warm again."""
        ended = faults.run_trials(fault, cache, self.expected, count, seed)
        for wrong in ended:
            note("sycl", f"{type(cache).__name__}: {type(wrong).__name__}: {wrong}")
        harmed = sum(isinstance(wrong, faults.ProgramFailed) for wrong in ended)
        return harmed, len(ended) - harmed

    def of_fault(self, name, fault, count, own_count, bounded, seed):
        kiln = faults.KilnCache(self.kiln, self.kiln_seconds, COUNTING_LAYER, LAYER)
        own = faults.OwnCache(self.own, self.own_seconds, COUNTING_LAYER, bounded)
        ends = zip(
            ("wrong or dead", "never warm again"),
            self.tried(fault, kiln, count, seed),
            self.tried(fault, own, own_count, seed))
        return [
            result(f"{name}: {end}, of {count}; SYCL's own of {own_count}", harmed, own_harmed,
                   0.0, ratio=harmed / count)
            for end, harmed, own_harmed in ends
        ]

    def faults(self, seed):
        results = []
        for name, fault, *rest in FAULTS:
            if fault is faults.full_disk and not faults.can_mount():
                note("sycl", f"{name}: skipped, because no disk can be mounted here")
                continue
            results += self.of_fault(name, fault, *rest, seed)
        return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--faults", action="store_true", help="also try faults; takes half an hour")
    parser.add_argument("--seed", default="1", help="for --faults")
    options = parser.parse_args()
    with Scratch() as scratch:
        bench = Bench(scratch)
        results = bench.starts() + bench.crowds()
        if options.faults:
            results += bench.faults(options.seed)
    return report("sycl", results, options.json)


if __name__ == "__main__":
    sys.exit(main())
