/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_url.h"

#include <stdbool.h>
#include <string.h>

/* Returns true if a character needs no escape in a URL. */
static bool is_plain(char character)
{
    return (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z') ||
           (character >= '0' && character <= '9') || strchr("/-._~", character);
}

kiln_status kilni_file_url_append(kilni_text *url, const char *path)
{
    kilni_text_append(url, "file://");
    for (; *path; path++) {
        kilni_text_printf(url, is_plain(*path) ? "%c" : "%%%02X", (unsigned char)*path);
    }
    return kilni_text_append(url, "");
}
