# SPDX-License-Identifier: Apache-2.0
"""Keeps what JAX compiles in Kiln's store: `import kiln.jax; kiln.jax.install()`.

docs/frameworks.md describes what is cached, and what is in the key."""

import functools
import inspect
import os
import re
import threading
import time

from kiln import _door, _doors

# What the replaced functions of JAX must take. JAX may give them more parameters.
_GET_CACHE_PARAMETERS = {"backend"}
_COMPILE_PARAMETERS = {"backend", "module_name", "cache_key"}

# The packages whose code decides what a compiler for a GPU yields.
_PLUGINS = ("jax-cuda12-pjrt", "jax-cuda13-pjrt", "jax-cuda12-plugin", "jax-cuda13-plugin")
_GPU_PACKAGES = _PLUGINS + tuple(
    name + suffix for name in ("nvidia-cuda-nvcc", "nvidia-cudnn", "nvidia-cublas",
                               "nvidia-nvjitlink") for suffix in ("", "-cu12", "-cu13"))

# Options that are objects, or large.
_OPAQUE_OPTIONS = {"executable_build_options", "fdo_profile"}

door = _door.Door("jax", "jax")


class _Build(threading.local):
    """The build that a thread is making."""
    began = None
    folder_seconds = 0.0
    folder_bytes = 0
    arguments = None


_build = _Build()


def install():
    """Makes JAX ask Kiln's store before it compiles, and keep results there. Returns whether it
    does: not if Kiln is turned off, or if this version of JAX is not known. A second call changes
    nothing."""
    return door.install(_hook)


def _hook():
    from jax import version
    if not _doors.knows("jax", version.__version__):
        raise _door.Unknown(f"JAX {version.__version__} is not known")
    from jax._src import compilation_cache, compiler, config, distributed
    try:
        get_cache = compilation_cache._get_cache
        compile_and_write = compiler._compile_and_write_cache
        compile_signature = inspect.signature(compile_and_write)
        read_parameters = inspect.signature(compiler._cache_read).parameters
        is_known = (set(inspect.signature(get_cache).parameters) == _GET_CACHE_PARAMETERS and
                    _COMPILE_PARAMETERS <= set(compile_signature.parameters) and
                    set(read_parameters) <= set(compile_signature.parameters))
        limits = (config.persistent_cache_min_compile_time_secs,
                  config.persistent_cache_min_entry_size_bytes)
        checks_contents = getattr(config, "compilation_cache_check_contents", None)
    except AttributeError as error:
        raise _door.Unknown(f"JAX {version.__version__} is not known: {error}") from error
    if not is_known:
        raise _door.Unknown(f"JAX {version.__version__} is not known: other parameters")
    tool = f"JAX {version.__version__}"

    @functools.wraps(get_cache)
    def get_cache_with_store(backend):
        folder = get_cache(backend)
        is_checked = checks_contents is not None and checks_contents.value
        is_supported = backend.runtime_type not in compilation_cache._UNSUPPORTED_RUNTIMES
        if is_checked or not is_supported or not _identity(backend.platform):
            return folder
        return _Cache(backend.platform, folder, tool)

    @functools.wraps(compile_and_write)
    def compile_once(*arguments, **options):
        named = compile_signature.bind(*arguments, **options).arguments
        platform = named["backend"].platform
        # The processes of a distributed program compile together, and only the first one writes.
        if not _identity(platform) or distributed.global_state.client is not None:
            return compile_and_write(*arguments, **options)
        key = _key(platform, named["cache_key"])
        with door.lease(key):
            if door.has(key):
                executable, _ = compiler._cache_read(**{name: named[name]
                                                        for name in read_parameters})
                if executable is not None:
                    return executable
            door.note_miss(key)
            _build.arguments = named
            _build.began = time.monotonic()
            _build.folder_seconds, _build.folder_bytes = (limit.value for limit in limits)
            # The limits are meant for the program's folder. They are changed for this thread and
            # this call only.
            try:
                with limits[0](0.0), limits[1](0):
                    return compile_and_write(*arguments, **options)
            finally:
                _build.arguments = None

    compilation_cache._get_cache = get_cache_with_store
    compiler._compile_and_write_cache = compile_once


@functools.lru_cache(maxsize=None)
def _identity(platform):
    """Returns what decides a result and is not in JAX's key, as parts of a key. They are empty if
    they are not known: the results of such a platform are not cached."""
    if platform == "cpu":
        names, processor = (), _door.processor()
    elif platform == "gpu" and any(map(_door.package, _PLUGINS)):
        names, processor = _GPU_PACKAGES, "any"
    else:
        return ()
    library = _door.package("jaxlib", module="jaxlib")
    if not library or not processor:
        return ()
    packages = "".join(f"{name} {_door.package(name)}\n" for name in names if _door.package(name))
    return (("jaxlib", library), ("packages", packages), ("processor", processor))


def _key(platform, key):
    return door.key([("platform", platform), *_identity(platform), ("key", key)])


def _text(value):
    """Returns a value as text. The first line of a text of Protocol Buffers is a note that differs
    at random from process to process."""
    return re.sub(r"^goo\.gle/debug.*\n", "", str(value))


def _explanation():
    """Returns what the key of this thread's build was made from, as parts of a key. Nothing looks
    these up, so they need not be complete."""
    options = _build.arguments["compile_options"]
    build_options = options.executable_build_options
    module = _build.arguments["computation"].operation.get_asm(large_elements_limit=16)
    return [
        ("module", module),
        ("backend", _build.arguments["backend"].platform_version),
        *((name, os.environ[name]) for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
          if name in os.environ),
        *(("option " + name, _text(getattr(owner, name))) for owner in (options, build_options)
          for name in dir(owner) if not name.startswith("_") and name not in _OPAQUE_OPTIONS
          and not callable(getattr(owner, name))),
    ]


class _Cache:
    """JAX's cache interface over the store. The folder that the program names, if it names one, is
    asked after the store, and filled as without Kiln."""

    def __init__(self, platform, folder, tool):
        self._platform = platform
        self._folder = folder
        self._tool = tool
        # JAX logs it.
        self._path = getattr(folder, "_path", None)

    def get(self, key):
        payload = door.get(_key(self._platform, key))
        if payload is None and self._folder:
            return self._folder.get(key)
        return payload

    def put(self, key, value):
        seconds = time.monotonic() - _build.began if _build.began else 0.0
        door.put(_key(self._platform, key), value, key.rpartition("-")[0],
                 device=f"{self._tool}, {self._platform}", explain=_explanation,
                 build_ns=int(seconds * 1e9))
        if self._folder and seconds >= _build.folder_seconds and \
                len(value) >= _build.folder_bytes:
            self._folder.put(key, value)
