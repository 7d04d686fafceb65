/* SPDX-License-Identifier: Apache-2.0 */
#include "device/file_identity.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "key/hash.h"
#include "os/file.h"
#include "os/os.h"

enum { PAGE = 4096, WHOLE = 256 * PAGE, SAMPLES = 64 };

/* Returns the position of page @i of the sample in a file of @size bytes. */
static uint64_t sample_offset(uint64_t size, size_t i)
{
    uint64_t pages = (size + PAGE - 1) / PAGE;
    return (pages - 1) * i / (SAMPLES - 1) * PAGE;
}

static kiln_status append_digest(kilni_text *text, uint64_t size, const void *bytes, size_t count)
{
    kiln_digest digest = kilni_hash(bytes, count);
    char words[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, words);
    return kilni_text_printf(text, "%s:%llu:%s", size > WHOLE ? "sample" : "content",
                             (unsigned long long)size, words);
}

/* ---- build-ids ---- */

static size_t aligned(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

/* Looks for a build-id in a sequence of ELF notes. Returns NULL if there is none. */
static const unsigned char *find_build_id(const unsigned char *notes, size_t size, size_t *ret_size)
{
    size_t at = 0;
    ElfW(Nhdr) note;
    while (size - at >= sizeof note) {
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        if (note.n_namesz > size || aligned(note.n_namesz) > size - at) {
            return NULL;
        }
        const unsigned char *name = notes + at;
        at += aligned(note.n_namesz);
        if (note.n_descsz > size || aligned(note.n_descsz) > size - at) {
            return NULL;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
            note.n_descsz > 0) {
            *ret_size = note.n_descsz;
            return notes + at;
        }
        at += aligned(note.n_descsz);
    }
    return NULL;
}

static kiln_status append_build_id(kilni_text *text, const unsigned char *id, size_t size)
{
    kiln_status status = kilni_text_append(text, "build-id:");
    for (size_t i = 0; i < size; i++) {
        status = kilni_text_printf(text, "%02x", id[i]);
    }
    return status;
}

/* ---- files ---- */

/* Returns the build-id of an ELF file, or NULL if it is not within the first @size bytes. */
static const unsigned char *find_file_build_id(const unsigned char *bytes, size_t size,
                                               size_t *ret_size)
{
    ElfW(Ehdr) head;
    if (size < sizeof head) {
        return NULL;
    }
    memcpy(&head, bytes, sizeof head);
    unsigned char native = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != native ||
        head.e_phentsize != sizeof(ElfW(Phdr))) {
        return NULL;
    }
    for (size_t i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) segment;
        if (head.e_phoff > size || (size - head.e_phoff) / sizeof segment <= i) {
            return NULL;
        }
        memcpy(&segment, bytes + head.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type != PT_NOTE || segment.p_offset > size ||
            segment.p_filesz > size - segment.p_offset) {
            continue;
        }
        const unsigned char *id =
            find_build_id(bytes + segment.p_offset, segment.p_filesz, ret_size);
        if (id) {
            return id;
        }
    }
    return NULL;
}

static kiln_status read_exactly(int file, unsigned char *buffer, size_t size, uint64_t offset)
{
    size_t count;
    kiln_status status = kilni_file_read_at(file, buffer, size, (off_t)offset, &count);
    return status == KILN_OK && count == size ? KILN_OK : KILN_E_UNSUPPORTED;
}

/* Asks the system to start reading all pages of a sample, so that the reads overlap. */
static void fetch_sample(int file, uint64_t size)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        posix_fadvise(file, (off_t)sample_offset(size, i), PAGE, POSIX_FADV_WILLNEED);
    }
}

static kiln_status read_sample(int file, uint64_t size, unsigned char *buffer, size_t *ret_count)
{
    fetch_sample(file, size);
    size_t filled = 0;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < SAMPLES && status == KILN_OK; i++) {
        uint64_t offset = sample_offset(size, i);
        size_t count = size - offset < PAGE ? (size_t)(size - offset) : PAGE;
        status = read_exactly(file, buffer + filled, count, offset);
        filled += count;
    }
    *ret_count = filled;
    return status;
}

static kiln_status identify_file(int file, uint64_t size, unsigned char *buffer, kilni_text *text)
{
    size_t count = size < PAGE ? (size_t)size : PAGE;
    kiln_status status = read_exactly(file, buffer, count, 0);
    if (status != KILN_OK) {
        return status;
    }
    size_t id_size;
    const unsigned char *id = find_file_build_id(buffer, count, &id_size);
    if (id) {
        return append_build_id(text, id, id_size);
    }
    if (size <= WHOLE) {
        count = (size_t)size;
        status = read_exactly(file, buffer, count, 0);
    } else {
        status = read_sample(file, size, buffer, &count);
    }
    return status == KILN_OK ? append_digest(text, size, buffer, count) : status;
}

static kiln_status identify_open_file(int file, kilni_text *text)
{
    struct stat facts;
    if (kilni_os()->fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 0) {
        return KILN_E_UNSUPPORTED;
    }
    unsigned char *buffer = malloc(WHOLE);
    if (!buffer) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = identify_file(file, (uint64_t)facts.st_size, buffer, text);
    free(buffer);
    return status;
}

kiln_status kilni_file_identity(const char *path, kilni_text *text)
{
    int file = kilni_os()->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (file < 0) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = identify_open_file(file, text);
    kilni_os()->close(file);
    return status;
}

/* ---- libraries in memory ---- */

static const unsigned char *address(const struct dl_phdr_info *library, const ElfW(Phdr) * segment)
{
    /* The address is where the loader mapped the segment. */
    return (const unsigned char *)(uintptr_t)(library->dlpi_addr + segment->p_vaddr); // NOLINT
}

static bool append_loaded_build_id(const struct dl_phdr_info *library, kilni_text *text,
                                   kiln_status *ret_status)
{
    for (size_t i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        size_t size;
        const unsigned char *id =
            segment->p_type == PT_NOTE
                ? find_build_id(address(library, segment), segment->p_memsz, &size)
                : NULL;
        if (id) {
            *ret_status = append_build_id(text, id, size);
            return true;
        }
    }
    return false;
}

static bool stays_as_loaded(const ElfW(Phdr) * segment)
{
    return segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && !(segment->p_flags & PF_W) &&
           segment->p_filesz > 0;
}

/* Treats all segments that stay as loaded as one sequence of bytes. Returns a pointer to the byte
 * at @offset in this sequence, or NULL if the sequence is shorter. Sets @ret_left to the number of
 * bytes from there to the end of the segment. */
static const unsigned char *locate(const struct dl_phdr_info *library, uint64_t offset,
                                   uint64_t *ret_left)
{
    for (size_t i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        if (!stays_as_loaded(segment)) {
            continue;
        }
        if (offset < segment->p_filesz) {
            *ret_left = segment->p_filesz - offset;
            return address(library, segment) + offset;
        }
        offset -= segment->p_filesz;
    }
    return NULL;
}

static size_t copy_loaded(const struct dl_phdr_info *library, uint64_t offset,
                          unsigned char *buffer, size_t wanted)
{
    size_t copied = 0;
    uint64_t left;
    const unsigned char *from;
    while (copied < wanted && (from = locate(library, offset + copied, &left)) != NULL) {
        size_t count = left < wanted - copied ? (size_t)left : wanted - copied;
        memcpy(buffer + copied, from, count);
        copied += count;
    }
    return copied;
}

/* Does the same as fetch_sample for a loaded library. */
static void fetch_loaded(const struct dl_phdr_info *library, uint64_t size)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        uint64_t left;
        const unsigned char *from = locate(library, sample_offset(size, i), &left);
        uintptr_t page = (uintptr_t)from & ~(uintptr_t)(PAGE - 1);
        madvise((void *)page, 2 * PAGE, MADV_WILLNEED); // NOLINT: where the loader put it
    }
}

static kiln_status append_loaded_digest(const struct dl_phdr_info *library, uint64_t size,
                                        kilni_text *text)
{
    unsigned char *buffer = malloc(WHOLE);
    if (!buffer) {
        return KILN_E_NO_MEMORY;
    }
    size_t count = 0;
    if (size <= WHOLE) {
        count = copy_loaded(library, 0, buffer, (size_t)size);
    } else {
        fetch_loaded(library, size);
        for (size_t i = 0; i < SAMPLES; i++) {
            count += copy_loaded(library, sample_offset(size, i), buffer + count, PAGE);
        }
    }
    kiln_status status = append_digest(text, size, buffer, count);
    free(buffer);
    return status;
}

kiln_status kilni_library_identity(const struct dl_phdr_info *library, kilni_text *text)
{
    kiln_status status;
    if (append_loaded_build_id(library, text, &status)) {
        return status;
    }
    uint64_t size = 0;
    for (size_t i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        size += stays_as_loaded(segment) ? segment->p_filesz : 0;
    }
    return size > 0 ? append_loaded_digest(library, size, text) : KILN_E_UNSUPPORTED;
}

kiln_status kilni_library_build_id(const struct dl_phdr_info *library, kilni_text *text)
{
    kiln_status status = KILN_MISS;
    append_loaded_build_id(library, text, &status);
    return status;
}
