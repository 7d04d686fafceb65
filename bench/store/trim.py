#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `kiln trim` on a Redis server on this machine that has many small entries: a trim that
removes all of them, and a dry run of it. They are compared with the bare commands SCAN and UNLINK in
a pipeline. The memory of the tool is compared with that of a trim of a server without entries.

--entries N   entries on the server (100000)
--size N      bytes of an entry's payload (1000)
--rounds N    rounds, in turns; the median of each measurement counts (5)"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measuring

PAGE = 500
MAKE_ENTRY = measuring.BUILD / "tests/support/make_entry"


class Redis:
    def __init__(self, program, folder):
        self.path = f"{folder}/redis"
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", self.path, "--save", "", "--logfile",
             "/dev/null"])
        self.connection = socket.socket(socket.AF_UNIX)
        while self.connection.connect_ex(self.path) != 0:
            time.sleep(0.01)
        self.replies = self.connection.makefile("rb", buffering=1 << 20)
        self.location = f"redis+unix://{self.path}?trust=any"

    def send(self, commands):
        self.connection.sendall(b"".join(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                               for word in words) for words in commands))

    def read(self):
        line = self.replies.readline()
        kind, number = line[:1], line[1:-2]
        if kind == b"$":
            return self.replies.read(int(number) + 2)[:-2]
        return [self.read() for _ in range(int(number))] if kind == b"*" else number

    def ask(self, commands):
        """Sends commands in a pipeline; returns the replies."""
        self.send(commands)
        return [self.read() for _ in commands]

    def fill(self, value, entries):
        for first in range(0, entries, PAGE):
            self.ask([[b"SET", b"kiln:v1:{%032x}" % number, value]
                      for number in range(first, min(first + PAGE, entries))])

    def count(self):
        return int(self.ask([[b"DBSIZE"]])[0])

    def remove_bare(self):
        cursor, pages = b"0", []
        while not pages or cursor != b"0":
            cursor, names = self.ask([[b"SCAN", cursor, b"MATCH", b"kiln:v1:{*", b"COUNT",
                                       b"%d" % PAGE]])[0]
            pages.append(names)
        for names in pages:
            self.ask([[b"UNLINK", name] for name in names])

    def stop(self):
        self.process.kill()
        self.process.wait()


def small_entry(scratch, size):
    """Returns the bytes of an entry, as a server has them."""
    folder = scratch.folder()
    digest = subprocess.run([MAKE_ENTRY, folder, "put", f"size={size}", "--", "source=x"],
                            check=True, capture_output=True, text=True).stdout.strip()
    return Path(folder, "v1", digest[:2], digest).read_bytes()


def peak_memory(process):
    """Returns the most bytes that a process has used so far; 0: it has ended."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def run_tool(location, *arguments):
    """Returns the tool's seconds and bytes of memory."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("KILN_")}
    memory, start = 0, time.monotonic()
    process = subprocess.Popen([measuring.TOOL, "trim", "--dir", location, "--max-size", "0",
                                *arguments], stdout=subprocess.DEVNULL, env=environment)
    while process.poll() is None:
        memory = max(memory, peak_memory(process))
        time.sleep(0.001)
    if process.returncode != 0:
        raise SystemExit("trim: the tool failed")
    return {"seconds": time.monotonic() - start, "bytes": memory}


def bench(server, value, arguments):
    def trim():
        server.fill(value, arguments.entries)
        sample = run_tool(server.location)
        assert server.count() == 0
        return sample

    def bare():
        server.fill(value, arguments.entries)
        start = time.monotonic()
        server.remove_bare()
        assert server.count() == 0
        return {"seconds": time.monotonic() - start}

    def dry_run():
        server.fill(value, arguments.entries)
        return run_tool(server.location, "--dry-run")

    def nothing():
        server.remove_bare()
        return run_tool(server.location)

    taken = measuring.in_turns({"trim": trim, "bare": bare, "dry run": dry_run, "nothing": nothing},
                               arguments.rounds)
    return [
        measuring.result("trim / bare SCAN and UNLINK", taken["trim"]["seconds"],
                         taken["bare"]["seconds"], 6),
        measuring.result("dry run / bare SCAN and UNLINK", taken["dry run"]["seconds"],
                         taken["bare"]["seconds"], 3),
        measuring.result("MB of memory / without entries", taken["trim"]["bytes"] / 1e6,
                         taken["nothing"]["bytes"] / 1e6, None),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--entries", type=int, default=100000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    if program is None:
        measuring.note("trim", "no redis-server: scripts/install-deps --fleet installs it")
        return 0
    others = measuring.Others()
    with measuring.Scratch() as scratch:
        server = Redis(program, scratch.folder())
        try:
            value = small_entry(scratch, arguments.size)
            results = bench(server, value, arguments)
        finally:
            server.stop()
    measuring.note("trim", f"seconds, {arguments.entries} entries of {len(value)} bytes; other "
                           f"processes kept {others.processors():.1f} processors busy")
    return measuring.report("trim", results, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
