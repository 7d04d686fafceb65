# SPDX-License-Identifier: Apache-2.0
"""A reader that was written from docs/ alone reports the same entries in stores and packs as the
project's tool.

Run it like the tests of the tool: python3 test_reader.py KILN MAKE_CACHE
"""

import ctypes
import hashlib
import os
import shutil
import struct
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, "../../tools/kiln"))

import cli  # noqa: E402
import read_entry as reader  # noqa: E402
from read_store import read_place  # noqa: E402

SECRET = bytes(range(32))
ANSWERS = "what only the build could tell"


class Reader(cli.CliTest):
    layout = "kiln"
    suffix = ""

    def setUp(self):
        super().setUp()
        self.root = self.cache
        if self.layout != "kiln":
            self.cache = f"file://{self.root}?layout={self.layout}{self.suffix}"
        self.environment["KILN_DIR"] = self.cache
        self.pack = os.path.join(self.scratch, "pack")
        self.key_file = self.make_key_file(content=SECRET)

    def fill(self, **options):
        self.make("entries")
        self.make_entry("put", "device=gpu", "spec.a=1", "options=-O2", "source=" + "a" * 5000,
                        name="f;g", cost=7, size=20000, answers=ANSWERS, **options)

    def read(self, place=None, **options):
        return list(read_place(place or self.root, self.layout, **options))

    def compare(self, cache, found, *arguments):
        """Checks that the reader and the tool report the same about each entry."""
        listed = {entry["digest"]: entry for entry in self.listed("--all", "--dir", cache)}
        self.assertEqual(sorted(entry["digest"].hex() for entry in found), sorted(listed))
        for entry in found:
            self.assertEqual(entry["state"], "ok")
            digest = entry["digest"].hex()
            provenance = entry["provenance"]
            shown = self.kiln_json("show", "--dir", cache, *arguments, digest)
            for told in listed[digest], shown:
                self.assertEqual(told["kind"], entry["kind"])
                self.assertEqual(told["bytes"], len(entry["payload"]))
                for name in "device", "name", "build_ns", "created":
                    self.assertEqual(told[name], provenance[name])
            self.assertEqual(shown["tool"], provenance["tool"])
            self.assertEqual(shown["log"], entry["log"])
            self.assertEqual(shown["signed"], entry["signed"])
            self.assertEqual(len(shown["key"]), len(entry["parts"]))
            for ours, theirs in zip(entry["parts"], shown["key"]):
                self.assertEqual(theirs.pop("name").encode(), ours["name"])
                self.assertEqual(theirs.pop("size"), ours["size"])
                (form, value), = theirs.items()
                kept = ours["blake2b" if form == "blake2b" else "bytes"]
                self.assertEqual(value, kept.decode() if form == "text" else kept.hex())
            for what in ("payload", "answers") if entry["answers"] else ():
                self.assertEqual(
                    self.kiln("show", "--dir", cache, "--" + what, "-", digest).stdout, entry[what])

    def test_a_store(self):
        self.fill()
        found = self.read()
        self.assertEqual(len(found), 5)
        self.assertIn(ANSWERS.encode(), [entry["answers"] for entry in found])
        self.compare(self.cache, found)
        self.assertEqual(self.kiln_json("verify")["ok"], 5)

    def test_a_signed_store(self):
        self.fill(key_file=self.key_file)
        states = [entry["state"] for entry in self.read(key_file=self.key_file)]
        self.assertEqual(sorted(states), ["ok"] + ["unauthenticated"] * 4)
        report = self.kiln_json("verify", "--key-file", self.key_file, expect=5)
        self.assertEqual((report["ok"], report["unauthenticated"]), (1, 4))
        self.compare(self.cache, self.read())

    def test_packs(self):
        self.fill()
        for arguments in (), ("--strip-keys",), ("--key-file", self.key_file):
            self.kiln("pack", *arguments, self.pack)
            key_file = self.key_file if "--key-file" in arguments else None
            found = self.read(self.pack, key_file=key_file)
            self.assertEqual(len(found), 4)  # a request is not packed
            stripped = any("blake2b" in part for entry in found for part in entry["parts"])
            self.assertEqual(stripped, arguments == ("--strip-keys",))
            self.compare("pack:" + self.pack, found)
        report = self.kiln_json("verify", "--dir", "pack:" + self.pack, *arguments)
        self.assertEqual(report["ok"], 4)

    def test_unpacked(self):
        """In the layout sycl, entries with stripped keys have no folder. In the other layouts they
        are found."""
        self.make_entry("put", "source=" + "a" * 5000, size=20000)
        self.kiln("pack", "--strip-keys", self.pack)
        self.kiln("clear", "--yes")
        self.kiln("unpack", "--trust", self.pack, expect=4 if self.layout == "sycl" else 0)
        found = self.read()
        self.assertEqual(len(found), 0 if self.layout == "sycl" else 1)
        self.compare(self.cache, found)

    def test_damage(self):
        self.fill()
        for entry in self.read():
            path = os.path.join(self.root, entry["place"])
            with open(path, "r+b") as file:
                file.seek(100)
                byte = file.read(1)
                file.seek(100)
                file.write(bytes([byte[0] ^ 1]))
        self.assertEqual([entry["state"] for entry in self.read()], ["corrupt"] * 5)
        self.assertEqual(self.kiln_json("verify", expect=5)["corrupt"], 5)


class ReaderOfSycl(Reader):
    layout = "sycl"


class ReaderOfOneDnn(Reader):
    layout = "onednn"
    suffix = "&backend=gpu"

    def test_without_a_backend(self):
        self.cache = self.environment["KILN_DIR"] = f"file://{self.root}?layout=onednn"
        self.test_a_store()



def part(name, data, form=0):
    hashed = hashlib.blake2b(data, digest_size=32).digest()
    return (bytes([len(name)]) + name + struct.pack("<BBQ", 0, form, len(data))
            + (hashed if form == 1 else data))


def key_of(*parts, flags=0, whole=b""):
    return b"KILNKEY\1" + struct.pack("<II", flags, len(parts)) + whole + b"".join(parts)


def provenance_of(tool=b"tool", tail=b""):
    return struct.pack("<Qq", 5, 6) + b"".join(
        struct.pack("<I", len(text)) + text + b"\0" for text in (tool, b"device", b"name")) + tail


def zstd(data):
    room = ctypes.create_string_buffer(len(data) + 1000)
    reader.ZSTD.ZSTD_compress.restype = ctypes.c_size_t
    size = reader.ZSTD.ZSTD_compress(
        room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), 3)
    return room.raw[:size]


WHOLE_KEY = key_of(part(b"device", b"cpu"), part(b"source", b"x"))
DIGEST = reader.xxh3(WHOLE_KEY)
PROVENANCE, KEY, ANSWERED = (1, 0, provenance_of()), (2, 1, WHOLE_KEY), (3, 1, b"yes")
LOG, PAYLOAD, MAC = (4, 0, b"log"), (5, 1, b"CODE!"), (6, 0, b"M" * 32)
OTHER, WANTED = (7, 0, b"abc"), (7, 1, b"abc")
PLAIN = [PROVENANCE, KEY, ANSWERED, LOG, PAYLOAD]


def entry_of(*sections, digest=DIGEST, version=1, flags=0, kind=1, size=None, zero=0, total=None,
             padding=b"\0", seal=True):
    """Makes an entry as requested, right or wrong."""
    at = 64 + 24 * len(sections)
    table = content = b""
    for type_, section_flags, data in sections:
        table += struct.pack("<IIQQ", type_, section_flags, at + len(content), len(data))
        content += data + padding * (-len(data) % 8)
        if type_ == 5 and size is None:
            size = len(data)
    total = at + len(content) + 16 if total is None else total
    entry = b"KILN\r\n\x1a\n" + struct.pack(
        "<IIQ16sIIQQ", version, flags, total, digest, kind, len(sections), size or 0, zero)
    entry += table + content
    if MAC in sections:
        at = entry.index(MAC[2])
        mac = hashlib.blake2b(entry[:at] + entry[at + 32:], digest_size=32, key=SECRET).digest()
        entry = entry[:at] + mac + entry[at + 32:]
    return entry + (reader.xxh3(entry) if seal else bytes(16))


def with_key(encoding, digest=None):
    return entry_of(PROVENANCE, (2, 1, encoding), PAYLOAD, digest=digest or reader.xxh3(encoding))


def compressed(payload, size=10000):
    return entry_of(KEY, (5, 1, payload), flags=1, size=size)


GOOD = entry_of(*PLAIN)
FRAME = zstd(b"A" * 10000)
VARIANTS = {
    "ok": [
        GOOD, entry_of(KEY, PAYLOAD), entry_of(KEY, (5, 0, b"")), entry_of(*PLAIN, kind=6),
        entry_of(*PLAIN, kind=0), entry_of(*PLAIN, OTHER), entry_of(OTHER, *PLAIN, OTHER),
        entry_of((9, 2, b"a"), KEY, OTHER, PAYLOAD),
        entry_of((1, 1, provenance_of()), KEY, PAYLOAD),
        entry_of(KEY, (3, 1, b""), (4, 0, b""), PAYLOAD), entry_of(KEY, PAYLOAD, MAC, flags=2),
        entry_of(KEY, PAYLOAD, *[OTHER] * 30), compressed(FRAME), with_key(key_of()),
        with_key(key_of(part(b"a", b""), part(b"a", b"b"), part(b"\xff" * 255, b"c"))),
        with_key(key_of(part(b"source", b"x", 1), flags=1, whole=DIGEST), DIGEST),
        entry_of((1, 0, provenance_of(b"\xff" * 65536)), KEY, PAYLOAD),
    ],
    "newer": [
        entry_of(*PLAIN, version=2, seal=False), GOOD[:8] + b"\2\0\0\0", entry_of(*PLAIN, flags=4),
        entry_of(KEY, PROVENANCE, flags=4), entry_of(*PLAIN, WANTED),
        entry_of(*PLAIN, flags=4, kind=9), entry_of((1, 2, b""), KEY, PAYLOAD),
    ],
    "corrupt": [
        b"", GOOD[:8], GOOD[:8] + b"\2\0\0", GOOD[:40], GOOD[:79], GOOD[:80], b"X" + GOOD[1:],
        GOOD + b"\0", entry_of(), entry_of(*PLAIN, version=0), entry_of(*PLAIN, zero=1),
        entry_of(*PLAIN, total=1), entry_of(*PLAIN, seal=False),
        entry_of(*PLAIN, flags=4, seal=False), entry_of(*PLAIN, padding=b"x"),
        entry_of(*PLAIN, flags=4, padding=b"x"), entry_of(*PLAIN, size=6),
        entry_of(*PLAIN, size=2**41), entry_of(KEY, PAYLOAD, *[OTHER] * 31),
        entry_of((0, 0, b""), KEY, PAYLOAD), entry_of(KEY, KEY, PAYLOAD),
        entry_of(KEY, PROVENANCE, PAYLOAD), entry_of(KEY), entry_of(PAYLOAD),
        entry_of((1, 0, b""), KEY, PAYLOAD),
        entry_of((1, 0, provenance_of(tail=b"x")), KEY, PAYLOAD),
        entry_of((1, 0, provenance_of(b"a\0b")), KEY, PAYLOAD),
        entry_of((1, 0, provenance_of(b"a" * 65537)), KEY, PAYLOAD),
        entry_of(KEY, PAYLOAD, flags=2), entry_of(KEY, PAYLOAD, MAC),
        entry_of(KEY, PAYLOAD, (6, 0, bytes(16)), flags=2), entry_of(*PLAIN, digest=bytes(16)),
        compressed(FRAME, 9999), compressed(FRAME + zstd(b"")), compressed(FRAME[:-1]),
        compressed(zstd(b"A" * 5000) * 2), compressed(zstd(b"abc"), 3), compressed(zstd(b""), 0),
        with_key(WHOLE_KEY + b"x"), with_key(WHOLE_KEY[:-1]),
        with_key(b"KILNKEY\2" + WHOLE_KEY[8:]), with_key(key_of(part(b"", b"x"))),
        with_key(key_of(part(b"a\0b", b"x"))), with_key(key_of(part(b"a", b"x", 2))),
        with_key(key_of(part(b"a", b"x", 1))), with_key(key_of(part(b"a", b"x"), flags=2)),
        with_key(key_of(part(b"a", b"x"), flags=1, whole=DIGEST), DIGEST),
        with_key(key_of(part(b"a", b"", 1), flags=1, whole=DIGEST), DIGEST),
    ],
}


class Variants(cli.CliTest):
    """Reader and tool agree on what is sound, damaged or newer."""

    def agree(self, wanted, entry, *arguments):
        digest = entry[24:40].ljust(16, b"\0").hex()
        path = os.path.join(self.cache, "v1", digest[:2], digest)
        shutil.rmtree(self.cache, ignore_errors=True)
        os.makedirs(os.path.dirname(path), 0o700)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(entry)
        found, = read_place(self.cache, key_file=arguments[1] if arguments else None)
        self.assertEqual(found["state"], wanted, found.get("why"))
        status = 0 if wanted in ("ok", "newer") else 5
        self.assertEqual(self.kiln_json("verify", *arguments, expect=status)[wanted], 1)

    def test_entries(self):
        for wanted, entries in VARIANTS.items():
            for number, entry in enumerate(entries):
                with self.subTest(wanted=wanted, number=number):
                    self.agree(wanted, entry)

    def test_signatures(self):
        key = self.make_key_file(content=SECRET)
        other = self.make_key_file("other", b"x" * 32)
        signed = entry_of(KEY, PAYLOAD, MAC, OTHER, flags=2)
        for entry, file, wanted in (
                (signed, key, "ok"), (signed, other, "unauthenticated"),
                (GOOD, key, "unauthenticated"), (entry_of(KEY, MAC, flags=2), key, "corrupt"),
                (entry_of(KEY, PAYLOAD, MAC, flags=6), other, "newer")):
            self.agree(wanted, entry, "--key-file", file)


def sealed(page):
    page = page.ljust(4080, b"\0")
    return page + reader.xxh3(page)


def entry_of_number(number, **options):
    key = key_of(part(b"number", bytes([number])))
    digest = reader.xxh3(key)
    return digest, entry_of((2, 1, key), PAYLOAD, digest=digest, **options)


def pack_of(*entries, version=1, flags=0, size=None, count=None, buckets=2, told_buckets=None,
            zero=0, used=None, number=None, shift=0, longer=0, gap=b"", step=1, tail=b""):
    """Makes a pack as requested, right or wrong."""
    at = 4096 * (buckets + 1)
    slots, content = [[] for _ in range(buckets)], b""
    for digest, entry in sorted(entries):
        content += gap
        slot = struct.pack("<16sQQ", digest, at + len(content) + shift, len(entry) + longer)
        slots[int.from_bytes(digest[:4], "big") * buckets >> 32].append(slot)
        content += entry
    size = at + len(content) if size is None else size
    pages = [b"KILNP\r\n\x1a" + struct.pack(
        "<IIQQQ", version, flags, size, len(entries) if count is None else count,
        buckets if told_buckets is None else told_buckets) + tail]
    for bucket, found in enumerate(slots):
        pages.append(struct.pack("<IIQ", len(found) if used is None else used, zero,
                                 bucket if number is None else number)
                     + b"".join(found[::step]) + tail)
    return b"".join(map(sealed, pages)) + content


MANY = [entry_of_number(number) for number in range(12)]
PACK = pack_of(*MANY)
SHORT = [(digest, entry[:72]) for digest, entry in MANY]
PACKS = {
    "ok": [
        PACK, pack_of(), pack_of(*MANY, flags=1), pack_of(*MANY, count=0),
        pack_of(*MANY, tail=b"x"), pack_of(*MANY, gap=bytes(8)), pack_of(*MANY, buckets=5),
        pack_of(entry_of_number(0, kind=9)),
    ],
    "newer": [pack_of(*MANY, version=2), pack_of(version=2)[:12], pack_of(*MANY, flags=2)],
    "corrupt": [
        b"", PACK[:11], PACK[:4096], PACK[:-8], PACK + bytes(8), b"X" + PACK[1:],
        PACK[:40] + b"x" + PACK[41:], PACK[:5000] + b"x" + PACK[5001:], pack_of(*MANY, version=0),
        pack_of(*MANY, flags=2)[:40] + b"x" + PACK[41:], pack_of(*MANY, size=1),
        pack_of(*MANY, count=255), pack_of(*MANY, told_buckets=0),
        pack_of(*MANY, told_buckets=2**24), pack_of(*MANY, told_buckets=2**63),
        pack_of(*MANY, zero=1), pack_of(*MANY, used=128),
        pack_of(*MANY, number=0), pack_of(*MANY, shift=1), pack_of(*MANY, shift=-4096),
        pack_of(*MANY, longer=8), pack_of(*MANY, longer=2**63), pack_of(*SHORT),
        pack_of(*MANY, step=-1), pack_of(MANY[0], *MANY), pack_of((MANY[0][0], MANY[1][1])),
    ],
}


class Packs(cli.CliTest):
    def test_packs(self):
        path = os.path.join(self.scratch, "pack")
        for wanted, packs in PACKS.items():
            for number, pack in enumerate(packs):
                with self.subTest(wanted=wanted, number=number):
                    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                              "wb") as file:
                        file.write(pack)
                    states = {found["state"] for found in read_place(path)}
                    states = {"corrupt" if state == "misplaced" else state for state in states}
                    self.assertEqual(states - {"ok"} or {"ok"}, {wanted})
                    self.kiln("verify", "--dir", "pack:" + path,
                              expect={"ok": 0, "newer": 4, "corrupt": 5}[wanted])


if __name__ == "__main__":
    cli.main()
