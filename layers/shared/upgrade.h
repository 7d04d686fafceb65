/* SPDX-License-Identifier: Apache-2.0
 *
 * After an upgrade: the first build with a driver or compiler that the store does not know yet
 * leaves a request, and starts the helper. The helper repeats the builds of the older ones with the
 * new one (`kiln replay`). It begins with what this program asked for when it last ran, so that the
 * program finds the results when it comes to them.
 */
#pragma once

#include <kiln/key.h>

/* Called after a build. Leaves the request if the store knows other drivers, but not this one.
 * session_requests must have returned something other than NULL.
 *
 * @key      of the build
 * @family   a part of the text of the device (kiln_provenance) that it shares with the entries of
 *           other versions of the driver, such as "NVRTC "
 * @library  the path of the compiler's library; NULL: the ICD loader finds it */
void upgrade_note_build(const kiln_key *key, const char *family, const char *library);
