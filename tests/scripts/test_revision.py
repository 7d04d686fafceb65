#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what scripts/source-revision prints in a repository, without one, and with changes.

    test_revision.py SCRIPT"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(sys.argv[1])


class Revision(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name).resolve()
        for folder in ("src", "include", "scripts", "docs"):
            (self.root / folder).mkdir()
        self.source = self.root / "src/a.c"
        self.source.write_text("int a;\n")
        (self.root / "include/a.h").write_text("extern int a;\n")
        shutil.copy(SCRIPT, self.root / "scripts")

    def revision(self):
        done = subprocess.run([self.root / "scripts" / SCRIPT.name], check=True, capture_output=True,
                              text=True)
        self.assertEqual(done.stdout.count("\n"), 1)
        return done.stdout.strip()

    def git(self, *arguments):
        environment = {**os.environ, "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments],
                              cwd=self.root, env=environment, check=True, capture_output=True,
                              text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")
        return self.git("rev-parse", "HEAD")

    def test_without_a_repository(self):
        first = self.revision()
        self.assertRegex(first, r"^tree-[0-9a-f]{40}$")
        self.assertEqual(self.revision(), first)
        (self.root / "docs/a.md").write_text("a\n")
        self.assertEqual(self.revision(), first)
        self.source.write_text("int b;\n")
        self.assertNotEqual(self.revision(), first)

    @unittest.skipUnless(shutil.which("git"), "no git")
    def test_in_a_repository_of_something_else(self):
        before = self.revision()
        inner = self.root / "inner"
        inner.mkdir()
        for folder in ("src", "include", "scripts"):
            shutil.move(self.root / folder, inner)
        self.git("init", "-q")
        self.commit()
        self.root = inner
        self.assertEqual(self.revision(), before)

    @unittest.skipUnless(shutil.which("git"), "no git")
    def test_in_its_own_repository(self):
        self.git("init", "-q")
        first = self.commit()
        self.assertEqual(self.revision(), first)
        (self.root / "docs/a.md").write_text("a\n")
        self.commit()
        self.assertEqual(self.revision(), first)
        self.source.write_text("int b;\n")
        changed = self.revision()
        self.assertRegex(changed, r"^tree-")
        self.assertNotEqual(self.commit(), first)
        self.assertEqual(self.revision(), self.git("rev-parse", "HEAD"))
        (self.root / "src/new.c").write_text("")
        self.assertRegex(self.revision(), r"^tree-")
        self.assertNotEqual(self.revision(), changed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
