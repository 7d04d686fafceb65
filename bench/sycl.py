#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A SYCL program under Kiln beside SYCL's own persistent cache: how soon it has its results, how
many builds a crowd of processes makes, and, with --faults, what damaged cached files do to it.

The program is examples/sycl/tensor_statistics.py. Run by scripts/bench sycl."""

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "lib"), str(HERE.parent / "tests/sycl")]
from measuring import COUNTING_LAYER, LAYER, Scratch, in_turns, note, report, result
from sycl_program import (
    DamagedRuns, builds_at_driver, environment, flip_bit, kiln_cache, run, run_together,
    sycl_cache, truncate)

WARM_LIMIT = 1.05  # of the time that SYCL's own cache takes
COLD_LIMIT = 1 / 20  # of the device work of a start without a cache
ADDED_LIMIT = 1.03  # what filling the cache may add to a start without one
COLD_ROUNDS = 7
WARM_ROUNDS = 25
CROWD = 8

FLIPS, TRUNCATIONS = 200, 50
OWN_FLIPS, OWN_TRUNCATIONS = 40, 10  # on SYCL's own cache; many take long to end


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
        self.checked(run(self.with_own(self.own)))
        self.checked(run(self.with_kiln(self.kiln)))
        # What SYCL itself tells apart.
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
                   warm["kiln"][work], warm["own"][work], WARM_LIMIT),
            result(f"both warm against SYCL's own cache, warm: {whole}",
                   warm["both"][whole], warm["own"][whole], WARM_LIMIT),
        ]

    # ---- a crowd ----

    def crowd(self, variables, *layers):
        """Returns builds and seconds of processes that start together on an empty cache."""
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

    def harmed(self, cache, variables_for, flips, truncations, seed):
        """How many runs on damaged caches had wrong results or died."""
        damaged = DamagedRuns(cache, variables_for, self.expected, seed)
        harmed = 0
        for damage, count in (flip_bit, flips), (truncate, truncations):
            for wrong in damaged.run_all(damage, count):
                harmed += 1
                note("sycl", wrong)
        return harmed

    def faults(self, seed):
        harmed = self.harmed(self.kiln, self.with_kiln, FLIPS, TRUNCATIONS, seed)
        own = self.harmed(self.own, self.with_own, OWN_FLIPS, OWN_TRUNCATIONS, seed)
        count, own_count = FLIPS + TRUNCATIONS, OWN_FLIPS + OWN_TRUNCATIONS
        name = f"runs of {count} that damage harmed; of {own_count} on SYCL's own cache"
        return [result(name, harmed, own, 0.0, ratio=harmed / count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--faults", action="store_true", help="damage cached files too: minutes")
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
