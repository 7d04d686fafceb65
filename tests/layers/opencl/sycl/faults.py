# SPDX-License-Identifier: Apache-2.0
"""Faults of caches: damaged files, leftovers of killed processes, directories that cannot be
written, full disks, and kills. Each fault is tried on a separate cache, Kiln's or SYCL's, with the
program of sycl_program.py."""

import concurrent.futures
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../support"))
from small_disk import SmallDisk
from sycl_program import Run, builds_at_driver, environment, kiln_cache, sycl_cache

HUNG_SECONDS = 100  # many times as long as the program takes without a cache


class ProgramFailed(Exception):
    """Raised if the program had wrong results, died or hung."""


class CacheIncomplete(Exception):
    """Raised if the results are right, but the cache never gets all programs."""


# ---- the caches ----


class Cache:
    """A kind of cache, and one cache of that kind, which a run filled in @fill_seconds."""

    def __init__(self, filled, fill_seconds, counting_layer):
        self.filled = Path(filled)
        self.fill_seconds = fill_seconds
        self.counting_layer = counting_layer

    def variables(self, folder):
        """Returns the variables of a run with that cache."""
        raise NotImplementedError

    def leftovers(self):
        """Returns functions that create in a cache what a killed process may leave there."""
        raise NotImplementedError

    def forget_one(self, folder, chance):
        """Removes a program from a cache."""
        raise NotImplementedError


class KilnCache(Cache):
    def __init__(self, filled, fill_seconds, counting_layer, layer):
        super().__init__(filled, fill_seconds, counting_layer)
        self.layer = layer

    def variables(self, folder, *below):
        return kiln_cache(folder, *below, self.layer)

    def leftovers(self):
        return leave_temporaries, leave_lock_file, leave_half_of_totals, leave_bare_folders

    def forget_one(self, folder, chance):
        entries = entries_of(folder)
        if entries:
            chance.choice(entries).unlink()


class OwnCache(Cache):
    """SYCL's persistent cache. It uses more locks if its size is limited."""

    def __init__(self, filled, fill_seconds, counting_layer, bounded=False):
        super().__init__(filled, fill_seconds, counting_layer)
        self.more = {"SYCL_CACHE_MAX_SIZE": "1000000000"} if bounded else {}

    def variables(self, folder, *below):
        layers = {"OPENCL_LAYERS": ":".join(str(layer) for layer in below)} if below else {}
        return sycl_cache(folder) | self.more | layers

    def leftovers(self):
        return (
            leave_item_lock, leave_half_an_item, leave_stamp_lock, leave_size_lock,
            leave_eviction_lock)

    def forget_one(self, folder, chance):
        item = item_of(folder, chance)
        item.with_suffix(".bin").unlink()
        item.with_suffix(".src").unlink(missing_ok=True)


# ---- trials ----


class Trial:
    """One fault on one cache."""

    def __init__(self, cache, expected, number, chance, scratch):
        self.cache = cache
        self.expected = expected
        self.number = number
        self.chance = chance
        self.folder = Path(scratch) / "cache"
        self.counts = Path(scratch) / "counts"
        self.description = ""

    def fill(self):
        shutil.copytree(self.cache.filled, self.folder)

    def describe(self, what):
        self.description = what

    def start(self, prefix=(), *below, **more):
        variables = environment(**self.cache.variables(self.folder, *below), **more)
        return Run(variables, prefix)

    def check(self, run):
        run.finish(HUNG_SECONDS)
        if run.results != self.expected:
            raise ProgramFailed(f"{self.description}: {'wrong results' if run.results else run.ending()}")

    def run(self, prefix=()):
        self.check(self.start(prefix))

    def run_warm(self, prefix=()):
        """Checks that nothing is left to build."""
        self.counts.unlink(missing_ok=True)
        self.check(
            self.start(prefix, self.cache.counting_layer, COUNTING_LAYER_FILE=str(self.counts)))
        builds = builds_at_driver(self.counts)
        if builds > 0:
            raise CacheIncomplete(f"{self.description}: {builds} builds in the run after")


def run_trial(fault, cache, expected, number, seed, after=None):
    """Returns None if the trial succeeded; otherwise the exception that describes the failure.

    @after: a function of the cache's folder that may raise one, too
    """
    chance = random.Random(f"{seed} {fault.__name__} {number}")
    with tempfile.TemporaryDirectory(prefix="kiln-fault-") as scratch:
        trial = Trial(cache, expected, number, chance, scratch)
        try:
            fault(trial)
            if after:
                after(trial.folder)
        except (ProgramFailed, CacheIncomplete) as wrong:
            return wrong
    return None


def run_trials(fault, cache, expected, count, seed, after=None):
    """Runs two trials at a time. Returns the failures, an exception for each."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ended = pool.map(
            lambda number: run_trial(fault, cache, expected, number, seed, after), range(count))
        return [wrong for wrong in ended if wrong]


# ---- damaged files ----


def flip_bit(file, chance):
    content = bytearray(file.read_bytes())
    place = chance.randrange(8 * len(content))
    content[place // 8] ^= 1 << place % 8
    file.write_bytes(content)
    return f"{file}: bit {place} flipped"


def truncate(file, chance):
    length = chance.randrange(file.stat().st_size)
    os.truncate(file, length)
    return f"{file}: truncated to {length}"


def cached_files(folder):
    return sorted(f for f in Path(folder).rglob("*") if f.is_file() and f.stat().st_size > 0)


def damage_one_file(trial, damage):
    trial.fill()
    trial.describe(damage(trial.chance.choice(cached_files(trial.folder)), trial.chance))
    trial.run()
    trial.run_warm()


def bit_flipped(trial):
    damage_one_file(trial, flip_bit)


def file_truncated(trial):
    damage_one_file(trial, truncate)


def files_emptied(trial):
    """Damages one file, or all files as a power cut may."""
    trial.fill()
    files = cached_files(trial.folder)
    if trial.number % 2 == 0:
        files = [trial.chance.choice(files)]
    for file in files:
        os.truncate(file, 0)
    trial.describe(f"{files[0]} and {len(files) - 1} more: emptied")
    trial.run()
    trial.run_warm()


# ---- leftovers of killed processes ----


def leftover(trial):
    """Creates each kind of leftover in turn, in a place where the next run must write."""
    kinds = trial.cache.leftovers()
    kind = kinds[trial.number % len(kinds)]
    trial.fill()
    trial.describe(kind.__name__)
    kind(trial.folder, trial.chance)
    trial.cache.forget_one(trial.folder, trial.chance)
    trial.run()
    trial.run_warm()


def entries_of(folder):
    """Returns the files of Kiln's entries."""
    return sorted(file for file in (folder / "v1").rglob("*") if len(file.name) == 32)


def leave_temporaries(folder, chance):
    """Leaves incomplete entries, a recent and an old one, in a shard that is in use and in one that
    is not."""
    entry = chance.choice(entries_of(folder))
    unused = folder / "v1/00"
    unused.mkdir(mode=0o700, exist_ok=True)
    for shard in entry.parent, unused:
        for age in 0, 1_000_000:
            left = shard / f".tmp-{chance.getrandbits(64):016x}"
            left.write_bytes(entry.read_bytes()[: chance.randrange(entry.stat().st_size)])
            left.chmod(0o600)
            os.utime(left, (time.time() - age,) * 2)


def leave_lock_file(folder, chance):
    """Leaves a lock file that no process has locked; its content does not matter."""
    (folder / "lease").write_bytes(chance.randbytes(100))


def leave_half_of_totals(folder, chance):
    totals = folder / "stats"
    content = totals.read_bytes()
    half = chance.randrange(1, len(content))
    totals.write_bytes(chance.randbytes(half) + content[half:])


def leave_bare_folders(folder, _):
    for file in [*entries_of(folder), folder / "stats", folder / "lease", folder / "CACHEDIR.TAG"]:
        file.unlink()


def item_of(folder, chance):
    """Returns a program of SYCL's cache: the path of its files, without their extensions."""
    return chance.choice(sorted(folder.rglob("*.bin"))).with_suffix("")


def leave_item_lock(folder, chance):
    item_of(folder, chance).with_suffix(".lock").touch(0o200)


def leave_half_an_item(folder, chance):
    item = item_of(folder, chance)
    item.with_suffix(".lock").touch(0o200)
    item.with_suffix(".src").unlink()
    truncate(item.with_suffix(".bin"), chance)


def leave_stamp_lock(folder, chance):
    Path(f"{item_of(folder, chance)}_access_time.txt.lock").touch(0o200)


def leave_size_lock(folder, _):
    (folder / "cache_size.txt.lock").touch(0o200)


def leave_eviction_lock(folder, _):
    Path(f"{folder}_eviction_in_progress.lock").touch(0o200)


def killed(trial):
    """Kills a first run at a random moment."""
    run = trial.start()
    seconds = trial.chance.uniform(0.1, 1) * trial.cache.fill_seconds
    trial.describe(f"killed after {seconds:.2f} s")
    try:
        run.process.wait(seconds)
    except subprocess.TimeoutExpired:
        run.process.kill()
    run.finish()
    trial.run()
    trial.run_warm()


# ---- directories that cannot be written ----


@contextlib.contextmanager
def unwritable(folder):
    """Returns the prefix of a command that must not be able to write to the folder. Root could
    write anyway, so the prefix drops root's right to do so."""
    paths = [folder, *folder.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    for path, mode in zip(paths, modes):
        path.chmod(mode & 0o555)
    rights = "-dac_override,-dac_read_search"
    try:
        if os.geteuid() == 0:
            yield ("setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", "--")
        else:
            yield ()
    finally:
        for path, mode in zip(paths, modes):
            path.chmod(mode)


def read_only(trial):
    trial.fill()
    trial.describe("read-only")
    with unwritable(trial.folder) as prefix:
        trial.run_warm(prefix)
    trial.run_warm()


def read_only_empty(trial):
    trial.folder.mkdir(mode=0o700)
    trial.describe("read-only and empty")
    with unwritable(trial.folder) as prefix:
        trial.run(prefix)
    trial.run()
    trial.run_warm()


# ---- full disks ----


def full_disk(trial):
    trial.folder.mkdir()
    kib = trial.chance.randrange(8, 1200)
    trial.describe(f"a disk of {kib} KiB")
    with SmallDisk(trial.folder, kib) as disk:
        trial.run(disk.prefix)
        trial.run(disk.prefix)
        disk.grow()
        trial.run(disk.prefix)
        trial.run_warm(disk.prefix)
