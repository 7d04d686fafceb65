# SPDX-License-Identifier: Apache-2.0
"""Tests the orders of kiln ls, and what kiln show prints of an entry and writes to files."""

import os
import stat
import subprocess
import time

import cli


class Orders(cli.CliTest):
    def setUp(self):
        super().setUp()
        # name: (used, created, size, cost); no two of these orders are alike
        facts = {"b": (4000, 1000, 300, 30), "a": (3000, 3000, 100, 20), "d": (2000, 4000, 400, 10),
                 "c": (1000, 2000, 200, 40)}
        self.names = {}
        for name, (used, created, size, cost) in facts.items():
            digest = self.make_entry("put", f"name={name}", name=name, created=created,
                                     size=size * 100, cost=cost)
            os.utime(self.entry_path(digest), (used, used))
            self.names[digest] = name

    def order(self, *arguments):
        return "".join(item["name"] for item in self.listed(*arguments))

    def test_each(self):
        for order, expected in (
                ("used", "badc"), ("created", "dacb"), ("size", "dbca"), ("cost", "cbad"),
                ("name", "abcd")):
            with self.subTest(order):
                self.assertEqual(self.order("--sort", order), expected)
                self.assertEqual(self.order(f"--sort={order}"), expected)
        self.assertEqual(self.order(), "badc")
        by_digest = "".join(self.names[digest] for digest in sorted(self.names))
        for order in ("digest", "device", "kind"):
            self.assertEqual(self.order("--sort", order), by_digest)

    def test_of_the_table_too(self):
        lines = self.kiln("ls", "--sort=name").stdout.decode().splitlines()
        self.assertEqual([line.split()[-1] for line in lines[1:]], ["a", "b", "c", "d"])

    def test_no_such_order(self):
        for order in ("", "colour", "Name"):
            self.assertIn(b"--sort expects used, created",
                          self.kiln("ls", "--sort", order, expect=2).stderr)


class Uses(cli.CliTest):
    HIT, BUILD, FAILURE, MEMORY_HITS = 1, 2, 3, 4

    def setUp(self):
        super().setUp()
        self.digests = {name: self.make_entry("put", f"name={name}", name=name) for name in "abc"}
        for digest in self.digests.values():
            os.utime(self.entry_path(digest), (1600000000, 1600000000))
        def event(kind, name, seconds):
            return (kind, self.digests.get(name, ""), 1600000000 + seconds, 1, 1, 0, "app", "", "")
        self.events = [event(self.BUILD, "a", -5), event(self.HIT, "b", 300),
                       event(self.HIT, "a", -3), event(self.HIT, "b", 200),
                       event(self.FAILURE, "a", 900), event(self.BUILD, "c", 100),
                       event(self.MEMORY_HITS, "", 900)]

    def test_of_the_journal(self):
        """An entry's file may have an older time than the journal."""
        self.assertEqual({item["uses"] for item in self.listed()}, {None})
        self.assertNotIn(b"USES", self.kiln("ls").stdout)
        self.journal(*self.events)
        self.assertEqual([(item["name"], item["uses"], item["last_used"] - 1600000000)
                          for item in self.listed()], [("b", 2, 300), ("c", 0, 100), ("a", 1, 0)])
        for columns in "80", "100":
            self.environment["COLUMNS"] = columns
            lines = self.kiln("ls").stdout.decode().splitlines()
            self.assertEqual(lines[0].split(), ["DIGEST", "SIZE", "BUILD", "USES", "LAST", "USED",
                                                "NAME"])
            self.assertRegex(lines[1], r" 2 2020-09-13 12:31:40 b$")
            self.assertLessEqual(max(map(len, lines)), int(columns))

    def test_what_is_chosen(self):
        """What was used most recently is chosen by the journal's time."""
        self.journal(*self.events)
        digest = self.listed("--limit", "1")[0]["digest"]
        self.assertEqual(digest, self.digests["b"])
        for digest in self.digests.values():
            os.utime(self.entry_path(digest), (1000, 1000))
        self.journal((self.HIT, self.digests["c"], int(time.time()), 1, 1, 0, "app", "", ""))
        self.kiln("rm", "--older-than", "1h")
        self.assertEqual([item["name"] for item in self.listed()], ["c"])

    def test_order_of_replay(self):
        """A build that is used often is worth more than one that costs more."""
        digests = [self.make_entry("put", f"source={name}", name=name, cost=cost)
                   for name, cost in (("x", 1000), ("y", 3000), ("z", 2000))]
        for digest in digests:
            os.utime(self.entry_path(digest), (1600000000, 1600000000))
        def order():
            replay = self.kiln_json("replay", "--jobs", "1", *digests)
            return "".join(entry["name"] for entry in replay["entries"])
        self.assertEqual(order(), "yzx")
        self.journal(*[(self.HIT, digests[0], 1600000000, 1, 1, 0, "app", "", "")] * 3)
        self.assertEqual(order(), "xyz")

    def test_a_journal_of_others(self):
        """A journal that others can write is not read, and ls lists the entries without it."""
        self.journal(*self.events)
        os.chmod(os.path.join(self.cache, "journal"), 0o666)
        self.assertEqual({item["uses"] for item in self.listed()}, {None})


class Show(cli.CliTest):
    def test_members(self):
        """JSON has the names and types that kiln(1) documents."""
        digest = self.make_entry("put", "source=a\nb", answers="recorded", name="f", size=10)
        shown = self.kiln_json("show", digest)
        self.assertEqual(
            {name: type(value).__name__ for name, value in shown.items()},
            {"digest": "str", "kind": "str", "name": "str", "device": "str", "tool": "str",
             "created": "int", "last_used": "int", "build_ns": "int", "bytes": "int",
             "answers_bytes": "int", "stored_bytes": "int", "signed": "bool",
             "signer": "NoneType", "log": "str", "key": "list"})
        self.assertEqual((shown["answers_bytes"], shown["signed"]), (8, False))

    def test_answers(self):
        digest = self.make_entry("put", "source=x", answers="recorded")
        self.assertEqual(self.kiln("show", "--answers", "-", digest).stdout, b"recorded")
        out = os.path.join(self.scratch, "answers.bin")
        self.kiln("show", digest, "--answers", out)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), b"recorded")
        none = self.make_entry("put", "source=y")
        self.assertEqual(self.kiln("show", "--answers", "-", none).stdout, b"")
        self.kiln("show", digest, "--answers", "-", "--log", expect=2)

    def show_in(self, name):
        self.kiln("show", "--answers", name, self.digest)

    def test_devices_and_pipes_are_written_to(self):
        self.digest = self.make_entry("put", "source=x", answers="recorded")
        pipe = os.path.join(self.scratch, "pipe")
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.show_in(pipe)
        self.assertEqual(os.read(reader, 100), b"recorded")
        os.close(reader)
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))
        null = os.path.join(self.scratch, "null")
        os.symlink("/dev/null", null)
        self.show_in(null)
        self.assertEqual(os.readlink(null), "/dev/null")
        self.assertEqual(sorted(os.listdir(self.scratch)), ["cache", "null", "pipe"])

    def test_every_name_of_stdout(self):
        """Does not use /dev/stdout itself: if that were replaced, the machine would be damaged."""
        digest = self.make_entry("put", "source=x", answers="recorded")
        out = os.path.join(self.scratch, "out")
        name = os.path.join(self.scratch, "stdout")
        os.symlink("/proc/self/fd/1", name)
        self.assertEqual(self.kiln("show", "--answers", name, digest).stdout, b"recorded")
        with open(out, "wb") as file:
            file.write(b"before ")
            file.flush()
            subprocess.run([cli.KILN, "show", "--answers", name, digest], stdout=file,
                           env=self.environment, check=True)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), b"before recorded")
        self.assertTrue(os.path.islink(name))

    def test_links_lead_to_what_is_replaced(self):
        self.digest = self.make_entry("put", "source=x", answers="recorded")
        folder = os.path.join(self.scratch, "folder")
        target = os.path.join(folder, "target")
        link = os.path.join(self.scratch, "link")
        os.mkdir(folder)
        os.symlink("folder/target", link)
        self.assertIn(b"the link's target does not exist",
                      self.kiln("show", "--answers", link, self.digest, expect=4).stderr)
        with open(target, "w") as file:
            file.write("what was there before, and is longer")
        self.show_in(link)
        self.assertTrue(os.path.islink(link))
        with open(target, "rb") as file:
            self.assertEqual(file.read(), b"recorded")
        self.assertEqual(os.listdir(folder), ["target"])

    def test_no_progress_without_a_terminal(self):
        self.make_entry("put", "source=x")
        self.assertEqual(self.kiln("ls").stderr, b"")

    def test_progress(self):
        self.make_entry("put", "source=x")
        output, shown = self.on_terminal("ls", "--json")
        self.assertIn(b"1 listed", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
        self.assertNotIn(b"listed", output)


if __name__ == "__main__":
    cli.main()
