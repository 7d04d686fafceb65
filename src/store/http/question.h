/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the text of a request to an HTTP server. Does no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "base/text.h"
#include "store/remote/connector.h"

/* The content type of every body that is sent. */
#define KILNI_HTTP_BODY_TYPE "application/octet-stream"

typedef struct kilni_http_question {
    const char *method;
    const char *path;  /* in the form in which it is sent, escaped by kilni_http_append_escaped */
    const char *query; /* its fields must be escaped and sorted by name; "": no query */
    size_t range;      /* how many bytes from the beginning are wanted; 0: all */
    const void *body;  /* the body of a PUT */
    size_t body_size;
    bool must_be_new; /* for a PUT: the server must refuse the PUT if the name has a value */
} kilni_http_question;

/* A function that appends the header lines that identify the user. Each line ends with its line
 * end. If the function fails, the request is not sent. */
typedef kiln_status kilni_http_authorize_fn(const kilni_remote_server *server, const char *host,
                                            const kilni_http_question *question, kilni_text *text);

/* Appends the text of a request. Returns KILN_OK; KILN_E_NO_MEMORY; a failure of @authorize. */
kiln_status kilni_http_append_question(const kilni_remote_server *server,
                                       const kilni_http_question *question,
                                       kilni_http_authorize_fn *authorize, kilni_text *text);

/* Appends a text. Escapes every character except letters, digits, '-', '.', '_' and '~'. If
 * @keeps_slashes is true, it does not escape '/' either. */
kiln_status kilni_http_append_escaped(kilni_text *text, const char *name, bool keeps_slashes);
