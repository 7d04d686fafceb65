# SPDX-License-Identifier: Apache-2.0
"""Tests the layer with the real nvJitLink of a CUDA toolkit, or of a wheel. Needs no GPU."""

import argparse
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from links import damage

LINKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "links.py")

PTX, CUBIN = 2, 1

KERNEL = """.version 7.8
.target sm_52
.address_size 64
.extern .func (.param .b32 r) g (.param .b32 x);
.visible .entry k(.param .u64 p)
{
  .reg .f32 %f<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1; ld.global.f32 %f1, [%rd2];
  { .param .b32 a; .param .b32 b; st.param.f32 [a], %f1; call.uni (b), g, (a);
    ld.param.f32 %f2, [b]; }
  st.global.f32 [%rd2], %f2;
  ret;
}
"""
FUNCTION = """.version 7.8
.target sm_52
.address_size 64
.visible .func (.param .b32 r) g(.param .b32 x)
{
  .reg .f32 %f<3>;
  ld.param.f32 %f1, [x]; mul.f32 %f2, %f1, 0f{number}; st.param.f32 [r], %f2;
  ret;
}
"""


def find_library(arguments):
    places = (os.path.join(arguments.cuda, "lib64/libnvJitLink.so.[0-9]*"),
              os.path.join(arguments.build, "runtimes/nvrtc/lib/python3.*/site-packages/nvidia",
                           "nvjitlink/lib/libnvJitLink.so.[0-9]*"))
    return next((path for place in places for path in sorted(glob.glob(place))), None)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--damages", type=int, default=5)
    arguments, rest = parser.parse_known_args()
    arguments.kiln = os.path.abspath(arguments.kiln)
    return arguments, rest


ARGUMENTS, REST = parse_arguments()
LIBRARY = find_library(ARGUMENTS)
DAMAGES = ARGUMENTS.damages
OUTCOME = re.compile(r"^kiln\[\d+\] (\S+?)(?: key=(\w+)| (.*))", re.MULTILINE)


class Scene(unittest.TestCase):
    library = LIBRARY

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-links-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("KILN_", "NVJITLINK_", "XDG_", "LD_"))
        }
        self.environment.update(KILN_DIR=self.cache, KILN_TRACE=os.path.join(self.scratch, "trace"))
        self.kernel = f"{PTX}:" + self.file("kernel.ptx", KERNEL)
        self.function = f"{PTX}:" + self.file("function.ptx", self.function_text())
        self.both = f"-arch=sm_90 {self.kernel} {self.function}"

    @staticmethod
    def function_text(number="40000000"):
        return FUNCTION.replace("{number}", number)

    def file(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def command(self, *arguments, kiln=True):
        return [*([ARGUMENTS.kiln, "run", "--"] if kiln else []), sys.executable, "-B", LINKS,
                self.library, *arguments]

    def trace(self):
        path = self.environment["KILN_TRACE"]
        text = ""
        if os.path.exists(path):
            with open(path) as file:
                text = file.read()
            os.remove(path)
        self.about = OUTCOME.findall(text)
        return [outcome for outcome, *_ in self.about]

    def run_links(self, *arguments, expect=None, kiln=True):
        self.trace()
        result = subprocess.run(self.command(*arguments, kiln=kiln), env=self.environment,
                                cwd=self.scratch, capture_output=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        outcomes = self.trace()
        if expect is not None:
            self.assertEqual(outcomes, expect, self.about)
        return result.stdout

    def expect_hit_after(self, *arguments, count=1):
        plain = self.run_links(*arguments, kiln=False, expect=[])
        self.assertEqual(self.run_links(*arguments, expect=["built"] * count), plain)
        self.assertEqual(self.run_links(*arguments, expect=["hit-store"] * count), plain)
        return plain

    def releases(self):
        names = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True)
        return ["", *sorted(set(re.findall(r"__nvJitLinkCreate_(\w+)", names.stdout)))]


@unittest.skipUnless(LIBRARY, "there is no nvJitLink")
class Links(Scene):
    def expect_pass(self, *arguments, why):
        plain = self.run_links(*arguments, kiln=False)
        for _ in range(2):
            self.assertEqual(self.run_links(*arguments), plain)
            self.assertTrue(any(why in text for _, _, text in self.about), self.about)
            self.assertNotIn("hit-store", [outcome for outcome, *_ in self.about])

    # ---- what is kept ----

    def test_inputs(self):
        """What differs in its options, inputs, their order or their names is a different link."""
        shutil.copy(os.path.join(self.scratch, "function.ptx"),
                    os.path.join(self.scratch, "renamed.ptx"))
        plain = self.expect_hit_after(
            self.both, f"-arch=sm_90 -O0 {self.kernel} {self.function}",
            f"-arch=sm_80 {self.kernel} {self.function}",
            f"-arch=sm_90 {self.function} {self.kernel}", f"-arch=sm_90 {self.function}",
            f"-arch=sm_90 {PTX}:{self.scratch}/renamed.ptx", count=6)
        self.assertEqual(plain.count(b"complete 0"), 6)

    def test_changed_input(self):
        first = self.expect_hit_after(self.both)
        self.file("function.ptx", self.function_text("40400000"))
        self.assertNotEqual(self.expect_hit_after(self.both), first)

    def test_two_links(self):
        """The second link has the first input in common with the first one."""
        self.run_links(self.both, self.both, expect=["built", "hit-store"])
        other = f"{PTX}:" + self.file("other.ptx", self.function_text("40400000"))
        self.expect_hit_after(f"-arch=sm_90 {self.kernel} {other}")

    def test_releases(self):
        """Programs call functions with plain names, or with the names of their release."""
        releases = self.releases()
        self.assertGreater(len(releases), 1)
        links = [word for release in releases for word in (f"RELEASE={release}", self.both)]
        self.expect_hit_after(*links, count=len(releases))

    def test_files(self):
        """nvJitLink reads the file itself."""
        arguments = [f"-arch=sm_90 {self.kernel} @{self.function}"]
        first = self.expect_hit_after(*arguments)
        self.file("function.ptx", self.function_text("40400000"))
        second = self.run_links(*arguments)
        self.assertNotIn("hit-store", [outcome for outcome, *_ in self.about])
        self.assertEqual(second, self.run_links(*arguments, kiln=False))
        self.assertNotEqual(second, first)
        self.assertEqual(self.run_links(*arguments, expect=["hit-store"]), second)

    # ---- what is not kept ----

    def test_files_that_change_before_the_link_is_complete(self):
        """nvJitLink reads a file when it is added. The store has a link of the first input."""
        path = f"{self.scratch}/kernel.ptx"
        other = self.file("other.ptx", self.function_text("40400000"))
        begin = f"-arch=sm_90 @{self.kernel}"
        self.run_links(f"{begin} {self.function}", expect=["built"])
        for rest in (f"move={path}={path}.old {PTX}:{other}", f"move={other}={path} {self.function}",
                     f"move={other}={path} @{self.kernel}"):
            outputs = []
            for kiln in (False, True):
                self.file("kernel.ptx", KERNEL)
                self.file("other.ptx", self.function_text("40400000"))
                outputs.append(self.run_links(f"{begin} {rest}", kiln=kiln))
            self.assertEqual(*outputs)

    def test_failures(self):
        bad = f"{PTX}:" + self.file("bad.ptx", "this is no PTX")
        links = [f"-arch=sm_90 {bad}", f"-arch=sm_90 {self.kernel}", "-arch=sm_90",
                 f"-arch=sm_90 {CUBIN}{self.function[1:]}", f"-arch=sm_9999 {self.function}",
                 self.function, f"-arch=sm_90 {self.kernel} {bad} {self.function}",
                 f"-arch=sm_90 @{PTX}:/nonexistent {self.function}",
                 f"-arch=sm_90 {self.kernel} none", f"-no-such-option {self.function}"]
        plain = self.run_links(*links, kiln=False)
        for _ in range(2):
            self.assertEqual(self.run_links(*links), plain)
            self.assertNotIn("hit-store", [outcome for outcome, *_ in self.about])

    def test_after_a_failure(self):
        """A link that failed might affect later ones."""
        self.expect_pass(f"-arch=sm_90 {self.kernel}", self.both, why="failed")
        self.run_links(self.both, expect=["built"])

    def test_after_a_failure_of_a_link_that_passes_through(self):
        bad = f"{PTX}:" + self.file("bad.ptx", "this is no PTX")
        for link in (f"-arch=sm_90 -verbose {bad}", f"-arch=sm_90 -verbose {self.kernel}"):
            self.run_links(link, self.both, expect=["passed-through"] * 2)
            self.assertIn("failed", self.about[1][2])
        self.run_links(f"-arch=sm_90 -verbose {self.function}", self.both,
                       expect=["passed-through", "built"])

    def test_verbose(self):
        self.expect_pass(f"-arch=sm_90 -verbose {self.function} none", why="-verbose")

    def test_unknown_option(self):
        """An option of -Xnvvm might affect later links."""
        link = f"-arch=sm_90 -Xnvvm=-opt=0 {self.function}"
        self.expect_pass(link, why="may not have forgotten")
        self.expect_pass(link, f"-arch=sm_90 {self.function}", why="may not have forgotten")
        self.run_links(f"-arch=sm_90 {self.function}", expect=["built"])

    def test_calls_in_an_unusual_order(self):
        links = [f"{self.both} {words}" for words in ("early", "again", "other")]
        arguments = ["RELEASE=" + self.releases()[-1], *links]
        plain = self.run_links(*arguments, kiln=False)
        self.run_links("RELEASE=" + self.releases()[-1], self.both, expect=["built"])
        for _ in range(2):
            self.assertEqual(self.run_links(*arguments), plain)
            self.assertIn("hit-store", [outcome for outcome, *_ in self.about])

    def test_a_late_link(self):
        """nvJitLink links late if the program completes a link twice."""
        self.run_links(self.both, expect=["built"])
        link = f"{self.both} again"
        plain = self.run_links(link, kiln=False)
        self.assertEqual(self.run_links(link, expect=["hit-store", "passed-through"]), plain)

    # ---- several processes, and damage ----

    @unittest.skipIf(DAMAGES < 200, "takes two minutes")
    def test_waits_that_are_in_vain_become_shorter(self):
        """A process that holds a link, such as a rank of MPI at a barrier, delays others less and
        less."""
        go = os.path.join(self.scratch, "go")
        links = [f"-arch=sm_{number} {self.function}" for number in (80, 86, 90)]
        holders = [subprocess.Popen(self.command(f"{link} hold={go}{number}"),
                                    env=self.environment, stdout=subprocess.PIPE)
                   for number, link in enumerate(links)]
        while not all(os.path.exists(f"{go}{number}.held") for number in range(len(links))):
            time.sleep(0.01)
        subprocess.run(self.command(*links), env=self.environment, stdout=subprocess.DEVNULL,
                       timeout=250, check=True)
        with open(self.environment["KILN_TRACE"]) as file:
            first, second, third = map(float, re.findall(r" wait=([0-9.]+)ms", file.read()))
        self.assertGreater(first, 1.5 * second)
        self.assertGreater(second, 1.5 * third)
        self.assertGreater(third, 0)
        for number, holder in enumerate(holders):
            self.file(f"go{number}", "")
            holder.communicate(timeout=60)

    def test_one_link_for_eight_processes(self):
        big = f"{PTX}:" + self.file("big.ptx", self.function_text() + "".join(
            FUNCTION[FUNCTION.index(".visible"):].replace(" g(", f" g{i}(").replace(
                "{number}", "%08x" % (0x40000000 + i)) for i in range(1000)))
        links = [f"-arch=sm_90 {self.kernel} {big}"]
        go = os.path.join(self.scratch, "go")
        plain = self.run_links(*links, kiln=False)
        started = [subprocess.Popen(self.command(f"wait={go}", *links), env=self.environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for _ in range(8)]
        self.file("go", "")
        for process in started:
            out, err = process.communicate(timeout=120)
            self.assertEqual((process.returncode, out), (0, plain), err)
        self.assertEqual(sorted(self.trace()), ["built"] + ["hit-store"] * 7)

    def test_a_process_that_has_linked_waits(self):
        """A process that has made a link waits for other processes as one that has not."""
        go = os.path.join(self.scratch, "go")
        first, second = f"-arch=sm_90 {self.function}", f"-arch=sm_80 {self.function}"
        self.trace()
        holder = subprocess.Popen(self.command(f"{second} hold={go}"), env=self.environment,
                                  stdout=subprocess.PIPE)
        while not os.path.exists(go + ".held"):
            self.assertIsNone(holder.poll())
            time.sleep(0.01)
        other = subprocess.Popen(self.command(first, second), env=self.environment,
                                 stdout=subprocess.PIPE)
        with self.assertRaises(subprocess.TimeoutExpired):
            other.wait(timeout=3)
        self.file("go", "")
        for process in (holder, other):
            process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0)
        self.assertEqual(sorted(self.trace()), ["built", "built", "hit-store"])

    def test_damage(self):
        """Damaged entries are never used, and are replaced."""
        plain = self.run_links(self.both, self.both, kiln=False)
        self.run_links(self.both, self.both)
        source = random.Random(1)
        for _ in range(DAMAGES):
            damage(self.cache, source)
            self.assertEqual(self.run_links(self.both, self.both), plain)
        self.run_links(self.both)
        self.run_links(self.both, self.both, expect=["hit-store"] * 2)

    def test_damage_in_one_process(self):
        link = f"-arch=sm_90 {self.function}"
        plain = self.run_links(link, kiln=False)
        damaged = self.run_links(link, *[f"damage={self.cache}", link] * 200,
                                 expect=["built"] * 201)
        self.assertEqual(damaged, plain * 201)
        self.run_links(link, expect=["hit-store"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
