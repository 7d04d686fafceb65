/* SPDX-License-Identifier: Apache-2.0 */
#include "store/location.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "base/sized_struct.h"
#include "store/signing/signers.h"

#define DEFAULT_MAX_BYTES ((uint64_t)2 << 30)
#define DEFAULT_MAX_ENTRY_BYTES ((uint64_t)1 << 30)
#define DEFAULT_USE_INTERVAL_S 3600u
#define SECONDS_OF_A_DAY 86400u
#define KNOWN_FLAGS                                                                                \
    (KILN_STORE_READONLY | KILN_STORE_SYNC | KILN_STORE_NO_LEASE | KILN_STORE_NO_CREATE |          \
     KILN_STORE_NOTE_MISSES | KILN_STORE_NO_TRIM_AT_CLOSE | KILN_STORE_JOURNAL)

/* Copies the caller's struct. Its size can be that of an older or a newer version of the library.
 */
static kiln_status copy_params(const kiln_store_params *given, kiln_store_params *ret_params,
                               kiln_error *error)
{
    kiln_store_params params = {0};
    if (given) {
        size_t known = given->struct_size < sizeof params ? given->struct_size : sizeof params;
        if (known < sizeof given->struct_size) {
            return kilni_error_set(error, KILN_E_INVALID, 0, "kiln_store_params: no struct_size");
        }
        const unsigned char *bytes = (const unsigned char *)given;
        for (size_t i = known; i < given->struct_size; i++) {
            if (bytes[i] != 0) {
                return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                       "kiln_store_params: unknown fields are set");
            }
        }
        memcpy(&params, given, known);
    }
    if (params.flags & ~KNOWN_FLAGS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "unknown store flags 0x%x",
                               (unsigned)(params.flags & ~KNOWN_FLAGS));
    }
    if (params.policy > KILN_POLICY_NO_EVICT) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "unknown store policy %u",
                               (unsigned)params.policy);
    }
    *ret_params = params;
    return KILN_OK;
}

/* The layouts: how a directory names its entries. */
static const struct layout {
    const char *name;
    bool has_backends;
} layouts[] = {
    [KILNI_STORE_LAYOUT_KILN] = {"kiln", false},
    [KILNI_STORE_LAYOUT_SYCL] = {"sycl", false},
    [KILNI_STORE_LAYOUT_ONEDNN] = {"onednn", true},
};

static bool find_layout(const char *name, kilni_store_layout *ret_layout)
{
    for (unsigned i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (strcmp(name, layouts[i].name) == 0) {
            *ret_layout = (kilni_store_layout)i;
            return true;
        }
    }
    return false;
}

static kiln_status options_from_params(const kiln_store_params *given,
                                       kilni_store_options *ret_options, kiln_error *error)
{
    kiln_store_params params = {0};
    kiln_status status = copy_params(given, &params, error);
    if (status != KILN_OK) {
        return status;
    }
    kiln_store_credentials credentials = {0};
    status = kilni_sized_struct_copy(params.credentials, &credentials, sizeof credentials);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "kiln_store_credentials: not of this version");
    }
    *ret_options = (kilni_store_options){
        .max_bytes = params.max_bytes ? params.max_bytes : DEFAULT_MAX_BYTES,
        .flags = params.flags,
        .use_interval_s = params.use_interval_s ? params.use_interval_s : DEFAULT_USE_INTERVAL_S,
        .log = params.log,
        .policy = params.policy,
        .max_age_s = params.max_age_s,
        .max_entry_bytes = params.max_entry_bytes,
        .key_file = params.key_file,
        .token_file = credentials.http_token_file,
        .password = credentials.redis_password,
        .secret_key_file = credentials.secret_key_file,
        .trusted_key_files = {credentials.trusted_key_files[0], credentials.trusted_key_files[1]},
        .credentials_file = credentials.aws_credentials_file,
        .access_key = credentials.aws_access_key_id,
        .secret_key = credentials.aws_secret_access_key,
        .session_token = credentials.aws_session_token,
        .region = credentials.aws_region,
    };
    if (params.layout && !find_layout(params.layout, &ret_options->layout)) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "unknown layout \"%s\": expected kiln, sycl or onednn",
                               params.layout);
    }
    return KILN_OK;
}

static int hex_digit(char character)
{
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    if (character >= 'a' && character <= 'f') {
        return character - 'a' + 10;
    }
    if (character >= 'A' && character <= 'F') {
        return character - 'A' + 10;
    }
    return -1;
}

/* Decodes the percent escapes in one part of a URL, in place. */
static kiln_status decode_percent(char *text, kiln_error *error)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        char character = *from;
        if (character == '%') {
            int high = hex_digit(from[1]);
            int low = high < 0 ? -1 : hex_digit(from[2]);
            if (low < 0 || (high == 0 && low == 0)) {
                return kilni_error_set(error, KILN_E_PARSE, 0,
                                       "\"%.3s\" is not a valid escape in a URL", from);
            }
            character = (char)(high * 16 + low);
            from += 2;
        }
        *to++ = character;
    }
    *to = '\0';
    return KILN_OK;
}

/* Parses an option's value and stores it in the options. Returns false if the value is not valid.
 */
typedef bool option_reader(const char *value, kilni_store_options *options);

static bool set_flag(const char *value, uint32_t flag, const char *on, const char *off,
                     kilni_store_options *options)
{
    if (strcmp(value, on) == 0) {
        options->flags |= flag;
        return true;
    }
    options->flags &= ~flag;
    return strcmp(value, off) == 0;
}

static bool read_max_size(const char *value, kilni_store_options *options)
{
    return kilni_size_parse(value, &options->max_bytes) == KILN_OK;
}

static bool read_max_entry(const char *value, kilni_store_options *options)
{
    return kilni_size_parse(value, &options->max_entry_bytes) == KILN_OK &&
           options->max_entry_bytes > 0;
}

static bool read_readonly(const char *value, kilni_store_options *options)
{
    return set_flag(value, KILN_STORE_READONLY, "1", "0", options);
}

static bool read_owner(const char *value, kilni_store_options *options)
{
    options->trusts_any_owner = strcmp(value, "any") == 0;
    return options->trusts_any_owner || strcmp(value, "self") == 0;
}

static bool read_sync(const char *value, kilni_store_options *options)
{
    return set_flag(value, KILN_STORE_SYNC, "1", "0", options);
}

static bool read_lease(const char *value, kilni_store_options *options)
{
    return set_flag(value, KILN_STORE_NO_LEASE, "off", "on", options);
}

/* Reads a decimal number of at most 32 bits. Only digits are allowed. */
static bool read_number(const char *value, uint64_t *ret_number)
{
    return value[0] != '\0' && strspn(value, "0123456789") == strlen(value) &&
           kilni_size_parse(value, ret_number) == KILN_OK && *ret_number <= UINT32_MAX;
}

static bool read_stamp(const char *value, kilni_store_options *options)
{
    uint64_t seconds = 0;
    if (!read_number(value, &seconds)) {
        return false;
    }
    options->use_interval_s = (uint32_t)seconds;
    return true;
}

static bool read_policy(const char *value, kilni_store_options *options)
{
    for (uint32_t policy = 0; policy <= KILN_POLICY_NO_EVICT; policy++) {
        if (strcmp(value, kiln_policy_name(policy)) == 0) {
            options->policy = policy;
            return true;
        }
    }
    return false;
}

static bool read_max_age(const char *value, kilni_store_options *options)
{
    uint64_t days = 0;
    if (!read_number(value, &days)) {
        return false;
    }
    options->max_age_s = days * SECONDS_OF_A_DAY;
    return true;
}

static bool read_layout(const char *value, kilni_store_options *options)
{
    return find_layout(value, &options->layout);
}

bool kilni_location_is_backend_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-";
    const size_t length = strlen(name);
    return length < KILNI_STORE_BACKEND_SIZE && strspn(name, letters) > 0 &&
           strspn(name, allowed) == length && strcmp(name, "v1") != 0;
}

static bool read_backend(const char *value, kilni_store_options *options)
{
    const bool is_name = kilni_location_is_backend_name(value);
    if (is_name) {
        memcpy(options->backend, value, strlen(value) + 1);
    }
    return is_name;
}

static bool read_write(const char *value, kilni_store_options *options)
{
    static const char *const names[] = {
        [KILNI_WRITE_ALL] = "all", [KILNI_WRITE_FIRST] = "first", [KILNI_WRITE_NONE] = "none"};
    for (unsigned i = KILNI_WRITE_ALL; i <= KILNI_WRITE_NONE; i++) {
        if (strcmp(value, names[i]) == 0) {
            options->write = (kilni_store_write)i;
            return true;
        }
    }
    return false;
}

/* The option points to @value, which is in the memory of the location's path. */
static bool read_key_file(const char *value, kilni_store_options *options)
{
    options->key_file = value;
    return value[0] == '/';
}

static bool read_secret_key_file(const char *value, kilni_store_options *options)
{
    options->secret_key_file = value;
    return value[0] == '/';
}

static bool read_password_file(const char *value, kilni_store_options *options)
{
    options->password_file = value;
    return value[0] == '/';
}

static bool read_token_file(const char *value, kilni_store_options *options)
{
    options->token_file = value;
    return value[0] == '/';
}

/* If the location names a credentials file, the keys in the caller's params are ignored. */
static bool read_credentials_file(const char *value, kilni_store_options *options)
{
    options->credentials_file = value;
    options->access_key = options->secret_key = options->session_token = NULL;
    return value[0] == '/';
}

static bool read_endpoint(const char *value, kilni_store_options *options)
{
    options->endpoint = value;
    return strncmp(value, "http://", 7) == 0 || strncmp(value, "https://", 8) == 0;
}

static bool read_region(const char *value, kilni_store_options *options)
{
    options->region = value;
    return value[0] != '\0';
}

static bool read_ca(const char *value, kilni_store_options *options)
{
    options->ca_file = value;
    return value[0] == '/';
}

static bool read_certificate(const char *value, kilni_store_options *options)
{
    options->certificate_file = value;
    return value[0] == '/';
}

static bool read_certificate_key(const char *value, kilni_store_options *options)
{
    options->certificate_key_file = value;
    return value[0] == '/';
}

static bool read_trust(const char *value, kilni_store_options *options)
{
    options->trusts_any = strcmp(value, "any") == 0;
    return options->trusts_any || strcmp(value, "signed") == 0;
}

static bool read_expire(const char *value, kilni_store_options *options)
{
    uint64_t days = 0;
    if (!read_number(value, &days)) {
        return false;
    }
    options->expire_s = days * SECONDS_OF_A_DAY;
    return true;
}

static bool read_valid(const char *value, kilni_store_options *options)
{
    uint64_t days = 0;
    if (!read_number(value, &days)) {
        return false;
    }
    options->signature_valid_s = days * SECONDS_OF_A_DAY;
    return true;
}

static const struct option {
    const char *name;
    option_reader *read;
    const char *expected;
} known_options[] = {
    {"max-size", read_max_size, "a number of bytes, with a suffix K, M, G or T"},
    {"max-entry", read_max_entry, "a number of bytes above 0, with a suffix K, M, G or T"},
    {"readonly", read_readonly, "0 or 1"},
    {"owner", read_owner, "self or any"},
    {"sync", read_sync, "0 or 1"},
    {"lease", read_lease, "on or off"},
    {"stamp", read_stamp, "a number of seconds"},
    {"policy", read_policy, "cost, lru, fifo or no_evict"},
    {"max-age", read_max_age, "a number of days"},
    {"layout", read_layout, "kiln, sycl or onednn"},
    {"backend", read_backend, "up to 31 letters, digits, '_' and '-', a letter first, and not v1"},
    {"write", read_write, "all, first or none"},
    {"key-file", read_key_file, "an absolute path"},
    {"secret-key-file", read_secret_key_file, "an absolute path"},
    {"valid", read_valid, "a number of days"},
    {"password-file", read_password_file, "an absolute path"},
    {"token-file", read_token_file, "an absolute path"},
    {"credentials-file", read_credentials_file, "an absolute path"},
    {"endpoint", read_endpoint, "http:// or https:// and a host"},
    {"region", read_region, "the name of a region"},
    {"ca", read_ca, "an absolute path"},
    {"cert", read_certificate, "an absolute path"},
    {"key", read_certificate_key, "an absolute path"},
    {"trust", read_trust, "signed or any"},
    {"expire", read_expire, "a number of days"},
};

enum { OPTION_COUNT = sizeof known_options / sizeof known_options[0] };

/* Returns NULL if URLs of this engine have no option with this name. */
static const struct option *option_of(const kilni_store_engine *engine, const char *name)
{
    for (const char *const *has = engine->options; *has; has++) {
        for (unsigned i = 0; strcmp(*has, name) == 0 && i < OPTION_COUNT; i++) {
            if (strcmp(known_options[i].name, name) == 0) {
                return &known_options[i];
            }
        }
    }
    return NULL;
}

/* Reads one "name=value". @seen has a bit for each option that has already occurred in this URL. */
static kiln_status read_option(char *text, const kilni_store_engine *engine, unsigned *seen,
                               kilni_store_options *options, kiln_error *error)
{
    char *value = strchr(text, '=');
    if (!value) {
        return kilni_error_set(error, KILN_E_PARSE, 0, "option \"%s\" has no value", text);
    }
    *value++ = '\0';
    kiln_status status = decode_percent(value, error);
    if (status != KILN_OK) {
        return status;
    }
    const struct option *option = option_of(engine, text);
    if (!option) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s has no option \"%s\"",
                               engine->noun, text);
    }
    const unsigned bit = 1u << (option - known_options);
    if (*seen & bit) {
        return kilni_error_set(error, KILN_E_PARSE, 0, "option \"%s\" is given twice", text);
    }
    *seen |= bit;
    if (option->read(value, options)) {
        return KILN_OK;
    }
    return kilni_error_set(error, option->read == read_layout ? KILN_E_UNSUPPORTED : KILN_E_PARSE,
                           0, "%s=%s: expected %s", text, value, option->expected);
}

static kiln_status read_options(char *query, const kilni_store_engine *engine,
                                kilni_store_options *options, kiln_error *error)
{
    unsigned seen = 0;
    kiln_status status = KILN_OK;
    while (status == KILN_OK && query) {
        char *end = strchr(query, '&');
        if (end) {
            *end++ = '\0';
        }
        status = read_option(query, engine, &seen, options, error);
        query = end;
    }
    return status;
}

/* Splits @text, which is a URL without its scheme, into path and options. The path stays in @text.
 */
static kiln_status read_url(char *text, const kilni_store_engine *engine,
                            kilni_store_options *options, kiln_error *error)
{
    if (strpbrk(text, "#|")) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "%s: '#' and '|' must be written %%23 and %%7C", text);
    }
    char *query = strchr(text, '?');
    if (query) {
        *query++ = '\0';
    }
    kiln_status status = decode_percent(text, error);
    return status == KILN_OK ? read_options(query, engine, options, error) : status;
}

/* Returns the beginning of the path in @text, which is a URL without its scheme. */
static const char *path_in_url(const char *text)
{
    return strncmp(text, "//", 2) == 0 ? text + 2 : text;
}

/* Returns NULL if no engine has the location's scheme. */
static const kilni_store_engine *engine_of(const char *location,
                                           const kilni_store_engine *const *engines)
{
    while (*engines && strncmp(location, (*engines)->scheme, strlen((*engines)->scheme)) != 0) {
        engines++;
    }
    return *engines;
}

static kiln_status complain_of_scheme(const char *location, kiln_error *error)
{
    size_t length = strspn(location, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789+-.");
    if (location[length] != ':') {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "\"%s\": neither a URL nor a path that begins with '/' or '.'",
                               location);
    }
    return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "unknown kind of store \"%.*s\"",
                           (int)(length < 100 ? length : 100), location);
}

/* Copies the path and the texts of the options into one block of memory, and makes the options
 * point to these copies. Copies are needed because a chain can open a tier after the caller has
 * freed the texts. Returns NULL if memory runs out. */
static char *keep_texts(const char *path, kilni_store_options *options)
{
    const char **const texts[] = {
        &path,
        &options->token_file,
        &options->password,
        &options->credentials_file,
        &options->access_key,
        &options->secret_key,
        &options->session_token,
        &options->region,
        &options->secret_key_file,
        &options->trusted_key_files[0],
        &options->trusted_key_files[1],
    };
    enum { COUNT = sizeof texts / sizeof texts[0] };
    size_t size = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    }
    char *kept = malloc(size);
    char *to = kept;
    for (size_t i = 0; kept && i < COUNT; i++) {
        if (*texts[i]) {
            const size_t length = strlen(*texts[i]) + 1;
            memcpy(to, *texts[i], length);
            *texts[i] = to;
            to += length;
        }
    }
    return kept;
}

/* Parses @url, the part of a URL that follows the engine's scheme. Can set @ret_path even on
 * failure. The caller must free it. */
static kiln_status parse_url(const char *url, const kilni_store_engine *engine,
                             kilni_store_options *options, char **ret_path, kiln_error *error)
{
    const char *path = path_in_url(url);
    kiln_status status = engine->check_url(url, path, error);
    if (status != KILN_OK) {
        return status;
    }
    *ret_path = keep_texts(path, options);
    if (!*ret_path) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    if (engine->needs_trust) {
        /* The caller's limit is for the caller's own directory, and not for one of a group. */
        options->max_bytes = DEFAULT_MAX_BYTES;
    }
    status = read_url(*ret_path, engine, options, error);
    if (status == KILN_OK && options->backend[0] != '\0' &&
        !layouts[options->layout].has_backends) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "backend=%s: only layout=onednn has backends", options->backend);
    }
    return status;
}

/* Sets and checks the options that depend on the engine or on other options. */
static kiln_status complete_options(const kilni_store_engine *engine, kilni_store_options *options,
                                    kiln_error *error)
{
    if (options->max_entry_bytes == 0) {
        options->max_entry_bytes =
            engine->max_entry_bytes > 0 ? engine->max_entry_bytes : DEFAULT_MAX_ENTRY_BYTES;
    }
    if (!engine->needs_trust || options->trusts_any || options->key_file ||
        options->secret_key_file) {
        return KILN_OK;
    }
    /* Without a key to sign with, the store is read-only, because nobody would believe an unsigned
     * entry. */
    options->flags |= KILN_STORE_READONLY;
    return options->trusted_key_files[0] || options->trusted_key_files[1]
               ? KILN_OK
               : kilni_signers_refuse(engine->noun, error);
}

kiln_status kilni_location_parse(const char *location, const kiln_store_params *params,
                                 const kilni_store_engine *const *engines,
                                 kilni_location *ret_location, kiln_error *error)
{
    if (!location || location[0] == '\0') {
        return kilni_error_set(error, KILN_E_INVALID, 0, "no location given");
    }
    kilni_location where = {.engine = engines[0]};
    kiln_status status = options_from_params(params, &where.options, error);
    if (status != KILN_OK) {
        return status;
    }
    if (location[0] == '/' || location[0] == '.') {
        where.path = strdup(location);
        status =
            where.path ? KILN_OK : kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    } else {
        where.engine = engine_of(location, engines);
        status = where.engine ? parse_url(location + strlen(where.engine->scheme), where.engine,
                                          &where.options, &where.path, error)
                              : complain_of_scheme(location, error);
    }
    if (status == KILN_OK) {
        status = complete_options(where.engine, &where.options, error);
    }
    if (status != KILN_OK) {
        free(where.path);
        return status;
    }
    *ret_location = where;
    return KILN_OK;
}
