/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of these headers, and that of the library.
 */
#ifndef KILN_VERSION_H
#define KILN_VERSION_H

#include <kiln/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers with which a program is compiled, as numbers for #if. */
#define KILN_VERSION_MAJOR 0
/* See KILN_VERSION_MAJOR. */
#define KILN_VERSION_MINOR 1
/* See KILN_VERSION_MAJOR. */
#define KILN_VERSION_PATCH 0

/* The same version as a text. */
#define KILN_VERSION "0.1.0"

/* Returns the version of the library, in the form of KILN_VERSION. The two differ if the program
 * was compiled with the headers of a different version of Kiln. The text is static. Threads: any.
 * Blocks: never. */
KILN_API const char *kiln_version(void);

#ifdef __cplusplus
}
#endif

#endif
