/* SPDX-License-Identifier: Apache-2.0 */
#include "device/hiprtc/compiler.h"

#include <fnmatch.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* No option is refused here: kilni_hiprtc_options_refusal examines all of them. No option that it
 * accepts makes the result contain the working directory. */
static const char *const nothing[] = {NULL};

/* ---- words ---- */

static const char *const words[] = {
    /* These read a clock. */
    "__DATE__", "__TIME__", "__TIMESTAMP__",
    /* These yield the path of a file, which can be in a folder with a random name. */
    "__FILE__", "__BASE_FILE__", "__builtin_FILE", "__builtin_source_location", "source_location",
    /* These yield the name of a type, and that of a lambda contains the path of its file. */
    "__PRETTY_FUNCTION__", "__FUNCSIG__", "L__FUNCSIG__", "__builtin_FUNCSIG",
    "__builtin_dump_struct",
    /* These test whether a file exists. */
    "__has_include", "__has_include_next", "__has_embed",
    /* These let macros make a #pragma. */
    "_Pragma", "__pragma",
    /* This reads a file's time in a #pragma. */
    "dependency"};

enum { PLACES = 3, FILES = 13, OPERATORS = 16, PRAGMAS = 18, END = 19 };

#define BITS(from, to) ((UINT64_C(1) << (to)) - (UINT64_C(1) << (from)))

static const kilni_word_list word_list = {
    .words = words,
    .count = END,
    .pasted_count = END,
    .of_pragmas = BITS(PRAGMAS, END),
    .pragma_operators = BITS(OPERATORS, PRAGMAS),
};

static const char *refuse_words(const kilni_words *seen)
{
    const uint64_t found = kilni_words_found(seen);
    return found & KILNI_SEEN_LONE_RETURN ? KILNI_LONE_RETURN_REFUSAL
           : found & BITS(0, PLACES)      ? "__DATE__, __TIME__ or __TIMESTAMP__"
           : found & BITS(PLACES, FILES)
               ? "__FILE__ or a similar word: the folder of the source has a random name"
           : found & BITS(PRAGMAS, END) ? "a #pragma that asks for a file's time"
                                        : NULL;
}

const kilni_compiler kilni_hiprtc_compiler = {
    .entry_point = "hiprtcCompileProgram",
    .unkept_options = nothing,
    .placed_options = nothing,
    .words = &word_list,
    .refuse_words = refuse_words,
};

/* ---- options ---- */

/* Patterns of options that affect only the compilation that has them, and make the compiler read no
 * files that are not observed: see docs/hiprtc.md. */
static const char *const known[] = {
    /* language and messages */
    "-D?*", "-U?*", "-I?*", "-isystem?*", "-iquote?*", "-idirafter?*", "-std=*", "--std=*",
    "-pedantic", "-pedantic-errors", "-w", "-W[!alp]*", "-W[alp][!,]*", "-fno-*", "-fexceptions",
    "-frtti", "-fms-extensions", "-fdeclspec", "-fvisibility=*", "-ftemplate-depth=*",
    "-fconstexpr-*", "-fbracket-depth=*", "-fsigned-char", "-funsigned-char", "-fchar8_t",
    "-fcolor-diagnostics", "-ferror-limit=*", "-ffreestanding", "-fbuiltin",
    /* code */
    "-O", "-O[0123sz]", "-Ofast", "-ffast-math", "-ffp-*", "-fgpu-*", "-fcuda-*", "-fhip-*",
    "-fdenormal-fp-math*", "-fassociative-math", "-freciprocal-math", "-fapprox-func",
    "-ffinite-math-only", "-funsafe-math-optimizations", "-fmath-errno", "-fsigned-zeros",
    "-frounding-math", "-fstrict-*", "-fwrapv", "-finline*", "-funroll-loops", "-fvectorize",
    "-fslp-vectorize", "-fomit-frame-pointer", "-mcumode", "-mwavefrontsize64", "-mtgsplit",
    "-munsafe-fp-atomics", "-mno-*", "--gpu-max-threads-per-block=*", "--offload-arch=gfx*",
    "--gpu-architecture=gfx*", "-hip-pch", "-nogpulib", "-nogpuinc",
    /* where files are */
    "--hip-path=*", "--rocm-path=*", "--rocm-device-lib-path=*", "--hip-device-lib-path=*", NULL};

/* Exceptions from these patterns: clang turns such an option into one of LLVM's, as with -mllvm. */
static const char *const kept_in_llvm[] = {"-fgpu-inline-threshold=*",
                                           "-fno-global-isel",
                                           "-fno-experimental-isel",
                                           "-mno-outline",
                                           "-mno-restrict-it",
                                           "-mno-code-object-*",
                                           NULL};

static const char *const known_with_values[] = {"-D",      "-U",         "-I",       "-isystem",
                                                "-iquote", "-idirafter", "-include", NULL};

static const char *const architectures[] = {"--offload-arch=gfx*", "--gpu-architecture=gfx*", NULL};

/* Whether a program of this process had an option that is not known. Relaxed: if a compilation
 * affects a later one, the lock of comgr orders the two. */
static atomic_bool has_unknown;

static bool is_any(const char *option, const char *const *patterns)
{
    while (*patterns && fnmatch(*patterns, option, 0) != 0) {
        patterns++;
    }
    return *patterns != NULL;
}

/* Returns how many words an option that is known consists of, 1 or 2; 0 if it is not known. */
static int count_known(const char *option, const char *next)
{
    return is_any(option, kept_in_llvm)                ? 0
           : is_any(option, known)                     ? 1
           : next && is_any(option, known_with_values) ? 2
                                                       : 0;
}

const char *kilni_hiprtc_options_refusal(int count, const char *const *options)
{
    bool has_architecture = false;
    int taken = 1;
    for (int i = 0; i < count && taken > 0; i += taken) {
        taken = count_known(options[i], i + 1 < count ? options[i + 1] : NULL);
        has_architecture |= is_any(options[i], architectures);
    }
    if (taken == 0) {
        atomic_store_explicit(&has_unknown, true, memory_order_relaxed);
        return "an option that Kiln does not know";
    }
    return has_architecture ? NULL : "no option names the architecture, so the present GPU decides";
}

const char *kilni_hiprtc_result_refusal(void)
{
    return atomic_load_explicit(&has_unknown, memory_order_relaxed)
               ? "HIPRTC may not have forgotten an option of a different compilation"
               : NULL;
}

/* ---- what it reads ---- */

/* clang finds out once in a process which distribution it runs on, and LLVM whether it can ask for
 * the paths of open files. */
static const char *const read_once[] = {
    "/proc/self/fd",       "/etc/os-release",     "/usr/lib/os-release", "/etc/lsb-release",
    "/etc/redhat-release", "/etc/debian_version", "/etc/SuSE-release",   "/etc/exherbo-release",
    "/etc/alpine-release", "/etc/arch-release",   "/etc/gentoo-release", NULL};

kiln_status kilni_hiprtc_prepare_reads(kilni_reads *reads, int count, const char *const *options)
{
    kilni_reads_expect_folders(reads, "comgr-");
    kilni_reads_count_facts_alone(reads);
    for (const char *const *path = read_once; *path; path++) {
        kilni_reads_note(reads, *path);
    }
    kiln_status status = kilni_reads_count_working_folder(reads);
    if (status == KILN_OK) {
        /* Folders that clang searches by default. */
        status = kilni_reads_see_options(reads, "/usr/local/include /usr/include");
    }
    for (int i = 0; i < count && status == KILN_OK; i++) {
        status = kilni_reads_see_options(reads, options[i]);
    }
    return status;
}

/* A compiler that knows that a path is a folder might answer "no" without looking at the path. */
void kilni_hiprtc_complete_reads(kilni_reads *reads, const kilni_words *given)
{
    kilni_words all = *given;
    kilni_words_add(&all, kilni_reads_words(reads));
    if (kilni_words_found(&all) & BITS(FILES, OPERATORS)) {
        kilni_reads_note(reads, getenv("PWD"));
        kilni_reads_note_real_path(reads, ".");
    }
}
