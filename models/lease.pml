/* SPDX-License-Identifier: Apache-2.0
 *
 * The lease of one key: several processes that want the same program, each with a thread that asks
 * (src/program/request.c) and a thread that writes what that one built (src/store/writer.c). The system
 * may kill or stop any process between any two steps.
 *
 * At first the store has no entry, or the one that is wanted, or an outdated one: good, but made from
 * something else, so that load answers KILN_MISS for it, until what is built replaces it. Another
 * process wants a third version, as little fit, and stores that once, at any moment: as if it had waited
 * too long for the lease, for with the lease it could do so at fewer.
 *
 * What is checked: at most one holds the lease; who builds has it, or waited too long for it; nobody
 * builds what the store had from the start, and between two builds with the lease there is a reason, so
 * an entry that was published, and not replaced, is found by all who come later; nobody ends with an
 * unfit program; nobody has the lease again more often than others store something; nobody waits for
 * ever.
 *
 * Left out: keys that share a byte of the lease file, which only wait for each other; stores without
 * leases, where each builds for itself; entries that are removed; more versions than those three, and
 * processes that go on replacing each other's entries.
 *
 * Processes that the system killed never get to their end, so it is not asked of them.
 * Mutants: SAME_IS_FOUND ANY_IS_ABSENT OUTDATED_IS_LOADED LEASE_IS_HAD_ONCE
 * Search: -E
 */

#define PROCESSES 3
#define NOBODY PROCESSES

mtype = { RUNNING, STOPPED, DEAD };
mtype = { NONE, OUTDATED, OTHER, WANTED };
mtype life[PROCESSES] = RUNNING;

byte holder = NOBODY;       /* of the key's byte in the file "lease" */
mtype stored;               /* the entry that has the key's name in the store */
bool is_asking[PROCESSES];  /* its request is under way */
bool is_in_hand[PROCESSES]; /* its build is under way, or the writer has what came of it */

/* What no process knows: a build with the lease has a reason. The first has it unless the store has
 * what is wanted; each other, if what was built is lost or replaced. */
bool is_build_due;

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

/* kilni_request_run in src/program/request.c, from set_entries_aside after the first look on. */
proctype process(byte self, outdated) provided (life[self] == RUNNING) {
    mtype entry = NONE, program = NONE;
    bool is_leased, is_late;
    byte rounds; /* of look_up_leased, without the first */

take_lease:
    /* kilni_lock_take tries until the byte is free. Waiting is bounded, longer than builds take, so
     * that only a stopped holder outlasts it; then the process goes on all the same. */
    if
    :: atomic { holder == NOBODY -> holder = self; is_leased = true }
    :: atomic { holder < NOBODY && life[holder] == STOPPED -> is_late = true }
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

    /* The end of take_lease, then serve_found and set_entries_aside, which nobody else sees. */
    atomic {
        if
        :: entry != NONE ->
            give_lease_back();
            if
            :: IS_FIT(entry) -> program = entry; goto finish
            :: else -> outdated = entry; entry = NONE
            fi;
#ifndef LEASE_IS_HAD_ONCE
            /* look_up_leased. Others store one unfit entry, so once is enough. */
            assert(rounds == 0);
            rounds++;
            is_late = false;
            goto take_lease
#endif
        :: else
        fi
    }

    /* build */
    atomic {
        if
        :: is_leased -> assert(holder == self && is_build_due); is_build_due = false
        :: else -> assert(is_late)
        fi;
        is_in_hand[self] = true;
        program = WANTED
    }

    /* publish: capture, then kilni_writer_put. The build may fail, the capture too, and the queue
     * may be full. */
    if
    :: is_asking[self] = false
    :: atomic { is_build_due = true; is_in_hand[self] = false }; goto finish
    fi;

    /* The writer's thread, while the application goes on: write_first_locked in
     * src/store/writer.c. kiln_store_put may find the disk full. */
    atomic {
        if
        :: stored = WANTED
        :: is_build_due = true
        fi;
        is_in_hand[self] = false
    }

finish:
    /* finish of request.c, or free_item of writer.c */
    atomic {
        give_lease_back();
        assert(program == WANTED);
        entry = NONE;
        program = NONE;
        is_late = false;
        rounds = 0;
        is_asking[self] = false
    }
}

/* What came of a build by a process that wants another version. */
proctype another() {
    atomic {
        is_build_due = is_build_due || stored == WANTED;
        stored = OTHER
    }
}

/* The system closes the files of what it kills, and what that had built is lost. Who has neither the
 * lease nor a build in hand is left alone: for the others, it may as well be slow. */
#define FATES_OF(victim)                                                                             \
    :: atomic { life[victim] != DEAD && (holder == victim || is_in_hand[victim]) ->                  \
           life[victim] = DEAD;                                                                      \
           is_build_due = is_build_due || is_in_hand[victim];                                        \
           is_in_hand[victim] = false;                                                               \
           if                                                                                        \
           :: holder == victim -> holder = NOBODY                                                    \
           :: else                                                                                   \
           fi }                                                                                      \
    :: atomic { life[victim] == RUNNING && holder == victim && stops_left > 0 ->                     \
           life[victim] = STOPPED;                                                                   \
           stops_left-- }                                                                            \
    :: atomic { life[victim] == STOPPED -> life[victim] = RUNNING }

/* Kills any, stops two, and may let those go on, or never. */
active proctype system() {
    byte stops_left = 2;
    do
    FATES_OF(0)
    FATES_OF(1)
    FATES_OF(2)
    :: break
    od
}

/* The first look, ask_store and serve_found, is where a process begins. All are alike, so the first to
 * look is number 0. */
init {
    byte i;
    atomic {
        if
        :: stored = OUTDATED; is_build_due = true
        :: stored = NONE; is_build_due = true
        :: stored = WANTED
        fi;
        run another()
    }
    do
    :: atomic { i < PROCESSES ->
           if
           :: IS_FIT(stored) -> assert(stored == WANTED)
           :: else -> is_asking[i] = true; run process(i, stored)
           fi;
           i++ }
    od
}

#define IS_SETTLED(i) (!is_asking[i] || life[i] != RUNNING)

/* Nobody has the lease for ever again, and no other step is taken twice, so each run comes to where
 * nothing can move: there nobody waits. */
active proctype end_of_run() {
    timeout;
    assert(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2))
}
