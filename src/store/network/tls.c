/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "store/network/secret_file.h"
#include "store/network/transfer.h"

/* The places of the certificates of authorities that the system trusts: a folder that OpenSSL
 * searches by hash, and files. */
#define SYSTEM_FOLDER "/etc/ssl/certs"
static const char *const system_files[] = {"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};

struct kilni_tls {
    SSL *ssl;
};

/* ---- the library ---- */

/* NULL if memory has run out. Set once, before any use. */
static BIO_METHOD *method;

static const kilni_owned_descriptor *file_of(BIO *bio)
{
    return BIO_get_data(bio);
}

static int write_to_socket(BIO *bio, const char *bytes, size_t size, size_t *ret_count)
{
    BIO_clear_retry_flags(bio);
    const kiln_status status = kilni_transfer_send(file_of(bio), bytes, size, ret_count);
    if (status == KILN_BUSY) {
        BIO_set_retry_write(bio);
    }
    return status == KILN_OK;
}

static int read_from_socket(BIO *bio, char *bytes, size_t size, size_t *ret_count)
{
    BIO_clear_retry_flags(bio);
    const kiln_status status = kilni_transfer_receive(file_of(bio), bytes, size, ret_count);
    if (status == KILN_BUSY) {
        BIO_set_retry_read(bio);
    }
    return status == KILN_OK;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

/* This library has its own copy of OpenSSL. The copy does not read the configuration of the
 * program's OpenSSL. It does not clean up at exit, because the I/O thread may still be using it at
 * that time. */
static void set_up(void)
{
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1) {
        return;
    }
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket of kiln");
    if (method) {
        BIO_meth_set_write_ex(method, write_to_socket);
        BIO_meth_set_read_ex(method, read_from_socket);
        BIO_meth_set_ctrl(method, control);
    }
}

static bool is_set_up(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    return method != NULL;
}

/* ---- files ---- */

static kiln_status fail(const char *noun, const char *path, kiln_error *error)
{
    const unsigned long reason = ERR_peek_error();
    const int number = ERR_GET_LIB(reason) == ERR_LIB_SYS ? ERR_GET_REASON(reason) : 0;
    const char *text = number != 0 ? strerror(number) : ERR_reason_error_string(reason);
    ERR_clear_error();
    return kilni_error_set(error, KILN_E_INVALID, number, "%s %s: %s", noun, path,
                           text ? text : "it cannot be used");
}

/* Keeps OpenSSL from asking the user for a file's password. */
static int no_password(char *password, int size, int is_new, void *user)
{
    (void)password, (void)size, (void)is_new, (void)user;
    return -1;
}

static kiln_status trust_authorities(SSL_CTX *context, const char *ca_file, kiln_error *error)
{
    if (ca_file) {
        return SSL_CTX_load_verify_file(context, ca_file) == 1 ? KILN_OK
                                                               : fail("ca file", ca_file, error);
    }
    SSL_CTX_load_verify_dir(context, SYSTEM_FOLDER);
    for (size_t i = 0; i < sizeof system_files / sizeof system_files[0]; i++) {
        if (access(system_files[i], R_OK) == 0) {
            SSL_CTX_load_verify_file(context, system_files[i]);
        }
    }
    ERR_clear_error();
    return KILN_OK;
}

static kiln_status use_key(SSL_CTX *context, const char *path, kiln_error *error)
{
    int file;
    const kiln_status status = kilni_secret_file_open(path, "key file", &file, error);
    if (status != KILN_OK) {
        return status;
    }
    BIO *bio = BIO_new_fd(file, BIO_NOCLOSE);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    const bool is_used = key && SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    close(file);
    return is_used ? KILN_OK : fail("key file", path, error);
}

static kiln_status use_certificate(SSL_CTX *context, const kilni_tls_settings *settings,
                                   kiln_error *error)
{
    if (!settings->certificate_file && !settings->key_file) {
        return KILN_OK;
    }
    if (!settings->certificate_file || !settings->key_file) {
        return kilni_error_set(error, KILN_E_INVALID, 0, "cert= and key= need each other");
    }
    if (SSL_CTX_use_certificate_chain_file(context, settings->certificate_file) != 1) {
        return fail("cert file", settings->certificate_file, error);
    }
    return use_key(context, settings->key_file, error);
}

static kiln_status fill_context(SSL_CTX *context, const kilni_tls_settings *settings,
                                kiln_error *error)
{
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
        return kilni_error_set(error, KILN_E_INVALID, 0, "no TLS 1.2");
    }
    const kiln_status status = trust_authorities(context, settings->ca_file, error);
    return status == KILN_OK ? use_certificate(context, settings, error) : status;
}

static kiln_status make_context(const kilni_tls_settings *settings, SSL_CTX **ret_context,
                                kiln_error *error)
{
    SSL_CTX *context = is_set_up() ? SSL_CTX_new(TLS_client_method()) : NULL;
    if (!context) {
        ERR_clear_error();
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    ERR_clear_error();
    const kiln_status status = fill_context(context, settings, error);
    if (status != KILN_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *ret_context = context;
    return KILN_OK;
}

kiln_status kilni_tls_check(const kilni_tls_settings *settings, kiln_error *error)
{
    SSL_CTX *context;
    const kiln_status status = make_context(settings, &context, error);
    if (status == KILN_OK) {
        SSL_CTX_free(context);
    }
    return status;
}

/* ---- connections ---- */

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* Makes OpenSSL require that the certificate names the host, either as an address or as a name. */
static bool expect_host(SSL *ssl, const char *host)
{
    if (is_address(host)) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* Returns true if a certificate names a host. */
static bool names_host(X509 *certificate, const char *host)
{
    return is_address(host) ? X509_check_ip_asc(certificate, host, 0) == 1
                            : X509_check_host(certificate, host, 0,
                                              X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

/* OpenSSL calls this for each certificate of the server, with the result of its own checks. A
 * certificate that fails only because it does not name the host is accepted if it names one of the
 * other hosts. */
static int check_other_hosts(int is_accepted, X509_STORE_CTX *check)
{
    const int error = X509_STORE_CTX_get_error(check);
    const SSL *ssl = X509_STORE_CTX_get_ex_data(check, SSL_get_ex_data_X509_STORE_CTX_idx());
    const char *const *host = ssl ? SSL_get_app_data(ssl) : NULL;
    X509 *certificate = X509_STORE_CTX_get0_cert(check);
    if (is_accepted || !host || !certificate ||
        (error != X509_V_ERR_HOSTNAME_MISMATCH && error != X509_V_ERR_IP_ADDRESS_MISMATCH)) {
        return is_accepted;
    }
    while (*host && !names_host(certificate, *host)) {
        host++;
    }
    if (*host) {
        X509_STORE_CTX_set_error(check, X509_V_OK);
    }
    return *host != NULL;
}

static bool accept_other_hosts(SSL *ssl, const char *const *hosts)
{
    union {
        const char *const *given;
        void *wanted;
    } data = {.given = hosts};
    if (hosts) {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, check_other_hosts);
    }
    return !hosts || SSL_set_app_data(ssl, data.wanted) == 1;
}

static bool join(SSL *ssl, const kilni_owned_descriptor *file)
{
    BIO *bio = BIO_new(method);
    if (!bio) {
        return false;
    }
    union {
        const kilni_owned_descriptor *given;
        void *wanted;
    } data = {.given = file};
    BIO_set_data(bio, data.wanted);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_connect_state(ssl);
    return true;
}

kiln_status kilni_tls_new(const kilni_tls_settings *settings, const kilni_owned_descriptor *file,
                          kilni_tls **ret_tls)
{
    SSL_CTX *context;
    const kiln_status status = make_context(settings, &context, NULL);
    if (status != KILN_OK) {
        return status;
    }
    kilni_tls *tls = malloc(sizeof *tls);
    SSL *ssl = tls ? SSL_new(context) : NULL;
    SSL_CTX_free(context); /* the connection has a reference */
    if (!ssl || !expect_host(ssl, settings->host) ||
        !accept_other_hosts(ssl, settings->other_hosts) || !join(ssl, file)) {
        SSL_free(ssl);
        free(tls);
        ERR_clear_error();
        return KILN_E_NO_MEMORY;
    }
    tls->ssl = ssl;
    *ret_tls = tls;
    return KILN_OK;
}

void kilni_tls_free(kilni_tls *tls)
{
    if (tls) {
        SSL_free(tls->ssl);
        free(tls);
    }
}

/* Returns the status for a failed call. An alert means that the server does not accept this side's
 * certificate or version of TLS. */
static kiln_status status_of(kilni_tls *tls, int result)
{
    const int kind = SSL_get_error(tls->ssl, result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        return KILN_BUSY;
    }
    const unsigned long reason = ERR_peek_error();
    const bool is_alert =
        ERR_GET_LIB(reason) == ERR_LIB_SSL && ERR_GET_REASON(reason) > SSL_AD_REASON_OFFSET;
    ERR_clear_error();
    if (SSL_get_verify_result(tls->ssl) != X509_V_OK) {
        return KILN_E_UNAUTHENTICATED;
    }
    return is_alert ? KILN_E_DENIED : KILN_E_IO;
}

kiln_status kilni_tls_shake_hands(kilni_tls *tls, uint32_t *ret_events)
{
    ERR_clear_error();
    const int result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
        return KILN_OK;
    }
    *ret_events = SSL_want_write(tls->ssl) ? EPOLLOUT : EPOLLIN;
    return status_of(tls, result);
}

kiln_status kilni_tls_send(kilni_tls *tls, const void *bytes, size_t size, size_t *ret_count)
{
    ERR_clear_error();
    const int result = SSL_write_ex(tls->ssl, bytes, size, ret_count);
    return result == 1 ? KILN_OK : status_of(tls, result);
}

kiln_status kilni_tls_receive(kilni_tls *tls, void *bytes, size_t size, size_t *ret_count)
{
    ERR_clear_error();
    const int result = SSL_read_ex(tls->ssl, bytes, size, ret_count);
    return result == 1 ? KILN_OK : status_of(tls, result);
}

bool kilni_tls_has_more(const kilni_tls *tls)
{
    return SSL_has_pending(tls->ssl);
}
