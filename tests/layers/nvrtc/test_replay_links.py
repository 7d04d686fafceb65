# SPDX-License-Identifier: Apache-2.0
"""kiln replay with the real nvJitLink: entries are those of a real run, byte for byte, and programs
find them. Needs no GPU. --other LIBRARY: a different version, in place of a copy with another
build-id."""

import argparse
import ctypes
import glob
import json
import os
import re
import subprocess
import unittest

import test_links
from test_links import ARGUMENTS, CUBIN, LIBRARY, PTX

LTOIR = 3
CALLED = 'extern "C" __device__ float g(float x) { return x * 3; }'


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--other")
    return parser.parse_known_args(test_links.REST)


OTHER, REST = parse_arguments()


def find_nvrtc():
    for place in (os.path.join(ARGUMENTS.cuda, "lib64/libnvrtc.so.[0-9]*"),
                  os.path.join(ARGUMENTS.build, "runtimes/nvrtc/lib/python3.*/site-packages/nvidia",
                               "cuda_nvrtc/lib/libnvrtc.so.[0-9]*")):
        for path in sorted(glob.glob(place)):
            return ctypes.CDLL(path)
    return None


def compiled(output, *options):
    """Returns the code that NVRTC makes of a function."""
    nvrtc = find_nvrtc()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), CALLED.encode(), None, 0, None, None)
    options = [option.encode() for option in options]
    nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    getattr(nvrtc, f"nvrtcGet{output}Size")(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{output}")(program, code)
    return code.raw


@unittest.skipUnless(LIBRARY, "there is no nvJitLink")
class ReplayLinks(test_links.Scene):
    def setUp(self):
        super().setUp()
        self.other = os.path.join(self.scratch, "other")

    def write(self, name, content):
        path = os.path.join(self.scratch, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def kiln(self, *arguments, expect=0):
        result = subprocess.run([ARGUMENTS.kiln, *arguments], env=self.environment,
                                capture_output=True, timeout=120, check=False)
        self.assertEqual(result.returncode, expect, (result.stdout, result.stderr))
        return result.stdout

    def replay(self, *arguments, expect=0, library=LIBRARY):
        """Repeats what the cache has, for a different store."""
        return json.loads(self.kiln("replay", "--from", self.cache, "--to", self.other, "--json",
                                    "--nvjitlink", library, *arguments, expect=expect))

    def why(self, *arguments):
        entry, = self.replay(*arguments)["entries"]
        self.assertEqual(entry["result"], "impossible")
        return entry["why"]

    def entries(self, cache):
        """Returns all that is in the entries of a cache, except who built them, and when."""
        found = {}
        for path in glob.glob(os.path.join(cache, "v1", "??", "*")):
            show = ["show", "--dir", cache, os.path.basename(path)]
            about = json.loads(self.kiln(*show, "--json"))
            found[show[-1]] = [about["key"], about["log"], self.kiln(*show, "--payload", "-"),
                               self.kiln(*show, "--answers", "-")]
        return found

    def expect_hits(self, *links, count):
        plain = self.run_links(*links, kiln=False)
        self.environment["KILN_DIR"] = self.other
        self.assertEqual(self.run_links(*links, expect=["hit-store"] * count), plain)

    def test_equal_entries(self):
        """What is replayed equals what was built, with all kinds of inputs and both interfaces. No
        two links begin with the same inputs, since the last one of them to be stored says which
        files were read."""
        links = [self.both, f"-arch=sm_80 -O3 {self.function}", f"-arch=sm_90 @{self.function}",
                 f"-arch=sm_80 {self.kernel} @{self.function}", "RELEASE=" + self.releases()[-1],
                 self.both]
        count = 5
        if find_nvrtc():
            ltoir = self.write("function.ltoir", compiled("LTOIR", "-dlto", "-arch=sm_90"))
            cubin = self.write("function.cubin", compiled("CUBIN", "-rdc=true", "-arch=sm_90"))
            links += [f"-arch=sm_90 -lto {LTOIR}:{ltoir}",
                      f"-arch=sm_90 -O3 {self.kernel} {CUBIN}:{cubin}"]
            count += 2
        self.run_links(*links, expect=["built"] * count)
        report = self.replay()
        self.assertEqual(report["built"], count, report)
        self.assertEqual(self.entries(self.other), self.entries(self.cache))
        self.assertEqual(self.replay()["present"], count)
        self.expect_hits(*links, count=count)

    def test_another_library(self):
        library = OTHER.other
        if library is None:
            with open(LIBRARY, "rb") as file:
                content = file.read()
            at = content.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
            library = self.write("libnvJitLink.so",
                                 content[:at] + b"other" + content[at + 5:])
        self.run_links(self.both, expect=["built"])
        self.assertEqual(self.replay(library=library)["built"], 1)
        self.library = library
        self.expect_hits(self.both, count=1)

    def test_another_architecture(self):
        self.run_links(self.both, expect=["built"])
        self.assertEqual(self.replay("--arch", "sm_80")["built"], 1)
        self.expect_hits(self.both.replace("sm_90", "sm_80"), count=1)
        if find_nvrtc():
            cubin = self.write("function.cubin", compiled("CUBIN", "-rdc=true", "-arch=sm_90"))
            ltoir = self.write("function.ltoir", compiled("LTOIR", "-dlto", "-arch=sm_90"))
            for name, link in (("cubin", f"-arch=sm_90 {self.kernel} {CUBIN}:{cubin}"),
                               ("ltoir", f"-arch=sm_90 -lto {LTOIR}:{ltoir}")):
                self.environment["KILN_DIR"] = self.cache = os.path.join(self.scratch, name)
                self.run_links(link, expect=["built"])
                self.assertIn("for a different architecture", self.why("--arch", "sm_80"))
                self.assertEqual(self.replay("--arch", "sm_90")["built"], 1)

    def test_a_file_that_has_changed(self):
        """The program would use it as it is now."""
        link = f"-arch=sm_90 @{self.function}"
        self.run_links(link, expect=["built"])
        self.file("function.ptx", self.function_text("40400000"))
        self.assertEqual(self.replay()["built"], 1)
        self.expect_hits(link, count=1)

    def test_a_file_that_is_gone(self):
        link = f"-arch=sm_90 @{self.function}"
        self.run_links(link, expect=["built"])
        path = os.path.join(self.scratch, "function.ptx")
        os.remove(path)
        report = self.replay()
        if not report["built"]:
            self.assertIn("private namespaces", report["entries"][0]["why"])
            self.skipTest("this user has no private namespaces")
        self.file("function.ptx", self.function_text())
        self.expect_hits(link, count=1)

    def test_inputs_that_were_not_kept(self):
        self.environment["KILN_INCLUDED_MAX_SIZE"] = "0"
        self.run_links(self.both, expect=["built"])
        self.assertFalse(os.path.exists(os.path.join(self.cache, "v1", "included")))
        self.assertEqual(self.why(), "an input of the link was not kept: kernel.ptx")
        del self.environment["KILN_INCLUDED_MAX_SIZE"]
        self.run_links(self.both.replace("sm_90", "sm_80"), expect=["built"])
        for path in glob.glob(os.path.join(self.cache, "v1", "included", "v1", "??", "*")):
            with open(path, "r+b") as file:
                file.seek(-20, os.SEEK_END)
                file.write(b"damage")
        self.assertEqual(self.replay()["impossible"], 2)

    def test_a_release_that_the_library_lacks(self):
        with open(LIBRARY, "rb") as file:
            content = file.read()
        release = self.releases()[-1]
        lacks = re.sub(rb"__nvJitLink(\w+?)_%s\0" % release.encode(),
                       lambda name: name[0].replace(b"__nvJitLink", b"__nvJitLost"), content)
        self.run_links("RELEASE=" + release, f"-arch=sm_90 {self.function}", expect=["built"])
        library = self.write("libnvJitLink.so", lacks)
        entry, = self.replay(library=library)["entries"]
        self.assertEqual((entry["result"], entry["why"]), (
            "impossible", f"nvJitLink lacks functions that the program calls: those of release {release}"))


if __name__ == "__main__":
    unittest.main(argv=["test_replay_links.py", *REST])
