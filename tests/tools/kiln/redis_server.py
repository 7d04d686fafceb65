# SPDX-License-Identifier: Apache-2.0
"""A real Redis server for tests, on a socket in a scratch directory. It keeps nothing on disk."""

import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

PROGRAM = shutil.which(os.environ.get("REDIS_SERVER", "redis-server")) or \
    shutil.which("valkey-server")


def require():
    """Skips a test or a class if there is no server."""
    if PROGRAM is None:
        raise unittest.SkipTest("no redis-server: scripts/install-deps --fleet installs it")


class RedisServer:
    def __init__(self, folder, *options):
        self.path = os.path.join(folder, "redis")
        self.process = subprocess.Popen(
            [PROGRAM, "--port", "0", "--unixsocket", self.path, "--unixsocketperm", "700",
             "--save", "", "--appendonly", "no", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(6000):
            try:
                if self.say("PING") == b"PONG":
                    return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("the server does not answer")

    def location(self, options="trust=any"):
        return f"redis+unix://{self.path}?{options}"

    def say(self, *words):
        """Sends a command; returns the reply: bytes, a number, a list or None."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(self.path)
            parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(
                b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            with connection.makefile("rb") as replies:
                return self.read_reply(replies)

    def read_reply(self, replies):
        kind, rest = replies.read(1), replies.readline()[:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"+":
            return rest
        number = int(rest)
        if kind == b"$":
            return None if number < 0 else replies.read(number + 2)[:-2]
        return [self.read_reply(replies) for _ in range(number)] if kind == b"*" else number

    def names(self):
        return sorted(self.say("KEYS", "*"))

    def name_of(self, digest):
        return f"kiln:v1:{{{digest}}}"

    def calls(self, command):
        """Returns how many times the server has received a command since its start, or since
        forget_calls."""
        for line in self.say("INFO", "commandstats").splitlines():
            name, _, numbers = line.decode().partition(":")
            if name == f"cmdstat_{command}":
                return int(numbers.split(",")[0].split("=")[1])
        return 0

    def forget_calls(self):
        self.say("CONFIG", "RESETSTAT")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
