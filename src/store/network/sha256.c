/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/sha256.h"

/* OpenSSL has deprecated these functions in favor of those of EVP. But the functions of EVP take a
 * lock to look up the algorithm. If another thread forks at that moment, the lock stays locked in
 * the child. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <string.h>

void kilni_sha256(const void *bytes, size_t size, unsigned char ret_digest[KILNI_SHA256_SIZE])
{
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, bytes, size);
    SHA256_Final(ret_digest, &context);
}

/* Computes the hash of a block and a message that follows it. Each byte of the block is first
 * combined with @mask by XOR. */
static void hash_masked(const unsigned char block[SHA256_CBLOCK], unsigned char mask,
                        const void *bytes, size_t size, unsigned char ret_digest[KILNI_SHA256_SIZE])
{
    unsigned char masked[SHA256_CBLOCK];
    SHA256_CTX context;
    for (size_t i = 0; i < sizeof masked; i++) {
        masked[i] = block[i] ^ mask;
    }
    SHA256_Init(&context);
    SHA256_Update(&context, masked, sizeof masked);
    SHA256_Update(&context, bytes, size);
    SHA256_Final(ret_digest, &context);
    explicit_bzero(masked, sizeof masked);
}

/* Follows the definition in RFC 2104. */
void kilni_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                       unsigned char ret_code[KILNI_SHA256_SIZE])
{
    unsigned char block[SHA256_CBLOCK] = {0};
    unsigned char inner[KILNI_SHA256_SIZE];
    if (key_size > sizeof block) {
        kilni_sha256(key, key_size, block);
    } else {
        memcpy(block, key, key_size);
    }
    hash_masked(block, 0x36, bytes, size, inner);
    hash_masked(block, 0x5c, inner, sizeof inner, ret_code);
    explicit_bzero(block, sizeof block);
}
