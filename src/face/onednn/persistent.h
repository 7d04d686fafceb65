/* SPDX-License-Identifier: Apache-2.0
 *
 * What contexts ask of the settings of kiln/persistent.h.
 */
#pragma once

#include <stdint.h>

#include <kiln/persistent.h>

#include "face/onednn/governed_store.h"

/* Whether a number is a kiln_engine_kind. */
int kilni_engine_kind_is_known(uint32_t kind);

/* The store that governs a kind at this moment, opened where it isn't: one reference, to be given
 * back when the caller's work with it is done. NULL: off, or it can't be opened. Threads: any.
 * Blocks: on opening it. */
kilni_governed_store *kilni_persistent_hold(uint32_t kind);

/* The same where it is open already; else NULL. Blocks: never. */
kilni_governed_store *kilni_persistent_hold_open(uint32_t kind);

/* A context that is governed begins; ends. When the last one ends the store is closed, after what
 * waits to be written. */
void kilni_persistent_enter(void);
void kilni_persistent_leave(void);
