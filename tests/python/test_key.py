# SPDX-License-Identifier: Apache-2.0
"""Keys of named parts."""

import array
import ctypes
import unittest

import kiln


class KeyTest(unittest.TestCase):
    def test_parts_are_kept_in_order(self):
        key = kiln.Key([("source", "é"), ("level", 2), ("raw", b"\0\1"), ("source", "")])
        self.assertEqual([(part.name, part.value) for part in key.parts],
                         [("source", "é".encode()), ("level", b"\2" + bytes(7)), ("raw", b"\0\1"),
                          ("source", b"")])
        self.assertEqual([part.size for part in key.parts], [2, 8, 2, 0])
        self.assertEqual([part.digest for part in key.parts], [None] * 4)

    def test_a_mapping_is_its_items(self):
        self.assertEqual(kiln.Key({"a": 1, "b": "x"}), kiln.Key([("a", 1), ["b", "x"]]))
        self.assertEqual(kiln.Key(pair for pair in [("a", 1)]), kiln.Key({"a": 1}))

    def test_values_with_a_buffer_are_their_bytes(self):
        expected = kiln.Key({"a": b"abc"})
        for value in (bytearray(b"abc"), memoryview(b"abc"), memoryview(b"a-b-c")[::2], "abc",
                      array.array("B", b"abc"), (ctypes.c_ubyte * 3)(*b"abc")):
            self.assertEqual(kiln.Key({"a": value}), expected)

    def test_arrays_are_refused(self):
        """If arrays were accepted, two arrays of different types or shapes could be the same
        value."""
        for value in (array.array("H", [1, 2]), array.array("b", b"ab"), array.array("f", [1.0]),
                      memoryview(b"abcd").cast("B", shape=[2, 2]), (ctypes.c_int * 1)(1),
                      ctypes.c_ubyte(1)):
            with self.subTest(value=value), self.assertRaisesRegex(TypeError, "part 'a'.*shape"):
                kiln.Key({"a": value})

    def test_keys_differ_by_order_names_and_values(self):
        keys = [kiln.Key([("a", "x"), ("b", "y")]), kiln.Key([("b", "y"), ("a", "x")]),
                kiln.Key([("a", "xb"), ("y", "")]), kiln.Key([("a", "x")]), kiln.Key([])]
        self.assertEqual(len({key.digest for key in keys}), len(keys))
        self.assertEqual(len(set(keys)), len(keys))

    def test_equal_keys_are_one_key_of_a_dict(self):
        first, second = kiln.Key({"a": 1}), kiln.Key({"a": 1})
        self.assertEqual({first: "value"}[second], "value")
        self.assertFalse(first != second)
        self.assertNotEqual(first, "a")
        with self.assertRaises(TypeError):
            first < second

    def test_the_digest_is_hexadecimal(self):
        key = kiln.Key({"a": 1})
        self.assertRegex(key.digest, "^[0-9a-f]{32}$")
        self.assertIn(key.digest[:12], repr(key))

    def test_errors_name_the_part(self):
        for parts, error, named in [
                ({"level": -1}, ValueError, "part 'level'.*-1"),
                ({"level": 2**64}, ValueError, "part 'level'.*18446744073709551616"),
                ({"level": 1.5}, TypeError, "level.*float"),
                ({"level": True}, TypeError, "part 'level'.*bool"),
                ({"level": [1, 2]}, TypeError, "level.*list"),
                ({"level": None}, TypeError, "level.*NoneType"),
                ({"": "x"}, ValueError, "part 0.*''"),
                ({"n" * 256: "x"}, ValueError, "part 0"),
                ({"a\0b": "x"}, ValueError, "part 0"),
                ({1: "x"}, TypeError, "part 0.*int"),
                ({"a": "x", b"b": "x"}, TypeError, "part 1.*bytes"),
                ({"request": "x"}, ValueError, "part 0.*request"),
                (["ab"], TypeError, "part 0.*str"),
                ([("a", 1), ("b",)], TypeError, "part 1.*tuple"),
                ([("a", 1, 2)], TypeError, "part 0.*tuple"),
                ({"a": "\ud800"}, UnicodeEncodeError, "surrogates"),
                ({"\ud800": "a"}, UnicodeEncodeError, "surrogates"),
                (3, TypeError, "int"),
                (None, TypeError, "NoneType"),
        ]:
            with self.subTest(parts=parts), self.assertRaisesRegex(error, named):
                kiln.Key(parts)

    def test_an_exception_of_the_argument_is_its_callers(self):
        def pairs():
            yield "a", 1
            raise KeyError("mine")

        class Mapping:
            def keys(self):
                return ["a"]

            def items(self):
                raise KeyError("mine")

        for parts in (pairs(), Mapping()):
            with self.assertRaisesRegex(KeyError, "mine"):
                kiln.Key(parts)


if __name__ == "__main__":
    unittest.main()
