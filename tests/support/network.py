# SPDX-License-Identifier: Apache-2.0
"""A network of machines: each is a network namespace, connected to that of the servers by a pair of
virtual Ethernet devices. A namespace exists while its process runs. Needs root."""

import os
import subprocess

SERVERS = "10.201.0.1"  # the address of the servers


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Namespace:
    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()  # the namespace is there
        run(*self.enter(), "ip", "link", "set", "lo", "up")

    def enter(self):
        """Returns the beginning of a command that runs in the namespace."""
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net"]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Network:
    def __init__(self):
        self.servers = Namespace()
        self.machines = []
        run(*self.servers.enter(), "ip", "address", "add", f"{SERVERS}/32", "dev", "lo")

    def add_machine(self):
        """Returns the beginning of a command that runs on a new machine."""
        machine = Namespace()
        self.machines.append(machine)
        number = len(self.machines)
        near, far = f"10.201.{number}.1", f"10.201.{number}.2"
        here, there = self.servers.enter(), machine.enter()
        run(*here, "ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0",
            "netns", str(machine.process.pid))
        run(*here, "ip", "address", "add", f"{near}/30", "dev", f"to{number}")
        run(*here, "ip", "link", "set", f"to{number}", "up")
        run(*there, "ip", "address", "add", f"{far}/30", "dev", "eth0")
        run(*there, "ip", "link", "set", "eth0", "up")
        run(*there, "ip", "route", "add", "default", "via", near)
        return there

    def close(self):
        for machine in self.machines:
            machine.close()
        self.servers.close()


def is_possible():
    """Whether this user can make such networks."""
    if os.geteuid() != 0:
        return False
    try:
        network = Network()
    except (OSError, subprocess.CalledProcessError):
        return False
    try:
        network.add_machine()
        return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        network.close()
