/* SPDX-License-Identifier: Apache-2.0
 *
 * Single flight of one key (src/memory/waiter.c, ticket.c, orphan.c). Several threads ask for the
 * key, and one of them owns the flight. The owner may succeed, fail transiently, fail permanently,
 * end inside its build, or end with its ticket open. Another thread may close that ticket later, or
 * it stays open. Meanwhile one more thread clears the cache, and one has a pending answer.
 *
 * Checked: each thread that asks gets an answer. No two threads build in one flight. A failure that
 * is the owner's alone makes one waiter the owner. The first transient failure in a flight does so
 * too, and the second one reaches all waiting threads. The pending answer is completed, and never
 * owns the flight. An object or a failure reaches the threads that waited for that flight. The lock
 * is never left locked. An open ticket whose thread ended can still be closed, and does not affect
 * any other flight.
 *
 * Mutants: DEAD_OWNER_KEEPS_TICKET LOST_ANSWER LEFT_TICKET_KEEPS_WAITERS LEFT_TICKET_IS_HANDED_OVER
 * Mutants: RETRIES_WITHOUT_END PENDING_OWNS PENDING_IS_FORGOTTEN
 */

#define ASKERS 3
#define PENDING ASKERS /* the place of the pending answer, after those of the threads */
#define PLACES (ASKERS + 1)
#define NOBODY PLACES
#ifdef PENDING_OWNS
#define MAY_OWN PLACES
#else
#define MAY_OWN ASKERS
#endif

mtype = { NONE, HIT, OWNER, FAILED, AGAIN };

bool locked;

/* The flight in the table, and a flight that a clear took out of it. */
bool is_building[2];
byte owner[2] = NOBODY;
byte attached = 2; /* which of these flights is in the table; 2: none */
bool is_ready;     /* the object is in the table */

byte waits_for[PLACES] = 2; /* the flight; 2: none */
mtype answer[PLACES] = NONE;
bool is_retry[2];  /* a build of the flight failed transiently */
byte failures[2];  /* how many of its builds failed transiently */
byte builders[2];
bool is_left[2];   /* the thread that owned the flight has ended */
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
        :: i < PLACES ->
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

/* For a flight in which only the pending answer is left. */
inline ask_again_locked(flight) {
#ifndef PENDING_IS_FORGOTTEN
    if
    :: waits_for[PENDING] == flight -> waits_for[PENDING] = 2; answer[PENDING] = AGAIN
    :: else
    fi
#else
    skip
#endif
}

inline end_flight_locked(flight) {
    d_step {
        is_building[flight] = false;
        owner[flight] = NOBODY;
        is_retry[flight] = false;
        failures[flight] = 0;
        if
        :: attached == flight -> attached = 2
        :: else
        fi
    }
}

/* kilni_wait_hand_over_locked. The flight ends if no thread waits. */
inline hand_over_locked(flight) {
    d_step {
        i = 0;
        do
        :: i < MAY_OWN && waits_for[i] != flight -> i++
        :: else -> break
        od;
        if
        :: i < MAY_OWN ->
            waits_for[i] = 2;
            owner[flight] = i;
            answer[i] = OWNER
        :: else ->
            ask_again_locked(flight);
            is_building[flight] = false;
            owner[flight] = NOBODY;
            is_retry[flight] = false;
            failures[flight] = 0;
            if
            :: attached == flight -> attached = 2
            :: else
            fi
        fi;
        i = 0
    }
}

/* retry_locked, for a transient failure */
inline retry_locked(flight) {
    failures[flight]++;
    assert(failures[flight] <= 2);
    if
    :: is_retry[flight] ->
        answer_all_locked(flight, FAILED);
        end_flight_locked(flight)
    :: else ->
#ifndef RETRIES_WITHOUT_END
        is_retry[flight] = true;
#endif
        hand_over_locked(flight)
    fi
}

/* kilni_flights_orphan_locked: if threads wait for @flight, a new flight replaces it for them. */
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
            is_retry[1 - flight] = false;
            failures[1 - flight] = 0;
            i = 0;
            do
            :: i < PLACES ->
                if
                :: waits_for[i] == flight -> waits_for[i] = 1 - flight
                :: else
                fi;
                i++
            :: else -> break
            od
#endif
        :: else -> ask_again_locked(flight)
        fi;
        i = 0
    }
}

/* Another thread closes the ticket of a thread that ended. */
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

/* kiln_cache_get_or_build, or kiln_cache_reserve if the thread ends with its ticket open */
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
        /* A flight that a clear took out continues beside the new one. */
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

    /* sleep_locked: each thread has its own condition variable */
    waits_for[self] == 2;

    if
    :: answer[self] == OWNER ->
        /* The ticket tells the thread which flight it owns. */
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
        :: /* KILN_ABANDON_TRANSIENT, with the status of a transient failure */
            lock();
            retry_locked(flight);
            unlock()
        :: /* the thread ends in the build: abandon_ticket in obtain.c */
#ifndef DEAD_OWNER_KEEPS_TICKET
            lock();
            hand_over_locked(flight);
            unlock()
#else
            skip
#endif
        :: /* the thread ends with its ticket open */
            lock();
            if
            :: is_building[1 - flight] -> hand_over_locked(flight); unlock() /* as above */
            :: else ->
                leave_locked(flight);
                unlock();
                if
                :: end_left(flight)
                :: skip /* never closed */
                fi
            fi
        fi
    :: else -> assert(answer[self] == HIT || answer[self] == FAILED)
    fi;
none:
    ended++
}

/* kiln_cache_reserve with KILN_RESERVE_PENDING. The thread does not wait. */
proctype watcher() {
    lock();
    if
    :: attached < 2 && !is_left[attached] -> waits_for[PENDING] = attached
    :: else
    fi;
    unlock();
    ended++
}

/* kiln_cache_clear: flights under way continue for the threads in them. */
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
        run watcher();
        run clearer()
    }
    ended == ASKERS + 2;
    assert(!locked);
    assert((!is_building[0] || is_left[0]) && (!is_building[1] || is_left[1]));
    /* The open ticket of a thread that ended may never be closed; the answer is given anyway. */
    assert(waits_for[PENDING] == 2)
}
