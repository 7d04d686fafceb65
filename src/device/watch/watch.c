/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/watch.h"

static const char *add(kilni_watch *watch, kilni_watched *library)
{
    kilni_watch_library *added = &watch->libraries[watch->count++];
    added->library = library;
    return kilni_watched_restore(library, &added->mark) == KILN_OK
               ? NULL
               : "a different tool has redirected the compiler's calls";
}

void kilni_watch_add(kilni_watch *watch, kilni_watched *library)
{
    const char *why = add(watch, library);
    if (why) {
        kilni_compilation_report(kilni_reads_fail, why);
    }
}

kiln_status kilni_watch_begin(kilni_watch *watch, kilni_watched *library, kilni_reads *reads,
                              kilni_folds *folds)
{
    watch->count = 0;
    const char *why = add(watch, library);
    if (why) {
        kilni_reads_fail(reads, why);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &watch->cancel_state);
    const kiln_status status = kilni_compilation_join(&watch->compilation, reads, folds);
    if (status != KILN_OK) {
        pthread_setcancelstate(watch->cancel_state, &watch->cancel_state);
    }
    return status;
}

static bool are_unchanged(const kilni_watch *watch)
{
    bool all = true;
    for (size_t i = 0; i < watch->count && all; i++) {
        all = kilni_watched_is_unchanged(watch->libraries[i].library, watch->libraries[i].mark);
    }
    return all;
}

void kilni_watch_end(void *begun)
{
    kilni_watch *watch = begun;
    kilni_reads *reads = watch->compilation.reads;
    const char *why = kilni_compilation_leave(&watch->compilation);
    if (why) {
        kilni_reads_fail(reads, why);
    } else if (!are_unchanged(watch)) {
        kilni_reads_fail(reads, "the compiler's calls were redirected during the compilation");
    }
    pthread_setcancelstate(watch->cancel_state, &watch->cancel_state);
}
