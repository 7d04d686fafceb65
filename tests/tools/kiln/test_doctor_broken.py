# SPDX-License-Identifier: Apache-2.0
"""Tests kiln doctor with drivers that crash, end the process or hang."""

import glob
import os
import unittest

import cli

LONG_MS = 60000


class Broken(cli.CliTest):
    def install(self, *drivers):
        """Makes stand-ins the only drivers of this system, in this order."""
        vendors = os.path.join(self.scratch, "vendors")
        os.mkdir(vendors)
        self.environment["OCL_ICD_VENDORS"] = vendors
        for number, driver in enumerate(drivers):
            with open(os.path.join(vendors, f"{number}.icd"), "w", encoding="utf-8") as file:
                file.write(os.environ[driver] + "\n")

    def report(self, wait_ms=LONG_MS):
        report = self.kiln_json("doctor", "--wait-ms", str(wait_ms), expect=3)
        if "loader" not in report:
            self.skipTest("no OpenCL here")
        self.assertEqual(glob.glob(os.path.join(self.scratch, "kiln-doctor-*")), [])
        return report

    def expect_problem(self, report, driver, end):
        self.assertIn(f"the driver {os.environ[driver]} can't be queried: the process that tried "
                      + end, report["problems"])

    def expect_the_rest(self, report):
        self.assertEqual(report["directory"], {"path": self.cache, "state": "will be created"})
        self.assertEqual(report["max_bytes"], 2 << 30)
        self.assertEqual(report["variables"]["KILN_DIR"], self.cache)
        self.assertTrue(os.path.isfile(report["loader"]["path"]))
        self.assertIn("path", report["layer"])
        self.assertIn("path", report["nvrtc_layer"])

    def test_sound(self):
        """Checks the state without broken drivers, from which the tests below start."""
        self.install("DRIVER_SOUND")
        report = self.kiln_json("doctor")
        if "loader" not in report:
            self.skipTest("no OpenCL here")
        platform, = report["platforms"]
        self.assertEqual([device["name"] for device in platform["devices"]], ["A stand-in"])
        self.assertEqual((report["problems"], report["layer"]["loaded"]), ([], True))

    def test_aborts(self):
        self.install("DRIVER_ABORTS", "DRIVER_SOUND")
        report = self.report()
        end = "ended by signal 6 (Aborted)"
        self.assertIn("OpenCL with all its drivers and layers can't be queried: the process that "
                      "tried " + end, report["problems"])
        self.expect_problem(report, "DRIVER_ABORTS", end)
        self.assertEqual(len(report["problems"]), 2, report["problems"])
        self.expect_the_rest(report)
        platform, = report["platforms"]
        self.assertEqual(platform["name"], "A stand-in")
        self.assertNotIn("layers", "\n".join(report["notes"]))

    def test_crashes_when_asked_for_devices(self):
        self.install("DRIVER_CRASHES")
        report = self.report()
        self.expect_problem(report, "DRIVER_CRASHES", "ended by signal 11 (Segmentation fault)")
        self.expect_the_rest(report)
        self.assertEqual(report["platforms"], [])

    def test_ends_the_process(self):
        """The driver ends the process with exit status 0."""
        self.install("DRIVER_EXITS")
        report = self.report()
        self.expect_problem(report, "DRIVER_EXITS", "ended with exit status 0")
        self.expect_the_rest(report)

    def test_hangs(self):
        self.install("DRIVER_HANGS")
        report = self.report(wait_ms=200)
        self.expect_problem(report, "DRIVER_HANGS", "did not end within 200 ms")
        self.assertEqual(report["directory"]["path"], self.cache)

    def test_each_works_alone(self):
        """Tests a driver that fails only if a second driver is present."""
        self.install("DRIVER_LONELY", "DRIVER_SOUND")
        report = self.report()
        self.assertEqual(len(report["problems"]), 1, report["problems"])
        self.assertIn("each driver can be queried alone and without layers",
                      report["notes"])
        self.assertEqual(len(report["platforms"]), 2)

    def test_drivers_that_no_folder_names(self):
        """No folder lists the drivers: it is reported that one is broken, but not which."""
        self.environment["OCL_ICD_VENDORS"] = os.environ["DRIVER_ABORTS"]
        report = self.report()
        if report["loader"]["kind"] != "ocl-icd":
            self.skipTest("this loader accepts only folders")
        self.assertIn("ended by signal 6", "\n".join(report["problems"]))
        self.expect_the_rest(report)

    def test_text(self):
        self.install("DRIVER_ABORTS")
        result = self.kiln("doctor", expect=3)
        text = result.stdout.decode()
        if "OpenCL can't be loaded:" in text:
            self.skipTest("no OpenCL here")
        self.assertRegex(text, r"(?m)^loader +/")
        self.assertRegex(text, r"(?m)^directory +" + self.cache + ", will be created$")
        self.assertRegex(text, r"(?m)^size +2\.0 GiB at most$")
        self.assertIn(f"\n  the driver {os.environ['DRIVER_ABORTS']} can't be queried: the process "
                      "that tried ended by signal 6 (Aborted)\n", text)
        self.assertNotIn("a driver that talks", text)
        self.assertIn(b"a driver that talks", result.stderr)

    def test_usage(self):
        for wait in "", "x", "-1", "1s":
            with self.subTest(wait):
                self.kiln("doctor", "--wait-ms", wait, expect=2)


if __name__ == "__main__":
    cli.main()
