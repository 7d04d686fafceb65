/* SPDX-License-Identifier: Apache-2.0
 *
 * A program can close the ICD loader and open it again. The layer and its writer thread stay
 * loaded, and the layer remembers functions of the loader. If the loader were unloaded, it could be
 * loaded again at a different address. It would then initialize the layer a second time. The layer
 * would wrongly conclude that it was named twice to the same loader.
 */
#pragma once

/* Keeps the object that contains @code loaded until the process ends. Does nothing if the object
 * cannot be found, for example because the program is linked to its loader statically. */
void keep_loaded(const void *code);
