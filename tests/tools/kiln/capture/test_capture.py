#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The helper that captures outside the application, on PoCL: test_capture.py KILN LAYER APP
EXITING-LOADER.

Every test runs real programs on the real runtime, with its own cache directory and its own
directory for the runtime's cache.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../support"))
import small_disk

KILN, LAYER, APP, EXITING_LOADER = (os.path.abspath(path) for path in sys.argv[1:5])

# The longest wait for something that must happen.
PATIENCE_SECONDS = 120

SOURCE = """
#ifndef FOO
#define FOO 5
#endif
__kernel void f(__global int *out) { out[get_global_id(0)] = FOO + %d; }
"""
WITH_HEADER = """
#include "h.h"
__kernel void f(__global int *out) { out[get_global_id(0)] = BASE; }
"""


def read(path):
    with open(path) as file:
        return file.read()


def end(process):
    """Ends a process that a failed test left running."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


class CaptureTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-capture-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KILN_", "POCL_", "OPENCL_", "XDG_"))
        }
        self.environment.update(
            KILN_DIR=self.cache,
            POCL_CACHE_DIR=self.folder("pocl"),
            HOME=self.folder("home"),
            OPENCL_LAYERS=LAYER,
            KILN_TOOL=KILN,
        )
        self.write("a.cl", SOURCE % 0)

    def folder(self, name):
        path = os.path.join(self.scratch, name)
        os.makedirs(path, exist_ok=True)
        return path

    def write(self, name, text):
        with open(os.path.join(self.scratch, name), "w") as file:
            file.write(text)

    def signing_key(self):
        key = os.path.join(self.scratch, "key")
        with open(key, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(os.urandom(32))
        return key

    def settings(self, settings):
        return dict(self.environment, **settings)

    def start(self, source="a.cl", mode="return", **settings):
        process = subprocess.Popen(
            [APP, source, mode], env=self.settings(settings), cwd=self.scratch, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(end, process)
        return process

    def run_app(self, source="a.cl", mode="return", status=0, **settings):
        """Returns what the program printed, as lines."""
        process = self.start(source, mode, **settings)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual((process.returncode, stderr), (status, ""))
        return stdout.splitlines()

    def kiln(self, *arguments, prefix=(), **settings):
        return subprocess.run(
            [*prefix, KILN, *arguments], env=self.settings(settings), cwd=self.scratch, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=PATIENCE_SECONDS)

    def install(self, bin_mode=0o755):
        """Installs the layer and the tool below a separate prefix; returns the layer."""
        layer = os.path.join(self.folder("prefix/lib/kiln"), os.path.basename(LAYER))
        shutil.copy(LAYER, layer)
        self.write_tool(os.path.join(self.folder("prefix/bin"), "kiln"))
        os.chmod(self.folder("prefix/bin"), bin_mode)
        return layer

    def write_tool(self, path):
        with open(path, "w") as file:
            file.write('#!/bin/sh\nexec "%s" "$@"\n' % KILN)
        os.chmod(path, 0o755)

    def capture(self, status=0):
        done = self.kiln("capture", "--json")
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def assert_captured(self, **expected):
        counted = dict(served=0, dropped=0, failed=0, expired=0, left=0)
        self.assertEqual(self.capture(), dict(counted, **expected))

    def kinds(self):
        """Returns how many entries of each kind there are."""
        listed = self.kiln("ls", "--all", "--json").stdout.splitlines()
        found = [json.loads(line)["kind"] for line in listed]
        return {kind: found.count(kind) for kind in found}

    def wait_until(self, holds, pause=0.1):
        last = time.monotonic() + PATIENCE_SECONDS
        while not holds() and time.monotonic() < last:
            time.sleep(pause)

    def wait_for(self, kinds):
        self.wait_until(lambda: self.kinds() == kinds)
        self.assertEqual(self.kinds(), kinds)

    def assert_warm(self, expected, source="a.cl", **settings):
        """Checks that after the runtime's own cache is removed, nothing is built and the result is
        the same."""
        empty = tempfile.mkdtemp(prefix="empty-", dir=self.scratch)
        process = subprocess.run(
            [KILN, "run", "--summary", "--json", "--", APP, source, "return"],
            env=self.settings(dict(settings, POCL_CACHE_DIR=empty, OPENCL_LAYERS="")),
            cwd=self.scratch, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS)
        counted = json.loads(process.stderr.splitlines()[-1])
        self.assertEqual(process.stdout.splitlines(), expected)
        self.assertEqual((counted["builds"], counted["hits_store"]), (0, 1), counted)

    def helpers(self):
        """Returns the processes that work on this cache directory."""
        found = []
        for name in os.listdir("/proc"):
            try:
                with open("/proc/%s/cmdline" % name, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if b"capture" in words and self.cache.encode() in words:
                found.append(int(name))
        return found

    def wait_for_no_helper(self):
        self.wait_until(lambda: not self.helpers())
        self.assertEqual(self.helpers(), [])


class Started(CaptureTest):
    """The layer starts the helper, whatever the application does."""

    def test_returns_at_once(self):
        self.assertEqual(self.run_app(), ["5"])
        self.wait_for({"program": 1})
        self.wait_for_no_helper()
        self.assert_warm(["5"])
        self.assertEqual(self.run_app(POCL_EXTRA_BUILD_FLAGS="-DFOO=7"), ["7"])
        self.wait_for({"program": 2})
        self.assert_warm(["7"], POCL_EXTRA_BUILD_FLAGS="-DFOO=7")
        self.assert_warm(["5"])

    def test_under_kiln_run(self):
        done = self.kiln("run", "--", APP, "a.cl", "return", OPENCL_LAYERS="")
        self.assertEqual(done.stdout, "5\n", done.stderr)
        self.wait_for({"program": 1})

    def test_signs_what_it_captures(self):
        for variable in ("KILN_SIGNING_KEY_FILE", "KILN_KEY_FILE"):
            with self.subTest(variable):
                shutil.rmtree(self.cache, ignore_errors=True)
                self.environment.pop("KILN_SIGNING_KEY_FILE", None)
                self.environment[variable] = self.signing_key()
                self.run_app()
                self.wait_for({"program": 1})
                self.assert_warm(["5"])
                self.wait_for_no_helper()

    def test_from_a_moved_installation(self):
        del self.environment["KILN_TOOL"]
        self.run_app(OPENCL_LAYERS=self.install())
        self.wait_for({"program": 1})

    def test_has_low_priority(self):
        """A script that reports its session's priority takes the place of the tool, because the
        scheduler gives weights to sessions."""
        if not os.path.exists("/proc/self/autogroup"):
            self.skipTest("the scheduler does not weigh sessions here")
        told = os.path.join(self.scratch, "told")
        tool = os.path.join(self.scratch, "tool")
        with open(tool, "w") as file:
            file.write("#!/bin/sh\ncat /proc/self/autogroup >'%s.new'\nmv '%s.new' '%s'\n"
                       % (told, told, told))
        os.chmod(tool, 0o755)
        self.run_app(KILN_TOOL=tool)
        self.wait_until(lambda: os.path.exists(told))
        self.assertEqual(read(told).split()[1:], ["nice", "19"])

    def assert_saw_no_child(self, process):
        self.assertIsNone(process.poll(), "it ran until now")
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(stdout.splitlines(), ["5", "children 0, signals 0, pending 0"], stderr)

    def test_invisible_while_the_program_runs(self):
        """Requests are served while the application runs and waits for any child, with SIGCHLD
        handled, blocked or ignored."""
        modes = ("wait", "block", "ignore")
        processes = {}
        for mode in modes:
            self.write(mode + ".cl", SOURCE % 0 + "// %s\n" % mode)
            # Processes that fill the same PoCL cache at the same time sometimes fail.
            processes[mode] = self.start(mode + ".cl", mode,
                                         POCL_CACHE_DIR=self.folder("pocl-" + mode))
        wanted = {"program": len(modes)}
        self.wait_until(lambda: self.kinds() == wanted or
                        any(process.poll() is not None for process in processes.values()))
        for process in processes.values():
            self.assert_saw_no_child(process)
        self.assertEqual(self.kinds(), wanted)

    def test_a_run_that_waits(self):
        """kiln run --wait returns when the results of all processes are captured."""
        self.environment.pop("OPENCL_LAYERS")
        self.write("b.cl", SOURCE % 1)
        script = f"'{APP}' a.cl return & '{APP}' b.cl return; wait"
        done = self.kiln("run", "--wait", "sh", "-c", script, KILN_HELPER="0")
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["5", "6"]), done.stderr)
        self.assertEqual(self.kinds(), {"program": 2})
        self.assertRegex(done.stderr.splitlines()[-1], r"^kiln: 0 hits .* 2 builds, .* 2 entries, ")
        self.assertNotIn("captured", done.stderr)
        self.assertEqual(self.helpers(), [])

    def test_a_run_that_does_not_wait(self):
        self.environment.pop("OPENCL_LAYERS")
        done = self.kiln("run", "--summary", APP, "a.cl", "return", KILN_HELPER="0")
        self.assertEqual((done.stdout.split(), self.kinds()), (["5"], {"request": 1}), done.stderr)
        self.assertIn("1 result will be captured in a moment; run the program again, or add --wait",
                      done.stderr)
        self.assertTrue(done.stderr.endswith(", 1 waiting to be captured\n"), done.stderr)

    def test_adopts_orphans(self):
        """A process that adopts orphans would get the helper as a child, so the layer starts
        none."""
        trace = os.path.join(self.scratch, "trace")
        self.write("trace", "")
        process = self.start(mode="reaper", KILN_TRACE=trace)
        self.wait_until(lambda: "could not be started" in read(trace))
        self.assertIn("could not be started", read(trace))
        self.assertEqual(self.helpers(), [])
        self.assert_saw_no_child(process)
        self.assertEqual((self.kinds(), self.helpers()), ({"request": 1}, []))

    def test_closes_descriptors(self):
        self.run_app(mode="close")
        self.wait_for({"program": 1})

    def test_forks(self):
        self.run_app(mode="fork")
        self.wait_for({"program": 1})

    def leave_request(self, mode, status):
        """Runs the program so that it leaves a request and ends in a way that starts no helper."""
        process = self.start(mode=mode, KILN_HELPER="0")
        self.wait_for({"request": 1})
        process.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual((process.returncode, self.helpers()), (status, []))

    def test_killed_and_started_again(self):
        for mode, status in (("kill", -signal.SIGKILL), ("quick", 0)):
            self.leave_request(mode, status)
        self.assertEqual(self.run_app(), ["5"])
        self.wait_for({"program": 1})

    def test_requests_of_other_programs(self):
        """A program that finds all its builds serves the requests of others."""
        self.assertEqual(self.run_app(), ["5"])
        self.wait_for({"program": 1})
        self.wait_for_no_helper()
        self.write("b.cl", SOURCE % 1)
        self.assertEqual(self.run_app("b.cl", KILN_HELPER="0"), ["6"])
        self.assertEqual(self.kinds(), {"program": 1, "request": 1})
        self.assert_warm(["5"])
        self.wait_for({"program": 2})
        self.assert_warm(["6"], "b.cl")

    def test_session_ends(self):
        """The helper has left the application's session before a signal to that session could end
        it."""
        process = subprocess.Popen(
            [APP, "a.cl", "return"], env=self.environment, cwd=self.scratch,
            stdout=subprocess.DEVNULL, start_new_session=True)
        process.wait(PATIENCE_SECONDS)
        try:
            os.killpg(process.pid, signal.SIGHUP)
        except ProcessLookupError:
            pass
        self.wait_for({"program": 1})


class NotStarted(CaptureTest):
    def assert_waits(self, kinds):
        self.assertEqual((self.kinds(), self.helpers()), (kinds, []))

    def test_helper_off(self):
        self.run_app(KILN_HELPER="0")
        self.assert_waits({"request": 1})

    def test_read_only(self):
        self.run_app(KILN_READONLY="1")
        self.assert_waits({})

    def test_no_tool(self):
        self.run_app(KILN_TOOL="/nowhere/kiln")
        self.assert_waits({"request": 1})

    def test_tool_that_others_may_write(self):
        tool = os.path.join(self.scratch, "kiln")
        shutil.copy(KILN, tool)
        os.chmod(tool, 0o777)
        self.run_app(KILN_TOOL=tool)
        self.assert_waits({"request": 1})

    def test_tool_in_a_folder_that_others_may_write(self):
        del self.environment["KILN_TOOL"]
        self.run_app(OPENCL_LAYERS=self.install(bin_mode=0o777))
        self.assert_waits({"request": 1})

    def test_tool_that_is_not_installed(self):
        """Installs in folders like those of a build."""
        del self.environment["KILN_TOOL"]
        layer = os.path.join(self.folder("layers/opencl"), os.path.basename(LAYER))
        shutil.copy(LAYER, layer)
        self.write_tool(os.path.join(self.folder("tools/kiln"), "kiln"))
        self.run_app(OPENCL_LAYERS=layer)
        self.assert_waits({"request": 1})

    def test_own_cache_off(self):
        self.assertEqual(self.run_app(POCL_KERNEL_CACHE="0"), ["5"])
        self.assert_waits({})

    def test_failed_build(self):
        self.write("wrong.cl", "__kernel void f(__global int *out) { out[0] = nothing; }\n")
        process = self.start("wrong.cl")
        process.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(process.returncode, 2)
        self.assert_waits({})


class Asked(CaptureTest):
    """A program that asks for its binaries makes the driver produce what a capture needs."""

    def setUp(self):
        super().setUp()
        self.environment["KILN_HELPER"] = "0"

    def test_answer_is_kept(self):
        self.assertEqual(self.run_app(mode="ask"), ["5"])
        self.assertEqual(self.kinds(), {"program": 1, "request": 1})
        self.assert_warm(["5"])
        self.assert_captured(served=1)
        self.assertEqual(self.kinds(), {"program": 1})
        self.assert_warm(["5"])

    def test_own_cache_off(self):
        self.assertEqual(self.run_app(mode="ask", POCL_KERNEL_CACHE="0"), ["5"])
        self.assertEqual(self.kinds(), {"program": 1})
        self.assert_warm(["5"])

    def test_of_another_build(self):
        """The result of a rebuild does not match the first build's key."""
        self.assertEqual(self.run_app(mode="rebuild"), ["5"])
        self.assertEqual(self.kinds(), {"request": 1})
        self.assert_captured(served=1)
        self.assert_warm(["5"])

    def test_in_another_floating_point_mode(self):
        """The driver makes the binary only when a thread asks for it, in the floating-point mode of
        that thread."""
        self.assertEqual(self.run_app(mode="rounded"), ["5"])
        self.assertEqual(self.kinds(), {"request": 1})
        self.assert_captured(served=1)
        self.assert_warm(["5"])

    def test_read_only(self):
        self.run_app()
        self.run_app(mode="ask", KILN_READONLY="1")
        self.assertEqual(self.kinds(), {"request": 1})


class ByHand(CaptureTest):
    def setUp(self):
        super().setUp()
        self.environment["KILN_HELPER"] = "0"

    def request(self, count):
        for i in range(count):
            self.write("%d.cl" % i, SOURCE % i)
            self.run_app("%d.cl" % i)
        self.assertEqual(self.kinds(), {"request": count})

    def test_nothing_to_do(self):
        self.assert_captured()
        self.assertFalse(os.path.exists(self.cache))

    def test_serves_once(self):
        self.request(2)
        self.run_app("0.cl")
        self.assertEqual(self.kinds(), {"request": 2})
        self.assert_captured(served=2)
        self.assert_captured()
        self.assertEqual(self.kinds(), {"program": 2})
        self.assert_warm(["6"], "1.cl")

    def test_no_room_for_results(self):
        """A result that could not be stored is counted, and its request stays."""
        if not small_disk.can_mount():
            self.skipTest("no disk can be mounted here")
        self.environment.pop("OPENCL_LAYERS")

        def counted(prefix):
            return json.loads(self.kiln("stats", "--json", prefix=prefix).stdout)

        with small_disk.SmallDisk(self.folder("cache"), 40) as disk:
            source = os.path.join(self.scratch, "a.cl")
            done = self.kiln("run", "--wait", APP, source, "return", prefix=disk.prefix)
            self.assertEqual((done.returncode, done.stdout), (0, "5\n"), done.stderr)
            self.assertIn(", 1 not stored, 1 waiting to be captured\n", done.stderr)
            self.assertEqual((counted(disk.prefix)["dropped"], counted(disk.prefix)["requests"]),
                             (1, 1))
            done = self.kiln("capture", prefix=disk.prefix)
            self.assertEqual((done.returncode, done.stdout.splitlines()[-1]),
                             (4, "0 captured, 0 dropped, 0 failed, 0 expired, 1 left"))
            self.assertEqual(counted(disk.prefix)["dropped"], 2)

    def test_signed(self):
        """Requests and entries are signed, and a request of a program without the key is
        dropped."""
        self.request(1)
        self.environment["KILN_KEY_FILE"] = self.signing_key()
        self.assert_captured(dropped=1)
        self.request(1)
        self.assert_captured(served=1)
        self.assertEqual(self.kinds(), {"program": 1})
        self.assert_warm(["5"], "0.cl")
        verified = json.loads(self.kiln("verify", "--json").stdout)
        self.assertEqual((verified["ok"], verified["unauthenticated"]), (1, 0))

    def test_request_is_not_the_result(self):
        self.request(1)
        self.assertEqual(self.run_app("0.cl"), ["5"])

    def test_header_changed(self):
        self.write("h.h", "#define BASE 10\n")
        self.write("h.cl", WITH_HEADER)
        self.assertEqual(self.run_app("h.cl"), ["10"])
        self.write("h.h", "#define BASE 11\n")
        self.assert_captured(served=1)
        self.assert_warm(["11"], "h.cl")
        self.write("h.h", "#define BASE 10\n")
        self.assertEqual(self.run_app("h.cl"), ["10"])
        self.assert_captured(served=1)
        self.assert_warm(["10"], "h.cl")
        self.write("h.h", "#define BASE 11\n")
        self.assert_warm(["11"], "h.cl")

    def leave_request_without_folder(self):
        work = self.folder("work")
        subprocess.run(
            [APP, os.path.join(self.scratch, "a.cl"), "return"], env=self.environment, cwd=work,
            stdout=subprocess.DEVNULL, check=True)
        shutil.rmtree(work)

    def test_folder_gone(self):
        self.leave_request_without_folder()
        self.assert_captured(dropped=1)

    def test_children_are_ignored(self):
        """The process that starts the tool may ignore SIGCHLD; the tool does not."""
        self.leave_request_without_folder()
        done = subprocess.run(
            [KILN, "capture", "--json"], env=self.environment, stdout=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(json.loads(done.stdout)["dropped"], 1)

    def test_loader_that_exits(self):
        """The exit status that the loader causes is not mistaken for that of a worker."""
        folder = self.folder("late")
        before = os.environ.get("LD_LIBRARY_PATH")
        self.run_app(LD_LIBRARY_PATH=folder + (":" + before if before else ""))
        shutil.copy(EXITING_LOADER, os.path.join(folder, "libOpenCL.so.1"))
        self.assert_captured(failed=1)
        self.assertEqual(self.kinds(), {"request": 1})

    def test_locale_is_a_part_of_the_key(self):
        settings = dict(KILN_KEY_ENV="LC_*", LANG="C.UTF-8")
        for i, locale in enumerate((None, "C.UTF-8")):
            if locale:
                settings["LC_ALL"] = locale
            else:
                self.environment.pop("LC_ALL", None)
            self.assertEqual(self.run_app(**settings), ["5"])
            self.assert_captured(served=1)
            self.assertEqual(self.kinds(), {"program": i + 1})
            self.assert_warm(["5"], **settings)

    def test_two_at_once(self):
        self.request(3)
        helpers = [
            subprocess.Popen(
                [KILN, "capture", "--json", "--wait-ms", str(1000 * PATIENCE_SECONDS)],
                env=self.environment, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        served = [json.loads(helper.communicate()[0])["served"] for helper in helpers]
        self.assertEqual(sorted(served), [0, 3])
        self.assertEqual(self.kinds(), {"program": 3})

    def start_and_see_at_work(self):
        helper = subprocess.Popen(
            [KILN, "capture", "--dir", self.cache], env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(end, helper)
        self.wait_until(lambda: len(self.helpers()) >= 2 or helper.poll() is not None, 0.01)
        return helper

    def test_second_one_ends(self):
        self.request(2)
        helper = self.start_and_see_at_work()
        helper.send_signal(signal.SIGSTOP)
        second = self.kiln("capture")
        helper.send_signal(signal.SIGCONT)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertEqual(helper.wait(PATIENCE_SECONDS), 0)
        self.assertEqual(self.kinds(), {"program": 2})

    def test_killed_at_work(self):
        self.request(3)
        for delay in (0, 0.1, 0.3, 0.8):
            helper = self.start_and_see_at_work()
            time.sleep(delay)
            helper.kill()
            helper.wait()
            self.wait_for_no_helper()
            self.assertEqual(self.kiln("verify").returncode, 0)
        self.capture()
        self.assertEqual(self.kinds(), {"program": 3})
        for i in range(3):
            self.assert_warm([str(5 + i)], "%d.cl" % i)

    def end_worker(self, helper, number, before=()):
        """Ends the helper's next worker with a signal. Returns the worker's process ID."""
        workers = []

        def has_worker():
            workers[:] = [each for each in self.helpers() if each not in (helper.pid, *before)]
            return bool(workers) or helper.poll() is not None

        self.wait_until(has_worker, pause=0.001)
        self.assertTrue(workers, "there is no further worker")
        os.kill(workers[0], number)
        return workers[0]

    def test_driver_crashes(self):
        """A request that crashes the driver is tried three times and then given up. A further build
        leaves no new request."""
        self.request(1)
        helper = self.start_and_see_at_work()
        ended = []
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
            ended.append(self.end_worker(helper, number, ended))
        self.assertEqual(helper.wait(PATIENCE_SECONDS), 0)
        self.assertEqual(self.run_app("0.cl"), ["5"])
        self.assert_captured()
        self.assertEqual(self.kinds(), {"request": 1})

    def test_driver_crashes_once(self):
        self.request(1)
        helper = self.start_and_see_at_work()
        self.end_worker(helper, signal.SIGSEGV)
        self.assertEqual(helper.wait(PATIENCE_SECONDS), 0)
        self.assertEqual(self.kinds(), {"program": 1})

    def test_worker_ended_by_others(self):
        """If a worker is ended by a signal that no fault of a driver raises, the request stays for
        the next run."""
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGXFSZ):
            shutil.rmtree(self.cache, ignore_errors=True)
            self.request(2)
            helper = self.start_and_see_at_work()
            self.end_worker(helper, number)
            self.assertEqual(helper.wait(PATIENCE_SECONDS), 0)
            self.assertEqual(self.kinds(), {"program": 1, "request": 1}, number)
            self.assert_captured(served=1)
            self.assertEqual(self.kinds(), {"program": 2})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:])
