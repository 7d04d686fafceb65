#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_second_pod.py KILN BUILD_FOLDER COMMAND…: one machine has built a program's kernels and put
them onto a Redis server. A container that has nothing but the program, the public key and the URL
of the server then compiles nothing.

If the system does not let this user make containers, the second run only has an empty home
directory. The first line of the output says which of the two was tested."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import redis_server

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(TESTS, "support"))
import pod

KILN, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
COMMAND = [os.path.abspath(shutil.which(sys.argv[3])), *sys.argv[4:]]


class SecondPodTest(unittest.TestCase):
    def setUp(self):
        redis_server.require()
        self.scratch = tempfile.mkdtemp(prefix="kiln-pod-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.server = redis_server.RedisServer(self.folder("server"))
        self.addCleanup(self.server.stop)
        self.shown = {path: path for path in (
            os.path.dirname(TESTS), BUILD, os.path.realpath(os.path.join(BUILD, "runtimes")),
            sys.base_prefix) if os.path.isdir(path)}
        self.environment = {}
        if "OCL_ICD_VENDORS" in os.environ:
            self.environment["OCL_ICD_VENDORS"] = self.copy_vendors(os.environ["OCL_ICD_VENDORS"])
        made = self.outside(KILN, "key", "new", "team-1",
                            XDG_CONFIG_HOME=self.folder("writer")).stdout
        self.secret = os.path.join(self.scratch, "writer/kiln/keys/team-1")
        self.outside(KILN, "key", "trust", made.split()[0].decode(),
                     XDG_CONFIG_HOME=self.folder("config"))

    def folder(self, name):
        path = os.path.join(self.scratch, name)
        os.mkdir(path, 0o700)
        return path

    def copy_vendors(self, vendors):
        """Names the drivers by their real paths, which they have in the container too."""
        copied = self.folder("vendors")
        self.shown[copied] = copied
        for name in os.listdir(vendors):
            with open(os.path.join(vendors, name)) as file:
                library = os.path.realpath(file.read().strip())
            with open(os.path.join(copied, name), "w") as file:
                file.write(library)
            self.shown[os.path.dirname(library)] = os.path.dirname(library)
        return copied

    def outside(self, *command, **variables):
        home = tempfile.mkdtemp(dir=self.scratch)
        environment = self.environment | {"HOME": home, "PATH": os.environ["PATH"]} | variables
        return self.check(subprocess.run(command, env=environment, cwd=home, timeout=300,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE))

    def check(self, result):
        self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
        return result

    def outcomes(self, path):
        with open(path) as file:
            text = file.read()
        return re.findall(r"^kiln\[\d+\] (\S+) key=", text, re.MULTILINE)

    def in_pod(self):
        """Runs the program where only the server's socket, the trusted keys and the program are.
        Returns what it printed, and the outcomes of its requests."""
        output = self.folder("output")
        if pod.has_pods():
            shown = {f"/{name}": os.path.join(self.scratch, name)
                     for name in ("server", "config", "output")}
            result = pod.run(self.folder("root"), self.shown | shown, self.environment | {
                "KILN_DIR": "redis+unix:///server/redis?readonly=1", "XDG_CONFIG_HOME": "/config",
                "KILN_TRACE": "/output/trace"}, [KILN, "run", "--", *COMMAND])
            result = self.check(result)
        else:
            result = self.outside(
                KILN, "run", "--", *COMMAND, KILN_DIR=self.server.location("readonly=1"),
                XDG_CONFIG_HOME=os.path.join(self.scratch, "config"),
                KILN_TRACE=os.path.join(output, "trace"))
        return result.stdout, self.outcomes(os.path.join(output, "trace"))

    def test_a_second_pod_compiles_nothing(self):
        trace = os.path.join(self.scratch, "trace")
        first = self.outside(
            KILN, "run", "--", *COMMAND, KILN_DIR=f"{self.scratch}/cache|{self.server.location('lease=on')}",
            KILN_SECRET_KEY_FILE=self.secret, KILN_TRACE=trace)
        outcomes = self.outcomes(trace)
        built = outcomes.count("built")
        self.assertGreater(built, 0)
        self.assertLessEqual(set(outcomes), {"built", "hit-memory"})
        entries = [name for name in self.server.names() if not name.endswith(b":device")]
        self.assertEqual(len(entries), built)

        answer, found = self.in_pod()
        self.assertLessEqual(set(found), {"hit-store", "hit-memory"})
        self.assertEqual(found.count("hit-store"), built)
        self.assertEqual(answer, first.stdout)


if __name__ == "__main__":
    print("in a container" if pod.has_pods() else "with an empty home directory", flush=True)
    unittest.main(argv=sys.argv[:1])
