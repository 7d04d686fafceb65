/* SPDX-License-Identifier: Apache-2.0
 *
 * Single flight of one key: threads that ask, one of which owns the flight and may fail for the
 * moment, fail for good, end inside its build, or end and leave its ticket to who may end it later
 * or never (src/memory/flight.c, wait.c, build_once.c, process.c), while another thread clears the
 * cache.
 *
 * What is checked: each who asks gets an answer; no two build in one flight; a failure that is the
 * owner's alone makes one waiter the owner; an object, or a failure, reaches those who waited for
 * that flight; the lock is never left taken; a ticket that was left is still there for its end, and
 * answers nobody else's flight.
 *
 * Mutants: DEAD_OWNER_KEEPS_TICKET LOST_ANSWER LEFT_TICKET_KEEPS_WAITERS LEFT_TICKET_IS_HANDED_OVER
 */

#define ASKERS 3
#define NOBODY ASKERS

mtype = { NONE, HIT, OWNER, FAILED };

bool locked;

/* The flight in the table, and one that a clear took out of it. */
bool is_building[2];
byte owner[2] = NOBODY;
byte attached = 2; /* which of them is in the table; 2: none */
bool is_ready;     /* the object is in the table */

byte waits_for[ASKERS] = 2; /* the flight; 2: none */
mtype answer[ASKERS] = NONE;
byte builders[2];
bool is_left[2];   /* its owner's thread ended */
byte ended;

inline lock() {
    atomic { !locked -> locked = true }
}

inline unlock() {
    assert(locked);
    locked = false
}

/* kilni_wait_pin_all_locked, kilni_wait_fail_all_locked */
inline answer_all_locked(flight, what) {
    d_step {
        i = 0;
        do
        :: i < ASKERS ->
            if
            :: waits_for[i] == flight -> waits_for[i] = 2; answer[i] = what
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

inline end_flight_locked(flight) {
    d_step {
        is_building[flight] = false;
        owner[flight] = NOBODY;
        if
        :: attached == flight -> attached = 2
        :: else
        fi
    }
}

/* kilni_wait_hand_over_locked; the flight ends where no one waits. */
inline hand_over_locked(flight) {
    d_step {
        i = 0;
        do
        :: i < ASKERS && waits_for[i] != flight -> i++
        :: else -> break
        od;
        if
        :: i < ASKERS ->
            waits_for[i] = 2;
            owner[flight] = i;
            answer[i] = OWNER
        :: else ->
            is_building[flight] = false;
            owner[flight] = NOBODY;
            if
            :: attached == flight -> attached = 2
            :: else
            fi
        fi;
        i = 0
    }
}

/* kilni_flights_leave_locked: another flight takes its place for those who wait. */
inline leave_locked(flight) {
    d_step {
        is_left[flight] = true;
        owner[flight] = NOBODY;
        i = 0;
        do
        :: i < ASKERS && waits_for[i] != flight -> i++
        :: else -> break
        od;
        if
#ifdef LEFT_TICKET_IS_HANDED_OVER
        :: i < ASKERS ->
            waits_for[i] = 2;
            owner[flight] = i;
            answer[i] = OWNER
#elif !defined(LEFT_TICKET_KEEPS_WAITERS)
        :: i < ASKERS ->
            waits_for[i] = 2;
            is_building[1 - flight] = true;
            owner[1 - flight] = i;
            answer[i] = OWNER;
            if
            :: attached == flight -> attached = 1 - flight
            :: else
            fi;
            i = 0;
            do
            :: i < ASKERS ->
                if
                :: waits_for[i] == flight -> waits_for[i] = 1 - flight
                :: else
                fi;
                i++
            :: else -> break
            od
#endif
        :: else
        fi;
        i = 0
    }
}

/* Whoever was given the ticket of a thread that ended. */
inline end_left(flight) {
    lock();
    assert(is_building[flight] && owner[flight] == NOBODY);
    if
    :: attached == flight -> is_ready = true
    :: else
    fi;
    end_flight_locked(flight);
    answer_all_locked(flight, HIT);
    is_left[flight] = false;
    unlock()
}

/* kiln_cache_get_or_build; or kiln_cache_reserve, where its thread leaves the ticket */
proctype asker(byte self) {
    byte i, flight;

    /* reserve_locked */
    lock();
    if
    :: attached < 2 && is_left[attached] -> attached = 2
    :: else
    fi;
    if
    :: is_ready -> answer[self] = HIT
    :: !is_ready && attached < 2 -> flight = attached; waits_for[self] = flight
    :: !is_ready && attached == 2 ->
        /* A flight that a clear took out goes on beside the new one. */
        flight = (is_building[0] -> 1 : 0);
        if
        :: is_building[flight] -> unlock(); goto none /* two are enough for this model */
        :: else
        fi;
        attached = flight;
        is_building[flight] = true;
        owner[flight] = self;
        answer[self] = OWNER
    fi;
    unlock();

    /* sleep_locked: its own condition */
    waits_for[self] == 2;

    if
    :: answer[self] == OWNER ->
        /* The ticket says which flight it is. */
        flight = (owner[flight] == self -> flight : 1 - flight);
        assert(owner[flight] == self && is_building[flight]);
        builders[flight]++;
        assert(builders[flight] == 1);
        /* the build, outside the lock */
        builders[flight]--;
        if
        :: /* fulfil */
            lock();
            if
            :: attached == flight -> is_ready = true
            :: else
            fi;
            end_flight_locked(flight);
            answer_all_locked(flight, HIT);
            unlock()
        :: /* KILN_ABANDON_FAILED */
            lock();
#ifndef LOST_ANSWER
            answer_all_locked(flight, FAILED);
#endif
            end_flight_locked(flight);
            unlock()
        :: /* KILN_ABANDON_TRANSIENT */
            lock();
            hand_over_locked(flight);
            unlock()
        :: /* its thread ends in the build: abandon_ticket in build_once.c */
#ifndef DEAD_OWNER_KEEPS_TICKET
            lock();
            hand_over_locked(flight);
            unlock()
#else
            skip
#endif
        :: /* its thread ends with its ticket open */
            lock();
            if
            :: is_building[1 - flight] -> hand_over_locked(flight); unlock() /* as above */
            :: else ->
                leave_locked(flight);
                unlock();
                if
                :: end_left(flight)
                :: skip /* never ended */
                fi
            fi
        fi
    :: else -> assert(answer[self] == HIT || answer[self] == FAILED)
    fi;
none:
    ended++
}

/* kiln_cache_clear: what flies goes on for those who are in it. */
proctype clearer() {
    lock();
    attached = 2;
    is_ready = false;
    unlock();
    ended++
}

init {
    atomic {
        run asker(0);
        run asker(1);
        run asker(2);
        run clearer()
    }
    ended == ASKERS + 1;
    assert(!locked);
    assert((!is_building[0] || is_left[0]) && (!is_building[1] || is_left[1]))
}
