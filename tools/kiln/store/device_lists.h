/* SPDX-License-Identifier: Apache-2.0
 *
 * Signed lists of devices, with which machines that share no server tell each other which devices
 * they use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device_uses.h"

/* Prints a signed list of the uses on standard output. Returns the exit code.
 *
 * @valid_s  for how long the list is believed */
int device_lists_print(const device_uses *uses, uint64_t valid_s);

/* Adds what lists say. From then on, as with servers, a device that neither a list nor a record has
 * counts as not known.
 *
 * @path  a list, or a folder with nothing but lists
 * Returns KILN_OK; if a list can't be read or believed, says so, and returns the status. */
kiln_status device_lists_add(const char *path, device_uses *uses);
