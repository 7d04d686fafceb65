#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads stores and packs. Uses no code of Kiln.

    read_store.py [--layout kiln|sycl|onednn] [--key-file FILE] STORE-OR-PACK

Written from format.md, stores.md, layouts.md and trust.md in docs/ alone, which shows that they
suffice. Each entry is a line of JSON, bytes as hexadecimal digits. Its state is ok, corrupt, newer,
denied, unauthenticated, or, for a sound entry under the name of a different one, misplaced. Exit
status 1: at least one entry is not ok."""

import argparse
import hashlib
import json
import os
import re
import stat
import struct
import sys

from read_entry import Refused, check, read_entry, read_key, xxh3

DIGEST, NUMBER = "[0-9a-f]{32}", "0|[1-9][0-9]{0,8}"
BACKEND = "(?!v1$)[A-Za-z][A-Za-z0-9_-]{0,30}"
DEVICE = {b"device", b"platform", b"driver", b"backend", b"runtime", b"cpu", b"env"}
CONSTANTS = {b"spec constants", b"spec_constants", b"spec", b"constant"}
OPTIONS = {b"build options", b"build_options", b"options", b"compile options", b"compile_options",
           b"link options", b"link_options"}


def read_file(path, others=0o022):
    """Returns the bytes of a file, unless it belongs to a different user or gives one of the rights
    @others to other users."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        check(stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid())
              and not status.st_mode & others,
              "not a regular file, or other users have rights to it", "denied")
        return file.read()


def is_same(encoding, parts):
    """Returns whether a key has these parts; a stripped one is compared by its hash."""
    def hashed(part):
        return part.get("blake2b") or hashlib.blake2b(part["bytes"], digest_size=32).digest()
    _, others = read_key(encoding)
    return (len(others) == len(parts)
            and all((a["name"], a["size"], hashed(a)) == (b["name"], b["size"], hashed(b))
                    for a, b in zip(others, parts)))


def names(folder, pattern):
    there = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name for name in there if re.fullmatch(pattern, name))


def sycl_folder(parts):
    hashed = [b"", b"", b"", b""]
    for part in parts:
        check("bytes" in part, "a stripped key, which this layout cannot place", "misplaced")
        word = part["name"].split(b".")[0]
        which = 0 if word in DEVICE else 2 if word in CONSTANTS else 3 if word in OPTIONS else 1
        hashed[which] += bytes([len(part["name"])]) + part["name"]
        hashed[which] += struct.pack("<BBQ", 0, 0, part["size"]) + part["bytes"]
    return "".join(xxh3(folder).hex() + "/" for folder in hashed)


def files_of(store, layout):
    """Yields for each entry: its file, its key file or None, and a function that returns whether an
    entry belongs there."""
    folders = ["requests", *(names(f"{store}/v1", "[0-9a-f]{2}") if layout == "kiln" else [])]
    for folder in folders:
        for name in names(f"{store}/v1/{folder}", DIGEST):
            if folder in ("requests", name[:2]):
                yield f"v1/{folder}/{name}", None, lambda entry: entry["digest"].hex() == name
    if layout == "sycl":
        folders = [""]
        for _ in range(4):
            folders = [f"{above}{name}/" for above in folders
                       for name in names(f"{store}/{above}", DIGEST)]
        for folder in folders:
            for name in names(f"{store}/{folder}", f"({NUMBER})[.]bin"):
                yield (folder + name, folder + name[:-4] + ".src",
                       lambda entry: sycl_folder(entry["parts"]) == folder)
    if layout == "onednn":
        for above in ["", *(f"{name}/" for name in names(store, BACKEND))]:
            for digest in names(f"{store}/{above}", DIGEST):
                for number in names(f"{store}/{above}{digest}", NUMBER):
                    folder = f"{above}{digest}/{number}/"
                    yield (folder + "kernel.bin", folder + "key.bin",
                           lambda entry: entry["digest"].hex() == digest)


def read_store(store, layout, secret):
    """Yields for each entry: its place, its state, and the entry or what is wrong."""
    for path, key_path, belongs in files_of(store, layout):
        try:
            key = read_file(f"{store}/{key_path}") if key_path else None
            entry = read_entry(read_file(f"{store}/{path}"), secret)
            check(belongs(entry), "another's place", "misplaced")
            check(key is None or is_same(key, entry["parts"]), "another's key file", "misplaced")
            yield path, "ok", entry
        except FileNotFoundError:  # one file of a pair alone is no entry
            pass
        except OSError as error:
            yield path, "denied", str(error)
        except Refused as refused:
            yield path, *refused.args


def read_slots(data, page, number, buckets):
    used, zero, own_number = struct.unpack_from("<IIQ", page)
    check(xxh3(page[:4080]) == page[4080:], "a wrong checksum of a page")
    check(used <= 127 and zero == 0 and own_number == number, "a wrong page")
    slots = list(struct.iter_unpack("<16sQQ", page[16:16 + 32 * used]))
    for i, (digest, offset, size) in enumerate(slots):
        check(int.from_bytes(digest[:4], "big") * buckets >> 32 == number, "a slot of another page")
        check(i == 0 or slots[i - 1][0] < digest, "slots in a wrong order")
        check(offset % 8 == 0 and 4096 * (buckets + 1) <= offset and 80 <= size
              and offset + size <= len(data), "a slot beyond the file")
    return slots


def read_pack(path, secret):
    data = read_file(path)
    check(data[:8] == b"KILNP\r\n\x1a" and len(data) >= 12, "no pack")
    check(struct.unpack_from("<I", data, 8)[0] <= 1, "a newer version", "newer")
    check(len(data) >= 4096 and xxh3(data[:4080]) == data[4080:4096], "a wrong checksum")
    version, flags, size, count, buckets = struct.unpack_from("<IIQQQ", data, 8)
    check(flags <= 1, "unknown flags", "newer")
    check(version == 1 and size == len(data), "version 0, or a wrong size")
    check(1 <= buckets <= 2**24 and count <= 127 * buckets and 4096 * (buckets + 1) <= size,
          "a header beyond the limits")
    for number in range(buckets):
        page = data[4096 * (number + 1):4096 * (number + 2)]
        try:
            slots = read_slots(data, page, number, buckets)
        except Refused as refused:
            yield f"bucket {number}", *refused.args
            continue
        for digest, offset, size in slots:
            try:
                entry = read_entry(data[offset:offset + size], secret)
                check(entry["digest"] == digest, "another's place", "misplaced")
                yield digest.hex(), "ok", entry
            except Refused as refused:
                yield digest.hex(), *refused.args


def read_place(place, layout="kiln", key_file=None):
    """Returns everything as dictionaries."""
    try:
        secret = read_file(key_file, 0o077) if key_file else None
        check(secret is None or (len(secret) == 32 and any(secret)), "a wrong key file", "denied")
        is_store = os.path.isdir(place)
        found = read_store(place, layout, secret) if is_store else read_pack(place, secret)
        for where, state, entry in found:
            yield {"place": where, "state": state, **(entry if state == "ok" else {"why": entry})}
    except Refused as refused:
        yield {"place": place, "state": refused.args[0], "why": refused.args[1]}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("place", metavar="STORE-OR-PACK")
    arguments.add_argument("--layout", choices=("kiln", "sycl", "onednn"), default="kiln")
    arguments.add_argument("--key-file")
    states = []
    for found in read_place(**vars(arguments.parse_args())):
        states.append(found["state"])
        print(json.dumps(found, default=bytes.hex))
    sys.exit(any(state != "ok" for state in states))


if __name__ == "__main__":
    main()
