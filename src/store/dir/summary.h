/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary of a store contains a record for each entry, in the order of a walk. A record has the
 * facts by which the entry is ranked. The summary is only a hint: a record is used only if the file
 * that it describes is unchanged. If a record is missing or damaged, the facts are read from the
 * entry again. docs/trimming.md describes the summary's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "store/rank.h"

typedef struct kilni_dir_record {
    uint64_t shard, inode;
    /* used_ns is the file's mtime. If build_ns is KILNI_DIR_STAYS, the entry is never removed. */
    kilni_rank_facts facts;
} kilni_dir_record;

/* The value of build_ns for an entry that must not be removed because it has a newer format or
 * cannot be read. */
#define KILNI_DIR_STAYS UINT64_MAX

typedef struct kilni_dir_records {
    kilni_dir_record *items;
    size_t count, capacity;
} kilni_dir_records;

/* Returns false if memory runs out. */
bool kilni_dir_records_add(kilni_dir_records *records, const kilni_dir_record *record);
void kilni_dir_records_done(kilni_dir_records *records);

/* A summary consists of segments of records. The first segments can be in a file. All others are in
 * memory. */
typedef struct kilni_dir_summary {
    int file;             /* -1: all of it is in memory */
    uint64_t size;        /* of the file; @bytes continue the file */
    unsigned char *bytes; /* the bytes that are not in the file */
    size_t count, capacity;
} kilni_dir_summary;

/* The largest number of records in a segment. */
#define KILNI_DIR_SEGMENT_RECORDS 4096u

/* Appends @records as one segment, and then empties @records. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_dir_summary_append(kilni_dir_summary *summary, kilni_dir_records *records);

/* Writes the bytes in memory to the file. Returns KILN_OK, even if there is no file; KILN_E_FULL;
 * KILN_E_IO. */
kiln_status kilni_dir_summary_flush(kilni_dir_summary *summary);

/* Replaces the content of @records by the segment at an offset. Sets @ret_next to the offset of the
 * next segment. Returns KILN_OK; KILN_MISS: there is no segment, or it is damaged;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_dir_summary_read(const kilni_dir_summary *summary, uint64_t offset,
                                   kilni_dir_records *records, uint64_t *ret_next);

/* Frees the memory; the file stays open. */
void kilni_dir_summary_done(kilni_dir_summary *summary);
