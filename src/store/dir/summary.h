/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary of a store: what ranking needs of each entry, in the order of a walk. It is a hint: a
 * record is used only if the file that it describes is unchanged. What is missing or damaged is
 * read from the entries again. docs/trimming.md describes its bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

typedef struct kilni_dir_record {
    uint64_t shard, inode;
    int64_t used_ns; /* the file's mtime, Unix nanoseconds */
    uint64_t disk_bytes;
    int64_t created_s;
    uint64_t build_ns; /* or KILNI_DIR_STAYS */
} kilni_dir_record;

/* The cost of an entry that must not be removed: it has a newer format, or cannot be read. */
#define KILNI_DIR_STAYS UINT64_MAX

typedef struct kilni_dir_records {
    kilni_dir_record *items;
    size_t count, capacity;
} kilni_dir_records;

/* Returns false if memory runs out. */
bool kilni_dir_records_add(kilni_dir_records *records, const kilni_dir_record *record);
void kilni_dir_records_done(kilni_dir_records *records);

/* Segments of records, one after the other: in a file, or only in memory. */
typedef struct kilni_dir_summary {
    int file;             /* -1: all of it is in memory */
    uint64_t size;        /* of the file, beyond which @bytes follow */
    unsigned char *bytes; /* what is not in the file */
    size_t count, capacity;
} kilni_dir_summary;

/* The largest number of records in a segment. */
#define KILNI_DIR_SEGMENT_RECORDS 4096u

/* Appends @records as one segment and empties them. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_summary_append(kilni_dir_summary *summary, kilni_dir_records *records);

/* Writes what is in memory to the file. Returns KILN_OK, also without a file; KILN_E_FULL;
 * KILN_E_IO. */
kiln_status kilni_dir_summary_flush(kilni_dir_summary *summary);

/* Reads the segment at an offset into @records, which it empties before. Returns KILN_OK;
 * KILN_MISS: there is none, or it is damaged; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_summary_read(const kilni_dir_summary *summary, uint64_t offset,
                                   kilni_dir_records *records, uint64_t *ret_next);

/* Frees the memory; the file stays open. */
void kilni_dir_summary_done(kilni_dir_summary *summary);
