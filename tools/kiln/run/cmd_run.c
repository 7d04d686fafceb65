/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/config.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/options.h"
#include "../folder/folders.h"
#include "../store/counters.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/units.h"
#include "child.h"
#include "layers.h"
#include "run_counters.h"
#include "run_record.h"
#include "run_trace.h"

static const char usage[] =
    "Usage: kiln run [--dir DIR] [--key-file FILE] [--trace FILE] [--summary] [--wait]\n"
    "                [--json] [--expect-warm] [--record FILE] [--no-nvrtc] [--no-python]\n"
    "                [--] APP [ARGUMENTS]\n"
    "\n"
    "Runs a program, and caches its OpenCL builds, its compilations and links with NVRTC,\n"
    "nvJitLink and HIPRTC, and what frameworks for Python compile.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  sign entries with the key in this file; use only such entries\n"
    "  --trace FILE     write a line for each requested build; - for stderr\n"
    "  --summary        at the end, print on stderr why builds were not cached, and, in the last\n"
    "                   line, what this run saved\n"
    "  --wait           finish captures before returning; implies --summary\n"
    "  --json           print the summary as a JSON object; implies --summary\n"
    "  --expect-warm    list what was built, on stderr; if anything was, exit with 3\n"
    "  --record FILE    list the entries that were used in this file, for --only\n"
    "  --no-nvrtc       cache nothing of NVRTC, nvJitLink and HIPRTC, and leave LD_AUDIT alone\n"
    "  --no-python      do not cache what frameworks for Python compile; leave PYTHONPATH alone\n";

#define CAPTURE_WAIT_MS "3600000"

/* Ends the tool if the file cannot be written. */
static void set_trace(const char *file)
{
    if (strcmp(file, "-") == 0) {
        must_succeed(setenv("KILN_TRACE", file, 1));
        return;
    }
    int opened =
        open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (opened < 0 && errno != ENXIO) {
        complain("can't write the trace to %s: %s", file, strerror(errno));
        end_tool(EXIT_USAGE);
    }
    if (opened >= 0) {
        close(opened);
    }
    owned char *absolute = absolute_path(file);
    must_succeed(setenv("KILN_TRACE", absolute, 1));
}

static bool is_disabled(void)
{
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    bool disabled = config->disabled;
    kiln_config_free(&config);
    return disabled;
}

static void print_line(const counter_values *counters)
{
    const kiln_stats *stats = &counters->stats;
    const uint64_t hits = stats->hits_memory + stats->hits_store;
    char saved[UNIT_TEXT_SIZE];
    char bytes[UNIT_TEXT_SIZE];
    owned char *failed =
        stats->failures == 0 ? must(strdup("")) : text_of(", %" PRIu64 " failed", stats->failures);
    owned char *dropped = stats->dropped == 0 ? must(strdup(""))
                                              : text_of(", %" PRIu64 " not stored", stats->dropped);
    owned char *waiting = counters->requests == 0
                              ? must(strdup(""))
                              : text_of(", %" PRIu64 " waiting to be captured", counters->requests);
    complain("%" PRIu64 " %s (%" PRIu64 " from the store), %" PRIu64 " %s, %" PRIu64
             " passed through, %s saved, %" PRIu64 " %s, %s%s%s%s",
             hits, noun_of(hits, "hit", "hits"), stats->hits_store, stats->builds,
             noun_of(stats->builds, "build", "builds"), stats->passed_through,
             format_duration(stats->saved_ns, saved), counters->entries,
             noun_of(counters->entries, "entry", "entries"), format_size(counters->bytes, bytes),
             failed, dropped, waiting);
}

/* Prints what the counters alone do not say.
 *
 * @has_store   the store could be opened
 * @was_silent  no process of the run has written to the run's trace */
static void explain(const counter_values *counters, bool has_store, bool was_silent)
{
    const kiln_stats *stats = &counters->stats;
    const uint64_t answered =
        stats->builds + stats->hits_memory + stats->hits_store + stats->passed_through;
    if (!has_store) {
        complain("no cache could be used: nothing was stored or found");
    }
    if (was_silent && answered == 0) {
        complain(
            "the program compiled nothing with OpenCL or NVRTC, or not in a way that Kiln sees: "
            "'kiln doctor' shows what a program gets");
    }
    if (stats->builds > 0 && counters->requests > 0) {
        complain("%" PRIu64
                 " %s will be captured in a moment; run the program again, or add --wait",
                 counters->requests, noun_of(counters->requests, "result", "results"));
    }
}

static _Noreturn void start_capture(void)
{
    /* The tool itself must not run under layers or write to the trace of the run. Signals end it.
     */
    static const char *const own[] = {"OPENCL_LAYERS", "LD_AUDIT", "KILN_TRACE"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        unsetenv(own[i]);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    execl("/proc/self/exe", "kiln capture", "capture", "--wait-ms", CAPTURE_WAIT_MS, (char *)NULL);
    _exit(EXIT_NOT_EXECUTABLE);
}

/* Captures what programs have left, and waits for a capture that is running already. */
static void finish_captures(void)
{
    fflush(NULL);
    const pid_t capture = fork();
    if (capture == 0) {
        start_capture();
    }
    if (capture < 0 || waitpid(capture, NULL, 0) < 0) {
        complain("the captures could not be finished: %s", strerror(errno));
    }
}

/* @trace  NULL: the user keeps it */
static void print_summary(const kiln_stats *stats, const folder_run *folders,
                          const run_trace *trace, const command_line *line)
{
    counter_values counters = {0};
    owned_directory directory = {0};
    const bool has_store =
        directory_try_open(line->directory, KILN_STORE_READONLY | KILN_STORE_NO_CREATE,
                           &directory) == EXIT_OK;
    if (has_store) {
        kiln_status status = counters_read(directory.store, &counters);
        if (status != KILN_OK) {
            complain("%s: %s", directory.path, kiln_status_text(status));
        }
    }
    counters.stats = *stats;
    if (line->json) {
        json_t *object = counters_to_json(&counters);
        folder_run_add_json(folders, object);
        if (trace != NULL) {
            run_trace_add_json(trace, object);
        }
        json_print(stderr, object);
    } else {
        if (trace != NULL) {
            run_trace_print(trace);
        }
        const bool used_folders = folder_run_print(folders);
        explain(&counters, has_store, trace != NULL && !run_trace_has_line(trace) && !used_folders);
        print_line(&counters);
    }
}

/* Runs the program in a process of its own, and waits for its folders too. */
static int run_and_wait(const command_line *line, folder_run *folders, int *ret_wait_status)
{
    const int exit_code = program_run(line->operands, ret_wait_status);
    folder_run_end(folders, exit_code == EXIT_OK && WIFEXITED(*ret_wait_status));
    return exit_code;
}

/* What the user wants to know at the end of a run. */
typedef struct run_wishes {
    bool summary, waits, expects_warm;
    const char *record; /* a file; NULL: none */
} run_wishes;

static int run_and_report(const command_line *line, const run_wishes *wishes, folder_run *folders)
{
    const char *outer = getenv("KILN_STATS");
    owned char *outer_file = outer == NULL || outer[0] == '\0' ? NULL : must(strdup(outer));
    const bool records = wishes->expects_warm || wishes->record != NULL;
    counters_file run_counters;
    if (run_counters_open(&run_counters) != 0) {
        complain("no summary: can't create a folder for temporary files: %s", strerror(errno));
        return records ? EXIT_IO : program_replace(line->operands);
    }
    if (records) {
        run_record_open(run_counters.folder);
    }
    int wait_status = 0;
    int exit_code = run_and_wait(line, folders, &wait_status);

    /* If no process reads the summary, writing it must not end this process, which must end as the
     * program did. */
    signal(SIGPIPE, SIG_IGN);
    if (exit_code == EXIT_OK && wishes->waits) {
        finish_captures();
    }
    run_trace *trace = run_counters.trace == NULL ? NULL : run_trace_read(run_counters.trace);
    kiln_stats stats;
    bool has_built = false;
    int record_exit_code = EXIT_OK;
    if (records) {
        record_exit_code = run_record_close(exit_code == EXIT_OK ? wishes->record : NULL,
                                            wishes->expects_warm, &has_built);
    }
    run_counters_close(&run_counters, outer_file, &stats);
    if (exit_code == EXIT_OK && wishes->summary) {
        print_summary(&stats, folders, trace, line);
    }
    run_trace_free(trace);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    const int program_exit_code = program_repeat_end(wait_status);
    if (program_exit_code != EXIT_OK) {
        return program_exit_code;
    }
    has_built |= stats.builds > 0;
    return wishes->expects_warm && has_built ? EXIT_BUILT : record_exit_code;
}

static int run_with_folders(const command_line *line, folder_run *folders)
{
    int wait_status = 0;
    const int exit_code = run_and_wait(line, folders, &wait_status);
    return exit_code != EXIT_OK ? exit_code : program_repeat_end(wait_status);
}

int cmd_run(int argc, char **argv)
{
    run_wishes wishes = {0};
    bool without_nvrtc = false;
    bool without_python = false;
    const char *trace = NULL;
    command_line line = {
        .usage = usage,
        .options = {{.name = "summary", .flag = &wishes.summary},
                    {.name = "wait", .flag = &wishes.waits},
                    {.name = "expect-warm", .flag = &wishes.expects_warm},
                    {.name = "record", .text = &wishes.record},
                    {.name = "trace", .text = &trace},
                    {.name = "no-nvrtc", .flag = &without_nvrtc},
                    {.name = "no-python", .flag = &without_python}},
        .operands_min = 1,
        .operands_max = -1,
        .stops_at_operand = true,
    };
    options_read(&line, argc, argv);
    if (line.directory != NULL) {
        owned char *location = absolute_location(line.directory);
        must_succeed(setenv("KILN_DIR", location, 1));
    }
    /* This is for `kiln why --last`. The user can set the variable to 0. */
    must_succeed(setenv("KILN_LAST_MISS", "1", 0));
    if (trace != NULL) {
        set_trace(trace);
    }
    wishes.summary |= line.json || wishes.waits;
    if (wishes.waits) {
        /* This process captures at the end, with the ordinary priority. A helper would work only on
         * idle processors, and this process would wait for it. */
        must_succeed(setenv("KILN_HELPER", "0", 1));
    }
    const bool reports = wishes.summary || wishes.expects_warm || wishes.record != NULL;
    /* The system ends all processes of a container with the first. Its folders can be kept only if
     * that process still lives when the program has ended. */
    const bool waits = reports || getpid() == 1;
    folder_run *folders = NULL;
    if (is_disabled()) {
        if (wishes.expects_warm || wishes.record != NULL) {
            complain("KILN_DISABLE is set: nothing would be recorded");
            return EXIT_CONFIGURATION;
        }
    } else {
        const bool is_watched = layers_insert(!without_nvrtc);
        if (!without_python) {
            layers_insert_python(line.operands[0]);
        }
        folders = folder_run_start(is_watched, waits);
    }
    return reports                    ? run_and_report(&line, &wishes, folders)
           : folders != NULL && waits ? run_with_folders(&line, folders)
                                      : program_replace(line.operands);
}
