/* SPDX-License-Identifier: Apache-2.0
 *
 * What nvJitLink might remember of a link: options, and failures.
 */
#pragma once

#include <stddef.h>

/* Call this before each link, even if its result is not kept. An option that is not known might
 * affect all later links of the process.
 *
 * Returns a static text that says why the result of a link with these options cannot be kept, or
 * NULL if it can. Threads: any. Blocks: never. */
const char *kilni_nvjitlink_options_refusal(size_t count, const char *const *options);

/* Call this after a link has failed. nvJitLink may end the process at a later link, so what it has
 * left behind might also affect the results of later links. Threads: any. Blocks: never. */
void kilni_nvjitlink_note_failure(void);
