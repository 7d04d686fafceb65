# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/upgrades.md for a farm: a machine of the fleet, the farm and a second
machine have homes of their own, and share a Redis server. The toolkits are the real ones that are
found (two at most); without any, libraries stand in for them."""

import glob
import os
import re
import subprocess
import sys
import unittest

import layer_case
from layer_case import ARGUMENTS

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(TESTS, "tools", "kiln"))
import redis_server

PAGE = os.path.join(os.path.dirname(TESTS), "docs", "upgrades.md")
STAND_INS = [ARGUMENTS.stand_in, ARGUMENTS.stand_in.replace("stand_in", "stand_in_now")]
SOURCE = 'extern "C" __global__ void k%d(float *x) { *x = %d; }\n'
PROGRAMS = 1


def toolkits():
    """Paths of libnvrtc: the toolkit's, and those that scripts/install-deps has installed."""
    runtimes = os.path.join(os.path.dirname(os.path.dirname(ARGUMENTS.kiln)), "..", "runtimes")
    found = glob.glob(f"{ARGUMENTS.cuda}/lib64/libnvrtc.so.*")
    found += glob.glob(f"{runtimes}/*/**/libnvrtc.so.*", recursive=True)
    names = {os.path.basename(os.path.realpath(path)): os.path.realpath(path)
             for path in reversed(found) if "alt" not in path}
    return list(names.values())[:2] or STAND_INS


def block(title):
    with open(PAGE) as file:
        return re.search(rf"^```sh\n# {title}\n(.*?)^```$", file.read(), re.M | re.S)[1]


class Farm(layer_case.LayerCase):
    def setUp(self):
        redis_server.require()
        super().setUp()
        self.server = redis_server.RedisServer(self.scratch)
        self.addCleanup(self.server.stop)
        del self.environment["KILN_DIR"], self.environment["KILN_TRACE"]
        self.environment["PATH"] = os.path.dirname(ARGUMENTS.kiln) + ":" + os.environ["PATH"]
        for number in range(PROGRAMS):
            self.file(f"{number}.cu", SOURCE % (number, number))

    def run_on(self, home, script):
        """The commands of the page, except for the address of the server."""
        for user, options in (("writer", ""), ("reader", "&readonly=1")):
            script = script.replace(
                f"redis://{user}@cache.example?password-file=/etc/kiln/password{options}",
                self.server.location("expire=400" + options))
        home = os.path.join(self.scratch, home)
        os.makedirs(home, exist_ok=True)
        result = subprocess.run(["bash", "-euc", script], cwd=self.scratch,
                                env={**self.environment, "HOME": home},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
        self.assertEqual(result.returncode, 0, result.stdout.decode())

    def programs(self, library, gpu, start="kiln run"):
        return "".join(f"{start} -- {ARGUMENTS.program} --library {library} --source {number}.cu "
                       f"-- --gpu-architecture={gpu}\n" for number in range(PROGRAMS))

    def test_the_commands_of_the_page(self):
        found = toolkits()
        self.run_on("fleet", self.programs(found[0], "sm_80") + block("on a machine of the fleet"))
        farm, loop = block("on the farm"), "for toolkit in 12.9 13.0"
        path = "/opt/cuda-$toolkit/lib64/libnvrtc.so"
        self.assertTrue(loop in farm and path in farm)
        self.run_on("farm", farm.replace(loop, "for toolkit in " + " ".join(found)).replace(
            path, "$toolkit"))
        gpus = re.search(r"for gpu in (.*);", farm)[1].split()
        self.assertEqual(len(gpus), 3)
        reader = block("on each machine")
        programs = "".join(self.programs(library, gpu, "kiln run --expect-warm")
                           for library in found for gpu in gpus)
        self.run_on("reader", reader.replace("kiln run --expect-warm -- app\n", programs))


if __name__ == "__main__":
    layer_case.main()
