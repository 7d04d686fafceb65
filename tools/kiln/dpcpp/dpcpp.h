/* SPDX-License-Identifier: Apache-2.0
 *
 * Persistent caches that the SYCL runtime of DPC++ wrote: `kiln … --layout dpcpp`. What the
 * subcommands call where they are asked for that layout; each returns what to exit with.
 */
#pragma once

#include <stdbool.h>

typedef struct dpcpp_request {
    const char *command;   /* as "kiln ls" */
    const char *layout;    /* what --layout said */
    const char *directory; /* --dir; NULL: where the runtime keeps it */
    bool json;
} dpcpp_request;

int dpcpp_ls(const dpcpp_request *request);

/* @name     the beginning of an id, or a path as ls prints it
 * @payload  a file for the device code, or NULL; "-" is stdout
 * @source   write the device images that it was built from to stdout */
int dpcpp_show(const dpcpp_request *request, const char *name, const char *payload, bool source);

/* What verify and trim share. */
typedef struct dpcpp_permission {
    bool yes;          /* without it, nothing is altered */
    const char *grace; /* --grace, seconds, or NULL */
} dpcpp_permission;

int dpcpp_verify(const dpcpp_request *request, bool repair, const dpcpp_permission *permission);

/* @max_size    --max-size, or NULL
 * @older_than  --older-than, or NULL */
int dpcpp_trim(const dpcpp_request *request, const char *max_size, const char *older_than,
               const dpcpp_permission *permission);
