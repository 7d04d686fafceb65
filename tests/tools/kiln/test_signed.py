# SPDX-License-Identifier: Apache-2.0
"""Tests signing keys: --key-file, KILN_SIGNING_KEY_FILE, and entries that are not signed."""

import json
import os
import subprocess

import cli


class Signed(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.key = self.make_key_file()
        self.plain = self.make_entry("put", "source=plain", name="plain")
        self.good = self.make_entry("put", "source=good", name="good", key_file=self.key)

    def test_verify(self):
        self.assertEqual(self.kiln_json("verify")["ok"], 2)
        result = self.kiln("verify", "--key-file", self.key, expect=5)
        self.assertEqual(result.stdout, b"2 checked: 1 ok, 0 corrupt, 0 of a newer format, "
                                        b"1 not signed with the key\n")
        self.assertIn(self.plain.encode() + b": it is not signed, or not with this key",
                      result.stderr)
        self.assertNotIn(self.good.encode(), result.stderr)
        self.environment["KILN_SIGNING_KEY_FILE"] = self.key
        self.assertEqual(self.kiln_json("verify", expect=5)["unauthenticated"], 1)

    def test_the_older_name_of_the_variable(self):
        self.environment["KILN_KEY_FILE"] = self.key
        self.assertEqual(self.kiln_json("verify", expect=5)["unauthenticated"], 1)
        other = self.make_key_file("other")
        self.environment["KILN_SIGNING_KEY_FILE"] = other
        self.assertEqual(self.kiln_json("verify", expect=5)["unauthenticated"], 2)
        self.assertEqual(self.kiln_json("verify", "--key-file", self.key, expect=5)["ok"], 1)

    def test_another_key(self):
        other = self.make_key_file("other")
        self.assertEqual(
            self.kiln_json("verify", "--key-file", other, expect=5)["unauthenticated"], 2)

    def test_a_repair_leaves_them(self):
        report = self.kiln_json("verify", "--key-file", self.key, "--repair", "--yes", expect=5)
        self.assertEqual((report["removed"], report["unauthenticated"]), (0, 1))
        self.assertEqual(len(self.listed()), 2)

    def test_show(self):
        self.assertTrue(self.kiln_json("show", self.good, "--key-file", self.key)["signed"])
        self.assertTrue(self.kiln_json("show", self.good)["signed"])
        self.assertFalse(self.kiln_json("show", self.plain)["signed"])
        self.assertRegex(self.kiln("show", self.good).stdout, rb"(?m)^signed +yes$")
        result = self.kiln("show", self.plain, "--key-file", self.key, expect=5)
        self.assertIn(b"signature is missing or wrong", result.stderr)

    def test_relative_to_here(self):
        report = self.kiln("verify", "--json", "--key-file", "key", cwd=self.scratch, expect=5)
        self.assertEqual(json.loads(report.stdout)["ok"], 1)

    def test_bad_key_files(self):
        """Without the key nothing is done and no entry is used."""
        short = self.make_key_file("short", b"x" * 31)
        for path, why in ((short, b"32 bytes"), ("/nonexistent", b"No such file")):
            for command in ("ls", "verify", "stats", "show abcd", "clear --yes"):
                result = self.kiln(*command.split(), "--key-file", path, expect=3)
                self.assertIn(path.encode(), result.stderr)
                self.assertIn(why, result.stderr)
                self.assertEqual(result.stdout, b"")
        os.chmod(self.key, 0o640)
        self.assertIn(b"mode must be 0600",
                      self.kiln("ls", "--key-file", self.key, expect=3).stderr)
        self.environment["KILN_SIGNING_KEY_FILE"] = "key"
        self.assertIn(b"absolute path", self.kiln("ls", cwd=self.scratch, expect=3).stderr)
        self.environment.pop("KILN_SIGNING_KEY_FILE")
        self.assertEqual(len(self.listed()), 2)

    def test_run_passes_it_on(self):
        tool, _ = self.in_build_tree()
        result = self.kiln("run", "--key-file", "key", "--", "printenv", "KILN_SIGNING_KEY_FILE",
                           tool=tool, cwd=self.scratch)
        self.assertEqual(result.stdout.decode(), self.key + "\n")

    def test_requests_of_others_are_dropped(self):
        """If the requests stayed, each program would start a helper for them, which would serve
        none."""
        self.make("young")
        counted = self.kiln_json("capture", "--key-file", self.key)
        self.assertEqual(
            counted, {"served": 0, "dropped": 1, "failed": 0, "expired": 0, "left": 0})
        self.assertEqual(len(self.listed("--all")), 2)

    def doctor(self):
        output = subprocess.run([cli.KILN, "doctor", "--json"], stdout=subprocess.PIPE,
                                env=self.environment, timeout=60).stdout
        return json.loads(output)

    def test_doctor(self):
        self.assertIs(self.doctor()["authenticated"], False)
        self.environment["KILN_SIGNING_KEY_FILE"] = self.key
        report = self.doctor()
        self.assertIs(report["authenticated"], True)
        self.assertEqual(report["directory"]["state"], "used")
        self.assertEqual(report["variables"]["KILN_SIGNING_KEY_FILE"], self.key)
        self.assertNotIn("no such variable", "\n".join(report["notes"]))
        os.chmod(self.key, 0o644)
        report = self.doctor()
        self.assertEqual(report["directory"]["state"], "not used")
        self.assertIn("mode must be 0600", "\n".join(report["problems"]))


if __name__ == "__main__":
    cli.main()
