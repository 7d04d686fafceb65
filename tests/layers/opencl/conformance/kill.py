#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the conformance program under the layer at random moments, and lets it return from main
while work is under way. If a separate process captures builds, that process is killed too. After
each kill, `kiln verify` must accept the cache. At the end, a run must give the same output as
without the layer, and everything left to capture must be captured.

The moments come from a seed, which is printed; --seed repeats them as far as the machine allows.
"""

import glob
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import runner

# Cases that build a lot in a short time, from one thread and from four.
CASES = [
    "--threads",
    "4",
    "handles.kernels",
    "build.options",
    "build.callback",
    "queries.built",
    "kernels.arguments-with-option",
    "rebuild.other-options",
    "include.named-folder",
    "threads.one-context",
]

EMPTY_EVERY = 10  # the cache is emptied after this many tries, so that there is something to write


# The probability that a capturing process is killed, and the longest time until then, in seconds.
CAPTURES_KILLED = 0.25
CAPTURE_SECONDS = 1.5


def requests(bench):
    """Returns the files of the requests that wait to be captured."""
    return glob.glob(os.path.join(bench.cache, "v1", "requests", "*"))


def kill_after(bench, command, seconds, **settings):
    """Runs a command and kills it; returns the exit status."""
    process = subprocess.Popen(
        command,
        env=bench.environment(**settings),
        cwd=bench.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        return process.wait()


def check_cache(bench, what):
    accepted, said = bench.verify()
    bench.check(accepted, "%s: the cache is valid" % what, said)


def try_once(bench, dice, number, longest):
    if dice.random() < 0.3:
        # Half of the runs find their programs in the cache.
        salt = str(number if dice.random() < 0.5 else 0)
        left = bench.layered("--leave-running", salt)
        bench.check_same(left, bench.left, "try %d: returned from main" % number)
        what = "returned"
    else:
        seconds = dice.random() * longest
        status = kill_after(
            bench,
            bench.command(CASES),
            seconds,
            OPENCL_LAYERS=bench.options.layer,
            KILN_DIR=bench.cache,
        )
        bench.check(
            status in (0, -signal.SIGKILL),
            "try %d: killed after %.3f s" % (number, seconds),
            "exit status %d" % status,
        )
        what = "killed after %.3f s" % seconds
    check_cache(bench, "try %d, %s" % (number, what))
    if requests(bench) and dice.random() < CAPTURES_KILLED:
        seconds = dice.random() * CAPTURE_SECONDS
        kill_after(bench, [bench.options.kiln, "capture", "--dir", bench.cache], seconds)
        check_cache(bench, "try %d, capture killed after %.3f s" % (number, seconds))


def run(options, scratch):
    bench = runner.Runner(options, scratch)
    dice = random.Random(options.seed)
    print("seed %d" % options.seed, flush=True)
    expected = bench.native(*CASES)
    bench.left = bench.native("--leave-running", "0")
    bench.check(expected.returncode == 0, "the run without the layer succeeds", expected.stdout)
    start = time.monotonic()
    bench.layered(*CASES)
    longest = time.monotonic() - start
    for number in range(1, options.tries + 1):
        if number % EMPTY_EVERY == 0:
            shutil.rmtree(bench.cache, ignore_errors=True)
        try_once(bench, dice, number, longest)
    bench.check_same(bench.layered(*CASES), expected, "a whole run at the end")
    bench.check_same(bench.layered(*CASES), expected, "and one more")
    check_cache(bench, "at the end")
    bench.capture()
    bench.check(not requests(bench), "all was captured", requests(bench))
    bench.check_same(bench.layered(*CASES), expected, "a run after captures")
    return bench.summary()


def main():
    parser = runner.parser(__doc__)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    options = runner.parse(parser, needed=("layer", "kiln"))
    scratch = tempfile.mkdtemp(prefix="kiln-kill-")
    try:
        return run(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
