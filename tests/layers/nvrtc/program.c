/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that knows nothing about Kiln. It compiles a source with NVRTC according to its
 * arguments, and writes everything that NVRTC returns, so that a run with the layer can be compared
 * with a run without it.
 *
 * usage: program [OPTION]... [-- NVRTC-OPTION...]
 *   --library PATH     open this libnvrtc; none is opened if the program is linked to one
 *   --source FILE      what to compile
 *   --name NAME        the name of the program
 *   --header NAME FILE, --expression TEXT, any number of times
 *   --callback         set a callback that lets the compilation continue
 *   --callback-between set a callback that counts, for the second compilation only
 *   --twice            compile a second time
 *   --first OPTION     compile a small program with that option first
 *   --meanwhile TEXT   run a shell command after the compilation
 *   --unknown          call a function that no layer knows, after the compilation
 *   --unknown-before   call it before the compilation
 *   --misuse           make calls that NVRTC refuses
 *   --round-to-zero    the thread rounds to zero during the first compilation
 *   --trap             compile in a thread in which floating-point exceptions trap, and write their
 *                      flags afterwards
 *   --threads N        compile N programs at once, each with -DTHREAD=half its number
 *   --odd-round-to-zero  with --threads: those with odd numbers round to zero
 *   --fork             compile in a child process
 *   --before PATH N    open and close a different libnvrtc N times first
 *   --elsewhere PATH   open this libnvrtc too, in a separate namespace, and alternate between them
 *   --eager PATH       compile in a constructor of that library (eager.c), while another thread
 *                      compiles too
 *   --late PATH        compile only when the process ends, after the destructors of the libraries
 *                      that were opened before this one (late.c)
 *   --late-too PATH    compile at that time too
 */
#include <dlfcn.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/nvrtc/functions.h"

enum { LIST_MAX = 256, THREADS_MAX = 16 };

typedef struct job {
    const char *library;
    char *source;
    const char *name;
    int header_count;
    const char *header_names[LIST_MAX];
    char *headers[LIST_MAX];
    int expression_count;
    const char *expressions[LIST_MAX];
    int option_count;
    const char *options[LIST_MAX];
    int callback, callback_between, twice, unknown, unknown_before, misuse, threads, fork,
        round_to_zero, odd_round_to_zero, trap, before_count;
    const char *before, *elsewhere, *eager, *first, *late, *late_too, *meanwhile;
} job;

typedef int unknown_fn(kilni_nvrtc_program program, size_t *ret_size);

static kilni_nvrtc_functions nvrtc;
static unknown_fn *unknown;

/* ---- the library ---- */

static void find_functions(void *handle)
{
#define FIND(member, type, exported) nvrtc.member = (type *)dlsym(handle, exported);
    KILNI_NVRTC_FUNCTIONS(FIND)
#undef FIND
}

#ifdef LINKED
kilni_nvrtc_create_fn nvrtcCreateProgram;
kilni_nvrtc_destroy_fn nvrtcDestroyProgram;
kilni_nvrtc_compile_fn nvrtcCompileProgram;
kilni_nvrtc_add_name_fn nvrtcAddNameExpression;
kilni_nvrtc_lowered_name_fn nvrtcGetLoweredName;
kilni_nvrtc_size_fn nvrtcGetProgramLogSize, nvrtcGetPTXSize, nvrtcGetCUBINSize;
kilni_nvrtc_get_fn nvrtcGetProgramLog, nvrtcGetPTX, nvrtcGetCUBIN;

/* Uses functions by call and by address, which loaders bind by different relocations. */
static int create_by_call(kilni_nvrtc_program *program, const char *source, const char *name,
                          int header_count, const char *const *headers,
                          const char *const *header_names)
{
    return nvrtcCreateProgram(program, source, name, header_count, headers, header_names);
}

static int compile_by_call(kilni_nvrtc_program program, int count, const char *const *options)
{
    return nvrtcCompileProgram(program, count, options);
}

static void find_nvrtc(const char *library)
{
    (void)library;
    nvrtc = (kilni_nvrtc_functions){
        .create = create_by_call,
        .destroy = nvrtcDestroyProgram,
        .compile = compile_by_call,
        .add_name = nvrtcAddNameExpression,
        .lowered_name = nvrtcGetLoweredName,
        .size = {nvrtcGetProgramLogSize, nvrtcGetPTXSize, nvrtcGetCUBINSize},
        .get = {nvrtcGetProgramLog, nvrtcGetPTX, nvrtcGetCUBIN},
    };
}
#else
static void find_nvrtc(const char *library)
{
    void *handle = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle) {
        fprintf(stderr, "no libnvrtc: %s\n", library ? dlerror() : "--library is missing");
        exit(2);
    }
    find_functions(handle);
    unknown = (unknown_fn *)dlsym(handle, "nvrtcGetNovelty");
}
#endif

/* ---- outputs ---- */

static unsigned long long digest(const char *bytes, size_t size)
{
    unsigned long long value = 14695981039346656037ull;
    for (size_t i = 0; i < size; i++) {
        value = (value ^ (unsigned char)bytes[i]) * 1099511628211ull;
    }
    return value;
}

static const char *const output_names[KILNI_NVRTC_OUTPUT_COUNT] = {"log",   "ptx",     "cubin",
                                                                   "ltoir", "optixir", "nvvm"};

static void write_output(FILE *to, kilni_nvrtc_program program, int output)
{
    if (!nvrtc.size[output] || !nvrtc.get[output]) {
        return;
    }
    size_t size = 4711;
    int result = nvrtc.size[output](program, &size);
    fprintf(to, "%s: %d, %zu bytes", output_names[output], result, size);
    /* The byte after the buffer must not change. */
    char *bytes = malloc(size + 1);
    memset(bytes, 'x', size + 1);
    result = nvrtc.get[output](program, bytes);
    fprintf(to, ", %d, %016llx%s\n", result, digest(bytes, size), bytes[size] == 'x' ? "" : " +1");
    if (output == KILNI_NVRTC_LOG && size > 0) {
        fprintf(to, "%s\n", bytes);
    }
    free(bytes);
}

static void write_name(FILE *to, kilni_nvrtc_program program, const char *expression)
{
    const char *lowered = "untouched";
    const int result = nvrtc.lowered_name(program, expression, &lowered);
    fprintf(to, "name %s: %d %s\n", expression, result, lowered ? lowered : "-");
}

static void write_all(FILE *to, const job *j, kilni_nvrtc_program program)
{
    for (int i = 0; i < KILNI_NVRTC_OUTPUT_COUNT; i++) {
        write_output(to, program, i);
    }
    for (int i = 0; i < j->expression_count; i++) {
        write_name(to, program, j->expressions[i]);
    }
}

static void write_misuse(FILE *to, kilni_nvrtc_program program)
{
    const char *lowered = NULL;
    for (int i = 0; i < KILNI_NVRTC_OUTPUT_COUNT; i++) {
        if (nvrtc.size[i] && nvrtc.get[i]) {
            fprintf(to, "misuse %s: %d", output_names[i], nvrtc.size[i](program, NULL));
            fprintf(to, " %d", nvrtc.get[i](program, NULL));
            fprintf(to, " %d\n", nvrtc.size[i](NULL, &(size_t){0}));
        }
    }
    write_name(to, program, "never_added<int>");
    fprintf(to, "misuse name: %d", nvrtc.lowered_name(program, NULL, &lowered));
    fprintf(to, " %d", nvrtc.lowered_name(program, "x", NULL));
    fprintf(to, " %d", nvrtc.add_name(program, "late<int>"));
    fprintf(to, " %d\n", nvrtc.add_name(program, NULL));
}

static int go_on(void *payload, void *reserved)
{
    (void)payload, (void)reserved;
    return 0;
}

static int count_call(void *payload, void *reserved)
{
    (void)reserved;
    ++*(int *)payload;
    return 0;
}

static void write_unknown(FILE *to, kilni_nvrtc_program program)
{
    size_t size = 0;
    if (unknown) {
        const int result = unknown(program, &size);
        fprintf(to, "unknown: %d %zu\n", result, size);
    }
}

static void run(FILE *to, const job *j)
{
    kilni_nvrtc_program program = NULL;
    fprintf(to, "create: %d\n",
            nvrtc.create(&program, j->source, j->name, j->header_count,
                         (const char *const *)j->headers, j->header_names));
    for (int i = 0; i < j->expression_count; i++) {
        fprintf(to, "add: %d\n", nvrtc.add_name(program, j->expressions[i]));
    }
    if (j->callback && nvrtc.set_callback) {
        fprintf(to, "callback: %d\n", nvrtc.set_callback(program, go_on, to));
    }
    if (j->misuse) {
        write_all(to, j, program);
        fprintf(to, "misuse compile: %d", nvrtc.compile(program, -1, NULL));
        fprintf(to, " %d", nvrtc.compile(program, 1, NULL));
        fprintf(to, " %d\n", nvrtc.compile(NULL, 0, NULL));
    }
    if (j->unknown_before) {
        write_unknown(to, program);
    }
    fesetround(j->round_to_zero ? FE_TOWARDZERO : FE_TONEAREST);
    const int trapping = j->trap ? FE_DIVBYZERO | FE_INVALID : 0;
    feclearexcept(trapping);
    feenableexcept(trapping);
    const int result = nvrtc.compile(program, j->option_count, j->options);
    fedisableexcept(trapping);
    fesetround(FE_TONEAREST);
    fprintf(to, "compile: %d\n", result);
    if (j->trap) {
        fprintf(to, "raised: %d\n", fetestexcept(trapping));
    }
    write_all(to, j, program);
    if (j->meanwhile && system(j->meanwhile) != 0) { /* NOLINT: the tests' own command */
        fprintf(stderr, "%s failed\n", j->meanwhile);
    }
    if (j->unknown) {
        write_unknown(to, program);
        write_all(to, j, program);
    }
    if (j->misuse) {
        write_misuse(to, program);
    }
    int calls = 0;
    if (j->callback_between) {
        fprintf(to, "callback: %d\n", nvrtc.set_callback(program, count_call, &calls));
    }
    if (j->twice) {
        fprintf(to, "compile: %d\n", nvrtc.compile(program, j->option_count, j->options));
        write_all(to, j, program);
    }
    if (j->callback_between) {
        fprintf(to, "calls: %d\n", calls);
    }
    fprintf(to, "destroy: %d", nvrtc.destroy(&program));
    fprintf(to, " %d %s\n", nvrtc.destroy(&program), program ? "left" : "gone");
}

static void compile_first(const char *option)
{
    kilni_nvrtc_program program = NULL;
    nvrtc.create(&program, "__global__ void first(int *x) { *x = 1; }", "first.cu", 0, NULL, NULL);
    printf("first: %d\n", nvrtc.compile(program, 1, &option));
    nvrtc.destroy(&program);
}

/* ---- several programs at once ---- */

typedef struct worker {
    pthread_t thread;
    job job;
    char define[32];
    char *text;
} worker;

static void *work(void *user)
{
    worker *w = user;
    size_t size = 0;
    FILE *to = open_memstream(&w->text, &size);
    run(to, &w->job);
    fclose(to);
    return NULL;
}

static void run_threads(const job *j)
{
    static worker workers[THREADS_MAX];
    for (int i = 0; i < j->threads; i++) {
        workers[i].job = *j;
        workers[i].job.round_to_zero |= j->odd_round_to_zero && i % 2;
        snprintf(workers[i].define, sizeof workers[i].define, "-DTHREAD=%d", i / 2);
        workers[i].job.options[workers[i].job.option_count++] = workers[i].define;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < j->threads; i++) {
        pthread_join(workers[i].thread, NULL);
        fputs(workers[i].text, stdout);
        free(workers[i].text);
    }
}

/* Gives a thread time to reach the point where it needs the loader. */
enum { MEANWHILE_US = 50000 };

static worker beside;

extern void (*while_opening)(void);

static void run_while_opening(void)
{
    pthread_create(&beside.thread, NULL, work, &beside);
    usleep(MEANWHILE_US);
    run(stdout, &beside.job);
}

void (*while_opening)(void) = run_while_opening;

/* NVRTC is called once beforehand, so that the layer is attached. */
static void run_in_constructor(const job *j)
{
    kilni_nvrtc_program program = NULL;
    beside.job = *j;
    nvrtc.create(&program, j->source, j->name, 0, NULL, NULL);
    nvrtc.destroy(&program);
    if (!dlopen(j->eager, RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    pthread_join(beside.thread, NULL);
    fputs(beside.text, stdout);
    free(beside.text);
}

static int run_in_child(const job *j)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        run(stdout, j);
        exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
}

/* ---- a second library, earlier libraries, and the end of the process ---- */

static void run_in_turn(const job *j)
{
    const kilni_nvrtc_functions first = nvrtc;
    void *handle = dlmopen(LM_ID_NEWLM, j->elsewhere, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "no libnvrtc elsewhere: %s\n", dlerror());
        exit(2);
    }
    find_functions(handle);
    const kilni_nvrtc_functions second = nvrtc;
    for (int i = 0; i < 4; i++) {
        nvrtc = i % 2 ? second : first;
        run(stdout, j);
    }
    nvrtc = first;
}

static void open_and_close(const char *path, int count)
{
    for (int i = 0; i < count; i++) {
        int major, minor;
        void *handle = dlopen(path, RTLD_NOW);
        kilni_nvrtc_version_fn *version =
            (kilni_nvrtc_version_fn *)dlsym(handle, "nvrtcVersion"); /* NOLINT: the type of dlsym */
        version(&major, &minor);
        dlclose(handle);
    }
}

static const job *late_job;

static void run_late(void)
{
    run(stdout, late_job);
    fflush(stdout);
}

static void run_at_the_end(const job *j, const char *library)
{
    void *handle = dlopen(library, RTLD_NOW);
    void (**at_the_end)(void) = handle ? dlsym(handle, "at_the_end") : NULL;
    if (!at_the_end) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    late_job = j;
    *at_the_end = run_late;
}

/* ---- arguments ---- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (!file || getdelim(&text, &size, '\0', file) < 0) {
        fprintf(stderr, "%s can't be read\n", path);
        exit(2);
    }
    fclose(file);
    return text;
}

static int is(const char *argument, const char *option)
{
    return strcmp(argument, option) == 0;
}

static void read_arguments(job *j, char **at)
{
    for (; *at && !is(*at, "--"); at++) {
        if (is(*at, "--library")) {
            j->library = *++at;
        } else if (is(*at, "--source")) {
            j->source = read_file(*++at);
        } else if (is(*at, "--name")) {
            j->name = *++at;
        } else if (is(*at, "--header")) {
            j->header_names[j->header_count] = *++at;
            j->headers[j->header_count++] = read_file(*++at);
        } else if (is(*at, "--expression")) {
            j->expressions[j->expression_count++] = *++at;
        } else if (is(*at, "--threads")) {
            j->threads = atoi(*++at);
        } else if (is(*at, "--before")) {
            j->before = *++at;
            j->before_count = atoi(*++at);
        } else if (is(*at, "--elsewhere")) {
            j->elsewhere = *++at;
        } else if (is(*at, "--meanwhile")) {
            j->meanwhile = *++at;
        } else if (is(*at, "--eager")) {
            j->eager = *++at;
        } else if (is(*at, "--first")) {
            j->first = *++at;
        } else if (is(*at, "--late")) {
            j->late = *++at;
        } else if (is(*at, "--late-too")) {
            j->late_too = *++at;
        } else {
            j->callback |= is(*at, "--callback");
            j->callback_between |= is(*at, "--callback-between");
            j->twice |= is(*at, "--twice");
            j->unknown |= is(*at, "--unknown");
            j->unknown_before |= is(*at, "--unknown-before");
            j->misuse |= is(*at, "--misuse");
            j->round_to_zero |= is(*at, "--round-to-zero");
            j->odd_round_to_zero |= is(*at, "--odd-round-to-zero");
            j->trap |= is(*at, "--trap");
            j->fork |= is(*at, "--fork");
        }
    }
    while (*at && *++at) {
        j->options[j->option_count++] = *at;
    }
}

#ifdef TAKES_EXP
/* If this program is linked at a fixed address, it has a stub for exp, to which libnvrtc is bound
 * too. */
static double (*volatile taken)(double);

__attribute__((constructor)) static void take_exp(void)
{
    taken = exp;
}
#endif

int main(int argc, char **argv)
{
    static job j;
    (void)argc;
    read_arguments(&j, argv + 1);
    if (j.before) {
        open_and_close(j.before, j.before_count);
    }
    find_nvrtc(j.library);
    if (j.first) {
        compile_first(j.first);
    }
    if (j.late || j.late_too) {
        run_at_the_end(&j, j.late ? j.late : j.late_too);
    }
    if (j.fork) {
        run(stdout, &j);
        return run_in_child(&j);
    }
    if (j.elsewhere) {
        run_in_turn(&j);
    } else if (j.eager) {
        run_in_constructor(&j);
    } else if (j.threads > 0) {
        run_threads(&j);
    } else if (!j.late) {
        run(stdout, &j);
    }
    return 0;
}
