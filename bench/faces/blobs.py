# SPDX-License-Identifier: Apache-2.0
"""Programs of cache blobs, beside the runtime's own way of loading a binary: faces_blobs."""

import measuring

PROGRAM = "faces_blobs"
RUNTIME = "intel"


def rows(taken):
    """@taken: nanoseconds by what is asked for."""
    return [
        measuring.result("program of its blob / the runtime's load", taken["blob"], taken["load"],
                         1.1),
    ]
