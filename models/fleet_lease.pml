/* SPDX-License-Identifier: Apache-2.0
 *
 * The lease of one key in a chain of a directory and a server (src/store/chain/lease.c,
 * src/store/redis/lease.c), as the requests of several machines use it (src/program/request.c). A
 * process first takes its machine's lease, and then the fleet's. The writer (src/store/writer.c)
 * puts the entry into the directory and onto the server, in any order, and releases each of the two
 * leases when the first tier behind it has the entry. If the fleet's lease is held, but the own
 * directory has the entry, a process does not wait for the fleet's lease. A holder may be killed or
 * stopped at any step, the server may forget a lease or an entry, a directory may lose an entry, a
 * put may fail, and a process may be unable to reach the server for a while.
 *
 * Checked: a lease is ended by its holder, by time or by the server, and never by another process.
 * Time ends no lease whose holder runs and reaches the server. Without faults the key is built once,
 * and the server and the builder's directory get the entry. Each fault costs at most one more build,
 * except that stopping a holder of both leases costs one more build on its machine and one in the
 * fleet. Each process gets a program. No process waits for ever, or waits for the fleet's lease from
 * a moment at which its directory has the entry. At the end, no process that runs holds a lease.
 *
 * Not modelled: entries that do not fit, which models/lease.pml covers, copies of a server's entries
 * in directories, and durations. A lease of the fleet lasts as long as its holder renews it; any
 * other one may end at any moment.
 *
 * Mutants: RELEASE_WITHOUT_COMPARE NO_SECOND_LOOK RELEASE_BEFORE_PUT NO_EXPIRY NO_RENEWAL
 * Mutants: WAITS_IN_VAIN HERE_IS_NOT_READ HERE_KEEPS_LEASE HERE_ENDS_FLEET_LEASE
 * Mutants: FIRST_PUT_RELEASES_ALL
 * Long: TWO_FAULTS
 * Search: -E
 */

#define PROCESSES 3
#define NOBODY PROCESSES
#ifdef TWO_FAULTS
#define FAULTS 2
#else
#define FAULTS 1
#endif

/* Processes 0 and 1 are on machine 0. */
#define MACHINES 2
#define MACHINE_OF(number) ((number) / 2)

mtype = { RUNNING, STOPPED, DEAD };
mtype life[PROCESSES] = RUNNING;

/* The state on the server. */
byte holder = NOBODY; /* the process whose token is in the lease */
bool is_stored;

/* The state of each machine. */
byte machine_holder[MACHINES] = NOBODY; /* of the key's byte in the directory's file "lease" */
bool is_here[MACHINES];                 /* the directory has the entry */

bool is_asking[PROCESSES]; /* the process's request, or a put after it, is in progress */
bool is_held[PROCESSES];   /* the process believes that it has the fleet's lease */

byte builds, faults;
byte stops; /* of holders of the machine's lease */

inline fault() {
    faults < FAULTS -> faults++
}

/* kilni_redis_lease_release: release_script */
inline release_fleet() {
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

inline release_machine() {
    if
    :: machine_holder[machine] == self -> machine_holder[machine] = NOBODY
    :: else
    fi
}

proctype process(byte self) provided (life[self] == RUNNING) {
    byte machine = MACHINE_OF(self);
    byte directory_step, server_step; /* of the writer */
    bool has_program;

    /* The first look: kilni_store_find. */
    atomic {
        has_program = is_here[machine] || is_stored;
        if
        :: has_program -> goto finish
        :: else
        fi
    }

    /* take: the machine's lease. A wait that is longer than a build ends without any lease, which
     * happens only if the holder is stopped. */
    if
    :: atomic { machine_holder[machine] == NOBODY -> machine_holder[machine] = self }
    :: machine_holder[machine] < NOBODY ->
        if
        :: atomic { machine_holder[machine] == NOBODY ->
               machine_holder[machine] = self;
               if
               :: is_here[machine] -> goto look_again /* the lease is shared */
               :: else
               fi }
        :: atomic { machine_holder[machine] < NOBODY &&
                    life[machine_holder[machine]] == STOPPED -> goto look_again }
        fi
    fi;

    /* take: the fleet's lease. If the server is out of reach, the process builds without it. */
    if
    :: atomic { holder == NOBODY -> holder = self; is_held[self] = true }
    :: holder < NOBODY ->
        if
#ifndef WAITS_IN_VAIN
        :: atomic { is_here[machine] -> /* is_server_needless */
#ifdef HERE_ENDS_FLEET_LEASE
               holder = NOBODY;
#endif
#ifdef HERE_KEEPS_LEASE
               is_asking[self] = false;
               goto end_of_process
#elif defined(HERE_IS_NOT_READ)
               goto finish
#else
               goto look_again
#endif
           }
        :: !is_here[machine]
#else
        :: assert(!is_here[machine])
#endif
        fi;
        /* remote_take_lease asks until nobody has the lease. */
        if
        :: atomic { holder == NOBODY -> holder = self; is_held[self] = true }
        :: atomic { fault() }
        fi
    :: atomic { fault() }
    fi;

look_again:
#ifndef NO_SECOND_LOOK
    atomic {
        has_program = is_here[machine] || is_stored;
        if
        :: has_program -> goto finish
        :: else
        fi
    }
#endif

    /* build */
    atomic {
        has_program = true;
        builds++;
        assert(builds <= 1 + faults + stops)
    }

#ifdef RELEASE_BEFORE_PUT
    atomic { release_fleet() }
#endif

    /* The writer: each tier has a thread, and its put may fail. kilni_chain_lease_note_stored then
     * releases the lease behind which the tier is. */
    do
    :: atomic { directory_step == 0 -> is_here[machine] = true; directory_step = 1 }
    :: atomic { directory_step == 0 && faults < FAULTS -> faults++; directory_step = 2 }
    :: atomic { directory_step == 1 ->
           release_machine();
#ifdef FIRST_PUT_RELEASES_ALL
           release_fleet();
#endif
           directory_step = 2 }
    :: atomic { server_step == 0 -> is_stored = true; server_step = 1 }
    :: atomic { server_step == 0 && faults < FAULTS -> faults++; server_step = 2 }
    :: atomic { server_step == 1 -> release_fleet(); server_step = 2 }
    :: atomic { directory_step == 2 && server_step == 2 -> break }
    od;

finish:
    atomic {
        assert(has_program);
        release_fleet();
        release_machine();
        is_asking[self] = false
    }
end_of_process:
    skip
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

#define HOLDS_MACHINE(number) (machine_holder[MACHINE_OF(number)] == number)

/* The kernel ends the machine's lease of a process that was killed. */
#define FATES_OF(victim)                                                                             \
    :: atomic { life[victim] == RUNNING && is_asking[victim] && faults < FAULTS ->                    \
           faults++;                                                                                 \
           life[victim] = DEAD;                                                                      \
           if                                                                                        \
           :: HOLDS_MACHINE(victim) -> machine_holder[MACHINE_OF(victim)] = NOBODY                   \
           :: else                                                                                   \
           fi }                                                                                      \
    :: atomic { life[victim] == RUNNING && (is_held[victim] || HOLDS_MACHINE(victim)) &&              \
                faults < FAULTS ->                                                                   \
           faults++;                                                                                 \
           if                                                                                        \
           :: HOLDS_MACHINE(victim) -> stops++                                                       \
           :: else                                                                                   \
           fi;                                                                                       \
           life[victim] = STOPPED }                                                                  \
    :: atomic { life[victim] == STOPPED -> life[victim] = RUNNING }

/* The system, and the losses of the server and the directories. */
active proctype system() {
    do
    FATES_OF(0)
    FATES_OF(1)
    FATES_OF(2)
    :: atomic { holder < NOBODY && faults < FAULTS -> faults++; holder = NOBODY }
    :: atomic { is_stored && faults < FAULTS -> faults++; is_stored = false }
    :: atomic { is_here[0] && faults < FAULTS -> faults++; is_here[0] = false }
    :: atomic { is_here[1] && faults < FAULTS -> faults++; is_here[1] = false }
    :: break
    od
}

init {
    byte i;
    atomic {
        do
        :: i < PROCESSES -> is_asking[i] = true; run process(i); i++
        :: else -> break
        od
    }
}

#define IS_SETTLED(number)                                                                            \
    (life[number] != RUNNING ||                                                                      \
     (!is_asking[number] && !is_held[number] && holder != number && !HOLDS_MACHINE(number)))

/* When nothing else can move, time has nothing to end any more, no process waits, and none holds a
 * lease. */
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
    assert(IS_SETTLED(0) && IS_SETTLED(1) && IS_SETTLED(2));
    assert(faults > 0 || (builds == 1 && is_stored && (is_here[0] || is_here[1])))
}
