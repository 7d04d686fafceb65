/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvjitlink/options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Options, without the dash and the value, that nvJitLink forgets after a link: see
 * docs/nvjitlink.md. */
static const char *const forgotten[] = {"arch",
                                        "O0",
                                        "O3",
                                        "Xptxas",
                                        "fma",
                                        "ftz",
                                        "g",
                                        "jump-table-density",
                                        "kernels-used",
                                        "lineinfo",
                                        "lto",
                                        "maxrregcount",
                                        "no-cache",
                                        "optimize-unused-variables",
                                        "prec-div",
                                        "prec-sqrt",
                                        "ptx",
                                        "split-compile",
                                        "split-compile-extended",
                                        "variables-used"};

/* Options whose logs contain times, or which change the code together with a log. */
static const char *const unkept[] = {"verbose", "time"};

/* Why links of this process cannot be kept; NULL: they can. Relaxed: if a link affects a later one,
 * nvJitLink orders the two. */
static _Atomic(const char *) why_none;

void kilni_nvjitlink_note_failure(void)
{
    atomic_store_explicit(&why_none, "an earlier link of the process failed", memory_order_relaxed);
}

static bool is_any(const char *option, const char *const *names, size_t count)
{
    const size_t length = strcspn(option, "=");
    bool is = false;
    for (size_t i = 0; i < count && !is; i++) {
        is = strlen(names[i]) == length && memcmp(option, names[i], length) == 0;
    }
    return is;
}

const char *kilni_nvjitlink_options_refusal(size_t count, const char *const *options)
{
    const char *why = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = options[i][0] == '-' ? options[i] + 1 : "";
        if (is_any(name, unkept, sizeof unkept / sizeof *unkept)) {
            why = "-verbose or -time is given";
        } else if (!is_any(name, forgotten, sizeof forgotten / sizeof *forgotten)) {
            atomic_store_explicit(&why_none, "nvJitLink may not have forgotten an option",
                                  memory_order_relaxed);
        }
    }
    const char *none = atomic_load_explicit(&why_none, memory_order_relaxed);
    return none ? none : why;
}
