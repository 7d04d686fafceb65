/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread removes an object and then waits until it is destroyed (kilni_cache_settle in
 * src/memory/read_section.c). A second thread evicts objects. Two readers keep objects alive by
 * their sections. A reader that leaves a section for which the first thread waits wakes that
 * thread, and destroys nothing.
 *
 * Fences are assumed to work; memory_reclaim.pml checks them. Pins are not modelled here, but in
 * memory_pin.pml. An object that was removed from the table has one hold: that of the notice in
 * progress.
 *
 * Checked: when the wait is over, every object that had left the table before the wait began is
 * destroyed, whichever thread removed it. Each object is destroyed once, and not while a section
 * sees it. The wait ends.
 *
 * Mutants: NO_WAIT_FOR_NOTICES NO_WAIT_FOR_SECTIONS NO_WAIT_FOR_DESTRUCTION SILENT_END NO_AWAITED
 *          NO_COUNT
 */

#define OBJECTS 2
#define THREADS 4 /* one that waits, one that evicts, two readers */
#define NOBODY 255

bool locked;
bool waits; /* the settler waits for a broadcast */

bool in_table[OBJECTS] = true;
bool is_destroyed[OBJECTS];
byte retired_at[OBJECTS]; /* 0: not retired, or no longer in the queue of retired objects */
byte seen_by[OBJECTS];    /* number of sections that may use it */

byte epoch = 1;
byte last_retirement;
byte awaited;
byte sections_left;
byte place[THREADS]; /* the epoch of a thread's section; 0: none */

byte departure[THREADS]; /* the number of a thread's departure; 0: none */
byte last_departure;

#define lock() atomic { !locked -> locked = true }
#define unlock() locked = false
#define nothing_is_retired() (retired_at[0] == 0 && retired_at[1] == 0)

/* pthread_cond_broadcast */
#ifndef SILENT_END
#define broadcast() waits = false
#else
#define broadcast() skip
#endif

inline begin_departure() {
    assert(departure[_pid] == 0);
    last_departure++;
    departure[_pid] = last_departure
}

inline end_departure() {
    departure[_pid] = 0;
    broadcast()
}

/* The caller holds the lock. doomed[] says which objects the thread must destroy. The lock is
 * released for the fence, and while the places are read. */
inline collect_locked() {
    d_step {
        doomed[0] = false;
        doomed[1] = false;
        oldest = NOBODY;
        first = 0;
        if
        :: nothing_is_retired()
        :: else ->
            first = last_retirement + 1;
            if
            :: epoch < first -> epoch = first
            :: else
            fi
        fi
    };
    if
    :: first == 0
    :: else ->
        unlock();
        d_step {
            i = 0;
            do
            :: i < THREADS && place[i] != 0 && place[i] < oldest -> oldest = place[i]; i++
            :: i < THREADS && !(place[i] != 0 && place[i] < oldest) -> i++
            :: i == THREADS -> break
            od;
            if
            :: first < oldest -> oldest = first
            :: else
            fi;
            i = 0
        };
        lock();
        d_step {
            do
            :: i < OBJECTS && retired_at[i] != 0 && retired_at[i] < oldest ->
                retired_at[i] = 0;
                doomed[i] = true;
                i++
            :: i < OBJECTS && !(retired_at[i] != 0 && retired_at[i] < oldest) -> i++
            :: i == OBJECTS -> break
            od;
            i = 0
        }
    fi;
    first = 0;
    oldest = 0
}

inline destroy(object) {
    if
    :: doomed[object] ->
        assert(!is_destroyed[object] && seen_by[object] == 0);
        is_destroyed[object] = true
    :: else
    fi
}

/* kilni_section_collect_and_unlock */
inline collect_and_unlock() {
    collect_locked();
    if
    :: doomed[0] || doomed[1] ->
        begin_departure();
        unlock();
        destroy(0);
        destroy(1);
        lock();
        end_departure();
        unlock()
    :: else -> unlock()
    fi
}

inline retire(object) {
    if
    :: taken[object] ->
        taken[object] = false;
        retired_at[object] = epoch;
        last_retirement = epoch
    :: else
    fi
}

inline take_out(object) {
    taken[object] = in_table[object];
    in_table[object] = false
}

/* Takes objects out of the table, sends the notices without the lock, and drops the holds:
 * kilni_cache_remove_matching, kilni_followup_finish. */
inline remove(first, second) {
    lock();
    d_step {
        if
        :: first -> take_out(0)
        :: else
        fi;
        if
        :: second -> take_out(1)
        :: else
        fi
    }
    if
    :: taken[0] || taken[1] ->
        begin_departure();
        unlock();
        /* the notices */
        assert(!(taken[0] && is_destroyed[0]) && !(taken[1] && is_destroyed[1]));
        lock();
        retire(0);
        retire(1);
        end_departure();
        collect_and_unlock()
    :: else -> unlock()
    fi
}

#define is_departing(thread) (departure[thread] != 0 && departure[thread] <= last)
#define is_kept(object) (retired_at[object] != 0 && retired_at[object] <= until)

/* pthread_cond_wait */
inline wait() {
    atomic { waits = true; unlock() };
    !waits;
    lock()
}

inline wait_for_departures_locked() {
    last = last_departure;
    do
    :: is_departing(1) || is_departing(2) || is_departing(3) -> wait()
    :: else -> break
    od;
    last = 0
}

/* Each round collects what other threads left behind. */
inline wait_for_sections() {
    until = last_retirement;
#ifndef NO_AWAITED
    awaited = until + 1;
#endif
    do
    :: true ->
        left = sections_left;
        collect_and_unlock();
        lock();
#ifndef NO_WAIT_FOR_SECTIONS
        if
        :: is_kept(0) || is_kept(1)
        :: else -> break
        fi;
#ifndef NO_COUNT
        if
        :: sections_left == left -> wait()
        :: else
        fi
#else
        wait()
#endif
#else
        break
#endif
    od;
    until = 0;
    left = 0
}

/* Removes one object, and waits for it and for all that were removed before. */
active proctype settler() {
    bool taken[OBJECTS], doomed[OBJECTS];
    bool other_has_left;
    byte oldest, i, first, last, until, left;

    remove(true, false);
    atomic { lock(); other_has_left = !in_table[1] };
#ifndef NO_WAIT_FOR_NOTICES
    wait_for_departures_locked();
#endif
    wait_for_sections();
#ifndef NO_WAIT_FOR_DESTRUCTION
    wait_for_departures_locked();
#endif
    unlock();
    assert(is_destroyed[0]);
    assert(!other_has_left || is_destroyed[1])
}

/* Evicts either object or both. */
active proctype evictor() {
    bool taken[OBJECTS], doomed[OBJECTS];
    byte oldest, i, first;

    if
    :: remove(true, true)
    :: remove(true, false)
    :: remove(false, true)
    fi
}

active [2] proctype reader() {
    byte own;
    bool sees[OBJECTS];

    /* kilni_section_enter, then a look-up in the table. */
    atomic {
        own = epoch;
        place[_pid] = own
    };
    d_step {
        sees[0] = in_table[0];
        sees[1] = in_table[1];
        seen_by[0] = seen_by[0] + sees[0];
        seen_by[1] = seen_by[1] + sees[1]
    };
    assert(!(sees[0] && is_destroyed[0]) && !(sees[1] && is_destroyed[1]));
    /* kilni_section_leave: clear the place first, then read what is awaited. */
    d_step {
        seen_by[0] = seen_by[0] - sees[0];
        seen_by[1] = seen_by[1] - sees[1];
        sees[0] = false;
        sees[1] = false;
        place[_pid] = 0
    };
    if
    :: awaited != 0 && own < awaited ->
        /* kilni_section_wake_settlers */
        lock();
        sections_left++;
        broadcast();
        unlock()
    :: else
    fi
}

