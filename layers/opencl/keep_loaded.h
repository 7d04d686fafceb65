/* SPDX-License-Identifier: Apache-2.0
 *
 * A program may close the ICD loader and open it again. The layer, its writer thread and the
 * loader's functions that it remembers outlive that. If the loader were unloaded, it would return
 * at a different address, and the layer could not tell its calls from those of a layer that is
 * named twice.
 */
#pragma once

/* Keeps the object that contains @code loaded until the process ends. Does nothing if the object
 * cannot be found, as in a program that is linked to its loader statically. */
void keep_loaded(const void *code);
