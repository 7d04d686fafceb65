#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs examples/own_store, an application's own cache of blobs, on a real runtime.

test_own_store.py PROGRAM [TEST…]    without TEST: all
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILT = "{0}: built, computes right"
FOUND = "{0}: made from its blob, computes right"
PLENTY = 1 << 30


class OwnStoreTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-own-store-")
        self.addCleanup(shutil.rmtree, self.scratch)
        self.file = os.path.join(self.scratch, "blobs")

    def run_program(self, most, *names):
        found = subprocess.run([PROGRAM, self.file, str(most), *names], capture_output=True,
                               text=True, timeout=120, check=False)
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        return found.stdout.splitlines()

    def results(self, *arguments):
        return [line for line in self.run_program(*arguments) if "computes" in line]

    def test_a_second_process_finds_blobs(self):
        self.assertEqual(self.results(PLENTY, "square", "cube"),
                         [BUILT.format("square"), BUILT.format("cube")])
        self.assertEqual(self.results(PLENTY, "cube", "square", "root"),
                         [FOUND.format("cube"), FOUND.format("square"), BUILT.format("root")])
        self.assertEqual(os.listdir(self.scratch), ["blobs"])

    def test_a_custom_policy(self):
        self.run_program(PLENTY, "square", "cube")
        room = os.path.getsize(self.file) * 5 // 4
        self.assertEqual(self.results(room, "square"), [FOUND.format("square")])
        lines = self.run_program(room, "root")
        self.assertEqual([line.split()[0] for line in lines if "a blob of" in line],
                         ["evicted", "kept"], lines)
        self.assertEqual(self.results(room, "square", "cube"),
                         [FOUND.format("square"), BUILT.format("cube")])

    def test_limit_set_by_the_caller(self):
        for _ in range(2):
            self.assertEqual(self.results(1, "square"), [BUILT.format("square")])
        self.assertFalse(os.path.exists(self.file))

    def test_damaged_blobs_are_built_again(self):
        self.run_program(PLENTY, "square")
        with open(self.file, "r+b") as file:
            file.seek(-1000, os.SEEK_END)
            file.write(b"damaged!")
        lines = self.run_program(PLENTY, "square")
        self.assertIn(BUILT.format("square"), lines)
        self.assertTrue(any(line.startswith("blob refused: ") for line in lines), lines)
        self.assertEqual(self.results(PLENTY, "square"), [FOUND.format("square")])

    def test_blob_of_a_different_program_is_refused(self):
        self.run_program(PLENTY, "square")
        with open(self.file, "rb") as file:
            bytes_of_square = file.read()
        os.remove(self.file)
        self.run_program(PLENTY, "cube")
        with open(self.file, "rb") as file:
            bytes_of_cube = file.read()
        # The header and the ID are those of one record, and the blob is that of the other.
        ids = [int.from_bytes(b[8:16], "little") for b in (bytes_of_square, bytes_of_cube)]
        size = int.from_bytes(bytes_of_cube[16:24], "little")
        swapped = (bytes_of_square[:16] + size.to_bytes(8, "little") + bytes_of_square[24:32] +
                   bytes_of_square[32:32 + ids[0]] + bytes_of_cube[32 + ids[1]:])
        with open(self.file, "wb") as file:
            file.write(swapped)
        lines = self.run_program(PLENTY, "square")
        self.assertIn(BUILT.format("square"), lines)
        self.assertTrue(any(line.startswith("blob refused: ") for line in lines), lines)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
