#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py LIBRARY [RELEASE=NAME] [wait=FILE] [damage=FOLDER] LINK…: links with nvJitLink, and prints
what each call returned and a digest of each output. A link consists of options and inputs,
separated by blanks; an input is KIND:PATH for a file that the program reads itself, and @KIND:PATH
for one that nvJitLink reads. "damage=FOLDER" flips a bit of each entry of a store, or cuts it off,
before the next link. "move=FROM=TO" renames a file at that time, and "hold=FILE" makes FILE.held and
waits for FILE. Further words: "early" asks for the log before the link is complete, "again" completes
it twice, "none" does not complete it, "other" asks for the outputs through plain names."""

import ctypes
import hashlib
import os
import random
import sys
import time

OUTPUTS = ("LinkedCubin", "LinkedPtx", "LinkedLTOIR", "ErrorLog", "InfoLog")


def damage(folder, chance):
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            size = os.path.getsize(path)
            if size <= 400:
                continue
            with open(path, "r+b") as file:
                if chance.random() < 0.3:
                    file.truncate(chance.randrange(size))
                    continue
                # Another version of the format is no damage, and stays.
                file.seek(chance.choice([*range(8), *range(12, size)]))
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 1 << chance.randrange(8)]))


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.001)


class Linker:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.release = ""

    def find(self, name, release=None):
        release = self.release if release is None else release
        return getattr(self.library,
                       f"__nvJitLink{name}_{release}" if release else f"nvJitLink{name}", None)

    def outputs(self, handle, release=None):
        for name in OUTPUTS:
            size_of = self.find(f"Get{name}Size", release)
            if not size_of:
                continue
            size = ctypes.c_size_t(77)
            results = [size_of(handle, ctypes.byref(size))]
            room = ctypes.create_string_buffer(b"x" * size.value, size.value + 1)
            results.append(self.find(f"Get{name}", release)(handle, room))
            print(name, *results, size.value, hashlib.sha256(room.raw).hexdigest())

    def link(self, words):
        options = [word.encode() for word in words if word.startswith("-")]
        handle = ctypes.c_void_p()
        result = self.find("Create")(ctypes.byref(handle), len(options),
                                     (ctypes.c_char_p * len(options))(*options))
        print("create", result)
        if result != 0:
            return
        names = []  # nvJitLink uses them until the link is destroyed
        for word in words:
            if word.startswith("move="):
                os.replace(*word.split("=")[1:])
            if word.startswith("hold="):
                open(word[len("hold="):] + ".held", "x").close()
                wait_for(word[len("hold="):])
            kind, colon, path = word.lstrip("@").partition(":")
            if not colon:
                continue
            if word.startswith("@"):
                result = self.find("AddFile")(handle, int(kind), path.encode())
            else:
                with open(path, "rb") as file:
                    data = file.read() + (b"\0" if kind == "2" else b"")
                names.append(os.path.basename(path).encode())
                result = self.find("AddData")(handle, int(kind), data, ctypes.c_size_t(len(data)),
                                              names[-1])
                # nvJitLink does not use the data after the call.
                ctypes.memset(data, 0x55, len(data))
            print("add", result)
        if "early" in words:
            self.outputs(handle)
        if "none" not in words:
            print("complete", self.find("Complete")(handle))
            self.outputs(handle, "" if "other" in words else None)
        if "again" in words:
            print("complete", self.find("Complete")(handle))
            self.outputs(handle)
        print("destroy", self.find("Destroy")(ctypes.byref(handle)), handle.value)


def main():
    linker = Linker(sys.argv[1])
    chance = random.Random(3)
    for word in sys.argv[2:]:
        if word.startswith("RELEASE="):
            linker.release = word[len("RELEASE="):]
        elif word.startswith("wait="):
            wait_for(word[len("wait="):])
        elif word.startswith("damage="):
            damage(word[len("damage="):], chance)
        else:
            linker.link(word.split())


if __name__ == "__main__":
    main()
