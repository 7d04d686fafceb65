# SPDX-License-Identifier: Apache-2.0
"""Results of faces_programs: programs and kernels, as runtimes look them up."""

import measuring

PROGRAM = "faces_programs"


def rows(taken):
    """@taken: nanoseconds by what was requested."""
    return [
        measuring.result("kernel requested before / the engine's peek", taken["kernel peek"],
                         taken["peek"], 3),
        measuring.result("kernel requested before, held / the engine's pin", taken["kernel"],
                         taken["pin"], 1.5),
        measuring.result("cached program of 64 KB, held / the engine's pin",
                         taken["program"], taken["pin"], 1.5),
        measuring.result("kernel by an equal description of 64 KB, held / by the same one",
                         taken["equal kernel"], taken["kernel"], 4),
        measuring.result("program by an equal description of 64 KB, held / by the same one",
                         taken["equal program"], taken["program"], 4),
    ]
