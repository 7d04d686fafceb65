# SPDX-License-Identifier: Apache-2.0
"""Tests kiln with --layout dpcpp on caches that a SYCL runtime wrote. Each test first checks that
the damage harms the program, then repairs it, and checks that the program is right and finds
everything.

Run as:  scripts/with-runtime sycl python3 test_runtime.py KILN COUNTING_LAYER
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "layers/opencl/sycl"))
import sycl_program
from own_cache import lock_of, make_old, snapshot, stale_lock
from sycl_program import Run, builds_at_driver, environment, run, run_together, sycl_cache

KILN, COUNTING_LAYER = (os.path.abspath(path) for path in sys.argv[1:3])
sycl_program.arguments += sycl_program.SOME_RESULTS
BOUND = {"SYCL_CACHE_MAX_SIZE": "1000000000"}  # with a limit there are cache_size.txt and its locks
HANGS_SECONDS = 12  # several times as long as a warm program takes


class RuntimeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp(prefix="kiln-dpcpp-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        cls.filled = cls.scratch / "filled"
        cold = run(environment(**sycl_cache(cls.filled), **BOUND))
        if not cold.results:
            raise RuntimeError("the program fails: " + cold.ending())
        cls.expected = cold.results
        cls.cold_seconds = (cold.end_ns - cold.start_ns) / 1e9

    def setUp(self):
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        self.root = folder / "cache"
        shutil.copytree(self.filled, self.root)
        self.item = sorted(self.root.rglob("*.bin"))[3].with_suffix("")

    # ---- the program and the tool ----

    def start(self, **more):
        return Run(environment(**sycl_cache(self.root), **more))

    def assert_right(self, ended):
        self.assertEqual(ended.results, self.expected, ended.ending())

    def builds(self, **more):
        """Returns how many programs a run builds; its results must be right."""
        counts = self.root.parent / "counts"
        counts.unlink(missing_ok=True)
        self.assert_right(self.start(
            OPENCL_LAYERS=COUNTING_LAYER, COUNTING_LAYER_FILE=str(counts), **more).finish())
        return builds_at_driver(counts)

    def kiln(self, command, *arguments, expect=0):
        result = subprocess.run(
            [KILN, command, "--layout", "dpcpp", "--dir", self.root, "--json", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result.stdout

    def verify(self, *arguments, expect=0):
        """Returns what verify finds, as a set of kinds."""
        report = json.loads(self.kiln("verify", *arguments, expect=expect))
        return {finding["kind"] for finding in report["findings"]}

    def repair(self, *arguments):
        found = self.verify("--repair", "--yes", *arguments)
        self.assertEqual(self.verify(), set())
        return found

    def items(self):
        return len(list(self.root.rglob("*.bin")))

    # ---- reading ----

    def test_all_of_a_healthy_cache_is_understood(self):
        report = json.loads(self.kiln("verify"))
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["checked"], self.items())
        self.assertEqual(report["ok"], self.items())
        for line in self.kiln("ls").splitlines():
            item = json.loads(line)
            self.assertEqual((item["state"], item["kind"]), ("ok", "image"))
            self.assertIn("/", item["device"])
        shown = json.loads(self.kiln("show", item["id"]))
        self.assertEqual((shown["format"], shown["image_format"]), ("ELF", "SPIR-V"))

    def test_reading_changes_nothing(self):
        os.truncate(f"{self.item}.bin", 100)
        for path in self.root.rglob("*"):
            make_old(path)
        before = snapshot(self.root)
        self.kiln("ls")
        self.kiln("verify", expect=5)
        self.kiln("verify", "--repair", expect=5)
        self.kiln("trim", "--max-size", "0")
        self.assertEqual(snapshot(self.root), before)

    # ---- damage ----

    def test_truncated_code(self):
        """The program is built again in each run, and each run leaves a copy."""
        items = self.items()
        os.truncate(f"{self.item}.bin", 100)
        self.assertEqual([self.builds(), self.builds()], [1, 1])
        self.assertEqual(self.items(), items + 2)
        self.assertLessEqual({"bad-bin", "unreachable", "copy"}, self.repair())
        self.assertEqual(self.items(), items)
        self.assertEqual(self.builds(), 0)

    def test_all_files_empty(self):
        """The state after a power cut."""
        for ending in ".bin", ".src", "_access_time.txt":
            for file in self.root.rglob(f"*{ending}"):
                os.truncate(file, 0)
        self.assertLessEqual({"bad-bin", "bad-src"}, self.repair())
        self.assertEqual(self.items(), 0)
        self.assertGreater(self.builds(), 0)
        self.assertEqual(self.builds(), 0)

    def test_key_with_impossible_length(self):
        """The damage crashes the program."""
        with open(f"{self.item}.src", "r+b") as file:
            file.write(b"\xff" * 7 + b"\x7f")
        self.assertNotEqual(self.start().finish().process.returncode, 0)
        self.assertEqual(self.repair(), {"bad-src"})
        self.assertEqual([self.builds(), self.builds()], [1, 0])

    def test_flipped_bits_of_keys(self):
        chance = random.Random(1)
        for item in self.root.rglob("*.src"):
            content = bytearray(item.read_bytes())
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            item.write_bytes(content)
        self.assertEqual(self.repair(), {"bad-src"})
        self.assertEqual(self.items(), 0)

    def test_flipped_bit_of_code(self):
        """The format has no checksum for code: only emptying the cache is certain to help."""
        content = bytearray(Path(f"{self.item}.bin").read_bytes())
        content[len(content) // 2] ^= 1
        Path(f"{self.item}.bin").write_bytes(content)
        self.assertEqual(self.verify(), set())
        self.kiln("trim", "--max-size", "0", "--yes")
        self.assertEqual(self.items(), 0)
        self.assertGreater(self.builds(), 0)

    def test_stale_lock_of_the_size(self):
        """A program that has to write hangs."""
        for ending in ".bin", ".src":
            Path(f"{self.item}{ending}").unlink()
        lock = stale_lock(self.root / "cache_size.txt")
        hanging = self.start(**BOUND)
        hanging.finish(HANGS_SECONDS)
        self.assertTrue(hanging.hung)
        self.assertTrue(lock.exists())
        self.repair("--grace", "0")
        self.builds(**BOUND)
        self.assertEqual(self.builds(**BOUND), 0)

    def test_stale_lock_of_the_size_is_removed_under_a_waiting_program(self):
        for ending in ".bin", ".src":
            Path(f"{self.item}{ending}").unlink()
        stale_lock(self.root / "cache_size.txt")
        waiting = self.start(**BOUND)
        with self.assertRaises(subprocess.TimeoutExpired):
            waiting.process.wait(HANGS_SECONDS)
        self.verify("--repair", "--yes")
        self.assert_right(waiting.finish())
        self.assertEqual(self.builds(**BOUND), 0)

    def test_size_that_is_no_number(self):
        """The damage crashes the program."""
        (self.root / "cache_size.txt").write_text("nonsense")
        for ending in ".bin", ".src":
            Path(f"{self.item}{ending}").unlink()
        self.assertNotEqual(self.start(**BOUND).finish().process.returncode, 0)
        self.assertIn("bad-size", self.repair("--grace", "0"))
        self.builds(**BOUND)
        self.assertEqual(self.builds(**BOUND), 0)
        self.assertEqual(self.verify(), set())

    def test_stale_lock_of_an_item(self):
        stale_lock(self.item)
        self.assertEqual([self.builds(), self.builds()], [1, 0])
        self.assertEqual(self.repair(), {"stale-lock", "copy", "wrong-size"})
        self.assertEqual(self.builds(), 0)

    def test_half_an_item_under_a_stale_lock(self):
        Path(f"{self.item}.src").unlink()
        os.truncate(f"{self.item}.bin", 100)
        stale_lock(self.item)
        self.builds()
        self.assertLessEqual({"stale-lock", "bad-bin", "half"}, self.repair())
        self.assertEqual(self.builds(), 0)

    def test_stale_locks_in_a_hole(self):
        """Copies accumulate at higher numbers: the runtime ends its search at a number without
        files."""
        for ending in ".bin", ".src":
            Path(f"{self.item}{ending}").unlink()
        stale_lock(self.item)
        self.assertEqual([self.builds(), self.builds()], [1, 1])
        self.assertLessEqual({"stale-lock", "unreachable", "copy"}, self.repair())
        self.assertEqual(self.builds(), 0)

    def test_stale_eviction_lock(self):
        """Nothing is evicted, so the cache exceeds its limit."""
        lock = stale_lock(Path(f"{self.root}_eviction_in_progress"))
        small = {"SYCL_CACHE_MAX_SIZE": "300000"}
        for source in sorted(self.root.rglob("*.src"))[:3]:
            source.unlink()
            source.with_suffix(".bin").unlink()
        self.assert_right(self.start(**small).finish())
        kept = self.items()
        self.assertLessEqual({"stale-lock"}, self.repair())
        self.assertFalse(lock.exists())
        newest = sorted(self.root.rglob("*.src"))[0]
        newest.unlink()
        newest.with_suffix(".bin").unlink()
        self.assert_right(self.start(**small).finish())
        self.assertLess(self.items(), kept)

    def test_what_its_own_eviction_leaves(self):
        self.assert_right(self.start(SYCL_CACHE_MAX_SIZE="1000").finish())
        first = sorted(self.root.rglob("*.src"))[0]
        first.unlink()
        first.with_suffix(".bin").unlink()
        self.assert_right(self.start(SYCL_CACHE_MAX_SIZE="1000").finish())
        self.assertIn("leftover", self.verify())
        self.repair()
        self.assertEqual(len(list(self.root.rglob("*_access_time.txt"))), self.items())
        self.assert_right(self.start(**BOUND).finish())
        self.assertEqual(self.builds(), 0)

    def test_killed_while_filling(self):
        chance = random.Random(2)
        for _ in range(2):
            shutil.rmtree(self.root)
            filling = self.start(**BOUND)
            try:
                filling.process.wait(chance.uniform(0.1, 0.9) * self.cold_seconds)
            except subprocess.TimeoutExpired:
                filling.process.kill()
            filling.finish()
            self.verify("--repair", "--yes", "--grace", "0")
            self.assertEqual(self.verify(), set())
            self.builds(**BOUND)
            self.assertEqual(self.builds(**BOUND), 0)

    # ---- trim ----

    def test_trim_by_last_access(self):
        """The least recently used items are removed first, by the times that the runtime records if
        it has a limit."""
        stamps = sorted(self.root.rglob("*_access_time.txt"))
        old, new = stamps[:10], stamps[10:]
        for stamp in old:
            stamp.write_text(str(time.time_ns() - 90 * 86400 * 10**9))
        before = {stamp: int(stamp.read_text()) for stamp in new}
        report = json.loads(self.kiln("trim", "--older-than", "30", "--yes"))
        self.assertEqual(report["removed"], 10)
        self.assertEqual({stamp: int(stamp.read_text()) for stamp in new}, before)
        self.assertFalse(any(stamp.exists() for stamp in old))
        self.assertEqual(self.verify(), set())
        self.assertLessEqual(self.builds(**BOUND), 10)
        self.assertEqual(self.builds(**BOUND), 0)

    # ---- programs that run meanwhile ----

    def test_crowd_and_repairs_meanwhile(self):
        """Processes without a warm cache store copies of an item. Repairs at the same time harm
        none of them."""
        shutil.rmtree(self.root)
        crowd = [self.start(**BOUND) for _ in range(3)]
        rounds = 0
        while any(one.process.poll() is None for one in crowd):
            self.kiln_meanwhile()
            rounds += 1
            time.sleep(0.1)
        for one in crowd:
            self.assert_right(one.finish())
        self.assertGreater(rounds, 3)
        self.verify("--repair", "--yes", "--grace", "0")
        self.assertEqual(self.verify(), set())
        self.builds(**BOUND)
        self.assertEqual(self.builds(**BOUND), 0)

    def kiln_meanwhile(self):
        for command in (["verify", "--repair", "--yes"], ["trim", "--max-size", "100M", "--yes"]):
            result = subprocess.run(
                [KILN, *command, "--layout", "dpcpp", "--dir", self.root],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertIn(result.returncode, (0, 5), result.stderr)

    def test_copies_of_a_crowd(self):
        shutil.rmtree(self.root)
        for one in run_together(3, environment(**sycl_cache(self.root), **BOUND)):
            self.assert_right(one)
        self.verify("--repair", "--yes")
        folders = [binary.parent for binary in self.root.rglob("*.bin")]
        self.assertEqual(len(folders), len(set(folders)))
        self.builds(**BOUND)
        self.assertEqual(self.builds(**BOUND), 0)


# The runtime's own functions for LLVM code, which no program here needs. They are not exported:
# their addresses are read from its symbol table, if it has one.
WRITE_IR = """
import ctypes, sys
place, library, key, code = int(sys.argv[1]), sys.argv[2], sys.argv[3].encode(), sys.argv[4].encode()
ctypes.CDLL(library)
base = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "libsycl.so" in line)
class String(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("room", ctypes.c_char * 16)]
class Vector(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("end", ctypes.c_void_p), ("limit", ctypes.c_void_p)]
key_bytes, code_bytes = ctypes.create_string_buffer(key), ctypes.create_string_buffer(code)
start = ctypes.addressof(code_bytes)
string = String(ctypes.addressof(key_bytes), len(key))
vector = Vector(start, start + len(code), start + len(code))
put = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(base + place)
put(ctypes.addressof(string), ctypes.addressof(vector))
"""


class CodeOfLlvm(RuntimeTest):
    """Runs only this class, and not the inherited tests."""

    def test_it_is_read_and_repaired(self):
        library = Path(sys.prefix) / "lib/libsycl.so.8"
        place = self.place_of(library, "putDeviceCodeIRToDisc")
        if place is None:
            self.skipTest("the runtime has no symbol table")
        shutil.rmtree(self.root)
        keys = "Q" * 43 + "=", "R" * 43 + "="
        for key in keys:
            subprocess.run(
                [sys.executable, "-c", WRITE_IR, str(place), library, key, "BC and more"],
                env=environment(**sycl_cache(self.root)), check=True)
        items = [json.loads(line) for line in self.kiln("ls").splitlines()]
        self.assertEqual({item["path"] for item in items},
                         {f"ext_kernel_compiler/{key}/ir" for key in keys})
        self.assertEqual({(item["state"], item["bytes"]) for item in items}, {("ok", 11)})
        self.assertEqual(self.verify(), set())
        first, second = (self.root / "ext_kernel_compiler" / key / "ir" for key in keys)
        os.truncate(f"{first}.bin", 20)
        stale_lock(second)
        self.assertEqual(self.repair(), {"bad-bin", "stale-lock"})
        self.assertFalse(first.parent.exists())
        self.assertFalse(lock_of(second).exists())
        self.assertTrue(Path(f"{second}.bin").exists())

    @staticmethod
    def place_of(library, name):
        if not library.exists() or not shutil.which("nm"):
            return None
        symbols = subprocess.run(["nm", library], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.DEVNULL).stdout
        for line in symbols.splitlines():
            if name in line and line.split()[-1].startswith("_ZN4sycl"):
                return int(line.split()[0], 16)
        return None


def load_tests(loader, tests, pattern):
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(RuntimeTest))
    suite.addTest(CodeOfLlvm("test_it_is_read_and_repaired"))
    return suite


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
