/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding begins with the count of answers, u32. Each answer consists of: the number of the
 * output, u8; the result of the first function, u32; the size that it returned, u64; the result of
 * the second function, u32; and a number that says where the bytes are, u8. The bytes are in the
 * code, or follow this number as a whole or in pieces. Pieces are encoded as their count, u32, and
 * for each piece its size, u32, and its bytes. A decoder inserts the folder of the program's name
 * between two pieces. After the answers come the count of names, u32, and for each name the
 * expression, the result, u32, and the lowered name.
 */
#include "device/nvrtc/outputs.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/log.h"
#include "device/watch/encoding.h"
#include "device/watch/inputs.h"

enum { BYTES_HERE = 0, BYTES_IN_CODE = 1, BYTES_IN_PIECES = 2 };

/* Larger than any output of a compiled program. */
#define MAX_OUTPUT_BYTES (UINT64_C(1) << 30)

/* The outputs that can be the code, in order of preference. */
static const kilni_nvrtc_output by_rank[] = {
    KILNI_NVRTC_CUBIN, KILNI_NVRTC_LTOIR, KILNI_NVRTC_OPTIXIR, KILNI_NVRTC_NVVM,
    KILNI_NVRTC_PTX,   KILNI_HIPRTC_CODE, KILNI_HIPRTC_BITCODE};

/* Returns true if an output is not text, or has no bytes, or ends with the zero byte that programs
 * expect. */
static bool is_terminated(const kilni_nvrtc_answer *answer, int output)
{
    const bool is_text = output == KILNI_NVRTC_LOG || output == KILNI_NVRTC_PTX;
    const char *bytes = answer->bytes.data;
    return !is_text || answer->bytes.size == 0 || bytes[answer->bytes.size - 1] == '\0';
}

/* ---- taking outputs ---- */

/* @ret_bytes is malloc'ed even if the output has no bytes. */
static kiln_status take_answer(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program,
                               kilni_nvrtc_output output, kilni_nvrtc_answer *ret_answer,
                               char **ret_bytes)
{
    size_t size = 0;
    kilni_nvrtc_answer answer = {.is_known = 1};
    answer.size_result = nvrtc->size[output](program, &size);
    if (size > MAX_OUTPUT_BYTES) {
        return KILN_E_UNSUPPORTED;
    }
    answer.size = answer.size_result == KILNI_NVRTC_SUCCESS ? size : 0;
    char *bytes = calloc(1, (size_t)answer.size + 1);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    answer.get_result = nvrtc->get[output](program, bytes);
    const int has_bytes = answer.get_result == KILNI_NVRTC_SUCCESS;
    if (has_bytes && output == KILNI_NVRTC_LOG && answer.size > 0 &&
        kilni_nvrtc_log_remove_headers(bytes)) {
        answer.size = strlen(bytes) + 1;
    }
    answer.bytes = (kiln_bytes){bytes, has_bytes ? (size_t)answer.size : 0};
    *ret_answer = answer;
    *ret_bytes = bytes;
    return is_terminated(&answer, output) ? KILN_OK : KILN_E_UNSUPPORTED;
}

static kiln_status append_answer(kilni_text *text, kilni_nvrtc_output output,
                                 const kilni_nvrtc_answer *answer, int place)
{
    const struct {
        uint64_t value;
        size_t width;
    } numbers[] = {{output, 1},
                   {(uint32_t)answer->size_result, 4},
                   {answer->size, 8},
                   {(uint32_t)answer->get_result, 4},
                   {(uint64_t)place, 1}};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == KILN_OK; i++) {
        status = kilni_append_number(text, numbers[i].value, numbers[i].width);
    }
    return status;
}

static kiln_status take_answers(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program,
                                char **bytes, kilni_nvrtc_outputs *outputs)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < KILNI_NVRTC_OUTPUT_COUNT && status == KILN_OK; i++) {
        if (nvrtc->size[i] && nvrtc->get[i]) {
            status =
                take_answer(nvrtc, program, (kilni_nvrtc_output)i, &outputs->answers[i], &bytes[i]);
        }
    }
    return status;
}

/* ---- where a result contains the program's folder ---- */

static bool has(kiln_bytes bytes, const char *word, size_t length)
{
    return bytes.size > 0 && memmem(bytes.data, bytes.size, word, length) != NULL;
}

/* Spells a text as PTX does, with a number for each character: "47, 116, 109, 112". */
static kiln_status spell(const char *word, size_t length, kilni_text *spelled)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < length && status == KILN_OK; i++) {
        status = kilni_text_printf(spelled, "%s%u", i > 0 ? ", " : "", (unsigned char)word[i]);
    }
    return status;
}

/* SHORTEST_IDENTIFIER is the length of "_INTERNAL_00000000_1_k_f". LONGEST_IDENTIFIER is a power of
 * ten that exceeds the length of a file name and a symbol together. */
#define SHORTEST_IDENTIFIER 24
#define LONGEST_IDENTIFIER 100000

static size_t hex_digits_before(const char *text, size_t end)
{
    size_t count = 0;
    while (count < end && isxdigit((unsigned char)text[end - 1 - count])) {
        count++;
    }
    return count;
}

/* The names of hidden symbols contain an identifier of their program. This identifier consists of
 * the last part of the program's name, followed either by the program's first symbol that is not
 * hidden, or by a checksum of that symbol. If the program has only hidden symbols, the identifier
 * instead contains a checksum of the program's folder and the process ID, as in "_97959a68_825741".
 * Returns true for every identifier of this last form. */
static bool is_made_from_place(const char *identifier, size_t length)
{
    const size_t process = hex_digits_before(identifier, length);
    if (process == 0 || process == length || identifier[length - process - 1] != '_') {
        return false;
    }
    const size_t end = length - process - 1;
    const size_t checksum = hex_digits_before(identifier, end);
    return checksum > 0 && checksum < end && identifier[end - checksum - 1] == '_';
}

typedef enum identifier_kind { OF_SYMBOL, OF_PLACE, NO_IDENTIFIER } identifier_kind;

/* In a symbol's name, an identifier comes after its length. Other digits can come directly before
 * the length, as in "__445_GLOBAL_". So every suffix of these digits might be the length.
 *
 * @begin  the beginning of the text, which ends at @end */
static identifier_kind kind_of_identifier(const char *word, const char *begin, const char *end)
{
    identifier_kind kind = NO_IDENTIFIER;
    size_t length = 0, scale = 1;
    for (const char *digit = word; digit > begin && isdigit((unsigned char)digit[-1]); digit--) {
        length += (size_t)(digit[-1] - '0') * scale;
        scale *= 10;
        if (length > (size_t)(end - word) || scale > LONGEST_IDENTIFIER) {
            break;
        }
        if (length >= SHORTEST_IDENTIFIER && kind != OF_PLACE) {
            kind = is_made_from_place(word, length) ? OF_PLACE : OF_SYMBOL;
        }
    }
    return kind;
}

static bool begins_with(const char *text, const char *end, const char *word)
{
    const size_t length = strlen(word);
    return (size_t)(end - text) >= length && memcmp(text, word, length) == 0;
}

/* Returns true if a line of PTX declares something that other programs can be linked to by name. */
static bool is_linked_by_name(const char *line, const char *end)
{
    return begins_with(line, end, ".visible") || begins_with(line, end, ".weak") ||
           begins_with(line, end, ".common") || begins_with(line, end, ".extern") ||
           begins_with(line, end, ".alias");
}

/* Returns true if a symbol reveals where the program was compiled. If the name of a symbol is made
 * from the folder, the symbol reveals the folder only if other programs can see it. A hidden name
 * of this kind differs in each process, so no program can depend on it. If the identifier of a
 * symbol is not recognized, the function assumes that the symbol reveals the folder. */
static bool any_symbol_reveals_place(kiln_bytes ptx)
{
    const char *const end = (const char *)ptx.data + ptx.size;
    const char *line = ptx.data;
    bool reveals = false;
    for (const char *at = ptx.data; at < end && !reveals; at++) {
        line = at[0] == '\n' ? at + 1 : line;
        if (begins_with(at, end, "_INTERNAL_") || begins_with(at, end, "_GLOBAL__N_")) {
            const identifier_kind kind = kind_of_identifier(at, ptx.data, end);
            reveals = kind == NO_IDENTIFIER || (kind == OF_PLACE && is_linked_by_name(line, end));
        }
    }
    return reveals;
}

/* Returns the text before the next occurrence of the folder.
 *
 * @ret_rest  [out] the text after that occurrence; empty if there is none */
static kiln_bytes cut_at_folder(kiln_bytes text, const char *folder, size_t length,
                                kiln_bytes *ret_rest)
{
    const char *const begin = text.data;
    const char *found = text.size > 0 ? memmem(begin, text.size, folder, length) : NULL;
    if (!found) {
        *ret_rest = (kiln_bytes){NULL, 0};
        return text;
    }
    const size_t before = (size_t)(found - begin);
    *ret_rest = (kiln_bytes){found + length, text.size - before - length};
    return (kiln_bytes){begin, before};
}

/* Returns true if every occurrence of the folder in a text begins a path. Any other occurrence
 * might be the end of a different folder's path. */
static bool names_only_this_folder(kiln_bytes text, const char *folder, size_t length)
{
    bool only = true;
    while (text.data && only) {
        kiln_bytes rest;
        const kiln_bytes before = cut_at_folder(text, folder, length, &rest);
        only = !rest.data || before.size == 0 ||
               memchr(" \t\n\"'(<", ((const char *)before.data)[before.size - 1], 7) != NULL;
        text = rest;
    }
    return only;
}

/* Sets @ret_moves to true if nothing reveals the folder, or only the log does. This requires that
 * all outputs can be searched for text, that no output except the log contains the folder, that no
 * symbol reveals where its source is, and that the log contains the folder only at the beginning of
 * paths. */
static kiln_status check_moves(const kilni_nvrtc_outputs *outputs, const char *folder,
                               size_t length, bool *ret_moves)
{
    const kiln_bytes ptx = outputs->answers[KILNI_NVRTC_PTX].bytes,
                     cubin = outputs->answers[KILNI_NVRTC_CUBIN].bytes,
                     log = outputs->answers[KILNI_NVRTC_LOG].bytes;
    const kilni_nvrtc_output code = kilni_nvrtc_outputs_code(outputs);
    kilni_text spelled = {0};
    const kiln_status status = spell(folder, length, &spelled);
    if (status == KILN_OK) {
        /* A CUBIN has the same symbols as its PTX. */
        *ret_moves = (code == KILNI_NVRTC_PTX || (code == KILNI_NVRTC_CUBIN && ptx.size > 1)) &&
                     !has(ptx, folder, length) && !has(cubin, folder, length) &&
                     !has(ptx, spelled.bytes, spelled.length) && !any_symbol_reveals_place(ptx) &&
                     names_only_this_folder(log, folder, length);
    }
    kilni_text_done(&spelled);
    return status;
}

static kiln_status append_pieces(kilni_text *text, kiln_bytes log, const char *folder,
                                 size_t length)
{
    kilni_text pieces = {0};
    uint32_t count = 0;
    for (kiln_bytes rest = log; rest.data || count == 0; count++) {
        const kiln_bytes piece = cut_at_folder(rest, folder, length, &rest);
        kilni_append_number(&pieces, piece.size, 4);
        kilni_text_append_bytes(&pieces, piece.data, piece.size);
    }
    kiln_status status = pieces.has_failed ? KILN_E_NO_MEMORY : kilni_append_number(text, count, 4);
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(text, pieces.bytes, pieces.length);
    }
    kilni_text_done(&pieces);
    return status;
}

/* ---- encoding ---- */

static bool is_success(const kilni_nvrtc_answer *answer)
{
    return answer->size_result == KILNI_NVRTC_SUCCESS && answer->get_result == KILNI_NVRTC_SUCCESS;
}

static int place_of(const kilni_nvrtc_outputs *outputs, size_t output, bool moves)
{
    if (output == KILNI_NVRTC_LOG) {
        return moves && is_success(&outputs->answers[output]) ? BYTES_IN_PIECES : BYTES_HERE;
    }
    return output == kilni_nvrtc_outputs_code(outputs) ? BYTES_IN_CODE : BYTES_HERE;
}

static kiln_status append_bytes(const kilni_nvrtc_answer *answer, int place, const char *name,
                                kilni_text *encoded, kilni_text *code)
{
    if (place == BYTES_IN_PIECES) {
        return append_pieces(encoded, answer->bytes, name, kilni_program_folder_length(name));
    }
    return kilni_text_append_bytes(place == BYTES_IN_CODE ? code : encoded, answer->bytes.data,
                                   answer->bytes.size);
}

static kiln_status append_answers(const kilni_nvrtc_outputs *outputs, const char *name, bool moves,
                                  kilni_text *encoded, kilni_text *code)
{
    uint32_t count = 0;
    for (size_t i = 0; i < KILNI_NVRTC_OUTPUT_COUNT; i++) {
        count += outputs->answers[i].is_known ? 1 : 0;
    }
    kiln_status status = kilni_append_number(encoded, count, 4);
    for (size_t i = 0; i < KILNI_NVRTC_OUTPUT_COUNT && status == KILN_OK; i++) {
        const kilni_nvrtc_answer *answer = &outputs->answers[i];
        if (!answer->is_known) {
            continue;
        }
        const int place = place_of(outputs, i, moves);
        status = append_answer(encoded, (kilni_nvrtc_output)i, answer, place);
        if (status == KILN_OK) {
            status = append_bytes(answer, place, name, encoded, code);
        }
    }
    return status;
}

static kiln_status take_names(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program,
                              size_t count, const char *const *names, kilni_text *encoded)
{
    kiln_status status = kilni_append_number(encoded, count, 4);
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        const char *lowered = NULL;
        const int result = nvrtc->lowered_name(program, names[i], &lowered);
        const int is_named = result == KILNI_NVRTC_SUCCESS && lowered;
        status = kilni_append_text(encoded, names[i]);
        if (status == KILN_OK) {
            status = kilni_append_number(encoded, (uint32_t)result, 4);
        }
        if (status == KILN_OK) {
            status = kilni_append_text(encoded, is_named ? lowered : "");
        }
    }
    return status;
}

kiln_status kilni_nvrtc_outputs_take(const kilni_nvrtc_functions *nvrtc,
                                     kilni_nvrtc_program program, const char *name, bool may_move,
                                     size_t expression_count, const char *const *expressions,
                                     kilni_text *ret_encoded, kilni_text *ret_code, bool *ret_moves)
{
    char *bytes[KILNI_NVRTC_OUTPUT_COUNT] = {NULL};
    kilni_nvrtc_outputs outputs = {0};
    kilni_text encoded = {0}, code = {0};
    bool moves = false;
    kiln_status status = take_answers(nvrtc, program, bytes, &outputs);
    if (status == KILN_OK && may_move) {
        status = check_moves(&outputs, name, kilni_program_folder_length(name), &moves);
    }
    if (status == KILN_OK) {
        status = append_answers(&outputs, name, moves, &encoded, &code);
    }
    if (status == KILN_OK) {
        status = take_names(nvrtc, program, expression_count, expressions, &encoded);
    }
    for (size_t i = 0; i < KILNI_NVRTC_OUTPUT_COUNT; i++) {
        free(bytes[i]);
    }
    if (status != KILN_OK) {
        kilni_text_done(&encoded);
        kilni_text_done(&code);
        return status;
    }
    *ret_encoded = encoded;
    *ret_code = code;
    *ret_moves = moves;
    return KILN_OK;
}

/* ---- decoding ---- */

/* Reassembles the log with the program's present folder. */
static kiln_status read_pieces(kilni_byte_reader *reader, const char *name, kilni_text *log)
{
    const uint32_t count = kilni_read_u32(reader);
    const size_t folder_length = kilni_program_folder_length(name);
    kiln_status status = count > 0 ? KILN_OK : KILN_E_CORRUPT;
    for (uint32_t i = 0; i < count && status == KILN_OK; i++) {
        const uint64_t size = kilni_read_u32(reader);
        const void *piece = kilni_read_bytes(reader, size);
        status = piece && log->length <= MAX_OUTPUT_BYTES
                     ? kilni_text_append_bytes(log, piece, (size_t)size)
                     : KILN_E_CORRUPT;
        if (status == KILN_OK && i + 1 < count && folder_length > 0) {
            status = kilni_text_append_bytes(log, name, folder_length);
        }
    }
    return status;
}

static kiln_status read_bytes(kilni_byte_reader *reader, int place, kiln_bytes code,
                              const char *name, kilni_text *log, kilni_nvrtc_answer *answer)
{
    if (place == BYTES_IN_PIECES) {
        const kiln_status status = read_pieces(reader, name, log);
        answer->size = log->length;
        answer->bytes = (kiln_bytes){log->bytes, log->length};
        return status;
    }
    if (place == BYTES_IN_CODE) {
        answer->bytes = code;
    } else if (answer->get_result == KILNI_NVRTC_SUCCESS) {
        answer->bytes.data = kilni_read_bytes(reader, answer->size);
        answer->bytes.size = (size_t)answer->size;
    }
    const bool is_whole =
        answer->get_result != KILNI_NVRTC_SUCCESS || answer->bytes.size == answer->size;
    return reader->failed || !is_whole ? KILN_E_CORRUPT : KILN_OK;
}

/* Returns true if a stored answer is consistent. The application's buffer has as many bytes as the
 * first function reports. So if that function failed, the answer must have no bytes. */
static bool is_sound(const kilni_nvrtc_answer *answer, int output, int place)
{
    return output < KILNI_NVRTC_OUTPUT_COUNT && answer->size <= MAX_OUTPUT_BYTES &&
           place <= BYTES_IN_PIECES && (place != BYTES_IN_PIECES || output == KILNI_NVRTC_LOG) &&
           (place == BYTES_HERE || is_success(answer)) &&
           (answer->size == 0 || answer->size_result == KILNI_NVRTC_SUCCESS);
}

static kiln_status read_answer(kilni_byte_reader *reader, kiln_bytes code, const char *name,
                               kilni_nvrtc_outputs *outputs)
{
    const uint8_t output = kilni_read_u8(reader);
    kilni_nvrtc_answer answer = {.is_known = 1};
    answer.size_result = (int)kilni_read_u32(reader);
    answer.size = kilni_read_u64(reader);
    answer.get_result = (int)kilni_read_u32(reader);
    const uint8_t place = kilni_read_u8(reader);
    if (reader->failed || !is_sound(&answer, output, place) || outputs->answers[output].is_known) {
        return KILN_E_CORRUPT;
    }
    kiln_status status = read_bytes(reader, place, code, name, &outputs->log, &answer);
    if (status == KILN_OK && !is_terminated(&answer, output)) {
        status = KILN_E_CORRUPT;
    }
    if (status == KILN_OK) {
        outputs->answers[output] = answer;
    }
    return status;
}

static kiln_status read_names(kilni_byte_reader *reader, kilni_nvrtc_outputs *outputs)
{
    const uint32_t count = kilni_read_u32(reader);
    /* Each name takes at least 12 bytes. */
    if (reader->failed || count > reader->left / 12) {
        return KILN_E_CORRUPT;
    }
    outputs->names = calloc((size_t)count + 1, sizeof *outputs->names);
    if (!outputs->names) {
        return KILN_E_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        kilni_nvrtc_name *name = &outputs->names[i];
        name->expression = kilni_read_text(reader);
        name->result = (int)kilni_read_u32(reader);
        name->lowered = kilni_read_text(reader);
        if (!name->expression || !name->lowered || reader->failed) {
            return KILN_E_CORRUPT;
        }
    }
    outputs->name_count = count;
    return KILN_OK;
}

static kiln_status read_outputs(kilni_byte_reader *reader, kiln_bytes code, const char *name,
                                kilni_nvrtc_outputs *outputs)
{
    const uint32_t count = kilni_read_u32(reader);
    kiln_status status = count > KILNI_NVRTC_OUTPUT_COUNT ? KILN_E_CORRUPT : KILN_OK;
    for (uint32_t i = 0; i < count && status == KILN_OK; i++) {
        status = read_answer(reader, code, name, outputs);
    }
    if (status == KILN_OK) {
        status = read_names(reader, outputs);
    }
    return status == KILN_OK && (reader->failed || reader->left != 0) ? KILN_E_CORRUPT : status;
}

kiln_status kilni_nvrtc_outputs_decode(kiln_bytes encoded, kiln_bytes code, const char *name,
                                       kilni_nvrtc_outputs *ret_outputs)
{
    kilni_byte_reader reader = {.at = encoded.data, .left = encoded.size};
    kilni_nvrtc_outputs outputs = {0};
    const kiln_status status = read_outputs(&reader, code, name, &outputs);
    if (status != KILN_OK) {
        kilni_nvrtc_outputs_done(&outputs);
        return status;
    }
    *ret_outputs = outputs;
    return KILN_OK;
}

void kilni_nvrtc_outputs_done(kilni_nvrtc_outputs *outputs)
{
    free(outputs->names);
    kilni_text_done(&outputs->log);
    *outputs = (kilni_nvrtc_outputs){0};
}

/* ---- looking up ---- */

const kilni_nvrtc_name *kilni_nvrtc_outputs_name(const kilni_nvrtc_outputs *outputs,
                                                 const char *expression)
{
    for (size_t i = 0; i < outputs->name_count; i++) {
        if (strcmp(outputs->names[i].expression, expression) == 0) {
            return &outputs->names[i];
        }
    }
    return NULL;
}

/* An empty text consists of one byte: its terminating zero. */
kilni_nvrtc_output kilni_nvrtc_outputs_code(const kilni_nvrtc_outputs *outputs)
{
    for (size_t i = 0; i < sizeof by_rank / sizeof *by_rank; i++) {
        const kilni_nvrtc_answer *answer = &outputs->answers[by_rank[i]];
        if (answer->is_known && answer->bytes.size > 1) {
            return by_rank[i];
        }
    }
    return KILNI_NVRTC_LOG;
}
