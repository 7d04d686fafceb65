/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/words.h"

#include <string.h>
#include <strings.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static const char *const clock_words[] = {"__DATE__", "__TIME__", "__TIMESTAMP__"};
const kilni_word_list kilni_clock_words = {clock_words, 3, 3, 0, 0, 0, 0};

typedef struct scanner {
    kilni_words *words;
    const char *end;
    uint64_t words_with[256]; /* bit n: the character is in word n */
    uint64_t in_line;         /* words of a pragma, found in this line */
    bool is_pragma;           /* "pragma" occurred in this line */
    bool may_have_strings;    /* the name after "pragma" shows that its strings name no file */
    bool has_string;
    bool is_in_comment; /* a comment began in this or an earlier line; a string may count as one */
    bool is_continued;  /* the line continues after a newline within a comment */
    bool is_after_text; /* something other than blanks precedes in this line */
    char before;        /* the character before this one */
} scanner;

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool begins_with(const char *at, const char *end, const char *word)
{
    const size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

/* Skips a line splice: a backslash and a newline, with or without blanks between them. Returns @at
 * if no line splice is there. Up to C++14, the backslash can be written as a trigraph. Compilers
 * differ in how they treat a carriage return without a newline, so a text that contains one is
 * refused as a whole. */
static const char *skip_splice(const char *at, const char *end)
{
    const bool is_trigraph = begins_with(at, end, "?\?/");
    if (!is_trigraph && !begins_with(at, end, "\\")) {
        return at;
    }
    const char *next = at + (is_trigraph ? 3 : 1);
    while (next < end && strchr(" \t\v\f", *next) && *next != '\0') {
        next++;
    }
    next += next < end && *next == '\r';
    return next < end && *next == '\n' ? next + 1 : at;
}

static const char *skip_splices(const char *at, const char *end)
{
    if (at == end || (*at != '\\' && *at != '?')) {
        return at; /* the case nearly everywhere in megabytes of headers */
    }
    for (const char *next = skip_splice(at, end); next != at; next = skip_splice(at, end)) {
        at = next;
    }
    return at;
}

/* ---- names ---- */

/* Returns a set in which bit n is set if all characters of the name occur in word n. For most names
 * the set is empty. Such a name need not be compared with any word. */
static uint64_t words_of_same_characters(const scanner *s, const char *name, size_t length)
{
    uint64_t found = UINT64_MAX;
    for (size_t i = 0; i < length && found; i++) {
        found &= s->words_with[(unsigned char)name[i]];
    }
    return found;
}

static bool is(const char *name, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(word, name, length) == 0;
}

/* Records the beginning of a name as a piece of a word that longer names may begin with. */
static void record_beginning(scanner *s, const char *name, size_t length)
{
    const kilni_word_list *list = s->words->list;
    for (size_t n = 0; list->beginnings >> n; n++) {
        if (!(list->beginnings & UINT64_C(1) << n)) {
            continue;
        }
        const char *word = list->words[n];
        const char *last = memrchr(name, '_', length);
        if (last) {
            kilni_pasted_names_note(&s->words->pieces[n], word, name, (size_t)(last + 1 - name));
        }
        if (begins_with(name, name + length, word)) {
            s->words->found |= UINT64_C(1) << n;
        }
    }
}

static void record_name(scanner *s, const char *name, size_t length)
{
    const kilni_word_list *list = s->words->list;
    const uint64_t candidates = words_of_same_characters(s, name, length);
    for (size_t n = 0; n < list->count && candidates >> n; n++) {
        const uint64_t bit = UINT64_C(1) << n;
        if (!(candidates & bit)) {
            continue;
        }
        const char *word = list->words[n];
        const bool is_there = n < list->pasted_count ? kilni_pasted_names_note(&s->words->pieces[n],
                                                                               word, name, length)
                                                     : is(name, length, word);
        if (is_there && (list->of_pragmas & bit)) {
            s->in_line |= bit;
        } else if (is_there) {
            s->words->found |= bit;
        }
    }
}

/* Records whether this line is a #pragma, and whether it is one whose strings name no file. */
static void record_pragma(scanner *s, const char *name, size_t length)
{
    static const char *const known[] = {
        "message",    "warning",       "error",           "push_macro",       "pop_macro",
        "clang",      "GCC",           "comment",         "diag_default",     "diag_warning",
        "diag_error", "diag_suppress", "nv_diag_default", "nv_diag_suppress", "region",
        "endregion"};
    if (!s->is_pragma) {
        s->is_pragma = is(name, length, "pragma");
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known && !s->is_continued; i++) {
        s->may_have_strings |= is(name, length, known[i]);
    }
}

/* Scans one name, across splices. A name that is longer than every word cannot be a piece of a
 * word. */
static const char *scan_name(scanner *s, const char *at)
{
    char name[KILNI_PASTED_NAMES_MAX];
    size_t length = 0;
    while (at < s->end && is_name_character(*at)) {
        if (length < sizeof name) {
            name[length] = *at;
        }
        length++;
        at = skip_splices(at + 1, s->end);
    }
    record_beginning(s, name, length < sizeof name ? length : sizeof name);
    if (length <= sizeof name) {
        record_name(s, name, length);
        record_pragma(s, name, length);
    }
    return at;
}

/* ---- assembly, and pragmas that name files ---- */

/* Returns true if the dot before @next is not part of a name, a number or an ellipsis. */
static bool is_lone_dot(const scanner *s, const char *next)
{
    const bool has_next = next < s->end && (is_name_character(*next) || *next == '.');
    return !has_next && !is_name_character(s->before) && s->before != '.';
}

/* Returns true if something else can continue the name of a directive that ends at @at: a string
 * beside this one, an operand, an alternative, an escape sequence, or what follows a comment. */
static bool is_cut(const scanner *s, const char *at)
{
    return begins_with(at, s->end, "/*") ||
           (at < s->end && *at != '\0' && strchr("\"%{|}$\\?", *at));
}

/* Returns what the name after a dot might mean to an assembler. KILNI_SEEN_ASSEMBLY_FILE is a
 * directive that reads a file, or that can assemble such a directive. KILNI_SEEN_OPEN_STRING is the
 * beginning of such a directive. 0 is anything else. Assemblers ignore case. */
static uint64_t directive_after_dot(const scanner *s, const char *next)
{
    static const char *const directives[] = {"incb", "incl", "macr", "irp"};
    enum { LONGEST = 4 };
    char name[LONGEST];
    size_t length = 0;
    const char *at = next;
    while (at < s->end && (*at == ' ' || *at == '\t')) {
        at = skip_splices(at + 1, s->end);
    }
    while (at < s->end && length < LONGEST && is_name_character(*at)) {
        name[length++] = *at;
        at = skip_splices(at + 1, s->end);
    }
    const bool ends_string = at < s->end && *at == '"';
    const bool is_open = is_cut(s, at) && (ends_string || length > 0 || is_lone_dot(s, next));
    uint64_t found = 0;
    for (size_t i = 0; i < sizeof directives / sizeof *directives; i++) {
        const size_t whole = strlen(directives[i]);
        if (strncasecmp(name, directives[i], length < whole ? length : whole) == 0) {
            found |= length >= whole ? KILNI_SEEN_ASSEMBLY_FILE
                     : is_open       ? KILNI_SEEN_OPEN_STRING
                                     : 0;
        }
    }
    return found;
}

/* A newline within a comment does not end the line of a #pragma. */
static void end_line(scanner *s)
{
    s->is_continued = s->is_pragma && s->is_in_comment;
    if (s->is_continued) {
        s->may_have_strings = false;
        return;
    }
    if (s->is_pragma) {
        s->words->found |= s->in_line;
        s->words->found |= s->has_string && !s->may_have_strings ? KILNI_SEEN_PRAGMA_STRING : 0;
    }
    s->words->beside |= s->in_line;
    s->in_line = 0;
    s->is_pragma = s->may_have_strings = s->has_string = false;
}

/* Returns true if the character at @at may be the # operator: it does not begin a line, as a
 * directive does, and is not a part of ##. */
static bool may_make_string(const scanner *s, const char *at, const char *next)
{
    const bool has_next = next < s->end;
    const bool is_after = s->before == '#', is_before = has_next && *next == '#';
    return s->is_after_text && (*at == '#' ? is_after == is_before
                                           : begins_with(at, s->end, *at == '%' ? "%:" : "?\?="));
}

static void scan_punctuation(scanner *s, const char *at, const char *next)
{
    const bool has_next = next < s->end;
    if (strchr("#%?", *at) && may_make_string(s, at, next)) {
        s->words->found |= KILNI_SEEN_STRING_OPERATOR;
    }
    switch (*at) {
    case '#':
        s->words->pastes |= has_next && *next == '#';
        break;
    case '%':
        s->words->pastes |= has_next && *next == ':';
        break;
    case '?':
        s->words->pastes |= begins_with(at, s->end, "?\?=");
        s->words->found |= begins_with(at, s->end, "?\?/") ? KILNI_SEEN_ESCAPE : 0;
        break;
    case '.':
        s->words->found |= directive_after_dot(s, next);
        s->words->found |= is_lone_dot(s, next) ? KILNI_SEEN_LONE_DOT : 0;
        break;
    case '/':
        s->is_in_comment |= has_next && *next == '*';
        break;
    case '*':
        /* The star that begins a comment cannot also end it. */
        s->is_in_comment &= !(has_next && *next == '/' && s->before != '/');
        break;
    case '\\':
        s->words->found |= has_next && *next != '\0' && strchr("xuUN01234567", *next)
                               ? KILNI_SEEN_OPEN_STRING | KILNI_SEEN_ESCAPE
                               : 0;
        break;
    case '"':
    case '<':
        s->has_string = true;
        break;
    case '\r':
        s->words->found |= has_next && *next == '\n' ? 0 : KILNI_SEEN_LONE_RETURN;
        break;
    case '\n':
        end_line(s);
        break;
    default:
        break;
    }
}

/* Scans the characters up to the next name, or a splice. */
static const char *scan_between_names(scanner *s, const char *at)
{
    const char *behind = skip_splices(at, s->end);
    if (behind != at) {
        return behind;
    }
    const char *next = skip_splices(at + 1, s->end);
    scan_punctuation(s, at, next);
    s->before = *at;
    s->is_after_text = *at != '\n' && (s->is_after_text || !strchr(" \t\v\f\r", *at));
    return *at == '\\' && next < s->end && *next == '\\' ? next + 1 : next;
}

/* ---- lists of names in capital letters ---- */

/* Returns true if only names of capital letters and underscores, and the characters ##, %:, ??=,
 * \\ and \r, can have an effect. That holds for kilni_clock_words. Most other names contain small
 * letters. */
static bool needs_capitals_only(const kilni_word_list *list)
{
    bool only = !list->of_pragmas && !list->pragma_operators && !list->beginnings && !list->also;
    for (size_t n = 0; n < list->count && only; n++) {
        only = strspn(list->words[n], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == strlen(list->words[n]);
    }
    return only;
}

#if defined(__SSE2__)

enum { BLOCK = 64 };

/* Bit n of a set stands for byte n of a block. */
typedef struct block_sets {
    uint64_t names;    /* characters of names */
    uint64_t capitals; /* capital letters and underscores */
    uint64_t special;  /* # % ? \ and carriage returns */
} block_sets;

static __m128i are_in_range(__m128i bytes, char first, char last)
{
    const __m128i from_first = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
    return _mm_cmpeq_epi8(_mm_min_epu8(from_first, _mm_set1_epi8((char)(last - first))),
                          from_first);
}

static __m128i are(__m128i bytes, char c)
{
    return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}

static uint64_t set_of(__m128i matches, unsigned at)
{
    return (uint64_t)(unsigned)_mm_movemask_epi8(matches) << at;
}

static block_sets classify(const char *block)
{
    block_sets sets = {0};
    for (unsigned at = 0; at < BLOCK; at += sizeof(__m128i)) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(block + at));
        const __m128i capitals = _mm_or_si128(are_in_range(bytes, 'A', 'Z'), are(bytes, '_'));
        const __m128i others =
            _mm_or_si128(are_in_range(bytes, 'a', 'z'), are_in_range(bytes, '0', '9'));
        const __m128i special =
            _mm_or_si128(_mm_or_si128(_mm_or_si128(are(bytes, '#'), are(bytes, '%')),
                                      _mm_or_si128(are(bytes, '?'), are(bytes, '\\'))),
                         are(bytes, '\r'));
        sets.names |= set_of(_mm_or_si128(capitals, others), at);
        sets.capitals |= set_of(capitals, at);
        sets.special |= set_of(special, at);
    }
    return sets;
}

/* Skips the rest of a name that no word contains, from a splice in it or behind it. */
static const char *skip_name(const scanner *s, const char *at)
{
    at = skip_splices(at, s->end);
    while (at < s->end && is_name_character(*at)) {
        at = skip_splices(at + 1, s->end);
    }
    return at;
}

/* Scans the name of capitals that ends before @end, unless that has been done. */
static const char *scan_capitals(scanner *s, const char *block, const char *end, const char *done)
{
    const char *name = end;
    while (name > block && is_name_character(name[-1])) {
        name--;
    }
    return name < done ? done : scan_name(s, name);
}

/* A splice that is directly behind a name belongs to that name. If that name were of capitals, it
 * would have been scanned, together with the splice. */
static const char *scan_special(scanner *s, const char *text, const char *at)
{
    const bool is_in_name = at > text && is_name_character(at[-1]);
    return is_in_name && skip_splices(at, s->end) != at ? skip_name(s, at)
                                                        : scan_between_names(s, at);
}

/* Scans whole blocks. Returns where the rest of the text begins: not within a name. */
static const char *scan_blocks(scanner *s, const char *text)
{
    const char *done = text; /* all before it has been scanned */
    const char *block = text;
    uint64_t is_in_name = 0; /* 1: the block before this one ends with a character of a name */
    for (; s->end - block >= BLOCK; block += BLOCK) {
        const block_sets sets = classify(block);
        const uint64_t begins = sets.names & ~(sets.names << 1 | is_in_name) & sets.capitals;
        /* The addition carries from the beginning of a name over all its capitals. */
        const uint64_t carried = sets.capitals + begins;
        const uint64_t ends = carried & ~sets.capitals & ~sets.names;
        for (uint64_t left = ends | sets.special; left; left &= left - 1) {
            const int n = __builtin_ctzll(left);
            if (ends >> n & 1) {
                done = scan_capitals(s, block, block + n, done);
            }
            if (sets.special >> n & 1 && block + n >= done) {
                done = scan_special(s, text, block + n);
            }
        }
        if (carried < sets.capitals) { /* a name of capitals may continue in the next block */
            done = scan_capitals(s, block, block + BLOCK, done);
        }
        is_in_name = sets.names >> (BLOCK - 1);
    }
    return done > block ? done : is_in_name ? skip_name(s, block) : block;
}

#endif

/* ---- texts ---- */

static void scan(kilni_words *words, const void *text, size_t size)
{
    const char *at = text;
    scanner s = {.words = words, .end = size > 0 ? at + size : at};
    for (size_t n = 0; n < words->list->count; n++) {
        for (const char *c = words->list->words[n]; *c; c++) {
            s.words_with[(unsigned char)*c] |= UINT64_C(1) << n;
        }
    }
#if defined(__SSE2__)
    if (needs_capitals_only(words->list)) {
        at = scan_blocks(&s, at);
    }
#endif
    while (at < s.end) {
        if (is_name_character(*at)) {
            at = scan_name(&s, at);
            s.before = 'a';
            s.is_after_text = true;
        } else {
            at = scan_between_names(&s, at);
        }
    }
    s.is_in_comment = false;
    end_line(&s);
    words->found &=
        ((UINT64_C(1) << words->list->count) - 1) | words->list->also | KILNI_SEEN_LONE_RETURN;
}

void kilni_words_add(kilni_words *to, const kilni_words *from)
{
    to->found |= from->found;
    to->beside |= from->beside;
    to->pastes |= from->pastes;
    for (size_t n = 0; n < to->list->pasted_count; n++) {
        for (size_t b = 0; b < KILNI_PASTED_NAMES_MAX; b++) {
            to->pieces[n].ends[b] |= from->pieces[n].ends[b];
        }
    }
}

/* Returns true if at least one piece has two letters or more. */
static bool has_long_piece(const kilni_pasted_names *pieces, const char *word)
{
    for (size_t b = 0; word[b]; b++) {
        size_t letters = 0;
        for (size_t e = b; word[e]; e++) {
            letters += word[e] != '_';
            if (letters >= 2 && (pieces->ends[b] & UINT32_C(2) << e)) {
                return true;
            }
        }
    }
    return false;
}

static void drop_lone_letters(kilni_words *words)
{
    for (size_t n = 0; n < words->list->pasted_count; n++) {
        const char *word = words->list->words[n];
        const bool keeps = !(words->list->beginnings & UINT64_C(1) << n) &&
                           has_long_piece(&words->pieces[n], word);
        for (size_t b = 0; word[b] && !keeps; b++) {
            const uint32_t letter = word[b] == '_' ? 0 : UINT32_C(2) << b;
            words->pieces[n].ends[b] &= ~letter;
        }
    }
}

void kilni_words_scan(kilni_words *words, const void *text, size_t size)
{
    kilni_words alone = {.list = words->list};
    scan(&alone, text, size);
    alone.found = kilni_words_found(&alone);
    kilni_words_add(words, &alone);
}

void kilni_words_scan_file(kilni_words *words, const void *text, size_t size)
{
    kilni_words alone = {.list = words->list};
    scan(&alone, text, size);
    alone.found = kilni_words_found(&alone);
    drop_lone_letters(&alone);
    kilni_words_add(words, &alone);
}

uint64_t kilni_words_found(const kilni_words *words)
{
    const kilni_word_list *list = words->list;
    uint64_t made = 0;
    for (size_t n = 0; n < list->pasted_count; n++) {
        if ((words->pastes || (list->beginnings & UINT64_C(1) << n)) &&
            kilni_pasted_names_make(&words->pieces[n], list->words[n])) {
            made |= UINT64_C(1) << n;
        }
    }
    /* ## has no effect in the line of a #pragma. */
    const uint64_t found = words->found | (made & ~list->of_pragmas);
    const bool may_make_pragmas = found & list->pragma_operators;
    return may_make_pragmas ? found | words->beside | made : found;
}

const char *kilni_clock_words_refusal(const kilni_words *words)
{
    const uint64_t found = kilni_words_found(words);
    return !found                           ? NULL
           : found & KILNI_SEEN_LONE_RETURN ? KILNI_LONE_RETURN_REFUSAL
                                            : "__DATE__, __TIME__ or __TIMESTAMP__";
}
