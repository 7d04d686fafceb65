#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs opencl_conformance with and without a layer and compares the outputs.

Without the layer the program runs twice. A line that differs between these two runs varies by
itself, which is an error of the test. Without --layer, these are the only runs. With the layer the
program runs with an empty cache, with a warm cache, with a warm read-only cache, with the layer
disabled, and with a cache directory that cannot be made. With --counting it also runs with the
layer between two counting layers. First, all cases run in one process. Then each case runs in a
separate process; there, the run without the layer is not repeated, and there is no run with
counting layers. With --expect-hits the cases run once more, with a warm cache and without the
runtime's own cache, and must not build.

Exit status: 0: no difference; 1: something differs; 2: it could not be run.
"""

import concurrent.futures
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import runner

# The variables of each variant of a run. {dir} is the cache directory, {file} a regular file.
VARIANTS = {
    "cold": {"KILN_DIR": "{dir}"},
    "warm": {"KILN_DIR": "{dir}"},
    "read-only": {"KILN_DIR": "{dir}", "KILN_READONLY": "1"},
    "disabled": {"KILN_DIR": "{dir}", "KILN_DISABLE": "1"},
    "no-directory": {"KILN_DIR": "{file}/kiln"},
}


# Lines that PoCL's compiler writes to stderr after it compiled, outside the build log. A build that
# hits compiles nothing. Only then may these lines be missing.
COMPILER_COUNT = re.compile(r"\d+ warnings? generated\.$")
VARIANTS_WITH_HITS = ("warm", "read-only", "between layers")

# Cases that compile and link: the driver compiles, and the cache answers the links.
LINKING_CASES = ("link.", "linked.", "compiled.", "il.compiled")


class Transcript:
    """The output of one process, divided by case, and how the process ended."""

    def __init__(self, stdout, stderr, status):
        self.cases = {}
        self.stderr = stderr.splitlines()
        self.status = status
        lines = None
        for line in stdout.splitlines():
            if line.startswith("  ") or lines is None and not line:
                if lines is None:
                    lines = self.cases.setdefault("(before the first case)", [])
                lines.append(line)
            else:
                lines = self.cases.setdefault(line, [])

    def ending(self):
        if self.status < 0:
            return "killed by signal %d" % -self.status
        return "exit status %d" % self.status


class Bench(runner.Runner):
    """Runs the program on one platform, in a scratch folder."""

    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.file = os.path.join(scratch, "regular-file")
        open(self.file, "w").close()

    def cases(self):
        """Returns (name, is_cacheable) for each case."""
        listed = subprocess.run(
            [self.options.program, "--list"], stdout=subprocess.PIPE, text=True, check=True
        )
        found = []
        for line in listed.stdout.splitlines():
            name, _, mark = line.partition(" ")
            wanted = not self.options.cases or name in self.options.cases
            if wanted and name not in self.options.leave_out:
                found.append((name, mark == "cacheable"))
        return found

    def run(self, cases, settings, command_before=()):
        """Runs cases in one process."""
        counts = ["--cycles", str(self.options.cycles), "--threads", str(self.options.threads)]
        command = self.command(counts + cases)
        try:
            done = self.call(list(command_before) + command, self.environment(**settings))
        except subprocess.TimeoutExpired as late:
            return Transcript(as_text(late.stdout), as_text(late.stderr) + "\n(ran too long)", 124)
        return Transcript(done.stdout, done.stderr, done.returncode)

    def settings(self, variant, directory):
        settings = {"OPENCL_LAYERS": self.options.layer}
        for name, value in VARIANTS[variant].items():
            settings[name] = value.format(dir=directory, file=self.file)
        return settings


def as_text(output):
    return (output or b"").decode(errors="backslashreplace")


def lacks_only_counts(expected, got):
    """Returns whether stderr contains everything expected; only lines with the compiler's counts
    may be missing."""
    left = list(got)
    for line in expected:
        if left and left[0] == line:
            left.pop(0)
        elif not COMPILER_COUNT.match(line):
            return False
    return not left


def differences(expected, got, may_hit=False):
    """Returns lines that show how two transcripts differ; none if they do not."""
    found = []
    for case in list(expected.cases) + [name for name in got.cases if name not in expected.cases]:
        before = expected.cases.get(case, ["(did not run)"])
        after = got.cases.get(case, ["(did not run)"])
        if before != after:
            found.append("  case %s" % case)
            found += [
                "    " + line
                for line in difflib.unified_diff(before, after, "without", "with", "", "", 1, "")
                if not line.startswith(("---", "+++", "@@"))
            ]
    if expected.status != got.status:
        found.append("  %s, but %s" % (expected.ending(), got.ending()))
    same_stderr = expected.stderr == got.stderr
    if not same_stderr and not (may_hit and lacks_only_counts(expected.stderr, got.stderr)):
        found.append("  stderr")
        found += [
            "    " + line
            for line in difflib.unified_diff(
                expected.stderr, got.stderr, "without", "with", "", "", 0, ""
            )
            if not line.startswith(("---", "+++", "@@"))
        ]
    return found


class Report:
    """Counts and prints differences; the same difference of the same processes only once."""

    def __init__(self, lines_max):
        self.failed = 0
        self.lines_max = lines_max
        self.seen = {}

    def add(self, grouping, variant, results):
        """@results: (label, differences) of each process."""
        bad = [(label, found) for label, found in results if found]
        verdict = "same" if not bad else "%d of %d differ" % (len(bad), len(results))
        print("%-9s %-14s %4d processes  %s" % (grouping, variant, len(results), verdict))
        for label, found in bad:
            self.print_once(grouping, variant, label, found)
        sys.stdout.flush()
        self.failed += len(bad)

    def print_once(self, grouping, variant, label, found):
        first = self.seen.setdefault((label, tuple(found)), "%s %s" % (grouping, variant))
        if first != "%s %s" % (grouping, variant):
            print("  %s: as %s" % (label, first))
            return
        print("  %s:" % label)
        left_out = 0
        room = self.lines_max
        for line in found + ["  end"]:
            if not line.startswith("    "):  # a new case
                if left_out:
                    print("      … %d lines more" % left_out)
                left_out, room = 0, self.lines_max
            if line == "  end":
                break
            if room > 0:
                print("  " + line)
            else:
                left_out += 1
            room -= 1


class Grouping:
    """A division of the cases among processes."""

    def __init__(self, name, groups, bench, report, jobs):
        self.name = name
        self.groups = groups  # label -> list of cases
        self.bench = bench
        self.report = report
        self.jobs = jobs

    def directory(self, label):
        path = os.path.join(self.bench.folder("caches"), self.name + "-" + label)
        return path

    def run(self, settings_of, command_before=()):
        def one(label):
            return label, self.bench.run(self.groups[label], settings_of(label), command_before)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return dict(pool.map(one, self.groups))

    def compare(self, variant, expected, got):
        may_hit = variant in VARIANTS_WITH_HITS
        self.report.add(
            self.name,
            variant,
            [(label, differences(expected[label], got[label], may_hit)) for label in expected],
        )

    def without_layer(self, fills_cache):
        """Returns the transcripts without the layer. @fills_cache: first runs the cases once to
        fill the runtime's own cache."""
        native = lambda label: {}
        if fills_cache:
            self.run(native)
        expected = self.run(native)
        if self.name == "together" or not self.bench.options.layer:
            self.compare("without", expected, self.run(native))
        for label, transcript in expected.items():
            if transcript.status != 0:
                print("  %s without layer: %s" % (label, transcript.ending()))
                self.report.failed += 1
        return expected

    def with_layer(self, expected, variants):
        for variant in variants:
            if variant == "cold":
                for label in self.groups:
                    shutil.rmtree(self.directory(label), ignore_errors=True)
            self.compare(
                variant,
                expected,
                self.run(lambda label: self.bench.settings(variant, self.directory(label))),
            )
            if variant == "cold":
                self.capture()

    def capture(self):
        """Serves the capture requests that the cold runs stored."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda label: self.bench.capture(self.directory(label)), self.groups))

    def between_layers(self, expected):
        """Runs with a counting layer above and below this layer. Both must count, and the output
        must be the same as without them."""
        layers = []
        for place in ("above", "below"):
            layers.append(os.path.join(self.bench.scratch, "lib%s.so" % place))
            shutil.copy(self.bench.options.counting, layers[-1])
        # The loader calls the last layer in the list first.
        stack = ":".join([layers[1], self.bench.options.layer, layers[0]])
        counts = os.path.join(self.bench.scratch, "counts")

        def settings_of(label):
            settings = self.bench.settings("warm", self.directory(label))
            settings["OPENCL_LAYERS"] = stack
            settings["COUNTING_LAYER_FILE"] = counts + "-" + label
            return settings

        self.compare("between layers", expected, self.run(settings_of))
        missing = []
        for label in self.groups:
            lines = read_lines(counts + "-" + label)
            if not {"libabove.so", "libbelow.so"} <= {line.split(" ")[0] for line in lines}:
                missing.append((label, ["  expected counts of both layers, got: %s" % lines]))
        self.report.add(self.name, "both counted", missing or [("all", [])])


def read_lines(path):
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


def check_hits(grouping, cacheable, expected):
    """A warm run under the command-line tool, without the runtime's own cache: the output must be
    the same as without Kiln, and the tool's summary must report hits and no builds."""
    options = grouping.bench.options
    wanted = [label for label in grouping.groups if label in cacheable]
    wanted = [label for label in wanted if not label.startswith(options.no_hits)]
    hits = Grouping(
        grouping.name,
        {label: grouping.groups[label] for label in wanted},
        grouping.bench,
        grouping.report,
        grouping.jobs,
    )

    def settings_of(label):
        empty = tempfile.mkdtemp(dir=grouping.bench.scratch)
        return {"KILN_DIR": grouping.directory(label), "POCL_CACHE_DIR": empty}

    got = hits.run(settings_of, [options.kiln, "run", "--summary", "--json", "--"])
    results = []
    for label, transcript in got.items():
        found = []
        try:
            summary = json.loads(transcript.stderr[-1])
            hit_count = summary["hits_memory"] + summary["hits_store"]
            for name in ("builds", "misses", "failures", "passed_through", "corrupt"):
                may_be = name == "passed_through" and label.startswith(LINKING_CASES)
                if summary[name] != 0 and not may_be:
                    found.append("  %s: %d" % (name, summary[name]))
            if hit_count == 0:
                found.append("  no hits")
        except (IndexError, ValueError, KeyError) as wrong:
            found.append("  no summary: %r, stderr %s" % (wrong, transcript.stderr[-3:]))
        del transcript.stderr[-1:]
        found += differences(expected[label], transcript, may_hit=True)
        results.append((label, found))
    grouping.report.add(grouping.name, "warm: hits", results)


def variants_of(parser, text):
    variants = [variant for variant in text.split(",") if variant]
    for variant in variants:
        if variant not in VARIANTS:
            parser.error("no such variant: " + variant)
    return variants


def parse_arguments():
    parser = runner.parser(__doc__)
    parser.add_argument("--counting", help="libcounting_layer.so: also run between two copies of it")
    parser.add_argument(
        "--expect-hits", action="store_true", help="cacheable cases must not build when warm"
    )
    parser.add_argument(
        "--no-hits", default="", help="prefixes of the cases that --expect-hits does not check"
    )
    parser.add_argument(
        "--variants", default=",".join(VARIANTS), help="the variants to run, separated by commas"
    )
    parser.add_argument("--alone-variants", help="variants to run with a process for each case")
    parser.add_argument(
        "--alone-cacheable", action="store_true", help="run only cacheable cases separately"
    )
    parser.add_argument("--leave-out", default="", help="cases that do not run")
    parser.add_argument("--grouping", choices=("together", "alone", "both"), default="both")
    parser.add_argument("--cycles", type=int, default=40, help="for handles.cycles")
    parser.add_argument("--threads", type=int, default=4,
                        help="the number of threads in cases that start some")
    parser.add_argument(
        "--own-cache", action="store_true", help="the runtime has a cache, which is filled first"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--lines", type=int, default=20, help="lines to print for each case")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folder")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = runner.parse(parser, files=("program", "layer", "kiln", "counting"))
    options.no_hits = tuple(start for start in options.no_hits.split(",") if start)
    options.leave_out = options.leave_out.split(",")
    options.variants = variants_of(parser, options.variants)
    options.alone_variants = (
        options.variants
        if options.alone_variants is None
        else variants_of(parser, options.alone_variants)
    )
    if options.expect_hits and not options.kiln:
        parser.error("--expect-hits needs --kiln")
    return options


def run(options, scratch):
    bench = Bench(options, scratch)
    cases = bench.cases()
    if not cases:
        print("no such case", file=sys.stderr)
        return 2
    report = Report(options.lines)
    groupings = []
    if options.grouping != "alone":
        names = [name for name, _ in cases]
        groupings.append(Grouping("together", {"all": names}, bench, report, 1))
    if options.grouping != "together":
        alone = {
            name: [name]
            for name, is_cacheable in cases
            if is_cacheable or not options.alone_cacheable
        }
        groupings.append(Grouping("alone", alone, bench, report, options.jobs))
    for grouping in groupings:
        # Both groupings have the same cases, so the first fills the runtime's own cache for the
        # second.
        fills_cache = options.own_cache and grouping is groupings[0]
        expected = grouping.without_layer(fills_cache)
        if options.layer:
            grouping.with_layer(
                expected, options.alone_variants if grouping.name == "alone" else options.variants
            )
            if options.counting and grouping.name == "together":
                grouping.between_layers(expected)
            if options.expect_hits and grouping.name == "alone":
                cacheable = {name for name, is_cacheable in cases if is_cacheable}
                check_hits(grouping, cacheable, expected)
    return 1 if report.failed else 0


def main():
    options = parse_arguments()
    scratch = tempfile.mkdtemp(prefix="kiln-conformance-")
    try:
        return run(options, scratch)
    finally:
        if options.keep:
            print("kept: " + scratch)
        else:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
