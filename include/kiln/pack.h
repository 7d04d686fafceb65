/* SPDX-License-Identifier: Apache-2.0
 *
 * A pack: entries in one file that never changes, to be shipped with an application or a container
 * image. A pack is read as a store: its location is "pack:FILE", alone or in a chain after a
 * directory, as in "/var/cache/app|pack:/usr/share/app/app.kpack". kiln_store_copy (store_tools.h)
 * unpacks it into a different store. docs/packs.md describes packs.
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

/* A pack that is being written. Only one thread at a time may use it. */
typedef struct kiln_pack_writer kiln_pack_writer;

enum {
    KILN_PACK_STRIP_KEYS =
        1u /* parts longer than 32 bytes, mainly sources, are stored as digests */
};

/* How a pack is written. */
typedef struct kiln_pack_params {
    size_t struct_size;
    uint32_t flags;       /* KILN_PACK_… or-ed */
    uint32_t level;       /* level of compression, 1 to 12; 0: 9 */
    const char *key_file; /* absolute path of the signing key with which entries are signed; NULL:
                             they are not signed */
} kiln_pack_params;

/* Begins a pack. Until kiln_pack_writer_finish gives the pack its name, the entries are in an
 * unnamed file in the same directory.
 *
 * @path        where the pack will be; kiln_pack_writer_finish replaces a file of that name
 * @params      read during the call; NULL: all defaults
 * @ret_writer  [out] to be given to kiln_pack_writer_finish or kiln_pack_writer_abandon
 * @error       may be NULL; names the file and describes the failure
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: unknown flags or fields; KILN_E_DENIED;
 * KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. Threads: any. Blocks: on the file
 * system. */
KILN_API kiln_status kiln_pack_writer_open(const char *path, const kiln_pack_params *params,
                                           kiln_pack_writer **ret_writer, kiln_error *error);

/* Adds a copy of an entry, compressed. If two entries have the same digest, the pack keeps the
 * first. If the call fails, the pack does not contain the entry, but can still be finished.
 *
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: @entry is a capture request, which belongs
 * to one machine; KILN_E_TOO_LARGE; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. Threads: one at a
 * time. Blocks: on writing. */
KILN_API kiln_status kiln_pack_writer_add(kiln_pack_writer *writer, const kiln_entry *entry);

/* What was written. */
typedef struct kiln_pack_report {
    size_t struct_size;
    uint64_t entries, bytes; /* the number of entries in the pack, and the size of its file */
} kiln_pack_report;

/* Writes the pack in an order that does not depend on the order of the calls, syncs it to disk, and
 * gives it its name. Always frees the writer and sets the pointer to NULL. After a failure, a file
 * that already had the name is still there, unchanged.
 *
 * @ret_report  [in, out] the caller sets its struct_size; may be NULL
 * @error       may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_FULL; KILN_E_DENIED; KILN_E_IO;
 * KILN_E_NO_MEMORY. Threads: one at a time. Blocks: on writing. */
KILN_API kiln_status kiln_pack_writer_finish(kiln_pack_writer **writer,
                                             kiln_pack_report *ret_report, kiln_error *error);

/* Discards a pack and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_pack_writer_abandon(kiln_pack_writer **writer);

#ifdef __cplusplus
}
#endif

#endif
