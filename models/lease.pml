/* SPDX-License-Identifier: Apache-2.0
 *
 * The lease of one key. Several processes want the same program. Each has a thread that requests it
 * (src/program/request.c) and a thread that writes what the first thread built
 * (src/store/writer.c). The system may kill or stop any process between any two steps.
 *
 * At the start the store has no entry, the wanted entry or an outdated one. An outdated entry is
 * intact but was made from other inputs: load returns KILN_MISS for it until a build replaces it.
 * One further process wants a third version, which does not fit the others either. It stores that
 * version once, at any moment, as if it had waited too long for the lease. If it took the lease,
 * there would be fewer moments at which it could store.
 *
 * Checked: at most one process holds the lease. A process that builds holds the lease or has waited
 * too long for it. No process builds what the store had from the start. Each build under the lease
 * has a reason, so an entry that was published and not replaced is found by every later process. No
 * process ends with a program that does not fit. No process takes the lease again more often than
 * others store something. No process waits for ever.
 *
 * Not modelled: keys that share a byte of the lease file, which only wait for each other; stores
 * without leases, where each process builds for itself; removal of entries; more than these three
 * versions; and processes that replace each other's entries again and again.
 *
 * A process that the system killed never reaches its end, so the checks at the end do not apply to
 * it.
 *
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
bool is_asking[PROCESSES];  /* the process's request is in progress */
bool is_in_hand[PROCESSES]; /* the process's build is in progress, or its writer has the result */

/* Whether there is a reason for a build under the lease. Only the checks read it. For the first
 * build, the reason is that the store lacks the wanted entry. For each later one, it is that the
 * result of an earlier build was lost or replaced. */
bool is_build_due;

/* The entries that load accepts. */
#ifdef OUTDATED_IS_LOADED
#define IS_FIT(entry) (entry != NONE)
#else
#define IS_FIT(entry) (entry == WANTED)
#endif

/* The entries that a second look-up treats as missing. */
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

/* kilni_request_run in src/program/request.c, starting at set_entries_aside after the first
 * look-up. */
proctype process(byte self, outdated) provided (life[self] == RUNNING) {
    mtype entry = NONE, program = NONE;
    bool is_leased, is_late;
    byte rounds; /* of look_up_leased, without the first */

take_lease:
    /* kilni_lock_take tries until the byte is free or its time is over. A build takes less than
     * this time, so only a stopped holder outlasts the wait. The process then continues without the
     * lease. */
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

    /* The end of take_lease, then serve_found and set_entries_aside. No other process can observe
     * these steps. */
    atomic {
        if
        :: entry != NONE ->
            give_lease_back();
            if
            :: IS_FIT(entry) -> program = entry; goto finish
            :: else -> outdated = entry; entry = NONE
            fi;
#ifndef LEASE_IS_HAD_ONCE
            /* look_up_leased. The others store one entry that does not fit, so one repetition is
             * enough. */
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

    /* publish: capture, then kilni_writer_put. The build or the capture may fail, and the queue may
     * be full. */
    if
    :: is_asking[self] = false
    :: atomic { is_build_due = true; is_in_hand[self] = false }; goto finish
    fi;

    /* The writer's thread, while the application continues: write_first_locked in
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

/* The result of a build by a process that wants a different version. */
proctype another() {
    atomic {
        is_build_due = is_build_due || stored == WANTED;
        stored = OTHER
    }
}

/* The system closes the files of a process that it kills, and what that process built is lost. A
 * process that neither holds the lease nor builds is never killed or stopped, because to the others
 * it would only seem slow. */
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

/* Kills any number of processes, stops up to two, and may let the stopped processes continue. */
active proctype system() {
    byte stops_left = 2;
    do
    FATES_OF(0)
    FATES_OF(1)
    FATES_OF(2)
    :: break
    od
}

/* A process begins with the first look-up: ask_store and serve_found. All processes are alike, so
 * it is enough that number 0 looks up first. */
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

/* Each process takes the lease only a limited number of times, and no other step is taken twice. So
 * each run reaches a state in which nothing can move. No process may wait there. */
active proctype end_of_run() {
    timeout;
    assert(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2))
}
