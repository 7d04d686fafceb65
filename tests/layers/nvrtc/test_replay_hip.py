# SPDX-License-Identifier: Apache-2.0
"""kiln replay with the real HIPRTC of Debian's libamdhip64-5: entries are those of a real run, byte
for byte, and programs find them. Needs no GPU."""

import ctypes
import json
import os
import re
import subprocess
import unittest

import hip
from test_hip import ARCH, ARGUMENTS, FOLDS, INCLUDES, KERNEL, LIBRARY, REST, Scene, compiled


def path_of_library():
    """Returns the path of the library that the loader finds."""
    ctypes.CDLL(LIBRARY)
    with open(f"/proc/{os.getpid()}/maps") as maps:
        return re.search(rf"/\S*{re.escape(LIBRARY)}\S*", maps.read())[0]


@unittest.skipUnless(LIBRARY, "there is no HIPRTC")
class ReplayHip(Scene):
    def setUp(self):
        super().setUp()
        self.other = os.path.join(self.scratch, "other")
        self.environment["PWD"] = self.scratch

    def kiln(self, *arguments, expect=0):
        result = subprocess.run([ARGUMENTS.kiln, *arguments], env=self.environment,
                                capture_output=True, timeout=120, check=False)
        self.assertEqual(result.returncode, expect, (result.stdout, result.stderr))
        return result.stdout

    def replay(self, *arguments, expect=0):
        """Repeats what the cache has, for a different store."""
        return json.loads(self.kiln("replay", "--from", self.cache, "--to", self.other, "--json",
                                    *arguments, expect=expect))

    def entries(self, cache):
        """Returns all that is in the entries of a cache, except who built them, and when."""
        found = {}
        for path in hip.entries(os.path.join(cache, "v1")):
            digest = os.path.basename(path)
            if "included" not in path:
                show = ["show", "--dir", cache, digest]
                about = json.loads(self.kiln(*show, "--json"))
                found[digest] = [about["key"], about["log"], self.kiln(*show, "--payload", "-"),
                                 self.kiln(*show, "--answers", "-")]
        return found

    def use(self, cache):
        self.environment["KILN_DIR"] = cache

    def test_equal_entries(self):
        """What is replayed equals what was built, with all that a program passes."""
        self.file("include/found.h", "#define X 1")
        template = "source=template <class T> __global__ void t(T *p) { *p += 1; }"
        asks = ('source=#if __has_include("y.h")\n#define X 1\n#else\n#define X 2\n#endif\n'
                'extern "C" __global__ void k(float *p) { *p = X; }')
        programs = [compiled(FOLDS, "-O1", "name=other.hip"), compiled(asks),
                    compiled('source=#include "found.h"\n' + template[len("source="):], "-Iinclude",
                             "header=x.h=//", "expression=t<float>")]
        # The compiler looks up more at the first compilation of a process.
        plain = [self.run_hip(*words, expect=["built"]) for words in programs]
        report = self.replay()
        self.assertEqual(report["built"], len(programs), report)
        self.assertEqual(self.entries(self.other), self.entries(self.cache))
        self.use(self.other)
        for words, output in zip(programs, plain):
            self.assertEqual(self.run_hip(*words, expect=["hit-store"]), output)

    def test_another_architecture(self):
        """An architecture of NVIDIA's is not for HIPRTC."""
        words = [KERNEL, "-DN=2", "--offload-arch=gfx90a", "compile"]
        self.run_hip(*words, expect=["built"])
        self.assertEqual(self.replay("--arch", "gfx906")["built"], 1)
        self.replay("--arch", "sm_90")
        self.use(os.path.join(self.scratch, "real"))
        self.run_hip(*words, expect=["built"])
        words[2] = "--offload-arch=gfx906"
        plain = self.run_hip(*words, expect=["built"])
        self.assertEqual(self.entries(self.other),
                         self.entries(os.path.join(self.scratch, "real")))
        self.use(self.other)
        self.assertEqual(self.run_hip(*words, expect=["hit-store"]), plain)

    def test_another_library(self):
        """A library with a different build-id."""
        words = compiled(KERNEL, "-DN=2")
        self.run_hip(*words, expect=["built"])
        copy = os.path.join(self.scratch, "libamdhip64.so.5")
        with open(path_of_library(), "rb") as file:
            content = file.read()
        at = content.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
        with open(copy, "wb") as file:
            file.write(content[:at] + b"other" + content[at + 5:])
        self.assertEqual(self.replay("--hiprtc", copy)["built"], 1)
        self.assertEqual(self.replay("--hiprtc", copy)["present"], 1)
        self.use(self.other)
        self.library = copy
        plain = self.run_hip(*words, kiln=False)
        self.assertEqual(self.run_hip(*words, expect=["hit-store"]), plain)

    def test_a_file_that_is_gone(self):
        header = self.file("include/x.h", "#define X 1")
        words = compiled(INCLUDES, f"-I{self.scratch}/include")
        plain = self.run_hip(*words, expect=["built"])
        os.remove(header)
        report = self.replay()
        if not report["built"]:
            self.assertIn("private namespaces", report["entries"][0]["why"])
            self.skipTest("this user has no private namespaces")
        self.file("include/x.h", "#define X 1")
        self.use(self.other)
        self.assertEqual(self.run_hip(*words, expect=["hit-store"]), plain)

    def test_what_is_not_hiprtc(self):
        self.run_hip(*compiled(KERNEL, "-DN=2"), expect=["built"])
        entry, = self.replay("--hiprtc", os.path.abspath(ARGUMENTS.kiln))["entries"]
        self.assertEqual(entry["result"], "impossible")
        self.assertIn("HIPRTC can't be loaded", entry["why"])


if __name__ == "__main__":
    unittest.main(argv=["test_replay_hip.py", *REST])
