/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins against eviction. Some threads pin the object of a key without a lock, and one thread evicts
 * it (src/memory/pin.c, evict_locked in src/memory/evict.c, kilni_followup_finish).
 *
 * Sections are assumed to work, as memory_reclaim.pml checks: a retired object is destroyed only
 * after every section that was entered before its retirement has been left.
 *
 * Checked: a pinned object is not destroyed. A thread that pinned it before the eviction keeps it.
 * The object is retired once, by the last thread that releases it, and destroyed in the end. Its
 * watch has expired before the notice of the eviction.
 *
 * Mutants: BLIND_HOLD LATE_WATCH
 */

#define PINNERS 2

byte holds = 1; /* the cache's hold */
bool in_table = true;
bool watch_live = true;
byte retirements;
bool is_destroyed;
byte sections; /* number of sections that may see the object */
byte ended;

/* kiln_pin_release, kilni_object_release_locked: drops a hold, and retires the object with the last
 * one. The decrement is one atomic step. */
inline release() {
    atomic {
        assert(holds > 0);
        holds--;
        is_last = holds == 0
    }
    if
    :: is_last -> retirements++; assert(retirements == 1)
    :: else
    fi
}

proctype pinner() {
    bool is_last, is_found;
    byte seen;

    /* kilni_object_pin: enter a section, look in the table, take a hold unless the object has
     * none. */
    atomic { is_found = in_table; sections = sections + is_found }
    if
    :: is_found ->
        assert(!is_destroyed);
#ifndef BLIND_HOLD
        /* hold_exactly */
        seen = holds;
        do
        :: seen == 0 -> is_found = false; break
        :: seen > 0 ->
            atomic {
                if
                :: holds == seen -> holds = seen + 1; break
                :: else -> seen = holds
                fi
            }
        od;
#else
        atomic { seen = holds; holds = seen + 1 };
#endif
        seen = 0;
        sections--
    :: else
    fi;
    if
    :: is_found ->
        /* The pin is used and released. */
        assert(!is_destroyed);
        release()
    :: else
    fi;
    ended++
}

/* Evicts under the lock, sends the notice without it, then drops the cache's hold, which the notice
 * has taken over. */
proctype evictor() {
    bool is_last;
    in_table = false;
#ifndef LATE_WATCH
    watch_live = false;
#endif
    /* the notice */
    assert(!watch_live && !is_destroyed);
#ifdef LATE_WATCH
    watch_live = false;
#endif
    release();
    ended++
}

/* kilni_section_collect_and_unlock */
proctype collector() {
    atomic {
        retirements == 1 && sections == 0;
        assert(!is_destroyed && holds == 0);
        is_destroyed = true
    }
}

init {
    atomic {
        run evictor();
        run pinner();
        run pinner();
        run collector()
    }
    ended == PINNERS + 1 && is_destroyed;
    assert(holds == 0 && retirements == 1)
}
