/* SPDX-License-Identifier: Apache-2.0 */
#include "labels.h"

#include <stdlib.h>
#include <string.h>

#include "../entry/driver.h"
#include "../text/json.h"
#include "../text/memory.h"

image_labels labels_new(void)
{
    return (image_labels){.devices = must(json_object()),
                          .drivers = must(json_object()),
                          .tools = must(json_object())};
}

static void note(json_t *texts, const char *text)
{
    json_t *valid = json_text(text, strlen(text));
    if (text[0] != '\0' && strcmp(text, "-") != 0) {
        json_add(texts, json_string_value(valid), json_true());
    }
    json_decref(valid);
}

void labels_add(image_labels *labels, const kiln_entry *entry)
{
    const kiln_provenance provenance = kiln_entry_provenance(entry);
    owned char *driver = driver_of_key(kiln_entry_key(entry));
    note(labels->devices, provenance.device);
    note(labels->drivers, driver);
    note(labels->tools, provenance.tool);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds a label: the texts in order, one on each line. */
static void add_label(json_t *object, const char *name, json_t *texts)
{
    const size_t count = json_object_size(texts);
    const char **sorted = must(calloc(count + 1, sizeof *sorted));
    size_t next = 0;
    const char *text;
    json_t *value;
    json_object_foreach(texts, text, value)
    {
        sorted[next++] = text;
    }
    qsort(sorted, count, sizeof *sorted, compare);
    char *all = must(strdup(""));
    for (size_t i = 0; i < count; i++) {
        owned char *before = all;
        all = text_of("%s%s%s", before, i == 0 ? "" : "\n", sorted[i]);
    }
    free(sorted);
    if (count > 0) {
        json_add(object, name, must(json_string(all)));
    }
    free(all);
}

json_t *labels_object(const image_labels *labels)
{
    json_t *object = must(json_object());
    add_label(object, "kiln.device", labels->devices);
    add_label(object, "kiln.driver", labels->drivers);
    add_label(object, "kiln.toolchain", labels->tools);
    return object;
}

void labels_done(image_labels *labels)
{
    json_decref(labels->devices);
    json_decref(labels->drivers);
    json_decref(labels->tools);
}
