# SPDX-License-Identifier: Apache-2.0
"""Tests kiln verify --repair, and its output on a terminal."""

import os

import cli


class Repair(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        self.damaged = self.digests["saxpy"]
        self.change_byte(self.damaged, -200)

    def files(self):
        """Returns all files except the janitor's own, which are created and removed at any time."""
        return sorted(name for folder, _, names in os.walk(self.cache) for name in names
                      if os.path.basename(folder) != "janitor")

    def test_removes_only_damaged_entries(self):
        with open(os.path.join(self.cache, "foreign"), "w"):
            pass
        before = self.files()
        report = self.kiln("verify", "--repair", "--yes", "--json")
        self.assertEqual(report.stdout, b'{"checked":4,"ok":3,"corrupt":1,"newer":0,"removed":1,'
                                        b'"unauthenticated":0,"unreadable":0,"complete":true}\n')
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

    def test_no_terminal_to_ask(self):
        self.assertIn(b"--yes", self.kiln("verify", "--repair", expect=2).stderr)
        self.assertTrue(os.path.exists(self.entry_path(self.damaged)))

    def test_yes_alone(self):
        self.kiln("verify", "--yes", expect=2)

    def test_a_repair_without_a_cache(self):
        self.environment["KILN_DIR"] = self.cache + "-none"
        self.assertEqual(self.kiln_json("verify", "--repair", "--yes")["checked"], 0)

    def test_progress(self):
        """Progress has its own line, which is removed before each message and at the end."""
        output, shown = self.on_terminal("verify", expect=5)
        self.assertRegex(shown, rb"\r\[#+ +\] 1 of 3 checked\x1b\[K")
        self.assertIn(b"\r\x1b[Kkiln: " + self.damaged.encode(), shown)
        self.assertIn(b"4 checked: 3 ok", output)
        self.environment["TERM"] = "dumb"
        self.assertNotIn(b"\r\x1b[K", self.kiln("verify", expect=5).stderr)


class DamagedIndex(cli.CliTest):
    """A page of a pack's index is damaged, and hides its entries."""

    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        self.pack = os.path.join(self.scratch, "a.kpack")
        self.kiln("pack", self.pack)
        with open(self.pack, "r+b") as file:
            file.seek(4096 + 20)
            file.write(b"damaged")

    def verify(self, location, *arguments):
        return self.kiln("verify", "--dir", location, *arguments, expect=5)

    def test_the_pack_alone(self):
        result = self.verify(f"pack:{self.pack}")
        self.assertEqual(
            result.stdout,
            b"0 checked: 0 ok, 0 corrupt, 0 of a newer format; not everything was checked\n")
        self.assertIn(b"a page of the index is damaged", result.stderr)
        report = self.kiln_json("verify", "--dir", f"pack:{self.pack}", expect=5)
        self.assertEqual((report["checked"], report["complete"]), (0, False))

    def test_the_rest_of_a_chain_is_reported_and_repaired(self):
        chain = f"{self.cache}|pack:{self.pack}"
        self.change_byte(self.digests["saxpy"], -200)
        report = self.kiln_json("verify", "--dir", chain, expect=5)
        self.assertEqual((report["checked"], report["ok"], report["corrupt"]), (4, 3, 1))
        self.assertFalse(report["complete"])
        report = self.kiln_json("verify", "--dir", chain, "--repair", "--yes", expect=5)
        self.assertEqual((report["removed"], report["complete"]), (1, False))
        self.assertFalse(os.path.exists(self.entry_path(self.digests["saxpy"])))


class Paths(cli.CliTest):
    def test_of_what_is_damaged(self):
        digest = self.make("entries")["saxpy"]
        self.change_byte(digest, -200)
        line = f"kiln: {digest}: its bytes are damaged"
        shown = self.kiln("verify", expect=5).stderr.decode()
        self.assertIn(line, shown)
        self.assertIn(f"({self.entry_path(digest)})\n", shown)


if __name__ == "__main__":
    cli.main()
