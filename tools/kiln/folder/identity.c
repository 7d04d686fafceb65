/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"

#include <dirent.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "../text/memory.h"

#define FORMAT 1
#define GPUS "/proc/driver/nvidia/gpus"

/* The most bytes of a file of the system that are read. Such files are far smaller, except that
 * cpuinfo has a paragraph for each processor, of which the first is enough. */
#define TEXT_MAX 16384

/* Returns the beginning of a file, which the caller frees; NULL if it cannot be read. */
static char *text_of_file(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return NULL;
    }
    char *text = must(malloc(TEXT_MAX + 1));
    text[fread(text, 1, TEXT_MAX, file)] = '\0';
    fclose(file);
    return text;
}

/* Returns the first line that begins with @name; the caller frees it. "" if there is none. */
static char *line_of(const char *text, const char *name)
{
    for (const char *line = text; line != NULL && *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        if (strncmp(line, name, strlen(name)) == 0) {
            return must(strndup(line, length));
        }
        line += length + (line[length] == '\n');
    }
    return must(strdup(""));
}

static void add_processor(kiln_key_builder *builder)
{
    static const char *const names[] = {"vendor_id",       "model name", "flags", /* x86 */
                                        "CPU implementer", "CPU part",   "Features"};
    owned char *text = text_of_file("/proc/cpuinfo");
    struct utsname system = {0};
    uname(&system);
    kiln_key_builder_add_text(builder, "machine", system.machine);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        owned char *line = line_of(text, names[i]);
        if (line[0] != '\0') {
            kiln_key_builder_add_text(builder, "processor", line);
        }
    }
}

static void add_system(kiln_key_builder *builder)
{
    owned char *release = text_of_file("/etc/os-release");
    kiln_key_builder_add_text(builder, "c library", gnu_get_libc_version());
    kiln_key_builder_add_text(builder, "release", release == NULL ? "" : release);
}

static int is_visible(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the model of each GPU, once, in the order of the names. */
static void add_gpus(kiln_key_builder *builder)
{
    struct dirent **items = NULL;
    const int count = scandir(GPUS, &items, is_visible, NULL);
    char **models = must(calloc(count > 0 ? (size_t)count : 1, sizeof *models));
    for (int i = 0; i < count; i++) {
        owned char *path = text_of("%s/%s/information", GPUS, items[i]->d_name);
        owned char *text = text_of_file(path);
        models[i] = line_of(text, "Model:");
        free(items[i]);
    }
    free(items);
    if (count > 0) {
        qsort(models, (size_t)count, sizeof *models, compare_texts);
    }
    for (int i = 0; i < count; i++) {
        if (i == 0 || strcmp(models[i], models[i - 1]) != 0) {
            kiln_key_builder_add_text(builder, "gpu", models[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        free(models[i]);
    }
    free(models);
}

static void add_nvidia(kiln_key_builder *builder)
{
    owned char *driver = text_of_file("/proc/driver/nvidia/version");
    owned char *line = line_of(driver, "NVRM version:");
    kiln_key_builder_add_text(builder, "driver", line);
    add_gpus(builder);
}

static void add_toolkit(kiln_key_builder *builder)
{
    const char *home = getenv("CUDA_HOME");
    const char *folder = home != NULL && home[0] != '\0' ? home : "/usr/local/cuda";
    owned char *path = text_of("%s/version.json", folder);
    owned char *version = text_of_file(path);
    kiln_key_builder_add_text(builder, "toolkit", folder);
    kiln_key_builder_add_text(builder, "toolkit version", version == NULL ? "" : version);
}

kiln_key *identity_key(const folder_cache *cache, const char *path)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    must_succeed(kiln_key_builder_new(&builder));
    kiln_key_builder_add_text(builder, "folder", cache->name);
    kiln_key_builder_add_number(builder, "format", FORMAT);
    if (cache->identity & IDENTITY_PATH) {
        kiln_key_builder_add_text(builder, "path", path);
    }
    if (cache->identity & IDENTITY_HOST) {
        add_processor(builder);
        add_system(builder);
    }
    if (cache->identity & IDENTITY_NVIDIA) {
        add_nvidia(builder);
    }
    if (cache->identity & IDENTITY_TOOLKIT) {
        add_toolkit(builder);
    }
    must_succeed(kiln_key_builder_finish(builder, &key));
    kiln_key_builder_free(&builder);
    return key;
}
