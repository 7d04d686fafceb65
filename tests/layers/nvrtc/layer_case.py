# SPDX-License-Identifier: Apache-2.0
"""The part that the tests of NVRTC's layer share: running a program with and without it, and
comparing the outputs."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--exporting", required=True)
    parser.add_argument("--fixed", required=True)
    parser.add_argument("--stand-in", required=True)
    parser.add_argument("--stand-in-nvvm", required=True)
    parser.add_argument("--eager", required=True)
    parser.add_argument("--late", required=True)
    parser.add_argument("--other-math", required=True)
    parser.add_argument("--ops", required=True)
    parser.add_argument("--linked", action="append", default=[])
    parser.add_argument("--cuda")
    arguments, rest = parser.parse_known_args()
    for name in ("kiln", "program", "exporting", "fixed", "stand_in", "stand_in_nvvm", "eager",
                 "late", "other_math", "ops"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    arguments.linked = [os.path.abspath(path) for path in arguments.linked]
    return arguments, rest


ARGUMENTS, REST = parse_arguments()

OUTCOME = re.compile(r"^kiln\[\d+\] (\S+?)(?: key=(\w+)| (.*))", re.MULTILINE)


class LayerCase(unittest.TestCase):
    """Runs programs in a scratch directory, which contains the cache."""

    library = None  # the value of --library

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-nvrtc-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("KILN_", "NVRTC_", "XDG_", "LD_", "STAND_IN"))
        }
        self.environment.update(KILN_DIR=self.cache, KILN_TRACE=os.path.join(self.scratch, "trace"))

    def file(self, name, text):
        path = os.path.join(self.scratch, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def command(self, *arguments, program=None, kiln=True):
        start = [ARGUMENTS.kiln, "run", "--"] if kiln else []
        library = [] if self.library is None or program else ["--library", self.library]
        return [*start, program or ARGUMENTS.program, *library, *arguments]

    def trace(self):
        """Returns the trace since the last call: pairs of an outcome and a call or key."""
        path = self.environment["KILN_TRACE"]
        if not os.path.exists(path):
            return []
        with open(path) as file:
            text = file.read()
        os.remove(path)
        self.notes = re.findall(r"^kiln\[\d+\] note: (.*)", text, re.MULTILINE)
        return [(m[1], m[2] or m[3]) for m in OUTCOME.finditer(text) if m[1] != "note:"]

    def run_program(self, *arguments, expect=None, cwd=None, **options):
        """Runs the program under the layer and returns its output. @expect: the outcomes in the
        trace."""
        self.trace()
        result = subprocess.run(
            self.command(*arguments, **options), env=self.environment, cwd=cwd or self.scratch,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, pass_fds=self.descriptors())
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.assertEqual(result.stderr, b"")
        self.last = self.trace()
        if expect is not None:
            self.assertEqual([outcome for outcome, _ in self.last], expect, self.last)
        return result.stdout

    def descriptors(self):
        return [int(self.environment[name]) for name in ("STAND_IN_COUNT", "STAND_IN_CHANGES")
                if name in self.environment]

    def expect_hit_after(self, *arguments, **options):
        """Checks that a cold and a warm run give the same output as without the layer. Returns this
        output."""
        plain = self.run_program(*arguments, kiln=False, expect=[], **options)
        self.assertEqual(self.run_program(*arguments, expect=["built"], **options), plain)
        self.assertEqual(self.run_program(*arguments, expect=["hit-store"], **options), plain)
        return plain

    def expect_pass(self, *arguments, why, **options):
        """Checks that a run gives the same output as without the layer, and that nothing is
        stored."""
        plain = self.run_program(*arguments, kiln=False, expect=[], **options)
        for _ in range(2):
            self.assertEqual(self.run_program(*arguments, **options), plain)
            outcomes = [outcome for outcome, _ in self.last]
            self.assertIn("passed-through", outcomes)
            self.assertNotIn("hit-store", outcomes)
            self.assertTrue(any(why in about for _, about in self.last), self.last)


def main():
    unittest.main(argv=[sys.argv[0], *REST])
