#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_sharing.py KILN APP BUILD_FOLDER: runs the commands of docs/sharing.md.

Each section runs in a root of its own, which has the users alice, bob and carol. A block's first
line says which user runs it. `app` is APP, an OpenCL program."""

import os
import re
import shlex
import shutil
import sys
import tempfile
import unittest

import redis_server

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(TESTS, "support"))
import pod

KILN, APP, BUILD = (os.path.abspath(path) for path in sys.argv[1:4])
PAGE = os.path.join(os.path.dirname(TESTS), "docs", "sharing.md")
USERS = ("alice", "bob", "carol")
HEADER = re.compile(r"# as (root|" + "|".join(USERS) + r")\n")

# The root's own /etc gets the users and the name of the server.
# The repository may lie in root's home, so others can pass through it.
PREPARE = f"""set -e
cp -a /etc /tmp/etc && mount --bind /tmp/etc /etc
rm -rf /etc/kiln
mkdir -p /run /var/cache /srv /root && chmod 711 /root
groupadd kiln
for user in {' '.join(USERS)}; do
    useradd --create-home --home-dir /home/$user --groups kiln $user && chmod 700 /home/$user
done
ip link set lo up && echo 127.0.0.1 cache.example >>/etc/hosts
"""

# A registry without passwords and TLS.
REGISTRY = """# as root
cat >/tmp/registry.yml <<END
version: 0.1
storage: {filesystem: {rootdirectory: /tmp/registry}}
http: {addr: ":5000"}
END
docker-registry serve /tmp/registry.yml >/tmp/registry.log 2>&1 &
for _ in $(seq 600); do
    if (: </dev/tcp/127.0.0.1/5000) 2>/dev/null; then break; fi
    sleep 0.1
done
echo 127.0.0.1 registry.example >>/etc/hosts
mkdir -p /etc/containers
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >/etc/containers/policy.json
printf '[[registry]]\nlocation = "registry.example:5000"\ninsecure = true\n' \
    >/etc/containers/registries.conf
"""

# The pulled layers are those that were pushed, and the packs hold 1 and 2 of the 3 entries. Of each
# image, its configuration and one layer were sent.
PULLED = """# as root
for layer in ~alice/kernels-1.1/blobs/sha256/*; do
    cmp $layer /srv/pulled/blobs/sha256/${layer##*/}
done
test $(ls ~alice/kernels-1.1/blobs/sha256 | wc -l) = 4
test "$(kiln ls --json --dir pack:/kernels/kernels.kpack | wc -l)" = 1
test "$(kiln ls --json --dir pack:/kernels/kernels-2.kpack | wc -l)" = 2
test $(grep -c 'response completed.*method=PUT.*/blobs/' /tmp/registry.log) = 4
skopeo inspect docker://registry.example:5000/kernels:1.1 | grep -q '"kiln.driver": "Intel'
"""


def sections():
    """The blocks under each heading: pairs of language and text."""
    with open(PAGE) as file:
        parts = re.split(r"^##+ (.*)\n", file.read(), flags=re.M)
    return {title: re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
            for title, text in zip(parts[1::2], parts[2::2])}


def command_of(block):
    """A shell command that runs a block as the user whom it names, and fails if the block does."""
    user = HEADER.match(block).group(1)
    home = "/root" if user == "root" else f"/home/{user}"
    name = [] if user == "root" else [
        "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
    return shlex.join([*name, "env", "-C", home, f"HOME={home}", "bash", "-euc",
                       f"trap 'echo failed: $BASH_COMMAND >&2' ERR\n{block}"])


class SharingTest(unittest.TestCase):
    def shell_blocks(self, title):
        blocks = [text for language, text in sections()[title] if language == "sh"]
        self.assertTrue(blocks)
        for block in blocks:
            self.assertRegex(block, HEADER, "the first line names no user")
        return blocks

    def check(self, title, before=(), more=()):
        blocks = [*before, *self.shell_blocks(title), *more]
        if os.geteuid() != 0 or not pod.has_pods():
            self.skipTest("only root can make users and roots")
        if any("redis-server" in block for block in blocks):
            redis_server.require()
        scratch = tempfile.mkdtemp(prefix="kiln-sharing-")
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        for name in ("root", "tools"):
            os.mkdir(os.path.join(scratch, name), 0o755)
        os.symlink(KILN, os.path.join(scratch, "tools", "kiln"))
        os.symlink(APP, os.path.join(scratch, "tools", "app"))
        shown = {path: path for path in (
            os.path.dirname(TESTS), BUILD, os.path.realpath(os.path.join(BUILD, "runtimes")),
            sys.base_prefix)
            if os.path.isdir(path)}
        environment = {"PATH": "/tools:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                       "OCL_ICD_VENDORS": os.environ["OCL_ICD_VENDORS"]}
        script = PREPARE + "\n".join(command_of(block) for block in blocks)
        result = pod.run(os.path.join(scratch, "root"), shown | {
            "/tools": os.path.join(scratch, "tools")}, environment, ["bash", "-c", script])
        self.assertEqual(result.returncode, 0,
                         (result.stdout + result.stderr).decode(errors="replace"))
        return result


class Sharing(SharingTest):
    def test_a_pack(self):
        self.check("A pack")


class SharingLong(SharingTest):
    def test_directories_of_several_users(self):
        """An entry that is not signed with the key is a miss, and without a key nothing is used."""
        self.check("Directories of several users", more=["""# as alice
head -c 32 /dev/zero | tr '\\0' x >~/other-key && chmod 600 ~/other-key
rm -r /srv/alice/cache
kiln run --dir /srv/alice/cache --key-file ~/other-key -- app
chmod -R a+rwX /srv/alice/cache
""", """# as bob
there='file:///srv/alice/cache?readonly=1&owner=any'
kiln run --expect-warm --key-file ~/team-key --dir "$there" -- app || code=$?
test "$code" = 3
test "$(kiln ls --json --dir "$there&key-file=$HOME/team-key" | wc -l)" = 3
for wrong in "$there" 'file:///srv/alice/cache?readonly=0&owner=any' 'file:///srv/alice/cache?readonly=1'; do
    if kiln ls --dir "$wrong"; then exit 1; fi
done
"""])

    def test_a_group_that_writes(self):
        """What a member without a trusted key puts there is a miss, and is replaced."""
        self.check("A group that writes", more=["""# as root
kiln verify --dir group:/srv/kiln | grep -q '3 checked: 3 ok'
test "$(stat -c %a:%U:%G /srv/kiln/* | sort -u)" = 640:alice:kiln
""", """# as carol
rm /srv/kiln/*
kiln key new carol
export KILN_SECRET_KEY_FILE=~/.config/kiln/keys/carol
kiln run --dir "$HOME/.cache/kiln|group:/srv/kiln" -- app
test "$(stat -c %U /srv/kiln/* | sort -u)" = carol
""", """# as bob
rm -r ~/.cache/kiln
kiln run --expect-warm --dir "$HOME/.cache/kiln|group:/srv/kiln" -- app || code=$?
test "$code" = 3
kiln verify --dir group:/srv/kiln | grep -q '0 ok, 0 corrupt, .*, 3 not signed'
""", """# as alice
rm -r ~/.cache/kiln
export KILN_SECRET_KEY_FILE=~/.config/kiln/keys/alice
kiln run --dir "$HOME/.cache/kiln|group:/srv/kiln" -- app
test "$(stat -c %U /srv/kiln/* | sort -u)" = alice
""", """# as bob
rm -r ~/.cache/kiln
kiln run --expect-warm --dir "$HOME/.cache/kiln|group:/srv/kiln" -- app
""", """# as root
chmod 2755 /srv/kiln
kiln doctor --dir group:/srv/kiln | grep -q 'must have mode 2770 or 3770 (chmod 2770 /srv/kiln)'
"""])

    def test_a_server_on_a_socket(self):
        """What a member without a trusted key puts there is a miss."""
        self.check("A server on a socket", before=["""# as alice
kiln key new alice
kiln key show alice >~/alice.pub
""", """# as root
kiln key trust --system "$(cat ~alice/alice.pub)"
"""], more=["# as root\nredis-cli -s /run/kiln/redis flushall", """# as carol
kiln key new carol
export KILN_SECRET_KEY_FILE=~/.config/kiln/keys/carol
kiln run --dir "$HOME/.cache/kiln|redis+unix:///run/kiln/redis" -- app
test "$(redis-cli -s /run/kiln/redis --raw keys 'kiln:v1:{*}' | wc -l)" = 3
""", """# as bob
rm -r ~/.cache/kiln
kiln run --expect-warm --dir "$HOME/.cache/kiln|redis+unix:///run/kiln/redis" -- app || code=$?
test "$code" = 3
"""])

    def test_a_directory(self):
        self.check("A directory")

    def test_a_shared_file_system(self):
        self.check("A shared file system")

    def test_a_container_image(self):
        self.check("A container image")

    def test_an_image_of_its_own(self):
        for program in "skopeo", "umoci", "docker-registry":
            if shutil.which(program) is None:
                self.skipTest(f"no {program}")
        result = self.check("An image of its own", before=[REGISTRY], more=[PULLED])
        self.assertIn(b"2 entries", result.stdout)

    def test_a_server(self):
        self.check("A server")

    def test_kubernetes(self):
        self.check("Kubernetes")

    def test_ci(self):
        self.check("CI")


class Page(unittest.TestCase):
    def test_each_section_with_commands_has_a_test(self):
        tests = {name for name in dir(Sharing) + dir(SharingLong) if name.startswith("test_")}
        for title, blocks in sections().items():
            if any(language == "sh" for language, _ in blocks):
                self.assertIn("test_" + title.lower().replace(" ", "_"), tests)

    def test_every_block_is_of_a_language_that_is_checked(self):
        languages = {language for blocks in sections().values() for language, _ in blocks}
        self.assertLessEqual(languages, {"sh", "yaml", "dockerfile"})

    def test_yaml(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("no PyYAML")
        blocks = [text for blocks in sections().values() for language, text in blocks
                  if language == "yaml"]
        self.assertTrue(blocks)
        for block in blocks:
            document = yaml.safe_load(block)
            if document.get("kind") == "Pod":
                self.check_volumes(document["spec"])

    def check_volumes(self, spec):
        """Every mount names a volume, and every volume is mounted."""
        containers = spec["containers"] + spec.get("initContainers", [])
        mounted = {mount["name"] for container in containers
                   for mount in container.get("volumeMounts", [])}
        self.assertEqual(mounted, {volume["name"] for volume in spec.get("volumes", [])})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
