/* SPDX-License-Identifier: Apache-2.0
 *
 * Random texts that identify the holders of leases.
 */
#pragma once

#include <stdbool.h>

/* The size of a token's text, including its terminating NUL. */
#define KILNI_TOKEN_SIZE 33u

/* Makes a token that no other process has. Returns false if the system has no random numbers. */
bool kilni_token_make(char token[KILNI_TOKEN_SIZE]);
