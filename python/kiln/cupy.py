# SPDX-License-Identifier: Apache-2.0
"""Keeps what CuPy compiles in Kiln's store: `import kiln.cupy; kiln.cupy.install()`.

docs/frameworks.md describes what is cached, and what is in the key."""

import functools
import hashlib
import inspect
import os
import re
import threading
import time

from kiln import _door, _doors

# Options with which a result depends on more than its key says: files, the driver's linker, time.
# Options may begin with one or two dashes.
_OTHER_OPTIONS = re.compile(
    "include|pre-include|isystem|pch|create-pch|use-pch|time|fdevice-time-trace|device-c|dc"
    "|rdc|relocatable-device-code|DCUPY_USE_JITIFY|split-compile|@")
# Variables that NVRTC and the compilers within it read.
_VARIABLES = ("NVRTC", "NVVM", "LIBNVVM", "NV_NVVM", "EDG_", "LLVM_", "PTXAS")
# How CuPy names a program after its key.
_KEY_NAME = re.compile(r"[0-9a-f]{32,}\.cubin\.cu")
_CALENDAR = re.compile("__(DATE|TIME|TIMESTAMP)__")

door = _door.Door("cupy", "cupy", _VARIABLES)


class _Request(threading.local):
    """What a thread is compiling."""
    parts = None  # of the key; None: not to be cached
    lease = None
    began = None


_request = _Request()


def install():
    """Makes CuPy ask Kiln's store before it compiles, and keep results there. Returns whether it
    does: not if Kiln is turned off, or if this version of CuPy is not known. A second call changes
    nothing."""
    return door.install(_hook)


def _hook():
    import cupy
    if not _doors.knows("cupy", cupy.__version__):
        raise _door.Unknown(f"CuPy {cupy.__version__} is not known")
    from cupy.cuda import _compiler_cache, compiler
    try:
        compile_with_cache = compiler._compile_with_cache_cuda
        signature = inspect.signature(compile_with_cache)
        own = compiler._kernel_cache_backend
        set_backend = compiler._set_kernel_cache_backend
        is_known = {"source", "options", "backend", "jitify"} <= set(signature.parameters)
    except AttributeError as error:
        raise _door.Unknown(f"CuPy {cupy.__version__} is not known: {error}") from error
    if not is_known:
        raise _door.Unknown(f"CuPy {cupy.__version__} is not known: other parameters")
    root = os.path.dirname(os.path.abspath(cupy.__file__)) + os.sep
    tool = f"cupy {cupy.__version__}"

    class Backend(_compiler_cache.KernelCacheBackend):
        """CuPy's cache interface over the store. CuPy's own folder is asked after the store, and
        filled as without Kiln."""

        def load(self, name):
            if _request.parts is None:
                return own.load(name)
            key = _key(name)
            payload = door.get(key)
            if payload is None:
                payload = own.load(name)
            if payload is None:
                _request.lease = door.lease(key)
                _request.lease.__enter__()
                _request.began = time.monotonic_ns()
                if door.has(key):
                    payload = door.get(key)
            return payload

        def save(self, name, cubin, source):
            own.save(name, cubin, source)
            if _request.parts is not None and _request.began is not None:
                key, build_ns = _key(name), time.monotonic_ns() - _request.began
                if not _is_seen():
                    door.note_build(key, name, "cuda", build_ns)
                door.publish(key, cubin, name=name, device="cuda", tool=tool, build_ns=build_ns)

    @functools.wraps(compile_with_cache)
    def compile_once(*arguments, **options):
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        outer = vars(_request).copy()
        _request.lease = _request.began = None
        _request.parts = _parts(bound.arguments, root)
        try:
            return compile_with_cache(*arguments, **options)
        finally:
            if _request.lease is not None:
                _request.lease.__exit__(None, None, None)
            vars(_request).clear()
            vars(_request).update(outer)

    compiler._compile_with_cache_cuda = compile_once
    _use_lasting_names(compiler)
    set_backend(Backend())


def _use_lasting_names(compiler):
    """Makes CuPy name a program after its source. CuPy's own name for it is its key, in which are
    NVRTC's version and the architecture. NVRTC's results may depend on the name. So what Kiln builds
    before an upgrade, or for a different architecture, would have names for which CuPy never asks.
    Programs that are linked keep CuPy's names, which NVRTC uses to tell their hidden symbols
    apart."""
    own = getattr(compiler, "_compile_using_nvrtc_no_warning", None)
    if own is None or not {"source", "options", "filename", "method"} <= set(
            inspect.signature(own).parameters):
        return

    @functools.wraps(own)
    def compile_named(*arguments, **options):
        bound = inspect.signature(own).bind(*arguments, **options)
        bound.apply_defaults()
        known = bound.arguments
        if _KEY_NAME.fullmatch(known["filename"]) and known["method"] is None and not any(
                _OTHER_OPTIONS.match(option.lstrip("-")) for option in known["options"]):
            digest = hashlib.blake2b(known["source"].encode(), digest_size=20).hexdigest()
            known["filename"] = digest + ".cubin.cu"
        return own(*bound.args, **bound.kwargs)

    compiler._compile_using_nvrtc_no_warning = compile_named


def _is_seen():
    """Returns whether Kiln's layer for NVRTC counts and records what is compiled. It may also have
    found the result, so that nothing was compiled."""
    return "libkiln_nvrtc_audit" in os.environ.get("LD_AUDIT", "")


def _key(name):
    return door.key([("name", name), *_request.parts])


def _parts(arguments, root):
    """Returns what decides a result and is not in CuPy's key, as parts of a key. CuPy's key
    has the text of the program but not of the headers, so headers must be CuPy's or the toolkit's.
    Returns None if the result depends on anything else."""
    if arguments["backend"] != "nvrtc" or arguments["jitify"] or \
            _CALENDAR.search(arguments["source"]) or \
            "NVRTC_PREPEND_FLAGS" in os.environ or "NVRTC_APPEND_FLAGS" in os.environ:
        return None
    headers = _cupy()
    if not headers or not _includes_by_name_only(arguments["source"]):
        return None
    for option in arguments["options"]:
        if option.startswith("-I"):
            folder = os.path.normpath(option[2:]) + os.sep
            if not folder.startswith(root):
                toolkit = _toolkit(folder) if folder == _toolkit_folder() else ""
                if not toolkit:
                    return None
                headers += "\n" + toolkit
        elif _OTHER_OPTIONS.match(option.lstrip("-")):
            return None
    return [("headers", headers)]


def _includes_by_name_only(source):
    """Returns whether all headers that the program names are looked for in the folders of the
    options: not beside the program, and not by an absolute path."""
    source = source.replace("\\\r\n", "").replace("\\\n", "")
    named = len(re.findall(r"\b(?:include|include_next|import|embed|__has_include\w*)\b", source))
    known = len(re.findall(r'^[ \t]*#[ \t]*include[ \t]*(?:<(?![/.])(?:(?!\.\.)[^>\n])+>'
                           r'|"cupy/(?:(?!\.\.)[^"\n])+")[ \t]*$', source, re.MULTILINE))
    return named == known


@functools.lru_cache(maxsize=None)
def _cupy():
    """Returns what identifies CuPy's headers; "" if that is not known."""
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"):
        identity = _door.package(name, "/include/", "cupy")
        if identity:
            return identity
    return ""


@functools.lru_cache(maxsize=None)
def _toolkit_folder():
    """Returns the folder of the toolkit's headers, as CuPy finds it."""
    from cupy._environment import get_cuda_path
    path = get_cuda_path()
    return os.path.normpath(os.path.join(path, "include")) + os.sep if path else None


@functools.lru_cache(maxsize=None)
def _toolkit(folder):
    """Returns what identifies the toolkit's headers: the names and sizes of all, and the content of
    those of the highest level; "" if they cannot be read."""
    digest = hashlib.sha256()
    try:
        for name, size in _files(folder, ""):
            digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
            if "/" not in name:
                with open(folder + name, "rb", buffering=0) as content:
                    digest.update(content.read())
    except OSError:
        return ""
    return digest.hexdigest()


def _files(folder, path):
    """Yields the name and the size of each file in a part of a folder, in order. The part is a path
    in the folder that ends with "/", or "" for all of it. The names begin with that path. Links to
    folders are not followed."""
    with os.scandir(folder + path) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    folders = [entry for entry in found if entry.is_dir()]
    for entry in found:
        if entry not in folders:
            yield path + entry.name, entry.stat().st_size
    for entry in folders:
        if not entry.is_symlink():
            yield from _files(folder, path + entry.name + "/")
