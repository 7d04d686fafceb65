# SPDX-License-Identifier: Apache-2.0
"""Reads keys and entries. Uses nothing of Kiln except docs/format.md."""

import ctypes
import hashlib
import hmac
import struct

KINDS = {1: "program", 2: "kernel", 3: "constant", 4: "request", 5: "blob"}
PROVENANCE, KEY, ANSWERS, LOG, PAYLOAD, MAC = range(1, 7)
COMPRESSED, SIGNED = 1, 2
LIMIT = 2**40

XXHASH, ZSTD = ctypes.CDLL("libxxhash.so.0"), ctypes.CDLL("libzstd.so.1")
XXHASH.XXH3_128bits.restype = type("XXH128_hash_t", (ctypes.Structure,), {
    "_fields_": [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]})
ZSTD.ZSTD_getFrameContentSize.restype = ctypes.c_uint64
ZSTD.ZSTD_findFrameCompressedSize.restype = ZSTD.ZSTD_decompress.restype = ctypes.c_size_t


class Refused(Exception):
    """Raised for bytes that a reader does not accept, with their state and the reason."""


def check(condition, why, state="corrupt"):
    if not condition:
        raise Refused(state, why)


def xxh3(data):
    halves = XXHASH.XXH3_128bits(data, ctypes.c_size_t(len(data)))
    return struct.pack(">QQ", halves.high, halves.low)


def decompress(frame, size):
    check(size // 32768 <= len(frame) < size, "a compressed payload of a wrong size")
    length, plain = ctypes.c_size_t(len(frame)), ctypes.create_string_buffer(size)
    check(ZSTD.ZSTD_getFrameContentSize(frame, length) == size
          and ZSTD.ZSTD_findFrameCompressedSize(frame, length) == len(frame)
          and ZSTD.ZSTD_decompress(plain, ctypes.c_size_t(size), frame, length) == size,
          "a payload that is not one whole frame")
    return plain.raw


class Cursor:
    """Takes bytes from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        check(count <= len(self.data) - self.at, "bytes are missing")
        self.at += count
        return self.data[self.at - count:self.at]

    def numbers(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def end(self):
        check(self.at == len(self.data), "bytes after the last part")


def read_key(encoding):
    """Returns the digest and the parts: name, size, and either bytes or their BLAKE2b-256."""
    key = Cursor(encoding)
    check(key.take(8) == b"KILNKEY\1", "a key without its magic")
    flags, count = key.numbers("II")
    check(flags <= 1 and count <= 65535, "a key with unknown flags or too many parts")
    digest, parts = key.take(16) if flags else xxh3(encoding), []
    for _ in range(count):
        name = key.take(*key.numbers("B"))
        zero, form, size = key.numbers("BBQ")
        check(name and 0 not in name and zero == 0, "a part with a wrong name")
        check(form <= 1 and form <= size <= LIMIT, "a part of a wrong form or size")
        what, length = ("blake2b", 32) if form else ("bytes", size)
        parts.append({"name": name, "size": size, what: key.take(length)})
    key.end()
    check(bool(flags) == any("blake2b" in part for part in parts), "a key with a wrong flag")
    return digest, parts


def read_provenance(section):
    provenance = Cursor(section)
    build_ns, created = provenance.numbers("Qq")
    texts = {}
    for what in "tool", "device", "name":
        text = provenance.take(*provenance.numbers("I"))
        check(len(text) <= 65536 and provenance.take(1) == b"\0" and 0 not in text, "a wrong text")
        texts[what] = text.decode(errors="replace")
    provenance.end()
    return {"build_ns": build_ns, "created": created, **texts}


def read_entry(data, secret=None):
    """Verifies an entry in the order of format.md, and returns its contents."""
    check(data[:8] == b"KILN\r\n\x1a\n" and len(data) >= 12, "not an entry")
    version, = struct.unpack_from("<I", data, 8)
    check(version <= 1, "a newer version", "newer")
    check(version == 1 and len(data) >= 80, "version 0, or too short")
    flags, total, digest, kind, rows, plain_size, zero = struct.unpack_from("<IQ16sIIQQ", data, 12)
    check(total == len(data) <= LIMIT, f"{len(data)} bytes, not {total} as in the header")
    check(rows <= 32 and plain_size <= LIMIT and zero == 0, "a header beyond the limits")
    check(xxh3(data[:-16]) == data[-16:], "a wrong checksum")

    newer, sections, end = flags & ~(COMPRESSED | SIGNED), [], total - 16
    table, at = Cursor(data[64:end]), 64 + 24 * rows
    for _ in range(rows):
        type_, section_flags, offset, size = table.numbers("IIQQ")
        check(offset == at and size <= end - at, "a section in a wrong place")
        at += size + -size % 8
        check(at <= end and not any(data[offset + size:at]), "a wrong padding")
        newer = newer or section_flags & (~1 if PROVENANCE <= type_ <= MAC else 1)
        if type_ <= MAC:
            sections.append((type_, offset, data[offset:offset + size]))
    check(at == end, "bytes after the last section")
    check(not newer, "unknown flags or sections", "newer")

    found = {type_: section for type_, _, section in sections}
    check([type_ for type_, _, _ in sections] == sorted(found) and 0 not in found, "a wrong order")
    check(KEY in found and PAYLOAD in found, "no key or no payload")
    check((MAC in found) == bool(flags & SIGNED), "a MAC without its flag, or a flag without a MAC")
    check(len(found.get(MAC, bytes(32))) == 32, "a MAC of a wrong size")
    key_digest, parts = read_key(found[KEY])
    check(key_digest == digest, "a digest that is not the key's")
    provenance = read_provenance(found[PROVENANCE]) if PROVENANCE in found else None
    payload = decompress(found[PAYLOAD], plain_size) if flags & COMPRESSED else found[PAYLOAD]
    check(len(payload) == plain_size, "a payload of a wrong size")
    if secret is not None:
        check(MAC in found, "not signed", "unauthenticated")
        mac = sections[-1][1]
        signature = hashlib.blake2b(data[:mac] + data[mac + 32:end], digest_size=32, key=secret)
        check(hmac.compare_digest(signature.digest(), found[MAC]), "another key's MAC",
              "unauthenticated")
    return {"digest": digest, "kind": KINDS.get(kind, "unknown"), "signed": MAC in found,
            "key": found[KEY], "parts": parts, "provenance": provenance, "payload": payload,
            "answers": found.get(ANSWERS, b""), "log": found.get(LOG, b"").decode(errors="replace")}
