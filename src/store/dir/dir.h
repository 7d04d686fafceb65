/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in a directory: one engine, and a layout (layout.h) that names the entries.
 *
 *     CACHEDIR.TAG          tells backup programs to pass by
 *     lease                 locked byte by byte; never removed
 *     stats                 totals of all processes, and the size as its writers know it
 *     missed                the last key that was not found, where that is asked for
 *     v1/requests/abcd…     a request, in every layout
 *     v1/janitor/           how far a trim is, and the summary that it ranks by
 *     v1/ab/abcd…           an entry in layout "kiln": 32 hexadecimal digits, the first two of
 *                           which are the folder
 *     v1/ab/.tmp-…          an entry on its way
 *
 * The other layouts have two files for each entry (pair.h). Every name is made here, and every
 * access goes through the directory's descriptor. Readers take no lock. docs/layouts.md says more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "os/owned_file.h"
#include "store/engine.h"
#include "store/totals.h"

/* What the totals are still to be told. Sums alone: every access is relaxed. */
typedef struct kilni_dir_owed {
    _Atomic int64_t entries, bytes;
    _Atomic uint64_t counters[KILNI_STATS_COUNT];
} kilni_dir_owed;

typedef struct kilni_dir {
    kiln_store store; /* first: a kilni_dir is a kiln_store */
    const struct kilni_dir_layout *layout, *request_layout;
    unsigned hash_bits; /* of each hash in a pair's names, from the left: 128; tests take fewer */
    char *path;         /* as its user gave it */
    uid_t user;
    kilni_owned_file start; /* where a relative path begins; none for an absolute one */
    /* Where the directory is open. Replaced when it was removed and made again, or when the
     * application has closed the descriptor: the store (release) in kilni_dir_revive pairs with
     * the loads (acquire) in kilni_dir_of and kilni_dir_root. */
    _Atomic(struct kilni_dir_place *) place;
    /* All of them, the newest first: calls may still look at those before, so that their memory is
     * kept until the end. Belongs to whoever opens or revives. */
    struct kilni_dir_place *places;
    kilni_dir_owed owed;
    /* How often in a row the lock of the totals could not be had, and until when nobody tries; 0:
     * now. Relaxed: hints. */
    _Atomic unsigned totals_failures;
    _Atomic uint64_t totals_retry_ns;
    /* Bytes put while the totals could not be kept; they decide when to trim then. Relaxed. */
    _Atomic uint64_t untold_bytes;
    /* A trim that this handle worked on is not at its end. Relaxed: a hint. */
    _Atomic bool is_trimming;
    /* Before then (Unix seconds) nobody has to look whether the daily trim is due. Relaxed. */
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

/* Where the entry of a key is. */
unsigned kilni_dir_shard_of(const kiln_key *key);

/* Whether what a shard has counts as entries: requests count by their bytes alone. */
bool kilni_dir_has_entries(unsigned shard);

/* "v1/ab", "v1/requests" */
void kilni_dir_shard_path(unsigned shard, char *path);
/* "v1/ab/abcd…", for people */
void kilni_dir_path_of(const kiln_key *key, char *path);
/* "abcd…", its name in the shard; of KILN_DIGEST_TEXT_SIZE bytes */
void kilni_dir_name_of(const kiln_key *key, char *name);
/* "FOLDER/.tmp-…", of a random number; false where that is longer than @size */
bool kilni_dir_temporary_path(const char *folder, uint64_t number, char *path, size_t size);
/* ".tmp-…-aside": the one name under which a file of this name is set aside, in the directory that
 * the name is relative to.
 *
 * @aside  [out] of KILNI_DIR_PATH_SIZE bytes */
void kilni_dir_aside_name(const char *name, char *aside);

/* Whether a name in a shard is an entry's, and whose; whether it is a temporary's, of
 * which some are set aside. */
bool kilni_dir_is_entry_name(const char *name, unsigned shard, kiln_digest *ret_digest);
bool kilni_dir_is_temporary_name(const char *name);
bool kilni_dir_is_aside_name(const char *name);

/* ---- enter.c: the way to the directory ---- */

typedef struct kilni_entrance {
    int start;        /* where a relative path begins; -1 for an absolute one */
    uid_t user;       /* who we are */
    bool is_readonly; /* root may own the directory */
    bool may_create;
    bool only_passes; /* the last component is on the way too, and is judged like those above it */
} kilni_entrance;

/* Walks to a directory from descriptor to descriptor and trusts it: the directory itself is ours
 * and nobody else may write it, and is no symbolic link; those above it, and links among them, are
 * ours or root's, and not open to everybody's writing (but sticky ones are). What is missing is
 * made, mode 0700.
 *
 * @ret_made  whether the last component was missing */
kiln_status kilni_dir_enter(const char *path, const kilni_entrance *entrance, int *ret_directory,
                            bool *ret_made, kiln_error *error);

/* mkdirat, mode 0700 whatever the umask. */
int kilni_dir_make_directory(int parent, const char *path);

/* ---- place.c: where the directory is open ---- */

bool kilni_dir_is_readonly(const kilni_dir *dir);

/* Goes to the directory for the first time. Statuses as kiln_store_open. */
kiln_status kilni_dir_go(kilni_dir *dir, kiln_error *error);

/* Goes there again: after the directory was removed, making it anew where that is allowed, or after
 * its descriptor was closed by someone else. */
kiln_status kilni_dir_revive(kilni_dir *dir);

/* The directory of a store, with its descriptor checked and, where it is not ours any more, opened
 * anew. Where that fails, all that is done in it fails with KILN_E_IO. Each call of the interface
 * begins so. */
kilni_dir *kilni_dir_of(kiln_store *store);

/* The directory's descriptor. -1: it is lost. */
int kilni_dir_root(const kilni_dir *dir);

/* Whether the descriptor is still the one that was opened. */
bool kilni_dir_is_there(const kilni_dir *dir);

/* Closes what was opened. */
void kilni_dir_leave(kilni_dir *dir);

/* ---- shard.c: the folders below the directory ---- */

/* Whether a folder below the directory may be used: ours, and nobody else may write it. */
bool kilni_dir_trusts_folder(const kilni_dir *dir, const struct stat *stat);

/* The same of an open folder. KILN_OK; KILN_E_DENIED; else as kilni_dir_read_status. */
kiln_status kilni_dir_judge_folder(const kilni_dir *dir, int folder);

/* Opens a folder below the directory and judges it. A symbolic link, anywhere on the path, is
 * denied.
 *
 * @flags  O_PATH, or O_RDONLY to list it
 * Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_open_folder(const kilni_dir *dir, const char *path, int flags,
                                  int *ret_folder);
kiln_status kilni_dir_open_shard(const kilni_dir *dir, unsigned shard, int flags, int *ret_folder);

/* Makes a shard, and those above it if they are gone. KILN_OK, also if it exists; else as
 * kilni_dir_open_folder and kilni_dir_write_status. */
kiln_status kilni_dir_make_shard(kilni_dir *dir, unsigned shard);

/* Removes a shard if it is empty. A writer that finds it gone makes it again. */
void kilni_dir_remove_empty_shard(const kilni_dir *dir, unsigned shard);

/* ---- entry_file.c: files that may hold an entry ---- */

/* Opens what may be an entry and trusts the file: a regular one, ours, that nobody else may write.
 * Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_open_file(const kilni_dir *dir, int directory, const char *path,
                                int *ret_file, struct stat *ret_stat);

/* What an errno of a look at a file or folder says: KILN_MISS also for what network file systems
 * answer of a file that was there a moment ago; KILN_E_DENIED; KILN_E_NO_MEMORY; KILN_E_IO. */
kiln_status kilni_dir_read_status(int system_error);

/* What an errno of a write says; KILN_MISS: a directory is gone. */
kiln_status kilni_dir_write_status(int system_error);

/* More than this is read into no one's memory. */
uint64_t kilni_dir_largest_file(const kilni_dir *dir);

/* Notes a use: the file's mtime is the time of the last, as exact as the interval. */
void kilni_dir_stamp_use(const kilni_dir *dir, int file, const struct stat *stat);

/* Reads an open file into memory of its own and verifies it. */
kiln_status kilni_dir_read_file(const kilni_dir *dir, int file, const struct stat *stat,
                                kiln_entry **ret_entry);

/* Bytes that a file occupies on the disk. */
uint64_t kilni_dir_disk_bytes(const struct stat *stat);

/* ---- temporary.c ---- */

/* Writes a new temporary, which is to be renamed or removed.
 *
 * @directory       @folder is relative to it
 * @path            [out] of @size bytes; relative to @directory too
 * @ret_disk_bytes  [out]
 * Returns KILN_OK; KILN_MISS: the folder is not there; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL;
 * KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_write_temporary(const kilni_dir *dir, int directory, const char *folder,
                                      kiln_bytes bytes, char *path, size_t size,
                                      uint64_t *ret_disk_bytes);

/* ---- remove.c: removing what was judged ---- */

/* Whether a file that kilni_dir_open_file opened is an entry of a newer format, or can't be read:
 * these stay. */
bool kilni_dir_may_be_newer(const kilni_dir *dir, int file, const struct stat *stat);

/* Whether what is at a path may be removed: an entry of a newer format stays, and so does one that
 * can't be looked at. */
bool kilni_dir_may_remove(const kilni_dir *dir, int directory, const char *path);

/* What an errno of a removal says: KILN_MISS; KILN_E_READONLY; KILN_E_IO. */
kiln_status kilni_dir_remove_status(int system_error);

/* A file that is open. As long as it is, no other file can get its inode's number. */
typedef struct kilni_dir_held {
    int file;        /* opened with O_PATH if it is not trusted */
    bool is_trusted; /* as kilni_dir_open_file */
    struct stat stat;
} kilni_dir_held;

/* Opens what is at a path, to judge it and to remove that very file. KILN_OK, also of what is not
 * trusted; else as kilni_dir_open_file. */
kiln_status kilni_dir_hold(const kilni_dir *dir, int directory, const char *path,
                           kilni_dir_held *ret_held);
void kilni_dir_let_go(kilni_dir_held *held);

/* Whether a held file may be removed.
 *
 * @judged  NULL: whatever it is; else only if it holds what this entry does
 * Returns KILN_OK; KILN_EXISTS: of a newer format, or unreadable; KILN_MISS: not a regular file, or
 * not the judged one; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_judge_held(const kilni_dir *dir, const kilni_dir_held *held,
                                 const kiln_entry *judged);

/* Tells one file from another that took its name. */
typedef struct kilni_dir_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec used; /* its mtime */
    bool is_held;         /* the inode is enough: uses meanwhile do not matter */
} kilni_dir_identity;

kilni_dir_identity kilni_dir_identity_of(const struct stat *stat);

/* Good while the file is held. */
kilni_dir_identity kilni_dir_identity_of_held(const kilni_dir_held *held);

/* Whether it is still the file that was seen. Returns KILN_OK; KILN_MISS; KILN_E_READONLY;
 * KILN_E_IO. */
kiln_status kilni_dir_look_again(int directory, const char *path, const kilni_dir_identity *seen);

/* Whether there is nothing of that name, for sure. */
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

/* ---- owed.c: what the totals are still to be told ---- */

/* Changes the store's statistics file, together with all that it is owed, and lets the layout note
 * the new size. KILN_BUSY: its lock could not be had, and the change is owed (but a recount is
 * lost); else as kilni_totals_change_file. */
kiln_status kilni_dir_change_totals(kilni_dir *dir, const kilni_totals_change *change,
                                    kilni_totals *ret_totals);

/* Adds to what the file says what it is owed by this handle. */
void kilni_dir_add_owed(const kilni_dir *dir, kilni_totals *totals);

/* Whether there is anything that it has not been told. */
bool kilni_dir_owes(const kilni_dir *dir);

/* ---- walk.c ---- */

/* Where an entry is. In layout "kiln" its digest names it; of a pair, the number in a folder. */
typedef struct kilni_dir_spot {
    unsigned shard; /* of pairs: the first byte of the first folder that a hash names */
    kiln_digest digest;
    const char *folder; /* of a pair: its path; else NULL */
    uint32_t number;
} kilni_dir_spot;

/* A file of a pair whose other one is not there. */
typedef enum kilni_dir_half {
    KILNI_DIR_NO_HALF,
    KILNI_DIR_HALF_KEY,
    KILNI_DIR_HALF_PAYLOAD
} kilni_dir_half;

/* One file of ours that a walk met, or a pair. Valid during the visit. */
typedef struct kilni_dir_found {
    unsigned shard;
    int directory;       /* in which @name is */
    const char *name;    /* of a pair: the payload's */
    bool is_temporary;   /* or half of a pair */
    kilni_dir_half half; /* which one */
    kiln_digest digest;  /* of an entry; of a pair: zeros */
    struct stat stat;    /* of a pair: the payload's, but with the blocks of both files */
    const char *folder;  /* of what belongs to a pair: the path of @directory; else NULL */
    uint32_t number;     /* of a pair, or half of one */
    uint64_t key_size;   /* of a pair: of its key's file */
} kilni_dir_found;

kilni_dir_spot kilni_dir_spot_of(const kilni_dir_found *found);

/* A result other than 0 ends the walk. */
typedef int kilni_dir_visit_fn(void *user, const kilni_dir_found *found);

/* Removes what a walk has found, while it is still that.
 *
 * @seen        of the found file
 * @even_newer  also if it is of a newer format
 * Returns KILN_OK; KILN_EXISTS: it stays; else as kilni_dir_move_aside. */
kiln_status kilni_dir_remove_found(kilni_dir *dir, const kilni_dir_found *found,
                                   const kilni_dir_identity *seen, bool even_newer);

/* The layout of what a walk found in a shard. */
const struct kilni_dir_layout *kilni_dir_layout_of_shard(const kilni_dir *dir, unsigned shard);

/* Meets every regular file with a name of ours. A shard that cannot be read or is not trusted is
 * skipped, and its status returned at the end. Returns KILN_OK; KILN_E_DENIED; KILN_E_IO;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_dir_walk(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user);

/* Where a walk is: at which offset in each of the folders that lead there, and which folder that
 * one was, by inode; zeros: at the beginning. */
#define KILNI_DIR_FOLDERS 6u
typedef struct kilni_dir_position {
    uint64_t offsets[KILNI_DIR_FOLDERS];
    uint64_t inodes[KILNI_DIR_FOLDERS]; /* of what is at the offset */
} kilni_dir_position;

/* The same in one of KILNI_DIR_SHARD_COUNT parts, from a position on. The parts are the shards of
 * layout "kiln"; in other layouts all entries are in the first one, and a walk that is ended ends
 * behind the folder that it is in. Where the visit ends the walk, sets @position to where to go on.
 * That stays good while files come and go, and for other processes; should a file system lose its
 * offsets, files are met twice or not at all.
 * Returns KILN_OK; KILN_MISS: no such part; KILN_E_DENIED; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_walk_part(kilni_dir *dir, unsigned part, kilni_dir_position *position,
                                kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);
/* One shard of layout "kiln". Sets @ret_has_ended to whether a visit ended the walk. KILN_MISS: no
 * such shard; KILN_E_DENIED: it is not trusted; else as above. */
kiln_status kilni_dir_walk_shard(kilni_dir *dir, unsigned shard, kilni_dir_visit_fn *visit,
                                 void *user, bool *ret_has_ended);

/* ---- stat.c ---- */

kiln_status kilni_dir_stat(kiln_store *store, kiln_store_stat *ret_stat);

/* By what the totals say; where they say nothing, as kilni_dir_stat. */
kiln_status kilni_dir_known_stat(kiln_store *store, kiln_store_stat *ret_stat);

/* ---- trim.c ---- */

kiln_status kilni_dir_trim(kiln_store *store, const kiln_trim_params *params,
                           kiln_trim_report *ret_report);

/* Whether there is room for @size bytes in the place of @replaced. In a store that evicts there
 * always is. */
bool kilni_dir_takes(kilni_dir *dir, uint64_t size, uint64_t replaced);

/* What a put does at its end: a slice of a trim, where the store outgrew its size, where a trim is
 * under way, or where the last one was a day ago. */
void kilni_dir_tend(kilni_dir *dir, uint64_t put_bytes, bool has_outgrown);

/* Counts the store anew, and trims it where it is too large: a slice of that. */
void kilni_dir_make_room(kilni_dir *dir);

/* The same for a store whose size nobody knows. Puts go on with it; one that evicts nothing gets as
 * many slices at once as a put does at most. */
void kilni_dir_begin_count(kilni_dir *dir);

/* What a store does before it is closed, for a short time: it goes on with a trim, or lets what is
 * too old go, unless it was surveyed within an hour. */
void kilni_dir_tend_at_end(kilni_dir *dir);

/* ---- account.c: what the totals are told ---- */

/* What a put is about to replace. */
typedef struct kilni_dir_incumbent {
    bool is_there;
    uint64_t disk_bytes;
} kilni_dir_incumbent;

/* Counts a put, and makes room where the store outgrew its size by it. */
void kilni_dir_settle(kilni_dir *dir, unsigned shard, uint64_t disk_bytes,
                      const kilni_dir_incumbent *replaced);

/* Takes what was removed off the totals. */
void kilni_dir_count_removed(kilni_dir *dir, unsigned shard, const struct stat *removed);

kiln_status kilni_dir_account(kiln_store *store, const kiln_stats *delta);

/* Tells what is owed, for the last time. */
void kilni_dir_tell_owed(kiln_store *store);

/* ---- items.c ---- */

kiln_status kilni_dir_each(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_dir_each_request(kiln_store *store, kiln_item_fn visit, void *user);
kiln_status kilni_dir_item_info(kiln_item *item, kiln_item_info *ret_info);
kiln_status kilni_dir_item_read(kiln_item *item, kiln_entry **ret_entry);
kiln_status kilni_dir_item_remove(kiln_item *item);

/* ---- lease.c ---- */

/* Key leases are the bytes up to 2^40 of the lease file; this one is the janitor's. */
#define KILNI_DIR_JANITOR_BYTE ((off_t)1 << 41)

kiln_status kilni_dir_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                            kiln_lease **ret_lease);
void kilni_dir_lease_release(kiln_lease *lease);
