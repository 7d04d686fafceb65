/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of Kiln's support for NVRTC share. Each test has a separate scratch directory.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <kiln/entry.h>
#include <kiln/key.h>

#include "failing_malloc.h"

typedef struct scratch {
    char path[64];
    char before[4096];
} scratch;

static inline int enter_scratch(void **state)
{
    scratch *s = calloc(1, sizeof *s);
    assert_non_null(s);
    strcpy(s->path, "/tmp/kiln-nvrtc-XXXXXX");
    assert_non_null(mkdtemp(s->path));
    assert_non_null(getcwd(s->before, sizeof s->before));
    assert_int_equal(chdir(s->path), 0);
    *state = s;
    return 0;
}

static inline int leave_scratch(void **state)
{
    scratch *s = *state;
    char command[128];
    assert_int_equal(chdir(s->before), 0);
    snprintf(command, sizeof command, "rm -rf %s", s->path);
    assert_int_equal(system(command), 0);
    free(s);
    return 0;
}

static inline void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, enter_scratch, leave_scratch)

/* ---- entries ---- */

/* Names and values in turn. */
static inline kiln_key *new_key(const char *const *parts, size_t count)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    for (size_t i = 0; i < count; i += 2) {
        assert_int_equal(kiln_key_builder_add_text(builder, parts[i], parts[i + 1]), KILN_OK);
    }
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

static inline kiln_entry *new_entry_of(const char *device, kiln_bytes entry_answers,
                                       kiln_bytes payload)
{
    const char *const parts[] = {"nvrtc.version", "99.1", "source", "text"};
    kiln_key *key = new_key(parts, 4);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance, .device = device},
        .answers = entry_answers,
        .payload = payload};
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

static inline kiln_entry *new_entry(kiln_bytes entry_answers, kiln_bytes payload)
{
    return new_entry_of(NULL, entry_answers, payload);
}

/* ---- failing allocations ---- */

static inline void check_each_allocation(kiln_status (*call)(void))
{
    assert_int_equal(call(), KILN_OK);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = call();
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            return;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
}
