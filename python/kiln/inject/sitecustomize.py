# SPDX-License-Identifier: Apache-2.0
#
# `kiln run` puts this folder into PYTHONPATH, so Python runs this file when it starts. The file hides
# the sitecustomize of the program or the system. It runs that one first, and then activates Kiln's
# doors. All versions of Python can read it, because a program may start any of them.

import os
import sys


def run_hidden(folder):
    """Imports the sitecustomize that this one hides, if there is any, in place of this one."""
    own = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in sys.path if path != folder]
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        # Python 2 does not tell which module is missing.
        if getattr(sys.exc_info()[1], "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


def is_supported():
    """Returns whether the extension supports this Python, and the user is its only one."""
    return (sys.version_info >= (3, 9) and sys.implementation.name == "cpython"
            and "t" not in sys.abiflags
            and os.getuid() == os.geteuid() and os.getgid() == os.getegid())


def activate(package):
    from importlib.machinery import ModuleSpec, SourceFileLoader

    path = os.path.join(package, "_doors.py")
    loader = SourceFileLoader("kiln._doors", path)
    spec = ModuleSpec("kiln._doors", loader, origin=path)
    doors = type(sys)("kiln._doors")
    doors.__file__ = path
    doors.__spec__ = spec
    doors.__loader__ = loader
    doors.__package__ = "kiln"
    loader.exec_module(doors)
    sys.modules["kiln._doors"] = doors
    doors.activate()


folder = os.path.dirname(__file__)
try:
    run_hidden(folder)
finally:
    try:
        if is_supported():
            activate(os.path.dirname(folder))
    except Exception:  # a program never fails because it is not cached
        pass
