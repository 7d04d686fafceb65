/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs requests to S3, with signatures of version 4 ("AWS4-HMAC-SHA256"). Does no I/O.
 */
#pragma once

#include <time.h>

#include <kiln/status.h>

#include "base/text.h"
#include "store/http/question.h"

/* The keys and the region that a signature needs. All texts consist of visible characters. */
typedef struct kilni_s3_signer {
    const char *access_key, *secret_key;
    const char *session_token; /* NULL: none */
    const char *region;
} kilni_s3_signer;

/* Appends the header fields that sign a request. The signature covers the request's method, path,
 * query, host and body, and is valid for a few minutes.
 *
 * @now  the time of the signature
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_s3_append_signature(const kilni_s3_signer *signer, const char *host,
                                      const kilni_http_question *question, time_t now,
                                      kilni_text *text);
