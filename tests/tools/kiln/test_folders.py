# SPDX-License-Identifier: Apache-2.0
"""Tests the folders of caches under kiln run: they are filled, kept, and never torn."""

import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import cli

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import pod

SUPPORT = os.path.dirname(cli.MAKE_CACHE) if cli.MAKE_CACHE else ""
USER = os.path.join(SUPPORT, "cache_user")
REPLACE = os.path.join(SUPPORT, "replace_payload")
DAMAGES = int(os.environ.get("KILN_FOLDER_DAMAGES", "6"))

COLD = b"made 4, read 0\n"
WARM = b"made 0, read 4\n"


class FoldersTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.place = os.path.join(self.scratch, "place")
        self.environment["KILN_FOLDERS"] = self.place + ",MY_CACHE"
        self.environment.pop("MY_CACHE", None)
        self.folder = os.path.join(self.place, "MY_CACHE")

    def run_user(self, *arguments, expect=0, **options):
        """Runs the program, and waits until its folder is kept."""
        return self.kiln("run", "--summary", USER, *arguments, expect=expect, **options).stdout

    def forget_folders(self):
        """Makes the machine a new one, as far as folders are concerned."""
        shutil.rmtree(self.place, ignore_errors=True)

    def wait_until(self, holds):
        deadline = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def helpers(self):
        """Returns the processes that look after folders of this test."""
        place = ("KILN_FOLDERS=" + self.place).encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/comm") as comm, open(f"/proc/{name}/environ", "rb") as file:
                    if comm.read() == "kiln folders\n" and place in file.read():
                        found.append(int(name))
            except OSError:
                pass  # it has ended
        return found

    def runs(self):
        return glob.glob(self.folder + ".run-*")

    def list_entry(self):
        return next(item for item in self.listed() if item["name"].startswith("list of"))

    def list_text(self):
        path = os.path.join(self.scratch, "list")
        self.kiln("show", "--payload", path, self.list_entry()["digest"])
        with open(path) as file:
            return file.read()

    def replace(self, digest, payload):
        path = os.path.join(self.scratch, "payload")
        with open(path, "wb") as file:
            file.write(payload)
        subprocess.run([REPLACE, self.cache, digest, path], check=True)


class Kept(FoldersTest):
    def test_filled_on_a_new_machine(self):
        self.assertEqual(self.run_user(), COLD)
        self.assertEqual(self.run_user(), WARM)
        self.forget_folders()
        result = self.kiln("run", "--json", USER)
        self.assertEqual(result.stdout, WARM)
        self.assertIn(b'"MY_CACHE":{"files_from_store":4,"files_kept":0}', result.stderr)
        for folder, _, files in os.walk(self.place):
            for name in ("", *files):
                self.assertEqual(os.stat(os.path.join(folder, name)).st_mode & 0o077, 0)

    def test_kept_without_a_process_between(self):
        process = subprocess.Popen([cli.KILN, "run", USER], env=self.environment,
                                   stdout=subprocess.PIPE)
        self.assertEqual(process.communicate(timeout=60)[0], COLD)
        self.wait_until(lambda: self.listed() and not self.runs())
        self.forget_folders()
        self.assertEqual(self.run_user(), WARM)

    def test_kept_while_the_program_runs(self):
        process = subprocess.Popen([cli.KILN, "run", USER, "hold"], env=self.environment,
                                   stdout=subprocess.PIPE)
        self.wait_until(lambda: len(self.listed()) == 5)
        self.assertIsNone(process.poll())
        process.terminate()
        process.communicate(timeout=60)
        self.wait_until(lambda: not self.runs())  # nothing changed after it was kept
        self.assertEqual(self.run_user(), WARM)

    def test_new_files_are_added(self):
        self.run_user()
        self.forget_folders()
        self.assertEqual(self.run_user("more"), b"made 1, read 4\n")
        self.forget_folders()
        self.assertEqual(self.run_user("more"), b"made 0, read 5\n")

    def test_kept_in_a_store_that_is_new(self):
        self.run_user()
        shutil.rmtree(self.cache)
        self.assertEqual(self.run_user(), WARM)
        self.forget_folders()
        self.assertEqual(self.run_user(), WARM)

    def test_eight_at_once(self):
        for expected in (None, WARM):
            processes = [subprocess.Popen([cli.KILN, "run", "--summary", USER], stderr=subprocess.PIPE,
                                          env=self.environment, stdout=subprocess.PIPE)
                         for _ in range(8)]
            for process in processes:
                output = process.communicate(timeout=60)[0]
                self.assertEqual(process.returncode, 0)
                if expected is not None:
                    self.assertEqual(output, expected)
            self.run_user()
            self.forget_folders()

    def toolkit(self, name):
        """Makes a CUDA toolkit the one that programs find. It is a part of the identity."""
        self.environment["CUDA_HOME"] = os.path.join(self.scratch, name)

    def test_not_shared_by_two_identities(self):
        """The machine changes: what was made before must not be used, nor kept as if it were new."""
        for name in ("first", "second"):
            self.toolkit(name)
            self.assertEqual(self.run_user(), COLD)
            self.assertEqual(self.run_user(), WARM)
        self.forget_folders()
        self.toolkit("first")
        self.assertEqual(self.run_user(), WARM)
        self.toolkit("second")
        self.assertEqual(self.run_user("more"), b"made 1, read 4\n")

    def test_two_identities_at_once(self):
        self.toolkit("first")
        holder = subprocess.Popen([cli.KILN, "run", "--summary", USER, "hold"],
                                  env=self.environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.wait_until(lambda: len(self.listed()) == 5)
        before = self.list_text()
        self.toolkit("second")
        self.run_user("more")
        time.sleep(2)  # so that the first program would keep the new file
        self.assertEqual(self.list_text(), before)  # and there is no other list
        holder.terminate()
        holder.communicate(timeout=60)
        self.assertEqual(self.run_user(), COLD)

    def test_without_standard_descriptors(self):
        command = '"$0" run --summary "$1" more <&- >&- 2>&-'
        subprocess.run(["sh", "-c", command, cli.KILN, USER], env=self.environment, timeout=60,
                       check=True)
        self.assertIn("file-4", self.list_text())

    def test_without_child_signals(self):
        """A process that ignores SIGCHLD gets no status of its children."""
        process = subprocess.Popen(
            [cli.KILN, "run", "--summary", USER], env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(process.communicate(timeout=60)[0], COLD)
        self.forget_folders()
        self.assertEqual(self.run_user(), WARM)

    def test_listed_with_its_kind(self):
        self.run_user()
        self.assertEqual({(item["kind"], item["device"]) for item in self.listed()},
                         {("blob", "folder of MY_CACHE")})

    def test_in_a_container(self):
        if not pod.has_pods():
            self.skipTest("this system does not let the user make containers")
        root = os.path.join(self.scratch, "root")
        build = os.path.normpath(os.path.join(os.path.dirname(cli.KILN), "../.."))
        os.mkdir(self.cache, 0o700)
        for expected in (COLD, WARM):
            os.mkdir(root)
            result = pod.run(root, {build: build, "/cache": self.cache},
                             {"KILN_DIR": "/cache", "KILN_FOLDERS": "MY_CACHE"},
                             [cli.KILN, "run", "--", USER])
            os.rmdir(root)
            self.assertEqual(result.stdout, expected, result.stderr)


class Left(FoldersTest):
    """What Kiln leaves alone."""

    def variables(self):
        output = self.kiln("run", "--summary", "env").stdout.decode()
        return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)

    def test_variables(self):
        self.assertEqual(self.variables()["MY_CACHE"], self.folder)
        self.assertEqual(self.variables()["TORCHINDUCTOR_CACHE_DIR"],
                         os.path.join(self.place, "inductor"))
        self.assertNotIn("NUMBA_CACHE_DIR", self.variables())

    def test_own_variable(self):
        self.environment["MY_CACHE"] = os.path.join(self.scratch, "own")
        self.assertEqual(self.run_user(), COLD)
        self.assertEqual(self.listed(), [])

    def test_off(self):
        self.environment["KILN_FOLDERS"] += ",0"
        self.assertNotIn("MY_CACHE", self.variables())
        self.assertFalse(os.path.exists(self.place))

    @unittest.skipIf(os.getuid() != 0 or not shutil.which("setpriv"), "needs root and setpriv")
    def test_a_different_user(self):
        """A program that root has started becomes a different user, which cannot use root's place."""
        other = ["setpriv", "--reuid=65534", "--clear-groups"]
        audit = os.path.join(os.path.dirname(cli.KILN), "../../layers/nvrtc/libkiln_nvrtc_audit.so")
        if subprocess.run([*other, "test", "-r", audit]).returncode != 0:
            self.skipTest("other users cannot read the build folder")
        os.chmod(self.scratch, 0o755)
        self.environment["OTHER"] = self.place + "-other/folder"
        for user in ([], other):
            variables = set(self.kiln("run", "--summary", *user, "env").stdout.splitlines())
            names = {line.split(b"=")[0] for line in variables}
            for name in (b"MY_CACHE", b"TORCHINDUCTOR_CACHE_DIR"):
                self.assertEqual(name in names, user == [])
            self.assertIn(b"OTHER=" + self.environment["OTHER"].encode(), variables)
            self.assertIn(b"LD_AUDIT", names)
        # Such a program can run the tool again, with a place of its own.
        place = os.path.join(self.scratch, "places")
        os.mkdir(place)
        os.chmod(place, 0o1777)
        again = ["env", f"KILN_FOLDERS={place}/other,MY_CACHE", f"KILN_DIR={place}/cache", cli.KILN]
        for expected in (COLD, WARM):
            self.assertEqual(self.kiln("run", "--summary", *other, *again, "run", "--summary",
                                       USER).stdout, expected)
            shutil.rmtree(os.path.join(place, "other"))

    def test_wrong_items(self):
        self.environment["KILN_FOLDERS"] = "a/b"
        self.assertIn(b"KILN_FOLDERS: 'a/b' is ignored", self.kiln("run", "true").stderr)

    def test_place_of_others(self):
        os.mkdir(self.place, 0o700)
        os.chmod(self.place, 0o750)
        self.assertNotIn("MY_CACHE", self.variables())
        os.rmdir(self.place)
        os.symlink(self.scratch, self.place)
        self.assertNotIn("MY_CACHE", self.variables())

    def test_place_with_other_files(self):
        """Kiln empties folders of the place, so it must not be the user's own folder."""
        os.makedirs(os.path.join(self.place, "MY_CACHE"), 0o700)
        os.chmod(self.place, 0o700)
        own = os.path.join(self.place, "MY_CACHE", "letter")
        with open(own, "w") as file:
            file.write("a letter")
        self.assertNotIn("MY_CACHE", self.variables())
        self.assertTrue(os.path.exists(own))
        os.unlink(own)
        os.rmdir(os.path.dirname(own))
        self.assertIn("MY_CACHE", self.variables())
        self.assertIn("MY_CACHE", self.variables())

    def test_doctor(self):
        folders = json.loads(subprocess.run([cli.KILN, "doctor", "--json"], env=self.environment,
                                            stdout=subprocess.PIPE).stdout)["folders"]
        self.assertEqual(folders["place"], self.place)
        self.assertLessEqual({"inductor", "MY_CACHE"}, set(folders["kept"]))
        self.assertIn("ninja", folders["left_out"]["flashinfer"])
        os.symlink(self.scratch, self.place)
        shown = subprocess.run([cli.KILN, "doctor"], env=self.environment, stdout=subprocess.PIPE)
        self.assertIn(b"no folder of a cache is filled or kept", shown.stdout)

    def test_folder_that_is_a_link(self):
        self.run_user()
        shutil.rmtree(self.folder)
        victim = os.path.join(self.scratch, "victim")
        os.mkdir(victim, 0o700)
        os.symlink(victim, self.folder)
        self.run_user()
        self.assertEqual(len(self.listed()), 5)
        os.unlink(self.folder)

    def test_readonly(self):
        self.environment["KILN_READONLY"] = "1"
        self.run_user()
        self.assertEqual(self.listed(), [])

    def test_links_are_not_kept(self):
        self.run_user()
        os.symlink("/etc/passwd", os.path.join(self.folder, "link"))
        self.run_user("more")
        self.assertIn("file-4", self.list_text())
        self.assertNotIn("link", self.list_text())


class Torn(FoldersTest):
    def test_killed_helper(self):
        """The program ends as it would without the helper, and its folder is not believed."""
        process = subprocess.Popen(
            [cli.KILN, "run", "--summary", "sh", "-c", USER + "; echo; read line; exit 7"],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.readline()
        helper, = self.helpers()
        os.kill(helper, signal.SIGKILL)
        self.wait_until(lambda: not self.helpers())
        process.communicate(b"\n", timeout=60)
        self.assertEqual(process.returncode, 7)
        self.assertEqual(len(self.runs()), 1)
        shutil.rmtree(self.cache)
        self.assertEqual(self.run_user(), COLD)

    def test_killed_program(self):
        self.run_user()
        with self.assertRaises(AssertionError):  # the signal also ends the tool
            self.run_user("torn")
        self.assertEqual(len(self.runs()), 1)
        self.assertEqual(len(self.listed()), 5)
        self.assertEqual(self.run_user("more"), b"made 1, read 4\n")
        self.assertEqual(self.runs(), [])

    def test_killed_beside_a_program(self):
        holder = subprocess.Popen([cli.KILN, "run", USER, "hold"], env=self.environment,
                                  stdout=subprocess.PIPE)
        self.wait_until(lambda: len(self.listed()) == 5)
        with self.assertRaises(AssertionError):
            self.run_user("torn")
        self.wait_until(lambda: len(self.runs()) == 2)
        time.sleep(2)
        self.assertNotIn("file-4", self.list_text())
        holder.terminate()
        holder.communicate(timeout=60)


class Asked(FoldersTest):
    """A folder for which a program asks when it loads a library."""

    def setUp(self):
        super().setUp()
        self.environment["KILN_FOLDERS"] = self.place
        self.environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
        self.folder = os.path.join(self.place, "inductor")

    def program(self, rest):
        """Returns a program that writes a file, and then continues with @rest."""
        return [sys.executable, "-c",
                "import ctypes, os, signal, subprocess, sys, time\n"
                f"ctypes.CDLL({os.path.join(SUPPORT, 'libtorch_cpu.so')!r})\n"
                "folder = os.environ['TORCHINDUCTOR_CACHE_DIR']\n"
                "print(sorted(os.listdir(folder)), flush=True)\n"
                "write = lambda name: open(os.path.join(folder, name), 'w').write(name)\n"
                "write('whole')\n" + rest]

    def test_filled(self):
        for expected in (b"[]\n", b"['whole']\n"):
            result = self.kiln("run", "--summary", *self.program(""))
            self.assertEqual(result.stdout, expected)
            self.forget_folders()

    def test_killed_child_that_nobody_waits_for(self):
        child = self.program("write('torn'); os.kill(os.getpid(), signal.SIGKILL)")
        parent = self.program(f"child = subprocess.Popen({child!r})\nsys.stdin.read()")
        process = subprocess.Popen([cli.KILN, "run", *parent], env=self.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.wait_until(lambda: os.path.exists(os.path.join(self.folder, "torn")))
        time.sleep(3)
        self.assertNotIn("torn", "".join(self.list_text() for _ in self.listed()[:1]))
        process.communicate(timeout=60)
        self.wait_until(lambda: not self.helpers())
        self.forget_folders()
        self.assertNotIn(b"torn", self.kiln("run", "--summary", *self.program("")).stdout)


    def test_daemon_that_outlives_the_run(self):
        """No later run empties the folder under it."""
        go = os.path.join(self.scratch, "go")
        daemon = self.program(f"while not os.path.exists({go!r}):\n    time.sleep(0.02)\n"
                              "open(sys.argv[0] + '.seen', 'w').write(str(os.listdir(folder)))")
        daemon[2] = daemon[2].replace("import ctypes", f"import sys; sys.argv[0] = {go!r}\nimport ctypes")
        parent = [sys.executable, "-c",
                  "import os, subprocess, time\n"
                  f"subprocess.Popen({daemon!r}, start_new_session=True, stdout=subprocess.DEVNULL,"
                  " stderr=subprocess.DEVNULL)\n"
                  "while not os.path.exists(os.environ['TORCHINDUCTOR_CACHE_DIR'] + '/whole'):\n"
                  "    time.sleep(0.02)\n"]
        self.kiln("run", "--summary", *parent)
        self.addCleanup(lambda: self.wait_until(lambda: not self.helpers()))
        self.assertEqual(len(self.helpers()), 1)
        self.assertEqual(self.kiln("run", "--summary", *self.program("")).stdout, b"['whole']\n")
        open(go, "w").close()
        self.wait_until(lambda: os.path.exists(go + ".seen") and os.path.getsize(go + ".seen"))
        with open(go + ".seen") as file:
            self.assertEqual(file.read(), "['whole']")

    def test_processes_with_the_same_number(self):
        """Containers that share a place have processes with the same numbers."""
        if not pod.can_unshare("pid"):
            self.skipTest("this system does not let the user make namespaces of processes")
        program = self.program("sys.stdin.readline()\nwrite(sys.argv[1])\nprint('wrote', flush=True)\n"
                               "sys.stdin.read()")
        processes = [subprocess.Popen([*pod.unshare("pid"), cli.KILN, "run", "--summary", "--",
                                       *program, name], env=self.environment,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) for name in ("one", "two")]
        for process in processes:
            process.stdout.readline()
        self.assertEqual(len(self.runs()), 2)
        self.assertEqual(len(glob.glob(self.place + "/ask-*")), 2)
        for process in processes:
            self.assertEqual(process.communicate(b"\n", timeout=60)[0], b"wrote\n")
        self.assertEqual(self.runs(), [])
        self.forget_folders()
        self.assertEqual(self.kiln("run", "--summary", *self.program("")).stdout,
                         b"['one', 'two', 'whole']\n")

    def test_sockets_of_killed_runs(self):
        self.kiln("run", "--summary", "true")
        name = os.path.join(self.place, "ask-0123")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(name)
            os.utime(name, (1, 1))
            self.kiln("run", "--summary", "true")
            self.assertFalse(os.path.exists(name))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(name)
            listening.listen()
            os.utime(name, (1, 1))
            self.kiln("run", "--summary", "true")
            self.assertTrue(os.path.exists(name))


class Damaged(FoldersTest):
    def check_after_damage(self):
        self.forget_folders()
        self.assertIn(self.run_user(), (COLD, WARM))
        self.forget_folders()
        self.assertEqual(self.run_user(), WARM)

    def test_flips_and_truncations(self):
        self.run_user()
        draw = random.Random(1)
        for _ in range(DAMAGES):
            path = self.entry_path(draw.choice(self.listed())["digest"])
            size = os.path.getsize(path)
            with open(path, "r+b") as file:
                if draw.random() < 0.3:
                    file.truncate(draw.randrange(size))
                else:
                    # Another version of the format is no damage, and stays.
                    file.seek(draw.choice([*range(8), *range(12, size)]))
                    byte = file.read(1)[0]
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte ^ 1 << draw.randrange(8)]))
            self.check_after_damage()

    def test_missing_entry(self):
        self.run_user()
        for item in self.listed()[1:3]:
            os.remove(self.entry_path(item["digest"]))
            self.check_after_damage()


class Hostile(FoldersTest):
    """Entries that are sound, but whose writer was not."""

    def setUp(self):
        super().setUp()
        self.run_user()
        self.good = self.list_text()
        self.header, *self.lines = self.good.splitlines(keepends=True)
        self.digest = self.list_entry()["digest"]

    def check_refused(self, text):
        self.replace(self.digest, text.encode("latin-1"))
        self.forget_folders()
        self.assertEqual(self.run_user(), COLD, text)
        self.assertNotIn("escaped", [name for _, _, names in os.walk(self.scratch) for name in names])
        self.assertEqual(self.list_text(), self.good)

    def with_path(self, path):
        return self.header + "".join(
            line.rsplit(" ", 1)[0] + " " + path + "\n" for line in self.lines[:1])

    def test_paths(self):
        for path in ("../../escaped", "a/../../../escaped", self.scratch + "/escaped"):
            self.check_refused(self.with_path(path))

    def test_list_that_is_cut(self):
        self.check_refused(self.good[:-1])

    def test_too_large(self):
        line = self.lines[0]
        self.check_refused(self.header + str(1 << 50) + line[line.index(" "):])
        self.check_refused(self.header + "".join(
            line.rsplit(" ", 1)[0] + f" f{number:06}\n" for number in range(70000)))

    def test_file_where_a_folder_should_be(self):
        parts = self.lines[0].rsplit(" ", 1)[0]
        self.check_refused(self.header + f"{parts} a\n{parts} a/b\n")

    def test_wrong_content(self):
        """The entry of a content holds something else, under the right key."""
        item = next(item for item in self.listed() if item["name"] == "part-0/file-0")
        self.replace(item["digest"], b"x" * 5000)
        self.forget_folders()
        self.assertEqual(self.run_user(), COLD)
        self.forget_folders()
        self.assertEqual(self.run_user(), WARM)

    def test_contents_are_known_by_their_digest(self):
        """BLAKE2b-256 of the content, as every tool computes it."""
        content = bytes(index * 7 % 256 for index in range(5000))
        self.assertIn(hashlib.blake2b(content, digest_size=32).hexdigest(), self.good)


class Table(unittest.TestCase):
    def test_documented(self):
        tree = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
        with open(os.path.join(tree, "tools/kiln/folder/cache_table.c")) as file:
            rows = re.findall(r"\{\s*\.name = \"(.*?)\",(.*?)\n    \},", file.read(), re.DOTALL)
        with open(os.path.join(tree, "docs/folders.md")) as file:
            documented = re.findall(r"^\| `([^`]*)` \| (.*) \|$", file.read(), re.MULTILINE)
        documented = {name: row for name, row in documented if " | " in row}
        self.assertEqual([name for name, _ in rows], list(documented)[:len(rows)])
        for name, row in rows:
            columns = documented[name].split(" | ")
            variables = re.search(r"\.variables = \{(.*?)\}", row, re.DOTALL)[1]
            self.assertEqual(re.findall(r'"(.*?)"', variables), re.findall("`(.*?)`", columns[0]))
            self.assertEqual(re.search(r'default_place = "(.*)"', row)[1], columns[1].strip("`"))
            update = re.search(r"FOLDER_(AS_A_WHOLE|MERGED|LEFT_OUT)", row)[1]
            self.assertTrue(columns[2].startswith(
                {"AS_A_WHOLE": "as a whole", "MERGED": "merged", "LEFT_OUT": "no: "}[update]), name)
            if update != "LEFT_OUT":
                self.assertEqual([part.lower() for part in re.findall(r"IDENTITY_(\w+)", row)],
                                 columns[3].lower().split(", "), name)
                bound = re.search(r"max_bytes = (?:(\d+) \* )?([MG])IB", row)
                self.assertEqual(f"{bound[1] or 1} {bound[2]}iB", columns[4])
                trigger = re.search(r"triggers = (\S+),", row)[1].replace("PYTORCH", "libtorch_cpu.so")
                self.assertEqual(trigger.strip('"'), columns[5].strip("`"))


if __name__ == "__main__":
    cli.main()
