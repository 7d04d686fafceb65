# SPDX-License-Identifier: Apache-2.0
"""Tests kiln run and kiln doctor if the loader that a program gets does not support layers."""

import glob
import json
import os
import shutil
import subprocess
import sys
import unittest

import cli

LIBRARY = "libOpenCL.so.1"
FOLDERS = ["/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib64", "/usr/local/lib"]

# Prints the loader that a program in this environment gets.
SHOW_LOADER = f"""
import ctypes
ctypes.CDLL("{LIBRARY}")
for line in open("/proc/self/maps"):
    if "libOpenCL" in line or "without_layers" in line:
        print(line.split()[-1])
        break
"""


def system_loader():
    """Returns a loader in the system's folders that supports layers, or None."""
    for folder in FOLDERS:
        for path in glob.glob(os.path.join(folder, LIBRARY)):
            with open(path, "rb") as file:
                if b"OPENCL_LAYERS" in file.read():
                    return os.path.realpath(path)
    return None


class Loader(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.tool, self.layer = self.in_build_tree()
        self.caches = os.path.join(self.scratch, "caches")
        self.link = os.path.join(self.caches, "kiln-loader", LIBRARY)
        self.environment["XDG_CACHE_HOME"] = self.caches
        self.put_first(os.environ["LOADER_WITHOUT_LAYERS"])

    def put_first(self, loader):
        """Makes this loader the one that programs get."""
        self.first = os.path.join(self.scratch, "first")
        os.makedirs(self.first, exist_ok=True)
        path = os.path.join(self.first, LIBRARY)
        if os.path.lexists(path):
            os.remove(path)
        shutil.copy(loader, path)
        self.environment["LD_LIBRARY_PATH"] = self.first

    def need_system_loader(self):
        loader = system_loader()
        if loader is None:
            self.skipTest("no loader here supports layers")
        return loader

    def loader_of_program(self):
        result = self.kiln("run", "--", sys.executable, "-c", SHOW_LOADER, tool=self.tool)
        return result.stdout.decode().strip(), result.stderr.decode()

    def printed(self, name):
        return self.kiln("run", "--", "printenv", name, tool=self.tool).stdout.decode().strip()

    def report(self, expect):
        result = self.kiln("doctor", "--json", expect=expect)
        return json.loads(result.stdout)


class Replacement(Loader):
    def test_program_gets_one_that_supports_layers(self):
        wanted = self.need_system_loader()
        for _ in range(2):
            self.assertEqual(self.loader_of_program(), (wanted, ""))
        self.assertEqual(os.readlink(self.link), wanted)
        self.assertEqual(os.listdir(os.path.dirname(self.link)), [LIBRARY])
        self.assertEqual(os.stat(os.path.dirname(self.link)).st_mode & 0o777, 0o700)

    def test_folders_of_the_user_stay(self):
        self.need_system_loader()
        self.assertEqual(self.printed("LD_LIBRARY_PATH"),
                         os.path.dirname(self.link) + ":" + self.first)

    def test_a_link_to_another_is_replaced(self):
        wanted = self.need_system_loader()
        os.makedirs(os.path.dirname(self.link), mode=0o700)
        os.symlink("/nonexistent", self.link)
        self.assertEqual(self.loader_of_program(), (wanted, ""))

    def test_run_within_run(self):
        wanted = self.need_system_loader()
        value = self.kiln("run", "--", self.tool, "run", "--", "printenv", "LD_LIBRARY_PATH",
                          tool=self.tool).stdout.decode().strip()
        self.assertEqual(value, os.path.dirname(self.link) + ":" + self.first)
        self.assertEqual(os.readlink(self.link), wanted)

    def test_disabled(self):
        self.environment["KILN_DISABLE"] = "1"
        self.assertEqual(self.printed("LD_LIBRARY_PATH"), self.first)
        self.assertFalse(os.path.exists(self.caches))

    def test_doctor(self):
        wanted = self.need_system_loader()
        self.environment["OCL_ICD_VENDORS"] = self.scratch
        report = self.report(expect=3)  # without drivers
        first = os.path.join(self.first, LIBRARY)
        self.assertEqual(report["loader"]["path"], wanted)
        self.assertEqual(report["loader"]["instead_of"], os.path.realpath(first))
        self.assertTrue(report["loader"]["layers"])
        self.assertNotIn("does not support layers", "\n".join(report["problems"]))
        self.assertIn(f"kiln run puts {wanted} before it", "\n".join(report["notes"]))
        self.assertFalse(os.path.exists(self.caches))


class Drivers(Loader):
    """Tests two loaders: the system's, which finds drivers in a list, and one that replaces it and
    does not read the list."""

    def setUp(self):
        super().setUp()
        self.need_one_without_lists()
        self.put_first(os.environ["LOADER_WITH_LISTS"])
        self.vendors = os.path.join(self.scratch, "vendors")
        os.makedirs(self.vendors)
        self.environment["OCL_ICD_VENDORS"] = self.vendors
        self.environment["OCL_ICD_FILENAMES"] = "libone.so.1:/some/libtwo.so"

    def need_one_without_lists(self):
        with open(self.need_system_loader(), "rb") as file:
            if b"OCL_ICD_FILENAMES" in file.read():
                self.skipTest("this system's loader reads lists itself")

    def add_vendor(self, name, library):
        with open(os.path.join(self.vendors, name), "w", encoding="utf-8") as file:
            file.write(library)

    def drivers(self):
        """Returns what a program's loader finds, in order, and the folder."""
        folder = self.printed("OCL_ICD_VENDORS")
        files = sorted(os.listdir(folder))
        self.assertEqual(files, [f"{i}.icd" for i in range(len(files))])
        texts = [open(os.path.join(folder, name), encoding="utf-8").read() for name in files]
        return texts, folder

    def test_the_list_comes_first_then_the_folder(self):
        self.add_vendor("b.icd", "libb.so\nwhat follows\n")
        self.add_vendor("a.icd", "/else/liba.so")
        self.add_vendor("not.txt", "libnot.so")
        texts, folder = self.drivers()
        self.assertEqual(texts, ["libone.so.1\n", "/some/libtwo.so\n", "/else/liba.so\n", "libb.so\n"])
        self.assertEqual(os.path.dirname(folder), os.path.dirname(self.link))

    def test_the_same_drivers_have_one_folder(self):
        first = self.drivers()[1]
        self.assertEqual(self.drivers()[1], first)
        self.add_vendor("a.icd", "liba.so")
        self.assertNotEqual(self.drivers()[1], first)
        left = [name for name in os.listdir(os.path.dirname(first)) if name.startswith(".")]
        self.assertEqual(left, [])

    def test_a_driver_that_is_named_twice(self):
        """Names the driver twice by the same name, and by two names that lead to the same
        library."""
        real = system_loader()
        self.environment["OCL_ICD_FILENAMES"] = f"libone.so:{real}"
        self.add_vendor("a.icd", "libone.so")
        self.add_vendor("b.icd", os.path.join(os.path.dirname(real), LIBRARY))
        self.add_vendor("c.icd", "/else/libone.so")
        texts, _ = self.drivers()
        self.assertEqual(texts, ["libone.so\n", real + "\n", "/else/libone.so\n"])

    def test_no_list(self):
        for value in None, "":
            if value is None:
                del self.environment["OCL_ICD_FILENAMES"]
            else:
                self.environment["OCL_ICD_FILENAMES"] = value
            self.assertEqual(self.printed("OCL_ICD_VENDORS"), self.vendors)

    def test_a_loader_that_reads_no_lists(self):
        """A driver that this loader does not find without Kiln is not found under kiln run
        either."""
        self.put_first(os.environ["LOADER_WITHOUT_LAYERS"])
        self.assertEqual(self.printed("OCL_ICD_VENDORS"), self.vendors)
        self.assertEqual(os.readlink(self.link), system_loader())

    def test_doctor(self):
        report = self.report(expect=3)  # without drivers
        self.assertIn("does not read OCL_ICD_FILENAMES", "\n".join(report["notes"]))
        self.assertFalse(os.path.exists(self.caches))
        self.assertEqual(glob.glob(os.path.join(self.scratch, "kiln-doctor-*")), [])


class NoReplacement(Loader):
    def test_a_loader_that_supports_layers(self):
        """The variable stays unchanged, whatever its value."""
        self.put_first(self.need_system_loader())
        self.assertEqual(self.printed("LD_LIBRARY_PATH"), self.first)
        self.assertFalse(os.path.exists(self.caches))

    def test_no_other_loader(self):
        """No loader of this system has the functions that a program may need."""
        self.put_first(os.environ["LOADER_OF_ANOTHER_TIME"])
        self.environment["OCL_ICD_VENDORS"] = self.scratch
        _, said = self.loader_of_program()
        self.assertIn("libOpenCL.so.1 does not support layers, and no other loader", said)
        self.assertEqual(self.printed("LD_LIBRARY_PATH"), self.first)
        self.assertIn("does not support layers, and no other loader",
                      "\n".join(self.report(expect=3)["problems"]))

    def expect_no_folder(self, why):
        self.need_system_loader()
        _, said = self.loader_of_program()
        self.assertIn(why, said)
        self.assertIn("no OpenCL build is cached", said)
        self.assertEqual(self.printed("LD_LIBRARY_PATH"), self.first)
        report = self.report(expect=3)
        self.assertIn(why, "\n".join(report["problems"]))
        self.assertFalse(report["loader"]["layers"])

    def test_no_home(self):
        self.environment.pop("HOME", None)
        del self.environment["XDG_CACHE_HOME"]
        self.expect_no_folder("neither XDG_CACHE_HOME nor HOME")

    def test_a_folder_writable_by_others(self):
        os.makedirs(os.path.dirname(self.link))
        os.chmod(os.path.dirname(self.link), 0o777)
        self.expect_no_folder("must be a folder that only this user may write")

    def test_a_link_in_place_of_the_folder(self):
        os.makedirs(self.caches)
        os.symlink(self.scratch, os.path.dirname(self.link))
        self.expect_no_folder("must be a folder that only this user may write")

    def test_a_folder_that_cannot_be_in_a_list(self):
        self.environment["XDG_CACHE_HOME"] = os.path.join(self.scratch, "a:b")
        self.expect_no_folder("can't be in LD_LIBRARY_PATH")

    def test_no_folder_can_be_made(self):
        with open(self.caches, "w"):
            pass
        self.expect_no_folder("Not a directory")

    def test_no_folder_to_make_one_in(self):
        self.environment["XDG_CACHE_HOME"] = os.path.join(self.caches, "absent")
        self.expect_no_folder("No such file or directory")


if __name__ == "__main__":
    cli.main()
