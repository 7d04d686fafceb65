#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a store on disk. It is compared with the system calls alone (the floor:
openat, fstat, read and close, with memory allocated and freed in the same way), with LMDB and
SQLite on the same data, with signed entries, and with a directory into which a group may write. The
bench reads 64 MB of entries one after the other, as a program does; "repeated" is one entry that
stays in the processor's cache. The files are in the page cache, and nothing is flushed to disk.
Peers that are not installed are left out, and a note says so.

--rounds N    rounds, in turns; the least of each measurement counts (5)"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measuring

SIZES = {"10 KB": 10 << 10, "100 KB": 100 << 10, "1 MB": 1 << 20, "10 MB": 10 << 20}


def measure(rounds):
    """Microseconds by (subject, bytes of payload)."""
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
        one(f"get of {title}, repeated / bare read", "get again", "bare read again", None, size)
        one(f"get of {title} / signed", "get", "get, signed", None, size)
        one(f"get of {title} / from a group's directory", "get", "get, group", None, size)
        one(f"get of {title} / LMDB, unverified", "get", "LMDB get", None, size)
        one(f"get of {title} / SQLite, unverified", "get", "SQLite get", None, size)
    one("absent key / failing openat", "absent", "bare absent", 2, SIZES["10 KB"])
    for title, size in SIZES.items():
        one(f"put of {title}, cost to its builder / one copy", "hand over", "copy", None, size)
    for title, size in SIZES.items():
        one(f"put of {title} / bare write and rename", "put", "bare write", None, size)
        one(f"put of {title} / LMDB", "put", "LMDB put", None, size)
        one(f"put of {title} / SQLite", "put", "SQLite put", None, size)
    one("event of a hit / get of 10 KB", "note", "get", 0.02, SIZES["10 KB"])
    one("lease taken and released / openat, lock and close", "lease", "bare lock", None,
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
            measuring.note("store", f"{peer} is not installed and is left out")
    measuring.note("store", "microseconds; other processes kept "
                            f"{others.processors():.1f} processors busy")
    return measuring.report("store", judge(taken), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
