/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that NVRTC does not forget. After a process has compiled a program with --restrict, NVRTC
 * 13.0 compiles all later programs of that process as if they had the option too: their loads
 * become ld.global.nc, which is wrong if pointers overlap. docs/nvrtc.md lists the options that
 * were seen to last. More options may last in a later NVRTC. So Kiln treats every option as one
 * that lasts, except the options that NVRTC was seen to forget.
 *
 * A result is kept only if every program that this process has compiled with lasting options had
 * the same lasting options, in the same order, as the program of the result. If a process has
 * several libnvrtc, they count as one.
 */
#pragma once

/* Call this before each call of nvrtcCompileProgram, even if the result is not kept. NULL pointers
 * are ignored. Safe in all threads; does not block. */
void kilni_nvrtc_note_lasting_options(int option_count, const char *const *options);

/* Call this after nvrtcCompileProgram, with the same options. Returns a static text that says why
 * the result cannot be kept, or NULL if it can. Safe in all threads; does not block. */
const char *kilni_nvrtc_lasting_options_refusal(int option_count, const char *const *options);
