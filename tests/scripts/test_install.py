#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/install: with a project of two files and no compiler, or with Kiln itself, in which
case the test takes minutes.

    test_install.py ROOT [UNITTEST ARGUMENT…]"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(sys.argv.pop(1))
SCRIPTS = ["install", "install-deps", "lib.sh", "pinned-runtime.sh"]
PROJECT = """\
project('small', default_options: ['libdir=lib'])
install_data({}, install_dir: 'lib/kiln')
"""
LIST = "lib/kiln/installed-files"
OPTIONS = """\
option('tools', type: 'feature')
option('python', type: 'feature')
option('tests', type: 'feature')
"""


class InstallTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="kiln-install-")
        self.addCleanup(scratch.cleanup)
        self.tree = Path(scratch.name).resolve() / "tree"
        self.tree.mkdir()
        self.prefix = self.tree.parent / "a prefix"

    def install(self, *options, prefix=None):
        """Returns the exit status and the output."""
        done = subprocess.run([self.tree / "scripts/install", *options, "--prefix",
                               prefix or self.prefix], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, cwd=self.tree.parent)
        return done.returncode, done.stdout

    def must_install(self, *options, prefix=None):
        status, output = self.install(*options, prefix=prefix)
        self.assertEqual(status, 0, output)
        return output


class SmallTest(InstallTest):
    def setUp(self):
        super().setUp()
        (self.tree / "scripts").mkdir()
        for script in SCRIPTS:
            shutil.copy(ROOT / "scripts" / script, self.tree / "scripts")
        (self.tree / "meson_options.txt").write_text(OPTIONS)
        self.write("one", "two")

    def write(self, *names):
        (self.tree / "meson.build").write_text(PROJECT.format(list(names)))
        for name in names:
            (self.tree / name).write_text(name)

    def files(self, prefix=None):
        prefix = prefix or self.prefix
        return {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}

    def test_a_prefix_with_other_files(self):
        foreign = self.prefix / "share/foreign"
        foreign.parent.mkdir(parents=True)
        foreign.touch()
        self.must_install()
        self.assertEqual(self.files(), {"share/foreign", "lib/kiln/one", "lib/kiln/two", LIST})
        # A later version replaces the files of an earlier one.
        self.write("two", "three")
        self.must_install()
        self.assertEqual(self.files(), {"share/foreign", "lib/kiln/two", "lib/kiln/three", LIST})
        self.must_install("--uninstall")
        self.assertEqual(sorted(self.prefix.rglob("*")), [foreign.parent, foreign])
        status, output = self.install("--uninstall")
        self.assertEqual(status, 1)
        self.assertIn("has installed nothing in " + str(self.prefix), output)

    def test_two_new_prefixes(self):
        other, moved = self.tree.parent / "b", self.tree.parent / "moved"
        self.must_install()
        self.must_install(prefix="b")
        self.prefix.rename(moved)
        self.must_install("--uninstall", prefix=moved)
        self.assertFalse(moved.exists())
        self.assertEqual(self.files(other), {"lib/kiln/one", "lib/kiln/two", LIST})
        self.must_install("--uninstall", prefix="b")
        self.assertFalse(other.exists())

    def test_wrong_options_are_refused(self):
        for options in ["--prefix"], ["--prefix="], ["--frob"]:
            done = subprocess.run([self.tree / "scripts/install", *options], capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("usage: ", done.stderr)


class WholeTest(InstallTest):
    def test_kiln(self):
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True,
                               text=True).stdout
        for name in names.split("\0")[:-1]:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name, follow_symlinks=False)
        with unittest.mock.patch.dict(os.environ, PYTHONUSERBASE=str(self.prefix)):
            self.assertIn(f"{self.prefix}/bin/kiln run", self.must_install())
        # Python searches this folder below the home folder.
        packages = subprocess.run(
            ["python3", "-m", "site", "--user-site"], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONUSERBASE": str(self.prefix)}).stdout.strip()
        done = subprocess.run(["python3", "-c", "import kiln; print(kiln.__file__)"],
                              capture_output=True, text=True,
                              env={**os.environ, "PYTHONUSERBASE": str(self.prefix)})
        self.assertEqual(done.stdout.strip(), packages + "/kiln/__init__.py", done.stderr)
        # Neither the tests' libraries nor an option of the build may be needed.
        environment = {"PATH": os.environ["PATH"], "KILN_DIR": str(self.tree.parent / "cache")}
        done = subprocess.run([self.prefix / "bin/kiln", "run", "--summary", "--", "echo", "ran"],
                              capture_output=True, text=True, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)
        self.assertIn("0 hits", done.stderr)
        self.must_install("--uninstall")
        self.assertFalse(self.prefix.exists())


if __name__ == "__main__":
    unittest.main()
