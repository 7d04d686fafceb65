#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A browser shows the page of kiln report in light and dark colours, and refuses nothing on it. The
test is skipped without Chromium."""

import os
import shutil
import struct
import subprocess
import unittest
import zlib

import cli
from test_report import JournalTest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class BrowserTest(JournalTest):
    @unittest.skipUnless(CHROMIUM, "there is no chromium")
    def test_a_browser_shows_the_page(self):
        path = os.path.join(self.scratch, "report.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.hostile_page())
        shown = {}
        for scheme in "light", "dark":
            picture = os.path.join(self.scratch, scheme + ".png")
            result = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--enable-logging=stderr", f"--user-data-dir={self.scratch}/{scheme}",
                 f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
                 "--window-size=1000,900", f"--screenshot={picture}", "file://" + path],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            # A browser that has to refuse something says so on its console.
            self.assertNotIn(b"CONSOLE", result.stderr)
            shown[scheme] = first_pixel(picture)
        self.assertEqual(shown, {"light": (255, 255, 255), "dark": (0x16, 0x18, 0x1a)})


def first_pixel(path):
    """The colour of a PNG's first pixel. No filter of PNG changes it, because its neighbours are 0."""
    with open(path, "rb") as file:
        data = file.read()
    offset, packed = 8, b""
    while offset < len(data):
        size, kind = struct.unpack(">I4s", data[offset : offset + 8])
        packed += data[offset + 8 : offset + 8 + size] if kind == b"IDAT" else b""
        offset += size + 12
    return tuple(zlib.decompress(packed)[1:4])


if __name__ == "__main__":
    cli.main()
