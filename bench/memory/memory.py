#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a look-up in memory. It is compared with an unprotected table behind the
same library boundary (the floor); with an unprotected table that is otherwise like the engine's, so
that the difference is the cost of protection; and with peers: tbb::concurrent_hash_map, liburcu's
rculfhash, a rwlock over std::unordered_map, and oneDNN's primitive cache. Peers that are not
installed are left out, and a note says so.

--rounds N      rounds, in turns; the least of each measurement counts (5)
--threads N     compares 1, 2, 4, … N threads instead, each on its own processor
--program FILE  a memory_bench that was built before
--plot FILE     draws all results as SVG"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measuring
import plotting

# In the order in which the plot shows them.
TITLES = {
    "floor": "unprotected table",
    "tagged": "unprotected table like Kiln's",
    "peek inside": "peek, 64 per section",
    "peek": "peek, one per section",
    "peek many": "peek, 16 keys for each call",
    "pin": "pin and unpin",
    "pin many": "pin, 16 keys for each call",
    "constant": "a cached constant",
    "urcu": "liburcu rculfhash",
    "tbb": "tbb::concurrent_hash_map",
    "rwlock": "rwlock, unordered_map",
    "onednn": "oneDNN primitive cache",
}


def measure(arguments):
    """Nanoseconds by (subject, keys, threads)."""
    program = arguments.program
    if not program:
        program = measuring.BUILD / "bench/memory_bench"
        subprocess.run(["ninja", "-C", str(measuring.BUILD), "--quiet", "bench/memory_bench"],
                       check=True, stdout=sys.stderr)
    mode = ["threads", str(arguments.threads)] if arguments.threads else []
    output = subprocess.run([program, str(arguments.rounds), *mode], check=True,
                            capture_output=True, text=True).stdout
    least = {}
    for line in output.splitlines():
        subject, keys, threads, taken = line.split("\t")
        what = (subject, int(keys), threads)
        least[what] = min(float(taken), least.get(what, float("inf")))
    return least


def judge(taken):
    def one(name, value, peer, limit):
        results.append(measuring.result(name, taken[value], taken[peer], limit))

    results = []
    one("watch / plain load", ("watch", 64, "1"), ("load", 64, "1"), 2)
    one("peek / floor, 64 keys", ("peek", 64, "1"), ("floor", 64, "1"), 2)
    one("peek / unprotected table like Kiln's", ("peek", 64, "1"), ("tagged", 64, "1"), None)
    one("peek inside / unprotected table like Kiln's", ("peek inside", 64, "1"),
        ("tagged", 64, "1"), 2)
    one("peek, 2 threads / 1", ("peek", 64, "2"), ("peek", 64, "1"), 1.3)
    one("pin / floor, 64 keys", ("pin", 64, "1"), ("floor", 64, "1"), 3)
    one("pin, 2 threads apart / 1", ("pin", 64, "2 apart"), ("pin", 64, "1"), 1.3)
    one("cached constant / pin", ("constant", 64, "1"), ("pin", 64, "1"), 1.5)
    one("16 keys at once / peek inside, 100,000 keys", ("peek many", 100000, "1"),
        ("peek inside", 100000, "1"), 0.5)
    one("16 pins at once / pin, 100,000 keys", ("pin many", 100000, "1"), ("pin", 100000, "1"), 0.5)
    for peer, alone in (("tbb", 3), ("rwlock", 2)):
        for threads, times in (("1", alone), ("2", 10)):
            if (peer, 64, threads) in taken:
                plural = "s" * (threads != "1")
                one(f"peek / {TITLES[peer]}, {threads} thread{plural}", ("peek", 64, threads),
                    (peer, 64, threads), 1 / times)
    # oneDNN was measured with one primitive, so only one key can be compared.
    if ("onednn", 1, "1") in taken:
        one(f"peek / {TITLES['onednn']}, 1 key", ("peek", 1, "1"), ("onednn", 1, "1"), 1 / 50)
    for keys in (32, 128, 1000, 100000):
        for pinned in ("", " pinned"):
            all_pinned = ", all pinned" * (pinned != "")
            one(f"insertion with eviction, {keys:,} entries{all_pinned} / floor",
                (f"evict{pinned}", keys, "1"), ("floor evict", keys, "1"), None)
            if keys >= 1000:
                results.append(measuring.result(
                    f"eviction by a smaller capacity, {keys:,} entries{all_pinned} / its limit",
                    taken[f"shrink{pinned}", keys, "1"], 2000, 1))
    own = taken["bytes", 100000, "1"]
    results.append(measuring.result("bytes per entry", own, 160, 160, ratio=own))
    return results


# What threads do at once: the title, and the most that a thread's time may grow.
SHARED = {
    "floor": ("unprotected table, same 64 keys", None),
    "floor own": ("unprotected table, 64 keys each", None),
    "peek": ("peek, same 64 keys", 1.5),
    "pin": ("pin and unpin, same 64 keys", 1.5),
    "pin own": ("pin and unpin, 64 keys each", 1.5),
    "constant": ("a cached constant, same 64 keys", 1.5),
    "evict": ("insertion with eviction", 4),
    "tbb": ("tbb::concurrent_hash_map, same 64 keys", None),
    "tbb own": ("tbb::concurrent_hash_map, 64 keys each", None),
    "urcu": ("liburcu rculfhash, same 64 keys", None),
    "urcu own": ("liburcu rculfhash, 64 keys each", None),
}


def judge_threads(taken):
    """Compares each subject with many threads and with one thread."""
    results = []
    for subject, (title, limit) in SHARED.items():
        alone = [value for (name, _, threads), value in taken.items()
                 if name == subject and threads == "1"]
        for threads in sorted({int(threads) for _, _, threads in taken} - {1}):
            for (name, _, count), value in taken.items():
                if name == subject and int(count) == threads:
                    results.append(measuring.result(f"{title}, {threads} threads / 1", value,
                                                    alone[0], limit))
    return results


def plot_threads(path, taken):
    """Plots nanoseconds by (subject, threads)."""
    subjects = [subject for subject in SHARED if (subject, 1) in taken]
    groups = {f"{count} thread{'s' * (count != 1)}": [taken[subject, count] for subject in subjects]
              for count in sorted({count for _, count in taken})}
    plotting.bars(path, "Nanoseconds by number of threads (logarithmic)",
                  [SHARED[subject][0] for subject in subjects], groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--program")
    parser.add_argument("--plot")
    arguments = parser.parse_args()
    taken = measure(arguments)
    if arguments.threads:
        if arguments.plot:
            plot_threads(arguments.plot, {(name, int(count)): value
                                          for (name, _, count), value in taken.items()})
        return measuring.report("memory", judge_threads(taken), arguments.json)
    here = {subject for subject, _, _ in taken}
    for peer in ("tbb", "urcu", "onednn"):
        if peer not in here:
            measuring.note("memory", f"{TITLES[peer]} is not installed and is left out")
    measuring.note("memory", f"insertion with room: {taken['insert', 100000, '1']:.0f} ns each")
    if arguments.plot:
        subjects = [subject for subject in TITLES if subject in here]
        groups = {f"{keys:,} key{'s' * (keys != 1)}, {threads} thread{'s' * (threads != '1')}":
                  [taken[subject, keys, threads] for subject in subjects]
                  for keys in (1, 64, 4096, 100000) for threads in ("1", "2")}
        plotting.bars(arguments.plot, "Nanoseconds for each look-up (logarithmic)",
                      [TITLES[subject] for subject in subjects], groups)
    return measuring.report("memory", judge(taken), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
