# SPDX-License-Identifier: Apache-2.0
"""Tests kiln pack and unpack, and commands that read a pack or a chain instead of a directory."""

import os
import resource
import subprocess

import cli


class PackTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        self.pack = os.path.join(self.scratch, "a.kpack")

    def pack_bytes(self, *arguments):
        self.kiln("pack", self.pack, *arguments)
        with open(self.pack, "rb") as file:
            return file.read()

    def key_file(self, name, byte):
        path = os.path.join(self.scratch, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(bytes([byte]) * 32)
        return path

    def names(self, location):
        return sorted(item["name"] for item in self.listed("--dir", location))


class Pack(PackTest):
    def test_all_entries(self):
        self.assertEqual(
            self.kiln_json("pack", self.pack),
            {"entries": 3, "bytes": os.path.getsize(self.pack)})
        items = self.listed("--dir", f"pack:{self.pack}")
        self.assertEqual(
            sorted(item["digest"] for item in items),
            sorted(self.digests[name] for name in self.digests if name != "later"))
        self.assertEqual({item["state"] for item in items}, {"ok"})
        self.assertEqual(
            self.kiln_json("verify", "--dir", f"pack:{self.pack}")["ok"], 3)
        self.assertEqual(os.stat(self.pack).st_mode & 0o022, 0)
        self.assertEqual(os.listdir(self.scratch).count("a.kpack"), 1)

    def test_the_same_bytes_twice(self):
        first = self.pack_bytes()
        os.unlink(self.pack)
        self.assertEqual(self.pack_bytes(), first)

    def test_text(self):
        self.assertRegex(self.kiln("pack", self.pack).stdout.decode(),
                         r"^.*/a\.kpack: 3 entries, \d+ KiB\n$")

    def test_filters(self):
        for arguments, names in (
                (["--name", "SAXPY"], ["saxpy"]),
                (["--name", "a"], ["matmul", "saxpy"]),
                (["--device", "test device"], ["blob \ufffd\x1b[31m", "matmul", "saxpy"]),
                ([self.digests["matmul"][:8]], ["matmul"]),
                ([self.digests["matmul"][:8], self.digests["saxpy"]], ["matmul", "saxpy"])):
            with self.subTest(arguments):
                self.kiln("pack", self.pack, *arguments)
                self.assertEqual(self.names(f"pack:{self.pack}"), names)

    def test_nothing_to_pack(self):
        result = self.kiln("pack", "--name", "no such", self.pack, expect=1)
        self.assertIn(b"nothing to pack", result.stderr)
        self.assertIn(b"1 result waits to be captured: run 'kiln capture' first", result.stderr)
        self.assertFalse(os.path.exists(self.pack))
        self.assertIn(b"nothing to pack",
                      self.kiln("pack", "--dir", "/nonexistent/x", self.pack, expect=1).stderr)

    def test_prefixes_without_a_match_are_named(self):
        """A pack that lacks an entry must not go unnoticed."""
        wanted = self.digests["saxpy"]
        absent = "0" * 8
        result = self.kiln("pack", self.pack, wanted[:8], absent, expect=1)
        self.assertIn(f"begins with '{absent}'".encode(), result.stderr)
        self.assertEqual([item["digest"] for item in self.listed("--dir", f"pack:{self.pack}")],
                         [wanted])
        request = self.digests["later"]
        self.assertIn(request.encode(), self.kiln("pack", self.pack, request, expect=1).stderr)

    def test_damaged_entries_are_named(self):
        self.change_byte(self.digests["saxpy"], -200)
        result = self.kiln("pack", self.pack, expect=5)
        self.assertIn(self.digests["saxpy"].encode(), result.stderr)
        self.assertEqual(len(self.listed("--dir", f"pack:{self.pack}")), 2)

    def test_wrong_usage(self):
        for arguments in ([], [self.pack, "xyz"], [self.pack, "abc"]):
            self.kiln("pack", *arguments, expect=2)
        self.assertFalse(os.path.exists(self.pack))

    def test_output_that_cannot_be_written(self):
        self.assertIn(b"No such file", self.kiln("pack", "/nonexistent/a", expect=4).stderr)

    def test_stripped_keys(self):
        whole = self.pack_bytes()
        stripped = self.pack_bytes("--strip-keys")
        self.assertIn(b"get_global_id", whole)
        self.assertNotIn(b"get_global_id", stripped)
        shown = self.kiln("show", "--dir", f"pack:{self.pack}", self.digests["saxpy"])
        self.assertRegex(shown.stdout.decode(), r"(?m)^source +\d+ B blake2b [0-9a-f]{64}$")
        self.kiln("show", "--dir", f"pack:{self.pack}", "--source", self.digests["saxpy"],
                  expect=1)

    def test_a_pack_is_read_only(self):
        before = self.pack_bytes()
        location = f"pack:{self.pack}"
        self.assertIn(b"reading only",
                      self.kiln("rm", "--dir", location, self.digests["saxpy"], expect=4).stderr)
        with open(self.pack, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_a_pack_that_is_not_there(self):
        result = self.kiln("ls", "--dir", f"pack:{self.pack}", expect=4)
        self.assertIn(b"No such file", result.stderr)

    def test_a_damaged_pack(self):
        data = bytearray(self.pack_bytes())
        data[3] ^= 1
        with open(self.pack, "wb") as file:
            file.write(data)
        self.assertIn(b"damaged", self.kiln("ls", "--dir", f"pack:{self.pack}", expect=5).stderr)


class Unpack(PackTest):
    def setUp(self):
        super().setUp()
        self.into = os.path.join(self.scratch, "into")

    def unpack(self, *arguments, **options):
        return self.kiln_json("unpack", "--dir", self.into, self.pack, *arguments, **options)

    def test_trusted(self):
        self.kiln("pack", "--strip-keys", self.pack)
        self.assertEqual(self.unpack("--trust"), {
            "taken": 3, "taken_bytes": 1503010, "present": 0, "unauthenticated": 0, "damaged": 0,
            "refused": 0, "gone": 0, "unfit": 0})
        self.assertEqual(self.names(self.into), self.names(self.cache))
        self.assertEqual(self.unpack("--trust")["present"], 3)
        payload = self.kiln("show", "--dir", self.into, "--payload", "-",
                            self.digests["matmul"]).stdout
        self.assertEqual(len(payload), 1500000)

    def test_nothing_is_trusted_by_itself(self):
        self.kiln("pack", self.pack)
        self.kiln("unpack", "--dir", self.into, self.pack, expect=2)
        self.kiln("unpack", "--dir", self.into, "--trust", "--key-file", "/x", self.pack, expect=2)
        self.assertFalse(os.path.exists(self.into))

    def test_signed(self):
        key, other = self.key_file("key", 1), self.key_file("other", 2)
        self.kiln("pack", "--key-file", key, self.pack)
        refused = self.unpack("--key-file", other, expect=4)
        self.assertEqual((refused["taken"], refused["unauthenticated"]), (0, 3))
        self.assertEqual(self.listed("--dir", self.into), [])
        self.assertEqual(self.unpack("--key-file", key)["taken"], 3)
        self.assertEqual(len(self.listed("--dir", self.into)), 3)
        # The directory's entries are signed with the same key.
        self.assertEqual(
            self.kiln_json("verify", "--dir", self.into, "--key-file", key)["unauthenticated"], 0)

    def test_a_directory_can_be_the_file_of_a_pack(self):
        self.kiln("pack", self.pack)
        self.assertEqual(self.names(self.pack), self.names(self.cache))

    def test_key_files_are_checked(self):
        key = self.key_file("key", 1)
        os.chmod(key, 0o644)
        self.assertIn(b"0600", self.kiln("pack", "--key-file", key, self.pack, expect=3).stderr)
        self.assertFalse(os.path.exists(self.pack))

    def test_damaged(self):
        self.kiln("pack", self.pack)
        with open(self.pack, "r+b") as file:
            file.seek(-20, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        report = self.unpack("--trust", expect=5)
        self.assertEqual((report["taken"], report["damaged"]), (2, 1))

    def test_files_at_the_size_limit(self):
        """As on a full disk, the entries that fit are copied, and no signal ends the tool."""
        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000000, 1000000))

        self.kiln("pack", self.pack)
        report = self.unpack("--trust", expect=4, preexec_fn=limit_files)
        self.assertEqual((report["taken"], report["refused"]), (2, 1))
        payload = os.path.join(self.scratch, "payload")
        result = self.kiln("show", "--payload", payload, self.digests["matmul"], expect=4,
                           preexec_fn=limit_files)
        self.assertIn(b"File too large", result.stderr)
        left = [name for _, _, names in os.walk(self.scratch) for name in names
                if name.startswith((".tmp-", "payload"))]
        self.assertEqual(left, [])


class Chain(PackTest):
    """The cache in use is empty, and the pack has the entries."""

    def setUp(self):
        super().setUp()
        self.kiln("pack", self.pack)
        self.chain = f"{self.scratch}/home|pack:{self.pack}"

    def test_reading_creates_nothing(self):
        self.assertEqual(len(self.listed("--dir", self.chain)), 3)
        self.assertEqual(self.kiln_json("verify", "--dir", self.chain)["ok"], 3)
        self.assertFalse(os.path.exists(os.path.join(self.scratch, "home")))

    def test_an_entry_of_two_tiers_is_one(self):
        self.kiln("unpack", "--dir", f"{self.scratch}/home", "--trust", self.pack)
        self.assertEqual(len(self.listed("--dir", self.chain)), 3)
        self.kiln("show", "--dir", self.chain, self.digests["saxpy"][:6])
        self.assertEqual(self.kiln_json("verify", "--dir", self.chain)["ok"], 6)
        self.assertEqual(self.kiln_json("stats", "--dir", self.chain)["entries"], 6)
        self.assertEqual(
            self.kiln_json("rm", "--dir", self.chain, self.digests["saxpy"])["removed"], 1)
        self.assertEqual(len(self.listed("--dir", f"{self.scratch}/home")), 2)
        self.assertEqual(len(self.listed("--dir", self.chain)), 3)

    def test_the_environment_takes_it_too(self):
        self.environment["KILN_DIR"] = self.chain
        self.assertEqual(len(self.listed()), 3)
        self.environment["KILN_DIR"] = f"pack:{self.pack}"
        self.assertEqual(len(self.listed()), 3)
        self.environment["KILN_DIR"] = f"file://{self.cache}?max-size=1G"
        self.assertEqual(len(self.listed()), 3)

    def test_a_broken_tier_is_named_and_skipped(self):
        chain = f"{self.cache}|pack:{self.scratch}/none.kpack"
        result = self.kiln("ls", "--json", "--dir", chain)
        self.assertEqual(len(result.stdout.splitlines()), 3)
        self.assertIn(b"none.kpack is skipped, and tried again later", result.stderr)

    def test_relative_tiers(self):
        tool, _ = self.in_build_tree()
        folder = os.path.join(self.scratch, "a b|c?")
        os.mkdir(folder, 0o700)
        os.rename(self.pack, os.path.join(folder, "x.kpack"))
        result = self.kiln("run", "--dir", "home|pack:x.kpack", "printenv", "KILN_DIR", tool=tool,
                           cwd=folder)
        escaped = f"{self.scratch}/a%20b%7Cc%3F"
        location = result.stdout.decode().strip()
        self.assertEqual(location, f"file://{escaped}/home|pack:{escaped}/x.kpack")
        self.assertEqual(len(self.listed("--dir", location)), 3)
        result = self.kiln("ls", "--json", "--dir", "pack:x.kpack", cwd=folder)
        self.assertEqual(len(result.stdout.splitlines()), 3)

    def test_a_url_with_one_slash(self):
        self.assertEqual(len(self.listed("--dir", f"file:{self.cache}")), 3)
        result = self.kiln("ls", "--dir", f"gopher:{self.cache}", expect=3)
        self.assertIn(b'unknown kind of store "gopher"', result.stderr)

    def test_wrong_locations(self):
        for location in (f"{self.cache}|", f"|{self.cache}", f"{self.cache}|gopher://x",
                         f"file://{self.cache}?write=some|pack:{self.pack}"):
            with self.subTest(location):
                self.kiln("ls", "--dir", location, expect=3)

    def test_doctor_names_a_tier(self):
        result = self.kiln("doctor", "--dir", f"{self.cache}|pack:/nonexistent", "--json",
                           expect=3)
        self.assertIn(b"pack:/nonexistent is skipped", result.stdout)
        result = subprocess.run([cli.KILN, "doctor", "--dir", self.chain, "--json"],
                                stdout=subprocess.PIPE, env=self.environment)
        self.assertNotIn(b"is skipped", result.stdout)


if __name__ == "__main__":
    cli.main()
