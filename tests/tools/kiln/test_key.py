# SPDX-License-Identifier: Apache-2.0
"""Tests kiln key, and how trusted keys decide whose entries on a server are used."""

import json
import os
import stat
import time

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


class Devices(KeyTest):
    """kiln trim --stale, with signed lists of the devices that other machines use."""

    def setUp(self):
        super().setUp()
        [self.public] = self.key("new", "operator")
        self.sign_with("operator")
        self.lists = os.path.join(self.scratch, "lists")
        os.mkdir(self.lists)
        self.use("there", ages_d={"gone": 40, "shared": 2})
        self.list = self.make_list("there")
        self.use("here", ages_d={"gone": 50, "shared": 40, "unlisted": 40})

    def sign_with(self, name):
        self.environment["KILN_SECRET_KEY_FILE"] = self.secret(name)

    def use(self, machine, ages_d):
        self.cache = self.environment["KILN_DIR"] = os.path.join(self.scratch, machine)
        for device, age_d in ages_d.items():
            digest = self.make_entry("put", f"source={device}", name=device, device=device)
            used = time.time() - age_d * 86400
            os.utime(self.entry_path(digest), (used, used))

    def make_list(self, name, *arguments):
        path = os.path.join(self.lists, name)
        with open(path, "wb") as file:
            file.write(self.kiln("ls", "--sign", *arguments).stdout)
        return path

    def stale(self, path, *arguments, **options):
        report = self.kiln_json("trim", "--stale", "--devices", path, *arguments, **options)
        return report["stale"], report["undetermined"]

    def refused(self, path, why, expect):
        result = self.kiln("trim", "--stale", "--devices", path, expect=expect)
        self.assertIn(why, result.stderr)
        self.assertEqual(len(self.listed()), 3)

    def test_what_no_machine_uses_is_removed(self):
        self.assertEqual(self.stale(self.list, "--dry-run", "--older-than", "45d"), (0, 0))
        self.assertEqual(self.stale(self.list), (1, 1))
        self.assertEqual(sorted(entry["name"] for entry in self.listed()), ["shared", "unlisted"])

    def test_a_folder_of_lists(self):
        self.use("third", ages_d={"gone": 1})
        self.make_list("third")
        self.cache = self.environment["KILN_DIR"] = os.path.join(self.scratch, "here")
        self.assertEqual(self.stale(self.lists), (0, 1))
        with open(os.path.join(self.lists, "other"), "w") as file:
            file.write("no list\n")
        self.refused(self.lists, b"other: ", 5)

    def test_another_machine_trusts_the_key(self):
        del self.environment["KILN_SECRET_KEY_FILE"]
        self.refused(self.list, b"no trusted key has signed it", 5)
        self.key("trust", self.public)
        self.assertEqual(self.stale(self.list, "--dry-run"), (1, 1))
        os.chmod(self.trusted, 0o666)
        self.refused(self.list, b"trusted-keys", 3)
        os.chmod(self.trusted, 0o600)
        self.key("revoke", self.public)
        self.refused(self.list, b"no trusted key has signed it", 5)

    def test_a_key_that_is_not_known(self):
        self.key("new", "stranger")
        self.sign_with("stranger")
        self.refused(self.list, b"no trusted key has signed it", 5)

    def test_an_expired_list(self):
        path = self.make_list("short", "--expire", "1s")
        while time.time() < os.stat(path).st_mtime + 2:
            time.sleep(0.1)
        self.refused(path, b"its signature has expired", 5)

    def test_a_changed_list(self):
        with open(self.list, "rb") as file:
            whole = file.read()
        for at in range(0, len(whole), 7):
            with open(self.list, "wb") as file:
                file.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            result = self.kiln("trim", "--stale", "--devices", self.list, expect=5)
            self.assertIn(b"there: ", result.stderr)
        for size in (0, 1, 63, len(whole) // 2, len(whole) - 1):
            with open(self.list, "wb") as file:
                file.write(whole[:size])
            self.refused(self.list, b"there: ", 5)

    def test_a_file_that_others_can_change(self):
        os.chmod(self.list, 0o666)
        self.refused(self.list, b"there", 3)
        os.chmod(self.list, 0o644)
        link = os.path.join(self.scratch, "link")
        os.symlink(self.list, link)
        self.refused(link, b"is a symbolic link", 3)
        self.refused(os.path.join(self.scratch, "none"), b"none: ", 1)

    def test_an_entry_is_no_list(self):
        """A trusted key signs entries, too."""
        redis_server.require()
        server = redis_server.RedisServer(self.scratch)
        self.addCleanup(server.stop)
        self.kiln("copy", self.cache, server.location())
        digest = self.listed()[0]["digest"]
        path = os.path.join(self.lists, "entry")
        with open(path, "wb") as file:
            file.write(server.say("GET", server.name_of(digest)))
        self.refused(path, b"it is no list of devices", 3)

    def test_signing(self):
        self.kiln("ls", "--sign", "--json", expect=2)
        self.kiln("ls", "--expire", "1d", expect=2)
        self.kiln("trim", "--devices", self.list, expect=2)
        os.chmod(self.secret("operator"), 0o644)
        result = self.kiln("ls", "--sign", expect=3)
        self.assertIn(b"its mode must be 0600", result.stderr)
        del self.environment["KILN_SECRET_KEY_FILE"]
        self.assertEqual(self.kiln("ls", "--sign", expect=3).stdout, b"")


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

    def test_what_is_wrong_is_named(self):
        for arguments, text, status in (
                (["make"], b"expected new, show, trust or revoke, not 'make'", 2),
                (["new"], b"'new' needs a name", 2), (["trust"], b"'trust' needs a key", 2),
                (["show"], b"no key is known here", 1)):
            self.assertIn(text, self.kiln("key", *arguments, expect=status).stderr)
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
