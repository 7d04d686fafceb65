/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool's exit codes.
 */
#pragma once

enum {
    EXIT_OK = 0,
    EXIT_NOTHING_FOUND = 1,
    EXIT_USAGE = 2,
    EXIT_CONFIGURATION = 3,
    EXIT_BUILT = 3, /* of `kiln run --expect-warm` */
    EXIT_IO = 4,
    EXIT_DAMAGED = 5,
    EXIT_NOT_EXECUTABLE = 126, /* this code and the next mean the same as in shells */
    EXIT_NO_SUCH_PROGRAM = 127
};
