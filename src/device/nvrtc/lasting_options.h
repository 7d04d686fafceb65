/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that NVRTC does not forget. After a process has compiled a program with --restrict, NVRTC
 * 13.0 compiles all later programs of that process as if they had this option too. The loads in
 * these programs become ld.global.nc, which is wrong if pointers overlap. docs/nvrtc.md lists the
 * options that were seen to last. In a later NVRTC, more options might last. So Kiln treats every
 * option as one that lasts, except the options that NVRTC was seen to forget.
 *
 * If this process has compiled programs with lasting options, Kiln keeps a result only if all of
 * these programs had the same lasting options as the program of the result, in the same order. If a
 * process has several copies of libnvrtc, they count as one.
 */
#pragma once

/* Call this before each call of nvrtcCompileProgram, even if the result is not kept. If @options or
 * one of its elements is NULL, it is ignored. Safe in all threads; does not block. */
void kilni_nvrtc_note_lasting_options(int option_count, const char *const *options);

/* Call this after nvrtcCompileProgram, with the same options. Returns a static text that says why
 * the result cannot be kept, or NULL if it can. Safe in all threads; does not block. */
const char *kilni_nvrtc_lasting_options_refusal(int option_count, const char *const *options);
