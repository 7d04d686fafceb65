/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

#include "device/freestanding.h"

/* How long the process waits for a folder. */
#define ANSWER_SECONDS 10

#define ASK "KILN_FOLDERS_ASK="

/* More of a library's name is not sent. */
#define REQUEST_SIZE 128

/* The value of the variable; NULL: it is not set, or names no place of this user. Written under the
 * loader's lock, before any of the program's code runs. */
static const char *value;

/* Whether a request was sent. Written under the loader's lock. */
static int has_asked;

static size_t length_of(const char *text, char end)
{
    size_t length = 0;
    while (text[length] && text[length] != end) {
        length++;
    }
    return length;
}

static int begins_with_item(const char *text, const char *item, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] != item[i]) {
            return 0;
        }
    }
    return length > 0;
}

/* ---- the variables ---- */

/* Returns whether the folder in which the socket is belongs to the user of this process. */
static int is_own_place(size_t length)
{
    char place[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct stat status;
    for (size_t i = 0; i < length; i++) {
        place[i] = value[i];
    }
    place[length] = '\0';
    return kilni_bare_call(SYS_newfstatat, AT_FDCWD, (long)place, (long)&status, 0) == 0 &&
           status.st_uid == (uid_t)kilni_bare_call(SYS_geteuid, 0, 0, 0, 0);
}

/* Removes the variables that name folders in the place, and the one that names the socket. They
 * become empty settings of the latter, because programs find what follows the environment in memory
 * by its end. */
static void forget_place(char **environment, size_t length)
{
    static char nothing[] = ASK;
    for (char **entry = environment; *entry; entry++) {
        const char *text = *entry + length_of(*entry, '=');
        if (*text == '=' && begins_with_item(text + 1, value, length) && text[1 + length] == '/') {
            *entry = nothing;
        }
    }
    value = NULL;
}

void ask_prepare(char **environment)
{
    for (char **entry = environment; !value && entry && *entry; entry++) {
        if (kilni_bare_begins_with(*entry, ASK) && (*entry)[sizeof ASK - 1]) {
            value = *entry + sizeof ASK - 1;
        }
    }
    size_t length = value ? length_of(value, ':') : 0;
    while (length > 0 && value[length] != '/') {
        length--;
    }
    if (length == 0 || length >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        value = NULL;
    } else if (!is_own_place(length)) {
        forget_place(environment, length);
    }
}

/* ---- requests ---- */

/* Sends a request. Returns the connection, or a negated errno. */
static long send_request(char *request)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = length_of(value, ':');
    if (length == 0 || length >= sizeof address.sun_path) {
        return -1;
    }
    for (size_t i = 0; i < length; i++) {
        address.sun_path[i] = value[i];
    }
    const long opened = kilni_bare_call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    struct iovec part = {.iov_base = request, .iov_len = length_of(request, '\0')};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (opened >= 0 &&
        (kilni_bare_call(SYS_connect, opened, (long)&address, sizeof address, 0) != 0 ||
         kilni_bare_call(SYS_sendmsg, opened, (long)&message, MSG_NOSIGNAL, 0) < 0)) {
        kilni_bare_call(SYS_close, opened, 0, 0, 0);
        return -1;
    }
    return opened;
}

static int is_named(const char *library)
{
    const char *item = value + length_of(value, ':');
    while (*item == ':') {
        const size_t length = length_of(++item, ':');
        if (begins_with_item(library, item, length)) {
            return 1;
        }
        item += length;
    }
    return 0;
}

void ask_for_library(const char *path)
{
    if (!value || !path) {
        return;
    }
    char name[REQUEST_SIZE] = {0};
    const char *base = kilni_bare_base_name(path);
    for (size_t i = 0; i + 1 < sizeof name && base[i]; i++) {
        name[i] = base[i];
    }
    const long opened = is_named(name) ? send_request(name) : -1;
    if (opened >= 0) {
        has_asked = 1;
        /* The answer is the end of the connection. */
        struct pollfd answer = {.fd = (int)opened, .events = POLLIN};
        struct timespec limit = {.tv_sec = ANSWER_SECONDS};
        kilni_bare_call(SYS_ppoll, (long)&answer, 1, (long)&limit, 0);
        kilni_bare_call(SYS_close, opened, 0, 0, 0);
    }
}

void ask_say_bye(void)
{
    static char bye[] = "bye"; /* no library has this name */
    const long opened = value && (has_asked || is_named(bye)) ? send_request(bye) : -1;
    if (opened >= 0) {
        kilni_bare_call(SYS_close, opened, 0, 0, 0);
    }
}
