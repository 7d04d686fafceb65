/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes little-endian integers and runs of bytes within a buffer. If a caller asks for
 * more bytes than are left, the reader or writer fails, and stays failed. From then on, reads
 * return zero, writes do nothing, and the position does not change. So a caller needs to check only
 * once, after a group of calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct kilni_byte_reader {
    const unsigned char *at;
    size_t left;
    bool failed;
} kilni_byte_reader;

typedef struct kilni_byte_writer {
    unsigned char *at;
    size_t left;
    bool failed;
} kilni_byte_writer;

/* Returns a pointer to the next @size bytes, or NULL if fewer are left. */
static inline const unsigned char *kilni_read_bytes(kilni_byte_reader *reader, uint64_t size)
{
    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return NULL;
    }
    const unsigned char *bytes = reader->at;
    reader->at += size;
    reader->left -= (size_t)size;
    return bytes;
}

static inline uint64_t kilni_read_integer(kilni_byte_reader *reader, size_t width)
{
    const unsigned char *bytes = kilni_read_bytes(reader, width);
    uint64_t value = 0;
    for (size_t i = 0; bytes && i < width; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static inline uint8_t kilni_read_u8(kilni_byte_reader *reader)
{
    return (uint8_t)kilni_read_integer(reader, 1);
}

static inline uint32_t kilni_read_u32(kilni_byte_reader *reader)
{
    return (uint32_t)kilni_read_integer(reader, 4);
}

static inline uint64_t kilni_read_u64(kilni_byte_reader *reader)
{
    return kilni_read_integer(reader, 8);
}

/* Returns the space for the next @size bytes, or NULL if less is left. The caller fills the space.
 */
static inline unsigned char *kilni_write_space(kilni_byte_writer *writer, size_t size)
{
    if (writer->failed || size > writer->left) {
        writer->failed = true;
        return NULL;
    }
    unsigned char *space = writer->at;
    writer->at += size;
    writer->left -= size;
    return space;
}

/* @bytes may be NULL if size is 0. */
static inline void kilni_write_bytes(kilni_byte_writer *writer, const void *bytes, size_t size)
{
    unsigned char *space = kilni_write_space(writer, size);
    if (space && size > 0) {
        memcpy(space, bytes, size);
    }
}

static inline void kilni_write_zeros(kilni_byte_writer *writer, size_t size)
{
    unsigned char *space = kilni_write_space(writer, size);
    if (space) {
        memset(space, 0, size);
    }
}

static inline void kilni_write_integer(kilni_byte_writer *writer, uint64_t value, size_t width)
{
    unsigned char *space = kilni_write_space(writer, width);
    for (size_t i = 0; space && i < width; i++) {
        space[i] = (unsigned char)(value >> (8 * i));
    }
}

static inline void kilni_write_u8(kilni_byte_writer *writer, uint8_t value)
{
    kilni_write_integer(writer, value, 1);
}

static inline void kilni_write_u32(kilni_byte_writer *writer, uint32_t value)
{
    kilni_write_integer(writer, value, 4);
}

static inline void kilni_write_u64(kilni_byte_writer *writer, uint64_t value)
{
    kilni_write_integer(writer, value, 8);
}
