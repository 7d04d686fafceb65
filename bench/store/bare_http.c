/* SPDX-License-Identifier: Apache-2.0
 *
 * GET by libcurl, over a connection that is kept. Requests to S3 are signed with the keys in
 * AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
 */
#include "fleet.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#define BUFFER_SIZE ((size_t)2 << 20)
#define URL_SIZE 512

static CURL *handle;
static struct curl_slist *header_fields;
static const char *urls_begin;
static char *buffer;
static size_t used;

static size_t keep(char *bytes, size_t one, size_t size, void *unused)
{
    (void)one, (void)unused;
    fleet_expect(size <= BUFFER_SIZE - used, "the value is too large");
    memcpy(buffer + used, bytes, size);
    used += size;
    return size;
}

static void connect_to_server(const char *where)
{
    urls_begin = where;
    handle = curl_easy_init();
    buffer = malloc(BUFFER_SIZE);
    fleet_expect(handle && buffer, "out of memory");
    fleet_expect(curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, keep) == CURLE_OK, "libcurl");
}

static void connect_to_s3(const char *where)
{
    connect_to_server(where);
    header_fields = curl_slist_append(NULL, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    fleet_expect(curl_easy_setopt(handle, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3") == CURLE_OK &&
                     curl_easy_setopt(handle, CURLOPT_USERNAME, getenv("AWS_ACCESS_KEY_ID")) ==
                         CURLE_OK &&
                     curl_easy_setopt(handle, CURLOPT_PASSWORD, getenv("AWS_SECRET_ACCESS_KEY")) ==
                         CURLE_OK &&
                     curl_easy_setopt(handle, CURLOPT_HTTPHEADER, header_fields) == CURLE_OK,
                 "this libcurl cannot sign requests");
}

static void disconnect(void)
{
    curl_easy_cleanup(handle);
    curl_slist_free_all(header_fields);
    free(buffer);
}

static long get(const char *name, const unsigned char **ret_value)
{
    char url[URL_SIZE];
    long status = 0;
    snprintf(url, sizeof url, "%s%s", urls_begin, name);
    used = 0;
    fleet_expect(curl_easy_setopt(handle, CURLOPT_URL, url) == CURLE_OK &&
                     curl_easy_perform(handle) == CURLE_OK &&
                     curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
                     (status == 200 || status == 404),
                 url);
    *ret_value = (const unsigned char *)buffer;
    return status == 200 ? (long)used : -1;
}

const fleet_peer fleet_http = {.connect = connect_to_server, .get = get, .disconnect = disconnect};
const fleet_peer fleet_s3 = {.connect = connect_to_s3, .get = get, .disconnect = disconnect};
