/* SPDX-License-Identifier: Apache-2.0
 *
 * Profile kiln. Reads the variables of Kiln itself.
 */
#include "face/environment/config.h"

static const kilni_dir_candidate candidates[] = {
    {"KILN_DIR", "", true},
    {"XDG_CACHE_HOME", "/kiln", false},
    {"HOME", "/.cache/kiln", false},
};

void kilni_config_read_kiln(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    kilni_config_read_dir(reader, candidates, sizeof candidates / sizeof candidates[0], NULL);
    config->store.max_bytes = UINT64_C(2) << 30;
    kilni_config_read_size(reader, "KILN_MAX_SIZE", "2G is used", &config->store.max_bytes);
    config->is_persistent = config->store.max_bytes > 0;
}
