# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share. Python finds the package by PYTHONPATH."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import kiln


class PackageTest(unittest.TestCase):
    """A scratch folder."""

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-python-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.location = os.path.join(self.scratch, "cache")

    def open(self, **options):
        store = kiln.Store(self.location, **options)
        self.addCleanup(store.close)
        return store

    def run_python(self, program, *arguments, expect=0):
        """Runs a program in a new interpreter, and returns what it prints."""
        result = subprocess.run([sys.executable, "-X", "dev", "-c", program, *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual((result.returncode, result.stderr.decode()), (expect, ""), result.stdout)
        return result.stdout.decode()


def key_of(name, **parts):
    return kiln.Key({"name": name, **parts})


def unexpected_build():
    raise AssertionError("this build must not run")
