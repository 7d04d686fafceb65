/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/read_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/watch/content_digest.h"
#include "device/watch/inputs.h"
#include "device/watch/path_lookup.h"
#include "device/watch/scanned_files.h"
#include "device/watch/stored_reads.h"
#include "device/watch/working_folder.h"
#include "key/hash.h"
#include "os/os.h"

#define UNREADABLE "a path that cannot be read, or is neither a file nor a folder"

typedef struct read_record {
    kilni_lookup lookup;
    char *path; /* a link's target follows after the zero byte, with a zero byte of its own */
    kiln_digest path_digest;
    kilni_path_facts found;
    uint32_t same;      /* see kilni_stored_read */
    bool is_seen;       /* the compiler itself got this result, so it needs no check */
    bool lacks_content; /* the compiler has called stat on a file, but has not opened it */
} read_record;

struct kilni_reads {
    const char *name; /* of the program; NULL: none */
    bool mentions_folder;
    kilni_reads_ignore_fn *ignore; /* NULL: nothing is ignored */
    const void *ignore_user;
    const char *expected; /* see kilni_reads_expect_folders; NULL: none */
    char **made;          /* paths of the folders of that kind that the compilation has made */
    size_t made_count;
    kilni_working_folder working_folder; /* see kilni_reads_count_working_folder */
    bool uses_working_folder;            /* the result is valid only there */
    bool counts_spelled_folder;          /* queries of the folder that PWD names are recorded */
    bool counts_facts_alone;             /* see kilni_reads_count_facts_alone */
    read_record *items;
    size_t count;
    size_t capacity;
    const char *failure; /* why the result cannot be kept; NULL: it can */
    bool has_changed;    /* the compiler saw two different things at a path */
    bool is_out_of_memory;
    kilni_words words;
};

/* ---- recording ---- */

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
    for (size_t i = 0; i < (*reads)->made_count; i++) {
        free((*reads)->made[i]);
    }
    free((*reads)->made);
    kilni_working_folder_done(&(*reads)->working_folder);
    free(*reads);
    *reads = NULL;
}

void kilni_reads_ignore(kilni_reads *reads, kilni_reads_ignore_fn *ignore, const void *user)
{
    reads->ignore = ignore;
    reads->ignore_user = user;
}

/* ---- folders of the compiler's own ---- */

void kilni_reads_expect_folders(kilni_reads *reads, const char *beginning)
{
    reads->expected = beginning;
}

static bool leads_back(const char *path)
{
    const char *at = path;
    while ((at = strstr(at, "/..")) != NULL && at[3] != '/' && at[3] != '\0') {
        at++;
    }
    return at != NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_in(const char *folder, const char *path)
{
    const size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Returns true if a path leads into a folder that the compilation has made. The path is the
 * compiler's own if it leads nowhere else. */
static bool is_in_made_folder(const kilni_reads *reads, const char *path)
{
    bool is = false;
    for (size_t i = 0; i < reads->made_count && !is; i++) {
        is = is_in(reads->made[i], path);
    }
    return is;
}

/* Returns true if a path needs no record. */
static bool is_own(kilni_reads *reads, const char *path)
{
    if (!is_in_made_folder(reads, path)) {
        return false;
    }
    if (leads_back(path)) {
        kilni_reads_fail(reads, "a path leads out of the compiler's temporary folder");
    }
    return true;
}

void kilni_reads_note_made(kilni_reads *reads, const char *path)
{
    const bool is_expected =
        reads->expected && *path == '/' && !leads_back(path) &&
        strncmp(base_name(path), reads->expected, strlen(reads->expected)) == 0 &&
        !is_in_made_folder(reads, path);
    if (!is_expected) {
        kilni_reads_note_change(reads, path);
        return;
    }
    char **grown = realloc(reads->made, (reads->made_count + 1) * sizeof *grown);
    reads->made = grown ? grown : reads->made;
    char *copy = grown ? strdup(path) : NULL;
    if (copy) {
        reads->made[reads->made_count++] = copy;
    } else {
        reads->is_out_of_memory = true;
    }
}

bool kilni_reads_text_names_folder(const kilni_reads *reads, const void *text, size_t size)
{
    bool names = false;
    for (size_t i = 0; i < reads->made_count && size > 0 && !names; i++) {
        const char *name = base_name(reads->made[i]);
        names = memmem(text, size, name, strlen(name)) != NULL;
    }
    return names;
}

static bool is_ignored(kilni_reads *reads, const char *path)
{
    return is_own(reads, path) || (reads->ignore && reads->ignore(reads->ignore_user, path));
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

/* Returns the record of a path, or NULL if there is none. */
static read_record *find(const kilni_reads *reads, kilni_lookup lookup,
                         const kiln_digest *path_digest, const char *path)
{
    for (size_t i = reads->count; i > 0; i--) {
        read_record *known = &reads->items[i - 1];
        if (memcmp(&known->path_digest, path_digest, sizeof *path_digest) == 0 &&
            known->lookup == lookup && strcmp(known->path, path) == 0) {
            return known;
        }
    }
    return NULL;
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

/* Returns the index of the first read that led to the same file or folder. */
static uint32_t first_with(const kilni_reads *reads, dev_t device, ino_t inode)
{
    size_t i = 0;
    while (i < reads->count &&
           (!kilni_finding_has_identity(reads->items[i].found.what) ||
            reads->items[i].found.device != device || reads->items[i].found.inode != inode)) {
        i++;
    }
    return (uint32_t)i;
}

static kiln_status add(kilni_reads *reads, kilni_lookup lookup, const char *path,
                       const kiln_digest *path_digest, const kilni_path_facts *found,
                       const char *target)
{
    kiln_status status = reserve(reads);
    char *joined =
        status == KILN_OK
            ? join_texts(path, kilni_lookup_has_target(lookup, found->what) ? target : "")
            : NULL;
    if (!joined) {
        return KILN_E_NO_MEMORY;
    }
    const uint32_t same = first_with(reads, found->device, found->inode);
    reads->items[reads->count++] = (read_record){.lookup = lookup,
                                                 .path = joined,
                                                 .path_digest = *path_digest,
                                                 .found = *found,
                                                 .same = same};
    return status;
}

/* Records whether a path leads through the working directory. Paths in the folder of the program's
 * name do not count. */
static void record_use_of_working_folder(kilni_reads *reads, const char *path)
{
    const size_t length = kilni_program_folder_length(reads->name);
    const bool is_beside_name = length > 0 && strncmp(path, reads->name, length) == 0;
    if (!is_beside_name) {
        reads->uses_working_folder |= kilni_working_folder_contains(&reads->working_folder, path);
    }
}

static void scan_file(void *user, const kilni_path_facts *facts, const void *bytes)
{
    kilni_reads *reads = user;
    kilni_scanned_files_scan(&reads->words, facts, bytes);
    reads->mentions_folder |= kilni_text_has_program_folder(reads->name, bytes, facts->size);
}

/* Looks up a path and records it. Returns what was found, or 0 if the path could not be
 * recorded. */
static kiln_finding look_up(kilni_reads *reads, kilni_lookup lookup, const char *path,
                            const kiln_digest *path_digest)
{
    kilni_path_facts found = {0};
    char target[PATH_MAX];
    kiln_status status = kilni_path_look_up(lookup, path, scan_file, reads, &found, target);
    if (status == KILN_OK) {
        status = add(reads, lookup, path, path_digest, &found, target);
    }
    if (status == KILN_E_NO_MEMORY) {
        reads->is_out_of_memory = true;
    } else if (status != KILN_OK) {
        kilni_reads_fail(reads, UNREADABLE);
    }
    return status == KILN_OK ? found.what : 0;
}

/* Returns true if a path must be recorded. */
static bool wants(kilni_reads *reads, const char *path)
{
    if (reads->failure || reads->is_out_of_memory || !path || is_ignored(reads, path)) {
        return false;
    }
    record_use_of_working_folder(reads, path);
    return true;
}

static bool has_room(kilni_reads *reads)
{
    if (reads->count == KILNI_READS_MAX) {
        kilni_reads_fail(reads, "too many files");
        return false;
    }
    return true;
}

static void look_again(kilni_reads *reads, read_record *r);

/* Records a path, unless it is recorded already or ignored. Returns what was found when the path
 * was first recorded, or 0 if it is not recorded. */
static kiln_finding note(kilni_reads *reads, kilni_lookup lookup, const char *path)
{
    if (!wants(reads, path)) {
        return 0;
    }
    const kiln_digest path_digest = kilni_hash(path, strlen(path));
    read_record *known = find(reads, lookup, &path_digest, path);
    if (!known) {
        return has_room(reads) ? look_up(reads, lookup, path, &path_digest) : 0;
    }
    look_again(reads, known);
    return known->found.what;
}

void kilni_reads_note(kilni_reads *reads, const char *path)
{
    note(reads, KILNI_LOOKUP_CONTENT, path);
}

void kilni_reads_note_opened(kilni_reads *reads, const char *path)
{
    if (note(reads, KILNI_LOOKUP_CONTENT, path) == KILN_FOUND_FILE) {
        note(reads, KILNI_LOOKUP_REAL_NAMES, path);
    }
}

/* ---- what the compiler saw ---- */

static bool has_same_identity(const kilni_path_facts *a, const kilni_path_facts *b)
{
    return a->device == b->device && a->inode == b->inode;
}

/* Returns true if a second look at a path found what is recorded. The content of a file is compared
 * only if both looks have it. The identity of a folder may change, because some file systems make
 * up new numbers: see has_same_relations. */
static bool is_same(const read_record *r, const kilni_path_facts *now, bool has_content)
{
    const kilni_path_facts *found = &r->found;
    if (found->what != now->what || now->what != KILN_FOUND_FILE) {
        return found->what == now->what;
    }
    return has_same_identity(found, now) && found->size == now->size &&
           (!has_content || r->lacks_content ||
            memcmp(found->digest, now->digest, sizeof now->digest) == 0);
}

static void scan_bytes(kilni_reads *reads, kilni_lookup lookup, kilni_path_facts *facts,
                       const void *bytes)
{
    if (lookup == KILNI_LOOKUP_CONTENT && bytes) {
        kilni_content_digest(bytes, facts->size, facts->digest);
        scan_file(reads, facts, bytes);
    }
}

/* Adds a record. If the path has one already, compares the two. */
static void note_found(kilni_reads *reads, kilni_lookup lookup, const char *path,
                       const kilni_path_facts *found, bool has_content)
{
    const kiln_digest path_digest = kilni_hash(path, strlen(path));
    read_record *known = find(reads, lookup, &path_digest, path);
    if (!known) {
        if (!has_room(reads)) {
            return;
        }
        if (add(reads, lookup, path, &path_digest, found, "") != KILN_OK) {
            reads->is_out_of_memory = true;
            return;
        }
        known = &reads->items[reads->count - 1];
        known->is_seen = true;
        known->lacks_content = found->what == KILN_FOUND_FILE && !has_content;
    } else if (!is_same(known, found, has_content)) {
        reads->has_changed = true;
    } else if (known->lacks_content && has_content) {
        known->found = *found;
        known->lacks_content = false;
    } else if (!has_same_identity(&known->found, found)) {
        known->is_seen = false;
    }
}

/* Returns true if a query of a folder needs no record, because PWD names that folder. Compilers
 * only check whether PWD names the working directory, and use PWD as the directory's path if it
 * does. If this can affect results, the key contains PWD: for NVRTC, only results with debug
 * information contain the path; for OpenCL, see build_key.c. Files with this path are still
 * recorded, because compilers also open the files that they include. */
static bool is_folder_of_variable(const kilni_reads *reads, const kilni_seen *seen)
{
    const char *spelled = getenv("PWD");
    return !reads->counts_spelled_folder && spelled && *seen->path == '/' &&
           strcmp(seen->path, spelled) == 0 && seen->facts && S_ISDIR(seen->facts->st_mode);
}

void kilni_reads_note_seen(kilni_reads *reads, const kilni_seen *seen)
{
    const bool is_query = !seen->bytes;
    const bool is_working_folder = is_query && seen->path && reads->working_folder.path &&
                                   strcmp(seen->path, reads->working_folder.path) == 0;
    const char *path = is_working_folder ? "." : seen->path;
    if (!path || (!is_working_folder && is_query && is_folder_of_variable(reads, seen)) ||
        !wants(reads, path)) {
        return;
    }
    const kilni_lookup lookup =
        is_query && reads->counts_facts_alone ? KILNI_LOOKUP_FACTS : KILNI_LOOKUP_CONTENT;
    kilni_path_facts found;
    if (kilni_path_describe(seen->facts, seen->error, &found) != KILN_OK) {
        kilni_reads_fail(reads, UNREADABLE);
        return;
    }
    scan_bytes(reads, lookup, &found, seen->bytes);
    note_found(reads, lookup, path, &found, lookup == KILNI_LOOKUP_FACTS || seen->bytes);
}

void kilni_reads_note_unseen(kilni_reads *reads, const char *path)
{
    for (size_t i = 0; i < reads->count; i++) {
        reads->items[i].is_seen &= strcmp(reads->items[i].path, path) != 0;
    }
}

void kilni_reads_note_contradiction(kilni_reads *reads, const char *path)
{
    if (wants(reads, path)) {
        reads->has_changed = true;
    }
}

/* Looks up a path whose record is what the compiler saw. This is necessary if the compiler is about
 * to use the path in a way that Kiln does not see, or has called stat on a file whose content is
 * not recorded yet. From now on, the record needs the check at the end. */
static void look_again(kilni_reads *reads, read_record *r)
{
    if (!r->is_seen && !r->lacks_content) {
        return;
    }
    kilni_path_facts now = {0};
    kilni_content_fn *scan = r->lacks_content ? scan_file : NULL;
    const kiln_status status = kilni_path_look_up(r->lookup, r->path, scan, reads, &now, NULL);
    if (status == KILN_E_NO_MEMORY) {
        reads->is_out_of_memory = true;
    } else if (status != KILN_OK) {
        kilni_reads_fail(reads, UNREADABLE);
    } else if (!is_same(r, &now, true)) {
        reads->has_changed = true;
    } else if (now.what == KILN_FOUND_FILE) {
        r->found = now;
    }
    r->is_seen = false;
    r->lacks_content = false;
}

void kilni_reads_note_query(kilni_reads *reads, const char *path)
{
    note(reads, reads->counts_facts_alone ? KILNI_LOOKUP_FACTS : KILNI_LOOKUP_CONTENT, path);
}

void kilni_reads_count_facts_alone(kilni_reads *reads)
{
    reads->counts_facts_alone = true;
}

void kilni_reads_count_spelled_folder(kilni_reads *reads)
{
    reads->counts_spelled_folder = true;
}

kiln_status kilni_reads_count_working_folder(kilni_reads *reads)
{
    return kilni_working_folder_find(&reads->working_folder);
}

/* Returns a copy without the characters that a shell or a compiler treats as quotes. Returns NULL
 * if memory runs out. */
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

kiln_status kilni_reads_see_options(kilni_reads *reads, const char *options)
{
    const char *variable = getenv("PWD");
    char *plain = without_quotes(options), *spelled = without_quotes(variable ? variable : "");
    const kiln_status status = plain && spelled ? KILN_OK : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        reads->counts_spelled_folder |= *spelled == '/' && strstr(plain, spelled);
        reads->uses_working_folder |= kilni_working_folder_is_named(&reads->working_folder, plain);
    }
    free(plain);
    free(spelled);
    return status;
}

void kilni_reads_note_link(kilni_reads *reads, const char *path)
{
    note(reads, KILNI_LOOKUP_LINK, path);
}

void kilni_reads_note_real_path(kilni_reads *reads, const char *path)
{
    note(reads, KILNI_LOOKUP_REAL_PATH, path);
}

void kilni_reads_note_listing(kilni_reads *reads, const char *path)
{
    note(reads, KILNI_LOOKUP_LISTING, path);
}

void kilni_reads_add_all(kilni_reads *reads, const kilni_reads *others)
{
    for (size_t i = 0; i < others->count && !reads->failure && !reads->is_out_of_memory; i++) {
        const read_record *r = &others->items[i];
        if (reads->count == KILNI_READS_MAX) {
            kilni_reads_fail(reads, "too many files");
        } else if (add(reads, r->lookup, r->path, &r->path_digest, &r->found,
                       r->path + strlen(r->path) + 1) != KILN_OK) {
            reads->is_out_of_memory = true;
        } else {
            reads->items[reads->count - 1].lacks_content = r->lacks_content;
        }
    }
    if (others->failure) {
        kilni_reads_fail(reads, others->failure);
    }
    reads->is_out_of_memory |= others->is_out_of_memory;
    reads->has_changed |= others->has_changed;
    reads->uses_working_folder |= others->uses_working_folder;
    reads->mentions_folder |= others->mentions_folder;
    kilni_words_add(&reads->words, &others->words);
}

/* ---- what was recorded ---- */

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
        uses |= reads->items[i].found.what == KILN_FOUND_FILE &&
                strncmp(reads->items[i].path, reads->name, length) == 0;
    }
    return uses;
}

/* ---- the end of the compilation ---- */

/* Returns true if the paths that led to the same file or folder as @r still do so, and no others. A
 * result depends on this, but not on the numbers that identify a folder. */
static bool has_same_relations(const kilni_reads *reads, const read_record *r,
                               const kilni_path_facts *now)
{
    bool has = true;
    for (size_t i = 0; i < reads->count && has; i++) {
        const read_record *other = &reads->items[i];
        kilni_path_facts other_now = {0};
        has = other == r || !kilni_finding_has_identity(other->found.what) ||
              (kilni_path_look_up(KILNI_LOOKUP_FACTS, other->path, NULL, NULL, &other_now, NULL) ==
                   KILN_OK &&
               has_same_identity(&other->found, &r->found) == has_same_identity(&other_now, now));
    }
    return has;
}

/* Returns KILN_OK if a second look-up finds what is recorded. A file must not have been written or
 * replaced even if its content is the same now, because the compiler might have read different
 * content in between; the same holds for the names in a folder. */
static kiln_status check(const kilni_reads *reads, const read_record *r)
{
    kilni_path_facts now = {0};
    char target[PATH_MAX] = "";
    const kiln_status status = kilni_path_look_up(r->lookup, r->path, NULL, NULL, &now, target);
    if (status != KILN_OK) {
        return status == KILN_E_NO_MEMORY ? status : KILN_MISS;
    }
    const bool has_target = kilni_lookup_has_target(r->lookup, now.what);
    const bool has_time = now.what == KILN_FOUND_FILE || r->lookup == KILNI_LOOKUP_LISTING;
    const bool is_same_one = has_same_identity(&r->found, &now);
    const bool is_unchanged =
        is_same(r, &now, true) && (is_same_one || has_same_relations(reads, r, &now)) &&
        (!has_target || strcmp(r->path + strlen(r->path) + 1, target) == 0) &&
        (!has_time || (is_same_one && now.changed.tv_sec == r->found.changed.tv_sec &&
                       now.changed.tv_nsec == r->found.changed.tv_nsec));
    return is_unchanged ? KILN_OK : KILN_MISS;
}

/* Returns why the result cannot be kept, as far as this is known before the check. */
static kiln_status state_of(const kilni_reads *reads)
{
    return reads->is_out_of_memory ? KILN_E_NO_MEMORY
           : reads->failure        ? KILN_E_UNSUPPORTED
           : reads->has_changed    ? KILN_MISS
                                   : KILN_OK;
}

/* Checks everything that the compiler might have seen differently. */
static kiln_status check_all(kilni_reads *reads)
{
    kiln_status status = state_of(reads);
    for (size_t i = 0; i < reads->count && status == KILN_OK; i++) {
        read_record *r = &reads->items[i];
        if (r->lacks_content) {
            look_again(reads, r);
            status = state_of(reads);
        }
        if (status == KILN_OK && !r->is_seen) {
            status = check(reads, r);
        }
    }
    return status;
}

/* Makes the result valid only in the working directory, if a path leads through that directory or
 * the options might name it. Refuses the result if the process has changed to a different
 * directory. */
static void tie_to_working_folder(kilni_reads *reads)
{
    const char *path = reads->working_folder.path;
    char *now = path ? getcwd(NULL, 0) : NULL;
    if (path && (!now || strcmp(now, path) != 0)) {
        kilni_reads_fail(reads, "the working directory changes");
    } else if (reads->uses_working_folder) {
        kilni_reads_note_real_path(reads, ".");
    }
    free(now);
}

/* Returns how many bytes of a path name the program's folder. The path of the folder itself has no
 * slash at its end, but @folder_length counts one. */
static size_t shared_length(const char *path, const char *name, size_t folder_length)
{
    if (folder_length == 0 || strncmp(path, name, folder_length - 1) != 0) {
        return 0;
    }
    return path[folder_length - 1] == '\0'  ? folder_length - 1
           : path[folder_length - 1] == '/' ? folder_length
                                            : 0;
}

/* @folder_length  length of the program's folder if paths are stored relative to it, else 0 */
static kiln_status append_read(kilni_text *text, const kilni_reads *reads, size_t folder_length,
                               const read_record *r)
{
    const size_t shared = shared_length(r->path, reads->name, folder_length);
    const kilni_stored_read stored = {.lookup = r->lookup,
                                      .what = r->found.what,
                                      .is_relative = shared > 0,
                                      .path = r->path + shared,
                                      .target = r->path + strlen(r->path) + 1,
                                      .size = r->found.size,
                                      .digest = r->found.digest,
                                      .same = r->same};
    return kilni_stored_reads_append(text, &stored);
}

static kiln_status append_header(kilni_text *text, const kilni_reads *reads, size_t folder_length,
                                 bool moves)
{
    char *only_folder = moves ? NULL : strndup(folder_length > 0 ? reads->name : "", folder_length);
    const kiln_status status =
        moves || only_folder
            ? kilni_stored_reads_append_header(text, only_folder, (uint32_t)reads->count)
            : KILN_E_NO_MEMORY;
    free(only_folder);
    return status;
}

static kiln_status encode(const kilni_reads *reads, bool moves, kilni_text *text)
{
    const size_t folder_length = kilni_program_folder_length(reads->name);
    kiln_status status = append_header(text, reads, folder_length, moves);
    for (size_t i = 0; i < reads->count && status == KILN_OK; i++) {
        status = append_read(text, reads, moves ? folder_length : 0, &reads->items[i]);
    }
    return status;
}

kiln_status kilni_reads_finish(kilni_reads *reads, bool moves, kilni_words *words,
                               kilni_text *ret_encoded, const char **ret_why)
{
    tie_to_working_folder(reads);
    if (reads->expected && reads->made_count == 0) {
        kilni_reads_fail(reads, "no temporary folder of the compiler was observed");
    }
    kilni_text encoded = {0};
    kiln_status status = check_all(reads);
    if (status == KILN_OK) {
        status = encode(reads, moves, &encoded);
    }
    if (status != KILN_OK) {
        kilni_text_done(&encoded);
        *ret_why = reads->failure ? reads->failure : "files changed during the compilation";
        return status;
    }
    kilni_words_add(words, &reads->words);
    *ret_encoded = encoded;
    return KILN_OK;
}
