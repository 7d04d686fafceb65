# SPDX-License-Identifier: Apache-2.0
"""Lets a test start compilations in several processes at the same time."""

import os
import sys


def wait_for_start():
    """If WAIT_FOR_START is set, prints "ready" and waits for the end of the input."""
    if "WAIT_FOR_START" in os.environ:
        print("ready", flush=True)
        sys.stdin.read()
