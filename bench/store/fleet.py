#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures gets from a Redis server on this machine, through a socket of the file system. They are
compared with GET on a plain socket in the same run. A get also checks the entry's checksum or
signature; the cost of this check is measured with a local store, as the time of its gets minus the
time of bare reads of its files. The limit for a get is 1.5 times the bare GET, plus 15 us, plus the
cost of the check.

--rounds N    rounds, in turns; the least of each measurement counts (5)"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import measuring

SIZES = {"10 KB": 10 << 10, "100 KB": 100 << 10, "1 MB": 1 << 20}


def start_server(folder):
    """Starts a server that keeps nothing on disk. Returns it and the path of its socket."""
    path = f"{folder}/socket"
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--unixsocketperm",
                               "700", "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
    for _ in range(500):
        if Path(path).exists():
            return server, path
        time.sleep(0.01)
    server.kill()
    raise SystemExit("fleet: redis-server does not start")


def measure(rounds):
    """Microseconds by (subject, bytes of payload)."""
    subprocess.run(["ninja", "-C", str(measuring.BUILD), "--quiet", "bench/fleet_bench"], check=True,
                   stdout=sys.stderr)
    least = {}
    with measuring.Scratch() as scratch:
        server, path = start_server(scratch.folder())
        try:
            output = subprocess.run([measuring.BUILD / "bench/fleet_bench", scratch.folder(), path,
                                     str(rounds)], check=True, capture_output=True, text=True).stdout
        finally:
            server.terminate()
            server.wait()
    for line in output.splitlines():
        subject, size, taken = line.split("\t")
        what = (subject, int(size))
        least[what] = min(float(taken) / 1000, least.get(what, float("inf")))
    return least


def judge(taken):
    results = []
    for how in ("", ", signed"):
        for title, size in SIZES.items():
            bare = taken["bare GET", size]
            check = max(0, taken["local get" + how, size] - taken["bare read", size])
            limit = (1.5 * bare + 15 + check) / bare
            results.append(measuring.result(f"get of {title}{how} / bare GET",
                                            taken["get" + how, size], bare, limit))
    size = SIZES["10 KB"]
    bare = taken["bare absent", size]
    results.append(measuring.result("absent key / bare GET of it", taken["absent", size], bare,
                                    (1.5 * bare + 15) / bare))
    for title, size in SIZES.items():
        results.append(measuring.result(f"get of {title}, local before the server / local alone",
                                        taken["local get in a chain", size],
                                        taken["local get", size], 1.2))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not shutil.which("redis-server"):
        raise SystemExit("fleet: redis-server is not installed: scripts/install-deps --fleet")
    others = measuring.Others()
    taken = measure(arguments.rounds)
    measuring.note("fleet", "microseconds; other processes kept "
                            f"{others.processors():.1f} processors busy")
    return measuring.report("fleet", judge(taken), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
