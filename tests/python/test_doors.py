# SPDX-License-Identifier: Apache-2.0
"""Tests how `kiln run` gets the doors into Python programs: the sitecustomize that it hides, kinds of
interpreters and processes, and the import hook. The last argument is the tool."""

import os
import shutil
import subprocess
import sys
import unittest

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


if __name__ == "__main__":
    unittest.main()
