/* SPDX-License-Identifier: Apache-2.0
 *
 * When a device was last in use by any machine. A machine that builds programs for a device, or
 * finds them in a store, records this on the servers that it writes to, at most once a day. `kiln
 * trim --stale` reads these records, so that it removes only entries of drivers that no machine has
 * any more. No look-up depends on a record, and a missing record only makes entries stay.
 *
 * A record is an entry without a payload. Its key names the device as the provenance of the
 * device's entries does: platform, device and driver. The time is that of its creation. So records
 * are signed and verified like entries, but they have names of their own, under which no listing
 * finds them.
 */
#pragma once

#include <stdbool.h>

#include <kiln/entry.h>

/* Returns true if an entry was built by the driver of a device, and its provenance names it. */
bool kilni_device_use_is_known(const kiln_entry *entry);

/* Makes the key of a device's record.
 *
 * @device  the text of the provenance; not ""
 * Returns KILN_OK; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_device_use_key_of(const char *device, kiln_key **ret_key);

/* Makes a record which says that the device is in use now. The statuses are those of
 * kilni_device_use_key_of. */
kiln_status kilni_device_use_entry_of(const char *device, kiln_entry **ret_use);
