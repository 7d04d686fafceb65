/* SPDX-License-Identifier: Apache-2.0
 *
 * How many of the programs that older drivers of a device have built are there for the newest one.
 */
#pragma once

#include <jansson.h>

#include <kiln/store.h>

/* Reads all entries of programs. Returns an array with an object for each driver that has replaced
 * others, as far as the entries show: "driver" (platform, device and version, or NVRTC and its
 * version), "programs", which older drivers have built, and "ready", those of them that it has,
 * too. The newest driver of a device is the one whose entry was created last. @store may be NULL:
 * the array is empty. */
json_t *warmth_read(kiln_store *store);
