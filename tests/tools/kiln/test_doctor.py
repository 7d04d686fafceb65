# SPDX-License-Identifier: Apache-2.0
"""Tests kiln doctor with the OpenCL runtimes of this machine, if any."""

import glob
import json
import os
import subprocess
import unittest

import cli

NOBODY = 65534


class Doctor(cli.CliTest):
    tool = cli.KILN
    user = None  # set by the test

    def report(self, *arguments):
        """Returns the report, and checks that the exit status agrees with it."""
        result = subprocess.run(
            [self.tool, "doctor", "--json", *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=self.environment, timeout=60, user=self.user)
        report = json.loads(result.stdout)
        self.assertEqual(result.returncode, 3 if report["problems"] else 0, result)
        return report

    def problems(self):
        return "\n".join(self.report()["problems"])

    def test_members(self):
        report = self.report()
        self.assertLessEqual(
            {"version", "directory", "max_bytes", "readonly", "disabled", "variables",
             "layer", "folders", "python", "notes", "problems"}, set(report))
        self.assertEqual(report["directory"], {"path": self.cache, "state": "will be created"})
        self.assertEqual(report["max_bytes"], 2 << 30)
        self.assertFalse(os.path.exists(self.cache))

    def test_frameworks_for_python(self):
        for name, version in (("triton", "2.3.1"), ("cupy_cuda13x", "14.2.0")):
            folder = os.path.join(self.scratch, f"{name}-{version}.dist-info")
            os.mkdir(folder)
            with open(os.path.join(folder, "METADATA"), "w") as file:
                file.write(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        self.environment["PYTHONPATH"] = self.scratch
        report = self.report()
        if report["python"]["folder"] is None:
            self.skipTest("the tool has no Python package here")
        self.assertTrue(report["python"]["folder"].endswith("/kiln/inject"))
        known = {item["name"]: (item["version"], item["known"])
                 for item in report["python"]["frameworks"]}
        self.assertEqual(known["triton"], ("2.3.1", False))
        self.assertEqual(known["cupy-cuda13x"], ("14.2.0", True))
        notes = "\n".join(report["notes"])
        self.assertIn("Kiln does not know triton 2.3.1", notes)
        self.assertNotIn("cupy", notes)

    def test_options_that_no_call_shows(self):
        self.assertNotIn("NVRTC_APPEND_FLAGS", self.problems())
        self.environment["NVRTC_APPEND_FLAGS"] = "-lineinfo"
        self.assertIn("NVRTC_APPEND_FLAGS is set", self.problems())

    def test_loader(self):
        report = self.report()
        if "loader" not in report:
            self.skipTest("no OpenCL here")
        loader = report["loader"]
        self.assertTrue(os.path.isfile(loader["path"]))
        self.assertIn(loader["kind"], ("ocl-icd", "khronos"))
        self.assertTrue(loader["layers"])
        for platform in report["platforms"]:
            self.assertTrue(platform["name"])
            for device in platform["devices"]:
                self.assertTrue(device["driver_version"])

    def test_no_driver(self):
        self.environment["OCL_ICD_VENDORS"] = self.scratch
        report = self.report()
        if "loader" not in report:
            self.skipTest("no OpenCL here")
        self.assertEqual(report["platforms"], [])
        self.assertIn("the loader finds no OpenCL driver", report["problems"])

    def test_directory_in_use(self):
        self.make("entries")
        before = sorted(os.listdir(self.cache))
        self.assertEqual(self.report()["directory"]["state"], "used")
        self.assertEqual(sorted(os.listdir(self.cache)), before)

    def test_nothing_is_trimmed(self):
        self.make("entries")
        long_ago = (1000000000, 1000000000)
        files = [os.path.join(folder, name)
                 for folder, _, names in os.walk(self.cache) for name in names]
        for file in files:
            os.utime(file, long_ago)
        self.environment["KILN_DIR"] = "file://" + self.cache + "?max-age=1"
        self.assertEqual(self.report()["directory"]["state"], "used")
        self.assertEqual([file for file in files if not os.path.exists(file)], [])

    def test_directory_is_a_link(self):
        os.mkdir(self.cache + "-elsewhere", 0o700)
        os.symlink(self.cache + "-elsewhere", self.cache)
        self.assertIn(f"{self.cache} is not used", self.problems())

    def test_directory_open_to_others(self):
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o777)
        self.assertIn(f"{self.cache} is not used", self.problems())

    def test_directory_of_a_group(self):
        """Named by its path, the directory is refused, and a note says how it can be shared."""
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o2770)
        self.environment["KILN_DIR"] = f"{self.cache}-2|{self.cache}"
        report = self.report()
        self.assertIn(f"{self.cache} is writable by others (mode 2770)", str(report["problems"]))
        self.assertIn(f"name it group:{self.cache},", str(report["notes"]))
        self.environment["XDG_CONFIG_HOME"] = self.scratch
        self.environment["KILN_DIR"] = f"group:{self.cache}"
        self.assertIn("a group's directory needs a trusted key (kiln key trust)", self.problems())
        self.kiln("key", "new", "team")
        self.environment["KILN_SECRET_KEY_FILE"] = f"{self.scratch}/kiln/keys/team"
        self.assertEqual(self.report()["directory"]["state"], "used")
        os.chmod(self.cache, 0o770)
        self.assertIn(f"{self.cache} has mode 0770, but the directory of a group must have mode "
                      f"2770 or 3770 (chmod 2770 {self.cache})", self.problems())

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_directory_of_root(self):
        """Users who may only read can use a directory that root owns."""
        self.make("entries")
        for folder, _, _ in os.walk(self.cache):
            os.chmod(folder, 0o755)
        self.tool = self.in_reach_of_others()
        self.user = NOBODY
        for location in self.cache, "file://" + self.cache, self.cache + "|" + self.cache + "-2":
            self.environment["KILN_DIR"] = location
            self.assertIn(f"{self.cache} belongs to user 0", self.problems())
            self.environment["KILN_READONLY"] = "1"
            self.assertEqual(self.report()["directory"]["state"], "used")
            del self.environment["KILN_READONLY"]

    def own_problems(self, report):
        """Returns the problems of this test's stores, without those of this machine."""
        return [problem for problem in report["problems"]
                if self.scratch in problem and "layer" not in problem]

    def test_a_chain_before_its_first_use(self):
        """Programs create the directories of a chain, so a chain of new directories can be used."""
        new, other = self.cache + "/deep", self.cache + "-2"
        pack = f"pack:{self.scratch}/missing.kpack"
        for location, wrong in ((f"{new}|{other}", []), (f"{pack}|{new}", ["missing.kpack"])):
            self.environment["KILN_DIR"] = location
            report = self.report()
            self.assertEqual(report["directory"]["state"], "will be created")
            problems = self.own_problems(report)
            self.assertEqual(len(problems), len(wrong), problems)
            for text in wrong:
                self.assertIn(text, problems[0])
        self.environment["KILN_READONLY"] = "1"
        self.assertEqual(self.report()["directory"]["state"], "not used")
        del self.environment["KILN_READONLY"]
        os.mkdir(other, mode=0o700)
        self.environment["KILN_DIR"] = f"{new}|{other}"
        report = self.report()
        self.assertEqual((report["directory"]["state"], self.own_problems(report)), ("used", []))
        self.assertEqual([(tier.get("state"), tier["outage"]) for tier in report["tiers"]],
                         [("will be created", None), (None, None)])
        text = self.kiln("doctor", expect=3 if report["problems"] else 0).stdout.decode()
        self.assertRegex(text, rf"(?m)^tier +{new}, will be created$")
        self.assertRegex(text, rf"(?m)^tier +{other}, used$")
        self.assertFalse(os.path.exists(self.cache))

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_a_chain_whose_directory_cannot_be_created(self):
        self.tool = self.in_reach_of_others()
        self.user = NOBODY
        parent = self.scratch + "/of-root"
        os.mkdir(parent, mode=0o755)
        self.environment["KILN_DIR"] = f"{parent}/below|pack:{parent}/missing.kpack"
        report = self.report()
        self.assertEqual(report["directory"]["state"], "not used")
        self.assertIn(f"{parent}/below can't be created: Permission denied", report["problems"])

    def test_directory_below_a_file(self):
        with open(self.cache, "w"):
            pass
        self.environment["KILN_DIR"] = self.cache + "/below/it"
        self.assertEqual(self.report()["directory"]["path"], self.cache + "/below/it")
        self.assertIn(self.cache, self.problems())

    def test_wrong_values(self):
        self.environment.update(KILN_MAX_SIZE="3X", KILN_READONLY="maybe", KILN_DIRR="x")
        report = self.report()
        problems = "\n".join(report["problems"])
        self.assertIn("KILN_MAX_SIZE=3X", problems)
        self.assertIn("KILN_READONLY=maybe", problems)
        self.assertEqual(report["max_bytes"], 2 << 30)
        self.assertIn("KILN_DIRR is set", "\n".join(report["notes"]))
        self.assertEqual(report["variables"]["KILN_MAX_SIZE"], "3X")

    def test_no_password_is_shown(self):
        for location in ("redis://user:secret@cache", "redis:user:secret@cache",
                         self.cache + "|redis://user:12|secret@cache",
                         self.cache + "|redis://user:12?trust=any|redis://a?secret@cache"):
            self.environment["KILN_DIR"] = location
            result = self.kiln("doctor", "--json", expect=3)
            self.assertNotIn(b"secret", result.stdout + result.stderr)
            self.assertNotIn(b"secret", self.kiln("doctor", expect=3).stdout)

    def test_a_server_that_cannot_be_asked(self):
        self.environment["KILN_DIR"] = self.cache + "|redis://127.0.0.1:1?trust=any"
        for _ in range(2):
            self.assertIn("127.0.0.1:1 cannot be used: it refuses connections", self.problems())
        os.mkdir(self.cache, mode=0o700)
        for _ in range(2):
            self.assertIn("127.0.0.1:1 cannot be used: it refuses connections", self.problems())

    def test_notes(self):
        self.environment.update(KILN_DISABLE="1", KILN_MAX_SIZE="0")
        notes = "\n".join(self.report()["notes"])
        self.assertIn("KILN_DISABLE", notes)
        self.assertIn("KILN_MAX_SIZE is 0", notes)

    def test_key_of_each_platform(self):
        self.environment.update(KILN_KEY_ENV="MY_FLAG,OTHER_*,NOT_SET", MY_FLAG="x", OTHER_1="y")
        platforms = self.report()["platforms"]
        if not platforms:
            self.skipTest("no OpenCL platform here")
        for platform in platforms:
            variables = platform["key_variables"]
            self.assertEqual((variables["MY_FLAG"], variables["OTHER_1"]), ("x", "y"))
            self.assertIsNone(variables["NOT_SET"])
            self.assertTrue(platform["driver_files"])
            self.assertTrue(all(platform["driver_files"].values()))

    def test_files_of_one_name(self):
        """A driver in a different folder finds both the headers beside it and the system's."""
        driver = glob.glob("/usr/lib/*/libpocl.so.2")
        headers = glob.glob("/usr/share/pocl/include/_kernel.h")
        if not driver or not headers:
            self.skipTest("no PoCL here")
        folders = [os.path.join(self.scratch, name) for name in ("lib", "share/pocl/include")]
        for folder in folders:
            os.makedirs(folder)
        os.symlink(driver[0], os.path.join(folders[0], "libpocl.so.2"))
        with open(os.path.join(folders[1], "_kernel.h"), "w") as file:
            file.write("another one")
        with open(os.path.join(self.scratch, "a.icd"), "w") as file:
            file.write(os.path.join(folders[0], "libpocl.so.2"))
        self.environment["OCL_ICD_VENDORS"] = self.scratch
        platform, = self.report()["platforms"]
        files = platform["driver_files"]
        self.assertLessEqual({"_kernel.h", "_kernel.h#2"}, set(files))
        self.assertNotEqual(files["_kernel.h"], files["_kernel.h#2"])

    def test_missing_layer_of_the_user(self):
        self.environment["OPENCL_LAYERS"] = "/nonexistent/layer.so"
        self.assertIn("OPENCL_LAYERS names /nonexistent/layer.so: No such file", self.problems())

    def test_text(self):
        self.environment["KILN_MAX_SIZE"] = "3X"
        text = self.kiln("doctor", expect=3).stdout.decode()
        self.assertRegex(text, r"(?m)^directory +" + self.cache + ", will be created$")
        self.assertRegex(text, r"(?m)^size +2\.0 GiB at most$")
        self.assertRegex(text, r"(?m)^problems:\n(  .*\n)*  KILN_MAX_SIZE=3X")


if __name__ == "__main__":
    cli.main()
