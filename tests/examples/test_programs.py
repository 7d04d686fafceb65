#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of programs and cache blobs as their README shows.

    test_programs.py USE_CASES CACHE_BLOB [--captures]

--captures the runtime returns binaries cheaply, so a context stores them without a request"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

USE_CASES, CACHE_BLOB = sys.argv[1:3]
CAPTURES = "--captures" in sys.argv


def run(*command):
    """Returns what a program prints. The program must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Examples(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        os.environ["POCL_CACHE_DIR"] = str(self.folder / "pocl")

    def check_use_cases(self, *arguments, expected):
        lines = run(USE_CASES, *arguments).stdout.splitlines()
        self.assertEqual(lines, [
            f"one kernel in a loop: the program was {expected}",
            f"many kernels of one program: the program was {expected}",
            "2 programs and 5 kernels in memory; kernels were found there 19 times",
            "all is right"])

    def test_use_cases_without_a_store(self):
        for _ in range(2):
            self.check_use_cases(expected="built")

    def test_use_cases_after_a_restart(self):
        store = str(self.folder / "store")
        self.check_use_cases(store, expected="built")
        self.check_use_cases(store, expected="found on disk" if CAPTURES else "built")

    def test_blobs(self):
        blobs = self.folder / "blobs"
        blobs.mkdir()
        self.assertEqual(run(CACHE_BLOB, blobs).stdout, "built, computes right\n")
        kept = list(blobs.iterdir())
        self.assertEqual([path.suffix for path in kept], [".blob"])
        self.assertEqual(run(CACHE_BLOB, blobs).stdout, "made from its blob, computes right\n")

        # The program reports a damaged blob, and replaces it.
        content = bytearray(kept[0].read_bytes())
        content[-100] ^= 1
        kept[0].write_bytes(content)
        damaged = run(CACHE_BLOB, blobs)
        self.assertEqual(damaged.stdout, "built, computes right\n")
        self.assertIn("damaged", damaged.stderr)
        self.assertEqual(run(CACHE_BLOB, blobs).stdout, "made from its blob, computes right\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
