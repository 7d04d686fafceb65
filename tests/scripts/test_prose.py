#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what scripts/check-prose finds and what it ignores.

    test_prose.py SCRIPT"""

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

SCRIPT = Path(sys.argv[1]).resolve()

loader = importlib.machinery.SourceFileLoader("check_prose", str(SCRIPT))
check_prose = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("check_prose", loader))
loader.exec_module(check_prose)

# Sentences that the rules for prose give as examples.
WRONG = [
    "Who asks for a key whose ticket is its own gets KILN_E_CYCLE.",
    "never NULL: so much is not asked on the way that is to be quick",
    "a number that is another as soon as a file is",
    "Kernels are had of descriptions too",
    "The listener tells of what happened.",
    "Where there is no room for it, it lives for its pins only.",
    "May be called on any thread, but where said.",
    "Returns NULL where there is none.",
]

RIGHT = [
    "A request that would wait on itself fails with KILN_E_CYCLE.",
    "must not be NULL; unchecked, for speed",
    "a number that changes when any of the files does",
    "A description also yields kernels",
    "Names the thread that waits, and the user who started it.",
    "Where programs are compiled, and where they are loaded.",
    "Where entries are kept",
    "Who may write to the directory?",
    "The store had to be opened, and the two can't be told apart.",
    "not for the device but for its runtime",
    "another thread, and another store",
]


class Prose(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name).resolve()

    def found(self, name, text):
        (self.root / name).write_text(text)
        return list(check_prose.check(self.root / name))

    def run_script(self, *paths):
        done = subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_each_rule_finds_its_example(self):
        for pattern, _, example in check_prose.RULES:
            with self.subTest(pattern):
                self.assertTrue(re.search(pattern, example))

    def test_examples_in_every_kind_of_file(self):
        examples = WRONG + [example for _, _, example in check_prose.RULES]
        for example in examples:
            quoted = example.replace('"', "'")
            for name, text in [("a.c", f"/* {quoted} */\nint a;\n"),
                               ("b.h", f"int b; // {quoted}\n"),
                               ("c.c", f'void c(void) {{ complain("{quoted}\\n"); }}\n'),
                               ("d.py", f'"""{quoted}"""\n'),
                               ("e.py", f"# {quoted}\n"),
                               ("meson.build", f"# {quoted}\n"),
                               ("f.sh", f"# {quoted}\n"),
                               ("g.md", f"{quoted}\n"),
                               ("h.scd", f"*word*\n\t{quoted}\n")]:
                with self.subTest(example=example, file=name):
                    self.assertTrue(self.found(name, text))

    def test_a_phrase_may_be_wrapped(self):
        for width in (20, 40, 60):
            for example in WRONG:
                lines = textwrap.wrap(example, width)
                with self.subTest(example=example, width=width):
                    self.assertTrue(self.found("a.c", "/* " + "\n * ".join(lines) + " */\n"))
                    self.assertTrue(self.found("a.py", "# " + "\n# ".join(lines) + "\n"))
                    self.assertTrue(self.found("a.md", "\n".join(lines) + "\n"))
                    self.assertTrue(self.found(
                        "a.cpp", "f(" + "\n  ".join(f'"{line} "' for line in lines) + ");\n"))

    def test_the_line_is_named(self):
        found = self.found("a.c", "int a;\n\n/* A key.\n *\n * It is had of\n * a text. */\n")
        self.assertTrue(found)
        for line in found:
            self.assertIn("a.c:5: ", line)

    def test_good_prose_passes(self):
        for sentence in RIGHT:
            for name, text in [("a.c", f'/* {sentence} */\nconst char *a = "{sentence}";\n'),
                               ("a.md", f"{sentence}\n"), ("a.py", f'"""{sentence}"""\n')]:
                with self.subTest(sentence=sentence, file=name):
                    self.assertEqual(self.found(name, text), [])

    def test_code_is_not_prose(self):
        for name, text in [("a.c", "int f(void) { return it is had of; }\n"),
                           ("a.md", "Run `it is had of` or\n\n    it is had of it\n"),
                           ("b.md", "```c\nit is had of it\n```\n"),
                           ("a.bin", "it is had of it\n")]:
            with self.subTest(file=name):
                self.assertEqual(self.found(name, text), [])

    def test_cells_of_a_table_are_separate(self):
        head = "| a | b |\n| --- | --- |\n"
        self.assertEqual(self.found("a.md", head + "| NULL | where it is |\n"), [])
        self.assertTrue(self.found("a.md", head + "| x | the key is had |\n"))

    def test_names(self):
        for name in check_prose.NAMES:
            with self.subTest(name):
                self.assertEqual(len(self.found("a.c", f"static int {name};\n")), 1)
                self.assertEqual(self.found("a.c", f"static int {name}s;\n"), [])

    def test_names_of_tests(self):
        for _, _, example in check_prose.TEST_NAMES:
            with self.subTest(example):
                self.assertEqual(len(self.found("a.c", f"static void {example}(void **state)\n")), 1)
                self.assertEqual(len(self.found("a.py", f"    def {example}(self):\n")), 1)
                self.assertEqual(self.found("a.c", f"int is_{example};\n"), [])
        for name in ("test_lease_is_released", "test_one_goal", "test_a_window"):
            with self.subTest(name):
                self.assertEqual(self.found("a.c", f"static void {name}(void **state)\n"), [])

    def test_what_is_allowed_is_ignored(self):
        (self.root / "a.md").write_text("The key is had of it.\n")
        check_prose.ALLOWED.append((str(self.root / "a.md"), "had"))
        self.addCleanup(check_prose.ALLOWED.pop)
        self.assertEqual(list(check_prose.check(self.root / "a.md")), [])

    def test_few_are_allowed(self):
        self.assertLessEqual(len(check_prose.ALLOWED), 10)

    def test_status(self):
        (self.root / "good.c").write_text("/* Returns the key. */\n")
        self.assertEqual(self.run_script(self.root), (0, ""))
        (self.root / "bad.c").write_text("/* The key is had of it. */\n")
        status, output = self.run_script(self.root)
        self.assertEqual(status, 1)
        self.assertIn("bad.c:1: ", output)
        self.assertNotIn("good.c", output)
        self.assertEqual(self.run_script(self.root / "good.c")[0], 0)
        self.assertEqual(self.run_script(self.root / "missing")[0], 1)


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
