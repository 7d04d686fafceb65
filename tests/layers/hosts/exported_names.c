/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that exports functions with the names of the functions of xxHash, Zstandard and
 * libsodium that Kiln calls. It fails if one of its own functions is called.
 */
#include <stdlib.h>

/* X(name) */
#define NAMES(X)                                                                                   \
    X(XXH128_canonicalFromHash)                                                                    \
    X(XXH3_128bits)                                                                                \
    X(XXH3_128bits_digest)                                                                         \
    X(XXH3_128bits_dispatch)                                                                       \
    X(XXH3_128bits_reset)                                                                          \
    X(XXH3_128bits_update)                                                                         \
    X(XXH3_128bits_update_dispatch)                                                                \
    X(ZSTD_compress)                                                                               \
    X(ZSTD_compressBound)                                                                          \
    X(ZSTD_compressCCtx)                                                                           \
    X(ZSTD_decompress)                                                                             \
    X(ZSTD_decompressDCtx)                                                                         \
    X(ZSTD_findFrameCompressedSize)                                                                \
    X(ZSTD_getErrorCode)                                                                           \
    X(ZSTD_getFrameContentSize)                                                                    \
    X(ZSTD_isError)                                                                                \
    X(crypto_generichash)                                                                          \
    X(crypto_generichash_blake2b)                                                                  \
    X(crypto_generichash_blake2b_final)                                                            \
    X(crypto_generichash_blake2b_init)                                                             \
    X(crypto_generichash_blake2b_update)                                                           \
    X(crypto_generichash_final)                                                                    \
    X(crypto_generichash_init)                                                                     \
    X(crypto_generichash_update)                                                                   \
    X(sodium_init)                                                                                 \
    X(sodium_is_zero)                                                                              \
    X(sodium_memcmp)                                                                               \
    X(sodium_memzero)

#define EXPORT_GARBAGE(name)                                                                       \
    void name(void);                                                                               \
    void name(void)                                                                                \
    {                                                                                              \
        abort();                                                                                   \
    }
NAMES(EXPORT_GARBAGE)
