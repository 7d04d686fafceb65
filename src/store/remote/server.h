/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the part of a URL that names a server. Does no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "store/remote/connector.h"

/* Reads "[USER@]HOST[:PORT][/DATABASE]". An IPv6 address must be in brackets. A text that contains
 * a password is refused, and no message repeats the password.
 *
 * @length        the length of @text
 * @default_port  the port if the text contains none
 * Returns KILN_OK; KILN_E_PARSE. @error describes the failure. */
kiln_status kilni_remote_server_parse(const char *text, size_t length, uint16_t default_port,
                                      kilni_remote_server *ret_server, kiln_error *error);

/* Does the same as kilni_remote_server_parse for "[USER@]HOST[:PORT][,HOST[:PORT]…]", the nodes of
 * a cluster. */
kiln_status kilni_remote_server_parse_cluster(const char *text, size_t length,
                                              uint16_t default_port,
                                              kilni_remote_server *ret_server, kiln_error *error);

/* Does the same as kilni_remote_server_parse for "[USER@]HOST[:PORT][/PATH]". */
kiln_status kilni_remote_server_parse_http(const char *text, size_t length, uint16_t default_port,
                                           kilni_remote_server *ret_server, kiln_error *error);

/* Reads "A/B/C" as the path "/A/B/C", and an empty text as "". A slash at the end is ignored.
 * Returns false if a part is empty, is "." or "..", or has characters other than letters, digits
 * and -._~=,+, or if the path is too long for @ret_path. */
bool kilni_remote_path_read(const char *text, size_t length, char *ret_path, size_t size);

/* Does the same as kilni_remote_path_read for "BUCKET[/PREFIX]". */
bool kilni_remote_bucket_read(const char *text, size_t length, char *ret_path, size_t size);

/* Reads the absolute path of a socket. The statuses are those of kilni_remote_server_parse. */
kiln_status kilni_remote_server_parse_socket(const char *path, kilni_remote_server *ret_server,
                                             kiln_error *error);
