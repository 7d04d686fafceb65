/* SPDX-License-Identifier: Apache-2.0
 *
 * The lease of one key: several processes that want the same program, each with a thread that asks
 * (src/program/request.c) and a thread that writes what that one built (src/store/writer.c). The system
 * may kill or stop any process between any two steps.
 *
 * At first the store has no entry, or the one that is wanted, or an outdated one: good, but made from
 * something else, so that load answers KILN_MISS for it, until what is built replaces it.
 *
 * What is checked: at most one holds the lease; nobody builds what the store had from the start, and
 * else for each build but the first there is a reason, so an entry that was published is found by all
 * who come later; nobody ends with an outdated program; nobody waits for ever.
 *
 * Left out: keys that share a byte of the lease file, which only wait for each other; stores without
 * leases, where each builds for itself; entries that are removed; processes that don't all want the
 * same of the versions that an entry has.
 *
 * Processes that the system killed never get to their end, so it is not asked of them.
 * Mutants: SAME_IS_FOUND ANY_IS_ABSENT OUTDATED_IS_LOADED
 * Search: -E
 */

#define PROCESSES 3
#define NOBODY PROCESSES

mtype = { RUNNING, STOPPED, DEAD };
mtype = { NONE, OUTDATED, WANTED };
mtype life[PROCESSES] = RUNNING;

byte holder = NOBODY;          /* of the key's byte in the file "lease" */
mtype stored;                  /* the entry that has the key's name in the store */
bool is_in_hand[PROCESSES];    /* its build is under way, or the writer has what came of it */
bool has_ended[PROCESSES];     /* the request has */

/* What no process knows: how many builds may still begin. One, unless the store has what is wanted,
 * and one more for each reason. */
byte builds_left;

/* What load takes. */
#ifdef OUTDATED_IS_LOADED
#define IS_FIT(entry) (entry != NONE)
#else
#define IS_FIT(entry) (entry == WANTED)
#endif

/* What counts as nothing for who looks again. */
#if defined(SAME_IS_FOUND)
#define IS_ABSENT(entry, outdated) (entry == NONE)
#elif defined(ANY_IS_ABSENT)
#define IS_ABSENT(entry, outdated) (entry == NONE || outdated != NONE)
#else
#define IS_ABSENT(entry, outdated) (entry == NONE || entry == outdated)
#endif

/* kiln_lease_release */
inline give_lease_back() {
    if
    :: is_leased ->
        assert(holder == self);
        holder = NOBODY;
        is_leased = false
    :: else
    fi
}

/* kilni_request_run in src/program/request.c. */
proctype process(byte self) provided (life[self] == RUNNING) {
    mtype entry = NONE, outdated = NONE, program = NONE;
    bool is_leased;

    /* ask_store, serve_found, set_entries_aside */
    atomic {
        entry = stored;
        if
        :: IS_FIT(entry) -> program = entry; goto finish
        :: else -> outdated = entry; entry = NONE
        fi
    }

    /* take_lease: kilni_lock_take tries until the byte is free. Waiting is bounded, longer than
     * builds take, so that only a stopped holder outlasts it; then the process builds all the same. */
    if
    :: atomic { holder == NOBODY -> holder = self; is_leased = true }
    :: atomic { holder < NOBODY && life[holder] == STOPPED -> builds_left++ }
    fi;

    /* look_again */
    atomic {
        entry = stored;
        if
        :: IS_ABSENT(entry, outdated) -> entry = NONE
        :: else
        fi;
        outdated = NONE
    }

    /* The end of take_lease, and serve_found. */
    if
    :: atomic { entry != NONE -> give_lease_back() }
    :: else
    fi;
    atomic {
        if
        :: IS_FIT(entry) -> program = entry; goto finish
        :: else -> entry = NONE
        fi
    }

    /* build */
    atomic {
        assert(builds_left > 0);
        assert(!is_leased || holder == self);
        builds_left--;
        is_in_hand[self] = true;
        program = WANTED
    }

    /* publish: capture, then kilni_writer_put. The build may fail, the capture too, and the queue
     * may be full. */
    if
    :: has_ended[self] = true
    :: atomic { builds_left++; is_in_hand[self] = false }; goto finish
    fi;

    /* The writer's thread, while the application goes on: write_first_locked in
     * src/store/writer.c. kiln_store_put may find the disk full. */
    atomic {
        if
        :: stored = WANTED
        :: builds_left++
        fi;
        is_in_hand[self] = false
    }

finish:
    /* finish of request.c, or free_item of writer.c */
    atomic {
        give_lease_back();
        assert(program != OUTDATED);
        entry = NONE;
        program = NONE;
        has_ended[self] = true
    }
}

/* Who has nothing left to do is left alone. */
#define IS_BUSY(victim) (!has_ended[victim] || is_in_hand[victim] || holder == victim)

/* The system closes the files of what it kills, and what that had built is lost. */
#define FATES_OF(victim)                                                                             \
    :: atomic { life[victim] != DEAD && IS_BUSY(victim) ->                                           \
           life[victim] = DEAD;                                                                      \
           if                                                                                        \
           :: is_in_hand[victim] -> is_in_hand[victim] = false; builds_left++                        \
           :: else                                                                                   \
           fi;                                                                                       \
           if                                                                                        \
           :: holder == victim -> holder = NOBODY                                                    \
           :: else                                                                                   \
           fi }                                                                                      \
    :: atomic { life[victim] == RUNNING && IS_BUSY(victim) && stops_left > 0 ->                      \
           life[victim] = STOPPED;                                                                   \
           stops_left-- }                                                                            \
    :: atomic { life[victim] == STOPPED -> life[victim] = RUNNING }

/* Kills any, stops two, and may let those go on. */
active proctype system() {
    byte stops_left = 2;
    do
    FATES_OF(0)
    FATES_OF(1)
    FATES_OF(2)
    :: break
    od
}

init {
    byte i;
    atomic {
        if
        :: stored = OUTDATED; builds_left++
        :: stored = NONE; builds_left++
        :: stored = WANTED
        fi;
        for (i : 0 .. PROCESSES - 1) {
            run process(i)
        }
    }
}

#define IS_SETTLED(i) (has_ended[i] || life[i] != RUNNING)

/* No step is ever taken twice, so each run comes to where nothing can move: there nobody waits. */
active proctype end_of_run() {
    timeout;
    assert(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2))
}
