# SPDX-License-Identifier: Apache-2.0
"""Tests kiln trim: by size, by age, for replaced drivers, and with --dry-run."""

import json
import os
import subprocess
import time

import cli

DAY = 86400


class Trim(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")
        for name, days in (("matmul", 3), ("saxpy", 40)):
            self.set_age(self.digests[name], days)

    def set_age(self, digest, days):
        when = time.time() - days * DAY - 60
        os.utime(self.entry_path(digest), (when, when))

    def names(self):
        return sorted(item["name"] for item in self.listed("--all"))

    def snapshot(self):
        found = {}
        for folder, _, files in os.walk(self.cache):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                stat = os.lstat(path)
                found[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return found

    def test_what_fits_stays(self):
        report = self.kiln_json("trim")
        self.assertEqual(set(report), {"removed", "removed_bytes", "stale", "stale_bytes", "undetermined",
                                       "entries", "bytes", "dry_run"})
        self.assertEqual((report["removed"], report["entries"], report["dry_run"]), (0, 3, False))
        self.assertEqual(report["bytes"], self.kiln_json("stats")["bytes"])
        self.assertIn(b"0 entries removed", self.kiln("trim").stdout)

    def test_size(self):
        report = self.kiln_json("trim", "--max-size", "100K")
        # The large entry is worth least for its size.
        self.assertNotIn("matmul", self.names())
        self.assertIn("saxpy", self.names())
        self.assertEqual((report["removed"], report["entries"]), (1, 2))
        self.assertGreater(report["removed_bytes"], 1500000)
        self.assertLessEqual(report["bytes"], 100 << 10)
        self.assertEqual(self.kiln_json("stats")["evicted"], 1)
        self.kiln("trim", "--max-size", "0")
        self.assertEqual(self.names(), [])

    def test_the_limit_of_programs(self):
        self.environment["KILN_MAX_SIZE"] = "100K"
        url = f"file://{self.cache}?max-size=10M"
        self.assertEqual(self.kiln_json("trim", "--dir", url)["removed"], 0)
        self.assertEqual(self.kiln_json("trim")["removed"], 1)
        self.environment["KILN_MAX_SIZE"] = "0"
        self.assertEqual(self.kiln_json("trim")["removed"], 0)

    def test_a_custom_policy(self):
        url = f"file://{self.cache}?policy=lru"
        self.assertEqual(
            self.kiln_json("trim", "--dir", url, "--max-size", "1600K")["removed"], 0)
        self.kiln_json("trim", "--dir", url, "--max-size", str(self.kiln_json("stats")["bytes"] - 1))
        self.assertNotIn("saxpy", self.names())
        self.assertIn("matmul", self.names())

    def test_age(self):
        for age in ("50", "45d", "1200h"):
            self.assertEqual(self.kiln_json("trim", "--older-than", age)["removed"], 0)
        self.assertEqual(self.kiln_json("trim", "--older-than", "30")["removed"], 1)
        self.assertNotIn("saxpy", self.names())
        self.assertEqual(self.kiln_json("trim", "--older-than", "100m")["removed"], 1)
        self.assertNotIn("matmul", self.names())

    def test_a_dry_run_changes_nothing(self):
        self.leave_temporary()
        before = self.snapshot()
        report = self.kiln_json("trim", "--dry-run", "--max-size", "100K", "--stale")
        self.assertEqual((report["removed"], report["dry_run"]), (1, True))
        report = self.kiln_json("trim", "--dry-run", "--max-size", "100K", "--older-than", "30")
        self.assertEqual(self.snapshot(), before)
        self.assertEqual((report["removed"], report["dry_run"]), (2, True))
        self.assertIn(b"2 entries would be removed",
                      self.kiln("trim", "--dry-run", "--max-size", "100K", "--older-than",
                                "30").stdout)
        self.assertEqual(self.snapshot(), before)
        done = self.kiln_json("trim", "--max-size", "100K", "--older-than", "30")
        for name in ("removed", "removed_bytes", "entries", "bytes"):
            self.assertEqual(done[name], report[name])

    def test_leftovers(self):
        path = self.leave_temporary()
        self.kiln("trim")
        self.assertFalse(os.path.exists(path))

    def test_unknown_drivers_are_undetermined(self):
        names = self.names()
        report = self.kiln_json("trim", "--stale")
        self.assertEqual((report["stale"], report["removed"], report["undetermined"]), (0, 0, 3))
        self.assertEqual(self.names(), names)
        self.assertIn(b"3 entries: it is not known whether", self.kiln("trim", "--stale").stderr)

    def test_damaged_entries_are_undetermined(self):
        self.change_byte(self.digests["saxpy"], -200)
        report = self.kiln_json("trim", "--stale")
        self.assertEqual((report["stale"], report["undetermined"]), (0, 3))

    def test_what_a_dry_run_says(self):
        """Each line has one meaning, and nouns agree with their numbers."""
        self.assertEqual(self.kiln("trim", "--dry-run", "--stale").stdout.splitlines()[0][:45],
                         b"0 entries of drivers that are gone would be removed"[:45])
        both = self.kiln("trim", "--dry-run", "--stale", "--max-size", "100K")
        self.assertRegex(both.stdout, rb"^0 entries of drivers that are gone would be removed, "
                                      rb"0 B\n"
                                      rb"1 entry would be removed, 1\.4 MiB; 2 left, 12 KiB\n$")

    def test_devices_that_are_no_longer_used(self):
        """One use of a device keeps all of its entries."""
        digests = {}
        for device, ages in (("P / old / 1", (40, 31)), ("P / new / 2", (40, 29))):
            for days in ages:
                digests[device, days] = self.make_entry("put", f"source={device} {days}",
                                                        device=device)
                self.set_age(digests[device, days], days)
        before = len(self.listed())
        report = self.kiln_json("trim", "--stale", "--dry-run")
        self.assertEqual((report["stale"], report["removed"]), (2, 0))
        self.assertEqual(self.kiln_json("trim", "--stale", "--older-than", "32d")["stale"], 0)
        self.assertEqual(len(self.listed()), before)
        self.assertEqual(self.kiln_json("trim", "--stale")["stale"], 2)
        left = {item["digest"] for item in self.listed()}
        self.assertEqual({device for device, days in digests if digests[device, days] in left},
                         {"P / new / 2"})
        self.assertEqual(self.kiln_json("trim", "--stale", "--older-than", "28d")["stale"], 2)

    def test_wrong_values(self):
        for arguments in (["--max-size", "1X"], ["--max-size", ""], ["--older-than", "0"],
                          ["--older-than", "7w"], ["--older-than", "d"], ["--older-than", "-1"],
                          ["operand"], ["--max-size"]):
            with self.subTest(arguments):
                result = self.kiln("trim", *arguments, expect=2)
                self.assertEqual(result.stdout, b"")
                self.assertNotEqual(result.stderr, b"")
        self.assertEqual(len(self.names()), 4)


class Drivers(cli.CliTest):
    """Tests with the installed drivers that scripts/with-runtime selects."""

    def setUp(self):
        super().setUp()
        if "OCL_ICD_VENDORS" in os.environ:
            self.environment["OCL_ICD_VENDORS"] = os.environ["OCL_ICD_VENDORS"]
        report = json.loads(subprocess.run([cli.KILN, "doctor", "--json"], env=self.environment,
                                           stdout=subprocess.PIPE).stdout)
        self.platforms = [platform for platform in report.get("platforms", [])
                          if platform["driver_files"]]
        if not self.platforms:
            self.skipTest("the files of no OpenCL driver are known here")

    def make_of(self, platform, files):
        lines = [f"{name} {identity}" for name, identity in files.items()]
        output = subprocess.run([cli.MAKE_CACHE, "driver", self.cache, platform, *lines],
                                check=True, stdout=subprocess.PIPE, env=self.environment).stdout
        return output.split()[0].decode()

    def use_long_ago(self):
        """Returns a time before the drivers were installed."""
        for item in self.listed():
            os.utime(self.entry_path(item["digest"]), (10**9, 10**9))

    @staticmethod
    def own_file(files):
        """Returns the driver's own library."""
        return next(name for name in files if name.startswith(("libintelocl", "libpocl.so")))

    @staticmethod
    def linked_file(files):
        """Returns a library that the driver is linked to, and that a program may bring along."""
        return next(name for name in files if name.startswith("libc.so"))

    def test_what_a_driver_before_this_one_built(self):
        kept, gone = [], []
        for platform in self.platforms:
            files = platform["driver_files"]
            own = self.own_file(files)
            kept.append(self.make_of(platform["name"], files))
            gone.append(self.make_of(platform["name"], {**files, own: "build-id:00"}))
            gone.append(self.make_of(
                platform["name"], {other: files[other] for other in files if other != own}))
        kept.append(self.make_of("A platform that is not here", {"lib.so": "build-id:02"}))
        self.use_long_ago()
        when = time.time() - 20 * DAY
        os.utime(self.entry_path(kept[-1]), (when, when))
        report = self.kiln_json("trim", "--stale", "--dry-run")
        self.assertEqual((report["stale"], report["undetermined"]), (len(gone), 1))
        self.assertEqual(report["entries"], len(kept))
        self.assertEqual(len(self.listed()), len(kept) + len(gone))
        report = self.kiln_json("trim", "--stale")
        self.assertEqual((report["stale"], report["removed"], report["entries"]),
                         (len(gone), 0, len(kept)))
        self.assertEqual({item["digest"] for item in self.listed()}, set(kept))

    def test_what_a_program_with_other_libraries_built(self):
        """The driver is the same, but it is linked to libraries that the program brought along."""
        for platform in self.platforms:
            files = platform["driver_files"]
            linked = self.linked_file(files)
            self.make_of(platform["name"], {**files, linked: "build-id:00"})
            self.make_of(platform["name"], {**files, "libmore.so": "build-id:01"})
            self.make_of(
                platform["name"], {other: files[other] for other in files if other != linked})
        self.use_long_ago()
        report = self.kiln_json("trim", "--stale")
        self.assertEqual((report["stale"], report["undetermined"]), (0, 0))
        self.assertEqual(report["entries"], 3 * len(self.platforms))

    def test_what_another_driver_of_the_platform_built(self):
        """The entry was used after the driver found here was installed: programs find both
        drivers."""
        for platform in self.platforms:
            files = platform["driver_files"]
            self.make_of(platform["name"], {**files, self.own_file(files): "build-id:00"})
        report = self.kiln_json("trim", "--stale")
        self.assertEqual((report["stale"], report["undetermined"]), (0, len(self.platforms)))
        self.assertEqual(report["entries"], len(self.platforms))

    def installed_s(self, platform):
        """Returns when the library of a platform's driver was installed; None if its path is not
        known."""
        own = self.own_file(platform["driver_files"]).split(".so")[0]
        vendors = self.environment.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
        for name in os.listdir(vendors):
            with open(os.path.join(vendors, name)) as file:
                library = file.read().strip()
            if os.path.basename(library).startswith(own) and os.path.isfile(library):
                return os.stat(library).st_ctime
        return None

    def test_what_may_have_been_used_since(self):
        """A use within an hour of the stamp leaves no new stamp."""
        platforms = [platform for platform in self.platforms if self.installed_s(platform)]
        if not platforms:
            self.skipTest("no driver's path is known")
        for platform in platforms:
            files = platform["driver_files"]
            for minutes in (50, 70):
                digest = self.make_of(
                    platform["name"], {**files, self.own_file(files): f"build-id:{minutes}"})
                used = self.installed_s(platform) - minutes * 60
                os.utime(self.entry_path(digest), (used, used))
        report = self.kiln_json("trim", "--stale")
        self.assertEqual((report["stale"], report["undetermined"]),
                         (len(platforms), len(platforms)))

    def test_entries_with_stripped_keys(self):
        """Stripped keys have only digests of the driver's files."""
        gone = []
        for platform in self.platforms:
            files = platform["driver_files"]
            self.make_of(platform["name"], files)
            own = self.own_file(files)
            gone.append(self.make_of(platform["name"], {**files, own: "build-id:" + "0" * 40}))
        pack = os.path.join(self.scratch, "stripped.kpack")
        self.kiln("pack", "--strip-keys", pack)
        self.kiln("clear", "--yes")
        self.kiln("unpack", "--trust", pack)
        self.use_long_ago()
        report = self.kiln_json("trim", "--stale")
        self.assertEqual((report["stale"], report["undetermined"]), (len(gone), 0))
        self.assertEqual(report["entries"], len(self.platforms))


    def test_pull_takes_what_fits(self):
        into = os.path.join(self.scratch, "into")
        fitting = []
        for platform in self.platforms:
            files = platform["driver_files"]
            fitting.append(self.make_of(platform["name"], files))
            self.make_of(platform["name"], {**files, self.own_file(files): "build-id:00"})
            names = [f"driver.file={name} {identity}" for name, identity in files.items()]
            fitting.append(self.make_entry(
                "put", f"platform.name={platform['name']}", *names,
                f"device.name={platform['devices'][0]['name']}"))
            self.make_entry("put", f"platform.name={platform['name']}", *names,
                            "device.name=Not Here")
        report = self.kiln_json("pull", "--dir", into, self.cache)
        self.assertEqual((report["taken"], report["unfit"]),
                         (2 * len(self.platforms), 2 * len(self.platforms)))
        self.assertEqual({item["digest"] for item in self.listed("--dir", into)}, set(fitting))


class Missing(cli.CliTest):
    def test_nothing_is_made(self):
        self.assertEqual(self.kiln_json("trim")["removed"], 0)
        pack = os.path.join(self.scratch, "none.kpack")
        self.assertIn(b"No such file", self.kiln("unpack", "--trust", pack, expect=4).stderr)
        self.assertFalse(os.path.exists(self.cache))

    def test_a_cache_that_is_not_there_is_named(self):
        """Otherwise a mistyped name would look like an empty cache."""
        for expect, *arguments in (
                (0, "ls"), (0, "ls", "--json"), (0, "verify"), (0, "trim"), (0, "trim", "--dry-run"),
                (0, "stats"), (1, "show", "abcd"), (1, "why", "abcd"), (1, "why", "--last"),
                (1, "rm", "abcd"), (0, "clear", "--yes"),
                (1, "pack", os.path.join(self.scratch, "out"))):
            with self.subTest(arguments):
                result = self.kiln(*arguments, expect=expect)
                self.assertIn(f"{self.cache} does not exist".encode(), result.stderr)
        self.assertEqual(self.kiln("capture").stderr, b"")
        self.assertFalse(os.path.exists(self.cache))


if __name__ == "__main__":
    cli.main()
