/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads retire objects in one cache, and one of them collects for all (collect_for_others_locked
 * in src/memory/read_section.c). A thread that finds another thread collecting leaves its object to
 * that thread and returns. Each thread then waits for the departures that are under way, as a
 * thread does that needs the memory of evicted objects.
 *
 * Sections are not modelled here, but in memory_reclaim.pml: a collection takes every object that
 * was retired before it began.
 *
 * Checked: each object is destroyed once. When the thread that retired it has waited for the
 * departures, it is destroyed.
 *
 * Mutants: NO_SECOND_PASS LEADS_IN_LAST_PASS LATE_DEPARTURE WAITS_ONCE
 */

#define THREADS 3
#define PASSES 2

bool locked;
bool collects_for_others, collects_again;
bool retired[THREADS]; /* the object of this thread is in the queue */
bool taken[THREADS * THREADS]; /* [collector * THREADS + owner] */
byte destroyed[THREADS];
bool departs[THREADS]; /* the thread's departure is under way */

#define lock() atomic { !locked -> locked = true }
#define unlock() locked = false

/* One collection: gives up the lock for the fence, and then takes what was retired before that. */
inline collect() {
    seen[0] = retired[0]; seen[1] = retired[1]; seen[2] = retired[2];
    unlock();
    lock();
    d_step {
        i = 0;
        do
        :: i < THREADS ->
            if
            :: seen[i] && retired[i] -> retired[i] = false; taken[_pid * THREADS + i] = true
            :: else
            fi;
            i++
        :: else -> break
        od
    }
}

inline destroy() {
    unlock();
    i = 0;
    do
    :: i < THREADS ->
        atomic {
            if
            :: taken[_pid * THREADS + i] ->
                taken[_pid * THREADS + i] = false;
                assert(destroyed[i] == 0);
                destroyed[i]++
            :: else
            fi;
            i++
        }
    :: else -> break
    od;
    lock();
    departs[_pid] = false;
    unlock()
}

/* Waits for the departures that have begun before this. */
inline wait_for_departures() {
    lock();
    seen[0] = departs[0]; seen[1] = departs[1]; seen[2] = departs[2];
    unlock();
    (!seen[0] || !departs[0]) && (!seen[1] || !departs[1]) && (!seen[2] || !departs[2])
}

active [THREADS] proctype thread() {
    bool seen[THREADS];
    byte i, pass;
    bool leads;

    lock();
    retired[_pid] = true;
    if
    :: collects_for_others ->
        collects_again = true;
        unlock()
    :: else ->
#ifndef LATE_DEPARTURE
        departs[_pid] = true;
#endif
        leads = true;
        pass = 1;
        do
        :: leads ->
            leads = pass < PASSES;
#ifndef LEADS_IN_LAST_PASS
            collects_for_others = leads;
#else
            collects_for_others = true;
#endif
            collects_again = false;
            collect();
            if
            :: leads && !collects_again -> collects_for_others = false; leads = false
            :: else
            fi;
#ifdef NO_SECOND_PASS
            collects_for_others = false;
            leads = false;
#endif
            pass++
        :: else -> break
        od;
#ifdef LEADS_IN_LAST_PASS
        collects_for_others = false;
#endif
        departs[_pid] = true;
        destroy()
    fi;

    /* kilni_departures_wait */
    wait_for_departures();
#ifndef WAITS_ONCE
    wait_for_departures();
#endif
    assert(destroyed[_pid] == 1)
}
