# SPDX-License-Identifier: Apache-2.0
"""Tests the folder of numba under kiln run. Run with the Python that has numba: without it, the
tests are skipped."""

import importlib.util
import os
import random
import shutil
import subprocess
import sys
import unittest

import cli

DAMAGES = int(os.environ.get("KILN_FOLDER_DAMAGES", "5"))

PROGRAM = """
import numba

@numba.njit(cache=True)
def total(count):
    result = 0.0
    for i in range(count):
        result += i * 0.5
    return result

@numba.njit(cache=True)
def next_total(count):
    return total(count) + 1

print(next_total(1000), total(10))
print(sum(total.stats.cache_misses.values()) + sum(next_total.stats.cache_misses.values()))
"""

RESULT = "249751.0 22.5"


class NumbaProgram(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.place = os.path.join(self.scratch, "folders")
        self.environment["KILN_FOLDERS"] = self.place + ",NUMBA_CACHE_DIR"
        self.environment.pop("NUMBA_CACHE_DIR", None)
        self.program = os.path.join(self.scratch, "program.py")
        with open(self.program, "w") as file:
            file.write(PROGRAM)

    def command(self):
        return [cli.KILN, "run", "--summary", "--", sys.executable, self.program]

    def compiled(self, process=None):
        """Runs the program, or waits for it. Returns how many functions numba compiled."""
        process = process or subprocess.Popen(self.command(), env=self.environment,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        result, count = output.decode().splitlines()
        self.assertEqual(result, RESULT)
        return int(count)

    def forget_folders(self):
        shutil.rmtree(self.place, ignore_errors=True)


@unittest.skipUnless(importlib.util.find_spec("numba"), "numba is not installed")
class Numba(NumbaProgram):
    def test_filled_on_a_new_machine(self):
        self.assertEqual(self.compiled(), 2)
        self.forget_folders()
        self.assertEqual(self.compiled(), 0)

    def test_left_out_by_default(self):
        """A function of a different file, which numba has compiled in, is changed."""
        self.environment["KILN_FOLDERS"] = self.place
        self.environment["PYTHONPATH"] = self.scratch
        with open(self.program, "w") as file:
            file.write("import numba, other\n@numba.njit(cache=True)\ndef total(value):\n"
                       "    return other.add(value)\nprint(total(1))\n")
        for number in (1, 2):
            with open(os.path.join(self.scratch, "other.py"), "w") as file:
                file.write(f"import numba\n@numba.njit\ndef add(value):\n"
                           f"    return value + {number}\n")
            result = subprocess.run(self.command(), env=self.environment, stdout=subprocess.PIPE,
                                    check=True)
            self.assertEqual(int(result.stdout), 1 + number)
            self.forget_folders()
            shutil.rmtree(os.path.join(self.scratch, "__pycache__"), ignore_errors=True)


@unittest.skipUnless(importlib.util.find_spec("numba"), "numba is not installed")
class NumbaLong(NumbaProgram):
    def test_eight_at_once(self):
        self.compiled()
        self.forget_folders()
        processes = [subprocess.Popen(self.command(), env=self.environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) for _ in range(8)]
        self.assertEqual([self.compiled(process) for process in processes], [0] * 8)

    def test_damaged(self):
        self.compiled()
        draw = random.Random(2)
        for _ in range(DAMAGES):
            path = self.entry_path(draw.choice(self.listed())["digest"])
            with open(path, "r+b") as file:
                if draw.random() < 0.5:
                    file.truncate(draw.randrange(os.path.getsize(path)))
                else:
                    offset = draw.randrange(os.path.getsize(path))
                    byte = os.pread(file.fileno(), 1, offset)[0]
                    os.pwrite(file.fileno(), bytes([byte ^ 1 << draw.randrange(8)]), offset)
            self.forget_folders()
            self.compiled()
            self.forget_folders()
            self.assertEqual(self.compiled(), 0)


if __name__ == "__main__":
    cli.main()
