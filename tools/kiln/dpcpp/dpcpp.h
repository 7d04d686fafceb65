/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry points for persistent caches of DPC++'s SYCL runtime: `kiln … --layout dpcpp`. The
 * subcommands call these for that layout; each returns the exit code.
 */
#pragma once

#include <stdbool.h>

typedef struct dpcpp_request {
    const char *command;   /* such as "kiln ls" */
    const char *layout;    /* the value of --layout */
    const char *directory; /* the value of --dir; NULL: where the runtime keeps its cache */
    bool json;
} dpcpp_request;

int dpcpp_ls(const dpcpp_request *request);

/* @name     a prefix of an id, or a path as ls prints it
 * @payload  a file for the device code, or NULL; "-" is stdout
 * @source   write to stdout the device images that the item was built from */
int dpcpp_show(const dpcpp_request *request, const char *name, const char *payload, bool source);

/* The options that verify and trim share. */
typedef struct dpcpp_permission {
    bool yes;          /* false: nothing is changed */
    const char *grace; /* the value of --grace, in seconds, or NULL */
} dpcpp_permission;

/* @repair  repair what is found, if @permission allows it */
int dpcpp_verify(const dpcpp_request *request, bool repair, const dpcpp_permission *permission);

/* @max_size    the value of --max-size, or NULL
 * @older_than  the value of --older-than, or NULL */
int dpcpp_trim(const dpcpp_request *request, const char *max_size, const char *older_than,
               const dpcpp_permission *permission);
