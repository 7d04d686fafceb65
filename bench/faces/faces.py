#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the faces add to the engines below them: constants, programs, kernels and cache
blobs. Each is measured in turns with the engine below it, in one process.

--rounds N    rounds; the least of each measurement counts (20)"""

import argparse
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH / "lib"))
import blobs
import constants
import measuring
import programs

# Modules of this folder. PROGRAM is a program that prints "what <tab> nanoseconds", and rows judges
# its results. RUNTIME is the runtime that it needs, if any.
FACES = [constants, programs, blobs]


def measure(face, rounds):
    """Nanoseconds by what was requested."""
    program = face.PROGRAM
    path = measuring.BUILD / "bench" / program
    within = []
    if hasattr(face, "RUNTIME"):
        within = [BENCH.parent / "scripts/with-runtime", face.RUNTIME]
    subprocess.run(["ninja", "-C", str(measuring.BUILD), "--quiet", f"bench/{program}"], check=True,
                   stdout=sys.stderr)
    output = subprocess.run([*within, path, str(rounds)], check=True, capture_output=True, text=True).stdout
    least = {}
    for line in output.splitlines():
        what, taken = line.split("\t")
        least[what] = min(float(taken), least.get(what, float("inf")))
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    results = [row for face in FACES for row in face.rows(measure(face, arguments.rounds))]
    return measuring.report("faces", results, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
