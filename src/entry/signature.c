/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/signature.h"

#include <sodium.h>
#include <string.h>

#include "base/bytes.h"
#include "base/sized_struct.h"
#include "entry/entry.h"
#include "entry/handle.h"

#define HASH_SIZE 32u
#define SIGNATURE_SIZE 64u
#define ALGORITHM 1u /* Ed25519 over BLAKE2b-256, as in docs/format.md */
#define PAYLOAD_HASH_OFFSET 80u
#define SIGNATURE_OFFSET (PAYLOAD_HASH_OFFSET + HASH_SIZE)
#define NAME_OFFSET (SIGNATURE_OFFSET + SIGNATURE_SIZE)
#define PURPOSE "kiln entry signature 1" /* a key signs nothing else that begins with this */
#define STATEMENT_MAX_SIZE                                                                         \
    (sizeof PURPOSE + SIGNATURE_OFFSET + KILN_SIGNER_NAME_SIZE - 1 + HASH_SIZE)

_Static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SECRETKEYBYTES == 64 &&
                   crypto_sign_BYTES == SIGNATURE_SIZE && crypto_sign_SEEDBYTES == 32,
               "the sizes that the format has");

/* A section's content. */
typedef struct signature_fields {
    int64_t expires_s;
    kiln_public_key signer;
    unsigned char frame_hash[HASH_SIZE];   /* of the compressed payload; zeros if it was plain */
    unsigned char payload_hash[HASH_SIZE]; /* of the plain payload */
    const unsigned char *signature;
} signature_fields;

void kilni_secret_key_from_seed(const unsigned char seed[32], kilni_secret_key *key)
{
    crypto_sign_seed_keypair(key->public_key.bytes, key->bytes, seed);
}

size_t kilni_signature_section_size(const kiln_public_key *signer)
{
    return NAME_OFFSET + strlen(signer->name);
}

/* ---- the section ---- */

static bool decode_fields(kiln_bytes section, signature_fields *ret_fields)
{
    kilni_byte_reader reader = {.at = section.data, .left = section.size};
    const uint32_t algorithm = kilni_read_u32(&reader);
    const uint32_t reserved = kilni_read_u32(&reader);
    signature_fields fields = {.expires_s = (int64_t)kilni_read_u64(&reader)};
    const unsigned char *key = kilni_read_bytes(&reader, sizeof fields.signer.bytes);
    const unsigned char *frame_hash = kilni_read_bytes(&reader, HASH_SIZE);
    const unsigned char *payload_hash = kilni_read_bytes(&reader, HASH_SIZE);
    fields.signature = kilni_read_bytes(&reader, SIGNATURE_SIZE);
    const size_t length = reader.left;
    const unsigned char *name = kilni_read_bytes(&reader, length);
    if (reader.failed || algorithm != ALGORITHM || reserved != 0 ||
        !kilni_public_key_is_name((const char *)name, length)) {
        return false;
    }
    memcpy(fields.signer.bytes, key, sizeof fields.signer.bytes);
    memcpy(fields.signer.name, name, length);
    memcpy(fields.frame_hash, frame_hash, HASH_SIZE);
    memcpy(fields.payload_hash, payload_hash, HASH_SIZE);
    *ret_fields = fields;
    return true;
}

/* Writes everything except the signature. */
static void encode_fields(const signature_fields *fields, unsigned char *section)
{
    const size_t length = strlen(fields->signer.name);
    kilni_byte_writer writer = {.at = section, .left = NAME_OFFSET + length};
    kilni_write_u32(&writer, ALGORITHM);
    kilni_write_u32(&writer, 0);
    kilni_write_u64(&writer, (uint64_t)fields->expires_s);
    kilni_write_bytes(&writer, fields->signer.bytes, sizeof fields->signer.bytes);
    kilni_write_bytes(&writer, fields->frame_hash, HASH_SIZE);
    kilni_write_bytes(&writer, fields->payload_hash, HASH_SIZE);
    kilni_write_zeros(&writer, SIGNATURE_SIZE);
    kilni_write_bytes(&writer, fields->signer.name, length);
}

/* Returns the signature section, or NULL if there is none. A section counts only if it is the last,
 * or the last before the MAC, and if it has no flags. */
static const kilni_entry_section *find(const kilni_entry_structure *structure)
{
    const kilni_entry_section *found =
        kilni_entry_structure_find(structure, KILNI_SECTION_SIGNATURE);
    if (!found || found->flags != 0) {
        return NULL;
    }
    const size_t after = structure->header.section_count - (size_t)(found - structure->sections);
    return after == 1 || (after == 2 && found[1].type == KILNI_SECTION_MAC) ? found : NULL;
}

/* ---- what is signed ---- */

static void hash_bytes(const void *bytes, uint64_t size, unsigned char ret_hash[HASH_SIZE])
{
    crypto_generichash(ret_hash, HASH_SIZE, bytes, size, NULL, 0);
}

/* For the payload, @content is the hash of the plain payload. This hash is known without
 * decompressing the payload. */
static void add_section(crypto_generichash_state *state, const kilni_entry_section *section,
                        kiln_bytes content, uint64_t size)
{
    unsigned char row[16];
    kilni_byte_writer writer = {.at = row, .left = sizeof row};
    kilni_write_u32(&writer, section->type);
    kilni_write_u32(&writer, section->flags);
    kilni_write_u64(&writer, size);
    crypto_generichash_update(state, row, sizeof row);
    crypto_generichash_update(state, content.data, content.size);
}

/* Hashes the content of an entry. The hash does not depend on how the entry is stored: whether its
 * key is stripped, its payload is compressed, or it has a MAC.
 *
 * @key  completely stripped */
static void hash_content(const kilni_entry_structure *structure, const kiln_key *key,
                         const unsigned char payload_hash[HASH_SIZE],
                         unsigned char ret_hash[HASH_SIZE])
{
    unsigned char head[4 + sizeof structure->header.digest.bytes + 4];
    kilni_byte_writer writer = {.at = head, .left = sizeof head};
    kilni_write_u32(&writer, KILNI_ENTRY_VERSION);
    kilni_write_bytes(&writer, structure->header.digest.bytes,
                      sizeof structure->header.digest.bytes);
    kilni_write_u32(&writer, structure->header.kind);
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, HASH_SIZE);
    crypto_generichash_update(&state, head, sizeof head);
    for (uint32_t i = 0; i < structure->header.section_count; i++) {
        const kilni_entry_section *section = &structure->sections[i];
        kiln_bytes content = {section->bytes, (size_t)section->size};
        uint64_t size = section->size;
        if (section->type == KILNI_SECTION_MAC || section->type == KILNI_SECTION_SIGNATURE) {
            continue;
        }
        if (section->type == KILNI_SECTION_KEY) {
            content.data = kiln_key_encoding(key, &content.size);
            size = content.size;
        } else if (section->type == KILNI_SECTION_PAYLOAD) {
            content = (kiln_bytes){payload_hash, HASH_SIZE};
            size = structure->header.payload_size;
        }
        add_section(&state, section, content, size);
    }
    crypto_generichash_final(&state, ret_hash, HASH_SIZE);
}

/* Makes the bytes that are signed: PURPOSE, the section without the signature, and the hash of the
 * content. */
static kiln_status make_statement(const kilni_entry_structure *structure, const kiln_key *key,
                                  const unsigned char *section, size_t section_size,
                                  unsigned char ret_statement[STATEMENT_MAX_SIZE], size_t *ret_size)
{
    kiln_key *stripped = NULL;
    const kiln_status status = kiln_key_strip(key, 0, &stripped);
    if (status != KILN_OK) {
        return status;
    }
    unsigned char hash[HASH_SIZE];
    hash_content(structure, stripped, section + PAYLOAD_HASH_OFFSET, hash);
    kiln_key_release(&stripped);
    kilni_byte_writer writer = {.at = ret_statement, .left = STATEMENT_MAX_SIZE};
    kilni_write_bytes(&writer, PURPOSE, sizeof PURPOSE);
    kilni_write_bytes(&writer, section, SIGNATURE_OFFSET);
    kilni_write_bytes(&writer, section + NAME_OFFSET, section_size - NAME_OFFSET);
    kilni_write_bytes(&writer, hash, sizeof hash);
    *ret_size = STATEMENT_MAX_SIZE - writer.left;
    return KILN_OK;
}

kiln_status kilni_entry_structure_sign(const kilni_entry_structure *structure, const kiln_key *key,
                                       kiln_bytes plain, const kilni_secret_key *secret,
                                       int64_t expires_s, unsigned char *ret_section)
{
    signature_fields fields = {.expires_s = expires_s, .signer = secret->public_key};
    const kilni_entry_section *payload =
        kilni_entry_structure_find(structure, KILNI_SECTION_PAYLOAD);
    if (structure->header.flags & KILNI_ENTRY_COMPRESSED) {
        hash_bytes(payload->bytes, payload->size, fields.frame_hash);
    }
    hash_bytes(plain.data, plain.size, fields.payload_hash);
    encode_fields(&fields, ret_section);
    unsigned char statement[STATEMENT_MAX_SIZE];
    size_t size;
    const kiln_status status =
        make_statement(structure, key, ret_section, kilni_signature_section_size(&fields.signer),
                       statement, &size);
    if (status == KILN_OK) {
        crypto_sign_detached(ret_section + SIGNATURE_OFFSET, NULL, statement, size, secret->bytes);
    }
    return status;
}

/* ---- checking ---- */

static bool is_trusted(const kilni_trusted_keys *trusted, const kiln_public_key *signer)
{
    bool is_found = false;
    for (size_t i = 0; i < trusted->count; i++) {
        const kilni_trusted_key *known = &trusted->keys[i];
        if (memcmp(known->key.bytes, signer->bytes, sizeof signer->bytes) == 0) {
            if (known->is_revoked) {
                return false;
            }
            is_found = true;
        }
    }
    return is_found;
}

static bool has_payload(const kilni_entry_structure *structure, const signature_fields *fields)
{
    const kilni_entry_section *payload =
        kilni_entry_structure_find(structure, KILNI_SECTION_PAYLOAD);
    const bool is_compressed = structure->header.flags & KILNI_ENTRY_COMPRESSED;
    unsigned char hash[HASH_SIZE];
    hash_bytes(payload->bytes, payload->size, hash);
    return memcmp(hash, is_compressed ? fields->frame_hash : fields->payload_hash, HASH_SIZE) == 0;
}

kiln_status kilni_entry_structure_verify(const kilni_entry_structure *structure,
                                         const kiln_key *key, const kilni_trusted_keys *trusted,
                                         int64_t now_s)
{
    const kilni_entry_section *section = find(structure);
    signature_fields fields;
    if (!section || !decode_fields((kiln_bytes){section->bytes, (size_t)section->size}, &fields) ||
        !is_trusted(trusted, &fields.signer) ||
        (fields.expires_s != 0 && now_s >= fields.expires_s) || !has_payload(structure, &fields)) {
        return KILN_E_UNAUTHENTICATED;
    }
    unsigned char statement[STATEMENT_MAX_SIZE];
    size_t size;
    const kiln_status status =
        make_statement(structure, key, section->bytes, (size_t)section->size, statement, &size);
    if (status != KILN_OK) {
        return status;
    }
    return crypto_sign_verify_detached(fields.signature, statement, size, fields.signer.bytes) == 0
               ? KILN_OK
               : KILN_E_UNAUTHENTICATED;
}

bool kilni_entry_has_signed_payload(const kiln_entry *entry)
{
    kilni_entry_structure structure;
    signature_fields fields;
    return !entry->signature.data || !decode_fields(entry->signature, &fields) ||
           kilni_entry_structure_decode(entry->bytes, entry->size, &structure) != KILN_OK ||
           has_payload(&structure, &fields);
}

kiln_status kilni_entry_verify(const kiln_entry *entry, const kilni_trusted_keys *trusted,
                               int64_t now_s)
{
    kilni_entry_structure structure;
    const kiln_status status = kilni_entry_structure_decode(entry->bytes, entry->size, &structure);
    return status == KILN_OK ? kilni_entry_structure_verify(&structure, entry->key, trusted, now_s)
                             : status;
}

kiln_status kiln_entry_get_signature(const kiln_entry *entry, kiln_signature *ret_signature)
{
    if (!entry || !ret_signature || !kilni_sized_struct_is_valid(ret_signature)) {
        return KILN_E_INVALID;
    }
    if (!entry->signature.data) {
        return KILN_MISS;
    }
    signature_fields fields;
    if (!decode_fields(entry->signature, &fields)) {
        return KILN_E_CORRUPT;
    }
    const kiln_signature signature = {.signer = fields.signer, .expires_s = fields.expires_s};
    kilni_sized_struct_copy_out(ret_signature, &signature, sizeof signature);
    return KILN_OK;
}
