#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_places.py WORKER LAYOUT CASE: tests what happens to a store if other programs change its
files, or its file system is full or fails.

file-tools   rm -rf, mv, cp -a and tar while processes put and get
full-disk    a file system of 1 MB
power-cuts   an ext4 file system that is shut down while processes put, and mounted again

The last two mount file systems. If that is not allowed, the test ends with 77, which test runners
report as "skipped"."""

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

WORKER = os.path.abspath(sys.argv[1])
LAYOUT = sys.argv[2]
KEYS = 40
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_ITS_LOG = 2


def skip(reason):
    print(reason)
    sys.exit(77)


def expect(holds, what):
    if not holds:
        sys.exit(f"expected {what}")


def worker(directory, *arguments):
    result = subprocess.run([WORKER, LAYOUT, directory, *map(str, arguments)], check=True,
                            stdout=subprocess.PIPE, timeout=120)
    return json.loads(result.stdout)


def start_users(directory, count):
    return [subprocess.Popen([WORKER, LAYOUT, directory, "use", str(seed)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE) for seed in range(1, count + 1)]


def end_users(users):
    """Returns the sums of all counts."""
    total = {}
    for user in users:
        output, _ = user.communicate(timeout=120)  # communicate closes the input
        expect(user.returncode == 0, "that the processes that use a store exit with 0")
        for name, number in json.loads(output).items():
            total[name] = total.get(name, 0) + number
    print(total)
    return total


def temporaries(directory):
    return [name for _, _, names in os.walk(directory) for name in names
            if name.startswith(".tmp-")]


def expect_to_work(directory):
    counted = worker(directory, "fill", KEYS)
    expect(counted["failed"] == 0, "that all puts succeed afterwards")
    counted = worker(directory, "check", KEYS)
    expect(counted["hits"] == KEYS, "that all gets hit afterwards")


def quietly(*command):
    """Runs a file tool, which may report errors about files that appear and vanish."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False, timeout=120)


def file_tools(scratch):
    cache, copy, aside = (os.path.join(scratch, name) for name in ("cache", "copy", "aside"))
    archive = os.path.join(scratch, "archive")
    worker(cache, "fill", KEYS)
    users = start_users(cache, 3)
    for turn in range(4):
        quietly("cp", "-a", cache, copy)
        quietly("tar", "-C", scratch, "-cf", archive, "cache")
        expect(worker(copy, "check", KEYS)["wrong"] == 0, "that a copy has no wrong value")
        quietly("rm", "-rf", copy)
        os.mkdir(copy, 0o700)
        quietly("tar", "-C", copy, "-xf", archive, "--strip-components=1")
        expect(worker(copy, "check", KEYS)["wrong"] == 0, "that an archive has no wrong value")
        if turn % 2 == 0:
            quietly("mv", cache, aside)
            quietly("rm", "-rf", aside)
        else:
            quietly("rm", "-rf", cache)
        quietly("rm", "-rf", copy)
    total = end_users(users)
    expect(total["wrong"] == 0 and total["damaged"] == 0, "that all values are right")
    expect(total["stored"] > 0 and total["hits"] > 0, "that the store was used")
    expect_to_work(cache)


def full_disk(mount):
    if quietly("mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "kiln-test", mount).returncode:
        skip("no file system can be mounted here")
    cache = os.path.join(mount, "cache")
    counted = worker(cache, "fill", 200)
    print(counted)
    expect(counted["stored"] > 10, "that some entries were stored")
    expect(counted["failed"] > 10, "that other puts failed")
    expect(not temporaries(cache), "that a failed put leaves nothing")
    checked = worker(cache, "check", 200)
    print(checked)
    expect(checked["wrong"] == 0 and checked["damaged"] == 0, "that no value is incomplete")
    expect(checked["hits"] == counted["stored"], "that what was stored is there")
    users = start_users(cache, 3)
    time.sleep(2)
    total = end_users(users)
    expect(total["wrong"] == 0 and total["damaged"] == 0,
           "that no value is incomplete if several processes put")
    worker(cache, "trim", 0)
    expect_to_work(cache)


def shut_down(mount):
    directory = os.open(mount, os.O_RDONLY)
    fcntl.ioctl(directory, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_ITS_LOG))
    os.close(directory)


def power_cuts(scratch):
    image, mount = os.path.join(scratch, "image"), os.path.join(scratch, "mount")
    os.mkdir(mount)
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    if shutil.which("mkfs.ext4") is None or quietly("mkfs.ext4", "-q", image).returncode:
        skip("there is no mkfs.ext4")
    cache = os.path.join(mount, "cache")
    damaged = 0
    for cut in range(4):
        if quietly("mount", "-o", "loop,commit=1", image, mount).returncode:
            skip("no image of a file system can be mounted here")
        os.chmod(mount, 0o700)
        if cut > 0:
            checked = worker(cache, "check", KEYS)
            print(checked)
            expect(checked["wrong"] == 0, "that no value is wrong after a power cut")
            damaged += checked["damaged"]
            expect_to_work(cache)
        if cut < 3:
            users = start_users(cache, 2)
            time.sleep(1 + cut * 0.7)
            try:
                shut_down(mount)
            except OSError:
                for user in users:
                    user.kill()
                    user.wait()
                quietly("umount", "-l", mount)
                skip("this ext4 can't be shut down")
            total = end_users(users)
            expect(total["wrong"] == 0, "that no value is wrong while the disk is gone")
        expect(quietly("umount", mount).returncode == 0, "that the file system is not busy")
    print(f"{damaged} damaged entries were reported after power cuts")


CASES = {"file-tools": file_tools, "full-disk": full_disk, "power-cuts": power_cuts}


def main():
    case = sys.argv[3]
    if len(sys.argv) == 4 and case != "file-tools":
        if os.geteuid() != 0 or quietly("unshare", "--mount", "true").returncode:
            skip("mounting needs root")
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable,
                              *sys.argv, "inside"])
    with tempfile.TemporaryDirectory(prefix="kiln-places-", ignore_cleanup_errors=True) as scratch:
        try:
            CASES[case](scratch)
        finally:
            quietly("umount", "-l", scratch)


if __name__ == "__main__":
    main()
