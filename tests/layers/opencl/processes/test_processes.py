#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many processes share a cache: each program is built once, by one of them, and a builder that
fails does not delay the others. A layer below Kiln's stops builds half-way, so that every test
knows the state of each process.

On drivers whose builds are not captured at once, only the results are checked.
"""

import argparse
import os
import signal
import sys
import unittest

from crowd import Scene, Program

HORSE = Program("horse", 11)
COW = Program("cow", 22)
CROWD = 4


class Broken(Program):
    def __init__(self):
        super().__init__("broken", 0)
        self.source += "#error this is broken\n"


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        self.scene = Scene(options)
        self.addCleanup(self.scene.close)

    # ---- steps ----

    def start_builder(self, program):
        """Starts a process and waits until its build is stopped."""
        self.scene.hold(program.name)
        builder = self.scene.start(program)
        self.wait_for_build(builder)
        return builder

    def wait_for_build(self, process):
        self.scene.wait_until(process.has_begun, f"{process.pid} builds")

    def start_waiter(self, program):
        waiter = self.scene.start(program)
        self.wait_for_waiting(waiter)
        return waiter

    def wait_for_waiting(self, process):
        """Waits until the process waits for a lease or, if builds pass through, until it has begun
        its own build."""
        self.scene.wait_until(
            lambda: process.is_waiting() or (not options.cached and process.has_begun()),
            f"{process.pid} waits")

    # ---- checks ----

    def assert_right(self, process, program):
        status, output = process.finish()
        self.assertEqual(status, 0, output)
        self.assertIn(program.line, output.splitlines())

    def assert_builds(self, program, count):
        if options.cached:
            self.assertEqual(self.scene.builds(program.name), count, self.scene.log())

    def assert_outcome(self, process, outcome):
        if options.cached:
            self.assertEqual(self.scene.outcomes(process), [outcome])

    def assert_stored(self, program):
        """Checks that a later process finds the entry."""
        before = self.scene.builds(program.name)
        late = self.scene.start(program)
        self.assert_right(late, program)
        self.assert_outcome(late, "hit-store")
        self.assert_builds(program, before)

    # ---- no faults ----

    def test_a_crowd_builds_once(self):
        builder = self.start_builder(HORSE)
        waiters = [self.scene.start(HORSE) for _ in range(CROWD - 1)]
        for waiter in waiters:
            self.wait_for_waiting(waiter)
        self.scene.release("horse")
        for process in [builder, *waiters]:
            self.assert_right(process, HORSE)
        self.assert_builds(HORSE, 1)
        self.assert_outcome(builder, "built")
        for waiter in waiters:
            self.assert_outcome(waiter, "hit-store")

    def test_a_crowd_at_any_time(self):
        crowd = [self.scene.start(program) for program in [HORSE, COW] * (CROWD // 2)]
        for process, program in zip(crowd, [HORSE, COW] * (CROWD // 2)):
            self.assert_right(process, program)
        self.assert_builds(HORSE, 1)
        self.assert_builds(COW, 1)

    def test_distinct_programs_build_at_once(self):
        first = self.start_builder(HORSE)
        second = self.start_builder(COW)
        self.scene.release("cow")
        self.assert_right(second, COW)
        self.assert_stored(COW)
        self.assertTrue(first.is_running())
        self.scene.release("horse")
        self.assert_right(first, HORSE)

    # ---- builders that fail ----

    def test_a_killed_builder_is_replaced(self):
        builder = self.start_builder(HORSE)
        waiter = self.start_waiter(HORSE)
        builder.send(signal.SIGKILL)
        self.assertEqual(builder.finish()[0], -signal.SIGKILL)
        self.wait_for_build(waiter)
        self.scene.release("horse")
        self.assert_right(waiter, HORSE)
        self.assert_outcome(waiter, "built")
        self.assert_builds(HORSE, 2)
        self.assert_stored(HORSE)

    def test_a_killed_builder_is_replaced_by_one(self):
        builder = self.start_builder(HORSE)
        waiters = [self.scene.start(HORSE) for _ in range(CROWD - 1)]
        for waiter in waiters:
            self.wait_for_waiting(waiter)
        builder.send(signal.SIGKILL)
        self.scene.wait_until(lambda: any(w.has_begun() for w in waiters), "one builds")
        self.scene.release("horse")
        for waiter in waiters:
            self.assert_right(waiter, HORSE)
        self.assert_builds(HORSE, 2)

    def test_waiting_for_a_stopped_builder_ends(self):
        """The entry, which the driver refuses, states that a build takes almost no time. So waiting
        ends after the shortest limit, 10 s."""
        if not options.cached:
            self.skipTest("no builds are captured at once")
        self.assert_right(self.scene.start(HORSE), HORSE)
        self.scene.hold("binaries")
        self.scene.hold("horse")
        pair = [self.scene.start(HORSE), self.scene.start(HORSE)]
        for process in pair:
            self.scene.wait_until(
                lambda p=process: ["binary", str(p.pid)] in self.scene.steps(), "it loads")
        (self.scene.control / "refuse-binaries").touch()
        self.scene.release("binaries")
        self.scene.wait_until(lambda: any(p.has_begun() for p in pair), "one builds")
        stopped, other = sorted(pair, key=lambda p: not p.has_begun())
        stopped.send(signal.SIGSTOP)
        self.wait_for_waiting(other)
        (self.scene.control / "refuse-binaries").unlink()

        self.wait_for_build(other)
        self.scene.release("horse")
        self.assert_right(other, HORSE)
        self.assert_stored(HORSE)
        self.assertTrue(stopped.is_running())
        stopped.send(signal.SIGCONT)
        self.assert_right(stopped, HORSE)
        self.assert_builds(HORSE, 3)
        self.assert_stored(HORSE)

    def test_without_leases_each_builds(self):
        """A file of leases that is writable by other users is not trusted."""
        self.assert_right(self.scene.start(COW), COW)
        (self.scene.cache / "lease").chmod(0o622)
        first = self.start_builder(HORSE)
        second = self.scene.start(HORSE)
        self.wait_for_build(second)
        self.scene.release("horse")
        self.assert_right(first, HORSE)
        self.assert_right(second, HORSE)
        self.assert_builds(HORSE, 2)
        self.assert_stored(HORSE)

    def test_a_failing_build_fails_in_each_process(self):
        broken = Broken()
        builder = self.start_builder(broken)
        waiters = [self.start_waiter(broken) for _ in range(2)]
        self.scene.release("broken")
        expected = builder.finish()
        self.assertEqual(expected[0], 1)
        self.assertIn("this is broken", expected[1])
        self.assertIn("CL_BUILD_PROGRAM_FAILURE", expected[1])
        for waiter in waiters:
            self.assertEqual(waiter.finish(), expected)
        self.assert_builds(broken, 3)

    # ---- fork ----

    def start_forking(self):
        """Starts a process whose build is stopped and that has a child. Returns the process, and
        the file whose removal ends the child."""
        self.scene.hold("horse")
        life = self.scene.folder / "child-lives"
        life.touch()
        builder = self.scene.start_command(options.forking, HORSE.source, life)
        self.wait_for_build(builder)
        builder.process.stdin.write("\n")
        builder.process.stdin.flush()
        self.assertEqual(builder.process.stdout.readline(), "child went on\n")
        return builder, life

    def test_a_forked_child_keeps_no_lease(self):
        builder, life = self.start_forking()
        waiter = self.start_waiter(HORSE)
        builder.send(signal.SIGKILL)
        self.wait_for_build(waiter)
        self.scene.release("horse")
        self.assert_right(waiter, HORSE)
        self.assert_stored(HORSE)
        life.unlink()
        self.assertEqual(builder.finish()[1], "child ends\n")

    def test_a_builder_that_forks_continues(self):
        builder, life = self.start_forking()
        waiter = self.start_waiter(HORSE)
        life.unlink()
        self.assertEqual(builder.process.stdout.readline(), "child ends\n")
        self.scene.release("horse")
        self.assertEqual(builder.finish(), (0, "parent ends\n"))
        self.assert_right(waiter, HORSE)
        self.assert_outcome(waiter, "hit-store")
        self.assert_builds(HORSE, 1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="opencl_conformance")
    parser.add_argument("--forking", required=True, help="fork_while_building")
    parser.add_argument("--layer", required=True, help="libkiln_opencl_layer.so")
    parser.add_argument("--holding", required=True, help="libholding_layer.so")
    parser.add_argument("--cached", action="store_true", help="this runtime captures at once")
    parsed, unittest_arguments = parser.parse_known_args()
    for name in "program", "forking", "layer", "holding":
        setattr(parsed, name, os.path.abspath(getattr(parsed, name)))
    return parsed, sys.argv[:1] + unittest_arguments


options, arguments = parse()

if __name__ == "__main__":
    unittest.main(argv=arguments)
