# SPDX-License-Identifier: Apache-2.0
"""test_clblast.py KILN DRIVER [ROUTINE…]: CLBlast's own tests, from Debian's clblast-tests, before
and after an upgrade of Intel's runtime: what they built on the old one is replayed for the new one,
where they then build nothing, and print what they print without Kiln. DRIVER is the folder of the
old runtime's libraries. OTHER_VENDORS names the folder that OCL_ICD_VENDORS would name for the new
one; without it, the new one is a copy of the old one with a different configuration file."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

KILN, DRIVER = (os.path.abspath(path) for path in sys.argv[1:3])
ROUTINES = sys.argv[3:] or ["xaxpy", "xdot", "xger", "xgemv", "xtrsv"]
PREFIX = "clblast_test_"
SKIPPED = 77


def copy_driver(scratch):
    """Returns the folder of the vendors' file of a copy of the driver whose cl.cfg differs."""
    libraries, vendors = (os.path.join(scratch, name) for name in ("lib", "vendors"))
    os.mkdir(vendors)
    shutil.copytree(DRIVER, libraries, symlinks=True,
                    ignore=lambda folder, names: {"cl.cfg", *(name for name in names if
                                                  os.path.isdir(os.path.join(folder, name)))})
    with open(os.path.join(libraries, "cl.cfg"), "w") as file:
        file.write("# upgraded\n")
    with open(os.path.join(vendors, "intel.icd"), "w") as file:
        file.write(os.path.join(libraries, "libintelocl.so") + "\n")
    return vendors


def run(*command, vendors=None):
    """Returns the output, and the last line of the messages."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("KILN_", "OPENCL_LAYERS", "XDG_"))}
    environment["KILN_HELPER"] = "0"
    if vendors:
        environment["OCL_ICD_VENDORS"] = vendors
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{command}: {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}")
    return result.stdout, result.stderr.decode().rpartition("\n")[0].rpartition("\n")[2]


def check(scratch, vendors):
    old, new = (os.path.join(scratch, name) for name in ("old", "new"))
    builds = 0
    for routine in ROUTINES:
        _, counters = run(KILN, "run", "--dir", old, "--json", "--", PREFIX + routine)
        counters = json.loads(counters)
        assert counters["passed_through"] == 0, (routine, counters)
        builds += counters["builds"]
    assert builds > 0
    report = json.loads(run(KILN, "replay", "--from", old, "--to", new, "--json",
                            vendors=vendors)[0])
    assert report["built"] == builds, report
    for routine in ROUTINES:
        plain, _ = run(PREFIX + routine, vendors=vendors)
        warm, counters = run(KILN, "run", "--dir", new, "--expect-warm", "--json", "--",
                             PREFIX + routine, vendors=vendors)
        assert warm == plain, (routine, warm, plain)
        print(routine, {name: json.loads(counters)[name] for name in ("hits_store", "builds")})
    print(f"{builds} programs were replayed")


def main():
    for routine in ROUTINES:
        if shutil.which(PREFIX + routine) is None:
            print("apt-get install clblast-tests installs CLBlast's tests")
            sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="kiln-clblast-") as scratch:
        check(scratch, os.environ.get("OTHER_VENDORS") or copy_driver(scratch))


if __name__ == "__main__":
    main()
