/* SPDX-License-Identifier: Apache-2.0
 *
 * A pack: entries in one file that never changes, to be shipped with an application or a container
 * image. A pack is read as a store, by the location "pack:FILE",
 * alone or below a directory: "/var/cache/app|pack:/usr/share/app/app.kpack".
 *
 *     kiln_pack_writer *writer = NULL;
 *     if (kiln_pack_writer_open(path, NULL, &writer, &error) == KILN_OK) {
 *         kiln_pack_writer_add(writer, entry);
 *         kiln_pack_writer_finish(&writer, NULL, &error);
 *     }
 */
#ifndef KILN_PACK_H
#define KILN_PACK_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/status.h>
#include <kiln/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pack that is being written. One thread at a time. */
typedef struct kiln_pack_writer kiln_pack_writer;

enum {
    KILN_PACK_STRIP_KEYS = 1u /* of parts of more than 32 bytes, sources above all, keep a digest */
};

/* How a pack is written. */
typedef struct kiln_pack_params {
    size_t struct_size;
    uint32_t flags;       /* KILN_PACK_… */
    uint32_t level;       /* of compression, 1 to 12; 0: 9 */
    const char *key_file; /* an absolute path; entries are signed with it. NULL: they are not */
} kiln_pack_params;

/* Begins a pack. Nothing stands under its name before kiln_pack_writer_finish; until then entries
 * wait in a file without a name in the same directory.
 *
 * @path        of the pack; one that is there is replaced at the end
 * @params      lives for the call; NULL: all defaults
 * @ret_writer  [out] to be given to kiln_pack_writer_finish or kiln_pack_writer_abandon
 * @error       may be NULL; says what was wrong with which file
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: unknown flags or fields; KILN_E_DENIED;
 * KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. Blocks: on the file system. */
KILN_API kiln_status kiln_pack_writer_open(const char *path, const kiln_pack_params *params,
                                           kiln_pack_writer **ret_writer, kiln_error *error);

/* Adds a copy of an entry, compressed. Of two entries of one digest the pack gets the first.
 *
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: a request, which belongs to one machine;
 * KILN_E_TOO_LARGE; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. What failed is not in the pack; it
 * may still be finished. Blocks: on writing. */
KILN_API kiln_status kiln_pack_writer_add(kiln_pack_writer *writer, const kiln_entry *entry);

/* What was written. */
typedef struct kiln_pack_report {
    size_t struct_size;
    uint64_t entries, bytes; /* what is in the pack, and the size of its file */
} kiln_pack_report;

/* Writes the pack, in an order that does not depend on that of the calls, brings it to the disk and
 * gives it its name. Frees the writer, in any case, and sets the pointer to NULL.
 *
 * @ret_report  [out] may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_FULL; KILN_E_DENIED; KILN_E_IO;
 * KILN_E_NO_MEMORY. After a failure what stood under the name stands there still. Blocks: on
 * writing. */
KILN_API kiln_status kiln_pack_writer_finish(kiln_pack_writer **writer,
                                             kiln_pack_report *ret_report, kiln_error *error);

/* Drops all of it and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_pack_writer_abandon(kiln_pack_writer **writer);

enum {
    KILN_UNPACK_TRUST = 1u /* take what nothing authenticates */
};

/* What is taken out of a pack. */
typedef struct kiln_unpack_params {
    size_t struct_size;
    uint32_t flags;       /* KILN_UNPACK_… */
    const char *key_file; /* an absolute path; only what is signed with it is taken */
} kiln_unpack_params;

/* What became of its entries. */
typedef struct kiln_unpack_report {
    size_t struct_size;
    uint64_t taken;           /* put into the store */
    uint64_t present;         /* the store had a sound entry of that key */
    uint64_t unauthenticated; /* not signed, or not with this key */
    uint64_t damaged;         /* and those of a newer format */
    uint64_t refused;         /* by the store; and requests, which no pack has */
} kiln_unpack_report;

/* Puts the entries of a pack into a store, payloads plain. Without a key file and without
 * KILN_UNPACK_TRUST nothing is read.
 *
 * @path    of the pack: a file of this user's or root's that nobody else may write
 * @params  lives for the call
 * @into    not NULL
 * Returns KILN_OK, also where some were not taken; KILN_E_INVALID; KILN_E_UNAUTHENTICATED: neither
 * a key file nor KILN_UNPACK_TRUST; KILN_E_READONLY: the store; KILN_E_CORRUPT: it is no pack, or a
 * part of its index is damaged, and then the rest was taken; KILN_E_VERSION; KILN_E_DENIED;
 * KILN_E_IO; KILN_E_NO_MEMORY. Blocks: on reading and writing. */
KILN_API kiln_status kiln_pack_unpack(const char *path, const kiln_unpack_params *params,
                                      kiln_store *into, kiln_unpack_report *ret_report,
                                      kiln_error *error);

#ifdef __cplusplus
}
#endif

#endif
