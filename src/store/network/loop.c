/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/thread.h"

#define NS_PER_MS 1000000u
#define LONGEST_WAIT_MS 60000
#define LONGEST_FORK_S 1

/* The I/O thread holds this lock while it works, and the fork handlers hold it during a fork. So a
 * child finds the thread's data in a consistent state. The child also inherits no library's lock
 * (such as OpenSSL's) in a locked state. This lock is taken before loop_lock. */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guards the first group of variables below. A thread holds this lock for a few instructions, or to
 * start the I/O thread. The fork handlers take it, so that a child finds these variables in a
 * consistent state. */
static pthread_mutex_t loop_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by loop_lock. */
static kilni_task *first_task;
static kilni_task **last_task = &first_task;
static bool is_running;
static bool has_failed;       /* the application has closed the thread's descriptors */
static bool fork_is_in_order; /* the forking thread holds turn_lock */
/* This process is a child that inherited the data in an inconsistent state. It never starts the
 * thread. */
static bool is_disordered;
static kilni_socket *sockets;
/* In a forked child, the sockets inherited from the parent. They were closed and are never freed.
 * This list keeps a leak checker in the application from reporting them. */
static kilni_socket *inherited;
static kilni_owned_descriptor wake = {.file = -1};
/* While the I/O thread runs, only that thread changes this variable. */
static kilni_owned_descriptor epoll = {.file = -1};

/* The number of forks that led from the first process to this one. It is written only in the child
 * of a fork, while that child has no other thread. Relaxed. */
static _Atomic unsigned process;

/* Only the I/O thread uses these. */
static kilni_timer *timers;
static uint64_t last_serial; /* of the sockets; the descriptor that wakes the thread has 0 */

/* ---- forks ---- */

/* The I/O thread may be waiting for a lock that another library's fork handler holds, such as a
 * lock of an allocator. So the fork waits for turn_lock only for a limited time. If the time runs
 * out, the child's data may be inconsistent, and the child contacts no server. */
static void before_fork(void)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += LONGEST_FORK_S;
    const bool is_in_order = pthread_mutex_timedlock(&turn_lock, &deadline) == 0;
    pthread_mutex_lock(&loop_lock);
    fork_is_in_order = is_in_order;
}

static void end_fork(void)
{
    const bool is_in_order = fork_is_in_order;
    pthread_mutex_unlock(&loop_lock);
    if (is_in_order) {
        pthread_mutex_unlock(&turn_lock);
    }
}

static void after_fork_in_parent(void)
{
    end_fork();
}

/* Closes the descriptors. Forgets the timers and tasks without touching them, because they belong
 * to the parent's objects. */
static void after_fork_in_child(void)
{
    while (sockets) {
        kilni_socket *socket = sockets;
        sockets = socket->next;
        kilni_owned_descriptor_close(&socket->file);
        socket->next = inherited;
        inherited = socket;
    }
    kilni_owned_descriptor_close(&wake);
    kilni_owned_descriptor_close(&epoll);
    timers = NULL;
    first_task = NULL;
    last_task = &first_task;
    is_running = false;
    has_failed = false;
    if (!fork_is_in_order) {
        is_disordered = true;
        pthread_mutex_init(&turn_lock, NULL); /* its owner does not exist in this process */
    }
    atomic_fetch_add_explicit(&process, 1, memory_order_relaxed);
    end_fork();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

unsigned kilni_loop_process(void)
{
    return atomic_load_explicit(&process, memory_order_relaxed);
}

/* ---- timers ---- */

void kilni_timer_stop(kilni_timer *timer)
{
    if (timer->at_ns == 0) {
        return;
    }
    if (timer->previous) {
        timer->previous->next = timer->next;
    } else {
        timers = timer->next;
    }
    if (timer->next) {
        timer->next->previous = timer->previous;
    }
    timer->at_ns = 0;
}

void kilni_timer_start(kilni_timer *timer, uint64_t at_ns)
{
    kilni_timer_stop(timer);
    timer->at_ns = at_ns > 0 ? at_ns : 1;
    timer->previous = NULL;
    timer->next = timers;
    if (timers) {
        timers->previous = timer;
    }
    timers = timer;
}

static kilni_timer *earliest_timer(void)
{
    kilni_timer *earliest = timers;
    for (kilni_timer *timer = timers; timer; timer = timer->next) {
        if (timer->at_ns < earliest->at_ns) {
            earliest = timer;
        }
    }
    return earliest;
}

/* The function of a timer can start and stop other timers. So the list is searched again after each
 * call. */
static void expire_timers(void)
{
    const uint64_t now_ns = kilni_clock_ns();
    kilni_timer *timer = earliest_timer();
    while (timer && timer->at_ns <= now_ns) {
        kilni_timer_stop(timer);
        timer->expire(timer);
        timer = earliest_timer();
    }
}

/* Rounds the time up. Otherwise the thread would wake up several times shortly before a timer
 * expires. */
static int time_to_wait_ms(void)
{
    const kilni_timer *timer = earliest_timer();
    if (!timer) {
        return -1;
    }
    const uint64_t now_ns = kilni_clock_ns();
    if (timer->at_ns <= now_ns) {
        return 0;
    }
    const uint64_t wait_ms = (timer->at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return wait_ms < LONGEST_WAIT_MS ? (int)wait_ms : LONGEST_WAIT_MS;
}

/* ---- sockets ---- */

static kiln_status control(kilni_socket *socket, int operation)
{
    struct epoll_event event = {.events = socket->events, .data.u64 = socket->serial};
    if (!kilni_owned_descriptor_is_intact(&socket->file)) {
        return KILN_E_IO;
    }
    return epoll_ctl(epoll.file, operation, socket->file.file, &event) == 0 ? KILN_OK : KILN_E_IO;
}

kiln_status kilni_socket_open(kilni_socket *socket, int file, uint32_t events)
{
    socket->events = events;
    socket->serial = ++last_serial;
    if (kilni_owned_descriptor_take(file, &socket->file) != KILN_OK) {
        socket->file = (kilni_owned_descriptor){.file = file};
    }
    socket->previous = NULL;
    pthread_mutex_lock(&loop_lock);
    socket->next = sockets;
    if (sockets) {
        sockets->previous = socket;
    }
    sockets = socket;
    pthread_mutex_unlock(&loop_lock);
    return control(socket, EPOLL_CTL_ADD);
}

kiln_status kilni_socket_wait_for(kilni_socket *socket, uint32_t events)
{
    if (socket->events == events) {
        return KILN_OK;
    }
    socket->events = events;
    return control(socket, EPOLL_CTL_MOD);
}

/* Removes the socket from the epoll explicitly. Epoll itself removes a closed socket only when no
 * other descriptor keeps it open. A forked child may have such a descriptor, or the application may
 * have duplicated it. */
void kilni_socket_close(kilni_socket *socket)
{
    control(socket, EPOLL_CTL_DEL);
    pthread_mutex_lock(&loop_lock);
    if (socket->previous) {
        socket->previous->next = socket->next;
    } else {
        sockets = socket->next;
    }
    if (socket->next) {
        socket->next->previous = socket->previous;
    }
    kilni_owned_descriptor_close(&socket->file);
    pthread_mutex_unlock(&loop_lock);
}

/* ---- the thread ---- */

static kilni_task *take_tasks(void)
{
    uint64_t count;
    pthread_mutex_lock(&loop_lock);
    kilni_task *tasks = first_task;
    first_task = NULL;
    last_task = &first_task;
    const bool is_intact = kilni_owned_descriptor_is_intact(&wake);
    const bool is_read = is_intact && read(wake.file, &count, sizeof count) > 0;
    (void)is_read; /* if the count cannot be read, the thread only runs one more iteration */
    pthread_mutex_unlock(&loop_lock);
    return tasks;
}

static void run_tasks(void)
{
    kilni_task *task = take_tasks();
    while (task) {
        kilni_task *next = task->next;
        task->run(task);
        task = next;
    }
}

/* Creates an epoll that watches only the descriptor that wakes the thread. Returns false on
 * failure. */
static bool open_epoll_locked(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    const int file = epoll_create1(EPOLL_CLOEXEC);
    if (file < 0) {
        return false;
    }
    if (kilni_owned_descriptor_take(file, &epoll) != KILN_OK) {
        close(file);
        return false;
    }
    return epoll_ctl(epoll.file, EPOLL_CTL_ADD, wake.file, &event) == 0;
}

/* Replaces the epoll after it has reported a socket that Kiln has closed. The application keeps
 * such a socket open, and nothing else would stop the reports. If the new epoll cannot watch one of
 * Kiln's sockets, the owner of that socket notices when a timer expires. Returns false if no epoll
 * can be created. */
static bool renew_epoll(void)
{
    pthread_mutex_lock(&loop_lock);
    kilni_owned_descriptor_close(&epoll);
    const bool is_open = kilni_owned_descriptor_is_intact(&wake) && open_epoll_locked();
    pthread_mutex_unlock(&loop_lock);
    for (kilni_socket *socket = sockets; is_open && socket; socket = socket->next) {
        control(socket, EPOLL_CTL_ADD);
    }
    return is_open;
}

static kilni_socket *find_socket(uint64_t serial)
{
    kilni_socket *socket = sockets;
    while (socket && socket->serial != serial) {
        socket = socket->next;
    }
    return socket;
}

/* Returns false if the thread cannot continue. */
static bool handle(const struct epoll_event *event)
{
    if (event->data.u64 == 0) {
        run_tasks();
        return kilni_owned_descriptor_is_intact(&wake);
    }
    kilni_socket *socket = find_socket(event->data.u64);
    if (!socket) {
        return renew_epoll();
    }
    socket->ready(socket, event->events);
    return true;
}

/* Waits for an event or a timer. Reads only one event at a time, because handling an event can
 * close the socket of the next event. Timers expire only after the events that are ready. Otherwise
 * a thread that did not run for a while would report a server as silent whose answer has arrived.
 * Returns false if the thread cannot continue. */
static bool turn(void)
{
    /* Timers expire after this many events, even if more events are ready, so that a server that
     * never stops sending cannot prevent them. */
    enum { MOST_EVENTS = 64 };
    static unsigned handled; /* since timers last expired */
    struct epoll_event event;
    const int count = epoll_wait(epoll.file, &event, 1, time_to_wait_ms());
    if (count < 0 && errno != EINTR) {
        return false;
    }
    pthread_mutex_lock(&turn_lock);
    const bool goes_on = count != 1 || handle(&event);
    handled = count == 1 ? handled + 1 : MOST_EVENTS;
    if (goes_on && handled >= MOST_EVENTS) {
        expire_timers();
        handled = 0;
    }
    pthread_mutex_unlock(&turn_lock);
    return goes_on;
}

static void *run(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "kiln-io");
    while (turn()) {
    }
    pthread_mutex_lock(&loop_lock);
    has_failed = true;
    pthread_mutex_unlock(&loop_lock);
    return NULL;
}

static bool open_descriptors_locked(void)
{
    const int file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (file < 0) {
        return false;
    }
    if (kilni_owned_descriptor_take(file, &wake) != KILN_OK) {
        close(file);
        return false;
    }
    return open_epoll_locked();
}

static bool start_locked(void)
{
    if (is_running || has_failed || is_disordered) {
        return is_running && !has_failed;
    }
    pthread_t thread;
    is_running = open_descriptors_locked() && kilni_thread_start(run, NULL, &thread);
    if (is_running) {
        pthread_detach(thread);
    } else {
        kilni_owned_descriptor_close(&epoll);
        kilni_owned_descriptor_close(&wake);
    }
    return is_running;
}

kiln_status kilni_loop_post(kilni_task *task)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;
    static const uint64_t one = 1;
    pthread_once(&watching, watch_forks);
    task->next = NULL;
    pthread_mutex_lock(&loop_lock);
    kiln_status status = KILN_E_IO;
    if (start_locked() && kilni_owned_descriptor_is_intact(&wake)) {
        const bool is_awake = first_task != NULL;
        status = is_awake || write(wake.file, &one, sizeof one) == sizeof one ? KILN_OK : KILN_E_IO;
    }
    if (status == KILN_OK) {
        *last_task = task;
        last_task = &task->next;
    }
    pthread_mutex_unlock(&loop_lock);
    return status;
}
