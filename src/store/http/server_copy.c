/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/server_copy.h"

#include <stdlib.h>
#include <string.h>

kilni_remote_server *kilni_http_copy_server(const kilni_remote_server *server)
{
    kilni_remote_server fields = *server;
    fields.password = NULL; /* only Redis uses it */
    const char **const texts[] = {&fields.password_file,    &fields.ca_file,
                                  &fields.certificate_file, &fields.key_file,
                                  &fields.token_file,       &fields.state_file,
                                  &fields.access_key,       &fields.secret_key,
                                  &fields.session_token,    &fields.credentials_file};
    enum { COUNT = sizeof texts / sizeof texts[0] };
    size_t size = sizeof fields;
    for (size_t i = 0; i < COUNT; i++) {
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    }
    kilni_remote_server *copy = malloc(size);
    char *to = (char *)(copy + 1);
    for (size_t i = 0; copy && i < COUNT; i++) {
        if (*texts[i]) {
            const size_t length = strlen(*texts[i]) + 1;
            memcpy(to, *texts[i], length);
            *texts[i] = to;
            to += length;
        }
    }
    if (copy) {
        *copy = fields;
    }
    return copy;
}

kilni_tls_settings kilni_http_tls_of(const kilni_remote_server *server)
{
    return (kilni_tls_settings){.host = server->host,
                                .ca_file = server->ca_file,
                                .certificate_file = server->certificate_file,
                                .key_file = server->key_file};
}
