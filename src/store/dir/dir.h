/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a directory: one engine, and a layout (layout.h) that names the entries.
 *
 *     CACHEDIR.TAG          lets backup programs skip the directory
 *     lease                 locked byte by byte; never removed
 *     stats                 totals of all processes, and the size as its writers know it
 *     missed                the last key that was not found, if the store keeps it
 *     v1/requests/abcd…     a request, in every layout
 *     v1/janitor/           the progress of a trim, and the summary that it ranks by
 *     v1/ab/abcd…           an entry in layout "kiln": 32 hexadecimal digits, the first two of
 *                           which name the folder
 *     v1/ab/.tmp-…          an entry that is being written or removed
 *
 * The other layouts have two files for each entry (pair.h). All names are made here, and all files
 * are reached through the directory's descriptor. Readers take no lock. See docs/layouts.md.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "os/owned_file.h"
#include "store/engine.h"
#include "store/totals.h"

/* Changes that the totals have not received yet. Only sums: every access is relaxed. */
typedef struct kilni_dir_pending {
    _Atomic int64_t entries, bytes;
    _Atomic uint64_t counters[KILNI_STATS_COUNT];
} kilni_dir_pending;

typedef struct kilni_dir {
    kiln_store store; /* first: a kilni_dir is a kiln_store */
    const struct kilni_dir_layout *layout, *request_layout;
    unsigned hash_bits; /* of each hash in the names of pairs, from the left: 128; fewer in tests */
    char *path;         /* as its user gave it */
    uid_t user;
    kilni_owned_file start; /* where a relative path begins; none if the path is absolute */
    /* The place where the directory is open. It is replaced if the directory was removed and
     * created again, or if the application has closed the descriptor: the store (release) in
     * kilni_dir_reopen pairs with the loads (acquire) in kilni_dir_of and kilni_dir_root. */
    _Atomic(struct kilni_dir_place *) place;
    /* All places, the newest first. Calls may still use older ones, so their memory is kept until
     * the store is closed. Belongs to the thread that opens or reopens the directory. */
    struct kilni_dir_place *places;
    kilni_dir_pending pending;
    /* How often in a row the lock of the totals was not free, and until when no thread tries; 0: no
     * pause. Relaxed: hints. */
    _Atomic unsigned totals_failures;
    _Atomic uint64_t totals_retry_ns;
    /* Bytes put while the totals could not be changed; they decide then when to trim. Relaxed. */
    _Atomic uint64_t uncounted_bytes;
    /* Whether a trim that this handle worked on is unfinished. Relaxed: a hint. */
    _Atomic bool is_trimming;
    /* Until then (Unix seconds), no thread needs to check whether the daily trim is due. Relaxed.
     */
    _Atomic int64_t due_s;
} kilni_dir;

extern const kilni_store_engine kilni_dir_engine;

/* ---- names.c ---- */

#define KILNI_DIR_VERSION "v1"
#define KILNI_DIR_LEASE "lease"
#define KILNI_DIR_STATS "stats"
#define KILNI_DIR_TAG "CACHEDIR.TAG"
#define KILNI_DIR_MISSED "missed"
#define KILNI_DIR_SHARD_COUNT 257u
#define KILNI_DIR_REQUESTS 256u /* the shard of requests, which are listed without a walk */
#define KILNI_DIR_PATH_SIZE 48u /* of any path below the directory, with its closing zero */

/* Returns the shard of a key's entry. */
unsigned kilni_dir_shard_of(const kiln_key *key);

/* Whether the files of a shard count as entries. Those of requests count only by their bytes. */
bool kilni_dir_has_entries(unsigned shard);

/* "v1/ab", "v1/requests" */
void kilni_dir_shard_path(unsigned shard, char *path);
/* "v1/ab/abcd…", for messages */
void kilni_dir_path_of(const kiln_key *key, char *path);
/* "abcd…", the entry's name in its shard; of KILN_DIGEST_TEXT_SIZE bytes */
void kilni_dir_name_of(const kiln_key *key, char *name);
/* "FOLDER/.tmp-…", with a random number; returns false if that is longer than @size. */
bool kilni_dir_temporary_path(const char *folder, uint64_t number, char *path, size_t size);
/* ".tmp-…-aside": the one name under which a file of this name is set aside, in the directory that
 * the name is relative to.
 *
 * @aside  [out] of KILNI_DIR_PATH_SIZE bytes */
void kilni_dir_aside_name(const char *name, char *aside);

/* Whether a name in a shard is that of an entry, and of which; whether it is that of a temporary;
 * whether it is that of a temporary that is a file set aside. */
bool kilni_dir_is_entry_name(const char *name, unsigned shard, kiln_digest *ret_digest);
bool kilni_dir_is_temporary_name(const char *name);
bool kilni_dir_is_aside_name(const char *name);

/* ---- trusted_path.c: the way to the directory ---- */

typedef struct kilni_entrance {
    int start;        /* where a relative path begins; -1 for an absolute one */
    uid_t user;       /* the effective user */
    bool is_readonly; /* root may own the directory */
    bool may_create;
    bool is_on_the_way; /* the last component is checked like those above it */
} kilni_entrance;

/* Opens a directory, component by component, and checks each by its descriptor. The directory
 * itself must be this user's, must not be a symbolic link, and nobody else may write it.
 * Directories above it, and links among them, must be this user's or root's; they must not be
 * writable by everybody, unless they are sticky. Missing components are created, mode 0700, if
 * @entrance allows that.
 *
 * @ret_made  whether the last component was created */
kiln_status kilni_dir_enter(const char *path, const kilni_entrance *entrance, int *ret_directory,
                            bool *ret_made, kiln_error *error);

/* mkdirat, mode 0700 whatever the umask. */
int kilni_dir_make_directory(int parent, const char *path);

/* ---- place.c: where the directory is open ---- */

bool kilni_dir_is_readonly(const kilni_dir *dir);

/* Opens the directory for the first time. Statuses as kiln_store_open. */
kiln_status kilni_dir_open_place(kilni_dir *dir, kiln_error *error);

/* Opens the directory again, after it was removed or its descriptor was closed by other code.
 * Creates it if the store's flags allow that. */
kiln_status kilni_dir_reopen(kilni_dir *dir);

/* Returns the directory of a store. If its descriptor is no longer its own, opens it again; if that
 * fails, all operations in it fail with KILN_E_IO. Each call of the interface begins with this. */
kilni_dir *kilni_dir_of(kiln_store *store);

/* The directory's descriptor; -1: it is lost. */
int kilni_dir_root(const kilni_dir *dir);

/* Whether the descriptor is still the one that was opened. */
bool kilni_dir_is_there(const kilni_dir *dir);

/* Closes the descriptors and frees the places. */
void kilni_dir_close_place(kilni_dir *dir);

/* ---- shard.c: the folders below the directory ---- */

/* Whether a folder below the directory may be used: it is this user's, and nobody else may write
 * it. */
bool kilni_dir_trusts_folder(const kilni_dir *dir, const struct stat *stat);

/* The same for an open folder. Returns KILN_OK; KILN_E_DENIED; else as kilni_dir_read_status. */
kiln_status kilni_dir_judge_folder(const kilni_dir *dir, int folder);

/* Opens a folder below the directory and checks it. A symbolic link anywhere on the path is denied.
 *
 * @flags  O_PATH, or O_RDONLY to list it
 * Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_open_folder(const kilni_dir *dir, const char *path, int flags,
                                  int *ret_folder);
kiln_status kilni_dir_open_shard(const kilni_dir *dir, unsigned shard, int flags, int *ret_folder);

/* Creates a shard, and the folders above it if they are missing. Returns KILN_OK, also if it
 * exists; else as kilni_dir_open_folder and kilni_dir_write_status. */
kiln_status kilni_dir_make_shard(kilni_dir *dir, unsigned shard);

/* Removes a shard if it is empty. A writer that finds it missing creates it again. */
void kilni_dir_remove_empty_shard(const kilni_dir *dir, unsigned shard);

/* ---- entry_file.c: files that may hold an entry ---- */

/* Opens a file that may hold an entry, and checks it: it must be a regular file of this user's that
 * nobody else may write. Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_open_file(const kilni_dir *dir, int directory, const char *path,
                                int *ret_file, struct stat *ret_stat);

/* The status for an errno of a read access to a file or folder: KILN_MISS, also for the errors that
 * network file systems return for files that have just been removed; KILN_E_DENIED;
 * KILN_E_NO_MEMORY; KILN_E_IO. */
kiln_status kilni_dir_read_status(int system_error);

/* The status for an errno of a write access; KILN_MISS: a directory is missing. */
kiln_status kilni_dir_write_status(int system_error);

/* Returns the size above which a file is not read. */
uint64_t kilni_dir_largest_file(const kilni_dir *dir);

/* Records a use: sets the file's mtime, unless it was set within the store's stamp interval. */
void kilni_dir_stamp_use(const kilni_dir *dir, int file, const struct stat *stat);

/* Reads an open file into memory of its own and verifies the entry. */
kiln_status kilni_dir_read_file(const kilni_dir *dir, int file, const struct stat *stat,
                                kiln_entry **ret_entry);

/* Returns the bytes that a file occupies on the disk. */
uint64_t kilni_dir_disk_bytes(const struct stat *stat);

/* ---- temporary.c ---- */

/* Writes a new temporary. The caller must rename or remove it.
 *
 * @directory       @folder is relative to it
 * @path            [out] of @size bytes; relative to @directory too
 * @ret_disk_bytes  [out]
 * Returns KILN_OK; KILN_MISS: the folder is missing; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL;
 * KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_write_temporary(const kilni_dir *dir, int directory, const char *folder,
                                      kiln_bytes bytes, char *path, size_t size,
                                      uint64_t *ret_disk_bytes);

/* ---- remove.c: removing the file that was judged ---- */

/* Whether a file that kilni_dir_open_file opened may be an entry of a newer format: it is one, or
 * cannot be read. Such files are kept. */
bool kilni_dir_may_be_newer(const kilni_dir *dir, int file, const struct stat *stat);

/* Whether the file at a path may be removed. An entry of a newer format may not, nor one that
 * cannot be opened or read. */
bool kilni_dir_may_remove(const kilni_dir *dir, int directory, const char *path);

/* The status for an errno of a removal: KILN_MISS; KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_remove_status(int system_error);

/* A file that is kept open, so that no other file can get the number of its inode. */
typedef struct kilni_dir_held {
    int file;        /* opened with O_PATH if it is not trusted */
    bool is_trusted; /* as kilni_dir_open_file checks it */
    struct stat stat;
} kilni_dir_held;

/* Opens the file at a path, to judge it and to remove that very file. Returns KILN_OK, also if the
 * file is not trusted; else as kilni_dir_open_file. */
kiln_status kilni_dir_hold(const kilni_dir *dir, int directory, const char *path,
                           kilni_dir_held *ret_held);
void kilni_dir_let_go(kilni_dir_held *held);

/* Whether a held file may be removed.
 *
 * @judged  NULL: whatever it is; otherwise only if the file holds the same entry as this
 * Returns KILN_OK; KILN_EXISTS: of a newer format, or unreadable; KILN_MISS: not a regular file, or
 * not the judged entry; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_judge_held(const kilni_dir *dir, const kilni_dir_held *held,
                                 const kiln_entry *judged);

/* Distinguishes a file from a different one that took its name. */
typedef struct kilni_dir_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec used; /* its mtime */
    bool is_held;         /* the inode suffices: a use in the meantime does not matter */
} kilni_dir_identity;

kilni_dir_identity kilni_dir_identity_of(const struct stat *stat);

/* Valid as long as the file is held. */
kilni_dir_identity kilni_dir_identity_of_held(const kilni_dir_held *held);

/* Whether the file at a path is still the one that was seen. Returns KILN_OK; KILN_MISS;
 * KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_look_again(int directory, const char *path, const kilni_dir_identity *seen);

/* Whether it is certain that no file has this name. */
bool kilni_dir_is_gone(int directory, const char *path);

/* Renames a file to a name that no file has, on any file system: an empty file claims the name
 * before. Returns 0; -1 and errno: EEXIST if a file has that name. */
int kilni_dir_rename_to_claimed(int directory, const char *path, const char *claimed);

/* Sets a file aside: renames it to its aside name, where a walk finds it if this process dies.
 *
 * @directory  both paths are relative to it
 * @aside      [out] of KILNI_DIR_PATH_SIZE bytes
 * Returns KILN_OK; KILN_MISS; KILN_BUSY: another remover has a file of this name aside, or died
 * while it had; KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_move_aside(int directory, const char *path, char *aside);

/* Gives a file that is aside its name back, or removes it if a newer one has the name by now. */
void kilni_dir_bring_back(int directory, const char *aside, const char *path);

/* Removes a file that is aside if it is the one that was seen. Returns KILN_OK; KILN_MISS;
 * KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_remove_aside(int directory, const char *aside,
                                   const kilni_dir_identity *seen);

/* Removes a file if it is still the one that was seen. Statuses as kilni_dir_move_aside. */
kiln_status kilni_dir_remove_seen(int directory, const char *path, const kilni_dir_identity *seen);

/* ---- pending.c: changes that the totals have not received yet ---- */

/* Changes the store's statistics file, together with all pending changes, and lets the layout
 * record the new size. Returns KILN_BUSY if the file's lock was not free: then the change is
 * pending, except a recount, which is lost; else as kilni_totals_change_file. */
kiln_status kilni_dir_change_totals(kilni_dir *dir, const kilni_totals_change *change,
                                    kilni_totals *ret_totals);

/* Adds the pending changes of this handle to totals that were read from the file. */
void kilni_dir_add_pending(const kilni_dir *dir, kilni_totals *totals);

/* Whether this handle has pending changes. */
bool kilni_dir_has_pending(const kilni_dir *dir);

/* ---- walk.c ---- */

/* Where an entry is: in layout "kiln" under its digest; a pair, under a number in a folder. */
typedef struct kilni_dir_spot {
    unsigned shard; /* of a pair: the first byte of the first folder that a hash names */
    kiln_digest digest;
    const char *folder; /* of a pair: its path; else NULL */
    uint32_t number;
} kilni_dir_spot;

/* A file of a pair whose other file is missing. */
typedef enum kilni_dir_half {
    KILNI_DIR_NO_HALF,
    KILNI_DIR_HALF_KEY,
    KILNI_DIR_HALF_PAYLOAD
} kilni_dir_half;

/* One file of a store that a walk found, or a pair. Valid during the visit. */
typedef struct kilni_dir_found {
    unsigned shard;
    int directory;       /* @name is in it */
    const char *name;    /* of a pair: the payload's */
    bool is_temporary;   /* or half of a pair */
    kilni_dir_half half; /* which half */
    kiln_digest digest;  /* of an entry; of a pair: zeros */
    struct stat stat;    /* of a pair: the payload's, but with the blocks of both files */
    const char *folder;  /* of a pair, or half of one: the path of @directory; else NULL */
    uint32_t number;     /* of a pair, or half of one */
    uint64_t key_size;   /* of a pair: the size of its key file */
} kilni_dir_found;

kilni_dir_spot kilni_dir_spot_of(const kilni_dir_found *found);

/* A result other than 0 ends the walk. */
typedef int kilni_dir_visit_fn(void *user, const kilni_dir_found *found);

/* Removes a file or pair that a walk found, if it is still the same.
 *
 * @seen        the identity of what was found
 * @even_newer  also if it is of a newer format
 * Returns KILN_OK; KILN_EXISTS: it stays; else as kilni_dir_move_aside. */
kiln_status kilni_dir_remove_found(kilni_dir *dir, const kilni_dir_found *found,
                                   const kilni_dir_identity *seen, bool even_newer);

/* The layout of what a walk finds in a shard. */
const struct kilni_dir_layout *kilni_dir_layout_of_shard(const kilni_dir *dir, unsigned shard);

/* Visits every regular file whose name is one of a store's. A shard that cannot be read or is not
 * trusted is skipped, and its status returned at the end. Returns KILN_OK; KILN_E_DENIED;
 * KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_walk(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user);

/* The position of a walk: the offset in each folder on the way, and the inode of the folder at that
 * offset. Zeros: the beginning. */
#define KILNI_DIR_FOLDERS 6u
typedef struct kilni_dir_position {
    uint64_t offsets[KILNI_DIR_FOLDERS];
    uint64_t inodes[KILNI_DIR_FOLDERS]; /* of the folder at the offset */
} kilni_dir_position;

/* Walks through one of KILNI_DIR_SHARD_COUNT parts, from a position on. In layout "kiln", each
 * shard is a part. In other layouts, the first part holds all entries, and a walk that ends early
 * ends after the present folder. If a visit ends the walk, sets @position to where to continue. A
 * position stays valid while files come and go, and in other processes. If a file system loses its
 * offsets, some files are visited twice or not at all.
 * Returns KILN_OK; KILN_MISS: no such part; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_walk_part(kilni_dir *dir, unsigned part, kilni_dir_position *position,
                                kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);
/* Walks through one shard of layout "kiln". Sets @ret_has_ended to whether a visit ended the walk.
 * Returns KILN_MISS: no such shard; KILN_E_DENIED: it is not trusted; else as above. */
kiln_status kilni_dir_walk_shard(kilni_dir *dir, unsigned shard, kilni_dir_visit_fn *visit,
                                 void *user, bool *ret_has_ended);

/* ---- stat.c ---- */

kiln_status kilni_dir_stat(kiln_store *store, kiln_store_stat *ret_stat);

/* Returns the numbers from the totals, or, if the totals do not know them, as kilni_dir_stat. */
kiln_status kilni_dir_known_stat(kiln_store *store, kiln_store_stat *ret_stat);

/* ---- trim.c ---- */

kiln_status kilni_dir_trim(kiln_store *store, const kiln_trim_params *params,
                           kiln_trim_report *ret_report);

/* Whether there is room for @size bytes if they replace @replaced bytes. A store that evicts always
 * has room. */
bool kilni_dir_has_room(kilni_dir *dir, uint64_t size, uint64_t replaced);

/* Called at the end of a put: works on a trim for a slice if the store is too large, a trim is in
 * progress, or the last one was a day ago. */
void kilni_dir_trim_after_put(kilni_dir *dir, uint64_t put_bytes, bool has_outgrown);

/* Begins to count a store whose size is not known; later puts continue. A store that does not evict
 * gets as many slices at once as a put may take at most. */
void kilni_dir_begin_count(kilni_dir *dir);

/* Called before a store is closed: for a short time, continues a trim, or removes expired entries
 * if the last survey is an hour ago. */
void kilni_dir_trim_before_close(kilni_dir *dir);

/* ---- account.c: changes of the totals ---- */

/* The file that a put replaces. */
typedef struct kilni_dir_incumbent {
    bool is_there;
    uint64_t disk_bytes;
} kilni_dir_incumbent;

/* Counts a put, and makes room if the store has become too large. */
void kilni_dir_count_put(kilni_dir *dir, unsigned shard, uint64_t disk_bytes,
                         const kilni_dir_incumbent *replaced);

/* Subtracts a removed file from the totals. */
void kilni_dir_count_removed(kilni_dir *dir, unsigned shard, const struct stat *removed);

kiln_status kilni_dir_account(kiln_store *store, const kiln_stats *delta);

/* Writes the pending changes for the last time. */
void kilni_dir_flush_pending(kiln_store *store);

/* ---- items.c ---- */

kiln_status kilni_dir_each(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_dir_each_request(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_dir_item_info(kiln_item *item, kiln_item_info *ret_info);
kiln_status kilni_dir_item_read(kiln_item *item, kiln_entry **ret_entry);
kiln_status kilni_dir_item_remove(kiln_item *item);

/* ---- lease.c ---- */

/* The leases of keys are the bytes below 2^40 of the lease file; this byte is the janitor's. */
#define KILNI_DIR_JANITOR_BYTE ((off_t)1 << 41)

kiln_status kilni_dir_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                            kiln_lease **ret_lease);
void kilni_dir_lease_release(kiln_lease *lease);
