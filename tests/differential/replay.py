# SPDX-License-Identifier: Apache-2.0
"""Replays kept cases. Each was a mismatch once, and must not be one now."""

import glob
import json
import os
import shutil
import tempfile

import differential
import reduction
import runner


def run(arguments, setting):
    paths = arguments.replay or sorted(
        glob.glob(os.path.join(differential.FOLDER, "cases", setting.device + "-*.json")))
    if not paths:
        print("there are no kept cases for %s" % setting.device)
        return 77
    scratch = tempfile.mkdtemp(prefix="kiln-differential-")
    mismatches = 0
    try:
        site = runner.Site(setting, os.path.join(scratch, "r"))
        for path in paths:
            with open(path) as file:
                case = reduction.Case.from_data(json.load(file))
            if case.is_certain(site):
                mismatches += 1
                print("%s: a mismatch in %s" % (path, ", ".join(sorted(case.fields))))
                case.report(arguments.keep)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print("%d cases, %d mismatches" % (len(paths), mismatches))
    return 1 if mismatches else 0
