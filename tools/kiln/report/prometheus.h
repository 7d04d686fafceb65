/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters as Prometheus reads them, in its text format.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "../store/counters.h"
#include "history.h"

/* Writes the counters of a store and of its tiers, and the sums of its journal for each program and
 * device. At most 100 values of a label are written; all others are added up under "other".
 *
 * @tiers  of tiers_to_json */
void prometheus_write(FILE *file, const counter_values *counters, const json_t *tiers,
                      const use_history *history);
