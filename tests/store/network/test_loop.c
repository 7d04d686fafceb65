/* SPDX-License-Identifier: Apache-2.0 */
#include "support/store_scene.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "os/clock.h"
#include "store/network/loop.h"

enum { CONNECTIONS = 8 };

/* A request: its answer has arrived, and its time has run out. */
typedef struct request {
    kilni_socket socket;
    kilni_timer timer;
    int server;
} request;

static request requests[CONNECTIONS];
static kilni_task task;
static unsigned answered, silent; /* only the I/O thread changes them before is_finished is set */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static bool is_finished; /* the lock guards it */

static void finish(void)
{
    pthread_mutex_lock(&lock);
    is_finished = true;
    pthread_cond_signal(&finished);
    pthread_mutex_unlock(&lock);
}

static void end_request(request *ending)
{
    kilni_timer_stop(&ending->timer);
    kilni_socket_close(&ending->socket);
    close(ending->server);
    if (answered + silent == CONNECTIONS) {
        finish();
    }
}

static void receive_answer(kilni_socket *socket, uint32_t events)
{
    (void)events;
    answered++;
    end_request((request *)((char *)socket - offsetof(request, socket)));
}

static void receive_nothing(kilni_socket *socket, uint32_t events)
{
    (void)socket;
    (void)events;
}

static void give_up(kilni_timer *timer)
{
    silent++;
    end_request((request *)((char *)timer - offsetof(request, timer)));
}

static void begin_request(request *beginning, void (*ready)(kilni_socket *, uint32_t))
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    *beginning = (request){.socket.ready = ready, .timer.expire = give_up, .server = ends[1]};
    assert_int_equal(kilni_socket_open(&beginning->socket, ends[0], EPOLLIN), KILN_OK);
    kilni_timer_start(&beginning->timer, kilni_clock_ns());
}

static void begin_answered_requests(kilni_task *running)
{
    (void)running;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        begin_request(&requests[i], receive_answer);
    }
}

/* The first server never stops sending. */
static void begin_requests_beside_a_flood(kilni_task *running)
{
    (void)running;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        begin_request(&requests[i], i == 0 ? receive_nothing : receive_answer);
    }
}

static void run_on_thread(void (*run)(kilni_task *))
{
    answered = silent = 0;
    is_finished = false;
    task.run = run;
    assert_int_equal(kilni_loop_post(&task), KILN_OK);
    pthread_mutex_lock(&lock);
    while (!is_finished) {
        pthread_cond_wait(&finished, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void test_answers_count_before_timers(void **state)
{
    (void)state;
    run_on_thread(begin_answered_requests);
    assert_int_equal(answered, CONNECTIONS);
    assert_int_equal(silent, 0);
}

static void test_a_flood_does_not_stop_timers(void **state)
{
    (void)state;
    run_on_thread(begin_requests_beside_a_flood);
    assert_int_equal(answered, CONNECTIONS - 1);
    assert_int_equal(silent, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_count_before_timers),
        cmocka_unit_test(test_a_flood_does_not_stop_timers),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
