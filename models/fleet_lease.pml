/* SPDX-License-Identifier: Apache-2.0
 *
 * The fleet's lease of one key, on a server (src/store/redis/lease.c), as the requests of several
 * machines use it (src/program/request.c). Only one process of each machine asks the server,
 * because it must hold the machine's own lease first. A holder may be killed or stopped at any
 * step, the server may forget a lease or an entry, a put may fail, and a process may be unable to
 * reach the server for a while.
 *
 * Checked: a lease is ended by its holder, by time or by the server, and never by another process.
 * Time ends no lease whose holder runs and reaches the server. Without faults the key is built once,
 * and each fault costs at most one more build. No process waits for ever.
 *
 * Not modelled: entries that do not fit, which models/lease.pml covers, and durations. A lease
 * lasts as long as its holder renews it; any other lease may end at any moment.
 *
 * Mutants: RELEASE_WITHOUT_COMPARE NO_SECOND_LOOK RELEASE_BEFORE_PUT NO_EXPIRY NO_RENEWAL
 * Search: -E
 */

#define MACHINES 3
#define NOBODY MACHINES
#define FAULTS 2

mtype = { RUNNING, STOPPED, DEAD };
mtype life[MACHINES] = RUNNING;

/* The state on the server. */
byte holder = NOBODY; /* the process whose token is in the lease */
bool is_stored;

bool is_asking[MACHINES]; /* the process's request, or the put after it, is in progress */
bool is_held[MACHINES];   /* the process believes that it has the lease */

byte builds, faults;

inline fault() {
    faults < FAULTS -> faults++
}

/* kilni_redis_lease_release: release_script */
inline release() {
    if
    :: is_held[self] ->
        is_held[self] = false;
#ifdef RELEASE_WITHOUT_COMPARE
        assert(holder == self || holder == NOBODY);
        holder = NOBODY
#else
        if
        :: holder == self -> holder = NOBODY
        :: else
        fi
#endif
    :: else
    fi
}

proctype process(byte self) provided (life[self] == RUNNING) {
    bool is_found;

    /* The first look: kilni_store_find. */
    atomic {
        is_found = is_stored;
        if
        :: is_found -> goto finish
        :: else
        fi
    }

    /* remote_take_lease asks until nobody has the lease. If the server is out of reach, the process
     * builds without a lease. */
    if
    :: atomic { holder == NOBODY -> holder = self; is_held[self] = true }
    :: atomic { fault() }
    fi;

#ifndef NO_SECOND_LOOK
    /* look_again */
    atomic {
        is_found = is_stored;
        if
        :: is_found -> goto finish
        :: else
        fi
    }
#endif

    /* build */
    atomic {
        builds++;
        assert(builds <= 1 + faults)
    }

#ifdef RELEASE_BEFORE_PUT
    atomic { release() }
#endif

    /* The writer: kiln_store_put may fail. */
    if
    :: is_stored = true
    :: atomic { fault() }
    fi;

finish:
    atomic {
        release();
        is_asking[self] = false
    }
}

#define RENEWS(number) (is_held[number] && life[number] == RUNNING)

/* Time: a lease that is not renewed ends. */
active proctype time() {
    do
#ifndef NO_EXPIRY
#ifdef NO_RENEWAL
    :: atomic { holder < NOBODY -> assert(!RENEWS(holder)); holder = NOBODY }
#else
    :: atomic { holder < NOBODY && !RENEWS(holder) -> holder = NOBODY }
#endif
#endif
    :: break
    od
}

#define FATES_OF(victim)                                                                             \
    :: atomic { life[victim] == RUNNING && is_asking[victim] && faults < FAULTS ->                    \
           faults++;                                                                                 \
           life[victim] = DEAD }                                                                     \
    :: atomic { life[victim] == RUNNING && is_held[victim] && faults < FAULTS ->                      \
           faults++;                                                                                 \
           life[victim] = STOPPED }                                                                  \
    :: atomic { life[victim] == STOPPED -> life[victim] = RUNNING }

/* The system, and the server's own losses. */
active proctype system() {
    do
    FATES_OF(0)
    FATES_OF(1)
    FATES_OF(2)
    :: atomic { holder < NOBODY && faults < FAULTS -> faults++; holder = NOBODY }
    :: atomic { is_stored && faults < FAULTS -> faults++; is_stored = false }
    :: break
    od
}

init {
    byte i;
    atomic {
        do
        :: i < MACHINES -> is_asking[i] = true; run process(i); i++
        :: else -> break
        od
    }
}

#define IS_SETTLED(number) (!is_asking[number] || life[number] != RUNNING)

/* When nothing else can move, time has nothing to end any more, and no process waits. */
active proctype end_of_run() {
    do
    :: timeout ->
        if
#ifndef NO_EXPIRY
        :: atomic { holder < NOBODY && !RENEWS(holder) -> holder = NOBODY }
#endif
        :: else -> break
        fi
    od;
    assert(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2))
}
