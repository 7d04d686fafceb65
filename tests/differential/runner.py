# SPDX-License-Identifier: Apache-2.0
"""Runs worlds: puts their files in place, starts a worker in them, and reads its output."""

import fcntl
import glob
import os
import re
import shutil
import struct
import subprocess

import programs as programs_module
import worlds as worlds_module

PATIENCE_SECONDS = 300
F_SETPIPE_SZ = 1031


class Failure(Exception):
    """Raised if the harness itself cannot continue."""


class Setting:
    """The paths that a run needs on this machine, from the command line."""

    def __init__(self, device, build, cuda, runtimes, omit=None):
        self.device = device
        self.build = build
        self.cuda = cuda
        self.runtimes = runtimes
        self.omit = omit

    def worker(self):
        name = "nvrtc" if self.device in programs_module.RUNTIME_COMPILERS else "opencl"
        return os.path.join(self.build, "tests/differential/differential_%s_worker" % name)

    def kiln(self):
        return os.path.join(self.build, "tools/kiln/kiln")

    def layers(self):
        """Returns the files of the layers. The variants that can leave parts out are in a different
        folder."""
        for folder, name in (("layers/nvrtc", "nvrtc_audit"), ("layers/nvrtc", "nvrtc_layer"),
                             ("layers/opencl", "opencl_layer")):
            if self.omit and name != "nvrtc_audit":
                folder = "tests/differential/omitting"
            yield os.path.join(self.build, folder, "libkiln_%s.so" % name)

    def library(self):
        """Returns HIP's runtime, or the toolkit's NVRTC, or the one that install-deps installed."""
        if self.device == "hiprtc":
            found = glob.glob("/usr/lib/*-linux-gnu/libamdhip64.so.[0-9]")
            return found[0] if found else None
        for folder in (os.path.join(self.cuda, "lib64"), os.path.join(self.cuda, "lib"),
                       os.path.join(self.runtimes, "nvrtc/cuda/lib")):
            found = sorted(glob.glob(os.path.join(folder, "libnvrtc.so.[0-9]*")))
            if found:
                return found[0]
        return None

    def linker(self):
        """Returns the nvJitLink of the same toolkit; None: there is none."""
        beside = glob.glob(os.path.join(os.path.dirname(self.library()), "libnvJitLink.so.[0-9]*"))
        return sorted(beside)[0] if beside else None

    def driver_folder(self):
        return os.path.join(self.runtimes, "intel/lib")

    def math_libraries(self):
        """Returns the libraries that a driver's math functions are bound to only if the program
        loads them: glibc's libm for Intel's runtime, which brings its own, and Intel's for PoCL."""
        if self.device == "intel":
            return ["libm.so.6"]
        own = [os.path.join(self.driver_folder(), name) for name in ("libintlc.so.5", "libimf.so")]
        return own if all(map(os.path.exists, own)) else []

    def is_there(self):
        if self.device in programs_module.RUNTIME_COMPILERS:
            return self.library() is not None
        return os.path.isdir(os.path.join(self.runtimes, self.device, "vendors"))


class Result:
    """The results of one process: a line for each program, Kiln's outcome for it, and how the
    process ended."""

    def __init__(self, lines, outcomes, ending, complaint):
        self.lines = lines
        self.outcomes = outcomes
        self.ending = ending
        self.complaint = complaint


TRACE = re.compile(r"^kiln\[\d+\] (\S+)(.*)")

# Trace lines of compiles are skipped: the driver makes them, and only the outcome of the link
# matters.
COMPILED_FOR_LINKS = "only links are cached"


def _read(output):
    lines, outcomes, seen = [], [], []
    for line in output.decode("utf-8", "replace").split("\n"):
        if line.startswith("= "):
            lines.append(line)
            outcomes.append(seen)
            seen = []
        elif line == "first":  # see nvrtc_worker.c
            seen = []
        else:
            match = TRACE.match(line)
            if match and match[1] != "note:" and not match[2].endswith(COMPILED_FOR_LINKS):
                seen.append(match[1] if match[1] != "passed-through" else match[1] + match[2])
    return lines, outcomes


def is_hit(outcome):
    return bool(outcome) and all(o.startswith("hit-") for o in outcome)


def header_map(entries):
    """Returns a header map as clang reads it: a hash table of names, folders and files."""
    strings = bytearray(b"\0")

    def text(value):
        at = len(strings)
        strings.extend(value.encode() + b"\0")
        return at

    size = 8
    while size < 2 * len(entries):
        size *= 2
    buckets = [(0, 0, 0)] * size
    for name, (prefix, suffix) in entries.items():
        place = sum(13 * ord(c.lower()) for c in name) % size
        while buckets[place][0]:
            place = (place + 1) % size
        buckets[place] = (text(name), text(prefix), text(suffix))
    start = 24 + 12 * size
    longest = max(len(prefix + suffix) for prefix, suffix in entries.values())
    return struct.pack("<IHHIIII", 0x686d6170, 1, 0, start, len(entries), size, longest) + \
        b"".join(struct.pack("<III", *bucket) for bucket in buckets) + bytes(strings)


class Site:
    """A folder in which worlds are set up one after the other."""

    def __init__(self, setting, root):
        self.setting = setting
        self.root = root
        self.there = {}  # path below the root: what was put there
        self.stores = 0
        self.processes = 0
        os.makedirs(os.path.join(root, "layers"))
        # The audit library looks for its layer in its own folder.
        for path in setting.layers():
            os.symlink(path, os.path.join(root, "layers", os.path.basename(path)))

    def layer(self, name):
        return os.path.join(self.root, "layers", "libkiln_%s.so" % name)

    # ---- files ----

    def expand(self, text):
        return text.replace("@root@", self.root)

    def _remove(self, path):
        full = os.path.join(self.root, path)
        if os.path.islink(full) or os.path.isfile(full):
            os.unlink(full)
        elif os.path.isdir(full):
            shutil.rmtree(full)

    def _write(self, path, content, time=worlds_module.TIME):
        """Writes a file; if it exists, in place, so that its inode number stays."""
        full = os.path.join(self.root, path)
        with open(full, "r+b" if os.path.isfile(full) and not os.path.islink(full) else "wb") as file:
            file.write(content)
            file.truncate()
        os.utime(full, (time, time))

    def _put(self, path, what):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if isinstance(what, str):
            self._write(path, self.expand(what).encode())
        elif what[0] == "folder":
            os.makedirs(full, exist_ok=True)
        elif what[0] == "aged":
            self._write(path, self.expand(what[2]).encode(), what[1])
        elif what[0] == "link":
            os.symlink(what[1], full)
        elif what[0] == "hard link":
            os.link(os.path.join(self.root, what[1]), full)
        elif what[0] == "map":
            self._write(path, header_map({name: [self.expand(part) for part in parts]
                                          for name, parts in what[1].items()}))

    def _kind(self, what):
        return "file" if what is None or isinstance(what, str) or what[0] in ("map", "aged") else what[0]

    def put_up(self, world):
        """Makes the site's files equal to those of the world. Files that are equal already are not
        touched."""
        wanted = worlds_module.tree(world)
        for path in sorted(self.there, reverse=True):
            what = self.there[path]
            # The file of a hard link may have been replaced.
            if path not in wanted or self._kind(what) == "hard link" or \
                    (what != wanted[path] and {self._kind(what), self._kind(wanted[path])} != {"file"}):
                self._remove(path)
                # The contents of a removed folder are gone too.
                for other in list(self.there):
                    if other == path or other.startswith(path + "/"):
                        del self.there[other]
        for path in sorted(wanted, key=lambda path: (self._kind(wanted[path]) == "hard link", path)):
            if path not in self.there or self.there[path] != wanted[path]:
                self._put(path, wanted[path])
                self.there[path] = wanted[path]

    def driver(self, variant):
        """Returns a copy of the driver in which some files differ. Intel's runtime resolves
        symbolic links and searches for its files beside the real library, so links would not
        work."""
        folder = os.path.join(self.root, "driver-" + re.sub(r"\W", "-", variant))
        if os.path.isdir(folder):
            return folder
        library = os.path.join(folder, "lib")
        os.makedirs(library)
        os.makedirs(os.path.join(folder, "vendors"))
        if self.setting.device == "nvrtc":
            origin = os.path.dirname(os.path.realpath(self.setting.library()))
            names = [n for n in os.listdir(origin) if n.startswith("libnvrtc")]
        else:
            origin = self.setting.driver_folder()
            names = [n for n in os.listdir(origin) if not n.startswith(("icx", "libonnx"))]
        for name in names:
            self._copy(os.path.join(origin, name), os.path.join(library, name))
        if variant == "above":
            self._damage(os.path.join(origin, "clbltfnshared.rtl"),
                         os.path.join(folder, "clbltfnshared.rtl"))
        elif variant == "beside":
            os.unlink(os.path.join(library, "clbltfnshared.rtl"))
            self._damage(os.path.join(origin, "clbltfnshared.rtl"),
                         os.path.join(library, "clbltfnshared.rtl"))
        elif variant == "cl.cfg":
            path = os.path.join(library, "cl.cfg")
            if os.path.lexists(path):
                os.unlink(path)
            with open(path, "w") as file:
                file.write("CL_CONFIG_CPU_VECTORIZER_MODE=1\n")
        with open(os.path.join(folder, "vendors", "intel.icd"), "w") as file:
            file.write(os.path.join(library, "libintelocl.so") + "\n")
        return folder

    @staticmethod
    def _copy(source, target):
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        elif os.path.isfile(source):
            try:
                os.link(source, target)
            except OSError:
                shutil.copy2(source, target)

    @staticmethod
    def _damage(source, target):
        """Truncates a file to half, so that builds that read it fail."""
        with open(source, "rb") as file:
            content = file.read()
        with open(target, "wb") as file:
            file.write(content[:len(content) // 2])

    # ---- a process ----

    def job(self, world, programs):
        steps = list(worlds_module.prologue(world))
        is_runtime_compiler = self.setting.device in programs_module.RUNTIME_COMPILERS
        if is_runtime_compiler:
            path = self.setting.library()
            if world["driver"]:
                path = os.path.join(self.driver(world["driver"]), "lib", os.path.basename(path))
            elif world["library"] == "link":
                link = os.path.join(self.root, "libanother.so")
                if not os.path.lexists(link):
                    os.symlink(path, link)
                path = link
            steps.append(("open-again" if world["library"] == "again" else "open", path))
            if self.setting.device == "nvrtc" and self.setting.linker():
                steps.append(("open-linker", self.setting.linker()))
            if world["fork"] == "after":
                steps.append(("version", ""))
        else:
            steps.append(("device", world["part"] or "root"))
        steps += worlds_module.late_prologue(world)
        if not is_runtime_compiler:
            steps.append(("binaries", self.binaries))
        # Paths begin with the root as the world spells it.
        one_pass = []
        for place, program in enumerate(programs):
            if world["library"] == "both" and place == len(programs) // 2:
                one_pass.append(("open-again", self.setting.library()))
            one_pass += programs_module.steps(program, self.setting.device,
                                              worlds_module.includes(world))
            one_pass.append(("run", ""))
        steps += one_pass
        if world["edit"]:
            steps.append(("write", "@root@/%s\n%s" % tuple(world["edit"])))
            steps += [step for step in one_pass if step[0] != "open-again"]
        if world["again"]:
            if world["again"] != "same":
                steps.append(("mxcsr", world["again"]))
            steps += [step for step in one_pass if step[0] != "open-again"]
        return steps

    def environment(self, world):
        # NVIDIA's driver has its own cache, which ignores the floating-point mode. Even without
        # Kiln, a program gets the result that a different program compiled in a different mode.
        set_here = {"PATH": "/usr/bin:/bin", "HOME": "@root@/home", "TMPDIR": "@root@/tmp",
                    "CUDA_CACHE_DISABLE": "1", "PWD": world["spelled"] or "@root@/" + (world["folder"] or "w")}
        if "LD_LIBRARY_PATH" in os.environ:
            set_here["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        set_here.update(world["others"] or {})
        set_here.update(world["environment"] or {})
        for name in world["unset"] or []:
            set_here.pop(name, None)
        if world["tunables"]:
            set_here["GLIBC_TUNABLES"] = world["tunables"]
        if world["math"]:
            set_here["LD_PRELOAD"] = ":".join(self.setting.math_libraries())
        if self.setting.device == "intel":
            set_here["OCL_ICD_VENDORS"] = os.path.join(
                self.driver(world["driver"]) if world["driver"]
                else os.path.join(self.setting.runtimes, "intel"), "vendors")
        elif self.setting.device == "pocl":
            set_here["OCL_ICD_VENDORS"] = os.path.join(self.setting.runtimes, "pocl", "vendors")
            set_here["POCL_CACHE_DIR"] = "@root@/pocl-cache"
            if not world["helper"]:
                set_here["POCL_KERNEL_CACHE"] = "0"
        return {name: self.expand(value) for name, value in set_here.items()}

    def kiln_environment(self, world, store, is_read_only):
        set_here = {"KILN_DIR": store, "KILN_TRACE": "/proc/self/fd/1",
                    "KILN_READONLY": "1" if is_read_only else "0",
                    "KILN_TOOL": self.setting.kiln(), "KILN_HELPER": "1" if world["helper"] else "0"}
        if self.setting.device in programs_module.RUNTIME_COMPILERS:
            set_here["LD_AUDIT"] = self.layer("nvrtc_audit")
            tunables = [world["tunables"]] if world["tunables"] else []
            set_here["GLIBC_TUNABLES"] = ":".join(tunables + ["glibc.rtld.optional_static_tls=8192"])
        else:
            set_here["OPENCL_LAYERS"] = self.layer("opencl_layer")
        if self.setting.omit:
            set_here["KILN_TEST_OMIT_PART"] = self.setting.omit
        return set_here

    binaries = "0"

    def run(self, world, programs, store=None, is_read_only=False, keep=None):
        """Compiles the programs in the world; without Kiln if there is no store."""
        self.put_up(world)
        if self.setting.device == "intel":
            self.binaries = "2"
        elif self.setting.device == "pocl":
            self.binaries = "1" if store and not is_read_only and not world["helper"] else "0"
            shutil.rmtree(os.path.join(self.root, "pocl-cache"), ignore_errors=True)
            os.makedirs(os.path.join(self.root, "pocl-cache"))
        steps = self.job(world, programs)
        if keep:
            steps.insert(0, ("keep", keep))
        environment = self.environment(world)
        if store:
            environment.update(self.kiln_environment(world, store, is_read_only))
        result = self._start(steps, environment)
        if world["edit"]:
            self.there[world["edit"][0]] = None
        if store and world["helper"] and not is_read_only:
            subprocess.run([self.setting.kiln(), "capture", "--dir", store, "--wait-ms", "60000"],
                           env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=False)
        return result

    def _start(self, steps, environment):
        path = os.path.join(self.root, "job")
        with open(path, "wb") as file:
            for name, value in steps:
                data = value if isinstance(value, bytes) else self.expand(value).encode()
                file.write(b"%s %d\n%s\n" % (name.encode(), len(data), data))
        self.processes += 1
        with open(path, "rb") as job, open(os.path.join(self.root, "complaint"), "w+b") as complaint:
            process = subprocess.Popen([self.setting.worker()], env=environment, stdin=job,
                                       stdout=subprocess.PIPE, stderr=complaint, cwd=self.root)
            try:
                fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 1 << 20)
            except OSError:
                pass
            try:
                output, _ = process.communicate(timeout=PATIENCE_SECONDS)
                ending = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
                ending = "no end"
            complaint.seek(0)
            text = complaint.read(2000).decode("utf-8", "replace")
        if ending == 3:
            raise Failure("the worker: " + text.strip())
        return Result(*_read(output), ending, text)

    def new_store(self):
        self.stores += 1
        return os.path.join(self.root, "store-%d" % self.stores)

    def drop_store(self, store):
        shutil.rmtree(store, ignore_errors=True)
