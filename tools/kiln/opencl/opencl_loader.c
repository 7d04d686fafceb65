/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl_loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/memory.h"
#include "layer_variables.h"
#include "opencl_library.h"

/* A loader that reads this variable contains the variable's name. */
static const char layers_variable[] = "OPENCL_LAYERS";

/* The prefix of the symbol versions of a loader's functions. A version is, for example,
 * "OPENCL_3.0". */
static const char version_prefix[] = "OPENCL_";

#define VERSION_LENGTH_MAX 15

/* The folders where distributions install libraries. */
static const char *const folders[] = {
#if defined __x86_64__
    "/usr/lib/x86_64-linux-gnu",
#elif defined __aarch64__
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64", "/usr/lib", "/usr/local/lib64", "/usr/local/lib"};

/* ---- files ---- */

typedef struct library_image {
    void *bytes; /* NULL: the file cannot be read */
    size_t size;
} library_image;

static library_image image_of(const char *path)
{
    library_image image = {0};
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            image = (library_image){bytes, (size_t)status.st_size};
        }
    }
    if (file >= 0) {
        close(file);
    }
    return image;
}

static void image_done(library_image *image)
{
    if (image->bytes != NULL) {
        munmap(image->bytes, image->size);
    }
}

static bool image_has(const library_image *image, const char *text)
{
    return image->bytes != NULL && memmem(image->bytes, image->size, text, strlen(text)) != NULL;
}

static bool is_for_same_machine(const library_image *one, const library_image *other)
{
    const ElfW(Ehdr) *first = one->bytes;
    const ElfW(Ehdr) *second = other->bytes;
    return one->size >= sizeof *first && other->size >= sizeof *second &&
           memcmp(first->e_ident, ELFMAG, SELFMAG) == 0 &&
           memcmp(first->e_ident, second->e_ident, EI_VERSION) == 0 &&
           first->e_machine == second->e_machine;
}

/* ---- loaders ---- */

char *opencl_loader_found(void)
{
    void *library = dlopen(OPENCL_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map = NULL;
    char *path = NULL;
    if (library != NULL && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
        path = realpath(map->l_name, NULL);
    }
    if (library != NULL) {
        dlclose(library);
    }
    return path;
}

bool opencl_loader_reads(const char *path, const char *variable)
{
    library_image image = image_of(path);
    bool reads = image_has(&image, variable);
    image_done(&image);
    return reads;
}

bool opencl_loader_supports_layers(const char *path)
{
    return opencl_loader_reads(path, layers_variable);
}

/* Returns true if @candidate has each symbol version that @found has. */
static bool has_versions_of(const library_image *candidate, const library_image *found)
{
    const size_t length = strlen(version_prefix);
    const char *const end = (const char *)found->bytes + found->size;
    const char *at = found->bytes;
    while ((at = memmem(at, (size_t)(end - at), version_prefix, length)) != NULL) {
        char version[VERSION_LENGTH_MAX + 1] = "";
        const size_t rest = (size_t)(end - at);
        memcpy(version, at, rest < VERSION_LENGTH_MAX ? rest : VERSION_LENGTH_MAX);
        version[length + strspn(version + length, "0123456789.")] = '\0';
        if (version[length] != '\0' && !image_has(candidate, version)) {
            return false;
        }
        at += length;
    }
    return true;
}

static bool can_replace(const library_image *candidate, const library_image *found)
{
    return is_for_same_machine(candidate, found) && image_has(candidate, layers_variable) &&
           has_versions_of(candidate, found);
}

/* Returns true if a loader can be used. It must be able to replace @found. Other users must not be
 * able to write to it, because it is loaded into the user's programs. */
static bool is_usable(const char *candidate, const library_image *found)
{
    owned char *why = library_reason_against(candidate, "LD_LIBRARY_PATH");
    library_image image = image_of(candidate);
    bool is = why == NULL && image.bytes != NULL && can_replace(&image, found);
    image_done(&image);
    return is;
}

char *opencl_loader_replacement(const char *found)
{
    library_image image = image_of(found);
    char *replacement = NULL;
    for (size_t i = 0;
         replacement == NULL && image.bytes != NULL && i < sizeof folders / sizeof *folders; i++) {
        owned char *name = text_of("%s/" OPENCL_LIBRARY, folders[i]);
        owned char *path = realpath(name, NULL);
        if (path != NULL && is_usable(path, &image)) {
            replacement = must(strdup(path));
        }
    }
    image_done(&image);
    return replacement;
}
