#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A SYCL program under Kiln, on the DPC++ runtime and Intel's OpenCL runtime.

Run as:  scripts/with-runtime sycl python3 test_sycl.py KILN LAYER COUNTING_LAYER
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import faults
import small_disk
import sycl_program
from sycl_program import (
    builds_at_driver, environment, kiln_cache, run, run_together, sycl_cache)

KILN, LAYER, COUNTING_LAYER = (os.path.abspath(path) for path in sys.argv[1:4])
sycl_program.arguments += sycl_program.SOME_RESULTS
UNDER_KILN = (KILN, "run", "--summary", "--json", "--")
PROGRAMS_MIN = 12  # at least this many programs are distinct
ALL_PROGRAMS_MIN = 40


def counters_of(ended):
    """Returns the last line of `kiln run --summary --json`."""
    return json.loads(ended.errors.splitlines()[-1])


def hits_of(counters):
    return counters["hits_memory"] + counters["hits_store"]


def folder_with_systems_loader(folder):
    """Makes a folder that contains only the system's loader, and returns it; None if there is
    none."""
    name = "libOpenCL.so.1"
    known = subprocess.run(
        ["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    paths = [line.split(" => ")[1] for line in known.splitlines() if line.split()[:1] == [name]]
    if not paths:
        return None
    (folder / name).symlink_to(paths[0])
    return folder


def loader_of(variables):
    """Returns the path of the loader that a SYCL program uses."""
    script = "import dpctl; dpctl.get_devices(); print(open('/proc/self/maps').read())"
    maps = subprocess.run(
        [sys.executable, "-c", script], env=variables, stdout=subprocess.PIPE, text=True,
        check=True)
    return {line.split()[-1] for line in maps.stdout.splitlines() if "libOpenCL.so" in line}


class SyclTest(unittest.TestCase):
    """Provides the program's results without Kiln, and a cache that a first run filled."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp(prefix="kiln-sycl-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        plain = run(environment())
        if not plain.results:
            raise RuntimeError("the program fails without Kiln: " + plain.ending())
        cls.expected = plain.results
        cls.filled = cls.scratch / "filled"
        cls.cold = run(environment(KILN_DIR=str(cls.filled)), UNDER_KILN)
        cls.cold_seconds = (cls.cold.end_ns - cls.cold.start_ns) / 1e9

    def folder(self):
        return Path(tempfile.mkdtemp(dir=self.scratch))

    def copy_of_filled(self):
        copy = self.folder() / "cache"
        shutil.copytree(self.filled, copy)
        return copy

    def requested_builds(self):
        """Returns how many builds the program requests."""
        counters = counters_of(self.cold)
        return counters["builds"] + hits_of(counters)

    def assert_right(self, ended):
        self.assertEqual(ended.results, self.expected, ended.ending())

    def assert_warm(self, ended):
        """Checks that the results are right and all requests hit: nothing is built, missed, damaged
        or passed through."""
        self.assert_right(ended)
        counters = counters_of(ended)
        for name in ("builds", "misses", "passed_through", "failures", "corrupt", "dropped"):
            self.assertEqual(counters[name], 0, (name, counters))
        self.assertEqual(hits_of(counters), self.requested_builds(), counters)

    def test_first_run_fills(self):
        self.assert_right(self.cold)
        counters = counters_of(self.cold)
        self.assertGreaterEqual(counters["builds"], PROGRAMS_MIN)
        self.assertEqual(counters["builds"], counters["entries"])
        self.assertEqual(counters["puts"], counters["builds"])
        self.assertEqual(counters["passed_through"], 0)

    def test_second_run_is_warm(self):
        warm = run(environment(KILN_DIR=str(self.filled)), UNDER_KILN)
        self.assert_warm(warm)
        self.assertEqual(counters_of(warm)["puts"], 0)

    def test_all_results(self):
        """Compares the program's results under Kiln with its results without Kiln. numpy has
        checked all results without Kiln."""
        filled = environment(KILN_DIR=str(self.folder() / "cache"))
        with mock.patch.object(sycl_program, "arguments", ["--json"]):
            plain = run(environment())
            cold = run(filled, UNDER_KILN)
            warm = run(filled, UNDER_KILN)
        self.assertGreater(len(plain.results), len(self.expected), plain.ending())
        for ended in cold, warm:
            self.assertEqual(ended.results, plain.results, ended.ending())
        self.assertGreaterEqual(counters_of(cold)["builds"], ALL_PROGRAMS_MIN)
        self.assertEqual(hits_of(counters_of(warm)),
                         hits_of(counters_of(cold)) + counters_of(cold)["builds"])
        for name in ("builds", "misses", "passed_through", "failures", "corrupt", "dropped"):
            self.assertEqual(counters_of(warm)[name], 0, (name, counters_of(warm)))

    def test_both_loaders_share_entries(self):
        folder = folder_with_systems_loader(self.folder())
        if folder is None:
            self.skipTest("no other OpenCL loader here")
        debians = environment(LD_LIBRARY_PATH=str(folder))
        self.assertNotEqual(loader_of(debians), loader_of(environment()))

        from_wheels = run(debians | {"KILN_DIR": str(self.filled)}, UNDER_KILN)
        self.assert_warm(from_wheels)
        cache = str(self.folder() / "cache")
        self.assert_right(run(debians | {"KILN_DIR": cache}, UNDER_KILN))
        from_debians = run(environment(KILN_DIR=cache), UNDER_KILN)
        self.assert_warm(from_debians)

    def test_with_sycls_own_cache(self):
        """Builds go through Kiln until SYCL's cache has the binaries, which SYCL then supplies
        itself."""
        own = self.folder()
        both = environment(KILN_DIR=str(self.folder() / "cache"), **sycl_cache(own))
        cold = run(both, UNDER_KILN)
        self.assert_right(cold)
        self.assertEqual(counters_of(cold)["builds"], counters_of(self.cold)["builds"])
        brought = run(both, UNDER_KILN)
        self.assert_right(brought)
        self.assertEqual(counters_of(brought)["builds"], 0)
        self.assertGreaterEqual(counters_of(brought)["passed_through"], PROGRAMS_MIN)

        # SYCL stores the binaries of programs that Kiln loaded.
        shutil.rmtree(own)
        refilled = run(both, UNDER_KILN)
        self.assert_right(refilled)
        self.assertEqual(counters_of(refilled)["builds"], 0)
        self.assertEqual(hits_of(counters_of(refilled)), counters_of(self.cold)["builds"])
        without_kiln = run(environment(**sycl_cache(own)))
        self.assert_right(without_kiln)
        self.assertGreaterEqual(len(list(own.rglob("*.bin"))), PROGRAMS_MIN)

    def test_concurrent_runs_build_each_program_once(self):
        cache = self.folder() / "cache"
        counts = self.folder() / "counts"
        # The lowest layer comes first.
        variables = environment(
            COUNTING_LAYER_FILE=str(counts),
            **kiln_cache(cache, COUNTING_LAYER, LAYER))
        for ended in run_together(3, variables):
            self.assert_right(ended)
        self.assertEqual(
            builds_at_driver(counts), counters_of(self.cold)["entries"])

    def test_read_only(self):
        cache = self.copy_of_filled()
        readonly = environment(KILN_DIR=str(cache), KILN_READONLY="1")
        self.assert_warm(run(readonly, UNDER_KILN))

        empty = self.folder()
        ended = run(readonly | {"KILN_DIR": str(empty)}, UNDER_KILN)
        self.assert_right(ended)
        self.assertEqual(list(empty.rglob("*")), [])

    def test_directory_that_cannot_be_written(self):
        cache = self.copy_of_filled()
        files = {f: f.read_bytes() for f in cache.rglob("*") if f.is_file()}
        with faults.unwritable(cache) as prefix:
            ended = run(environment(KILN_DIR=str(cache)), (*prefix, *UNDER_KILN))
        self.assert_warm(ended)
        self.assertEqual(files, {f: f.read_bytes() for f in cache.rglob("*") if f.is_file()})

    # ---- faults: results are right, and the second run afterwards finds everything ----

    def check_verified(self, cache):
        verified = subprocess.run(
            [KILN, "verify", "--dir", cache], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        if verified.returncode != 0:
            raise faults.NeverWarm(verified.stdout)

    def assert_survives(self, fault, count):
        cache = faults.KilnCache(self.filled, self.cold_seconds, COUNTING_LAYER, LAYER)
        wrong = faults.run_trials(
            fault, cache, self.expected, count, "test_sycl", self.check_verified)
        self.assertEqual([str(one) for one in wrong], [])

    def test_flipped_bits(self):
        self.assert_survives(faults.bit_flipped, 6)

    def test_truncated_files(self):
        self.assert_survives(faults.file_truncated, 3)

    def test_emptied_files(self):
        self.assert_survives(faults.files_emptied, 2)

    def test_leftovers_of_killed_processes(self):
        self.assert_survives(faults.leftover, 4)

    def test_kills(self):
        self.assert_survives(faults.killed, 3)

    def test_an_empty_directory_that_cannot_be_written(self):
        self.assert_survives(faults.read_only_empty, 1)

    def test_full_disks(self):
        if not small_disk.can_mount():
            self.skipTest("no disk can be mounted here")
        self.assert_survives(faults.full_disk, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
