# SPDX-License-Identifier: Apache-2.0
"""Lets several processes start to compile at the same time."""

import os
import sys


def wait_for_start():
    """With WAIT_FOR_START: prints "ready", and waits for the end of the input."""
    if "WAIT_FOR_START" in os.environ:
        print("ready", flush=True)
        sys.stdin.read()
