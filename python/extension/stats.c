/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include "state.h"

#define COUNT_FIELD(name, meaning) +1
#define STATS_COUNT (0 KILN_STATS_LIST(COUNT_FIELD))

static PyStructSequence_Field stats_fields[] = {
#define DESCRIBE_FIELD(name, meaning) {#name, meaning},
    KILN_STATS_LIST(DESCRIBE_FIELD)
#undef DESCRIBE_FIELD
        {NULL, NULL},
};

static PyStructSequence_Field store_stat_fields[] = {
    {"entries", "the number of entries"},
    {"bytes", "the size of all files, as allocated on disk"},
    {"max_bytes", "the size that the store may have"},
    {"totals", "the counters of all processes that used the store, a Stats"},
    {NULL, NULL},
};

static PyStructSequence_Field cache_stat_fields[] = {
    {"entries", "the number of entries in memory"},
    {"bytes", "their size"},
    {"max_bytes", "the size that they may have"},
    {"totals", "the counters of this Cache, a Stats; evicted counts entries in memory"},
    {NULL, NULL},
};

void stats_add(kiln_stats *to, const kiln_stats *from)
{
#define ADD_FIELD(name, meaning) to->name += from->name;
    KILN_STATS_LIST(ADD_FIELD)
#undef ADD_FIELD
}

PyObject *stats_new_type(void)
{
    PyStructSequence_Desc description = {.name = "kiln.Stats",
                                         .doc = "Counters.",
                                         .fields = stats_fields,
                                         .n_in_sequence = STATS_COUNT};
    return (PyObject *)PyStructSequence_NewType(&description);
}

PyObject *store_stat_new_type(void)
{
    PyStructSequence_Desc description = {.name = "kiln.StoreStat",
                                         .doc = "What a store contains, and what it did.",
                                         .fields = store_stat_fields,
                                         .n_in_sequence = 4};
    return (PyObject *)PyStructSequence_NewType(&description);
}

PyObject *cache_stat_new_type(void)
{
    PyStructSequence_Desc description = {.name = "kiln.CacheStat",
                                         .doc = "What a Cache contains, and what it did.",
                                         .fields = cache_stat_fields,
                                         .n_in_sequence = 4};
    return (PyObject *)PyStructSequence_NewType(&description);
}

static PyObject *stats_object(PyTypeObject *type, const kiln_stats *stats)
{
    PyObject *object = PyStructSequence_New(type);
    Py_ssize_t index = 0;
    if (!object) {
        return NULL;
    }
#define SET_FIELD(name, meaning)                                                                   \
    PyStructSequence_SetItem(object, index++, PyLong_FromUnsignedLongLong(stats->name));
    KILN_STATS_LIST(SET_FIELD)
#undef SET_FIELD
    if (PyErr_Occurred()) {
        Py_CLEAR(object);
    }
    return object;
}

static PyObject *stat_object(PyTypeObject *type, uint64_t entries, uint64_t bytes,
                             uint64_t max_bytes, PyObject *totals)
{
    PyObject *object = totals ? PyStructSequence_New(type) : NULL;
    if (!object) {
        Py_XDECREF(totals);
        return NULL;
    }
    PyStructSequence_SetItem(object, 0, PyLong_FromUnsignedLongLong(entries));
    PyStructSequence_SetItem(object, 1, PyLong_FromUnsignedLongLong(bytes));
    PyStructSequence_SetItem(object, 2, PyLong_FromUnsignedLongLong(max_bytes));
    PyStructSequence_SetItem(object, 3, totals);
    if (PyErr_Occurred()) {
        Py_CLEAR(object);
    }
    return object;
}

PyObject *stats_new_store_stat(const kiln_store_stat *stat)
{
    module_state *state = state_get();
    return state ? stat_object(state->store_stat, stat->entries, stat->bytes, stat->max_bytes,
                               stats_object(state->stats, &stat->totals))
                 : NULL;
}

PyObject *stats_new_cache_stat(const kiln_cache_stats *stat, const kiln_stats *totals)
{
    module_state *state = state_get();
    return state ? stat_object(state->cache_stat, stat->entries, stat->bytes, stat->max_bytes,
                               stats_object(state->stats, totals))
                 : NULL;
}
