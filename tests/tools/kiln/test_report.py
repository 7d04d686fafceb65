#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kiln report, on journals that the test writes."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import time

import cli

HIT, BUILD, FAILURE, MEMORY_HITS = 1, 2, 3, 4
MISS, CORRUPT = 1, -4
DEVICE = "Test Platform / Test Device / 1.2.3"
HOSTILE = "</title></svg><script>alert(1)</script>&\"'\x1b[31m\u202e<img src=http://x>"
VOID = {"meta", "br", "rect", "line"}


class Page(html.parser.HTMLParser):
    """Collects the elements and the text of a page, and checks that elements are nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


class JournalTest(cli.CliTest):
    def page(self, *arguments):
        return self.kiln("report", *arguments).stdout.decode()

    def hostile_page(self):
        now = int(time.time())
        digest = self.make_entry("put", f"options={HOSTILE}", name=HOSTILE, created=now)
        self.journal((BUILD, digest, now, 500, 0, MISS, HOSTILE, HOSTILE + " / a / b", HOSTILE),
                     (HIT, digest, now, 0, 9, 0, HOSTILE + "\udcff", "", ""))
        return self.page()


class ReportTest(JournalTest):
    def cause(self, digest):
        misses = self.kiln_json("report")["misses"]
        return [miss["cause"] for miss in misses if miss["digest"] == digest][0]

    def test_an_empty_cache_has_a_page(self):
        self.make("entries")
        text = Page(self.page()).text
        self.assertIn("no events in this period", text)
        self.assertIn("3 entries", text)
        self.assertIsNone(self.kiln_json("report")["hit_rate"])

    def test_how_warm_a_new_driver_is(self):
        now = int(time.time())
        for text, created, programs in (("P / D / 1", now - 9, "abc"), ("P / D / 2", now - 5, "bde"),
                                        ("P / D / 3", now, "adf"), ("P / other / 3", now, "a"),
                                        ("NVRTC 12.9 sm_80", now - 9, "ab"),
                                        ("NVRTC 13.0 sm_80", now, "b")):
            for program in programs:
                self.make_entry("put", f"platform.version={text}", f"source={program}",
                                device=text, created=created)
        upgrades = sorted(self.kiln_json("report")["upgrades"], key=lambda of: of["driver"])
        self.assertEqual(upgrades, [{"driver": "NVRTC 13.0", "programs": 2, "ready": 1},
                                    {"driver": "P / D / 3", "programs": 5, "ready": 2}])
        self.assertIn("Upgrades", Page(self.page()).text)
        doctor = json.loads(subprocess.run([cli.KILN, "doctor", "--json"], env=self.environment,
                                           stdout=subprocess.PIPE).stdout)
        self.assertEqual(sorted(doctor["upgrades"], key=lambda of: of["driver"]), upgrades)
        self.assertTrue([note for note in doctor["notes"] if note.startswith(
            "P / D / 3: of the 5 programs that older drivers have built, 2 are there")])
        self.assertFalse(doctor["replay_waits"])
        text = subprocess.run([cli.KILN, "doctor"], env=self.environment, stdout=subprocess.PIPE)
        self.assertRegex(text.stdout.decode(),
                         "upgrade +NVRTC 13.0 has 1 of the 2 programs of older drivers\n")

    def test_two_builds_of_one_version(self):
        now = int(time.time())
        for build, created, programs in (("1", now - 9, "ab"), ("2", now, "b")):
            for program in programs:
                self.make_entry("put", "nvrtc.library=" + build, f"source={program}",
                                device="NVRTC 13.0 sm_80", created=created)
        self.assertEqual(self.kiln_json("report")["upgrades"],
                         [{"driver": "NVRTC 13.0", "programs": 2, "ready": 1}])

    def test_sums(self):
        day = 86400
        now = int(time.time())
        a, b = "a" * 32, "b" * 32
        self.journal((BUILD, a, now - 2 * day, 500, 0, MISS, "app", DEVICE, "saxpy"),
                     (HIT, a, now - day, 0, 480, 0, "app", "", ""),
                     (HIT, a, now, 0, 490, 0, "other", "", ""),
                     (FAILURE, b, now, 20, 0, MISS, "app", "NVRTC 13.0 sm_90", "broken"),
                     (MEMORY_HITS, "", now, 0, 7, 0, "other", "", ""))
        report = self.kiln_json("report")
        self.assertEqual(report["total"], {
            "hits": 2, "memory_hits": 1, "builds": 1, "failures": 1, "saved_ns": 977000000,
            "lost_ns": 520000000})
        self.assertAlmostEqual(report["hit_rate"], 3 / 5)
        self.assertEqual([day["hits"] for day in report["days"]], [0, 1, 1])
        self.assertEqual([(one["label"], one["saved_ns"]) for one in report["programs"]],
                         [("app", 480000000), ("other", 497000000)])
        self.assertEqual({one["label"]: one["saved_ns"] for one in report["devices"]},
                         {"Test Platform / Test Device": 970000000, "NVRTC 13.0 sm_90": 0})
        self.assertEqual({one["label"] for one in report["drivers"]},
                         {"Test Platform / 1.2.3", "NVRTC 13.0"})
        self.assertEqual([miss["name"] for miss in report["misses"]], ["saxpy", "broken"])
        self.assertEqual(report["journal"]["events"], 5)
        self.assertEqual(report["journal"]["damaged"], 0)

        last = self.kiln_json("report", "--since", "12h")
        self.assertEqual((last["total"]["hits"], last["total"]["builds"]), (1, 0))
        self.assertEqual(len(last["days"]), 1)
        date = time.strftime("%Y-%m-%d", time.gmtime(now + day))
        self.assertEqual(self.kiln_json("report", "--since", date)["total"]["hits"], 0)
        for wrong in "yesterday", "7", "7w", "2031-13-01", "-1d":
            self.assertIn(b"--since", self.kiln("report", f"--since={wrong}", expect=2).stderr)

    def test_damage_is_counted(self):
        now = int(time.time())
        event = (HIT, "a" * 32, now, 0, 1, 0, "app", "", "")
        self.journal(event)
        with open(os.path.join(self.cache, "journal"), "ab") as file:
            file.write(b"foreign bytes")
        self.journal(event)
        report = self.kiln_json("report")
        self.assertEqual((report["total"]["hits"], report["journal"]["damaged"]), (2, 1))
        self.assertIn("1 damaged", Page(self.page()).text)

    def test_causes(self):
        now = int(time.time())
        first = self.make_entry("put", "platform=P", "options=-O2", name="saxpy", created=now - 90)
        second = self.make_entry("put", "platform=P", "options=-O3", name="saxpy", created=now - 50)
        failed, damaged, gone = "c" * 32, "d" * 32, "e" * 32
        device = "a device"
        self.journal((BUILD, first, now - 90, 500, 0, MISS, "app", device, "saxpy"),
                     (BUILD, second, now - 50, 400, 0, MISS, "app", "", ""),
                     (FAILURE, failed, now, 300, 0, MISS, "app", "", ""),
                     (BUILD, damaged, now, 200, 0, CORRUPT, "app", device, "x"),
                     (BUILD, gone, now - 10, 100, 0, MISS, "app", device, "y"),
                     (BUILD, gone, now, 100, 0, MISS, "app", device, "y"))
        self.assertEqual(self.cause(first), "the first build for this device")
        self.assertEqual(self.cause(second), 'options: "-O3", before "-O2"')
        self.assertIn("failed", self.cause(failed))
        self.assertIn("was not used", self.cause(damaged))
        self.assertIn("was stored before", self.cause(gone))
        # The entry has the names that the journal lacks.
        named = [miss for miss in self.kiln_json("report")["misses"] if miss["digest"] == second][0]
        self.assertEqual((named["device"], named["name"]), (device, "saxpy"))

    def test_a_cause_of_the_same_second(self):
        now = int(time.time())
        first = self.make_entry("put", "platform=P", "options=-O2", name="saxpy", created=now)
        second = self.make_entry("put", "platform=P", "options=-O3", name="saxpy", created=now)
        self.journal((BUILD, first, now + 0.2, 500, 0, MISS, "app", "a device", "saxpy"),
                     (BUILD, second, now + 0.7, 400, 0, MISS, "app", "a device", "saxpy"))
        self.assertEqual(self.cause(first), "the first build for this device")
        self.assertEqual(self.cause(second), 'options: "-O3", before "-O2"')

    def test_names_are_text(self):
        page = Page(self.hostile_page())
        tags = {tag for tag, _ in page.elements}
        self.assertFalse(tags & {"script", "img", "iframe", "object", "link", "a"}, tags)
        for _, attributes in page.elements:
            for name, value in attributes.items():
                self.assertNotIn("alert", value or "")
                self.assertFalse(name.startswith("on") or name in ("href", "src"), name)
        self.assertIn("<script>alert(1)</script>", page.text)
        self.assertNotRegex(page.text, "[\x00-\x09\x0b-\x1f\u202e]")
        policy = [attributes["content"] for tag, attributes in page.elements
                  if attributes.get("http-equiv") == "Content-Security-Policy"]
        self.assertEqual(policy, ["default-src 'none'; style-src 'unsafe-inline'"])

    def test_output_file(self):
        self.make("entries")
        path = os.path.join(self.scratch, "report.html")
        self.assertEqual(self.kiln("report", "--output", path).stdout, b"")
        with open(path, encoding="utf-8") as file:
            self.assertIn("<h1>Kiln report</h1>", file.read())

    def test_others_cannot_supply_a_journal(self):
        self.make("entries")
        self.journal((HIT, "a" * 32, int(time.time()), 0, 1, 0, "app", "", ""))
        os.chmod(os.path.join(self.cache, "journal"), 0o644)
        result = self.kiln("report", expect=3)
        self.assertIn(b"journal", result.stderr)


# Prometheus's text format, line by line.
HELP = re.compile(r"# HELP (kiln_[a-z_]+) [ -~]+")
TYPE = re.compile(r"# TYPE (kiln_[a-z_]+) (counter|gauge)")
SAMPLE = re.compile(r'(kiln_[a-z_]+)(?:\{([a-z]+)="((?:[^"\\\n]|\\[\\"n])*)"\})? ([0-9]+(?:\.[0-9]+)?)')
ESCAPE = re.compile(r"\\(.)")


class PrometheusTest(JournalTest):
    def metrics(self, *arguments):
        """Parses the output strictly; returns values by name, label and value of the label."""
        output = self.kiln("stats", "--prometheus", *arguments).stdout.decode()
        self.assertTrue(output.endswith("\n"))
        if shutil.which("promtool"):
            subprocess.run(["promtool", "check", "metrics"], input=output.encode(), check=True,
                           stdout=subprocess.DEVNULL)
        metrics, kinds, lines = {}, {}, iter(output.splitlines())
        for line in lines:
            if line.startswith("#"):
                current = HELP.fullmatch(line)[1]
                kind = TYPE.fullmatch(next(lines))
                self.assertEqual(kind[1], current)
                self.assertNotIn(current, kinds)
                self.assertEqual(kind[2] == "counter", current.endswith("_total"))
                kinds[current] = kind[2]
                continue
            name, label, value, number = SAMPLE.fullmatch(line).groups()
            self.assertEqual(name, current)
            where = (name, label, ESCAPE.sub(r"\1", value or ""))
            self.assertNotIn(where, metrics)
            metrics[where] = float(number)
        return metrics

    def test_counters(self):
        self.make("entries")
        metrics = self.metrics()
        self.assertEqual(metrics["kiln_entries", None, ""], 3)
        self.assertEqual(metrics["kiln_hits_store_total", None, ""], 3)
        self.assertEqual(metrics["kiln_saved_seconds_total", None, ""], 2.31)
        self.assertEqual(metrics["kiln_journal_events", None, ""], 0)
        self.kiln("stats", "--json", "--prometheus", expect=2)

    def test_names_are_values(self):
        self.hostile_page()
        metrics = self.metrics()
        shown = HOSTILE.replace("\x1b", "\\u001b").replace("\u202e", "\\u202e")
        self.assertEqual(metrics["kiln_journal_program_builds", "program", shown], 1)
        self.assertEqual(metrics["kiln_journal_device_hits", "device", shown + " / a"], 1)

    def test_values_are_bounded(self):
        now = int(time.time())
        self.journal(*((HIT, f"{i:032x}", now, 0, 1000 - i, 0, name, "", "")
                       for i, name in enumerate(["other", ""] + [f"app {i}" for i in range(120)])))
        metrics = self.metrics()
        values = {value: number for (name, _, value), number in metrics.items()
                  if name == "kiln_journal_program_hits"}
        self.assertEqual(len(values), 101)
        self.assertEqual((values["other"], values["(other)"], values["unknown"]), (22, 1, 1))

    def test_tiers(self):
        self.make("entries")
        upper = os.path.join(self.scratch, "upper")
        os.mkdir(upper, 0o700)
        metrics = self.metrics("--dir", f"{upper}|{self.cache}")
        self.assertEqual(metrics["kiln_tier_up", "tier", "1 " + upper], 1)
        self.assertEqual(metrics["kiln_tier_hits_total", "tier", "2 " + self.cache], 0)


if __name__ == "__main__":
    cli.main()
