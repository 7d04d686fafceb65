# SPDX-License-Identifier: Apache-2.0
"""Results of faces_blobs: programs from cache blobs, compared with the runtime's own load of a
binary."""

import measuring

PROGRAM = "faces_blobs"
RUNTIME = "intel"


def rows(taken):
    """@taken: nanoseconds by what was requested."""
    return [
        measuring.result("program from its blob / the runtime's load", taken["blob"], taken["load"],
                         1.1),
    ]
