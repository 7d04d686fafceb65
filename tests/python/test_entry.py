# SPDX-License-Identifier: Apache-2.0
"""Entries, and the lifetime of their payloads."""

import copy
import gc
import io
import pickle
import time
import tracemalloc
import unittest
import weakref

import kiln
from package import key_of

KEY = key_of("entry")


class EntryTest(unittest.TestCase):
    def test_fields_are_kept(self):
        entry = kiln.Entry(KEY, b"payload", name="matrix", device="cpu é", tool="cc 12",
                           metadata=b"\0meta", log="a\nb é", build_ns=5_000_000_000)
        self.assertEqual(entry.key, KEY)
        self.assertEqual((entry.kind, entry.name, entry.device, entry.tool),
                         ("blob", "matrix", "cpu é", "cc 12"))
        self.assertEqual((entry.metadata, entry.log), (b"\0meta", "a\nb é"))
        self.assertEqual(entry.build_ns, 5_000_000_000)
        self.assertLess(abs(entry.created_s - time.time()), 3600)
        self.assertFalse(entry.is_signed)
        self.assertEqual(repr(entry), "<kiln.Entry 'matrix', 7 bytes>")

    def test_defaults(self):
        entry = kiln.Entry(KEY, b"")
        self.assertEqual((entry.name, entry.device, entry.metadata, entry.log, entry.build_ns),
                         ("", "", b"", "", 0))
        self.assertIn("kiln", entry.tool)
        self.assertEqual((bytes(entry.payload), len(entry.payload)), (b"", 0))

    def test_the_payload_is_a_read_only_view(self):
        entry = kiln.Entry(KEY, bytearray(b"payload"))
        view = entry.payload
        self.assertEqual((view.readonly, view.format, view.ndim, view.itemsize, view.shape,
                          view.strides, view.contiguous, view.nbytes),
                         (True, "B", 1, 1, (7,), (1,), True, 7))
        self.assertIs(view.obj, entry)
        with self.assertRaises(TypeError):
            view[0] = 1
        with self.assertRaises((BufferError, TypeError)):
            io.BytesIO(b"changed").readinto(entry)
        self.assertEqual(bytes(entry), b"payload")

    def test_the_payload_is_not_copied(self):
        entry = kiln.Entry(KEY, b"x" * 10_000_000)
        tracemalloc.start()
        views = [entry.payload for _ in range(10)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertEqual(sum(view.nbytes for view in views), 100_000_000)
        self.assertLess(peak, 1_000_000)

    def test_views_outlive_entries(self):
        part = kiln.Entry(KEY, bytes(range(256)) * 4096).payload[256:512].cast("H")
        gc.collect()
        for _ in range(50):  # these entries would reuse the memory if it had been freed
            kiln.Entry(KEY, b"\xff" * 4096 * 256)
        self.assertEqual(part.tobytes(), bytes(range(256)))

    def test_errors(self):
        for arguments, error in [
                ((), TypeError), ((KEY,), TypeError), (("key", b""), TypeError),
                ((KEY, "text"), TypeError), ((KEY, 3), TypeError), ((KEY, [1]), TypeError),
                ((KEY, None), TypeError), ((KEY, b"", "name"), TypeError)]:
            with self.subTest(arguments=arguments), self.assertRaises(error):
                kiln.Entry(*arguments)
        for options, error in [
                ({"name": "a\0b"}, ValueError), ({"name": b"x"}, TypeError),
                ({"log": "\ud800"}, ValueError), ({"metadata": "x"}, TypeError),
                ({"build_ns": -1}, ValueError), ({"build_ns": 2**64}, ValueError),
                ({"build_ns": 1.5}, TypeError), ({"size": 1}, TypeError)]:
            with self.subTest(options=options), self.assertRaises(error):
                kiln.Entry(KEY, b"", **options)

    def test_objects_are_not_made_behind_the_constructors(self):
        for kind in (kiln.Key, kiln.Entry, kiln.Store, kiln.Lease, kiln.Cache):
            with self.assertRaises(TypeError):
                object.__new__(kind)
            with self.assertRaises(TypeError):
                type("Sub", (kind,), {})
        with self.assertRaises(TypeError):
            kiln.Lease()
        for thing in (KEY, kiln.Entry(KEY, b""), kiln.Cache()):
            with self.assertRaises(TypeError):
                pickle.dumps(thing)
            with self.assertRaises(TypeError):
                copy.copy(thing)
            with self.assertRaises(TypeError):
                weakref.ref(thing)
            with self.assertRaises(AttributeError):
                thing.further = 1


if __name__ == "__main__":
    unittest.main()
