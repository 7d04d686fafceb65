/* SPDX-License-Identifier: Apache-2.0
 *
 * The key of a link: what affects its result, except the contents of further files that nvJitLink
 * reads.
 */
#pragma once

#include <kiln/key.h>

#include "device/nvjitlink/functions.h"

/* Makes a builder with the library's version and build-id, the interface, the options, the
 * variables that affect nvJitLink, and the calling thread's floating-point mode.
 *
 * @version    the library's function, by which the library is found
 * @interface  the release in the names of the functions, such as "12_9"; "" for plain names
 * @more       further patterns of variables (KILN_KEY_ENV), NULL-terminated; NULL: none
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error; KILN_E_TOO_LARGE;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_nvjitlink_key_begin(kilni_nvjitlink_version_fn *version, const char *interface,
                                      size_t option_count, const char *const *options,
                                      const char *const *more, kiln_key_builder **ret_key,
                                      kiln_error *error);

/* Appends an input. @name may be NULL. The key has a digest of the data, or of the content that the
 * file has now, if it exists. */
kiln_status kilni_nvjitlink_key_add_data(kiln_key_builder *key, int kind, const void *data,
                                         size_t size, const char *name);
kiln_status kilni_nvjitlink_key_add_file(kiln_key_builder *key, int kind, const char *path);

/* Makes the key of the link of all inputs that were appended, and the key under which Kiln records
 * that nvJitLink accepted these inputs. */
kiln_status kilni_nvjitlink_key_finish(const kiln_key_builder *key, kiln_key **ret_linked,
                                       kiln_key **ret_accepted);
