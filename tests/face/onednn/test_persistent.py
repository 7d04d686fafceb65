#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests both levels of the cache with several processes on a real runtime: a second process misses
in memory and finds its programs on disk. The programs are examples/persistent, in C and in C++, and
a program that uses the library's contexts.

test_persistent.py --context PROGRAM [--captures] PROGRAM…    --captures: the runtime's binaries are
                                                              cheap, so that contexts keep programs
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILT = "built, computes right\nfound in memory, computes right\n"
FOUND = "found on disk, computes right\nfound in memory, computes right\n"


class PersistentTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-persistent-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")

    def run_program(self, program, *arguments, **options):
        result = subprocess.run(
            [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
            stdin=subprocess.DEVNULL, text=True, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout, result.stderr

    def assert_prints(self, expected, program, *arguments, **options):
        self.assertEqual(self.run_program(program, *arguments, **options), (expected, ""))

    def stored(self):
        return sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(self.cache) for name in names)

    def test_a_second_process_finds_what_the_first_built(self):
        self.assert_prints(BUILT, options.programs[0], "64", self.cache)
        for program in options.programs:
            self.assert_prints(FOUND, program, "64", self.cache)

    def test_each_program_builds_if_nothing_is_kept(self):
        for program in options.programs:
            shutil.rmtree(self.cache, ignore_errors=True)
            self.assert_prints(BUILT, program, "64", self.cache)
            self.assert_prints(FOUND, program, "64", self.cache)

    def test_without_a_capacity_nothing_is_kept_and_nothing_deleted(self):
        for program in options.programs:
            self.assert_prints(BUILT, program, "0", self.cache)
            self.assertFalse(os.path.exists(self.cache))
        self.assert_prints(BUILT, options.programs[0], "64", self.cache)
        before = self.stored()
        for program in options.programs:
            self.assert_prints(BUILT, program, "0", self.cache)
        self.assertEqual(self.stored(), before)
        self.assert_prints(FOUND, options.programs[0], "64", self.cache)

    def test_the_default_is_a_leaf_in_the_working_directory(self):
        with open(os.path.join(self.scratch, "mine"), "w", encoding="utf-8") as file:
            file.write("text")
        self.assert_prints(BUILT, options.programs[0], "64", cwd=self.scratch)
        for program in options.programs:
            self.assert_prints(FOUND, program, "64", cwd=self.scratch)
        self.assertEqual(sorted(os.listdir(self.scratch)), ["kiln_persistent_cache", "mine"])

    def test_damaged_entries_are_built_again(self):
        self.assert_prints(BUILT, options.programs[0], "64", self.cache)
        for path in self.stored():
            size = os.path.getsize(path)
            if size > 1000:
                with open(path, "r+b") as file:
                    file.seek(size // 2)
                    file.write(b"damaged!")
        for program in options.programs:
            self.assertEqual(self.run_program(program, "64", self.cache),
                             (BUILT if program == options.programs[0] else FOUND, ""))

    def test_unusable_directory_fails_no_caller(self):
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o777)
        for program in options.programs:
            printed, said = self.run_program(program, "64", self.cache)
            self.assertEqual(printed, BUILT)
            self.assertIn(self.cache, said)
        self.assertEqual(self.stored(), [])

    def test_contexts_of_the_library(self):
        first, _ = self.run_program(options.context, "64", self.cache)
        second, _ = self.run_program(options.context, "64", self.cache)
        expected = ": store memory" if options.captures else ": build memory"
        for line in first.splitlines():
            self.assertTrue(line.endswith(": build memory"), first)
        for line in second.splitlines():
            self.assertTrue(line.endswith(expected), second)
        without, _ = self.run_program(options.context, "0", self.cache)
        for line in without.splitlines():
            self.assertTrue(line.endswith(": build memory"), without)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", type=os.path.abspath, required=True)
    parser.add_argument("--captures", action="store_true")
    parser.add_argument("programs", type=os.path.abspath, nargs="+")
    options = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
