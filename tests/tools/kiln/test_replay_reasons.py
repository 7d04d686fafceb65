#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_replay_reasons.py KILN MAKE_ENTRY: kiln replay names what it leaves out, and why. No driver
or compiler is needed."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

KILN, MAKE_ENTRY = (os.path.abspath(path) for path in sys.argv[1:3])
OPENCL = ["platform.name=A platform", "device.name=A device"]


class ReasonsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-reasons-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")

    def put(self, *parts, options=()):
        subprocess.run([MAKE_ENTRY, self.cache, "put", *options, "--", *parts], check=True,
                       stdout=subprocess.DEVNULL)

    def replay(self):
        result = subprocess.run([KILN, "replay", "--dir", self.cache, "--json"],
                                stdout=subprocess.PIPE, check=False, timeout=60)
        report = json.loads(result.stdout)
        self.assertEqual(report["impossible"], len(report["entries"]), report)
        return [entry["why"] for entry in report["entries"]]

    def assert_reason(self, why, *parts, options=()):
        self.put(*parts, options=options)
        reasons = self.replay()
        self.assertEqual(len(reasons), 1)
        self.assertRegex(reasons[0], why)
        shutil.rmtree(self.cache)

    def test_others(self):
        self.assert_reason("only triton can build it again", "door=triton", "key=x",
                           options=["explanation=x"])
        self.assert_reason("not made by OpenCL, NVRTC, nvJitLink or HIPRTC", "something=else")

    def test_what_is_no_build(self):
        self.put("nvjitlink.version=13.0", "nvjitlink.step=accepted")
        self.put("file=x", options=["explanation=x"])
        self.assertEqual(self.replay(), [])

    def test_what_loads_code(self):
        for parts in (["options=-Xclang -load"], ["env.LD_PRELOAD=x"], ["env.KILN_DIR=x"],
                      ["env.CL_CONFIG_REPLACE_IR=x"], ["options=-fplugin=x"],
                      ["env.PTXAS_OPTIONS=-Xclang"]):
            self.assert_reason("may load code|it was built with", *OPENCL, "source=x", *parts)
        for compiler in "nvrtc", "hiprtc":
            for part in "option=-fplugin=x", "option=-mllvm", "env.COMPILER_PATH=x":
                self.assert_reason("may load code|it was built with", compiler + ".version=9.0",
                                   "source=x", part)

    def test_a_link_of_something_unknown(self):
        self.assert_reason("an input of the link is unknown", *OPENCL, "step=link", "input=x")
        link = ["nvjitlink.version=13.0", "nvjitlink.interface="]
        self.assert_reason("an input of the link is unknown", *link, "input=x")
        self.assert_reason("an input of the link is unknown", *link, "input.kind=12345678")
        self.assert_reason("the input name of the link was not kept", *link, "input.kind=12345678",
                           "input.name=name", "input=" + 32 * "x")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
