# SPDX-License-Identifier: Apache-2.0
"""kiln replay: entries of one NVRTC, whose programs then start on another one, or for another
architecture, without a build. The libraries stand in for NVRTC."""

import ctypes
import errno
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

import layer_case
from layer_case import ARGUMENTS

OTHER_LIBRARY = ARGUMENTS.stand_in.replace("stand_in", "stand_in_now")
SOURCE = "__global__ void k(float *x) { *x = 1; }\n"


def can_unshare():
    command = ["unshare", "--user", "--mount", "--net", "--map-current-user", "true"]
    return shutil.which("unshare") and subprocess.run(
        command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 29))


def limit_processor_time():
    resource.setrlimit(resource.RLIMIT_CPU, (1, 60))


def allow_core_files():
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def forbid_namespaces():
    """Makes unshare fail in this process and its children: a filter for seccomp."""
    load_number, jump_if_equal, give = 0x20, 0x15, 0x06
    refusal, permission = 0x00050000 | errno.EPERM, 0x7FFF0000
    unshare = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in (
        (load_number, 0, 0, 0), (jump_if_equal, 0, 1, unshare), (give, 0, 0, refusal),
        (give, 0, 0, permission)))
    memory = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(memory))
    prctl = ctypes.CDLL(None).prctl
    no_new_privileges, seccomp, filter_mode = 38, 22, 2
    if prctl(no_new_privileges, 1, 0, 0, 0) != 0 or prctl(seccomp, filter_mode, program, 0, 0) != 0:
        os._exit(1)


class ReplayCase(layer_case.LayerCase):
    def compile(self, text, *options, library=ARGUMENTS.stand_in, arch="sm_80", name="k.cu", **more):
        """Runs the program, and returns its output and the outcomes in the trace."""
        source = self.file(name, text)
        output = self.run_program("--library", library, "--source", source, *options, "--",
                                  "--gpu-architecture=" + arch, **more)
        return output, [outcome for outcome, _ in self.last]

    def replay(self, *arguments, expect=0, **options):
        result = subprocess.run(
            [ARGUMENTS.kiln, "replay", "--dir", self.cache, "--json", *arguments],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
            **options)
        self.assertEqual(result.returncode, expect, (result.stdout, result.stderr))
        return json.loads(result.stdout)

    def replay_one(self, *arguments, expect=0, **options):
        report = self.replay(*arguments, expect=expect, **options)
        self.assertEqual(len(report["entries"]), 1, report)
        return report["entries"][0]


class Replay(ReplayCase):
    def test_another_library(self):
        first, outcomes = self.compile(SOURCE)
        self.assertEqual(outcomes, ["built"])
        report = self.replay("--nvrtc", OTHER_LIBRARY)
        self.assertEqual((report["built"], report["present"]), (1, 0), report)
        plain, _ = self.compile(SOURCE, library=OTHER_LIBRARY, kiln=False)
        warm, outcomes = self.compile(SOURCE, library=OTHER_LIBRARY)
        self.assertEqual(outcomes, ["hit-store"])
        self.assertEqual(warm, plain)
        again, outcomes = self.compile(SOURCE)
        self.assertEqual((again, outcomes), (first, ["hit-store"]))

    def test_another_architecture(self):
        for option in "--gpu-architecture=", "-arch=":
            self.cache = self.environment["KILN_DIR"] = os.path.join(self.scratch, option)
            source = ["--source", self.file("k.cu", SOURCE), "--library", ARGUMENTS.stand_in, "--"]
            self.run_program(*source, option + "compute_80", expect=["built"])
            report = self.replay("--nvrtc", ARGUMENTS.stand_in, "--arch", "sm_90a")
            self.assertEqual(report["built"], 1, report)
            self.run_program(*source, option + "compute_90a", expect=["hit-store"])

    def test_everything_that_a_program_passes(self):
        header = self.file("passed.h", "// passed\n")
        inputs = ["--header", "h.h", header, "--expression", "f<int>", "--name", "name.cu"]
        self.assertEqual(self.compile(SOURCE, *inputs)[1], ["built"])
        self.replay("--nvrtc", ARGUMENTS.stand_in, "--arch", "90")
        plain, _ = self.compile(SOURCE, *inputs, arch="sm_90", kiln=False)
        self.assertEqual(self.compile(SOURCE, *inputs, arch="sm_90"), (plain, ["hit-store"]))

    def test_included_files(self):
        folder = os.path.join(self.scratch, "include")
        self.file("include/found.h", "// found\n")
        text = '#include "found.h"\n' + SOURCE
        source = ["--source", self.file("k.cu", text), "--library", ARGUMENTS.stand_in, "--"]
        options = ["-I" + folder, "-arch=sm_80"]
        self.run_program(*source, *options, expect=["built"])
        self.assertEqual(
            self.replay("--nvrtc", ARGUMENTS.stand_in, "--arch", "90")["built"], 1)
        self.run_program(*source, options[0], "-arch=sm_90", expect=["hit-store"])

    def test_a_second_replay_continues_the_first(self):
        for i in range(3):
            self.compile(SOURCE + f"// {i}\n")
        arguments = ["--nvrtc", ARGUMENTS.stand_in, "--arch", "sm_90"]
        self.assertEqual(self.replay(*arguments, "--name", "nothing")["entries"], [])
        first = self.replay(*arguments)
        self.assertEqual((first["built"], first["present"]), (3, 0), first)
        self.compile(SOURCE + "// 3\n")
        shutil.rmtree(os.path.join(self.cache, "v1", first["entries"][0]["entry"][:2]))
        second = self.replay(*arguments)
        self.assertEqual(second["failed"] + second["impossible"] + second["left"], 0, second)
        self.assertGreaterEqual(second["built"], 2)
        self.assertEqual(second["built"] + second["present"], 4, second)

    def test_what_is_missing_comes_first(self):
        for i in range(2):
            self.compile("SLEEP\n" + SOURCE + f"// {i}\n")
        arguments = ["--nvrtc", ARGUMENTS.stand_in, "--arch", "sm_90", "--jobs", "1"]
        self.assertEqual(self.replay(*arguments)["built"], 2)
        self.compile(SOURCE)
        results = [entry["result"] for entry in self.replay(*arguments)["entries"]]
        self.assertEqual(results[0], "built", results)

    def test_another_store(self):
        self.compile(SOURCE)
        other = os.path.join(self.scratch, "other")
        self.replay("--nvrtc", ARGUMENTS.stand_in, "--arch", "90", "--to", other)
        self.environment["KILN_DIR"] = other
        self.assertEqual(self.compile(SOURCE, arch="sm_90")[1], ["hit-store"])
        self.assertEqual(self.compile(SOURCE)[1], ["built"])

    def test_jobs(self):
        """As many as the processors on which it may run."""
        self.compile(SOURCE)
        processor = min(os.sched_getaffinity(0))
        arguments = ["--nvrtc", ARGUMENTS.stand_in]
        report = self.replay(*arguments, preexec_fn=lambda: os.sched_setaffinity(0, {processor}))
        self.assertEqual(report["jobs"], 1, report)
        self.assertEqual(self.replay("--jobs", "3", *arguments)["jobs"], 3)

    @unittest.skipUnless(can_unshare(), "this user has no private namespaces")
    def test_jobs_in_a_container(self):
        """Its control group gets the time of half a processor."""
        self.compile(SOURCE)
        script = ('mount -t tmpfs none /sys/fs/cgroup && echo 50000 100000 >/sys/fs/cgroup/cpu.max '
                  '&& exec "$0" "$@"')
        result = subprocess.run(
            ["unshare", "--user", "--mount", "--map-root-user", "sh", "-c", script, ARGUMENTS.kiln,
             "replay", "--dir", self.cache, "--json", "--nvrtc", ARGUMENTS.stand_in],
            env=self.environment, stdout=subprocess.PIPE,
            check=True, timeout=120)
        self.assertEqual(json.loads(result.stdout)["jobs"], 1)

    def test_stripped_sources(self):
        self.compile(SOURCE)
        pack = os.path.join(self.scratch, "stripped.kpack")
        for command in (["pack", "--strip-keys", pack], ["clear", "--yes"],
                        ["unpack", "--trust", pack]):
            subprocess.run([ARGUMENTS.kiln, *command], env=self.environment, check=True,
                           stdout=subprocess.DEVNULL)
        entry = self.replay_one("--nvrtc", ARGUMENTS.stand_in)
        self.assertEqual((entry["result"], entry["why"]), ("impossible", "sources stripped"))

    def test_a_crash_costs_one_build(self):
        self.compile("CRASH\n" + SOURCE)
        self.compile("EAT_MEMORY\n" + SOURCE)
        self.compile(SOURCE)
        report = self.replay("--nvrtc", ARGUMENTS.stand_in, "--arch", "90", expect=1,
                             preexec_fn=limit_memory)
        self.assertEqual((report["built"], report["failed"]), (1, 2), report)
        why = " ".join(entry["why"] or "" for entry in report["entries"])
        self.assertIn("crashed: signal 6", why)
        logs = " ".join(entry["log"] or "" for entry in report["entries"])
        self.assertIn("no memory is left", logs)

    def compile_with_others(self, first):
        self.compile(first + "\n" + SOURCE)
        for i in range(3):
            self.compile(SOURCE + f"// {i}\n")
        return ["--nvrtc", ARGUMENTS.stand_in, "--arch", "90", "--jobs", "2"]

    def test_a_build_without_end_costs_one_build(self):
        report = self.replay(*self.compile_with_others("SPIN"), expect=1,
                             preexec_fn=limit_processor_time)
        self.assertEqual((report["built"], report["failed"]), (3, 1), report)
        why = " ".join(entry["why"] or "" for entry in report["entries"])
        self.assertRegex(why, "the compiler used [0-9]+ s of processor time")

    def test_a_build_that_waits_costs_one_worker(self):
        command = ["replay", *self.compile_with_others("HANG"), "--to"]
        other = os.path.join(self.scratch, "other")
        process = subprocess.Popen([ARGUMENTS.kiln, *command, other], env=self.environment,
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        listed = []
        while process.poll() is None and len(listed) < 3:
            time.sleep(0.05)
            listed = subprocess.run([ARGUMENTS.kiln, "ls", "--dir", other, "--json"], env=self.environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                    check=False).stdout.splitlines()
        self.assertEqual((process.poll(), len(listed)), (None, 3))

    def test_the_budget(self):
        report = self.replay(*self.compile_with_others("HANG"), "--budget", "1", expect=1)
        self.assertGreaterEqual(report["left"], 1)
        self.assertIn("the time is over", [entry["why"] for entry in report["entries"]])

    def test_options_that_load_code(self):
        source = ["--source", self.file("k.cu", SOURCE), "--library", ARGUMENTS.stand_in, "--"]
        self.run_program(*source, "-Xclang=-load", expect=["built"])
        entry = self.replay_one("--nvrtc", OTHER_LIBRARY)
        self.assertEqual(entry["result"], "impossible")
        self.assertIn("may load code", entry["why"])

    def test_a_variable_that_was_not_set(self):
        self.compile(SOURCE)
        self.environment["KILN_KEY_ENV"] = "HOME"
        entry = self.replay_one("--nvrtc", OTHER_LIBRARY)
        self.assertEqual((entry["result"], entry["why"]), (
            "impossible", "Kiln's layers make a key with different inputs for it"))

    def test_a_wrong_command_line(self):
        for arguments in (["--jobs", "0"], ["--arch", "x90"], ["--hiprtc", "/nowhere"], ["--budget", "-1"],
                          ["--nvrtc", "/nowhere"], ["--from", "pack:x"], ["--serve", "1"]):
            result = subprocess.run([ARGUMENTS.kiln, "replay", *arguments], env=self.environment,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, 2, (arguments, result.stderr))

    def test_a_replay_that_is_killed(self):
        for i in range(4):
            self.compile("SLEEP\n" + SOURCE + f"// {i}\n")
        arguments = ["--nvrtc", OTHER_LIBRARY, "--jobs", "1"]
        process = subprocess.Popen(
            [ARGUMENTS.kiln, "replay", "--dir", self.cache, *arguments], env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        # Its workers end, too, and say nothing.
        self.assertEqual(process.communicate(timeout=60)[1], b"")
        report = self.replay(*arguments)
        self.assertEqual(report["built"] + report["present"], 4, report)


class IncludedCase(ReplayCase):
    """A program that includes a file, which is removed before the replay."""

    TEXT = '#include "found.h"\n' + SOURCE

    def include(self, folder, expect="built", arch="sm_80", start=(), name="found.h"):
        """Runs the program. @start: a command that runs a command."""
        source = self.file("k.cu", self.TEXT.replace("found.h", name))
        run = [*start, *self.command("--source", source, "--library", ARGUMENTS.stand_in, "--",
                                     "-I" + folder, "-arch=" + arch)]
        self.trace()
        output = subprocess.run(run, env=self.environment, stdout=subprocess.PIPE, cwd=self.scratch,
                                check=True, timeout=120).stdout
        self.assertEqual([outcome for outcome, _ in self.trace()], [expect])
        return output

    def replay_gone(self, *arguments, **options):
        return self.replay_one("--nvrtc", ARGUMENTS.stand_in, "--arch", "90", *arguments, **options)

    def assert_impossible(self, entry, why):
        self.assertEqual(entry["result"], "impossible", entry)
        self.assertIn(why, entry["why"])

    def kept(self, cache=None):
        """Returns the paths of the contents that are kept beside a cache."""
        folder = os.path.join(cache or self.cache, "v1", "included", "v1")
        return [os.path.join(place, name) for place, _, names in os.walk(folder)
                for name in names if len(name) == 32]


class Included(IncludedCase):
    def test_nothing_is_kept_if_switched_off(self):
        self.environment["KILN_INCLUDED_MAX_SIZE"] = "0"
        header = self.file("include/found.h", "// found\n")
        self.include(os.path.dirname(header))
        self.assertFalse(os.path.exists(os.path.join(self.cache, "v1", "included")))
        os.remove(header)
        self.assert_impossible(self.replay_gone(), "found.h, which does not exist here")

    def test_a_program_with_threads(self):
        """A thread of Kiln's keeps the files of a process with several threads."""
        headers = [self.file(f"include/found{i}.h", f"// found {i}\n") for i in range(50)]
        text = "".join(f'#include "{os.path.basename(header)}"\n' for header in headers) + SOURCE
        source = ["--source", self.file("k.cu", text), "--library", ARGUMENTS.stand_in]
        self.run_program("--threads", "8", *source, "--", "-I" + os.path.dirname(headers[0]),
                         "-arch=sm_80", expect=None)
        self.assertEqual(len(self.kept()), len(headers))
        shutil.rmtree(os.path.dirname(headers[0]))
        report = self.replay("--nvrtc", ARGUMENTS.stand_in, "--arch", "90")
        self.assertEqual((report["built"], report["impossible"]), (4, 0), report)

    def test_a_folder_that_is_not_known(self):
        self.environment["KILN_INCLUDED_MAX_SIZE"] = "0"
        self.file("include/found.h", "// found\n")
        self.include("include")
        self.assert_impossible(self.replay_gone(), "found.h from a folder that is not known")

    def test_what_is_kept_is_bounded(self):
        self.environment["KILN_INCLUDED_MAX_SIZE"] = "64K"
        for _ in range(8):
            header = self.file("include/found.h", "// " + os.urandom(16 << 10).hex() + "\n")
            self.include(os.path.dirname(header))
        sizes = [os.stat(path).st_blocks * 512 for path in self.kept()]
        self.assertTrue(0 < sum(sizes) <= 64 << 10, sizes)

    def test_each_file_is_kept_once(self):
        header = self.file("include/found.h", "// found\n" * 1000)
        self.include(os.path.dirname(header))
        self.include(os.path.dirname(header), arch="sm_90")
        self.assertEqual([os.stat(path).st_size < 1000 for path in self.kept()], [True])

    def test_without_namespaces(self):
        header = self.file("include/found.h", "// found\n")
        self.include(os.path.dirname(header))
        os.remove(header)
        entry = self.replay_gone(preexec_fn=forbid_namespaces)
        self.assert_impossible(entry, "without private namespaces")


@unittest.skipUnless(can_unshare(), "this user has no private namespaces")
class Recreated(IncludedCase):
    def test_a_folder_that_is_gone(self):
        for folder in os.path.join(self.scratch, "a/b/include"), "rel/ative":
            self.cache = self.environment["KILN_DIR"] = os.path.join(self.scratch, folder, "cache")
            header = self.file(os.path.join(folder, "found.h"), '#include "second.h"\n')
            second = self.file(os.path.join(folder, "second.h"), "// second\n")
            self.include(folder)
            os.rename(header, header + ".gone")
            os.rename(second, second + ".gone")
            self.assertEqual(self.replay_gone()["result"], "built")
            os.rename(header + ".gone", header)
            os.rename(second + ".gone", second)
            warm = self.include(folder, expect="hit-store", arch="sm_90")
            self.environment["KILN_DIR"] = os.path.join(self.scratch, "empty")
            self.assertEqual(self.include(folder, arch="sm_90"), warm)

    def test_the_home_folder(self):
        self.environment["HOME"] = self.scratch
        header = self.file("include/found.h", "// found\n")
        self.include(os.path.dirname(header))
        shutil.rmtree(os.path.dirname(header))
        self.assertEqual(self.replay_gone()["result"], "built")

    def test_many_folders_in_the_home_folder(self):
        self.environment["HOME"] = self.scratch
        options = []
        for number in range(200):
            self.file(f"include/{number}/{number}.h", "// found\n")
            options.append("-I" + os.path.join(self.scratch, "include", str(number)))
        source = self.file("k.cu", '#include "199.h"\n' + SOURCE)

        def program(architecture):
            return ["--source", source, "--library", ARGUMENTS.stand_in, "--", *options,
                    "-arch=" + architecture]

        self.run_program(*program("sm_80"), expect=["built"])
        entry = self.replay_gone(preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
        self.assertEqual(entry["result"], "built", entry)
        self.run_program(*program("sm_90"), expect=["hit-store"])

    def test_another_store(self):
        header = self.file("include/found.h", "// found\n")
        self.include(os.path.dirname(header))
        os.remove(header)
        other = os.path.join(self.scratch, "other")
        self.assertEqual(self.replay_gone("--to", other)["result"], "built")
        shutil.rmtree(self.cache)
        self.assertEqual(len(self.kept(other)), 1)
        self.cache = other
        self.assertEqual(self.replay_one("--nvrtc", ARGUMENTS.stand_in, "--arch", "100")["result"],
                         "built")

    def test_a_changed_file_is_used_as_it_is(self):
        header = self.file("include/found.h", "// found\n")
        self.include(os.path.dirname(header))
        self.file("include/found.h", "// changed\n")
        self.assertEqual(self.replay_gone()["result"], "built")
        self.include(os.path.dirname(header), expect="hit-store", arch="sm_90")

    def test_damaged_content(self):
        header = self.file("include/found.h", "// found\n")
        self.include(os.path.dirname(header))
        os.remove(header)
        with open(self.kept()[0], "r+b") as file:
            file.seek(-20, os.SEEK_END)
            file.write(b"damage")
        self.assert_impossible(self.replay_gone(), "found.h, which does not exist here")

    def mounted(self, folder, name):
        """Returns a command that runs a command with a file in @folder, for it alone."""
        script = 'mount -t tmpfs none "$0" && echo // >"$0/$1" && shift && exec "$@"'
        return ["unshare", "--user", "--mount", "--map-root-user", "sh", "-c", script, folder, name]

    @unittest.skipUnless(os.geteuid() == 0, "only for root, who owns the folders of the system")
    def test_places(self):
        for folder, name, why in (("/srv", "found.h", None),
                                  ("/boot", "found.h", "the system or the compiler may load"),
                                  ("/srv", "found.so.h", "it is code")):
            with self.subTest(folder=folder, name=name):
                self.cache = self.environment["KILN_DIR"] = os.path.join(
                    self.scratch, folder[1:] + name)
                self.include(folder, start=self.mounted(folder, name), name=name)
                entry = self.replay_gone()
                if why is None:
                    self.assertEqual(entry["result"], "built", entry)
                    self.include(folder, expect="hit-store", arch="sm_90",
                                 start=self.mounted(folder, name))
                else:
                    self.assert_impossible(entry, why)


@unittest.skipUnless(can_unshare(), "this user has no private namespaces")
class Sandbox(ReplayCase):
    def test_a_compiler_reaches_nothing(self):
        home = os.path.join(self.scratch, "home")
        secret = self.file("home/secret", "secret")
        outside = self.file("outside/file", "readable")
        self.environment["HOME"] = home
        for path, is_readable in (secret, "no"), (outside, "yes"):
            self.cache = self.environment["KILN_DIR"] = path + ".cache"
            self.compile(f"LOOK_AROUND {path}\n" + SOURCE)
            entry = self.replay_one("--nvrtc", ARGUMENTS.stand_in, "--arch", "90", expect=1,
                                    preexec_fn=allow_core_files)
            self.assertEqual(entry["result"], "failed", entry)
            self.assertIn(f"network: no\nfile: {is_readable}\n", entry["log"])
            self.assertIn("core file: no\n", entry["log"])
            self.assertFalse(os.path.exists(os.path.join(os.path.dirname(path), "made")))


if __name__ == "__main__":
    layer_case.main()
