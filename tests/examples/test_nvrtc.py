#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs examples/nvrtc as its README shows.

    test_nvrtc.py PROGRAM HEADER LIBNVRTC CUDA_INCLUDE
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, HEADER, LIBNVRTC, CUDA_INCLUDE = sys.argv[1:]


def run(library, *folders):
    return subprocess.run([PROGRAM, library, CUDA_INCLUDE, *folders], capture_output=True, text=True,
                          timeout=100, check=False)


class Example(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.own = Path(scratch.name) / "with blanks"
        self.own.mkdir()
        self.header = Path(shutil.copy(HEADER, self.own))
        self.store = Path(scratch.name) / "store"

    def check(self, expected):
        done = run(LIBNVRTC, self.own, self.store)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        first, again, code, launch = done.stdout.splitlines()
        self.assertRegex(first, f"^{expected} in [0-9.]+ us$")
        self.assertRegex(again, "^found in memory in [0-9.]+ us$")
        self.assertRegex(code, "^(CUBIN|PTX) of [1-9][0-9]* bytes, where activate<__half> is _Z.*activate")
        self.assertIn(launch, ("launched, computes right", "not launched: no GPU"))

    def test_results_are_found_until_the_header_changes(self):
        self.check("built")
        self.check("found on disk")
        text = self.header.read_text()
        self.header.write_text(text + "// edited\n")
        self.check("built")
        self.check("found on disk")
        self.header.write_text(text)
        self.check("found on disk")

    def test_without_nvrtc(self):
        done = run(self.own / "libnvrtc.so", self.own, self.store)
        self.assertEqual((done.returncode, done.stderr), (77, ""))
        self.assertIn("skipped: no NVRTC", done.stdout)


if __name__ == "__main__":
    if not Path(LIBNVRTC).exists():
        print(f"skipped: no NVRTC: {LIBNVRTC}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
