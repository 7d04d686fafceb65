# SPDX-License-Identifier: Apache-2.0
"""Tests the door to torch.compile's Inductor, with PyTorch on the CPU."""

import os
import unittest

from door_test import DoorTest, entries, skip_without

skip_without("torch")

INSTALL = """
import os, sys
import torch
import kiln.inductor
if not kiln.inductor.install():
    sys.exit(kiln.inductor.door.reason)
"""
COUNTS = """
print(kiln.inductor.door.hits, kiln.inductor.door.builds)
"""
FUNCTION = """
import torch
def function(x, weight):
    return (torch.softmax(x @ weight, dim=1).cumsum(0) * x.sin()).sum()
def run(size):
    torch.manual_seed(0)
    x, weight = torch.randn(size, 16), torch.randn(16, 16, requires_grad=True)
    value = torch.compile(function)(x, weight)
    value.backward()
    return value.item(), weight.grad.double().sum().item()
"""
PROGRAM = INSTALL + FUNCTION + "print(*run(16))" + COUNTS

# Graphs of several sizes have the same key, and different guards.
SIZES = INSTALL + FUNCTION + "print(*run(16), *run(32), *run(48))" + COUNTS

DAMAGE = INSTALL + FUNCTION + """
import random, shutil
import kiln
from torch._inductor.codecache import CppPythonBindingsCodeCache, PyCodeCache, cache_dir
sys.path.insert(0, sys.argv[1])
from door_test import damage, entries
location = os.environ["KILN_DIR"]
chance = random.Random(5)
expected = run(16)
with kiln.Store(location) as store:
    graphs = [os.path.join(location, item.path) for item in store.list()
              if item.name in ("FxGraphCache", "AOTAutogradCache")]
assert len(graphs) == 3, graphs
for turn in range(200):
    builds = kiln.inductor.door.builds
    damage(chance.choice(graphs), chance)
    torch.compiler.reset()
    PyCodeCache.cache_clear()
    for name in ("fxgraph", "aotautograd"):
        shutil.rmtree(os.path.join(cache_dir(), name), ignore_errors=True)
    assert run(16) == expected, turn
    # Entries of graphs are asked for only if the entry of AOTAutograd was damaged.
    assert kiln.inductor.door.builds - builds <= 3, turn
assert kiln.inductor.door.builds > 60
""" + COUNTS


# Runs many programs, each in a child that inherits only what it would import.
CHILDREN = INSTALL + FUNCTION + """
import random, traceback
sys.path.insert(0, sys.argv[1])
from door_test import damage, entries
chance = random.Random(8)
for turn in range(200):
    damage(chance.choice(entries(os.environ["KILN_DIR"])), chance)
    child = os.fork()
    if child == 0:
        try:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.expanduser(f"~/inductor{turn}")
            printed = " ".join(map(str, run(16)))
            os._exit(printed != sys.argv[2])
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0, turn
""" + COUNTS


class InductorLongTest(DoorTest):
    def finish(self, process):
        """PyTorch warns on machines without CUDA, and Python of these warnings' own faults."""
        printed, complaints = process.communicate(timeout=900)
        self.assertEqual(process.returncode, 0, complaints.decode())
        *results, counts = printed.decode().splitlines()
        return results, tuple(map(int, counts.split()))

    def start(self, program, *arguments, **options):
        return super().start(program, *arguments, warnings="default", **options)

    def test_cold_warm_and_damaged(self):
        plain, _ = self.run_program(FUNCTION + "print(*run(16))\nprint(0, 0)")
        cold, (hits, builds) = self.run_program(PROGRAM)
        self.assertEqual((cold, hits), (plain, 0))
        self.assertGreater(builds, 4)
        self.assertEqual(self.run_program(PROGRAM), (plain, (builds, 0)))
        self.check_damage_between_programs(PROGRAM, builds, plain, 5)

    def test_guards(self):
        results, (_, builds) = self.run_program(SIZES)
        self.assertGreater(builds, 4)
        again, (_, builds) = self.run_program(SIZES)
        self.assertEqual((again, builds), (results, 0))

    def test_processes_at_once(self):
        self.run_program(PROGRAM)
        libraries = self.libraries()
        self.location += "-shared"
        processes = [self.start(PROGRAM) for _ in range(4)]
        finished = [self.finish(process) for process in processes]
        self.assertEqual(len({tuple(results) for results, _ in finished}), 1)
        self.assertEqual(self.libraries(), libraries)

    def libraries(self):
        return len(entries(self.location))

    def test_damage(self):
        self.run_program(DAMAGE, os.path.dirname(os.path.abspath(__file__)))

    def test_damage_between_200_programs(self):
        (result,), _ = self.run_program(PROGRAM)
        self.run_program(CHILDREN, os.path.dirname(os.path.abspath(__file__)), result)
        # An entry that was not needed may still be damaged.
        for _ in range(2):
            results, (_, builds) = self.run_program(PROGRAM)
            self.assertEqual(results, [result])
        self.assertEqual(builds, 0)


if __name__ == "__main__":
    unittest.main()
