# SPDX-License-Identifier: Apache-2.0
"""Keeps what torch.compile's Inductor compiles in Kiln's store: `import kiln.inductor;
kiln.inductor.install()`.

docs/frameworks.md describes what is cached, and what is in the key."""

import functools
import glob
import inspect
import json
import os
import pickle
import struct
import sys
import tempfile
import threading
import time

from kiln import _door, _doors, triton

# A graph can be compiled several times for one key of Inductor, each time with other guards.
_MOST_CANDIDATES = 16
_LENGTH = struct.Struct("<Q")

# Variables that compilers of C++ read.
_COMPILER_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
                       "GCC_EXEC_PREFIX")

door = _door.Door("inductor", "torch._inductor.compile_fx", triton.COMPILER_VARIABLES,
                  triton.NEUTRAL_VARIABLES)


class _Thread(threading.local):
    leases = ()  # of the graphs that this thread compiles
    saved = ()  # the arguments of the call that saves a graph


_thread = _Thread()


def install():
    """Makes Inductor ask Kiln's store before it compiles, and keep results there. Returns whether
    it does: not if Kiln is turned off, or if this version of PyTorch is not known. A second call
    changes nothing."""
    return door.install(_hook)


def _hook():
    import torch
    if not _doors.knows("torch._inductor.compile_fx", torch.__version__):
        raise _door.Unknown(f"PyTorch {torch.__version__} is not known")
    if not _identity():
        raise _door.Unknown("the package torch or the processor has no known identity")
    from torch._functorch._aot_autograd import autograd_cache
    from torch._inductor import codecache, compile_fx, cpu_vec_isa
    from torch._inductor.runtime import autotune_cache
    try:
        hooks = [(codecache.GuardedCache, "iterate_over_candidates", _look_up),
                 (codecache.FxGraphCache, "_save_graph", _save),
                 (codecache.FxGraphCache, "_write_to_local_cache", _write),
                 (autograd_cache.AOTAutogradCache, "save", _save),
                 (autograd_cache.AOTAutogradCache, "_write_to_local_cache", _write),
                 (compile_fx, "_compile_fx_inner", _compile),
                 (codecache.CppCodeCache, "load_async", _load_library),
                 (cpu_vec_isa.VecISA, "check_build", _check_instructions),
                 (autotune_cache.LocalAutotuneCache, "_get", _read_timings),
                 (autotune_cache.LocalAutotuneCache, "_put", _write_timings)]
        replaced = [_replacement(owner, name, make) for owner, name, make in hooks]
    except AttributeError as error:
        raise _door.Unknown(f"PyTorch {torch.__version__} is not known: {error}") from error
    for (owner, name, _), function in zip(hooks, replaced):
        setattr(owner, name, function)


def _replacement(owner, name, make):
    """Returns the function with which make() replaces one of a class or module, as the same kind of
    method."""
    attribute = inspect.getattr_static(owner, name)
    kind = type(attribute) if isinstance(attribute, (classmethod, staticmethod)) else None
    function = attribute.__func__ if kind else attribute
    replaced = functools.wraps(function)(make(owner, function))
    return kind(replaced) if kind else replaced


@functools.lru_cache(maxsize=None)
def _identity():
    """Returns what decides a result and is not in Inductor's keys, as parts of a key; empty if
    that is not known."""
    library, processor = _door.package("torch", module="torch"), _door.processor()
    if not library or not processor:
        return ()
    return (("torch", library), ("python", sys.implementation.cache_tag),
            ("processor", processor))


def _device():
    import torch
    return f"PyTorch {torch.__version__}"


def _key(what, *parts):
    return door.key([("what", what), *_identity(), *parts])


# ---- graphs ----

def _graph_key(owner, key):
    import torch
    return _key(owner.__name__, ("threads", torch.get_num_threads()), ("key", key))


def _unpacked(payload):
    """Returns the candidates in a payload."""
    candidates = []
    while len(payload) >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(payload)
        candidates.append(payload[_LENGTH.size:_LENGTH.size + size])
        payload = payload[_LENGTH.size + size:]
    return candidates


def _load(payload):
    """Yields what Inductor expects for each candidate in a payload."""
    for content in _unpacked(payload or b""):
        try:
            graph = pickle.loads(content)
        except Exception:  # the candidate needs a module that is not there
            continue
        yield graph, content, True


def _look_up(guarded, look_up):
    def candidates(cls, local, remote_cache, key):
        if local:
            name = _graph_key(cls, key)
            payload = door.get(name)
            yield from _load(payload)
            # None of them fits.
            door.note_miss(name)
            # Only graphs are leased: the rest of an entry of AOTAutograd is built when the program
            # needs its gradient, perhaps much later.
            if cls.__name__ == "FxGraphCache" and isinstance(_thread.leases, list):
                _thread.leases.append(door.lease(name))
                _thread.leases[-1].__enter__()
                later = door.get(name) if door.has(name) else None
                if later != payload:
                    yield from _load(later)
        yield from look_up(cls, local, remote_cache, key)

    return candidates


def _compile(module, compile_graph):
    def compile_once(*arguments, **options):
        outer, _thread.leases = _thread.leases, []
        try:
            return compile_graph(*arguments, **options)
        finally:
            for lease in _thread.leases:
                lease.__exit__(None, None, None)
            _thread.leases = outer

    return compile_once


def _save(owner, save):
    def save_and_publish(*arguments, **options):
        _thread.saved = (*arguments, *options.values())
        try:
            return save(*arguments, **options)
        finally:
            _thread.saved = ()

    return save_and_publish


def _write(owner, write):
    def write_and_publish(key, content):
        write(key, content)
        # Inductor also writes what a program loads from a file of its own.
        if _thread.saved:
            name = _graph_key(owner, key)
            others = [other for other in _unpacked(door.get(name) or b"") if other != content]
            payload = b"".join(_LENGTH.pack(len(candidate)) + candidate
                               for candidate in [content, *others[:_MOST_CANDIDATES - 1]])
            door.put(name, payload, owner.__name__, device=_device(), explain=_explanation)

    return write_and_publish


def _explanation():
    """Returns what the key of the graph that this thread saves was made from, as parts of a key.
    Nothing looks these up, so they need not be complete."""
    parts = []
    for graph in _thread.saved:
        for line in getattr(graph, "_fx_graph_cache_debug_lines", ()):
            # A line is "[digest] name: value".
            name, _, value = line.partition("] ")[2].partition(": ")
            parts.append(("graph " + name[:200], value))
    return parts


# ---- libraries in C++ ----

def _compiler_parts(*options):
    """Returns what decides a library, except its source, as parts of a key."""
    from torch._inductor import cpp_builder
    compiler = cpp_builder.get_cpp_compiler()
    commands = [cpp_builder.CppBuilder(name="o", sources="i", BuildOption=option)
                .get_command_line() for option in options]
    variables = [os.fsencode(f"{name}={os.environ[name]}") for name in _COMPILER_VARIABLES
                 if name in os.environ]
    return [("compiler", f"{compiler} {cpp_builder.get_compiler_version_info(compiler)}"),
            ("libc", os.confstr("CS_GNU_LIBC_VERSION") or ""),
            ("commands", "\n".join(commands)), ("variables", b"\n".join(variables))]


def _library_key(cls, main_code, device_type, extra_flags, optimized_code):
    from torch._inductor import codecache, cpp_builder
    command = {**cls.cpp_compile_command_flags, "device_type": device_type,
               "extra_flags": extra_flags, "vec_isa": codecache.pick_vec_isa()}
    main = cpp_builder.CppTorchDeviceOptions(compile_only=bool(optimized_code),
                                             min_optimize=optimized_code is not None, **command)
    optimized = cpp_builder.CppTorchDeviceOptions(compile_only=True, **command)
    return _key("library", ("class", cls.__name__), ("main", main_code),
                ("optimized", f"={optimized_code}" if optimized_code is not None else ""),
                *_compiler_parts(main, optimized))


def _lay(payload, name):
    """Writes a verified library to Inductor's folder, unless it is there. Returns its path."""
    from torch._inductor.codecache import cache_dir
    folder = os.path.join(cache_dir(), "kiln")
    path = os.path.join(folder, name + ".so")
    try:
        with open(path, "rb") as file:
            if file.read() == payload:
                return path
    except OSError:
        pass
    os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(payload)
    os.replace(file.name, path)
    return path


def _load_library(cache, load_async):
    signature = inspect.signature(load_async)
    libraries = {}

    def load_async_from_store(cls, *arguments, **options):
        bound = signature.bind(cls, *arguments, **options)
        bound.apply_defaults()
        given = bound.arguments
        if not given["device_type"].startswith("cpu"):
            return load_async(cls, *arguments, **options)
        key = _library_key(cls, given["main_code"], given["device_type"], given["extra_flags"],
                           given["optimized_code"])
        if key in libraries:
            return libraries[key]
        payload = door.get(key)
        if payload is not None:
            load = functools.partial(cls._load_library, _lay(payload, key.digest), key.digest)
        else:
            door.note_miss(key)
            began_ns = time.time_ns()
            load = _publishing(load_async(cls, *arguments, **options), key, began_ns)
        libraries[key] = functools.lru_cache(maxsize=None)(load)
        return libraries[key]

    cache.cache_clear = staticmethod(lambda: (cache.cache.clear(), libraries.clear()))
    return load_async_from_store


def _publishing(load, key, began_ns):
    """Returns a function that loads a library and publishes it, if it was built meanwhile."""
    def load_and_publish():
        library = load()
        path = getattr(library, "_name", None) or library.__file__
        if os.stat(path).st_mtime_ns >= began_ns:
            with open(path, "rb") as file:
                door.put(key, file.read(), os.path.basename(path), device=_device(),
                         build_ns=time.time_ns() - began_ns)
        return library

    return load_and_publish


def _check_instructions(owner, check_build):
    def check_once(isa, code):
        key = _key("instructions", ("name", str(isa)), ("flags", isa.build_arch_flags()),
                   ("code", code), *_compiler_parts())
        if door.get(key) is not None:
            return True
        if not check_build(isa, code):
            return False
        door.put(key, b"", str(isa), device=_device())
        return True

    return check_once


# ---- timings of kernels ----

@functools.lru_cache(maxsize=None)
def _gpus():
    """Returns the models of this machine's GPUs; "" if the driver does not tell."""
    models = set()
    for path in glob.glob("/proc/driver/nvidia/gpus/*/information"):
        try:
            with open(path, encoding="utf-8") as file:
                models.update(line for line in file if line.startswith("Model:"))
        except OSError:
            return ""
    return "".join(sorted(models))


def _timings_key(path):
    # The name has the digest of the kernel's source and of Inductor.
    return _key("timings", ("gpus", _gpus()), ("name", os.path.basename(path)))


def _read_timings(owner, read):
    def read_from_store(self, key, sample):
        payload = door.get(_timings_key(key)) if _gpus() else None
        return json.loads(payload) if payload is not None else read(self, key, sample)

    return read_from_store


def _write_timings(owner, write):
    def write_and_publish(self, key, value, sample):
        write(self, key, value, sample)
        if _gpus():
            door.put(_timings_key(key), json.dumps(value).encode(), os.path.basename(key),
                     device=_device())

    return write_and_publish
