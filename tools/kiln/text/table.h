/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables with aligned columns on stdout. If stdout is a terminal, tables are truncated to its
 * width. In a pipe, they are complete, unless table_fit was called. All functions end the tool if
 * memory runs out.
 */
#pragma once

struct libscols_table;
struct libscols_line;

typedef enum column_kind {
    COLUMN_TEXT,
    COLUMN_NUMBER,   /* aligned to the right */
    COLUMN_LONG_TEXT /* truncated if the terminal is too narrow */
} column_kind;

typedef enum text_colour { COLOUR_NONE, COLOUR_WARNING, COLOUR_ERROR } text_colour;

struct libscols_table *table_new(void);

/* Truncates the table's long texts even if stdout is not a terminal: to 100 columns, or as many as
 * COLUMNS says. */
void table_fit(struct libscols_table *table);

/* @heading  if it is NULL in all columns, no headings are printed */
void table_add_column(struct libscols_table *table, const char *heading, column_kind kind);

struct libscols_line *table_add_row(struct libscols_table *table);

/* Sets a cell; columns count from 0. Copies the text. */
void row_set(struct libscols_line *row, int column, const char *text);
void row_set_colour(struct libscols_line *row, int column, text_colour colour);

/* Returns a table of names and values, without headings. */
struct libscols_table *table_new_facts(void);

/* @value  NULL is shown as "-" */
void table_add_fact(struct libscols_table *table, const char *name, const char *value);

/* Prints the table and frees it. */
void table_print(struct libscols_table *table);
