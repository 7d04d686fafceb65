/* SPDX-License-Identifier: Apache-2.0
 *
 * The lease of one key: several processes that want the same program, each with a thread that asks
 * (src/program/request.c) and a thread that writes what that one built (src/store/writer.c). The system
 * may kill or stop any process between any two steps.
 *
 * What is checked: at most one holds the lease; for each build but the first there is a reason, so
 * an entry that was published is found by all who come later; nobody waits for ever.
 *
 * Left out: keys that share a byte of the lease file, which only wait for each other; stores without
 * leases, where each builds for itself; entries that are removed.
 *
 * Processes that the system killed never get to their end, so it is not asked of them.
 * Search: -E
 */

#define PROCESSES 3
#define NOBODY PROCESSES

mtype = { RUNNING, STOPPED, DEAD };
mtype life[PROCESSES] = RUNNING;

byte holder = NOBODY;          /* of the key's byte in the file "lease" */
bool is_published;             /* the entry has its name in the store */
bool is_queued[PROCESSES];     /* the writer has the entry, and the lease if there is one */
bool has_ended[PROCESSES];     /* the request has */

/* What no process knows: how many builds may still begin. One, and one more for each reason. */
byte builds_left = 1;

/* kilni_request_run in src/program/request.c. */
proctype process(byte self) provided (life[self] == RUNNING) {
    bool is_found, is_leased;

    /* ask_store */
    is_found = is_published;
    if
    :: is_found -> goto finish
    :: else
    fi;

    /* take_lease: kilni_lock_take tries until the byte is free. Waiting is bounded, longer than
     * builds take, so that only a stopped holder outlasts it; then the process builds all the same. */
    if
    :: atomic { holder == NOBODY -> holder = self; is_leased = true }
    :: atomic { holder < NOBODY && life[holder] == STOPPED -> builds_left++ }
    fi;
    is_found = is_published;
    if
    :: is_found -> goto finish
    :: else
    fi;

    /* build */
    atomic {
        assert(builds_left > 0);
        assert(!is_leased || holder == self);
        builds_left--
    }

    /* publish: capture, then kilni_writer_put. The build may fail, the capture too, and the queue
     * may be full. */
    if
    :: is_queued[self] = true
    :: builds_left++; goto finish
    fi;
    has_ended[self] = true;

    /* The writer's thread, while the application goes on: write_first_locked in
     * src/store/writer.c. kiln_store_put may find the disk full. */
    if
    :: is_published = true
    :: builds_left++
    fi;
    is_queued[self] = false;

finish:
    /* kiln_lease_release, in finish of request.c or free_item of writer.c */
    atomic {
        is_found = false;
        if
        :: is_leased ->
            assert(holder == self);
            holder = NOBODY;
            is_leased = false
        :: else
        fi;
        has_ended[self] = true
    }
}

/* Who has nothing left to do is left alone. */
#define IS_BUSY(victim) (!has_ended[victim] || is_queued[victim] || holder == victim)

/* The system closes the files of what it kills. */
#define FATES_OF(victim)                                                                             \
    :: atomic { life[victim] != DEAD && IS_BUSY(victim) ->                                           \
           life[victim] = DEAD;                                                                      \
           builds_left++;                                                                            \
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
