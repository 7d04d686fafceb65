#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_replay.py KILN APP SOURCE_APP PROGRAMS_APP MAKE_ENTRY: kiln replay on an OpenCL driver. What it builds for an empty
store is what the application itself would have built: the same keys, and the same code if the
driver's results do not vary. SOURCE_APP builds the file that its command line names, PROGRAMS_APP what is more than a
source."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

KILN, APP, SOURCE_APP, PROGRAMS_APP, MAKE_ENTRY = (
    os.path.abspath(path) for path in sys.argv[1:6])
PROGRAMS = 3


def can_unshare():
    command = ["unshare", "--user", "--mount", "--net", "--map-current-user", "true"]
    return shutil.which("unshare") and subprocess.run(
        command, stderr=subprocess.DEVNULL, check=False).returncode == 0


class ReplayTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-replay-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KILN_", "OPENCL_LAYERS", "XDG_"))
        }
        pocl_cache = os.path.join(self.scratch, "pocl")
        os.mkdir(pocl_cache)
        self.environment.update(HOME=self.scratch, POCL_CACHE_DIR=pocl_cache, KILN_HELPER="0")

    def kiln(self, *arguments):
        return subprocess.run(
            [KILN, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment, cwd=self.scratch, timeout=240)

    def run_app(self, location, *command):
        """Returns what the application printed, and the counters."""
        result = self.kiln("run", "--dir", location, "--json", "--", *(command or [APP]))
        self.kiln("capture", "--dir", location, "--wait-ms", "200000")
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

    def check(self, *command):
        """Checks that the command starts warm after a replay, and that its entries are the same."""
        answer, _ = self.run_app("old", PROGRAMS_APP, *command)
        before = self.digests("old")
        if "pocl" in self.environment.get("OCL_ICD_VENDORS", "") and not before:
            self.skipTest("Kiln keeps no links on PoCL")
        self.assertGreater(len(before), 0)
        report = self.replay()
        self.assertEqual(self.digests("new"), before, report)
        warm, counters = self.run_app("new", PROGRAMS_APP, *command)
        self.assertEqual(counters["builds"], 0, counters)
        self.assertEqual(warm, answer)
        return warm

    def test_specialization_constants(self):
        probe = subprocess.run([PROGRAMS_APP, "constants", "1"], env=self.environment,
                               stdout=subprocess.DEVNULL, check=False)
        if probe.returncode == 77:
            self.skipTest("the device takes no SPIR-V")
        for value in 5, 6:
            self.assertEqual(self.check("constants", str(value)), b"%d\n" % value)

    def test_links(self):
        self.assertEqual(self.check("link", "2"), b"230\n")
        self.assertEqual(self.check("library", "3"), b"330\n")

    def test_other_math_functions(self):
        """An entry of a program with a math library of its own."""
        self.write("a.cl", "__kernel void f(__global int *out) { *out = 1; }\n")
        self.run_app("real", SOURCE_APP, "a.cl", "ask")
        digest, = self.digests("real")
        key = json.loads(self.kiln("show", "--dir", "real", "--json", digest).stdout)["key"]
        others = ("platform.", "device.", "driver.", "libm.", "cpu")
        parts = [f"{part['name']}={part['text']}" for part in key
                 if part["name"] in ("platform.name", "device.name")
                 or not part["name"].startswith(others)]
        subprocess.run([MAKE_ENTRY, os.path.join(self.scratch, "old"), "put", "--", *parts,
                        "driver.math=libother.so x"], check=True, stdout=subprocess.DEVNULL)
        entry, = self.replay()["entries"]
        self.assertEqual((entry["result"], entry["why"]), (
            "impossible", "its program has math functions that differ from those here"))

    @unittest.skipUnless(can_unshare(), "this user has no private namespaces")
    def test_included_files_that_are_gone(self):
        headers = os.path.join(self.scratch, "headers")
        command = [SOURCE_APP, "a.cl", "ask"]
        self.write("a.cl", '#include "beside.h"\n__kernel void f(__global int *out) '
                           "{ *out = BESIDE; }\n")
        self.write("beside.h", f'#include "{headers}/absolute.h"\n#define BESIDE 3 + ABSOLUTE\n')
        self.write("headers/absolute.h", "#define ABSOLUTE 4\n")
        answer, _ = self.run_app("old", *command)
        os.rename(headers, headers + ".gone")
        os.rename(os.path.join(self.scratch, "beside.h"), os.path.join(self.scratch, "gone.h"))
        report = self.replay()
        self.assertEqual(report["built"], 1, report)
        self.assertEqual(self.digests("new"), self.digests("old"))
        os.rename(headers + ".gone", headers)
        os.rename(os.path.join(self.scratch, "gone.h"), os.path.join(self.scratch, "beside.h"))
        warm, counters = self.run_app("new", *command)
        self.assertEqual((counters["builds"], counters["hits_store"], warm), (0, 1, answer))

    def write(self, name, text):
        path = os.path.join(self.scratch, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
