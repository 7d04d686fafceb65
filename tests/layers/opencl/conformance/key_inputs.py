#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that everything that decides a build is in the key, and that a faulty cache directory does
no harm.

Each change of an input (a variable that affects the compiler, a header found in the working
directory, a header that a macro of the command line names) must have the same effect as without
the layer. With damaged entries, results are right and the entries are replaced; with entries of an
unknown format version, results are right and the entries stay. Directories that cannot be used are
left alone, and the program continues without extra output on stdout and stderr.
"""

import glob
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

import runner

PLAIN = """
#ifndef FOO
#define FOO 0
#endif
__kernel void f(__global int *out) { out[get_global_id(0)] = FOO; }
"""

BY_NAME = """
#include "h.h"
__kernel void f(__global int *out) { out[get_global_id(0)] = BASE; }
"""

BY_MACRO = """
#include HEADER
__kernel void f(__global int *out) { out[get_global_id(0)] = BASE; }
"""

FOLDS = """
__kernel void f(__global int *out) { out[get_global_id(0)] = (int)as_long(__builtin_exp(0.7)); }
"""

ROUNDED = ("--round-to-zero",)
NOBODY = 65534
VERSION_OFFSET = 8
NOT_CACHED = "skipped: builds are not cached on this runtime"
CASES = ["handles.kernels", "queries.built", "kernels.information"]


class Inputs(runner.Runner):
    def write(self, name, text):
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def write_linked(self):
        """Writes the source for the checks of links, and removes the working directory's header."""
        self.write("linked.cl", LINKED)
        if os.path.exists(os.path.join(self.work, "h.h")):
            os.remove(os.path.join(self.work, "h.h"))

    def layered(self, *arguments, **settings):
        done = super().layered(*arguments, **settings)
        if "KILN_DIR" not in settings:
            self.capture()
        return done

    def counters(self, *arguments, **settings):
        counted = super().counters(*arguments, **settings)
        self.capture()
        return counted

    def compare(self, what, *arguments, **settings):
        """Checks that the output is the same with the layer. Runs without it first, with a separate
        cache directory that has seen the same builds in the same order."""
        expected = self.native(*arguments, **settings)
        self.check_same(self.layered(*arguments, **settings), expected, what)
        return expected

    def use_fresh_driver_cache(self):
        """Gives the runtime a new cache, since the old one may return builds made under other
        conditions."""
        self.base["POCL_CACHE_DIR"] = tempfile.mkdtemp(prefix="pocl-", dir=self.scratch)

    def empty(self):
        shutil.rmtree(self.cache, ignore_errors=True)


def check_variables(bench):
    """Sets a variable that affects the compiler. Runtimes other than PoCL ignore it, and the result
    stays the same."""
    bench.empty()
    bench.write("plain.cl", PLAIN)
    for flags in (None, None, "-DFOO=7", "-DFOO=8", "-DFOO=7", None):
        settings = {"POCL_EXTRA_BUILD_FLAGS": flags} if flags else {}
        bench.compare("POCL_EXTRA_BUILD_FLAGS=%s" % flags, "--source", "plain.cl", **settings)
    bench.compare("an option", "--source", "plain.cl", "--options", "-DFOO=9")
    bench.compare("another", "--source", "plain.cl", "--options", "-DFOO=10")


def check_named_variables(bench):
    """KILN_KEY_ENV adds any variable to the key: a changed value is a miss."""
    bench.empty()
    if not caches(bench):
        return NOT_CACHED
    arguments = ("--source", "plain.cl")
    for value, missed in (("one", 1), ("one", 0), ("two", 1), ("one", 0)):
        counters, _ = bench.counters(*arguments, KILN_KEY_ENV="CONFORMANCE_*", CONFORMANCE_A=value)
        bench.check(
            counters.get("misses") == missed, "KILN_KEY_ENV with value %s" % value, counters
        )
    return None


def check_floating_point(bench):
    """Varies the floating-point mode of the calling thread, in which PoCL's compiler folds
    constants. PoCL's own cache does not distinguish modes, so each run has a new one."""
    bench.empty()
    bench.write("folds.cl", FOLDS)
    cached = caches(bench)
    for number, (mode, missed) in enumerate(
        (((), 1), (ROUNDED, 1), ((), 0), (ROUNDED, 0))
    ):
        arguments = ("--source", "folds.cl", *mode)
        fresh = {"POCL_CACHE_DIR": bench.folder("pocl-%d" % number)}
        expected = bench.native(*arguments, **fresh)
        fresh = {"POCL_CACHE_DIR": bench.folder("pocl-under-%d" % number)}
        counters, run = bench.counters(*arguments, **fresh)
        run.stderr = ""  # the counters
        bench.check_same(run, expected, "in mode %s: right results" % (mode,))
        right = not cached or counters.get("misses") == missed
        bench.check(right, "in mode %s: %d misses" % (mode, missed), counters)


def check_floating_point_of_links(bench):
    """A link is found if its inputs were compiled in the same mode."""
    bench.empty()
    if not caches_links(bench):
        return "skipped: links are not looked up on this runtime"
    bench.write("folds.cl", FOLDS)
    counts = os.path.join(bench.scratch, "counts")
    for wanted, mode in ((BUILT, ()), (FOUND, ()), (BUILT, ROUNDED), (FOUND, ROUNDED)):
        write_new(counts)
        linked = ("--source", "folds.cl", "--linked", *mode)
        got, run = outcomes(
            bench,
            *linked,
            OPENCL_LAYERS="%s:%s" % (bench.options.counting, bench.options.layer),
            COUNTING_LAYER_FILE=counts,
        )
        bench.check_same(run, bench.native(*linked), "in mode %s: right results" % (mode,))
        bench.check(got == wanted, "in mode %s: the expected outcomes" % (mode,), got)
        counted = read_bytes(counts).decode().split()
        bench.check("compiles=1" in counted, "in mode %s: compiles" % (mode,), counted)
        rounded = "rounded=%d" % (1 if mode else 0)
        bench.check(rounded in counted, "in mode %s: compiled in it" % (mode,), counted)
    return None


def check_headers(bench):
    bench.empty()
    bench.write("by_name.cl", BY_NAME)
    for base in (10, 10, 11, 10, 12):
        bench.write("h.h", "#define BASE %d\n" % base)
        bench.compare("h.h in the working directory, %d" % base, "--source", "by_name.cl")
    bench.write("h.h", '#include "inner.h"\n#define BASE INNER\n')
    for base in (20, 20, 21, 20):
        bench.write("inner.h", "#define INNER %d\n" % base)
        bench.compare("inner.h of h.h, %d" % base, "--source", "by_name.cl")


def check_named_folder(bench):
    bench.empty()
    os.remove(os.path.join(bench.work, "h.h"))
    for base in (30, 30, 31, 30):
        bench.write("sub/h.h", "#define BASE %d\n" % base)
        bench.compare(
            "sub/h.h by -I, %d" % base, "--source", "by_name.cl", "--options", "-I sub"
        )
    # Tests a file that comes earlier in the search order.
    bench.write("h.h", "#define BASE 32\n")
    bench.compare("h.h before sub/h.h", "--source", "by_name.cl", "--options", "-I sub")
    os.remove(os.path.join(bench.work, "h.h"))
    bench.compare("h.h gone again", "--source", "by_name.cl", "--options", "-I sub")


def header_map(name, prefix, suffix):
    """Returns a header map in clang's format, in which an include of @name finds @prefix +
    @suffix."""
    strings, places = b"\0", []
    for text in (name, prefix, suffix):
        places.append(len(strings))
        strings += text.encode() + b"\0"
    buckets = [(0, 0, 0)] * 8
    buckets[sum(ord(letter) * 13 for letter in name.lower()) % len(buckets)] = tuple(places)
    head = struct.pack(
        "<IHHIIII", 0x686D6170, 1, 0, 24 + 12 * len(buckets), 1, len(buckets), len(prefix + suffix)
    )
    return head + b"".join(struct.pack("<III", *bucket) for bucket in buckets) + strings


def check_header_maps(bench):
    """A header map in place of an include folder may name headers in any folder."""
    bench.empty()
    bench.write("by_map.cl", BY_NAME.replace("h.h", "mapped.h"))
    folder = os.path.join(bench.work, "behind/")
    mapped = header_map("mapped.h", folder, "other.h")
    for name, options in (("a.hmap", "-I a.hmap"), ("b.hmap", "-Ib.hmap"), ("include", "-w")):
        path = os.path.join(bench.work, name)
        with open(path, "wb") as file:
            file.write(mapped)
        for base in (45, 46):
            bench.write("behind/other.h", "#define BASE %d\n" % base)
            bench.compare(
                "a header map, %s, %d" % (options, base),
                "--source",
                "by_map.cl",
                "--options",
                options,
            )
        os.remove(path)


def check_macros(bench):
    bench.empty()
    bench.write("by_macro.cl", BY_MACRO)
    bench.write("sub/other.h", "#define BASE 49\n")
    for base in (40, 40, 41, 40):
        bench.write("sub/h.h", "#define BASE %d\n" % base)
        bench.compare(
            "sub/h.h by a macro, %d" % base,
            "--source",
            "by_macro.cl",
            "--options",
            "-Isub -DHEADER=<h.h>",
        )
    bench.compare(
        "another header by the same macro",
        "--source",
        "by_macro.cl",
        "--options",
        "-Isub -DHEADER=<other.h>",
    )


def driver_folder():
    """Returns the driver's folder from the vendor's file; "" if the file contains only a name."""
    vendors = os.environ.get("OCL_ICD_VENDORS", "")
    return "".join(
        os.path.dirname(open(each).read().strip())
        for each in sorted(glob.glob(os.path.join(vendors, "*.icd")))[:1]
    )


def folded_constants():
    """Returns a kernel of constants that LLVM computes with the C library's functions. For the
    calls listed first, glibc 2.36 computes a different last bit without fused multiplication.
    Intel's library rounds every eighth log10 differently."""
    calls = ["exp(%s)" % x for x in (0.529, 0.663, 1.767, 1.789, 3.625, 3.749, 4.342, 6.218)]
    calls += ["sin(%s)" % x for x in (0.259, 1.622, 5.989, 6.413, 7.889, 8.299, 8.85, 9.264)]
    calls += ["cos(%s)" % x for x in (1.31, 1.995, 3.809, 7.615, 9.99, 10.797, 12.835)]
    calls += ["log10(%s)" % (x / 7) for x in range(1, 60)]
    lines = ["sum = sum * 31 + (as_ulong(__builtin_%s) & 0xff);" % call for call in calls]
    return "\n".join(
        ["__kernel void f(__global int *out) {", "ulong sum = 0;"]
        + lines
        + ["out[get_global_id(0)] = (int)(sum & 0x7fffffff);", "}"]
    )


def check_math_functions(bench):
    """Varies which library provides exp, sin and the like in a program, and how it computes
    them."""
    bench.empty()
    bench.write("folded.cl", folded_constants())
    other_processor = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-FMA,-FMA4"}
    worlds = [{}, other_processor]
    # A library that also has these functions, and that comes before the C library, as in a program
    # that is linked to it. It is a part of Intel's runtime, whose driver uses it if the program has
    # neither library.
    libraries = [os.path.join(driver_folder(), name) for name in ("libintlc.so.5", "libimf.so")]
    if all(map(os.path.exists, libraries)):
        preload = ":".join(libraries)
        worlds += [{"LD_PRELOAD": preload}, dict(other_processor, LD_PRELOAD=preload)]
    for world in worlds + worlds:
        bench.use_fresh_driver_cache()
        expected = bench.native("--source", "folded.cl", **world)
        bench.check("f gives" in expected.stdout, "math functions, %s: it runs" % world, expected)
        bench.use_fresh_driver_cache()
        got = bench.layered("--source", "folded.cl", **world)
        bench.check_same(got, expected, "math functions, %s" % world)
    counters, _ = bench.counters("--source", "folded.cl")
    bench.check(counters.get("builds") == 0, "math functions: the same again hits", counters)


def copied_driver(bench):
    """Copies the runtime's driver, so that a test may change its files. Returns the folder of the
    driver's library and the folder of its vendor's file; None for a runtime that the test
    cannot copy."""
    vendors = os.environ.get("OCL_ICD_VENDORS", "")
    files = sorted(glob.glob(os.path.join(vendors, "*.icd")))
    name = open(files[0]).read().strip() if len(files) == 1 else ""
    inner = os.path.join(bench.folder("driver"), "inner")
    folder = os.path.join(inner, "lib")
    os.makedirs(folder)
    if os.path.basename(name) == "libintelocl.so":
        library, source = "libintelocl.so", os.path.dirname(os.path.realpath(name))
        own = ("cl.cfg",)
    elif name == "libpocl.so.2" and os.path.exists("/usr/share/pocl/include"):
        found = glob.glob("/usr/lib/*/libpocl.so.2")
        library, source, own = name, os.path.dirname(found[0]), ()
        shutil.copytree("/usr/share/pocl", os.path.join(bench.scratch, "driver/share/pocl"))
    else:
        return None
    for each in os.listdir(source):
        if own or each in ("pocl", library):
            os.symlink(os.path.join(source, each), os.path.join(folder, each))
    for each in (library, *own):
        os.remove(os.path.join(folder, each))
        shutil.copy(os.path.realpath(os.path.join(source, each)), os.path.join(folder, each))
    copied = bench.folder("driver/vendors")
    with open(os.path.join(copied, "copied.icd"), "w") as file:
        file.write(os.path.join(folder, library) + "\n")
    return folder, copied


class DriverFile:
    """A file of a copied driver that is changed and restored."""

    def __init__(self, path, changed):
        self.path = path
        self.kept = path + ".kept"
        self.changed = path + ".changed"
        if os.path.exists(path):
            shutil.copy(path, self.kept)
        with open(self.changed, "wb") as file:
            file.write(changed)

    def change(self):
        shutil.copy(self.changed, self.path)

    def restore(self):
        if os.path.exists(self.kept):
            shutil.copy(self.kept, self.path)
        else:
            os.remove(self.path)

    def command(self):
        return "cp '%s' '%s'" % (self.changed, self.path)


def check_driver_files(bench):
    """Changes files that the driver reads besides its libraries, between processes and within
    one."""
    bench.empty()
    copied = copied_driver(bench)
    if not copied:
        return "skipped: a driver that can't be copied"
    folder, vendors = copied
    if os.path.exists(os.path.join(folder, "cl.cfg")):
        # The driver finds the first file before the one beside its library. The first file
        # contains no built-in functions at all.
        files = (
            DriverFile(os.path.join(folder, "../clbltfnshared.rtl"), b"nothing\n"),
            DriverFile(os.path.join(folder, "cl.cfg"), b"CL_CONFIG_CPU_TARGET_ARCH = none\n"),
        )
    else:
        header = os.path.join(folder, "../../share/pocl/include/_kernel.h")
        changed = read_bytes(header) + b"\n#define FOO 3\n"
        files = (DriverFile(header, changed),)
    bench.write("plain.cl", PLAIN)
    bench.write("first.cl", PLAIN.replace("void f", "void g"))
    world = {"OCL_ICD_VENDORS": vendors}
    plain = ("--source", "plain.cl")

    def compare(what, *arguments):
        bench.use_fresh_driver_cache()
        expected = bench.native(*arguments, **world)
        bench.use_fresh_driver_cache()
        bench.check_same(bench.layered(*arguments, **world), expected, what)
        return expected.stdout

    for file in files:
        name = os.path.basename(file.path)
        before = compare("%s as it was" % name, *plain)
        file.change()
        after = compare("%s changed" % name, *plain)
        bench.check(before != after, "%s counts" % name, after)
        file.restore()
        compare("%s restored" % name, *plain)
        # The file changes once before the driver has built anything, and once after a first build.
        for moment in ((), ("--first", "first.cl")):
            bench.empty()
            for _ in range(2):
                changing = (*plain, *moment, "--before", file.command())
                bench.use_fresh_driver_cache()
                expected = bench.native(*changing, **world)
                file.restore()
                bench.use_fresh_driver_cache()
                got = bench.layered(*changing, **world)
                bench.check_same(got, expected, "%s changed in the process" % name)
                compare("%s still changed, %s" % (name, moment), *plain)
                file.restore()
                compare("%s restored, %s" % (name, moment), *plain)
    return None


def check_changes_before_builds(bench):
    """A file that the driver reads changes after the key was made and before the build."""
    bench.empty()
    settings = os.path.join(driver_folder(), "cl.cfg")
    if not os.path.exists(settings):
        return "skipped: a driver that reads no file in the working directory"
    bench.write("by_name.cl", BY_NAME)
    bench.write("h.h", "#define BASE 80\n")
    own = os.path.join(bench.work, "cl.cfg")
    changing = {
        "OPENCL_LAYERS": "%s:%s" % (bench.options.counting, bench.options.layer),
        "COUNTING_LAYER_COMMAND": "cp '%s' '%s'" % (settings, own),
    }
    got, _ = outcomes(bench, "--source", "by_name.cl", **changing)
    bench.check(os.path.exists(own), "the file changes")
    os.remove(own)
    for wanted in ("built", "hit-store"):
        got += outcomes(bench, "--source", "by_name.cl")[0]
        bench.check(got[-1] == wanted, "afterwards: %s" % wanted, got)
    return None


def check_unknown_functions(bench):
    """An unknown extension function inspects the driver's program, even after a hit."""
    seeing = bench.options.seeing
    if not seeing:
        return "skipped: no layer that inspects programs was named"
    bench.empty()
    for how in ("platform", "any"):
        arguments = ("--source", "plain.cl", "--see", how)
        expected = bench.native(*arguments, OPENCL_LAYERS=seeing)
        bench.check(
            "P1 is seen to be built: 0" in expected.stdout,
            "a function inspects the program",
            expected,
        )
        for state in ("cold", "warm"):
            layers = "%s:%s" % (seeing, bench.options.layer)
            got = bench.layered(*arguments, OPENCL_LAYERS=layers)
            bench.check_same(got, expected, "got for %s, %s" % (how, state))
    bench.write("folds.cl", FOLDS)
    counts = os.path.join(bench.scratch, "seen-counts")
    # In a warm run, the program from the binary is built first, and then also the one from the
    # source.
    for state, builds in (("cold", 1), ("warm", 2)):
        write_new(counts)
        bench.use_fresh_driver_cache()
        bench.layered(
            *("--source", "folds.cl", *ROUNDED, "--see", "platform"),
            OPENCL_LAYERS="%s:%s:%s" % (bench.options.counting, seeing, bench.options.layer),
            COUNTING_LAYER_FILE=counts,
        )
        counted = read_bytes(counts).decode().split()
        for wanted in ("builds=%d" % builds, "rounded=%d" % builds):
            what = "in the mode of the call, %s: %s" % (state, wanted)
            bench.check(wanted in counted, what, counted)
    return None


def caches(bench):
    """Returns whether this runtime's builds are cached at all."""
    bench.layered("--source", "plain.cl")
    return bool(runner.entry_files(bench.cache))


def flip(at):
    def damage(data):
        where = at if at >= 0 else len(data) + at
        return data[:where] + bytes([data[where] ^ 0x10]) + data[where + 1 :]

    return damage


DAMAGES = {
    "first byte flipped": flip(0),
    "byte 20 flipped": flip(20),
    "byte 200 flipped": flip(200),
    "a byte in the middle flipped": lambda data: flip(len(data) // 2)(data),
    "last byte flipped": flip(-1),
    "first half": lambda data: data[: len(data) // 2],
    "ten bytes": lambda data: data[:10],
    "a byte less": lambda data: data[:-1],
    "a byte more": lambda data: data + b"x",
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "text": lambda data: b"not an entry\n" * 40,
}


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def write_bytes(path, data):
    """Damages a file in place, with its mode kept."""
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(data)


def check_damage(bench):
    bench.empty()
    if not caches(bench):
        return NOT_CACHED
    bench.empty()
    expected = bench.native(*CASES)
    bench.check_same(bench.layered(*CASES), expected, "cold")
    whole = {path: read_bytes(path) for path in runner.entry_files(bench.cache)}
    bench.check(len(whole) > 0, "there are entries")
    counters, _ = bench.counters(*CASES)
    bench.check(counters.get("builds") == 0, "warm, nothing is built", counters)
    for name, damage in DAMAGES.items():
        for path, data in whole.items():
            write_bytes(path, damage(data))
        bench.check(not bench.verify()[0], "%s: kiln verify reports it" % name, bench.verify()[1])
        bench.check_same(bench.layered(*CASES), expected, "%s: right results" % name)
        accepted, said = bench.verify()
        bench.check(accepted, "%s: replaced" % name, said)
        counters, _ = bench.counters(*CASES)
        bench.check(counters.get("builds") == 0, "%s: warm again" % name, counters)
        whole = {path: read_bytes(path) for path in whole if os.path.exists(path)}
        bench.check(len(whole) > 0, "%s: entries under the same names" % name)
    return None


def check_versions(bench):
    """Entries of a format that this build does not know must not be removed."""
    bench.empty()
    if not caches(bench):
        return NOT_CACHED
    bench.empty()
    expected = bench.native(*CASES)
    bench.layered(*CASES)
    future = {}
    for path in runner.entry_files(bench.cache):
        data = read_bytes(path)
        changed = data[:VERSION_OFFSET] + (99).to_bytes(4, "little") + data[VERSION_OFFSET + 4 :]
        write_bytes(path, changed)
        future[path] = changed
    for _ in range(2):
        bench.check_same(bench.layered(*CASES), expected, "an unknown version: right results")
        for path, data in future.items():
            kept = os.path.exists(path) and read_bytes(path) == data
            bench.check(kept, "an unknown version stays", path)
    accepted, said = bench.verify()
    bench.check(accepted, "kiln verify reports a newer version, not damage", said)
    return None


def listing(path):
    """Returns names, modes, owners and sizes of everything in a folder, to check that nothing
    changed."""
    seen = []
    for folder, folders, names in os.walk(path):
        for name in sorted(folders + names):
            state = os.lstat(os.path.join(folder, name))
            seen.append((os.path.join(folder, name), state.st_mode, state.st_uid, state.st_size))
    return sorted(seen)


def check_directory(bench, expected, what, directory, untouched=None):
    before = listing(untouched) if untouched else None
    for _ in range(2):
        bench.check_same(bench.layered(*CASES, KILN_DIR=directory), expected, what)
    if untouched:
        bench.check(listing(untouched) == before, "%s: nothing is changed" % what, untouched)


def check_directories(bench):
    expected = bench.native(*CASES)
    file = os.path.join(bench.scratch, "file")
    open(file, "w").close()
    check_directory(bench, expected, "a file in the directory's place", file)
    check_directory(bench, expected, "a directory below a file", file + "/kiln")
    check_directory(bench, expected, "a directory of /proc", "/proc/kiln")
    check_directory(bench, expected, "a relative path", "relative/kiln")
    check_directory(bench, expected, "an empty name", "")
    target = bench.folder("target")
    link = os.path.join(bench.scratch, "link")
    os.symlink(target, link)
    check_directory(bench, expected, "a symbolic link", link, target)
    dangling = os.path.join(bench.scratch, "dangling")
    os.symlink(os.path.join(bench.scratch, "nowhere"), dangling)
    check_directory(bench, expected, "a symbolic link to nowhere", dangling)
    bench.check(not os.path.exists(dangling), "a symbolic link to nowhere: nothing is created")
    shared = bench.folder("shared")
    os.chmod(shared, 0o777)
    check_directory(bench, expected, "a directory that all may write", shared, shared)
    foreign = bench.folder("foreign")
    if os.geteuid() == 0:
        os.chown(foreign, NOBODY, NOBODY)
        check_directory(bench, expected, "another user's directory", foreign, foreign)
    else:
        check_directory(bench, expected, "another user's directory", "/usr")
        os.chmod(foreign, 0o500)
        check_directory(bench, expected, "a directory that can't be written", foreign, foreign)
        os.chmod(foreign, 0o700)


def check_inner_links(bench):
    """A symbolic link inside the directory is not followed either."""
    expected = bench.native(*CASES)
    directory = bench.folder("inner")
    target = bench.folder("inner-target")
    os.symlink(target, os.path.join(directory, "v1"))
    check_directory(bench, expected, "a link inside the directory", directory, target)


def check_full_disk(bench):
    """The cache is on a file system with almost no free space."""
    disk = bench.folder("disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", disk],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if mounted.returncode != 0:
        return "skipped: no file system may be mounted here"
    try:
        expected = bench.native(*CASES)
        directory = os.path.join(disk, "kiln")
        for room in (0, 5000, 30000):
            shutil.rmtree(directory, ignore_errors=True)
            fill(os.path.join(disk, "filler"), disk, room)
            check_directory(bench, expected, "a disk with %d bytes of room" % room, directory)
            os.remove(os.path.join(disk, "filler"))
            left = runner.entry_files(directory)
            bench.check_same(
                bench.layered(*CASES, KILN_DIR=directory),
                expected,
                "free space again after %d bytes and %d entries" % (room, len(left)),
            )
    finally:
        subprocess.run(["umount", disk], check=False)
    return None


def fill(path, disk, room):
    state = os.statvfs(disk)
    free = state.f_bavail * state.f_frsize - room
    with open(path, "wb") as file:
        try:
            file.write(bytes(max(free, 0)))
        except OSError:
            pass


def check_modes(bench):
    """The files that the layer creates are accessible to the user only, whatever the umask."""
    bench.empty()
    if not caches(bench):
        return NOT_CACHED
    bench.empty()
    before = os.umask(0)
    try:
        bench.layered(*CASES)
    finally:
        os.umask(before)
    for path, mode, _, _ in listing(bench.cache):
        bench.check(stat.S_IMODE(mode) & 0o077 == 0, "other users have no rights to %s" % path)
    bench.check(stat.S_IMODE(os.stat(bench.cache).st_mode) == 0o700, "the directory is 0700")
    return None


def check_settings(bench):
    """Invalid values are neither fatal nor printed; a size of zero stores nothing."""
    expected = bench.native(*CASES)
    for settings in (
        {"KILN_MAX_SIZE": "3X"},
        {"KILN_MAX_SIZE": "-1"},
        {"KILN_READONLY": "perhaps"},
        {"KILN_DISABLE": "maybe"},
        {"KILN_TRACE": "/proc/no/such/file"},
        {"KILN_STATS": "/proc/no/such/file"},
        {"KILN_KEY_ENV": "*,,=,A B"},
    ):
        bench.empty()
        for _ in range(2):
            bench.check_same(bench.layered(*CASES, **settings), expected, str(settings))
    bench.empty()
    bench.check_same(bench.layered(*CASES, KILN_MAX_SIZE="0"), expected, "KILN_MAX_SIZE=0")
    bench.check(not runner.entry_files(bench.cache), "KILN_MAX_SIZE=0 stores nothing")
    bench.empty()
    bench.check_same(bench.layered(*CASES, KILN_READONLY="1"), expected, "KILN_READONLY=1, cold")
    bench.check(not runner.entry_files(bench.cache), "KILN_READONLY=1 stores nothing")
    bench.empty()
    bench.check_same(bench.layered(*CASES, KILN_DISABLE="1"), expected, "KILN_DISABLE=1")
    bench.check(not os.path.exists(bench.cache), "KILN_DISABLE=1 makes no directory")


def check_closed_descriptors(bench):
    """A program started without stdin, stdout and stderr still writes to descriptors 1 and 2: this
    must never write to a file of the cache."""
    bench.empty()
    if not caches(bench):
        return NOT_CACHED
    bench.empty()
    closing = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    variables = bench.environment(OPENCL_LAYERS=bench.options.layer, KILN_DIR=bench.cache)
    for state in ("cold", "warm"):
        done = bench.call(closing + bench.command(["--blind-writes", *CASES]), variables)
        bench.check(done.returncode == 0, "%s: right results" % state, done)
        accepted, said = bench.verify()
        bench.check(accepted, "%s: kiln verify finds no damage" % state, said)
        lease = os.path.join(bench.cache, "lease")
        bench.check(read_bytes(lease) == b"", "%s: the file of leases is empty" % state)
        bench.capture()
    bench.check(len(runner.entry_files(bench.cache)) > 0, "there are entries")
    counters, _ = bench.counters(*CASES)
    bench.check(counters.get("builds") == 0, "the entries serve the next start", counters)
    return None


def check_two_copies(bench):
    """If the layer is loaded under two names in one process, one copy works, and neither waits for
    the other."""
    copy = os.path.join(bench.folder("copy"), os.path.basename(bench.options.layer))
    shutil.copy(bench.options.layer, copy)
    trace = os.path.join(bench.scratch, "trace")
    expected = bench.native("--source", "plain.cl")
    bench.empty()
    if not caches(bench):
        return NOT_CACHED
    for first, second in ((copy, bench.options.layer), (bench.options.layer, copy)):
        bench.empty()
        for outcome in ("built", "hit-store"):
            write_new(trace)
            got = bench.layered(
                "--source", "plain.cl", OPENCL_LAYERS="%s:%s" % (first, second), KILN_TRACE=trace
            )
            bench.check_same(got, expected, "two copies: right results, %s" % outcome)
            lines = read_bytes(trace).decode().splitlines()
            right = len(lines) == 1 and " %s " % outcome in lines[0] and "wait=0.000ms" in lines[0]
            bench.check(right, "two copies: one line with %s, and no wait" % outcome, lines)
    return None


LINKED = '''
#include "h.h"
#ifndef FOO
#define FOO 0
#endif
__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + FOO; }
'''

# The outcomes of a compile, which passes through to the driver, and of the link after it.
BUILT = ["passed-through", "built"]
FOUND = ["passed-through", "hit-store"]


def trace_of(bench, *arguments, **settings):
    """Returns the lines of the trace of one run under the layer, and the run."""
    trace = os.path.join(bench.scratch, "trace")
    write_new(trace)
    run = bench.layered(*arguments, KILN_TRACE=trace, **settings)
    return read_bytes(trace).decode().splitlines(), run


def outcomes(bench, *arguments, **settings):
    """Returns the trace's outcome of each request, and the run."""
    lines, run = trace_of(bench, *arguments, **settings)
    return [line.split(" ")[1] for line in lines], run


def caches_links(bench):
    """Returns False if the layer does not cache links on this driver."""
    lines, _ = trace_of(bench, "--source", "plain.cl", "--linked")
    reasons = ("captures are expensive", "links are not cached on this driver")
    return not any(reason in line for line in lines for reason in reasons)


def check_links(bench):
    """Compiles and links programs, with options, an embedded header and files."""
    bench.empty()
    bench.write_linked()
    linked = ("--source", "linked.cl", "--linked")
    for base in (50, 50, 51, 50):
        bench.write("embedded/h.h", "#define BASE %d\n" % base)
        header = (*linked, "--header", "embedded/h.h")
        bench.compare("an embedded header, %d" % base, *header)
        bench.compare("the same with an option", *header, "--options", "-DFOO=%d" % (base % 2))
        bench.compare("the same, with link options", *header, "--link-options", "-cl-finite-math-only")
    # An embedded header that includes a file in the folder that its own name gives.
    bench.write("embedded/h.h", '#include "i.h"\n')
    bench.write("by_folder.cl", LINKED.replace("h.h", "named/h.h"))
    absolute = os.path.join(bench.work, "named/h.h")
    bench.write("by_path.cl", LINKED.replace("h.h", absolute))
    for source, name in (("by_folder.cl", "named/h.h"), ("by_path.cl", absolute)):
        named = ("--linked", "--source", source, "--header", "embedded/h.h", "--header-name", name)
        for base in (55, 55, 56, 55):
            bench.write("named/i.h", "#define BASE %d\n" % base)
            bench.compare("a file beside the embedded %s, %d" % (name, base), *named)
    for folder in ("sub", os.path.join(bench.work, "sub")):
        for base in (60, 60, 61, 60):
            bench.write("sub/h.h", "#define BASE %d\n" % base)
            bench.compare("a file in %s" % folder, *linked, "--options", "-I" + folder)


def check_found_links(bench):
    """The key of a link contains the files that its input included when it was compiled."""
    bench.empty()
    if not caches_links(bench):
        return "skipped: links are not looked up on this runtime"
    bench.empty()
    bench.write_linked()
    folder = os.path.join(bench.work, "settled")
    bench.write("other/h.h", "#define BASE 71\n")
    linked = ("--source", "linked.cl", "--linked", "--options", "-I" + folder)
    swap = "cp %s/other/h.h %s/h.h" % (bench.work, folder)
    bench.write("settled/h.h", "#define BASE 70\n")
    expected = bench.native(*linked)
    finite = ("--link-options", "-cl-finite-math-only")
    unsafe = ("--link-options", "-cl-unsafe-math-optimizations")
    for wanted, more in (
        (BUILT, ()),
        (FOUND, ()),
        (BUILT, finite),
        (FOUND, finite),
        (FOUND, ("--between", swap)),
        (BUILT, (*unsafe, "--between", swap)),
        (FOUND, unsafe),
    ):
        bench.write("settled/h.h", "#define BASE 70\n")
        got, run = outcomes(bench, *linked, *more)
        bench.check_same(run, expected, "%s: right results" % (more,))
        bench.check(got == wanted, "%s: the expected outcomes" % (more,), got)
    bench.write("settled/h.h", "#define BASE 71\n")
    bench.compare("after a change", *linked)

    # The program changes its working directory between compile and link.
    bench.write("elsewhere/h.h", "#define BASE 72\n")
    bench.write("elsewhere/settled/h.h", "#define BASE 73\n")
    bench.write("settled/h.h", "#define BASE 70\n")
    for include in ("-I" + folder, "-Isettled"):
        moved = ("--source", "linked.cl", "--linked", "--options", include, "--move-to", "elsewhere")
        for wanted, option in (
            (None, "-cl-finite-math-only"),
            (FOUND, "-cl-finite-math-only"),
            (BUILT, "-cl-finite-math-only -cl-denorms-are-zero"),
            (FOUND, "-cl-finite-math-only -cl-denorms-are-zero"),
        ):
            moved_and_linked = (*moved, "--link-options", option)
            got, run = outcomes(bench, *moved_and_linked)
            at_driver = bench.native(*moved_and_linked)
            bench.check_same(run, at_driver, "moved, %s %s: right results" % (include, option))
            bench.check(wanted in (None, got), "moved, %s %s: outcomes" % (include, option), got)
    return None


def write_new(path):
    with open(path, "wb"):
        pass


# Each returns None, or the reason why it was skipped.
CHECKS = {
    "variables": check_variables,
    "named-variables": check_named_variables,
    "floating-point": check_floating_point,
    "floating-point-of-links": check_floating_point_of_links,
    "headers": check_headers,
    "named-folder": check_named_folder,
    "header-maps": check_header_maps,
    "macros": check_macros,
    "math-functions": check_math_functions,
    "driver-files": check_driver_files,
    "changes-before-builds": check_changes_before_builds,
    "unknown-functions": check_unknown_functions,
    "links": check_links,
    "found-links": check_found_links,
    "damage": check_damage,
    "versions": check_versions,
    "directories": check_directories,
    "inner-links": check_inner_links,
    "full-disk": check_full_disk,
    "modes": check_modes,
    "settings": check_settings,
    "descriptors": check_closed_descriptors,
    "two-copies": check_two_copies,
}


def run(options, scratch):
    bench = Inputs(options, scratch)
    bench.write("plain.cl", PLAIN)
    bench.write("by_name.cl", BY_NAME)
    bench.write("h.h", "")
    bench.native(*CASES)  # fills the runtime's own cache
    for name, check in CHECKS.items():
        if not options.checks or name in options.checks:
            failed = bench.failed
            skipped = check(bench)
            verdict = "FAILED" if bench.failed > failed else skipped or "right"
            print("%-32s %s" % (name, verdict), flush=True)
    return bench.summary()


def main():
    parser = runner.parser(__doc__)
    parser.add_argument("--counting", required=True, help="libcounting_layer.so")
    parser.add_argument("--seeing", type=os.path.abspath, help="libseeing_layer.so")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    options = runner.parse(
        parser, needed=("layer", "kiln"), files=("program", "layer", "kiln", "counting")
    )
    for name in options.checks:
        if name not in CHECKS:
            parser.error("no such check: " + name)
    scratch = tempfile.mkdtemp(prefix="kiln-key-inputs-")
    try:
        return run(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
