/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/state_path.h"

#include <stdio.h>
#include <stdlib.h>

#include "os/os.h"

#define FOLDER_SIZE 32u

/* The folder that tests set before any open. NULL: tests have set no folder. */
static const char *folder_of_tests;

void kilni_remote_set_runtime_folder(const char *path)
{
    folder_of_tests = path;
}

char *kilni_remote_state_path(const kilni_store_options *options, const char *kind,
                              const kiln_digest *identity)
{
    char runtime_folder[FOLDER_SIZE];
    char text[KILN_DIGEST_TEXT_SIZE];
    const char *folder = options->state_folder;
    char *path = NULL;
    snprintf(runtime_folder, sizeof runtime_folder, "/run/user/%u",
             (unsigned)kilni_os()->geteuid());
    if (!folder || folder[0] != '/') {
        folder = folder_of_tests ? folder_of_tests : runtime_folder;
    }
    kiln_digest_format(identity, text);
    return asprintf(&path, "%s/kiln-%s-%.16s", folder, kind, text) < 0 ? NULL : path;
}
