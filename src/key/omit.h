/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts that a test omits from all keys, to check that some other test notices (docs/testing.md).
 * Only files that are compiled for that test define the macro; nothing that is installed does.
 */
#pragma once

#include <stdbool.h>

#ifdef KILN_TEST_OMITS_PARTS

#include <stdlib.h>
#include <string.h>

/* Whether KILN_TEST_OMIT_PART names the part, or ends with "*" and the name begins with what
 * precedes it. */
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
