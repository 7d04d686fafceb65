# SPDX-License-Identifier: Apache-2.0
"""The servers that a fleet can share, each in a network of its own (support/network.py)."""

import os
import shutil
import subprocess
import time
import unittest
from pathlib import Path

import network

PORT = 7000
START_SECONDS = 120

NGINX = f"""daemon off; master_process off; pid run/pid; error_log run/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; types {{}} default_type application/octet-stream;
  client_body_temp_path run/b; proxy_temp_path run/p; fastcgi_temp_path run/f;
  uwsgi_temp_path run/u; scgi_temp_path run/s;
  client_max_body_size 64m; keepalive_requests 1000000;
  server {{ listen {network.SERVERS}:{PORT}; root data;
           dav_methods PUT DELETE; create_full_put_path on; }}
}}
"""


def require(is_installed, what, option):
    if not is_installed:
        raise unittest.SkipTest(f"no {what}: scripts/install-deps {option} installs it")


class Server:
    """@enter: the beginning of a command that runs in the servers' network"""

    variables = {}
    is_exact = True  # no two machines ever build the same program

    def __init__(self, enter, folder):
        self.enter = enter
        self.folder = folder
        self.processes = []

    def start(self, *command):
        self.processes.append(subprocess.Popen([*self.enter, *command], stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL))

    def say(self, *command):
        return subprocess.run([*self.enter, *command], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()

    def wait_for(self, text, *command):
        for _ in range(START_SECONDS * 10):
            if text in self.say(*command):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{type(self).__name__} does not start")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


class Redis(Server):
    location = f"redis://{network.SERVERS}:{PORT}?lease=on"

    def start_node(self, port, *options):
        self.start("redis-server", "--bind", network.SERVERS, "--port", str(port), "--save", "",
                   "--dir", self.folder, "--protected-mode", "no", *options)
        self.wait_for("PONG", "redis-cli", "-h", network.SERVERS, "-p", str(port), "PING")

    def __init__(self, *arguments):
        require(shutil.which("redis-server"), "redis-server", "--fleet")
        super().__init__(*arguments)
        self.start_node(PORT)


class Cluster(Redis):
    location = f"redis-cluster://{network.SERVERS}:{PORT}?lease=on"

    def __init__(self, *arguments):
        require(shutil.which("redis-server"), "redis-server", "--fleet")
        Server.__init__(self, *arguments)
        ports = range(PORT, PORT + 3)
        for port in ports:
            self.start_node(port, "--cluster-enabled", "yes", "--cluster-config-file",
                            f"nodes-{port}")
        self.say("redis-cli", "--cluster", "create", *(f"{network.SERVERS}:{port}" for port in ports),
                 "--cluster-yes")
        for port in ports:
            self.wait_for("cluster_state:ok", "redis-cli", "-h", network.SERVERS, "-p", str(port),
                          "CLUSTER", "INFO")


class Nginx(Server):
    location = f"http://{network.SERVERS}:{PORT}/kiln?lease=on"
    is_exact = False

    def __init__(self, *arguments):
        require(os.access("/usr/sbin/nginx", os.X_OK), "nginx", "--fleet")
        super().__init__(*arguments)
        for name in "data/kiln", "run":
            os.makedirs(f"{self.folder}/{name}")
        Path(f"{self.folder}/nginx.conf").write_text(NGINX)
        self.start("/usr/sbin/nginx", "-p", self.folder, "-c", "nginx.conf", "-e", "run/error.log")
        self.wait_for("nginx", "curl", "-sI", f"http://{network.SERVERS}:{PORT}/")


class Swift(Server):
    location = (f"s3://kiln/fleet?endpoint=http://{network.SERVERS}:{PORT}&region=us-east-1"
                "&lease=on")
    variables = {"AWS_ACCESS_KEY_ID": "kiln:writer", "AWS_SECRET_ACCESS_KEY": "writer-secret"}
    is_exact = False

    def __init__(self, *arguments):
        script = Path(network.__file__).with_name("swift_server.py")
        python = ("/usr/bin/python3", "-c", "import swift.proxy.server")
        require(subprocess.run(python, stderr=subprocess.DEVNULL).returncode == 0, "S3 server", "--s3")
        super().__init__(*arguments)
        self.processes.append(subprocess.Popen(
            [*self.enter, "/usr/bin/python3", str(script), self.folder, str(PORT), network.SERVERS],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        if self.processes[0].stdout.readline() != b"ready\n":
            raise RuntimeError("Swift does not start")

    def stop(self):
        super().stop()
        self.processes[0].stdout.close()


KINDS = {"redis": Redis, "redis-cluster": Cluster, "http": Nginx, "s3": Swift}
