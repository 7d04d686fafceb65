/* SPDX-License-Identifier: Apache-2.0 */
#include "program/options.h"

#include "base/text.h"

/* A runtime might distinguish empty options from absent options. So if only empty options are
 * given, the result is empty, and not NULL. */
static kiln_status join(const char *const *texts, size_t count, char **ret_options)
{
    kilni_text joined = {0};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        if (!texts[i]) {
            continue;
        }
        const char *space = joined.length > 0 && texts[i][0] ? " " : "";
        status = kilni_text_printf(&joined, "%s%s", space, texts[i]);
    }
    if (status != KILN_OK) {
        kilni_text_done(&joined);
        return status;
    }
    *ret_options = joined.bytes;
    return KILN_OK;
}

kiln_status kilni_options_combine(const char *image, const char *replaced, const char *appended,
                                  const char *caller, char **ret_options)
{
    const char *const texts[] = {replaced ? replaced : image, appended, caller};
    return join(texts, sizeof texts / sizeof texts[0], ret_options);
}

kiln_status kilni_options_join(const char *compile, const char *link, char **ret_options)
{
    const char *const texts[] = {compile, link};
    return join(texts, sizeof texts / sizeof texts[0], ret_options);
}
