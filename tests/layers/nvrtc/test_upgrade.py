# SPDX-License-Identifier: Apache-2.0
"""What happens by itself after an upgrade: the first build with a new NVRTC makes the helper repeat
the builds of the old one. The libraries stand in for NVRTC."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import layer_case
from layer_case import ARGUMENTS

NEW_LIBRARY = ARGUMENTS.stand_in.replace("stand_in", "stand_in_now")
SOURCE = "__global__ void k(float *x) { *x = %d; }\n"
PROGRAMS = 3
PATIENCE_SECONDS = 120


class Upgrade(layer_case.LayerCase):
    def setUp(self):
        super().setUp()
        # The helper's work ends before the folder is removed.
        self.addCleanup(self.kiln, "capture", "--wait-ms", "60000")
        self.environment["KILN_REPLAY"] = "0"
        for number in range(PROGRAMS):
            self.compile(number)

    def compile(self, number, library=ARGUMENTS.stand_in, text=SOURCE):
        """Returns the outcome in the trace."""
        source = self.file("k.cu", text % number)
        self.run_program("--library", library, "--source", source, "--", "-arch=sm_80")
        return self.last[-1][0]

    def kiln(self, *arguments):
        return subprocess.run([ARGUMENTS.kiln, *arguments, "--dir", self.cache], check=True,
                              env={**self.environment, "KILN_TRACE": ""},
                              stdout=subprocess.PIPE).stdout

    def entries(self):
        return len(self.kiln("ls", "--json").splitlines())

    def requests(self):
        folder = os.path.join(self.cache, "v1", "requests")
        return os.listdir(folder) if os.path.isdir(folder) else []

    def wait_for_helper(self):
        """Waits until the helper has served the request."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.requests() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.requests(), [])

    def test_the_first_build_warms_the_others(self):
        self.environment["KILN_REPLAY"] = "1"
        self.assertEqual(self.compile(99), "built")  # the old library is known since this build
        self.assertEqual((self.requests(), self.notes), ([], []))
        self.assertEqual(self.compile(0, NEW_LIBRARY), "built")
        self.assertIn("the store does not know this driver yet", self.notes[0])
        self.wait_for_helper()
        for number in (*range(PROGRAMS), 99):
            self.assertEqual(self.compile(number, NEW_LIBRARY), "hit-store")
            self.assertEqual(self.compile(number), "hit-store")
        self.assertEqual(self.compile(100, NEW_LIBRARY), "built")
        self.assertEqual((self.requests(), self.notes), ([], []))

    def test_variables_that_are_in_keys(self):
        self.environment.update(KILN_KEY_ENV="FLAVOR", FLAVOR="sweet")
        self.compile(7)
        self.environment["KILN_REPLAY"] = "1"
        self.compile(99)
        self.assertEqual(self.compile(0, NEW_LIBRARY), "built")
        self.wait_for_helper()
        self.assertEqual(self.compile(7, NEW_LIBRARY), "hit-store")
        self.environment["FLAVOR"] = "sour"
        self.assertEqual(self.compile(7, NEW_LIBRARY), "built")

    def test_what_turns_it_off(self):
        self.environment["KILN_REPLAY"] = "1"
        self.compile(99)
        for number, (name, value) in enumerate((("KILN_REPLAY", "0"), ("KILN_HELPER", "0"),
                                                ("KILN_READONLY", "1"))):
            before = self.environment.get(name)
            self.environment[name] = value
            self.compile(200 + number, NEW_LIBRARY)
            self.assertEqual((self.requests(), self.notes), ([], []), name)
            self.environment[name] = before or "1"
            if before is None:
                del self.environment[name]

    def test_a_helper_that_is_killed(self):
        """The next program that builds starts it again, and nothing is lost."""
        self.environment["KILN_REPLAY"] = "1"
        self.compile(1, text="SLEEP\n" + SOURCE)
        self.compile(2, text="SLEEP\n" + SOURCE)
        self.environment["KILN_TOOL"] = "/nowhere"  # so that no helper starts
        self.assertEqual(self.compile(0, NEW_LIBRARY), "built")
        self.assertEqual(len(self.requests()), 1)
        del self.environment["KILN_TOOL"]
        helper = subprocess.Popen([ARGUMENTS.kiln, "capture", "--idle", "--dir", self.cache],
                                  env=self.environment, stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        helper.send_signal(signal.SIGKILL)
        helper.wait()
        self.assertEqual(len(self.requests()), 1)
        self.assertEqual(self.compile(50, NEW_LIBRARY), "built")
        self.wait_for_helper()
        self.assertEqual(self.compile(2, NEW_LIBRARY), "hit-store")
        self.assertEqual(self.compile(1, NEW_LIBRARY, "SLEEP\n" + SOURCE), "hit-store")

    def test_a_user_does_not_wait_for_it(self):
        self.environment["KILN_REPLAY"] = "1"
        self.compile(99)
        self.environment["KILN_TOOL"] = "/nowhere"
        time.sleep(1)  # entries have times in seconds, which tell which driver is newer
        self.compile(0, NEW_LIBRARY)
        doctor = json.loads(subprocess.run(
            [ARGUMENTS.kiln, "doctor", "--json"], env=self.environment, stdout=subprocess.PIPE,
            check=False).stdout)
        self.assertTrue(doctor["replay_waits"])
        self.assertIn("the helper repeats the others in the background", str(doctor["notes"]))
        before = self.entries()
        report = json.loads(self.kiln("capture", "--json"))
        self.assertEqual((report["served"], report["left"]), (0, 0))
        self.assertEqual(json.loads(self.kiln("stats", "--json"))["requests"], 0)
        self.assertEqual((self.entries(), len(self.requests())), (before, 1))
        shutil.rmtree(os.path.join(self.cache, "v1", "requests"))


if __name__ == "__main__":
    layer_case.main()
