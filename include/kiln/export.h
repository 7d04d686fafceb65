/* SPDX-License-Identifier: Apache-2.0
 *
 * KILN_API marks what the shared library exports. A program that links the library statically
 * defines KILN_STATIC and exports nothing of it. The drop-in layers, which contain the library, do
 * the same.
 */
#ifndef KILN_EXPORT_H
#define KILN_EXPORT_H

#if defined(KILN_STATIC) || !defined(__GNUC__)
#define KILN_API
#else
#define KILN_API __attribute__((visibility("default")))
#endif

#endif
