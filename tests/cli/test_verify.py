# SPDX-License-Identifier: Apache-2.0
"""kiln verify --repair, and what it shows on a terminal."""

import os

import cli


class Repair(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        self.damaged = self.digests["saxpy"]
        self.change_byte(self.damaged, -200)

    def files(self):
        """All but what a janitor notes, which comes and goes."""
        return sorted(name for folder, _, names in os.walk(self.cache) for name in names
                      if os.path.basename(folder) != "janitor")

    def test_removes_what_is_damaged_alone(self):
        with open(os.path.join(self.cache, "foreign"), "w"):
            pass
        before = self.files()
        report = self.kiln("verify", "--repair", "--yes", "--json")
        self.assertEqual(report.stdout, b'{"checked":4,"ok":3,"corrupt":1,"newer":0,"removed":1,'
                                        b'"unauthenticated":0,"unreadable":0}\n')
        self.assertIn(self.damaged.encode(), report.stderr)
        before.remove(self.damaged)
        self.assertEqual(self.files(), before)
        self.assertEqual(self.kiln_json("verify")["ok"], 3)
        self.assertEqual(self.kiln_json("stats")["entries"], 2)

    def test_text(self):
        self.assertEqual(
            self.kiln("verify", "--repair", "--yes").stdout,
            b"4 checked: 3 ok, 1 corrupt, 0 of a newer format; 1 removed\n")
        self.assertEqual(self.kiln("verify", "--repair", "--yes").stdout,
                         b"3 checked: 3 ok, 0 corrupt, 0 of a newer format\n")

    def test_every_kind_of_damage(self):
        self.change_byte(self.digests["matmul"], 0)
        os.truncate(os.path.join(self.cache, "v1", "requests", self.digests["later"]), 100)
        self.assertEqual(self.kiln_json("verify", "--repair", "--yes")["removed"], 3)
        self.assertEqual(len(self.listed("--all")), 1)

    def test_newer_and_untrusted_stay(self):
        with open(self.entry_path(self.digests["matmul"]), "r+b") as file:
            file.seek(8)
            file.write(b"\x63\0\0\0")
        os.chmod(self.entry_path(self.damaged), 0o666)
        report = self.kiln_json("verify", "--repair", "--yes", expect=4)
        self.assertEqual((report["newer"], report["corrupt"], report["removed"]), (1, 0, 0))
        self.assertEqual(report["unreadable"], 1)
        self.assertEqual(len(self.listed()), 3)
        self.assertIn(b", 1 not readable or not trusted\n",
                      self.kiln("verify", expect=4).stdout)

    def test_asks(self):
        _, shown = self.on_terminal("verify", "--repair", answer=b"n\n", expect=5)
        self.assertIn(b"Remove 1 damaged entry? [y/N]", shown)
        self.assertTrue(os.path.exists(self.entry_path(self.damaged)))
        self.on_terminal("verify", "--repair", answer=b"y\n")
        self.assertFalse(os.path.exists(self.entry_path(self.damaged)))

    def test_nothing_to_ask(self):
        os.remove(self.entry_path(self.damaged))
        _, shown = self.on_terminal("verify", "--repair")
        self.assertNotIn(b"Remove", shown)

    def test_nobody_to_ask(self):
        self.assertIn(b"--yes", self.kiln("verify", "--repair", expect=2).stderr)
        self.assertTrue(os.path.exists(self.entry_path(self.damaged)))

    def test_yes_alone(self):
        self.kiln("verify", "--yes", expect=2)

    def test_a_repair_without_a_cache(self):
        self.environment["KILN_DIR"] = self.cache + "-none"
        self.assertEqual(self.kiln_json("verify", "--repair", "--yes")["checked"], 0)

    def test_progress(self):
        """A line of its own, gone before each complaint and at the end."""
        output, shown = self.on_terminal("verify", expect=5)
        self.assertRegex(shown, rb"\r\d checked\x1b\[K")
        self.assertIn(b"\r\x1b[Kkiln: " + self.damaged.encode(), shown)
        self.assertIn(b"4 checked: 3 ok", output)
        self.environment["TERM"] = "dumb"
        self.assertNotIn(b"\r\x1b[K", self.kiln("verify", expect=5).stderr)


if __name__ == "__main__":
    cli.main()
