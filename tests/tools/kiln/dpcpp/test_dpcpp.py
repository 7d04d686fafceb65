# SPDX-License-Identifier: Apache-2.0
"""Tests kiln ls, show, verify and trim with --layout dpcpp, on caches that own_cache.py writes.

Run as:  python3 test_dpcpp.py KILN MAKE_CACHE
"""

import fcntl
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cli
from own_cache import (
    Cache, Key, binary_file, collision_of, lock_of, make_old, snapshot, stale_lock, std_hash, try_lock)

SPIRV = b"\x03\x02\x23\x07"
DAY_NS = 86400 * 10**9

F_OFD_SETLK = getattr(fcntl, "F_OFD_SETLK", 37)
# struct flock: the whole file, for writing
WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def image(number):
    return Key(SPIRV + b"image %d" % number)


class DpcppTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        # The eviction lock is beside the cache's folder; no other file there may change.
        self.root = Path(self.scratch) / "sycl" / "cache"
        self.root.parent.mkdir()
        self.own = Cache(self.root)

    def on_cache(self, command, *arguments, expect=0):
        return self.kiln(
            command, "--layout", "dpcpp", "--dir", str(self.root), *arguments, expect=expect)

    def json_of(self, command, *arguments, expect=0):
        return json.loads(self.on_cache(command, "--json", *arguments, expect=expect).stdout)

    def listed_items(self):
        return [json.loads(line) for line in self.on_cache("ls", "--json").stdout.splitlines()]

    def kinds(self, *arguments, expect):
        """Returns what verify finds, by path."""
        report = self.json_of("verify", *arguments, expect=expect)
        found = {}
        for finding in report["findings"]:
            found.setdefault(finding["path"], []).append(finding["kind"])
        return found

    def repair(self, *arguments, expect=0):
        return self.json_of("verify", "--repair", "--yes", *arguments, expect=expect)

    def path_of(self, key, number=0):
        return f"{key.path()}/{number}"

    def assert_clean(self):
        self.assertEqual(self.kinds(expect=0), {})


class Reading(DpcppTest):
    def test_hash_is_that_of_libstdcxx(self):
        self.assertEqual(std_hash(b""), 6142509188972423790)
        self.assertEqual(std_hash(b"a"), 4993892634952068459)

    def test_paths_of_keys_of_all_lengths_are_right(self):
        for length in (*range(40), 16383, 16384, 16385, 40001):
            text = bytes((7 * i + length) % 256 for i in range(length))
            self.own.put(Key(SPIRV + text, device=text, constants=text[::-1], options=text[1:]))
        report = self.json_of("verify")
        self.assertEqual((report["checked"], report["ok"]), (44, 44))
        self.assertEqual(report["findings"], [])

    def test_ls_and_show(self):
        key = Key(SPIRV + b"abc", constants=b"\0\1", options=b"-O3 -g")
        self.own.put(key, used_ns=1_700_000_000 * 10**9)
        self.own.put(image(2))
        newest, oldest = self.listed_items()
        self.assertEqual(newest["path"], self.path_of(image(2)))
        self.assertEqual(oldest["path"], self.path_of(key))
        self.assertEqual(oldest["options"], "-O3 -g")
        self.assertEqual(oldest["device"], key.device.decode())
        self.assertEqual(oldest["last_used"], 1_700_000_000)
        self.assertEqual(oldest["bytes"], len(key.payload()))
        self.assertEqual(oldest["state"], "ok")
        self.assertIn(b"2023-11-14 22:13:20", self.on_cache("ls").stdout)

        for name in oldest["id"], oldest["id"][:6], oldest["path"]:
            shown = self.json_of("show", name)
            self.assertEqual(shown["path"], oldest["path"])
        self.assertEqual(shown["format"], "ELF")
        self.assertEqual(shown["image_format"], "SPIR-V")
        self.assertEqual(shown["constant_bytes"], 2)
        self.assertEqual(shown["image_bytes"], 7)
        self.assertTrue(shown["has_stamp"])
        self.assertIn(b"-O3 -g", self.on_cache("show", oldest["id"]).stdout)
        self.assertEqual(self.on_cache("show", "--source", oldest["id"]).stdout, key.images)
        self.assertEqual(
            self.on_cache("show", "--payload", "-", oldest["id"]).stdout, key.payload())
        out = Path(self.scratch) / "code"
        self.on_cache("show", "--payload", str(out), oldest["id"])
        self.assertEqual(out.read_bytes(), key.payload())

    def test_show_of_what_is_not_there(self):
        self.own.put(image(1))
        self.on_cache("show", "0" * 16, expect=1)
        self.on_cache("show", "", expect=1)

    def test_items_without_keys(self):
        self.own.put_source(b"device", b"-O", b"kernel void f() {}")
        self.own.put_ir("q" * 43 + "=")
        listed = {item["kind"]: item for item in self.listed_items()}
        self.assertEqual(set(listed), {"source", "ir"})
        shown = self.json_of("show", listed["ir"]["id"])
        self.assertEqual(shown["format"], "LLVM bitcode")
        self.on_cache("show", "--source", listed["ir"]["id"], expect=1)
        self.assert_clean()

    def test_items_of_older_runtimes(self):
        """Older runtimes kept a binary for each device, and recorded no time of use."""
        stem = self.own.put(image(1))
        Path(f"{stem}.bin").write_bytes(binary_file(b"first", b"second"))
        Path(f"{stem}_access_time.txt").unlink()
        self.assert_clean()
        (item,) = self.listed_items()
        self.assertEqual(item["bytes"], len(b"first"))
        self.assertAlmostEqual(item["last_used"], time.time(), delta=60)
        self.assertEqual(self.json_of("show", item["id"])["binaries"], 2)

    def test_no_cache(self):
        self.assertEqual(self.listed_items(), [])
        self.assertEqual(self.json_of("verify")["checked"], 0)
        self.repair()
        self.json_of("trim", "--max-size", "0", "--yes")
        self.assertFalse(self.root.exists())

    def test_default_directory(self):
        self.own.put(image(1))
        home = Path(self.scratch) / "home"
        (home / ".cache").mkdir(parents=True)
        shutil.copytree(self.root, home / ".cache/libsycl_cache")
        for variables in (
                {"SYCL_CACHE_DIR": str(self.root)},
                {"HOME": str(home)},
                {"XDG_CACHE_HOME": str(home / ".cache"), "HOME": "/nowhere"}):
            environment = {k: v for k, v in self.environment.items() if k != "HOME"}
            result = self.kiln(
                "ls", "--layout", "dpcpp", "--json", env=environment | variables)
            self.assertEqual(len(result.stdout.splitlines()), 1, variables)

    def test_wrong_usage(self):
        for arguments in (
                ["ls", "--layout", "nonsense"], ["verify", "--layout", "dpcpp", "--grace", "x"],
                ["trim", "--layout", "dpcpp"], ["verify", "--repair"],
                ["verify", "--layout", "dpcpp", "--yes"],
                ["trim", "--layout", "dpcpp", "--max-size", "1X"],
                ["trim", "--layout", "dpcpp", "--max-size", "M"],
                ["trim", "--layout", "dpcpp", "--max-size", "99999999999999999999"],
                ["trim", "--layout", "dpcpp", "--max-size", "99999999999T"],
                ["trim", "--layout", "dpcpp", "--older-than", "-1"],
                ["trim", "--layout", "dpcpp", "--older-than", "0"],
                ["trim", "--layout", "dpcpp", "--older-than", "3x"],
                ["show", "--layout", "dpcpp", "--log", "abcd"]):
            with self.subTest(arguments):
                self.kiln(*arguments, expect=2)

    def test_nothing_is_changed_without_yes(self):
        """Not even access times change."""
        self.own.put(image(1))
        stem = self.own.put(image(2))
        os.truncate(f"{stem}.bin", 20)
        self.own.put(image(2))
        stale_lock(self.own.put(image(3)))
        stale_lock(self.root / "cache_size.txt")
        stale_lock(Path(f"{self.root}_eviction_in_progress"))
        (self.root / "cache_size.txt").write_text("nonsense")
        (self.root / "1/2").mkdir(parents=True)
        for path in self.root.parent.rglob("*"):
            make_old(path)
        before = snapshot(self.root)
        first, *_ = self.listed_items()
        self.on_cache("ls")
        self.on_cache("show", first["id"])
        self.on_cache("show", "--payload", "-", first["id"])
        self.on_cache("verify", expect=5)
        self.on_cache("verify", "--json", expect=5)
        self.on_cache("verify", "--repair", expect=5)
        self.on_cache("verify", "--repair", "--grace", "0", expect=5)
        self.on_cache("trim", "--max-size", "0")
        self.on_cache("trim", "--older-than", "1s")
        self.assertEqual(snapshot(self.root), before)


class Damages(DpcppTest):
    def test_every_length_of_every_file(self):
        stem = self.own.put(image(0))
        lengths = {".bin": os.stat(f"{stem}.bin").st_size, ".src": os.stat(f"{stem}.src").st_size}
        wanted = {}
        for ending, length in lengths.items():
            for cut in range(length):
                key = image(len(wanted) + 1000)
                self.own.put(key)
                if cut < os.stat(f"{self.own.stem(key)}{ending}").st_size:
                    os.truncate(f"{self.own.stem(key)}{ending}", cut)
                wanted[self.path_of(key)] = ["bad" + ending.replace(".", "-")]
        self.assertEqual(self.kinds(expect=5), wanted)
        self.assertEqual(self.repair()["removed"], len(wanted))
        self.assert_clean()
        self.assertEqual(self.own.get(image(0)), image(0).payload())

    def test_every_byte_of_a_key_and_of_the_lengths_of_code(self):
        wanted = {}
        for ending, length in ((".src", len(image(1000).source())), (".bin", 16)):
            for place in range(length):
                key = image(len(wanted) + 1000)
                file = Path(f"{self.own.put(key)}{ending}")
                content = bytearray(file.read_bytes())
                content[place] ^= 1 << place % 8
                file.write_bytes(content)
                wanted[self.path_of(key)] = ["bad" + ending.replace(".", "-")]
        self.assertEqual(self.kinds(expect=5), wanted)
        self.repair()
        self.assertEqual(self.listed_items(), [])

    def test_more_bytes_than_there_should_be(self):
        for number, ending in enumerate((".bin", ".src")):
            with open(f"{self.own.put(image(number))}{ending}", "ab") as file:
                file.write(b"\0")
        self.assertEqual(
            self.kinds(expect=5),
            {self.path_of(image(0)): ["bad-bin"], self.path_of(image(1)): ["bad-src"]})

    def test_impossible_binaries(self):
        contents = (
            binary_file(), binary_file(b""), struct.pack("<QQ", 1 << 63, 1),
            struct.pack("<QQ", 1, (1 << 64) - 1) + b"x", binary_file(b"one", b""), b"\0" * 4096)
        for number, content in enumerate(contents):
            Path(f"{self.own.put(image(number))}.bin").write_bytes(content)
        found = self.kinds(expect=5)
        self.assertEqual(len(found), len(contents))
        self.assertEqual(set(map(tuple, found.values())), {("bad-bin",)})

    def test_sparse_giants_cost_nothing(self):
        stem = self.own.put(image(1))
        os.truncate(f"{stem}.bin", 1 << 40)
        os.truncate(f"{stem}.src", 1 << 40)
        started = time.monotonic()
        self.assertEqual(self.kinds(expect=5), {self.path_of(image(1)): ["bad-bin", "bad-src"]})
        self.assertLess(time.monotonic() - started, 30)

    def test_copies_behind_a_truncated_one(self):
        for _ in range(4):
            self.own.put(image(1))
        os.truncate(f"{self.own.stem(image(1))}.bin", 30)
        self.assertIsNone(self.own.get(image(1)))
        self.assertEqual(
            self.kinds(expect=5),
            {self.path_of(image(1), 0): ["bad-bin"], self.path_of(image(1), 1): ["unreachable"],
             self.path_of(image(1), 2): ["copy"], self.path_of(image(1), 3): ["copy"]})
        report = self.repair()
        self.assertEqual(report["removed"], 3)
        self.assertTrue(all(finding["repaired"] for finding in report["findings"]))
        self.assertEqual(self.own.get(image(1)), image(1).payload())
        self.assertEqual(
            sorted(os.listdir(self.root / image(1).path())),
            ["0.bin", "0.src", "0_access_time.txt"])
        self.assert_clean()

    def test_holes(self):
        self.own.put(image(1), number=2, used_ns=123)
        self.assertIsNone(self.own.get(image(1)))
        self.assertEqual(self.kinds(expect=5), {self.path_of(image(1), 2): ["unreachable"]})
        self.repair()
        self.assertEqual(self.own.get(image(1)), image(1).payload())
        self.assertEqual(
            Path(f"{self.own.stem(image(1))}_access_time.txt").read_text(), "123")
        self.assert_clean()

    def test_halves(self):
        for number, ending in enumerate((".bin", ".src")):
            Path(f"{self.own.put(image(number))}{ending}").unlink()
        self.assertEqual(
            self.kinds(expect=5),
            {self.path_of(image(0)): ["half"], self.path_of(image(1)): ["half"]})
        self.assertEqual({item["state"] for item in self.listed_items()}, {"half"})
        self.repair()
        self.assertEqual(os.listdir(self.root), [])

    def test_stamps(self):
        stem = self.own.put(image(1))
        stamp = Path(f"{stem}_access_time.txt")
        for content in ("", "x", "12x", "1" * 30, "-1", "0123"):
            stamp.write_text(content)
            os.utime(f"{stem}.bin", ns=(5, 1_700_000_000_000_000_123))
            self.assertEqual(self.kinds(expect=5), {self.path_of(image(1)): ["bad-stamp"]})
            self.repair()
            self.assertEqual(stamp.read_text(), "1700000000000000123")

    def test_leftovers(self):
        """Tests directories that the runtime's own eviction leaves, or whose items were never
        written."""
        stem = self.own.put(image(1))
        Path(f"{stem}.bin").unlink()
        Path(f"{stem}.src").unlink()
        (self.root / "1/2/3/4").mkdir(parents=True)
        (self.root / "5").mkdir()
        for path in self.root.rglob("*"):
            make_old(path)
        self.assertEqual(
            self.kinds(expect=0),
            {self.path_of(image(1)): ["leftover"], "1/2/3/4": ["leftover"], "5": ["leftover"]})
        self.repair()
        self.assertEqual(os.listdir(self.root), [])

    def test_new_directories_stay(self):
        (self.root / "1/2/3/4").mkdir(parents=True)
        self.repair()
        self.assertTrue((self.root / "1/2/3/4").is_dir())

    def test_size(self):
        self.own.put(image(1))
        size = self.root / "cache_size.txt"
        for content, kind, exit_code in (
                ("nonsense", "bad-size", 5), ("", "bad-size", 5), ("3", "wrong-size", 0)):
            size.write_text(content)
            self.assertEqual(self.kinds(expect=exit_code), {"cache_size.txt": [kind]})
            self.repair()
            self.assertEqual(size.read_text(), str(self.own.size()))
        self.assertFalse(lock_of(size).exists())
        self.assert_clean()

    def test_size_follows_what_is_removed(self):
        self.own.put(image(1))
        os.truncate(f"{self.own.put(image(2))}.bin", 3)
        size = self.root / "cache_size.txt"
        size.write_text(str(self.own.size()))
        self.repair()
        self.assertEqual(size.read_text(), str(self.own.size()))

    def test_items_of_the_kernel_compiler(self):
        first = self.own.put_source(b"d", b"o", b"s")
        self.own.put_source(b"d", b"o", b"s", number=1)
        ir = self.own.put_ir("A" * 86 + "==")
        os.truncate(f"{first}.bin", 17)
        os.truncate(f"{ir}.bin", 17)
        self.assertEqual(
            sorted(kind for kinds in self.kinds(expect=5).values() for kind in kinds),
            ["bad-bin", "bad-bin", "unreachable"])
        self.repair()
        self.assertEqual(sorted(os.listdir(first.parent)), ["0.bin", "0_access_time.txt"])
        self.assertFalse(ir.parent.exists())
        self.assert_clean()

    def test_keys_of_one_path(self):
        """Both items are kept, and neither is moved to a number that the other may have had."""
        text = b"sixteen letters."
        one, other = Key(text), Key(collision_of(text))
        self.assertEqual(one.path(), other.path())
        self.assertNotEqual(one.source(), other.source())
        self.own.put(one)
        self.own.put(other)
        self.assert_clean()
        stale_lock(self.own.stem(other, 1))
        self.repair()
        self.assertEqual(self.own.get(one), one.payload())
        self.assertEqual(self.own.get(other), other.payload())
        third = self.own.put(other)
        self.assertEqual(third.name, "2")
        os.truncate(f"{self.own.stem(one, 0)}.bin", 5)
        self.own.put(one)
        self.repair()
        self.assert_clean()
        for key in one, other:
            self.assertIn(self.own.get(key), (None, key.payload()))


class Locks(DpcppTest):
    def test_stale_lock_of_an_item(self):
        stale_lock(self.own.put(image(1)))
        self.assertIsNone(self.own.get(image(1)))
        self.assertEqual(self.kinds(expect=5), {self.path_of(image(1)): ["stale-lock"]})
        self.repair()
        self.assertEqual(self.own.get(image(1)), image(1).payload())
        self.assert_clean()

    def test_stale_lock_without_an_item_hides_those_above(self):
        self.own.put(image(1), number=1)
        stale_lock(self.own.stem(image(1), 0))
        self.assertIsNone(self.own.get(image(1)))
        self.assertEqual(
            self.kinds(expect=5),
            {self.path_of(image(1), 0): ["stale-lock"], self.path_of(image(1), 1): ["unreachable"]})
        self.repair()
        self.assertEqual(self.own.get(image(1)), image(1).payload())

    def test_half_an_item_under_a_stale_lock(self):
        stem = self.own.put(image(1))
        Path(f"{stem}.src").unlink()
        os.truncate(f"{stem}.bin", 100)
        stale_lock(stem)
        self.own.put(image(2))
        self.repair()
        self.assertFalse(stem.parent.exists())
        self.assert_clean()

    def test_a_stale_lock_that_hides_a_torn_item(self):
        """If one of the locks cannot be taken over, the repair changes nothing, and the locks that
        it took over before stay."""
        for ending in (".bin", ".src"):
            stem = self.own.put(image(1), number=0)
            self.own.put(image(1), number=1)
            os.truncate(f"{stem}{ending}", 30)
            stale_lock(stem)
            lock_of(self.own.stem(image(1), 1)).symlink_to("nowhere")
            before = {name: facts[0] for name, facts in snapshot(self.root).items()}
            self.repair(expect=5)
            self.assertEqual(
                {name: facts[0] for name, facts in snapshot(self.root).items()}, before)
            lock_of(self.own.stem(image(1), 1)).unlink()
            self.repair()
            self.assertEqual(self.own.get(image(1)), image(1).payload())
            self.assert_clean()

    def test_a_lock_that_another_kiln_took_over(self):
        stem = self.own.put(image(1))
        os.truncate(f"{stem}.bin", 30)
        size_lock = lock_of(self.root / "cache_size.txt")
        for name in stem, self.root / "cache_size.txt":
            lock = stale_lock(name)
            os.chmod(lock, 0o600)
            with open(lock, "wb") as file:
                fcntl.fcntl(file, F_OFD_SETLK, WHOLE_FILE)
                make_old(lock)
                report = self.repair(expect=5)
                self.assertTrue(lock.exists())
                held = "cache_size.txt.lock" if lock == size_lock else self.path_of(image(1))
                repaired = {finding["path"]: finding["repaired"] for finding in report["findings"]}
                self.assertFalse(repaired[held])
        self.repair()
        self.assertEqual(list(self.root.rglob("*.lock")), [])

    def test_a_lock_that_holds_something_is_not_the_runtimes(self):
        stem = self.own.put(image(1))
        lock_of(stem).write_text("mine")
        make_old(lock_of(stem))
        self.assertEqual(
            self.kinds("--repair", "--yes", "--grace", "0", expect=0),
            {self.path_of(image(1)): ["in-use"]})
        self.assertEqual(lock_of(stem).read_text(), "mine")

    def test_a_size_that_is_being_written(self):
        """The runtime empties the file, and writes it under its lock."""
        self.own.put(image(1))
        (self.root / "cache_size.txt").touch()
        self.assertTrue(try_lock(self.root / "cache_size.txt"))
        self.assertEqual(self.kinds(expect=0), {"cache_size.txt.lock": ["in-use"]})

    def test_a_number_that_cannot_be_written(self):
        """The file stays as it was, because an empty file would be worse than a wrong number."""
        self.own.put(image(1))
        size = self.root / "cache_size.txt"
        size.write_text("3")

        def forbid_writing():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        result = self.kiln(
            "verify", "--layout", "dpcpp", "--dir", str(self.root), "--repair", "--yes",
            expect=4, preexec_fn=forbid_writing)
        self.assertIn(b"cache_size.txt: File too large", result.stderr)
        self.assertEqual(size.read_text(), "3")
        self.assertFalse(lock_of(size).exists())

    def test_stale_lock_of_a_stamp(self):
        stem = self.own.put(image(1))
        lock = stale_lock(Path(f"{stem}_access_time.txt"))
        self.assertEqual(self.kinds(expect=5), {self.path_of(image(1)): ["stale-lock"]})
        self.repair()
        self.assertFalse(lock.exists())
        self.assertEqual(self.own.get(image(1)), image(1).payload())

    def test_locks_of_the_root(self):
        self.own.put(image(1))
        (self.root / "cache_size.txt").write_text(str(self.own.size()))
        locks = [
            stale_lock(self.root / "cache_size.txt"),
            stale_lock(Path(f"{self.root}_eviction_in_progress")),
            stale_lock(self.root / "_eviction_in_progress")]
        found = self.kinds(expect=5)
        self.assertEqual(
            found, {"cache_size.txt.lock": ["stale-lock"], str(locks[1]): ["stale-lock"],
                    "_eviction_in_progress.lock": ["stale-lock"]})
        self.repair()
        self.assertFalse(any(lock.exists() for lock in locks))
        self.assert_clean()

    def test_what_is_in_use_is_left(self):
        """Tests an item that is being written beside a damaged one, and a lock of the size that is
        held."""
        damaged = self.own.put(image(1))
        os.truncate(f"{damaged}.bin", 10)
        stale_lock(damaged)
        being_written = self.own.stem(image(1), 1)
        self.assertTrue(try_lock(being_written))
        Path(f"{being_written}.bin").write_bytes(b"half")
        (self.root / "cache_size.txt").write_text("7")
        self.assertTrue(try_lock(self.root / "cache_size.txt"))
        self.assertTrue(try_lock(f"{self.root}_eviction_in_progress"))
        before = {name: facts[0] for name, facts in snapshot(self.root).items()}
        report = self.repair(expect=5)
        self.assertEqual(report["removed"], 0)
        self.assertEqual({name: facts[0] for name, facts in snapshot(self.root).items()}, before)
        self.json_of("trim", "--max-size", "0", "--yes")
        self.assertEqual({name: facts[0] for name, facts in snapshot(self.root).items()}, before)
        # The lock's owner was killed. Once the lock is known to be abandoned, the tool does not
        # wait for it.
        self.repair("--grace", "0")
        self.assert_clean()
        self.assertEqual((self.root / "cache_size.txt").read_text(), "0")

    def test_caches_of_others_are_read_and_failures_named(self):
        stem = self.own.put(image(1))
        os.truncate(f"{stem}.bin", 10)
        stem.parent.chmod(0o555)
        self.addCleanup(stem.parent.chmod, 0o700)
        options = {}
        if os.geteuid() == 0:
            options.update(tool=self.in_reach_of_others(), user=65534)
        arguments = "verify", "--layout", "dpcpp", "--dir", str(self.root)
        self.kiln(*arguments, expect=5, **options)
        result = self.kiln(*arguments, "--repair", "--yes", expect=4, **options)
        self.assertIn(b"Permission denied", result.stderr)
        self.assertTrue(Path(f"{stem}.bin").exists())
        self.assertFalse(lock_of(stem).exists())


class OthersFiles(DpcppTest):
    def test_what_is_not_of_the_format_stays(self):
        outside = Path(self.scratch) / "outside"
        outside.mkdir()
        precious = outside / "0.bin"
        precious.write_bytes(b"precious")
        stem = self.own.put(image(1))
        folder = stem.parent
        os.truncate(f"{stem}.bin", 10)
        for name in ("00.bin", "-1.bin", "0.bin~", "0.BIN", "x.src", "ir.bin", "1.bin.lock",
                     "99999999999999999999.bin", "18446744073709551615.bin", "0.txt"):
            (folder / name).write_bytes(b"mine")
        (folder / "7.bin").symlink_to(precious)
        (folder / "8.bin").mkdir()
        os.mkfifo(folder / "9.bin")
        (self.root / "notes.txt").write_text("mine")
        (self.root / "0123").mkdir()
        (self.root / "12").symlink_to(outside)
        deep = self.root / "3/4/5"
        deep.mkdir(parents=True)
        (deep / "6").symlink_to(outside)
        (self.root / "ext_kernel_compiler").mkdir()
        (self.root / "ext_kernel_compiler/some").mkdir()
        before = {str(path) for path in self.root.rglob("*")}
        found = self.kinds(expect=5)
        others = {path for path, kinds in found.items() if kinds == ["other-file"]}
        self.assertEqual(len(others), 18, others)
        self.repair("--grace", "0")
        self.json_of("trim", "--max-size", "0", "--yes", "--grace", "0")
        gone = before - {str(path) for path in self.root.rglob("*")}
        self.assertEqual(gone, {f"{stem}.bin", f"{stem}.src", f"{stem}_access_time.txt"})
        self.assertEqual(precious.read_bytes(), b"precious")

    def test_locks_that_are_links_stay(self):
        stem = self.own.put(image(1))
        target = Path(self.scratch) / "target"
        target.write_text("kept")
        for link in lock_of(stem), self.root / "cache_size.txt", self.root / "cache_size.txt.lock":
            link.symlink_to(target)
            make_old(link)
        self.repair("--grace", "0")
        self.json_of("trim", "--max-size", "0", "--yes", "--grace", "0")
        self.assertTrue(lock_of(stem).is_symlink())
        self.assertEqual(target.read_text(), "kept")
        self.assertEqual(self.own.get(image(1)), None)

    def test_caches_of_another_library_stay(self):
        """A library with a different hash: the path cannot be checked."""
        folder = self.root / "11/12/13/14"
        folder.mkdir(parents=True)
        (folder / "0.bin").write_bytes(binary_file(b"code"))
        (folder / "0.src").write_bytes(image(1).source())
        self.assertEqual(self.kinds(expect=0), {"11/12/13/14/0": ["foreign-key"]})
        before = snapshot(self.root)
        self.repair()
        self.json_of("trim", "--max-size", "0", "--yes")
        self.assertEqual(snapshot(self.root), before)

    def test_stale_locks_of_another_library_are_removed_if_they_hide_whole_items(self):
        folder = self.root / "11/12/13/14"
        folder.mkdir(parents=True)
        for number in range(2):
            (folder / f"{number}.bin").write_bytes(binary_file(b"code"))
            (folder / f"{number}.src").write_bytes(image(number).source())
        lock = stale_lock(folder / "0")
        os.truncate(folder / "1.bin", 10)
        self.repair(expect=5)
        self.assertTrue(lock.exists())
        (folder / "1.bin").write_bytes(binary_file(b"code"))
        self.repair()
        self.assertFalse(lock.exists())
        self.assertEqual(len(os.listdir(folder)), 4)

    def test_names_alone_prove_nothing(self):
        """Tests a user's own files with such names, and items of a later format."""
        future = self.own.stem(image(1))
        future.parent.mkdir(parents=True)
        Path(f"{future}.bin").write_bytes(b"DPC2" + image(1).payload())
        Path(f"{future}.src").write_bytes(b"DPC2" + image(1).source())
        photos = self.root / "2026/11/21/4"
        photos.mkdir(parents=True)
        (photos / "0.bin").write_bytes(b"a photo")
        (photos / "1_access_time.txt").write_text("yesterday")
        (self.root / "2026/12/1/1").mkdir(parents=True)
        (self.root / "cache_size.txt").write_text("many")
        for path in self.root.rglob("*"):
            make_old(path)
        before = snapshot(self.root)
        result = self.on_cache("verify", "--repair", "--yes", "--grace", "0", expect=5)
        self.assertIn(b"no item is whole", result.stderr)
        self.on_cache("trim", "--max-size", "0", "--yes", "--grace", "0")
        self.assertEqual(snapshot(self.root), before)

    def test_empty_items_are_removed_if_the_path_is_the_runtimes(self):
        """A power cut may leave all files empty."""
        stems = [self.own.put(image(1)), self.own.put_source(b"device", b"-O", b"source")]
        for stem in stems:
            for file in stem.parent.iterdir():
                os.truncate(file, 0)
        strange = self.own.stem(image(2))
        strange.parent.mkdir(parents=True)
        Path(f"{strange}.bin").write_bytes(b"DPC2 and more")
        self.repair(expect=5)
        self.assertTrue(all(Path(f"{stem}.bin").exists() for stem in stems))
        shutil.rmtree(strange.parent)
        self.repair()
        self.assertFalse(any(stem.parent.exists() for stem in stems))

    def test_a_root_that_is_a_link(self):
        self.own.put(image(1))
        link = Path(self.scratch) / "link"
        link.symlink_to(self.root)
        self.root = link
        self.assertEqual(len(self.listed_items()), 1)


class Trim(DpcppTest):
    def setUp(self):
        super().setUp()
        self.now_ns = time.time_ns()
        for day in range(10):
            self.own.put(image(day), used_ns=self.now_ns - day * DAY_NS - 3600 * 10**9)
        self.item_bytes = self.own.size() // 10
        (self.root / "cache_size.txt").write_text(str(self.own.size()))

    def left(self):
        return {day for day in range(10) if self.own.get(image(day)) is not None}

    def test_by_size(self):
        self.assertEqual(
            self.json_of("trim", "--max-size", str(4 * self.item_bytes))["chosen"], 6)
        self.assertEqual(len(self.left()), 10)
        report = self.json_of("trim", "--max-size", str(4 * self.item_bytes), "--yes")
        self.assertEqual(report["removed"], 6)
        self.assertEqual(report["removed_bytes"], 6 * self.item_bytes)
        self.assertEqual(self.left(), {0, 1, 2, 3})
        self.assertEqual((self.root / "cache_size.txt").read_text(), str(4 * self.item_bytes))
        self.assertEqual(len(list(self.root.rglob("*_access_time.txt"))), 4)
        self.assert_clean()

    def test_by_age(self):
        self.json_of("trim", "--older-than", "74h", "--yes")
        self.assertEqual(self.left(), {0, 1, 2, 3})
        self.json_of("trim", "--older-than", "3", "--yes")
        self.assertEqual(self.left(), {0, 1, 2})

    def test_by_both(self):
        self.json_of("trim", "--older-than", "8", "--max-size", "1G", "--yes")
        self.assertEqual(self.left(), set(range(8)))
        self.json_of("trim", "--older-than", "8", "--max-size", "0", "--yes")
        self.assertEqual(self.left(), set())
        self.assertEqual(os.listdir(self.root), ["cache_size.txt"])

    def test_nothing_to_do(self):
        self.assertEqual(self.json_of("trim", "--max-size", "1T", "--yes")["removed"], 0)
        self.assertEqual(self.json_of("trim", "--older-than", "99999999", "--yes")["removed"], 0)
        self.assertEqual(len(self.left()), 10)

    def test_items_of_one_moment(self):
        """Copying a cache leaves equal times: no more items are removed than necessary."""
        for stamp in self.root.rglob("*_access_time.txt"):
            stamp.write_text("1700000000000000000")
        self.assertEqual(
            self.json_of("trim", "--max-size", str(4 * self.item_bytes))["chosen"], 6)
        report = self.json_of("trim", "--max-size", str(4 * self.item_bytes), "--yes")
        self.assertEqual((report["chosen"], report["removed"]), (6, 6))
        self.assertEqual(len(self.left()), 4)
        self.assert_clean()

    def test_it_repairs_too(self):
        os.truncate(f"{self.own.stem(image(0))}.bin", 10)
        self.own.put(image(0), used_ns=self.now_ns)
        told = self.on_cache("trim", "--max-size", "1T").stdout
        self.assertIn(b"0 items would be removed, 0 B; 3 findings would be repaired\n", told)
        self.json_of("trim", "--max-size", "1T", "--yes")
        self.assertEqual(len(self.left()), 10)
        self.assert_clean()
        self.assertEqual(self.on_cache("trim", "--max-size", "1T").stderr, b"")


# ---- programs that use the cache meanwhile ----


def use_cache(root, seed, until, wrong):
    """Reads and writes items as the runtime does, and sometimes dies half-way."""
    chance = random.Random(seed)
    own = Cache(root)
    while time.time() < until:
        key = image(chance.randrange(6))
        try:
            found = own.get(key)
            if found is None:
                own.put(key)
            elif found != key.payload():
                wrong.value += 1
            if chance.random() < 0.05:
                binary = f"{own.stem(key)}.bin"
                os.truncate(binary, min(chance.randrange(300), os.stat(binary).st_size))
            elif chance.random() < 0.05:
                number = chance.randrange(3)
                if try_lock(own.stem(key, number)):
                    make_old(lock_of(own.stem(key, number)))
        except FileNotFoundError:
            pass  # the directory was removed between two calls: the runtime then drops its item


class Meanwhile(DpcppTest):
    def test_programs_get_nothing_wrong(self):
        """Programs get no wrong code, even if the tool is killed."""
        wrong = multiprocessing.Value("i", 0)
        until = time.time() + 4
        users = [
            multiprocessing.Process(target=use_cache, args=(self.root, seed, until, wrong))
            for seed in range(3)]
        for user in users:
            user.start()
        rounds = 0
        while time.time() < until:
            result = self.kiln_any("verify", "--repair", "--yes")
            self.assertIn(result.returncode, (0, 5), result.stderr)
            self.kill_a_repair()
            rounds += 1
        for user in users:
            user.join()
        self.assertEqual([user.exitcode for user in users], [0, 0, 0])
        self.assertEqual(wrong.value, 0)
        self.assertGreater(rounds, 3)
        self.repair("--grace", "0")
        self.assert_clean()

    def kill_a_repair(self):
        tool = subprocess.Popen(
            [cli.KILN, "verify", "--repair", "--yes", "--layout", "dpcpp", "--dir", self.root],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        time.sleep(random.uniform(0, 0.01))
        tool.kill()
        tool.wait()

    def kiln_any(self, command, *arguments):
        return subprocess.run(
            [cli.KILN, command, "--layout", "dpcpp", "--dir", str(self.root), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment, timeout=60)


if __name__ == "__main__":
    cli.main()
