# SPDX-License-Identifier: Apache-2.0
"""The doors: which frameworks Kiln caches for, and the hook that installs a door once its framework
has been imported. `kiln run` activates the hook in each Python program that it runs; this module is
then loaded without the rest of the package, and imports nothing until a framework is imported."""

import sys


class Door:
    """A framework that Kiln caches for. Versions from `first` on and before `unknown` are known,
    as tuples of numbers."""

    def __init__(self, framework, module, distributions, first, unknown):
        self.framework = framework  # the module after whose import the door is installed
        self.module = module  # the module of this package with install()
        self.distributions = distributions  # what pip calls the framework
        self.first = first
        self.unknown = unknown


DOORS = (
    Door("triton", "kiln.triton", ("triton",), (3, 0), (3, 10)),
    Door("jax", "kiln.jax", ("jax",), (0, 10), (0, 13)),
    Door("cupy", "kiln.cupy", ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy"), (14,),
         (15,)),
    Door("torch._inductor.compile_fx", "kiln.inductor", ("torch",), (2, 11), (2, 12)),
)

# What became of each framework that was imported: its module -> "active", "inactive", or what went
# wrong.
states = {}


def numbers_of(version):
    """Returns the leading numbers of a version: (3, 6, 0) of "3.6.0+git1"."""
    numbers = []
    for part in version.split("."):
        digits = ""
        for character in part:
            if not "0" <= character <= "9":
                break
            digits += character
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def knows(framework, version):
    """Returns whether the door of a framework knows this version of it."""
    for door in DOORS:
        if door.framework == framework:
            return door.first <= numbers_of(version) < door.unknown
    return False


def _print_installed():
    """Prints, as JSON, which frameworks are installed: `kiln doctor` runs this file."""
    import json
    from importlib import metadata

    found = []
    for door in DOORS:
        for distribution in door.distributions:
            try:
                version = metadata.version(distribution)
            except metadata.PackageNotFoundError:
                continue
            found.append({"name": distribution, "version": version,
                          "known": knows(door.framework, version)})
    print(json.dumps(found))


def _find_package():
    """Makes `kiln` importable. Returns False if the program has a different module of that name.
    Otherwise the program's own package is used; this one, only if the program has none."""
    import importlib.util
    import os

    if "kiln" in sys.modules:
        return hasattr(sys.modules["kiln"], "Store")
    spec = importlib.util.find_spec("kiln")
    if spec is not None and spec.origin is None and any(
            name.endswith(".py") for folder in spec.submodule_search_locations
            for name in os.listdir(folder)):
        return False
    # A folder without modules, such as a store, is no package of the program.
    if spec is None or spec.origin is None:
        # The folder above must not become a part of the program's path, because it may contain all
        # packages of a different Python.
        folder = os.path.dirname(os.path.abspath(__file__))
        spec = importlib.util.spec_from_file_location(
            "kiln", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
        package = sys.modules["kiln"] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(package)
        except BaseException:
            del sys.modules["kiln"]
            raise
        return True
    return os.path.isfile(os.path.join(os.path.dirname(spec.origin), "_doors.py"))


def install(door):
    """Installs the door of a framework that has been imported. Raises nothing."""
    try:
        if _find_package():
            import importlib

            is_active = importlib.import_module(door.module).install()
            states[door.framework] = "active" if is_active else "inactive"
        else:
            states[door.framework] = "the program has a different module named kiln"
    except Exception as error:  # a program never fails because it is not cached
        states[door.framework] = "%s: %s" % (type(error).__name__, error)


class _Loader:
    """Loads a framework as its own loader does, then installs the door."""

    def __init__(self, own, door):
        self._own = own
        self._door = door

    def __getattr__(self, name):
        return getattr(self._own, name)

    def create_module(self, spec):
        return self._own.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._own
        self._own.exec_module(module)
        install(self._door)


class _Finder:
    """Finds the frameworks of the doors, each once."""

    def __init__(self):
        self._pending = {door.framework: door for door in DOORS}

    def find_spec(self, name, path=None, target=None):
        door = self._pending.get(name)
        if door is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                # A loader without exec_module is loaded in a different way.
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, door)
                return spec
        return None


def activate():
    """Installs the doors of frameworks that were imported, and hooks the import of the others."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for door in DOORS:
        if door.framework in sys.modules:
            install(door)


if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules have names of frameworks
    _print_installed()
