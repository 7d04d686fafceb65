/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that exports functions under names of OpenSSL and libcurl, like a program with its own
 * copies of these libraries. It uses a store on a server through TLS until its very end.
 */
#include "support/server_conformance.h"

#include <link.h>

#include "support/certificates.h"
#include "support/nginx_server.h"

static char scratch[SCRATCH_DIRECTORY_SIZE];
static nginx_server server;
static _Atomic unsigned foreign_calls;

/* ---- the program's own functions ---- */

#define FOREIGN(name)                                                                              \
    __attribute__((visibility("default"))) void *name(void);                                       \
    __attribute__((visibility("default"))) void *name(void)                                        \
    {                                                                                              \
        atomic_fetch_add(&foreign_calls, 1);                                                       \
        return NULL;                                                                               \
    }

FOREIGN(OPENSSL_init_ssl)
FOREIGN(OPENSSL_init_crypto)
FOREIGN(SSL_CTX_new)
FOREIGN(SSL_CTX_free)
FOREIGN(SSL_new)
FOREIGN(SSL_do_handshake)
FOREIGN(SSL_read_ex)
FOREIGN(SSL_write_ex)
FOREIGN(TLS_client_method)
FOREIGN(BIO_new)
FOREIGN(BIO_meth_new)
FOREIGN(EVP_EncodeBlock)
FOREIGN(EVP_DigestInit_ex)
FOREIGN(EVP_PKEY_free)
FOREIGN(ERR_clear_error)
FOREIGN(ERR_peek_error)
FOREIGN(CRYPTO_malloc)
FOREIGN(CRYPTO_free)
FOREIGN(X509_verify_cert)
FOREIGN(curl_global_init)
FOREIGN(curl_easy_init)
FOREIGN(curl_multi_init)
FOREIGN(curl_multi_socket_action)

/* ---- the scene ---- */

static const char *location_of(const char *options)
{
    static char location[4 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location,
             "https://writer@localhost:%u/readers?ca=%s/ca.pem&password-file=%s/password&%s",
             server.tls_port, scratch, scratch, options);
    return location;
}

static int set_up(void **state)
{
    (void)state;
    char tls[1024];
    scratch_make(scratch);
    conformance.folder = scratch;
    file_with("password", "of a writer\n", 12, 0600);
    snprintf(tls, sizeof tls, "ssl_certificate %s/server.pem; ssl_certificate_key %s/server.key;",
             scratch, scratch);
    if (!certificates_make_authority(scratch, "ca") ||
        !certificates_make(scratch, "ca", "server", "DNS:localhost") ||
        !nginx_start(&server, scratch, tls)) {
        return -1;
    }
    open_store(location_of("trust=any"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    nginx_stop(&server);
    scratch_remove(scratch);
    return 0;
}

/* ---- the cases ---- */

static int find_foreign_library(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    static const char *const names[] = {"libssl", "libcrypto", "libcurl", "libgnutls"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strstr(info->dlpi_name, names[i])) {
            *(const char **)user = names[i];
        }
    }
    return 0;
}

static void test_the_program_is_left_alone(void **state)
{
    (void)state;
    const char *found = NULL;
    assert_int_equal(put(1, 100000), KILN_OK);
    assert_int_equal(get(1), KILN_OK);
    assert_int_equal(remove_number(1), KILN_OK);
    assert_int_equal(atomic_load(&foreign_calls), 0);
    dl_iterate_phdr(find_foreign_library, &found);
    assert_null(found);
}

#ifdef __SANITIZE_ADDRESS__
/* On a busy machine, LeakSanitizer may fail to stop the I/O thread of a process that ends. It then
 * reports what OpenSSL keeps for that thread. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:CRYPTO_zalloc\nleak:ERR_vset_error";
}
#endif

/* Layers put their last entries when the loader calls their destructors, after all atexit()
 * handlers have run. */
static bool puts_at_the_end;

__attribute__((destructor)) static void put_at_the_end(void)
{
    if (puts_at_the_end && (put(2, 5000) != KILN_OK || get(2) != KILN_OK)) {
        _exit(1);
    }
}

static void use_and_end(void)
{
    CHECK(put(1, 1000) == KILN_OK);
    puts_at_the_end = true;
}

static void test_a_put_at_the_very_end(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(use_and_end), 0);
    assert_int_equal(get(2), KILN_OK);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_program_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_put_at_the_very_end, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    nginx_require();
    certificates_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
