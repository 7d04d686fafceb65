# SPDX-License-Identifier: Apache-2.0
"""The door to Triton: compiled kernels, and the C extensions that Triton builds, come from Kiln's
stores.

    import kiln.triton
    kiln.triton.install()

docs/triton.md describes it. `kiln run` calls install() when a program imports triton."""

import contextlib
import functools
import os
import struct
import sys
import threading
import time

import kiln
from kiln import _door, _doors

# Triton's key contains the variables that Triton knows to change results. To be safe, Kiln's key
# contains all with these beginnings, except those that only say where files are or what is shown.
COMPILER_VARIABLES = ("AMDGCN_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "TRITON_")
NEUTRAL_VARIABLES = {"TRITON_ALWAYS_COMPILE", "TRITON_CACHE_AUTOTUNING", "TRITON_CACHE_DIR",
                      "TRITON_DUMP_DIR", "TRITON_HOME", "TRITON_KERNEL_DUMP",
                      "TRITON_OVERRIDE_DIR", "TRITON_PRINT_AUTOTUNING"}

# What gcc and clang read.
_C_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")

# A file that has changed less than this long ago may change again without a different time.
_SETTLED_NS = 2 * 10**9

# How many bytes of a file are hashed at a time: they stay in the processor's cache.
_PIECE = 1 << 18

# .builders: the requests that this thread builds, during a compilation; .arguments: those of the
# compilation; .extension: what decides the C extension that it builds.
_this_thread = threading.local()

door = _door.Door("triton", "triton", COMPILER_VARIABLES, NEUTRAL_VARIABLES)


# ---- entries: some files ----

_FILE = struct.Struct("<IQ")


def _packed(files):
    """Returns the payload of an entry that holds files, as a dictionary of names and bytes."""
    parts = []
    for name, data in files.items():
        encoded = name.encode()
        parts += (_FILE.pack(len(encoded), len(data)), encoded, data)
    return b"".join(parts)


def _unpacked(payload):
    """Returns the files of an entry; None if the payload is not such an entry's."""
    files = {}
    offset = 0
    while offset < len(payload):
        if len(payload) - offset < _FILE.size:
            return None
        name_size, size = _FILE.unpack_from(payload, offset)
        offset += _FILE.size
        if name_size > len(payload) - offset or size > len(payload) - offset - name_size:
            return None
        name = str(payload[offset:offset + name_size], "utf-8", "replace")
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            return None
        offset += name_size
        files[name] = bytes(payload[offset:offset + size])
        offset += size
    return files


# ---- keys ----

@functools.lru_cache(maxsize=None)
def _abi():
    """Returns what decides whether a C extension can be loaded, other than its source."""
    import platform
    import sysconfig

    return (("python", "%d.%d %s" % (*sys.version_info[:2],
                                     sysconfig.get_config_var("EXT_SUFFIX"))),
            ("machine", platform.machine()),
            ("libc", os.confstr("CS_GNU_LIBC_VERSION") or "unknown"))


def _gpu():
    """Returns what the timings of kernels depend on; None if the driver does not tell."""
    from triton.runtime.driver import driver

    try:
        device = driver.active.get_current_device()
        properties = driver.active.utils.get_device_properties(device)
    except Exception:
        return None
    return repr(sorted(properties.items()))


def _folder():
    import triton

    return os.path.dirname(os.path.abspath(triton.__file__))


def _stamp(file):
    """Returns what the system says about an open file: it changes if the file changes. Opening a
    file makes a network file system ask its server."""
    facts = os.fstat(file.fileno())
    return facts.st_size, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def _has_settled(stamp, now_ns):
    """Returns whether the stamp of a file will change if the file changes now."""
    return max(stamp[2:]) < now_ns - _SETTLED_NS


def _included(text):
    """Returns the names of the headers that a text includes, or only mentions in a comment."""
    import re

    return re.findall(rb'#[ \t]*include[ \t]*[<"]([^>"\n]+)', text)


# The headers that this process has read: path -> stamp, digest, the names of included headers. Each
# launcher includes CUDA's header, which has a million characters.
_known_headers = {}


def _header(path):
    """Returns what _known_headers has of a header. Raises OSError."""
    import hashlib

    start_ns = time.time_ns()
    with open(path, "rb") as file:
        stamp = _stamp(file)
        known = _known_headers.get(path)
        if known is None or known[0] != stamp:
            text = file.read()
            known = stamp, hashlib.sha256(text).hexdigest(), _included(text)
            if _has_settled(stamp, start_ns):
                _known_headers[path] = known
    return known


def _headers(source, folders):
    """Returns the digests of the headers that a source includes from these folders, and so on."""
    digests = {}
    names = _included(source)
    while names:
        name = names.pop()
        for folder in folders if name not in digests else ():
            try:
                _, digests[name], included = _header(os.path.join(os.fsencode(folder), name))
            except OSError:
                continue
            names += included
            break
    return repr(sorted(digests.items()))


def _extension_parts(arguments):
    """Returns what decides a C extension that is built with these arguments, as parts of a key:
    what they say, with the places in Triton's own folder relative to it, and the text of files."""
    folder = _folder() + os.sep
    parts = []
    source = b""
    for name, value in sorted(arguments.items()):
        if name == "src_path":
            with open(value, "rb") as file:
                value = file.read()
            parts.append(("suffix", os.path.splitext(arguments[name])[1]))
        elif isinstance(value, (list, tuple)):
            value = repr([item[len(folder):] if item.startswith(folder) else item
                          for item in value])
        value = value if isinstance(value, bytes) else str(value).encode()
        if name in ("src", "src_path"):
            source = value
        parts.append((name, value))
    return (*parts, ("headers", _headers(source, arguments.get("include_dirs") or ())))


# ---- facts about files that are expensive to find out ----

def _content(file):
    """Returns the digest of what an open file contains."""
    buffer = memoryview(bytearray(_PIECE))
    pieces = []
    while size := file.readinto(buffer):
        pieces.append(("piece", kiln.Key([("bytes", buffer[:size])]).digest))
    return kiln.Key(pieces).digest if pieces else "empty"


def _stamps(paths):
    """Returns the paths and stamps of files. Raises OSError."""
    stamps = []
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            stamps.append((path, _stamp(file)))
    return stamps


def _identity(stamps):
    """Returns a text that is different for files that are different. Raises OSError."""
    lines = []
    for path, (size, inode, modified_ns, changed_ns) in stamps:
        # The kernel sets the time of the last change itself: no program can set it. An image that
        # is mounted, such as one of squashfs, may have any time there, but in whole seconds: two
        # images, one after the other, may have different files with equal stamps.
        if changed_ns % 10**9 != 0:
            line = "%d %d %d" % (inode, modified_ns, changed_ns)
        else:
            with open(path, "rb", buffering=0) as file:
                line = _content(file)
        lines.append("%s %d %s" % (os.path.basename(path), size, line))
    return "\n".join(lines)


def _fact(what, paths, find_out):
    """Returns a text that files decide, from the store if they have not changed since it was put
    there."""
    start_ns = time.time_ns()
    try:
        stamps = _stamps(paths)
        key = door.key([("what", what), ("files", _identity(stamps))])
    except OSError:
        return find_out()
    entry = door.find(key)
    if entry is not None:
        return str(entry.payload, "utf-8")
    build_start_ns = time.time_ns()
    text = find_out()
    build_ns = max(0, time.time_ns() - build_start_ns)
    with contextlib.suppress(OSError):
        if all(_has_settled(stamp, start_ns) for _, stamp in stamps) and _stamps(paths) == stamps:
            door.publish(key, text.encode(), name=what, device="Triton", build_ns=build_ns)
    return text


def _with_stored_key(triton_key, version):
    """Returns a function that returns what triton_key does, which reads 500 MB."""

    @functools.lru_cache(maxsize=None)
    @functools.wraps(triton_key)
    def wrapper():
        paths = []
        # All files that triton_key reads are in these folders.
        for part in ("_C", "backends", "compiler", "language", "runtime"):
            for folder, folders, names in os.walk(os.path.join(_folder(), part), followlinks=True):
                folders[:] = sorted(set(folders) - {"__pycache__", "bin", "include", "lib"})
                paths += [os.path.join(folder, name) for name in sorted(names)
                          if name.endswith((".py", ".so"))]
        return _fact("key of " + version, paths, triton_key)

    return wrapper


# ---- requests ----

class _Request:
    """The request for one key: found, or to be built by this process."""

    def __init__(self, key, name):
        self.name = name
        self.files = None  # what was found
        self._key = key
        self._lease = None
        self._start = time.perf_counter_ns()
        self._counted = {}
        entry = door.find(key) or self._get_leased()
        self.files = entry and _unpacked(entry.payload)
        if self.files is None:
            self._counted["misses"] = 1
            door.note_miss(self._key)
            self._start = time.perf_counter_ns()
            builders = getattr(_this_thread, "builders", None)
            if builders is not None:
                builders.append(self)
        else:
            self.release()
            load_ns = time.perf_counter_ns() - self._start
            door.note_hit(self._key, entry, load_ns, **self._counted)

    def _get_leased(self):
        if door.is_readonly:
            return None
        self._lease, has_waited = door.take_lease(self._key)
        if has_waited:
            self._counted["waits"] = 1
        # Another process may have stored the entry since the first look.
        return door.find(self._key)

    def put(self, files, device, explain=None):
        """Publishes what was built."""
        build_ns = time.perf_counter_ns() - self._start
        is_put = not door.is_readonly and door.publish(
            self._key, _packed(files), explain, name=self.name, device=device, build_ns=build_ns)
        self._end_build(device, build_ns, puts=int(is_put), dropped=int(not is_put))

    def keep_nothing(self):
        """Ends a build whose result depends on what the key does not contain."""
        self._end_build(passed_through=1)

    def leave(self):
        """Ends the request without a build, because Triton has the files itself."""
        self._end()

    def release(self):
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def fail(self):
        """Ends the build, if it is still under way, because it raised an exception."""
        if self._counted is not None:
            self._end_build(failures=1)

    def _end_build(self, device="", build_ns=0, **counters):
        self.release()
        if self._counted is not None:
            door.note_build(self._key, self.name, device, build_ns, **counters, **self._counted)
            self._counted = None

    def _end(self):
        self.release()
        if self._counted is not None:
            door.count(**self._counted)
            self._counted = None


# ---- what Triton's key was made from ----

def _functions(function, found):
    """Adds a function of Triton, and those of the program that it calls, to a dictionary."""
    if function.__name__ not in found and hasattr(function, "fn"):
        found[function.__name__] = function
        for name in function.fn.__code__.co_names:
            called = function.fn.__globals__.get(name)
            if hasattr(called, "cache_key"):
                _functions(called, found)


def _explanation():
    """Returns what the key of this thread's compilation was made from, as parts of a key. Nothing
    looks these up, so they need not be complete."""
    from triton.compiler import compiler

    arguments = _this_thread.arguments
    source, target = arguments["src"], arguments["target"]
    if isinstance(source, str):
        with open(source, encoding="utf-8") as file:
            return [("source", file.read())]
    if target is None:
        from triton.runtime.driver import driver

        target = driver.active.get_current_target()
    backend = compiler.make_backend(target)
    options = backend.parse_options(dict(arguments["options"] or {}, **source.parse_options()))
    names = source.fn.arg_names
    functions = {}
    _functions(source.fn, functions)
    called = [function for function in functions.values() if function is not source.fn]
    return [
        ("target", target),
        ("backend", backend.hash()),
        ("first line", getattr(source.fn, "starting_line_number", "")),
        ("source", source.fn.src),
        *(("source of " + function.__name__, function.src) for function in called),
        *(("global " + name, value)
          for (name, _), (value, _) in getattr(source.fn, "used_global_vals", {}).items()),
        *(("argument " + str(name), value) for name, value in source.signature.items()),
        *(("constant " + str(names[name[0]] if isinstance(name, tuple) else name), value)
          for name, value in source.constants.items()),
        ("attributes", source.attrs),
        *(("option " + name, value) for name, value in sorted(vars(options).items())),
    ]


# ---- Triton's side ----

def _setting(group, name, variable):
    """Returns one of Triton's settings: a knob since 3.4, a variable before."""
    knobs = sys.modules.get("triton.knobs")
    if knobs is not None:
        return getattr(getattr(knobs, group, None), name, None)
    return os.environ.get(variable, "").lower() in ("1", "on", "true")


def _is_keyed():
    """Returns whether Triton's key contains everything that decides a result: not with settings with
    which a result depends on files or functions that are not in the key."""
    return not (_setting("compilation", "override", "TRITON_KERNEL_OVERRIDE")
                or _setting("compilation", "use_ir_loc", "") or os.environ.get("USE_IR_LOC")
                or _setting("runtime", "add_stages_inspection_hook", "")
                or any("PLUGIN_PATH" in name and name.startswith(COMPILER_VARIABLES)
                       for name in os.environ))


def _make_manager(cache, version):
    """Returns the class of which Triton makes an object for each key. Files lie where Triton's own
    class puts them, since the programs that read them get their paths."""

    class KilnCacheManager(cache.FileCacheManager):
        def __init__(self, key, override=False, dump=False):
            super().__init__(key, override=override, dump=dump)
            self._id = key
            # Triton can use a folder that it cannot write, if it finds everything there.
            self._passes = (override or dump or not _is_keyed()
                            or not os.access(self.cache_dir, os.W_OK))
            self._request = None
            self._files = None  # of the group that is being built
            self._extension = getattr(_this_thread, "extension", None)

        def _key(self, what, *parts):
            return door.key([("version", version), ("what", what), *parts])

        def _lay(self, name, data):
            """Makes sure that a file has exactly these bytes, and returns its path."""
            path = self._make_path(name)
            try:
                with open(path, "rb") as file:
                    is_there = file.read() == data
            except OSError:
                is_there = False
            return path if is_there else self._write(name, data)

        def _write(self, name, data):
            """Does what Triton's put does, but without making and removing a folder for each file,
            which takes milliseconds on some disks."""
            path = self._make_path(name)
            temporary = self._make_path("tmp.pid_%d_%s" % (os.getpid(), os.urandom(8).hex()))
            with open(temporary, "wb" if isinstance(data, bytes) else "w") as file:
                file.write(data)
            os.replace(temporary, path)
            return path

        # ---- groups: a compiled kernel ----

        def get_group(self, filename):
            if self._passes:
                return super().get_group(filename)
            self._files = {}
            # Files that are not wanted are left out under the same key.
            binary_only = _setting("compilation", "store_binary_only", "TRITON_STORE_BINARY_ONLY")
            key = self._key("kernel", ("triton's key", self._id), ("file", filename),
                            ("binary only", str(bool(binary_only))))
            self._request = _Request(key, os.path.splitext(filename)[0])
            found = self._request.files
            if found is None:
                # A store that cannot be written leaves Triton with its own folder.
                own = super().get_group(filename) if door.is_readonly else None
                if own:
                    self._request.leave()
                return own
            paths = {name: self._lay(name, data) for name, data in found.items()}
            super().put_group(filename, paths)
            return paths

        def put_group(self, filename, group):
            path = super().put_group(filename, group)
            if not self._passes and self._request is not None:
                self._publish_group(filename, group)
            return path

        def _publish_group(self, filename, group):
            import json

            request, self._request = self._request, None
            files = {name: self._files.get(name) for name in group}
            self._files = None
            try:
                metadata = json.loads(files[filename])
            except (KeyError, TypeError, ValueError):
                metadata = None
            # The option names a file, whose contents are not in Triton's key.
            if metadata is None or metadata.get("ir_override") or None in files.values():
                request.keep_nothing()
                return
            target = metadata.get("target")
            if isinstance(target, dict):
                target = list(target.values())
            request.put(files, "Triton %s, %s" % (
                version, " ".join(str(part) for part in (target or ["unknown"])[:2])), _explanation)

        # ---- single files: a C extension, or timings ----

        def _single_key(self, filename):
            """Returns the key of a file that is not of a group; None if it is not known what
            decides its bytes."""
            if filename.endswith(".so") and not _setting("build", "impl", ""):
                compiler = self._extension and _compiler()
                return compiler and self._key("extension", *self._extension, ("file", filename),
                                              *_abi(), *compiler)
            if filename.endswith(".autotune.json"):
                gpu = _gpu()
                return gpu and self._key("timings", ("triton's key", self._id),
                                         ("file", filename), ("gpu", gpu))
            return None

        def get_file(self, filename):
            key = None if self._passes or self._files is not None else self._single_key(filename)
            if key is None:
                return super().get_file(filename)
            self._request = _Request(key, filename)
            found = self._request.files
            if found is None or list(found) != [filename]:
                own = super().get_file(filename) if door.is_readonly else None
                if own:
                    self._request.leave()
                return own
            return self._lay(filename, found[filename])

        def put(self, data, filename, binary=True):
            if self._passes:
                return super().put(data, filename, binary=binary)
            path = self._write(filename, data if isinstance(data, bytes) else str(data))
            if filename.startswith("__grp__"):
                return path
            data = data if isinstance(data, bytes) else str(data).encode()
            if self._files is not None:
                self._files[filename] = data
            elif self._request is not None:
                request, self._request = self._request, None
                request.put({filename: data}, "Triton " + version)
            return path

    return KilnCacheManager


def _ending_leases(function):
    """Returns a function that does the same, and ends the leases that it leaves."""

    @functools.wraps(function)
    def wrapper(*args, **options):
        outer = getattr(_this_thread, "builders", None)
        _this_thread.builders = builders = []
        try:
            return function(*args, **options)
        finally:
            _this_thread.builders = outer
            for request in builders:
                request.fail()

    return wrapper


def _noting_arguments(function):
    """Returns a function that compiles as the given one does, and notes what it compiles."""
    import inspect

    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args, **options):
        outer = getattr(_this_thread, "arguments", None)
        try:
            bound = signature.bind(*args, **options)
            bound.apply_defaults()
            _this_thread.arguments = bound.arguments
        except TypeError:  # Triton's own error will tell
            pass
        try:
            return function(*args, **options)
        finally:
            _this_thread.arguments = outer

    return wrapper


def _naming_extension(function):
    """Returns a function that builds a C extension as the given one does, and tells the cache
    manager what decides it. Triton's own key contains absolute paths, or not all of it."""
    import inspect

    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args, **options):
        outer = getattr(_this_thread, "extension", None)
        try:
            arguments = signature.bind(*args, **options).arguments
            _this_thread.extension = _extension_parts(arguments)
        except Exception:  # Triton's own error will tell
            _this_thread.extension = None
        try:
            return function(*args, **options)
        finally:
            _this_thread.extension = outer

    return wrapper


@functools.lru_cache(maxsize=None)
def _compiler():
    """Returns what identifies the C compiler, as parts of a key; None if there is none."""
    import shutil
    import subprocess

    path = shutil.which(os.environ.get("CC", "")) or shutil.which("gcc") or shutil.which("clang")

    def version():
        return subprocess.run([path, "--version"], stdout=subprocess.PIPE, check=True,
                              stderr=subprocess.DEVNULL).stdout.decode(errors="replace")

    try:
        text = path and _fact("version of " + path, [os.path.realpath(path)], version)
    except (OSError, subprocess.SubprocessError):
        text = None
    settings = [(name, os.fsencode(os.environ[name])) for name in _C_VARIABLES
                if name in os.environ]
    return text and (("compiler", text), *settings)


def _replace(old, new):
    """Replaces a function in all of Triton's modules that hold it."""
    for name, module in list(sys.modules.items()):
        if name == "triton" or name.startswith("triton."):
            for attribute, value in list(vars(module).items()):
                if value is old:
                    setattr(module, attribute, new)


def _knows_backends():
    """Returns whether Triton has only its own backends: its key contains the code of these."""
    from triton.backends import backends

    return set(backends) <= {"nvidia", "amd"}


def _set_manager(cache, manager):
    """Makes Triton use the class, unless the user has chosen a different one. Returns whether it
    does."""
    if os.environ.get("TRITON_CACHE_MANAGER"):
        return False
    if hasattr(cache, "__cache_cls"):  # before 3.4
        if getattr(cache, "__cache_cls") is not cache.FileCacheManager:
            return False
        setattr(cache, "__cache_cls", manager)
        return True
    from triton import knobs

    if knobs.cache.manager_class is not None:
        return False
    knobs.cache.manager_class = manager
    return True


def _extension_builders():
    """Returns Triton's functions that build C extensions. Before 3.4, each backend has its own."""
    names = ("compile_module_from_src", "compile_module_from_file", "compile_so_from_src",
             "compile_so_from_file")
    modules = ("triton.runtime.build", "triton.backends.nvidia.driver",
               "triton.backends.amd.driver")
    found = [getattr(sys.modules.get(module), name, None) for module in modules for name in names]
    return list({id(function): function for function in found if function}.values())


def install():
    """Makes Triton ask Kiln's store before it compiles, and keep results there. Returns whether it
    does: not if Kiln is turned off, if this version of Triton is not known, or if the program has
    chosen a cache manager. A second call changes nothing."""
    return door.install(_hook)


def _hook():
    import triton
    if not _doors.knows("triton", triton.__version__) or not _knows_backends():
        raise _door.Unknown(f"Triton {triton.__version__} or one of its backends is not known")
    from triton.compiler import compiler
    from triton.runtime import cache
    triton_key = getattr(cache, "triton_key", None) or compiler.triton_key
    if not _set_manager(cache, _make_manager(cache, triton.__version__)):
        raise _door.Unknown("the program has chosen a cache manager of Triton")
    _replace(compiler.compile, _ending_leases(_noting_arguments(compiler.compile)))
    _replace(triton_key, _with_stored_key(triton_key, triton.__version__))
    for function in _extension_builders():
        _replace(function, _ending_leases(_naming_extension(function)))
    # A function that is timed may raise, too.
    from triton.runtime.autotuner import Autotuner
    if hasattr(Autotuner, "check_disk_cache"):
        Autotuner.check_disk_cache = _ending_leases(Autotuner.check_disk_cache)
