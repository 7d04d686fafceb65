/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/description.h"

#include <stdbool.h>
#include <string.h>

#include <kiln/nvrtc.h>

#include "device/nvrtc/outputs.h"

/* A longer list of names would be of no use to readers. */
enum { MAX_NAME_BYTES = 200 };

static bool is_part(const kiln_key_part *part, const char *name)
{
    return part->bytes && strcmp(part->name, name) == 0;
}

/* The value of -arch or --gpu-architecture. The value is in the same option, or it is the next
 * option. */
typedef struct architecture {
    bool is_next;
    kiln_bytes found;
} architecture;

static void see_option(architecture *a, const char *text, size_t size)
{
    static const char *const names[] = {"-arch", "--arch", "--gpu-architecture",
                                        "-gpu-architecture", "--offload-arch"};
    if (a->is_next) {
        a->found = (kiln_bytes){text, size};
        a->is_next = false;
    }
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const size_t length = strlen(names[n]);
        const bool matches = size >= length && memcmp(text, names[n], length) == 0;
        a->is_next = a->is_next || (matches && size == length);
        if (matches && size > length && text[length] == '=') {
            a->found = (kiln_bytes){text + length + 1, size - length - 1};
        }
    }
}

static kiln_status append_architecture(const architecture *a, kilni_text *device)
{
    return a->found.size > 0 && a->found.size < 32
               ? kilni_text_printf(device, " %.*s", (int)a->found.size, (const char *)a->found.data)
               : KILN_OK;
}

static kiln_status describe_device(const kiln_key *key, kilni_text *device)
{
    architecture a = {0};
    kiln_status status = kilni_text_append(device, "");
    for (size_t i = 0; i < kiln_key_part_count(key); i++) {
        kiln_key_part part;
        kiln_key_part_at(key, i, &part);
        const bool is_hip = is_part(&part, "hiprtc.version");
        if (is_hip || is_part(&part, "nvrtc.version")) {
            status = kilni_text_printf(device, "%s %.*s", is_hip ? "HIPRTC" : "NVRTC",
                                       (int)part.size, (const char *)part.bytes);
        } else if (is_part(&part, "option")) {
            see_option(&a, part.bytes, (size_t)part.size);
        }
    }
    return status == KILN_OK ? append_architecture(&a, device) : status;
}

kiln_status kilni_nvrtc_describe_device(const kilni_nvrtc_functions *nvrtc, char *const *options,
                                        size_t option_count, kilni_text *ret_device)
{
    int major = 0, minor = 0;
    architecture a = {0};
    for (size_t i = 0; i < option_count; i++) {
        see_option(&a, options[i], strlen(options[i]));
    }
    kiln_status status = nvrtc->version(&major, &minor) == KILNI_NVRTC_SUCCESS
                             ? kilni_text_printf(ret_device, "NVRTC %d.%d", major, minor)
                             : kilni_text_append(ret_device, "NVRTC");
    return status == KILN_OK ? append_architecture(&a, ret_device) : status;
}

/* Appends the kernels' names, as PTX declares them. */
static kiln_status add_kernels(kiln_bytes ptx, kilni_text *name)
{
    static const char declaration[] = ".entry ";
    const char *at = ptx.size > 0 ? ptx.data : "", *end = at + ptx.size;
    kiln_status status = KILN_OK;
    while (status == KILN_OK && name->length < MAX_NAME_BYTES &&
           (at = memmem(at, (size_t)(end - at), declaration, sizeof declaration - 1)) != NULL) {
        at += sizeof declaration - 1;
        const char *begin = at;
        while (at < end && *at != '(' && *at != ' ' && *at != '\n' && *at != '\0') {
            at++;
        }
        status = kilni_text_printf(name, "%s%.*s", name->length > 0 ? " " : "", (int)(at - begin),
                                   begin);
    }
    return status;
}

/* Appends the kernels' names, as an ELF file of AMD's has them among its symbols: "NAME.kd". */
static kiln_status add_amd_kernels(kiln_bytes code, kilni_text *name)
{
    static const char ending[] = ".kd"; /* with its zero byte */
    const char *const start = code.size > 0 ? code.data : "", *end = start + code.size;
    const char *at = start;
    kiln_status status = KILN_OK;
    while (status == KILN_OK && name->length < MAX_NAME_BYTES &&
           (at = memmem(at, (size_t)(end - at), ending, sizeof ending)) != NULL) {
        const char *begin = at;
        while (begin > start && begin[-1] != '\0') {
            begin--;
        }
        const int length = at - begin < MAX_NAME_BYTES ? (int)(at - begin) : MAX_NAME_BYTES;
        at += sizeof ending;
        /* The symbols are listed twice. */
        if (!name->bytes || !memmem(name->bytes, name->length, begin, (size_t)length)) {
            status = kilni_text_printf(name, "%s%.*s", name->length > 0 ? " " : "", length, begin);
        }
    }
    return status;
}

kiln_status kilni_nvrtc_describe(const kiln_key *key, const char *name,
                                 const kilni_stored_result *made,
                                 kilni_nvrtc_description *ret_description)
{
    kilni_nvrtc_description description = {0};
    kilni_nvrtc_outputs outputs;
    kiln_status status = kilni_nvrtc_outputs_decode(made->outputs, made->code, name, &outputs);
    if (status != KILN_OK) {
        return status;
    }
    status = describe_device(key, &description.device);
    if (status == KILN_OK) {
        status = add_kernels(outputs.answers[KILNI_NVRTC_PTX].bytes, &description.name);
    }
    if (status == KILN_OK) {
        status = add_amd_kernels(outputs.answers[KILNI_HIPRTC_CODE].bytes, &description.name);
    }
    if (status == KILN_OK && description.name.length == 0) {
        status = kilni_text_append(&description.name, name ? name : "");
    }
    const kiln_bytes *log = &outputs.answers[KILNI_NVRTC_LOG].bytes;
    if (status == KILN_OK && log->size > 1) {
        status = kilni_text_append_bytes(&description.log, log->data, log->size - 1);
    }
    log = &outputs.answers[KILNI_HIPRTC_LOG].bytes;
    if (status == KILN_OK && log->size > 0) {
        status = kilni_text_append_bytes(&description.log, log->data, log->size);
    }
    kilni_nvrtc_outputs_done(&outputs);
    if (status != KILN_OK) {
        kilni_nvrtc_description_done(&description);
        return status;
    }
    *ret_description = description;
    return KILN_OK;
}

void kilni_nvrtc_description_done(kilni_nvrtc_description *description)
{
    kilni_text_done(&description->device);
    kilni_text_done(&description->name);
    kilni_text_done(&description->log);
}

/* ---- the reads of a result ---- */

/* nvJitLink's links and HIPRTC's compilations are stored in the same way as NVRTC's. */
static bool has_reads(const kiln_entry *entry)
{
    const kiln_key *key = kiln_entry_key(entry);
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, "nvrtc.version") == 0 ||
            strcmp(part.name, "nvjitlink.version") == 0 ||
            strcmp(part.name, "hiprtc.version") == 0) {
            return true;
        }
    }
    return false;
}

kiln_status kiln_nvrtc_each_read(const kiln_entry *entry, size_t result, kiln_read_fn visit,
                                 void *user)
{
    if (!entry || !visit) {
        return KILN_E_INVALID;
    }
    return has_reads(entry) ? kilni_results_each_read(entry, result, NULL, visit, user)
                            : KILN_E_UNSUPPORTED;
}
