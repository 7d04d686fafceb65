/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of the C library by which NVRTC looks at files: what stands in their places tells of
 * them, and then does as they do.
 */
#pragma once

/* What is to be in the place of a function of that name; NULL: that stays. */
void *kilni_call_find(const char *name);

/* Whether a library that calls such a function may look at files by it, without anybody being told.
 */
int kilni_call_is_unknown(const char *name);
