/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/config.h>
#include <kiln/nvrtc.h>
#include <kiln/opencl.h>
#include <kiln/stats.h>
#include <kiln/store_tools.h>

#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "build.h"
#include "missing_files.h"
#include "recipe.h"
#include "sandbox.h"

/* A build may use this much processor time, or ten times what it has cost before. */
#define PROCESSOR_SECONDS_MIN 120

/* The compiler's log is cut off after this many bytes. */
#define LOG_BYTES_MAX (64 << 10)

typedef struct worker {
    const worker_terms *terms;
    recipe of;
    char *folder;         /* in which the compiler may write */
    char *store_folder;   /* in that folder */
    char *program_folder; /* of a program whose name had one */
    char *working_folder;
    char **visible; /* paths in the home folder that the compiler needs */
    size_t visible_count, visible_capacity;
    size_t library_count;  /* how many of these, the first ones, are folders of libraries */
    missing_files missing; /* to be recreated in the sandbox */
    link_inputs inputs;    /* of a link of nvJitLink */
    bool has_source_file;  /* the program's source must be a file, too */
    bool is_in_own_folder; /* the working directory was the program's folder */
    bool has_no_folder;    /* the program's folder did not exist: CuPy removes it first */
} worker;

static bool is_of_opencl(const worker *w)
{
    return w->of.kind == RECIPE_OPENCL || w->of.kind == RECIPE_OPENCL_LINK;
}

/* ---- reports ---- */

static int report(const char *result, const char *why, const char *log)
{
    json_t *object = must(json_object());
    json_add(object, "result", json_text_or_null(result));
    json_add(object, "why", json_text_or_null(why));
    json_add(object, "log", json_text_or_null(log));
    json_print(stdout, object);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_IO;
}

static char *read_file(const char *path)
{
    char *text = must(calloc(1, LOG_BYTES_MAX + 1));
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    for (ssize_t got; file >= 0 && size < LOG_BYTES_MAX &&
                      (got = read(file, text + size, LOG_BYTES_MAX - size)) > 0;) {
        size += (size_t)got;
    }
    if (file >= 0) {
        close(file);
    }
    return text;
}

static char *path_in(const worker *w, const char *name)
{
    return text_of("%s/%s", w->folder, name);
}

/* ---- what the build needs ---- */

/* Adds a path, or NULL, which ends the list. */
static void add_visible(worker *w, char *path)
{
    w->visible =
        array_grown(w->visible, w->visible_count, &w->visible_capacity, sizeof *w->visible);
    w->visible[w->visible_count++] = path;
}

/* Returns true if a folder that is visible contains the path. */
static bool is_visible(const worker *w, const char *path)
{
    owned char *real = realpath(path, NULL);
    if (real == NULL || strcmp(real, path) != 0) {
        return false; /* What a link leads to may be elsewhere. */
    }
    for (size_t i = 0; i < w->visible_count; i++) {
        const size_t length = strlen(w->visible[i]);
        if (strncmp(path, w->visible[i], length) == 0 &&
            (path[length] == '/' || path[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static void show(worker *w, const char *path)
{
    if (path[0] == '/' && !is_visible(w, path)) {
        add_visible(w, must(strdup(path)));
    }
}

static void show_folder_of(worker *w, const char *path)
{
    owned char *real = realpath(path, NULL);
    if (real != NULL && strrchr(real, '/') != real) {
        *strrchr(real, '/') = '\0';
        show(w, real);
    }
    if (path[0] == '/' && strrchr(path, '/') != path) {
        owned char *folder = text_of("%.*s", (int)(strrchr(path, '/') - path), path);
        show(w, folder);
    }
}

/* Shows the folder of each path in a list that colons separate. */
static void show_list(worker *w, const char *list, bool are_folders)
{
    owned char *copy = must(strdup(list == NULL ? "" : list));
    char *rest = copy;
    for (char *item; (item = strsep(&rest, ":")) != NULL;) {
        if (are_folders) {
            show(w, item);
        } else if (*item != '\0') {
            show_folder_of(w, item);
        }
    }
}

/* Shows the folders of the OpenCL drivers that the files *.icd in a folder name. */
static void show_drivers(worker *w, const char *vendors)
{
    owned char *pattern = text_of("%s/*.icd", vendors);
    glob_t found = {0};
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char path[PATH_MAX];
            FILE *file = fopen(found.gl_pathv[i], "re");
            if (file != NULL && fgets(path, sizeof path, file) != NULL) {
                path[strcspn(path, " \t\r\n")] = '\0';
                show_folder_of(w, path);
            }
            if (file != NULL) {
                fclose(file);
            }
        }
    }
    globfree(&found);
}

static void show_compiler(worker *w, const char *library)
{
    if (library != NULL) {
        show_folder_of(w, library);
    }
}

static void show_libraries(worker *w)
{
    const char *vendors = getenv("OCL_ICD_VENDORS");
    Dl_info own;
    if (dladdr((const void *)(uintptr_t)kiln_entry_new, &own) != 0 && own.dli_fname != NULL) {
        show_folder_of(w, own.dli_fname);
    }
    show_list(w, getenv("OPENCL_LAYERS"), false);
    show_list(w, getenv("LD_AUDIT"), false);
    show_list(w, getenv("LD_LIBRARY_PATH"), true);
    show_list(w, vendors, true);
    show_list(w, getenv("OCL_ICD_FILENAMES"), false);
    show_drivers(w, vendors == NULL ? "/etc/OpenCL/vendors" : vendors);
    show_compiler(w, w->terms->build.nvrtc);
    show_compiler(w, w->terms->build.nvjitlink);
    show_compiler(w, w->terms->build.hiprtc);
    w->library_count = w->visible_count;
}

/* Shows the folders in which the compiler searches for included files. */
static void show_include_folders(worker *w)
{
    static const char *const names[] = {"-I", "--include-path="};
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(w->of.key, i, &part) == KILN_OK; i++) {
        if (strncmp(part.name, "option", strlen("option")) != 0 || part.bytes == NULL) {
            continue;
        }
        owned char *options = text_of("%.*s", (int)part.size, (const char *)part.bytes);
        char *rest = options;
        for (char *word; (word = strsep(&rest, " ")) != NULL;) {
            for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
                const size_t length = strlen(names[n]);
                show(w, strncmp(word, names[n], length) == 0 ? word + length : word);
            }
        }
    }
}

typedef struct reads_check {
    worker *w;
    kiln_store *included;    /* the contents of files; NULL: none are kept */
    char *why;               /* NULL: nothing is missing */
    uint32_t program_folder; /* the place of the read of the program's folder + 1; 0: none */
} reads_check;

/* Returns true if the file that a compiler looked up is the program's own source, because the
 * program has written the source to a file. */
static bool is_own_source(const worker *w, const kiln_read *read)
{
    kiln_key_part name, source;
    return read->relative_to_program && recipe_find(w->of.key, "name", 0, &name) != 0 &&
           recipe_find(w->of.key, "source", 0, &source) != 0 && read->size == source.size &&
           strlen(read->path) == name.size && memcmp(read->path, name.bytes, name.size) == 0;
}

/* Notes whether the working directory was the program's folder, because a result is used only if
 * paths that led to the same folder still do. */
static void check_folder(reads_check *check, const kiln_read *read)
{
    const bool is_here = strcmp(read->path, ".") == 0;
    if (is_here && read->relative_to_program) {
        check->program_folder = read->place + 1;
    } else if (is_here && read->same + 1 == check->program_folder) {
        check->w->is_in_own_folder = true;
    } else if (read->path[0] == '/' && access(read->path, F_OK) != 0) {
        missing_files_add(&check->w->missing, read, NULL);
    }
}

/* A file whose path is absolute is used as it is here. Any other must be recreated. */
static void check_file(reads_check *check, const kiln_read *read)
{
    const bool is_elsewhere = read->relative_to_program || read->path[0] != '/';
    kiln_entry *content = NULL;
    if (!is_elsewhere && access(read->path, R_OK) == 0) {
        show(check->w, read->path);
    } else if (check->included == NULL ||
               kiln_included_get(check->included, read->digest, &content) != KILN_OK) {
        check->why = text_of(is_elsewhere ? "it included %s from a folder that is not known"
                                          : "it included %s, which does not exist here",
                             read->path);
    } else if (!check->w->terms->sandboxed) {
        kiln_entry_release(&content);
        check->why = text_of("it included %s, which does not exist here, and can't be recreated "
                             "without private namespaces",
                             read->path);
    } else {
        missing_files_add(&check->w->missing, read, content);
    }
}

static int check_read(void *user, const kiln_read *read)
{
    reads_check *check = user;
    worker *w = check->w;
    if (read->found == KILN_ONLY_FOR_PROGRAM_IN) {
        const size_t length = strlen(read->path);
        const bool has_slash = length > 1 && read->path[length - 1] == '/';
        free(w->program_folder);
        w->program_folder = text_of("%.*s", (int)(length - has_slash), read->path);
    } else if (read->found == KILN_ONLY_FOR_PROCESS_IN) {
        free(w->working_folder);
        w->working_folder = must(strdup(read->path));
    } else if (read->found == KILN_FOUND_FOLDER) {
        check_folder(check, read);
    } else if (read->found == KILN_FOUND_NOTHING && read->relative_to_program &&
               strcmp(read->path, ".") == 0) {
        w->has_no_folder = true;
    } else if (read->found == KILN_FOUND_FILE && is_own_source(w, read)) {
        w->has_source_file = true;
    } else if (read->found == KILN_FOUND_FILE) {
        check_file(check, read);
    }
    return check->why != NULL;
}

/* Opens the store of the contents of included files. Returns NULL if there is none. */
static kiln_store *open_included(const worker *w)
{
    const kiln_store_params params = {.struct_size = sizeof params,
                                      .flags = KILN_STORE_READONLY | KILN_STORE_NO_CREATE};
    kiln_store *from = NULL, *included = NULL;
    if (w->terms->included_beside != NULL &&
        kiln_store_open(w->terms->included_beside, &params, &from, NULL) == KILN_OK) {
        kiln_included_open(from, KILN_UNLIMITED, &included);
        kiln_store_close(&from);
    }
    return included;
}

/* Returns why a file that the build included can't be included again, or an input of a link not be
 * linked again; NULL: all of them can. The files of the first result count, which is the latest. */
static char *reason_against_files(worker *w)
{
    reads_check check = {.w = w, .included = open_included(w)};
    if (is_of_opencl(w)) {
        kiln_opencl_each_read(w->of.entry, 0, check_read, &check);
    } else {
        kiln_nvrtc_each_read(w->of.entry, 0, check_read, &check);
    }
    if (check.why == NULL && w->of.kind == RECIPE_NVJITLINK) {
        check.why = link_inputs_read(w->of.key, check.included, &w->inputs);
    }
    kiln_store_close(&check.included);
    return check.why;
}

static void find_working_folder(worker *w)
{
    char *folder = recipe_text(w->of.key, "working directory");
    if (folder != NULL) {
        free(w->working_folder);
        w->working_folder = folder;
    }
}

/* ---- the compiler's process ---- */

/* Limits the processor time of a build. At the first limit it gets SIGXCPU; if it ignores that,
 * SIGKILL a second later. */
static void limit_processor_time(const kiln_entry *entry)
{
    const uint64_t cost_s = kiln_entry_provenance(entry).build_ns / 1000000000;
    const rlim_t seconds = PROCESSOR_SECONDS_MIN + 10 * cost_s;
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) == 0) {
        limit.rlim_cur = limit.rlim_cur < seconds ? limit.rlim_cur : seconds;
        limit.rlim_max = limit.rlim_max < seconds ? limit.rlim_max : seconds + 1;
        setrlimit(RLIMIT_CPU, &limit);
    }
}

/* Memory that the build may use: half of the machine's. */
static void limit_memory(void)
{
    const rlim_t bytes = (rlim_t)sysconf(_SC_PHYS_PAGES) / 2 * (rlim_t)sysconf(_SC_PAGESIZE);
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) == 0) {
        limit.rlim_max = limit.rlim_max < bytes ? limit.rlim_max : bytes;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_DATA, &limit);
    }
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        if (write(file, "1000", 4) != 4) {
            /* The limit remains. */
        }
        close(file);
    }
}

static void set(const char *name, const char *value)
{
    must_succeed(setenv(name, value, 1));
}

static void set_path(const worker *w, const char *name, const char *file)
{
    owned char *path = path_in(w, file);
    set(name, path);
}

/* Clears the environment except for what the loaders need and what decides keys. */
static void keep_environment(void)
{
    static const char *const kept[] = {"PATH",
                                       "LANG",
                                       "LC_ALL",
                                       "LD_LIBRARY_PATH",
                                       "LD_AUDIT",
                                       "GLIBC_TUNABLES",
                                       "OPENCL_LAYERS",
                                       "OPENCL_VENDOR_PATH",
                                       "OCL_ICD_VENDORS",
                                       "OCL_ICD_FILENAMES",
                                       "KILN_KEY_ENV"};
    enum { COUNT = sizeof kept / sizeof kept[0] };
    char *values[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        const char *value = getenv(kept[i]);
        values[i] = value == NULL ? NULL : must(strdup(value));
    }
    clearenv();
    for (size_t i = 0; i < COUNT; i++) {
        if (values[i] != NULL) {
            set(kept[i], values[i]);
            free(values[i]);
        }
    }
}

/* Sets the variables with which the entry was built. recipe_read has refused those that load
 * code. */
static void set_recorded_variables(const kiln_key *key)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strncmp(part.name, "env.", strlen("env.")) == 0) {
            owned char *value = text_of("%.*s", (int)part.size, (const char *)part.bytes);
            set(part.name + strlen("env."), value);
        }
    }
}

static void set_environment(const worker *w)
{
    keep_environment();
    owned char *to = w->terms->cache == NULL ? NULL
                     : w->terms->sandboxed   ? text_of("%s/to", w->folder)
                                             : must(strdup(w->terms->cache));
    owned char *store = to == NULL ? must(strdup(w->store_folder))
                                   : text_of("%s|file://%s?readonly=1", w->store_folder, to);
    set("KILN_DIR", store);
    set("KILN_HELPER", "0");
    set("KILN_INCLUDED_MAX_SIZE", "0");
    set_path(w, "KILN_STATS", "stats");
    set_path(w, "KILN_TRACE", "trace");
    set_path(w, "HOME", "home");
    set_path(w, "TMPDIR", "tmp");
    set_path(w, "XDG_CACHE_HOME", "home");
    set_path(w, "POCL_CACHE_DIR", "home");
    set("PWD", w->working_folder);
    set_recorded_variables(w->of.key);
}

/* Runs in a child process, and ends it. */
static _Noreturn void build(const worker *w)
{
    owned char *output = path_in(w, "output");
    const int file = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    close(WORKER_ENTRY_FILE);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0 ||
        chdir(w->working_folder) != 0) {
        _exit(EXIT_IO);
    }
    set_environment(w);
    const build_end end = is_of_opencl(w) ? build_opencl(&w->of)
                          : w->of.kind == RECIPE_NVJITLINK
                              ? build_nvjitlink(&w->of, &w->terms->build, &w->inputs)
                              : build_nvrtc(&w->of, &w->terms->build, w->program_folder);
    /* The layer writes the result to the store when the process exits. A driver's exit handlers
     * might crash, so the end is also the name of a file. */
    if (end == BUILD_DONE) {
        owned char *done = path_in(w, "done");
        close(open(done, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    exit(end);
}

static int visit_request(void *user, kiln_item *item)
{
    kiln_store *store = user;
    kiln_config *config = NULL;
    kiln_entry *request = NULL;
    kiln_error error = {.struct_size = sizeof error};
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    kiln_status status = kiln_item_read(item, &request);
    if (status == KILN_OK) {
        status = kiln_opencl_serve_request(store, request, config->key_variables, &error);
    }
    if (status != KILN_OK) {
        printf("%s", error_text(&error, status));
    }
    kiln_config_free(&config);
    kiln_entry_release(&request);
    fflush(NULL);
    _exit(status == KILN_OK ? BUILD_DONE : BUILD_FAILED);
}

/* Runs in a child process: if the driver's binaries are expensive, the layer has left a request. */
static _Noreturn void capture(const worker *w)
{
    kiln_store *store = NULL;
    owned char *output = path_in(w, "output");
    const int file = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    close(WORKER_ENTRY_FILE);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0 ||
        chdir(w->working_folder) != 0) {
        _exit(EXIT_IO);
    }
    set_environment(w);
    unsetenv("OPENCL_LAYERS");
    if (kiln_store_open(w->store_folder, NULL, &store, NULL) == KILN_OK) {
        kiln_store_each_request(store, visit_request, store);
    }
    _exit(BUILD_FAILED);
}

/* Returns the child's wait status, and the seconds of processor time that it used. */
static int run_child(const worker *w, void (*function)(const worker *), long *ret_seconds)
{
    struct rusage used = {0};
    int status = -1;
    const pid_t own = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != own) {
            _exit(EXIT_IO);
        }
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        limit_processor_time(w->of.entry);
        limit_memory();
        function(w);
    }
    while (child > 0 && wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
    }
    *ret_seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
    return status;
}

/* ---- what became of it ---- */

/* Returns the reason in the last line of the trace that contains @mark; NULL: there is none. */
static char *traced(const worker *w, const char *mark)
{
    owned char *path = path_in(w, "trace");
    owned char *text = read_file(path);
    char *reason = NULL;
    for (char *line = text, *at; (at = strstr(line, mark)) != NULL; line = at + 1) {
        free(reason);
        const char *begin = strstr(at, ": ");
        reason = begin == NULL ? NULL : text_of("%.*s", (int)strcspn(begin + 2, "\n"), begin + 2);
    }
    return reason;
}

/* What the build made. */
typedef struct made_entries {
    kiln_entry *entry;
    kiln_entry **steps; /* of a link: see recipe_is_step */
    size_t step_count, step_capacity;
    bool has_request;
} made_entries;

static int find_made(void *user, kiln_item *item)
{
    made_entries *made = user;
    kiln_item_info info = {.struct_size = sizeof info};
    kiln_entry *entry = NULL;
    if (kiln_item_get_info(item, &info) == KILN_OK && info.kind == KILN_ENTRY_REQUEST) {
        made->has_request = true;
    } else if (info.kind == KILN_ENTRY_PROGRAM && kiln_item_read(item, &entry) == KILN_OK) {
        if (!recipe_is_build(entry)) {
            made->steps = array_grown(made->steps, made->step_count, &made->step_capacity,
                                      sizeof *made->steps);
            made->steps[made->step_count++] = entry;
        } else if (made->entry == NULL) {
            made->entry = entry;
        } else {
            kiln_entry_release(&entry);
        }
    }
    return 0;
}

static void made_entries_done(made_entries *made)
{
    kiln_entry_release(&made->entry);
    for (size_t i = 0; i < made->step_count; i++) {
        kiln_entry_release(&made->steps[i]);
    }
    free(made->steps);
    *made = (made_entries){0};
}

static made_entries find_entries(const worker *w)
{
    made_entries made = {0};
    kiln_store *store = NULL;
    if (kiln_store_open(w->store_folder,
                        &(kiln_store_params){.struct_size = sizeof(kiln_store_params),
                                             .flags = KILN_STORE_NO_CREATE},
                        &store, NULL) == KILN_OK) {
        kiln_store_each(store, find_made, &made);
        kiln_store_close(&store);
    }
    return made;
}

static bool write_bytes(const void *bytes, size_t size)
{
    const char *at = bytes;
    for (size_t left = size; left > 0;) {
        const ssize_t written = write(WORKER_ENTRY_FILE, at, left);
        if (written <= 0 && errno != EINTR) {
            return false;
        }
        at += written > 0 ? written : 0;
        left -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

static bool write_entry(const kiln_entry *entry)
{
    const kiln_bytes encoding = kiln_entry_encoding(entry);
    const uint64_t size = encoding.size;
    return write_bytes(&size, sizeof size) && write_bytes(encoding.data, encoding.size);
}

static bool write_entries(const made_entries *made)
{
    bool are_written = write_entry(made->entry);
    for (size_t i = 0; are_written && i < made->step_count; i++) {
        are_written = write_entry(made->steps[i]);
    }
    return are_written;
}

/* @result  if there is an entry */
static int report_entry(const worker *w, const char *result)
{
    made_entries made = find_entries(w);
    long seconds;
    if (made.entry == NULL && made.has_request) {
        made_entries_done(&made);
        run_child(w, capture, &seconds);
        made = find_entries(w);
    }
    if (made.entry == NULL) {
        owned char *why = traced(w, "passed-through");
        owned char *path = path_in(w, "trace");
        owned char *log = read_file(path);
        made_entries_done(&made);
        /* Without a reason of the layer, the process may have ended before the result was written.
         */
        return why != NULL ? report("impossible", why, log)
                           : report("left", "the result was not kept", log);
    }
    const bool are_written = write_entries(&made);
    made_entries_done(&made);
    return are_written ? report(result, NULL, NULL)
                       : report("left", "the result could not be passed on", NULL);
}

static int report_done(const worker *w)
{
    kiln_stats stats = {0};
    owned char *path = path_in(w, "stats");
    kiln_stats_read_file(path, &stats);
    return report_entry(w, stats.hits_store > 0 ? "present" : "built");
}

static int report_end(const worker *w, int status, long seconds)
{
    owned char *path = path_in(w, "output");
    owned char *output = read_file(path);
    owned char *done = path_in(w, "done");
    if (access(done, F_OK) == 0) {
        return report_done(w);
    }
    if (WIFEXITED(status)) {
        switch (WEXITSTATUS(status)) {
        case BUILD_FAILED:
            return report("failed", "the compiler refuses it", output);
        case BUILD_IMPOSSIBLE:
            return report("impossible", output, NULL);
        default: {
            owned char *why =
                text_of("the compiler ended with exit status %d", WEXITSTATUS(status));
            return report("failed", why, output);
        }
        }
    }
    const bool is_killed = WTERMSIG(status) == SIGKILL;
    if (is_killed && seconds + 1 < PROCESSOR_SECONDS_MIN) {
        return report("left", "the compiler was killed", output);
    }
    owned char *why = is_killed || WTERMSIG(status) == SIGXCPU
                          ? text_of("the compiler used %ld s of processor time", seconds)
                          : text_of("the compiler crashed: signal %d (%s)", WTERMSIG(status),
                                    strsignal(WTERMSIG(status)));
    return report("failed", why, output);
}

/* ---- setting up ---- */

static kiln_entry *read_entry(void)
{
    struct stat status;
    kiln_entry *entry = NULL;
    if (fstat(STDIN_FILENO, &status) != 0 || status.st_size == 0) {
        return NULL;
    }
    const size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0);
    if (bytes != MAP_FAILED) {
        if (kiln_entry_decode(bytes, size, &entry) != KILN_OK) {
            entry = NULL;
        }
        munmap(bytes, size);
    }
    return entry;
}

static bool make_folder(const worker *w, const char *name)
{
    owned char *path = path_in(w, name);
    return mkdir(path, 0700) == 0;
}

static bool write_source(const worker *w)
{
    owned char *name = recipe_text(w->of.key, "name");
    owned char *path = text_of("%s/%s", w->program_folder, name);
    kiln_key_part source;
    recipe_find(w->of.key, "source", 0, &source);
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool is_written =
        file >= 0 && write(file, source.bytes, (size_t)source.size) == (ssize_t)source.size;
    if (file >= 0) {
        close(file);
    }
    return is_written || errno == EEXIST;
}

/* Recreates what the build needs and is not here. Returns NULL, or why that is not possible. */
static char *recreate(const worker *w)
{
    owned char **libraries = must(calloc(w->library_count + 1, sizeof *libraries));
    memcpy(libraries, w->visible, w->library_count * sizeof *libraries);
    return w->terms->sandboxed
               ? missing_files_recreate(&w->missing, w->program_folder, !w->has_no_folder,
                                        w->working_folder, libraries)
               : NULL;
}

/* Entering needs a descriptor for each path that is visible. */
static char *enter_sandbox(const worker *w)
{
    struct rlimit before = {0};
    getrlimit(RLIMIT_NOFILE, &before);
    const struct rlimit most = {.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);
    char *why = sandbox_enter(w->visible, w->terms->cache);
    setrlimit(RLIMIT_NOFILE, &before);
    return why;
}

/* Enters the sandbox, and makes the folder in which the compiler may write. */
static char *enter(worker *w)
{
    add_visible(w, NULL);
    char *why = w->terms->sandboxed ? enter_sandbox(w) : NULL;
    if (why != NULL) {
        return why;
    }
    if (w->terms->sandboxed) {
        w->folder = must(strdup(SANDBOX_FOLDER));
    } else {
        const char *parent = getenv("TMPDIR");
        w->folder = text_of("%s/kiln-replay-XXXXXX", parent == NULL ? "/tmp" : parent);
        if (mkdtemp(w->folder) == NULL) {
            return text_of("%s: %s", w->folder, strerror(errno));
        }
    }
    w->store_folder = path_in(w, "store");
    if (w->program_folder == NULL) {
        w->program_folder = path_in(w, "program");
    }
    if (w->working_folder == NULL) {
        w->working_folder =
            w->is_in_own_folder ? must(strdup(w->program_folder)) : path_in(w, "work");
    }
    return make_folder(w, "home") && make_folder(w, "tmp") && make_folder(w, "work") &&
                   (w->has_no_folder || make_folder(w, "program"))
               ? NULL
               : text_of("%s: %s", w->folder, strerror(errno));
}

static int remove_path(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    remove(path);
    return 0;
}

static void wait_for_turn(void)
{
    sigset_t go;
    int signal_number;
    sigemptyset(&go);
    sigaddset(&go, WORKER_GO);
    sigwait(&go, &signal_number);
}

static int run(worker *w)
{
    long seconds;
    wait_for_turn();
    const int status = run_child(w, build, &seconds);
    const int exit_code = report_end(w, status, seconds);
    if (!w->terms->sandboxed) {
        nftw(w->folder, remove_path, 16, FTW_DEPTH | FTW_PHYS);
    }
    return exit_code;
}

int worker_run(const worker_terms *terms)
{
    worker w = {.terms = terms};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (strtol(terms->parent, NULL, 10) != (long)getppid()) {
        /* kiln replay was killed, and nobody waits; or a user has tried an internal option. */
        return EXIT_USAGE;
    }
    signal(SIGCHLD, SIG_DFL);
    kiln_entry *entry = read_entry();
    if (entry == NULL) {
        return report("left", "the entry can't be read", NULL);
    }
    owned char *why = recipe_read(entry, &w.of);
    show_libraries(&w);
    if (why == NULL) {
        show_include_folders(&w);
        why = reason_against_files(&w);
    }
    if (why != NULL) {
        return report("impossible", why, NULL);
    }
    find_working_folder(&w);
    why = enter(&w);
    if (why != NULL) {
        return report("left", why, NULL);
    }
    why = recreate(&w);
    if (why != NULL) {
        return report("impossible", why, NULL);
    }
    if (w.has_source_file && !write_source(&w)) {
        return report("left", "the program's source can't be written to a file", NULL);
    }
    return run(&w);
}
