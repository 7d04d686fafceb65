#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""upgrade.py --build BUILD --old LIBRARY --new LIBRARY [--arch NUMBER] [--programs N]: the harness's
programs, compiled by one NVRTC, repeated by `kiln replay` for another one, and compared with what
that one makes without Kiln: every output, byte for byte."""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import differential
import runner
import worlds as worlds_module

PROGRAMS_OF_A_PROCESS = 16


class Setting(runner.Setting):
    chosen = None  # the library

    def library(self):
        return self.chosen


def for_architecture(program, number):
    """Returns the program as it would ask for a different architecture."""
    changed = dict(program)
    changed["options"] = [re.sub(r"^(-arch=\w+_)\d+$", r"\g<1>" + number, option)
                          for option in program["options"]]
    return changed


def compare(plain, warm, tally, programs):
    for index, line in enumerate(plain.lines):
        outcome = warm.outcomes[index] if index < len(warm.outcomes) else ["the process ended"]
        tally["compared"] += 1
        tally["hits"] += runner.is_hit(outcome)
        if not runner.is_hit(outcome):
            tally[", ".join(outcome) or "nothing"] += 1
        if index >= len(warm.lines) or warm.lines[index] != line:
            tally["mismatches"] += 1
            print("DIFFERENT: %r\n%s\n%s" % (programs[index], line, warm.lines[index:index + 1]))


def round_of(site, arguments, number, tally):
    draw = random.Random("%d upgrade %d" % (arguments.seed, number))
    programs = differential.make_programs(draw, "nvrtc", PROGRAMS_OF_A_PROCESS)
    later = [for_architecture(p, arguments.arch) for p in programs] if arguments.arch else programs
    world = worlds_module.ordinary()
    old, new = site.new_store(), site.new_store()
    site.setting.chosen = arguments.old
    # Each in a process of its own: options that NVRTC does not forget keep no result.
    for program in programs:
        site.run(world, [program], old)
    command = [site.setting.kiln(), "replay", "--from", old, "--to", new, "--json",
               "--nvrtc", arguments.new, "--jobs", str(arguments.jobs)]
    if arguments.arch:
        command += ["--arch", arguments.arch]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KILN_")}
    if os.path.isdir(old):
        report = json.loads(subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, check=False).stdout)
        for entry in report["entries"]:
            tally["replay: " + entry["result"]] += 1
            if entry["result"] == "impossible":
                tally["replay: not possible: " +
                      re.sub(r"included .*? (from|which)", r"included … \1", entry["why"])] += 1
    site.setting.chosen = arguments.new
    for program in later:
        plain = site.run(world, [program])
        warm = site.run(world, [program], new, True) if os.path.isdir(new) else plain
        compare(plain, warm, tally, [program])
    site.drop_store(old)
    site.drop_store(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--arch")
    parser.add_argument("--programs", type=int, default=208)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if not (os.path.exists(arguments.old) and os.path.exists(arguments.new)):
        print("skipped: two libraries of NVRTC are needed")
        return 77
    tally = differential.Tally()
    root = tempfile.mkdtemp(prefix="kiln-upgrade-")
    try:
        setting = Setting("nvrtc", arguments.build, "", "")
        site = runner.Site(setting, root)
        for number in range((arguments.programs + PROGRAMS_OF_A_PROCESS - 1) // PROGRAMS_OF_A_PROCESS):
            round_of(site, arguments, number, tally)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for what, count in sorted(tally.items()):
        print("%6d %s" % (count, what))
    return 1 if tally["mismatches"] or not tally["hits"] else 0


if __name__ == "__main__":
    sys.exit(main())
