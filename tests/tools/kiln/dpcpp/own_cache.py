# SPDX-License-Identifier: Apache-2.0
"""A cache in the format of DPC++'s SYCL runtime. This file writes and reads it as the runtime does,
for machines without the runtime. tests/tools/kiln/dpcpp/test_runtime.py checks the same findings
with the runtime itself."""

import os
import struct
import time
from pathlib import Path

MASK = (1 << 64) - 1
FACTOR = 0xC6A4A7935BD1E995
SEED = 0xC70F6907


def shift_mix(value):
    return value ^ (value >> 47)


def mix(block):
    return shift_mix(block * FACTOR & MASK) * FACTOR & MASK


def std_hash(text):
    """libstdc++'s std::hash<std::string>, 64 bits."""
    state = SEED ^ (len(text) * FACTOR & MASK)
    whole = len(text) & ~7
    for at in range(0, whole, 8):
        state = (state ^ mix(int.from_bytes(text[at : at + 8], "little"))) * FACTOR & MASK
    if len(text) > whole:
        state = (state ^ int.from_bytes(text[whole:], "little")) * FACTOR & MASK
    return shift_mix(shift_mix(state) * FACTOR & MASK)


def unmix(mixed):
    """Returns the block that the hash mixes to this value."""
    inverse = pow(FACTOR, -1, 1 << 64)
    return shift_mix(mixed * inverse & MASK) * inverse & MASK


def collision_of(text):
    """Returns 16 different bytes with the same hash."""
    first, second = (int.from_bytes(text[at : at + 8], "little") for at in (0, 8))
    start = SEED ^ (16 * FACTOR & MASK)
    other = first ^ 1
    after_first = (start ^ mix(first)) * FACTOR & MASK
    after_other = (start ^ mix(other)) * FACTOR & MASK
    fitting = unmix(mix(second) ^ after_first ^ after_other)
    return other.to_bytes(8, "little") + fitting.to_bytes(8, "little")


def record(content):
    return struct.pack("<Q", len(content)) + content


class Key:
    def __init__(self, images, device=b"Platform/Device/1.0/2.3", constants=b"", options=b""):
        self.device = device
        self.images = images
        self.constants = constants
        self.options = options

    def path(self):
        levels = self.device, self.images, self.constants, self.options
        return "/".join(str(std_hash(level)) for level in levels)

    def source(self):
        return b"".join(
            record(part) for part in (self.device, self.options, self.constants, self.images))

    def payload(self):
        """Returns the device code, which is a function of the key, so that wrong code is
        detected."""
        return b"\x7fELF" + struct.pack("<Q", std_hash(self.source())) * 40


def binary_file(*binaries):
    return struct.pack("<Q", len(binaries)) + b"".join(record(binary) for binary in binaries)


def lock_of(stem):
    return Path(f"{stem}.lock")


def try_lock(stem):
    try:
        os.close(os.open(lock_of(stem), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o200))
    except OSError:
        return False
    return True


class Cache:
    def __init__(self, root):
        self.root = Path(root)

    def stem(self, key, number=0):
        return self.root / key.path() / str(number)

    def put(self, key, number=None, used_ns=None):
        """Writes an item as the runtime does. Returns the item's path without an ending, or None if
        the lock was taken."""
        folder = self.root / key.path()
        folder.mkdir(parents=True, exist_ok=True)
        if number is None:
            number = 0
            while (folder / f"{number}.bin").exists() or lock_of(folder / str(number)).exists():
                number += 1
        stem = folder / str(number)
        if not try_lock(stem):
            return None
        Path(f"{stem}.bin").write_bytes(binary_file(key.payload()))
        Path(f"{stem}.src").write_bytes(key.source())
        Path(f"{stem}_access_time.txt").write_text(str(used_ns or time.time_ns()))
        lock_of(stem).unlink(missing_ok=True)
        return stem

    def put_source(self, device, options, source, payload=b"\x7fELF of a source", number=0):
        """Writes an item of the extension kernel_compiler, which has no .src file."""
        levels = "/".join(str(std_hash(level)) for level in (device, options, source))
        stem = self.root / "ext_kernel_compiler" / levels / str(number)
        return self.put_keyless(stem, payload)

    def put_ir(self, digest, payload=b"BC\xc0\xde and more"):
        return self.put_keyless(self.root / "ext_kernel_compiler" / digest / "ir", payload)

    @staticmethod
    def put_keyless(stem, payload):
        stem.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{stem}.bin").write_bytes(binary_file(payload))
        Path(f"{stem}_access_time.txt").write_text(str(time.time_ns()))
        return stem

    def get(self, key):
        """Searches as the runtime does, and raises an exception where the runtime would crash.
        Returns the device code or None."""
        number = 0
        while True:
            stem = self.stem(key, number)
            binary, source = Path(f"{stem}.bin"), Path(f"{stem}.src")
            if not binary.exists() and not source.exists():
                return None
            number += 1
            if lock_of(stem).exists():
                continue
            try:
                if source.read_bytes() != key.source():
                    continue
                content = binary.read_bytes()
            except FileNotFoundError:
                continue
            if len(content) < 16:
                return None
            (size,) = struct.unpack_from("<Q", content, 8)
            if size == 0 or len(content) - 16 < size:
                return None
            return content[16 : 16 + size]

    def size(self):
        return sum(
            file.stat().st_size for file in self.root.rglob("*") if file.suffix in (".bin", ".src"))


def make_old(path, seconds=100_000):
    """Sets an old time for a file."""
    os.utime(path, (time.time() - seconds,) * 2, follow_symlinks=False)
    return path


def stale_lock(stem):
    lock = lock_of(stem)
    lock.touch(0o200)
    return make_old(lock)


def snapshot(root):
    """Returns everything that can be observed of a tree and of the files beside it: bytes, times
    and inodes."""
    def facts(path):
        status = os.lstat(path)
        content = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file() and not os.access(path, os.R_OK):
            content = status.st_size  # lock files, which even their owner may not read
        elif path.is_file():
            file = os.open(path, os.O_RDONLY | os.O_NOATIME)
            content = os.read(file, 1 << 24)
            os.close(file)
        elif path.is_dir():
            content = sorted(names_of(path))
        return content, tuple(status), status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns

    found = {}
    waiting = [Path(root).parent]
    while waiting:
        path = waiting.pop()
        found[str(path)] = facts(path)
        if path.is_dir() and not path.is_symlink():
            waiting += [path / name for name in names_of(path)]
    return found


def names_of(folder):
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOATIME)
    try:
        return os.listdir(directory)
    finally:
        os.close(directory)
