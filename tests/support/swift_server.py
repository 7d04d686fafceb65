#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""swift_server.py FOLDER PORT [ADDRESS]: OpenStack Swift with s3api, a real S3 server, on an address
of this machine (127.0.0.1), from PORT to PORT + 4.

The bucket is "kiln". writer may do everything there; reader may get and list. A page of a list has
at most four keys. Prints "ready" when it answers. The servers end with this process.

SIGUSR1 makes S3 silent, SIGUSR2 ends that, and SIGHUP restarts the server that speaks S3."""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
import urllib.request

# The servers are forked, so that these are imported once.
# pylint: disable=unused-import
import swift.account.server
import swift.common.middleware.s3api.s3api
import swift.common.middleware.tempauth
import swift.container.server
import swift.obj.server
import swift.proxy.server
from swift.common.ring import RingBuilder
from swift.common.wsgi import run_wsgi

FOLDER, PORT = sys.argv[1], int(sys.argv[2])
ADDRESS = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
SERVERS = ["object", "container", "account"]
COMMON = f"""[DEFAULT]
bind_ip = {ADDRESS}
user = {{user}}
swift_dir = {FOLDER}
workers = 0
log_address = {FOLDER}/no-log
log_level = WARNING
devices = {FOLDER}/devices
mount_check = false
fallocate_reserve = 0
disable_fallocate = true
bind_port = {{port}}
bind_timeout = 1
"""
PROXY = f"""[pipeline:main]
pipeline = catch_errors cache listing_formats bulk s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = {ADDRESS}:{PORT + 4}
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
max_bucket_listing = 4
[filter:tempauth]
use = egg:swift#tempauth
user_kiln_writer = writer-secret .admin
user_kiln_reader = reader-secret
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""


def write(name, text):
    with open(f"{FOLDER}/{name}", "w") as file:
        file.write(text)


def configure(user):
    os.makedirs(f"{FOLDER}/devices/d1", exist_ok=True)
    write("swift.conf", "[swift-hash]\nswift_hash_path_suffix = kiln\nswift_hash_path_prefix = kiln\n"
                        "[storage-policy:0]\nname = one\ndefault = yes\n")
    for number, name in enumerate(SERVERS, start=1):
        write(f"{name}.conf", COMMON.format(user=user, port=PORT + number) +
              f"[pipeline:main]\npipeline = {name}-server\n"
              f"[app:{name}-server]\nuse = egg:swift#{name}\n")
        ring = RingBuilder(4, 1, 0)
        ring.add_dev({"id": 0, "region": 1, "zone": 1, "ip": ADDRESS, "port": PORT + number,
                      "device": "d1", "weight": 1, "meta": "",
                      "replication_ip": ADDRESS, "replication_port": PORT + number})
        ring.rebalance()
        ring.get_ring().save(f"{FOLDER}/{name}.ring.gz")
    write("proxy.conf", COMMON.format(user=user, port=PORT) + PROXY)


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start_memcached(user):
    subprocess.Popen(["/usr/bin/memcached", "-l", ADDRESS, "-p", str(PORT + 4), "-m", "16",
                      "-u", user], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL, preexec_fn=end_with_parent)


def start(name):
    """Returns the process."""
    process = os.fork()
    if process == 0:
        os.setsid() # a server that ends also ends its group
        end_with_parent()
        log = os.open(f"{FOLDER}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os._exit(run_wsgi(f"{FOLDER}/{name}.conf", f"{name}-server") or 0)
    return process


def ask(method, path, headers, body=None):
    request = urllib.request.Request(f"http://{ADDRESS}:{PORT}{path}", body, headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.headers


def make_bucket():
    """Also puts an object, which needs all servers."""
    answer = ask("GET", "/auth/v1.0",
                 {"X-Storage-User": "kiln:writer", "X-Storage-Pass": "writer-secret"})
    token = {"X-Auth-Token": answer["X-Auth-Token"]}
    ask("PUT", "/v1/AUTH_kiln/kiln", {**token, "X-Container-Read": "kiln:reader"})
    ask("PUT", "/v1/AUTH_kiln/kiln/first", token, b"x")
    ask("GET", "/v1/AUTH_kiln/kiln/first", token)


def obey(proxy):
    signals = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    print("ready", flush=True)
    while True:
        number = signal.sigwait(signals)
        if number == signal.SIGHUP:
            os.kill(proxy, signal.SIGKILL)
            os.waitpid(proxy, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            proxy = start("proxy")
            signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        else:
            os.kill(proxy, signal.SIGSTOP if number == signal.SIGUSR1 else signal.SIGCONT)


def main():
    user = pwd.getpwuid(os.getuid()).pw_name
    configure(user)
    start_memcached(user)
    for name in SERVERS:
        start(name)
    proxy = start("proxy")
    for _ in range(600):
        try:
            make_bucket()
            obey(proxy)
        except OSError:
            time.sleep(0.1)
        if os.waitpid(-1, os.WNOHANG)[0] != 0:
            sys.exit("a server has ended: is its port in use?")
    sys.exit(1)


main()
