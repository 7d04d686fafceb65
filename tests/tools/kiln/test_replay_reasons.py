#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_replay_reasons.py KILN MAKE_ENTRY: kiln replay names what it leaves out, and why, as
docs/upgrades.md says. No driver or compiler is needed."""

import ctypes.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

KILN, MAKE_ENTRY = (os.path.abspath(path) for path in sys.argv[1:3])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
OPENCL = ["platform.name=A platform", "device.name=A device"]
NVRTC = ["nvrtc.version=13.0", "source=x"]
HIPRTC = ["hiprtc.version=9.0", "source=x"]
LINK = ["nvjitlink.version=13.0", "nvjitlink.interface="]

# Reasons of docs/upgrades.md that need a compiler, and the test of each.
ELSEWHERE = {
    "it included FILE, which does not exist here": "layers/nvrtc/test_replay.py",
    "it included FILE from a folder that is not known": "tools/kiln/test_replay.py",
    "FILE can't be recreated here": "layers/nvrtc/test_replay.py",
    "an input is code for a different architecture": "layers/nvrtc/test_replay_links.py",
    "its program has math functions that differ from those here": "tools/kiln/test_replay.py",
    "Kiln's layers make a key with different inputs for it": "layers/nvrtc/test_replay.py",
}


def libc():
    """Returns the path of a library that is no compiler."""
    with open("/proc/self/maps") as maps:
        return re.search(r"/\S*/libc\.so\S*", maps.read())[0]


def documented():
    """Returns the reasons in the table of docs/upgrades.md."""
    with open(os.path.join(ROOT, "docs/upgrades.md")) as file:
        text = file.read()
    rows = text[text.index("| reason |"):].split("\n\n")[0].splitlines()[2:]
    return [reason.strip() for row in rows for reason in row.split("|")[1].split(";")]


def names(reason, why):
    """Returns whether a text of kiln replay is a documented reason, in which words in capitals stand
    for names."""
    words = [word if re.search("OpenCL|NVRTC|HIPRTC", word) else re.sub(r"\b[A-Z]{4,}\b", "\0", word)
             for word in reason.split(" ")]
    pattern = re.escape(" ".join(words)).replace("\0", ".+")
    return re.match(pattern, why) is not None


class ReasonsTest(unittest.TestCase):
    seen = set()

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-reasons-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")

    def put(self, *parts, options=()):
        subprocess.run([MAKE_ENTRY, self.cache, "put", *options, "--", *parts], check=True,
                       stdout=subprocess.DEVNULL)

    def replay(self, *arguments):
        result = subprocess.run([KILN, "replay", "--dir", self.cache, "--json", *arguments],
                                stdout=subprocess.PIPE, check=False, timeout=60)
        report = json.loads(result.stdout)
        self.assertEqual(report["impossible"], len(report["entries"]), report)
        return [entry["why"] for entry in report["entries"]]

    def assert_reason(self, why, *parts, options=(), arguments=()):
        self.put(*parts, options=options)
        self.check(why, *arguments)

    def check(self, why, *arguments):
        reason, = self.replay(*arguments)
        self.assertRegex(reason, why)
        rows = [row for row in documented() if names(row, reason)]
        self.assertNotEqual(rows, [], reason)
        self.seen.add(max(rows, key=len))
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
                      ["env.PTXAS_OPTIONS=-Xclang"], ["env.file.CL_CONFIG=x"]):
            self.assert_reason("may load code|it was built with", *OPENCL, "source=x", *parts)
        for part in "option=-fplugin=x", "option=-mllvm", "env.COMPILER_PATH=x":
            for compiler in NVRTC, HIPRTC, LINK:
                self.assert_reason("may load code|it was built with", *compiler, part)

    def test_a_link_of_something_unknown(self):
        self.assert_reason("an input of the link is unknown", *OPENCL, "step=link", "input=x")
        self.assert_reason("an input of the link is unknown", *LINK, "input=x")
        self.assert_reason("an input of the link is unknown", *LINK, "input.kind=12345678")
        self.assert_reason("an input of the link was not kept: f", *LINK, "input.kind=12345678",
                           "input.name=f", "input=" + 32 * "x")

    def test_what_differs_here(self):
        self.assert_reason("floating-point mode", *NVRTC, "cpu.floating_point=x")
        if ctypes.util.find_library("OpenCL"):
            self.assert_reason("no device A device of the platform A platform is here", *OPENCL,
                               "source=x")
        for name, parts in (("NVRTC", NVRTC), ("HIPRTC", HIPRTC),
                            ("nvJitLink", [*LINK, "input.kind=12345678", "input.file=/f"])):
            option = "--" + name.lower()
            self.assert_reason(name + " can't be loaded", *parts, arguments=[option, KILN])
            self.assert_reason(name, *parts, arguments=[option, libc()])

    def test_stripped_sources(self):
        self.put("nvrtc.version=13.0", "source=" + 100 * "x")
        pack = os.path.join(self.scratch, "stripped.kpack")
        for command in (["pack", "--strip-keys", pack], ["clear", "--yes"],
                        ["unpack", "--trust", pack]):
            subprocess.run([KILN, command[0], "--dir", self.cache, *command[1:]], check=True,
                           stdout=subprocess.DEVNULL)
        self.check("sources stripped")

    @classmethod
    def tearDownClass(cls):
        """Each reason in the documents is one that kiln replay gives."""
        rest = set(documented()) - cls.seen - set(ELSEWHERE)
        assert rest <= {"no device DEVICE of the platform PLATFORM is here",
                        "a compiler's or layer's own reason"}, rest
        assert set(ELSEWHERE) <= set(documented()), set(ELSEWHERE) - set(documented())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
