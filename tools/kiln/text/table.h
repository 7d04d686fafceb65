/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables with aligned columns on stdout. If stdout is a terminal, tables are truncated to its
 * width. In a pipe, they are complete, unless table_fit was called. All functions end the tool if
 * memory runs out.
 */
#pragma once

struct table;
struct table_row;

typedef enum column_kind {
    COLUMN_TEXT,
    COLUMN_NUMBER,   /* aligned to the right */
    COLUMN_LONG_TEXT /* truncated if the terminal is too narrow */
} column_kind;

typedef enum text_colour { COLOUR_NONE, COLOUR_WARNING, COLOUR_ERROR } text_colour;

struct table *table_new(void);

/* Truncates the table's long texts even if stdout is not a terminal: to 100 columns, or as many as
 * COLUMNS says. */
void table_fit(struct table *table);

/* @heading  if it is NULL in all columns, no headings are printed */
void table_add_column(struct table *table, const char *heading, column_kind kind);

struct table_row *table_add_row(struct table *table);

/* Sets a cell; columns count from 0. Copies the text. */
void row_set(struct table_row *row, int column, const char *text);
void row_set_colour(struct table_row *row, int column, text_colour colour);

/* Returns a table of names and values, without headings. */
struct table *table_new_facts(void);

/* @value  NULL is shown as "-" */
void table_add_fact(struct table *table, const char *name, const char *value);

/* Prints the table and frees it. */
void table_print(struct table *table);
