#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of CuPy and cuda.core on a GPU, with what a machine without a GPU has built for them.

    farm.py record FOLDER   on the machine with the GPU: leaves what the programs ask for
    farm.py replay FOLDER   on a machine with the same NVRTC, which --nvrtc names
    farm.py check FOLDER    on a machine with the GPU: the programs find everything

The files in FOLDER are copied between the machines. record and check name each program that cannot run
on this machine, and exit with 77 if none can."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "..", "..", "bench", "layers", "nvrtc")
PROGRAMS = [os.path.join(HERE, "cupy_kernels.py"), os.path.join(HERE, "cuda_core_kernels.py"),
            os.path.join(BENCH, "cupy_kernels.py")]
SKIPPED = 77


class Farm:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch

    def file(self, name):
        return os.path.join(self.options.folder, name)

    def kiln(self, *arguments):
        result = subprocess.run([self.options.kiln, *arguments], stdout=subprocess.PIPE, check=False)
        return result.returncode, result.stdout.decode()

    def run(self, program, *kiln):
        """Runs a program whose own caches are empty. Returns its exit status, its output, the last
        line of its errors, and the seconds that it took."""
        own = tempfile.mkdtemp(dir=self.scratch)
        environment = {**os.environ, "CUPY_CACHE_DIR": own, "CUDA_CACHE_DISABLE": "1"}
        began = time.monotonic()
        result = subprocess.run([*kiln, self.options.python, program], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        errors = result.stderr.decode(errors="replace")
        if result.returncode not in (0, SKIPPED):
            print(errors[-3000:])
        return (result.returncode, result.stdout.decode(), (errors.splitlines() or [""])[-1],
                time.monotonic() - began)

    def record(self):
        cache = os.environ["KILN_DIR"] = os.path.join(self.scratch, "cache")
        results, failed = {}, 0
        for program in self.options.program or PROGRAMS:
            name = os.path.relpath(program, HERE)
            status, plain, _, plain_s = self.run(program)
            if status == SKIPPED:
                print(f"{name}: {plain.strip()}")
                continue
            cold_status, cold, line, cold_s = self.run(program, self.options.kiln, "run",
                                                       "--summary", "--")
            print(f"{name}: without Kiln {plain_s:.2f} s, with Kiln {cold_s:.2f} s; {line}")
            failed += status != 0 or cold_status != 0 or cold != plain
            results[name] = plain
        if not results:
            return SKIPPED
        os.makedirs(self.options.folder, exist_ok=True)
        with open(self.file("results.json"), "w") as file:
            json.dump(results, file)
        for store, pack in ((cache, "requests.kpack"), (cache + "/v1/included", "included.kpack")):
            status, text = self.kiln("pack", "--dir", store, self.file(pack))
            print(text.strip())
            failed += status != 0
        print("record: " + ("FAILED" if failed else "passed"))
        return 1 if failed else 0

    def replay(self):
        requests, built = (os.path.join(self.scratch, name) for name in ("requests", "built"))
        for store, pack in ((requests, "requests.kpack"),
                            (requests + "/v1/included", "included.kpack")):
            subprocess.run([self.options.kiln, "unpack", "--trust", "--dir", store,
                            self.file(pack)], check=True)
        began = time.monotonic()
        status, text = self.kiln("replay", "--from", requests, "--to", built, "--json", "--device",
                                 "NVRTC ", "--nvrtc", self.options.nvrtc, "--arch",
                                 self.options.arch)
        report = json.loads(text)
        counts = {name: report[name] for name in ("built", "present", "failed", "impossible", "left")}
        print(f"replay: {counts} in {time.monotonic() - began:.1f} s")
        for entry in report["entries"]:
            if entry["result"] != "built":
                print(f"  {entry['name']}: {entry['result']}: {entry['why']}")
        packed, text = self.kiln("pack", "--dir", built, self.file("built.kpack"))
        print(text.strip())
        return status or packed

    def check(self):
        with open(self.file("results.json")) as file:
            expected = json.load(file)
        cache = os.path.join(self.scratch, "cache")
        os.environ["KILN_DIR"] = f"{cache}|pack:{os.path.abspath(self.file('built.kpack'))}"
        failed = ran = 0
        for program in self.options.program or PROGRAMS:
            name = os.path.relpath(program, HERE)
            if name not in expected:
                print(f"{name}: skipped: it was not recorded")
                continue
            status, found, line, seconds = self.run(program, self.options.kiln, "run",
                                                    "--expect-warm", "--summary", "--")
            if status == SKIPPED:
                print(f"{name}: {found.strip()}")
                continue
            builds = re.search(r"(\d+) builds?,", line)
            is_right = status == 0 and found == expected[name] and builds and builds[1] == "0"
            print(f"{name}: {seconds:.2f} s; {line}; results "
                  f"{'equal' if found == expected[name] else 'DIFFERENT'}"
                  f"{'' if is_right else f', FAILED with status {status}'}")
            failed += not is_right
            ran += 1
        if ran > 0:
            print("check: " + ("FAILED" if failed else "passed"))
        return 1 if failed else 0 if ran else SKIPPED


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("record", "replay", "check"))
    parser.add_argument("folder")
    parser.add_argument("--kiln", default=shutil.which("kiln"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--nvrtc", default="/usr/local/cuda/lib64/libnvrtc.so")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--program", action="append", help="in place of the programs of Kiln")
    options = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("KILN_")]:
        del os.environ[name]
    scratch = tempfile.mkdtemp(prefix="kiln-farm-")
    try:
        return getattr(Farm(options, scratch), options.step)()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
