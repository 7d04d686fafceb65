/* SPDX-License-Identifier: Apache-2.0
 *
 * What is shared by tests that record the reads of a compilation and check these reads again.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/watch/changed_files.h"
#include "device/watch/read_files.h"

static inline kilni_reads *new_reads(const char *name)
{
    kilni_reads *reads = NULL;
    assert_int_equal(kilni_reads_new(name, &kilni_clock_words, &reads), KILN_OK);
    return reads;
}

static inline kilni_text finish_reads(kilni_reads *reads, bool moves)
{
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    const char *why = NULL;
    assert_int_equal(kilni_reads_finish(reads, moves, &words, &encoded, &why), KILN_OK);
    kilni_reads_free(&reads);
    assert_null(reads);
    return encoded;
}

static inline kiln_status reads_hold(const kilni_text *encoded, const char *name)
{
    return kilni_reads_hold((kiln_bytes){encoded->bytes, encoded->length}, name, NULL);
}

/* What the visitor received, with one line for each read. */
typedef struct visits {
    char text[512];
    size_t count, count_max;
} visits;

static inline int visit_read(void *user, const kiln_read *read)
{
    visits *t = user;
    const size_t length = strlen(t->text);
    snprintf(t->text + length, sizeof t->text - length, "%s%s %u %u %s %u\n",
             read->relative_to_program ? "." : "", read->path, (unsigned)read->found,
             (unsigned)read->size, kiln_status_name(read->now), (unsigned)read->found_now);
    return ++t->count == t->count_max;
}
