/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/watch.h"

kiln_status kilni_watch_begin(kilni_watch *watch, kilni_watched *library, kilni_reads *reads,
                              kilni_folds *folds)
{
    watch->library = library;
    if (kilni_watched_restore(library, &watch->mark) != KILN_OK) {
        kilni_reads_fail(reads, "a different tool has redirected the compiler's calls");
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &watch->cancel_state);
    const kiln_status status = kilni_compilation_join(&watch->compilation, reads, folds);
    if (status != KILN_OK) {
        pthread_setcancelstate(watch->cancel_state, &watch->cancel_state);
    }
    return status;
}

void kilni_watch_end(void *begun)
{
    kilni_watch *watch = begun;
    kilni_reads *reads = watch->compilation.reads;
    const char *why = kilni_compilation_leave(&watch->compilation);
    if (why) {
        kilni_reads_fail(reads, why);
    } else if (!kilni_watched_is_unchanged(watch->library, watch->mark)) {
        kilni_reads_fail(reads, "the compiler's calls were redirected during the compilation");
    }
    pthread_setcancelstate(watch->cancel_state, &watch->cancel_state);
}
