/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_request.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/store.h>

#include "../command/location.h"
#include "../command/processors.h"
#include "../replay/recipe.h"
#include "../text/exit_code.h"
#include "../text/memory.h"

/* What a repetition after an upgrade may take. `kiln replay` does the rest if a user wants it. */
#define BUDGET "30m"
#define JOBS_MAX 16

static bool is_replay(const kiln_key_part *part)
{
    return part->bytes != NULL && strcmp(part->name, KILN_REQUEST_PART) == 0 &&
           part->size == strlen(KILN_REQUEST_REPLAY) &&
           memcmp(part->bytes, KILN_REQUEST_REPLAY, (size_t)part->size) == 0;
}

bool replay_request_is(const kiln_entry *request)
{
    kiln_key_part part;
    return kiln_key_part_at(kiln_entry_key(request), 0, &part) == KILN_OK && is_replay(&part);
}

/* Sets the variables with which the program found its drivers: those that a layer writes into
 * requests (layers/shared/upgrade.c), and no others. */
static void set_variables(const kiln_key *key)
{
    static const char *const known[] = {"LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES",
                                        "OPENCL_VENDOR_PATH"};
    kiln_key_part name, value;
    for (size_t i = 0; (i = recipe_find(key, "variable", i, &name)) != 0;) {
        if (recipe_find(key, "value", i, &value) == i + 1 && name.bytes != NULL &&
            value.bytes != NULL) {
            owned char *variable = text_of("%.*s", (int)name.size, (const char *)name.bytes);
            owned char *text = text_of("%.*s", (int)value.size, (const char *)value.bytes);
            for (size_t v = 0; v < sizeof known / sizeof known[0]; v++) {
                if (strcmp(variable, known[v]) == 0) {
                    setenv(variable, text, 1);
                }
            }
        }
    }
}

/* Runs in a child process, which ends with this one. */
static _Noreturn void run(pid_t parent, const char *location, const kiln_key *key)
{
    const char *others = NULL;
    owned char *from = first_of_chain(location, &others);
    owned char *to = must(strdup(location));
    owned char *device = recipe_text(key, "device");
    owned char *library = recipe_text(key, "nvrtc");
    owned char *program = recipe_text(key, "run");
    const unsigned idle = processors_available() - 1; /* the program needs one */
    owned char *jobs = text_of("%u", idle < 1 ? 1 : idle > JOBS_MAX ? JOBS_MAX : idle);
    char name[] = "kiln", command[] = "replay", from_option[] = "--from", to_option[] = "--to",
         device_option[] = "--device", jobs_option[] = "--jobs", budget_option[] = "--budget",
         budget[] = BUDGET, ahead_option[] = "--ahead", library_option[] = "--nvrtc";
    char *const arguments[] = {
        name,          command,       from_option,
        from,          to_option,     to,
        device_option, device,        jobs_option,
        jobs,          budget_option, budget,
        ahead_option,  program,       library == NULL ? NULL : library_option,
        library,       NULL};
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || device == NULL ||
        program == NULL) {
        _exit(EXIT_IO);
    }
    set_variables(key);
    execv("/proc/self/exe", arguments);
    _exit(EXIT_IO);
}

bool replay_request_serve(const char *location, const kiln_entry *request)
{
    int status = 0;
    signal(SIGCHLD, SIG_DFL);
    const pid_t own = getpid(), child = fork();
    if (child == 0) {
        run(own, location, kiln_entry_key(request));
    }
    if (child < 0) {
        return false;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status);
}
