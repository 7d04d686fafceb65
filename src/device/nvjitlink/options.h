/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of nvJitLink.
 */
#pragma once

#include <stddef.h>

/* Call this before each link, even if its result is not kept. An option that is not known might
 * affect all later links of the process.
 *
 * Returns a static text that says why the result of a link with these options cannot be kept, or
 * NULL if it can. Threads: any. Blocks: never. */
const char *kilni_nvjitlink_options_refusal(size_t count, const char *const *options);
