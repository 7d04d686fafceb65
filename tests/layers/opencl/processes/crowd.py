# SPDX-License-Identifier: Apache-2.0
"""Processes that build OpenCL programs under Kiln at the same time, and a layer below Kiln that
stops their builds half-way."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

TIMEOUT_SECONDS = 120
LOOK_EVERY_SECONDS = 0.005

STEERING = ("KILN_", "POCL_", "OPENCL_", "CL_CONFIG_", "XDG_")


class Program:
    """An OpenCL program with a name, and its kernel's result."""

    def __init__(self, name, value):
        self.name = name
        self.source = f"// {name}\nkernel void f(global int *out) {{ *out = {value}; }}\n"
        self.line = f"  f gives {value}: CL_SUCCESS"


class Process:
    def __init__(self, scene, command):
        self.scene = scene
        # Processes that build the same program at the same time sometimes fail on PoCL if they
        # share PoCL's cache.
        own_cache = {"POCL_CACHE_DIR": tempfile.mkdtemp(dir=scene.folder)}
        self.process = subprocess.Popen(
            [str(part) for part in command], env=scene.environment | own_cache, cwd=scene.folder,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.pid = self.process.pid

    def finish(self):
        """Returns status and output."""
        output, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode, output

    def end(self):
        """Kills the process, whatever its state; may be called again."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def is_running(self):
        return self.process.poll() is None

    def send(self, number):
        self.process.send_signal(number)

    def has_begun(self):
        """Returns whether the process's build has reached the layer below Kiln's."""
        return any(step[0] == "begin" and step[2] == str(self.pid) for step in self.scene.steps())

    def is_waiting(self):
        """Returns whether the process waits for a lease: it has the file of leases open, and builds
        nothing."""
        leases = str(self.scene.cache / "lease")
        try:
            open_files = [os.readlink(f) for f in Path(f"/proc/{self.pid}/fd").iterdir()]
        except FileNotFoundError:  # a descriptor was closed meanwhile
            return False
        return leases in open_files and not self.has_begun()


class Scene:
    """A new cache, and new folders for everything else."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="kiln-processes-"))
        self.cache = self.folder / "cache"
        self.control = self.folder / "control"
        self.processes = []
        for folder in "control", "home":
            (self.folder / folder).mkdir()
        plain = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        self.environment = plain | {
            "HOME": str(self.folder / "home"),
            "HOLDING_LAYER_FOLDER": str(self.control),
            "KILN_DIR": str(self.cache),
            "KILN_TRACE": str(self.folder / "trace"),
            "KILN_HELPER": "0",  # no process may outlive the test
            # The lowest layer comes first.
            "OPENCL_LAYERS": f"{options.holding}:{options.layer}",
        }

    def close(self):
        for process in self.processes:
            process.end()
        shutil.rmtree(self.folder)

    # ---- processes ----

    def start_command(self, *command):
        self.processes.append(Process(self, command))
        return self.processes[-1]

    def start(self, program):
        """Starts a process that builds a program, runs it and prints the result."""
        path = self.folder / f"{program.name}.cl"
        path.write_text(program.source)
        return self.start_command(self.options.program, "--source", path)

    def wait_until(self, condition, what):
        end = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {TIMEOUT_SECONDS} s: {what}\n" + self.log())
            time.sleep(LOOK_EVERY_SECONDS)

    # ---- the layer below ----

    def hold(self, name):
        (self.control / f"hold-{name}").touch()

    def release(self, name):
        (self.control / f"hold-{name}").unlink()

    def log(self):
        path = self.control / "log"
        return path.read_text() if path.exists() else ""

    def steps(self):
        """Returns the steps that the holding layer has logged so far, each as a list of words."""
        return [line.split() for line in self.log().splitlines()]

    def builds(self, name):
        """Returns how many builds of a program have started at the driver."""
        return sum(step[:2] == ["begin", name] for step in self.steps())

    # ---- Kiln's trace ----

    def outcomes(self, process):
        """Returns the outcome of each request of a process: built, hit-store, …"""
        trace = (self.folder / "trace").read_text()
        return re.findall(rf"^kiln\[{process.pid}\] (\S+) key=", trace, re.MULTILINE)
