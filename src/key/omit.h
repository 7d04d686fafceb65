/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the parts that a test omits from all keys, to check that other tests fail because of this
 * (docs/testing.md). The macro KILN_TEST_OMITS_PARTS is defined only for files that are compiled
 * for that test, never for files that are installed.
 */
#pragma once

#include <stdbool.h>

#ifdef KILN_TEST_OMITS_PARTS

#include <stdlib.h>
#include <string.h>

/* Returns true if KILN_TEST_OMIT_PART names the part. If the variable ends with "*", it names every
 * part whose name begins with the text before the "*". */
static inline bool kilni_key_omits(const char *name)
{
    const char *omitted = getenv("KILN_TEST_OMIT_PART");
    const size_t length = omitted ? strlen(omitted) : 0;
    return length > 0 && (omitted[length - 1] == '*' ? strncmp(name, omitted, length - 1) == 0
                                                     : strcmp(name, omitted) == 0);
}

#else

static inline bool kilni_key_omits(const char *name)
{
    (void)name;
    return false;
}

#endif
