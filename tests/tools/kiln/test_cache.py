# SPDX-License-Identifier: Apache-2.0
"""Tests kiln stats, ls, show, verify, rm and clear, and wrong command lines."""

import fcntl
import json
import os
import pty
import re
import stat
import struct
import subprocess
import termios

import cli


class Usage(cli.CliTest):
    def test_help_goes_to_stdout(self):
        result = self.kiln("--help")
        commands = re.findall(r"(?m)^  (\w+) ", result.stdout.decode())
        self.assertGreaterEqual(len(commands), 13)
        for command in commands:
            if command == "help":  # it prints the text above
                continue
            help_text = self.kiln(command, "--help").stdout.decode()
            self.assertTrue(help_text.startswith(f"Usage: kiln {command}"), help_text)
            usage = help_text.partition("\n\n")[0]
            for option in "--dir", "--key-file", "--json":  # nearly all commands accept these
                if (command, option) in (("copy", "--dir"),  # it names two stores
                                         ("key", "--dir"), ("key", "--key-file")):  # opens no store
                    continue
                self.assertIn(option, usage)
                self.assertRegex(help_text, f"(?m)^  {option} ")
            self.assertLessEqual(max(map(len, help_text.splitlines())), 100)
        self.assertEqual(result.stderr, b"")

    def test_version(self):
        self.assertRegex(self.kiln("--version").stdout.decode(), r"^kiln \d+\.\d+")

    def test_exit_status_2_on_wrong_usage(self):
        for arguments in (
                [], ["nonsense"], ["ls", "--nonsense"], ["ls", "operand"], ["show"],
                ["show", "abcd", "ef01"], ["show", "abc"], ["show", "xyzw"], ["show", "0" * 33],
                ["show", "abcd", "--log", "--source"], ["show", "abcd", "--payload"], ["rm"],
                ["rm", "abc"], ["run"], ["run", "--summary"], ["stats", "--dir", ""],
                ["clear"]):
            with self.subTest(arguments):
                result = self.kiln(*arguments, expect=2)
                self.assertEqual(result.stdout, b"")
                self.assertNotEqual(result.stderr, b"")

    def test_exit_status_4_on_a_full_output_device(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([cli.KILN, "--help"], stdout=full, stderr=subprocess.PIPE,
                                    env=self.environment)
        self.assertEqual(result.returncode, 4)
        self.assertIn(b"No space left", result.stderr)


class Missing(cli.CliTest):
    """There is no cache directory yet, and commands that only read create none."""

    def tearDown(self):
        self.assertFalse(os.path.exists(self.cache))

    def test_stats_are_zero(self):
        stats = self.kiln_json("stats")
        self.assertEqual(set(stats), cli.COUNTERS)
        self.assertEqual(set(stats.values()), {0})
        self.assertIn(self.cache, self.kiln("stats").stdout.decode())

    def test_nothing_is_listed(self):
        self.assertEqual(self.listed(), [])
        self.assertEqual(self.kiln("ls").stdout, b"")

    def test_nothing_is_found(self):
        self.assertIn(b"no entry begins with 'abcd'", self.kiln("show", "abcd", expect=1).stderr)
        self.assertIn(b"no entry begins with 'abcd'", self.kiln("rm", "abcd", expect=1).stderr)

    def test_nothing_is_wrong(self):
        self.assertEqual(
            self.kiln_json("verify"),
            {"checked": 0, "ok": 0, "corrupt": 0, "newer": 0, "removed": 0,
             "unauthenticated": 0, "unreadable": 0, "complete": True})
        self.assertEqual(self.kiln_json("clear", "--yes")["removed"], 0)


class NoDirectory(cli.CliTest):
    def test_no_directory_is_configured(self):
        for name in ("KILN_DIR", "HOME"):
            self.environment.pop(name, None)
        for command in ("ls", "stats", "verify"):
            self.assertIn(b"no cache directory", self.kiln(command, expect=3).stderr)

    def test_a_file_in_its_place(self):
        with open(self.cache, "w"):
            pass
        self.assertIn(self.cache.encode(), self.kiln("ls", expect=3).stderr)

    def test_a_symbolic_link_in_its_place(self):
        os.mkdir(self.cache + "-elsewhere", 0o700)
        os.symlink(self.cache + "-elsewhere", self.cache)
        self.assertIn(self.cache.encode(), self.kiln("ls", expect=3).stderr)

    def test_a_wrong_value_is_named(self):
        self.environment["KILN_MAX_SIZE"] = "3X"
        self.assertIn(b"KILN_MAX_SIZE=3X", self.kiln("ls").stderr)


class Entries(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        self.request = self.digests["later"]
        # Gives the entries different times, so that their order is known.
        for age, name in enumerate(("matmul", "saxpy")):
            path = self.entry_path(self.digests[name])
            os.utime(path, (1800000000 - age, 1800000000 - age))

    def test_stats(self):
        stats = self.kiln_json("stats")
        self.assertEqual(set(stats), cli.COUNTERS)
        self.assertEqual(
            (stats["hits_store"], stats["builds"], stats["saved_ns"], stats["entries"]),
            (3, 4, 2310000000, 3))
        self.assertGreater(stats["bytes"], 1503000)
        text = self.kiln("stats").stdout.decode()
        self.assertRegex(text, r"(?m)^saved_ns +2\.31 s  ?\S")
        self.assertRegex(text, r"(?m)^bytes +1\.4 MiB .*of at most 2\.0 GiB")

    def test_dir_option(self):
        self.environment["KILN_DIR"] = "/nonexistent"
        self.assertEqual(self.kiln_json("stats", "--dir", self.cache)["entries"], 3)
        result = self.kiln("stats", "--json", "--dir", "cache", cwd=self.scratch)
        self.assertIn(b'"entries":3', result.stdout)

    def test_ls_json(self):
        items = self.listed()
        self.assertEqual(len(items), 3)
        self.assertEqual([item["name"] for item in items[:2]], ["matmul", "saxpy"])
        saxpy = items[1]
        self.assertEqual(saxpy.pop("stored_bytes"),
                         os.path.getsize(self.entry_path(self.digests["saxpy"])))
        self.assertEqual(saxpy, {
            "digest": self.digests["saxpy"], "state": "ok", "kind": "program",
            "device": "Test Platform, Test Device", "name": "saxpy", "bytes": 3000,
            "build_ns": 256000000, "created": 1700000000, "last_used": 1799999999,
            "uses": None})

    def test_ls_all(self):
        kinds = sorted(item["kind"] for item in self.listed("--all"))
        self.assertEqual(kinds, ["blob", "program", "program", "request"])

    def test_ls_text(self):
        lines = self.kiln("ls").stdout.decode().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[0].split(), "DIGEST KIND SIZE BUILD LAST USED NAME".split())
        self.assertRegex(
            lines[1], "^" + self.digests["matmul"][:12] +
            r" +program +1\.4 MiB +256 ms 2027-01-15 08:00:00 matmul$")
        self.assertEqual(lines[1].index("2027-"), lines[2].index("2027-"))

    def test_names_of_any_bytes(self):
        """Bytes that are not text, and escape sequences, do no harm in JSON or on a terminal."""
        names = [item["name"] for item in self.listed() if item["kind"] == "blob"]
        self.assertEqual(names, ["blob \ufffd\x1b[31m"])
        self.assertNotIn(b"\x1b", self.kiln("ls").stdout)

    def test_show(self):
        text = self.kiln("show", self.digests["saxpy"][:10].upper()).stdout.decode()
        for pattern in (r"^digest +" + self.digests["saxpy"], r"^kind +program", r"^name +saxpy",
                        r"^made by +make_cache", r"^created +2023-11-14 22:13:20",
                        r"^build time +256 ms", r"^payload +2\.9 KiB", r"^log +10 B",
                        r'^options +22 B +-cl-mad-enable -DN="4"', r"^number +8 B +0{16}",
                        r"^source +\d+ B +\(text\)"):
            self.assertRegex(text, "(?m)" + pattern)

    def test_show_json(self):
        entry = self.kiln_json("show", self.digests["saxpy"])
        parts = {part["name"]: part for part in entry.pop("key")}
        self.assertEqual(parts["options"]["text"], '-cl-mad-enable -DN="4"')
        self.assertEqual(parts["number"], {"name": "number", "size": 8, "hex": "0" * 16})
        self.assertTrue(parts["source"]["text"].startswith("kernel void saxpy"))
        self.assertEqual(parts["source"]["size"], len(parts["source"]["text"]))
        self.assertEqual(
            (entry["digest"], entry["kind"], entry["tool"], entry["log"], entry["bytes"]),
            (self.digests["saxpy"], "program", "make_cache", "a warning\n", 3000))

    def test_show_one_thing(self):
        digest = self.digests["saxpy"]
        self.assertEqual(self.kiln("show", digest, "--log").stdout, b"a warning\n")
        self.assertTrue(self.kiln("show", "--source", digest).stdout.startswith(b"kernel void"))
        payload = bytes((i * 7 + 3000) % 256 for i in range(3000))
        self.assertEqual(self.kiln("show", digest, "--payload", "-").stdout, payload)
        out = os.path.join(self.scratch, "code.bin")
        self.assertEqual(self.kiln("show", digest, "--payload", out).stdout, b"")
        with open(out, "rb") as file:
            self.assertEqual(file.read(), payload)
        self.assertEqual(stat.S_IMODE(os.stat(out).st_mode) & 0o111, 0)
        self.kiln("show", digest, "--payload", "/nonexistent/code.bin", expect=4)

    def test_verify(self):
        self.assertEqual(
            self.kiln_json("verify"),
            {"checked": 4, "ok": 4, "corrupt": 0, "newer": 0, "removed": 0,
             "unauthenticated": 0, "unreadable": 0, "complete": True})
        self.assertIn(b"4 checked", self.kiln("verify").stdout)

    def test_damaged_payload(self):
        digest = self.digests["saxpy"]
        self.change_byte(digest, -200)
        report = self.kiln("verify", "--json", expect=5)
        self.assertEqual(
            report.stdout, b'{"checked":4,"ok":3,"corrupt":1,"newer":0,"removed":0,"unauthenticated":0,"unreadable":0,"complete":true}\n')
        self.assertIn(digest.encode(), report.stderr)
        self.assertTrue(os.path.exists(self.entry_path(digest)))
        self.assertIn(b"damaged", self.kiln("show", digest, expect=5).stderr)
        self.kiln("rm", digest)
        self.kiln("verify")

    def test_a_whole_digest_needs_no_walk(self):
        """A folder of other entries is a link. A walk reports that; a look-up does not see it."""
        digest = self.digests["saxpy"]
        taken = os.listdir(os.path.join(self.cache, "v1"))
        other = next(name for name in map("{:02x}".format, range(256)) if name not in taken)
        os.symlink(self.scratch, os.path.join(self.cache, "v1", other))
        self.kiln("show", digest[:31], expect=3)
        self.assertEqual(self.kiln_json("show", digest)["digest"], digest)
        self.kiln("show", digest[:31] + ("1" if digest[31] == "0" else "0"), expect=1)
        self.kiln("rm", digest[:31], expect=3)
        self.assertEqual(self.kiln_json("rm", digest.upper())["removed"], 1)
        self.kiln("show", digest, expect=1)

    def test_damaged_head(self):
        digest = self.digests["saxpy"]
        self.change_byte(digest, 0)
        states = {item["digest"]: item["state"] for item in self.listed()}
        self.assertEqual(states.pop(digest), "corrupt")
        self.assertEqual(set(states.values()), {"ok"})
        self.assertRegex(self.kiln("ls").stdout.decode(), digest[:12] + " +corrupt +- ")
        self.kiln("verify", expect=5)

    def test_truncated(self):
        digest = self.digests["matmul"]
        os.truncate(self.entry_path(digest), 1000)
        self.assertEqual(self.kiln_json("verify", expect=5)["corrupt"], 1)
        self.kiln("show", digest, expect=5)

    def make_newer(self, digest):
        """The version follows the magic, in four bytes."""
        with open(self.entry_path(digest), "r+b") as file:
            file.seek(8)
            file.write(b"\x63\0\0\0")

    def test_newer_stays(self):
        digest = self.digests["saxpy"]
        self.make_newer(digest)
        report = self.kiln_json("verify")
        self.assertEqual((report["ok"], report["newer"], report["corrupt"]), (3, 1, 0))
        states = {item["digest"]: item["state"] for item in self.listed()}
        self.assertEqual(states[digest], "newer")
        self.assertIn(b"newer version", self.kiln("show", digest, expect=1).stderr)
        self.assertEqual(
            self.kiln_json("rm", digest, expect=1),
            {"removed": 0, "requests": 0, "removed_bytes": 0, "newer": 1, "failed": 0})
        removed = self.kiln_json("clear", "--yes")
        self.assertEqual((removed["removed"], removed["requests"], removed["newer"]), (2, 1, 1))
        self.assertEqual([item["digest"] for item in self.listed()], [digest])

    def test_a_directory_cannot_steer_a_terminal(self):
        """Bytes that are not UTF-8 are escaped, too."""
        self.cache = os.fsencode(self.scratch) + b"/c\xff\x1b[31m\xe2\x80\xae"
        subprocess.run([cli.MAKE_CACHE, "entries", self.cache], check=True,
                       stdout=subprocess.DEVNULL, env=self.environment)
        written_out = rb"/c\377\u001b[31m\u202e"
        _, shown = self.on_terminal("clear", "--dir", self.cache, answer=b"n\n")
        self.assertIn(b"from " + os.fsencode(self.scratch) + written_out + b"? [y/N]", shown)
        self.assertNotIn(b"\x1b[31m", shown)
        self.assertNotIn(b"\xff", shown)
        error = self.kiln("ls", "--dir", os.fsdecode(self.cache) + "/absent").stderr
        self.assertNotIn(b"\x1b", error)
        self.assertNotIn(b"\xff", error)

    def test_clear_newer(self):
        """Requests are removed too, and so are temporary files of a newer writer that was killed.
        Later writes need no trim."""
        self.make_newer(self.digests["saxpy"])
        request = os.path.join(self.cache, "v1", "requests", self.digests["later"])
        leftover = self.leave_temporary()
        stuck = os.path.join(self.cache, "v1", "janitor", "stuck")
        for path in request, leftover:
            with open(self.entry_path(self.digests["saxpy"]), "rb") as newer:
                head = newer.read()
            with open(path, "wb") as file:
                file.write(head)
        os.utime(leftover, (1, 1))
        kept = self.entry_path(self.digests["saxpy"]), request, leftover
        for command in (["clear", "--yes"], ["trim", "--max-size", "0"]):
            self.kiln(*command)
            for path in kept:
                self.assertTrue(os.path.exists(path), (command, path))
        self.environment["KILN_MAX_SIZE"] = "4K"
        self.kiln("trim")
        self.assertTrue(os.path.exists(stuck))
        _, shown = self.on_terminal("clear", "--newer", answer=b"n\n")
        self.assertIn(b"Remove 1 entry", shown)
        self.assertIn(b"those of a newer format too", shown)
        self.assertTrue(all(map(os.path.exists, kept)))
        removed = self.kiln_json("clear", "--newer", "--yes")
        self.assertEqual((removed["removed"], removed["newer"], removed["failed"]), (1, 0, 0))
        self.assertGreater(removed["removed_bytes"], 0)
        for path in *kept, stuck:
            self.assertFalse(os.path.exists(path), path)
        stats = self.kiln_json("stats")
        self.assertEqual((stats["entries"], stats["requests"], stats["bytes"]), (0, 0, 0))

    def test_rm(self):
        size = os.path.getsize(self.entry_path(self.digests["saxpy"]))
        removed = self.kiln_json("rm", self.digests["saxpy"][:12])
        self.assertEqual(
            removed,
            {"removed": 1, "requests": 0, "removed_bytes": size, "newer": 0, "failed": 0})
        self.assertFalse(os.path.exists(self.entry_path(self.digests["saxpy"])))
        self.assertEqual(self.kiln_json("stats")["entries"], 2)
        result = self.kiln("rm", self.digests["saxpy"], self.digests["matmul"], expect=1)
        self.assertIn(b"1 entry removed, 1.4 MiB", result.stdout)
        self.assertEqual(len(self.listed("--all")), 2)

    def test_clear(self):
        foreign = os.path.join(self.cache, "foreign")
        with open(foreign, "w"):
            pass
        result = self.kiln("clear", expect=2)
        self.assertIn(b"--yes", result.stderr)
        self.assertEqual(len(self.listed("--all")), 4)
        leftover = self.leave_temporary()
        removed = self.kiln_json("clear", "--yes")
        self.assertEqual((removed["removed"], removed["requests"]), (3, 1))
        self.assertEqual(self.listed("--all"), [])
        self.assertTrue(os.path.exists(foreign))
        self.assertFalse(os.path.exists(leftover))

    def test_clear_names_requests(self):
        result = self.kiln("clear", "--yes")
        self.assertIn(b"3 entries and 1 request removed", result.stdout)

    def answer(self, text):
        """Runs `kiln clear` on a terminal and answers its question."""
        controller, terminal = pty.openpty()
        os.write(controller, text)
        result = self.kiln("clear", stdin=terminal)
        os.close(terminal)
        os.close(controller)
        return result

    def test_clear_asks(self):
        result = self.answer(b"n\n")
        self.assertIn(b"Remove 3 entries and 1 request (1.4 MiB) from " + self.cache.encode(), result.stderr)
        self.assertEqual(len(self.listed("--all")), 4)
        self.answer(b"y\n")
        self.assertEqual(self.listed("--all"), [])


class Ambiguous(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("ambiguous")
        self.prefix = self.digests[0][:4]

    def test_candidates_are_named(self):
        for command in ("show", "rm"):
            result = self.kiln(command, self.prefix, expect=2)
            for digest in self.digests:
                self.assertIn(digest.encode(), result.stderr)
        self.kiln("rm", self.digests[1], self.prefix, expect=2)
        self.assertEqual(len(self.listed()), 2)

    def test_all_matching(self):
        self.assertEqual(self.kiln_json("rm", "--all-matching", self.prefix)["removed"], 2)
        self.assertEqual(self.listed(), [])

    def test_longer_prefix(self):
        shared = len(os.path.commonprefix(self.digests))
        self.kiln("rm", self.digests[0][:shared + 1])
        self.assertEqual([item["digest"] for item in self.listed()], [self.digests[1]])


class Colours(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digest = self.make("entries")["saxpy"]
        self.change_byte(self.digest, 0)
        self.environment["TERM"] = "xterm-256color"

    def on_terminal(self, columns=0):
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        subprocess.run([cli.KILN, "ls"], stdout=terminal, env=self.environment, check=True)
        os.close(terminal)
        output = b""
        try:
            while chunk := os.read(controller, 4096):
                output += chunk
        except OSError:  # a terminal's end of file
            pass
        os.close(controller)
        self.assertIn(self.digest[:12].encode(), output)
        return output

    def test_terminal(self):
        self.assertTrue(re.search(rb"\x1b\[31mcorrupt", self.on_terminal()))

    def test_no_color(self):
        self.environment["NO_COLOR"] = "1"
        self.assertNotIn(b"\x1b", self.on_terminal())

    def test_pipe(self):
        self.assertNotIn(b"\x1b", self.kiln("ls").stdout)

    def test_narrow_terminal(self):
        """Long columns are truncated; the others are complete, and no line ends with a space."""
        self.environment["NO_COLOR"] = "1"
        wide = self.kiln("ls").stdout.decode().splitlines()
        narrow = self.on_terminal(len(wide[0]) - 3).decode().splitlines()
        self.assertEqual([len(line) <= len(wide[0]) - 3 for line in narrow], [True] * len(wide))
        self.assertGreater(max(map(len, wide)), len(wide[0]) - 3)
        self.assertEqual([line[:12] for line in narrow], [line[:12] for line in wide])
        self.assertEqual([line for line in wide + narrow if line.endswith(" ")], [])


class Capture(cli.CliTest):
    def test_expired(self):
        """The request is old."""
        self.make("entries")
        self.assertEqual(len(self.listed("--all")), 4)
        counted = self.kiln_json("capture")
        self.assertEqual(
            counted, {"served": 0, "dropped": 0, "failed": 0, "expired": 1, "left": 0})
        self.assertEqual(len(self.listed("--all")), 3)

    def request_path(self, digest):
        return os.path.join(self.cache, "v1", "requests", digest)

    def make_with_young_request(self):
        digest = self.make("young")["later"]
        self.assertEqual(len(self.listed("--all")), 1)
        return self.request_path(digest)

    def assert_dropped(self):
        counted = self.kiln_json("capture")
        self.assertEqual(
            counted, {"served": 0, "dropped": 1, "failed": 0, "expired": 0, "left": 0})
        self.assertEqual(self.listed("--all"), [])

    def test_damaged_payload(self):
        path = self.make_with_young_request()
        with open(path, "r+b") as file:
            file.seek(-20, os.SEEK_END)
            file.write(b"damaged")
        self.assert_dropped()

    def test_damaged_head(self):
        os.truncate(self.make_with_young_request(), 10)
        self.assert_dropped()

    def test_no_request_at_all(self):
        """A request that is not damaged may nevertheless contain no build, which only a worker
        notices."""
        self.make_with_young_request()
        self.assert_dropped()

    def test_many_requests(self):
        """Only one of them is in memory at a time."""
        self.make("many")
        process = subprocess.Popen(
            [cli.KILN, "capture", "--json"], env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        counted = json.loads(process.stdout.read())
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual((process.returncode, counted["dropped"]), (0, 32))
        self.assertEqual(self.listed("--all"), [])
        self.assertLess(used.ru_maxrss, 96 << 10)

    def test_of_the_future(self):
        self.make("future")
        self.assertEqual(self.kiln_json("capture")["expired"], 1)
        self.assertEqual(self.listed("--all"), [])

    def test_leftovers(self):
        self.make("entries")
        leftover = self.leave_temporary()
        self.kiln("capture")
        self.assertFalse(os.path.exists(leftover))
        self.assertEqual(len(self.listed()), 3)

    def test_leftovers_of_a_store_of_size_zero(self):
        self.make("entries")
        self.environment["KILN_MAX_SIZE"] = "0"
        self.kiln("capture")
        self.assertEqual(len(self.listed()), 3)

    def test_no_locks(self):
        """A file that is not trusted is not locked."""
        self.make("entries")
        lease = os.path.join(self.cache, "lease")
        with open(lease, "a"):
            os.chmod(lease, 0o666)
        self.assertEqual(self.kiln_json("capture")["expired"], 1)

    def test_wrong_wait(self):
        for text in ("", "x", "-1", "1s"):
            self.kiln("capture", "--wait-ms", text, expect=2)

    def test_serve_is_its_own(self):
        self.make("entries")
        self.kiln("capture", "--serve", "1", expect=2)


class Ahead(cli.CliTest):
    """The order in which kiln replay builds ahead of a program. The entries can't be repeated, so
    that each has its result at once."""

    def replayed(self, *arguments):
        report = self.kiln_json("replay", "--jobs", "1", *arguments)
        return "".join(entry["name"] for entry in report["entries"])

    def asked(self, program, names, kind=1):
        """A run of a program."""
        self.journal(*((kind, self.digests[name], 1700000000, 0, 0, 0, program, "", "")
                       for name in names))

    def test_the_last_run_comes_first(self):
        self.digests = {name: self.make_entry("put", f"text={name}", name=name, cost=cost * 10**9)
                        for cost, name in enumerate("abcdef")}
        self.assertEqual(self.replayed(), "fedcba")
        self.asked("app", "fa")
        self.asked("app", "bdb")
        self.asked("app", "e", kind=4)
        self.asked("other", "cf")
        ahead = self.replayed("--ahead", "1 app")
        self.assertEqual(ahead[:2], "bd")
        self.assertEqual(sorted(ahead), list("abcdef"))
        self.assertEqual(self.replayed("--ahead", "1 other")[:2], "cf")
        self.assertEqual(self.replayed("--ahead", "1 nothing"), self.replayed())


if __name__ == "__main__":
    cli.main()
