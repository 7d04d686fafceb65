# SPDX-License-Identifier: Apache-2.0
"""Tests the filters that commands share, and the table and the groups of kiln ls."""

import os
import re
import time

import cli

DAY = 86400


class Filters(cli.CliTest):
    def setUp(self):
        super().setUp()
        # name: (size, age in days, driver, program)
        facts = {"big": (90000, 1, "1.0", "solver"), "old": (1000, 40, "1.0", "solver"),
                 "new": (2000, 0, "2.0", "viewer")}
        self.digests = {}
        for name, (size, days, driver, program) in facts.items():
            digest = self.make_entry(
                "put", "platform.name=A Platform", f"device.driver_version={driver}",
                f"source={name}", name=name, size=size, cost=1000000, tool=f"kiln 9, {program}")
            when = time.time() - days * DAY - 60
            os.utime(self.entry_path(digest), (when, when))
            self.digests[name] = digest

    def names(self, *arguments):
        return [item["name"] for item in self.listed(*arguments)]

    def test_each(self):
        for filters, expected in (
                (["--device", "A DEV"], ["new", "big", "old"]), (["--device", "other"], []),
                (["--driver", "platform 1"], ["big", "old"]), (["--name", "B"], ["big"]),
                (["--program", "solv"], ["big", "old"]), (["--older-than", "12h"], ["big", "old"]),
                (["--larger-than", "50KB"], ["big"]), (["--limit", "2"], ["new", "big"]),
                (["--driver=1.0", "--older-than=2", "--limit=5"], ["old"])):
            with self.subTest(filters):
                self.assertEqual(self.names(*filters), expected)

    def test_the_limit_is_of_the_order(self):
        self.assertEqual(self.names("--sort", "size", "--limit", "1"), ["big"])

    def test_nothing_selected_is_said(self):
        self.assertIn(b"is selected", self.kiln("ls", "--name", "nothing").stderr)

    def test_wrong_values(self):
        for option, value in (("limit", "0"), ("limit", "x"), ("larger-than", "big"),
                              ("older-than", "never")):
            self.assertIn(b"expects", self.kiln("ls", f"--{option}", value, expect=2).stderr)

    def test_pack_and_copy(self):
        pack = os.path.join(self.scratch, "pack")
        self.assertEqual(self.kiln_json("pack", pack, "--driver", "1.0", "--limit", "1")["entries"],
                         1)
        self.assertEqual(self.names("--dir", pack), ["big"])
        into = os.path.join(self.scratch, "into")
        self.assertEqual(self.kiln_json("copy", self.cache, into, "--driver", "1.0")["taken"], 2)
        self.assertEqual(self.kiln_json("copy", self.cache, into, "--limit", "1")["taken"], 1)

    def test_verify(self):
        path = self.entry_path(self.digests["old"])
        before = os.stat(path)
        self.change_byte(self.digests["old"], -30)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(self.kiln_json("verify", "--name", "new")["checked"], 1)
        self.assertEqual(self.kiln_json("verify", "--name", "old", expect=5)["corrupt"], 1)
        self.assertEqual(self.kiln_json("verify", "--limit", "2")["ok"], 2)

    def test_why(self):
        found = self.kiln_json("why", self.digests["new"], "--name", "old")["neighbours"]
        self.assertEqual([near["name"] for near in found], ["old"])
        found = self.kiln_json("why", self.digests["new"], "--limit", "1")["neighbours"]
        self.assertEqual(len(found), 1)

    def test_rm(self):
        self.assertEqual(self.kiln_json("rm", "--driver", "1.0", "--limit", "1")["removed"], 1)
        self.assertEqual(self.names(), ["new", "old"])
        # A prefix matches only among what filters select.
        self.kiln("rm", self.digests["new"][:8], "--name", "old", expect=1)
        self.assertEqual(self.names(), ["new", "old"])

    def test_trim(self):
        dry = self.kiln_json("trim", "--program", "solver", "--max-size", "0", "--dry-run")
        self.assertEqual((dry["removed"], len(self.names())), (2, 3))
        self.kiln("trim", "--program", "solver", "--max-size", "60K")
        self.assertEqual(self.names(), ["new"])

    def test_trim_by_age(self):
        self.kiln("trim", "--program", "viewer", "--older-than", "1s")
        self.assertEqual(self.names(), ["big", "old"])
        self.kiln("trim", "--driver", "1.0", "--max-size", "10MB")
        self.assertEqual(self.names(), ["big", "old"])

    def test_groups(self):
        def groups(by):
            return {group["group"]: group["entries"] for group in self.listed("--group-by", by)}
        self.assertEqual(groups("device"), {"a device": 3})
        self.assertEqual(groups("driver"), {"A Platform 1.0": 2, "A Platform 2.0": 1})
        self.assertEqual(groups("program"), {"solver": 2, "viewer": 1})
        self.assertEqual(sum(groups("day").values()), 3)
        self.assertIn("A Platform 2.0", self.kiln("ls", "--group-by=driver").stdout.decode())
        self.kiln("ls", "--group-by", "colour", expect=2)

    def test_tables_fit(self):
        self.make_entry("put", "source=long", name="long" * 40)
        for width in (80, 100):
            self.environment["COLUMNS"] = str(width)
            lines = self.kiln("ls").stdout.decode().splitlines()
            self.assertEqual(len(lines), 5)
            self.assertLessEqual(max(map(len, lines)), width)
            self.assertEqual(lines[0].split(), "DIGEST SIZE BUILD LAST USED NAME".split())


class Progress(cli.CliTest):
    """Work that takes seconds shows its rate, and how long the rest takes."""

    def setUp(self):
        super().setUp()
        self.digest, *_ = [self.make_entry("put", f"source={i}", name=f"n{i}") for i in range(20)]
        self.pack = os.path.join(self.scratch, "pack")

    def check(self, what, *arguments):
        _, shown = self.on_terminal(*arguments)
        self.assertNotIn(b"/s", shown)
        self.environment["LD_PRELOAD"] = os.environ["FAST_CLOCK"]
        _, shown = self.on_terminal(*arguments)
        del self.environment["LD_PRELOAD"]
        lines = re.findall(rb"\r\[#* *\] (\d+) of 20 " + what + rb"(?:, ([\d.]+)/s)?(, [^,]* left)?\x1b",
                           shown)
        self.assertEqual([line[0] for line in lines[:2]], [b"1", b"2"], shown)
        self.assertEqual(lines[0][1:], (b"", b""), shown)
        self.assertTrue(lines[10][1] and lines[10][2], shown)
        self.assertEqual((lines[19][0], lines[19][2]), (b"20", b""), shown)

    def test_without_filters(self):
        self.check(b"checked", "verify")
        self.check(b"looked at", "pack", self.pack)
        self.check(b"listed", "ls")
        self.check(b"compared", "why", self.digest)
        self.check(b"looked at", "copy", self.cache, os.path.join(self.scratch, "copy"))

    def test_with_filters(self):
        self.check(b"looked at", "verify", "--name=n1")
        self.check(b"looked at", "pack", "--name=n1", self.pack)
        self.check(b"listed", "pack", "--limit=3", self.pack)
        self.check(b"listed", "trim", "--name=n1", "--dry-run", "--max-size=1")
        self.check(b"examined", "trim", "--name=n1", "--stale", "--dry-run")
        self.check(b"listed", "rm", "--name=absent")

    def test_of_a_pack(self):
        self.kiln("pack", self.pack)
        self.check(b"checked", "verify", "--dir", self.pack)


if __name__ == "__main__":
    cli.main()
