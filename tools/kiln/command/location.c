/* SPDX-License-Identifier: Apache-2.0 */
#include "location.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../text/memory.h"
#include "../text/output.h"

static const char pack_scheme[] = "pack:";

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

char *absolute_path(const char *path)
{
    if (path[0] == '/') {
        return must(strdup(path));
    }
    char *here = getcwd(NULL, 0);
    char *absolute = text_of("%s/%s", here == NULL ? "." : here, path);
    free(here);
    return absolute;
}

/* Returns a copy of a path in which characters with a meaning in URLs are written as %XX. */
static char *escape(const char *path)
{
    char *escaped = must(malloc(strlen(path) * 3 + 1));
    char *to = escaped;
    for (; *path != '\0'; path++) {
        if (strchr("%?#| ", *path) == NULL) {
            *to++ = *path;
        } else {
            to += sprintf(to, "%%%02X", (unsigned char)*path);
        }
    }
    *to = '\0';
    return escaped;
}

static char *absolute_pack(const char *tier)
{
    const char *path = tier + strlen(pack_scheme);
    if (path[0] == '/' || path[0] == '\0') {
        return must(strdup(tier));
    }
    char *here = absolute_path(".");
    here[strlen(here) - 1] = '\0'; /* ends with the slash */
    char *escaped = escape(here);
    char *absolute = text_of("%s%s%s", pack_scheme, escaped, path);
    free(escaped);
    free(here);
    return absolute;
}

static char *absolute_directory(const char *tier)
{
    char *absolute = absolute_path(tier);
    if (strchr(absolute, '|') == NULL) {
        return absolute;
    }
    char *escaped = escape(absolute);
    char *url = text_of("file://%s", escaped);
    free(escaped);
    free(absolute);
    return url;
}

/* A URL has a scheme and an absolute path. A folder's name may contain a ':' too. */
static bool is_url(const char *tier)
{
    size_t length = strspn(tier, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    return length > 0 && begins_with(tier + length, ":/");
}

static char *absolute_tier(const char *tier)
{
    if (begins_with(tier, pack_scheme)) {
        return absolute_pack(tier);
    }
    /* The store reports an empty tier. */
    return is_url(tier) || tier[0] == '\0' ? must(strdup(tier)) : absolute_directory(tier);
}

char *absolute_location(const char *location)
{
    char *all = NULL;
    for (;;) {
        size_t length = strcspn(location, "|");
        char *tier = must(strndup(location, length));
        char *absolute = absolute_tier(tier);
        char *joined = all == NULL ? must(strdup(absolute)) : text_of("%s|%s", all, absolute);
        free(absolute);
        free(tier);
        free(all);
        all = joined;
        if (location[length] == '\0') {
            return all;
        }
        location += length + 1;
    }
}

char *location_with_layout(const char *location, const char *layout)
{
    if (strchr(location, '|') != NULL || begins_with(location, pack_scheme) ||
        (!is_plain_directory(location) && strstr(location, "layout=") != NULL)) {
        return NULL;
    }
    if (!is_plain_directory(location)) {
        const char separator = strchr(location, '?') == NULL ? '?' : '&';
        return text_of("%s%clayout=%s", location, separator, layout);
    }
    char *escaped = escape(location);
    char *url = text_of("file://%s?layout=%s", escaped, layout);
    free(escaped);
    return url;
}

bool is_plain_directory(const char *location)
{
    return location[0] == '/' && strchr(location, '|') == NULL;
}
