# SPDX-License-Identifier: Apache-2.0
"""Tests the door to Triton, which compiles for sm_90 without a GPU. The last arguments are the tool,
a Python that has Triton, and how many times to damage an entry before a compilation."""

import json
import os
import random
import subprocess
import sys
import unittest

import kiln
from door_test import damage
from package import PackageTest

DAMAGES = int(sys.argv.pop())
PYTHON = os.environ.get("KILN_DOORS_PYTHON") or sys.argv[-1]
sys.argv.pop()
TOOL = sys.argv.pop()
FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(FOLDER, "triton_program.py")
KERNELS = 2

# The beginning of programs that this file contains.
USE = f"""
import sys
sys.path.insert(0, {FOLDER!r})
from triton_program import *
import kiln, kiln.triton
assert sys.modules["kiln._doors"].states["triton"] == "active"
"""


def has_triton():
    try:
        return subprocess.run([PYTHON, "-c", "import triton"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


@unittest.skipUnless(has_triton(), f"{PYTHON} has no Triton")
class TritonTest(PackageTest):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("KILN_", "PYTHON", "TRITON_"))}
        self.environment.update(KILN_DIR=self.location, TRITON_DEFAULT_FP_FUSION="1")
        self.folders = 0

    def new_folder(self):
        """Makes an empty folder the only place of Triton's own cache, as in a new container."""
        self.folders += 1
        home = os.path.join(self.scratch, f"home-{self.folders}")
        self.environment.update(HOME=home, TRITON_CACHE_DIR=os.path.join(home, "triton"))
        return self.environment["TRITON_CACHE_DIR"]

    def run_command(self, *command):
        result = subprocess.run(command, env=self.environment, timeout=300,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result

    def run_tool(self, *command):
        """Returns what a command prints under `kiln run`, and the counters."""
        result = self.run_command(TOOL, "run", "--json", "--", *command)
        return result.stdout.decode(), json.loads(result.stderr.splitlines()[-1])

    def run_program(self):
        printed, counters = self.run_tool(PYTHON, PROGRAM)
        # Triton itself may print lines before.
        return json.loads(printed.splitlines()[-1]), counters

    def run_text(self, text):
        """Runs a program that this file contains; returns what it prints."""
        return self.run_tool(PYTHON, "-c", USE + text)[0]

    def run_plain(self):
        return json.loads(self.run_command(PYTHON, PROGRAM).stdout)

    def entry_paths(self, name=None):
        return [item.path for item in self.open().list()
                if item.name in ([name] if name else ["add", "total"])]

class KernelsTest(TritonTest):
    def test_cold_and_warm(self):
        self.new_folder()
        plain = self.run_plain()
        self.new_folder()
        cold, counters = self.run_program()
        self.assertEqual((cold, counters["builds"], counters["puts"]), (plain, KERNELS, KERNELS))
        self.new_folder()
        warm, counters = self.run_program()
        self.assertEqual((warm, counters["builds"], counters["hits_store"]), (plain, 0, KERNELS))
        self.assertGreater(counters["saved_ns"], 0)
        listed = self.run_command(TOOL, "ls", "--json").stdout.decode().splitlines()
        kernels = {item["name"]: item for item in map(json.loads, listed)}
        self.assertRegex(kernels["add"]["device"], r"^Triton 3\.\d+\.\d+\S*, cuda 90$")

    def test_the_folder_is_as_triton_makes_it(self):
        """What lies in Triton's folder after a hit is what Triton puts there itself, so that a
        program without Kiln finds it."""
        def files(folder):
            return {os.path.relpath(os.path.join(root, name), folder)
                    for root, _, names in os.walk(folder) for name in names}
        plain_folder = self.new_folder()
        plain = self.run_plain()
        self.new_folder()
        self.run_program()
        folder = self.new_folder()
        self.run_program()
        self.assertEqual(files(folder), files(plain_folder))
        times = {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in files(folder)}
        self.assertEqual(self.run_plain(), plain)
        self.assertEqual(times, {name: os.stat(os.path.join(folder, name)).st_mtime_ns
                                 for name in files(folder)})

    def test_files_in_the_folder_are_not_believed(self):
        folder = self.new_folder()
        plain, _ = self.run_program()
        chance = random.Random(1)
        for root, _, names in os.walk(folder):
            for name in names:
                damage(os.path.join(root, name), chance)
        again, counters = self.run_program()
        self.assertEqual((again, counters["builds"]), (plain, 0))

    def test_processes_at_once(self):
        self.new_folder()
        command = f"for i in 1 2 3 4 5 6 7 8; do HOME=$HOME-$i '{PYTHON}' '{PROGRAM}' & done; wait"
        printed, counters = self.run_tool("sh", "-c", command.replace(
            "HOME=$HOME-$i", "TRITON_CACHE_DIR=$TRITON_CACHE_DIR-$i"))
        lines = printed.splitlines()
        self.assertEqual((len(lines), len(set(lines))), (8, 1))
        self.assertEqual((counters["builds"], counters["hits_store"]), (KERNELS, 7 * KERNELS))

    def test_damage_in_one_process(self):
        self.new_folder()
        self.run_program()
        self.new_folder()
        (path,) = self.entry_paths("add")
        printed = self.run_text(f"""
import os, random, shutil
from door_test import damage
from triton.runtime import cache
kernel = compiled(add)
sound = digests(kernel)
chance = random.Random(2)
builds = kiln.triton.door._store.stat().totals.builds
for i in range({DAMAGES}):
    damage({path!r}, chance)
    assert digests(compiled(add)) == sound, i
    assert kiln.triton.door._store.stat().totals.builds == builds + i + 1, i
# Many more, with the files that Triton would compile again.
group = cache.get_cache_manager(kernel.hash).get_group("add.json")
files = {{name: open(path, "rb").read() for name, path in group.items()}}
for i in range(200):
    damage({path!r}, chance)
    manager = cache.get_cache_manager(kernel.hash)
    assert manager.get_group("add.json") is None, i
    manager.put_group("add.json", {{name: manager.put(data, name)
                                   for name, data in files.items()}})
    found = cache.get_cache_manager(kernel.hash).get_group("add.json")
    assert {{name: open(path, "rb").read() for name, path in found.items()}} == files, i
print("sound")
""")
        self.assertEqual(printed, "sound\n")
        self.new_folder()
        _, counters = self.run_program()
        self.assertEqual((counters["builds"], counters["hits_store"]), (0, KERNELS))

    def test_damage_between_programs(self):
        self.new_folder()
        plain, _ = self.run_program()
        chance = random.Random(3)
        for _ in range(max(DAMAGES, 5)):
            self.new_folder()
            damage(chance.choice(self.entry_paths()), chance)
            again, counters = self.run_program()
            self.assertEqual((again, counters["builds"]), (plain, 1))

    def test_a_compilation_that_fails_ends_its_lease(self):
        self.new_folder()
        printed = self.run_text("""
import threading
errors = []
for _ in range(2):
    try:
        compiled(broken)
    except Exception as error:
        errors.append(error)  # which keeps the manager alive
totals = kiln.triton.door._store.stat().totals
print(len(errors), totals.failures, totals.waits)
""")
        self.assertEqual(printed, "2 2 0\n")

    def test_autotuning_that_fails_ends_its_lease(self):
        self.new_folder()
        printed = self.run_text("""
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
if not hasattr(Autotuner, "check_disk_cache"):
    print(0, 2, 2)
    sys.exit()
class Driver:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)
    def get_benchmarker(self):
        return None
driver.set_active(Driver())
kiln.triton._gpu = lambda: "a GPU"
configs = [triton.Config({"BLOCK": block}) for block in (64, 128)]
tuner = triton.autotune(configs, key=["n"])(add)
def fail():
    raise RuntimeError
errors = []
waits = kiln.triton.door._store.stat().totals.waits
for _ in range(2):
    try:
        tuner.check_disk_cache((1,), configs, fail)
    except RuntimeError as error:
        errors.append(error)  # which keeps the manager alive
totals = kiln.triton.door._store.stat().totals
print(totals.waits, totals.failures, len(errors))
""")
        self.assertEqual(printed, "0 2 2\n")

    def test_why(self):
        self.new_folder()
        text = USE + f"""
def compile(function, **options):
    signature = {{"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}}
    if triton.__version__ < "3.3":
        del signature["BLOCK"]
    name = "constants" if triton.__version__ < "3.3" else "constexprs"
    source = triton.compiler.ASTSource(function, signature, **{{name: {{"BLOCK": BLOCK}}}})
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
"""
        path = os.path.join(self.scratch, "why.py")

        def differences(text):
            """Returns what differs from the nearest entry, according to `kiln why`."""
            with open(path, "w") as file:
                file.write(text)
            self.run_tool(PYTHON, path)
            why = json.loads(self.run_command(TOOL, "why", "--last", "--json").stdout)
            return {part["name"]: (part["there"]["text"], part["wanted"]["text"], part.get("line"))
                    for part in why["neighbours"][0]["parts"] if part["name"] != "triton's key"}

        text += """
@triton.jit
def twice(v):
    return v * 2
@triton.jit
def kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, twice(tl.load(x + i)))
BLOCK = 64
compile(kernel, num_warps=4)
"""
        # The first entry of all has nothing to be compared with.
        text += 'compile(kernel, num_warps=8)\n'
        self.assertEqual(differences(text), {"option num_warps": ("4", "8", None)})
        text = text.replace("compile(kernel, num_warps=4)\n", "")
        text = text.replace("v * 2", "v * 3").replace("BLOCK = 64", "BLOCK = 128")
        changed = differences(text)
        self.assertEqual(set(changed), {"source of twice", "constant BLOCK"})
        self.assertEqual(changed["constant BLOCK"], ("64", "128", None))
        self.assertEqual(changed["source of twice"][2], 2)
        text = text.replace("tl.load(x + i)", "tl.load(y + i)")
        (change,) = differences(text).items()
        self.assertEqual((change[0], change[1][2]), ("source", 3))

    def test_a_store_that_cannot_be_written(self):
        """Triton has its own folder then."""
        folder = self.new_folder()
        self.open()
        self.environment["KILN_READONLY"] = "1"
        plain, counters = self.run_program()
        self.assertEqual((counters["builds"], counters["puts"]), (KERNELS, 0))
        names = {root: names for root, _, names in os.walk(folder)}
        again, counters = self.run_program()
        self.assertEqual((again, counters["builds"]), (plain, 0))
        self.assertEqual(names, {root: names for root, _, names in os.walk(folder)})

    def test_a_folder_that_cannot_be_written(self):
        """Triton can use such a folder, if it finds everything there, as in an image."""
        folder = self.new_folder()
        self.run_plain()
        os.chmod(self.scratch, 0o755)
        for root, _, _ in os.walk(folder):
            os.chmod(root, 0o555)
        printed = self.run_text(f"""
import os
os.environ["TRITON_CACHE_DIR"] += "-2"
compiled(add)  # imports what it needs
os.environ["TRITON_CACHE_DIR"] = {folder!r}
if os.getuid() == 0:
    os.setuid(65534)
print(compiled(add).name, compiled(total).name)
""")
        self.assertEqual(printed, "add total\n")

    def test_settings_that_pass_through(self):
        for name in ("TRITON_KERNEL_OVERRIDE", "USE_IR_LOC"):
            self.new_folder()
            self.environment[name] = "ttgir" if name == "USE_IR_LOC" else "1"
            _, counters = self.run_program()
            self.assertEqual((counters["builds"], self.entry_paths()), (0, []), name)
            del self.environment[name]

    def test_variables_are_in_the_key(self):
        for value, builds in (("1", KERNELS), ("0", KERNELS), ("1", 0)):
            self.new_folder()
            self.environment["TRITON_OF_A_LATER_VERSION"] = value
            self.assertEqual(self.run_program()[1]["builds"], builds)

    def test_a_manager_that_the_user_chose(self):
        self.new_folder()
        self.environment["TRITON_CACHE_MANAGER"] = "triton.runtime.cache:FileCacheManager"
        self.assertEqual(self.run_program()[1]["entries"], 0)

    def test_by_hand(self):
        self.new_folder()
        text = f"""
import sys
sys.path.insert(0, {FOLDER!r})
import kiln.triton
assert kiln.triton.install() and kiln.triton.install()
from triton_program import *
compiled(add)
print(kiln.triton.door._store.stat().totals.builds)
"""
        self.environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(kiln.__file__))
        self.assertEqual(self.run_command(PYTHON, "-c", text).stdout, b"1\n")


class KeyTest(TritonTest):
    def test_the_stored_key_is_tritons(self):
        text = """
from triton.runtime import cache
from triton.compiler import compiler
key = getattr(cache, "triton_key", None) or compiler.triton_key
assert key.__wrapped__ is not key
print(key() == key.__wrapped__())
"""
        for _ in range(2):
            self.new_folder()
            self.assertEqual(self.run_text(text), "True\n")
        self.assertEqual(len([item for item in self.open().list()
                              if item.name.startswith("key of ")]), 1)

    def test_a_fact_about_files_that_change(self):
        self.new_folder()
        path = os.path.join(self.scratch, "file")
        printed = self.run_text(f"""
import os, time
path = {path!r}
def fact(text):
    return kiln.triton._fact("test", [path], lambda: text)
with open(path, "w") as file:
    file.write("1")
# A file that has just changed may change again at the same time.
print(fact("new"), fact("again"))
kiln.triton._SETTLED_NS = 0
print(fact("settled"), fact("not asked"))
times = os.stat(path)
with open(path, "w") as file:
    file.write("2")
os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
print(fact("changed"), fact("not asked"))
os.remove(path)
print(fact("missing"))
""")
        self.assertEqual(printed, "new again\nsettled settled\nchanged changed\nmissing\n")

    def test_a_header_that_changes(self):
        self.new_folder()
        path = os.path.join(self.scratch, "part.h")
        printed = self.run_text(f"""
import os
path = {path!r}
def header(text):
    times = os.stat(path) if os.path.exists(path) else None
    with open(path, "w") as file:
        file.write(text)
    if times:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = [kiln.triton._headers(b'#include "part.h"', [{self.scratch!r}]) for _ in range(2)]
    assert found[0] == found[1]
    return found[0]
found = [header("1"), header("2"), header("1")]
kiln.triton._SETTLED_NS = 0
found += [header("1"), header("2"), header("1")]
print(found[:3] == found[3:], found[0] != found[1], found[0] == found[2],
      len(kiln.triton._known_headers))
""")
        self.assertEqual(printed, "True True True 1\n")

    def image(self, content):
        """Returns an image of a file system with a file. All images have equal times, in seconds."""
        image = os.path.join(self.scratch, "image-" + content)
        with open(image, "wb") as file:
            file.truncate(1 << 20)
        self.run_command("mke2fs", "-q", "-F", "-t", "ext2", "-I", "128", image)
        source = os.path.join(self.scratch, "source")
        with open(source, "w", encoding="utf-8") as file:
            file.write(content)
        self.run_command("debugfs", "-w", "-R", f"write {source} file", image)
        for field in ("atime", "ctime", "mtime"):
            self.run_command("debugfs", "-w", "-R", f"set_inode_field file {field} @1700000000",
                             image)
        return image

    def test_a_fact_about_files_whose_times_an_image_sets(self):
        self.new_folder()
        folder = os.path.join(self.scratch, "mounted")
        os.makedirs(folder)
        mounted = ("unshare", "--mount", "sh", "-c", 'mount -o loop,ro "$1" "$2" && shift 2 && "$@"',
                   "sh")
        try:
            self.run_command(*mounted, self.image("1"), folder, "true")
        except (AssertionError, OSError):
            self.skipTest("cannot mount images")
        text = USE + f"""
import os
path = os.path.join({folder!r}, "file")
status = os.stat(path)
assert status.st_ctime_ns == 1700000000 * 10**9, status
with open(path) as file:
    print(kiln.triton._fact("test", [path], file.read), status.st_ino, status.st_size)
print(kiln.triton._fact("test", [path], lambda: "not asked"))
"""
        for content in ("1", "2"):
            result = self.run_command(*mounted, self.image(content), folder, TOOL, "run", "--",
                                      PYTHON, "-c", text)
            self.assertEqual(result.stdout.decode(), f"{content} 12 1\n{content}\n")


def builds_extensions():
    """Returns whether Triton builds C extensions without a driver: from 3.4 on."""
    return has_triton() and subprocess.run(
        [PYTHON, "-c", "from triton.runtime.build import compile_module_from_src"],
        stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(builds_extensions(), f"{PYTHON} has no Triton that builds extensions")
class ExtensionTest(TritonTest):
    BUILD = """
from triton.runtime import build
SOURCE = '''
#include <Python.h>
#include "part.h"
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tiny"};
PyMODINIT_FUNC PyInit_tiny(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyModule_AddIntConstant(module, "number", NUMBER);
    return module;
}
'''
import os
def number(folder, **options):
    return build.compile_module_from_src(SOURCE, "tiny", include_dirs=[folder], **options).number
"""

    def folder_with(self, number):
        folder = os.path.join(self.scratch, "include")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "part.h"), "w") as file:
            file.write(f'#include "number.h"\n')
        with open(os.path.join(folder, "number.h"), "w") as file:
            file.write(f"#define NUMBER {number}\n")
        return folder

    def test_extensions(self):
        builds = []
        for number in (1, 1, 2, 1):
            self.new_folder()
            printed, counters = self.run_tool(
                PYTHON, "-c", USE + self.BUILD + f"print(number({self.folder_with(number)!r}))")
            self.assertEqual(printed, f"{number}\n")
            builds.append(counters["builds"])
        self.assertEqual(builds, [1, 0, 1, 0])

    def test_a_damaged_extension_is_not_opened(self):
        folder = self.new_folder()
        text = self.BUILD + f"print(number({self.folder_with(1)!r}))"
        self.assertEqual(self.run_text(text), "1\n")
        chance = random.Random(4)
        for root, _, names in os.walk(folder):
            for name in names:
                damage(os.path.join(root, name), chance)
        (path,) = [item.path for item in self.open().list() if item.name.endswith(".so")]
        damage(path, chance)
        self.assertEqual(self.run_text(text), "1\n")


@unittest.skipIf(DAMAGES < 200, "runs in suite long")
class ReplayTest(TritonTest):
    """Why kiln replay leaves Triton's kernels out: see docs/upgrades.md."""

    IR = """
def ir_of(kernel):
    return kernel.asm["ttir"]
def code_of(kernel):
    return kernel.asm["cubin"]
"""

    def test_the_key_is_not_in_the_results(self):
        """Triton's key contains a digest of the function, which is in none of its files, and the key
        of the IR is a different one."""
        folder = self.new_folder()
        keys = self.run_text(self.IR + f"""
kernel = compiled(add)
print(kernel.src.hash(), add.cache_key, kernel.hash,
      compiled_from_ir(ir_of(kernel), {self.scratch!r} + "/add.ttir").hash)
""").split()[-4:]
        text = b""
        for root, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(root, name), "rb") as file:
                    text += file.read()
        self.assertEqual([key.encode() in text for key in keys], [False, False, True, True])
        self.assertEqual(len(set(keys)), 4)

    def test_the_ir_depends_on_the_architecture(self):
        """The IR of one GPU yields for another GPU what a program would not get there: products of
        8-bit numbers are added with a different precision. For the same GPU, it yields the same
        code."""
        self.new_folder()
        printed = self.run_text(self.IR + f"""
old, new = (compiled(product, "fp8e5", 64, number) for number in (80, 90))
print("ir", *("maxNumImpreciseAcc = 1073741824" in ir_of(kernel) for kernel in (old, new)))
print("code", *(code_of(compiled_from_ir(ir_of(kernel), {self.scratch!r} + "/product.ttir")) ==
               code_of(new) for kernel in (old, new)))
""")
        self.assertEqual(printed.splitlines()[-2:], ["ir False True", "code False True"])

    def test_they_are_named(self):
        self.new_folder()
        self.run_program()
        report = json.loads(self.run_command(TOOL, "replay", "--json").stdout)
        self.assertEqual(
            {entry["name"]: entry["why"] for entry in report["entries"]
             if entry["name"] in ("add", "total")},
            dict.fromkeys(("add", "total"), "only triton can build it again: the key has only "
                                            "digests of the sources"))
        self.assertEqual(report["impossible"], len(report["entries"]))


if __name__ == "__main__":
    unittest.main()
