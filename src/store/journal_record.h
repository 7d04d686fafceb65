/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of one record of a journal. docs/stores.md describes them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/journal.h>

/* The maximum size of a record. Longer texts are truncated. */
#define KILNI_JOURNAL_RECORD_MAX 1024u

/* Writes the record of an event, and returns the record's size.
 *
 * @bytes  [out] of KILNI_JOURNAL_RECORD_MAX bytes */
size_t kilni_journal_encode(const kiln_journal_event *event, unsigned char *bytes);

/* What the first of some bytes are. */
typedef enum kilni_journal_found {
    KILNI_JOURNAL_EVENT,
    KILNI_JOURNAL_NEWER,    /* a record of a newer format, or of an unknown kind */
    KILNI_JOURNAL_SHORT,    /* they may be the beginning of a record, the end of which is missing */
    KILNI_JOURNAL_NO_RECORD /* they are not a record */
} kilni_journal_found;

/* Decodes the record with which @bytes begin. Trusts nothing in @bytes.
 *
 * @ret_size   [out] the size of the record, for KILNI_JOURNAL_EVENT and KILNI_JOURNAL_NEWER
 * @ret_event  [out] for KILNI_JOURNAL_EVENT; its texts point into @bytes */
kilni_journal_found kilni_journal_decode(const unsigned char *bytes, size_t size, size_t *ret_size,
                                         kiln_journal_event *ret_event);

/* Decodes all records in some bytes, and skips what is not a record. One buffer of bytes after the
 * other can be passed, until @is_last. */
typedef struct kilni_journal_reader {
    kiln_journal_fn visit;
    void *user;
    kiln_journal_report report;
    bool is_skipping; /* the last bytes were not a record, and have been counted */
    bool has_ended;   /* @visit has ended the walk */
} kilni_journal_reader;

/* Returns how many of the bytes have been used. The caller passes the others again, followed by
 * more bytes. If @is_last, all bytes are used. */
size_t kilni_journal_read_bytes(kilni_journal_reader *reader, const unsigned char *bytes,
                                size_t size, bool is_last);
