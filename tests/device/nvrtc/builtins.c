/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for libnvrtc-builtins.
 */
extern const char kiln_builtins[];
const char kiln_builtins[] = "built-in headers";
