/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding, little-endian: whether the result is movable u8; if not, the folder of the
 * program's name; the count of reads u32, and for each its kind u8, what was found u8,
 * whether the path is relative to the folder of the name u8, the path; for a file its size u64, the
 * BLAKE2b-256 of its content; for a file or a folder the index u32 of the first read that led to
 * the same one; for a link its target.
 */
#include "device/watch/reads.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "device/file_content.h"
#include "device/watch/encoding.h"
#include "device/watch/inputs.h"
#include "key/hash.h"
#include "os/file.h"
#include "os/os.h"

enum { MAX_READS = 16384, MAX_FILE_BYTES = 64 << 20, DIGEST_BYTES = 32 };

/* Stored values. */
typedef enum read_kind {
    READ_CONTENT = 1,
    READ_LINK = 2,
    READ_REAL_PATH = 3,
    READ_REAL_NAMES = 4 /* the last names of the real path: as many as the path itself has */
} read_kind;

typedef struct found {
    kilni_finding what;
    uint64_t size;
    unsigned char digest[DIGEST_BYTES];
    dev_t device;
    ino_t inode;
    char text[PATH_MAX]; /* for KILNI_FOUND_LINK */
} found;

/* What was found for one path. The text of a link is stored after the path. */
typedef struct read_record {
    read_kind kind;
    kilni_finding what;
    char *path; /* followed, after its zero byte, by the text of a link with its own zero byte */
    kiln_digest path_digest;
    uint64_t size;
    unsigned char digest[DIGEST_BYTES];
    dev_t device;
    ino_t inode;
    uint32_t same;
} read_record;

struct kilni_reads {
    const char *name; /* of the program; NULL: none */
    bool mentions_folder;
    kilni_reads_ignore_fn *ignore; /* NULL: nothing is ignored */
    const void *ignore_user;
    char *working_folder;      /* NULL: see kilni_reads_count_working_folder */
    char *spelled_folder;      /* the same, as PWD spells it; NULL: PWD does not name it */
    bool uses_working_folder;  /* a path in it was noted, from the root on */
    bool names_working_folder; /* in the options */
    bool names_spelled_folder; /* the options name what PWD names, whether or not it is the same */
    read_record *items;
    size_t count;
    size_t capacity;
    char *opened;        /* the path that was opened last; NULL: none that is noted */
    const char *failure; /* why the result cannot be kept; NULL: it can */
    int is_out_of_memory;
    kilni_words words;
};

/* ---- looking ---- */

/* @collector  collects what the content says; NULL: nothing is collected */
static void see_file(const kilni_file_content *file, kilni_reads *collector, found *ret_found)
{
    ret_found->what = KILNI_FOUND_FILE;
    ret_found->size = file->size;
    ret_found->device = file->device;
    ret_found->inode = file->inode;
    crypto_generichash(ret_found->digest, DIGEST_BYTES, file->bytes, file->size, NULL, 0);
    if (collector) {
        kilni_words_scan_file(&collector->words, file->bytes, file->size);
        collector->mentions_folder |=
            kilni_text_has_program_folder(collector->name, file->bytes, file->size);
    }
}

static bool see_folder(const char *path, found *ret_found)
{
    struct stat facts;
    if (kilni_os()->fstatat(AT_FDCWD, path, &facts, 0) != 0 || !S_ISDIR(facts.st_mode)) {
        return false;
    }
    ret_found->what = KILNI_FOUND_FOLDER;
    ret_found->device = facts.st_dev;
    ret_found->inode = facts.st_ino;
    return true;
}

static kiln_status look_at_content(const char *path, kilni_reads *collector, found *ret_found)
{
    kilni_file_content file;
    const kiln_status status = kilni_file_content_read(path, MAX_FILE_BYTES, &file);
    if (status == KILN_OK) {
        see_file(&file, collector, ret_found);
        kilni_file_content_done(&file);
    } else if (status == KILN_MISS) {
        ret_found->what = KILNI_FOUND_NOTHING;
    } else if (status != KILN_E_DENIED || !see_folder(path, ret_found)) {
        return status == KILN_E_NO_MEMORY ? status : KILN_E_UNSUPPORTED;
    }
    return KILN_OK;
}

static kiln_status look_at_link(const char *path, found *ret_found)
{
    const ssize_t length =
        kilni_os()->readlinkat(AT_FDCWD, path, ret_found->text, sizeof ret_found->text - 1);
    if (length < 0) {
        ret_found->what = KILNI_FOUND_NOTHING;
        return errno == EINVAL || kilni_status_from_errno(errno) == KILN_MISS ? KILN_OK
                                                                              : KILN_E_UNSUPPORTED;
    }
    ret_found->what = KILNI_FOUND_LINK;
    ret_found->text[length] = '\0';
    return KILN_OK;
}

static kiln_status look_at_real_path(const char *path, found *ret_found)
{
    if (!realpath(path, ret_found->text)) {
        ret_found->what = KILNI_FOUND_NOTHING;
        return kilni_status_from_errno(errno) == KILN_MISS ? KILN_OK : KILN_E_UNSUPPORTED;
    }
    ret_found->what = KILNI_FOUND_LINK;
    return KILN_OK;
}

/* How many names a path has, from its last ".." on. */
static size_t count_names(const char *path)
{
    size_t count = 0;
    for (const char *at = path + strspn(path, "/"); *at; at += strspn(at, "/")) {
        const size_t length = strcspn(at, "/");
        const bool is_dots = *at == '.' && (length == 1 || (length == 2 && at[1] == '.'));
        count = !is_dots ? count + 1 : length == 2 ? 0 : count;
        at += length;
    }
    return count;
}

static kiln_status look_at_real_names(const char *path, found *ret_found)
{
    const kiln_status status = look_at_real_path(path, ret_found);
    if (status == KILN_OK && ret_found->what == KILNI_FOUND_LINK) {
        char *at = ret_found->text + strlen(ret_found->text);
        for (size_t left = count_names(path); at > ret_found->text; at--) {
            if (*at == '/' && left-- <= 1) {
                break;
            }
        }
        memmove(ret_found->text, at, strlen(at) + 1);
    }
    return status;
}

/* Returns KILN_E_UNSUPPORTED if it cannot be determined, or if the path is neither a regular file
 * nor a folder. */
static kiln_status look(read_kind kind, const char *path, kilni_reads *collector, found *ret_found)
{
    switch (kind) {
    case READ_CONTENT:
        return look_at_content(path, collector, ret_found);
    case READ_LINK:
        return look_at_link(path, ret_found);
    case READ_REAL_PATH:
        return look_at_real_path(path, ret_found);
    case READ_REAL_NAMES:
        return look_at_real_names(path, ret_found);
    }
    return KILN_E_CORRUPT;
}

/* ---- noting ---- */

kiln_status kilni_reads_new(const char *name, const kilni_word_list *words, kilni_reads **ret_reads)
{
    kilni_reads *reads = calloc(1, sizeof *reads);
    if (!reads) {
        return KILN_E_NO_MEMORY;
    }
    reads->name = name;
    reads->words.list = words;
    *ret_reads = reads;
    return KILN_OK;
}

void kilni_reads_free(kilni_reads **reads)
{
    if (!*reads) {
        return;
    }
    for (size_t i = 0; i < (*reads)->count; i++) {
        free((*reads)->items[i].path);
    }
    free((*reads)->items);
    free((*reads)->opened);
    free((*reads)->working_folder);
    free((*reads)->spelled_folder);
    free(*reads);
    *reads = NULL;
}

void kilni_reads_ignore(kilni_reads *reads, kilni_reads_ignore_fn *ignore, const void *user)
{
    reads->ignore = ignore;
    reads->ignore_user = user;
}

static bool is_ignored(const kilni_reads *reads, const char *path)
{
    return reads->ignore && reads->ignore(reads->ignore_user, path);
}

void kilni_reads_note_change(kilni_reads *reads, const char *path)
{
    if (!path || !is_ignored(reads, path)) {
        kilni_reads_fail(reads, "a file is written, made, renamed or removed");
    }
}

void kilni_reads_fail(kilni_reads *reads, const char *why)
{
    reads->failure = reads->failure ? reads->failure : why;
}

static int is_known(const kilni_reads *reads, read_kind kind, const kiln_digest *path_digest,
                    const char *path)
{
    for (size_t i = reads->count; i > 0; i--) {
        const read_record *known = &reads->items[i - 1];
        if (memcmp(&known->path_digest, path_digest, sizeof *path_digest) == 0 &&
            known->kind == kind && strcmp(known->path, path) == 0) {
            return 1;
        }
    }
    return 0;
}

static kiln_status reserve(kilni_reads *reads)
{
    if (reads->count < reads->capacity) {
        return KILN_OK;
    }
    const size_t capacity = reads->capacity ? 2 * reads->capacity : 64;
    read_record *grown = realloc(reads->items, capacity * sizeof *grown);
    if (!grown) {
        return KILN_E_NO_MEMORY;
    }
    reads->items = grown;
    reads->capacity = capacity;
    return KILN_OK;
}

static char *join_texts(const char *path, const char *text)
{
    const size_t path_size = strlen(path) + 1, text_size = strlen(text) + 1;
    char *joined = malloc(path_size + text_size);
    if (joined) {
        memcpy(joined, path, path_size);
        memcpy(joined + path_size, text, text_size);
    }
    return joined;
}

static bool has_identity(kilni_finding what)
{
    return what == KILNI_FOUND_FILE || what == KILNI_FOUND_FOLDER;
}

/* Returns the index of the first read that led to the same file or folder. */
static uint32_t first_with(const read_record *items, size_t count, dev_t device, ino_t inode)
{
    size_t i = 0;
    while (i < count &&
           (!has_identity(items[i].what) || items[i].device != device || items[i].inode != inode)) {
        i++;
    }
    return (uint32_t)i;
}

static kiln_status add(kilni_reads *reads, read_kind kind, const char *path,
                       const kiln_digest *path_digest, const found *seen)
{
    kiln_status status = reserve(reads);
    char *joined = status == KILN_OK
                       ? join_texts(path, seen->what == KILNI_FOUND_LINK ? seen->text : "")
                       : NULL;
    if (!joined) {
        return KILN_E_NO_MEMORY;
    }
    read_record *added = &reads->items[reads->count];
    *added = (read_record){.kind = kind,
                           .what = seen->what,
                           .path = joined,
                           .path_digest = *path_digest,
                           .size = seen->size,
                           .device = seen->device,
                           .inode = seen->inode};
    memcpy(added->digest, seen->digest, sizeof added->digest);
    added->same = first_with(reads->items, reads->count, seen->device, seen->inode);
    reads->count++;
    return status;
}

/* Whether the path is one in the folder, but not the folder itself. */
static bool is_below(const char *folder, const char *path)
{
    const size_t length = folder ? strlen(folder) : 0;
    const size_t end = length > 0 && folder[length - 1] == '/' ? length - 1 : length;
    return length > 0 && strncmp(path, folder, end) == 0 && path[end] == '/' &&
           path[end + strspn(path + end, "/")] != '\0';
}

/* What is in the folder of the name is not found by way of the working directory. */
static void see_place(kilni_reads *reads, const char *path)
{
    const size_t length = kilni_program_folder_length(reads->name);
    const bool is_beside_name = length > 0 && strncmp(path, reads->name, length) == 0;
    if (!is_beside_name) {
        reads->uses_working_folder |=
            is_below(reads->working_folder, path) || is_below(reads->spelled_folder, path);
    }
}

static void note(kilni_reads *reads, read_kind kind, const char *path)
{
    if (reads->failure || reads->is_out_of_memory || !path || is_ignored(reads, path)) {
        return;
    }
    see_place(reads, path);
    const kiln_digest path_digest = kilni_hash(path, strlen(path));
    if (is_known(reads, kind, &path_digest, path)) {
        return;
    }
    if (reads->count == MAX_READS) {
        kilni_reads_fail(reads, "too many files");
        return;
    }
    found seen = {0};
    kiln_status status = look(kind, path, reads, &seen);
    if (status == KILN_OK) {
        status = add(reads, kind, path, &path_digest, &seen);
    }
    if (status == KILN_E_NO_MEMORY) {
        reads->is_out_of_memory = 1;
    } else if (status != KILN_OK) {
        kilni_reads_fail(reads, "a path that cannot be read, or is neither a file nor a folder");
    }
}

void kilni_reads_note(kilni_reads *reads, const char *path)
{
    note(reads, READ_CONTENT, path);
}

void kilni_reads_note_opened(kilni_reads *reads, const char *path)
{
    kilni_reads_note(reads, path);
    free(reads->opened);
    reads->opened = path && !is_ignored(reads, path) ? strdup(path) : NULL;
}

void kilni_reads_note_real_names_of_opened(kilni_reads *reads, const char *unused)
{
    (void)unused;
    note(reads, READ_REAL_NAMES, reads->opened);
}

/* Compilers check whether PWD names the working directory, and if so spell the directory like that.
 * If a result may contain it, both are in its key; otherwise PWD does not matter. A file that a
 * compiler includes is opened as well, so that a file with this path is noted in any case. */
static bool asks_for_spelled_folder(const char *path)
{
    const char *spelled = getenv("PWD");
    found unused;
    return spelled && *path == '/' && strcmp(path, spelled) == 0 && see_folder(path, &unused);
}

void kilni_reads_note_facts(kilni_reads *reads, const char *path)
{
    if (path && reads->working_folder && !reads->names_working_folder &&
        strcmp(path, reads->working_folder) == 0) {
        kilni_reads_note(reads, ".");
    } else if (!path || reads->names_spelled_folder || !asks_for_spelled_folder(path)) {
        kilni_reads_note(reads, path);
    }
}

static bool is_same_folder(const char *path, const char *other)
{
    found first, second;
    return see_folder(path, &first) && see_folder(other, &second) &&
           first.device == second.device && first.inode == second.inode;
}

kiln_status kilni_reads_count_working_folder(kilni_reads *reads)
{
    const char *spelled = getenv("PWD");
    reads->working_folder = getcwd(NULL, 0);
    if (!reads->working_folder) {
        return errno == ENOMEM ? KILN_E_NO_MEMORY : KILN_E_UNSUPPORTED;
    }
    if (spelled && *spelled == '/' && is_same_folder(spelled, ".")) {
        reads->spelled_folder = strdup(spelled);
        return reads->spelled_folder ? KILN_OK : KILN_E_NO_MEMORY;
    }
    return KILN_OK;
}

/* Without what a shell or a compiler takes for quotes. Returns NULL if memory runs out. */
static char *without_quotes(const char *text)
{
    char *plain = strdup(text), *to = plain;
    for (const char *from = text; plain && *from; from++) {
        if (!strchr("\"'\\", *from)) {
            *to++ = *from;
        }
    }
    if (plain) {
        *to = '\0';
    }
    return plain;
}

static kiln_status find_folder(const char *folder, const char *plain_text, bool *is_found)
{
    if (!folder || *folder != '/') {
        return KILN_OK;
    }
    char *plain = without_quotes(folder);
    *is_found |= plain && strstr(plain_text, plain) != NULL;
    free(plain);
    return plain ? KILN_OK : KILN_E_NO_MEMORY;
}

kiln_status kilni_reads_see_options(kilni_reads *reads, const char *options)
{
    char *plain = without_quotes(options);
    kiln_status status =
        plain ? find_folder(reads->working_folder, plain, &reads->names_working_folder)
              : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        status = find_folder(getenv("PWD"), plain, &reads->names_spelled_folder);
    }
    free(plain);
    reads->uses_working_folder |=
        reads->names_working_folder || (reads->names_spelled_folder && reads->spelled_folder);
    return status;
}

void kilni_reads_note_link(kilni_reads *reads, const char *path)
{
    note(reads, READ_LINK, path);
}

void kilni_reads_note_real_path(kilni_reads *reads, const char *path)
{
    note(reads, READ_REAL_PATH, path);
}

/* ---- encoding ---- */

/* The folder of the program's name. */
typedef struct program_folder {
    const char *path; /* not terminated by a zero byte */
    size_t length;    /* 0: none */
    bool moves;
} program_folder;

static bool is_in(const program_folder *f, const char *path)
{
    return f->moves && f->length > 0 && strncmp(path, f->path, f->length) == 0;
}

static kiln_status append_path(kilni_text *text, const program_folder *f, const char *path)
{
    const bool is_relative = is_in(f, path);
    const kiln_status status = kilni_append_number(text, is_relative ? 1 : 0, 1);
    return status == KILN_OK ? kilni_append_text(text, is_relative ? path + f->length : path)
                             : status;
}

static kiln_status append_read(kilni_text *text, const program_folder *f, const read_record *r)
{
    kiln_status status = kilni_append_number(text, r->kind, 1);
    if (status == KILN_OK) {
        status = kilni_append_number(text, r->what, 1);
    }
    if (status == KILN_OK) {
        status = append_path(text, f, r->path);
    }
    if (status == KILN_OK && r->what == KILNI_FOUND_LINK) {
        status = kilni_append_text(text, r->path + strlen(r->path) + 1);
    }
    if (status == KILN_OK && r->what == KILNI_FOUND_FILE) {
        status = kilni_append_number(text, r->size, 8);
        if (status == KILN_OK) {
            status = kilni_text_append_bytes(text, r->digest, sizeof r->digest);
        }
    }
    return status == KILN_OK && has_identity(r->what) ? kilni_append_number(text, r->same, 4)
                                                      : status;
}

static kiln_status append_folder(kilni_text *text, const program_folder *f)
{
    kiln_status status = kilni_append_number(text, f->moves ? 1 : 0, 1);
    if (status == KILN_OK && !f->moves) {
        char *path = strndup(f->length > 0 ? f->path : "", f->length);
        status = path ? kilni_append_text(text, path) : KILN_E_NO_MEMORY;
        free(path);
    }
    return status;
}

static kiln_status encode(const kilni_reads *reads, const program_folder *f, kilni_text *text)
{
    kiln_status status = append_folder(text, f);
    if (status == KILN_OK) {
        status = kilni_append_number(text, reads->count, 4);
    }
    for (size_t i = 0; i < reads->count && status == KILN_OK; i++) {
        status = append_read(text, f, &reads->items[i]);
    }
    return status;
}

const kilni_words *kilni_reads_words(const kilni_reads *reads)
{
    return &reads->words;
}

bool kilni_reads_has_any(const kilni_reads *reads)
{
    return reads->count > 0;
}

bool kilni_reads_mention_folder(const kilni_reads *reads)
{
    return reads->mentions_folder;
}

bool kilni_reads_use_folder(const kilni_reads *reads)
{
    const size_t length = kilni_program_folder_length(reads->name);
    bool uses = false;
    for (size_t i = 0; i < reads->count && length > 0; i++) {
        uses |= reads->items[i].what == KILNI_FOUND_FILE &&
                strncmp(reads->items[i].path, reads->name, length) == 0;
    }
    return uses;
}

/* Ties the reads to the working directory, if they use it. */
static void settle_working_folder(kilni_reads *reads)
{
    char *now = reads->working_folder ? getcwd(NULL, 0) : NULL;
    if (reads->working_folder && (!now || strcmp(now, reads->working_folder) != 0)) {
        kilni_reads_fail(reads, "the working directory changes");
    } else if (reads->uses_working_folder) {
        kilni_reads_note_real_path(reads, ".");
    }
    free(now);
}

kiln_status kilni_reads_finish(kilni_reads *reads, bool moves, kilni_words *words,
                               kilni_text *ret_encoded, const char **ret_why)
{
    settle_working_folder(reads);
    const char *const name = reads->name;
    const program_folder f = {
        .path = name, .length = kilni_program_folder_length(name), .moves = moves};
    if (reads->is_out_of_memory) {
        return KILN_E_NO_MEMORY;
    }
    if (reads->failure) {
        *ret_why = reads->failure;
        return KILN_E_UNSUPPORTED;
    }
    kilni_text encoded = {0};
    kiln_status status = encode(reads, &f, &encoded);
    if (status == KILN_OK) {
        status = kilni_reads_hold((kiln_bytes){encoded.bytes, encoded.length}, name, NULL);
    }
    if (status != KILN_OK) {
        kilni_text_done(&encoded);
        *ret_why = "files changed during the compilation";
        return status == KILN_E_NO_MEMORY ? status : KILN_MISS;
    }
    kilni_words_add(words, &reads->words);
    *ret_encoded = encoded;
    return KILN_OK;
}

/* ---- checking again ---- */

/* One read as it is stored; points into the stored bytes. */
typedef struct stored_read {
    read_kind kind;
    kilni_finding what;
    bool is_relative;
    const char *path;
    const char *text;            /* of a link */
    uint64_t size;               /* these two are for a file */
    const unsigned char *digest; /* DIGEST_BYTES */
    uint32_t same;               /* for a file or a folder */
} stored_read;

/* A file or a folder that was found so far. */
typedef struct seen_file {
    dev_t device;
    ino_t inode;
    uint32_t index;
} seen_file;

typedef struct comparison {
    seen_file *files;
    size_t count;
    bool is_partial;         /* a read could not be checked, so the list of files is incomplete */
    const char *path;        /* the last path that was checked */
    kilni_read_visit *visit; /* called for each read; NULL: stop at the first difference */
    void *user;
    bool is_ended; /* by the visitor */
} comparison;

static void decode_file(kilni_byte_reader *reader, stored_read *read)
{
    read->size = kilni_read_u64(reader);
    read->digest = kilni_read_bytes(reader, DIGEST_BYTES);
}

static kiln_status decode_next(kilni_byte_reader *reader, stored_read *ret_read)
{
    const uint8_t kind = kilni_read_u8(reader), what = kilni_read_u8(reader);
    stored_read read = {.kind = (read_kind)kind, .what = (kilni_finding)what};
    read.is_relative = kilni_read_u8(reader) != 0;
    read.path = kilni_read_text(reader);
    read.text = what == KILNI_FOUND_LINK ? kilni_read_text(reader) : "";
    if (what == KILNI_FOUND_FILE) {
        decode_file(reader, &read);
    }
    if (has_identity(read.what)) {
        read.same = kilni_read_u32(reader);
    }
    if (reader->failed || !read.path || !read.text || kind < READ_CONTENT ||
        kind > READ_REAL_NAMES || what < KILNI_FOUND_NOTHING || what > KILNI_FOUND_LINK) {
        return KILN_E_CORRUPT;
    }
    *ret_read = read;
    return KILN_OK;
}

static uint32_t first_seen(comparison *c, uint32_t index, const found *now)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->files[i].device == now->device && c->files[i].inode == now->inode) {
            return c->files[i].index;
        }
    }
    c->files[c->count++] = (seen_file){.device = now->device, .inode = now->inode, .index = index};
    return index;
}

/* Takes files and folders. */
static kiln_status compare_file(comparison *c, uint32_t index, const stored_read *read,
                                const found *now)
{
    const bool is_same_file = read->same == first_seen(c, index, now);
    if (read->what == KILNI_FOUND_FILE &&
        (read->size != now->size || memcmp(read->digest, now->digest, DIGEST_BYTES) != 0)) {
        return KILN_MISS;
    }
    return is_same_file ? KILN_OK : c->is_partial ? KILN_E_UNSUPPORTED : KILN_MISS;
}

/* Returns the full path of a read for this program, or NULL if memory runs out. */
static char *path_of(bool is_relative, const char *path, const program_folder *f)
{
    const size_t before = is_relative ? f->length : 0, size = strlen(path) + 1;
    char *joined = malloc(before + size);
    if (joined) {
        if (before > 0) {
            memcpy(joined, f->path, before);
        }
        memcpy(joined + before, path, size);
    }
    return joined;
}

static kiln_status look_up(const stored_read *read, const program_folder *f, found *ret_found)
{
    if (read->is_relative && f->length == 0) {
        return KILN_E_UNSUPPORTED;
    }
    char *whole = path_of(read->is_relative, read->path, f);
    const kiln_status status = whole ? look(read->kind, whole, NULL, ret_found) : KILN_E_NO_MEMORY;
    free(whole);
    return status;
}

/* Returns KILN_OK: it is unchanged; KILN_MISS: it has changed; KILN_E_UNSUPPORTED: that cannot be
 * determined. */
static kiln_status compare(comparison *c, uint32_t index, const program_folder *f,
                           const stored_read *read)
{
    found now = {0};
    const kiln_status status = look_up(read, f, &now);
    if (status != KILN_OK) {
        c->is_partial = true;
        return status;
    }
    if (read->what != now.what) {
        return KILN_MISS;
    }
    if (has_identity(read->what)) {
        return compare_file(c, index, read, &now);
    }
    return read->what != KILNI_FOUND_LINK || strcmp(read->text, now.text) == 0 ? KILN_OK
                                                                               : KILN_MISS;
}

/* Decides whether to go on after a read whose present state is @now. */
static kiln_status visit_read(comparison *c, const stored_read *read, kiln_status now)
{
    c->path = read->path;
    if (now != KILN_OK && now != KILN_MISS && now != KILN_E_UNSUPPORTED) {
        return now;
    }
    if (!c->visit) {
        return now == KILN_OK ? KILN_OK : KILN_MISS;
    }
    const kilni_read told = {.path = read->path,
                             .found = read->what,
                             .counts_from_program = read->is_relative,
                             .size = read->size,
                             .now = now};
    c->is_ended = c->visit(c->user, &told) != 0;
    return KILN_OK;
}

static kiln_status decode_folder(kilni_byte_reader *reader, bool *ret_moves,
                                 const char **ret_folder)
{
    *ret_moves = kilni_read_u8(reader) != 0;
    *ret_folder = *ret_moves ? "" : kilni_read_text(reader);
    return reader->failed || !*ret_folder ? KILN_E_CORRUPT : KILN_OK;
}

/* Whether the result is valid in this folder. */
static kiln_status compare_folder(comparison *c, const program_folder *f, kilni_byte_reader *reader)
{
    bool moves;
    const char *folder;
    if (decode_folder(reader, &moves, &folder) != KILN_OK) {
        return KILN_E_CORRUPT;
    }
    c->path = folder;
    return moves || (strlen(folder) == f->length && memcmp(folder, f->path, f->length) == 0)
               ? KILN_OK
               : KILN_MISS;
}

static kiln_status compare_reads(comparison *c, const program_folder *f, kilni_byte_reader *reader)
{
    const uint32_t count = kilni_read_u32(reader);
    if (reader->failed || count > MAX_READS) {
        return KILN_E_CORRUPT;
    }
    c->files = malloc((count + 1) * sizeof *c->files);
    kiln_status status = c->files ? KILN_OK : KILN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count && status == KILN_OK && !c->is_ended; i++) {
        stored_read read;
        status = decode_next(reader, &read);
        if (status == KILN_OK) {
            status = visit_read(c, &read, compare(c, i, f, &read));
        }
    }
    free(c->files);
    return status == KILN_OK && !c->is_ended && reader->left != 0 ? KILN_E_CORRUPT : status;
}

kiln_status kilni_reads_hold(kiln_bytes encoded, const char *name, const char **ret_changed)
{
    const program_folder f = {.path = name ? name : "",
                              .length = kilni_program_folder_length(name)};
    kilni_byte_reader reader = {.at = encoded.data, .left = encoded.size};
    comparison c = {0};
    kiln_status status = compare_folder(&c, &f, &reader);
    if (status == KILN_OK) {
        status = compare_reads(&c, &f, &reader);
    }
    if (status == KILN_MISS && ret_changed) {
        *ret_changed = c.path;
    }
    return status;
}

kiln_status kilni_reads_each(kiln_bytes encoded, kilni_read_visit *visit, void *user)
{
    const program_folder unknown = {.path = ""};
    kilni_byte_reader reader = {.at = encoded.data, .left = encoded.size};
    comparison c = {.visit = visit, .user = user};
    bool moves;
    const char *folder;
    if (decode_folder(&reader, &moves, &folder) != KILN_OK) {
        return KILN_E_CORRUPT;
    }
    if (*folder != '\0') {
        const kilni_read place = {
            .path = folder, .found = KILNI_PROGRAM_FOLDER, .now = KILN_E_UNSUPPORTED};
        c.is_ended = visit(user, &place) != 0;
    }
    return c.is_ended ? KILN_OK : compare_reads(&c, &unknown, &reader);
}
