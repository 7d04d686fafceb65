#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kiln show and kiln why of OpenCL builds that include files: test_why_files.py KILN APP [CLASS].

Each test runs a real program on the real runtime. The program asks for its binaries, so that its
builds are stored before it ends, on every runtime."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

KILN, APP = (os.path.abspath(path) for path in sys.argv[1:3])

SOURCE = """
#include "h.h"
#if __has_include("more.h")
#define MORE 100
#else
#define MORE 0
#endif
__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + MORE; }
"""


class FilesTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-why-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KILN_", "POCL_", "OPENCL_", "XDG_"))
        }
        self.environment.update(
            HOME=self.scratch, KILN_DIR=os.path.join(self.scratch, "cache"), KILN_HELPER="0",
            POCL_CACHE_DIR=os.path.join(self.scratch, "pocl"))
        os.mkdir(self.environment["POCL_CACHE_DIR"])
        self.write("other.cl", "__kernel void f(__global int *out) { *out = 7; }\n")
        self.write("a.cl", SOURCE)
        self.write("h.h", "#define BASE 1\n")

    def write(self, name, text):
        with open(os.path.join(self.scratch, name), "w") as file:
            file.write(text)

    def kiln(self, *arguments, cwd=None, status=0):
        result = subprocess.run(
            [KILN, *arguments], env=self.environment, cwd=cwd or self.scratch, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def json(self, *arguments, **options):
        return json.loads(self.kiln(*arguments, "--json", **options).stdout)

    def build(self, expected, source="a.cl", builds=1):
        result = self.kiln("run", "--json", "--", APP, source, "ask")
        self.assertEqual(result.stdout, f"{expected}\n")
        self.assertEqual(json.loads(result.stderr.splitlines()[-1])["builds"], builds)

    def changed(self, result):
        """Returns what has changed: for each path its last component, what the build found there,
        and what is found there now."""
        return {(os.path.basename(read["path"]), read["found"], read["found_now"])
                for read in result["reads"] if read["same"] is not True and read["found"] != "link"}

    def of_files(self, results):
        """Returns what has changed for each result, and checks that nothing else is reported."""
        why = self.json("why", "--last")
        self.assertEqual((why["cause"], len(why["results"])), ("files", results))
        self.assertEqual([result["same"] for result in why["results"]],
                         [True] + [False] * (results - 1))
        text = self.kiln("why", "--last").stdout
        self.assertIn("\nAn entry with this key was there, but was made from different files.\n"
                      f"result 1 of {results}: all files are unchanged\n", text)
        self.assertNotIn("differs in", text)
        return text, [self.changed(result) for result in why["results"]]


class OneHeader(FilesTest):
    """The tests that every change to the code must pass. They run by default."""

    def check_unchanged(self, digest):
        """Checks that the header is reported as unchanged since the first build."""
        why = self.json("why", "--last")
        self.assertEqual((why["cause"], why["results"]),
                         ("first_build", [{"same": True, "reads": []}]))
        results = self.json("show", digest)["results"]
        self.assertEqual([result["same"] for result in results], [True])
        reads = {(os.path.normpath(read["path"]), read["found"]): read
                 for read in results[0]["reads"]}
        self.assertEqual(reads["h.h", "file"]["size"], 15)
        self.assertIn(("more.h", "nothing"), reads)
        text = self.kiln("show", digest).stdout
        self.assertRegex(text, r"\nresult 1 of 1: 1 file read, \d+ paths not found; all files are "
                         r"unchanged\n")
        self.assertRegex(text, r"(?m)^(\./)?h\.h +15 B +same$")

    def test_changed(self):
        self.build(1)
        digest = self.json("why", "--last")["digest"]
        self.check_unchanged(digest)
        self.write("h.h", "#define BASE 2\n")
        self.assertRegex(self.kiln("why", digest).stdout,
                         r"\nresult 1 of 1: (\./)?h\.h has changed\n")
        self.assertRegex(self.kiln("show", digest).stdout, r"(?m)^(\./)?h\.h +15 B +changed$")
        self.build(2)
        text, changed = self.of_files(2)
        self.assertRegex(text, r"\nresult 2 of 2: (\./)?h\.h has changed\n")
        self.assertEqual(changed[1], {("h.h", "file", "file")})
        self.write("h.h", "#define BASE 1\n")
        self.assertEqual([result["same"] for result in self.json("show", digest)["results"]],
                         [False, True])
        self.build(1, builds=0)


class Thorough(FilesTest):
    def test_first_build(self):
        self.build(7, "other.cl")
        self.build(1)
        text = self.kiln("why", "--last").stdout
        self.assertIn("\nThis was the first build with these inputs, or its earlier entry had been "
                      "removed\nor could not be read. The result has been stored since.\n\n", text)
        self.assertIn("differs in", text)
        why = self.json("why", "--last")
        self.assertEqual(why["cause"], "first_build")
        self.assertEqual(why["results"], [{"same": True, "reads": []}])
        self.assertEqual(len(why["neighbours"]), 1)

    def test_without_includes(self):
        self.build(7, "other.cl")
        why = self.json("why", "--last")
        self.assertEqual(why["cause"], "first_build")
        self.assertNotIn("results", why)
        self.assertNotIn("results", self.json("show", why["digest"]))

    def test_appeared_and_vanished(self):
        self.build(7, "other.cl")
        self.build(1)
        self.write("more.h", "")
        self.build(101)
        text, changed = self.of_files(2)
        self.assertRegex(text, r"\nresult 2 of 2: (\./)?more\.h has appeared")
        self.assertEqual(changed[1], {("more.h", "nothing", "file")})
        os.unlink(os.path.join(self.scratch, "more.h"))
        digest = self.json("why", "--last")["digest"]
        text = self.kiln("why", digest).stdout
        self.assertRegex(text, r"\nresult 1 of 2: (\./)?more\.h has vanished\n")
        self.assertIn("\nresult 2 of 2: all files are unchanged\n", text)
        self.assertEqual(self.changed(self.json("show", digest)["results"][0]),
                         {("more.h", "file", "nothing")})
        self.assertRegex(self.kiln("show", digest).stdout, r"(?m)^(\./)?more\.h +0 B +vanished$")

    def test_not_stored(self):
        """The build with the new header failed, so the entry is older than the miss."""
        self.build(7, "other.cl")
        self.build(1)
        built_s = self.json("why", "--last")["created"]
        while time.time() < built_s + 1:
            time.sleep(0.05)
        self.write("h.h", "#error\n")
        self.kiln("run", "--", APP, "a.cl", "ask", status=2)
        why = self.json("why", "--last")
        self.assertEqual((why["cause"], why["created"]), ("files", built_s))
        self.assertNotIn("differs in", self.kiln("why", "--last").stdout)

    def test_different_key(self):
        """The source has changed too, so the files are not the cause."""
        self.build(1)
        self.write("h.h", "#define BASE 2\n")
        self.write("a.cl", SOURCE + "// changed\n")
        self.build(2)
        why = self.json("why", "--last")
        self.assertEqual(why["cause"], "first_build")
        self.assertEqual([part["name"] for part in why["neighbours"][0]["parts"]], ["source"])
        text = self.kiln("why", "--last").stdout
        self.assertIn("differs in 1 of", text)
        self.assertNotIn("has changed", text)

    def test_other_directory(self):
        """Intel's runtime looks in the working directory by its absolute path."""
        self.build(1)
        digest = self.json("why", "--last")["digest"]
        folders = [read["path"] for read in self.json("show", digest)["results"][0]["reads"]
                   if read["found"] == "working_directory"]
        here = os.path.realpath(self.scratch)
        self.assertIn(folders, ([], [here]))
        text = self.kiln("why", digest, cwd="/").stdout
        if folders:
            self.assertIn(f"\nresult 1 of 1: only in the working directory {here}\n", text)
        else:
            self.assertRegex(text, r"\nresult 1 of 1: (\./)?h\.h has vanished\n")
        self.assertIn("\nrelative paths were looked up from /\n", text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
