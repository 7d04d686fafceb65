# SPDX-License-Identifier: Apache-2.0
"""Worlds: the surroundings of a compiler, as data. A world is a dictionary with a value for each of
the dimensions below; None is the ordinary value.

This file states which dimensions affect a compiler's output for one purpose only: worlds that are
equal in all of these dimensions are expected to hit. The check of whether a result is right does
not depend on this statement."""

import json
import os

from programs import RUNTIME_COMPILERS

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


# A header whose macro shows whether it was read twice.
ONCE = "#pragma once\n#ifdef ONCE_READ\n#define ONCE_VALUE 2\n#endif\n#define ONCE_READ\n"
# A header whose code contains its own path.
WHERE = """#ifndef WHERE_VALUE
#ifdef __OPENCL_VERSION__
constant
#else
static __device__ const
#endif
char where_text[] = __FILE__;
#define WHERE_VALUE (where_text[sizeof where_text / 2] + 1000 * (int)sizeof where_text + __INCLUDE_LEVEL__)
#endif
"""
# The files of a project. There are two projects with the same layout.
PROJECT = {
    "a.h": _header("A", 60), "local.h": _header("LOCAL", 61), "n2.h": "#define N_2 2\n",
    "common/n.h": '#include "types.h"\n#include "../n2.h"\n#if __has_include("common/n3.h")\n'
                  '#include "common/n3.h"\n#else\n#define N_3 0\n#endif\n#define N_VALUE (N_1 + N_2 + N_3)\n',
    "common/types.h": "#define N_1 10\n", "common/n3.h": "#define N_3 300\n",
}

# Paths below the root: a text, or ["link", target], ["hard link", path], ["folder"],
# ["map", {name: [folder, file]}], ["aged", time, text].
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
    "none": ["folder"], "twin": ["link", "none"], "third": ["link", "twin"], "alias": ["link", "one"],
    "inc1/once.h": ONCE, "inc1/twice.h": ["link", "once.h"],
    "inc1/both.h": '#include "once.h"\n#include "twice.h"\n', "inc1/where.h": WHERE,
    "inc1/asks.h": '#if __has_include(<asked.h>)\n#define ASKS_VALUE 1\n#else\n#define ASKS_VALUE 0\n#endif\n',
    "inc1/older.h": '#pragma GCC dependency "once.h"\n#define OLDER_VALUE 86\n',
    "inc1/stamp.h": "#ifdef __TIMESTAMP__\n#define STAMP_VALUE (__TIMESTAMP__[18] + __TIME__[7])\n#else\n"
                    "#define STAMP_VALUE __TIME__[7]\n#endif\n",
    "inc1/join.h": "#define JOIN(a, b) a##b\n#define JOIN3(a, b, c) a##b##c\n#define TEXT(x) #x\n",
}
for _name, _text in PROJECT.items():
    TREE["one/" + _name] = _text
    TREE["two/" + _name] = _text
TREE["two/a.h"] = _header("A", 62)
TREE["two/common/types.h"] = "#define N_1 20\n"
TIME = 1000000000

# Changes to the files that a world may have.
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
    {"inc1/twice.h": ["hard link", "inc1/once.h"]}, {"inc1/twice.h": ONCE},
    {"inc1/twice.h": ["link", "thrice.h"], "inc1/thrice.h": ["link", "once.h"]},
    {"inc1/c.h": ["hard link", "inc2/c.h"]}, {"twin": ["folder"]}, {"third": ["link", "none"]},
    {"twin": ["link", "inc2"]}, {"third": ["link", "inc1"]},
]
# Headers that may appear in any folder, or be removed, and the macros that they define.
HEADERS = {"a.h": "A_VALUE", "c.h": "C_VALUE", "deep/b.h": "B_VALUE", "mapped.h": "M_VALUE",
           "link.h": "L_VALUE", "local.h": "LOCAL_VALUE", "late.h": "LATE_VALUE",
           "asked.h": "ASKED_VALUE", "common/types.h": "N_1", "types.h": "N_1", "n2.h": "N_2",
           "common/n3.h": "N_3"}
MAPS = [
    {"mapped.h": ["@root@/mapped/", "m.h"]},
    {"mapped.h": ["@root@/mapped/", "m.h"], "a.h": ["@root@/mapped/", "a.h"]},
    {"mapped.h": ["@root@/inc2/", "l2.h"]},
]
INCLUDES = [["inc1", "inc2"], ["inc2", "inc1"], ["inc1"], ["inc2"], ["map.hmap", "inc1", "inc2"],
            ["inc1", "map.hmap"], ["map.hmap", "inc2"], [], ["inc1", "inc1/deep", "inc2"],
            ["relative"], ["w", "inc1"], ["missing", "inc1", "inc2"], ["none", "twin", "inc1", "inc2"],
            ["twin", "third", "none", "inc1"], ["same/inc1", "inc2"], [".", "inc1", "inc2"], ["."],
            [".", "one"], ["one", "two", "inc1"], ["none", "relative", "inc2"]]

# Changes that a process may make to files between programs. Programs compiled before the change
# are compiled again after it.
EDITS = [["inc1/a.h", _header("A", 15)], ["inc2/l1.h", _header("L", 53)],
         ["inc1/late.h", _header("LATE", 93)], ["mapped/m.h", _header("M", 84)],
         ["inc1/b2.h", _header("B", 34)], ["w/a.h", _header("A", 16)]]

DIMENSIONS = ["environment", "others", "unset", "spelled", "mxcsr", "x87", "locale", "folder", "includes",
              "files", "times", "clock", "map", "affinity", "tunables", "limits", "thread", "fork",
              "library", "driver", "part", "edit", "again", "helper", "math", "first"]
# Options of the program that a process compiles first: some that NVRTC does not forget, so that it
# compiles later programs as if they had them too, and some that it must forget.
LASTING = ["--restrict", "--Ofast-compile=mid", "--optimization-info=inline"]
FORGOTTEN = [
    "-G", "-lineinfo", "-dlto", "--gen-opt-lto", "--optix-ir", "-rdc=true", "--use_fast_math", "-ftz=true",
    "-prec-div=false", "-prec-sqrt=false", "-fmad=false", "-w", "--maxrregcount=16", "--minimal",
    "-arch=sm_90", "--ptxas-options=-O0", "--ptxas-options=-v", "--device-stack-protector=true",
    "--jump-table-density=0", "--split-compile=2", "-default-device", "--diag-suppress=177",
    "--diag-error=177", "--brief-diagnostics=true", "--no-display-error-number", "-std=c++14"]
# Worlds that differ only in these dimensions are expected to hit each other's entries.
WITHOUT_EFFECT = {"others", "clock", "locale", "affinity", "limits", "thread", "helper"}


def ordinary():
    return dict.fromkeys(DIMENSIONS)


def _environment(random, device):
    chosen = {}
    for _ in range(random.randint(1, 2)):
        name = random.choice(ENVIRONMENT[device])
        values = ENVIRONMENT["values"].get(name, ENVIRONMENT["values"][""])
        chosen[name] = random.choice(values)
    return chosen


def _others(random, device):
    names = [name for name in ENVIRONMENT["others"] if name not in ENVIRONMENT[device]]
    return {random.choice(names): random.choice(ENVIRONMENT["other values"])
            for _ in range(random.randint(1, 3))}


def _places(world):
    """Returns the folders that the world's compilers search."""
    here = (world["folder"] or "w").replace("same/", "")
    known = {".": here, "relative": "inc1", "same/inc1": "inc1"}
    return [known.get(name, name) for name in includes_of(world) if name != "map.hmap"] + [here]


def _appearance(random, world):
    """Returns a change that adds a header to a searched folder, or removes it from there."""
    places = _places(world)
    unusual = [place for place in places if TREE.get(place, "missing") != ["folder"]]
    folder = random.choice(unusual if unusual and random.random() < 0.6
                           else places + ["inc1/deep", "one/common"])
    name = random.choice(["a.h"] * 4 + ["asked.h"] * 2 + list(HEADERS))
    made = {} if TREE.get(folder, ["folder"]) == ["folder"] else {folder: ["folder"]}
    made[os.path.normpath(folder + "/" + name)] = \
        None if random.random() < 0.2 else "#define %s %d\n" % (HEADERS[name], random.randint(100, 999))
    return made


def _files(random, world):
    made = {}
    for _ in range(random.randint(1, 3)):
        edit = {random.choice(["inc1/a.h", "inc1/a.h", "one/a.h"]): _header("A", random.randint(10, 99))}
        made.update(random.choice([_appearance(random, world), _appearance(random, world), edit,
                                   random.choice(CHANGES), random.choice(CHANGES)]))
    return made


def _driver(random, device):
    return random.choice(DRIVERS[device]) if DRIVERS[device] else None


# Copies of the driver with different files around it: names of copies that runner.py makes.
DRIVERS = {
    "nvrtc": ["copy"],
    "intel": ["copy", "above", "beside", "cl.cfg"],
    "pocl": [],
    "hiprtc": [],
}


def change(world, dimension, random, device):
    """Returns a world with a different value of one dimension."""
    makers = {
        "environment": lambda: _environment(random, device),
        "others": lambda: _others(random, device),
        # PoCL ends the process if it does not find the linker.
        "unset": lambda: [random.choice(["HOME", "TMPDIR", "PWD", "PWD"] + ["PATH"] * (device != "pocl"))],
        "spelled": lambda: random.choice(["/nowhere", "@root@", "@root@/same/w"] +
                                         ["@root@/" + name for name in _places(world)]),
        "mxcsr": lambda: random.choice(list(MXCSR.values())),
        "x87": lambda: random.choice(list(X87.values())),
        "locale": lambda: random.choice(LOCALES),
        # A world in one of the two projects moves to the other project.
        "folder": lambda: random.choice(
            [{"one": "two", "two": "one"}.get(world["folder"], "one"), "one", "two",
             random.choice(["w/sub", "elsewhere", "same/w", "inc1", "inc2", "alias"])]),
        "includes": lambda: random.choice(INCLUDES) if random.random() < 0.6 else random.sample(
            ["inc1", "inc2", "none", "twin", "third", "one", "missing", ".", "relative"], 4),
        "files": lambda: _files(random, world),
        "times": lambda: {random.choice(["inc1/once.h", "inc1/a.h", "inc1/stamp.h"]):
                          random.choice([0, TIME - 1000, TIME + 1007, 4000000000])},
        "clock": lambda: random.choice([TIME, 1700000061, 1234567890]),
        "map": lambda: random.choice(MAPS),
        "affinity": lambda: random.choice(["1", "2", "3"]),
        "tunables": lambda: random.choice(TUNABLES),
        "limits": lambda: random.choice(LIMITS),
        "thread": lambda: 1,
        # Intel's runtime and PoCL have threads. A child forked later may find their locks taken.
        "fork": lambda: random.choice(["before", "before", "after"]) if device in RUNTIME_COMPILERS else "before",
        # A second namespace has no room for the thread-local memory of HIP's runtime.
        "library": lambda: random.choice(["link", "link", "both", "both", "again"]) if device == "nvrtc" else "link",
        "driver": lambda: _driver(random, device),
        "part": lambda: None if device in RUNTIME_COMPILERS else random.choice(["sub", "subs"]),
        "edit": lambda: random.choice(EDITS),
        "again": lambda: random.choice([None, "1f80", "3f80", "9fc0", "7f80"]) or "same",
        "helper": lambda: 1 if device == "pocl" and random.random() < 0.5 else None,
        "math": lambda: 1,
        "first": lambda: random.choice(random.choice([LASTING, FORGOTTEN])),
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


# The dimensions that decide which files a compiler finds, and their weights in worlds that differ
# in nothing else.
ABOUT_FILES = {"folder": 5, "includes": 3, "files": 5, "spelled": 2, "times": 1, "clock": 2, "edit": 1}
# The dimensions that affect the words with which a text refers to files and clocks.
ABOUT_WORDS = {"files", "times", "clock", "edit"}


def subject(focus):
    """Returns what programs should be about if worlds differ only in these dimensions."""
    if focus and set(focus) <= ABOUT_WORDS:
        return "words"
    return "files" if focus and set(focus) <= set(ABOUT_FILES) else None


def dimensions_of(device):
    """Returns a list in which each dimension occurs as often as its weight."""
    often = {"mxcsr": 3, "files": 5, "folder": 2, "environment": 4, "map": 4, "includes": 2, "others": 2,
             "driver": 2, "tunables": 2}
    absent = {"nvrtc": {"part", "helper", "map", "math"}, "intel": {"library", "helper", "first"},
              "pocl": {"library", "driver", "first"},
              "hiprtc": {"part", "helper", "map", "math", "driver", "first"}}[device]
    return [d for d in DIMENSIONS if d not in absent for _ in range(often.get(d, 1))]


def neighbour(world, random, device, focus=None):
    """Returns a world that differs in a few dimensions, or in none. @focus: the only ones that may
    differ."""
    dimensions = [d for d in dimensions_of(device) if not focus or d in focus]
    if subject(focus):
        dimensions = [d for d in focus for _ in range(ABOUT_FILES[d])]
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3])):
        world = change(world, random.choice(dimensions), random, device)
    return world


def difference(a, b):
    return [d for d in DIMENSIONS if a[d] != b[d]]


def keeps_nothing(world, device):
    """Returns whether Kiln makes no entries in a world: a libnvrtc in a second namespace, a child
    forked after the first call, variables that add options, a limit on the size of files, PoCL's
    sub-devices, an option that lasts."""
    return (world["part"] and device == "pocl") or world["library"] == "again" or world["fork"] == "after" or \
        world["first"] in LASTING or \
        (world["limits"] or "").startswith("fsize") or \
        any(name.endswith("_FLAGS") for name in world["environment"] or {})


def are_equal_in_what_counts(a, b, device):
    return all(d in WITHOUT_EFFECT for d in difference(a, b)) and \
        not keeps_nothing(a, device) and not keeps_nothing(b, device)


def tree(world):
    """Returns the files of a world: a dictionary from paths below the root to contents."""
    found = dict(TREE)
    found.update(world["files"] or {})
    for path, time in (world["times"] or {}).items():
        if isinstance(found.get(path), str):
            found[path] = ["aged", time, found[path]]
    if world["map"]:
        found["map.hmap"] = ["map", world["map"]]
    links = {path + "/" for path, what in found.items() if isinstance(what, list) and what[0] == "link"}
    # If a folder has become a link, its contents are gone.
    there = {path: what for path, what in found.items()
             if what is not None and not any(path.startswith(link) for link in links)}
    for path, what in list(there.items()):
        if what[0] == "hard link" and what[1] not in there:
            del there[path]
        while "/" in path:
            path = os.path.dirname(path)
            there.setdefault(path, ["folder"])
    return there


def includes_of(world):
    return world["includes"] if world["includes"] is not None else ["inc1", "inc2"]


def includes(world):
    """Returns the options for "@includes@"."""
    relative = {"relative": "-I../inc1", ".": "-I."}
    return [relative.get(name, "-I@root@/" + name) for name in includes_of(world)]


def prologue(world):
    """Returns the steps of a worker's job before the library is opened."""
    if world["fork"] == "before":
        yield "fork", ""
    yield "chdir", "@root@/" + (world["folder"] or "w")
    for dimension, step in (("clock", "clock"), ("locale", "locale"), ("affinity", "affinity"), ("mxcsr", "mxcsr"),
                            ("x87", "x87"), ("thread", "thread")):
        if world[dimension] is not None:
            yield step, str(world[dimension])


def late_prologue(world):
    """Returns the steps after the library was opened."""
    if world["fork"] == "after":
        yield "fork", ""
    if world["limits"]:
        yield "limit", world["limits"]
    if world["first"]:
        yield "first", world["first"]
