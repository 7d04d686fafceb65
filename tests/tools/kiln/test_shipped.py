#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_shipped.py KILN APP: tests kernels that are shipped with an application.

The cache is filled and packed on the machine that makes the application. On the machine that starts
it, the home directory is empty, and the application still starts warm.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

KILN, APP = (os.path.abspath(path) for path in sys.argv[1:3])
PROGRAMS = 3


class ShippedTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-shipped-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KILN_", "OPENCL_LAYERS", "XDG_"))
        }
        self.environment["HOME"] = self.scratch
        self.pack = os.path.join(self.scratch, "app.kpack")

    def kiln(self, *arguments):
        return subprocess.run(
            [KILN, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment, cwd=self.scratch, timeout=120)

    def run_app(self, location):
        """Returns what the application printed, and the counters."""
        result = self.kiln("run", "--dir", location, "--json", "--", APP)
        return result.stdout, json.loads(result.stderr.splitlines()[-1])

    def make_pack(self, *arguments):
        answer, counters = self.run_app("made")
        self.assertEqual((counters["builds"], counters["hits_store"]), (PROGRAMS, 0))
        self.kiln("pack", "--dir", "made", self.pack, *arguments)
        return answer

    def expect_warm(self, location, answer):
        shipped, counters = self.run_app(location)
        self.assertEqual(shipped, answer)
        self.assertEqual((counters["builds"], counters["hits_store"]), (0, PROGRAMS))
        self.assertGreater(counters["saved_ns"], 0)

    def test_an_empty_home_starts_warm(self):
        answer = self.make_pack()
        with open(self.pack, "rb") as file:
            before = file.read()
        self.expect_warm("home|pack:app.kpack", answer)
        # The entries that were used are now in the home directory, which suffices without the pack.
        self.expect_warm("home", answer)
        with open(self.pack, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_without_sources(self):
        answer = self.make_pack("--strip-keys")
        with open(self.pack, "rb") as file:
            self.assertNotIn(b"__kernel", file.read())
        self.expect_warm("home|pack:app.kpack", answer)
        listed = self.kiln("ls", "--dir", "home", "--json").stdout.splitlines()
        self.assertEqual(len(listed), PROGRAMS)
        source = self.kiln("show", "--dir", "home", "--source",
                           json.loads(listed[0])["digest"]).stdout
        self.assertIn(b"kernel", source)

    def test_the_pack_alone(self):
        answer = self.make_pack()
        self.expect_warm("pack:app.kpack", answer)

    def test_unpacked(self):
        answer = self.make_pack()
        self.kiln("unpack", "--dir", "home", "--trust", self.pack)
        self.expect_warm("home", answer)

    def test_a_damaged_pack_only_costs_builds(self):
        answer = self.make_pack()
        with open(self.pack, "r+b") as file:
            file.seek(4096 + 100)
            file.write(b"x")
        shipped, counters = self.run_app("home|pack:app.kpack")
        self.assertEqual(shipped, answer)
        self.assertEqual((counters["builds"], counters["hits_store"]), (PROGRAMS, 0))
        self.expect_warm("home|pack:app.kpack", answer)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
