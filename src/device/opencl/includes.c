/* SPDX-License-Identifier: Apache-2.0 */
#include "includes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "device/file_content.h"
#include "directives.h"
#include "hazards.h"
#include "key/hash.h"
#include "macros.h"
#include "os/file.h"
#include "os/os.h"
#include "scan.h"

enum {
    MAX_FILES = 4096,
    MAX_BYTES = 64 << 20,
    MAX_DEPTH = 200,
    MAX_LOOKUPS = 8192,
    MAX_VISITS = 16384,
    MAX_ROUNDS = 64
};

static const size_t none = SIZE_MAX;

/* A root, or a file once it was found. Each file is read and scanned once. */
typedef struct text {
    kilni_clean_text clean;
    kilni_directives directives;
    kilni_file_content file; /* bytes are NULL for a root */
} text;

/* A folder that a file was found in. Two paths to one folder are one. */
typedef struct folder {
    char *path; /* "" is the working directory; NULL: of a text that is no file */
    dev_t device;
    ino_t inode;
} folder;

/* A text, included from a folder: its own includes are to be looked for. */
typedef struct visit {
    size_t text;
    size_t folder;
    size_t depth;
} visit;

/* A name that was looked for from a folder. */
typedef struct lookup {
    size_t folder;
    char *name; /* with its delimiters */
    size_t length;
    kiln_digest digest; /* of the name */
    size_t first_finding;
    size_t finding_count;
} lookup;

typedef struct finding {
    const char *place; /* points into the folder list, or static */
    const char *prefix;
    size_t text;
    bool repeated; /* the text was found before */
} finding;

/* A header that the call brings along. */
typedef struct embedded_header {
    const char *name; /* borrowed */
    size_t text;
} embedded_header;

/* Where every name is looked for. */
typedef struct place {
    const char *label;
    const char *path;
} place;

typedef struct list {
    void *items;
    size_t count;
    size_t capacity;
} list;

struct kilni_opencl_includes {
    char *const *search_folders;
    size_t search_folder_count;
    char *driver_folder; /* where a driver puts the source; NULL: not known */
    list texts;
    list headers;
    list folders;
    list visits;
    list lookups;
    list findings;
    size_t bytes;
    size_t file_count;
    kilni_macros macros;
    kilni_hazards hazards;
};

/* ---- lists ---- */

static kiln_status append(list *l, const void *item, size_t item_size)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 16;
        void *grown = realloc(l->items, capacity * item_size);
        if (!grown) {
            return KILN_E_NO_MEMORY;
        }
        l->items = grown;
        l->capacity = capacity;
    }
    memcpy((char *)l->items + l->count++ * item_size, item, item_size);
    return KILN_OK;
}

static text *text_at(const kilni_opencl_includes *s, size_t i)
{
    return (text *)s->texts.items + i;
}

static const embedded_header *header_at(const kilni_opencl_includes *s, size_t i)
{
    return (const embedded_header *)s->headers.items + i;
}

static folder *folder_at(const kilni_opencl_includes *s, size_t i)
{
    return (folder *)s->folders.items + i;
}

static visit *visit_at(const kilni_opencl_includes *s, size_t i)
{
    return (visit *)s->visits.items + i;
}

static lookup *lookup_at(const kilni_opencl_includes *s, size_t i)
{
    return (lookup *)s->lookups.items + i;
}

static finding *finding_at(const kilni_opencl_includes *s, size_t i)
{
    return (finding *)s->findings.items + i;
}

static kiln_status refuse(kiln_error *error, const char *what)
{
    return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s", what);
}

/* ---- begin and end ---- */

/* PoCL writes the source into its cache folder before it compiles it, and looks there too. */
static kiln_status find_driver_folder(char **ret_folder)
{
    const char *set = getenv("POCL_CACHE_DIR");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    kilni_text path = {0};
    kiln_status status;
    if (set && *set) {
        status = kilni_text_append(&path, set);
    } else if (cache && *cache) {
        status = kilni_text_printf(&path, "%s/pocl/kcache", cache);
    } else {
        status = home && *home ? kilni_text_printf(&path, "%s/.cache/pocl/kcache", home)
                               : kilni_text_append(&path, "/tmp/pocl/kcache");
    }
    *ret_folder = path.bytes;
    return status;
}

kiln_status kilni_opencl_includes_new(char *const *folders, size_t folder_count,
                                      kilni_opencl_includes **ret_includes)
{
    kilni_opencl_includes *s = calloc(1, sizeof *s);
    if (!s) {
        return KILN_E_NO_MEMORY;
    }
    s->search_folders = folders;
    s->search_folder_count = folder_count;
    kiln_status status = find_driver_folder(&s->driver_folder);
    if (status == KILN_OK) {
        status = append(&s->folders, &(folder){.path = NULL}, sizeof(folder));
    }
    if (status != KILN_OK) {
        kilni_opencl_includes_free(&s);
        return status;
    }
    *ret_includes = s;
    return KILN_OK;
}

static void text_done(text *t)
{
    kilni_clean_text_done(&t->clean);
    kilni_directives_done(&t->directives);
    kilni_file_content_done(&t->file);
}

void kilni_opencl_includes_free(kilni_opencl_includes **includes)
{
    kilni_opencl_includes *s = includes ? *includes : NULL;
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->texts.count; i++) {
        text_done(text_at(s, i));
    }
    for (size_t i = 0; i < s->folders.count; i++) {
        free(folder_at(s, i)->path);
    }
    for (size_t i = 0; i < s->lookups.count; i++) {
        free(lookup_at(s, i)->name);
    }
    free(s->texts.items);
    free(s->headers.items);
    free(s->folders.items);
    free(s->visits.items);
    free(s->lookups.items);
    free(s->findings.items);
    kilni_macros_done(&s->macros);
    free(s->driver_folder);
    free(s);
    *includes = NULL;
}

/* ---- texts ---- */

/* Scans a text and takes it into the list, with its file's content, whose owner becomes the list;
 * on failure the caller keeps it. */
static kiln_status add_text(kilni_opencl_includes *s, const void *bytes, size_t size,
                            const kilni_file_content *file, const char *name, kiln_error *error)
{
    text t = {0};
    const char *refusal = NULL;
    kiln_status status = kilni_clean_text_make(bytes, size, &t.clean, &refusal);
    if (status == KILN_OK) {
        status = kilni_directives_read(&t.clean, &s->macros, &s->hazards, &t.directives, &refusal);
    }
    if (status == KILN_OK) {
        t.file = *file;
        status = append(&s->texts, &t, sizeof t);
        if (status == KILN_OK) {
            return KILN_OK;
        }
        t.file = (kilni_file_content){0};
    }
    text_done(&t);
    return refusal ? kilni_error_set(error, status, 0, "%s in %s", refusal, name) : status;
}

static kiln_status add_visit(kilni_opencl_includes *s, size_t text_index, size_t folder_index,
                             size_t depth, kiln_error *error)
{
    for (size_t i = 0; i < s->visits.count; i++) {
        const visit *v = visit_at(s, i);
        if (v->text == text_index && v->folder == folder_index) {
            return KILN_OK;
        }
    }
    if (depth > MAX_DEPTH || s->visits.count == MAX_VISITS) {
        return refuse(error, "includes that are nested too deeply");
    }
    visit v = {.text = text_index, .folder = folder_index, .depth = depth};
    return append(&s->visits, &v, sizeof v);
}

kiln_status kilni_opencl_includes_add_text(kilni_opencl_includes *includes, const void *bytes,
                                           size_t size, const char *name, kiln_error *error)
{
    kiln_status status = add_text(includes, bytes, size, &(kilni_file_content){0}, name, error);
    return status == KILN_OK ? add_visit(includes, includes->texts.count - 1, 0, 0, error) : status;
}

/* ---- folders and files ---- */

/* The folder of a path. KILN_MISS: it isn't there. */
static kiln_status find_folder(kilni_opencl_includes *s, const char *path, size_t *ret_folder,
                               kiln_error *error)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    folder f = {.path = strndup(path, length)};
    if (!f.path) {
        return KILN_E_NO_MEMORY;
    }
    struct stat facts;
    if (kilni_os()->fstatat(AT_FDCWD, length ? f.path : ".", &facts, 0) != 0) {
        const int number = errno;
        free(f.path);
        return kilni_status_from_errno(number) == KILN_MISS
                   ? KILN_MISS
                   : kilni_error_set(error, KILN_E_UNSUPPORTED, number,
                                     "a folder that can't be looked at, of %s", path);
    }
    f.device = facts.st_dev;
    f.inode = facts.st_ino;
    for (size_t i = 1; i < s->folders.count; i++) {
        const folder *known = folder_at(s, i);
        if (known->device == f.device && known->inode == f.inode) {
            free(f.path);
            *ret_folder = i;
            return KILN_OK;
        }
    }
    kiln_status status = append(&s->folders, &f, sizeof f);
    if (status != KILN_OK) {
        free(f.path);
        return status;
    }
    *ret_folder = s->folders.count - 1;
    return KILN_OK;
}

static size_t find_text(const kilni_opencl_includes *s, const struct stat *facts)
{
    for (size_t i = 0; i < s->texts.count; i++) {
        const text *t = text_at(s, i);
        if (t->file.bytes && t->file.device == facts->st_dev && t->file.inode == facts->st_ino) {
            return i;
        }
    }
    return none;
}

/* Reads and scans a file. */
static kiln_status add_file(kilni_opencl_includes *s, const char *path, kiln_error *error)
{
    kilni_file_content file;
    if (s->file_count == MAX_FILES) {
        return refuse(error, "too many includes");
    }
    kiln_status status = kilni_file_content_read(path, MAX_BYTES - s->bytes, &file);
    if (status == KILN_E_NO_MEMORY) {
        return status;
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "an include that is too large, no file, or can't be read: %s", path);
    }
    s->file_count++;
    s->bytes += file.size;
    status = add_text(s, file.bytes, file.size, &file, path, error);
    if (status != KILN_OK) {
        kilni_file_content_done(&file);
    }
    return status;
}

/* Takes the file of a path into account, where there is one: KILN_MISS where there is none. */
static kiln_status take_path(kilni_opencl_includes *s, const char *path, size_t depth,
                             finding *ret_finding, kiln_error *error)
{
    struct stat facts;
    if (kilni_os()->fstatat(AT_FDCWD, path, &facts, 0) != 0) {
        return kilni_status_from_errno(errno) == KILN_MISS
                   ? KILN_MISS
                   : kilni_error_set(error, KILN_E_UNSUPPORTED, errno,
                                     "an include that can't be looked at: %s", path);
    }
    size_t folder_index = none;
    kiln_status status = find_folder(s, path, &folder_index, error);
    if (status != KILN_OK) {
        return status == KILN_MISS ? refuse(error, "a folder of includes that went away meanwhile")
                                   : status;
    }
    ret_finding->text = find_text(s, &facts);
    ret_finding->repeated = ret_finding->text != none;
    if (!ret_finding->repeated) {
        status = add_file(s, path, error);
        ret_finding->text = s->texts.count - 1;
    }
    return status == KILN_OK ? add_visit(s, ret_finding->text, folder_index, depth + 1, error)
                             : status;
}

/* ---- embedded headers ---- */

static bool has_parent_step(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")) != NULL; at++) {
        const bool begins = at == path || at[-1] == '/';
        if (begins && (at[2] == '/' || at[2] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Takes into account that a driver may find an embedded header by a path: what it includes is then
 * looked for in the folder of that path, which nobody need have made. */
static kiln_status visit_header(kilni_opencl_includes *s, const embedded_header *header,
                                const char *path, size_t depth, kiln_error *error)
{
    size_t folder_index = 0;
    const kiln_status status = find_folder(s, path, &folder_index, error);
    return status == KILN_OK || status == KILN_MISS
               ? add_visit(s, header->text, folder_index, depth, error)
               : status;
}

kiln_status kilni_opencl_includes_add_header(kilni_opencl_includes *includes, const void *bytes,
                                             size_t size, const char *name, kiln_error *error)
{
    if (has_parent_step(name)) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "an embedded header by the name of %s",
                               name);
    }
    kiln_status status = add_text(includes, bytes, size, &(kilni_file_content){0}, name, error);
    if (status != KILN_OK) {
        return status;
    }
    const embedded_header header = {.name = name, .text = includes->texts.count - 1};
    status = append(&includes->headers, &header, sizeof header);
    return status == KILN_OK ? visit_header(includes, &header, name, 0, error) : status;
}

static const char *file_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* By "a/../b.h" a driver may find the embedded "b.h", since it drops "a/.." from the text. The file
 * system, which it asks for what b.h includes, may follow a link at "a". */
static kiln_status visit_headers_behind(kilni_opencl_includes *s, const char *path, size_t depth,
                                        kiln_error *error)
{
    kiln_status status = KILN_OK;
    const bool may_be_shortened = s->headers.count > 0 && has_parent_step(path);
    for (size_t i = 0; may_be_shortened && i < s->headers.count && status == KILN_OK; i++) {
        const embedded_header *header = header_at(s, i);
        if (strcmp(file_name_of(header->name), file_name_of(path)) == 0) {
            status = visit_header(s, header, path, depth + 1, error);
        }
    }
    return status;
}

/* ---- looking for a name ---- */

static kiln_status look_in(kilni_opencl_includes *s, finding found, const char *path, size_t depth,
                           kiln_error *error)
{
    kiln_status status = visit_headers_behind(s, path, depth, error);
    if (status == KILN_OK) {
        status = take_path(s, path, depth, &found, error);
    }
    if (status == KILN_MISS) {
        return KILN_OK;
    }
    if (status == KILN_OK) {
        status = append(&s->findings, &found, sizeof found);
    }
    return status;
}

/* @path is a folder's, "" for the working directory. */
static kiln_status look_in_folder(kilni_opencl_includes *s, finding found, const char *path,
                                  const char *name, size_t depth, kiln_error *error)
{
    kilni_text joined = {0};
    size_t length = strlen(path);
    const char *between = length > 0 && path[length - 1] != '/' ? "/" : "";
    kiln_status status = kilni_text_printf(&joined, "%s%s%s", path, between, name);
    if (status == KILN_OK) {
        status = look_in(s, found, joined.bytes, depth, error);
    }
    kilni_text_done(&joined);
    return status;
}

static kiln_status look_in_search_folders(kilni_opencl_includes *s, const char *name, size_t depth,
                                          kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < s->search_folder_count && status == KILN_OK; i++) {
        const char *path = s->search_folders[i];
        finding found = {.prefix = "-I ", .place = path};
        status = look_in_folder(s, found, path, name, depth, error);
    }
    return status;
}

/* The places that every driver looks in, whatever the options are: the working directory; the
 * folder of a compiler's own headers, which is relative if a driver doesn't say where that is; the
 * system's. */
enum { FIXED_PLACE_COUNT = 5 };

static void fixed_places(const kilni_opencl_includes *s, place ret_places[FIXED_PLACE_COUNT])
{
    const place places[FIXED_PLACE_COUNT] = {{"working directory", ""},
                                             {"include", "include"},
                                             {"/usr/local/include", "/usr/local/include"},
                                             {"/usr/include", "/usr/include"},
                                             {"driver's folder", s->driver_folder}};
    memcpy(ret_places, places, sizeof places);
}

static kiln_status look_in_fixed_places(kilni_opencl_includes *s, const char *name, size_t depth,
                                        kiln_error *error)
{
    place places[FIXED_PLACE_COUNT];
    fixed_places(s, places);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < FIXED_PLACE_COUNT && status == KILN_OK; i++) {
        finding found = {.prefix = "", .place = places[i].label};
        status = look_in_folder(s, found, places[i].path, name, depth, error);
    }
    return status;
}

/* Clang reads a file in the place of a folder as a header map, which leads from the names of
 * headers to files anywhere. */
static kiln_status refuse_header_map(const char *path, kiln_error *error)
{
    struct stat facts;
    const bool is_there = kilni_os()->fstatat(AT_FDCWD, *path ? path : ".", &facts, 0) == 0;
    if (is_there ? S_ISDIR(facts.st_mode) : kilni_status_from_errno(errno) == KILN_MISS) {
        return KILN_OK;
    }
    return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                           "a folder of includes that is no directory, or can't be looked at: %s",
                           path);
}

static kiln_status refuse_header_maps(const kilni_opencl_includes *s, kiln_error *error)
{
    place places[FIXED_PLACE_COUNT];
    fixed_places(s, places);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < s->search_folder_count && status == KILN_OK; i++) {
        status = refuse_header_map(s->search_folders[i], error);
    }
    for (size_t i = 0; i < FIXED_PLACE_COUNT && status == KILN_OK; i++) {
        status = refuse_header_map(places[i].path, error);
    }
    return status;
}

static kiln_status look_everywhere(kilni_opencl_includes *s, size_t folder_index, const char *name,
                                   size_t depth, kiln_error *error)
{
    if (*name == '/') {
        return look_in(s, (finding){.prefix = "", .place = "/"}, name, depth, error);
    }
    kiln_status status = KILN_OK;
    if (folder_index != 0) {
        finding found = {.prefix = "", .place = "including file's folder"};
        /* Appending a folder may move the list, never a path. */
        const char *path = folder_at(s, folder_index)->path;
        status = look_in_folder(s, found, path, name, depth, error);
    }
    if (status == KILN_OK) {
        status = look_in_search_folders(s, name, depth, error);
    }
    return status == KILN_OK ? look_in_fixed_places(s, name, depth, error) : status;
}

static bool was_looked_for(const kilni_opencl_includes *s, const lookup *wanted)
{
    for (size_t i = 0; i < s->lookups.count; i++) {
        const lookup *l = lookup_at(s, i);
        if (l->folder == wanted->folder && l->length == wanted->length &&
            memcmp(&l->digest, &wanted->digest, sizeof l->digest) == 0 &&
            memcmp(l->name, wanted->name, l->length) == 0) {
            return true;
        }
    }
    return false;
}

/* @name with its delimiters, @length bytes. */
static kiln_status look_for(kilni_opencl_includes *s, const visit *from, const char *name,
                            size_t length, kiln_error *error)
{
    lookup l = {.folder = from->folder, .name = strndup(name, length), .length = length};
    if (!l.name) {
        return KILN_E_NO_MEMORY;
    }
    l.digest = kilni_hash(l.name, length);
    l.first_finding = s->findings.count;
    if (was_looked_for(s, &l)) {
        free(l.name);
        return KILN_OK;
    }
    if (s->lookups.count == MAX_LOOKUPS || length < 3) {
        free(l.name);
        return refuse(error, length < 3 ? "an include without a name" : "too many includes");
    }
    kiln_status status = s->lookups.count == 0 ? refuse_header_maps(s, error) : KILN_OK;
    if (status == KILN_OK) {
        status = append(&s->lookups, &l, sizeof l);
    }
    if (status != KILN_OK) {
        free(l.name);
        return status;
    }
    size_t index = s->lookups.count - 1;
    char *bare = strndup(name + 1, length - 2);
    status = bare ? look_everywhere(s, from->folder, bare, from->depth, error) : KILN_E_NO_MEMORY;
    free(bare);
    lookup_at(s, index)->finding_count = s->findings.count - l.first_finding;
    return status;
}

/* ---- following ---- */

/* The header names of one computed include, each with a newline: looking for them while macros
 * are expanded would add definitions meanwhile. */
static kiln_status collect_name(void *user, const char *name, size_t length)
{
    if (memchr(name, '\n', length) || memchr(name, '\0', length)) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = kilni_text_append_bytes(user, name, length);
    return status == KILN_OK ? kilni_text_append(user, "\n") : status;
}

static kiln_status look_for_lines(kilni_opencl_includes *s, const visit *from,
                                  const kilni_text *lines, kiln_error *error)
{
    kiln_status status = KILN_OK;
    size_t at = 0;
    while (status == KILN_OK && at < lines->length) {
        const char *name = lines->bytes + at;
        size_t length = (size_t)(strchr(name, '\n') - name);
        status = look_for(s, from, name, length, error);
        at += length + 1;
    }
    return status;
}

static kiln_status look_for_computed(kilni_opencl_includes *s, const visit *from,
                                     const kilni_include *include, kiln_error *error)
{
    kilni_text names = {0};
    const char *refusal = NULL;
    kiln_status status = kilni_macros_expand_include(&s->macros, include->text, include->length,
                                                     collect_name, &names, &refusal);
    bool named = status == KILN_OK;
    if (named) {
        status = look_for_lines(s, from, &names, error);
    }
    kilni_text_done(&names);
    if (status == KILN_E_UNSUPPORTED && !named) {
        return refuse(error, refusal ? refusal : "an include with a name that can't be read");
    }
    return status;
}

/* Looks for all that a visited text includes: as it stands, or by macros. */
static kiln_status follow_visit(kilni_opencl_includes *s, size_t index, bool computed,
                                kiln_error *error)
{
    visit v = *visit_at(s, index);
    size_t count = text_at(s, v.text)->directives.count;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        /* The list of texts may move as files are found; what a directive points to stays. */
        kilni_include include = text_at(s, v.text)->directives.includes[i];
        if (include.computed != computed) {
            continue;
        }
        status = computed ? look_for_computed(s, &v, &include, error)
                          : look_for(s, &v, include.text, include.length, error);
    }
    return status;
}

/* What macros come to depends on the definitions of every text: names that stand as they are go
 * first, and those that macros make are tried anew until nothing more is found. */
kiln_status kilni_opencl_includes_follow(kilni_opencl_includes *s, kiln_error *error)
{
    size_t plain = 0;
    for (size_t round = 0; round < MAX_ROUNDS; round++) {
        size_t before = s->lookups.count;
        kiln_status status = KILN_OK;
        while (plain < s->visits.count && status == KILN_OK) {
            status = follow_visit(s, plain++, false, error);
        }
        for (size_t i = 0; i < s->visits.count && status == KILN_OK; i++) {
            status = follow_visit(s, i, true, error);
        }
        if (status != KILN_OK) {
            return status;
        }
        if (round > 0 && s->lookups.count == before && plain == s->visits.count) {
            const char *refusal = kilni_hazards_verdict(&s->hazards);
            return refusal ? refuse(error, refusal) : KILN_OK;
        }
    }
    return refuse(error, "includes made by macros that never end");
}

/* ---- the key ---- */

static kiln_status add_finding(const kilni_opencl_includes *s, const finding *found,
                               kiln_key_builder *key)
{
    kilni_text where = {0};
    kiln_status status = kilni_text_printf(&where, "%s%s", found->prefix, found->place);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(key, "include.place", where.bytes);
    }
    kilni_text_done(&where);
    if (status != KILN_OK) {
        return status;
    }
    const kilni_file_content *file = &text_at(s, found->text)->file;
    return found->repeated ? kiln_key_builder_add_number(key, "include.same", found->text)
                           : kiln_key_builder_add(key, "include.content", file->bytes, file->size);
}

static kiln_status add_lookup(const kilni_opencl_includes *s, const lookup *l,
                              kiln_key_builder *key)
{
    kiln_status status = kiln_key_builder_add(key, "include", l->name, l->length);
    for (size_t i = 0; i < l->finding_count && status == KILN_OK; i++) {
        status = add_finding(s, finding_at(s, l->first_finding + i), key);
    }
    return status;
}

/* Where the build's texts ask for a file's name, drivers answer with paths that hold the working
 * directory. */
static kiln_status add_directory(const kilni_opencl_includes *s, kiln_key_builder *key)
{
    if (!s->hazards.uses_file_name) {
        return KILN_OK;
    }
    char *path = getcwd(NULL, 0);
    kiln_status status =
        path ? kiln_key_builder_add_text(key, "working directory", path) : KILN_E_UNSUPPORTED;
    free(path);
    return status;
}

kiln_status kilni_opencl_includes_add_to_key(const kilni_opencl_includes *s, kiln_key_builder *key)
{
    kiln_status status = add_directory(s, key);
    for (size_t i = 0; i < s->lookups.count && status == KILN_OK; i++) {
        status = add_lookup(s, lookup_at(s, i), key);
    }
    return status;
}
