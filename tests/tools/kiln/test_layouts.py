# SPDX-License-Identifier: Apache-2.0
"""Tests caches that a URL names, in each layout. Their files are also read by a reader that was
written only from docs/."""

import json
import os
import re
import sys

import cli

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, "../../store/independent"))

from read_entry import read_entry, read_key  # noqa: E402

HASH = "[0-9a-f]{32}"
NAMES = {
    "sycl": (rf"{HASH}/{HASH}/{HASH}/{HASH}/\d+", ".src", ".bin"),
    "onednn": (rf"{HASH}/\d+", "/key.bin", "/kernel.bin"),
}


def name_of(encoding):
    """Returns the kernel that a key belongs to."""
    return next(part["bytes"] for part in read_key(encoding)[1] if part["name"] == b"name")


class Layout:
    layout = None

    def setUp(self):
        super().setUp()
        self.root = self.cache
        self.cache = f"file://{self.root}?layout={self.layout}"
        self.environment["KILN_DIR"] = "/nonexistent"
        self.digests = self.make("entries")

    def kiln(self, command, *arguments, **options):
        return super().kiln(command, "--dir", self.cache, *arguments, **options)

    def files(self):
        return sorted(
            os.path.relpath(os.path.join(folder, name), self.root)
            for folder, _, names in os.walk(self.root) for name in names)

    def pairs(self):
        pattern, key, payload = NAMES[self.layout]
        return [(name, name[:-len(key)] + payload)
                for name in self.files() if re.fullmatch(pattern + re.escape(key), name)]

    def read(self, name):
        with open(os.path.join(self.root, name), "rb") as file:
            return file.read()

    def test_files(self):
        pairs = self.pairs()
        self.assertEqual(len(pairs), len(self.listed()))
        others = set(self.files()) - {name for pair in pairs for name in pair}
        self.assertEqual({name for name in others if not name.startswith("v1/")},
                         {"CACHEDIR.TAG", "lease", "stats"} |
                         ({"size.txt"} if self.layout == "onednn" else set()))

    def test_an_independent_reader(self):
        found = {}
        for key_name, payload_name in self.pairs():
            key, entry = self.read(key_name), read_entry(self.read(payload_name))
            self.assertEqual(entry["key"], key)
            found[name_of(key)] = entry["payload"]
        digest = self.digests["saxpy"]
        self.assertEqual(found[b"saxpy"], bytes((i * 7 + 3000) % 256 for i in range(3000)))
        self.assertEqual(self.kiln("show", digest, "--payload", "-").stdout, found[b"saxpy"])
        out = os.path.join(self.scratch, "code.bin")
        self.kiln("show", digest, "--payload", out)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), found[b"saxpy"])

    def test_show_and_verify(self):
        digest = self.digests["saxpy"]
        self.assertTrue(self.kiln("show", "--source", digest).stdout.startswith(b"kernel void"))
        self.assertIn(b"saxpy", self.kiln("show", digest).stdout)
        self.kiln("verify")
        payload = next(payload for key, payload in self.pairs()
                       if name_of(self.read(key)) == b"saxpy")
        with open(os.path.join(self.root, payload), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        self.assertIn(digest.encode(), self.kiln("verify", expect=5).stderr)

    def test_remove_and_clear(self):
        count = len(self.pairs())
        self.kiln("rm", self.digests["saxpy"])
        self.assertEqual(len(self.pairs()), count - 1)
        self.kiln("clear", "--yes")
        self.assertEqual(self.pairs(), [])
        folders = [name for name in os.listdir(self.root) if re.fullmatch(HASH, name)]
        self.assertEqual(folders, [])
        self.assertEqual(self.listed(), [])

    def test_clear_newer(self):
        """The command also removes a payload without its key, which no listing shows."""
        whole, half = self.pairs()[:2]
        for _, payload in whole, half:
            with open(os.path.join(self.root, payload), "r+b") as file:
                file.seek(8)
                file.write(b"\x63\0\0\0")
        os.unlink(os.path.join(self.root, half[0]))
        os.utime(os.path.join(self.root, half[1]), (1, 1))
        self.kiln("clear", "--yes")
        self.kiln("trim", "--max-size", "0")
        self.assertTrue({*whole, half[1]} <= set(self.files()), self.files())
        removed = json.loads(self.kiln("clear", "--newer", "--yes", "--json").stdout)
        self.assertEqual((removed["removed"], removed["newer"], removed["failed"]), (1, 0, 0))
        self.assertFalse({*whole, half[1]} & set(self.files()), self.files())
        self.assertEqual([name for name in os.listdir(self.root) if re.fullmatch(HASH, name)], [])

    def test_stats(self):
        stats = super().kiln_json("stats")
        self.assertEqual(stats["entries"], len(self.listed()))
        self.assertGreater(stats["bytes"], 0)

    def test_without_the_layout(self):
        """The cache is not reported as empty, and the location in the message can be used as it
        is."""
        result = super().kiln("ls", "--dir", self.root)
        self.assertIn(f"has entries in layout {self.layout}".encode(), result.stderr)
        self.assertIn(f"--dir '{self.cache}'".encode(), result.stderr)
        self.assertNotIn(b"empty", result.stderr)
        self.assertEqual(result.stdout, b"")
        for location in self.root, f"file://{self.root}", f"file://{self.root}?stamp=0":
            found, = map(json.loads, super().kiln("ls", "--json", "--dir", location)
                        .stdout.decode().splitlines())
            self.assertEqual(found["other_layout"], self.layout)
            listed = super().kiln("ls", "--json", "--dir", found["location"]).stdout.splitlines()
            self.assertEqual(len(listed), len(self.pairs()))

    def test_without_the_layout_nothing_is_done(self):
        """All layouts share the totals: a trim of no entries would set them to zero."""
        for command in ["trim"], ["clear", "--yes"], ["verify"], ["verify", "--repair", "--yes"]:
            result = super().kiln(*command, "--dir", self.root, expect=1)
            self.assertIn(f"has entries in layout {self.layout}: --dir '{self.cache}'".encode(),
                          result.stderr)
            self.assertEqual(result.stdout, b"")
        self.assertEqual(super().kiln_json("stats", "--dir", self.cache)["entries"],
                         len(self.pairs()))
        self.kiln("clear", "--yes")
        super().kiln("verify", "--dir", self.root)

    def test_without_the_layout_an_empty_one_is_empty(self):
        """Only requests are left, which have the same place in all layouts."""
        self.kiln("clear", "--yes")
        self.assertIn(b"is empty", super().kiln("ls", "--dir", self.root).stderr)

    def test_a_file_that_is_not_ours_is_named(self):
        for half in self.pairs()[0]:
            os.chmod(os.path.join(self.root, half), 0o666)
        shown = self.kiln("verify", expect=4).stderr.decode()
        self.assertIn(f"kiln: {self.root}/{half}: the file is not trusted", shown)
        self.assertNotIn("0" * 32, shown)

    def test_the_variable(self):
        listed = self.listed()
        self.environment["KILN_DIR"] = self.cache
        output = super().kiln("ls", "--json").stdout.splitlines()
        self.assertEqual(len(output), len(listed))

    def test_run(self):
        self.environment["KILN_DISABLE"] = "1"
        output = self.kiln("run", "--", "printenv", "KILN_DIR").stdout
        self.assertEqual(output.decode(), self.cache + "\n")


class Sycl(Layout, cli.CliTest):
    layout = "sycl"

    def test_levels(self):
        """All keys have the same device and options, and none has constants."""
        levels = {tuple(name.split("/")[i] for i in (0, 2, 3)) for name, _ in self.pairs()}
        self.assertEqual(len(levels), 1)
        self.assertEqual(levels.pop()[1], "99aa06d3014798d86001c324468d497f")


class Onednn(Layout, cli.CliTest):
    layout = "onednn"

    def test_the_hash_is_the_digest(self):
        self.assertIn(self.digests["saxpy"], {name.split("/")[0] for name, _ in self.pairs()})

    def test_size(self):
        self.assertGreater(int(self.read("size.txt")), 3000)

    def test_backend(self):
        self.cache += "&backend=level_zero"
        digests = self.make("entries")
        self.assertTrue(os.path.isdir(os.path.join(self.root, "level_zero", digests["saxpy"])))


class Wrong(cli.CliTest):
    def test_layout(self):
        result = self.kiln("ls", "--dir", f"file://{self.cache}?layout=maple", expect=3)
        self.assertIn(b"layout=maple: expected kiln, sycl or onednn", result.stderr)


if __name__ == "__main__":
    cli.main()
