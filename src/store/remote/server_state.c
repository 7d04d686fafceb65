/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/server_state.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"

/* The file consists of the magic, the boot ID, three times, the number of faults, the last fault,
 * and a checksum of all these. */
#define MAGIC "kilnsrv1"
#define MAGIC_SIZE 8u
#define BOOT_SIZE 36u
#define FILE_SIZE (MAGIC_SIZE + BOOT_SIZE + 3 * 8 + 2 * 4 + 8)

#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

/* Reads the boot ID, which the system generates whenever the machine starts. Returns false if the
 * ID is unknown. */
static bool read_boot(unsigned char boot[BOOT_SIZE])
{
    const int file = kilni_os()->openat(AT_FDCWD, BOOT_FILE, O_RDONLY | O_CLOEXEC, 0);
    size_t count = 0;
    if (file < 0) {
        return false;
    }
    const kiln_status status = kilni_file_read(file, boot, BOOT_SIZE, &count);
    kilni_os()->close(file);
    return status == KILN_OK && count == BOOT_SIZE;
}

/* FNV-1a. It detects damage, but not forgery. */
static uint64_t checksum(const unsigned char *bytes, size_t size)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

/* ---- reading ---- */

static bool read_file(const char *path, unsigned char bytes[FILE_SIZE + 1], size_t *ret_count)
{
    /* O_NONBLOCK keeps the call from blocking if the file is a FIFO. */
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    const int file = kilni_os()->openat(AT_FDCWD, path, flags, 0);
    struct stat stat;
    if (file < 0) {
        return false;
    }
    const bool is_read = kilni_os()->fstat(file, &stat) == 0 &&
                         kilni_is_trusted(&stat, S_IFREG, kilni_os()->geteuid(), false) &&
                         kilni_file_read(file, bytes, FILE_SIZE + 1, ret_count) == KILN_OK;
    kilni_os()->close(file);
    return is_read;
}

/* Returns true if the fields are plausible and the state is not outdated. */
static bool is_valid(const kilni_server_state *state, uint64_t now_ns)
{
    return state->noted_ns <= now_ns && now_ns < state->end_ns &&
           state->end_ns - state->noted_ns <= KILNI_SERVER_STATE_LASTS_NS &&
           state->noted_ns <= state->retry_ns && state->retry_ns <= state->end_ns &&
           state->faults > 0 && state->fault <= KILNI_FAULT_UNREACHABLE;
}

bool kilni_server_state_read(const char *path, uint64_t now_ns, kilni_server_state *ret_state)
{
    unsigned char bytes[FILE_SIZE + 1];
    unsigned char boot[BOOT_SIZE];
    size_t count = 0;
    if (!read_file(path, bytes, &count) || count != FILE_SIZE ||
        memcmp(bytes, MAGIC, MAGIC_SIZE) != 0 || !read_boot(boot) ||
        memcmp(bytes + MAGIC_SIZE, boot, BOOT_SIZE) != 0) {
        return false;
    }
    kilni_byte_reader reader = {.at = bytes + MAGIC_SIZE + BOOT_SIZE,
                                .left = FILE_SIZE - MAGIC_SIZE - BOOT_SIZE};
    kilni_server_state state;
    state.noted_ns = kilni_read_u64(&reader);
    state.retry_ns = kilni_read_u64(&reader);
    state.end_ns = kilni_read_u64(&reader);
    state.faults = kilni_read_u32(&reader);
    state.fault = (kilni_server_fault)kilni_read_u32(&reader);
    if (kilni_read_u64(&reader) != checksum(bytes, FILE_SIZE - 8) || !is_valid(&state, now_ns)) {
        return false;
    }
    *ret_state = state;
    return true;
}

/* ---- writing ---- */

static void encode(const kilni_server_state *state, const unsigned char boot[BOOT_SIZE],
                   unsigned char bytes[FILE_SIZE])
{
    kilni_byte_writer writer = {.at = bytes, .left = FILE_SIZE};
    kilni_write_bytes(&writer, MAGIC, MAGIC_SIZE);
    kilni_write_bytes(&writer, boot, BOOT_SIZE);
    kilni_write_u64(&writer, state->noted_ns);
    kilni_write_u64(&writer, state->retry_ns);
    kilni_write_u64(&writer, state->end_ns);
    kilni_write_u32(&writer, state->faults);
    kilni_write_u32(&writer, (uint32_t)state->fault);
    kilni_write_u64(&writer, checksum(bytes, FILE_SIZE - 8));
}

/* Opens the folder in @path, and makes @ret_name point to the file's name in @path. Returns -1 if
 * the folder does not exist, or if other users can create files in it. */
static int open_folder(const char *path, const char **ret_name)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat stat;
    if (!slash || slash == path ||
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path) >= (int)sizeof folder) {
        return -1;
    }
    int file = kilni_os()->openat(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (file >= 0 && (kilni_os()->fstat(file, &stat) != 0 ||
                      !kilni_is_trusted(&stat, S_IFDIR, kilni_os()->geteuid(), false))) {
        kilni_file_close(&file);
    }
    *ret_name = slash + 1;
    return file;
}

/* Returns true if a write to the file cannot raise the signal SIGXFSZ, which would end the process.
 * kilni_file_write would prevent the signal, but it uses a thread-local variable. With gcc 12, such
 * a variable can make LeakSanitizer crash when a forked child exits. This happens if a loaded
 * library has started a thread in the child, and that thread has the variable. */
static bool may_write(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= FILE_SIZE;
}

/* Writes a temporary file. A killed process whose thread had the same ID may have left a temporary
 * file of this name. In that case, this call only removes that file. */
static bool write_temporary(int folder, const char *name, const unsigned char bytes[FILE_SIZE])
{
    const int file = kilni_os()->openat(folder, name,
                                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool is_written = false;
    if (file >= 0) {
        kilni_file_ensure_mode(file, 0600);
        is_written = kilni_os()->write(file, bytes, FILE_SIZE) == (ssize_t)FILE_SIZE;
        kilni_os()->close(file);
    }
    if (!is_written) {
        kilni_os()->unlinkat(folder, name, 0);
    }
    return is_written;
}

bool kilni_server_state_write(const char *path, const kilni_server_state *state)
{
    unsigned char boot[BOOT_SIZE];
    unsigned char bytes[FILE_SIZE];
    char temporary[NAME_MAX];
    const char *name;
    int folder = may_write() && read_boot(boot) ? open_folder(path, &name) : -1;
    if (folder < 0) {
        return false;
    }
    encode(state, boot, bytes);
    bool is_written = snprintf(temporary, sizeof temporary, "%s.tmp-%ld", name,
                               syscall(SYS_gettid)) < (int)sizeof temporary &&
                      write_temporary(folder, temporary, bytes);
    if (is_written && kilni_os()->renameat(folder, temporary, folder, name) != 0) {
        kilni_os()->unlinkat(folder, temporary, 0);
        is_written = false;
    }
    kilni_file_close(&folder);
    return is_written;
}

void kilni_server_state_remove(const char *path)
{
    kilni_os()->unlinkat(AT_FDCWD, path, 0);
}
