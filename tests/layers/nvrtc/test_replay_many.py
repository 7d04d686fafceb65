# SPDX-License-Identifier: Apache-2.0
"""kiln replay of many entries, some of which crash the compiler: what was done stays done if it is
killed at any moment, and no processor is idle. The library stands in for NVRTC. MAKE_ENTRY is the
program that makes entries, REPLAY_ENTRIES is how many, REPLAY_KILLS how often kiln is killed."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import layer_case
from layer_case import ARGUMENTS

ENTRIES = int(os.environ["REPLAY_ENTRIES"])
KILLS = int(os.environ["REPLAY_KILLS"])
CRASH_EVERY = 20
IDLE_MAX = 0.1


def idle_s():
    """Returns the seconds for which the processors were idle since the machine started."""
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def used_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Many(layer_case.LayerCase):
    def kiln(self, *arguments, expect=0):
        result = subprocess.run([ARGUMENTS.kiln, *arguments], env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=3600)
        self.assertEqual(result.returncode, expect, (result.stdout[-500:], result.stderr[-500:]))
        return result.stdout

    def parts_of_an_entry(self):
        source = self.file("k.cu", "// any\n")
        self.run_program("--library", ARGUMENTS.stand_in, "--source", source, "--", "-arch=sm_80")
        listed = json.loads(self.kiln("ls", "--json").splitlines()[0])
        shown = json.loads(self.kiln("show", listed["digest"], "--json"))
        return [(part["name"], part["text"]) for part in shown["key"]]

    def make_entries(self, where):
        parts = self.parts_of_an_entry()
        for i in range(ENTRIES):
            crash = "CRASH" if i % CRASH_EVERY == 0 else ""
            source = "%s\n__global__ void k(float *x) { *x = %d; }\n" % (crash, i)
            subprocess.run(
                [os.environ["MAKE_ENTRY"], where, "put", "cost=1000000", "--",
                 *("%s=%s" % (name, source if name == "source" else text) for name, text in parts)],
                stdout=subprocess.DEVNULL, check=True)

    def replay_command(self):
        return ["replay", "--from", self.old, "--to", self.new, "--nvrtc", ARGUMENTS.stand_in,
                "--arch", "90", "--jobs", "2", "--json"]

    def stored(self):
        listed = subprocess.run([ARGUMENTS.kiln, "ls", "--dir", self.new, "--json"],
                                env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
        return len(listed.stdout.splitlines())

    def replay(self):
        report = json.loads(self.kiln(*self.replay_command(), expect=1))
        crashing = (ENTRIES + CRASH_EVERY - 1) // CRASH_EVERY
        self.assertEqual(
            (report["failed"], report["impossible"], report["left"]), (crashing, 0, 0))
        self.assertEqual(report["built"] + report["present"], ENTRIES - crashing)
        for entry in report["entries"]:
            if entry["result"] == "failed":
                self.assertIn("crashed", entry["why"])
        return report

    def test_many(self):
        self.old, self.new = (os.path.join(self.scratch, name) for name in ("old", "new"))
        self.make_entries(self.old)
        begin_idle, begin_used, begin = idle_s(), used_s(), time.monotonic()
        first = self.replay()
        wall, idle, used = (time.monotonic() - begin, idle_s() - begin_idle, used_s() - begin_used)
        self.assertEqual(first["present"], 0)
        print("%d entries: %.1f s, %.1f s of processor time; the processors were idle for %.1f s"
              % (ENTRIES, wall, used, idle))
        if ENTRIES >= 1000:
            self.assertLess(idle, IDLE_MAX * (used + idle))
        shutil.rmtree(self.new)
        self.check_kills(wall)

    def check_kills(self, wall):
        draw = random.Random(1)
        before = 0
        for _ in range(KILLS):
            process = subprocess.Popen([ARGUMENTS.kiln, *self.replay_command()],
                                       env=self.environment, stdout=subprocess.DEVNULL)
            time.sleep(draw.random() * 2 * wall / KILLS)
            process.send_signal(signal.SIGKILL)
            process.wait()
            stored = self.stored()
            self.assertGreaterEqual(stored, before)
            before = stored
        print("killed %d times: %d of %d entries were stored" % (KILLS, before, ENTRIES))
        last = self.replay()
        self.assertGreaterEqual(last["present"], before)
        self.assertEqual(self.replay()["built"], 0)
        self.kiln("verify", "--dir", self.new)


if __name__ == "__main__":
    layer_case.main()
