/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits across caches (begin_wait, answer_locked and kilni_wait_hand_over_locked in src/memory).
 * Each key is in a separate cache, so threads that ask for different keys hold different locks.
 * Each thread asks for one key. While it owns the flight of that key, it may ask for a second key.
 * It waits if a different thread owns the flight of the key that it asks for. A flight ends with an
 * object, or is handed over to a thread that waits.
 *
 * Checked: no threads wait for each other for ever. A search for a cycle ends. A request is refused
 * only if it would wait for itself. A thread that is told that it owns a flight does own it.
 *
 * Mutants: NO_SEARCH SEARCH_BEFORE_LOCK OWNER_BEFORE_END_OF_WAIT OWN_FLIGHTS_ONLY REFUSES_OWNERS
 * Long: THREE_KEYS
 */

#define THREADS 3
#ifdef THREE_KEYS
#define KEYS 3
#else
#define KEYS 2
#endif
#define NOBODY 255
#define NOTHING 255

mtype = { NONE, HIT, OWNER, CYCLE };

bool cache_locked[KEYS];
bool waits_locked; /* waits_lock */

byte owner[KEYS] = NOBODY; /* of the key's flight; NOBODY: there is none */
bool is_ready[KEYS];

byte waits_for[THREADS] = NOTHING; /* the key that the thread waits for; waits[] in the code */
mtype answer[THREADS] = NONE;

/* A step of a thread that holds a lock is atomic if nobody can see its parts without that lock. */
#define lock_cache(key) !cache_locked[key] -> cache_locked[key] = true
#define unlock_cache(key) cache_locked[key] = false
#define lock_waits() !waits_locked -> waits_locked = true
#define unlock_waits() waits_locked = false

/* waits_for_thread. Flights of other caches may be handed over meanwhile, so each step is separate.
 */
inline search(key) {
    at = key;
    steps = 0;
    do
    :: at == NOTHING || owner[at] == _pid -> break
    :: else ->
#ifdef OWN_FLIGHTS_ONLY
        at = NOTHING;
        break;
#endif
        next = owner[at];
        at = (next == NOBODY -> NOTHING : waits_for[next]);
        steps++;
        assert(steps <= THREADS)
    od;
    found = (at != NOTHING && owner[at] == _pid);
#ifdef REFUSES_OWNERS
    found = (first != NOTHING);
#endif
    at = 0;
    next = 0;
    steps = 0
}

/* Checks, at one moment, that this thread would wait for itself if it waited for @key. */
inline check_refusal(key) {
    d_step {
        at = key;
        do
        :: steps < THREADS && at != NOTHING && owner[at] != NOBODY && owner[at] != _pid ->
            at = waits_for[owner[at]];
            steps++
        :: else -> break
        od;
        assert(at != NOTHING && owner[at] == _pid);
        at = 0;
        steps = 0
    }
}

/* kilni_wait_locked, with the lock of the key's cache. Leaves the answer in @ret_answer. */
inline wait(key, ret_answer) {
#ifdef SEARCH_BEFORE_LOCK
    search(key);
    atomic { lock_waits() };
#else
    atomic { lock_waits() };
#ifndef NO_SEARCH
    search(key);
#endif
#endif
    if
    :: found ->
        check_refusal(key);
        atomic {
            unlock_waits();
            unlock_cache(key);
            ret_answer = CYCLE
        }
    :: else ->
        atomic {
            answer[_pid] = NONE;
            waits_for[_pid] = key;
            unlock_waits();
            unlock_cache(key)
        };
        /* sleep_locked */
        atomic {
            answer[_pid] != NONE && !cache_locked[key] ->
            ret_answer = answer[_pid];
            assert(ret_answer != OWNER || owner[key] == _pid)
        }
    fi;
    found = false
}

/* reserve_locked. Leaves the answer in @ret_answer. */
inline ask(key, ret_answer) {
    atomic {
        lock_cache(key);
        if
        :: is_ready[key] -> ret_answer = HIT; unlock_cache(key)
        :: !is_ready[key] && owner[key] == NOBODY ->
            owner[key] = _pid;
            ret_answer = OWNER;
            unlock_cache(key)
        :: else -> ret_answer = NONE
        fi
    };
    if
    :: ret_answer == NONE -> wait(key, ret_answer)
    :: else
    fi
}

/* kilni_wait_pin_all_locked */
inline fulfil(key) {
    atomic {
        lock_cache(key);
        is_ready[key] = true
    };
    do
    :: atomic {
        other < THREADS ->
        if
        :: waits_for[other] == key ->
            lock_waits();
            waits_for[other] = NOTHING;
            unlock_waits();
            answer[other] = HIT
        :: else
        fi;
        other++
    }
    :: else -> break
    od;
    atomic {
        other = 0;
        owner[key] = NOBODY;
        unlock_cache(key)
    }
}

/* kilni_wait_hand_over_locked */
inline hand_over(key) {
    atomic {
        lock_cache(key);
        do
        :: other < THREADS && waits_for[other] != key -> other++
        :: else -> break
        od
    };
#ifdef OWNER_BEFORE_END_OF_WAIT
    if
    :: other < THREADS -> owner[key] = other
    :: else
    fi;
#endif
    atomic {
        if
        :: other < THREADS ->
            lock_waits();
            owner[key] = other;
            waits_for[other] = NOTHING;
            unlock_waits();
            answer[other] = OWNER
        :: else -> owner[key] = NOBODY
        fi;
        other = 0;
        unlock_cache(key)
    }
}

inline end_flight(key) {
    if
    :: fulfil(key)
    :: hand_over(key)
    fi
}

active [THREADS] proctype thread() {
    byte first = NOTHING, second, at, next, steps, other;
    mtype got = NONE;
    bool found;

    if
    :: second = 0
    :: second = 1
#ifdef THREE_KEYS
    :: second = 2
#endif
    fi;
    ask(second, got);
    if
    :: got == OWNER ->
        first = second;
        if
        :: second = 0
        :: second = 1
#ifdef THREE_KEYS
        :: second = 2
#endif
        :: second = NOTHING
        fi;
        if
        :: second != NOTHING ->
            ask(second, got);
            if
            :: got == OWNER -> end_flight(second)
            :: else
            fi
        :: else
        fi;
        end_flight(first)
    :: else
    fi
}
