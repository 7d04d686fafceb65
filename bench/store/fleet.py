#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures gets from servers on this machine: Redis, nginx, and OpenStack Swift as an S3 server.
They are compared with the protocol alone in the same run: GET on a plain socket for Redis, and
libcurl for the others. A get also checks the entry: its hash, and its MAC or its signature if it
must have one. The peer measures what these checks cost, too. The limit for a get is 1.5 times the bare GET
of Redis, or 1.2 times that of the others, plus 15 us, plus the cost of the check. Redis is also
asked for 16 entries at once. "Processor" is the time for which a request keeps the server's
processor busy. Servers that are not installed are left out, and a note says so.

--rounds N    rounds; all measurements take turns, and the lower quartile of each counts (5)"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH / "lib"))
import measuring

SIZES = {"10 KB": 10 << 10, "100 KB": 100 << 10, "1 MB": 1 << 20}
BATCH = 16
CHECKS = {"": "hash", ", MAC": "MAC", ", signed": "signature"}
LIBRARY = measuring.BUILD / "src/libkiln_remote.so"
START_SECONDS = 60
CONNECTIONS = 500
CONNECTION_SECONDS = 5  # in this time the server frees the buffers of idle connections


class Server:
    """A server, and what fleet_bench must know about it."""

    def __init__(self, command, port, **variables):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.port = port
        self.variables = variables
        self.measured = self.process.pid  # the process whose time is measured

    def wait_for_port(self):
        for _ in range(100 * START_SECONDS):
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise SystemExit("fleet: a server does not start")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Redis(Server):
    kind, title = "redis", "Redis"

    def __init__(self, folder):
        port = free_port()
        super().__init__(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                          "--dir", folder, "--logfile", "/dev/null"], port)
        self.wait_for_port()
        self.location = f"redis://127.0.0.1:{port}?"
        self.where = f"127.0.0.1:{port}"

    @staticmethod
    def is_installed():
        return shutil.which("redis-server") is not None

    def say(self, *words):
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            return connection.recv(1 << 20)

    def used_memory(self):
        return int(self.say(b"INFO", b"memory").split(b"used_memory:")[1].split()[0])

    def connection_memory(self):
        """Returns the bytes that the server uses for a connection that had one request."""
        before, connections = self.used_memory(), []
        for _ in range(CONNECTIONS):
            connections.append(socket.create_connection(("127.0.0.1", self.port)))
            connections[-1].sendall(b"PING\r\n")
            connections[-1].recv(100)
        time.sleep(CONNECTION_SECONDS)
        used = (self.used_memory() - before) / CONNECTIONS
        for connection in connections:
            connection.close()
        return used

    def memory(self):
        """Returns the bytes that the server uses for a value and the value's size, for one value of
        each size."""
        used = {}
        for _ in range(1000):
            name = self.say(b"RANDOMKEY").split(b"\r\n")[1]
            size = int(self.say(b"STRLEN", name)[1:])
            for title, payload in SIZES.items():
                if payload <= size < 2 * payload:
                    used[title] = (int(self.say(b"MEMORY", b"USAGE", name)[1:]), size)
            if len(used) == len(SIZES):
                break
        return used


class Nginx(Server):
    kind, title = "http", "HTTP"

    CONFIGURATION = """daemon off; master_process off; pid pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
  access_log off; types {{}} default_type application/octet-stream;
  client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u;
  scgi_temp_path s; client_max_body_size 64m; keepalive_requests 1000000;
  server {{ listen 127.0.0.1:{port}; root data; dav_methods PUT DELETE; create_full_put_path on; }}
}}
"""

    def __init__(self, folder):
        port = free_port()
        os.mkdir(f"{folder}/data")
        Path(folder, "conf").write_text(self.CONFIGURATION.format(port=port))
        super().__init__(["/usr/sbin/nginx", "-p", folder, "-c", "conf", "-e", "stderr"], port)
        self.wait_for_port()
        self.location = f"http://127.0.0.1:{port}/bench?"
        self.where = f"http://127.0.0.1:{port}/bench/"

    @staticmethod
    def is_installed():
        return os.path.exists("/usr/sbin/nginx")


class Swift(Server):
    kind, title = "s3", "S3"

    def __init__(self, folder):
        port = free_port()
        super().__init__(
            ["/usr/bin/python3", BENCH.parent / "tests/support/swift_server.py", folder, str(port)],
            port, AWS_ACCESS_KEY_ID="kiln:writer", AWS_SECRET_ACCESS_KEY="writer-secret")
        if self.process.stdout.readline() != b"ready\n":
            raise SystemExit("fleet: Swift does not start")
        self.measured = 0  # it has several processes
        self.location = f"s3://kiln/bench?endpoint=http://127.0.0.1:{port}&"
        self.where = f"http://127.0.0.1:{port}/kiln/bench/"

    @staticmethod
    def is_installed():
        return os.path.exists("/usr/bin/swift-proxy-server")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def measure(server, folder, rounds):
    """Returns microseconds, and microseconds of the server's processor, by (subject, bytes of
    payload)."""
    output = subprocess.run(
        [measuring.BUILD / "bench/fleet_bench", server.kind, folder, server.location, server.where,
         LIBRARY, str(server.measured), str(rounds)],
        check=True, stdout=subprocess.PIPE, text=True, env=os.environ | server.variables).stdout
    samples = {}
    for line in output.splitlines():
        subject, size, *nanoseconds = line.split("\t")
        samples.setdefault((subject, int(size)), []).append([float(n) / 1000 for n in nanoseconds])
    taken, served = ({what: statistics.quantiles([sample[i] for sample in several])[0]
                      for what, several in samples.items()} for i in range(2))
    return taken, served


def cost_of_check(taken, how, size):
    """Returns what it costs to check the bytes that the peer has got."""
    return max(0, taken["bare GET and " + CHECKS[how], size] - taken["bare GET", size])


def judge_gets(title, factor, taken):
    results = []
    for how in CHECKS:
        for size_title, size in SIZES.items():
            bare = taken["bare GET", size]
            limit = (factor * bare + 15 + cost_of_check(taken, how, size)) / bare
            results.append(measuring.result(f"{title}, get of {size_title}{how} / bare GET",
                                            taken["get" + how, size], bare, limit))
    size = SIZES["10 KB"]
    bare = taken["bare absent", size]
    results.append(measuring.result(f"{title}, absent key / bare GET of it", taken["absent", size],
                                    bare, (factor * bare + 15) / bare))
    return results


def describe_parts(title, taken):
    """Rows that say where the time of a signed get goes."""
    return [measuring.result(f"{title}, {size_title}: bare GET, then a signed entry of it / "
                             "bare GET and signature", taken["bare GET and entry", size],
                             taken["bare GET and signature", size], None)
            for size_title, size in SIZES.items()]


def judge_batches(taken):
    results = []
    for how in "", ", signed":
        for title, size in SIZES.items():
            bare = taken["bare batch", size]
            limit = (1.5 * bare + 15 + cost_of_check(taken, how, size)) / bare
            results.append(measuring.result(
                f"Redis, {BATCH} of {title} at once{how}, each / bare pipeline",
                taken["batch" + how, size], bare, limit))
    return results


def judge_local(title, taken):
    return [measuring.result(f"local get of {size_title} before {title} / without a server",
                             taken["local get in a chain", size], taken["local get", size], 1.1)
            for size_title, size in SIZES.items()]


def describe_costs(title, taken, served):
    """Rows for capacity planning."""
    results = []
    for size_title, size in SIZES.items():
        for subject in "get", "put":
            results.append(measuring.result(
                f"{title}, {subject} of {size_title}: processor / in all", served[subject, size],
                taken[subject, size], None))
    size = SIZES["10 KB"]
    for subject in "absent", "lease", "lease that is taken":
        if (subject, size) in served:
            results.append(measuring.result(f"{title}, {subject}: processor / in all",
                                            served[subject, size], taken[subject, size], None))
    return results


def describe_checks(taken):
    return [measuring.result(f"{check} of {title} / bare GET", cost_of_check(taken, how, size),
                             taken["bare GET", size], None)
            for how, check in CHECKS.items() for title, size in SIZES.items()]


def describe_memory(server):
    values = server.memory()
    connection = server.connection_memory()
    return [measuring.result(f"Redis, bytes of memory for {title} / of the value", *values[title],
                             None) for title in SIZES] + [
        measuring.result("Redis, bytes of memory for a connection / for 10 KB", connection,
                         values["10 KB"][0], None)]


def bench(server_class, rounds):
    with measuring.Scratch() as scratch:
        server = server_class(scratch.folder())
        try:
            taken, served = measure(server, scratch.folder(), rounds)
            results = judge_gets(server.title, 1.5 if server_class is Redis else 1.2, taken)
            results += describe_parts(server.title, taken)
            if server_class is Redis:
                results += judge_batches(taken)
            results += judge_local(server.title, taken)
            if server.measured:
                results += describe_costs(server.title, taken, served)
            if server_class is Redis:
                results += describe_checks(taken) + describe_memory(server)
            return results
        finally:
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    subprocess.run(["ninja", "-C", str(measuring.BUILD), "--quiet", "bench/fleet_bench"], check=True,
                   stdout=sys.stderr)
    others = measuring.Others()
    results = []
    for server_class, option in (Redis, "--fleet"), (Nginx, "--fleet"), (Swift, "--s3"):
        if server_class.is_installed():
            results += bench(server_class, arguments.rounds)
        else:
            measuring.note("fleet", f"{server_class.title}: no server is installed; "
                                    f"scripts/install-deps {option} installs it")
    measuring.note("fleet", "microseconds; other processes kept "
                            f"{others.processors():.1f} processors busy")
    return measuring.report("fleet", results, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
