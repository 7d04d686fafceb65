# SPDX-License-Identifier: Apache-2.0
"""Tests kiln why, by digest, for the last miss and for a trace: it finds the entries with the most
similar keys, and shows how keys differ."""

import json
import os
import shutil

import cli

SOURCE = "kernel void f(global float *x)\n{\n    x[0] = 1;\n}\n"


class Why(cli.CliTest):
    def key(self, **changed):
        parts = {"platform": "A Platform", "driver": "1.2.3", "options": "-O2", "source": SOURCE}
        parts.update(changed)
        return [f"{name}={value}" for name, value in parts.items() if value is not None]

    def why_json(self, *arguments):
        return self.kiln_json("why", *arguments)

    def write(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class OfAnEntry(Why):
    def test_nothing_like_it(self):
        digest = self.make_entry("put", *self.key())
        self.assertEqual(self.why_json(digest)["neighbours"], [])
        self.assertIn(b"There is no other entry", self.kiln("why", digest[:8]).stdout)

    def test_members(self):
        """JSON has the names and types that kiln(1) documents."""
        near = self.make_entry("put", *self.key(options="-O3"), name="near", created=1600000000)
        digest = self.make_entry("put", *self.key())
        why = self.why_json(digest)
        neighbours = why.pop("neighbours")
        self.assertEqual(why, {"digest": digest, "missed": None, "stored": "KILN_OK",
                               "created": 1700000000, "cause": None})
        self.assertEqual(neighbours, [{
            "digest": near, "name": "near", "device": "a device", "created": 1600000000,
            "parts": [{"name": "options", "change": "changed",
                       "there": {"name": "options", "size": 3, "text": "-O3"},
                       "wanted": {"name": "options", "size": 3, "text": "-O2"}}]}])

    def test_text(self):
        near = self.make_entry("put", *self.key(driver="1.2.2"), name="near")
        digest = self.make_entry("put", *self.key(), name="mine")
        text = self.kiln("why", digest).stdout.decode()
        self.assertRegex(text, r"(?m)^digest +" + digest)
        self.assertRegex(text, r"(?m)^name +mine$")
        self.assertIn(f"\n{near[:12]} near, built 2023-11-14 22:13:20, differs in 1 of 4 parts:\n",
                      text)
        self.assertRegex(text, r"(?m)^driver +changed +1\.2\.2 +1\.2\.3$")

    def test_names_cannot_steer_a_terminal(self):
        """Quoted text is on one line without control characters; JSON has the original text."""
        name = "a\x1b[31mb\nc\u202ed\u2066e\u200ff\u061cg\u0085h\u00e9"
        shown = r"a\u001b[31mb\nc\u202ed\u2066e\u200ff\u061cg\u0085h" + "\u00e9"
        near = self.make_entry("put", *self.key(driver="1.2.2\x1b]0;x\x07"), name=name)
        digest = self.make_entry("put", *self.key(), name=name)
        for command in (["why", digest], ["ls"], ["show", near]):
            text = self.kiln(*command).stdout.decode()
            self.assertIn(shown, text, command)
            for character in "\x1b\x07\x85\u202e\u2066\u200f\u061c":
                self.assertNotIn(character, text, command)
        why = json.loads(self.kiln("why", "--json", digest).stdout)
        self.assertEqual(why["neighbours"][0]["name"], name)

    def test_added_and_removed_parts(self):
        self.make_entry("put", *self.key(old="x"))
        digest = self.make_entry("put", *self.key(new="y"))
        parts = self.why_json(digest)["neighbours"][0]["parts"]
        self.assertEqual([(part["name"], part["change"]) for part in parts],
                         [("new", "added"), ("old", "removed")])
        self.assertEqual((parts[0]["there"], parts[1]["wanted"]), (None, None))
        text = self.kiln("why", digest).stdout.decode()
        self.assertRegex(text, r"(?m)^new +added +- +y$")
        self.assertRegex(text, r"(?m)^old +removed +x +-$")
        self.assertIn("differs in 2 of 6 parts:", text)

    def test_files_of_another_driver(self):
        """Each file is compared with the file of the same name, wherever it is in the key."""
        digits = "0123456789abcdef"
        old = {"liba.so": "build-id:" + digits, "libcompiler.so.14": "content:100:ab",
               "libz.so.1": "build-id:" + 2 * digits}
        new = {"driver with a space.so": "build-id:ff", "liba.so": "build-id:" + digits,
               "libm.so.6": "build-id:cd", "libz.so.1": "build-id:" + digits + digits[::-1]}
        one, two = ([f"driver.file={name} {identity}" for name, identity in files.items()]
                    for files in (old, new))
        near = self.make_entry("put", *one, *self.key())
        digest = self.make_entry("put", *two, *self.key())
        parts = self.why_json(digest)["neighbours"][0]["parts"]
        self.assertEqual(
            [(part["change"], *(part[side] and part[side]["text"] for side in ("there", "wanted")))
             for part in parts],
            [("added", None, "driver with a space.so build-id:ff"),
             ("added", None, "libm.so.6 build-id:cd"),
             ("changed", "libz.so.1 " + old["libz.so.1"], "libz.so.1 " + new["libz.so.1"]),
             ("removed", "libcompiler.so.14 content:100:ab", None)])
        text = self.kiln("why", digest).stdout.decode()
        self.assertIn(f"\n{near[:12]}, built 2023-11-14 22:13:20, differs in 4 of 9 parts:\n", text)
        self.assertRegex(text, r"(?m)^driver\.file +4 files +libz\.so\.1, libcompiler\.so\.14 +"
                               r"driver with a space\.so, libm\.so\.6, libz\.so\.1$")
        self.assertEqual(text.count("driver.file"), 1)

    def test_one_file_of_a_driver(self):
        self.make_entry("put", "driver.file=liba.so build-id:12", *self.key())
        digest = self.make_entry("put", "driver.file=liba.so build-id:13", *self.key())
        self.assertRegex(self.kiln("why", digest).stdout.decode(),
                         r"(?m)^driver\.file +changed +liba\.so build-id:12 +liba\.so build-id:13$")

    def test_many_files_of_a_driver(self):
        files = ([f"driver.file=lib{i}.so build-id:{x}" for i in range(5)] for x in (1, 2))
        _, digest = [self.make_entry("put", *names, *self.key()) for names in files]
        self.assertRegex(self.kiln("why", digest).stdout.decode(),
                         r"(?m)^driver\.file +5 files +(lib0\.so, lib1\.so, lib2\.so and 2 more *){2}$")
    def test_files_whose_names_are_not_known(self):
        """Stripped keys have only digests of files, so files are compared in their order."""
        for names in "ab", "b":
            files = (f"driver.file={name} build-id:{'1' * 40}" for name in names)
            digest = self.make_entry("put", *files, *self.key())
        pack = os.path.join(self.scratch, "pack")
        self.kiln("pack", "--strip-keys", pack)
        parts = self.why_json("--dir", "pack:" + pack, digest)["neighbours"][0]["parts"]
        self.assertEqual([part["change"] for part in parts], ["changed", "removed"])
        self.assertTrue(all("blake2b" in part["there"] for part in parts))

    def test_a_key_that_is_explained(self):
        """Differences of the explanations are reported, and decide which entry is the nearest."""
        for digits, text in ("11", "f(int)"), ("12", "g(float, float, float)"), ("99", "g(int)"):
            digest = self.make_entry("put", "key=" + digits, explanation=text, name=text)
        *_, plain = [self.make_entry("put", "key=98", name="plain", answers="no key")]
        why = self.why_json(digest)
        self.assertEqual([neighbour["name"] for neighbour in why["neighbours"]],
                         ["plain", "f(int)", "g(float, float, float)"])
        self.assertEqual([part["name"] for part in why["neighbours"][1]["parts"]],
                         ["made from", "key"])
        text = self.kiln("why", digest).stdout.decode()
        self.assertIn("differs in 2 of 2 parts", text)
        self.assertRegex(text, r"(?m)^made from +changed +f\(int\) +g\(int\)$")
        shown = json.loads(self.kiln("show", "--json", digest).stdout)
        self.assertEqual(shown["explanation"], [{"name": "made from", "size": 6, "text": "g(int)"}])
        self.assertNotIn("explanation", json.loads(self.kiln("show", "--json", plain).stdout))
        self.assertRegex(self.kiln("show", digest).stdout.decode(),
                         r"EXPLANATION +SIZE +VALUE\nmade from +6 B +g\(int\)\n")

    def test_the_first_line_that_differs(self):
        self.make_entry("put", *self.key())
        digest = self.make_entry("put", *self.key(source=SOURCE.replace("= 1", "= 2")))
        part = self.why_json(digest)["neighbours"][0]["parts"][0]
        self.assertEqual((part["name"], part["line"]), ("source", 3))
        text = self.kiln("why", digest).stdout.decode()
        self.assertRegex(text, r"(?m)^source +line 3 +x\[0\] = 1; +x\[0\] = 2;$")

    def test_a_text_that_continues(self):
        self.make_entry("put", *self.key())
        digest = self.make_entry("put", *self.key(source=SOURCE + "more\n"))
        text = self.kiln("why", digest).stdout.decode()
        self.assertRegex(text, r"(?m)^source +line 5 +\(end of text\) +more$")

    def test_long_lines_are_cut(self):
        start = "a" * 200
        self.make_entry("put", *self.key(options=start + "x" + "b" * 200))
        digest = self.make_entry("put", *self.key(options=start + "y" + "b" * 200))
        text = self.kiln("why", digest).stdout.decode()
        shown = "a" * 20
        self.assertRegex(text, rf"(?m)^options +changed +\.\.\.{shown}xb+\.\.\. +\.\.\.{shown}yb+\.\.\.$")

    def test_bytes(self):
        one = self.write("one", "\x01\x02")
        two = self.write("two", "\x01\x03")
        self.make_entry("put", *self.key(), f"blob@={one}")
        digest = self.make_entry("put", *self.key(), f"blob@={two}")
        self.assertRegex(self.kiln("why", digest).stdout.decode(),
                         r"(?m)^blob +changed +0102 +0103$")

    def test_the_nearest_come_first(self):
        """A key with small differences in many parts is nearer than one with a large difference in
        one part."""
        other = self.make_entry("put", *self.key(source="x" * 1000))
        driver = self.make_entry("put", *self.key(driver="1.2.4", platform="B Platform"))
        line = self.make_entry("put", *self.key(source=SOURCE.replace("1", "2")))
        far = self.make_entry("put", *self.key(source="y" * 2000, options="-O0"))
        digest = self.make_entry("put", *self.key())
        self.assertEqual([near["digest"] for near in self.why_json(digest)["neighbours"]],
                         [line, driver, other])
        os.remove(self.entry_path(line))
        self.assertEqual([near["digest"] for near in self.why_json(digest)["neighbours"]],
                         [driver, other, far])

    def test_the_same_device_comes_first(self):
        """An entry for a different device is farther, however little differs otherwise."""
        def opencl(device, **changed):
            return ["device.name=" + device, *self.key(**changed)]
        other = self.make_entry("put", *opencl("B"), name="other", device="P / B / 1")
        same = self.make_entry("put", *opencl("A", source="x" * 1000), name="same")
        digest = self.make_entry("put", *opencl("A"))
        self.assertEqual([near["digest"] for near in self.why_json(digest)["neighbours"]],
                         [same, other])
        text = self.kiln("why", digest).stdout.decode()
        self.assertIn(f"\n{same[:12]} same, built 2023", text)
        self.assertIn(f"\n{other[:12]} other, for P / B / 1, built 2023", text)

    def test_the_same_architecture_comes_first(self):
        """Options of NVRTC name the architecture, in one option or in two, anywhere."""
        far = ["option=-O9", "input=" + "x" * 1000]
        other = self.make_entry("put", "option=-arch=sm_80", "input=a")
        one = self.make_entry("put", *far, "option=--gpu-architecture=compute_90")
        two = self.make_entry("put", *far, "option=-arch", "option=sm_90")
        digest = self.make_entry("put", "option=-arch=sm_90", "input=a")
        near = [near["digest"] for near in self.why_json(digest)["neighbours"]]
        self.assertEqual((set(near[:2]), near[2]), ({one, two}, other))

    def test_white_space_is_visible(self):
        for there, wanted, shown in (
                ("-O2", "-O2 ", r"-O2 +-O2·"),
                ("-O2  -g x", "-O2 -g x", r"-O2··-g·x +-O2·-g·x"),
                ("-O2 -g", "-O2\t-g", r"-O2·-g +-O2\\t-g"),
                ("-O2 -g", "-O3 -g", r"-O2 -g +-O3 -g"),
                ("-O2 -g", "-O2\u00a0-g", r"-O2·-g +-O2\\u00a0-g"),
                ("-O2", "-O2\u200b", r"-O2 +-O2\\u200b")):
            with self.subTest(wanted):
                self.make_entry("put", *self.key(options=there))
                digest = self.make_entry("put", *self.key(options=wanted))
                self.assertRegex(self.kiln("why", digest).stdout.decode(),
                                 r"(?m)^options +changed +" + shown + "$")
                shutil.rmtree(self.cache)

    def test_ends_of_lines_are_visible(self):
        for there, wanted, shown in (("a b\nc\n", "a b \nc\n", r"line 1 +a·b\\n +a·b·$"),
                                     ("a\nb\n", "a\r\nb\r\n", r"line 1 +a\\n +a\\r$"),
                                     ("a\nb", "a\nb\n", r"line 2 +b +b\\n$")):
            with self.subTest(wanted):
                self.make_entry("put", *self.key(source=there))
                digest = self.make_entry("put", *self.key(source=wanted))
                self.assertRegex(self.kiln("why", digest).stdout.decode(),
                                 r"(?m)^source +" + shown)
                shutil.rmtree(self.cache)

    def test_damaged_neighbours_are_skipped(self):
        near = self.make_entry("put", *self.key(options="-O3"), size=100)
        digest = self.make_entry("put", *self.key())
        self.change_byte(near, -20)
        self.assertEqual(self.why_json(digest)["neighbours"], [])

    def test_a_damaged_one(self):
        digest = self.make_entry("put", *self.key(), size=100)
        self.change_byte(digest, -20)
        self.assertIn(b"damaged", self.kiln("why", digest, expect=5).stderr)

    def test_no_entry_of_that_prefix(self):
        self.assertIn(b"no entry begins with 'abcd'", self.kiln("why", "abcd", expect=1).stderr)
        self.assertFalse(os.path.exists(self.cache))

    def test_several(self):
        digests = self.make("ambiguous")
        result = self.kiln("why", digests[0][:4], expect=2)
        self.assertIn(digests[1].encode(), result.stderr)


class OfTheLastMiss(Why):
    def test_none(self):
        result = self.kiln("why", "--last", expect=1)
        self.assertIn(b"no miss is recorded", result.stderr)
        self.make_entry("put", *self.key())
        self.kiln("why", "--last", expect=1)

    def test_not_stored(self):
        """The state after a driver refused the build, or before its result is captured."""
        near = self.make_entry("put", *self.key())
        digest = self.make_entry("miss", *self.key(driver="1.2.4"))
        why = self.why_json("--last")
        self.assertEqual((why["digest"], why["stored"], why["created"]),
                         (digest, "KILN_MISS", None))
        self.assertGreater(why["missed"], 1700000000)
        self.assertEqual(why["neighbours"][0]["digest"], near)
        self.assertEqual(self.why_json(digest[:6])["digest"], digest)
        self.assertRegex(self.kiln("why", "--last").stdout, rb"(?m)^stored now +no$")

    def test_stored_since(self):
        """The complete key is known then, whereas the recorded key of a miss is stripped."""
        long = "".join(f"line {number}\n" for number in range(1000))
        self.make_entry("put", *self.key(source=long))
        parts = self.key(source=long.replace("line 500", "line five hundred"))
        self.make_entry("miss", *parts)
        part = self.why_json("--last")["neighbours"][0]["parts"][0]
        self.assertNotIn("line", part)
        self.assertIn("blake2b", part["wanted"])
        self.make_entry("put", *parts)
        why = self.why_json("--last")
        self.assertEqual(why["stored"], "KILN_OK")
        self.assertEqual(why["neighbours"][0]["parts"][0]["line"], 501)

    def test_the_file_is_damaged(self):
        self.make_entry("miss", *self.key())
        os.truncate(os.path.join(self.cache, "missed"), 20)
        self.kiln("why", "--last", expect=5)

    def test_it_outlives_a_clear(self):
        digest = self.make_entry("miss", *self.key())
        self.make_entry("put", *self.key())
        self.kiln("clear", "--yes")
        self.assertEqual(self.why_json("--last")["digest"], digest)

    def test_of_another_key_file(self):
        key = self.make_key_file()
        self.make_entry("miss", *self.key())
        self.assertIn(b"signature", self.kiln("why", "--last", "--key-file", key, expect=5).stderr)

    def test_run_asks_for_it(self):
        tool, _ = self.in_build_tree()
        output = self.kiln("run", "printenv", "KILN_LAST_MISS", tool=tool).stdout
        self.assertEqual(output, b"1\n")
        self.environment["KILN_LAST_MISS"] = "0"
        output = self.kiln("run", "printenv", "KILN_LAST_MISS", tool=tool).stdout
        self.assertEqual(output, b"0\n")


class OfATrace(Why):
    def trace(self, *lines):
        return self.write("trace", "".join(line + "\n" for line in lines))

    def test_the_last_miss_counts(self):
        first = self.make_entry("put", *self.key())
        second = self.make_entry("put", *self.key(options="-O3"))
        trace = self.trace(
            f"kiln[1] built key={first} load=0.000ms build=1.000ms wait=0.000ms store=KILN_MISS",
            f"kiln[1] built key={second} load=0.000ms build=1.000ms wait=0.000ms store=KILN_MISS",
            f"kiln[1] hit-memory key={first} load=0.000ms build=0.000ms wait=0.000ms",
            "kiln[1] note: nothing", "noise of others", "kiln[1] built key=zz store=KILN_MISS")
        why = self.why_json("--last", "--trace", trace)
        self.assertEqual((why["digest"], why["stored"]), (second, "KILN_OK"))

    def test_not_stored(self):
        digest = "0123456789abcdef" * 2
        trace = self.trace(f"kiln[1] built key={digest} load=0 store=KILN_MISS")
        self.assertIn(b"only its digest is known",
                      self.kiln("why", "--last", "--trace", trace, expect=1).stderr)
        digest = self.make_entry("miss", *self.key())
        trace = self.trace(f"kiln[1] failed key={digest} load=0 store=KILN_MISS")
        self.assertEqual(self.why_json("--last", "--trace", trace)["digest"], digest)

    def test_no_miss(self):
        trace = self.trace("kiln[1] hit-store key=" + "0" * 32)
        self.assertIn(b"contains no miss",
                      self.kiln("why", "--last", "--trace", trace, expect=1).stderr)
        self.kiln("why", "--last", "--trace", "/nonexistent", expect=4)


class Usage(Why):
    def test_wrong(self):
        for arguments in ([], ["--last", "abcd"], ["abcd", "--trace", "x"], ["abc"], ["abcd", "ef01"],
                          ["--trace", "x"]):
            with self.subTest(arguments):
                self.kiln("why", *arguments, expect=2)

    def test_help(self):
        self.assertTrue(self.kiln("why", "--help").stdout.startswith(b"Usage: kiln why"))


if __name__ == "__main__":
    cli.main()
