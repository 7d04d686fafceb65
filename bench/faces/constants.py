# SPDX-License-Identifier: Apache-2.0
"""Constants, as backends ask for them: faces_constants."""

import measuring

PROGRAM = "faces_constants"


def rows(taken):
    """@taken: nanoseconds by what is asked for."""
    return [
        measuring.result("constant that is there / the engine's pin", taken["constant"],
                         taken["pin"], 1.5),
        measuring.result("check of a held handle / plain load", taken["held handle"],
                         taken["load"], 2),
    ]
