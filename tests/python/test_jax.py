# SPDX-License-Identifier: Apache-2.0
"""Tests the door to JAX, with JAX on the CPU."""

import json
import os
import subprocess
import unittest

from door_test import DoorTest, entries, skip_without

skip_without("jax")

INSTALL = """
import sys
import kiln.jax
import jax, jax.numpy as jnp
if not kiln.jax.install():
    sys.exit(kiln.jax.door.reason)
"""
COUNTS = """
print(kiln.jax.door.hits, kiln.jax.door.builds)
"""
FUNCTIONS = """
@jax.jit
def spectrum(x):
    return jnp.sin(x) @ x.T + jnp.fft.fft(x).real.sum()
@jax.jit
def order(x):
    return jnp.sort(jnp.tanh(x), axis=0).cumsum(1)
gradient = jax.jit(jax.value_and_grad(lambda x: (jnp.exp(-x) @ x).sum()))
x = jnp.arange(1024, dtype=jnp.float32).reshape(32, 32) / 1024
import hashlib
print(hashlib.sha256(spectrum(x).tobytes() + order(x).tobytes()).hexdigest(), *gradient(x)[:1])
"""
PROGRAM = INSTALL + FUNCTIONS + COUNTS

# Compiles little, to be run many times.
SMALL = INSTALL + "print(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.arange(8.0)))" + COUNTS

# Compiles one function again and again, each time with a damaged entry.
DAMAGE = INSTALL + """
import os, random
sys.path.insert(0, sys.argv[1])
from door_test import damage, entries
chance = random.Random(3)
x = jnp.arange(8, dtype=jnp.float32)
def function(x):
    return x * 3 + 1
old = set(entries(os.environ["KILN_DIR"]))
expected = jax.jit(function)(x).tolist()
(path,) = set(entries(os.environ["KILN_DIR"])) - old
for turn in range(int(sys.argv[2])):
    hits, builds = kiln.jax.door.hits, kiln.jax.door.builds
    damage(path, chance)
    for has_hit in (0, 1) if turn % 10 == 0 else (0,):
        jax.clear_caches()
        assert jax.jit(function)(x).tolist() == expected, turn
        assert (kiln.jax.door.hits, kiln.jax.door.builds) == (hits + has_hit, builds + 1), turn
# Many more, with the executable that JAX would compile again.
from jax._src import compilation_cache
cache = compilation_cache._get_cache(jax.devices()[0].client)
cache.put("name-00", expected := b"executable" * 1000)
(path,) = set(entries(os.environ["KILN_DIR"])) - old - {path}
for turn in range(200):
    damage(path, chance)
    assert cache.get("name-00") is None, turn
    cache.put("name-00", expected)
    assert cache.get("name-00") == expected, turn
""" + COUNTS

# Compiles with threads at once, and with a function that fails to compile.
THREADS = INSTALL + """
import threading
start = threading.Barrier(8)
def run():
    start.wait()
    spectrum(x).block_until_ready()
""" + FUNCTIONS.partition("import hashlib")[0] + "spectrum(x)" + """
before = kiln.jax.door.builds
jax.clear_caches()
threads = [threading.Thread(target=run) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert kiln.jax.door.builds == before
try:
    jax.jit(lambda x: jax.lax.custom_linear_solve)(x)
    raise AssertionError
except TypeError:
    pass
""" + COUNTS

CALLBACK = INSTALL + """
import numpy
def add(x):
    return numpy.asarray(x) + int(sys.argv[1])
x = jnp.zeros(4, jnp.float32)
print(jax.jit(lambda x: jax.pure_callback(add, jax.ShapeDtypeStruct((4,), jnp.float32), x))(x))
print(0, 0)
"""


class JaxTest(DoorTest):
    def test_cold_and_warm(self):
        plain, _ = self.run_program("import jax, jax.numpy as jnp" + FUNCTIONS + "print(0, 0)")
        cold, (hits, builds) = self.run_program(PROGRAM)
        self.assertEqual((cold, hits), (plain, 0))
        self.assertGreaterEqual(builds, 3)
        self.assertEqual(self.run_program(PROGRAM), (plain, (builds, 0)))

    def test_records(self):
        self.check_records(PROGRAM, "jax")

    def test_damage(self):
        self.run_program(DAMAGE, os.path.dirname(os.path.abspath(__file__)), "5")

    def test_damage_between_programs(self):
        results, (_, builds) = self.run_program(SMALL)
        self.check_damage_between_programs(SMALL, builds, results, 5)

    @unittest.skipUnless("KILN_TOOL" in os.environ, "without the tool")
    def test_why(self):
        def differences(program, **environment):
            """Returns what differs from the nearest entry, according to `kiln why`."""
            self.run_program(program, KILN_LAST_MISS="1", **environment)
            printed = subprocess.run(
                [os.environ["KILN_TOOL"], "why", "--dir", self.location, "--last", "--json"],
                stdout=subprocess.PIPE, check=True).stdout
            parts = json.loads(printed)["neighbours"][0]["parts"]
            return {part["name"]: part for part in parts if part["name"] != "key"}

        program = INSTALL + "print(jax.jit(lambda x: x * 2)(jnp.arange(8.0)))" + COUNTS
        differences(program)
        changed = differences(program.replace("x * 2", "x - 2"))
        self.assertEqual(list(changed), ["module"])
        part = changed["module"]
        self.assertGreater(part["line"], 1)
        self.assertIn("stablehlo.subtract", part["wanted"]["text"])
        flags = "--xla_cpu_enable_fast_math=true"
        changed = differences(program.replace("x * 2", "x - 2"), XLA_FLAGS=flags)
        self.assertEqual(changed["XLA_FLAGS"]["wanted"]["text"], flags)
        self.assertNotIn("module", changed)

    def test_what_is_not_known_passes_through(self):
        program = """
import jax.version, kiln.jax
jax.version.__version__ = "999.1"
assert not kiln.jax.install() and not kiln.jax.install()
import jax
jax.jit(lambda x: x + 1)(1)
print(kiln.jax.door.reason)
print(kiln.jax.door.hits, kiln.jax.door.builds)
"""
        self.assertEqual(self.run_program(program), (["JAX 999.1 is not known"], (0, 0)))
        program = program.replace('__version__ = "999.1"', "__file__")
        self.assertEqual(self.run_program(program, KILN_DISABLE="1"),
                         (["Kiln is turned off, or has no store"], (0, 0)))


class JaxLongTest(DoorTest):
    def test_processes_at_once(self):
        self.run_program(PROGRAM)
        builds = len(entries(self.location))
        self.location += "-shared"
        self.check_processes_at_once(PROGRAM, builds)

    def test_damage(self):
        self.run_program(DAMAGE, os.path.dirname(os.path.abspath(__file__)), "200")

    def test_damage_between_programs(self):
        results, (_, builds) = self.run_program(PROGRAM)
        self.check_damage_between_programs(PROGRAM, builds, results, 200)

    def test_threads(self):
        self.run_program(THREADS)

    def test_callbacks_are_not_confused(self):
        for number in (1, 2):
            results, _ = self.run_program(CALLBACK, str(number))
            self.assertEqual(results, [f"[{number}. {number}. {number}. {number}.]"])

    def test_a_different_processor(self):
        _, (_, builds) = self.run_program(PROGRAM)
        different = ("import kiln._door\n"
                     "kiln._door.processor = lambda: 'flags: a different processor'\n")
        self.assertEqual(self.run_program(different + PROGRAM)[1], (0, builds))
        unknown = "import kiln._door\nkiln._door.processor = lambda: ''\n"
        self.assertEqual(self.run_program(unknown + PROGRAM)[1], (0, 0))

    def test_the_folder_of_the_program(self):
        folder = os.path.join(self.scratch, "folder")
        settings = {"JAX_COMPILATION_CACHE_DIR": folder,
                    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1000"}
        results, (_, builds) = self.run_program(PROGRAM, **settings)
        # The program's own limit holds for its own folder.
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(self.run_program(PROGRAM, **settings), (results, (builds, 0)))
        settings["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        self.location += "-empty"
        self.assertEqual(self.run_program(PROGRAM, **settings), (results, (0, builds)))
        self.assertEqual(len([name for name in os.listdir(folder) if name.endswith("-cache")]),
                         builds)
        # The folder is asked if the store has nothing.
        self.location += "-too"
        self.assertEqual(self.run_program(PROGRAM, **settings), (results, (0, 0)))


if __name__ == "__main__":
    unittest.main()
