# SPDX-License-Identifier: Apache-2.0
"""The part that compare.py, key_inputs.py and kill.py share: running the conformance program in a
scratch folder, in an environment with no variables of Kiln except the test's, and counting
failures."""

import argparse
import difflib
import glob
import json
import os
import subprocess
import sys

TIMEOUT_SECONDS = 600
DIFFERENCE_LINES = 12


def parser(description):
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--program", required=True, help="opencl_conformance")
    made.add_argument("--layer", help="libkiln_opencl_layer.so")
    made.add_argument("--kiln", help="the command-line tool, from the same build")
    made.add_argument("--vendors", help="value of OCL_ICD_VENDORS")
    made.add_argument("--loader-dir", help="value of LD_LIBRARY_PATH, to choose an ICD loader")
    made.add_argument("--platform", help="part of the platform's name")
    return made


def parse(made, needed=(), files=("program", "layer", "kiln")):
    options = made.parse_args()
    for name in needed:
        if getattr(options, name) is None:
            made.error("--%s is needed" % name)
    for name in files:
        path = getattr(options, name)
        if path is not None:
            if not os.path.exists(path):
                made.error("%s: no such file" % path)
            setattr(options, name, os.path.abspath(path))
    return options


class Runner:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.work = self.folder("work")
        self.cache = os.path.join(scratch, "cache")
        self.checks = 0
        self.failed = 0
        self.base = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("KILN_") and name not in ("OPENCL_LAYERS", "XDG_CACHE_HOME")
        }
        self.base["HOME"] = self.folder("home")
        self.base["POCL_CACHE_DIR"] = self.folder("pocl")
        self.base["KILN_HELPER"] = "0"  # tests start captures themselves
        if options.vendors:
            self.base["OCL_ICD_VENDORS"] = options.vendors
        if options.loader_dir:
            self.base["LD_LIBRARY_PATH"] = options.loader_dir

    def folder(self, name):
        path = os.path.join(self.scratch, name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def command(self, arguments):
        command = [self.options.program]
        if self.options.platform:
            command += ["--platform", self.options.platform]
        return command + list(arguments)

    def environment(self, **settings):
        made = dict(self.base)
        made.update(settings)
        return made

    def native(self, *arguments, **settings):
        """Runs the program without the layer."""
        return self.call(self.command(arguments), self.environment(**settings))

    def layered(self, *arguments, **settings):
        """Runs the program with the layer. KILN_DIR is this test's cache unless @settings contain
        it."""
        made = {"OPENCL_LAYERS": self.options.layer, "KILN_DIR": self.cache}
        made.update(settings)
        return self.call(self.command(arguments), self.environment(**made))

    def call(self, command, environment):
        return subprocess.run(
            command,
            env=environment,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            timeout=TIMEOUT_SECONDS,
        )

    def kiln(self, *arguments):
        return self.call([self.options.kiln] + list(arguments), self.environment())

    def counters(self, *arguments, **settings):
        """Returns the summary of one run under the layer, and the run."""
        made = {"KILN_DIR": self.cache}
        made.update(settings)
        run = self.call(
            [self.options.kiln, "run", "--summary", "--json", "--"] + self.command(arguments),
            self.environment(**made),
        )
        lines = run.stderr.splitlines()
        try:
            return json.loads(lines[-1]), run
        except (IndexError, ValueError):
            return {}, run

    def capture(self, directory=None):
        """Serves the capture requests that runs left, if this runtime's builds are captured by
        request."""
        if self.options.kiln:
            self.kiln("capture", "--dir", directory or self.cache)

    def verify(self):
        """Returns whether the tool accepts the cache, and its output."""
        done = self.kiln("verify", "--json", "--dir", self.cache)
        return done.returncode == 0, (done.stdout + done.stderr).strip()

    def check(self, right, what, detail=""):
        self.checks += 1
        if not right:
            self.failed += 1
            print("FAILED: %s" % what)
            if detail:
                print("    " + str(detail).replace("\n", "\n    "))
            sys.stdout.flush()

    def check_same(self, got, expected, what):
        """Checks for the same output, the same errors and the same exit status."""
        before, after = run_as_lines(expected), run_as_lines(got)
        difference = difflib.unified_diff(before, after, "expected", "got", "", "", 0, "")
        self.check(before == after, what, "\n".join(list(difference)[:DIFFERENCE_LINES]))

    def summary(self):
        print("%d checks, %d failed" % (self.checks, self.failed))
        return 1 if self.failed else 0


def run_as_lines(run):
    return run.stdout.splitlines() + run.stderr.splitlines() + ["status %d" % run.returncode]


def entry_files(cache):
    """Returns every file that contains an entry, sorted by name."""
    found = glob.glob(os.path.join(cache, "v1", "[0-9a-f]" * 2, "[0-9a-f]" * 32))
    return sorted(found)
