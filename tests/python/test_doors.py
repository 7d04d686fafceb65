# SPDX-License-Identifier: Apache-2.0
"""Tests how `kiln run` gets the doors into Python programs: the sitecustomize that it hides, kinds of
interpreters and processes, and the import hook. The last argument is the tool."""

import os
import shutil
import subprocess
import sys
import unittest

import kiln
from kiln import _door
from package import PackageTest

TOOL = sys.argv.pop()

IS_ACTIVE = "import sys; print('kiln._doors' in sys.modules)"


class DoorsTest(PackageTest):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("KILN_", "PYTHON"))}
        self.environment.update(KILN_DIR=self.location)

    def write(self, name, text):
        path = os.path.join(self.scratch, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def run_tool(self, *command, expect=0):
        """Runs a command under `kiln run`, and returns what it prints."""
        result = subprocess.run([TOOL, "run", *command], env=self.environment, timeout=60,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        self.assertEqual((result.returncode, result.stderr.decode()), (expect, ""), result.stdout)
        return result.stdout.decode()

    def run_in(self, program, *options):
        return self.run_tool("--", sys.executable, *options, "-c", program)


class InjectionTest(DoorsTest):
    def test_a_program(self):
        self.assertEqual(self.run_in(IS_ACTIVE), "True\n")

    def test_nothing_else_is_imported(self):
        names = "import sys; print(*sorted(sys.modules), sep='\\n')"
        plain = subprocess.run([sys.executable, "-c", names], env=self.environment, check=True,
                               stdout=subprocess.PIPE).stdout.decode().split()
        added = set(self.run_in(names).split()) - set(plain) - {"sitecustomize"}
        self.assertLessEqual(added, {"kiln._doors", "importlib", "importlib._bootstrap",
                                     "importlib._bootstrap_external", "importlib.machinery",
                                     "warnings", "_warnings"})

    def test_the_folder_is_not_in_the_path(self):
        self.assertEqual(self.run_in("import sys; print([p for p in sys.path if 'inject' in p])"),
                         "[]\n")

    def test_the_hidden_module_runs_first(self):
        folder = os.path.dirname(self.write("site/sitecustomize.py", """
import sys
assert "kiln._doors" not in sys.modules
print("hidden", __name__, __file__)
"""))
        self.environment["PYTHONPATH"] = folder
        program = IS_ACTIVE + "; print(sys.modules['sitecustomize'].__file__)"
        file = os.path.join(folder, "sitecustomize.py")
        self.assertEqual(self.run_in(program), f"hidden sitecustomize {file}\nTrue\n{file}\n")

    def test_a_hidden_module_that_raises(self):
        for error in ("ValueError('broken')", "ImportError('broken')",
                      "ModuleNotFoundError('broken', name='other')"):
            folder = os.path.dirname(self.write("site/sitecustomize.py", f"raise {error}\n"))
            self.environment["PYTHONPATH"] = folder
            result = subprocess.run([TOOL, "run", sys.executable, "-c", IS_ACTIVE],
                                    env=self.environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            plain = subprocess.run([sys.executable, "-c", "print(True)"], env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((result.returncode, result.stdout), (0, plain.stdout))
            self.assertEqual(result.stderr.splitlines()[-1:], plain.stderr.splitlines()[-1:])
            self.assertIn(b"broken", result.stderr)

    def test_interpreters_that_take_no_variables(self):
        for option in ("-I", "-E", "-S"):
            self.assertEqual(self.run_in(IS_ACTIVE, option), "False\n", option)

    def test_a_virtual_environment(self):
        folder = os.path.join(self.scratch, "environment")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        inside = os.path.join(folder, "bin", "python")
        self.assertEqual(self.run_tool(inside, "-c", IS_ACTIVE), "True\n")

    def test_a_different_version_of_python(self):
        others = [path for path in map(shutil.which, ("python2", "python3.8", "python3.12", "pypy3"))
                  if path and subprocess.run([path, "-c", "pass"], stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL).returncode == 0]
        if not others:
            self.skipTest("there is no other Python here")
        for other in others:
            self.run_tool(other, "-c", "pass")

    def test_children(self):
        path = self.write("children.py", """
import multiprocessing, sys
def is_active(_):
    return "kiln._doors" in sys.modules
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(is_active, [0]))
""")
        self.assertEqual(self.run_tool(sys.executable, path), "[True]\n" * 3)

    def test_turned_off(self):
        printed = self.run_tool("--no-python", "--", sys.executable, "-c", IS_ACTIVE)
        self.assertEqual(printed, "False\n")
        self.environment["KILN_DISABLE"] = "1"
        self.assertEqual(self.run_in(IS_ACTIVE), "False\n")

    def test_pythonpath_keeps_its_other_folders(self):
        def variable():
            return self.run_tool("printenv", "PYTHONPATH").rstrip("\n").split(":")
        (folder,) = variable()
        self.assertTrue(os.path.isabs(folder))
        for others in ("", "/a:/b"):
            self.environment["PYTHONPATH"] = others
            self.assertEqual(variable(), [folder, *filter(None, others.split(":"))])
        self.environment["PYTHONPATH"] = f"/a:{folder}"
        self.assertEqual(variable(), ["/a", folder])

    def test_a_program_that_gains_privileges(self):
        program = shutil.copy(shutil.which("printenv"), os.path.join(self.scratch, "program"))
        self.environment["PATH"] += ":" + self.scratch
        self.assertIn("inject", self.run_tool("program", "PYTHONPATH"))
        for mode in (0o4755, 0o2755):
            os.chmod(program, mode)
            for name in ("program", program):
                self.run_tool(name, "PYTHONPATH", expect=1)


    def test_a_package_that_others_can_change(self):
        build = os.path.normpath(os.path.join(os.path.abspath(TOOL), "../../.."))
        for name in ("src", "layers"):
            os.symlink(os.path.join(build, name), os.path.join(self.scratch, name))
        os.makedirs(os.path.join(self.scratch, "tools/kiln"))
        tool = shutil.copy(TOOL, os.path.join(self.scratch, "tools/kiln"))
        package = os.path.join(self.scratch, "python/kiln")
        shutil.copytree(os.path.join(build, "python/kiln"), package,
                        ignore=shutil.ignore_patterns("*.p", "__pycache__"))
        self.write("python/kiln/inject/__pycache__/sitecustomize.pyc", "")

        def complaint():
            result = subprocess.run([tool, "run", "--", sys.executable, "-c", IS_ACTIVE],
                                    env=self.environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, check=True)
            self.assertEqual(result.stdout, b"False\n" if result.stderr else b"True\n")
            return result.stderr.decode()

        self.assertEqual(complaint(), "")
        for name in ("_doors.py", "_kiln.abi3.so", "inject/__pycache__/sitecustomize.pyc", "inject",
                     "."):
            path = os.path.normpath(os.path.join(package, name))
            mode = os.stat(path).st_mode
            os.chmod(path, mode | 0o002)
            self.assertIn(f"{path} is writable by others", complaint())
            os.chmod(path, mode)
        self.assertEqual(complaint(), "")


class ImportTest(DoorsTest):
    PROGRAM = "import jax, sys; print(sys.modules['kiln._doors'].states['jax'])"

    def setUp(self):
        super().setUp()
        self.write("site/jax/__init__.py", "")
        self.environment["PYTHONPATH"] = os.path.join(self.scratch, "site")

    def test_a_namespace_of_the_program(self):
        self.write("site/kiln/other.py", "")
        self.assertEqual(self.run_in(self.PROGRAM + "; import kiln.other"),
                         "the program has a different module named kiln\n")

    def test_a_folder_that_is_no_package(self):
        self.write("site/kiln/v1/entry", "")
        self.assertNotIn("different", self.run_in(self.PROGRAM))


class DoorTest(DoorsTest):
    def door(self, framework="os"):
        return _door.Door("test", framework)

    def test_waits_that_are_in_vain_become_shorter(self):
        waits = []

        class Store:
            def lease(self, key, wait=0.0):
                waits.append(wait)

        door = self.door()
        door._store = Store()
        for _ in range(3):
            with door.lease(None):
                pass
        self.assertEqual(waits, [0, 60, 0, 30, 0, 15])
        door._longest_build_ns = 10**12
        self.assertEqual(door.take_lease(None), (None, True))
        self.assertEqual(waits[-1], 250)

    def test_variables_that_are_no_text(self):
        os.environb[b"KILN_TEST_\xff"] = b"\xfe"
        self.addCleanup(os.environb.pop, b"KILN_TEST_\xff")
        key = _door.Door("test", "os", ("KILN_TEST_",)).key([])
        self.assertEqual(key.parts[-1].value, b"\xfe")
        self.assertNotEqual(key, self.door().key([]))

    def test_names_that_are_no_text(self):
        """A program that builds goes on, and its result is kept."""
        door = self.door()
        with kiln.Store(self.location) as door._store:
            for name in ("a\0b", "a\udcffb"):
                key = door.key([("name", name.encode(errors="backslashreplace"))])
                door.put(key, b"built", name)
                self.assertEqual(door.get(key), b"built")

    def test_a_text_that_the_store_does_not_accept(self):
        door = self.door()
        with kiln.Store(self.location) as door._store:
            key = door.key([])
            door.put(key, b"built", "name", device="a\0b")
            self.assertIsNone(door.get(key))
        self.assertEqual(door.builds, 1)

    def test_a_module_from_a_different_place(self):
        for folder in ("site", "other"):
            self.write(folder + "/framework/__init__.py", "")
        self.write("site/framework-1.0.dist-info/METADATA",
                   "Metadata-Version: 2.1\nName: framework\nVersion: 1.0\n")
        self.write("site/framework-1.0.dist-info/RECORD", "framework/native.so,sha256=1,1\n")
        site, other = (os.path.join(self.scratch, folder) for folder in ("site", "other"))
        for first, second, is_known in ((site, other, True), (other, site, False)):
            program = (f"import sys; sys.path[:0] = [{first!r}, {second!r}]; import framework\n"
                       "from kiln import _door\n"
                       "print(bool(_door.package('framework', module='framework')))")
            printed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE,
                                     check=True).stdout.decode()
            self.assertEqual(printed, f"{is_known}\n")

    def test_an_import_and_a_call_at_once(self):
        """The import holds the framework's lock, and the call that of the door."""
        program = f"""
import sys, threading
sys.path.insert(0, {self.scratch!r})
from kiln import _door
door = _door.Door("test", "framework")
is_importing, is_inside = threading.Event(), threading.Event()
def hook():
    is_inside.set()
    import framework
def call():
    is_importing.wait()
    door.install(hook)
thread = threading.Thread(target=call, daemon=True)
thread.start()
import framework
thread.join()
print(door.reason)
"""
        self.write("framework.py", """
from __main__ import *
is_importing.set()
is_inside.wait(1)
door.install(hook)
""")
        self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        printed = subprocess.run([sys.executable, "-c", program], env=self.environment, timeout=30,
                                 stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(printed, "None\n")


if __name__ == "__main__":
    unittest.main()
