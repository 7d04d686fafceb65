# SPDX-License-Identifier: Apache-2.0
"""Tests Cache.get_or_build with threads and processes."""

import multiprocessing
import os
import threading
import time
import unittest

import kiln
from package import PackageTest, key_of, unexpected_build

THREADS = 8


def in_threads(function, count=THREADS):
    """Calls function(number) in threads, and returns what the calls returned or raised."""
    results = [None] * count

    def call(number):
        try:
            results[number] = function(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def build_in_process(location, log, start):
    """Builds four keys, and writes a line for each build."""
    cache = kiln.Cache(kiln.Store(location))
    start.wait()

    def build(number):
        with open(log, "a") as file:
            file.write(f"{number}\n")
        time.sleep(0.05)
        return b"payload %d" % number

    for number in range(4):
        entry = cache.get_or_build(key_of(str(number)), lambda: build(number))
        assert bytes(entry) == b"payload %d" % number


def read_in_process(cache, store):
    """Uses what a forked child inherits."""
    assert bytes(cache.get_or_build(key_of("ready"), unexpected_build)) == b"ready"
    assert bytes(cache.get_or_build(key_of("being built"), lambda: b"child")) == b"child"
    assert bytes(store.get(key_of("ready"))) == b"ready"
    store.close()


class CacheTest(PackageTest):
    def test_prefetch(self):
        store = self.open()
        for name in "abc":
            store.put(kiln.Entry(key_of(name), name.encode(), build_ns=10**9))
        cache = kiln.Cache(store)
        keys = [key_of(name) for name in "xabacx"]
        self.assertEqual(cache.prefetch(iter(keys)), 3)
        self.assertEqual(cache.prefetch(keys), 0)
        self.assertEqual(cache.prefetch([]), 0)
        for name in "abc":
            store.remove(key_of(name))
            self.assertEqual(bytes(cache.get_or_build(key_of(name), unexpected_build)),
                             name.encode())
        self.assertEqual(bytes(cache.get_or_build(key_of("x"), lambda: b"built")), b"built")
        totals = cache.stat().totals
        self.assertEqual((totals.hits_store, totals.hits_memory, totals.builds, totals.misses),
                         (3, 3, 1, 1))
        self.assertEqual(totals.saved_ns, 3 * 10**9)
        self.assertEqual(store.stat().totals.hits_store, 3)
        self.assertEqual(kiln.Cache().prefetch(keys), 0)
        for wrong in (None, 7, key_of("a"), ["a"], [key_of("a"), None]):
            with self.subTest(wrong), self.assertRaises(TypeError):
                cache.prefetch(wrong)
        store.close()
        with self.assertRaises(ValueError):
            cache.prefetch(keys)

    def test_prefetch_while_threads_build(self):
        store = self.open()
        store.put(kiln.Entry(key_of("0"), b"0"))
        cache = kiln.Cache(store)
        keys = [key_of(str(number)) for number in range(4)]

        def call(number):
            if number % 2:
                return cache.prefetch(keys)
            return [bytes(cache.get_or_build(key, lambda: b"built")) for key in keys]

        for number, result in enumerate(in_threads(call)):
            self.assertIn(result, (0, 1) if number % 2 else ([b"0"] + [b"built"] * 3,))

    def test_memory_then_store_then_build(self):
        store = self.open()
        cache = kiln.Cache(store)
        entry = cache.get_or_build(key_of("a"), lambda: b"payload", name="n")
        self.assertEqual((bytes(entry), entry.name, entry.key), (b"payload", "n", key_of("a")))
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), unexpected_build)), b"payload")
        second = kiln.Cache(self.open())
        found = second.get_or_build(key_of("a"), unexpected_build)
        self.assertEqual((bytes(found), found.name, found.build_ns),
                         (b"payload", "n", entry.build_ns))
        self.assertGreater(entry.build_ns, 0)
        totals = cache.stat().totals
        self.assertEqual((totals.hits_memory, totals.hits_store, totals.misses, totals.builds,
                          totals.puts, totals.build_ns), (1, 0, 1, 1, 1, totals.build_ns))
        self.assertEqual(second.stat().totals.hits_store, 1)
        self.assertEqual((cache.stat().entries, second.stat().entries), (1, 1))

    def test_without_a_store(self):
        cache = kiln.Cache()
        self.assertIsNone(cache.store)
        cache.get_or_build(key_of("a"), lambda: b"x")
        cache.get_or_build(key_of("a"), unexpected_build)
        self.assertTrue(cache.remove(key_of("a")))
        self.assertFalse(cache.remove(key_of("a")))

    def test_the_totals_of_the_store(self):
        store = self.open()
        cache = kiln.Cache(store)
        for _ in range(5):
            cache.get_or_build(key_of("a"), lambda: b"x")
        kiln.Cache(store).get_or_build(key_of("a"), unexpected_build)
        with self.assertRaises(ZeroDivisionError):
            cache.get_or_build(key_of("b"), lambda: 1 / 0)
        del cache
        totals = self.open().stat().totals
        self.assertEqual((totals.hits_memory, totals.hits_store, totals.misses, totals.builds,
                          totals.failures, totals.puts), (4, 1, 2, 2, 1, 1))

    def test_a_build_may_return_an_entry(self):
        cache = kiln.Cache(self.open())
        key = key_of("a")
        entry = cache.get_or_build(key, lambda: kiln.Entry(key, b"x", name="n", metadata=b"m",
                                                           log="l"))
        self.assertEqual((entry.name, entry.metadata, entry.log), ("n", b"m", "l"))
        self.assertGreater(entry.build_ns, 0)
        kept = kiln.Cache().get_or_build(key, lambda: kiln.Entry(key, b"x", build_ns=3))
        self.assertEqual(kept.build_ns, 3)
        with self.assertRaisesRegex(ValueError, "different key"):
            cache.get_or_build(key_of("b"), lambda: entry)
        for wrong in (None, 3, "text", [1]):
            with self.assertRaisesRegex(TypeError, "what build returned"):
                cache.get_or_build(key_of("c"), lambda: wrong)
        self.assertEqual(bytes(cache.get_or_build(key_of("c"), lambda: bytearray(b"y"))), b"y")

    def test_damaged_entries_are_built_again(self):
        store = self.open()
        kiln.Cache(store).get_or_build(key_of("a"), lambda: bytes(5000))
        (item,) = store.list()
        path = os.path.join(self.location, item.path)
        with open(path, "r+b") as file:
            file.truncate(3000)
        cache = kiln.Cache(store)
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), lambda: b"new")), b"new")
        self.assertGreater(cache.stat().totals.corrupt, 0)
        self.assertEqual(bytes(kiln.Cache(store).get_or_build(key_of("a"), unexpected_build)),
                         b"new")

    def test_a_store_that_refuses_is_a_miss(self):
        cache = kiln.Cache(kiln.Store(self.location, max_bytes=1))
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), lambda: bytes(100))), bytes(100))
        self.assertEqual(cache.stat().totals.dropped, 1)
        self.assertIsNone(self.open().get(key_of("a")))

    def test_a_server_that_is_away_is_a_miss(self):
        with open(os.open(self.scratch + "/key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(bytes(range(32)))
        store = kiln.Store("redis+unix://" + self.scratch + "/socket",
                           key_file=self.scratch + "/key")
        with self.assertRaisesRegex(kiln.Error, "socket.*" + key_of("a").digest):
            store.get(key_of("a"))
        cache = kiln.Cache(store)
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), lambda: b"x")), b"x")
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), unexpected_build)), b"x")

    def test_removed_from_both(self):
        store = self.open()
        cache = kiln.Cache(store)
        cache.get_or_build(key_of("a"), lambda: b"old")
        self.assertTrue(cache.remove(key_of("a")))
        self.assertFalse(cache.remove(key_of("a")))
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), lambda: b"new")), b"new")

    def test_bounds(self):
        cache = kiln.Cache(max_bytes=100_000, max_entries=10, policy="lru")
        held = cache.get_or_build(key_of("0"), lambda: bytes(10_000)).payload
        for number in range(1, 50):
            cache.get_or_build(key_of(str(number)), lambda: bytes(10_000))
        stat = cache.stat()
        self.assertLessEqual(stat.bytes, 100_000)
        self.assertGreater(stat.totals.evicted, 30)
        self.assertEqual(bytes(held), bytes(10_000))
        full = kiln.Cache(max_entries=1, policy="no_evict")
        full.get_or_build(key_of("a"), lambda: b"a")
        self.assertEqual(bytes(full.get_or_build(key_of("b"), lambda: b"b")), b"b")
        for options in ({"max_bytes": 0}, {"max_entries": -1}, {"policy": "x"}, {"policy": 3},
                        {"store": 3}, {"store": "/x"}, {"size": 3}):
            with self.subTest(options=options), self.assertRaises((TypeError, ValueError)):
                kiln.Cache(**options)

    def test_wrong_arguments(self):
        cache = kiln.Cache()
        for arguments, options in [
                ((), {}), ((key_of("a"),), {}), (("a", bytes), {}), ((key_of("a"), 3), {}),
                ((key_of("a"), bytes), {"name": 3}), ((key_of("a"), bytes), {"wait": -1}),
                ((key_of("a"), bytes), {"wait": "x"}), ((key_of("a"), bytes, 3), {})]:
            with self.subTest(arguments=arguments), self.assertRaises((TypeError, ValueError)):
                cache.get_or_build(*arguments, **options)


class ThreadTest(PackageTest):
    def test_one_build_for_all_threads(self):
        for store in (None, self.open()):
            cache = kiln.Cache(store)
            builds = []

            def build():
                builds.append(1)
                time.sleep(0.1)
                return b"x"

            results = in_threads(lambda _: bytes(cache.get_or_build(key_of("a"), build)))
            self.assertEqual((results, len(builds)), ([b"x"] * THREADS, 1))
            totals = cache.stat().totals
            self.assertEqual(totals.builds + totals.hits_memory, THREADS)

    def test_an_exception_reaches_its_own_caller(self):
        cache = kiln.Cache(self.open())
        is_waited_for = threading.Event()
        calls = []

        def build(number):
            calls.append(number)
            is_waited_for.wait(30)
            if len(calls) < 3:
                raise KeyError(number)
            return b"third"

        def call(number):
            if number == THREADS - 1:
                threading.Timer(0.1, is_waited_for.set).start()
            return bytes(cache.get_or_build(key_of("a"), lambda: build(number)))

        results = in_threads(call)
        self.assertEqual(results.count(b"third"), THREADS - 2)
        for number in calls[:2]:
            self.assertIsInstance(results[number], KeyError)
            self.assertEqual(results[number].args, (number,))
        self.assertEqual(len(calls), 3)
        self.assertEqual(cache.stat().totals.failures, 2)

    def test_a_build_that_waits_for_itself(self):
        cache = kiln.Cache(self.open())

        def build():
            return cache.get_or_build(key_of("a"), unexpected_build)

        with self.assertRaises(kiln.Error) as caught:
            cache.get_or_build(key_of("a"), build)
        self.assertEqual(caught.exception.status, "KILN_E_CYCLE")
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), lambda: b"x")), b"x")

    def test_builds_nest(self):
        cache = kiln.Cache(self.open())

        def outer():
            return bytes(cache.get_or_build(key_of("b"), lambda: b"inner")) + b" outer"

        self.assertEqual(bytes(cache.get_or_build(key_of("a"), outer)), b"inner outer")

    def test_other_threads_run_while_one_waits(self):
        cache = kiln.Cache()
        has_begun, may_end = threading.Event(), threading.Event()

        def build():
            has_begun.set()
            may_end.wait(30)
            return b"x"

        first = threading.Thread(target=cache.get_or_build, args=(key_of("a"), build))
        first.start()
        has_begun.wait(30)
        second = threading.Thread(target=cache.get_or_build, args=(key_of("a"), unexpected_build))
        second.start()
        # Meanwhile this thread can get the GIL and build other keys.
        self.assertEqual(bytes(cache.get_or_build(key_of("b"), lambda: b"y")), b"y")
        may_end.set()
        first.join()
        second.join()

    def test_closing_a_store_that_is_in_use(self):
        store = self.open()
        cache = kiln.Cache(store)
        has_begun, may_end = threading.Event(), threading.Event()

        def build():
            has_begun.set()
            may_end.wait(30)
            return b"x"

        thread = threading.Thread(target=cache.get_or_build, args=(key_of("a"), build))
        thread.start()
        has_begun.wait(30)
        store.close()
        may_end.set()
        thread.join()
        self.assertEqual(bytes(self.open().get(key_of("a"))), b"x")

    def test_a_storm(self):
        store = self.open()
        cache = kiln.Cache(store, max_entries=8)

        def call(number):
            for turn in range(100):
                name = str((turn * 7 + number) % 20)
                entry = cache.get_or_build(key_of(name), lambda: name.encode() * 100)
                if bytes(entry.payload) != name.encode() * 100:
                    return f"wrong: {name}"
                if turn % 10 == 0:
                    cache.remove(key_of(name))
                    store.list()
            return None

        self.assertEqual(in_threads(call, 4), [None] * 4)

    def test_interrupted_while_waiting(self):
        program = """
import signal, threading, sys, kiln
cache = kiln.Cache(kiln.Store(sys.argv[1]))
key = kiln.Key({"name": "a"})
begun, end = threading.Event(), threading.Event()
def build():
    begun.set()
    end.wait()
    return b"x"
def interrupt():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
thread = threading.Thread(target=cache.get_or_build, args=(key, build))
if sys.argv[2] == "thread":
    thread.start()
    begun.wait(30)
else:
    lease = kiln.Store(sys.argv[1]).lease(key)
try:
    threading.Timer(0.2, interrupt).start()
    cache.get_or_build(key, lambda: b"wrong", wait=float("inf"))
except KeyboardInterrupt:
    print("interrupted")
end.set()
if sys.argv[2] == "thread":
    thread.join()
else:
    lease.release()
print(bytes(cache.get_or_build(key, lambda: b"x")))
"""
        for what in ("thread", "process"):
            self.assertEqual(self.run_python(program, self.location + what, what),
                             "interrupted\nb'x'\n")


class ProcessTest(PackageTest):
    def test_one_build_for_all_processes(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method=method):
                context = multiprocessing.get_context(method)
                log = os.path.join(self.scratch, method)
                start = context.Barrier(3)
                processes = [context.Process(target=build_in_process,
                                             args=(self.location + method, log, start))
                             for _ in range(3)]
                for process in processes:
                    process.start()
                for process in processes:
                    process.join()
                self.assertEqual([process.exitcode for process in processes], [0] * 3)
                with open(log) as file:
                    self.assertEqual(sorted(file.read().split()), ["0", "1", "2", "3"])

    def test_a_holder_elsewhere(self):
        store = self.open()
        cache = kiln.Cache(self.open())
        lease = store.lease(key_of("a"))
        # The caller waits, and builds for itself when its waiting time is over.
        self.assertEqual(bytes(cache.get_or_build(key_of("a"), lambda: b"own", wait=0.05)), b"own")
        # The caller waits, and takes the entry that the holder stored.
        lease = store.lease(key_of("b"))

        def finish():
            store.put(kiln.Entry(key_of("b"), b"holder's"))
            lease.release()

        timer = threading.Timer(0.15, finish)
        timer.start()
        self.assertEqual(bytes(cache.get_or_build(key_of("b"), unexpected_build)), b"holder's")
        timer.join()
        self.assertGreaterEqual(cache.stat().totals.waits, 1)

    def test_fork_beside_a_build(self):
        store = self.open()
        kiln.Cache(store).get_or_build(key_of("ready"), lambda: b"ready")
        has_begun, may_end = threading.Event(), threading.Event()

        def build():
            has_begun.set()
            may_end.wait(30)
            return b"parent"

        # This cache has no store, because the child would wait for the parent's lease.
        in_memory = kiln.Cache()
        in_memory.get_or_build(key_of("ready"), lambda: b"ready")
        thread = threading.Thread(target=in_memory.get_or_build,
                                  args=(key_of("being built"), build))
        thread.start()
        has_begun.wait(30)
        child = multiprocessing.get_context("fork").Process(target=read_in_process,
                                                            args=(in_memory, store))
        child.start()
        child.join(30)
        may_end.set()
        thread.join()
        self.assertEqual(child.exitcode, 0)
        self.assertEqual(bytes(in_memory.get_or_build(key_of("being built"), unexpected_build)),
                         b"parent")

    def test_fork_inside_a_build(self):
        cache = kiln.Cache(self.open())
        children = []

        def build():
            children.append(os.fork())
            return b"child" if children[0] == 0 else b"parent"

        entry = cache.get_or_build(key_of("a"), build)
        if children[0] == 0:
            os._exit(0 if bytes(entry) == b"child" else 1)
        self.assertEqual(os.waitpid(children[0], 0)[1], 0)
        self.assertEqual(bytes(entry), b"parent")


if __name__ == "__main__":
    unittest.main()
