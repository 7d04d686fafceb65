# SPDX-License-Identifier: Apache-2.0
"""Tests the layer of NVRTC with the real NVRTC of a CUDA toolkit. Needs no GPU."""

import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

import layer_case
from layer_case import ARGUMENTS

FOLDER = os.path.join(ARGUMENTS.cuda, "lib64")
LIBRARIES = sorted(glob.glob(os.path.join(FOLDER, "libnvrtc.so.[0-9]*")))
INCLUDE = "-I" + os.path.join(ARGUMENTS.cuda, "include")

HIP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hip.py")

WITHOUT_FMA = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable,-FMA4,-FMA4_Usable"

SOURCE = """
#include <cuda_fp16.h>
template <typename T> __global__ void axpy(T a, T *x, T *y) { y[threadIdx.x] += a * x[threadIdx.x]; }
__constant__ float factor;
extern "C" __global__ void plain(float *x) { int unused; x[threadIdx.x] = factor; }
"""


class Real(layer_case.LayerCase):
    library = LIBRARIES[-1] if LIBRARIES else None

    def program(self, *options, text=SOURCE):
        return ["--source", self.file("k.cu", text), "--name", "k.cu",
                "--expression", "axpy<float>", "--expression", "axpy< __half >",
                "--expression", "&factor", "--misuse", "--", INCLUDE, *options]


class Namespaces(Real):
    def test_a_second_library_in_its_own_namespace(self):
        # Even without Kiln, both libraries read uninitialized memory, which works as long as
        # malloc leaves new memory unchanged.
        self.environment.pop("MALLOC_PERTURB_", None)
        arguments = ["--elsewhere", self.library, *self.program("-arch=sm_90")]
        plain = self.run_program(*arguments, kiln=False)
        self.assertEqual(plain.count(b"compile: 0"), 4)
        for outcome in ("built", "hit-store"):
            self.assertEqual(self.run_program(*arguments), plain)
            self.assertEqual(self.last[0][0], outcome)


class Outputs(Real):
    def test_every_kind(self):
        for options in (["-arch=sm_90"], ["-arch=compute_90"], ["-arch=sm_90", "-dlto"],
                        ["-arch=compute_80", "--optix-ir"], ["-arch=sm_90", "-lineinfo"],
                        ["-arch=sm_90", "-G"], ["-arch", "sm_80", "-std=c++20", "-rdc=true"],
                        ["-arch=sm_90", "--minimal", "-fdevice-syntax-only"]):
            with self.subTest(options=options):
                plain = self.expect_hit_after(*self.program(*options))
                self.assertIn(b"compile: 0", plain)

    def test_failures(self):
        for arguments in (self.program("-arch=sm_9999"), self.program("--no-such-option"),
                          self.program(text="this is no C++")):
            plain = self.run_program(*arguments, kiln=False)
            for _ in range(2):
                self.assertEqual(self.run_program(*arguments), plain)

    def test_twice(self):
        arguments = ["--twice", *self.program("-arch=sm_90")]
        plain = self.run_program(*arguments, kiln=False)
        for _ in range(2):
            self.assertEqual(self.run_program(*arguments), plain)

    def test_callback(self):
        self.expect_pass("--callback", *self.program("-arch=sm_90"), why="callback")

    def test_floating_point_mode(self):
        """NVRTC folds a constant in the thread's rounding mode."""
        folds = ["--source", self.file("folds.cu", "__constant__ double third = 1.0 / 3.0;\n"
                                       'extern "C" __global__ void k(double *x)\n'
                                       "{ x[0] = third; x[1] = exp(0.7); x[2] = log(0.7);\n"
                                       "  x[3] = sin(1.3); x[4] = pow(2.1, 0.3); }")]
        rounded = [*folds, "--round-to-zero"]
        plain = self.expect_hit_after(*folds)
        self.assertNotEqual(self.expect_hit_after(*rounded), plain)
        self.assertEqual(self.run_program(*folds, expect=["hit-store"]), plain)

    def test_functions_for_a_different_processor(self):
        """The C library has functions for processors without FMA, which differ in some bits."""
        text = 'extern "C" __global__ void k(double *x) {\n' + "".join(
            "  x[%d] = %s;\n" % (i, call) for i, call in enumerate((
                "exp(-0x1.b25419a767f64p+3)", "exp(0x1.35dd23a683e9cp+4)",
                "sin(0x1.2fc6c4dc48858p+4)", "sin(-0x1.24b635ec6a8c8p+3)",
                "pow(0x1.397a83a26dff4p+2, -0x1.7331bf55b7ba8p+2)",
                "pow(0x1.07e949685d282p+3, -0x1.123a5f7172de8p+1)"))) + "}\n"
        arguments = ["--source", self.file("folds.cu", text)]
        plain = self.expect_hit_after(*arguments)
        self.environment["GLIBC_TUNABLES"] = WITHOUT_FMA
        other = self.run_program(*arguments, kiln=False)
        if other == plain:
            self.skipTest("here the C library has only one version of these functions")
        for expected in "built", "hit-store":
            self.environment["GLIBC_TUNABLES"] = WITHOUT_FMA
            self.assertEqual(self.run_program(*arguments, expect=[expected]), other)
            del self.environment["GLIBC_TUNABLES"]
            self.assertEqual(self.run_program(*arguments, expect=["hit-store"]), plain)

    def test_options_that_last(self):
        """NVRTC 13.0 compiles later programs of a process as if they had such an option too. The
        layer does not keep their results."""
        text = """
extern "C" __global__ void add(float *o, const float *i) { o[0] = i[0]; o[1] = i[0] + i[1]; }
extern "C" __global__ void sum(float *o, const float *i, int n) {
  float s = 0;
  o[0] = i[0];
  o[1] = i[0] + i[1];
  for (int j = 0; j < n; j++) s += sinf(i[j]) / i[j + 1] * __expf(i[j]);
  o[threadIdx.x] = sqrtf(s) + s * i[3] + 1e-39f;
}
"""
        source = ["--source", self.file("lasts.cu", text), "--", "-arch=compute_80"]
        plain = self.run_program(*source, kiln=False)
        for option in "--restrict", "--Ofast-compile=mid":
            with self.subTest(option=option):
                shutil.rmtree(self.cache, ignore_errors=True)
                first = ["--first", option, *source]
                after = self.run_program(*first, kiln=False)
                self.assertEqual(self.run_program(*first), after)
                outcomes = [outcome for outcome, _ in self.last]
                self.assertEqual(self.run_program(*source), plain)
                self.assertEqual(outcomes, ["built", "passed-through", "built"])
                # A hit returns the result of a process that compiles nothing else.
                self.assertEqual(self.run_program(*first, expect=["hit-store"] * 2),
                                 b"first: 0\n" + plain)
                # If a program has the option itself, its result is the same as in a process that
                # compiles nothing else.
                alone = self.run_program(*source, option, kiln=False)
                self.assertEqual(self.run_program(*first, option), b"first: 0\n" + alone)
                self.assertEqual(self.run_program(*source, option, expect=["hit-store"]), alone)

    def test_clock_words_pass_through(self):
        self.environment["KILN_TRACE"] = os.path.join(self.scratch, "trace")
        for _ in range(2):
            self.run_program("--source", self.file("t.cu", "__constant__ char t[] = __TIME__;"))
            self.assertEqual(self.last[0][0], "passed-through")


class PrecompiledHeaders(Real):
    """With --pch, as DeepGEMM passes it, later programs of a process use headers that NVRTC
    precompiled for earlier ones."""
    NOT_ATTEMPTED = "header 13"  # also what NVRTC answers if it has used a header
    WORDS = re.compile(r"^(compile|PTX) .*", re.MULTILINE)

    def setUp(self):
        super().setUp()
        self.file("x.h", "#pragma once\n#define X 1\n__device__ inline int f(int i) { return X + i; }")

    def command(self, *words, program=None, kiln=True):
        return super().command("-B", HIP, self.library, *words, program=sys.executable, kiln=kiln)

    def source(self, number, before='#include "x.h"'):
        return (f"source={before}\nextern \"C\" __global__ void k(int *p) "
                f"{{ *p = f({number}); }}")

    def compiled(self, *words):
        return [*words, "-arch=sm_90", f"-I{self.scratch}", "-default-device", "--pch", "compile"]

    def run_words(self, *words, expect=None, kiln=True):
        """Returns the lines with results and code, and all lines."""
        lines = self.run_program(*words, expect=expect, kiln=kiln).decode()
        return [match[0] for match in self.WORDS.finditer(lines)], lines

    def alone(self, *words):
        """The results of a process that compiles nothing else."""
        return self.run_words(*self.compiled(*words), kiln=False)[0]

    def test_hits(self):
        words = sum((self.compiled(self.source(n)) for n in range(3)), ["text"])
        plain, lines = self.run_words(*words, kiln=False)
        if "precompiled" not in lines:
            self.skipTest("this NVRTC does not precompile headers")
        cold, lines = self.run_words(*words, expect=["built"] * 3)
        self.assertEqual(cold, plain)
        self.assertEqual(lines.count("using precompiled"), 2)
        warm, lines = self.run_words(*words, expect=["hit-store"] * 3)
        self.assertEqual(warm, plain)
        self.assertEqual(lines.count(self.NOT_ATTEMPTED), 3)
        self.assertNotIn("precompiled", lines)
        # A program that is not found precompiles the header for later ones.
        more = [*words, *self.compiled(self.source(3)), *self.compiled(self.source(4))]
        mixed, lines = self.run_words(*more, expect=["hit-store"] * 3 + ["built"] * 2)
        self.assertEqual(mixed, self.run_words(*more, kiln=False)[0])
        self.assertEqual(lines.count("using precompiled"), 1)
        self.run_words(*more, expect=["hit-store"] * 5)

    def test_warnings(self):
        """A hit has the warnings, without the messages about headers."""
        other = self.source(1, '#define Y\n#include "x.h"')
        words = [*self.compiled(self.source(1)),
                 *self.compiled("text", other.replace("{ *p", "{ int unused; *p"))]
        self.run_words(*words, expect=["built"] * 2)
        _, lines = self.run_words(*words, expect=["hit-store"] * 2)
        self.assertIn("unused", lines)
        self.assertNotIn("precompiled", lines)

    def test_changed_file(self):
        """NVRTC does not notice that a file has changed since it precompiled it."""
        one, two = (self.compiled(self.source(n)) for n in (1, 2))
        change = f"write={self.scratch}/x.h=__device__ inline int f(int i) {{ return 5 * i; }}"
        self.run_words(*one, change, *two)
        self.assertIn("files changed during the compilation", str(self.last))
        for _ in range(2):
            self.assertEqual(self.run_words(*two)[0], self.alone(self.source(2)))
        self.run_words(*one, *two, expect=["built", "hit-store"])

    def test_headers_in_memory(self):
        """NVRTC does not compare them."""
        header = "header=y.h=__device__ inline int f(int i) { return %d * i; }"
        source = self.source(3, '#include "x.h"\n#include "y.h"').replace("f(", "g(")
        one, two = ([header.replace("int f", "int g") % n, source] for n in (10, 20))
        self.run_words(*self.compiled(*one), *self.compiled(*two))
        self.assertIn("made from different inputs", str(self.last))
        for words in (one, two):
            self.assertEqual(self.run_words(*self.compiled(*words))[0], self.alone(*words))

    def test_directives(self):
        """NVRTC compares directives, but not what they mean."""
        before = '%s#if __LINE__ == 1\n#define Y 7\n#else\n#define Y 8\n#endif\n#include "x.h"'
        one, two = (self.source("Y", before % blank) for blank in ("", "\n"))
        self.run_words(*self.compiled(one), *self.compiled(two))
        self.assertIn("made from different inputs", str(self.last))
        self.assertEqual(self.run_words(*self.compiled(two))[0], self.alone(two))
        self.assertNotEqual(self.alone(one), self.alone(two))

    def test_floating_point_mode(self):
        """Constants in a header are folded when it is precompiled."""
        self.file("x.h", "__device__ inline double f(int) { constexpr double x = 1.0 / 3; return x; }")
        one, two = (self.source(n) for n in (1, 2))
        toward_zero = "round=3072"
        self.run_words(*self.compiled(one), toward_zero, *self.compiled(two))
        self.assertIn("in different floating-point modes", str(self.last))
        self.assertEqual(self.run_words(toward_zero, *self.compiled(two))[0],
                         self.alone(toward_zero, two))

    def test_what_is_not_observed(self):
        """A program that passes through precompiles the header, or no message names it."""
        passes = self.compiled(self.source(1) + "// __TIME__")
        self.run_words(*passes, *self.compiled(self.source(2)))
        self.assertIn("was not observed", str(self.last))
        self.run_words(*self.compiled("--pch-messages=false", self.source(3)))
        self.assertIn("does not name the precompiled header", str(self.last))

    def test_named_files(self):
        """The application expects the file that NVRTC makes."""
        path = os.path.join(self.scratch, "x.pch")
        options = ["-arch=sm_90", f"-I{self.scratch}", "-default-device"]
        words = [self.source(1), *options, f"--create-pch={path}", "compile",
                 self.source(2), *options, f"--use-pch={path}", "compile"]
        plain, _ = self.run_words(*words, kiln=False)
        for _ in range(2):
            os.remove(path)
            results, lines = self.run_words(*words, expect=["passed-through"] * 2)
            self.assertEqual(results, plain)
            self.assertEqual(re.findall("header (.*)", lines)[0], "0")


class Bindings(Real):
    """The layer works however a program is bound to NVRTC."""

    @unittest.skipUnless(ARGUMENTS.linked, "no NVRTC to link with")
    def test_linked(self):
        for program in ARGUMENTS.linked:
            shutil.rmtree(self.cache, ignore_errors=True)
            self.expect_hit_after(*self.program("-arch=sm_90"), program=program)

    @unittest.skipUnless(ARGUMENTS.linked, "no NVRTC to link with")
    def test_linked_by_a_program_whose_exceptions_trap(self):
        """Kiln calls each math function once, to learn where the loader finds it; log(0) traps."""
        for program in ARGUMENTS.linked:
            shutil.rmtree(self.cache, ignore_errors=True)
            self.expect_hit_after("--trap", *self.program("-arch=sm_90"), program=program)

    def test_by_name(self):
        self.library = os.path.basename(self.library)
        self.environment["LD_LIBRARY_PATH"] = FOLDER
        self.expect_hit_after(*self.program("-arch=sm_90"))

    def test_under_another_name(self):
        """Opens the library by its soname."""
        path = os.path.join(self.scratch, "other.so")
        os.symlink(self.library, path)
        self.library = path
        self.environment["LD_LIBRARY_PATH"] = FOLDER
        self.expect_hit_after(*self.program("-arch=sm_90"))

    def test_from_python(self):
        script = self.file("compile.py", """
import ctypes, sys
nvrtc = ctypes.CDLL(sys.argv[1])
program = ctypes.c_void_p()
nvrtc.nvrtcCreateProgram(ctypes.byref(program), open(sys.argv[2], "rb").read(), b"k.cu", 0, 0, 0)
options = (ctypes.c_char_p * 2)(sys.argv[3].encode(), b"-arch=sm_90")
print(nvrtc.nvrtcCompileProgram(program, 2, options))
size = ctypes.c_size_t()
nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
code = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetCUBIN(program, code)
print(size.value, code.raw.hex())
""")
        arguments = [script, self.library, self.file("k.cu", SOURCE), INCLUDE]
        self.expect_hit_after(*arguments, program=sys.executable)


class Includes(Real):
    def test_changed_files_are_noticed(self):
        text = '#include "sub/a.h"\nextern "C" __global__ void k(float *x) { *x = VALUE; }'
        source = ["--source", self.file("k.cu", text), "--", "-arch=sm_90", "-Ione", "-Itwo"]
        self.file("two/sub/a.h", '#include "b.h"\n')
        self.file("two/b.h", "#define VALUE 1\n")
        os.mkdir(os.path.join(self.scratch, "one"))
        one = self.expect_hit_after(*source)
        # Adds a different file, earlier in the search order.
        path = self.file("one/b.h", "#define VALUE 2\n")
        two = self.run_program(*source, expect=["built"])
        self.assertNotEqual(one, two)
        self.assertEqual(self.run_program(*source, kiln=False), two)
        # Adds a file beside the including one, which is even earlier in the search order.
        self.file("two/sub/b.h", "#define VALUE 3\n")
        three = self.run_program(*source, expect=["built"])
        self.assertEqual(self.run_program(*source, kiln=False), three)
        os.remove(os.path.join(self.scratch, "two/sub/b.h"))
        self.assertEqual(self.run_program(*source, expect=["hit-store"]), two)
        os.remove(path)
        self.assertEqual(self.run_program(*source, expect=["hit-store"]), one)
        # Adds a file that only __has_include looks for.
        self.file("k.cu", '#if __has_include("c.h")\n#define MORE 1\n#else\n#define MORE 0\n'
                          '#endif\n__constant__ int more = MORE;')
        without = self.run_program(*source, expect=["built"])
        self.file("two/c.h", "")
        self.assertNotEqual(self.run_program(*source, expect=["built"]), without)

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_every_opened_file_is_recorded(self):
        """The layer records every file that NVRTC opens."""
        text = '#include <cuda_fp16.h>\n#include "sub/a.h"\n'
        self.file("inc/sub/a.h", "#define A 1\n")
        source = self.file("k.cu", text)
        arguments = self.command("--source", source, "--name", "k.cu", "--", INCLUDE, "-Iinc")
        log = os.path.join(self.scratch, "strace")
        strace = ["strace", "-f", "-qq", "-e", "trace=openat,open", "-o", log]
        result = subprocess.run([*strace, *arguments], env=self.environment, cwd=self.scratch,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if b"ptrace" in result.stderr:
            self.skipTest("this machine does not allow tracing")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(log) as file:
            opened = set(re.findall(r'"([^"]+\.(?:h|hpp|cuh))"', file.read()))
        self.assertIn("inc/sub/a.h", opened)
        entries = [os.path.join(folder, name)
                   for folder, _, names in os.walk(os.path.join(self.cache, "v1"))
                   for name in names if len(name) == 32 and "/included/" not in folder]
        with open(entries[0], "rb") as file:
            entry = file.read()
        for path in opened:
            self.assertIn(path.encode() + b"\0", entry)


class Folders(Real):
    def in_folder(self, name, text, *options):
        path = self.file(os.path.join(name, "k.cu"), text)
        return ["--source", path, "--name", path, "--", *options]

    def test_folders_of_programs(self):
        texts = {
            "warning": ('extern "C" __global__ void k(float *x) { int unused; *x = 1; }', True),
            "file": ('extern "C" __global__ void k(const char **x) { *x = __FILE__; }', False),
            "assert": ('extern "C" __global__ void k(float *x) { assert(*x > 0); }', False),
            "internal": ("namespace { __device__ float hidden; }\n"
                         'extern "C" __global__ void k(float *x) { hidden += *x; }', True),
            "long": ("namespace { __device__ float hidden; }\n"
                     "__global__ void a_kernel_that_has_a_long_name(float *x) { hidden += *x; }",
                     True),
        }
        for name, (text, moves) in texts.items():
            for options in (["-arch=sm_90"], ["-arch=compute_90"]):
                with self.subTest(text=name, options=options):
                    first = self.in_folder("one/" + name, text, *options)
                    self.run_program(*first, expect=["built"])
                    second = self.in_folder("two/longer/" + name, text, *options)
                    plain = self.run_program(*second, kiln=False)
                    self.assertEqual(
                        self.run_program(*second, expect=["hit-store" if moves else "built"]),
                        plain)
                    self.assertEqual(self.run_program(*first, kiln=False),
                                     self.run_program(*first, expect=["hit-store"]))

    def test_a_folder_that_is_gone(self):
        """NVRTC looks at the folder of a source that is a file. CuPy's folders are temporary."""
        text = 'extern "C" __global__ void k(float *x) { *x = 1; }'
        self.run_program(*self.in_folder("one", text, "-arch=sm_90"), expect=["built"])
        shutil.rmtree(os.path.join(self.scratch, "one"))
        program = self.in_folder("two", text, "-arch=sm_90")
        plain = self.run_program(*program, kiln=False)
        self.assertEqual(self.run_program(*program, expect=["hit-store"]), plain)

    def test_a_folder_that_is_gone_before(self):
        """A program whose folder does not exist, as CuPy removes it before it compiles, is found
        after kiln replay has built it for a different architecture."""
        text = 'extern "C" __global__ void k(float *x) { *x = 1; }'
        source = self.file("source.cu", text)

        def program(folder, architecture):
            return ["--source", source, "--name", os.path.join(self.scratch, folder, "k.cu"),
                    "--", "-arch=" + architecture]

        self.run_program(*program("one", "sm_80"), expect=["built"])
        subprocess.run([ARGUMENTS.kiln, "replay", "--nvrtc", self.library, "--arch", "sm_90"],
                       env=self.environment, check=True, stdout=subprocess.DEVNULL)
        plain = self.run_program(*program("two", "sm_90"), kiln=False)
        self.assertEqual(self.run_program(*program("two", "sm_90"), expect=["hit-store"]), plain)

    def test_the_log_names_this_folder(self):
        """The log names headers next to the program, and contains messages of ptxas."""
        # If the driver's own cache answers, ptxas does not run, and NVRTC's log lacks its part.
        self.environment["CUDA_CACHE_DISABLE"] = "1"
        text = '#include "unused.h"\n#warning here\nextern "C" __global__ void k(float *x) { *x = 1; }'
        for options in (["-arch=sm_90"], ["-arch=sm_90", "--ptxas-options=-g"]):
            for folder, expected in ("one", "built"), ("two/longer", "hit-store"):
                self.file(f"{folder}/unused.h", "__device__ void f() { int unused; }\n")
                program = self.in_folder(folder, text, *options)
                plain = self.run_program(*program, kiln=False)
                self.assertIn(f"{folder}/unused.h(1): warning".encode(), plain)
                self.assertEqual(self.run_program(*program, expect=[expected]), plain)

    def test_a_header_that_leads_into_a_folder(self):
        """The header names the folder, so it reads from that folder wherever the program is."""
        text = '#include <b.h>\nextern "C" __global__ void k(float *x) { *x = VALUE; }'
        self.file("b.h", "#include <one/a.h>\n")
        self.file("one/a.h", "#define VALUE 1\n")
        self.file("two/a.h", "#define VALUE 1\n")
        options = ["-arch=sm_90", "-I" + self.scratch]
        self.run_program(*self.in_folder("one", text, *options), expect=["built"])
        self.file("one/a.h", "#define VALUE 2\n")
        two = self.in_folder("two", text, *options)
        plain = self.run_program(*two, kiln=False)
        self.assertEqual(self.run_program(*two, expect=["built"]), plain)

    def test_a_macro_that_leads_into_a_folder(self):
        text = ('#define TEXT(x) #x\n#define PATH(x) TEXT(x/a.h)\n#include PATH(FOLDER)\n'
                'extern "C" __global__ void k(float *x) { *x = VALUE; }')
        self.file("one/a.h", "#define VALUE 1\n")
        self.file("two/a.h", "#define VALUE 1\n")
        options = ["-arch=sm_90", "-DFOLDER=one", "-I" + self.scratch]
        self.run_program(*self.in_folder("one", text, *options), expect=["built"])
        self.file("one/a.h", "#define VALUE 2\n")
        two = self.in_folder("two", text, *options)
        plain = self.run_program(*two, kiln=False)
        self.assertEqual(self.run_program(*two, expect=["built"]), plain)

    def test_symbols_that_contain_the_process_number(self):
        """NVRTC puts the process number into names of symbols, so these differ in each run."""
        text = """namespace { __device__ volatile int hidden = 3; struct T { int x; }; }
                  template <class T> __global__ void k(int *x) { x[0] = hidden; }"""
        for expression in "k<int>", "k<T>":
            outputs = []
            for folder, expected in ("one", "built"), ("two", "hit-store"):
                path = self.file(f"{folder}/k.cu", text)
                outputs.append(self.run_program(
                    "--source", path, "--name", path, "--expression", expression, "--",
                    "-arch=sm_90", expect=[expected]))
            self.assertEqual(*outputs)


class WorkingDirectories(Real):
    def test_a_working_directory_that_is_removed(self):
        source = ["--source", self.file("k.cu", SOURCE), "--name", "k.cu", "--", INCLUDE]
        outputs = []
        for name, expected in ("one", "built"), ("two", "hit-store"):
            place = os.path.dirname(self.file(name + "/x", ""))
            self.environment["PWD"] = place
            outputs.append(self.run_program(*source, cwd=place, expect=[expected]))
            shutil.rmtree(place)
        self.assertEqual(*outputs)

    def test_working_directory(self):
        """A hit is what NVRTC would make in this directory, wherever it was made."""
        self.environment.pop("PWD", None)
        one, two = (os.path.dirname(self.file(name + "/x", "")) for name in ("one", "a/longer/two"))
        text = 'extern "C" __global__ void k(float *x, const char **f) { *x = 1; *f = __FILE__; }'
        source = ["--source", self.file("k.cu", text), "--name", "k.cu", "--"]
        for options in ([], ["-rdc=true"], ["-lineinfo"], ["-G"], ["-G "], ["\t-lineinfo"],
                        ["-dlto"], ["-dlto", "-gen-opt-lto"], ["--dlink-time-opt"]):
            with self.subTest(options=options):
                arguments = [*source, "-arch=sm_90", *options]
                self.run_program(*arguments, cwd=one, expect=["built"])
                for place in (one, two):
                    self.environment["PWD"] = place
                    plain = self.run_program(*arguments, cwd=place, kiln=False)
                    self.assertEqual(self.run_program(*arguments, cwd=place), plain)
                del self.environment["PWD"]
        arguments = [*source, "-arch=compute_80", "--optix-ir"]
        for place in (one, two):
            plain = self.run_program(*arguments, cwd=place, kiln=False)
            self.assertEqual(self.run_program(*arguments, cwd=place), plain)


if __name__ == "__main__":
    if not LIBRARIES:
        print(f"skipped: no NVRTC in {FOLDER}")
        sys.exit(77)
    layer_case.main()
