# SPDX-License-Identifier: Apache-2.0
"""test_wheel.py WHEEL ROOT CUDA [UNITTEST ARGUMENT…]: tests the wheel in a new virtual environment.
Its programs use PoCL, and NVRTC of a CUDA toolkit or of scripts/install-deps. ROOT is the
repository."""

import base64
import csv
import glob
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

WHEEL, ROOT, CUDA = sys.argv[1:4]
del sys.argv[1:4]
APP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "app.py")

USE = """
import importlib.metadata, sys, kiln
assert kiln.__file__.startswith(sys.prefix), kiln.__file__
assert importlib.metadata.version("kiln-cache") == kiln.__version__
location, key_file = sys.argv[1:]
cache = kiln.Cache(kiln.Store(location))
print(bytes(cache.get_or_build(kiln.Key({"a": 1}), lambda: b"built")))
# Needs libkiln_remote.
kiln.Store("redis+unix://" + location + "/socket", key_file=key_file)
"""


def bundled_pips():
    """Returns the wheels of pip that Python puts into virtual environments."""
    found = importlib.util.find_spec("ensurepip")
    folders = [os.path.join(os.path.dirname(found.origin), "_bundled")] if found else []
    return [path for folder in folders + ["/usr/share/python-wheels"]
            for path in glob.glob(os.path.join(folder, "pip-*.whl"))]


class RecordTest(unittest.TestCase):
    def test_the_record_is_true(self):
        with zipfile.ZipFile(WHEEL) as archive:
            (record,) = [name for name in archive.namelist() if name.endswith("/RECORD")]
            rows = list(csv.reader(io.TextIOWrapper(archive.open(record))))
            self.assertEqual([row[0] for row in rows], archive.namelist())
            for name, digest, size in rows:
                if name != record:
                    content = archive.read(name)
                    encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
                    self.assertEqual((digest, size), ("sha256=" + encoded.decode().rstrip("="),
                                                      str(len(content))))

    def test_no_path_of_the_build(self):
        with zipfile.ZipFile(WHEEL) as archive:
            for name in archive.namelist():
                self.assertNotIn(os.path.realpath(ROOT).encode() + b"/", archive.read(name), name)


@unittest.skipUnless(bundled_pips(), "this Python has no pip for virtual environments: install "
                     "python3-venv")
class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="kiln-wheel-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("KILN_", "OPENCL_", "OCL_", "PYTHON", "LD_", "XDG_"))}
        cls.environment.update(HOME=cls.scratch, KILN_DIR=os.path.join(cls.scratch, "cache"),
                               POCL_CACHE_DIR=os.path.join(cls.scratch, "pocl"))
        folder = os.path.join(cls.scratch, "environment")
        cls.kiln = os.path.join(folder, "bin/kiln")
        cls.python = os.path.join(folder, "bin/python")
        # pip is not installed there, because that would take longer than the rest of the test.
        for command in ([sys.executable, "-m", "venv", "--without-pip", folder],
                        [cls.python, os.path.join(bundled_pips()[0], "pip"), "install", "--quiet",
                         "--no-index", "--no-compile", "--disable-pip-version-check", WHEEL]):
            subprocess.run(command, env=cls.environment, timeout=100, check=True)

    def output(self, *command, **environment):
        done = subprocess.run(command, env={**self.environment, **environment}, timeout=100,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def hits(self, *arguments, **environment):
        """Runs the program under Kiln; returns its first line, the number of hits and of builds."""
        output = self.output(self.kiln, "run", "--summary", "--", self.python, APP, *arguments,
                             **environment)
        found = re.search(r"^kiln: (\d+) hits?.* (\d+) builds?", output, re.MULTILINE)
        self.assertTrue(found, output)
        return output.splitlines()[0], int(found[1]), int(found[2])

    def test_package(self):
        key_file = os.path.join(self.scratch, "key")
        with open(os.open(key_file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))
        self.assertEqual(self.output(self.python, "-c", USE, os.path.join(self.scratch, "store"),
                                     key_file), "b'built'\n")

    def test_opencl(self):
        vendors = os.path.join(ROOT, "build/runtimes/pocl/vendors")
        if not os.path.isdir(vendors):
            self.skipTest("PoCL is not installed; scripts/install-deps installs it")
        program = ["opencl"]
        self.assertEqual(self.hits(*program, OCL_ICD_VENDORS=vendors), ("42", 0, 1))
        self.output(self.kiln, "capture", "--wait-ms", "60000", OCL_ICD_VENDORS=vendors)
        self.assertEqual(self.hits(*program, OCL_ICD_VENDORS=vendors), ("42", 1, 0))

    def test_nvrtc(self):
        libraries = (glob.glob(os.path.join(CUDA, "lib64/libnvrtc.so.*")) +
                     glob.glob(os.path.join(ROOT, "build/runtimes/nvrtc/cuda/lib/libnvrtc.so.*")))
        if not libraries:
            self.skipTest("NVRTC is not installed; scripts/install-deps installs it")
        self.assertEqual(self.hits("nvrtc", libraries[0]), ("True", 0, 1))
        self.assertEqual(self.hits("nvrtc", libraries[0]), ("True", 1, 0))


if __name__ == "__main__":
    unittest.main()
