# SPDX-License-Identifier: Apache-2.0
"""The tool's commands on a store on a Redis server."""

import json
import os
import subprocess
import time

import cli
import redis_server


class FleetTest(cli.CliTest):
    def setUp(self):
        redis_server.require()
        super().setUp()
        self.server = redis_server.RedisServer(self.scratch)
        self.addCleanup(self.server.stop)
        self.there = self.server.location()
        self.digests = self.make("entries")
        self.into = os.path.join(self.scratch, "into")

    def copy(self, *arguments, **options):
        return self.kiln_json("copy", *arguments, **options)

    def names(self, location):
        return sorted(item["name"] for item in self.listed("--dir", location))


class Copy(FleetTest):
    def test_there_and_back(self):
        self.assertEqual(self.copy(self.cache, self.there)["taken"], 3)
        self.assertEqual(len(self.server.names()), 3)
        self.kiln("copy", self.there, self.into, expect=5)
        self.assertEqual(self.copy("--trust", self.there, self.into)["taken"], 3)
        self.assertEqual(self.names(self.into), self.names(self.cache))
        payloads = [self.kiln("show", "--dir", location, "--payload", "-",
                              self.digests["matmul"]).stdout for location in (self.cache, self.into)]
        self.assertEqual(*payloads)

    def test_what_is_here_is_not_fetched_again(self):
        self.copy(self.cache, self.there)
        self.copy("--trust", self.there, self.into, self.digests["matmul"])
        self.server.forget_calls()
        report = self.copy("--trust", self.there, self.into)
        self.assertEqual((report["taken"], report["present"]), (2, 1))
        self.assertIn(self.server.calls("get"), (2, 3))  # a value may be read ahead

    def test_what_is_there_is_not_sent_again(self):
        self.copy(self.cache, self.there, self.digests["matmul"])
        self.server.forget_calls()
        report = self.copy(self.cache, self.there)
        self.assertEqual((report["taken"], report["present"]), (2, 1))
        self.assertEqual(self.server.calls("set"), 2)
        self.server.say("SETRANGE", self.server.name_of(self.digests["saxpy"]), 300, "damage")
        self.assertEqual(self.copy(self.cache, self.there)["taken"], 1)
        self.kiln("verify", "--dir", self.there)

    def test_signed(self):
        key, other = self.make_key_file(), self.make_key_file("other")
        signed = self.server.location(f"key-file={key}")
        self.assertEqual(self.copy(self.cache, signed)["taken"], 3)
        report = self.copy(self.server.location(f"key-file={other}"), self.into, expect=4)
        self.assertEqual((report["taken"], report["unauthenticated"]), (0, 3))
        self.assertEqual(self.copy(signed, self.into)["taken"], 3)

    def test_values_that_others_made(self):
        self.copy(self.cache, self.there)
        self.server.say("SET", "kiln:v1:{not a digest}", "x")
        self.server.say("SET", self.server.name_of("0" * 32), "x" * 5000)
        self.server.say("SET", self.server.name_of(self.digests["saxpy"]),
                        self.server.say("GET", self.server.name_of(self.digests["matmul"])))
        self.server.say("LPUSH", self.server.name_of("1" * 32), "x")
        report = self.copy("--trust", self.there, self.into, expect=5)
        self.assertEqual((report["taken"], report["damaged"], report["gone"]), (2, 2, 1))
        self.kiln("verify", "--dir", self.into)

    def test_a_server_that_dies(self):
        self.copy(self.cache, self.there)
        self.server.stop()
        self.kiln("copy", "--trust", self.there, self.into, expect=4)
        result = self.kiln("copy", self.cache, self.there, expect=4)
        self.assertIn(b"the store to write:", result.stderr)

    def test_pull_and_push(self):
        self.environment["KILN_DIR"] = f"{self.cache}|{self.there}"
        self.assertEqual(self.kiln_json("push")["taken"], 3)
        self.assertEqual(self.kiln_json("push")["present"], 3)
        self.environment["KILN_DIR"] = f"{self.into}|{self.there}"
        self.assertEqual(self.kiln_json("pull", "--trust", "--name", "saxpy")["taken"], 1)
        self.assertEqual(self.names(self.into), ["saxpy"])


class Stale(FleetTest):
    """kiln trim --stale, with the records of devices that a server has."""

    def setUp(self):
        super().setUp()
        self.kiln("clear", "--yes")
        self.old = time.time() - 40 * 86400
        for device in ("seen", "gone", "unknown"):
            digest = self.make_entry("put", f"source={device}", name=device, device=device,
                                     created=int(self.old))
            os.utime(self.entry_path(digest), (self.old, self.old))
        self.kiln("copy", self.cache, self.there)
        self.record("seen", time.time() - 20 * 86400)
        self.record("gone", self.old)
        self.chain = f"{self.cache}|{self.there}"

    def record(self, device, last_s):
        digest = self.make_entry("put", f"device in use={device}", device=device,
                                 created=int(last_s))
        self.kiln("copy", self.cache, self.there, digest)
        self.kiln("rm", digest)
        self.server.say("RENAME", self.server.name_of(digest),
                        self.server.name_of(digest) + ":device")

    def stale(self, location, *arguments, **options):
        report = self.kiln_json("trim", "--stale", "--dir", location, *arguments, **options)
        return report["stale"], report["undetermined"]

    def test_what_no_machine_uses_is_removed(self):
        for location in (self.there, self.chain):
            with self.subTest(location):
                self.assertEqual(self.stale(location, "--dry-run"), (1, 1))
                self.assertEqual(self.stale(location, "--dry-run", "--older-than", "50d"), (0, 0))
                self.assertEqual(self.stale(location, "--dry-run", "--older-than", "10d"), (2, 1))
        self.assertEqual(self.stale(self.chain), (1, 1))
        for location in (self.cache, self.there):
            self.assertEqual(self.names(location), ["seen", "unknown"])

    def test_only_the_server(self):
        self.assertEqual(self.stale(self.there), (1, 1))
        self.assertEqual(self.names(self.there), ["seen", "unknown"])
        self.assertEqual(self.names(self.cache), ["gone", "seen", "unknown"])

    def test_a_use_here_counts(self):
        digest = self.listed("--name", "gone")[0]["digest"]
        os.utime(self.entry_path(digest))
        self.assertEqual(self.stale(self.chain), (0, 1))

    def test_without_the_server_everything_stays(self):
        self.server.stop()
        self.kiln("trim", "--stale", "--dir", self.chain, expect=4)
        self.assertEqual(len(self.listed()), 3)

    def test_records_of_strangers_are_not_believed(self):
        key = self.make_key_file()
        signed = self.server.location(f"key-file={key}")
        result = self.kiln("trim", "--stale", "--dir", f"{self.cache}|{signed}", "--json")
        self.assertIn(b"gone: when it was last in use is not known", result.stderr)
        self.assertEqual(json.loads(result.stdout)["stale"], 0)
        self.assertEqual(len(self.listed()), 3)

    def test_ls_says_when(self):
        groups = {group["group"]: group.get("last_seen")
                  for group in self.listed("--group-by", "device", "--dir", self.chain)}
        self.assertEqual(groups["gone"], int(self.old))
        self.assertGreater(groups["seen"], self.old)
        self.assertIsNone(groups["unknown"])
        table = self.kiln("ls", "--group-by", "device", "--dir", self.chain).stdout
        self.assertIn(b"LAST SEEN", table)
        self.assertNotIn(b"LAST SEEN", self.kiln("ls", "--group-by", "device").stdout)


class Commands(FleetTest):
    def setUp(self):
        super().setUp()
        self.copy(self.cache, self.there)
        self.environment["KILN_DIR"] = self.there

    def test_ls_and_show(self):
        self.assertEqual(self.names(self.there), self.names(self.cache))
        shown = self.kiln_json("show", self.digests["saxpy"][:8])
        self.assertEqual((shown["name"], shown["bytes"]), ("saxpy", 3000))

    def test_more_than_a_page(self):
        """SCAN returns several hundred names at a time."""
        value = self.server.say("GET", self.server.name_of(self.digests["saxpy"]))
        for number in range(1500):
            self.server.say("SET", self.server.name_of(f"{number:032x}"), value)
        self.assertEqual(len(self.listed()), 1503)
        self.assertEqual(self.kiln_json("stats")["entries"], 1503)

    def test_verify(self):
        self.assertEqual(self.kiln_json("verify")["ok"], 3)
        self.server.say("SETRANGE", self.server.name_of(self.digests["matmul"]), 300, "damage")
        report = self.kiln_json("verify", expect=5)
        self.assertEqual((report["ok"], report["corrupt"]), (2, 1))
        report = self.kiln_json("verify", "--repair", "--yes")
        self.assertEqual(report["removed"], 1)
        self.assertEqual(len(self.server.names()), 2)

    def test_quarantine(self):
        matmul, saxpy = (self.server.name_of(self.digests[name]) for name in ("matmul", "saxpy"))
        sound = self.server.say("GET", saxpy)
        self.server.say("SETRANGE", matmul, 300, "damage")
        damaged = self.server.say("GET", matmul)
        self.server.say("SET", self.server.name_of("0" * 32), sound)  # another entry's name
        self.server.say("SETRANGE", saxpy, 8, b"\x02")  # a newer format
        newer = self.server.say("GET", saxpy)
        report = self.kiln_json("verify", "--quarantine")
        self.assertEqual((report["corrupt"], report["quarantined"], report["newer"]), (2, 2, 1))
        self.assertEqual(self.server.say("GET", matmul + ":damaged"), damaged)
        self.assertEqual(self.server.say("GET", self.server.name_of("0" * 32) + ":damaged"), sound)
        self.assertGreater(self.server.say("TTL", matmul + ":damaged"), 29 * 86400)
        self.assertIsNone(self.server.say("GET", matmul))
        self.assertEqual(self.server.say("GET", saxpy), newer)
        report = self.kiln_json("verify", "--quarantine")
        self.assertEqual((report["checked"], report["quarantined"]), (2, 0))
        self.assertEqual(len(self.listed("--all")), 2)

    def test_quarantine_keeps_what_is_right_for_others(self):
        """A machine with a different key can't believe these entries, and leaves them."""
        before = {name: self.server.say("GET", name) for name in self.server.names()}
        location = self.server.location(f"key-file={self.make_key_file()}")
        report = self.kiln_json("verify", "--quarantine", "--dir", location, expect=5)
        self.assertEqual((report["unauthenticated"], report["quarantined"]), (3, 0))
        self.assertEqual(before, {name: self.server.say("GET", name)
                                  for name in self.server.names()})

    def test_quarantine_where_it_is_not_allowed(self):
        self.server.say("SETRANGE", self.server.name_of(self.digests["matmul"]), 300, "damage")
        before = self.server.names()
        readonly = self.server.location("trust=any&readonly=1")
        for location in (readonly, f"{self.cache}|{readonly}"):
            result = self.kiln("verify", "--quarantine", "--dir", location, expect=5)
            self.assertIn(b"reading only", result.stderr)
        self.assertEqual(self.server.names(), before)
        self.kiln("verify", "--quarantine", "--repair", "--yes", expect=2)

    def test_quarantine_in_a_chain(self):
        """A sound copy in the directory doesn't hide the damaged one on the server."""
        name = self.server.name_of(self.digests["matmul"])
        self.server.say("SETRANGE", name, 300, "damage")
        chain = f"{self.cache}|{self.there}"
        report = self.kiln_json("verify", "--quarantine", "--dir", chain)
        self.assertEqual((report["corrupt"], report["quarantined"]), (1, 1))
        self.assertIn((name + ":damaged").encode(), self.server.names())
        path = os.path.join(self.cache, "v1", self.digests["matmul"][:2], self.digests["matmul"])
        with open(path, "r+b") as file:
            file.seek(300)
            file.write(b"damage")
        result = self.kiln("verify", "--quarantine", "--dir", chain, expect=5)
        self.assertIn(b"--repair", result.stderr)
        self.assertTrue(os.path.exists(path))

    def test_rm_and_clear(self):
        self.assertEqual(self.kiln_json("rm", self.digests["saxpy"])["removed"], 1)
        self.assertNotIn("saxpy", self.names(self.there))
        self.server.say("SET", "other:name", "stays")
        self.assertEqual(self.kiln_json("clear", "--yes")["removed"], 2)
        self.assertEqual(self.server.names(), [b"other:name"])

    def test_stats(self):
        stats = self.kiln_json("stats")
        self.assertEqual(stats["entries"], 3)
        values = [self.server.say("STRLEN", name) for name in self.server.names()]
        self.assertEqual(stats["bytes"], sum(values))
        text = self.kiln("stats").stdout.decode()
        self.assertRegex(text, r"(?m)^bytes +\d.* in redis")
        self.assertNotIn("at most", text)
        self.assertNotIn("builds", text)
        text = self.kiln("stats", "--dir", f"{self.cache}|{self.there}").stdout.decode()
        self.assertIn("whose directories may have 2.0 GiB", text)
        self.assertIn("builds", text)

    def test_trim_of_a_chain(self):
        """The directory is trimmed, and the server is left alone."""
        chain = f"{self.cache}|{self.there}"
        for arguments in (("--dry-run",), ()):
            report = self.kiln_json("trim", "--dir", chain, "--max-size", "0", *arguments)
            self.assertEqual(report["removed"], 3)
        self.assertEqual(self.listed("--dir", self.cache), [])
        self.assertEqual(len(self.server.names()), 3)

    def test_doctor(self):
        result = subprocess.run([cli.KILN, "doctor"], env=self.environment, timeout=60,
                                stdout=subprocess.PIPE)
        self.assertIn(f"{self.there}, used".encode(), result.stdout)

    def test_tiers(self):
        dead = f"redis+unix://{self.scratch}/nothing?trust=any"
        self.environment["KILN_DIR"] = f"{self.into}|{self.there}|{dead}"
        location = self.environment["KILN_DIR"]
        subprocess.run([cli.MAKE_CACHE, "entries", location], check=True,
                       stdout=subprocess.DEVNULL, env=self.environment)
        tiers = self.kiln_json("stats")["tiers"]
        self.assertEqual([tier["location"] for tier in tiers], location.split("|"))
        self.assertEqual([tier["puts"] for tier in tiers], [4, 3, 0])
        self.assertEqual([tier["faults"] > 0 for tier in tiers], [False, False, True])
        self.assertEqual([tier["outage"] is not None for tier in tiers], [False, False, True])
        self.assertGreaterEqual(tiers[2]["retry_ns"], 0)
        self.assertEqual(self.kiln_json("stats")["tiers"][2]["faults"], tiers[2]["faults"])
        self.assertIn(b"not asked: it refuses connections", self.kiln("stats").stdout)
        result = subprocess.run([cli.KILN, "doctor", "--json"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, env=self.environment)
        tiers = json.loads(result.stdout)["tiers"]
        self.assertEqual([tier["outage"] is not None for tier in tiers], [False, False, True])
        self.assertNotIn("tiers", self.kiln_json("stats", "--dir", self.cache))

    def test_a_server_that_is_not_there(self):
        self.server.stop()
        for arguments in (("ls",), ("verify",), ("stats",), ("rm", "abcd")):
            with self.subTest(arguments):
                self.assertNotEqual(self.kiln(*arguments, expect=4).stderr, b"")


class Expiry(FleetTest):
    def test_the_server_forgets_entries(self):
        days = self.server.location("trust=any&expire=30")
        self.copy(self.cache, days)
        for name in self.server.names():
            left = self.server.say("TTL", name)
            self.assertTrue(29 * 86400 < left <= 30 * 86400, left)
        self.copy(self.cache, self.server.location("trust=any&expire=0"))
        self.server.say("FLUSHALL")
        self.copy(self.cache, self.there)
        self.assertEqual({self.server.say("TTL", name) for name in self.server.names()}, {-1})


if __name__ == "__main__":
    cli.main()
