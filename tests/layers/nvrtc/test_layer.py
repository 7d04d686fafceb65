# SPDX-License-Identifier: Apache-2.0
"""Tests the layer of NVRTC with a stand-in for libnvrtc, which runs on every machine and does
things that the real library does not."""

import json
import os
import resource
import shutil
import subprocess
import time
import unittest

import layer_case
from layer_case import ARGUMENTS

SOURCE = "__global__ void k(float *x) { *x = 1; }\n"


class StandIn(layer_case.LayerCase):
    library = ARGUMENTS.stand_in

    def source(self, text=SOURCE, name="k.cu"):
        return ["--source", self.file(name, text)]

    def compile_count(self):
        """Returns the number of compilations since the last call."""
        if "STAND_IN_COUNT" not in self.environment:
            reader, writer = os.pipe2(os.O_NONBLOCK)
            self.addCleanup(os.close, reader)
            self.addCleanup(os.close, writer)
            self.counted = reader
            self.environment["STAND_IN_COUNT"] = str(writer)
        try:
            return len(os.read(self.counted, 65536))
        except BlockingIOError:
            return 0


class Layer(StandIn):
    def test_cold_and_warm(self):
        self.compile_count()
        self.expect_hit_after(*self.source("WARN\n" + SOURCE), "--name", "k.cu",
                              "--expression", "k<int>", "--expression", "&c", "--", "-a", "-b")
        self.assertEqual(self.compile_count(), 2)  # without the layer, and with a cold cache

    def test_a_program_that_exports_kilns_names(self):
        self.expect_hit_after("--library", self.library, *self.source(SOURCE + "// long\n" * 10000),
                              program=ARGUMENTS.exporting)

    def test_a_second_library_in_its_own_namespace(self):
        arguments = [*self.source(), "--elsewhere", self.library]
        plain = self.run_program(*arguments, kiln=False)
        self.assertEqual(plain.count(b"compile: 0"), 4)
        for outcome in ("built", "hit-store"):
            self.assertEqual(self.run_program(*arguments), plain)
            self.assertEqual(self.last[0][0], outcome)

    def test_memory(self):
        plain = self.run_program(*self.source(), "--threads", "1", kiln=False)
        self.assertEqual(self.run_program(*self.source(), "--threads", "1"), plain)

    def test_a_trace_at_the_file_size_limit(self):
        """No signal ends the program, and its build succeeds."""
        plain = self.run_program(*self.source(), kiln=False)
        path = self.environment["KILN_TRACE"]

        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        result = subprocess.run(self.command(*self.source()), env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=limit_files)
        self.assertEqual((result.returncode, result.stdout), (0, plain))
        self.assertEqual(os.path.getsize(path), 0)

    def test_misuse(self):
        self.expect_hit_after(*self.source(), "--misuse", "--expression", "k<int>")

    def test_failures_are_not_kept(self):
        for text in ("ERROR", '#include "absent.h"'):
            plain = self.run_program(*self.source(text), kiln=False)
            self.assertIn(b"compile: 6", plain)
            for _ in range(2):
                self.assertEqual(self.run_program(*self.source(text), expect=["failed"]), plain)

    def test_compiled_twice(self):
        arguments = [*self.source(), "--twice"]
        plain = self.run_program(*arguments, kiln=False)
        self.assertEqual(self.run_program(*arguments, expect=["built"]), plain)
        self.assertEqual(
            self.run_program(*arguments, expect=["hit-store", "passed-through"]), plain)

    def test_callback_between(self):
        arguments = [*self.source(), "--twice", "--callback-between"]
        plain = self.run_program(*arguments, kiln=False)
        self.assertIn(b"calls: 1\n", plain)
        self.assertEqual(self.run_program(*arguments, expect=["built"]), plain)
        self.assertEqual(
            self.run_program(*arguments, expect=["hit-store", "passed-through"]), plain)

    def test_unknown_function(self):
        arguments = [*self.source(), "--unknown", "--expression", "k<int>"]
        plain = self.run_program(*arguments, kiln=False)
        self.assertIn(b"unknown: 0", plain)
        self.assertEqual(self.run_program(*arguments, expect=["built"]), plain)
        self.assertEqual(
            self.run_program(*arguments, expect=["hit-store", "passed-through"]), plain)

    def test_floating_point_mode(self):
        folds = self.source("DIVIDE 1 10\n")
        rounded = [*folds, "--round-to-zero"]
        plain = self.expect_hit_after(*folds)
        self.assertNotEqual(self.expect_hit_after(*rounded), plain)
        self.assertEqual(self.run_program(*folds, expect=["hit-store"]), plain)

    def test_the_drivers_cache(self):
        """The driver's cache may contain what a process compiled in a different mode."""
        program = self.source("DIVIDE 1 10\n")
        plain = self.run_program(*program, kiln=False)
        self.environment["STAND_IN_CACHE"] = "of another mode"
        self.assertNotEqual(self.run_program(*program, kiln=False), plain)
        self.assertEqual(self.run_program(*program, expect=["built"]), plain)
        del self.environment["STAND_IN_CACHE"]
        self.assertEqual(self.run_program(*program, expect=["hit-store"]), plain)

    def test_floating_point_modes_of_threads(self):
        threads = [*self.source("DIVIDE 1 10\n"), "--threads", "4", "--odd-round-to-zero"]
        plain = self.run_program(*threads, kiln=False)
        for _ in range(2):
            self.assertEqual(self.run_program(*threads), plain)

    def test_a_late_compilation_is_in_the_mode_of_its_call(self):
        arguments = [*self.source("DIVIDE 1 10\n"), "--round-to-zero", "--unknown"]
        plain = self.run_program(*arguments, kiln=False)
        self.assertEqual(self.run_program(*arguments, expect=["built"]), plain)
        self.assertEqual(
            self.run_program(*arguments, expect=["hit-store", "passed-through"]), plain)

    def run_with_other_functions(self, *arguments, **options):
        """Runs the program with different math functions, and returns its output."""
        self.environment["LD_PRELOAD"] = ARGUMENTS.other_math
        try:
            return self.run_program(*arguments, **options)
        finally:
            del self.environment["LD_PRELOAD"]

    def test_files_that_change_before_a_late_compilation(self):
        """The loaded program remains, and NVRTC does not compile the changed files instead."""
        self.file("a.h", "one")
        program = self.source('#include "a.h"\n')
        self.run_program(*program, expect=["built"])
        change = ["--meanwhile", "printf another >a.h"]
        for more, outcomes in ((["--unknown"], ["hit-store", "passed-through"]),
                               (["--twice"], ["hit-store", "passed-through"])):
            with self.subTest(more=more):
                self.file("a.h", "one")
                plain = self.run_program(*program, *change, *more, kiln=False)
                self.file("a.h", "one")
                got = self.run_program(*program, *change, *more, expect=outcomes)
                self.assertIn("files have changed", self.last[1][1])
                self.assertIn(b"unknown: 0" if more == ["--unknown"] else b"compile: 0", plain)
                # Under Kiln, NVRTC's own program has not been compiled. The unknown function
                # reports that, because no layer answers for it.
                self.assertEqual(
                    [line for line in got.splitlines() if line != b"unknown: 42 0"],
                    [line for line in plain.splitlines() if not line.startswith(b"unknown: 0")])

    def test_functions_with_different_results(self):
        """A result is used if this process's functions return the same values, and a result is kept
        for each version of the functions."""
        for text in "FOLD exp 0.7\n", "FOLD log 0.7\n", "FOLD pow 2 3\nFOLD exp 1\n":
            with self.subTest(text=text):
                arguments = self.source(text)
                plain = self.expect_hit_after(*arguments)
                other = self.run_with_other_functions(*arguments, kiln=False)
                self.assertNotEqual(other, plain)
                for expected in "built", "hit-store":
                    self.assertEqual(self.run_with_other_functions(*arguments, expect=[expected]), other)
                    self.assertEqual(self.run_program(*arguments, expect=["hit-store"]), plain)

    def test_functions_with_equal_results(self):
        """Different functions that return the same values do not matter."""
        for text in "FOLD expf 0.7\n", "FOLD pow 2.1 0.3\n", "FOLD pow 0 -1\n":
            with self.subTest(text=text):
                arguments = self.source(text)
                plain = self.expect_hit_after(*arguments)
                self.assertEqual(self.run_with_other_functions(*arguments, expect=["hit-store"]), plain)

    def test_errno_and_exceptions_of_functions(self):
        """errno and exceptions are as without the layer."""
        self.expect_hit_after(*self.source("FOLD log 0\nFOLD log -1\nFOLD exp 1000\n"
                                           "FOLD exp -1000\nFOLD expf 100\nFOLD pow -1 0.5\n"))

    def test_a_program_with_a_stub_for_a_function_that_folds(self):
        folds = self.source("FOLD exp 0.7\n")
        fixed = ["--library", self.library, *folds]
        plain = self.expect_hit_after(*fixed, program=ARGUMENTS.fixed)
        other = self.run_with_other_functions(*fixed, program=ARGUMENTS.fixed, expect=["built"])
        self.assertNotEqual(other, plain)
        self.assertEqual(self.run_program(*folds, expect=["hit-store"]), plain)

    def test_too_many_folds(self):
        self.expect_hit_after(*self.source("FOLD_MANY 4096\n"))
        arguments = self.source("FOLD_MANY 4097\n")
        plain = self.run_program(*arguments, kiln=False)
        for _ in range(2):
            self.assertEqual(
                self.run_program(*arguments, expect=["passed-through", "built"]), plain)
            self.assertIn("too many constants are folded", self.last[0][1])

    def test_unknown_function_before(self):
        self.expect_pass(*self.source(), "--unknown-before", why="unknown function of NVRTC")

    def test_disabled(self):
        self.environment["KILN_DISABLE"] = "1"
        self.run_program(*self.source(), expect=[])
        self.assertFalse(os.path.exists(self.cache))

    def test_read_only(self):
        self.run_program(*self.source(), expect=["built"])
        self.environment["KILN_READONLY"] = "1"
        self.run_program(*self.source(), expect=["hit-store"])
        self.run_program(*self.source("other"), expect=["built"])
        self.run_program(*self.source("other"), expect=["built"])

    def test_without_the_layer_beside_the_audit_library(self):
        folder = os.path.dirname(self.file("alone/x", ""))
        audit = os.path.join(os.path.dirname(ARGUMENTS.kiln), "../../layers/nvrtc",
                             "libkiln_nvrtc_audit.so")
        with open(audit, "rb") as file:
            library = file.read()
        path = os.path.join(folder, "libkiln_nvrtc_audit.so")
        with open(path, "wb") as file:
            file.write(library)
        self.environment["LD_AUDIT"] = path
        plain = self.run_program(*self.source(), kiln=False, expect=[])
        del self.environment["LD_AUDIT"]
        self.assertEqual(self.run_program(*self.source(), kiln=False), plain)

    def test_forked_child(self):
        arguments = [*self.source(), "--fork"]
        plain = self.run_program(*arguments, kiln=False)
        self.assertEqual(self.run_program(*arguments), plain)
        self.assertIn(("passed-through", "nvrtcCompileProgram: the process is a forked child"), self.last)

    def test_a_library_that_cannot_be_watched(self):
        self.library = ARGUMENTS.stand_in_nvvm
        plain = self.run_program(*self.source(), kiln=False)
        for _ in range(2):
            self.assertEqual(self.run_program(*self.source(), expect=[]), plain)
            self.assertIn("cannot be watched", self.notes[0])

    def test_an_earlier_library(self):
        """The earlier library had a function that this library does not have, and several unknown
        ones."""
        for times in "1", "40":
            shutil.rmtree(self.cache, ignore_errors=True)
            arguments = [*self.source(), "--before", ARGUMENTS.stand_in_nvvm, times, "--unknown"]
            plain = self.run_program(*arguments, kiln=False)
            self.assertEqual(self.run_program(*arguments, expect=["built"]), plain)
            self.assertEqual(
                self.run_program(*arguments, expect=["hit-store", "passed-through"]), plain)

    def test_compilation_when_the_process_ends(self):
        for when in "--late", "--late-too":
            arguments = [*self.source(), "--expression", "k<int>", when, ARGUMENTS.late]
            plain = self.run_program(*arguments, kiln=False)
            for _ in range(2):
                self.assertEqual(self.run_program(*arguments), plain)

    def test_device_ops(self):
        """Under the layer, a program with NVRTC's device ops captures nothing itself: the layer
        watches NVRTC already."""
        kept = 0, b"built and found\n", b""
        unkept = 3, b"built, and not kept: this NVRTC can't be watched\n", b""
        for kiln, expected in (False, kept), (True, unkept):
            result = subprocess.run(
                self.command(ARGUMENTS.stand_in, "code", program=ARGUMENTS.ops, kiln=kiln),
                env=self.environment, cwd=self.scratch, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
            self.assertEqual((result.returncode, result.stdout, result.stderr), expected)

    def test_damaged_entry(self):
        plain = self.expect_hit_after(*self.source())
        paths = [os.path.join(folder, name)
                 for folder, _, names in os.walk(os.path.join(self.cache, "v1"))
                 for name in names if len(name) == 32]
        self.assertEqual(len(paths), 1)
        with open(paths[0], "r+b") as file:
            file.seek(-20, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        self.assertEqual(self.run_program(*self.source(), expect=["built"]), plain)
        self.assertEqual(self.run_program(*self.source(), expect=["hit-store"]), plain)


class Inputs(StandIn):
    def test_each_input_counts(self):
        header = self.file("h", "one")
        first = [*self.source(), "--name", "k.cu", "--header", "h.h", header, "--expression", "a",
                 "--expression", "b", "--", "-x", "-y"]
        self.run_program(*first, expect=["built"])
        self.run_program(*first, expect=["hit-store"])
        other = self.file("other", "two")
        variants = [
            [*self.source("changed", "other.cu"), *first[2:]],
            [*first[:3], "l.cu", *first[4:]],
            [*first[:5], "i.h", *first[6:]],
            [*first[:6], other, *first[7:]],
            [*first[:8], "A", *first[9:]],
            [*first[:7], "--expression", "b", "--expression", "a", *first[11:]],
            [*first[:7], *first[9:]],
            [*first, "-z"],
            [*first[:-2], "-y", "-x"],
            [*first[:-2], "-x-y"],
        ]
        for variant in variants:
            self.run_program(*variant, expect=["built"])
        for variant in [first, *variants]:
            self.run_program(*variant, expect=["hit-store"])

    def test_no_name_differs_from_an_empty_one(self):
        self.run_program(*self.source(), expect=["built"])
        self.run_program(*self.source(), "--name", "", expect=["built"])

    def test_variables(self):
        self.run_program(*self.source(), expect=["built"])
        self.environment["NVRTC_SOMETHING"] = "1"
        self.run_program(*self.source(), expect=["built"])
        self.environment["UNRELATED"] = "1"
        self.run_program(*self.source(), expect=["hit-store"])
        self.environment["KILN_KEY_ENV"] = "UNREL*"
        self.run_program(*self.source(), expect=["built"])

    def test_working_directory_if_it_may_be_in_the_result(self):
        elsewhere = os.path.dirname(self.file("elsewhere/x", ""))
        self.environment.pop("PWD", None)
        for options, outcome in (([], "hit-store"), (["--", "-G"], "built"),
                                 (["--", "--generate-line-info"], "built"),
                                 (["--", "-G\t"], "built"), (["--", " \n-lineinfo"], "built"),
                                 (["--", "-dlto"], "built"), (["--", "-optix-ir"], "built")):
            self.run_program(*self.source(), *options, expect=["built"])
            self.run_program(*self.source(), *options, expect=[outcome], cwd=elsewhere)
            self.environment["PWD"] = elsewhere
            self.run_program(*self.source(), *options, expect=[outcome], cwd=elsewhere)
            del self.environment["PWD"]

    def test_the_working_directory_may_be_removed(self):
        one, two = (os.path.dirname(self.file(name + "/x", "")) for name in ("one", "two"))
        self.environment["PWD"] = one
        self.run_program(*self.source(), cwd=one, expect=["built"])
        shutil.rmtree(one)
        self.environment["PWD"] = two
        self.run_program(*self.source(), cwd=two, expect=["hit-store"])

    def test_clock_words(self):
        for text in ("__TIME__", "x __DATE__", "/* __TIMESTAMP__ */", "__TI\\\nME__",
                     "#define M(a) __ ## a\nM(TIME__)", "#define M __T %:%: IME__",
                     "#define M(a, b, c, d) __##a##b##c##d##__\nM(D, A, T, E)"):
            self.expect_pass(*self.source(text), why="__DATE__")
        self.expect_pass(*self.source(), "--", "-DX=__TIME__", why="__DATE__")
        header = self.file("h", "__TIME__")
        self.expect_pass(*self.source(), "--header", "h.h", header, why="__DATE__")
        self.file("clock.h", "__TIME__")
        self.expect_pass(*self.source('#include "clock.h"'), why="__DATE__")
        self.expect_hit_after(*self.source("__TIME, TIME__ and TIMESTAMP"))

    def test_options_that_pass_through(self):
        for option in ("--time=-", "-time=x", "--fdevice-time-trace=x", "--create-pch=x",
                       "--use-pch=x", "--pch-dir=x", "\f--time=-"):
            self.expect_pass(*self.source(), "--", option, why=option)
        self.environment["NVRTC_APPEND_FLAGS"] = "-x"
        self.expect_pass(*self.source(), why="NVRTC_APPEND_FLAGS")

    def test_compilations_that_are_not_kept(self):
        for text, why in (("OPEN_TO_WRITE", "written"), ("READ_A_DEVICE", "neither a file nor"),
                          ("RUN_A_PROCESS", "process"), ("LEAVE_THE_FOLDER", "working directory")):
            self.expect_pass(*self.source(text), why=why)


class Includes(StandIn):
    def test_content(self):
        include = self.file("a.h", "one")
        arguments = self.source('#include "a.h"')
        one = self.expect_hit_after(*arguments)
        self.file("a.h", "two")
        two = self.run_program(*arguments, expect=["built"])
        self.assertNotEqual(one, two)
        self.assertIn("was made from a different a.h", self.notes[0])
        # The entry keeps both results.
        self.assertEqual(self.run_program(*arguments, expect=["hit-store"]), two)
        self.file("a.h", "one")
        self.assertEqual(self.run_program(*arguments, expect=["hit-store"]), one)
        os.remove(include)
        self.assertIn(b"compile: 6", self.run_program(*arguments, expect=["failed"]))

    def test_old_results_are_dropped(self):
        arguments = self.source('#include "a.h"')
        for i in range(6):
            self.file("a.h", str(i))
            self.run_program(*arguments, expect=["built"])
        for i, outcome in ((5, "hit-store"), (2, "hit-store"), (1, "built")):
            self.file("a.h", str(i))
            self.run_program(*arguments, expect=[outcome])

    def test_a_file_earlier_in_the_search_order(self):
        self.file("second/a.h", "second")
        os.mkdir(os.path.join(self.scratch, "first"))
        arguments = [*self.source('#include "a.h"'), "--", "-Ifirst", "-Isecond"]
        plain = self.expect_hit_after(*arguments)
        self.file("first/a.h", "first")
        self.assertNotEqual(self.run_program(*arguments, expect=["built"]), plain)

    def test_a_link_with_a_new_target(self):
        self.file("one.h", "one")
        self.file("two.h", "two")
        link = os.path.join(self.scratch, "a.h")
        os.symlink("one.h", link)
        arguments = self.source('#include "a.h"')
        plain = self.expect_hit_after(*arguments)
        os.remove(link)
        os.symlink("two.h", link)
        self.assertNotEqual(self.run_program(*arguments, expect=["built"]), plain)

    def test_two_names_of_the_same_file(self):
        self.file("a.h", "same")
        path = os.path.join(self.scratch, "b.h")
        os.link(os.path.join(self.scratch, "a.h"), path)
        arguments = self.source('#include "a.h"\n#include "b.h"')
        self.expect_hit_after(*arguments)
        os.remove(path)
        self.file("b.h", "same")
        self.run_program(*arguments, expect=["built"])

    def test_relative_paths_are_relative_to_the_working_directory(self):
        arguments = self.source('#include "a.h"')
        self.file("a.h", "here")
        here = self.expect_hit_after(*arguments)
        there = os.path.dirname(self.file("there/a.h", "there"))
        self.assertNotEqual(self.run_program(*arguments, cwd=there, expect=["built"]), here)

    def test_a_file_that_changes_during_the_compilation(self):
        path = self.file("a.h", "x")
        descriptor = os.open(path, os.O_WRONLY)
        self.addCleanup(os.close, descriptor)
        self.environment["STAND_IN_CHANGES"] = str(descriptor)
        arguments = self.source('#include "a.h"')
        built = self.run_program(*arguments, expect=["built"])
        del self.environment["STAND_IN_CHANGES"]
        # The result belongs to what the compiler read, and not to what the file contains now.
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "y")
        changed = self.run_program(*arguments, expect=["built"])
        self.assertEqual(changed, self.run_program(*arguments, kiln=False))
        self.assertNotEqual(changed, built)
        self.file("a.h", "x")
        self.assertEqual(self.run_program(*arguments, expect=["hit-store"]), built)
        self.assertEqual(self.run_program(*arguments, kiln=False), built)


class Folders(StandIn):
    """Programs that put each source into a separate folder."""

    def in_folder(self, name, text, *more):
        path = self.file(os.path.join(name, "k.cu"), text)
        return ["--source", path, "--name", path, *more]

    def test_the_folder_usually_does_not_count(self):
        plain = self.run_program(*self.in_folder("one", "WARN"), kiln=False)
        self.assertEqual(self.run_program(*self.in_folder("one", "WARN"), expect=["built"]), plain)
        other = self.in_folder("a/longer/one", "WARN")
        plain = self.run_program(*other, kiln=False)
        self.assertIn(b"longer", plain)
        self.assertEqual(self.run_program(*other, expect=["hit-store"]), plain)

    def test_the_folder_counts_if_a_text_can_obtain_it(self):
        for number, word in enumerate(("__FILE__", "__BASE_FILE__", "std::source_location")):
            for outcome in ("built", "hit-store"):
                self.run_program(*self.in_folder(f"one{number}", word), expect=[outcome])
            self.run_program(*self.in_folder(f"two{number}", word), expect=["built"])
            # Each program gets a separate entry.
            self.run_program(*self.in_folder(f"one{number}", word), expect=["hit-store"])

    def test_the_folder_counts_if_the_code_contains_it(self):
        folder = os.path.join(self.scratch, "one")
        numbers = ", ".join(str(c) for c in os.path.join(folder, "k.cu").encode())
        self.file("code.h", ".b8 s[] = {" + numbers + "};")
        text = f'#include "code.h"'
        self.run_program(*self.in_folder("one", text), expect=["built"])
        self.run_program(*self.in_folder("one", text), expect=["hit-store"])
        self.run_program(*self.in_folder("two", text), expect=["built"])

    def test_the_folder_counts_if_options_name_it(self):
        one = os.path.join(self.scratch, "one")
        self.run_program(*self.in_folder("one", SOURCE), "--", "-I" + one, expect=["built"])
        self.run_program(*self.in_folder("one", SOURCE), "--", "-I" + one, expect=["hit-store"])
        self.run_program(*self.in_folder("two", SOURCE), "--", "-I" + one, expect=["built"])

    def test_the_folder_counts_if_an_include_names_it(self):
        """The include names the folder, so it reads from that folder wherever the program is."""
        self.file("one/a.h", "same")
        self.file("two/a.h", "same")
        more = ["--", "-I" + self.scratch]
        text = '#include "one/a.h"'
        self.run_program(*self.in_folder("one", text), *more, cwd="/", expect=["built"])
        self.file("one/a.h", "changed")
        two = [*self.in_folder("two", text), *more]
        plain = self.run_program(*two, cwd="/", kiln=False)
        self.assertEqual(self.run_program(*two, cwd="/", expect=["built"]), plain)

    def test_the_file_name_counts(self):
        self.run_program(*self.in_folder("one", SOURCE), expect=["built"])
        path = self.file("two/l.cu", SOURCE)
        self.run_program("--source", path, "--name", path, expect=["built"])


class Concurrency(StandIn):
    def test_processes(self):
        self.compile_count()
        command = self.command(*self.source("SLEEP\n" + SOURCE))
        processes = [
            subprocess.Popen(command, env=self.environment, cwd=self.scratch,
                             stdout=subprocess.PIPE, pass_fds=self.descriptors())
            for _ in range(8)]
        outputs = {process.communicate(timeout=60)[0] for process in processes}
        self.assertEqual([process.returncode for process in processes], [0] * 8)
        self.assertEqual(len(outputs), 1)
        self.assertEqual(self.compile_count(), 1)

    def test_threads(self):
        arguments = [*self.source('#include "a.h"\nSLEEP\n' + SOURCE), "--threads", "16"]
        self.file("a.h", "header")
        self.compile_count()
        plain = self.run_program(*arguments, kiln=False)
        self.assertEqual(self.compile_count(), 16)
        self.assertEqual(self.run_program(*arguments), plain)
        self.assertEqual(self.compile_count(), 8)  # two threads compile the same program
        self.assertEqual(self.run_program(*arguments), plain)
        self.assertEqual(self.compile_count(), 0)

    def test_while_a_library_is_opened(self):
        """The layer holds no lock while a thread waits for the loader."""
        arguments = [*self.source(), "--eager", ARGUMENTS.eager]
        plain = self.run_program(*arguments, kiln=False)
        for _ in range(2):
            self.assertEqual(self.run_program(*arguments), plain)

    def test_killed_builder(self):
        command = self.command(*self.source("SLEEP\n" + SOURCE))
        process = subprocess.Popen(command, env=self.environment, cwd=self.scratch,
                                   stdout=subprocess.DEVNULL)
        time.sleep(0.1)
        process.kill()
        process.wait()
        self.expect_hit_after(*self.source("SLEEP\n" + SOURCE))


class Tool(StandIn):
    """The output of kiln show and kiln why about the files that results were made from."""

    def tool(self, *arguments, cwd=None):
        result = subprocess.run([ARGUMENTS.kiln, *arguments], env=self.environment,
                                cwd=cwd or self.scratch, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def json(self, *arguments, **options):
        return json.loads(self.tool(*arguments, "--json", **options))

    def build(self, *arguments, **options):
        self.run_program(*arguments, expect=["built"], **options)
        return self.last[0][1]

    def with_header(self):
        """Makes an entry from a.h of an include folder; returns its digest, arguments and
        header."""
        header = self.file("include/a.h", "one")
        arguments = [*self.source('#include "a.h"'), "--", "-I" + os.path.dirname(header)]
        return self.build(*arguments), arguments, header

    def test_show(self):
        digest, arguments, header = self.with_header()
        here = {"path": "a.h", "beside_program": False, "found": "nothing", "found_now": "nothing",
                "size": None, "same": True}
        there = {"path": header, "beside_program": False, "found": "file", "found_now": "file",
                 "size": 3, "same": True}
        self.assertEqual(self.json("show", digest)["results"],
                         [{"same": True, "reads": [here, there]}])
        self.file("include/a.h", "three")
        self.build(*arguments)
        results = self.json("show", digest)["results"]
        self.assertEqual([result["same"] for result in results], [True, False])
        self.assertEqual(results[0]["reads"], [here, {**there, "size": 5}])
        self.assertEqual(results[1]["reads"], [here, {**there, "same": False}])
        text = self.tool("show", digest)
        self.assertIn("\nresult 1 of 2: 1 file read, 1 path not found; all files are unchanged\n",
                      text)
        self.assertIn(f"; {header} has changed\n", text)
        self.assertRegex(text, rf"(?m)^{header} +5 B +same$")
        self.assertRegex(text, rf"(?m)^{header} +3 B +changed$")

    def test_show_lists_what_differs_first(self):
        names = [f"h{i}.h" for i in range(40)]
        for name in names:
            self.file(name, name)
        digest = self.build(*self.source("".join(f'#include "{name}"\n' for name in names)))
        self.file(names[-1], "another")
        text = self.tool("show", digest)
        self.assertRegex(text, rf"NOW\n{names[-1]} +5 B +changed\n{names[0]} ")
        self.assertIn("\n30 more are listed with --json\n", text)
        self.assertIn(f"\nrelative paths were looked up from {self.scratch}\n", text)
        self.assertEqual(len(self.json("show", digest)["results"][0]["reads"]), 40)

    def test_a_result_for_one_folder_only(self):
        path = self.file("one/k.cu", "__FILE__")
        folder = os.path.dirname(path) + "/"
        digest = self.build("--source", path, "--name", path)
        self.assertEqual(self.json("show", digest)["results"], [{"same": None, "reads": [
            {"path": folder, "beside_program": False, "found": "program_folder",
             "found_now": None, "size": None, "same": None}]}])
        for command in "show", "why":
            self.assertIn(f"only for a program in {folder}\n", self.tool(command, digest))

    def test_why_before_a_rebuild(self):
        self.build(*self.source("other", "other.cu"))
        digest, _, header = self.with_header()
        self.assertNotIn("has changed", self.tool("why", digest))
        self.file("include/a.h", "two")
        text = self.tool("why", digest)
        self.assertLess(text.index(f"\nresult 1 of 1: {header} has changed\n"),
                        text.index("differs in"))
        self.assertEqual(
            self.json("why", digest)["results"],
            [{"same": False, "reads": [{"path": header, "beside_program": False, "found": "file",
                                        "found_now": "file", "size": 3, "same": False}]}])

    def test_why_after_a_rebuild(self):
        self.build(*self.source("other", "other.cu"))
        digest, arguments, header = self.with_header()
        self.assertEqual(self.json("why", "--last")["cause"], "first_build")
        self.assertIn("\nThis was the first build with these inputs", self.tool("why", "--last"))
        self.file("include/a.h", "two")
        self.build(*arguments)
        for which in digest, "--last":
            self.assertEqual(self.json("why", which)["cause"], "files")
            text = self.tool("why", which)
            self.assertIn("\nAn entry with this key was there, but was made from different files.\n"
                          "result 1 of 2: all files are unchanged\n"
                          f"result 2 of 2: {header} has changed\n", text)
            self.assertNotIn("differs in", text)

    def test_why_of_a_trace(self):
        first = self.build(*self.source("other", "other.cu"))
        digest, arguments, header = self.with_header()
        trace = self.file("noted", f"kiln[1] note: key={digest} was made from a different /x/a.h\n"
                          f"kiln[1] built key={digest} load=0ms store=KILN_MISS\n")
        text = self.tool("why", "--last", "--trace", trace)
        self.assertIn("\nwhen the build was requested, /x/a.h had changed\n", text)
        self.assertNotIn("differs in", text)
        self.assertEqual(self.json("why", "--last", "--trace", trace)["made_from_another"], "/x/a.h")
        # Notes about other keys, or before earlier outcomes, do not belong to this miss.
        for note in (f"kiln[1] note: key={first} was made from a different /x/a.h\n",
                     f"kiln[1] note: key={digest} was made from a different /x/a.h\n"
                     f"kiln[1] hit-store key={digest} load=0ms\n",
                     f"kiln[1] note: key={digest} was made from a different /x/a.h\n"
                     f"kiln[1] built key={digest} load=0ms store=KILN_MISS\n"):
            trace = self.file("noted", note + f"kiln[1] built key={digest} load=0ms store=KILN_MISS\n")
            text = self.tool("why", "--last", "--trace", trace)
            self.assertNotIn("had changed", text)
            self.assertIn("differs in", text)


if __name__ == "__main__":
    layer_case.main()
