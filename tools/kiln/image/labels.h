/* SPDX-License-Identifier: Apache-2.0
 *
 * What the labels of an image say about the entries in it.
 */
#pragma once

#include <jansson.h>

#include <kiln/entry.h>

typedef struct image_labels {
    json_t *devices, *drivers, *tools; /* objects whose members are the different texts */
} image_labels;

image_labels labels_new(void);

/* Notes the device, the driver and the toolchain of an entry. */
void labels_add(image_labels *labels, const kiln_entry *entry);

/* Returns an object with a text for each label. It depends only on the set of entries. */
json_t *labels_object(const image_labels *labels);

void labels_done(image_labels *labels);
