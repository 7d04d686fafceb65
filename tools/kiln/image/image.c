/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers are not compressed, so the digest of a layer is also that of its content. The bytes of all
 * JSON depend only on its values, and no times are written.
 */
#include "image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../command/location.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "layer.h"

#define MAX_LAYERS 15u /* a chain of their packs has a place for a directory */

#define TYPE_CONFIG "application/vnd.oci.image.config.v1+json"
#define TYPE_LAYER "application/vnd.oci.image.layer.v1.tar"
#define TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"

#if defined(__x86_64__)
static const char architecture[] = "amd64";
#else
static const char architecture[] = "arm64";
#endif

static int fail(const char *path)
{
    complain("%s: %s", path, strerror(errno));
    return EXIT_IO;
}

static char *base_pack(const oci_image *image, size_t layer)
{
    return text_of("%s/.base-%zu.kpack", image->folder, layer);
}

/* The caller's own folder may be of any mode, but a layout is never written over. */
static int make_folders(const char *folder)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return fail(folder);
    }
    static const char *const below[] = {"blobs", "blobs/sha256"};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        owned char *path = text_of("%s/%s", folder, below[i]);
        if (mkdir(path, 0777) != 0) {
            return fail(path);
        }
    }
    return EXIT_OK;
}

static json_t *describe(const char *type, const blob *described)
{
    json_t *object = must(json_object());
    json_add(object, "mediaType", must(json_string(type)));
    json_add(object, "digest", must(json_string(described->digest)));
    json_add(object, "size", json_number(described->size));
    return object;
}

static json_t *read_json(const char *path)
{
    json_error_t error;
    json_t *value = path == NULL ? NULL : json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        complain("%s: %s", path == NULL ? "a digest" : path,
                 path == NULL ? "is not a SHA-256" : error.text);
    }
    return value;
}

static const char *text_in(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? "" : text;
}

/* Copies a layer of the base, and adds its pack to the location of those of all layers. The packs
 * of later layers come first, as they do where the image is used. */
static int take_layer(oci_image *image, const char *base, json_t *described)
{
    if (strcmp(text_in(described, "mediaType"), TYPE_LAYER) != 0) {
        complain("%s: a layer is compressed, or is not a layer that kiln pack has written", base);
        return EXIT_IO;
    }
    blob copied;
    owned char *pack = base_pack(image, json_array_size(image->layers));
    const int exit_code =
        layer_copy(base, text_in(described, "digest"), image->folder, pack, &copied);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    json_push(image->layers, describe(TYPE_LAYER, &copied));
    owned char *before = image->base;
    owned char *location = pack_location(pack, NULL);
    image->base = before == NULL ? must(strdup(location)) : text_of("%s|%s", location, before);
    return EXIT_OK;
}

static int take_layers(oci_image *image, const char *base, json_t *manifest)
{
    json_t *layers = json_object_get(manifest, "layers");
    if (json_array_size(layers) == 0 || json_array_size(layers) >= MAX_LAYERS) {
        complain("%s: the image has no layers, or too many", base);
        return EXIT_IO;
    }
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const int exit_code = take_layer(image, base, json_array_get(layers, i));
        if (exit_code != EXIT_OK) {
            return exit_code;
        }
    }
    return EXIT_OK;
}

static int take_base(oci_image *image, const char *base)
{
    owned char *index_path = text_of("%s/index.json", base);
    json_t *index = read_json(index_path);
    json_t *manifests = json_object_get(index, "manifests");
    int exit_code = EXIT_IO;
    if (index != NULL && json_array_size(manifests) != 1) {
        complain("%s must name exactly one image", index_path);
    } else if (index != NULL) {
        owned char *path = blob_path(base, text_in(json_array_get(manifests, 0), "digest"));
        json_t *manifest = read_json(path);
        exit_code = manifest == NULL ? EXIT_IO : take_layers(image, base, manifest);
        json_decref(manifest);
    }
    json_decref(index);
    return exit_code;
}

int image_begin(const char *folder, const char *base, oci_image *ret_image)
{
    *ret_image = (oci_image){.folder = folder, .layers = must(json_array())};
    ret_image->pack = text_of("%s/.pack", folder);
    const int exit_code = make_folders(folder);
    return exit_code != EXIT_OK || base == NULL ? exit_code : take_base(ret_image, base);
}

/* Writes a value as a blob, and frees it. */
static int write_json(const char *folder, json_t *value, blob *ret_blob)
{
    owned char *text = must(json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS));
    json_decref(value);
    blob_writer writer;
    const int exit_code = blob_begin(folder, &writer);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    blob_add(&writer, text, strlen(text));
    return blob_end(&writer, EXIT_OK, ret_blob);
}

/* Writes a value to a file of that name in the layout, and frees it. */
static int write_named(const char *folder, const char *name, json_t *value)
{
    owned char *path = text_of("%s/%s", folder, name);
    const int failed = json_dump_file(value, path, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(value);
    return failed ? fail(path) : EXIT_OK;
}

/* What a container engine reads first: the image's system, labels and layers. */
static json_t *config_of(const oci_image *image, json_t *labels)
{
    json_t *contents = must(json_array());
    for (size_t i = 0; i < json_array_size(image->layers); i++) {
        json_push(contents, must(json_string(text_in(json_array_get(image->layers, i), "digest"))));
    }
    json_t *root = must(json_object());
    json_add(root, "type", must(json_string("layers")));
    json_add(root, "diff_ids", contents);
    json_t *settings = must(json_object());
    json_add(settings, "Labels", labels);
    json_t *config = must(json_object());
    json_add(config, "architecture", must(json_string(architecture)));
    json_add(config, "os", must(json_string("linux")));
    json_add(config, "config", settings);
    json_add(config, "rootfs", root);
    return config;
}

static int write_index(const oci_image *image, const blob *manifest)
{
    json_t *described = describe(TYPE_MANIFEST, manifest);
    json_t *name = must(json_object());
    json_add(name, "org.opencontainers.image.ref.name", must(json_string("latest")));
    json_add(described, "annotations", name);
    json_t *manifests = must(json_array());
    json_push(manifests, described);
    json_t *index = must(json_object());
    json_add(index, "schemaVersion", json_number(2));
    json_add(index, "manifests", manifests);
    json_t *version = must(json_object());
    json_add(version, "imageLayoutVersion", must(json_string("1.0.0")));
    const int exit_code = write_named(image->folder, "oci-layout", version);
    if (exit_code != EXIT_OK) {
        json_decref(index);
        return exit_code;
    }
    return write_named(image->folder, "index.json", index);
}

int image_finish(oci_image *image, json_t *labels, blob *ret_manifest)
{
    const size_t before = json_array_size(image->layers);
    owned char *name =
        before == 0 ? text_of("kernels.kpack") : text_of("kernels-%zu.kpack", before + 1);
    blob layer, config;
    int exit_code = layer_write(image->folder, image->pack, name, &layer);
    if (exit_code != EXIT_OK) {
        json_decref(labels);
        return exit_code;
    }
    json_push(image->layers, describe(TYPE_LAYER, &layer));
    json_t *annotations = must(json_deep_copy(labels));
    exit_code = write_json(image->folder, config_of(image, labels), &config);
    if (exit_code != EXIT_OK) {
        json_decref(annotations);
        return exit_code;
    }
    json_t *manifest = must(json_object());
    json_add(manifest, "schemaVersion", json_number(2));
    json_add(manifest, "mediaType", must(json_string(TYPE_MANIFEST)));
    json_add(manifest, "config", describe(TYPE_CONFIG, &config));
    json_add(manifest, "layers", must(json_deep_copy(image->layers)));
    json_add(manifest, "annotations", annotations);
    exit_code = write_json(image->folder, manifest, ret_manifest);
    if (exit_code == EXIT_OK) {
        exit_code = write_index(image, ret_manifest);
    }
    image->is_complete = exit_code == EXIT_OK;
    return exit_code;
}

/* Removes the layers, and the folders if nothing else is in them. */
static void remove_layers(const oci_image *image)
{
    for (size_t i = 0; i < json_array_size(image->layers); i++) {
        owned char *path =
            blob_path(image->folder, text_in(json_array_get(image->layers, i), "digest"));
        unlink(path);
    }
    static const char *const folders[] = {"blobs/sha256", "blobs"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        owned char *path = text_of("%s/%s", image->folder, folders[i]);
        rmdir(path);
    }
    rmdir(image->folder);
}

void image_done(oci_image *image)
{
    for (size_t i = 0; i < MAX_LAYERS; i++) {
        owned char *pack = base_pack(image, i);
        unlink(pack);
    }
    unlink(image->pack);
    if (!image->is_complete) {
        remove_layers(image);
    }
    free(image->pack);
    free(image->base);
    json_decref(image->layers);
}
