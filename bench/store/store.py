#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a store on the disk costs, beside the system calls alone (the floor: openat, fstat, read, close,
into memory that is obtained and freed alike), beside LMDB and SQLite on the same data, and beside
signed entries. Each of 64 MB of entries is read in turn, as a program reads them; "over and over" is
one that stays in the processor's cache. The files themselves are in memory. Peers that are not
installed are left out, which a note says. Nothing is flushed to the disk.

--rounds N    how often each is measured, in turns; the least of each counts (5)"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measuring

SIZES = {"10 KB": 10 << 10, "100 KB": 100 << 10, "1 MB": 1 << 20, "10 MB": 10 << 20}


def measure(rounds):
    """Microseconds by (subject, bytes of a payload)."""
    build = measuring.BUILD
    subprocess.run(["ninja", "-C", str(build), "--quiet", "bench/store_bench"], check=True,
                   stdout=sys.stderr)
    least = {}
    with measuring.Scratch() as scratch:
        output = subprocess.run([build / "bench/store_bench", scratch.folder(), str(rounds)],
                                check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        subject, size, taken = line.split("\t")
        what = (subject, int(size))
        least[what] = min(float(taken) / 1000, least.get(what, float("inf")))
    return least


def judge(taken):
    def one(name, value, peer, limit, size):
        if (peer, size) in taken:
            results.append(measuring.result(name, taken[value, size], taken[peer, size], limit))

    results = []
    for title, size in SIZES.items():
        one(f"get of {title} / bare read", "get", "bare read", 1.5, size)
        one(f"get of {title}, over and over / bare read", "get again", "bare read again", None, size)
        one(f"get of {title} / signed", "get", "get, signed", None, size)
        one(f"get of {title} / LMDB, unverified", "get", "LMDB get", None, size)
        one(f"get of {title} / SQLite, unverified", "get", "SQLite get", None, size)
    one("absent key / failing openat", "absent", "bare absent", 2, SIZES["10 KB"])
    for title, size in SIZES.items():
        one(f"put of {title}, as who built it pays / one copy", "hand over", "copy", None, size)
    for title, size in SIZES.items():
        one(f"put of {title} / bare write and rename", "put", "bare write", None, size)
        one(f"put of {title} / LMDB", "put", "LMDB put", None, size)
        one(f"put of {title} / SQLite", "put", "SQLite put", None, size)
    one("lease taken and freed / openat, lock and close", "lease", "bare lock", None,
        SIZES["10 KB"])
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    others = measuring.Others()
    taken = measure(arguments.rounds)
    here = {subject for subject, _ in taken}
    for peer in ("LMDB", "SQLite"):
        if f"{peer} get" not in here:
            measuring.note("store", f"{peer} is not installed, and is left out")
    measuring.note("store", f"microseconds; others kept {others.processors():.1f} processors busy")
    return measuring.report("store", judge(taken), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
