#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight machines with sixteen processes each start together on eight programs that none has built
yet, and share a server: each program is built once. Servers whose leases are only markers may let
two machines build the same program; the test prints how many did. Later machines build nothing.

A machine is a directory of its own and a network of its own (support/network.py)."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TESTS / folder) for folder in ("support", "tools/kiln", "layers/opencl/sycl")]
import network
import servers
from sycl_program import builds_at_driver

MACHINES, PROCESSES, PROGRAMS = 8, 16, 8
TIMEOUT_SECONDS = 600
STEERING = ("KILN_", "POCL_", "OPENCL_", "CL_CONFIG_", "XDG_")

# The server has a machine of its own in a fleet. Here it must not wait for 128 processes, since a
# machine builds for itself if the server does not answer in time.
NICE = ("nice", "-n", "15")

# Starts the processes of a machine, each with a different first program. They begin when the input
# ends. Fails if one of them fails.
MACHINE = f"""exec 3<&0
for number in $(seq {PROCESSES}); do
    "$0" $((number % {PROGRAMS})) <&3 &
    processes="$processes $!"
done
status=0
for process in $processes; do
    wait "$process" || status=1
done
exit $status
"""


class FleetTest(unittest.TestCase):
    def setUp(self):
        if not network.is_possible():
            self.skipTest("this user cannot make networks")
        self.scratch = Path(tempfile.mkdtemp(prefix="kiln-fleet-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        (self.scratch / "config").mkdir(mode=0o700)
        (self.scratch / "server").mkdir()
        self.network = network.Network()
        self.addCleanup(self.network.close)
        self.server = servers.KINDS[options.server](self.network.servers.enter(),
                                                    str(self.scratch / "server"))
        self.addCleanup(self.server.stop)
        self.processes = []
        self.addCleanup(self.end_all)
        plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        self.environment = plain | self.server.variables | {
            "XDG_CONFIG_HOME": str(self.scratch / "config")}
        subprocess.run([options.kiln, "key", "new", "fleet"], check=True, env=self.environment,
                       stdout=subprocess.DEVNULL)

    def end_all(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()

    def start_machine(self, name, begin):
        """Starts the processes of a machine, which wait until @begin ends."""
        folder = self.scratch / name
        (folder / "home").mkdir(parents=True)
        variables = self.environment | {
            "HOME": str(folder / "home"),
            "KILN_DIR": f"{folder}/cache|{self.server.location}",
            "KILN_SECRET_KEY_FILE": str(self.scratch / "config/kiln/keys/fleet"),
            "KILN_TRACE": str(folder / "trace"),
            "KILN_HELPER": "0",  # no process may outlive the test
            "OPENCL_LAYERS": f"{options.counting}:{options.layer}",  # the lowest comes first
            "COUNTING_LAYER_FILE": str(folder / "counts"),
        }
        self.processes.append(subprocess.Popen(
            [*self.network.add_machine(), *NICE, "sh", "-c", MACHINE, options.program], env=variables,
            stdin=begin, stdout=subprocess.PIPE))
        return self.processes[-1]

    def run_machines(self, name):
        """Runs all processes of all machines at the same time. Returns the builds that the driver
        got, how many requests had each outcome, and the seconds."""
        begin, start = os.pipe()
        names = [f"{name}-{number}" for number in range(MACHINES)]
        machines = [self.start_machine(name, begin) for name in names]
        os.close(begin)
        for machine in machines:
            for _ in range(PROCESSES):
                self.assertEqual(machine.stdout.readline(), b"ready\n")
        start_seconds = time.monotonic()
        os.close(start)
        for machine in machines:
            self.assertEqual(machine.wait(TIMEOUT_SECONDS), 0)
        seconds = time.monotonic() - start_seconds
        builds, outcomes = 0, {}
        for name in names:
            trace = (self.scratch / name / "trace").read_text()
            for outcome in re.findall(r"^kiln\[\d+\] (\S+) key=", trace, re.MULTILINE):
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
            builds += builds_at_driver(self.scratch / name / "counts")
        return builds, outcomes, seconds

    def test_one_build_of_each_program(self):
        builds, outcomes, seconds = self.run_machines("first")
        requests = MACHINES * PROCESSES * PROGRAMS
        print(f"{options.server}, first machines: {builds} builds, {outcomes}, {seconds:.1f} s",
              flush=True)
        self.assertGreaterEqual(builds, PROGRAMS)
        if self.server.is_exact:
            self.assertEqual(builds, PROGRAMS)
        self.assertEqual(outcomes, {"built": builds, "hit-store": requests - builds})

        builds, outcomes, seconds = self.run_machines("later")
        print(f"{options.server}, later machines: {builds} builds, {outcomes}, {seconds:.1f} s",
              flush=True)
        self.assertEqual(builds, 0)
        self.assertEqual(outcomes, {"hit-store": requests})


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in "kiln", "program", "layer", "counting":
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    parser.add_argument("--server", required=True, choices=servers.KINDS)
    return parser.parse_args()


options = parse()

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
