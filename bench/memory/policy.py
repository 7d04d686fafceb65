#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how well policies keep expensive objects: the cost of misses divided by the cost of all
requests, for replayed traces and a synthetic one, in caches of 1, 3, 10 and 30 % of all objects'
bytes. Kiln's policies are compared with an exact GDSF, LRU, FIFO, SIEVE, S3-FIFO and W-TinyLFU,
with a cache that misses only first requests, and with an offline policy that knows all later
requests.

--traces FOLDER  folder of traces: NAME.txt or NAME.txt.xz, with lines of "key" or "time key size";
                 missing sizes and costs are derived from the key
--plot FILE      draws all results as SVG"""

import argparse
import lzma
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measuring
import plotting

BLIND_TO_COST = ["fifo", "lru", "sieve", "s3-fifo", "w-tinylfu", "gdsf, cost 1"]
# Kiln's policy is drawn last, above the others.
SHOWN = ["compulsory", "offline", *BLIND_TO_COST, "gdsf", "kiln cost"]
SYNTHETIC_SEED = "20261121"


def traces(folder, scratch):
    """Yields (name, arguments of policy_bench) for each trace."""
    yield "sessions", [SYNTHETIC_SEED]
    for path in sorted(Path(folder).iterdir()) if folder else []:
        if path.name.endswith(".txt"):
            yield path.stem, [path.stem, str(path)]
        elif path.name.endswith(".txt.xz"):
            plain = Path(scratch.folder()) / path.stem
            plain.write_bytes(lzma.decompress(path.read_bytes()))
            yield plain.stem, [plain.stem, str(plain)]


def replay(arguments):
    """The share of the cost by (policy, percent)."""
    output = subprocess.run([measuring.BUILD / "bench/policy_bench", *arguments], check=True,
                            capture_output=True, text=True).stdout
    shares = {}
    for line in output.splitlines():
        policy, percent, share = line.split("\t")
        shares[policy, int(percent)] = float(share)
    return shares


def judge(name, shares):
    for percent in sorted({percent for _, percent in shares}):
        def one(what, policy, peer, limit):
            value, against = shares[policy, percent], shares[peer, percent]
            return measuring.result(f"{name}, {percent} %: {what}", value, against, limit,
                                    ratio=value - against)

        blind = min(BLIND_TO_COST, key=lambda policy: shares[policy, percent])
        yield one("cost - exact GDSF", "kiln cost", "gdsf", 0.02)
        yield one(f"cost - {blind}", "kiln cost", blind, 0.01)
        yield one("lru - exact LRU", "kiln lru", "lru", 0.02)
        yield one("auto - cost", "kiln auto", "kiln cost", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--traces", metavar="FOLDER")
    parser.add_argument("--plot")
    arguments = parser.parse_args()
    subprocess.run(["ninja", "-C", str(measuring.BUILD), "--quiet", "bench/policy_bench"],
                   check=True, stdout=sys.stderr)
    results = []
    panels = {}
    with measuring.Scratch() as scratch:
        for name, trace in traces(arguments.traces, scratch):
            shares = replay(trace)
            results += judge(name, shares)
            panels[name] = {policy: [(f"{percent} %", share) for (other, percent), share
                                     in shares.items() if other == policy] for policy in SHOWN}
    if arguments.plot:
        plotting.curves(arguments.plot, "Cost of misses / cost of requests, by capacity", SHOWN,
                        panels)
    return measuring.report("policy", results, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
