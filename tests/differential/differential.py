#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The differential harness: see docs/testing.md, and scripts/differential --help."""

import argparse
import collections
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import programs as programs_module
import reduction
import runner
import worlds as worlds_module

FOLDER = os.path.dirname(os.path.abspath(__file__))
# A round has this many programs and worlds. Each world fills a store that all others then use.
SIZES = {"nvrtc": (16, 5), "intel": (10, 4), "pocl": (5, 5), "hiprtc": (8, 4)}
# The run fails if the share of hits among pairs that should hit is smaller than this. With fewer
# pairs than EQUAL_PAIRS_MIN the share means little, so one hit is enough.
HITS_WANTED = 0.5
EQUAL_PAIRS_MIN = 20
REDUCTIONS_MAX = 8
# The share of rounds that vary only the files that a compiler finds. Without such rounds, a program
# would rarely meet the worlds that affect it.
ROUNDS_ABOUT_FILES = 0.4


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="differential", description="Compares the output of compilers with and without Kiln, in random worlds.")
    parser.add_argument("--device", choices=["nvrtc", "intel", "pocl", "hiprtc"], default="nvrtc")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--pairs", type=int, help="stop after this many pairs, if that comes first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--focus", nargs="+", metavar="DIMENSION", choices=worlds_module.DIMENSIONS,
                        help="let worlds differ only in these: " + ", ".join(worlds_module.DIMENSIONS))
    parser.add_argument("--resume", metavar="FILE",
                        help="continue the run recorded in the file, and record this run's progress there")
    parser.add_argument("--omit", nargs="*", metavar="PART",
                        help="leave a part out of all keys, and check that this causes a mismatch; no name: each part")
    parser.add_argument("--replay", nargs="*", metavar="CASE",
                        help="run only kept cases; no name: all of them")
    parser.add_argument("--keep", metavar="FOLDER", help="folder for cases of mismatches")
    parser.add_argument("--build", required=True)
    parser.add_argument("--runtimes", required=True)
    parser.add_argument("--cuda", default="/usr/local/cuda")
    return parser.parse_args()


class Tally(collections.Counter):
    """Counts of a run. A pair is a program in two worlds: one fills the store, the other
    requests."""

    def line(self):
        return "%d pairs, %d hits, %d mismatches" % (
            self["pairs"], self["hits"], self["mismatches"])


def make_worlds(draw, device, count, focus):
    """Makes worlds. The first is the ordinary one, in which more programs hit than in any other, so
    that even a run that has time for only one store shows whether hits occur. Each further world is
    a neighbour of an earlier one. If worlds differ in the working directory or in the folders that
    are searched, the first world often works in a project's folder or searches a folder by two
    names."""
    made = [worlds_module.ordinary()]
    if focus and "folder" in focus and draw.random() < 0.7:
        made[0]["folder"] = "one"
    if focus and "includes" in focus and draw.random() < 0.4:
        made[0]["includes"] = ["none", "twin", "inc1", "inc2"]  # a folder with two names
    while len(made) < count:
        made.append(worlds_module.neighbour(draw.choice(made), draw, device, focus))
    return made


def make_programs(draw, device, count, about=None):
    """Makes programs. Some differ from an earlier one in one thing. No program occurs twice,
    because the second one would build nothing."""
    made = []
    while len(made) < count:
        program = programs_module.vary(draw, device, draw.choice(made)) \
            if made and draw.random() < 0.3 else programs_module.make(draw, device, about)
        if program not in made:
            made.append(program)
    # See reduction.are_binaries_numbered. The results of programs after one with a lasting option
    # are not kept.
    return sorted(made, key=lambda program: (program["link"], bool(
        {"--restrict", "-mllvm", "-g"} & set(program["options"]))))


class Round:
    def __init__(self, site, seed, number, report, focus=None, end=float("inf")):
        self.end = end
        self.site = site
        self.device = site.setting.device
        self.report = report
        self.tally = Tally()
        self.draw = random.Random("%d %s %d" % (seed, self.device, number))
        program_count, world_count = SIZES[self.device]
        if not focus and self.draw.random() < ROUNDS_ABOUT_FILES:
            focus = list(worlds_module.ABOUT_FILES)
        self.programs = make_programs(self.draw, self.device, program_count, worlds_module.subject(focus))
        self.worlds = make_worlds(self.draw, self.device, world_count, focus)
        self.plain = []

    def compile_plainly(self):
        """Compiles in each world without Kiln. Drops a program that ends its process. If several
        programs do so in a world, the ordinary world replaces that world."""
        self.plain = []
        endings = collections.Counter()
        while len(self.plain) < len(self.worlds):
            place = len(self.plain)
            result = self.site.run(self.worlds[place], self.programs)
            if result.ending == 0:
                self.plain.append(result)
                continue
            endings[place] += 1
            if endings[place] > 2 or len(self.programs) < 2:
                self.tally["worlds that end the process without Kiln"] += 1
                if not any(self.worlds[place].values()):
                    raise runner.Failure("the process ends in the ordinary world: " + result.complaint)
                self.worlds[place] = worlds_module.ordinary()
                continue
            self.tally["programs that end their process without Kiln"] += 1
            del self.programs[len(result.lines) % len(self.programs)]
            self.plain = []

    def compare(self, histories, place, result, counts=True):
        """Compares a result with the result without Kiln in the same world. @histories: the worlds
        that filled the store, in order. If there is none, the store was empty before this world."""
        world, plain = self.worlds[place], self.plain[place]
        count = len(self.programs)
        equal = all(worlds_module.are_equal_in_what_counts(self.worlds[h], world, self.device)
                    for h in histories) if histories else False
        for index in range(count):
            if counts:
                outcome = result.outcomes[index] if index < len(result.outcomes) else []
                hit = runner.is_hit(outcome)
                self.tally["pairs"] += 1
                self.tally["hits"] += hit
                # A build that fails is never stored.
                if equal and "failed" not in outcome:
                    self.tally["equal pairs"] += 1
                    self.tally["hits of equal pairs"] += hit
            differing = [line for line in range(index, len(plain.lines), count)
                         if not self.agree(plain, result, line, world, len(histories))]
            if differing:
                self.report(self, [self.worlds[h] for h in histories], world,
                            self.programs[index], [plain.lines[l] for l in differing],
                            [result.lines[l] if l < len(result.lines)
                             else "the process ended: %s" % result.ending for l in differing])
        if result.outcomes and counts:
            for outcome in result.outcomes:
                self.tally["compilations"] += 1
                for o in outcome:
                    if o.startswith("passed-through"):
                        self.tally[o.replace("-", " ", 1)] += 1

    def agree(self, plain, result, line, world, history_count):
        """Returns whether a line is the same in both results."""
        if line >= len(result.lines):
            return False
        if plain.lines[line] == result.lines[line]:
            return True
        if not reduction.are_binaries_numbered(self.device, world, self.programs, line,
                                               history_count, result.outcomes[line]):
            return False
        self.tally["binaries not compared"] += 1
        return reduction.without_binaries(plain.lines[line]) == \
            reduction.without_binaries(result.lines[line])

    def is_late(self):
        """Returns whether time is up, so that the rest of the round is dropped."""
        return time.monotonic() > self.end

    def run(self):
        self.compile_plainly()
        for filled in range(len(self.worlds)):
            # The first world's store is always used to the end, however slow the machine is.
            if filled > 0 and self.is_late():
                return self.tally
            store = self.site.new_store()
            self.compare([], filled, self.site.run(self.worlds[filled], self.programs, store), False)
            for place in range(len(self.worlds)):
                if filled > 0 and self.is_late():
                    break
                result = self.site.run(self.worlds[place], self.programs, store, True)
                self.compare([filled], place, result)
            self.site.drop_store(store)
        # Runs all worlds with the same store, in random order and with repetitions.
        common = self.site.new_store()
        order = [self.draw.randrange(len(self.worlds)) for _ in range(len(self.worlds))]
        for step, place in enumerate(order):
            if self.is_late():
                break
            result = self.site.run(self.worlds[place], self.programs, common)
            if step > 0:
                self.compare(order[:step], place, result)
        self.site.drop_store(common)
        return self.tally


class Mismatches:
    """Drops mismatches that also vary without Kiln, reduces the others, and reports each kind
    once."""

    def __init__(self, keep):
        self.keep = keep
        self.kinds = []  # (dimensions, fields)
        self.unstable = collections.Counter()
        self.variations = {}  # (world, program): the fields that vary without Kiln

    def __call__(self, round_, histories, world, program, plain_lines, kiln_lines):
        fields = reduction.differing_fields(plain_lines, kiln_lines)
        fresh = reduction.fresh_fields(round_.site, world, program, plain_lines, kiln_lines)
        for field in fresh:
            self.unstable[field + ", as in a process of its own"] += 1
        fields -= fresh
        if not fields:
            return
        dimensions = set()
        for history in histories:
            dimensions |= set(worlds_module.difference(history, world))
        for known_dimensions, known_fields in self.kinds:
            if known_dimensions <= dimensions and fields <= known_fields:
                self._count(round_)
                return
        place = (json.dumps(world, sort_keys=True), json.dumps(program, sort_keys=True))
        if place not in self.variations:
            self.variations[place] = reduction.unstable_fields(round_.site, world, program,
                                                          round_.programs)
        unstable = self.variations[place]
        if fields <= unstable:
            for field in fields:
                self.unstable[field] += 1
            return
        self._count(round_)
        if len(self.kinds) >= REDUCTIONS_MAX:
            return
        case = reduction.reduce(round_.site, histories, world, program, round_.programs)
        self.kinds.append((case.dimensions(), fields | case.fields))
        case.report(self.keep)

    def _count(self, round_):
        round_.tally["mismatches"] += 1


def end_with_cleanup(_number, _frame):
    sys.exit(1)


def work(arguments, setting, end, job, numbers, queue):
    """The main function of a job's process: runs the rounds whose numbers it receives."""
    signal.signal(signal.SIGTERM, end_with_cleanup)
    scratch = tempfile.mkdtemp(prefix="kiln-differential-")
    mismatches = Mismatches(arguments.keep)
    try:
        site = runner.Site(setting, os.path.join(scratch, "r"))
        for number in iter(numbers.get, None):
            began = time.monotonic()
            round_ = Round(site, arguments.seed, number, mismatches, arguments.focus, end)
            tally = round_.run()
            for field, count in mismatches.unstable.items():
                tally["unstable without Kiln: " + field] += count
            mismatches.unstable.clear()
            queue.put((number, tally, time.monotonic() - began))
    except (runner.Failure, OSError) as failure:
        queue.put((job, failure, 0))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        queue.put((job, None, 0))


def read_progress(arguments):
    if arguments.resume and os.path.exists(arguments.resume):
        with open(arguments.resume) as file:
            progress = json.load(file)
        if (progress["device"], progress["seed"]) != (arguments.device, arguments.seed):
            sys.exit("differential: %s is for device %s, seed %s" % (
                arguments.resume, progress["device"], progress["seed"]))
        return progress["round"], Tally(progress["tally"])
    return 0, Tally()


def write_progress(arguments, number, tally):
    if not arguments.resume:
        return
    with open(arguments.resume + ".new", "w") as file:
        json.dump({"device": arguments.device, "seed": arguments.seed, "round": number,
                   "tally": tally}, file, indent=1)
    os.replace(arguments.resume + ".new", arguments.resume)


def run_rounds(arguments, setting, minutes=None, is_enough=lambda tally: False, quiet=False):
    """Runs rounds until time is up."""
    number, total = (0, Tally()) if quiet else read_progress(arguments)
    numbers, queue = multiprocessing.Queue(), multiprocessing.Queue()
    end = time.monotonic() + 60 * (arguments.minutes if minutes is None else minutes)
    jobs = [multiprocessing.Process(target=work, daemon=True,
                                    args=(arguments, setting, end, job, numbers, queue))
            for job in range(arguments.jobs)]
    signal.signal(signal.SIGTERM, end_with_cleanup)
    for job in jobs:
        job.start()
    waiting = 0
    finished, next_written = set(), number

    def may_go_on():
        return time.monotonic() < end and not is_enough(total) and \
            not (arguments.pairs and total["pairs"] >= arguments.pairs)

    for _ in jobs:
        numbers.put(number)
        number += 1
        waiting += 1
    running, failure = len(jobs), None
    while running:
        told, tally, seconds = queue.get()
        if isinstance(tally, Exception):
            failure = tally
        elif tally is None:
            running -= 1
        else:
            waiting -= 1
            total.update(tally)
            finished.add(told)
            while next_written in finished:
                next_written += 1
            if waiting == 0 or next_written == max(finished) + 1:
                write_progress(arguments, next_written, total) if not quiet else None
            if not quiet:
                print("round %d: %s in %.0f s" % (told, tally.line(), seconds), flush=True)
            if may_go_on() and not failure:
                numbers.put(number)
                number += 1
                waiting += 1
            else:
                numbers.put(None)
    for job in jobs:
        job.join()
    if failure:
        raise failure
    return total


def summarize(total):
    for name in sorted(total):
        if name not in ("pairs", "hits", "mismatches"):
            print("%s: %d" % (name, total[name]))
    few = total["equal pairs"] >= EQUAL_PAIRS_MIN and \
        total["hits of equal pairs"] < HITS_WANTED * total["equal pairs"]
    if few:
        print("too few hits among pairs whose worlds differ in nothing that affects keys")
    print(total.line())
    return 1 if few or total["mismatches"] or not total["hits"] else 0


def main():
    arguments = parse_arguments()
    arguments.keep = arguments.keep or os.path.join(arguments.build, "differential")
    setting = runner.Setting(arguments.device, os.path.abspath(arguments.build), arguments.cuda,
                             os.path.abspath(arguments.runtimes))
    if not setting.is_there():
        print("%s is not installed" % arguments.device)
        return 77
    if arguments.omit is not None:
        import omission
        return omission.run(arguments, setting, run_rounds)
    if arguments.replay is not None:
        import replay
        return replay.run(arguments, setting)
    return summarize(run_rounds(arguments, setting))


if __name__ == "__main__":
    sys.exit(main())
