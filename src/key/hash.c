/* SPDX-License-Identifier: Apache-2.0 */

/* Compiles XXH3 into this file. Otherwise a program that exports functions of the same names could
 * replace XXH3. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "key/hash.h"
#include "key/hash_wide.h"
#include "os/os.h"

/* XXH3 uses no vector instructions up to this size. */
enum { SHORT_SIZE = 240 };

typedef struct implementation {
    kilni_hash_wide_fn *hash;
    kilni_hash_wide_keyed_fn *hash_keyed;
    kilni_hash_wide_add_fn *add;
} implementation;

/* Returns the functions for more than SHORT_SIZE bytes. They are NULL if the compiler's default
 * instructions are the widest that can be used. */
static implementation widest(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return (implementation){kilni_hash_avx512f, kilni_hash_keyed_avx512f,
                                kilni_hash_add_avx512f};
    }
    if (__builtin_cpu_supports("avx2")) {
        return (implementation){kilni_hash_avx2, kilni_hash_keyed_avx2, kilni_hash_add_avx2};
    }
#endif
    return (implementation){0};
}

static kiln_digest digest_of(XXH128_hash_t hash)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    kiln_digest digest;
    memcpy(digest.bytes, canonical.digest, sizeof digest.bytes);
    return digest;
}

kiln_digest kilni_hash(const void *bytes, size_t size)
{
    const implementation by = size > SHORT_SIZE ? widest() : (implementation){0};
    if (!by.hash) {
        return digest_of(XXH3_128bits(bytes, size));
    }
    kiln_digest digest;
    by.hash(bytes, size, digest.bytes);
    return digest;
}

uint64_t kilni_checksum(const void *bytes, size_t size)
{
    const kiln_digest digest = kilni_hash(bytes, size);
    kilni_byte_reader reader = {.at = digest.bytes, .left = sizeof digest.bytes};
    return kilni_read_u64(&reader);
}

/* ---- the keyed hash ---- */

static unsigned char secret[XXH3_SECRET_DEFAULT_SIZE];
static pthread_once_t secret_once = PTHREAD_ONCE_INIT;

/* Fills the secret with random bytes. If the system has no random bytes yet, derives the secret
 * from the random bytes that the kernel gave the process when it started. */
static void make_secret(void)
{
    if (kilni_os()->getrandom(secret, sizeof secret, GRND_NONBLOCK) == (ssize_t)sizeof secret) {
        return;
    }
    enum { START_SIZE = 16 };
    const void *start = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    XXH3_generateSecret(secret, sizeof secret, start, start ? START_SIZE : 0);
}

uint64_t kilni_hash_keyed(const void *bytes, size_t size)
{
    pthread_once(&secret_once, make_secret);
    const implementation by = size > SHORT_SIZE ? widest() : (implementation){0};
    return by.hash_keyed ? by.hash_keyed(bytes, size, secret, sizeof secret)
                         : XXH3_64bits_withSecret(bytes, size, secret, sizeof secret);
}

/* ---- hashing in pieces ---- */

_Static_assert(sizeof(XXH3_state_t) <= sizeof(kilni_hasher), "a hasher has room for a state");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(kilni_hasher), "and is aligned for it");

void kilni_hasher_begin(kilni_hasher *hasher)
{
    XXH3_state_t *state = (XXH3_state_t *)(void *)hasher->state;
    XXH3_INITSTATE(state);
    XXH3_128bits_reset(state);
}

void kilni_hasher_add(kilni_hasher *hasher, const void *bytes, size_t size)
{
    XXH3_state_t *state = (XXH3_state_t *)(void *)hasher->state;
    const implementation by = widest();
    if (by.add) {
        by.add(state, bytes, size);
    } else {
        XXH3_128bits_update(state, bytes, size);
    }
}

kiln_digest kilni_hasher_end(const kilni_hasher *hasher)
{
    return digest_of(XXH3_128bits_digest((const XXH3_state_t *)(const void *)hasher->state));
}
