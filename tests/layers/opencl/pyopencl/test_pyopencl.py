#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_pyopencl.py KILN PYTHON: PyOpenCL with its own cache, which adds a new constant to each source
that it builds. Skipped if PyOpenCL is not installed for PYTHON."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

KILN, PYTHON = sys.argv[1:3]
PROGRAM = Path(__file__).with_name("arrays.py")
BUILDS_MIN = 10
OWN = "OWN\\n\\n__constant int pyopencl_defeat_cache_NUMBER = 0;"


def run(scratch, cache, *prefix):
    """Runs the program with its own cache in the folder @cache. Returns what it printed, and the
    counters if it ran under Kiln."""
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("KILN_", "OPENCL_LAYERS", "PYOPENCL_"))}
    variables |= {"HOME": scratch, "XDG_CACHE_HOME": os.path.join(scratch, cache),
                  "POCL_CACHE_DIR": os.path.join(scratch, cache, "pocl"),
                  "KILN_DIR": os.path.join(scratch, "kiln"), "ARRAYS_OWN_CACHE": "1"}
    done = subprocess.run(
        [*prefix, PYTHON, "-B", "-W", "ignore", PROGRAM], env=variables, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=500)
    return done.stdout, json.loads(done.stderr.splitlines()[-1]) if prefix else None


class PyOpenCLTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="kiln-pyopencl-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.expected, _ = run(cls.scratch, "plain")
        cls.cold = cls.under_kiln("cold")

    @classmethod
    def under_kiln(cls, cache):
        return run(cls.scratch, cache, KILN, "run", "--wait", "--json", "--")

    def assert_same(self, printed):
        self.assertEqual(printed, self.expected)
        self.assertIn(OWN, printed)

    def test_a_fresh_container_starts_warm(self):
        printed, counters = self.cold
        self.assert_same(printed)
        self.assertGreaterEqual(counters["builds"], BUILDS_MIN)
        builds = counters["builds"]

        printed, counters = self.under_kiln("fresh")
        self.assert_same(printed)
        self.assertEqual((counters["builds"], counters["hits_store"] + counters["hits_memory"]),
                         (0, builds), counters)

        # PyOpenCL has stored the binaries of the programs that Kiln loaded, and loads them.
        printed, _ = run(self.scratch, "fresh")
        self.assertEqual(printed.splitlines()[0], self.expected.splitlines()[0])
        printed, counters = self.under_kiln("fresh")
        self.assertEqual(printed.splitlines()[0], self.expected.splitlines()[0])
        self.assertEqual((counters["builds"], counters["hits_store"]), (0, 0), counters)
        self.assertGreaterEqual(counters["passed_through"], builds)


if __name__ == "__main__":
    imports = [PYTHON, "-c", "import pyopencl, mako"]
    if not os.path.exists(PYTHON) or subprocess.run(imports, stderr=subprocess.DEVNULL).returncode:
        print("skipped: PyOpenCL is not installed; scripts/install-deps --doors installs it")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
