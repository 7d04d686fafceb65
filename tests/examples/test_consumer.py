# SPDX-License-Identifier: Apache-2.0
"""test_consumer.py BUILD PREFIX LIBDIR EXAMPLE CC: installs Kiln in a folder other than its prefix,
then builds a program against it with the compiler, Meson and CMake, each with the shared library
and with the static one."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, PREFIX, LIBDIR, EXAMPLE = sys.argv[1:5]
CC = sys.argv[5:]


class ConsumerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="kiln-consumer-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags",
                        "devel,runtime", "--destdir", cls.scratch], check=True)
        cls.libraries = os.path.join(cls.scratch + PREFIX, LIBDIR)
        # Meson's tests run with the libraries of the build.
        cls.environment = {name: value for name, value in os.environ.items()
                           if name != "LD_LIBRARY_PATH"}
        cls.environment["PKG_CONFIG_PATH"] = os.path.join(cls.libraries, "pkgconfig")

    def setUp(self):
        self.built = tempfile.mkdtemp(dir=self.scratch)

    def run_command(self, *command, **variables):
        """Runs a command in the example's folder, and returns its output."""
        done = subprocess.run(command, cwd=EXAMPLE, env={**self.environment, **variables}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def check(self, name, is_static, **variables):
        """Runs a program twice."""
        program = os.path.join(self.built, name)
        needed = self.run_command("readelf", "-d", program)
        self.assertEqual("[libkiln.so.0]" in needed, not is_static, needed)
        cache = os.path.join(self.built, name + ".cache")
        for outcome in "stored", "found":
            lines = self.run_command(program, cache, **variables).splitlines()
            versions, result = lines
            self.assertRegex(versions, r"^headers (\d+\.\d+\.\d+), library \1$")
            self.assertEqual(result, outcome + ": the result of a build")

    def flags(self, *options):
        return self.run_command("pkg-config", *options, "kiln").split()

    def test_the_compiler_with_pkg_config(self):
        self.run_command(*CC, "-o", os.path.join(self.built, "consumer"), "consumer.c",
                         *self.flags("--cflags", "--libs"))
        self.check("consumer", False, LD_LIBRARY_PATH=self.libraries)

    def compile_with_archive(self, name, *options):
        """Returns the path of the result."""
        archive = ["-l:libkiln.a" if flag == "-lkiln" else flag
                   for flag in self.flags("--cflags", "--static", "--libs")]
        result = os.path.join(self.built, name)
        self.run_command(*CC, *options, "-DKILN_STATIC", "-o", result, "consumer.c", *archive)
        return result

    def test_the_compiler_with_the_static_library(self):
        self.compile_with_archive("consumer_static")
        self.check("consumer_static", True)

    def test_a_shared_object_with_the_static_library(self):
        shared_object = self.compile_with_archive("consumer.so", "-shared", "-fPIC")
        self.assertIn("NODELETE", self.run_command("readelf", "-d", shared_object))
        exported = self.run_command("nm", "-D", "--defined-only", shared_object)
        self.assertIn(" main\n", exported)
        self.assertNotIn("kiln", exported)

    def test_meson(self):
        self.run_command("meson", "setup", self.built, ".")
        self.run_command("ninja", "-C", self.built)
        self.check("consumer", False)
        self.check("consumer_static", True)

    def configure(self, source, *options):
        return subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", self.built,
                               "-DCMAKE_PREFIX_PATH=" + self.scratch + PREFIX, *options],
                              env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    @unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
    def test_cmake(self):
        configured = self.configure(EXAMPLE)
        self.assertEqual(configured.returncode, 0, configured.stdout)
        self.run_command("cmake", "--build", self.built)
        self.check("consumer", False)
        self.check("consumer_static", True)

    @unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
    def test_cmake_refuses_a_different_version(self):
        project = os.path.join(self.built, "project")
        os.mkdir(project)
        version = self.flags("--modversion")[0]
        major, minor, patch = map(int, version.split("."))
        for wanted, is_found in {"": True, f"{major}.{minor}": True, version: True,
                                 version + " EXACT": True, f"{major}.{minor}.{patch + 1}": False,
                                 f"{major}.{minor + 1}": False, f"{major + 1}": False,
                                 f"{major + 1}.{minor}": False}.items():
            with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
                file.write("cmake_minimum_required(VERSION 3.13)\nproject(p NONE)\n"
                           f"find_package(kiln {wanted} REQUIRED)\n")
            configured = self.configure(project)
            self.assertEqual(configured.returncode == 0, is_found, configured.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
