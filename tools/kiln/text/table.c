/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "escape.h"
#include "memory.h"
#include "output.h"

/* If there is not enough room for all columns, a column of long texts still gets this part of the
 * terminal's width. */
#define SMALLEST_PART 10

#define PIPE_WIDTH 100

typedef struct table_column {
    char *heading; /* NULL: none */
    column_kind kind;
    size_t width; /* set by table_print */
} table_column;

typedef struct table_cell {
    char *text; /* NULL: empty */
    text_colour colour;
} table_cell;

struct table_row {
    size_t count;
    table_cell cells[];
};

struct table {
    table_column *columns;
    size_t column_count, column_capacity;
    struct table_row **rows;
    size_t row_count, row_capacity;
    size_t pipe_width; /* if stdout is not a terminal; 0: without limit */
};

struct table *table_new(void)
{
    return must(calloc(1, sizeof(struct table)));
}

void table_fit(struct table *table)
{
    const char *columns = getenv("COLUMNS");
    const int width = columns == NULL ? 0 : atoi(columns);
    table->pipe_width = width > 0 ? (size_t)width : PIPE_WIDTH;
}

void table_add_column(struct table *table, const char *heading, column_kind kind)
{
    table->columns = array_grown(table->columns, table->column_count, &table->column_capacity,
                                 sizeof *table->columns);
    table->columns[table->column_count++] = (table_column){
        .heading = heading != NULL ? must(strdup(heading)) : NULL,
        .kind = kind,
    };
}

struct table_row *table_add_row(struct table *table)
{
    struct table_row *row =
        must(calloc(1, sizeof *row + table->column_count * sizeof row->cells[0]));
    row->count = table->column_count;
    table->rows = array_grown(table->rows, table->row_count, &table->row_capacity,
                              sizeof(struct table_row *));
    table->rows[table->row_count++] = row;
    return row;
}

void row_set(struct table_row *row, int index, const char *text)
{
    free(row->cells[index].text);
    row->cells[index].text = escaped(text, strlen(text));
}

void row_set_colour(struct table_row *row, int index, text_colour colour)
{
    row->cells[index].colour = colour;
}

struct table *table_new_facts(void)
{
    struct table *table = table_new();
    table_add_column(table, NULL, COLUMN_TEXT);
    table_add_column(table, NULL, COLUMN_TEXT);
    return table;
}

void table_add_fact(struct table *table, const char *name, const char *value)
{
    struct table_row *row = table_add_row(table);
    row_set(row, 0, name);
    row_set(row, 1, value != NULL ? value : "-");
}

/* ---- printing ---- */

/* Returns the number of bytes of the longest start of an escaped text that is at most @limit
 * terminal columns wide. */
static size_t fitting_bytes(const char *text, size_t limit, size_t *ret_width)
{
    const size_t size = strlen(text);
    size_t used = 0, width = 0;
    while (used < size) {
        uint32_t character = 0;
        const size_t length = character_read(text + used, size - used, &character);
        /* The width of a character that the locale does not know is not known either. */
        const int known_width = wcwidth((wchar_t)character);
        const size_t character_width = known_width >= 0 ? (size_t)known_width : 1;
        if (character_width > limit - width) {
            break;
        }
        used += length > 0 ? length : 1;
        width += character_width;
    }
    *ret_width = width;
    return used;
}

static size_t text_width(const char *text)
{
    size_t width = 0;
    if (text != NULL) {
        fitting_bytes(text, SIZE_MAX, &width);
    }
    return width;
}

static bool has_headings(const struct table *table)
{
    for (size_t i = 0; i < table->column_count; i++) {
        if (table->columns[i].heading != NULL) {
            return true;
        }
    }
    return false;
}

static void measure(struct table *table)
{
    for (size_t i = 0; i < table->column_count; i++) {
        table_column *measured = &table->columns[i];
        measured->width = text_width(measured->heading);
        for (size_t j = 0; j < table->row_count; j++) {
            const struct table_row *row = table->rows[j];
            const size_t width = i < row->count ? text_width(row->cells[i].text) : 0;
            measured->width = width > measured->width ? width : measured->width;
        }
    }
}

/* Returns the widest column that can be truncated further; NULL if there is none. */
static table_column *widest_long_column(struct table *table, size_t smallest_width)
{
    table_column *widest = NULL;
    for (size_t i = 0; i < table->column_count; i++) {
        table_column *next = &table->columns[i];
        if (next->kind == COLUMN_LONG_TEXT && next->width > smallest_width &&
            (widest == NULL || next->width > widest->width)) {
            widest = next;
        }
    }
    return widest;
}

/* Returns the number of columns to which the table must be truncated; 0: it is complete. */
static size_t room_for(const struct table *table)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : table->pipe_width;
}

static void truncate_to(struct table *table, size_t room)
{
    size_t width = table->column_count - 1; /* the spaces between the columns */
    for (size_t i = 0; i < table->column_count; i++) {
        width += table->columns[i].width;
    }
    while (room > 0 && width > room) {
        table_column *widest = widest_long_column(table, room / SMALLEST_PART);
        if (widest == NULL) {
            return;
        }
        widest->width--;
        width--;
    }
}

static void print_spaces(size_t count)
{
    printf("%*s", (int)count, "");
}

static void print_coloured(const char *text, size_t bytes, text_colour colour)
{
    static const char *const sequences[] = {
        [COLOUR_WARNING] = "\033[33m",
        [COLOUR_ERROR] = "\033[31m",
    };
    const bool is_coloured = colour != COLOUR_NONE && colours_wanted();
    printf("%s%.*s%s", is_coloured ? sequences[colour] : "", (int)bytes, text,
           is_coloured ? "\033[0m" : "");
}

/* Adds the spaces before and after the text to those that are due, and prints the due spaces only
 * before a text. So no line ends with a space. */
static void print_cell(const table_column *column, const char *text, text_colour colour,
                       size_t *spaces_due)
{
    size_t width = 0;
    const size_t bytes = fitting_bytes(text, column->width, &width);
    const size_t padding = column->width - width;
    *spaces_due += column->kind == COLUMN_NUMBER ? padding : 0;
    if (bytes > 0) {
        print_spaces(*spaces_due);
        print_coloured(text, bytes, colour);
        *spaces_due = 0;
    }
    *spaces_due += (column->kind == COLUMN_NUMBER ? 0 : padding) + 1;
}

static void print_headings(const struct table *table)
{
    size_t spaces_due = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        const char *heading = table->columns[i].heading;
        print_cell(&table->columns[i], heading != NULL ? heading : "", COLOUR_NONE, &spaces_due);
    }
    putchar('\n');
}

static void print_row(const struct table *table, const struct table_row *row)
{
    size_t spaces_due = 0;
    for (size_t i = 0; i < row->count; i++) {
        const table_cell *shown = &row->cells[i];
        print_cell(&table->columns[i], shown->text != NULL ? shown->text : "", shown->colour,
                   &spaces_due);
    }
    putchar('\n');
}

static void table_free(struct table *table)
{
    for (size_t i = 0; i < table->row_count; i++) {
        for (size_t j = 0; j < table->rows[i]->count; j++) {
            free(table->rows[i]->cells[j].text);
        }
        free(table->rows[i]);
    }
    for (size_t i = 0; i < table->column_count; i++) {
        free(table->columns[i].heading);
    }
    free(table->rows);
    free(table->columns);
    free(table);
}

void table_print(struct table *table)
{
    measure(table);
    truncate_to(table, room_for(table));
    if (has_headings(table) && table->row_count > 0) {
        print_headings(table);
    }
    for (size_t i = 0; i < table->row_count; i++) {
        print_row(table, table->rows[i]);
    }
    table_free(table);
}
