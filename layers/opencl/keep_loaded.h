/* SPDX-License-Identifier: Apache-2.0
 *
 * A program may close the ICD loader and open it again. The layer, its writer thread and the
 * functions that it keeps of the loader outlive that; a loader that went would come back at some
 * address as a stranger, whose calls the layer could not tell from those of a layer named twice.
 */
#pragma once

/* Keeps the object that holds this code loaded until the process ends. Does nothing where it can't
 * be told, as in a program that is linked to its loader statically. */
void keep_loaded(const void *code);
