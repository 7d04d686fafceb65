/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of engines, for settings that apply to a whole process.
 */
#ifndef KILN_ENGINE_H
#define KILN_ENGINE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The values never change. */
typedef enum kiln_engine_kind { KILN_ENGINE_CPU = 1, KILN_ENGINE_GPU = 2 } kiln_engine_kind;

#ifdef __cplusplus
}
#endif

#endif
