#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many processes on one cache: each program is built once, by one of them, and a failing builder
does not delay the others. A layer below Kiln's stops builds half-way, so that every test knows the
state of each process.

On drivers whose builds are not captured at once, each process may build for itself. Then only the
results are checked.
"""

import argparse
import os
import signal
import sys
import unittest

from crowd import House, Program

HORSE = Program("horse", 11)
COW = Program("cow", 22)
CROWD = 4


class Broken(Program):
    def __init__(self):
        super().__init__("broken", 0)
        self.source += "#error this is broken\n"


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        self.house = House(options)
        self.addCleanup(self.house.close)

    # ---- steps ----

    def start_builder(self, program):
        """Starts a process and waits until its build is stopped."""
        self.house.hold(program.name)
        builder = self.house.start(program)
        self.wait_for_build(builder)
        return builder

    def wait_for_build(self, process):
        self.house.wait_until(process.has_begun, f"{process.pid} builds")

    def start_waiter(self, program):
        waiter = self.house.start(program)
        self.wait_for_waiting(waiter)
        return waiter

    def wait_for_waiting(self, process):
        """Waits until the process waits for a lease; if builds pass through, until it has begun its
        own."""
        self.house.wait_until(
            lambda: process.is_waiting() or (not options.cached and process.has_begun()),
            f"{process.pid} waits")

    # ---- claims ----

    def assert_right(self, process, program):
        status, output = process.finish()
        self.assertEqual(status, 0, output)
        self.assertIn(program.line, output.splitlines())

    def assert_builds(self, program, count):
        if options.cached:
            self.assertEqual(self.house.builds(program.name), count, self.house.log())

    def assert_outcome(self, process, outcome):
        if options.cached:
            self.assertEqual(self.house.outcomes(process), [outcome])

    def assert_stored(self, program):
        """One that comes later finds the entry."""
        before = self.house.builds(program.name)
        late = self.house.start(program)
        self.assert_right(late, program)
        self.assert_outcome(late, "hit-store")
        self.assert_builds(program, before)

    # ---- no faults ----

    def test_a_crowd_builds_once(self):
        builder = self.start_builder(HORSE)
        waiters = [self.house.start(HORSE) for _ in range(CROWD - 1)]
        for waiter in waiters:
            self.wait_for_waiting(waiter)
        self.house.let_go("horse")
        for process in [builder, *waiters]:
            self.assert_right(process, HORSE)
        self.assert_builds(HORSE, 1)
        self.assert_outcome(builder, "built")
        for waiter in waiters:
            self.assert_outcome(waiter, "hit-store")

    def test_a_crowd_without_order(self):
        crowd = [self.house.start(program) for program in [HORSE, COW] * (CROWD // 2)]
        for process, program in zip(crowd, [HORSE, COW] * (CROWD // 2)):
            self.assert_right(process, program)
        self.assert_builds(HORSE, 1)
        self.assert_builds(COW, 1)

    def test_distinct_programs_build_at_once(self):
        first = self.start_builder(HORSE)
        second = self.start_builder(COW)
        self.house.let_go("cow")
        self.assert_right(second, COW)
        self.assert_stored(COW)
        self.assertTrue(first.is_running())
        self.house.let_go("horse")
        self.assert_right(first, HORSE)

    # ---- builders that fail ----

    def test_a_killed_builder_is_replaced(self):
        builder = self.start_builder(HORSE)
        waiter = self.start_waiter(HORSE)
        builder.send(signal.SIGKILL)
        self.assertEqual(builder.finish()[0], -signal.SIGKILL)
        self.wait_for_build(waiter)
        self.house.let_go("horse")
        self.assert_right(waiter, HORSE)
        self.assert_outcome(waiter, "built")
        self.assert_builds(HORSE, 2)
        self.assert_stored(HORSE)

    def test_a_killed_builder_is_replaced_by_one(self):
        builder = self.start_builder(HORSE)
        waiters = [self.house.start(HORSE) for _ in range(CROWD - 1)]
        for waiter in waiters:
            self.wait_for_waiting(waiter)
        builder.send(signal.SIGKILL)
        self.house.wait_until(lambda: any(w.has_begun() for w in waiters), "one builds")
        self.house.let_go("horse")
        for waiter in waiters:
            self.assert_right(waiter, HORSE)
        self.assert_builds(HORSE, 2)

    def test_a_stopped_builder_is_not_waited_for(self):
        """The entry that the driver refuses says what a build costs: almost nothing. So waiting
        ends after the shortest limit, 10 s."""
        if not options.cached:
            self.skipTest("no builds are captured at once")
        self.assert_right(self.house.start(HORSE), HORSE)
        self.house.hold("binaries")
        self.house.hold("horse")
        pair = [self.house.start(HORSE), self.house.start(HORSE)]
        for process in pair:
            self.house.wait_until(
                lambda p=process: ["binary", str(p.pid)] in self.house.steps(), "it loads")
        (self.house.control / "refuse-binaries").touch()
        self.house.let_go("binaries")
        self.house.wait_until(lambda: any(p.has_begun() for p in pair), "one builds")
        stopped, other = sorted(pair, key=lambda p: not p.has_begun())
        stopped.send(signal.SIGSTOP)
        self.wait_for_waiting(other)
        (self.house.control / "refuse-binaries").unlink()

        self.wait_for_build(other)
        self.house.let_go("horse")
        self.assert_right(other, HORSE)
        self.assert_stored(HORSE)
        self.assertTrue(stopped.is_running())
        stopped.send(signal.SIGCONT)
        self.assert_right(stopped, HORSE)
        self.assert_builds(HORSE, 3)
        self.assert_stored(HORSE)

    def test_without_leases_each_builds(self):
        """A file of leases that other users may write is not trusted."""
        self.assert_right(self.house.start(COW), COW)
        if options.cached:
            (self.house.cache / "lease").chmod(0o622)
        first = self.start_builder(HORSE)
        second = self.house.start(HORSE)
        self.wait_for_build(second)
        self.house.let_go("horse")
        self.assert_right(first, HORSE)
        self.assert_right(second, HORSE)
        self.assert_builds(HORSE, 2)
        self.assert_stored(HORSE)

    def test_a_failing_build_fails_in_each(self):
        broken = Broken()
        builder = self.start_builder(broken)
        waiters = [self.start_waiter(broken) for _ in range(2)]
        self.house.let_go("broken")
        expected = builder.finish()
        self.assertEqual(expected[0], 1)
        self.assertIn("this is broken", expected[1])
        self.assertIn("CL_BUILD_PROGRAM_FAILURE", expected[1])
        for waiter in waiters:
            self.assertEqual(waiter.finish(), expected)
        self.assert_builds(broken, 3)

    # ---- fork ----

    def start_forking(self):
        """Starts a process whose build is stopped and that has a child. Returns it, and the file on
        whose existence the child's life depends."""
        self.house.hold("horse")
        life = self.house.folder / "child-lives"
        life.touch()
        builder = self.house.start_command(options.forking, HORSE.source, life)
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
        self.house.let_go("horse")
        self.assert_right(waiter, HORSE)
        self.assert_stored(HORSE)
        life.unlink()
        self.assertEqual(builder.finish()[1], "child ends\n")

    def test_a_builder_that_forks_goes_on(self):
        builder, life = self.start_forking()
        waiter = self.start_waiter(HORSE)
        life.unlink()
        self.assertEqual(builder.process.stdout.readline(), "child ends\n")
        self.house.let_go("horse")
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
    parser.add_argument("--cached", action="store_true", help="builds are captured at once here")
    parsed, unittest_arguments = parser.parse_known_args()
    for name in "program", "forking", "layer", "holding":
        setattr(parsed, name, os.path.abspath(getattr(parsed, name)))
    return parsed, sys.argv[:1] + unittest_arguments


options, arguments = parse()

if __name__ == "__main__":
    unittest.main(argv=arguments)
