# SPDX-License-Identifier: Apache-2.0
"""Tests kiln run: the environment, exit status and signals of its program, and the summary."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import cli

FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")

# Prints "ready", counts signals, and prints the counts 0.3 s after the first one.
COUNT_SIGNALS = """
import json, signal, sys, time
got = {}
def count(number, frame):
    name = signal.Signals(number).name
    got[name] = got.get(name, 0) + 1
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), count)
print("ready", flush=True)
deadline = time.monotonic() + 30
while not got and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)
print(json.dumps(got), flush=True)
"""


class RunTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.tool, self.layer = self.in_build_tree()

    def run_app(self, *arguments, **options):
        return self.kiln("run", *arguments, tool=self.tool, **options)

    def start(self, *arguments, **options):
        return subprocess.Popen(
            [self.tool, "run", *arguments], env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **options)

    def add_nvrtc(self):
        """Puts NVRTC's layer next to OpenCL's: the real layer if it was built, because a loader
        reports a file that is not a library. Returns its path."""
        folder = os.path.join(os.path.dirname(os.path.dirname(self.layer)), "nvrtc")
        built = os.path.join(os.path.dirname(cli.KILN), "..", "..", "layers", "nvrtc")
        if not os.path.isdir(built):
            self.skipTest("no layer for NVRTC was built")
        os.mkdir(folder)
        for name in ("libkiln_nvrtc_audit.so", "libkiln_nvrtc_layer.so"):
            shutil.copy(os.path.join(built, name), folder)
        return os.path.join(folder, "libkiln_nvrtc_audit.so")

    def need_no_layer(self, name):
        """Tests a tool without a layer beside it, which uses the layer in the prefix of its
        build."""
        found = subprocess.run([self.tool, "doctor", "--json"], env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if json.loads(found.stdout)[name]["path"] is not None:
            self.skipTest("Kiln is installed in the prefix of this build")

    def leftovers(self):
        return [name for name in os.listdir(self.scratch) if name.startswith("kiln-run")]


class Environment(RunTest):
    def variable(self, name, *arguments):
        output = self.run_app(*arguments, "--", "printenv", name, expect=0).stdout
        return output.decode().rstrip("\n")

    def test_layer(self):
        self.assertEqual(self.variable("OPENCL_LAYERS"), self.layer)

    def test_own_layers_stay(self):
        self.environment["OPENCL_LAYERS"] = "/a/one.so:/b/two.so"
        self.assertEqual(self.variable("OPENCL_LAYERS"), self.layer + ":/a/one.so:/b/two.so")

    def test_layer_is_named_once(self):
        value = "/a/one.so:" + self.layer
        self.environment["OPENCL_LAYERS"] = value
        self.assertEqual(self.variable("OPENCL_LAYERS"), value)

    def test_disabled(self):
        self.environment["KILN_DISABLE"] = "1"
        self.add_nvrtc()
        self.assertEqual(self.run_app("printenv", "OPENCL_LAYERS", expect=1).stdout, b"")
        self.assertEqual(self.run_app("printenv", "LD_AUDIT", expect=1).stdout, b"")

    def test_without_the_layer_of_nvrtc(self):
        self.need_no_layer("nvrtc_layer")
        self.assertEqual(self.run_app("printenv", "LD_AUDIT", expect=1).stdout, b"")

    def test_audit_library(self):
        audit = self.add_nvrtc()
        self.assertEqual(self.variable("LD_AUDIT"), audit)
        self.assertEqual(self.run_app("--no-nvrtc", "printenv", "LD_AUDIT", expect=1).stdout, b"")
        self.environment["LD_AUDIT"] = audit
        self.assertEqual(self.variable("LD_AUDIT"), audit)

    def test_thread_local_memory(self):
        self.add_nvrtc()
        set_aside = "glibc.rtld.optional_static_tls=8192"
        self.assertEqual(self.variable("GLIBC_TUNABLES"), set_aside)
        self.environment["GLIBC_TUNABLES"] = "glibc.malloc.perturb=0"
        self.assertEqual(self.variable("GLIBC_TUNABLES"), "glibc.malloc.perturb=0:" + set_aside)
        self.environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=4096"
        self.assertEqual(self.variable("GLIBC_TUNABLES"), "glibc.rtld.optional_static_tls=4096")

    def test_options_become_variables(self):
        self.assertEqual(self.variable("KILN_DIR", "--dir", "/some/where"), "/some/where")
        self.assertEqual(self.variable("KILN_TRACE", "--trace", "-"), "-")
        file = os.path.join(self.scratch, "trace")
        self.assertEqual(self.variable("KILN_TRACE", "--trace", file), file)
        output = self.run_app("--dir", "here", "printenv", "KILN_DIR", cwd=self.scratch).stdout
        self.assertEqual(output.decode().strip(), os.path.join(self.scratch, "here"))

    def test_a_trace_that_cannot_be_written(self):
        result = self.run_app("--trace", "/nowhere/trace", "--", "true", expect=2)
        self.assertEqual(result.stderr, b"kiln: can't write the trace to /nowhere/trace: "
                                        b"No such file or directory\n")

    def test_options_of_the_application(self):
        output = self.run_app("echo", "--summary", "--", "--help").stdout
        self.assertEqual(output, b"--summary -- --help\n")

    def test_no_process_between(self):
        process = self.start("sh", "-c", "echo $$")
        output, _ = process.communicate(timeout=30)
        self.assertEqual(int(output), process.pid)


class Layer(RunTest):
    def expect_refusal(self, tool, why):
        result = self.kiln("run", "true", tool=tool, expect=3)
        self.assertIn(why, result.stderr)

    def test_writable_by_others(self):
        for mode in (0o666, 0o664):
            tool, _ = self.in_build_tree(layer_mode=mode)
            self.expect_refusal(tool, b"is writable by others")

    def test_missing(self):
        os.remove(self.layer)
        self.need_no_layer("layer")
        self.expect_refusal(self.tool, b"no OpenCL layer")

    def test_no_file(self):
        os.remove(self.layer)
        os.mkdir(self.layer)
        self.expect_refusal(self.tool, b"not a regular file")

    def test_nvrtc_writable_by_others(self):
        audit = self.add_nvrtc()
        for name in (audit, audit.replace("audit", "layer")):
            os.chmod(name, 0o666)
            self.expect_refusal(self.tool, b"is writable by others")
            os.chmod(name, 0o644)

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_of_another_user(self):
        os.chown(self.layer, 12345, 12345)
        self.expect_refusal(self.tool, b"belongs neither to this user nor to root")


class Status(RunTest):
    def test_exit_codes(self):
        for mode in ([], ["--summary"]):
            for code in (0, 1, 5, 42, 255):
                self.run_app(*mode, "--", "sh", "-c", f"exit {code}", expect=code)

    def test_cannot_start(self):
        plain = os.path.join(self.scratch, "plain")
        with open(plain, "w"):
            pass
        for mode in ([], ["--summary"]):
            result = self.run_app(*mode, "/nonexistent/app", expect=127)
            self.assertIn(b"/nonexistent/app: No such file", result.stderr)
            result = self.run_app(*mode, plain, expect=126)
            self.assertIn(b"Permission denied", result.stderr)
        self.assertEqual(self.leftovers(), [])

    def test_killed(self):
        for mode in ([], ["--summary"]):
            for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
                self.run_app(*mode, "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$",
                             expect=-number)
        self.assertEqual(self.leftovers(), [])

    def test_child_signal_ignored_by_the_caller(self):
        result = self.kiln(
            "run", "--summary", "sh", "-c", "exit 7", tool=self.tool, expect=7,
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertIn(b"0 builds", result.stderr)

    def test_signal_dispositions_are_inherited(self):
        """The application inherits the same signal dispositions with and without a summary."""
        show = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]

        def caller():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

        plain = self.run_app(*show, preexec_fn=caller).stdout
        self.assertEqual(self.run_app("--summary", *show, preexec_fn=caller).stdout, plain)


class Signals(RunTest):
    def start_counting(self, *mode):
        process = self.start(*mode, sys.executable, "-c", COUNT_SIGNALS, *FORWARDED)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def counted(self, process):
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads(output)

    def test_passed_on_once(self):
        for name in FORWARDED:
            process = self.start_counting("--summary")
            process.send_signal(getattr(signal, name))
            self.assertEqual(self.counted(process), {name: 1})

    def test_default_action(self):
        process = self.start("--summary", "sh", "-c", "echo ready; exec sleep 60")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.terminate()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertIn(b"kiln: 0 hits", errors)
        self.assertEqual(self.leftovers(), [])

    def test_terminal_interrupt_reaches_it_once(self):
        program = [self.tool, "run", "--summary", sys.executable, "-c", COUNT_SIGNALS, "SIGINT"]
        process, terminal = pty.fork()
        if process == 0:
            os.execve(self.tool, program, self.environment)
        output = self.read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        output += self.read_until(terminal, None)
        os.close(terminal)
        _, status = os.waitpid(process, 0)
        self.assertEqual(status, 0, output)
        self.assertIn(b'{"SIGINT": 1}', output)

    def read_until(self, terminal, wanted):
        output = b""
        while wanted is None or wanted not in output:
            try:
                chunk = os.read(terminal, 4096)
            except OSError:  # a terminal's end of file
                chunk = b""
            if not chunk:
                return output
            output += chunk
        return output

    def next_status(self, process):
        for _ in range(1000):
            found, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
            if found:
                return status
            time.sleep(0.01)
        self.fail("neither stopped nor ended")

    def test_stops_and_continues(self):
        process = self.start("--summary", "sh", "-c", "kill -STOP $$; exit 9")
        self.addCleanup(process.kill)
        self.assertTrue(os.WIFSTOPPED(self.next_status(process)))
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 9, errors)


class Summary(RunTest):
    def summary_json(self, *program):
        result = self.run_app("--summary", "--json", "--", *program)
        self.assertEqual(self.leftovers(), [])
        last = result.stderr.decode().splitlines()[-1]
        summary = json.loads(last)
        self.assertEqual(set(summary), cli.COUNTERS)
        self.assertTrue(all(type(value) is int for value in summary.values()))
        return summary

    def test_nothing_happened(self):
        summary = self.summary_json("sh", "-c", "echo noise >&2")
        self.assertEqual(set(summary.values()), {0})
        self.assertFalse(os.path.exists(self.cache))

    def test_each_door_is_counted(self):
        """Layers and Python doors write such lines."""
        request = "echo 'kiln[1] {} key=" + "0" * 64 + " door={} load=0.000ms' >>$KILN_TRACE; "
        script = (request.format("built", "triton") + request.format("hit-store", "triton") * 2
                  + request.format("hit-memory", "opencl")
                  + "echo 'kiln[1] built door=no' >>$KILN_TRACE; "
                  + request.format("built", r"'$(printf '\377')'").rstrip("; "))
        result = self.run_app("--summary", "--json", "--", "sh", "-c", script)
        self.assertEqual(json.loads(result.stderr.splitlines()[-1])["doors"],
                         {"triton": {"hits": 2, "builds": 1}, "opencl": {"hits": 1, "builds": 0}})
        result = self.run_app("--summary", "--", "sh", "-c", script)
        self.assertIn(b"kiln: triton: 2 hits, 1 build; opencl: 1 hit, 0 builds\n", result.stderr)

    def test_only_this_run_counts(self):
        self.make("entries")
        summary = self.summary_json(cli.MAKE_CACHE, "count")
        self.assertEqual(
            (summary["hits_memory"], summary["hits_store"], summary["saved_ns"]),
            (1, 2, 1500000000))
        self.assertEqual((summary["builds"], summary["entries"]), (0, 3))
        self.assertGreater(summary["bytes"], 1503000)

    def test_children_count(self):
        script = f"'{cli.MAKE_CACHE}' count & '{cli.MAKE_CACHE}' count; wait"
        self.assertEqual(self.summary_json("sh", "-c", script)["hits_store"], 4)

    def test_runs_in_runs_count(self):
        inner = [self.tool, "run", "--summary", "--json", cli.MAKE_CACHE, "count"]
        self.assertEqual(self.summary_json(*inner)["hits_store"], 2)

    def test_line(self):
        self.make("entries")
        result = self.run_app("--summary", cli.MAKE_CACHE, "count")
        self.assertEqual(result.stdout, b"")
        self.assertEqual(
            result.stderr,
            b"kiln: 3 hits (2 from the store), 0 builds, 0 passed through, 1.50 s saved, "
            b"3 entries, 1.4 MiB, 1 waiting to be captured\n")

    def messages(self, *arguments):
        """Runs the tool, and returns what each of its writes to stderr wrote."""
        reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with reader:
            with writer:
                process = subprocess.Popen([self.tool, *arguments], env=self.environment,
                                           stdout=subprocess.DEVNULL, stderr=writer)
            written = list(iter(lambda: reader.recv(1 << 16), b""))
            process.wait(60)
        return written

    def test_lines_stay_whole(self):
        """Each line is written at once, so that the lines of several processes do not mix."""
        self.make("entries")
        written = self.messages("run", "--summary", "sh", "-c", f"'{cli.MAKE_CACHE}' count & "
                                f"'{cli.MAKE_CACHE}' count; wait")
        self.assertEqual([line.count(b"\n") for line in written], [1], written)
        self.assertTrue(written[0].startswith(b"kiln: 6 hits"), written)
        self.assertTrue(written[0].endswith(b" waiting to be captured\n"), written)
        written = self.messages("run", "--summary", "--json", cli.MAKE_CACHE, "count")
        self.assertEqual([line[-2:] for line in written], [b"}\n"])
        written = self.messages("ls", "--dir", os.path.join(self.scratch, "a\tb"), "--name=x")
        written += self.messages("show", "aaaa")
        self.assertTrue(written and all(line[-1:] == b"\n" for line in written), written)

    def test_a_program_that_compiles_nothing(self):
        lines = self.run_app("--summary", "true").stderr.decode().splitlines()
        self.assertIn("compiled nothing", lines[0])
        self.assertIn("0 hits", lines[-1])

    def test_reasons(self):
        """Lines of the trace are counted, and notes are repeated once."""
        script = """for i in 1 2; do
            echo "kiln[1] passed-through clBuildProgram: no reason" >> "$KILN_TRACE"
            echo "kiln[1] note: no store" >> "$KILN_TRACE"; done
            echo "kiln[1] built key=0" >> "$KILN_TRACE" """
        lines = self.run_app("--summary", "sh", "-c", script).stderr.decode().splitlines()
        self.assertEqual(lines[:-1], ["kiln: 2 passed through: clBuildProgram: no reason",
                                      "kiln: no store"])
        self.assertIn("kiln: 0 hits", lines[-1])
        self.assertEqual(self.leftovers(), [])

    def test_the_trace_of_the_user_stays(self):
        trace = os.path.join(self.scratch, "trace")
        result = self.run_app("--summary", "--trace", trace, "printenv", "KILN_TRACE")
        self.assertEqual(result.stdout.decode().strip(), trace)
        self.assertTrue(os.path.exists(trace))
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_a_cache_that_cannot_be_used_is_reported_once(self):
        """The program's layers and the summary find the same reason."""
        folder = os.path.join(self.scratch, "open")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        self.environment["KILN_DIR"] = os.path.join(folder, "cache")
        reason = f"{folder} is writable by others (mode 0777)"
        text = self.run_app("--summary", "sh", "-c",
                            f"echo 'kiln[1] note: {reason}' >>$KILN_TRACE").stderr.decode()
        self.assertEqual(text.count(reason), 1, text)
        self.assertIn("kiln: no cache could be used: nothing was stored or found\n", text)

    def test_json_alone_is_a_summary(self):
        result = self.run_app("--json", "true")
        self.assertEqual(set(json.loads(result.stderr)), cli.COUNTERS)

    def test_no_room_for_counters(self):
        """If TMPDIR cannot be used, the counters are in /tmp."""
        self.environment["TMPDIR"] = "/nonexistent"
        result = self.run_app("--summary", cli.MAKE_CACHE, "count")
        self.assertIn(b"kiln: 3 hits", result.stderr)

    def test_folder_is_private(self):
        result = self.run_app(
            "--summary", "sh", "-c", 'stat -c "%a" "$(dirname "$KILN_STATS")"')
        self.assertEqual(result.stdout, b"700\n")


if __name__ == "__main__":
    cli.main()
