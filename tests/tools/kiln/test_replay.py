#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_replay.py KILN APP: kiln replay on an OpenCL driver. What it builds for an empty store is
what the application itself would have built: the same keys, and the same code if the driver's
results do not vary."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

KILN, APP = (os.path.abspath(path) for path in sys.argv[1:3])
PROGRAMS = 3


class ReplayTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-replay-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KILN_", "OPENCL_LAYERS", "XDG_"))
        }
        self.environment.update(HOME=self.scratch, POCL_CACHE_DIR=self.scratch)

    def kiln(self, *arguments):
        return subprocess.run(
            [KILN, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment, cwd=self.scratch, timeout=240)

    def run_app(self, location):
        """Returns what the application printed, and the counters."""
        result = self.kiln("run", "--dir", location, "--json", "--", APP)
        self.kiln("capture", "--dir", location, "--wait-ms", "60000")
        return result.stdout, json.loads(result.stderr.splitlines()[-1])

    def digests(self, location):
        listed = self.kiln("ls", "--dir", location, "--json").stdout.splitlines()
        return {json.loads(line)["digest"] for line in listed}

    def replay(self):
        return json.loads(
            self.kiln("replay", "--from", "old", "--to", "new", "--json").stdout)

    def test_the_application_starts_warm(self):
        answer, _ = self.run_app("old")
        report = self.replay()
        self.assertEqual(report["built"], PROGRAMS, report)
        self.assertEqual(self.digests("new"), self.digests("old"))
        warm, counters = self.run_app("new")
        self.assertEqual((counters["builds"], counters["hits_store"]), (0, PROGRAMS))
        self.assertEqual(warm, answer)
        again = self.replay()
        self.assertEqual((again["built"], again["present"]), (0, PROGRAMS), again)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
