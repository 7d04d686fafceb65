# SPDX-License-Identifier: Apache-2.0
"""Runs commands in empty roots, as containers do: with the system's programs and libraries, but
without the caller's files, and without a network."""

import functools
import os
import shlex
import subprocess

SYSTEM = ("/usr", "/etc", "/sys", "/opt")
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
DEVICES = ("null", "zero", "full", "random", "urandom")
TIMEOUT_SECONDS = 300


def unshare(*namespaces):
    """Returns the beginning of a command that runs in new namespaces."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *(f"--{name}" for name in namespaces), "--fork", "--kill-child"]


@functools.cache
def can_unshare(*namespaces):
    """Whether this machine lets the user make such namespaces."""
    try:
        return subprocess.run([*unshare(*namespaces), "true"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def has_pods():
    return can_unshare("mount", "net", "pid")


def script_of(root, shown, environment, command):
    """A shell script that fills a root and runs a command there. @shown: folders of this machine by
    their paths in the root."""
    steps = ["set -e", f"cd {shlex.quote(root)}", "mount -t tmpfs none .", f"cd {shlex.quote(root)}"]
    links = [link for link in LINKS if os.path.islink(link)]
    folders = {path: path for path in (*SYSTEM, *LINKS) if os.path.isdir(path) and path not in links}
    for link in links:
        steps.append(f"ln -s {shlex.quote(os.readlink(link))} .{link}")
    for inside, outside in (folders | shown).items():
        steps += [f"mkdir -p .{shlex.quote(inside)}",
                  f"mount --rbind {shlex.quote(outside)} .{shlex.quote(inside)}"]
    steps += ["mkdir -p proc dev tmp home/pod", "chmod 1777 tmp", "mount -t proc none proc"]
    for device in DEVICES:
        steps += [f": >dev/{device}", f"mount --bind /dev/{device} dev/{device}"]
    steps += ["mkdir dev/shm", "chmod 1777 dev/shm"]
    variables = [f"{name}={value}" for name, value in environment.items()]
    steps.append("exec " + shlex.join(
        ["chroot", root, "/usr/bin/env", "-i", "-C", "/home/pod", "HOME=/home/pod",
         "PATH=/usr/bin:/bin", *variables, *command]))
    return "\n".join(steps)


def run(root, shown, environment, command):
    """Runs a command in a new root. The home directory, /tmp, /var and /run are empty. Returns the
    completed process.

    @root: an empty folder, in which nothing is left"""
    return subprocess.run(
        [*unshare("mount", "net", "pid"), "sh", "-c", script_of(root, shown, environment, command)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=TIMEOUT_SECONDS)
