/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program asked for when it last ran, as the journal says. A program that starts cold after
 * an upgrade will probably ask for the same, in the same order.
 */
#pragma once

#include "work_list.h"

/* Moves the items for which the program asked in its last run to the front of the list, in the
 * order in which it first asked for them. Does nothing without a journal.
 *
 * @run  "PID PROGRAM": the run of the program that has started now, which does not count, and the
 *       name of its executable */
void last_run_put_first(kiln_store *store, const char *run, work_list *list);
