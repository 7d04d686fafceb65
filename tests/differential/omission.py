# SPDX-License-Identifier: Apache-2.0
"""Leaves one part at a time out of all keys, and checks that the harness notices.

Without a part that differs between worlds, a look-up finds the entry of a different build, and the
outputs differ. Parts that cannot differ here, or without which keys still differ, are listed below,
with the reason.
"""

import json
import multiprocessing
import os
import random
import shutil
import subprocess
import tempfile
import time

import differential
import programs as programs_module
import reduction
import runner
import worlds as worlds_module

# How to show that a part is missing: the dimensions in which worlds differ, a feature that all
# programs must have, and how otherwise equal programs differ.
HINTS = {
    "nvrtc": {
        "source": (None, None, "atom"), "option": (None, None, "option"),
        "name": (None, "place", "name"), "name.folder": (None, "place", "name"),
        "header": (None, "headers", "header name"), "header.content": (None, "headers", "header"),
        "name expression": (None, "expressions", "expression"),
        "working directory": (["folder"], "placed", None), "env.*": (["environment"], "optix", None),
        "reads": (["files", "edit"], "includes", None), "folds": (["tunables"], "dense", None),
        "cpu.floating_point": (["mxcsr", "x87"], None, None),
    },
    "intel": {
        "source": (None, None, "atom"), "il": (None, "constants", "module"),
        "options": (None, None, "option"), "constant": (None, "values", "constant id"),
        "constant.value": (None, "values", "constant"), "header": (None, "headers", "header name"),
        "header.content": (None, "headers", "header"),
        "reads": (["files", "edit"], "includes", None), "read": (["files", "edit"], "linked includes", None),
        "working directory": (["folder"], "includes", None), "env.*": (["environment"], None, None),
        "working.*": (["files"], None, None), "driver.file": (["driver"], None, None),
        "device.partition": (["part"], None, None), "device.partition.units": (["part"], None, None),
        "step": (None, "link", "atom"), "input": (None, "link", "atom"),
        "cpu.floating_point": (["mxcsr", "x87"], "dense", None),
        "driver.math": (["math"], "dense", None), "libm.unused": (["tunables"], "dense", None),
    },
}
# PoCL is given no modules, and reads no file of settings from the working directory.
HINTS["pocl"] = {part: hint for part, hint in HINTS["intel"].items()
                 if part not in ("il", "constant", "constant.value", "working.*")}

# Lists of settings. Each world gets one setting of the list, in addition to random ones.
WORLDS = {
    # PWD is a separate part with the same information.
    "working directory": [{"unset": ["PWD"]}],
    "intel env.*": [{"environment": None}, {"environment": {"CL_CONFIG_CPU_VECTORIZER_MODE": "1"}}],
    "intel working.*": [{"files": None},
                        {"files": {"w/cl.cfg": "CL_CONFIG_CPU_VECTORIZER_MODE = 1\n"}}],
    # Intel's runtime folds constants with the C library's functions if the program has loaded libm
    # first.
    "intel libm.unused": [{"math": 1, "tunables": None},
                          {"math": 1, "tunables": worlds_module.TUNABLES[0]}],
    "pocl libm.unused": [{"tunables": None}, {"tunables": worlds_module.TUNABLES[0]}],
}

PASSES_THROUGH = "PoCL's compilations and links pass through"
ONE_MACHINE = "one machine has one of these: the part distinguishes machines that share a store"
REDUNDANT = {
    "nvrtc.version": "the build-id in nvrtc.library distinguishes versions too; this part is for people",
    "nvrtc.library": "one NVRTC is on this machine; tests/device/nvrtc has a second one",
    "nvrtc.builtins": "one NVRTC is on this machine; tests/device/nvrtc has a second one",
    "name.folder": "names with and without a folder have separate results: reads are tied to the folder",
    "platform.name": "the build-ids in driver.file distinguish platforms too",
    "platform.version": "the build-ids in driver.file distinguish versions too",
    "pocl header": PASSES_THROUGH,
    "pocl header.content": PASSES_THROUGH,
    "pocl input": PASSES_THROUGH,
    "pocl step": PASSES_THROUGH,
    "pocl env.*": "the harness compares no binaries of PoCL, and a variable that adds options passes "
                  "through",
    "pocl driver.file": "one PoCL is on this machine; Intel's runtime is tested with other files",
    "intel working directory": "Intel's runtime replaces __FILE__ by the path as it was passed",
    "pocl working directory": "PoCL replaces __FILE__ in a header by the path as it was passed",
    "intel cpu.floating_point": "Intel's runtime folds the same in every mode; all drivers have this part",
    "device.partition": "Intel's runtime makes the same code for a part of a device; others may not",
    "device.": ONE_MACHINE,
    "cpu": ONE_MACHINE,
    "platform.": "the build-ids in driver.file distinguish platforms too",
    "step": "a compilation has no part input, and a link has nothing else",
    "constant": "the harness's module has one constant; tests of keys have more",
    "il": "the bytes of a text and of a module differ",
}


def has(program, what):
    if what is None:
        return True
    if what == "dense":
        return any(body.count("(double *)") > 100 or body.count("as_ulong") > 100
                   for _, body in program["atoms"])
    if what == "optix":
        return "--optix-ir" in program["options"]
    if what in ("includes", "linked includes"):
        return "@includes@" in program["options"] and "#include" in programs_module.render(program, "")
    if what == "placed":
        return bool({"-G", "-lineinfo", "-dlto", "--optix-ir", "--gen-opt-lto"} & set(program["options"]))
    if what == "values":
        return bool(program["constants"])
    if what == "place":
        return any("__FILE__" in body for _, body in program["atoms"])
    if what == "constants":
        return program["constants"] is not None
    return bool(program[what])


def names_of_parts(setting, arguments, scratch):
    """Returns the names of the parts that keys have on this machine, from the entries of a few
    worlds."""
    site = runner.Site(setting, os.path.join(scratch, "parts"))
    draw = random.Random(arguments.seed)
    programs = differential.make_programs(draw, setting.device, 40)
    found, store = set(), site.new_store()
    for dimension in ("environment", "folder", "part", "files"):
        site.run(worlds_module.change(worlds_module.ordinary(), dimension, draw, setting.device),
                 programs[:10 if setting.device == "pocl" else 40], store)
    listing = subprocess.run([setting.kiln(), "ls", "--json", "--dir", store], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in listing.stdout.splitlines():
        shown = subprocess.run([setting.kiln(), "show", "--json", "--dir", store,
                                json.loads(line)["digest"]],
                               check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        found |= {part["name"] for part in json.loads(shown.stdout)["key"]}
    return found


# The limit on the random programs that are made to find programs with a required feature.
MOST_DRAWS = 10000


def make_programs(draw, device, what, kind, about):
    """Makes as many programs as a round has. All have a required feature, and some form pairs that
    differ in one thing."""
    made = []
    for _ in range(MOST_DRAWS):
        if len(made) >= differential.SIZES[device][0]:
            break
        program = programs_module.make(draw, device, about)
        if what == "optix":
            program["options"].append("--optix-ir")
        elif what == "linked includes":
            program["link"] = True
        if has(program, what):
            made.append(program)
            if kind:
                made.append(programs_module.vary(draw, device, program, kind))
    if not made:
        raise runner.Failure("no program has the required feature: %s" % what)
    return sorted(made, key=lambda program: program["link"])


class Found(Exception):
    pass


def search(task):
    """Runs rounds without a part until a mismatch is certain or time is up."""
    setting, part, seed, end = task
    focus, what, kind = HINTS[setting.device].get(part, (None, None, None))
    focus = set(focus or ()) & set(worlds_module.dimensions_of(setting.device)) or ["others"]
    setting = runner.Setting(setting.device, setting.build, setting.cuda, setting.runtimes, part)
    scratch = tempfile.mkdtemp(prefix="kiln-differential-")
    pairs, began = 0, time.monotonic()

    def report(round_, _histories, world, program, plain_lines, kiln_lines):
        fields = reduction.differing_fields(plain_lines, kiln_lines)
        fields -= reduction.unstable_fields(round_.site, world, program, round_.programs)
        if fields:
            raise Found(", ".join(sorted(fields)))

    try:
        site = runner.Site(setting, os.path.join(scratch, "r"))
        number = 0
        while time.monotonic() < began + end:
            round_ = differential.Round(site, seed, number, report, focus, began + end)
            draw = random.Random("%d %s %d" % (seed, part, number))
            settings = WORLDS.get(part) or WORLDS.get(setting.device + " " + part) or [{}]
            round_.worlds = [dict(world, **draw.choice(settings)) for world in round_.worlds]
            round_.programs = make_programs(draw, setting.device, what, kind,
                                            "files" if what and "includes" in what else None)
            number += 1
            pairs += round_.run()["pairs"]
    except Found as found:
        return part, "found", "in %s, after %.0f s" % (found, time.monotonic() - began)
    except runner.Failure as failure:
        return part, "failed", str(failure)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for name, why in REDUNDANT.items():
        if name in (part, setting.device + " " + part) or (name.endswith(".") and part.startswith(name)):
            return part, "redundant", why
    return part, "NOT FOUND", "%d pairs" % pairs


def run(arguments, setting, _run_rounds):
    scratch = tempfile.mkdtemp(prefix="kiln-differential-")
    omitting = runner.Setting(setting.device, setting.build, setting.cuda, setting.runtimes)
    try:
        names = names_of_parts(omitting, arguments, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    parts = {"env.*" if name.startswith("env.") else "working.*" if name.startswith("working.")
             else name for name in names}
    parts |= {"reads"}
    chosen = sorted(arguments.omit or parts | set(HINTS[setting.device]))
    tasks = [(omitting, part, arguments.seed, 60 * arguments.minutes) for part in chosen]
    bad = 0
    print("| part | without it | |\n| --- | --- | --- |", flush=True)
    with multiprocessing.Pool(arguments.jobs) as pool:
        for part, outcome, detail in pool.imap(search, tasks):
            bad += outcome not in ("found", "redundant")
            print("| %s | %s | %s |" % (part, outcome, detail), flush=True)
    print("%d parts, %d of them neither found nor redundant" % (len(chosen), bad))
    return 1 if bad else 0
