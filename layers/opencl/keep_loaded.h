/* SPDX-License-Identifier: Apache-2.0
 *
 * A program may close the ICD loader and open it again. The layer and its writer thread stay
 * loaded, and the layer remembers functions of the loader. If the loader were unloaded, it could be
 * loaded again at a different address, and would initialize the layer again. The layer could not
 * distinguish that from a loader to which the layer is named twice.
 */
#pragma once

/* Keeps the object that contains @code loaded until the process ends. Does nothing if the object
 * cannot be found, as in a program that is linked to its loader statically. */
void keep_loaded(const void *code);
