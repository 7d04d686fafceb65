#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/guide.md: its code is an exact copy of code in the examples, and the examples print
the output that it shows.

test_guide.py PROGRAM…
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = (ROOT / "docs" / "guide.md").read_text()
CODE = re.compile(r"(<!-- (\S+) -->\n)?```(c|cpp)\n(.*?)```", re.S)
CONSOLE = re.compile(r"```console\n(.*?)```", re.S)


class GuideTest(unittest.TestCase):
    def test_code_is_copied_from_the_examples(self):
        blocks = CODE.findall(GUIDE)
        self.assertGreater(len(blocks), 5)
        for _, path, _, code in blocks:
            self.assertTrue(path, f"the guide does not name the file of this code:\n{code}")
            self.assertIn(code, (ROOT / path).read_text(), f"{path} has no such lines")

    def test_programs_print_what_is_shown(self):
        scratch = tempfile.mkdtemp(prefix="kiln-guide-")
        self.addCleanup(shutil.rmtree, scratch)
        programs = {Path(program).name: os.path.abspath(program) for program in sys.argv[1:]}
        unseen = set(programs)
        for console in CONSOLE.findall(GUIDE):
            for run in re.split(r"^\$ ", console, flags=re.M)[1:]:
                command, _, expected = run.partition("\n")
                name, *arguments = command.removeprefix("./").split()
                unseen.discard(name)
                found = subprocess.run([programs[name], *arguments], cwd=scratch, text=True,
                                       capture_output=True, timeout=60, check=False)
                self.assertEqual((found.returncode, found.stderr), (0, ""), command)
                self.assertEqual(found.stdout, expected, command)
        self.assertEqual(unseen, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
