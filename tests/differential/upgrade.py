#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""upgrade.py --build BUILD --old LIBRARY --new LIBRARY [--device hiprtc] [--linker LIBRARY] [--arch
NAME] [--programs N]: the harness's programs, compiled by one NVRTC or HIPRTC, repeated by `kiln
replay` for another one, and compared with what that one makes without Kiln: every output, byte for
byte. Programs that link do so with the nvJitLink beside each library; with --linker, later with that
one."""

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
    chosen_linker = None

    def library(self):
        return self.chosen

    def linker(self):
        return self.chosen_linker or super().linker()


def for_architecture(program, name):
    """Returns the program as it would ask for a different architecture."""
    changed = dict(program)
    changed["options"] = [re.sub(r"(?<==)gfx\w+$" if name.startswith("gfx") else r"(?<=_)\d+$", name,
                                 option) if "arch" in option else option
                          for option in program["options"]]
    return changed


def compare(plain, warm, tally, programs, is_hip):
    for index, line in enumerate(plain.lines):
        outcome = warm.outcomes[index] if index < len(warm.outcomes) else ["the process ended"]
        tally["compared"] += 1
        tally["hits"] += runner.is_hit(outcome)
        if not runner.is_hit(outcome):
            tally[", ".join(outcome) or "nothing"] += 1
        if programs[index]["link"]:
            tally["links: " + (outcome or ["nothing"])[-1]] += 1
        # What HIPRTC compiles may contain the name of its temporary folder, if it is not kept.
        if is_hip and not runner.is_hit(outcome):
            continue
        if index >= len(warm.lines) or warm.lines[index] != line:
            tally["mismatches"] += 1
            print("DIFFERENT: %r\n%s\n%s" % (programs[index], line, warm.lines[index:index + 1]))


def round_of(site, arguments, number, tally):
    draw = random.Random("%d upgrade %d" % (arguments.seed, number))
    programs = differential.make_programs(draw, arguments.device, PROGRAMS_OF_A_PROCESS)
    later = [for_architecture(p, arguments.arch) for p in programs] if arguments.arch else programs
    world = worlds_module.ordinary()
    old, new = site.new_store(), site.new_store()
    site.setting.chosen, site.setting.chosen_linker = arguments.old, None
    # Each in a process of its own: options that NVRTC does not forget keep no result.
    for program in programs:
        site.run(world, [program], old)
    site.setting.chosen, site.setting.chosen_linker = arguments.new, arguments.linker
    command = [site.setting.kiln(), "replay", "--from", old, "--to", new, "--json",
               "--" + arguments.device, arguments.new, "--jobs", str(arguments.jobs)]
    if site.setting.linker():
        command += ["--nvjitlink", site.setting.linker()]
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
    for program in later:
        plain = site.run(world, [program])
        warm = site.run(world, [program], new, True) if os.path.isdir(new) else plain
        compare(plain, warm, tally, [program], arguments.device == "hiprtc")
    site.drop_store(old)
    site.drop_store(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--device", choices=["nvrtc", "hiprtc"], default="nvrtc")
    parser.add_argument("--linker")
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
        setting = Setting(arguments.device, arguments.build, "", "")
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
