# SPDX-License-Identifier: Apache-2.0
"""File systems that are soon full."""

import subprocess
import tempfile


class SmallDisk:
    """A disk of a few KiB, which only commands with its prefix can access."""

    SCRIPT = 'mount -t tmpfs -o "size=$1k,mode=0700" none "$2" && echo mounted && exec cat'

    def __init__(self, folder, kib):
        self.folder = folder
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", self.SCRIPT, "sh", str(kib), folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.is_mounted = self.holder.stdout.readline() == "mounted\n"
        self.prefix = ("nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "--")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.holder.communicate()

    def grow(self):
        command = ("mount", "-o", "remount,size=100m", self.folder)
        subprocess.run([*self.prefix, *command], check=True)


def can_mount():
    with tempfile.TemporaryDirectory() as folder, SmallDisk(folder, 100) as disk:
        return disk.is_mounted
