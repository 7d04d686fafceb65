/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts of the pins on one object, which each thread keeps for itself (src/memory/pin_tally.h,
 * pin.c, read_section.c). A thread pins it, and hands pins to a second thread; both release them,
 * while a third thread evicts the object. Each thread's stores pass through a buffer that may be
 * emptied at any later time; the heavy fence empties all buffers, and the light one does nothing.
 * In the variant CACHE_END, the cache is freed as soon as it can be. In FORK, the process may fork
 * at any time: from then on the model is the child, which has lost a thread and the content of that
 * thread's buffer. The long search is CACHE_END with two pins.
 *
 * Checked: the object is not destroyed while a pin exists. No thread changes its count of the
 * object's pins after that count was taken. The object is destroyed in the end, unless a
 * thread was lost. A thread that releases the last pin does not read a cache that no longer exists.
 *
 * Mutants: NO_SECTION NO_RECHECK NO_SETTLING NO_HEAVY_FENCE SHARE_REMOVED
 * Variants: FORK CACHE_END
 * Mutants of FORK: OVERFLOW_TWICE
 * Mutants of CACHE_END: NO_LEAVING
 * Long: LONG
 */

/* Pins that the first thread takes. With two, its count exceeds LIMIT. */
#ifdef CACHE_END
#define PINS (self == 0 -> 1 : 0)
#else
#define PINS (self == 0 -> 2 : 0)
#endif
#ifdef LONG
#define CACHE_END
#endif
#define LIMIT 1 /* the largest count that a thread may have */

/* kiln_pin.holds */
bool is_resident = true, is_shared, is_settling;
short count;

bool in_table = true;
byte epoch = 1;
byte awaited;
bool locked;
bool is_retired, is_unseen; /* in the queue; known to no section */
bool is_destroyed;
byte references = 2; /* references to the cache: the user's and the object's */
bool is_cache_freed;

/* A thread's place: 0: free; the epoch of its section; or LEAVING. */
#define LEAVING 9
byte place[2];
short tally[2];
bool is_taken[2];
bool has_ended[2], is_lost[2];

/* Stores that other threads do not see yet. */
mtype = { PLACE, TALLY };
chan buffer[2] = [4] of { mtype, short };

/* Pins that each thread has, and pins that any thread may take. */
byte owned[2];
byte handed;
bool has_pinned_all[2];

inline empty_one(t) {
    buffer[t]?kind, value;
    if
    :: kind == PLACE -> place[t] = value
    :: kind == TALLY -> assert(!is_taken[t]); tally[t] = value
    fi;
    value = 0;
    kind = 0
}

/* The processor may empty a thread's buffer at any time. */
proctype drain(byte self) {
    mtype kind;
    short value;
end:
    do
    :: d_step { nempty(buffer[self]) -> empty_one(self) }
    od
}

/* A locked instruction, or taking a lock, empties the buffer first. */
#define ordered empty(buffer[self])

/* ---- reclamation, by a thread that holds the cache's lock ---- */

inline lock() {
    atomic { !locked -> locked = true }
}

inline unlock() {
    locked = false
}

inline destroy() {
    assert(!is_destroyed && handed == 0 && owned[0] == 0 && owned[1] == 0);
    assert(!is_resident && !is_shared && !is_settling && count == 0);
    is_destroyed = true;
    references--
}

/* take_objects_before_locked, is_held_after_settling_locked */
inline settle() {
    if
    :: is_settling ->
        d_step {
            is_unseen = true;
            sum = tally[0] + tally[1];
            is_taken[0] = true;
            is_taken[1] = true;
            tally[0] = 0;
            tally[1] = 0
        }
        d_step {
            count = count + sum;
            is_settling = false;
            sum = 0;
            /* A child may have more counts than pins. */
            assert(count >= handed + owned[0] + owned[1]);
            if
            :: count == 0 -> destroy()
            :: else
            fi
        }
    :: else -> d_step { destroy() }
    fi
}

inline heavy_fence() {
#ifndef NO_HEAVY_FENCE
    d_step {
        do
        :: nempty(buffer[0]) -> empty_one(0)
        :: empty(buffer[0]) && nempty(buffer[1]) -> empty_one(1)
        :: empty(buffer[0]) && empty(buffer[1]) -> break
        od
    }
#else
    skip
#endif
}

/* collect_locked. In this model a thread that leaves an awaited section collects, too; in the code
 * a later call does that, so fewer threads collect. memory_reclaim.pml also models that the lock is
 * released for the fence. */
inline collect_locked() {
    if
    :: atomic { is_retired && is_unseen -> is_retired = false };
        settle()
    :: is_retired && !is_unseen ->
        d_step { epoch = 2; awaited = 2 }
        heavy_fence();
        is_open = place[0] == 1;
        is_open = is_open || place[1] == 1;
        if
        :: is_open -> is_open = false
        :: else ->
            is_retired = false;
            settle();
            awaited = 0
        fi
    :: else
    fi
}

/* ---- threads ---- */

/* kilni_place_take */
inline enter() {
    mine = epoch;
    buffer[self]!PLACE(mine)
}

/* kilni_tally_add. The thread reads back what it stored. */
inline add(change) {
    seen = seen + change;
    if
    :: seen > LIMIT || seen < -LIMIT ->
        /* kilni_tally_overflow */
        if
#ifndef OVERFLOW_TWICE
        :: seen < 0 ->
            buffer[self]!TALLY(0);
            atomic { ordered -> count = count + seen; seen = 0 }
#endif
        :: else ->
            atomic { ordered -> count = count + seen };
            buffer[self]!TALLY(0);
            seen = 0
        fi
    :: else -> buffer[self]!TALLY(seen)
    fi
}

/* kilni_object_pin */
inline pin() {
    enter();
    if
    :: atomic { in_table -> assert(!is_destroyed) };
        if
        :: is_shared -> add(1); is_held = true
        :: else ->
            /* hold_exactly: one locked instruction */
            atomic {
                ordered ->
                if
                :: !is_resident && !is_shared && !is_settling && count == 0
                :: else ->
                    count++;
                    is_held = true;
                    if
#ifndef SHARE_REMOVED
                    :: is_resident && !is_shared -> is_shared = true
#else
                    :: !is_shared && !is_settling -> is_shared = true
#endif
                    :: skip
                    fi
                fi
            }
        fi;
        if
        :: is_held -> d_step { owned[self]++; is_held = false }
        :: else
        fi
    :: else
    fi;
    /* kilni_place_leave */
    buffer[self]!PLACE(0);
    if
    :: mine < awaited ->
        lock();
        ordered;
        collect_locked();
        unlock()
    :: else
    fi;
    mine = 0
}

/* kilni_place_leave_released, wake_after_release */
inline leave_released() {
#ifdef CACHE_END
#ifndef NO_LEAVING
    buffer[self]!PLACE(LEAVING);
#else
    buffer[self]!PLACE(0);
#endif
    if
    :: atomic { mine < awaited -> assert(!is_cache_freed) };
        atomic {
            ordered ->
            if
            :: references > 0 -> references++; is_held = true
            :: else
            fi
        };
        buffer[self]!PLACE(0);
        if
        :: is_held ->
            is_held = false;
            lock();
            ordered;
            collect_locked();
            unlock();
            atomic { ordered -> references-- }
        :: else
        fi
    :: atomic { else -> assert(!is_cache_freed) };
        buffer[self]!PLACE(0)
    fi
#else
    buffer[self]!PLACE(0);
    if
    :: mine < awaited ->
        lock();
        ordered;
        collect_locked();
        unlock()
    :: else
    fi
#endif
}

/* kiln_pin_release */
inline release() {
    if
    :: atomic { is_shared -> assert(!is_destroyed && !is_cache_freed) };
        /* count */
#ifndef NO_SECTION
        enter();
#endif
        if
#ifdef NO_RECHECK
        :: true ->
#else
        :: is_shared ->
#endif
            d_step { owned[self]--; is_done = true };
            add(-1)
        :: else
        fi;
#ifndef NO_SECTION
        leave_released();
        mine = 0
#endif
    :: atomic { else -> assert(!is_destroyed && !is_cache_freed) }
    fi;
    if
    :: is_done -> is_done = false
    :: else ->
        /* kilni_object_drop_hold, and what follows the last one */
        atomic {
            ordered ->
            count--;
            owned[self]--;
#ifndef NO_SETTLING
            is_last = count == 0 && !is_resident && !is_shared && !is_settling
#else
            is_last = count == 0 && !is_resident && !is_shared
#endif
        };
        if
        :: is_last ->
            d_step { is_last = false; references++ }
            atomic {
                lock();
#ifdef NO_SETTLING
                is_settling = false;
#endif
                is_retired = true
            }
            collect_locked();
            d_step { unlock(); references-- }
        :: else
        fi
    fi
}

/* Stops wherever it is once the child has lost the thread. */
proctype thread(byte self) {
    byte mine, pins;
    short seen, sum, value;
    mtype kind;
    bool is_held, is_done, is_last, is_open;
    {
        do
        :: pins < PINS -> pin(); pins++
        :: d_step { owned[self] > 0 && ordered -> owned[self]--; handed++ }
        :: owned[self] > 0 -> release()
        :: d_step { handed > 0 -> handed--; owned[self]++ } -> release()
        :: pins == PINS && owned[self] == 0 -> break
        od;
#ifdef CACHE_END
        /* The user frees the cache only after the last call with its handle. */
        atomic { ordered -> has_pinned_all[self] = true };
#endif
        /* Threads may still hand each other pins. One thread stays to release the last pins. */
        do
        :: d_step { handed > 0 -> handed--; owned[self]++ } -> release()
        :: self == 1 -> break
        :: self == 0 && handed == 0 && (has_ended[1] || is_lost[1]) -> break
        od;
        /* end_thread: kilni_tally_settle, under the lock of the readers */
        skip;
        d_step {
            ordered ->
            if
            :: tally[self] != 0 ->
                assert(is_shared || is_settling);
                count = count + tally[self];
                tally[self] = 0
            :: else
            fi;
            has_ended[self] = true
        }
    } unless { is_lost[self] }
}

/* kiln_cache_free, or a call that evicts followed by it */
proctype evictor() {
    short sum, value;
    mtype kind;
    bool is_open;
    in_table = false; /* under the lock */
    /* the notice */
    atomic {
        lock();
        /* kilni_object_release_removed_locked */
        is_resident = false;
        if
        :: is_shared ->
            is_shared = false;
            is_settling = true;
            is_retired = true
        :: else -> is_retired = count == 0
        fi
    };
    collect_locked();
    unlock();
#ifdef CACHE_END
    has_pinned_all[0] && has_pinned_all[1];
    atomic { references-- }
#endif
}

/* kilni_cache_release: the last one */
proctype freer() {
end:
    references == 0;
    /* kilni_reader_wait_for_leaving */
    place[0] != LEAVING;
    place[1] != LEAVING;
    is_cache_freed = true
}

/* A fork holds all locks. Only one thread of these two is lost, so that the other one goes on. */
proctype forker() {
    mtype kind;
    short value;
end:
    atomic {
        !locked && !has_ended[1] ->
        is_lost[1] = true;
        do
        :: nempty(buffer[1]) -> buffer[1]?kind, value
        :: empty(buffer[1]) -> break
        od;
        place[1] = 0;
        owned[1] = 0;
        if
        :: tally[1] != 0 ->
            assert(is_shared || is_settling);
            count = count + tally[1];
            tally[1] = 0
        :: else
        fi
    }
}

init {
    atomic {
        run drain(0);
        run drain(1);
        run thread(0);
        run thread(1);
        run evictor();
#ifdef CACHE_END
        run freer();
#endif
#ifdef FORK
        run forker()
#endif
    }
    (has_ended[0] && has_ended[1] && is_destroyed) || is_lost[1]
}
