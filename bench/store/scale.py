#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a store with many small entries: gets, compared with bare reads of the same
files; gets of a hot thousand entries, compared with a store of a thousand; opening; the slices of a
trim; and `kiln stats`.

--entries N   entries in the store (1000000); a million take 5 GB below $TMPDIR, and minutes
--gets N      gets in a round (20000)
--rounds N    rounds, in turns; the median of each measurement counts (7)"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measuring

PROGRAM = measuring.BUILD / "bench/store_scale"
SMALL = 1000


def lines(*arguments):
    output = subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True,
                            text=True).stdout
    return [[float(word) for word in line.split()] for line in output.splitlines()]


def seconds(*arguments):
    return {"seconds": lines(*arguments)[0][0]}


def kiln_stats(directory):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("KILN_")}
    start = time.monotonic()
    subprocess.run([measuring.TOOL, "stats", "--json", "--dir", directory], check=True,
                   stdout=subprocess.DEVNULL, env=environment)
    return {"seconds": time.monotonic() - start}


def measure_gets(large, small, entries, gets, rounds):
    seed = 0

    def next_seed():
        nonlocal seed
        seed += 1  # so that no round reads files that the round before has just read
        return seed

    ways = {
        "get": lambda: seconds("get", large, entries, gets, next_seed()),
        "read": lambda: seconds("read", large, entries, gets, next_seed()),
    }
    of_all = measuring.in_turns(ways, rounds)
    rest = measuring.in_turns({
        "hot": lambda: seconds("get", large, SMALL, gets, 1),
        "small": lambda: seconds("get", small, SMALL, gets, 1),
        "open": lambda: seconds("open", large),
        "open small": lambda: seconds("open", small),
        "stats": lambda: kiln_stats(large),
    }, rounds)
    return {name: of["seconds"] for name, of in (of_all | rest).items()}


def judge(taken, slices, longest_unlink, gets):
    by_clock = [slice[0] for slice in slices]
    of_processor = sorted(slice[1] for slice in slices)
    nearly_longest = of_processor[int(len(of_processor) * 0.999)]

    def each(name):
        return taken[name] / gets * 1e6

    return [
        measuring.result("get / bare read, microseconds", each("get"), each("read"), 1.3),
        measuring.result("get among a hot thousand / in a store of a thousand, microseconds",
                         each("hot"), each("small"), 1.3),
        measuring.result("open / open of a thousand, microseconds", taken["open"] * 1e6,
                         taken["open small"] * 1e6, 2),
        measuring.result("slice, 99.9th percentile, ms of processor time", nearly_longest * 1e3, 10,
                         1),
        measuring.result("slice, longest, ms of processor time", of_processor[-1] * 1e3, 10, None),
        measuring.result("slice, longest, ms of wall time / longest bare unlink",
                         max(by_clock) * 1e3, longest_unlink * 1e3, None),
        measuring.result("kiln stats, ms", taken["stats"] * 1e3, 100, 1),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--entries", type=int, default=1000000)
    parser.add_argument("--gets", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    subprocess.run(["ninja", "-C", str(measuring.BUILD), "--quiet", "bench/store_scale"],
                   check=True, stdout=sys.stderr)
    others = measuring.Others()
    with measuring.Scratch() as scratch:
        large, small = scratch.folder(), scratch.folder()
        start = time.monotonic()
        size = int(lines("fill", large, arguments.entries)[0][0])
        lines("fill", small, SMALL)
        measuring.note("scale", f"{arguments.entries} entries, {size / 2**20:.0f} MiB, made in "
                                f"{time.monotonic() - start:.0f} s")
        taken = measure_gets(large, small, arguments.entries, arguments.gets, arguments.rounds)
        slices = lines("trim", large, arguments.entries, size)
        longest_unlink = lines("unlink", large, arguments.entries)[0][0]
        mean = sum(slice[0] for slice in slices) / len(slices)
        measuring.note("scale", f"a trim to nine tenths took {len(slices)} slices, "
                                f"{mean * 1e3:.1f} ms on average")
        measuring.note("scale", f"other processes kept {others.processors():.1f} processors busy")
        # Before the stores are removed, which takes a while.
        results = judge(taken, slices, longest_unlink, arguments.gets)
        return measuring.report("scale", results, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
