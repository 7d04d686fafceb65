/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of entries, for stores that several machines share. A writer has a key pair: it signs
 * with the secret key, and readers trust the public key. docs/signing.md describes how keys are
 * made, trusted, replaced and revoked; `kiln key` does all these things.
 */
#ifndef KILN_SIGNATURE_H
#define KILN_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The maximum size of a key's name, with its terminating NUL. */
#define KILN_SIGNER_NAME_SIZE 64

/* The maximum size of a public key as text, with its terminating NUL. */
#define KILN_PUBLIC_KEY_TEXT_SIZE 109

/* A public key (Ed25519). The name is for people; only the bytes decide whether a key is trusted or
 * revoked. This structure never changes. */
typedef struct kiln_public_key {
    char name[KILN_SIGNER_NAME_SIZE]; /* letters, digits, '.', '_' and '-', a letter or digit first
                                       */
    unsigned char bytes[32];
} kiln_public_key;

/* Reads a public key from its text: a name, such as "team-1", a colon, and 44 characters of Base64.
 *
 * @text     must not be NULL
 * @ret_key  [out]
 * Returns KILN_OK; KILN_E_PARSE; KILN_E_INVALID: NULL. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_public_key_parse(const char *text, kiln_public_key *ret_key);

/* Writes a public key as text. Threads: any. Blocks: never.
 *
 * @key       must not be NULL
 * @ret_text  [out] must not be NULL */
KILN_API void kiln_public_key_format(const kiln_public_key *key,
                                     char ret_text[KILN_PUBLIC_KEY_TEXT_SIZE]);

/* What an entry says about its signature. */
typedef struct kiln_signature {
    size_t struct_size;
    kiln_public_key signer;
    int64_t expires_s; /* Unix seconds; 0: never */
} kiln_signature;

/* Returns what an entry says about its signature. The signature is not checked. A store that
 * requires signatures checks them, and returns only entries with a valid signature; other stores do
 * not look at signatures.
 *
 * @entry          must not be NULL
 * @ret_signature  [in, out] the caller sets its struct_size; the call fills the fields that this
 *                 size covers
 * Returns KILN_OK; KILN_MISS: the entry has no signature; KILN_E_CORRUPT: its signature section
 * does not contain a signature; KILN_E_INVALID: NULL, or no struct_size. Threads: any. Blocks:
 * never. */
KILN_API kiln_status kiln_entry_get_signature(const kiln_entry *entry,
                                              kiln_signature *ret_signature);

/* ---- files of keys, for tools ---- */

/* Makes a new key pair, and a file of mode 0600 that holds its secret key. An existing file is not
 * changed.
 *
 * @path     absolute; its folder must exist
 * @name     the name of the key, by the rules of kiln_public_key
 * @ret_key  [out] the public key
 * @error    may be NULL; describes the failure
 * Returns KILN_OK; KILN_EXISTS; KILN_E_PARSE: not a valid name; KILN_E_INVALID: NULL, or the path
 * is not absolute, or its folder does not exist; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL;
 * KILN_E_IO. Threads: any. Blocks: on the file system. */
KILN_API kiln_status kiln_secret_key_make(const char *path, const char *name,
                                          kiln_public_key *ret_key, kiln_error *error);

/* Reads the public key that belongs to the secret key in a file. The file must belong to this user,
 * and be neither readable nor writable by others.
 *
 * @path     absolute
 * @ret_key  [out]
 * @error    may be NULL; describes the failure
 * Returns KILN_OK; KILN_E_INVALID: NULL, or the path is not absolute, or the file does not exist;
 * KILN_E_DENIED: the file has the wrong owner, mode or kind, or does not contain a secret key;
 * KILN_E_IO; KILN_E_NO_MEMORY. Threads: any. Blocks: on the file system. */
KILN_API kiln_status kiln_secret_key_get_public(const char *path, kiln_public_key *ret_key,
                                                kiln_error *error);

/* Receives a key from a file of trusted keys, and whether the file revokes that key. Returns 0 to
 * continue. */
typedef int (*kiln_trusted_key_fn)(void *user, const kiln_public_key *key, int is_revoked);

/* Reads a file of trusted keys: a line "NAME:KEY" for each trusted key, and "revoked NAME:KEY" for
 * each revoked one; lines that begin with '#' are comments. The file and its folder must belong to
 * this user or to root, and others must not be able to write to them.
 *
 * @path   absolute
 * @visit  called for each line with a key, in the order of the file
 * @user   passed to @visit; may be NULL
 * @error  may be NULL; names the file and, if a line is wrong, the line
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_INVALID: NULL, or the path is not absolute;
 * KILN_E_PARSE: a line has none of these forms; KILN_E_DENIED: the file or folder has the wrong
 * owner, mode or kind; KILN_E_TOO_LARGE: the file has more than 1 MiB; KILN_E_IO; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: on the file system. */
KILN_API kiln_status kiln_trusted_keys_each(const char *path, kiln_trusted_key_fn visit, void *user,
                                            kiln_error *error);

/* Adds a line to a file of trusted keys. A missing file is made, with mode 0644.
 *
 * @path        absolute; its folder must exist
 * @is_revoked  whether the line revokes the key
 * @error       may be NULL; describes the failure
 * Returns KILN_OK; what kiln_trusted_keys_each returns for the existing file; KILN_E_INVALID: the
 * key's name is not a valid one; KILN_BUSY: another process kept the file locked for 5 seconds;
 * KILN_E_READONLY; KILN_E_FULL. Threads: any. Blocks: on the file system, and while another process
 * adds a line. */
KILN_API kiln_status kiln_trusted_keys_add(const char *path, const kiln_public_key *key,
                                           int is_revoked, kiln_error *error);

#ifdef __cplusplus
}
#endif

#endif
