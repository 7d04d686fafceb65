/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/lasting_options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/watch/inputs.h"
#include "key/hash.h"

/* The options that NVRTC forgets, without their dashes: see the table in docs/nvrtc.md. */
static const char *const forgotten_flags[] = {"G",
                                              "dc",
                                              "default-device",
                                              "device-as-default-execution-space",
                                              "device-c",
                                              "device-debug",
                                              "device-float128",
                                              "device-int128",
                                              "disable-warnings",
                                              "dlink-time-opt",
                                              "dlto",
                                              "ewp",
                                              "extensible-whole-program",
                                              "fdevice-syntax-only",
                                              "gen-opt-lto",
                                              "generate-line-info",
                                              "lineinfo",
                                              "minimal",
                                              "no-display-error-number",
                                              "no-err-no",
                                              "no-source-include",
                                              "optix-ir",
                                              "pch",
                                              "use_fast_math",
                                              "w",
                                              NULL};
static const char *const forgotten_with_values[] = {"D",
                                                    "I",
                                                    "U",
                                                    "Xptxas",
                                                    "arch",
                                                    "brief-diag",
                                                    "brief-diagnostics",
                                                    "builtin-initializer-list",
                                                    "define-macro",
                                                    "device-stack-protector",
                                                    "diag-error",
                                                    "diag-suppress",
                                                    "diag-warn",
                                                    "dopt",
                                                    "fmad",
                                                    "frandom-seed",
                                                    "ftz",
                                                    "gpu-architecture",
                                                    "include",
                                                    "include-path",
                                                    "jtd",
                                                    "jump-table-density",
                                                    "maxrregcount",
                                                    "pre-include",
                                                    "prec-div",
                                                    "prec-sqrt",
                                                    "ptxas-options",
                                                    "rdc",
                                                    "relocatable-device-code",
                                                    "split-compile",
                                                    "std",
                                                    "undefine-macro",
                                                    "version-ident",
                                                    NULL};

/* Describes the options that stay in effect after a compilation. NOTHING: there are none; VARIOUS:
 * they differ between programs, or are unknown; any other value is a hash of these options. */
enum { NOTHING = 0, VARIOUS = 1 };

/* Describes the options that stay in effect after all programs that this process has given to
 * NVRTC. The value changes only from NOTHING to a hash, and from anything to VARIOUS. Each
 * compilation updates it before the call of NVRTC, and reads it after that call. If the options of
 * one compilation affect a later one, NVRTC orders the two calls, so the later compilation sees the
 * update. */
static _Atomic uint64_t left_by_all;

/* ---- one option ---- */

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, KILNI_OPTION_BLANKS);
}

static bool is_any(const char *name, size_t length, const char *const *names)
{
    while (*names && (strncmp(name, *names, length) != 0 || (*names)[length] != '\0')) {
        names++;
    }
    return *names != NULL;
}

/* Returns true if the option is -D, -I or -U, with its value in the same word. */
static bool is_letter_with_value(const char *option)
{
    return option[0] == '-' && option[1] != '\0' && strchr("DIU", option[1]) &&
           *skip_blanks(option + 2) != '\0';
}

/* An option that NVRTC forgets consists of @word, or of @word and its value @next. Returns the
 * number of these words, 1 or 2. Returns 0 if NVRTC does not forget the option, or if the option's
 * value is missing. @next may be NULL. If @next looks like an option, it is not the value. */
static int count_forgotten(const char *word, const char *next)
{
    const char *option = skip_blanks(word);
    const char *name = option + (option[0] == '-') + (option[0] == '-' && option[1] == '-');
    const size_t length = strcspn(name, "=" KILNI_OPTION_BLANKS);
    if (name == option) {
        return 0;
    }
    if (is_letter_with_value(option) || is_any(name, length, forgotten_flags)) {
        return 1;
    }
    if (!is_any(name, length, forgotten_with_values)) {
        return 0;
    }
    const bool has_value = *skip_blanks(name + length) != '\0';
    return has_value ? 1 : next && *skip_blanks(next) != '-' ? 2 : 0;
}

/* ---- all of them ---- */

/* Returns NOTHING, or a hash. */
static uint64_t left_by(int option_count, const char *const *options)
{
    kilni_hasher hasher;
    bool is_empty = true;
    kilni_hasher_begin(&hasher);
    for (int i = 0; options && i < option_count;) {
        const char *next = i + 1 < option_count ? options[i + 1] : NULL;
        const int forgotten = options[i] ? count_forgotten(options[i], next) : 1;
        if (forgotten == 0) {
            kilni_hasher_add(&hasher, options[i], strlen(options[i]) + 1);
            is_empty = false;
        }
        i += forgotten > 0 ? forgotten : 1;
    }
    const kiln_digest digest = kilni_hasher_end(&hasher);
    uint64_t hash;
    memcpy(&hash, &digest, sizeof hash);
    return is_empty ? NOTHING : hash > VARIOUS ? hash : VARIOUS + 1;
}

void kilni_nvrtc_note_lasting_options(int option_count, const char *const *options)
{
    const bool has_more = getenv("NVRTC_PREPEND_FLAGS") || getenv("NVRTC_APPEND_FLAGS");
    const uint64_t left = has_more ? VARIOUS : left_by(option_count, options);
    uint64_t before = NOTHING;
    if (left != NOTHING && !atomic_compare_exchange_strong(&left_by_all, &before, left) &&
        before != left) {
        atomic_store(&left_by_all, VARIOUS);
    }
}

const char *kilni_nvrtc_lasting_options_refusal(int option_count, const char *const *options)
{
    const uint64_t left = atomic_load(&left_by_all);
    return left == NOTHING || left == left_by(option_count, options)
               ? NULL
               : "NVRTC may not have forgotten an option of a different compilation";
}
