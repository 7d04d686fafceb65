# SPDX-License-Identifier: Apache-2.0
"""kiln replay of many entries, some of which crash the compiler: what was done stays done if it is
killed at any moment, and both processors are busy. The library stands in for NVRTC. MAKE_ENTRY is
the program that makes entries, REPLAY_ENTRIES is how many, REPLAY_KILLS how often kiln is killed.

Other work of the machine uses idle processors, and takes them from a replay, which has a lower
priority. So how busy processors are says little on such a machine. The test also reports for how
many processors the replay has work at a time, that is, how many of its processes run or could
run. That is less on a busy machine, since a build begins only once kiln itself has got a
processor."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time

import layer_case
from layer_case import ARGUMENTS

ENTRIES = int(os.environ["REPLAY_ENTRIES"])
KILLS = int(os.environ["REPLAY_KILLS"])
CRASH_EVERY = 20
JOBS = 2
BUSY_MIN = 0.9


def machine_s():
    """Returns the seconds for which processors were idle, and busy, since the machine started."""
    with open("/proc/stat") as file:
        fields = [int(field) / os.sysconf("SC_CLK_TCK") for field in file.readline().split()[1:9]]
    idle = fields[3] + fields[4]
    return idle, sum(fields) - idle


def used_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def could_run(session):
    """Returns how many processes of a session run, or wait for a processor."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            with open("/proc/" + name + "/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        count += fields[0] == "R" and int(fields[3]) == session
    return count


class Watch(threading.Thread):
    """Looks at a session again and again until it is stopped."""

    def __init__(self, session):
        super().__init__()
        self.session, self.looks, self.jobs = session, 0, 0
        self.stop = threading.Event()
        self.start()

    def run(self):
        while not self.stop.wait(0.02):
            self.jobs += min(could_run(self.session), JOBS)
            self.looks += 1

    def end(self):
        """Returns the share of JOBS processors for which the session had work."""
        self.stop.set()
        self.join()
        return self.jobs / (JOBS * self.looks) if self.looks else 0


class Many(layer_case.LayerCase):
    def kiln(self, *arguments, expect=0):
        process = subprocess.Popen([ARGUMENTS.kiln, *arguments], env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        watch = Watch(process.pid)
        output, errors = process.communicate(timeout=3600)
        self.work = watch.end()
        self.assertEqual(process.returncode, expect, (output[-500:], errors[-500:]))
        return output

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
                "--arch", "90", "--jobs", str(JOBS), "--json"]

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
        (idle, busy), used, begin = machine_s(), used_s(), time.monotonic()
        first = self.replay()
        wall, used = time.monotonic() - begin, used_s() - used
        idle, busy = (end - start for end, start in zip(machine_s(), (idle, busy)))
        self.assertEqual(first["present"], 0)
        print("%d entries: %.1f s, %.1f s of processor time; it had work for %.0f %% of %d "
              "processors, and got %.0f %% of the machine; other work got %.0f %%, and %.0f %% were "
              "idle" % (ENTRIES, wall, used, 100 * self.work, JOBS, 100 * used / (idle + busy),
                        100 * (busy - used) / (idle + busy), 100 * idle / (idle + busy)))
        if ENTRIES >= 1000:
            self.assertLessEqual(idle, (1 - BUSY_MIN) * (idle + busy))
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
