/* SPDX-License-Identifier: Apache-2.0
 *
 * KILN_API marks what the shared library exports. Programs that link the library statically, and
 * the drop-in layers, which contain it, define KILN_STATIC and export none of it.
 */
#ifndef KILN_EXPORT_H
#define KILN_EXPORT_H

#if defined(KILN_STATIC) || !defined(__GNUC__)
#define KILN_API
#else
#define KILN_API __attribute__((visibility("default")))
#endif

#endif
