/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.2 or later over a socket, implemented with OpenSSL. The server's certificate must name the
 * host and be signed by a trusted authority. No function blocks, except to read files.
 *
 * The files are read again for each connection, so a changed file is used without a restart.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "os/owned_descriptor.h"

typedef struct kilni_tls_settings {
    const char *host; /* a name or an address, which the server's certificate must contain */
    /* A list of hosts that ends with NULL. The certificate is also accepted if it names one of
     * these instead. NULL: no other hosts. */
    const char *const *other_hosts;
    const char *ca_file; /* certificates of trusted authorities; NULL: those of the system */
    /* The file with this side's certificate, which also has the certificates between it and an
     * authority, and the file with the certificate's key. NULL: none. */
    const char *certificate_file, *key_file;
} kilni_tls_settings;

typedef struct kilni_tls kilni_tls;

/* Checks that the files can be used. Returns KILN_OK; KILN_E_INVALID: a file is missing or not
 * usable; KILN_E_DENIED, KILN_E_IO: statuses of kilni_secret_file_open for the key file;
 * KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_tls_check(const kilni_tls_settings *settings, kiln_error *error);

/* Prepares the client's side of a connection. @file and the settings must outlive the connection.
 * The statuses are those of kilni_tls_check. */
kiln_status kilni_tls_new(const kilni_tls_settings *settings, const kilni_owned_descriptor *file,
                          kilni_tls **ret_tls);
void kilni_tls_free(kilni_tls *tls);

/* Continues the handshake. Returns KILN_OK: the handshake is complete; KILN_BUSY: it is not
 * complete, and the caller must wait for @ret_events with epoll; KILN_E_UNAUTHENTICATED: the
 * server's certificate is not accepted; KILN_E_DENIED: the server does not accept this side;
 * KILN_E_IO. */
kiln_status kilni_tls_shake_hands(kilni_tls *tls, uint32_t *ret_events);

/* Like kilni_transfer_send and kilni_transfer_receive, but can also return KILN_E_DENIED: the
 * server does not accept this side. */
kiln_status kilni_tls_send(kilni_tls *tls, const void *bytes, size_t size, size_t *ret_count);
kiln_status kilni_tls_receive(kilni_tls *tls, void *bytes, size_t size, size_t *ret_count);

/* Returns true if OpenSSL holds bytes that have already arrived. Epoll does not report such bytes.
 */
bool kilni_tls_has_more(const kilni_tls *tls);
