# SPDX-License-Identifier: Apache-2.0
"""Tests kiln key, and how trusted keys decide whose entries on a server are used."""

import json
import os
import stat

import cli
import redis_server


class KeyTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.scratch, "config")
        self.environment["XDG_CONFIG_HOME"] = self.home
        self.environment.pop("KILN_SECRET_KEY_FILE", None)
        self.trusted = os.path.join(self.home, "kiln", "trusted-keys")

    def key(self, *arguments, expect=0):
        """Returns the lines on standard output."""
        return self.kiln("key", *arguments, expect=expect).stdout.decode().splitlines()

    def secret(self, name):
        return os.path.join(self.home, "kiln", "keys", name)

    def known(self, expect=0):
        lines = self.key("show", "--json", expect=expect)
        return sorted((key["name"], key["state"]) for key in map(json.loads, lines))


class Keys(KeyTest):
    def test_new(self):
        [public] = self.key("new", "team-1")
        self.assertRegex(public, r"^team-1:[A-Za-z0-9+/]{43}=$")
        self.assertEqual(stat.S_IMODE(os.stat(self.secret("team-1")).st_mode), 0o600)
        for folder in (self.home, os.path.dirname(self.trusted)):
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        self.assertEqual(self.key("show", "team-1"), [public])
        self.key("new", "team-1", expect=2)
        self.assertEqual(self.key("show", "team-1"), [public])
        with open(self.secret("team-1")) as file:
            self.assertNotIn(public.split(":")[1], file.read())

    def test_names(self):
        for name in ("", "a b", "../a", "a:b", "x" * 64):
            self.key("new", name, expect=2)
        self.assertFalse(os.path.exists(os.path.join(self.home, "kiln", "a")))

    def test_trust_and_revoke(self):
        self.assertEqual(self.known(expect=1), [])
        [public] = self.key("new", "team-1")
        other = "team-2:" + "A" * 42 + "E="
        self.assertEqual(self.key("trust", other), [other])
        self.assertEqual(self.known(), [("team-1", "own"), ("team-2", "trusted")])
        self.assertEqual(self.key("revoke", "team-2"), [other])
        self.key("trust", other, expect=2)
        self.assertEqual(self.known(), [("team-1", "own"), ("team-2", "revoked"),
                                        ("team-2", "trusted")])
        self.assertEqual(self.key("revoke", public), [public])
        with open(self.trusted) as file:
            self.assertEqual(file.read().splitlines(),
                             [other, f"revoked {other}", f"revoked {public}"])

    def test_what_is_refused(self):
        for arguments in ([], ["make"], ["new"], ["trust"], ["revoke"], ["trust", "team-1"],
                          ["show", "a", "b"], ["trust", "team-1:nonsense"],
                          ["show", "--dir", "/x"]):
            self.key(*arguments, expect=2)
        self.key("revoke", "nobody", expect=1)
        self.key("show", "nobody", expect=1)
        self.key("trust", "a:" + "A" * 42 + "E=")
        self.key("trust", "a:" + "A" * 42 + "I=")
        self.key("revoke", "a", expect=2)
        os.chmod(self.trusted, 0o666)
        self.key("show", expect=3)
        os.chmod(self.trusted, 0o644)
        with open(self.trusted, "a") as file:
            file.write("nonsense\n")
        self.assertIn(b"line 3", self.kiln("key", "show", expect=3).stderr)

    def test_without_a_home(self):
        del self.environment["XDG_CONFIG_HOME"]
        self.environment.pop("HOME", None)
        self.key("new", "team-1", expect=3)


class Servers(KeyTest):
    def setUp(self):
        redis_server.require()
        super().setUp()
        self.server = redis_server.RedisServer(self.scratch)
        self.addCleanup(self.server.stop)
        self.there = self.server.location("").rstrip("?")
        self.digests = self.make("entries")
        self.into = os.path.join(self.scratch, "into")
        [self.public] = self.key("new", "team-1")

    def push(self):
        self.environment["KILN_SECRET_KEY_FILE"] = self.secret("team-1")
        self.assertEqual(self.kiln_json("copy", self.cache, self.there)["taken"], 3)
        del self.environment["KILN_SECRET_KEY_FILE"]

    def test_without_keys(self):
        result = self.kiln("ls", "--dir", self.there, expect=3)
        self.assertIn(b"kiln key trust", result.stderr)

    def test_a_fleet(self):
        self.push()
        self.environment["XDG_CONFIG_HOME"] = self.home = os.path.join(self.scratch, "reader")
        self.key("trust", self.public)
        self.assertEqual(self.kiln_json("verify", "--dir", self.there)["ok"], 3)
        self.assertEqual(self.kiln_json("copy", self.there, self.into)["taken"], 3)
        self.kiln("copy", self.cache, self.there, expect=4)
        shown = self.kiln_json("show", "--dir", self.into, self.digests["matmul"])
        self.assertEqual(shown["signer"], {"key": self.public, "expires": 0})
        self.assertIn(self.public.encode(),
                      self.kiln("show", "--dir", self.into, self.digests["matmul"]).stdout)
        self.key("trust", "team-2:" + "A" * 42 + "E=")
        revoked = self.kiln("key", "revoke", "team-1").stderr.decode()
        self.assertIn(f"kiln rm --signer {self.public} ", revoked)
        self.assertEqual(self.kiln_json("verify", "--dir", self.there, expect=5)["unauthenticated"],
                         3)
        self.kiln("rm", "--dir", self.into, "--signer", "team-2", expect=1)
        self.assertEqual(
            self.kiln_json("rm", "--dir", self.into, "--signer", self.public)["removed"], 3)
        self.assertEqual(self.listed("--dir", self.into), [])

    def test_rm_finds_copies_behind_others(self):
        """The copy of an entry in the first store of a chain hides the signed one behind it."""
        self.push()
        there = self.there + "?trust=any"
        self.assertEqual(
            self.kiln_json("rm", "--dir", f"{self.cache}|{there}", "--signer", "team-1")["removed"],
            3)
        self.assertEqual(self.listed("--dir", there), [])
        self.assertEqual(len(self.listed()), 3)

    def test_rm_goes_by_the_key_and_not_by_its_name(self):
        """The owner of a key can write any name into its signatures."""
        secret = self.secret("team-1")
        with open(secret) as file:
            line = file.read()
        with open(secret, "w") as file:
            file.write(line.replace("team-1", "harmless"))
        self.push()
        with open(secret, "w") as file:
            file.write(line)
        self.kiln_json("copy", "--trust", self.there + "?trust=any", self.into)
        shown = self.kiln_json("show", "--dir", self.into, self.digests["matmul"])
        self.assertEqual(shown["signer"]["key"], self.public.replace("team-1", "harmless"))
        self.kiln("rm", "--dir", self.into, "--signer", "harmless", expect=1)
        self.assertEqual(
            self.kiln_json("rm", "--dir", self.into, "--signer", "team-1")["removed"], 3)

    def test_rm_takes_digests_or_a_signer(self):
        self.kiln("rm", expect=2)
        self.kiln("rm", "--signer", "a", self.digests["matmul"], expect=2)
        self.kiln("rm", "--signer", "a", expect=1)
        self.assertEqual(len(self.listed()), 3)


if __name__ == "__main__":
    cli.main()
