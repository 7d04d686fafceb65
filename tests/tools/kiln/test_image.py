# SPDX-License-Identifier: Apache-2.0
"""Tests kiln pack --oci: the layout that it writes, and layers on those of an earlier layout."""

import gzip
import hashlib
import json
import os
import shutil
import tarfile

import cli


class ImageTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.digests = self.make("entries")

    def path(self, *names):
        return os.path.join(self.scratch, *names)

    def pack(self, name, *arguments, **options):
        return self.kiln_json("pack", "--oci", self.path(name), *arguments, **options)

    def read(self, name, *path):
        with open(self.path(name, *path), "rb") as file:
            return file.read()

    def blob(self, name, digest):
        """The bytes of a blob, which must have the digest that names it."""
        algorithm, _, digits = digest.partition(":")
        content = self.read(name, "blobs", algorithm, digits)
        self.assertEqual((algorithm, hashlib.sha256(content).hexdigest()), ("sha256", digits))
        return content

    def manifest(self, name):
        index = json.loads(self.read(name, "index.json"))
        described, = index["manifests"]
        content = self.blob(name, described["digest"])
        self.assertEqual(len(content), described["size"])
        return json.loads(content)

    def extract(self, name):
        """Does what a container engine does to mount the image."""
        into = self.path(name + "-mounted")
        os.mkdir(into)
        for layer in self.manifest(name)["layers"]:
            self.assertEqual(len(self.blob(name, layer["digest"])), layer["size"])
            with tarfile.open(self.path(name, "blobs", *layer["digest"].split(":"))) as archive:
                for member in archive:
                    self.assertEqual((member.uid, member.gid, member.mode, member.mtime),
                                     (0, 0, 0o644, 0))
                archive.extractall(into)
        return into

    def names(self, location):
        return sorted(item["name"] for item in self.listed("--dir", location))


class Image(ImageTest):
    def test_layout(self):
        report = self.pack("image")
        self.assertEqual(report["entries"], 3)
        self.assertEqual(sorted(os.listdir(self.path("image"))),
                         ["blobs", "index.json", "oci-layout"])
        self.assertEqual(json.loads(self.read("image", "oci-layout")),
                         {"imageLayoutVersion": "1.0.0"})
        manifest = self.manifest("image")
        self.blob("image", report["digest"])
        config = json.loads(self.blob("image", manifest["config"]["digest"]))
        self.assertEqual(config["rootfs"]["diff_ids"],
                         [layer["digest"] for layer in manifest["layers"]])
        self.assertEqual(config["config"]["Labels"], manifest["annotations"])
        self.assertEqual(len(os.listdir(self.path("image", "blobs", "sha256"))), 3)

    def test_labels(self):
        self.make_entry("put", "platform.name=A Platform", "device.driver_version=2.1",
                        device="a device", name="other", tool="a tool 1.0")
        self.pack("base", "--device", "a device")
        self.pack("image", "--base", self.path("base"))
        labels = self.manifest("image")["annotations"]
        self.assertEqual(labels["kiln.device"], "Test Platform, Test Device\na device")
        self.assertEqual(labels["kiln.driver"], "A Platform 2.1")
        self.assertEqual(labels["kiln.toolchain"], "a tool 1.0\nmake_cache")

    def test_the_pack_of_a_mounted_image_is_used(self):
        self.pack("image")
        pack = os.path.join(self.extract("image"), "kernels.kpack")
        self.assertEqual(self.names(f"pack:{pack}"), self.names(self.cache))
        into = self.path("into")
        self.kiln("unpack", "--dir", into, "--trust", pack)
        self.assertEqual(self.names(into), self.names(self.cache))

    def test_the_same_entries_give_the_same_digest(self):
        first = self.pack("first")["digest"]
        shutil.copytree(self.cache, self.path("copy"))
        self.assertEqual(self.pack("second", "--dir", self.path("copy"))["digest"], first)
        self.assertNotEqual(self.pack("third", "--name", "matmul")["digest"], first)

    def test_a_folder_is_not_written_over(self):
        self.pack("image")
        before = self.read("image", "index.json")
        self.kiln("pack", "--oci", self.path("image"), "--name", "matmul", expect=4)
        self.assertEqual(self.read("image", "index.json"), before)
        self.manifest("image")

    def test_nothing_to_pack(self):
        self.kiln("pack", "--oci", self.path("image"), "--name", "no such", expect=1)
        self.assertFalse(os.path.exists(self.path("image")))


class Base(ImageTest):
    def setUp(self):
        super().setUp()
        self.pack("base", "--name", "matmul")

    def refused(self, expect=4):
        result = self.kiln("pack", "--oci", "--base", self.path("base"), self.path("image"),
                           expect=expect)
        self.assertFalse(os.path.exists(self.path("image")))
        return result.stderr

    def layer(self):
        layer, = self.manifest("base")["layers"]
        return self.path("base", "blobs", *layer["digest"].split(":"))

    def test_only_what_is_missing(self):
        self.assertEqual(self.pack("image", "--base", self.path("base"))["entries"], 2)
        layers = self.manifest("image")["layers"]
        self.assertEqual(layers[0], self.manifest("base")["layers"][0])
        mounted = self.extract("image")
        self.assertEqual(sorted(os.listdir(mounted)), ["kernels-2.kpack", "kernels.kpack"])
        packs = [f"pack:{mounted}/{name}" for name in ("kernels-2.kpack", "kernels.kpack")]
        self.assertEqual(self.names(packs[1]), ["matmul"])
        self.assertNotIn("matmul", self.names(packs[0]))
        self.assertEqual(self.names("|".join(packs)), self.names(self.cache))

    def test_a_third_layer(self):
        self.pack("second", "--base", self.path("base"), "--name", "saxpy")
        self.assertEqual(self.pack("image", "--base", self.path("second"))["entries"], 1)
        self.assertEqual(len(self.manifest("image")["layers"]), 3)
        self.assertIn("kernels-3.kpack", os.listdir(self.extract("image")))
        result = self.kiln("pack", "--oci", "--base", self.path("image"), self.path("fourth"),
                           expect=1)
        self.assertIn(b"that the base lacks", result.stderr)
        self.assertFalse(os.path.exists(self.path("fourth")))

    def test_a_result_that_has_changed_is_packed_again(self):
        entries = [self.path(name) for name in ("one", "two")]
        for number, folder in enumerate(entries):
            self.cache = folder
            self.make_entry("put", "part=same", name="changed", size=100 + number)
        self.pack("changed", "--dir", entries[0])
        self.assertEqual(self.pack("again", "--dir", entries[1], "--base",
                                   self.path("changed"))["entries"], 1)
        mounted = self.extract("again")
        listed = self.listed("--dir", f"pack:{mounted}/kernels-2.kpack|pack:{mounted}/kernels.kpack")
        self.assertEqual([item["bytes"] for item in listed], [101])

    def test_a_damaged_layer(self):
        with open(self.layer(), "r+b") as file:
            file.seek(600)
            file.write(b"x")
        self.assertIn(b"is damaged", self.refused(expect=5))

    def test_a_layer_that_kiln_has_not_written(self):
        with open(self.layer(), "rb") as file:
            content = file.read()
        for other in gzip.compress(content), content[:100], content[:-1], b"x" + content[1:], b"":
            with open(self.layer(), "wb") as file:
                file.write(other)
            self.assertIn(b"not a layer that kiln pack has written", self.refused())

    def test_a_layout_that_names_other_files(self):
        manifest = self.manifest("base")
        for digest in "sha256:../../../../secret", "sha256:" + "0" * 64, "", None:
            manifest["layers"][0]["digest"] = digest
            content = json.dumps(manifest).encode()
            name = hashlib.sha256(content).hexdigest()
            with open(self.path("base", "blobs", "sha256", name), "wb") as file:
                file.write(content)
            with open(self.path("base", "index.json"), "w") as file:
                json.dump({"manifests": [{"digest": "sha256:" + name}]}, file)
            self.refused()

    def test_something_else_than_a_layout(self):
        for index in "", "[]", "{}", '{"manifests": [{}]}', '{"manifests": [{}, {}]}':
            with open(self.path("base", "index.json"), "w") as file:
                file.write(index)
            self.refused()
        shutil.rmtree(self.path("base"))
        self.refused()

    def test_a_base_needs_an_image(self):
        self.kiln("pack", "--base", self.path("base"), self.path("pack"), expect=2)


if __name__ == "__main__":
    cli.main()
