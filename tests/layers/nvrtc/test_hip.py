# SPDX-License-Identifier: Apache-2.0
"""Tests the layer with the real HIPRTC of Debian's libamdhip64-5. Needs no GPU."""

import argparse
import ctypes.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import hip

HIP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hip.py")
LIBRARY = ctypes.util.find_library("amdhip64")

ARCH = "--gpu-architecture=gfx90a"
KERNEL = 'source=extern "C" __global__ void k(float *p) { p[threadIdx.x] *= N; }'
INCLUDES = 'source=#include "x.h"\nextern "C" __global__ void k(float *p) { *p = X; }'
FOLDS = 'source=extern "C" __global__ void k(double *p) { *p = __builtin_exp(0.3); }'
WARNS = 'source=#warning hello\nextern "C" __global__ void k(float *p) { *p = 1; }'
OTHER_THREAD = "a different thread used the compiler at the same time"
OUTCOME = re.compile(r"^kiln\[\d+\] (\S+?)(?: key=(\w+)| (.*))", re.MULTILINE)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--stand-in", required=True)
    parser.add_argument("--damages", type=int, default=3)
    arguments, rest = parser.parse_known_args()
    arguments.kiln = os.path.abspath(arguments.kiln)
    return arguments, rest


ARGUMENTS, REST = parse_arguments()


def compiled(*words):
    return [*words, ARCH, "compile"]


class Scene(unittest.TestCase):
    library = LIBRARY

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-hip-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("KILN_", "HIP", "AMD_", "ROC", "LLVM_", "XDG_", "LD_"))
        }
        self.environment.update(KILN_DIR=self.cache, KILN_TRACE=os.path.join(self.scratch, "trace"))

    def file(self, name, text):
        path = os.path.join(self.scratch, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def command(self, *words, kiln=True):
        return [*([ARGUMENTS.kiln, "run", "--"] if kiln else []), sys.executable, "-B", HIP,
                self.library, *words]

    def trace(self):
        path = self.environment["KILN_TRACE"]
        text = ""
        if os.path.exists(path):
            with open(path) as file:
                text = file.read()
            os.remove(path)
        self.about = OUTCOME.findall(text)
        return [outcome for outcome, *_ in self.about if outcome != "note:"]

    def run_hip(self, *words, expect=None, kiln=True):
        self.trace()
        result = subprocess.run(self.command(*words, kiln=kiln), env=self.environment,
                                cwd=self.scratch, capture_output=True, timeout=600, check=False)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        outcomes = self.trace()
        if expect is not None:
            self.assertEqual(outcomes, expect, self.about)
        return result.stdout.replace(b"0x", b"")

    def expect_hit_after(self, *words, count=1):
        plain = self.run_hip(*words, kiln=False, expect=[])
        self.assertEqual(self.run_hip(*words, expect=["built"] * count), plain)
        self.assertEqual(self.run_hip(*words, expect=["hit-store"] * count), plain)
        return plain

    def expect_pass(self, *words, why):
        """Nothing is stored."""
        result = self.run_hip(*words)
        self.assertTrue(any(why in text for _, _, text in self.about), self.about)
        self.assertEqual(hip.entries(self.cache), [])
        return result


@unittest.skipUnless(LIBRARY, "there is no HIPRTC")
class Hip(Scene):
    # ---- what is kept ----

    def test_inputs(self):
        """Programs that differ in one part are different programs."""
        variants = [compiled(KERNEL, "-DN=2"), compiled(KERNEL, "-DN=3", "-O1"),
                    [KERNEL, "-DN=2", "--offload-arch=gfx906", "compile"],
                    compiled(INCLUDES, "header=x.h=#define X 1"), compiled(FOLDS)]
        words = sum(variants, [])
        self.assertEqual(self.expect_hit_after(*words, count=5).count(b"compile 0"), 5)
        self.run_hip(*compiled(KERNEL, "-DN=2", "name=other.hip"), expect=["built"])

    def test_name_expressions(self):
        source = "source=template <class T> __global__ void t(T *p) { *p += 1; }"
        words = compiled(source, "expression=t<float>", "expression=t<int>")
        plain = self.expect_hit_after(*words)
        self.assertIn(b"t<float> 0 b'_Z1tIfEvPT_'", plain)
        for word in ("twice", "ask=t<char>"):
            plain = self.run_hip(word, *words, kiln=False)
            self.assertEqual(self.run_hip(word, *words, expect=["hit-store", "passed-through"]),
                             plain)

    def test_files(self):
        """A changed header, and a new one that is found first."""
        self.file("include/x.h", "#define X 1")
        os.mkdir(os.path.join(self.scratch, "first"))
        words = compiled(INCLUDES, "-Ifirst", f"-I{self.scratch}/include")
        outputs = [self.expect_hit_after(*words)]
        self.file("include/x.h", "#define X 2")
        outputs.append(self.expect_hit_after(*words))
        self.file("first/x.h", "#define X 3")
        outputs.append(self.expect_hit_after(*words))
        self.assertEqual(len(set(outputs)), 3)
        os.remove(os.path.join(self.scratch, "first/x.h"))
        self.assertEqual(self.run_hip(*words, expect=["hit-store"]), outputs[1])

    def test_environment(self):
        """CPATH is a list of folders that clang searches; TMPDIR affects no result."""
        self.file("one/x.h", "#define X 1")
        self.file("two/x.h", "#define X 2")
        self.environment["CPATH"] = os.path.join(self.scratch, "one")
        first = self.expect_hit_after(*compiled(INCLUDES))
        self.environment["CPATH"] = os.path.join(self.scratch, "two")
        self.assertNotEqual(self.expect_hit_after(*compiled(INCLUDES)), first)
        self.environment["TMPDIR"] = os.path.join(self.scratch, "one")
        self.run_hip(*compiled(INCLUDES), expect=["hit-store"])

    def test_variables_that_change(self):
        """comgr reads HIP_PATH once in a process."""
        for name in ("one", "two"):
            self.file(name + "/include/x.h", f"#define X '{name[0]}'")
        one, two = (f"set=HIP_PATH={self.scratch}/{name}" for name in ("one", "two"))
        words = compiled(INCLUDES)
        plain = self.run_hip(two, *words, kiln=False)
        both = self.run_hip(one, *words, two, *words, kiln=False)
        self.assertNotIn(plain, both)
        self.assertEqual(self.run_hip(one, *words, two, *words,
                                      expect=["built", "passed-through"]), both)
        self.assertEqual(self.run_hip(two, *words, expect=["built"]), plain)
        self.run_hip(one, *words, two, *words, expect=["hit-store"] * 2)

    # ---- what is not kept ----

    def test_temporary_folder(self):
        """comgr's folder has a random name."""
        why = "the path of the compiler's temporary folder"
        self.assertIn(b"comgr-", self.expect_pass(*compiled(WARNS, "text"), why=why))
        names = 'source=extern "C" __global__ void k(const char **p) { *p = %s; }'
        self.expect_pass(*compiled(names % "__FILE__"), why="__FILE__")
        lambda_name = ('source=template <class T> __device__ int f() { return '
                       'sizeof(__PRETTY_FUNCTION__); } extern "C" __global__ void k(int *p) '
                       '{ auto l = [] {}; *p = f<decltype(l)>(); }')
        short = self.expect_pass(*compiled(lambda_name), why="__FILE__ or a similar word")
        self.environment["TMPDIR"] = self.scratch
        self.assertNotEqual(self.run_hip(*compiled(lambda_name)), short)
        header = "header=x.h=#define X __BASE_FILE__[12]"
        self.expect_pass(*compiled(header, INCLUDES), why="__FILE__")
        self.file("outside.h", "#define X 1")
        self.environment["TMPDIR"] = self.scratch
        asks = '#if __has_include("../../outside.h")\n#define X 1\n#else\n#define X 2\n#endif'
        for text in ('#include "../../outside.h"', asks):
            self.expect_pass(*compiled(INCLUDES.replace('#include "x.h"', text)), why="leads out")

    def test_options(self):
        self.expect_pass(KERNEL, "-DN=2", "compile", why="names the architecture")
        after = compiled(KERNEL, "-DN=2", "-mllvm", "-inline-threshold=0") + compiled("-DN=3")
        self.expect_pass(*after, why="may not have forgotten")
        self.expect_pass(*compiled(KERNEL, "-DN=2", "-fgpu-inline-threshold=0"),
                         why="does not know")
        self.run_hip(*compiled(KERNEL, "-DN=3"), expect=["built"])
        self.run_hip(*after, expect=["passed-through", "hit-store"])

    def test_failures(self):
        """A compilation that fails is not kept."""
        words = compiled("source=nonsense")
        for _ in range(2):
            self.assertIn(b"compile 6", self.run_hip(*words, expect=["failed"]))

    # ---- several processes and threads, and damage ----

    def test_one_compilation_for_eight_processes(self):
        words = compiled(KERNEL, "-DN=2")
        plain = self.run_hip(*words, kiln=False)
        go = os.path.join(self.scratch, "go")
        started = [subprocess.Popen(self.command(f"wait={go}", *words), env=self.environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for _ in range(8)]
        self.file("go", "")
        for process in started:
            out, err = process.communicate(timeout=120)
            self.assertEqual((process.returncode, out), (0, plain), err)
        self.assertEqual(sorted(self.trace()), ["built"] + ["hit-store"] * 7)

    def test_threads(self):
        """HIPRTC 5.2 sometimes makes different code if several threads compile at once."""
        plain = self.run_hip(*compiled(KERNEL, "-DN=2"), kiln=False)
        words = [KERNEL, "-DN=2", ARCH, "threads=4"]
        for builds in (1, 0):
            lines = self.run_hip(*words).decode().splitlines()
            self.assertEqual(lines, sorted(plain.decode().splitlines() * 4))
            self.assertEqual([outcome for outcome, *_ in self.about].count("built"), builds)
        self.run_hip(KERNEL, "-DN=3", ARCH, "differing=4")
        # comgr saves and restores signal handlers. If several threads do, it looks like a signal.
        self.assertRegex(str(self.about), OTHER_THREAD + "|a signal arrived")
        for number in range(4):
            words = compiled(KERNEL, "-DN=3", f"-DNUMBER={number}")
            self.assertEqual(self.run_hip(*words), self.run_hip(*words, kiln=False))

    def test_other_users_of_comgr(self):
        """A different thread uses the compiler at the same time, but not through HIPRTC."""
        self.expect_pass(KERNEL, "-DN=2", ARCH, "beside", why=OTHER_THREAD)
        self.run_hip(*compiled(KERNEL, "-DN=2"), expect=["built"])

    def test_fork(self):
        """Threads of the parent may be using the compiler when it forks."""
        words = [*compiled(KERNEL, "-DN=2"), "fork", *compiled(KERNEL, "-DN=3")]
        result = self.run_hip(*words, expect=["built", "passed-through"])
        self.assertEqual(result.count(b"compile 0"), 2)

    def test_damage(self):
        """Damaged entries are never used, and are replaced."""
        words = compiled(KERNEL, "-DN=2")
        plain = self.run_hip(*words, expect=["built"])
        source = random.Random(1)
        for _ in range(min(ARGUMENTS.damages, 5)):
            hip.damage_all(self.cache, source)
            self.assertEqual(self.run_hip(*words, expect=["built"]), plain)
        self.run_hip(*words, expect=["hit-store"])

    def test_damage_in_one_process(self):
        """One process finds many damaged entries."""
        words = sum((compiled(KERNEL, f"-DN={n}") for n in range(ARGUMENTS.damages)), [])
        plain = self.run_hip(*words, expect=["built"] * ARGUMENTS.damages)
        self.assertEqual(self.run_hip(f"damage=2={self.cache}", *words,
                                      expect=["built"] * ARGUMENTS.damages), plain)
        self.assertEqual(self.run_hip(*words, expect=["hit-store"] * ARGUMENTS.damages), plain)


class UnknownHip(Scene):
    """A library of a later version."""
    library = os.path.abspath(ARGUMENTS.stand_in)

    def test_it_passes_through(self):
        result = self.run_hip(*compiled(KERNEL, "-DN=2"), "link")
        self.assertIn(b"compile 0", result)
        self.assertEqual(self.about, [
            ("passed-through", "", "hiprtcCompileProgram: the process has 0 libraries libamd_comgr"),
            ("passed-through", "", "hiprtcLinkComplete: links of HIPRTC are not cached")])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
