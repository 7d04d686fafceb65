# SPDX-License-Identifier: Apache-2.0
"""Stores in temporary folders."""

import glob
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import unittest

import kiln
from package import PackageTest, key_of

HOLDER = """
import sys, kiln
store = kiln.Store(sys.argv[1])
lease = store.lease(kiln.Key({"name": "held"}))
print("held", flush=True)
sys.stdin.read()
"""


class StoreTest(PackageTest):
    def entry_files(self):
        return [path for path in glob.glob(self.location + "/**", recursive=True)
                if os.path.isfile(path) and os.path.getsize(path) > 4000]

    def test_put_get_contains_remove(self):
        store = self.open()
        key = key_of("a")
        self.assertIsNone(store.get(key))
        self.assertFalse(store.contains(key))
        self.assertFalse(store.remove(key))
        self.assertTrue(store.put(kiln.Entry(key, b"payload", name="n", build_ns=7)))
        self.assertTrue(store.contains(key))
        found = self.open().get(key)
        self.assertEqual((bytes(found.payload), found.name, found.build_ns, found.key),
                         (b"payload", "n", 7, key))
        self.assertIsNone(store.get(key_of("b")))
        self.assertTrue(store.remove(key))
        self.assertIsNone(store.get(key))

    def test_get_many(self):
        store = self.open()
        store.put(kiln.Entry(key_of("a"), b"payload"))
        found = store.get_many(key_of(name) for name in "bab")
        self.assertEqual([entry and bytes(entry) for entry in found], [None, b"payload", None])
        many = store.get_many([key_of("a")] * 1000)
        self.assertEqual({bytes(entry) for entry in many}, {b"payload"})
        self.assertEqual(store.get_many(()), [])
        for wrong in (None, key_of("a"), ["a"]):
            with self.subTest(wrong), self.assertRaises(TypeError):
                store.get_many(wrong)
        store.close()
        with self.assertRaises(ValueError):
            store.get_many([key_of("a")])

    def test_damaged_entries_are_misses_and_are_replaced(self):
        store = self.open()
        entry = kiln.Entry(key_of("a"), bytes(5000))
        store.put(entry)
        (path,) = self.entry_files()
        for damage in (lambda bytes_: bytes_[:-1], lambda bytes_: bytes_[:3000],
                       lambda bytes_: bytes_[:2000] + b"\1" + bytes_[2001:]):
            with open(path, "rb") as file:
                sound = file.read()
            with open(path, "wb") as file:
                file.write(damage(sound))
            self.assertIsNone(store.get(entry.key))
            store.put(entry)
            self.assertEqual(bytes(store.get(entry.key)), bytes(5000))
        store.close()
        self.assertGreaterEqual(self.open().stat().totals.corrupt, 3)

    def test_list(self):
        store = self.open()
        self.assertEqual(store.list(), [])
        keys = [key_of(str(number)) for number in range(100)]
        for key in keys:
            store.put(kiln.Entry(key, b"x" * 10, name="n é", device="d", tool="t", build_ns=3))
        items = store.list()
        self.assertEqual({item.digest for item in items}, {key.digest for key in keys})
        for item in items:
            self.assertEqual((item.state, item.kind, item.name, item.device, item.tool, item.bytes,
                              item.build_ns), ("ok", "blob", "n é", "d", "t", 10, 3))
            self.assertTrue(os.path.isfile(os.path.join(self.location, item.path)), item.path)
            self.assertGreater(item.stored_bytes, 10)
            self.assertGreater(item.last_used_s, 1_600_000_000)

    def test_stat(self):
        store = self.open(max_bytes=123 << 20)
        for number in range(3):
            store.put(kiln.Entry(key_of(str(number)), bytes(100)))
        for exact in (False, True):
            stat = store.stat(exact=exact)
            self.assertEqual((stat.entries, stat.max_bytes), (3, 123 << 20))
            self.assertGreater(stat.bytes, 300)
            self.assertIsInstance(stat.totals, kiln.Stats)
        self.assertEqual(stat.totals.misses, 0)

    def test_count(self):
        program = """
import kiln
store = kiln.Store.from_environment()
store.count(hits_store=2, saved_ns=5, puts=1)
"""
        file = os.path.join(self.scratch, "counters")
        os.environ.update(KILN_DIR=self.location, KILN_STATS=file)
        self.addCleanup(os.environ.pop, "KILN_DIR")
        self.addCleanup(os.environ.pop, "KILN_STATS")
        self.run_python(program)
        totals = self.open().stat().totals
        self.assertEqual((totals.hits_store, totals.saved_ns, totals.puts), (2, 5, 0))
        self.assertTrue(os.path.getsize(file))
        for wrong in ({"hits": 1}, {"builds": -1}, {"builds": 2**64}, {"builds": "1"}):
            with self.assertRaises((TypeError, ValueError, OverflowError)):
                self.open().count(**wrong)

    def test_locations(self):
        for location in (self.location, os.fsencode(self.location), pathlib.Path(self.location),
                         "file://" + self.location + "?max-size=2G"):
            with kiln.Store(location) as store:
                self.assertEqual(os.fsencode(store.location), os.fsencode(location))
                self.assertTrue(os.path.isdir(self.location))
        before = os.getcwd()
        os.chdir(self.scratch)
        self.addCleanup(os.chdir, before)
        kiln.Store(pathlib.Path("./below")).close()
        self.assertTrue(os.path.isdir(os.path.join(self.scratch, "below")))
        with self.assertRaisesRegex(ValueError, "a|b"):
            kiln.Store(pathlib.Path("/a|b"))

    def test_errors_name_the_location(self):
        os.mkdir(self.location, mode=0o700)
        os.chmod(self.location, 0o777)
        for location, status in [
                (self.location, "KILN_E_DENIED"), ("below", "KILN_E_PARSE"),
                ("nothing://host", "KILN_E_UNSUPPORTED"),
                ("file://" + self.scratch + "?max-size=x", "KILN_E_PARSE")]:
            with self.subTest(location=location), self.assertRaises(kiln.Error) as caught:
                kiln.Store(location)
            self.assertEqual(caught.exception.status, status)
            self.assertEqual(str(caught.exception).count(location), 1)
            # multiprocessing transfers exceptions in this way.
            received = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((type(received), str(received), received.status,
                              received.system_error),
                             (kiln.Error, str(caught.exception), status,
                              caught.exception.system_error))
        with self.assertRaises(kiln.Error) as caught:
            kiln.Store(self.scratch + "/absent", create=False)
        self.assertIn("absent", str(caught.exception))
        for location in (3, None, "a\0b", object(), ["x"]):
            with self.subTest(location=location), self.assertRaises((TypeError, ValueError)):
                kiln.Store(location)
        for options in ({"max_bytes": 0}, {"max_bytes": -1}, {"max_bytes": 1.5},
                        {"max_bytes": True}, {"key_file": 3}, {"size": 1}):
            with self.subTest(options=options), self.assertRaises((TypeError, ValueError)):
                kiln.Store(self.scratch + "/b", **options)

    def test_a_read_only_store(self):
        entry = kiln.Entry(key_of("a"), b"x")
        self.open().put(entry)
        store = self.open(readonly=True)
        self.assertEqual(bytes(store.get(entry.key)), b"x")
        with self.assertRaisesRegex(kiln.Error, entry.key.digest) as caught:
            store.put(entry)
        self.assertEqual(caught.exception.status, "KILN_E_READONLY")
        self.assertIn(self.location, str(caught.exception))

    def test_signed_entries(self):
        key_file = os.path.join(self.scratch, "key")
        with open(os.open(key_file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))
        plain, signed = kiln.Entry(key_of("a"), b"x"), kiln.Entry(key_of("b"), b"y")
        self.open().put(plain)
        store = self.open(key_file=key_file)
        store.put(signed)
        self.assertIsNone(store.get(plain.key))
        self.assertTrue(store.get(signed.key).is_signed)

    def run_in_environment(self, program, settings):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("KILN_", "XDG_"))}
        return subprocess.run([sys.executable, "-c", program], timeout=60,
                              env={**environment, **settings}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def test_the_store_of_the_environment(self):
        program = ("import kiln; store = kiln.Store.from_environment(); "
                   "print(store and store.location)")
        for settings, printed in [({"KILN_DIR": self.location}, self.location),
                                  ({"KILN_DIR": self.location, "KILN_DISABLE": "1"}, "None"),
                                  ({"HOME": self.scratch}, self.scratch + "/.cache/kiln")]:
            result = self.run_in_environment(program, settings)
            self.assertEqual((result.stdout.decode().strip(), result.stderr), (printed, b""))
        result = self.run_in_environment(program, {"KILN_DIR": self.location,
                                                   "KILN_MAX_SIZE": "3X"})
        self.assertEqual(result.stdout.decode().strip(), self.location)
        self.assertRegex(result.stderr, b"RuntimeWarning: KILN_MAX_SIZE=3X")
        result = self.run_in_environment("import warnings; warnings.simplefilter('error');" +
                                         program, {"KILN_MAX_SIZE": "3X"})
        self.assertIn(b"RuntimeWarning", result.stderr)
        self.assertEqual((result.returncode, result.stdout), (1, b""))

    def test_a_closed_store(self):
        store = self.open()
        key = key_of("a")
        with store as same:
            self.assertIs(same, store)
            self.assertFalse(store.closed)
        self.assertTrue(store.closed)
        for call in (lambda: store.get(key), lambda: store.put(kiln.Entry(key, b"")), store.list,
                     store.stat, lambda: store.lease(key), lambda: store.remove(key),
                     lambda: store.contains(key),
                     lambda: kiln.Cache(store).get_or_build(key, bytes)):
            with self.assertRaisesRegex(ValueError, self.location):
                call()
        store.close()

    def test_wrong_types(self):
        store = self.open()
        for wrong in (None, 3, "key", kiln.Entry(key_of("a"), b""), store):
            for call in (store.get, store.remove, store.contains, store.lease):
                with self.assertRaises(TypeError):
                    call(wrong)
        for wrong in (None, b"", key_of("a")):
            with self.assertRaises(TypeError):
                store.put(wrong)


class LeaseTest(PackageTest):
    def test_one_holder(self):
        store = self.open()
        key = key_of("a")
        with store.lease(key) as lease:
            self.assertIsInstance(lease, kiln.Lease)
            self.assertIsNone(self.open().lease(key))
            self.assertIsNone(store.lease(key, wait=0.01))
            self.assertIsNotNone(store.lease(key_of("b")))
        lease.release()
        with store.lease(key, 0):
            pass

    def test_the_last_reference_releases(self):
        store = self.open()
        lease = store.lease(key_of("a"))
        del lease
        self.assertIsNotNone(store.lease(key_of("a")))

    def test_a_lease_keeps_its_store_open(self):
        store = self.open()
        lease = store.lease(key_of("a"))
        store.close()
        self.assertIsNone(self.open().lease(key_of("a")))
        lease.release()
        self.assertIsNotNone(self.open().lease(key_of("a")))

    def test_waits(self):
        store = self.open()
        for wait in (-1, float("nan"), "x", None):
            with self.subTest(wait=wait), self.assertRaises((ValueError, TypeError)):
                store.lease(key_of("a"), wait)
        lease = store.lease(key_of("a"))
        timer = threading.Timer(0.15, lease.release)
        timer.start()
        self.assertIsNotNone(store.lease(key_of("a"), wait=float("inf")))
        timer.join()

    def test_a_process_that_dies_releases(self):
        store = self.open()
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, self.location],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        self.assertIsNone(store.lease(key_of("held")))
        holder.kill()
        holder.communicate()
        self.assertIsNotNone(store.lease(key_of("held"), wait=30))

    def test_a_child_does_not_release_its_parents_lease(self):
        store = self.open()
        lease = store.lease(key_of("a"))
        child = os.fork()
        if child == 0:
            lease.release()
            os._exit(0 if store.lease(key_of("a")) is None else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIsNone(self.open().lease(key_of("a")))
        lease.release()


if __name__ == "__main__":
    unittest.main()
