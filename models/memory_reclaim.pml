/* SPDX-License-Identifier: Apache-2.0
 *
 * Reclamation: readers in sections, any of which may stall for any length of time, and a thread
 * that removes objects from the table, then waits until they are destroyed
 * (src/memory/read_section.c, src/memory/reader.h).
 *
 * A reader's stores pass through a buffer that may be emptied at any later time. Fences are
 * ordinary at first: the light one empties that buffer. The heavy one does nothing, because a
 * thread that reclaims stores directly. At some time the fences are switched to asymmetric ones:
 * the light one then does nothing, and the heavy one empties the buffers of all readers. At any
 * later time the system may refuse the heavy fence for good. Then the fences are switched back to
 * ordinary ones, and nothing is reclaimed until each reader has acknowledged the switch. A reader
 * acknowledges it by a separate store before its next ordinary fence, or by ending.
 *
 * Checked: no reader sees a destroyed object. Each object is destroyed once. The wait ends, and
 * then all removed objects are destroyed. After a refusal, they are destroyed by the end of the
 * next call.
 *
 * Each reader has one section. In the variant NO_REFUSAL, the first reader has a second one, and
 * the system refuses nothing. The long search has both.
 *
 * Mutants: NO_HEAVY_FENCE EARLY_EPOCH NO_AWAITED EARLY_LOOK_AT_FENCES NO_ACKNOWLEDGEMENT
 * Variants: NO_REFUSAL
 * Mutants of NO_REFUSAL: NO_HEAVY_FENCE EARLY_EPOCH NO_AWAITED EARLY_LOOK_AT_FENCES
 * Long: LONG
 */

#define READERS 2
#if defined(NO_REFUSAL) || defined(LONG)
#define SECTIONS 2 /* of the first reader; the second one has one */
#else
#define SECTIONS 1
#endif
#define OBJECTS 2  /* the table holds object 1 at first, then object 2, then none */

byte table = 1;
byte epoch = 1;
byte awaited;
bool is_left; /* a section has been left since the settler began to look: cache->sections_left */
bool locked;

/* The queue of retired objects: the epoch in which each was retired; 0: not in the queue. */
byte retired_at[OBJECTS + 1];
byte last_retirement;
bool is_destroyed[OBJECTS + 1];

/* A reader's place: the epoch of its section; 0: none. The two words of kilni_place are one word
 * here: the reclaiming thread loads @cache first, so the epoch that it loads is not older than the
 * section's. */
byte place[READERS];
chan buffer[READERS] = [3] of { byte };

/* kilni_reader.acknowledged: ACKNOWLEDGE stands for the store in the buffer. has_acknowledged is
 * the value that other threads see. acknowledges says whether the reader has stored it. */
#define ACKNOWLEDGE 200
bool has_acknowledged[READERS];
bool acknowledges[READERS];

/* kilni_fence_is_asymmetric. The lock in reader.c guards both the switch and reclamation. It
 * ensures that the flag is not loaded before earlier stores are visible. */
bool is_asymmetric;

bool is_refused;  /* the system refuses the heavy fence */
bool reclaims_nothing;
bool is_switched; /* back to ordinary fences after a refusal */

/* A store of a reader leaves its buffer. */
inline empty_one(reader_number, word) {
    buffer[reader_number]?word;
    if
    :: word == ACKNOWLEDGE -> has_acknowledged[reader_number] = true
    :: else -> place[reader_number] = word
    fi;
    word = 0
}

byte ended;

/* ---- reclamation ---- */

inline lock() {
    atomic { !locked -> locked = true }
}

inline unlock() {
    locked = false
}

/* improve_fences */
active proctype improver() {
    is_asymmetric = true;
#ifndef NO_REFUSAL
    /* A sandbox may refuse the fence. */
    if
    :: is_refused = true
    :: skip
    fi
#endif
}

/* fence_system, or else order_without_system_locked, in reader.c */
inline heavy_fence() {
    is_ordered = true;
#ifndef NO_HEAVY_FENCE
#ifndef EARLY_LOOK_AT_FENCES
    looked = is_asymmetric;
#endif
    if
    :: looked && !is_refused ->
        d_step {
            r = 0;
            do
            :: r < READERS && nempty(buffer[r]) -> empty_one(r, word)
            :: r < READERS && empty(buffer[r]) -> r++
            :: r == READERS -> break
            od;
            r = 0
        }
    :: else ->
        if
        :: looked ->
            is_asymmetric = false;
            is_switched = true
        :: else
        fi;
#ifndef NO_ACKNOWLEDGEMENT
        /* The readers' acknowledgements are loaded before their places. */
        r = 0;
        do
        :: r < READERS ->
            is_ordered = is_ordered && (!is_switched || has_acknowledged[r] || r == own);
            r++
        :: else -> break
        od;
        r = 0
#endif
    fi;
    looked = false
#else
    skip
#endif
}

/* collect_locked in read_section.c. Releases the lock for the fence, and while it reads the places.
 */
inline collect_locked() {
    if
    :: retired_at[1] == 0 && retired_at[2] == 0
    :: else ->
        d_step {
            first = last_retirement + 1;
            if
            :: epoch < first -> epoch = first
            :: else
            fi;
            unlock()
        }
        /* kilni_reader_oldest reads one place after the other. */
        heavy_fence();
        oldest = first;
        r = 0;
        do
        :: r < READERS ->
            d_step {
                if
                :: place[r] != 0 && place[r] < oldest -> oldest = place[r]
                :: else
                fi;
                r++
            }
        :: else -> break
        od;
        atomic {
            lock();
            reclaims_nothing = !is_ordered;
            r = 1;
            do
            :: r <= OBJECTS ->
                if
                :: is_ordered && retired_at[r] != 0 && retired_at[r] < oldest ->
                    retired_at[r] = 0;
                    assert(!is_destroyed[r]);
                    is_destroyed[r] = true
                :: else
                fi;
                r++
            :: else -> break
            od;
            r = 0
        }
    fi;
    r = 0;
    first = 0;
    oldest = 0
}

/* kilni_cache_settle */
inline settle() {
    lock();
#ifndef NO_AWAITED
    awaited = last_retirement + 1;
#endif
    do
    :: true ->
        is_left = false;
        collect_locked();
        if
        :: reclaims_nothing || (retired_at[1] == 0 && retired_at[2] == 0) -> break
        :: else
        fi;
        if
        :: !is_left ->
            unlock();
            is_left;
            lock()
        :: else
        fi
    od;
    unlock()
}

/* Removes each object and retires it, as eviction and the last release do. Then it settles. */
active proctype remover() {
    byte r, oldest, first, object, word, own;
    bool looked, is_ordered;
    own = 255;
    object = 1;
    do
    :: object <= OBJECTS ->
        lock();
#ifdef EARLY_LOOK_AT_FENCES
        looked = is_asymmetric;
#endif
#ifdef EARLY_EPOCH
        last_retirement = epoch;
        epoch = last_retirement + 1;
        table = (object < OBJECTS -> object + 1 : 0);
        retired_at[object] = last_retirement;
#else
        table = (object < OBJECTS -> object + 1 : 0);
        d_step {
            last_retirement = epoch;
            retired_at[object] = epoch
        }
#endif
        if
        :: object < OBJECTS -> collect_locked()
        :: else
        fi;
        unlock();
        object++
    :: else -> break
    od;
    settle();
    ended++
}

/* ---- readers ---- */

/* The processor may empty a reader's buffer at any time. */
proctype drain(byte self) {
    byte word;
end:
    do
    :: d_step { nempty(buffer[self]) -> empty_one(self, word) }
    od
}

/* kilni_fence_light */
inline light_fence() {
    if
    :: is_asymmetric
    :: else ->
        /* acknowledge_fences */
        if
        :: is_switched && !acknowledges[self] ->
            acknowledges[self] = true;
            buffer[self]!ACKNOWLEDGE
        :: else
        fi;
        empty(buffer[self])
    fi
}

proctype reader(byte self) {
    byte mine, seen, sections;
    do
    :: sections < (self == 0 -> SECTIONS : 1) ->
        /* kilni_place_take */
        mine = epoch;
        buffer[self]!mine;
        light_fence();
        /* kilni_cache_find */
        d_step {
            seen = table;
            assert(seen == 0 || !is_destroyed[seen])
        }
        /* The reader may stall here. Then kilni_place_leave. */
        atomic {
            assert(seen == 0 || !is_destroyed[seen]);
            seen = 0;
            buffer[self]!0
        }
        light_fence();
        if
        :: mine < awaited ->
            lock();
            /* Taking a lock is a fence. */
            empty(buffer[self]);
            /* kilni_section_wake_settlers */
            is_left = true;
            unlock()
        :: else
        fi;
        mine = 0;
        sections++
    :: else -> break
    od;
    /* leave_sections in cache.c */
    atomic { empty(buffer[self]) -> has_acknowledged[self] = true };
    ended++
}

init {
    byte r, oldest, first, word, own;
    bool looked, is_ordered;
    own = 255;
    atomic {
        run drain(0);
        run drain(1);
        run reader(0);
        run reader(1)
    }
    ended == READERS + 1 && empty(buffer[0]) && empty(buffer[1]);
    if
    :: is_switched ->
        lock();
        collect_locked();
        unlock()
    :: else
    fi;
    assert(is_destroyed[1] && is_destroyed[2])
}
