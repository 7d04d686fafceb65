/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a directory. All such stores have the same engine. A layout (layout.h) decides the
 * names of the entries.
 *
 *     CACHEDIR.TAG          lets backup programs skip the directory
 *     lease                 locked byte by byte; never removed
 *     stats                 totals of all processes, and the size as its writers know it
 *     missed                the last key that was not found, if the store keeps it
 *     drivers               checksums of the names of the drivers that built entries
 *     journal, journal.old  what programs built and found, if the store keeps it
 *     v1/requests/abcd…     a capture request, in every layout
 *     v1/janitor/           the progress of a trim, and the summary that it ranks by
 *     v1/ab/abcd…           an entry in layout "kiln": 32 hexadecimal digits, the first two of
 *                           which name the folder
 *     v1/ab/.tmp-…          an entry that is being written or removed
 *
 * The other layouts have two files for each entry (file_pair.h). Kiln makes all names itself, and
 * reaches all files through the directory's descriptor. Readers of entries take no lock. See
 * docs/layouts.md.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "os/owned_descriptor.h"
#include "store/engine.h"
#include "store/totals.h"

/* Changes that are not in the totals yet. The fields are only sums, so every access is relaxed. */
typedef struct kilni_dir_pending {
    _Atomic int64_t entries, bytes;
    _Atomic uint64_t counters[KILNI_STATS_COUNT];
} kilni_dir_pending;

typedef struct kilni_dir {
    kiln_store store; /* first: a kilni_dir is a kiln_store */
    const struct kilni_dir_layout *layout, *request_layout;
    unsigned hash_bits; /* how many bits of each hash are in the names of pairs: 128, or fewer in
                           tests */
    char *path;         /* as the user wrote it */
    uid_t user;
    kilni_owned_descriptor start; /* where a relative path begins; empty for an absolute path */
    /* The open directory. This field is replaced if the directory was removed and created again, or
     * if the application has closed the descriptor. The store (release) in kilni_dir_reopen pairs
     * with the loads (acquire) in kilni_dir_of and kilni_dir_root. */
    _Atomic(struct kilni_dir_open_root *) open_root;
    /* All open roots, the newest first. Calls might still use older ones, so their memory is kept
     * until the store is closed. Only the thread that opens or reopens the directory accesses this
     * field. */
    struct kilni_dir_open_root *open_roots;
    kilni_dir_pending pending;
    /* How many times in a row the lock of the totals was not free, and the time until which no
     * thread tries to take it. If that time is 0, threads can try. Both are only hints, so every
     * access is relaxed. */
    _Atomic unsigned totals_failures;
    _Atomic uint64_t totals_retry_ns;
    /* Bytes that were put while the totals could not be changed. During that time, this number is
     * used instead of the totals to decide when to trim. Every access is relaxed. */
    _Atomic uint64_t uncounted_bytes;
    /* True if this handle has done a part of a trim that is not finished. Only a hint, so every
     * access is relaxed. */
    _Atomic bool is_trimming;
    /* The time (Unix seconds) until which no thread needs to check whether the daily trim is due.
     * Every access is relaxed. */
    _Atomic int64_t due_s;
} kilni_dir;

extern const kilni_store_engine kilni_dir_engine;

/* ---- names.c ---- */

#define KILNI_DIR_VERSION "v1"
#define KILNI_DIR_LEASE "lease"
#define KILNI_DIR_STATS "stats"
#define KILNI_DIR_TAG "CACHEDIR.TAG"
#define KILNI_DIR_MISSED "missed"
#define KILNI_DIR_DRIVERS "drivers"
#define KILNI_DIR_JOURNAL "journal"
#define KILNI_DIR_OLD_JOURNAL "journal.old"
#define KILNI_DIR_SHARD_COUNT 257u
#define KILNI_DIR_REQUESTS 256u /* the shard of requests; it can be listed without a walk */
#define KILNI_DIR_PATH_SIZE 48u /* the size of any path below the directory, with its NUL */

/* Returns the shard of a key's entry. */
unsigned kilni_dir_shard_of(const kiln_key *key);

/* Returns true if the files of a shard are counted as entries. Of requests, only the bytes are
 * counted. */
bool kilni_dir_has_entries(unsigned shard);

/* Sets @path to a shard's path: "v1/ab" or "v1/requests". */
void kilni_dir_shard_path(unsigned shard, char *path);
/* Sets @path to the path of an entry, "v1/ab/abcd…", for messages. */
void kilni_dir_path_of(const kiln_key *key, char *path);
/* Sets @name to the entry's name in its shard, "abcd…". It has KILN_DIGEST_TEXT_SIZE bytes. */
void kilni_dir_name_of(const kiln_key *key, char *name);
/* Sets @path to "FOLDER/.tmp-…", a name that contains @number. Returns false if @size is too small.
 */
bool kilni_dir_temporary_path(const char *folder, uint64_t number, char *path, size_t size);
/* Sets @aside to ".tmp-…-aside". A file called @name is only set aside under this name, and in its
 * own directory.
 *
 * @aside  [out] of KILNI_DIR_PATH_SIZE bytes */
void kilni_dir_aside_name(const char *name, char *aside);

/* The first function returns true if a name in a shard is the name of an entry, and sets
 * @ret_digest to the entry's digest. The others recognize the names of temporaries, and of files
 * that were set aside. A file that was set aside is a temporary, too. */
bool kilni_dir_is_entry_name(const char *name, unsigned shard, kiln_digest *ret_digest);
bool kilni_dir_is_temporary_name(const char *name);
bool kilni_dir_is_aside_name(const char *name);

/* ---- trusted_path.c: opening the directory ---- */

typedef struct kilni_path_rules {
    int start;        /* where a relative path begins; -1: the path is absolute */
    uid_t user;       /* the effective user */
    bool is_readonly; /* the store is read-only, so root can own the directory */
    bool any_owner;   /* owners and modes of directories do not count; those of links do */
    bool may_create;
    bool is_ancestor; /* the last component is checked like the directories above it */
    /* A group can write to the directory, and its members are not trusted (store/group/group.h).
     * Root can own the directory, and the caller checks its mode. It must not be a mount point, and
     * no group can write to the directories above, unless these are sticky. */
    bool is_of_group;
} kilni_path_rules;

/* Opens a directory, component by component, and checks each component by its descriptor. The
 * directory itself must belong to this user, or, if the store is read-only, to root. It must not be
 * a symbolic link or writable by others. The directories and links above it must belong to this
 * user or to root. Directories above it must not be writable by everybody, unless they are sticky.
 * If @entrance allows it, missing components are created with mode 0700.
 *
 * @ret_made  set to whether the function has created the last component */
kiln_status kilni_dir_enter(const char *path, const kilni_path_rules *entrance, int *ret_directory,
                            bool *ret_made, kiln_error *error);

/* Does the same as mkdirat. The directory gets mode 0700, whatever the umask. */
int kilni_dir_make_directory(int parent, const char *path);

/* ---- open_root.c: the store's open directory ---- */

bool kilni_dir_is_readonly(const kilni_dir *dir);

/* Returns whether owner and mode of a file or folder of the store allow its use. With a store that
 * trusts any owner, only the kind counts. */
bool kilni_dir_trusts(const kilni_dir *dir, const struct stat *stat, mode_t kind);

/* Opens the directory for the first time. The statuses are those of kiln_store_open. */
kiln_status kilni_dir_start(kilni_dir *dir, kiln_error *error);

/* Opens the directory again after it was removed, or after other code has closed its descriptor. If
 * the directory is missing and the store's flags allow it, this function creates the directory. */
kiln_status kilni_dir_reopen(kilni_dir *dir);

/* Returns the directory of a store. If the directory's descriptor is no longer intact, this
 * function opens the directory again. If that fails, all operations in the directory fail with
 * KILN_E_IO. Each function of the store's interface calls this function first. */
kilni_dir *kilni_dir_of(kiln_store *store);

/* Returns the directory's descriptor; -1: it is lost. */
int kilni_dir_root(const kilni_dir *dir);

/* Returns true if the directory's descriptor still refers to the directory that was opened. */
bool kilni_dir_is_there(const kilni_dir *dir);

/* Closes the descriptors and frees the open roots. */
void kilni_dir_close_root(kilni_dir *dir);

/* ---- shard.c: the folders below the directory ---- */

/* Returns true if a folder below the directory can be used. It must belong to this user, or, if the
 * store is read-only, to root. Nobody else is allowed to write to it. */
bool kilni_dir_trusts_folder(const kilni_dir *dir, const struct stat *stat);

/* Makes the checks of kilni_dir_trusts_folder for an open folder. Returns KILN_OK; KILN_E_DENIED;
 * else as kilni_dir_read_status. */
kiln_status kilni_dir_judge_folder(const kilni_dir *dir, int folder);

/* Opens a folder below the directory and checks it. If a part of the path is a symbolic link,
 * returns KILN_E_DENIED.
 *
 * @flags  O_PATH, or O_RDONLY if the caller lists the folder
 * Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_open_folder(const kilni_dir *dir, const char *path, int flags,
                                  int *ret_folder);
kiln_status kilni_dir_open_shard(const kilni_dir *dir, unsigned shard, int flags, int *ret_folder);

/* Creates a shard, and the folders above it if they are missing. Returns KILN_OK, even if the shard
 * exists; else as kilni_dir_open_folder and kilni_dir_write_status. */
kiln_status kilni_dir_make_shard(kilni_dir *dir, unsigned shard);

/* Removes a shard if it is empty. A writer that finds a shard missing creates it again. */
void kilni_dir_remove_empty_shard(const kilni_dir *dir, unsigned shard);

/* ---- entry_file.c: files that might hold an entry ---- */

/* Opens a file that might hold an entry, and checks it. It must be a regular file that belongs to
 * this user, or, if the store is read-only, to root. Nobody else is allowed to write it. Returns
 * KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_open_file(const kilni_dir *dir, int directory, const char *path,
                                int *ret_file, struct stat *ret_stat);

/* Does the same as kilni_dir_open_file for a path below the store's directory. No component of the
 * path is allowed to be a symbolic link. */
kiln_status kilni_dir_open_file_below(const kilni_dir *dir, const char *path, int *ret_file,
                                      struct stat *ret_stat);

/* Returns the status for the errno of a failed read access to a file or folder. KILN_MISS: it does
 * not exist, or the error is one that network file systems report for a file that has just been
 * removed; KILN_E_DENIED; KILN_E_NO_MEMORY; KILN_E_IO. */
kiln_status kilni_dir_read_status(int system_error);

/* Returns the status for the errno of a failed write access; KILN_MISS: a directory is missing. */
kiln_status kilni_dir_write_status(int system_error);

/* Returns the size above which a file is not read. */
uint64_t kilni_dir_largest_file(const kilni_dir *dir);

/* Reads an open file into new memory, and verifies the entry. */
kiln_status kilni_dir_read_file(const kilni_dir *dir, int file, const struct stat *stat,
                                kiln_entry **ret_entry);

/* Reads the entry of a key from an open file, records the use, and closes the file.
 *
 * @ret_first_use  set to true if this is the entry's first use today, as far as uses are recorded;
 *                 otherwise not changed
 *
 * Returns KILN_MISS if the file holds the entry of a different key; else as kilni_dir_read_file. */
kiln_status kilni_dir_read_entry(const kilni_dir *dir, int file, const struct stat *stat,
                                 const kiln_key *key, kiln_entry **ret_entry, bool *ret_first_use);

/* Returns the bytes that a file occupies on the disk. */
uint64_t kilni_dir_disk_bytes(const struct stat *stat);

/* ---- last_use.c: when an entry was used ---- */

/* Records a use by setting the file's mtime to the present time. Does nothing if the mtime was set
 * less than the store's interval ago, or if the store is read-only. Returns true if it has set the
 * mtime, and this was the first time today (UTC). */
bool kilni_dir_record_use(const kilni_dir *dir, int file, const struct stat *stat);

/* ---- temporary.c ---- */

/* Creates and writes a temporary. The caller must publish or remove it.
 *
 * @folder          relative to @directory
 * @path            [out] a buffer of @size bytes for the path, which is also relative to @directory
 * @ret_disk_bytes  [out]
 * Returns KILN_OK; KILN_MISS: the folder is missing; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL;
 * KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_write_temporary(const kilni_dir *dir, int directory, const char *folder,
                                      kiln_bytes bytes, char *path, size_t size,
                                      uint64_t *ret_disk_bytes);

/* Renames a temporary to its final name in one step. If a file has that name, this function
 * replaces the file. If the renaming fails, this function removes the temporary.
 *
 * @directory  @path and @name are relative to it
 * Returns KILN_OK; KILN_MISS: the folder or the temporary no longer exists; KILN_E_DENIED;
 * KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_publish_temporary(int directory, const char *path, const char *name);

/* ---- remove.c: removing a file that was examined ---- */

/* Returns true if a file that kilni_dir_open_file opened is an entry of a newer format, or might be
 * one because it cannot be read. Such files are kept. */
bool kilni_dir_may_be_newer(const kilni_dir *dir, int file, const struct stat *stat);

/* Returns true if the file at a path can be removed. Returns false for an entry of a newer format,
 * and for a file that cannot be read because of an error. Returns true for a file that is missing
 * or not trusted (KILN_E_DENIED). */
bool kilni_dir_may_remove(const kilni_dir *dir, int directory, const char *path);

/* Returns the status for the errno of a failed removal: KILN_MISS; KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_remove_status(int system_error);

/* A file that is kept open, so that no other file can get the same inode number. */
typedef struct kilni_dir_held {
    int file;        /* opened with O_PATH if it is not trusted */
    bool is_trusted; /* it has passed the checks of kilni_dir_open_file */
    struct stat stat;
} kilni_dir_held;

/* Opens the file at a path, so that the caller can examine it and then remove exactly this file.
 * Returns KILN_OK, even if the file is not trusted; else as kilni_dir_open_file. */
kiln_status kilni_dir_hold(const kilni_dir *dir, int directory, const char *path,
                           kilni_dir_held *ret_held);
void kilni_dir_release(kilni_dir_held *held);

/* Checks whether a held file can be removed.
 *
 * @judged  the file can be removed only if it holds the same entry as @judged; NULL: the file can
 *          hold any entry
 * Returns KILN_OK; KILN_EXISTS: the file is of a newer format, or cannot be read; KILN_MISS: it is
 * not a regular file, or does not hold the judged entry; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_judge_held(const kilni_dir *dir, const kilni_dir_held *held,
                                 const kiln_entry *judged);

/* Identifies a file, even if a different file gets the same name later. */
typedef struct kilni_dir_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec used; /* the file's mtime */
    bool is_held;         /* the file is held, so its inode alone identifies it */
} kilni_dir_identity;

kilni_dir_identity kilni_dir_identity_of(const struct stat *stat);

/* Returns the identity of a held file. The identity is valid as long as the file is held. */
kilni_dir_identity kilni_dir_identity_of_held(const kilni_dir_held *held);

/* Checks that the file at a path is still the file that was seen. Returns KILN_OK; KILN_MISS: it is
 * not; KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_recheck(int directory, const char *path, const kilni_dir_identity *seen);

/* Returns true only if it is certain that no file has this name. */
bool kilni_dir_is_gone(int directory, const char *path);

/* Renames a file to a name that no file has. First creates an empty file that claims the name, so
 * this works on any file system. Returns 0 on success. Otherwise returns -1 and sets errno; EEXIST
 * means that a file has that name. */
int kilni_dir_rename_to_claimed(int directory, const char *path, const char *claimed);

/* Sets a file aside: renames it to its aside name. If this process ends before it has removed or
 * restored the file, a walk finds it under that name.
 *
 * @directory  the directory in which both paths begin
 * @aside      [out] of KILNI_DIR_PATH_SIZE bytes
 * Returns KILN_OK; KILN_MISS; KILN_BUSY: another process has set a file of this name aside, and
 * that process might have ended by now; KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_move_aside(int directory, const char *path, char *aside);

/* Renames a file that was set aside back to its old name. If a newer file has got that name in the
 * meantime, this function removes the file that was set aside. */
void kilni_dir_restore_aside(int directory, const char *aside, const char *path);

/* Removes a file that was set aside, if it is the file that was seen. Returns KILN_OK; KILN_MISS;
 * KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_remove_aside(int directory, const char *aside,
                                   const kilni_dir_identity *seen);

/* Removes a file if it is still the file that was seen. The statuses are those of
 * kilni_dir_move_aside. */
kiln_status kilni_dir_remove_seen(int directory, const char *path, const kilni_dir_identity *seen);

/* ---- pending.c: changes that are not in the totals yet ---- */

/* Applies a change and all pending changes to the store's statistics file, and lets the layout
 * record the new size. Returns KILN_BUSY if the file's lock is not free, or was recently not free.
 * The change is then pending, but a recount is lost. The other statuses are those of
 * kilni_totals_change_file. */
kiln_status kilni_dir_change_totals(kilni_dir *dir, const kilni_totals_change *change,
                                    kilni_totals *ret_totals);

/* Adds the pending changes of this handle to totals that were read from the file. */
void kilni_dir_add_pending(const kilni_dir *dir, kilni_totals *totals);

/* Returns true if this handle has pending changes. */
bool kilni_dir_has_pending(const kilni_dir *dir);

/* ---- walk.c ---- */

/* The place of an entry. In layout "kiln", its digest says where it is. A pair has a folder and a
 * number in that folder. */
typedef struct kilni_dir_spot {
    unsigned shard; /* of a pair: the first byte of the first hash in its path */
    kiln_digest digest;
    const char *folder; /* of a pair: the path of its folder; else NULL */
    uint32_t number;
} kilni_dir_spot;

/* A file of a pair whose other file is missing. */
typedef enum kilni_dir_half {
    KILNI_DIR_NO_HALF,
    KILNI_DIR_HALF_KEY,
    KILNI_DIR_HALF_PAYLOAD
} kilni_dir_half;

/* A file or a pair of files that a walk found in a store. Only valid during the visit. */
typedef struct kilni_dir_found {
    unsigned shard;
    int directory;       /* the directory that contains @name */
    const char *name;    /* of a pair: the payload's */
    bool is_temporary;   /* this is a temporary, or half of a pair */
    kilni_dir_half half; /* which half this is */
    kiln_digest digest;  /* of an entry; of a pair: zeros */
    struct stat stat;    /* of a pair: the payload's, but with the blocks of both files */
    const char *folder;  /* of a pair, or half of one: the path of @directory; else NULL */
    uint32_t number;     /* of a pair, or half of one */
    uint64_t key_size;   /* of a pair: the size of its key half */
} kilni_dir_found;

kilni_dir_spot kilni_dir_spot_of(const kilni_dir_found *found);

/* A result other than 0 ends the walk. */
typedef int kilni_dir_visit_fn(void *user, const kilni_dir_found *found);

/* Removes a file or pair that a walk found, unless it was replaced after the walk found it.
 *
 * @seen        the identity of what was found
 * @even_newer  true: an entry of a newer format is removed, too
 * Returns KILN_OK; KILN_EXISTS: it must stay; else as kilni_dir_move_aside. */
kiln_status kilni_dir_remove_found(kilni_dir *dir, const kilni_dir_found *found,
                                   const kilni_dir_identity *seen, bool even_newer);

/* Returns the layout of the files that a walk finds in a shard. */
const struct kilni_dir_layout *kilni_dir_layout_of_shard(const kilni_dir *dir, unsigned shard);

/* Visits every regular file that has the name of an entry or of a temporary. If a shard cannot be
 * read or is not trusted, the walk skips it and continues, and returns the first failure at the
 * end. Returns KILN_OK; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_walk(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user);

/* The position of a walk. It consists of an offset for the topmost folder and for each folder on
 * the way down, and the inode of the folder at each offset. Zeros mean the beginning. */
#define KILNI_DIR_FOLDERS 6u
typedef struct kilni_dir_position {
    uint64_t offsets[KILNI_DIR_FOLDERS];
    uint64_t inodes[KILNI_DIR_FOLDERS]; /* of the folder at the offset */
} kilni_dir_position;

/* Walks through one of KILNI_DIR_SHARD_COUNT parts of a store, beginning at a position. In layout
 * "kiln", each shard is a part. In other layouts, the first part contains all entries. There, a
 * walk that a visit ends still visits all files of the present folder. If a visit ends the walk,
 * this function sets @position to the place at which to continue. A position stays valid when files
 * are added and removed, and other processes can use it. If a file system does not keep its
 * offsets, some files are visited twice or not at all. Returns KILN_OK; KILN_MISS: no such part;
 * KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_walk_part(kilni_dir *dir, unsigned part, kilni_dir_position *position,
                                kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);
/* Walks through one shard of layout "kiln". Sets @ret_has_ended to true if a visit ended the walk,
 * otherwise to false. Returns KILN_MISS: no such shard; KILN_E_DENIED: the shard is not trusted;
 * else as kilni_dir_walk_part. */
kiln_status kilni_dir_walk_shard(kilni_dir *dir, unsigned shard, kilni_dir_visit_fn *visit,
                                 void *user, bool *ret_has_ended);
/* Visits the file that a digest has in a shard of layout "kiln", if there is one. Otherwise does
 * what kilni_dir_walk_shard does, except that it returns KILN_OK if there is no such shard. */
kiln_status kilni_dir_visit_digest(kilni_dir *dir, unsigned shard, const kiln_digest *digest,
                                   kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);

/* ---- stat.c ---- */

kiln_status kilni_dir_stat(kiln_store *store, kiln_store_stat *ret_stat);

/* Does the same as kilni_dir_stat, but takes the numbers from the totals if they are known there.
 */
kiln_status kilni_dir_known_stat(kiln_store *store, kiln_store_stat *ret_stat);

/* ---- trim.c ---- */

kiln_status kilni_dir_trim(kiln_store *store, const kiln_trim_params *params,
                           kiln_trim_report *ret_report);

/* Returns true if the store has room for @size bytes that replace @replaced bytes. A store that
 * evicts always has room. */
bool kilni_dir_has_room(kilni_dir *dir, uint64_t size, uint64_t replaced);

/* Must be called at the end of a put. If the store is too large, a trim is in progress, or the last
 * survey was at least a day ago, this function does one or more slices of a trim. */
void kilni_dir_trim_after_put(kilni_dir *dir, uint64_t put_bytes, bool has_outgrown);

/* Begins to count a store whose size is not known; later puts continue the count. If the store does
 * not evict, this function does some slices of the count now, at most as many as the largest put
 * does. */
void kilni_dir_begin_count(kilni_dir *dir);

/* Must be called before a store is closed. For a short time, this function continues a trim that is
 * in progress. If there is none and the last survey was at least an hour ago, this function removes
 * expired entries. */
void kilni_dir_trim_before_close(kilni_dir *dir);

/* ---- update_totals.c: changes of the totals ---- */

/* The file that a put replaces. */
typedef struct kilni_dir_incumbent {
    bool is_there;
    uint64_t disk_bytes;
} kilni_dir_incumbent;

/* Adds a put to the totals, and begins or continues a trim if one is needed. */
void kilni_dir_count_put(kilni_dir *dir, unsigned shard, uint64_t disk_bytes,
                         const kilni_dir_incumbent *replaced);

/* Subtracts a removed file from the totals. */
void kilni_dir_count_removed(kilni_dir *dir, unsigned shard, const struct stat *removed);

kiln_status kilni_dir_add_stats(kiln_store *store, const kiln_stats *delta);

/* Writes the pending changes before the store is closed. */
void kilni_dir_flush_pending(kiln_store *store);

/* ---- items.c ---- */

kiln_status kilni_dir_each(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_dir_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                     kiln_item_fn visit, void *user);
kiln_status kilni_dir_each_request(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_dir_item_info(kiln_item *item, kiln_item_info *ret_info);
kiln_status kilni_dir_item_read(kiln_item *item, kiln_entry **ret_entry);
kiln_status kilni_dir_item_remove(kiln_item *item);

/* ---- lease.c ---- */

/* In the lease file, the bytes at offsets below 2^40 are the leases of keys. The byte at this
 * offset is the janitor's lock. */
#define KILNI_DIR_JANITOR_BYTE ((off_t)1 << 41)

kiln_status kilni_dir_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                            uint64_t wait_ns, kiln_lease **ret_lease);
void kilni_dir_lease_release(kiln_lease *lease);
