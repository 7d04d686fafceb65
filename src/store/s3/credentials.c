/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/credentials.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "store/network/secret_file.h"

#define NOUN "credentials file"
#define MAX_FILE_BYTES 65536u

void kilni_s3_credentials_done(kilni_s3_credentials *credentials)
{
    if (credentials->file.bytes) {
        explicit_bzero(credentials->file.bytes, credentials->file.length);
    }
    kilni_text_done(&credentials->file);
}

/* ---- the file ---- */

static kiln_status read_file(const char *path, kilni_text *file, kiln_error *error)
{
    int descriptor;
    size_t count = 0;
    kiln_status status = kilni_text_reserve(file, MAX_FILE_BYTES);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "out of memory");
    }
    status = kilni_secret_file_open(path, NOUN, &descriptor, error);
    if (status != KILN_OK) {
        return status;
    }
    if (kilni_file_read(descriptor, file->bytes, MAX_FILE_BYTES, &count) != KILN_OK) {
        status = kilni_secret_file_fail(path, NOUN, error);
    } else if (count == MAX_FILE_BYTES || memchr(file->bytes, '\0', count)) {
        status = kilni_error_set(error, KILN_E_INVALID, 0, NOUN " %s: is not a short text", path);
    }
    kilni_os()->close(descriptor);
    file->length = count;
    file->bytes[count < MAX_FILE_BYTES ? count : 0] = '\0';
    return status;
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

/* Reads "NAME = VALUE". */
static void read_line(char *line, kilni_s3_credentials *credentials)
{
    const struct {
        const char *name;
        const char **value;
    } names[] = {{"aws_access_key_id", &credentials->access_key},
                 {"aws_secret_access_key", &credentials->secret_key},
                 {"aws_session_token", &credentials->session_token}};
    char *value = strchr(line, '=');
    if (!value) {
        return;
    }
    *value++ = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(trim(line), names[i].name) == 0) {
            *names[i].value = trim(value);
        }
    }
}

/* Reads the section [default], in place. */
static void read_default(kilni_s3_credentials *credentials)
{
    bool is_default = false;
    char *rest = NULL;
    for (char *line = strtok_r(credentials->file.bytes, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        line = trim(line);
        if (line[0] == '[') {
            is_default = strcmp(line, "[default]") == 0;
        } else if (is_default && line[0] != '#' && line[0] != ';') {
            read_line(line, credentials);
        }
    }
}

/* ---- keys from the file or from the server ---- */

/* Replaces an empty text with NULL, because an empty value means that there is none. */
static void drop_empty(const char **text)
{
    if (*text && **text == '\0') {
        *text = NULL;
    }
}

/* Returns true if a text is allowed in a header field of a request. NULL is allowed too. */
static bool is_visible(const char *text)
{
    for (; text && *text; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

static kiln_status check(const kilni_s3_credentials *credentials, const char *path,
                         kiln_error *error)
{
    const bool has_both = credentials->access_key && credentials->secret_key;
    const bool has_none = !credentials->access_key && !credentials->secret_key;
    if (path && !has_both) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               NOUN " %s: section [default] needs aws_access_key_id and "
                                    "aws_secret_access_key",
                               path);
    }
    if (!has_both && !has_none) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "S3: an access key and a secret key must be given together");
    }
    return is_visible(credentials->access_key) && is_visible(credentials->secret_key) &&
                   is_visible(credentials->session_token)
               ? KILN_OK
               : kilni_error_set(error, KILN_E_INVALID, 0,
                                 "credentials of S3: only visible characters are allowed");
}

kiln_status kilni_s3_credentials_read(const kilni_remote_server *server,
                                      kilni_s3_credentials *ret_credentials, kiln_error *error)
{
    kilni_s3_credentials credentials = {0};
    kiln_status status = KILN_OK;
    if (server->credentials_file) {
        status = read_file(server->credentials_file, &credentials.file, error);
        if (status == KILN_OK) {
            read_default(&credentials);
        }
    } else {
        credentials.access_key = server->access_key;
        credentials.secret_key = server->secret_key;
        credentials.session_token = server->session_token;
    }
    drop_empty(&credentials.access_key);
    drop_empty(&credentials.secret_key);
    drop_empty(&credentials.session_token);
    if (status == KILN_OK) {
        status = check(&credentials, server->credentials_file, error);
    }
    if (status != KILN_OK) {
        kilni_s3_credentials_done(&credentials);
        return status;
    }
    *ret_credentials = credentials;
    return KILN_OK;
}
