#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kiln run --record and --expect-warm, and --only. The program of the test appends events to the
file that KILN_RECORD names, as the layer does."""

import os
import shlex
import time

import cli
from test_report import BUILD, FAILURE, HIT, MEMORY_HITS, MISS

TOOL = os.path.join(os.path.dirname(cli.MAKE_CACHE), "make_journal")


class RecordTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        self.list = os.path.join(self.scratch, "used")

    def app(self, *events, status=0):
        """A command line that appends events, and ends with a status."""
        lines = "".join("\t".join(str(field) for field in event) + "\n" for event in events)
        return ["sh", "-c", f"printf %s {shlex.quote(lines)} | {shlex.quote(TOOL)} \"$KILN_RECORD\"; "
                f"exit {status}"]

    def event(self, kind, name, label="", build_ms=0):
        return (kind, self.digests.get(name, ""), int(time.time()), build_ms, 0,
                MISS if kind in (BUILD, FAILURE) else 0, "app", "", label)

    def test_a_record_lists_what_was_used(self):
        self.kiln("run", "--record", self.list, "--", *self.app(
            self.event(HIT, "saxpy"), self.event(HIT, "saxpy"), self.event(MEMORY_HITS, ""),
            self.event(BUILD, "matmul", "mat\x1bmul")))
        with open(self.list, encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), sorted(
                [self.digests["saxpy"], self.digests["matmul"] + " mat\\u001bmul"]))
        self.assertEqual([name for name in os.listdir(self.scratch) if "kiln-run" in name], [])

    def test_nothing_used(self):
        self.kiln("run", "--record", self.list, "true")
        self.assertEqual(os.path.getsize(self.list), 0)
        pack = os.path.join(self.scratch, "pack")
        self.assertIn(b"lists no entry",
                      self.kiln("pack", "--only", self.list, pack, expect=1).stderr)

    def test_expect_warm(self):
        self.kiln("run", "--expect-warm", "true")
        self.kiln("run", "--expect-warm", *self.app(self.event(HIT, "saxpy")))
        result = self.kiln("run", "--expect-warm", *self.app(
            self.event(HIT, "saxpy"), self.event(BUILD, "matmul", "mat", 12)), expect=3)
        self.assertEqual(result.stderr.decode(),
                         f"kiln: built {self.digests['matmul']} in 12.0 ms: mat\n")
        self.kiln("run", "--expect-warm", *self.app(self.event(FAILURE, "matmul")), expect=3)
        # The status of a program that has failed says more.
        self.kiln("run", "--expect-warm", *self.app(self.event(BUILD, "matmul"), status=9), expect=9)
        self.environment["KILN_DISABLE"] = "1"
        self.kiln("run", "--expect-warm", "true", expect=3)

    def test_runs_in_runs_record(self):
        inner = [cli.KILN, "run", "--expect-warm", *self.app(self.event(BUILD, "matmul"))]
        self.kiln("run", "--record", self.list, *inner, expect=3)
        with open(self.list, encoding="utf-8") as file:
            self.assertEqual(file.read(), self.digests["matmul"] + "\n")

    def test_only(self):
        self.kiln("run", "--record", self.list, *self.app(self.event(HIT, "saxpy")))
        pack = os.path.join(self.scratch, "app.kpack")
        self.kiln("pack", "--only", self.list, pack)
        self.assertEqual([one["digest"] for one in self.listed("--dir", "pack:" + pack)],
                         [self.digests["saxpy"]])
        for number, arguments in enumerate((
                ["copy", "--only", self.list, self.cache, "TO"],
                ["push", "--only", self.list, "TO"],
                ["pull", "--only", self.list, "--dir", "TO", self.cache])):
            into = os.path.join(self.scratch, f"into-{number}")
            self.kiln(*[into if argument == "TO" else argument for argument in arguments])
            self.assertEqual([one["digest"] for one in self.listed("--dir", into)],
                             [self.digests["saxpy"]], arguments)

    def test_wrong_lists(self):
        pack = os.path.join(self.scratch, "app.kpack")
        self.kiln("pack", "--only", self.list, pack, expect=4)
        with open(self.list, "w", encoding="utf-8") as file:
            file.write("0" * 32 + " gone\n" + self.digests["saxpy"] + "\n")
        self.assertIn(b"0000", self.kiln("pack", "--only", self.list, pack, expect=1).stderr)
        with open(self.list, "w", encoding="utf-8") as file:
            file.write("not a digest\n")
        self.kiln("pack", "--only", self.list, pack, expect=2)


if __name__ == "__main__":
    cli.main()
