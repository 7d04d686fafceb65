/* SPDX-License-Identifier: Apache-2.0
 *
 * Reclamation: readers in sections, any of which may stall for any time, and a thread that removes
 * objects from the table (src/memory/section.c, src/memory/reader.h).
 *
 * A reader's stores pass through a buffer that is emptied at any later time. Fences are ordinary at
 * first: the light one empties that buffer. The heavy one does nothing, because a thread that holds
 * the cache's lock stores directly. At any time the fences are switched to asymmetric ones: the
 * light one then does nothing, and the heavy one empties the buffers of all readers.
 *
 * Checked: no reader sees a destroyed object. Each object is destroyed once. When all sections have
 * been left, no removed object remains, even if no thread calls the cache again.
 *
 * Mutants: NO_HEAVY_FENCE EARLY_EPOCH NO_AWAITED EARLY_LOOK_AT_FENCES
 */

#define READERS 2
#define SECTIONS 2 /* of each reader */
#define OBJECTS 2  /* the table holds 1 at first, then 2, then none */

byte table = 1;
byte epoch = 1;
byte awaited;
bool locked;

/* The queue of retired objects: the epoch in which each was retired; 0: not in the queue. */
byte retired_at[OBJECTS + 1];
byte last_retirement;
bool is_destroyed[OBJECTS + 1];

/* A reader's place: the epoch of its section; 0: none. The two words of kilni_place are one word
 * here: the reclaiming thread loads @cache first, so the epoch that it loads is not older than the
 * section's. */
byte place[READERS];
chan buffer[READERS] = [2] of { byte };

/* kilni_fence_is_asymmetric. The lock in reader.c guards both the switch and reclamation. Through
 * it, the flag is not loaded before earlier stores are seen. */
bool is_asymmetric;

byte ended;

/* ---- reclamation ---- */

inline lock() {
    atomic { !locked -> locked = true }
}

inline unlock() {
    locked = false
}

/* kilni_reader_improve_fences */
active proctype improver() {
    is_asymmetric = true
}

/* kilni_fence_heavy */
inline heavy_fence() {
#ifndef NO_HEAVY_FENCE
#ifndef EARLY_LOOK_AT_FENCES
    looked = is_asymmetric;
#endif
    if
    :: looked ->
        d_step {
            r = 0;
            do
            :: r < READERS && nempty(buffer[r]) -> buffer[r]?place[r]
            :: r < READERS && empty(buffer[r]) -> r++
            :: r == READERS -> break
            od;
            r = 0
        }
    :: else
    fi;
    looked = false
#else
    skip
#endif
}

/* collect_locked in section.c */
inline collect_locked() {
    if
    :: retired_at[1] == 0 && retired_at[2] == 0
    :: else ->
        if
        :: epoch < last_retirement + 1 -> epoch = last_retirement + 1
        :: else
        fi;
#ifndef NO_AWAITED
        awaited = last_retirement + 1;
#endif
        /* kilni_reader_oldest reads one place after the other. */
        heavy_fence();
        oldest = 255;
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
        skip;
        d_step {
            r = 1;
            do
            :: r <= OBJECTS ->
                if
                :: retired_at[r] != 0 && retired_at[r] < oldest ->
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
        if
        :: retired_at[1] == 0 && retired_at[2] == 0 -> awaited = 0
        :: else
        fi
    fi;
    r = 0;
    oldest = 0
}

/* Removes each object and retires it, as eviction and the last release do. */
active proctype remover() {
    byte r, oldest, object;
    bool looked;
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
        collect_locked();
        unlock();
        object++
    :: else -> break
    od;
    ended++
}

/* ---- readers ---- */

/* The processor empties a reader's buffer at any time. */
proctype drain(byte self) {
end:
    do
    :: atomic { nempty(buffer[self]) -> buffer[self]?place[self] }
    od
}

/* kilni_fence_light */
inline light_fence() {
    if
    :: is_asymmetric
    :: else -> empty(buffer[self])
    fi
}

proctype reader(byte self) {
    byte r, oldest, mine, seen, sections;
    bool looked;
    do
    :: sections < SECTIONS ->
        /* kilni_place_take */
        mine = epoch;
        buffer[self]!mine;
        light_fence();
        /* kilni_cache_find */
        seen = table;
        if
        :: seen != 0 -> assert(!is_destroyed[seen])
        :: else
        fi;
        /* The reader may stall here. */
        if
        :: seen != 0 -> assert(!is_destroyed[seen])
        :: else
        fi;
        seen = 0;
        /* kilni_place_leave */
        buffer[self]!0;
        light_fence();
        if
        :: mine < awaited ->
            lock();
            /* Taking a lock is a fence. */
            d_step {
                do
                :: nempty(buffer[self]) -> buffer[self]?place[self]
                :: empty(buffer[self]) -> break
                od;
                mine = 0
            }
            collect_locked();
            unlock()
        :: else
        fi;
        mine = 0;
        sections++
    :: else -> break
    od;
    ended++
}

init {
    atomic {
        run drain(0);
        run drain(1);
        run reader(0);
        run reader(1)
    }
    ended == READERS + 1 && empty(buffer[0]) && empty(buffer[1]);
    assert(is_destroyed[1] && is_destroyed[2]);
    assert(awaited == 0)
}
