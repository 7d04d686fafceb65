/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <libsmartcols.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "escape.h"
#include "memory.h"
#include "output.h"

#define PIPE_WIDTH 100

struct libscols_table *table_new(void)
{
    struct libscols_table *table = must(scols_new_table());
    must_succeed(scols_table_enable_colors(table, colours_wanted()));
    must_succeed(scols_table_enable_noheadings(table, 1));
    return table;
}

void table_fit(struct libscols_table *table)
{
    const char *columns = getenv("COLUMNS");
    const int width = columns == NULL ? 0 : atoi(columns);
    if (!isatty(STDOUT_FILENO)) {
        must_succeed(scols_table_set_termforce(table, SCOLS_TERMFORCE_ALWAYS));
        must_succeed(scols_table_set_termwidth(table, width > 0 ? (size_t)width : PIPE_WIDTH));
    }
}

void table_add_column(struct libscols_table *table, const char *heading, column_kind kind)
{
    /* If there is not enough room for all columns, a column of long texts still gets a tenth of the
     * terminal's width. */
    static const struct {
        double width;
        int flags;
    } layouts[] = {
        [COLUMN_TEXT] = {0, 0},
        [COLUMN_NUMBER] = {0, SCOLS_FL_RIGHT},
        [COLUMN_LONG_TEXT] = {0.1, SCOLS_FL_TRUNC},
    };
    must(scols_table_new_column(table, heading, layouts[kind].width, layouts[kind].flags));
    if (heading != NULL) {
        must_succeed(scols_table_enable_noheadings(table, 0));
    }
}

struct libscols_line *table_add_row(struct libscols_table *table)
{
    return must(scols_table_new_line(table, NULL));
}

void row_set(struct libscols_line *row, int column, const char *text)
{
    char *shown = escaped(text, strlen(text));
    must_succeed(scols_line_refer_data(row, (size_t)column, shown));
}

void row_set_colour(struct libscols_line *row, int column, text_colour colour)
{
    static const char *const names[] = {
        [COLOUR_NONE] = NULL,
        [COLOUR_WARNING] = "yellow",
        [COLOUR_ERROR] = "red",
    };
    must_succeed(scols_cell_set_color(scols_line_get_cell(row, (size_t)column), names[colour]));
}

struct libscols_table *table_new_facts(void)
{
    struct libscols_table *table = table_new();
    table_add_column(table, NULL, COLUMN_TEXT);
    table_add_column(table, NULL, COLUMN_TEXT);
    return table;
}

void table_add_fact(struct libscols_table *table, const char *name, const char *value)
{
    struct libscols_line *row = table_add_row(table);
    row_set(row, 0, name);
    row_set(row, 1, value != NULL ? value : "-");
}

void table_print(struct libscols_table *table)
{
    must_succeed(scols_print_table(table));
    scols_unref_table(table);
}
