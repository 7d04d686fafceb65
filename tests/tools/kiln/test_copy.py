# SPDX-License-Identifier: Apache-2.0
"""kiln copy between directories, packs and chains; kiln pull and kiln push."""

import os
import subprocess

import cli


class CopyTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        self.into = os.path.join(self.scratch, "into")

    def copy(self, *arguments, **options):
        return self.kiln_json("copy", *arguments, **options)

    def names(self, location):
        return sorted(item["name"] for item in self.listed("--dir", location))


class Copy(CopyTest):
    def test_all_entries(self):
        report = self.copy(self.cache, self.into)
        self.assertEqual(report, {
            "taken": 3, "taken_bytes": 1503010, "present": 0, "unauthenticated": 0, "damaged": 0,
            "refused": 0, "gone": 0, "unfit": 0})
        self.assertEqual(self.names(self.into), self.names(self.cache))
        self.assertEqual(self.kiln_json("stats", "--dir", self.into)["requests"], 0)
        for name in ("saxpy", "matmul"):
            payloads = [self.kiln("show", "--dir", location, "--payload", "-",
                                  self.digests[name]).stdout
                        for location in (self.cache, self.into)]
            self.assertEqual(*payloads)

    def test_what_is_there_is_not_copied_again(self):
        self.copy(self.cache, self.into, self.digests["matmul"])
        path = os.path.join(self.into, "v1", self.digests["matmul"][:2], self.digests["matmul"])
        before = os.stat(path)
        # The entry exists at the destination, so the damaged one in the source is not read.
        self.change_byte(self.digests["matmul"], -200)
        report = self.copy(self.cache, self.into)
        self.assertEqual((report["taken"], report["present"], report["damaged"]), (2, 1, 0))
        self.assertEqual(os.stat(path).st_ino, before.st_ino)
        self.assertEqual(os.stat(path).st_mtime_ns, before.st_mtime_ns)  # a copy is not a use

    def test_a_damaged_copy_is_replaced(self):
        self.copy(self.cache, self.into)
        digest = self.digests["saxpy"]
        path = os.path.join(self.into, "v1", digest[:2], digest)
        with open(path, "r+b") as file:
            file.seek(-200, os.SEEK_END)
            file.write(b"damage")
        self.kiln("verify", "--dir", self.into, expect=5)
        report = self.copy(self.cache, self.into)
        self.assertEqual((report["taken"], report["present"]), (1, 2))
        self.kiln("verify", "--dir", self.into)

    def test_damaged_entries_are_not_copied(self):
        self.change_byte(self.digests["saxpy"], -200)
        report = self.copy(self.cache, self.into, expect=5)
        self.assertEqual((report["taken"], report["damaged"]), (2, 1))
        self.assertNotIn("saxpy", self.names(self.into))

    def test_filters(self):
        for number, (arguments, count) in enumerate((
                (["--name", "SAXPY"], 1), (["--device", "test device"], 3),
                (["--device", "test device", "--name", "m"], 2),
                ([self.digests["matmul"][:8], self.digests["saxpy"]], 2))):
            with self.subTest(arguments):
                operands = [word for word in arguments if not word.startswith("--")]
                report = self.copy(self.cache, f"{self.into}{number}", *arguments)
                self.assertEqual(report["taken"], count, operands)
        result = self.kiln("copy", self.cache, self.into, "0" * 8, expect=1)
        self.assertIn(b"no selected entry begins with '00000000'", result.stderr)

    def test_relative_paths(self):
        report = self.kiln("copy", "--json", "cache", "into", cwd=self.scratch)
        self.assertIn(b'"taken":3', report.stdout)
        self.assertEqual(len(self.listed("--dir", self.into)), 3)

    def test_text(self):
        self.assertEqual(self.kiln("copy", self.cache, self.into).stdout,
                         b"3 copied, 1.4 MiB, 0 already there, 0 not authenticated, 0 damaged, "
                         b"0 refused\n")

    def test_a_bar_shows_how_many_are_left(self):
        output, shown = self.on_terminal("copy", self.cache, self.into)
        self.assertIn(b"3 copied", output)
        self.assertIn(b" of 3 looked at", shown)

    def test_other_layouts(self):
        """In other layouts names are not digests, so the command looks up each key."""
        there = f"file://{self.into}?layout=onednn"
        self.assertEqual(self.copy(self.cache, there)["taken"], 3)
        self.assertEqual(self.copy(self.cache, there)["present"], 3)
        back = os.path.join(self.scratch, "back")
        self.assertEqual(self.copy(there, back)["taken"], 3)
        self.assertEqual(self.names(back), self.names(self.cache))

    def test_a_store_that_cannot_be_written_ends_the_copy(self):
        self.copy(self.cache, self.into, self.digests["saxpy"])
        result = self.kiln("copy", self.cache, f"file://{self.into}?readonly=1", expect=4)
        self.assertIn(b"the store to write is read-only", result.stderr)

    def test_wrong_stores(self):
        missing = os.path.join(self.scratch, "missing")
        result = self.kiln("copy", missing, self.into, expect=1)
        self.assertIn(b"missing does not exist", result.stderr)
        self.assertFalse(os.path.exists(self.into))
        for arguments in ((self.cache,), (), (self.cache, "pack:x"),
                          (self.cache, self.into, "--dir", self.cache)):
            with self.subTest(arguments):
                self.kiln("copy", *arguments, expect=2)
        self.kiln("copy", self.cache, "gopher://x", expect=3)


class Trust(CopyTest):
    """A pack may come from anybody."""

    def setUp(self):
        super().setUp()
        self.pack = os.path.join(self.scratch, "a.kpack")
        self.key = self.make_key_file()

    def test_what_nothing_authenticates_needs_trust(self):
        self.kiln("pack", self.pack)
        for source in (f"pack:{self.pack}", f"{self.scratch}/empty|pack:{self.pack}"):
            with self.subTest(source):
                result = self.kiln("copy", source, self.into, expect=5)
                self.assertIn(b"nothing authenticates the entries", result.stderr)
                self.assertEqual(self.listed("--dir", self.into), [])
        self.assertEqual(self.copy("--trust", f"pack:{self.pack}", self.into)["taken"], 3)

    def test_a_key_authenticates(self):
        self.kiln("pack", "--key-file", self.key, self.pack)
        other = self.make_key_file("other")
        report = self.copy(f"pack:{self.pack}?key-file={other}", self.into, expect=4)
        self.assertEqual((report["taken"], report["unauthenticated"]), (0, 3))
        self.assertEqual(self.copy(f"pack:{self.pack}?key-file={self.key}", self.into)["taken"], 3)
        again = os.path.join(self.scratch, "again")
        self.assertEqual(
            self.copy("--key-file", self.key, f"pack:{self.pack}", again)["taken"], 3)
        self.assertEqual(self.kiln_json("verify", "--dir", again, "--key-file", self.key)["ok"], 3)

    def test_a_chain_needs_a_key_for_each_such_store(self):
        self.kiln("pack", "--key-file", self.key, self.pack)
        chain = f"{self.scratch}/empty|pack:{self.pack}"
        self.kiln("copy", chain, self.into, expect=5)
        self.assertEqual(
            self.copy(f"{chain}?key-file={self.key}", self.into)["taken"], 3)

    def test_a_target_that_signs(self):
        self.copy(self.cache, f"file://{self.into}?key-file={self.key}")
        report = self.kiln_json("verify", "--dir", self.into, "--key-file", self.key)
        self.assertEqual(report["ok"], 3)


class PullAndPush(CopyTest):
    """Copies between the first store of a chain and the others. No entry here belongs to an OpenCL
    driver, so all of them fit."""

    def setUp(self):
        super().setUp()
        self.chain = f"{self.into}|{self.cache}"

    def test_pull(self):
        self.assertEqual(self.kiln_json("pull", "--dir", self.chain)["taken"], 3)
        self.assertEqual(self.kiln_json("pull", "--dir", self.chain)["present"], 3)
        self.assertEqual(self.names(self.into), self.names(self.cache))

    def test_push(self):
        self.environment["KILN_DIR"] = f"{self.cache}|{self.into}"
        self.assertEqual(self.kiln_json("push", "--name", "saxpy")["taken"], 1)
        self.assertEqual(self.names(self.into), ["saxpy"])

    def test_an_operand(self):
        self.assertEqual(self.kiln_json("pull", "--dir", self.into, self.cache)["taken"], 3)
        third = os.path.join(self.scratch, "third")
        self.assertEqual(self.kiln_json("push", "--dir", self.chain, third)["taken"], 3)
        self.assertEqual(self.names(third), self.names(self.cache))

    def test_without_another_store(self):
        for command in ("pull", "push"):
            self.assertIn(b"name the other store",
                          self.kiln(command, "--dir", self.cache, expect=2).stderr)

    def test_platforms_that_are_not_here(self):
        subprocess.run([cli.MAKE_CACHE, "driver", self.cache, "Not Here", "lib.so build-id:00"],
                       check=True, stdout=subprocess.DEVNULL, env=self.environment)
        result = self.kiln("pull", "--dir", self.chain)
        self.assertTrue(result.stdout.startswith(b"3 copied"), result.stdout)
        self.assertIn(b"1 entry is left out", result.stderr)
        self.assertEqual(self.copy(self.cache, self.into)["taken"], 1)


if __name__ == "__main__":
    cli.main()
