# SPDX-License-Identifier: Apache-2.0
"""Tests the folders of numba and PoCL under kiln run: the arguments name the class, and for PoCL a
program that builds a source. Tests of numba are run with the Python that has it, and are skipped
without it."""

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import unittest

import cli

DAMAGES = int(os.environ.get("KILN_FOLDER_DAMAGES", "5"))
OPENCL_APP = sys.argv.pop() if "Pocl" in sys.argv[-2] else None

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


class FolderTest(cli.CliTest):
    """A program that uses a folder. The test names the folder's variable, because the table leaves
    the folder out."""

    def setUp(self):
        super().setUp()
        self.place = os.path.join(self.scratch, "folders")
        self.environment["KILN_FOLDERS"] = f"{self.place},{self.VARIABLE}"
        self.environment.pop(self.VARIABLE, None)

    def start(self):
        return subprocess.Popen([cli.KILN, "run", "--json", "--", *self.command()],
                                env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def compiled(self, process=None):
        """Runs the program, or waits for it. Returns whether its folder was empty, so that it
        compiled."""
        output, errors = (process or self.start()).communicate(timeout=120)
        result, *compiled = output.splitlines()
        self.assertEqual(result, self.RESULT, errors)
        counters = json.loads(errors.splitlines()[-1]).get("folders", {}).get(self.VARIABLE)
        was_empty = counters is None or counters["files_from_store"] == 0
        if compiled:
            self.assertEqual(was_empty, int(compiled[0]) > 0, errors)
        return was_empty

    def forget_folders(self):
        shutil.rmtree(self.place, ignore_errors=True)

    def check_eight_at_once(self):
        self.compiled()
        self.forget_folders()
        processes = [self.start() for _ in range(8)]
        self.assertFalse(any([self.compiled(process) for process in processes]))

    def check_filled_in_spite_of_damage(self):
        """Damages an entry before each run. Each run repairs what the next one needs."""
        self.assertTrue(self.compiled())
        draw = random.Random(2)
        for _ in range(DAMAGES):
            path = self.entry_path(draw.choice(self.listed())["digest"])
            size = os.path.getsize(path)
            with open(path, "r+b") as file:
                if draw.random() < 0.5:
                    file.truncate(draw.randrange(size))
                else:
                    # Another version of the format is no damage, and stays.
                    offset = draw.choice([*range(8), *range(12, size)])
                    byte = os.pread(file.fileno(), 1, offset)[0]
                    os.pwrite(file.fileno(), bytes([byte ^ 1 << draw.randrange(8)]), offset)
            self.forget_folders()
            self.compiled()
        self.forget_folders()
        self.assertFalse(self.compiled())


class NumbaProgram(FolderTest):
    VARIABLE = "NUMBA_CACHE_DIR"
    RESULT = b"249751.0 22.5"

    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.scratch, "program.py")
        with open(self.program, "w") as file:
            file.write(PROGRAM)

    def command(self):
        return [sys.executable, self.program]


@unittest.skipUnless(importlib.util.find_spec("numba"), "numba is not installed")
class Numba(NumbaProgram):
    def test_filled_on_new_machines(self):
        self.check_filled_in_spite_of_damage()

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
            self.RESULT = b"%d" % (1 + number)
            self.assertTrue(self.compiled())
            self.forget_folders()
            shutil.rmtree(os.path.join(self.scratch, "__pycache__"), ignore_errors=True)


@unittest.skipUnless(importlib.util.find_spec("numba"), "numba is not installed")
class NumbaLong(NumbaProgram):
    def test_eight_at_once(self):
        self.check_eight_at_once()

    def test_filled_on_new_machines(self):
        self.check_filled_in_spite_of_damage()


class PoclProgram(FolderTest):
    VARIABLE = "POCL_CACHE_DIR"
    RESULT = b"42"

    def setUp(self):
        super().setUp()
        self.environment["OCL_ICD_VENDORS"] = os.environ["OCL_ICD_VENDORS"]
        self.source = os.path.join(self.scratch, "f.cl")
        with open(self.source, "w") as file:
            file.write("kernel void f(global int *out) { out[get_global_id(0)] = 42; }\n")

    def command(self):
        # Without Kiln's layer, so that PoCL itself looks for what it built.
        return ["env", "-u", "OPENCL_LAYERS", OPENCL_APP, self.source, "return"]


class Pocl(PoclProgram):
    def test_filled_on_new_machines(self):
        self.check_filled_in_spite_of_damage()


class PoclLong(PoclProgram):
    def test_eight_at_once(self):
        self.check_eight_at_once()

    def test_filled_on_new_machines(self):
        self.check_filled_in_spite_of_damage()


if __name__ == "__main__":
    cli.main()
