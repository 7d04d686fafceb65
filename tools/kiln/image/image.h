/* SPDX-License-Identifier: Apache-2.0
 *
 * An OCI image layout: a folder with one image, whose layers hold packs. Functions that fail report
 * the error, and return an exit code.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "blob.h"

typedef struct oci_image {
    const char *folder;
    json_t *layers; /* their descriptions, the lowest first */
    char *pack;     /* the path where the caller writes the pack of the next layer */
    char *base;     /* the location of the packs of all layers so far; NULL: there are none */
    bool is_complete;
} oci_image;

/* Begins an image in a folder that is empty or does not exist.
 *
 * @base  the folder of an image layout whose layers become the lowest ones of this image; NULL:
 * none The caller passes the image to image_done, also after a failure. */
int image_begin(const char *folder, const char *base, oci_image *ret_image);

/* Makes the pack the last layer, and writes the image.
 *
 * @labels        taken over
 * @ret_manifest  the image's manifest, whose digest names the image */
int image_finish(oci_image *image, json_t *labels, blob *ret_manifest);

/* Removes temporary files, and layers if the image was not finished. */
void image_done(oci_image *image);
