/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln.Stats, kiln.StoreStat and kiln.CacheStat: counters as named tuples.
 */
#ifndef KILN_PYTHON_STATS_H
#define KILN_PYTHON_STATS_H

#include <kiln/cache.h>
#include <kiln/stats.h>
#include <kiln/store.h>

#include "python.h"

/* Adds to counters. */
void stats_add(kiln_stats *to, const kiln_stats *from);

/* Make the types. Return a new reference; NULL: an exception is set. */
PyObject *stats_new_type(void);
PyObject *store_stat_new_type(void);
PyObject *cache_stat_new_type(void);

/* Make an object. Return a new reference; NULL: an exception is set. */
PyObject *stats_new_store_stat(const kiln_store_stat *stat);
PyObject *stats_new_cache_stat(const kiln_cache_stats *stat, const kiln_stats *totals);

#endif
