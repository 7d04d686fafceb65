# SPDX-License-Identifier: Apache-2.0
"""What the tests of doors to frameworks share. A program runs in a new home, as in a new container:
all caches of the framework are empty."""

import importlib.util
import os
import random
import subprocess
import sys

import kiln
from package import PackageTest

PROCESSES = 8


def skip_without(framework):
    """Ends the test, as skipped, if a framework is not installed."""
    if importlib.util.find_spec(framework) is None:
        print(f"{framework} is not installed: scripts/install-deps --doors")
        sys.exit(77)


def damage(path, chance):
    """Flips a bit of a file, or cuts its end off."""
    size = os.path.getsize(path)
    # Another version of the format is no damage, and stays.
    position = chance.choice([*range(8), *range(12, size)])
    with open(path, "r+b") as file:
        if chance.randrange(2):
            file.truncate(position)
            return
        file.seek(position)
        byte = file.read(1)[0] ^ 1 << chance.randrange(8)
        file.seek(position)
        file.write(bytes([byte]))


def entries(location):
    """Returns the files of the entries of a store."""
    with kiln.Store(location) as store:
        return sorted(os.path.join(location, item.path) for item in store.list())


class DoorTest(PackageTest):
    """Programs print their results, and then what became of the requests."""

    def start(self, program, *arguments, location=None, warnings="error", **environment):
        home = os.path.join(self.scratch, f"home{len(os.listdir(self.scratch))}")
        os.makedirs(home)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("KILN_", "XDG_", "JAX_", "CUPY_", "TORCH", "CUDA_"))}
        kept.update(KILN_DIR=location or self.location, HOME=home, TMPDIR=home,
                    JAX_PLATFORMS="cpu", **environment)
        return subprocess.Popen([sys.executable, "-W", warnings, "-c", program, *arguments],
                                env=kept, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process):
        """Returns what a program printed: its results, and its counts of hits and builds."""
        printed, complaints = process.communicate(timeout=300)
        self.assertEqual((process.returncode, complaints.decode()), (0, ""))
        *results, counts = printed.decode().splitlines()
        return results, tuple(map(int, counts.split()))

    def run_program(self, *arguments, **options):
        return self.finish(self.start(*arguments, **options))

    def check_processes_at_once(self, program, builds):
        """Checks that each key is built once by processes that start together."""
        processes = [self.start(program) for _ in range(PROCESSES)]
        finished = [self.finish(process) for process in processes]
        self.assertEqual([found for found, _ in finished], [finished[0][0]] * PROCESSES)
        self.assertEqual(sum(counts[1] for _, counts in finished), builds)

    def check_records(self, program, door):
        """Checks that a program's builds and hits are in the journal, the record and the trace."""
        record, trace = (os.path.join(self.scratch, name) for name in ("record", "trace"))
        for outcome in ("built", "hit-store"):
            self.run_program(program, KILN_RECORD=record, KILN_TRACE=trace)
            with open(trace, encoding="utf-8") as file:
                lines = file.read().splitlines()
            os.unlink(trace)
            with kiln.Store(self.location) as store:
                digests = sorted(item.digest for item in store.list())
            self.assertTrue(digests)
            for line in lines:
                self.assertRegex(line, rf"^kiln\[\d+\] {outcome} key=[0-9a-f]+ door={door} load=")
            self.assertEqual(sorted(line.split()[2][4:] for line in lines), digests)
            journal = os.path.join(self.location, "journal")
            for path in (record, journal):
                with open(path, "rb") as file:
                    content = file.read()
                for digest in digests:
                    self.assertGreaterEqual(content.count(bytes.fromhex(digest)),
                                            1 if outcome == "built" else 2, path)

    def check_damage_between_programs(self, program, builds, results, programs):
        """Checks that each program finds no damage, and repairs what it builds again."""
        chance = random.Random(7)
        for _ in range(programs):
            for path in entries(self.location):
                damage(path, chance)
            self.assertEqual(self.run_program(program), (results, (0, builds)))
        self.assertEqual(self.run_program(program), (results, (builds, 0)))
