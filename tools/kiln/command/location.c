/* SPDX-License-Identifier: Apache-2.0 */
#include "location.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    owned char *here = getcwd(NULL, 0);
    return text_of("%s/%s", here == NULL ? "." : here, path);
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
    owned char *here = absolute_path(".");
    here[strlen(here) - 1] = '\0'; /* ends with the slash */
    owned char *escaped = escape(here);
    return text_of("%s%s%s", pack_scheme, escaped, path);
}

/* Users also name a pack by its file alone, since no cache is a regular file. */
static char *absolute_file(const char *tier)
{
    struct stat found;
    if (stat(tier, &found) == 0 && S_ISREG(found.st_mode)) {
        return pack_location(tier, NULL);
    }
    owned char *absolute = absolute_path(tier);
    owned char *escaped = escape(absolute);
    return strchr(absolute, '|') == NULL ? must(strdup(absolute)) : text_of("file://%s", escaped);
}

char *pack_location(const char *path, const char *key_file)
{
    owned char *absolute = absolute_path(path);
    owned char *escaped = escape(absolute);
    if (key_file == NULL) {
        return text_of("%s%s", pack_scheme, escaped);
    }
    owned char *absolute_key = absolute_path(key_file);
    owned char *escaped_key = escape(absolute_key);
    return text_of("%s%s?key-file=%s", pack_scheme, escaped, escaped_key);
}

char *first_of_chain(const char *location, const char **ret_others)
{
    const size_t length = strcspn(location, "|");
    *ret_others = location[length] == '\0' ? NULL : location + length + 1;
    return must(strndup(location, length));
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
    return is_url(tier) || tier[0] == '\0' ? must(strdup(tier)) : absolute_file(tier);
}

char *absolute_location(const char *location)
{
    char *all = NULL;
    for (;;) {
        size_t length = strcspn(location, "|");
        owned char *tier = must(strndup(location, length));
        owned char *absolute = absolute_tier(tier);
        owned char *before = all;
        all = before == NULL ? must(strdup(absolute)) : text_of("%s|%s", before, absolute);
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
    owned char *escaped = escape(location);
    return text_of("file://%s?layout=%s", escaped, layout);
}

bool is_plain_directory(const char *location)
{
    return location[0] == '/' && strchr(location, '|') == NULL;
}

bool is_server(const char *location)
{
    return !is_plain_directory(location) && strchr(location, '|') == NULL &&
           strstr(location, "://") != NULL && !begins_with(location, "file:");
}

char *shown_location(const char *location)
{
    const char *colon = is_plain_directory(location) ? NULL : strchr(location, ':');
    const bool may_have_password = colon != NULL && strchr(colon, '@') != NULL;
    return must(strdup(may_have_password ? "(not shown, it may contain a password)" : location));
}
