# SPDX-License-Identifier: Apache-2.0
"""Tests the wheel whose path is the argument, in a new virtual environment."""

import base64
import csv
import glob
import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import unittest
import zipfile

from package import PackageTest

WHEEL = sys.argv.pop()

USE = """
import importlib.metadata, sys, kiln
assert kiln.__file__.startswith(sys.prefix), kiln.__file__
assert importlib.metadata.version("kiln") == kiln.__version__
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


class WheelTest(PackageTest):
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

    def test_installed(self):
        pips = bundled_pips()
        if not pips:
            self.skipTest("this Python has no pip for virtual environments: install python3-venv")
        environment = os.path.join(self.scratch, "environment")
        inside = os.path.join(environment, "bin", "python")
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        key_file = os.path.join(self.scratch, "key")
        with open(os.open(key_file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))
        # pip is not installed there, because that would take longer than the rest of the test.
        for command in ([sys.executable, "-m", "venv", "--without-pip", environment],
                        [inside, os.path.join(pips[0], "pip"), "install", "--quiet", "--no-index",
                         "--no-compile", "--disable-pip-version-check", WHEEL],
                        [inside, "-c", USE, self.location, key_file]):
            result = subprocess.run(command, env=clean, timeout=100, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT)
            self.assertEqual(result.returncode, 0, result.stdout.decode())
        self.assertEqual(result.stdout, b"b'built'\n")


if __name__ == "__main__":
    unittest.main()
