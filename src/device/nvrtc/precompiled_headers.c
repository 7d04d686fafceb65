/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/precompiled_headers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/nvrtc/log.h"
#include "key/hash.h"

typedef struct precompiled_header {
    char *path;
    char *source; /* of the program that made it */
    kiln_digest inputs;
    kilni_reads *reads;
    kilni_folds *folds;
    struct precompiled_header *next;
} precompiled_header;

/* Guards the list. NVRTC's memory for these headers limits their number. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static precompiled_header *headers;

bool kilni_nvrtc_precompiles_headers(int option_count, const char *const *options)
{
    bool does = false;
    for (int i = 0; i < option_count && !does; i++) {
        const char *name = options[i] + strspn(options[i], KILNI_OPTION_BLANKS);
        name += *name == '-' ? strspn(name, "-") : strlen(name);
        does = strncmp(name, "pch", 3) == 0 && name[3 + strspn(name + 3, KILNI_OPTION_BLANKS)] == 0;
    }
    return does;
}

/* NVRTC also makes a file such as /tmp/edg0_1234, with the process ID, and removes it before it
 * writes to it. */
static bool is_removed_at_once(const char *path)
{
    const char *slash = strrchr(path, '/');
    long process = 0;
    int end = 0;
    return slash && sscanf(slash, "/edg%*u_%ld%n", &process, &end) == 1 && slash[end] == '\0' &&
           process == (long)getpid();
}

bool kilni_nvrtc_is_precompiled_header(const void *user, const char *path)
{
    char own[KILNI_NVRTC_HEADER_FOLDER_SIZE];
    (void)user;
    kilni_nvrtc_name_header_folder(own);
    return (strstr(path, own) && !strstr(path, "/../")) || is_removed_at_once(path);
}

/* ---- which programs can share a header ---- */

/* Returns the length of a source up to the end of the line with its last directive. NVRTC
 * precompiles what comes before the first declaration. */
static size_t directives_length(const char *source)
{
    const char *end = source;
    for (const char *at = source; *at; at++) {
        if (*at == '#' || strncmp(at, "%:", 2) == 0 || strncmp(at, "?\?=", 3) == 0) {
            end = at + strcspn(at, "\n");
        }
    }
    return (size_t)(end - source);
}

static bool have_same_directives(const char *a, const char *b)
{
    const size_t length = directives_length(a);
    return directives_length(b) == length && memcmp(a, b, length) == 0;
}

static void add_texts(kilni_hasher *hasher, size_t count, const char *const *texts)
{
    const uint64_t number = count;
    kilni_hasher_add(hasher, &number, sizeof number);
    for (size_t i = 0; i < count; i++) {
        kilni_hasher_add(hasher, texts[i], strlen(texts[i]) + 1);
    }
}

/* Hashes all inputs except the source and the name expressions, which NVRTC appends to it. */
static kiln_digest hash_inputs(const kilni_inputs *inputs)
{
    kilni_hasher hasher;
    kilni_hasher_begin(&hasher);
    add_texts(&hasher, inputs->name ? 1 : 0, &inputs->name);
    add_texts(&hasher, inputs->header_count, inputs->headers);
    add_texts(&hasher, inputs->header_count, inputs->header_names);
    add_texts(&hasher, inputs->option_count, inputs->options);
    return kilni_hasher_end(&hasher);
}

/* ---- following ---- */

static void free_header(precompiled_header *header)
{
    free(header->path);
    free(header->source);
    kilni_reads_free(&header->reads);
    kilni_folds_free(&header->folds);
    free(header);
}

/* If memory runs out, there is no header, and nothing that uses it is kept. Takes over @path. */
static void add_header(char *path, const kilni_inputs *inputs, const kilni_reads *reads,
                       const kilni_folds *folds)
{
    precompiled_header *made = calloc(1, sizeof *made);
    if (!made) {
        free(path);
        return;
    }
    made->path = path;
    made->source = strdup(inputs->source);
    made->inputs = hash_inputs(inputs);
    if (!made->source || kilni_reads_new(NULL, inputs->compiler->words, &made->reads) != KILN_OK ||
        kilni_folds_new(&made->folds) != KILN_OK) {
        free_header(made);
        return;
    }
    kilni_reads_add_all(made->reads, reads);
    kilni_folds_add_all(made->folds, folds);
    pthread_mutex_lock(&lock);
    made->next = headers;
    headers = made;
    pthread_mutex_unlock(&lock);
}

static const char *use_header(const char *path, const kilni_inputs *inputs, kilni_reads *reads,
                              kilni_folds *folds)
{
    const char *why = NULL;
    const kiln_digest digest = hash_inputs(inputs);
    pthread_mutex_lock(&lock);
    const precompiled_header *header = headers;
    while (header && strcmp(header->path, path) != 0) {
        header = header->next;
    }
    if (!header) {
        why = "it uses a precompiled header whose compilation was not observed";
    } else if (memcmp(&header->inputs, &digest, sizeof digest) != 0 ||
               !have_same_directives(header->source, inputs->source)) {
        why = "it uses a precompiled header that was made from different inputs";
    } else {
        kilni_reads_add_all(reads, header->reads);
        kilni_folds_add_all(folds, header->folds);
    }
    pthread_mutex_unlock(&lock);
    return why;
}

const char *kilni_nvrtc_follow_precompiled_headers(const kilni_nvrtc_functions *nvrtc,
                                                   kilni_nvrtc_program program,
                                                   const kilni_inputs *inputs, kilni_reads *reads,
                                                   kilni_folds *folds)
{
    if (!kilni_nvrtc_precompiles_headers((int)inputs->option_count, inputs->options)) {
        return NULL;
    }
    char *log = kilni_nvrtc_log_copy(nvrtc, program);
    char *used = log ? kilni_nvrtc_log_find_header(log, inputs->name, "using") : NULL;
    char *made = log && !used ? kilni_nvrtc_log_find_header(log, inputs->name, "creating") : NULL;
    const char *why = used || made ? NULL : "the log does not name the precompiled header";
    if (used) {
        why = use_header(used, inputs, reads, folds);
    } else if (made) {
        add_header(made, inputs, reads, folds);
    }
    free(used);
    free(log);
    return why;
}
