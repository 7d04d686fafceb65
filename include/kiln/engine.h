/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds of engines: what settings that hold for a whole process are given by.
 */
#ifndef KILN_ENGINE_H
#define KILN_ENGINE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Values are fixed. */
typedef enum kiln_engine_kind { KILN_ENGINE_CPU = 1, KILN_ENGINE_GPU = 2 } kiln_engine_kind;

#ifdef __cplusplus
}
#endif

#endif
