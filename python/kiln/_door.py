# SPDX-License-Identifier: Apache-2.0
"""What the doors to frameworks share: the store that the environment configures, keys, and counts.

A door never fails its program: a store that fails is a miss."""

import contextlib
import functools
import hashlib
import importlib
import os
import platform
import sys
import threading
import warnings

import kiln

# A process that waits for a build of a different process gives up after this time, or after twice
# the time of its own longest build if that is longer, and builds for itself.
LEASE_SECONDS = 60.0

# How many bytes of a text an explanation keeps.
_MOST_EXPLAINED = 1 << 16

# What the store raises if it fails, or does not accept a text or a number.
_FAILURES = (kiln.Error, ValueError)

_TRACE_FLAGS = (os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
                | os.O_NOCTTY)

# The lines of /proc/cpuinfo that name the processor and the instructions that it has.
_PROCESSOR_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU implementer",
                     "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features")


class Door:
    """Results of one framework, in the store that the environment configures. The counts are of
    this process. Variables with one of the beginnings are in each key, except the neutral ones."""

    def __init__(self, name, framework, beginnings=(), neutral=()):
        self.name = name
        self.hits = self.builds = 0
        # Why the door is closed: None if it is open, or if nothing has tried to open it.
        self.reason = None
        self.is_readonly = False
        self._framework = framework  # the module that is to be imported before the door is opened
        self._variables = (tuple(beginnings), neutral)
        self._store = None
        self._longest_build_ns = 0
        self._waits_given_up = 0
        self._installing = threading.RLock()

    def install(self, hook):
        """Opens the store and calls hook(), unless that has been done. hook() replaces functions
        of the framework, or raises Unknown. Returns whether the door is open."""
        try:
            # A thread that imports the framework holds its import lock when it comes here, so this
            # thread must not wait for that lock while it holds the door's.
            importlib.import_module(self._framework)
        except ImportError as error:
            self.reason = str(error)
            return False
        with self._installing:
            if self._store or self.reason is not None:
                return self._store is not None
            try:
                self._store = _open_store()
                if self._store:
                    self.is_readonly = os.environ.get("KILN_READONLY", "0") not in ("", "0")
                    hook()
                else:
                    self.reason = "Kiln is turned off, or has no store"
            except (kiln.Error, Unknown, ImportError) as error:
                self._store, self.reason = None, str(error)
            return self._store is not None

    def key(self, parts):
        """Returns the key of a result. The parts decide it, together with the door's variables and
        those that the user names."""
        return kiln.Key([("door", self.name), *parts, *_key_variables(*self._variables)])

    def find(self, key):
        """Returns the entry, which is not counted; None: the store has no entry that verifies."""
        try:
            return self._store.get(key)
        except kiln.Error:
            return None

    def get(self, key):
        """Returns the payload as bytes; None: the store has no entry that verifies."""
        entry = self.find(key)
        if entry is None:
            return None
        self.note_hit(key, entry)
        return bytes(entry.payload)

    def put(self, key, payload, name, build_ns=0, **facts):
        """Publishes a result that was built."""
        self.note_build(key, name, facts.get("device", ""), build_ns)
        self.publish(key, payload, name=name, build_ns=build_ns, **facts)

    def publish(self, key, payload, explain=None, **facts):
        """Publishes a result, which is not counted. Returns whether the store has kept it.
        explain() returns, as parts of a key, what the digests in the key were made from."""
        self._longest_build_ns = max(self._longest_build_ns, facts["build_ns"])
        facts["name"] = _shown(facts["name"])
        with contextlib.suppress(*_FAILURES):
            return self._store.put(kiln.Entry(key, payload, metadata=_explanation(explain),
                                              **facts))
        return False

    def note_miss(self, key):
        """Records a key that is built because the store does not have it, for `kiln why`."""
        with contextlib.suppress(kiln.Error):
            self._store.note_miss(key)

    def note_hit(self, key, entry, load_ns=0, **counters):
        """Counts and records a result that the store had."""
        self.hits += 1
        saved_ns = max(0, entry.build_ns - load_ns)
        with contextlib.suppress(*_FAILURES):
            self._store.count(hits_store=1, saved_ns=saved_ns, **counters)
            self._store.note(key, "hit", load_ns=load_ns, saved_ns=saved_ns)
        self._trace("hit-store", key, load_ns, 0)

    def note_build(self, key, name, device, build_ns, failures=0, **counters):
        """Counts and records a build."""
        self.builds += 1
        with contextlib.suppress(*_FAILURES):
            self._store.count(builds=1, failures=failures, build_ns=build_ns, **counters)
            self._store.note(key, "failure" if failures else "build", name=_shown(name),
                             device=device, build_ns=build_ns)
        self._trace("failed" if failures else "built", key, 0, build_ns)

    def count(self, **counters):
        """Adds to the counters that `kiln stats` and `kiln run --summary` show."""
        with contextlib.suppress(*_FAILURES):
            self._store.count(**counters)

    def _trace(self, outcome, key, load_ns, build_ns):
        """Writes the line of a request to the file that KILN_TRACE names, as the layers do."""
        target = os.environ.get("KILN_TRACE", "")
        if not target:
            return
        line = "kiln[%d] %s key=%s door=%s load=%.3fms build=%.3fms wait=0.000ms\n" % (
            os.getpid(), outcome, key.digest, self.name, load_ns / 1e6, build_ns / 1e6)
        with contextlib.suppress(OSError):
            if target == "-":
                os.write(2, line.encode())
            else:
                file = os.open(target, _TRACE_FLAGS, 0o600)
                try:
                    os.write(file, line.encode())
                finally:
                    os.close(file)

    def has(self, key):
        """Returns whether the store seems to have an entry, which may be damaged."""
        try:
            return self._store.contains(key)
        except kiln.Error:
            return False

    def take_lease(self, key):
        """Returns the right to build a key, and whether a different process had it. The former is
        None if the store has no leases or the holder takes too long."""
        try:
            lease = self._store.lease(key)
            if lease is not None:
                return lease, False
            # The holder may wait for this process, as in a distributed compilation. So each wait
            # that was in vain halves the next ones.
            seconds = max(LEASE_SECONDS, 2 * self._longest_build_ns / 1e9)
            lease = self._store.lease(key, wait=seconds / 2**self._waits_given_up)
            self._waits_given_up += lease is None
            return lease, True
        except kiln.Error:
            return None, False

    def lease(self, key):
        """Returns a context manager that holds the right to build a key, or none."""
        return self.take_lease(key)[0] or contextlib.nullcontext()


def _shown(name):
    """Returns a name as kiln.Entry accepts it. Frameworks give a file or function any name."""
    return name.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _explanation(explain):
    """Returns the metadata of an entry that explain() explains; empty if it cannot."""
    try:
        parts = [(name, str(value).encode(errors="backslashreplace")[:_MOST_EXPLAINED])
                 for name, value in explain()] if explain else ()
        return kiln.Key(parts).encoding if parts else b""
    except Exception:  # it is only for people
        return b""


class Unknown(Exception):
    """A framework is of a version that is not known."""


def _open_store():
    with warnings.catch_warnings():
        # `kiln doctor` reports wrong values; a program does not expect warnings.
        warnings.simplefilter("ignore")
        return kiln.Store.from_environment()


def _key_variables(beginnings, neutral):
    """Returns the variables with one of these beginnings, except the neutral ones, and those that
    KILN_KEY_ENV names, as parts of a key."""
    patterns = [name for name in os.environ.get("KILN_KEY_ENV", "").split(",") if name]
    if not beginnings and not patterns:
        return []  # a walk through the environment costs as much as the rest of a key
    found = [name for name in sorted(os.environ)
             if name.startswith(beginnings) and name not in neutral
             or any(name == pattern or pattern.endswith("*") and name.startswith(pattern[:-1])
                    for pattern in patterns)]
    # A name that is no UTF-8 is in the key with escapes.
    return [("variable " + name.encode(errors="backslashreplace").decode(),
             os.fsencode(os.environ[name])) for name in found]


@functools.lru_cache(maxsize=None)
def processor():
    """Returns a text that is equal only on processors that run the same machine code: model and
    instructions, and how many there are, since compilers divide loops by that number. Returns ""
    if the system does not tell."""
    lines = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                if not line.strip():
                    break
                lines.append(line.split(":", 1))
    except OSError:
        return ""
    fields = {line[0].strip(): line[1].strip() for line in lines if len(line) == 2}
    if "flags" not in fields and "Features" not in fields:
        return ""
    found = [f"{name}: {fields[name]}" for name in _PROCESSOR_FIELDS if name in fields]
    return "\n".join([platform.machine(), *found, f"processors: {len(os.sched_getaffinity(0))}"])


@functools.lru_cache(maxsize=None)
def package(name, content=".so", module=None):
    """Returns what identifies an installed package: its version, and the digest of the digests that
    pip recorded of the files whose paths contain the text, by default the shared objects. Returns
    "" if the package is not installed, or without such a record, or if the program has imported
    the module from a different place, such as a folder in PYTHONPATH."""
    # The module takes 20 ms to import.
    from importlib import metadata
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return ""
    record = distribution.read_text("RECORD") or ""
    lines = sorted(line for line in record.splitlines() if content in line.split(",")[0])
    if not lines or module is not None and not _is_of(distribution, module):
        return ""
    return f"{distribution.version} {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def _is_of(distribution, module):
    """Returns whether a module that was imported is the one that the distribution installed."""
    try:
        return os.path.samefile(distribution.locate_file(os.path.join(module, "__init__.py")),
                                sys.modules[module].__file__)
    except (KeyError, OSError, TypeError):
        return False
