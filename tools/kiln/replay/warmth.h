/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the programs that older drivers of a device have built are there for the newest one.
 */
#pragma once

#include <jansson.h>

#include <kiln/store.h>

#include "work_list.h"

/* Reads all entries of programs. Returns an array with an object for each driver that has replaced
 * others, as far as the entries show: "driver" (platform, device and version, or NVRTC and its
 * version), "programs", which older drivers have built, and "ready", those of them that it has,
 * too. The newest driver of a device is the one whose entry was created last. @store may be NULL:
 * the array is empty. */
json_t *warmth_read(kiln_store *store);

/* Moves the builds whose results the store has for its newest drivers to the end of the list. So a
 * replay that was interrupted goes on with what is missing. */
void warmth_put_ready_last(kiln_store *store, work_list *list);
