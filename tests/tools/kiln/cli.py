# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command-line tool share.

Each test file is run as:  python3 FILE KILN MAKE_CACHE
"""

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import unittest

KILN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 2 else None
MAKE_CACHE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None

COUNTERS = {
    "hits_memory", "hits_store", "misses", "builds", "waits", "passed_through", "failures",
    "puts", "dropped", "corrupt", "evicted", "entries", "bytes", "requests", "build_ns",
    "saved_ns",
}


class CliTest(unittest.TestCase):
    """A scratch directory, and an environment without the caller's settings."""

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="kiln-cli-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cache = os.path.join(self.scratch, "cache")
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KILN_", "OPENCL_", "XDG_", "OCL_"))
        }
        self.environment.update(
            KILN_DIR=self.cache, KILN_FOLDERS=os.path.join(self.scratch, "folders"),
            TMPDIR=self.scratch, TZ="UTC", LC_ALL="C.UTF-8")
        self.environment.pop("NO_COLOR", None)

    def kiln(self, *arguments, expect=0, tool=None, **options):
        options.setdefault("env", self.environment)
        options.setdefault("stdin", subprocess.DEVNULL)
        result = subprocess.run(
            [tool or KILN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
            **options)
        self.assertEqual(
            result.returncode, expect,
            f"kiln {' '.join(arguments)}\n{result.stdout!r}\n{result.stderr!r}")
        return result

    def kiln_json(self, *arguments, expect=0, **options):
        result = self.kiln(*arguments, "--json", expect=expect, **options)
        lines = result.stdout.decode().splitlines()
        self.assertEqual(len(lines), 1, result.stdout)
        return json.loads(lines[0])

    def listed(self, *arguments):
        result = self.kiln("ls", "--json", *arguments)
        return [json.loads(line) for line in result.stdout.decode().splitlines()]

    def make(self, what):
        """Fills the cache; returns the digests by name, or in a list if names repeat."""
        output = subprocess.run(
            [MAKE_CACHE, what, self.cache], check=True, stdout=subprocess.PIPE,
            env=self.environment).stdout
        pairs = [line.split(b" ", 1) for line in output.splitlines()]
        if len({name for _, name in pairs}) < len(pairs):
            return [digest.decode() for digest, _ in pairs]
        return {name.decode(errors="replace"): digest.decode() for digest, name in pairs}

    def make_entry(self, what, *parts, **options):
        """Stores an entry whose key has these parts, or records its miss; returns the digest."""
        tool = os.path.join(os.path.dirname(MAKE_CACHE), "make_entry")
        given = [f"{name.replace('_', '-')}={value}" for name, value in options.items()]
        output = subprocess.run(
            [tool, self.cache, what, *given, "--", *parts], check=True, stdout=subprocess.PIPE,
            env=self.environment).stdout
        return output.decode().strip()

    def journal(self, *events, file=None):
        """Appends events: (kind, digest, time, build ms, saved ms, status, program, device, name).
        """
        tool = os.path.join(os.path.dirname(MAKE_CACHE), "make_journal")
        os.makedirs(self.cache, mode=0o700, exist_ok=True)
        lines = "".join("\t".join(str(field) for field in event) + "\n" for event in events)
        subprocess.run([tool, file or os.path.join(self.cache, "journal")], check=True,
                       input=lines.encode("utf-8", "surrogateescape"))

    def make_key_file(self, name="key", content=None):
        path = os.path.join(self.scratch, name)
        with open(path, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(os.urandom(32) if content is None else content)
        return path

    def on_terminal(self, *arguments, answer=b"", expect=0):
        """Runs the tool with a terminal for stdin and stderr; returns stdout and what the terminal
        shows."""
        self.environment["TERM"] = "xterm-256color"
        controller, terminal = pty.openpty()
        os.write(controller, answer)
        process = subprocess.Popen(
            [KILN, *arguments], stdin=terminal, stderr=terminal, env=self.environment,
            stdout=subprocess.PIPE)
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(controller, 4096):
                shown += chunk
        except OSError:  # a terminal's end of file
            pass
        output = process.communicate(timeout=60)[0]
        os.close(controller)
        self.assertEqual(process.returncode, expect, shown)
        return output, shown

    def entry_path(self, digest):
        return os.path.join(self.cache, "v1", digest[:2], digest)

    def change_byte(self, digest, offset):
        """Changes one byte of an entry's file; a negative offset counts from the end."""
        with open(self.entry_path(digest), "r+b") as file:
            file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x55]))

    def leave_temporary(self):
        """Makes the file that a writer leaves if it is killed, with times that are long past."""
        folder = os.path.join(self.cache, "v1", "requests")
        path = os.path.join(folder, ".tmp-0000000000000001")
        with open(path, "w") as file:
            file.write("half")
        os.chmod(path, 0o600)
        os.utime(path, (1000000, 1000000))
        return path

    def in_build_tree(self, layer_mode=0o644):
        """Copies the tool to folders like those of a build, with a file for a layer next to it."""
        tree = tempfile.mkdtemp(dir=self.scratch)
        tool = os.path.join(tree, "tools", "kiln", "kiln")
        layer = os.path.join(tree, "layers", "opencl", "libkiln_opencl_layer.so")
        # A tool that is not installed looks for the library in this folder.
        library = os.path.join(tree, "src", "libkiln.so.0")
        for path in (tool, layer, library):
            os.makedirs(os.path.dirname(path))
        shutil.copy(KILN, tool)
        shutil.copy(os.path.join(os.path.dirname(KILN), "../../src/libkiln.so.0"), library)
        with open(layer, "wb"):
            pass
        os.chmod(layer, layer_mode)
        return tool, layer

    def in_reach_of_others(self):
        """Copies the tool to a scratch directory that other users can enter, so that they can run
        it. The build itself may be in a home directory that is closed to them."""
        tool, _ = self.in_build_tree()
        os.chmod(self.scratch, 0o755)
        for folder, _, files in os.walk(os.path.normpath(os.path.join(tool, "../../.."))):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chmod(path, 0o755)
        return tool


def main():
    if KILN is None:
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
