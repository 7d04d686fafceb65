/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for libnvrtc, for tests that are impossible with the real library, and for machines
 * without it. Its "PTX" consists of the source, the files that the source includes, the constants
 * that it folds ("DIVIDE 1 10", "FOLD pow 2 3"), and the options. It executes commands in the
 * source, for example to sleep or to fail, and it has a function that no layer knows
 * (nvrtcGetNovelty). It counts compilations on the descriptor that STAND_IN_COUNT names, and writes
 * to the descriptor in STAND_IN_CHANGES while it compiles. STAND_IN_CACHE is the cached result that
 * it returns for every program, unless an option forbids that. Like the real one, it creates
 * thread-specific keys when it first compiles.
 */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/nvrtc/functions.h"

#define EXPORTED __attribute__((visibility("default")))

enum { NAMES_MAX = 16, KEYS = 64, INVALID_INPUT = 3, INTERNAL_ERROR = 11, CANCELLED = 16 };

struct kilni_nvrtc_handle {
    char *source, *name;
    int header_count;
    char *headers[NAMES_MAX], *header_names[NAMES_MAX];
    int name_count;
    char *names[NAMES_MAX], *lowered[NAMES_MAX];
    char *ptx, *log;
    int is_compiled;
    kilni_nvrtc_flow_callback callback;
    void *payload;
};

EXPORTED kilni_nvrtc_version_fn nvrtcVersion;
EXPORTED kilni_nvrtc_create_fn nvrtcCreateProgram;
EXPORTED kilni_nvrtc_destroy_fn nvrtcDestroyProgram;
EXPORTED kilni_nvrtc_compile_fn nvrtcCompileProgram;
EXPORTED kilni_nvrtc_add_name_fn nvrtcAddNameExpression;
EXPORTED kilni_nvrtc_lowered_name_fn nvrtcGetLoweredName;
EXPORTED kilni_nvrtc_set_callback_fn nvrtcSetFlowCallback;
EXPORTED kilni_nvrtc_size_fn nvrtcGetProgramLogSize, nvrtcGetPTXSize, nvrtcGetNovelty;
EXPORTED kilni_nvrtc_get_fn nvrtcGetProgramLog, nvrtcGetPTX;

int nvrtcVersion(int *major, int *minor)
{
    *major = 99;
    *minor = 1;
    return 0;
}

int nvrtcCreateProgram(kilni_nvrtc_program *program, const char *source, const char *name,
                       int header_count, const char *const *headers,
                       const char *const *header_names)
{
    kilni_nvrtc_program made = calloc(1, sizeof *made);
    made->source = strdup(source);
    made->name = strdup(name ? name : "default_program");
    made->header_count = header_count;
    for (int i = 0; i < header_count; i++) {
        made->headers[i] = strdup(headers[i]);
        made->header_names[i] = strdup(header_names[i]);
    }
    made->ptx = strdup("");
    made->log = strdup("");
    *program = made;
    return 0;
}

int nvrtcDestroyProgram(kilni_nvrtc_program *program)
{
    kilni_nvrtc_program p = program ? *program : NULL;
    if (!p) {
        return KILNI_NVRTC_INVALID_PROGRAM;
    }
    for (int i = 0; i < NAMES_MAX; i++) {
        free(p->headers[i]);
        free(p->header_names[i]);
        free(p->names[i]);
        free(p->lowered[i]);
    }
    free(p->source);
    free(p->name);
    free(p->ptx);
    free(p->log);
    free(p);
    *program = NULL;
    return 0;
}

static void count_compilation(void)
{
    const char *file = getenv("STAND_IN_COUNT");
    if (file && write(atoi(file), "x", 1) != 1) {
        abort();
    }
}

/* Returns the text of the included file, or NULL if there is none. */
static char *read_include(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    struct stat facts;
    FILE *file = stat(path, &facts) == 0 ? fopen(path, "r") : NULL;
    char *text = NULL;
    size_t size = 0;
    if (file && getdelim(&text, &size, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    if (file) {
        fclose(file);
    }
    return text;
}

static char *find_include(const char *name, int option_count, const char *const *options)
{
    char *text = read_include("", name);
    for (int i = 0; i < option_count && !text; i++) {
        if (strncmp(options[i], "-I", 2) == 0) {
            text = read_include(options[i] + 2, name);
        }
    }
    return text;
}

static void divide(const char *operands, FILE *to)
{
    double a = 0, b = 1;
    if (sscanf(operands, "%lf %lf", &a, &b) != 2) {
        abort();
    }
    /* Volatile, so that the division is done at run time, in the thread's rounding mode. */
    const volatile double dividend = a, divisor = b;
    fprintf(to, "%a\n", dividend / divisor);
}

static double call_exp(double a, double b)
{
    (void)b;
    return exp(a);
}

static double call_expf(double a, double b)
{
    (void)b;
    return expf((float)a);
}

/* A call through an address that the loader stores, as in the tables of a library. */
static double (*volatile const by_address)(double) = log;

static double call_log(double a, double b)
{
    (void)b;
    return by_address(a);
}

/* Writes the result, and also errno and the exceptions, which a compiler may see. */
static void fold(const char *call, FILE *to)
{
    static const struct {
        const char *name;
        double (*function)(double, double);
    } functions[] = {{"exp", call_exp}, {"expf", call_expf}, {"log", call_log}, {"pow", pow}};
    char name[16];
    double a = 0, b = 0;
    if (sscanf(call, "%15s %lf %lf", name, &a, &b) < 2) {
        abort();
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(name, functions[i].name) == 0) {
            feclearexcept(FE_ALL_EXCEPT);
            errno = 0;
            const double result = functions[i].function(a, b);
            fprintf(to, "%a %d %x\n", result, errno, fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT));
        }
    }
}

static void fold_many(int count, FILE *to)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += exp(1.0 / (i + 1));
    }
    fprintf(to, "%a\n", sum);
}

static int preprocess(kilni_nvrtc_program p, int option_count, const char *const *options, FILE *to)
{
    char *lines = strdup(p->source), *rest = lines, *line;
    int missing = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char name[256];
        if (strncmp(line, "DIVIDE ", 7) == 0) {
            divide(line + 7, to);
            continue;
        }
        if (strncmp(line, "FOLD ", 5) == 0) {
            fold(line + 5, to);
            continue;
        }
        if (strncmp(line, "FOLD_MANY ", 10) == 0) {
            fold_many(atoi(line + 10), to);
            continue;
        }
        if (sscanf(line, "#include \"%255[^\"]\"", name) != 1) {
            fprintf(to, "%s\n", line);
            continue;
        }
        char *text = find_include(name, option_count, options);
        missing |= !text;
        fprintf(to, "%s\n", text ? text : "");
        free(text);
    }
    free(lines);
    return missing;
}

/* Queries PWD, as the real NVRTC does to choose a path for the working directory. */
static void look_at_working_directory(void)
{
    struct stat facts;
    const char *spelled = getenv("PWD");
    if (spelled) {
        (void)stat(spelled, &facts);
    }
}

/* Writes what this process may do with a file, a folder, the network and a core file. */
static void look_around(const char *path, FILE *log)
{
    const struct sockaddr_in nobody = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char name[512];
    snprintf(name, sizeof name, "%.*s/made", (int)(strrchr(path, '/') - path), path);
    const int in = socket(AF_INET, SOCK_STREAM, 0), file = open(path, O_RDONLY), /* NOLINT */
        made = open(name, O_WRONLY | O_CREAT, 0600);                             /* NOLINT */
    connect(in, (const struct sockaddr *)&nobody, sizeof nobody);
    fprintf(log, "network: %s\n", errno == ECONNREFUSED ? "yes" : "no");
    fprintf(log, "file: %s\nfolder: %s\n", file >= 0 ? "yes" : "no", made >= 0 ? "yes" : "no");
    struct rlimit core = {0};
    getrlimit(RLIMIT_CORE, &core);
    fprintf(log, "core file: %s\n", core.rlim_cur > 0 ? "yes" : "no");
}

/* Executes the commands that only compilations for this architecture obey. Returns whether the
 * compilation fails. */
static bool obey_on_90(kilni_nvrtc_program p, FILE *log)
{
    const char *look = strstr(p->source, "LOOK_AROUND ");
    if (strstr(p->source, "CRASH")) {
        abort();
    }
    if (strstr(p->source, "EAT_MEMORY")) {
        for (char *meal; (meal = malloc(64 << 20)) != NULL;) {
            memset(meal, 1, 64 << 20);
        }
        fprintf(log, "no memory is left\n");
        return true;
    }
    while (strstr(p->source, "SPIN")) {
    }
    while (strstr(p->source, "HANG")) {
        pause();
    }
    if (look) {
        char path[256];
        sscanf(look, "LOOK_AROUND %255s", path);
        look_around(path, log);
    }
    return look != NULL;
}

static bool is_for_90(int option_count, const char *const *options)
{
    bool is_for = false;
    for (int i = 0; i < option_count; i++) {
        is_for |= strstr(options[i], "_90") != NULL;
    }
    return is_for;
}

/* Executes the other commands in the source. */
static void obey(kilni_nvrtc_program p, FILE *log)
{
    if (strstr(p->source, "SLEEP")) {
        usleep(200000);
    }
    if (strstr(p->source, "END_THREAD")) {
        pthread_exit(NULL);
    }
    if (strstr(p->source, "WARN")) {
        fprintf(log, "%s(1): warning: \"%s\"\n", p->name, p->name);
    }
    if (strstr(p->source, "OPEN_TO_WRITE")) {
        close(open("/dev/null", O_WRONLY)); /* NOLINT */
    }
    if (strstr(p->source, "READ_A_DEVICE")) {
        close(open("/dev/zero", O_RDONLY)); /* NOLINT */
    }
    if (strstr(p->source, "RUN_A_PROCESS")) {
        FILE *process = popen("true", "r"); /* NOLINT */
        pclose(process);
    }
    if (strstr(p->source, "LEAVE_THE_FOLDER") && chdir(".") != 0) {
        abort();
    }
    const char *file = getenv("STAND_IN_CHANGES");
    if (file && write(atoi(file), "y", 1) != 1) {
        abort();
    }
}

static pthread_key_t keys[KEYS];

static void make_keys(void)
{
    for (int i = 0; i < KEYS; i++) {
        if (pthread_key_create(&keys[i], NULL) != 0) {
            abort();
        }
    }
}

/* Returns whether this thread has a value for one of the new keys, which would be an error. */
static int has_values(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int found = 0;
    pthread_once(&once, make_keys);
    for (int i = 0; i < KEYS; i++) {
        found |= pthread_getspecific(keys[i]) != NULL;
    }
    return found;
}

int nvrtcCompileProgram(kilni_nvrtc_program p, int option_count, const char *const *options)
{
    if (!p) {
        return KILNI_NVRTC_INVALID_PROGRAM;
    }
    if (option_count < 0 || (option_count > 0 && !options)) {
        return INVALID_INPUT;
    }
    if (p->callback && p->callback(p->payload, NULL)) {
        return CANCELLED;
    }
    if (has_values()) {
        return INTERNAL_ERROR;
    }
    size_t ptx_size, log_size;
    free(p->ptx);
    free(p->log);
    FILE *ptx = open_memstream(&p->ptx, &ptx_size), *log = open_memstream(&p->log, &log_size);
    count_compilation();
    look_at_working_directory();
    const int missing = preprocess(p, option_count, options, ptx);
    bool is_cached = getenv("STAND_IN_CACHE") != NULL;
    for (int i = 0; i < option_count; i++) {
        if (strcmp(options[i], "--no-cache") == 0) {
            is_cached = false;
        } else {
            fprintf(ptx, "// %s\n", options[i]);
        }
    }
    if (is_cached) {
        fprintf(ptx, "// of the driver's cache: %s\n", getenv("STAND_IN_CACHE"));
    }
    obey(p, log);
    const bool fails = is_for_90(option_count, options) && obey_on_90(p, log);
    fclose(ptx);
    fclose(log);
    for (int i = 0; i < p->name_count; i++) {
        p->lowered[i] = NULL;
        if (asprintf(&p->lowered[i], "_Z_%s", p->names[i]) < 0) {
            abort();
        }
    }
    p->is_compiled = !missing && !fails && !strstr(p->source, "ERROR");
    return p->is_compiled ? 0 : KILNI_NVRTC_COMPILATION;
}

int nvrtcAddNameExpression(kilni_nvrtc_program p, const char *expression)
{
    if (!expression) {
        return INVALID_INPUT;
    }
    if (p->is_compiled) {
        return KILNI_NVRTC_NAMES_AFTER_COMPILATION;
    }
    p->names[p->name_count++] = strdup(expression);
    return 0;
}

int nvrtcGetLoweredName(kilni_nvrtc_program p, const char *expression, const char **ret_name)
{
    if (!expression || !ret_name) {
        return INVALID_INPUT;
    }
    *ret_name = NULL;
    for (int i = 0; i < p->name_count && p->is_compiled; i++) {
        if (strcmp(p->names[i], expression) == 0) {
            *ret_name = p->lowered[i];
            return 0;
        }
    }
    return p->is_compiled ? KILNI_NVRTC_NAME_NOT_VALID : 9;
}

int nvrtcSetFlowCallback(kilni_nvrtc_program p, kilni_nvrtc_flow_callback callback, void *payload)
{
    p->callback = callback;
    p->payload = payload;
    return 0;
}

static int size_of(kilni_nvrtc_program p, const char *text, size_t *ret_size)
{
    if (!p) {
        return KILNI_NVRTC_INVALID_PROGRAM;
    }
    if (!ret_size) {
        return INVALID_INPUT;
    }
    *ret_size = strlen(text) + 1;
    return 0;
}

static int copy(const char *text, char *bytes)
{
    if (!bytes) {
        return INVALID_INPUT;
    }
    memcpy(bytes, text, strlen(text) + 1);
    return 0;
}

int nvrtcGetProgramLogSize(kilni_nvrtc_program p, size_t *ret_size)
{
    return size_of(p, p ? p->log : "", ret_size);
}

int nvrtcGetProgramLog(kilni_nvrtc_program p, char *log)
{
    return copy(p->log, log);
}

int nvrtcGetPTXSize(kilni_nvrtc_program p, size_t *ret_size)
{
    return size_of(p, p ? p->ptx : "", ret_size);
}

int nvrtcGetPTX(kilni_nvrtc_program p, char *ptx)
{
    return copy(p->ptx, ptx);
}

#ifdef WITH_NVVM
/* Functions of an earlier version of NVRTC. Here they read a file with a call that the layer does
 * not intercept. */
EXPORTED kilni_nvrtc_size_fn nvrtcGetNVVMSize;
EXPORTED kilni_nvrtc_get_fn nvrtcGetNVVM;

int nvrtcGetNVVMSize(kilni_nvrtc_program p, size_t *ret_size)
{
    struct stat facts;
    if (fstatat(AT_FDCWD, "/", &facts, 0) != 0) {
        abort();
    }
    return nvrtcGetPTXSize(p, ret_size);
}

int nvrtcGetNVVM(kilni_nvrtc_program p, char *bytes)
{
    return nvrtcGetPTX(p, bytes);
}
#endif

/* A function that a later version may add. */
int nvrtcGetNovelty(kilni_nvrtc_program p, size_t *ret_size)
{
    *ret_size = strlen(p->ptx);
    return p->is_compiled ? 0 : 42;
}
