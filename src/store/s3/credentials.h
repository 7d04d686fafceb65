/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys with which requests to S3 are signed.
 */
#pragma once

#include <kiln/status.h>

#include "base/text.h"
#include "store/remote/connector.h"

typedef struct kilni_s3_credentials {
    const char *access_key, *secret_key; /* NULL: requests are not signed */
    const char *session_token;           /* NULL: none */
    kilni_text file;                     /* the text of the file; the others can point to it */
} kilni_s3_credentials;

/* Gets the keys of a server. If the server has a file of credentials, each call reads that file.
 * Otherwise the keys come from @server.
 *
 * @ret_credentials  [out] may point to texts of @server; the caller must release it with
 *                   kilni_s3_credentials_done
 * Returns KILN_OK; KILN_E_INVALID: the file does not exist or has no keys, or a key contains
 * characters that are not allowed; KILN_E_DENIED, KILN_E_IO: statuses of kilni_secret_file_open;
 * KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_s3_credentials_read(const kilni_remote_server *server,
                                      kilni_s3_credentials *ret_credentials, kiln_error *error);

/* Wipes and frees the text of the file. */
void kilni_s3_credentials_done(kilni_s3_credentials *credentials);
