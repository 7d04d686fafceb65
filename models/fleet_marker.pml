/* SPDX-License-Identifier: Apache-2.0
 *
 * The fleet's lease of one key on a server that has only values: a marker that contains the token
 * of its holder (src/store/http/lease.c), as the requests of several machines use it
 * (src/program/request.c). A process that finds no marker, or an expired one, puts its own, waits
 * until each process that looked before has put its marker, too, and then looks whose marker is
 * there. With CONDITIONAL, the server puts a marker only if there is none, in one step; only expired
 * markers are then replaced as above. Each look, put and removal is a request of its own.
 *
 * A holder may be killed or stopped at any step, the server may lose a marker or an entry, a put of
 * the entry may fail, and a process may be unable to reach the server for a while.
 *
 * Checked: without faults the key is built once, and each fault costs at most one more build. A
 * holder replaces or removes another's marker only if its own had already expired when it last
 * looked, or was lost since then by a fault (is_disturbed). Time ends no lease whose holder runs and
 * reaches the server. A process that has released its lease puts no marker. No process waits for
 * ever.
 *
 * Not modelled: entries that do not fit, which models/lease.pml covers, and durations. A process
 * that is slower than the settling time counts as stopped.
 *
 * Mutants: NO_SETTLING NO_READ_BACK RENEW_WITHOUT_LOOK RELEASE_WITHOUT_LOOK RELEASE_DURING_RENEWAL
 * Mutants: NO_SECOND_LOOK RELEASE_BEFORE_PUT NO_EXPIRY NO_RENEWAL
 * Variants: CONDITIONAL
 * Mutants of CONDITIONAL: RELEASE_WITHOUT_LOOK NO_SECOND_LOOK NO_EXPIRY
 * Long: THREE_MACHINES THREE_CONDITIONAL
 * Mutants of THREE_MACHINES: SHARED_IS_HELD
 * Mutants of THREE_CONDITIONAL: NO_SETTLING
 * Search: -E
 */

#ifdef THREE_CONDITIONAL
#define THREE_MACHINES
#define CONDITIONAL
#endif

#ifdef THREE_MACHINES
#define MACHINES 3
#else
#define MACHINES 2
#endif
#define MOST_MACHINES 3
#define NOBODY MOST_MACHINES
#define FAULTS 1

mtype = { RUNNING, STOPPED, DEAD };
mtype life[MOST_MACHINES] = RUNNING;

/* The state on the server. */
byte marker = NOBODY; /* whose token it contains */
bool is_old;          /* the marker has expired */
bool is_stored;

bool is_asking[MOST_MACHINES];    /* the process's request, or the put after it, is in progress */
bool is_between[MOST_MACHINES];   /* the process found no valid marker, and has not yet put its own */
bool is_settling[MOST_MACHINES];  /* the process has put its marker, and has not yet looked again */
bool is_held[MOST_MACHINES];      /* the process believes that it has the lease */
bool is_renewing[MOST_MACHINES];  /* a renewal is on its way */
bool is_stopping[MOST_MACHINES];  /* the process releases its lease: no renewal begins any more */
/* When the process last looked at its own marker, that had expired, or another process was about to
 * put one; or since then, the process was stopped, the server lost a marker, or another process that
 * was disturbed replaced or removed this one's marker. */
bool is_disturbed[MOST_MACHINES];

byte builds, faults;

inline fault() {
    faults < FAULTS -> faults++
}

#define IS_BETWEEN(number) (is_between[number] && life[number] == RUNNING)
#define IS_CONTESTED (is_old || is_between[0] || is_between[1] || is_between[2])

/* A holder replaces or removes the marker. If that is another's, that one is disturbed, too. */
inline leave_no_other() {
    if
    :: marker < NOBODY && marker != self ->
        assert(is_disturbed[self]);
        is_disturbed[marker] = true
    :: else
    fi
}

/* renew, look_arrived and the put after it. One renewal of one process is enough, since it comes at
 * any time, and all processes are alike. */
proctype renewal(byte self) provided (life[self] == RUNNING) {
    bool is_own;
    if
    :: atomic {
           is_held[self] && !is_stopping[self] ->
           is_renewing[self] = true;
           is_disturbed[self] = IS_CONTESTED;
           is_own = (marker == self)
       };
#ifdef RENEW_WITHOUT_LOOK
       is_own = true;
#endif
       atomic {
           if
           :: is_own ->
               assert(is_held[self]);
               leave_no_other();
               marker = self;
               is_old = false
           :: else
           fi;
           is_renewing[self] = false
       }
    :: is_stopping[self] || !is_asking[self]
    fi
}

/* kilni_http_lease_release */
inline release() {
    if
    :: is_held[self] ->
        is_stopping[self] = true;
#ifndef RELEASE_DURING_RENEWAL
        !is_renewing[self];
#endif
        atomic {
            is_disturbed[self] = IS_CONTESTED;
            has_own = (marker == self)
        };
#ifdef RELEASE_WITHOUT_LOOK
        has_own = true;
#endif
        atomic {
            if
            :: has_own -> leave_no_other(); marker = NOBODY
            :: else
            fi;
            is_held[self] = false
        }
    :: else
    fi
}

proctype process(byte self) provided (life[self] == RUNNING) {
    bool is_found, has_own, has_waited, is_shared;

    /* The first look for the entry: kilni_store_find. */
    atomic {
        is_found = is_stored;
        if
        :: is_found -> goto finish
        :: else
        fi
    }

look:
    /* take. A process that finds a marker asks again later. One that has waited, and finds no marker
     * but the entry, gets a lease that excludes nobody, with which it does not build. If the server
     * is out of reach, the process builds without a lease. */
    if
    :: atomic {
           marker < NOBODY && !is_old && !has_waited -> has_waited = true; goto look
       }
    :: atomic {
           marker == NOBODY && has_waited && is_stored ->
#ifndef SHARED_IS_HELD
           has_waited = false;
           is_shared = true;
#endif
           goto second_look
       }
#ifdef CONDITIONAL
    :: atomic {
           marker == NOBODY ->
           marker = self;
           is_old = false;
           is_held[self] = true;
           goto second_look
       }
    :: atomic { marker < NOBODY && is_old -> is_between[self] = true }
#else
    :: atomic { marker == NOBODY || is_old -> is_between[self] = true }
#endif
    :: atomic { fault() -> goto second_look }
    fi;

    /* put_and_settle */
    atomic {
        marker = self;
        is_old = false;
        is_between[self] = false;
        is_settling[self] = true
    }
#ifndef NO_SETTLING
    !IS_BETWEEN(0) && !IS_BETWEEN(1) && !IS_BETWEEN(2);
#endif
    atomic {
        is_settling[self] = false;
#ifdef NO_READ_BACK
        is_held[self] = true
#else
        if
        :: marker == self -> is_held[self] = true
        :: else -> has_waited = true; goto look
        fi
#endif
    }

second_look:
#ifndef NO_SECOND_LOOK
    /* look_again */
    atomic {
        is_found = is_stored;
        if
        :: is_found -> goto finish
        :: else ->
            if
            :: is_shared -> is_shared = false; goto look
            :: else
            fi
        fi
    }
#endif

    /* build */
    atomic {
        builds++;
        assert(builds <= 1 + faults)
    }

#ifdef RELEASE_BEFORE_PUT
    release();
#endif

    /* The writer: kiln_store_put may fail. */
    if
    :: is_stored = true
    :: atomic { fault() }
    fi;

finish:
    release();
    is_asking[self] = false
}

#define RENEWS(number) ((is_held[number] || is_settling[number]) && life[number] == RUNNING)

/* Time: a marker that is not put again expires. */
active proctype time() {
    do
#ifndef NO_EXPIRY
#ifdef NO_RENEWAL
    :: atomic { marker < NOBODY && !is_old -> assert(!RENEWS(marker)); is_old = true }
#else
    :: atomic { marker < NOBODY && !is_old && !RENEWS(marker) -> is_old = true }
#endif
#endif
    :: break
    od
}

#define FATES_OF(victim)                                                                             \
    :: atomic { life[victim] == RUNNING && is_asking[victim] && faults < FAULTS ->                    \
           faults++;                                                                                 \
           life[victim] = DEAD }                                                                     \
    :: atomic { life[victim] == RUNNING && faults < FAULTS &&                                         \
               (is_held[victim] || is_between[victim] || is_settling[victim]) ->                     \
           faults++;                                                                                 \
           is_disturbed[victim] = true;                                                              \
           life[victim] = STOPPED }                                                                  \
    :: atomic { life[victim] == STOPPED -> life[victim] = RUNNING }

/* The system, and the server's own losses. */
active proctype system() {
    do
    FATES_OF(0)
    FATES_OF(1)
    FATES_OF(2)
    :: atomic { marker < NOBODY && faults < FAULTS ->
           faults++;
           is_disturbed[0] = true;
           is_disturbed[1] = true;
           is_disturbed[2] = true;
           marker = NOBODY }
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
        od;
        run renewal(0)
    }
}

#define IS_SETTLED(number) (!is_asking[number] || life[number] != RUNNING)

/* When nothing else can move, time has nothing to end any more, and no process waits. */
active proctype end_of_run() {
    do
    :: timeout ->
        if
#ifndef NO_EXPIRY
        :: atomic { marker < NOBODY && !is_old && !RENEWS(marker) -> is_old = true }
#endif
        :: else -> break
        fi
    od;
    assert(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2))
}
