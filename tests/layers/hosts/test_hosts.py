#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests programs that could conflict with Kiln, because they export certain names or contain a leak
checker.

test_hosts.py KILN library PROGRAM…          link libkiln: tests/layers/hosts/library_user.c
test_hosts.py KILN opencl [--hits] PROGRAM…  run with and without the layer, like
                                             tests/support/opencl_app.c; --hits: a second run must
                                             hit
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = """
// A comment, so long that a key keeps only its digest. {0}
kernel void f(global int *r) {{ r[get_global_id(0)] = 42; }}
""".format("word " * 2000)

# Drivers leak memory too. For some of these leaks the checker finds no stack frame of the driver,
# only that of the function that allocated the memory.
LEAKS_OF_DRIVERS = """
leak:libintelocl
leak:libLLVM
leak:libpocl
leak:operator new
leak:strdup
"""


# gcc 12's checkers mistake the thread-local storage of one library for that of another, and crash,
# if malloc happens to place it 16 bytes after the beginning of a page. This option keeps them from
# searching thread-local storage.
WITHOUT_GUESSES = "intercept_tls_get_addr=0"


class HostsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-hosts-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")
        self.trace = os.path.join(self.scratch, "trace")
        leaks = self.file("leaks", LEAKS_OF_DRIVERS)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("KILN_", "XDG_", "LD_", "OPENCL_LAYERS"))}
        self.environment.update(KILN_DIR=self.cache, KILN_TRACE=self.trace,
                                ASAN_OPTIONS=WITHOUT_GUESSES,
                                LSAN_OPTIONS=f"suppressions={leaks}:print_suppressions=0:" +
                                WITHOUT_GUESSES)

    def file(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(text)
        return path

    def run_command(self, *command):
        """Returns the command's exit status and output."""
        result = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120,
                                check=False)
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    def outcomes(self):
        """Returns the layer's outcomes since the last call."""
        with open(self.trace, encoding="utf-8") as file:
            lines = file.read().splitlines()
        os.remove(self.trace)
        return [line.split()[1] for line in lines if " key=" in line]


class Library(HostsTest):
    def expect(self, text, program, store):
        self.assertEqual(self.run_command(program, store), (0, text + "\n", ""))

    def test_a_store(self):
        for program in PROGRAMS:
            with self.subTest(program):
                shutil.rmtree(self.cache, ignore_errors=True)
                self.expect("stored", program, self.cache)
                self.expect("found", program, self.cache)

    def test_a_store_that_is_signed(self):
        store = f"file://{self.cache}?key-file={self.file('key', 'k' * 32)}"
        for program in PROGRAMS:
            with self.subTest(program):
                shutil.rmtree(self.cache, ignore_errors=True)
                self.expect("stored", program, store)
                self.expect("found", program, store)

    def test_a_pack(self):
        pack = os.path.join(self.scratch, "pack")
        self.expect("stored", PROGRAMS[0], self.cache)
        self.assertEqual(self.run_command(KILN, "pack", "--dir", self.cache, pack)[0], 0)
        for program in PROGRAMS:
            with self.subTest(program):
                self.expect("found", program, "pack:" + pack)


class Opencl(HostsTest):
    def test_a_build(self):
        source = self.file("f.cl", SOURCE)
        for number, program in enumerate(PROGRAMS):
            with self.subTest(program):
                # The previous program's helper may still be running.
                self.environment["KILN_DIR"] = "%s-%d" % (self.cache, number)
                command = [program, source, "return"]
                plain = self.run_command(*command)
                self.assertEqual(plain[:2], (0, "42\n"), plain)
                self.assertEqual(self.run_command(KILN, "run", "--", *command), plain)
                self.assertEqual(self.outcomes(), ["built"])
                self.assertEqual(self.run_command(KILN, "run", "--", *command), plain)
                # Without --hits, a hit depends on how fast the helper is.
                self.assertIn(self.outcomes(), (["hit-store"], ["hit-store" if HITS else "built"]))


if __name__ == "__main__":
    KILN, KIND, *REST = sys.argv[1:]
    HITS = "--hits" in REST
    PROGRAMS = [os.path.abspath(path) for path in REST if path != "--hits"]
    unittest.main(argv=[sys.argv[0], KIND.capitalize()])
