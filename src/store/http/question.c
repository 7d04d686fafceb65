/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/question.h"

#include <stdio.h>
#include <string.h>

#define HTTP_PORT 80u
#define HTTPS_PORT 443u
#define HOST_SIZE 272u /* a name, brackets, a port */

/* Writes the value of the field Host. Omits the port if it is the default port, because signatures
 * require this. */
static void write_host(const kilni_remote_server *server, char host[HOST_SIZE])
{
    const bool is_bracketed = strchr(server->host, ':') != NULL;
    const unsigned usual = server->is_encrypted ? HTTPS_PORT : HTTP_PORT;
    const int length = snprintf(host, HOST_SIZE, is_bracketed ? "[%s]" : "%s", server->host);
    if (server->port != usual) {
        snprintf(host + length, HOST_SIZE - (size_t)length, ":%u", (unsigned)server->port);
    }
}

kiln_status kilni_http_append_escaped(kilni_text *text, const char *name, bool keeps_slashes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~";
    kiln_status status = KILN_OK;
    for (const char *at = name; *at && status == KILN_OK; at++) {
        const bool is_plain = strchr(plain, *at) || (keeps_slashes && *at == '/');
        status = is_plain ? kilni_text_append_bytes(text, at, 1)
                          : kilni_text_printf(text, "%%%02X", (unsigned)(unsigned char)*at);
    }
    return status;
}

static kiln_status append_lines(const kilni_http_question *question, const char *host,
                                kilni_text *text)
{
    kilni_text_printf(text, "%s %s%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: kiln\r\n",
                      question->method, question->path, question->query[0] != '\0' ? "?" : "",
                      question->query, host);
    if (question->range > 0) {
        kilni_text_printf(text, "Range: bytes=0-%zu\r\n", question->range - 1);
    }
    if (question->body) {
        kilni_text_printf(text, "Content-Type: " KILNI_HTTP_BODY_TYPE "\r\nContent-Length: %zu\r\n",
                          question->body_size);
    }
    if (question->must_be_new) {
        kilni_text_append(text, "If-None-Match: *\r\n");
    }
    return text->has_failed ? KILN_E_NO_MEMORY : KILN_OK;
}

kiln_status kilni_http_append_question(const kilni_remote_server *server,
                                       const kilni_http_question *question,
                                       kilni_http_authorize_fn *authorize, kilni_text *text)
{
    char host[HOST_SIZE];
    write_host(server, host);
    kiln_status status = append_lines(question, host, text);
    if (status == KILN_OK) {
        status = authorize(server, host, question, text);
    }
    if (status != KILN_OK) {
        return status;
    }
    kilni_text_append(text, "\r\n");
    kilni_text_append_bytes(text, question->body, question->body_size);
    return text->has_failed ? KILN_E_NO_MEMORY : KILN_OK;
}
