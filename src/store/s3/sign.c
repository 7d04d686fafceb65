/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/sign.h"

#include <stdio.h>
#include <string.h>

#include "store/network/sha256.h"

#define HEX_SIZE (2 * KILNI_SHA256_SIZE + 1)
#define TIME_SIZE 17u /* "20130524T000000Z" */
#define DATE_LENGTH 8

static void write_hex(const unsigned char digest[KILNI_SHA256_SIZE], char hex[HEX_SIZE])
{
    for (size_t i = 0; i < KILNI_SHA256_SIZE; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
}

static void hash(const void *bytes, size_t size, char hex[HEX_SIZE])
{
    unsigned char digest[KILNI_SHA256_SIZE];
    kilni_sha256(bytes, size, digest);
    write_hex(digest, hex);
}

/* ---- header fields ---- */

typedef struct field {
    const char *name, *value;
} field;

/* The signed header fields. Their names are in lowercase letters, and the fields are sorted by
 * name. Amazon requires the host, the type of the body, and all fields whose names begin with
 * "x-amz-". */
typedef struct signed_fields {
    field items[7];
    size_t count;
    char range[32];
    char body_hash[HEX_SIZE];
    char time[TIME_SIZE];
} signed_fields;

static void add(signed_fields *fields, const char *name, const char *value)
{
    if (value) {
        fields->items[fields->count++] = (field){name, value};
    }
}

/* @fields  the caller must have set body_hash and time */
static void list_fields(const kilni_s3_signer *signer, const char *host,
                        const kilni_http_question *question, signed_fields *fields)
{
    snprintf(fields->range, sizeof fields->range, "bytes=0-%zu", question->range - 1);
    fields->count = 0;
    add(fields, "content-type", question->body ? KILNI_HTTP_BODY_TYPE : NULL);
    add(fields, "host", host);
    add(fields, "if-none-match", question->must_be_new ? "*" : NULL);
    add(fields, "range", question->range > 0 ? fields->range : NULL);
    add(fields, "x-amz-content-sha256", fields->body_hash);
    add(fields, "x-amz-date", fields->time);
    add(fields, "x-amz-security-token", signer->session_token);
}

/* Appends the header fields that only a signed request has. */
static void append_new_fields(const signed_fields *fields, kilni_text *text)
{
    for (size_t i = 0; i < fields->count; i++) {
        if (strncmp(fields->items[i].name, "x-amz-", 6) == 0) {
            kilni_text_printf(text, "%s: %s\r\n", fields->items[i].name, fields->items[i].value);
        }
    }
}

static void append_names(const signed_fields *fields, kilni_text *text)
{
    for (size_t i = 0; i < fields->count; i++) {
        kilni_text_printf(text, "%s%s", i > 0 ? ";" : "", fields->items[i].name);
    }
}

/* ---- the signature ---- */

/* Computes the hash of the request's method, path, query, signed fields and body. */
static kiln_status hash_question(const kilni_http_question *question, const signed_fields *fields,
                                 char hex[HEX_SIZE])
{
    kilni_text text = {0};
    kilni_text_printf(&text, "%s\n%s\n%s\n", question->method, question->path, question->query);
    for (size_t i = 0; i < fields->count; i++) {
        kilni_text_printf(&text, "%s:%s\n", fields->items[i].name, fields->items[i].value);
    }
    kilni_text_append(&text, "\n");
    append_names(fields, &text);
    kilni_text_printf(&text, "\n%s", fields->body_hash);
    const kiln_status status = text.has_failed ? KILN_E_NO_MEMORY : KILN_OK;
    if (status == KILN_OK) {
        hash(text.bytes, text.length, hex);
    }
    kilni_text_done(&text);
    return status;
}

/* Derives the key for one day, region and service from the secret key. */
static kiln_status derive_key(const kilni_s3_signer *signer, const char *date,
                              unsigned char key[KILNI_SHA256_SIZE])
{
    const char *const parts[] = {signer->region, "s3", "aws4_request"};
    kilni_text first = {0};
    const kiln_status status = kilni_text_printf(&first, "AWS4%s", signer->secret_key);
    if (status != KILN_OK) {
        return status;
    }
    kilni_hmac_sha256(first.bytes, first.length, date, strlen(date), key);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        kilni_hmac_sha256(key, KILNI_SHA256_SIZE, parts[i], strlen(parts[i]), key);
    }
    explicit_bzero(first.bytes, first.length);
    kilni_text_done(&first);
    return KILN_OK;
}

static kiln_status sign(const kilni_s3_signer *signer, const char *time, const char *date,
                        const char *question_hash, char hex[HEX_SIZE])
{
    unsigned char key[KILNI_SHA256_SIZE];
    unsigned char code[KILNI_SHA256_SIZE];
    kilni_text text = {0};
    kiln_status status = kilni_text_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s",
                                           time, date, signer->region, question_hash);
    if (status == KILN_OK) {
        status = derive_key(signer, date, key);
    }
    if (status == KILN_OK) {
        kilni_hmac_sha256(key, sizeof key, text.bytes, text.length, code);
        write_hex(code, hex);
        explicit_bzero(key, sizeof key);
    }
    kilni_text_done(&text);
    return status;
}

kiln_status kilni_s3_append_signature(const kilni_s3_signer *signer, const char *host,
                                      const kilni_http_question *question, time_t now,
                                      kilni_text *text)
{
    signed_fields fields;
    char date[DATE_LENGTH + 1];
    char question_hash[HEX_SIZE];
    char signature[HEX_SIZE];
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(fields.time, sizeof fields.time, "%Y%m%dT%H%M%SZ", &parts);
    memcpy(date, fields.time, DATE_LENGTH);
    date[DATE_LENGTH] = '\0';
    hash(question->body ? question->body : "", question->body_size, fields.body_hash);
    list_fields(signer, host, question, &fields);
    kiln_status status = hash_question(question, &fields, question_hash);
    if (status == KILN_OK) {
        status = sign(signer, fields.time, date, question_hash, signature);
    }
    if (status != KILN_OK) {
        return status;
    }
    append_new_fields(&fields, text);
    kilni_text_printf(text,
                      "Authorization: AWS4-HMAC-SHA256 "
                      "Credential=%s/%s/%s/s3/aws4_request,SignedHeaders=",
                      signer->access_key, date, signer->region);
    append_names(&fields, text);
    return kilni_text_printf(text, ",Signature=%s\r\n", signature);
}
