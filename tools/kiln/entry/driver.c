/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <stdbool.h>
#include <string.h>

#include "../text/memory.h"
#include "architecture.h"
#include "key_part.h"

/* Returns the short text of the first part of that name; NULL if there is none. The caller frees
 * it. */
static char *text_of_part(const kiln_key *key, const char *name)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, name) == 0) {
            return key_part_is_short(&part) ? key_part_value(&part) : NULL;
        }
    }
    return NULL;
}

char *driver_of_key(const kiln_key *key)
{
    owned char *platform = text_of_part(key, "platform.name");
    owned char *version = text_of_part(key, "device.driver_version");
    owned char *nvrtc = text_of_part(key, "nvrtc.version");
    owned char *hiprtc = text_of_part(key, "hiprtc.version");
    if (nvrtc != NULL || hiprtc != NULL) {
        return text_of("%s %s", nvrtc != NULL ? "NVRTC" : "HIPRTC", nvrtc != NULL ? nvrtc : hiprtc);
    }
    return platform == NULL ? text_of("-")
                            : text_of("%s %s", platform, version == NULL ? "" : version);
}

/* Returns the part of a value that names a device or an architecture; NULL: none of it does.
 *
 * @is_value  the option before this part expects an architecture; updated for the next part */
static const char *device_in(const char *name, const char *value, bool *is_value)
{
    static const char *const names[] = {"platform.name", "device.name", "device.partition"};
    if (strcmp(name, "option") == 0) {
        size_t length = 0;
        const size_t at = architecture_find(value, *is_value, &length);
        *is_value = architecture_expects_value(value);
        return at > 0 ? value + at : NULL;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return value;
        }
    }
    return NULL;
}

char *device_of_key(const kiln_key *key)
{
    kiln_key_part part;
    char *device = must(strdup(""));
    bool is_value = false;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        owned char *value = key_part_value(&part);
        const char *added = device_in(part.name, value, &is_value);
        if (added != NULL) {
            owned char *before = device;
            device = text_of("%s%s\n", before, added);
        }
    }
    return device;
}

char *driver_of(kiln_item *item)
{
    kiln_entry *entry = NULL;
    if (kiln_item_read(item, &entry) != KILN_OK) {
        return text_of("-");
    }
    char *driver = driver_of_key(kiln_entry_key(entry));
    kiln_entry_release(&entry);
    return driver;
}
