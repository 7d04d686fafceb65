# SPDX-License-Identifier: Apache-2.0
"""Tests how the package behaves at import and exit, in sub-interpreters, under misuse, and whether
it leaks."""

import ast
import gc
import importlib.util
import os
import random
import sys
import tracemalloc
import unittest

import kiln
from package import PackageTest, key_of


class ImportTest(PackageTest):
    def test_the_stub_has_all_names(self):
        """Compares the names of each type in the stub with those at run time."""
        with open(os.path.join(os.path.dirname(kiln.__file__), "_kiln.pyi")) as file:
            classes = {node.name: node for node in ast.parse(file.read()).body
                       if isinstance(node, ast.ClassDef) and not node.name.startswith("_")}
        self.assertEqual(set(classes), set(kiln.__all__))
        for name, node in classes.items():
            described = {statement.name for statement in node.body
                         if isinstance(statement, ast.FunctionDef)}
            present = {attribute for attribute in vars(getattr(kiln, name))
                       if not attribute.startswith("_") and not attribute.startswith("n_")}
            self.assertEqual({attribute for attribute in described if attribute[0] != "_"}, present,
                             name)
            for attribute in present:
                self.assertTrue(getattr(getattr(kiln, name), attribute).__doc__, attribute)
            self.assertTrue(getattr(kiln, name).__doc__)

    def test_import_loads_nothing_else(self):
        program = ("import sys; before = set(sys.modules); import kiln; "
                   "print(sorted(name for name in set(sys.modules) - before "
                   "if not name.startswith('encodings.')))")
        self.assertEqual(self.run_python(program), "['kiln', 'kiln._kiln']\n")

    def test_a_free_threaded_python_is_refused(self):
        program = ("import sys; sys.abiflags = 't'\n"
                   "try:\n    import kiln\nexcept ImportError as error:\n    print(error)")
        self.assertIn("free-threaded", self.run_python(program))

    def test_an_import_that_is_repeated(self):
        program = """
import sys, kiln
old = kiln
store = old.Store(sys.argv[1])
for name in ("kiln", "kiln._kiln"):
    del sys.modules[name]
import kiln
assert kiln.Key is not old.Key
for call in (lambda: store.get(old.Key({"a": 1})), lambda: store.put(old.Entry(old.Key([]), b""))):
    try:
        call()
    except TypeError as error:
        pass
store.list(), store.stat()
print("sound")
"""
        self.assertEqual(self.run_python(program, self.location), "sound\n")


class ExitTest(PackageTest):
    def test_exit_beside_threads(self):
        """Exits while daemon threads build, wait for a build or a lease, or read the store."""
        program = """
import sys, threading, time, kiln
store = kiln.Store(sys.argv[1])
cache = kiln.Cache(store)
key = kiln.Key({"a": 1})
lease = store.lease(kiln.Key({"held": 1}))
def spin():
    while True:
        store.put(kiln.Entry(kiln.Key({"n": 1}), bytes(100000)))
        store.get(kiln.Key({"n": 1})).payload[0]
        store.list()
for work in (lambda: cache.get_or_build(key, lambda: time.sleep(30)),
             lambda: cache.get_or_build(key, lambda: b""),
             lambda: cache.get_or_build(kiln.Key({"held": 1}), lambda: b""),
             lambda: store.lease(kiln.Key({"held": 1}), wait=30), spin, spin):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
        for turn in range(3):
            self.run_python(program, f"{self.location}{turn}")

    def test_waits_that_nothing_can_end(self):
        """Calls wait for a thread that was building with the lease when Python ended it."""
        program = """
import functools, os, sys, threading, time, kiln
store = kiln.Store(sys.argv[1])
cache, other = kiln.Cache(store), kiln.Cache(store)
key = kiln.Key({"a": 1})
# Without a frame of this module, which would keep the module's variables alive.
build = functools.partial(time.sleep, 1000)
threading.Thread(target=cache.get_or_build, args=(key, build), daemon=True).start()
while store.lease(key):
    time.sleep(0.01)
class Late:
    def __init__(self):
        self.calls = [functools.partial(cache.get_or_build, key, bytes),
                      functools.partial(other.get_or_build, key, bytes, wait=1000),
                      functools.partial(store.lease, key, wait=1000)]
    def __del__(self, error=RuntimeError, write=os.write):
        for call in self.calls:
            try:
                call()
            except error as caught:
                write(1, b"%s\\n" % str(caught).encode())
late = Late()
"""
        self.assertEqual(self.run_python(program, self.location),
                         3 * "kiln cannot be used while the interpreter is ending\n")

    def test_use_while_the_interpreter_ends(self):
        program = """
import sys, kiln, atexit
class Late:
    def __init__(self):
        self.store = kiln.Store(sys.argv[1])
        self.cache = kiln.Cache(self.store)
        self.key = kiln.Key({"a": 1})
        self.entry = self.cache.get_or_build(self.key, lambda: b"x")
        self.kiln = kiln
    def __del__(self):
        for call in (lambda: self.store.get(self.key), lambda: self.cache.get_or_build(
                     self.key, lambda: b""), lambda: self.kiln.Key({"b": 1}), self.store.list,
                     lambda: self.store.lease(self.key), self.cache.stat,
                     lambda: self.kiln.Store("nowhere"), lambda: self.entry.key):
            try:
                call()
            except (RuntimeError, self.kiln.Error):
                pass
late = Late()
late.cycle = late
sys.late = Late()
atexit.register(late.__del__)
"""
        self.run_python(program, self.location)

    def test_sub_interpreters(self):
        """A sub-interpreter that shares the GIL has its own module. A sub-interpreter with its own
        GIL cannot import the package."""
        if not any(importlib.util.find_spec(name)
                   for name in ("_xxsubinterpreters", "_interpreters")):
            self.skipTest("this Python has no module for sub-interpreters")
        program = """
import sys, kiln
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
script = '''
import sys
sys.path[:] = PATH
try:
    import kiln
except ImportError:
    with open(LOG, "a") as file:
        file.write("refused\\\\n")
else:
    store = kiln.Store(LOCATION)
    entry = kiln.Cache(store).get_or_build(kiln.Key({"a": 1}), lambda: b"x")
    late = [store, entry.payload]
    late.append(late)
    try:
        kiln.Store("nowhere")
    except kiln.Error:
        with open(LOG, "a") as file:
            file.write("used\\\\n")
'''
script = (script.replace("PATH", repr(sys.path)).replace("LOG", repr(sys.argv[2]))
          .replace("LOCATION", repr(sys.argv[1])))
main = kiln.Cache(kiln.Store(sys.argv[1]))
for turn in range(5):
    for options in ({"isolated": False}, {}) if sys.version_info < (3, 13) else (("legacy",), ()):
        if isinstance(options, dict):
            other = interpreters.create(**options)
        else:
            other = interpreters.create(*options)
        interpreters.run_string(other, script)
        interpreters.destroy(other)
    main.get_or_build(kiln.Key({"b": turn}), lambda: b"x")
with open(sys.argv[2]) as file:
    print(*sorted(set(file.read().split())))
"""
        printed = self.run_python(program, self.location, os.path.join(self.scratch, "log"))
        self.assertIn(printed, ("used\n", "refused used\n"))
        if sys.version_info >= (3, 12):
            self.assertEqual(printed, "refused used\n")


class MisuseTest(PackageTest):
    def test_arguments_of_any_type(self):
        """Calls everything with random arguments: it may raise, and nothing else."""
        chance = random.Random(7)
        store = self.open()
        cache = kiln.Cache(store)
        key = key_of("a")
        entry = kiln.Entry(key, b"payload")
        pool = [None, True, 0, -1, 2**63, 2**64, 10**30, 1.5, float("nan"), float("inf"), "", "a",
                "\0", "\ud800", "x" * 300, b"", b"a\0", bytearray(b"x"), memoryview(b"abc")[::2],
                [], [("a", 1)], {}, {"a": b""}, {"a": object()}, set(), object(), len, bytes,
                lambda *arguments: b"x", lambda: 1 / 0, key, entry, store, cache, kiln, kiln.Key,
                entry.payload, type, NotImplemented, range(3), iter([("a", "b")])]
        names = ["key", "payload", "name", "build", "wait", "exact", "store", "policy", "max_bytes"]
        calls = [kiln.Key, kiln.Entry, kiln.Cache, kiln.Lease, kiln.KeyPart, kiln.Stats,
                 kiln.StoreItem, kiln.Error]
        for thing in (key, entry, store, cache, store.lease(key_of("lease")), store.stat()):
            for name in dir(type(thing)):
                # These calls change the type for the tests that follow, or wait for input.
                if name in ("__class__", "__setattr__", "__delattr__", "__init_subclass__",
                            "__subclasshook__", "close", "__exit__", "from_environment"):
                    continue
                value = getattr(thing, name)
                if callable(value):
                    calls.append(value)
        done = 0
        for _ in range(12000):
            call = chance.choice(calls)
            arguments = [chance.choice(pool) for _ in range(chance.randrange(4))]
            options = ({chance.choice(names): chance.choice(pool)} if chance.random() < 0.3 else {})
            if "wait" in options or getattr(call, "__name__", "") == "lease":
                arguments = arguments[:1]
                options.pop("wait", None)
            try:
                call(*arguments, **options)
                done += 1
            except Exception:
                pass
        self.assertGreater(done, 500)

    def test_changes_during_a_call(self):
        """Code that the call itself runs closes, removes and clears what the call uses."""
        store = self.open()
        cache = kiln.Cache(store)
        key = key_of("a")

        def build():
            nonlocal cache
            cache.remove(key)
            store.close()
            cache = None
            gc.collect()
            return b"x"

        self.assertEqual(bytes(cache.get_or_build(key, build)), b"x")
        pairs = [["a", 1], ["b", 2]]

        class Shrinks:
            def __iter__(self):
                yield pairs[0]
                pairs[0].clear()
                yield pairs[1]

        with self.assertRaises(TypeError):
            kiln.Key(Shrinks())

    def test_nothing_leaks(self):
        """Repeats everything, and measures Python's memory and the process's."""
        def work():
            with kiln.Store(self.location) as store:
                cache = kiln.Cache(store)
                key = kiln.Key({"a": "x" * 1000, "n": 3})
                with store.lease(key):
                    key.parts, key.digest, repr(key), hash(key)
                for _ in range(3):
                    entry = cache.get_or_build(key, lambda: bytes(20000),
                                               name=f"a name of its own {len(key.parts)}")
                bytes(entry.payload[:10]), entry.key, entry.metadata, entry.log, repr(entry)
                store.list(), store.stat(), cache.stat()
                for wrong in (lambda: cache.get_or_build(key_of("b"), lambda: 1 / 0),
                              lambda: kiln.Store("nowhere"), lambda: kiln.Key({"a": -1}),
                              lambda: kiln.Entry(key, 3), lambda: store.get(3),
                              lambda: cache.get_or_build(key_of("c"), lambda: 3)):
                    with self.assertRaises(Exception):
                        wrong()
                cache.remove(key)

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def repeat(times):
            for _ in range(times):
                work()
            gc.collect()
            return tracemalloc.get_traced_memory()[0], resident()

        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        objects, pages = repeat(50)
        objects_later, pages_later = repeat(1000)
        # The interpreter's own caches use some memory. If each turn leaked an object, the leaks
        # would take 50,000 bytes at least; if it leaked an entry, 20 MB.
        self.assertLess(objects_later - objects, 30_000)
        self.assertLess(pages_later - pages, 3_000_000)


if __name__ == "__main__":
    unittest.main()
