# SPDX-License-Identifier: Apache-2.0
"""Worlds: the surroundings of a compiler, as data. A world is a dictionary with a value for each of
the dimensions below; None is the ordinary value.

This file states which dimensions affect a compiler's output for one purpose only: worlds that are
equal in all of those are expected to hit. No result is judged by it.
"""

import json
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(FOLDER, "environment.json")) as _file:
    ENVIRONMENT = json.load(_file)

# MXCSR: rounding to nearest, down, up and to 0; flushing of results and operands; exceptions.
MXCSR = {"nearest": "1f80", "down": "3f80", "up": "5f80", "zero": "7f80", "ftz": "9f80",
         "daz": "1fc0", "ftz+daz": "9fc0", "down+ftz": "bf80"}
# The x87 control word: extended, double, single precision; rounding.
X87 = {"extended": "37f", "double": "27f", "single": "7f", "down": "77f", "zero": "f7f"}

TUNABLES = ["glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-FMA,-FMA4", "glibc.cpu.hwcaps=-AVX512F,-FMA,-AVX2",
            "glibc.malloc.check=0", "glibc.cpu.x86_rep_movsb_threshold=4096"]
LIMITS = ["nofile 64", "stack 2097152", "core 0", "fsize 100000", "fsize 1000", "stack 16777216"]
LOCALES = ["C", "C.UTF-8", "POSIX", "de_DE.UTF-8"]


def _header(name, value):
    return "#define %s_VALUE %d\n" % (name, value)


# Paths below the root: a text, or ["link", target], ["folder"], ["map", {name: [folder, file]}],
# ["bytes", hexadecimal], ["copy", path].
TREE = {
    "w": ["folder"], "w/sub": ["folder"], "elsewhere": ["folder"], "inc1": ["folder"],
    "inc2": ["folder"], "inc1/deep": ["folder"], "tmp": ["folder"], "tmp2": ["folder"],
    "home": ["folder"], "mapped": ["folder"], "same": ["link", "."], "bin": ["folder"],
    "inc1/a.h": _header("A", 10), "inc2/a.h": _header("A", 20),
    "inc1/deep/b.h": '#include "../b2.h"\n', "inc1/b2.h": _header("B", 30),
    "inc2/c.h": "#ifdef A_VALUE\n#define C_VALUE (A_VALUE + 40)\n#else\n" + _header("C", 41) + "#endif\n",
    "inc2/l1.h": _header("L", 50), "inc2/l2.h": _header("L", 60),
    "inc2/link.h": ["link", "l1.h"],
    "inc2/mapped.h": _header("M", 85), "inc2/late.h": _header("LATE", 94),
    "w/local.h": _header("LOCAL", 70), "inc1/local.h": _header("LOCAL", 71),
    "mapped/m.h": _header("M", 80), "mapped/a.h": _header("A", 81),
}
TIME = 1000000000

# Possible changes of the tree.
CHANGES = [
    {"inc1/a.h": _header("A", 11)}, {"inc1/b2.h": _header("B", 31)}, {"inc2/l1.h": _header("L", 51)},
    {"inc2/c.h": "#define C_VALUE 42\n"}, {"mapped/m.h": _header("M", 89)},
    {"mapped/m.h": _header("M", 88)}, {"mapped/a.h": _header("A", 82)},
    {"inc2/link.h": ["link", "l2.h"]}, {"inc2/link.h": ["link", "../inc1/b2.h"]},
    {"inc1/link.h": _header("L", 52)}, {"w/a.h": _header("A", 12)}, {"inc1/a.h": None},
    {"inc1/c.h": _header("C", 43)}, {"w/deep/b.h": _header("B", 32)}, {"w/local.h": None},
    {"w/sub/local.h": _header("LOCAL", 72)}, {"inc2/mapped.h": _header("M", 83)},
    {"inc1/late.h": _header("LATE", 90)}, {"inc2/late.h": _header("LATE", 91)},
    {"inc1/deep": ["link", "../inc2"], "inc1/deep/b.h": None, "inc2/b.h": _header("B", 33)},
    {"elsewhere/a.h": _header("A", 13)}, {"inc1": ["link", "inc2"], "inc1/a.h": None,
                                         "inc1/b2.h": None, "inc1/deep": None, "inc1/deep/b.h": None,
                                         "inc1/local.h": None},
    {"inc1/a.h": '#include "late.h"\n#define A_VALUE 14\n', "inc2/late.h": _header("LATE", 92)},
    {"w/cl.cfg": "CL_CONFIG_CPU_VECTORIZER_MODE=1\n"}, {"w/cl.cfg": "CL_CONFIG_USE_VECTORIZER=0\n"},
]
MAPS = [
    {"mapped.h": ["@root@/mapped/", "m.h"]},
    {"mapped.h": ["@root@/mapped/", "m.h"], "a.h": ["@root@/mapped/", "a.h"]},
    {"mapped.h": ["@root@/inc2/", "l2.h"]},
]
INCLUDES = [["inc1", "inc2"], ["inc2", "inc1"], ["inc1"], ["inc2"], ["map.hmap", "inc1", "inc2"],
            ["inc1", "map.hmap"], ["map.hmap", "inc2"], [], ["inc1", "inc1/deep", "inc2"],
            ["relative"], ["w", "inc1"], ["missing", "inc1", "inc2"]]

# Changes that a program's process may make to files half-way. Programs compiled before the change
# are compiled again after it.
EDITS = [["inc1/a.h", _header("A", 15)], ["inc2/l1.h", _header("L", 53)],
         ["inc1/late.h", _header("LATE", 93)], ["mapped/m.h", _header("M", 84)],
         ["inc1/b2.h", _header("B", 34)], ["w/a.h", _header("A", 16)]]

DIMENSIONS = ["environment", "others", "unset", "mxcsr", "x87", "locale", "folder", "includes", "files",
              "map", "affinity", "tunables", "limits", "thread", "fork", "library", "driver", "part",
              "edit", "again", "helper", "math"]
# Worlds that differ only in these are expected to hit each other's entries.
WITHOUT_EFFECT = {"others", "locale", "affinity", "limits", "thread", "helper"}


def ordinary():
    return dict.fromkeys(DIMENSIONS)


def _environment(random, device):
    chosen = {}
    for _ in range(random.randint(1, 2)):
        name = random.choice(ENVIRONMENT[device])
        values = ENVIRONMENT["values"].get(name, ENVIRONMENT["values"][""])
        chosen[name] = random.choice(values)
    return chosen


def _others(random, _device):
    return {random.choice(ENVIRONMENT["others"]): random.choice(ENVIRONMENT["other values"])
            for _ in range(random.randint(1, 3))}


def _files(random, _device):
    made = {}
    for change in random.sample(CHANGES, random.randint(1, 3)):
        made.update(change)
    return made


def _driver(random, device):
    return random.choice(DRIVERS[device]) if DRIVERS[device] else None


# Copies of the driver with different files around it: names of copies that runner.py makes.
DRIVERS = {
    "nvrtc": ["copy"],
    "intel": ["copy", "above", "beside", "cl.cfg"],
    "pocl": [],
}


def change(world, dimension, random, device):
    """Gives one dimension of a world a different value."""
    makers = {
        "environment": lambda: _environment(random, device),
        "others": lambda: _others(random, device),
        # PoCL ends the process if it does not find the linker.
        "unset": lambda: [random.choice(["HOME", "TMPDIR", "PWD", "PWD"] + ["PATH"] * (device != "pocl"))],
        "mxcsr": lambda: random.choice(list(MXCSR.values())),
        "x87": lambda: random.choice(list(X87.values())),
        "locale": lambda: random.choice(LOCALES),
        "folder": lambda: random.choice(["w/sub", "elsewhere", "same/w", "inc1", "inc2"]),
        "includes": lambda: random.choice(INCLUDES),
        "files": lambda: _files(random, device),
        "map": lambda: random.choice(MAPS),
        "affinity": lambda: random.choice(["1", "2", "3"]),
        "tunables": lambda: random.choice(TUNABLES),
        "limits": lambda: random.choice(LIMITS),
        "thread": lambda: 1,
        # Intel's runtime and PoCL have threads. A child forked later may find their locks taken.
        "fork": lambda: random.choice(["before", "before", "after"]) if device == "nvrtc" else "before",
        "library": lambda: random.choice(["link", "link", "both", "both", "again"]) if device == "nvrtc" else None,
        "driver": lambda: _driver(random, device),
        "part": lambda: None if device == "nvrtc" else random.choice(["sub", "subs"]),
        "edit": lambda: random.choice(EDITS),
        "again": lambda: random.choice([None, "1f80", "3f80", "9fc0", "7f80"]) or "same",
        "helper": lambda: 1 if device == "pocl" and random.random() < 0.5 else None,
        "math": lambda: 1,
    }
    changed = dict(world)
    changed[dimension] = None if world[dimension] is not None and random.random() < 0.4 \
        else makers[dimension]()
    if changed["part"]:
        changed["affinity"] = None  # a device of one processor has no parts
    if dimension == "map" and changed["map"]:
        if "map.hmap" not in (changed["includes"] or []):
            changed["includes"] = ["map.hmap", "inc1", "inc2"]
        if random.random() < 0.5:
            changed["files"] = dict(changed["files"] or {}, **{"mapped/m.h": _header("M", 89)})
    return changed


def dimensions_of(device):
    """The dimensions, each repeated by its weight."""
    often = {"mxcsr": 3, "files": 4, "environment": 4, "map": 4, "includes": 2, "others": 2,
             "driver": 2, "tunables": 2}
    absent = {"nvrtc": {"part", "helper", "map", "math"}, "intel": {"library", "helper"},
              "pocl": {"library", "driver"}}[device]
    return [d for d in DIMENSIONS if d not in absent for _ in range(often.get(d, 1))]


def neighbour(world, random, device, focus=None):
    """A world that differs in a few dimensions, or in none. @focus: the only ones that may differ."""
    dimensions = [d for d in dimensions_of(device) if not focus or d in focus]
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3])):
        world = change(world, random.choice(dimensions), random, device)
    return world


def difference(a, b):
    return [d for d in DIMENSIONS if a[d] != b[d]]


def keeps_nothing(world, device):
    """Whether Kiln makes no entries in a world: a libnvrtc in a second namespace, a child forked
    after the first call, variables that add options, a limit on the size of files, PoCL's
    sub-devices."""
    return (world["part"] and device == "pocl") or world["library"] == "again" or world["fork"] == "after" or \
        (world["limits"] or "").startswith("fsize") or \
        any(name.endswith("_FLAGS") for name in world["environment"] or {})


def are_equal_in_what_counts(a, b, device):
    return all(d in WITHOUT_EFFECT for d in difference(a, b)) and \
        not keeps_nothing(a, device) and not keeps_nothing(b, device)


def tree(world):
    """The files of a world: from the path below the root to the contents."""
    found = dict(TREE)
    found.update(world["files"] or {})
    if world["map"]:
        found["map.hmap"] = ["map", world["map"]]
    links = {path + "/" for path, what in found.items() if isinstance(what, list) and what[0] == "link"}
    # If a folder has become a link, its contents are gone.
    return {path: what for path, what in found.items()
            if what is not None and not any(path.startswith(link) for link in links)}


def includes(world):
    """The options for "@includes@"."""
    names = world["includes"] if world["includes"] is not None else ["inc1", "inc2"]
    return ["-I../inc1" if name == "relative" else "-I@root@/" + name for name in names]


def prologue(world):
    """The steps of a worker's job before the library is opened."""
    if world["fork"] == "before":
        yield "fork", ""
    yield "chdir", "@root@/" + (world["folder"] or "w")
    for dimension, step in (("locale", "locale"), ("affinity", "affinity"), ("mxcsr", "mxcsr"),
                            ("x87", "x87"), ("thread", "thread")):
        if world[dimension] is not None:
            yield step, str(world[dimension])


def late_prologue(world):
    """The steps after the library was opened."""
    if world["fork"] == "after":
        yield "fork", ""
    if world["limits"]:
        yield "limit", world["limits"]
