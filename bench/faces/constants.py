# SPDX-License-Identifier: Apache-2.0
"""Results of faces_constants: constants, as backends request them."""

import measuring

PROGRAM = "faces_constants"


def rows(taken):
    """@taken: nanoseconds by what was requested."""
    return [
        measuring.result("cached constant / the engine's pin", taken["constant"],
                         taken["pin"], 1.5),
        measuring.result("the same in C++, with a promise and a future", taken["constant, in C++"],
                         taken["pin"], None),
        measuring.result("the same, with a key made each time",
                         taken["constant, in C++, with its key"], taken["pin"], None),
        measuring.result("check of a held handle / plain load", taken["held handle"],
                         taken["load"], 2),
    ]
