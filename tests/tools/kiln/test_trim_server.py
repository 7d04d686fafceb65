# SPDX-License-Identifier: Apache-2.0
"""kiln trim on a store on a Redis server."""

import os
import signal
import socket
import subprocess
import threading
import time

import cli
import redis_server

DAY = 86400


class Proxy:
    """Passes bytes between the tool and the server. Calls @on_removals for the first removals that
    the tool sends: before they are passed on, or, if it returns a text, instead of that."""

    def __init__(self, folder, server, on_removals):
        self.path = os.path.join(folder, "proxy")
        self.server = server
        self.on_removals = on_removals
        self.removals = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            there.connect(self.server.path)
            for source, target in ((client, there), (there, client)):
                threading.Thread(target=self.passes, args=(source, target, source is client),
                                 daemon=True).start()

    def passes(self, source, target, is_question):
        try:
            while data := source.recv(1 << 20):
                if is_question and b"UNLINK" in data:
                    self.removals += 1
                    if self.removals == 1 and self.on_removals():
                        break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()

    def location(self, options="trust=any"):
        return f"redis+unix://{self.path}?{options}"


class TrimTest(cli.CliTest):
    def setUp(self):
        redis_server.require()
        super().setUp()
        self.server = redis_server.RedisServer(self.scratch)
        self.addCleanup(self.server.stop)
        self.environment["KILN_DIR"] = self.there = self.server.location()

    def put(self, name, **options):
        """Puts an entry; returns the name of its value."""
        digest = self.make_entry("put", f"source={name}", name=name, **options)
        self.kiln("copy", self.cache, self.environment["KILN_DIR"], digest)
        return self.server.name_of(digest)

    def put_copies(self, count):
        """Puts many entries of the same size."""
        value = self.server.say("GET", self.put("original"))
        for number in range(count - 1):
            self.server.say("SET", self.server.name_of(f"{number:032x}"), value)
        return len(value)

    def left(self):
        return sorted(item["name"] for item in self.listed())

    def trim(self, *arguments, **options):
        return self.kiln_json("trim", *arguments, **options)

    def proxy(self, on_removals):
        proxy = Proxy(self.scratch, self.server, on_removals)
        self.addCleanup(proxy.listener.close)
        return proxy

    def make_old(self, name, unused_s):
        """Makes the server believe that nobody has used a value for some time."""
        self.server.say("RESTORE", name, 0, self.server.say("DUMP", name), "REPLACE", "IDLETIME",
                        unused_s)

    def require_uses(self):
        try:
            self.server.say("CLIENT", "NO-TOUCH", "OFF")
        except RuntimeError:
            self.skipTest("this server can't be asked about uses")


class Size(TrimTest):
    def setUp(self):
        super().setUp()
        self.values = []
        for i in range(5):
            unused_s = 100 * (5 - i)
            self.values.append(self.put(f"entry {i}", size=2000, cost=(1 + i) * 10**9,
                                        created=int(time.time()) - unused_s))
            self.size = self.server.say("STRLEN", self.values[-1])  # counts as a use
            self.make_old(self.values[-1], unused_s)

    def test_the_cheapest_are_removed(self):
        limit = str(3 * self.size)
        for dry_run in (True, False):
            with self.subTest(dry_run=dry_run):
                report = self.trim("--max-size", limit, *["--dry-run"] * dry_run)
                self.assertEqual(
                    (report["removed"], report["removed_bytes"], report["entries"],
                     report["bytes"], report["dry_run"]),
                    (2, 2 * self.size, 3, 3 * self.size, dry_run))
                self.assertEqual(len(self.server.names()), 5 if dry_run else 3)
        self.assertEqual(self.left(), ["entry 2", "entry 3", "entry 4"])
        self.assertEqual(self.trim("--max-size", limit)["removed"], 0)

    def test_what_is_printed(self):
        result = self.kiln("trim", "--max-size", "0")
        self.assertRegex(result.stdout.decode(), r"^5 entries removed, .*; 0 left, 0 B\n$")
        self.assertEqual(self.server.names(), [])

    def test_policies(self):
        times = [int(time.time()) - age for age in (50, 10, 40, 20, 30)]
        for name in self.values:
            self.server.say("DEL", name)
        for i, created in enumerate(times):
            self.make_old(self.put(f"entry {i}", size=2000, cost=(1 + i) * 10**9, created=created),
                          (5 - i) * DAY)
        for policy, kept in (("fifo", ["entry 1", "entry 3", "entry 4"]),
                             ("lru", ["entry 3", "entry 4"])):
            if policy == "lru":
                self.require_uses()
            with self.subTest(policy):
                self.environment["KILN_DIR"] = self.server.location(f"trust=any&policy={policy}")
                self.trim("--max-size", str(len(kept) * self.size + 10))
                self.assertEqual(self.left(), kept)

    def test_without_a_limit(self):
        self.assertIn(b"--max-size, --older-than or --stale", self.kiln("trim", expect=2).stderr)
        self.assertEqual(self.trim("--stale")["entries"], 5)
        self.assertEqual(len(self.server.names()), 5)

    def test_filters(self):
        report = self.trim("--max-size", "0", "--name", "entry 3")
        self.assertEqual((report["removed"], report["entries"]), (1, 4))

    def test_a_chain_leaves_the_server_alone(self):
        self.trim("--dir", f"{self.cache}|{self.there}", "--max-size", "0")
        self.assertEqual(len(self.server.names()), 5)


class Age(TrimTest):
    def test_the_server_expires_entries(self):
        """The use was reported by renewing the time when the entry expires."""
        self.environment["KILN_DIR"] = self.server.location("trust=any&expire=30")
        for days in (0, 10, 20):
            name = self.put(f"unused for {days}", created=1700000000)
            self.server.say("PEXPIRE", name, (30 - days) * DAY * 1000)
        for _ in range(2):
            self.assertEqual(self.trim("--older-than", "15d", "--dry-run")["removed"], 1)
        self.assertEqual(self.trim("--older-than", "15d")["removed"], 1)
        self.assertEqual(self.left(), ["unused for 0", "unused for 10"])
        used = {item["name"]: time.time() - item["last_used"] for item in self.listed()}
        self.assertAlmostEqual(used["unused for 10"], 10 * DAY, delta=600)
        self.assertEqual(self.trim("--older-than", "5d", "--max-size", "1G")["removed"], 1)

    def test_the_server_knows_uses(self):
        """Neither a trim nor ls counts as a use."""
        self.require_uses()
        for days in (0, 10, 20):
            self.make_old(self.put(f"unused for {days}", created=1700000000), days * DAY)
        for _ in range(2):
            self.assertEqual(self.trim("--older-than", "15d", "--dry-run")["removed"], 1)
            self.assertEqual(len(self.listed("--older-than", "15d")), 1)
            self.kiln("stats")
        self.assertEqual(self.trim("--older-than", "15d")["removed"], 1)
        self.assertEqual(self.left(), ["unused for 0", "unused for 10"])
        for item in self.listed():
            shown = self.kiln_json("show", item["digest"])
            self.assertAlmostEqual(shown["last_used"], item["last_used"], delta=600)

    def test_the_server_knows_nothing(self):
        """Then the time of the build counts."""
        self.server.say("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        for days in (0, 10, 20):
            self.put(f"built {days} ago", created=int(time.time()) - days * DAY - 60)
        for _ in range(2):
            self.assertEqual(self.trim("--older-than", "15d", "--dry-run")["removed"], 1)
        self.assertEqual(self.trim("--older-than", "15d")["removed"], 1)
        self.assertEqual(self.left(), ["built 0 ago", "built 10 ago"])


class Untouched(TrimTest):
    def test_what_stays(self):
        size = len(self.server.say("GET", self.put("plain")))
        newer, required = self.put("newer"), self.put("required")
        self.server.say("SETRANGE", newer, 8, b"\x02")
        value = bytearray(self.server.say("GET", required))
        value[64:72] = b"\x63\0\0\0\1\0\0\0"  # a section that only a newer reader knows
        self.server.say("SET", required, bytes(value))
        others = [newer, required, newer + ":lease", newer + ":device", newer + ":damaged", "other",
                  "kiln:v2:" + newer[8:], "kiln:v1:{nothing}", newer + "}", newer[:-3] + "g}"]
        for name in others[2:]:
            self.server.say("SET", name, "x" * 500)
        foreign_kind = self.server.name_of("1" * 32)
        self.server.say("LPUSH", foreign_kind, "x")
        damaged = [self.server.name_of("0" * 32), self.server.name_of("2" * 32)]
        self.server.say("SET", damaged[0], "x")
        self.server.say("SET", damaged[1], "x" * 5000)
        before = {name: self.server.say("DUMP", name) for name in others + [foreign_kind]}
        report = self.trim("--max-size", "0")
        self.assertEqual((report["removed"], report["removed_bytes"]), (3, size + 5001))
        self.assertEqual(report["entries"], 2)
        self.assertEqual({name: self.server.say("DUMP", name) for name in before}, before)
        self.assertEqual(len(self.server.names()), len(before))
        self.kiln("clear", "--newer", "--yes", expect=3)
        self.assertIn(newer.encode(), self.server.names())

    def test_what_is_put_meanwhile(self):
        """Entries that a machine replaces after they were judged, one with an entry of the same
        size, are not removed."""
        self.put_copies(100)
        replaced = self.server.name_of(f"{7:032x}")
        newer = self.server.name_of(f"{9:032x}")
        value = self.server.say("GET", replaced)
        changed = value[:-8] + b"checksum"

        def replace():
            self.server.say("SET", replaced, changed)
            self.server.say("SET", newer, value + b"more")
            self.server.say("SET", self.server.name_of("f" * 32), value)

        report = self.trim("--dir", self.proxy(replace).location(), "--max-size", "0")
        self.assertEqual(report["removed"], 98)
        self.assertEqual(self.server.say("GET", replaced), changed)
        self.assertEqual(self.server.say("GET", newer), value + b"more")
        self.assertEqual(len(self.server.names()), 3)


class Interrupted(TrimTest):
    COUNT = 300

    def setUp(self):
        super().setUp()
        self.size = self.put_copies(self.COUNT)
        self.limit = str(100 * self.size)

    def test_killed(self):
        """A trim that is killed leaves a store that the next one trims to the same size."""
        def kill():
            process.send_signal(signal.SIGKILL)
            process.wait()

        location = self.proxy(kill).location()
        process = subprocess.Popen([cli.KILN, "trim", "--dir", location, "--max-size", self.limit],
                                   env=self.environment)
        process.wait()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertGreaterEqual(len(self.server.names()), 100)
        self.assertEqual(self.trim("--max-size", self.limit)["entries"], 100)
        self.assertEqual(len(self.server.names()), 100)

    def test_the_connection_ends(self):
        location = self.proxy(lambda: True).location()
        result = self.kiln("trim", "--dir", location, "--max-size", self.limit, expect=4)
        self.assertNotEqual(result.stderr, b"")
        self.assertEqual(len(self.server.names()), self.COUNT)
        self.trim("--max-size", self.limit)
        self.assertEqual(len(self.server.names()), 100)

    def test_the_server_is_gone(self):
        self.server.stop()
        self.kiln("trim", "--max-size", "0", expect=4)

    def test_a_full_server(self):
        """A server that is full refuses puts, but not a trim."""
        self.server.say("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
        self.assertEqual(self.trim("--max-size", self.limit)["entries"], 100)

    def test_a_server_that_evicts(self):
        """The server removes entries itself while they are being judged."""
        self.server.say("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "1")
        self.trim("--max-size", self.limit)
        self.assertLessEqual(len(self.server.names()), 100)

    def test_the_server_is_not_blocked(self):
        self.server.forget_calls()
        self.trim("--max-size", self.limit)
        self.assertEqual(self.server.calls("keys") + self.server.calls("del"), 0)
        self.assertEqual(self.server.calls("unlink"), 200)


class Refused(TrimTest):
    def test_users_that_may_not_remove(self):
        self.put_copies(3)
        for right in ("-eval", "-unlink", "-scan"):
            with self.subTest(right):
                self.server.say("ACL", "SETUSER", "default", right)
                result = self.kiln("trim", "--max-size", "0", expect=3)
                self.assertIn(b"does not allow this user", result.stderr)
                self.server.say("ACL", "SETUSER", "default", "+@all")
                self.assertEqual(len(self.server.names()), 3)
        self.assertEqual(self.trim("--max-size", "0")["removed"], 3)

    def test_users_that_may_not_ask_about_uses(self):
        self.put_copies(3)
        for right in ("-client|no-touch", "-object|idletime", "-pttl"):
            try:
                self.server.say("ACL", "SETUSER", "default", right)
            except RuntimeError:  # an older server
                continue
            self.assertEqual(self.trim("--max-size", "0", "--dry-run")["removed"], 3)

    def test_a_store_that_only_reads(self):
        self.put_copies(3)
        location = self.server.location("trust=any&readonly=1")
        result = self.kiln("trim", "--dir", location, "--max-size", "0", expect=4)
        self.assertIn(b"reading only", result.stderr)
        self.assertEqual(self.trim("--dir", location, "--max-size", "0", "--dry-run")["removed"], 3)
        self.assertEqual(len(self.server.names()), 3)

    def test_http_servers_cannot_be_trimmed(self):
        """The server is not asked."""
        for arguments in (("--max-size", "0"), ("--older-than", "1"), ("--max-size", "0",
                                                                       "--dry-run")):
            result = self.kiln("trim", "--dir", "http://127.0.0.1:1/?trust=any", *arguments,
                               expect=3)
            self.assertIn(b"an HTTP server cannot list its entries", result.stderr)


if __name__ == "__main__":
    cli.main()
