# SPDX-License-Identifier: Apache-2.0
"""Keeps the results of expensive builds: entries in memory and on disk, found by keys of named
parts.

    import kiln

    store = kiln.Store("/var/cache/app")
    cache = kiln.Cache(store)
    key = kiln.Key({"compiler": "cc 12.2", "options": "-O2", "source": source})
    entry = cache.get_or_build(key, lambda: compile(source), name="matrix")
    load(entry.payload)

docs/python.md describes the package."""

import sys

# Such a Python lays out objects differently, so the extension would crash rather than report an
# error.
if "t" in sys.abiflags:
    raise ImportError("kiln does not support a free-threaded Python: use one with the GIL")

from ._kiln import (
    Cache,
    CacheStat,
    Entry,
    Error,
    Key,
    KeyPart,
    Lease,
    Stats,
    Store,
    StoreItem,
    StoreStat,
    __version__ as __version__,
)

__all__ = [
    "Cache",
    "CacheStat",
    "Entry",
    "Error",
    "Key",
    "KeyPart",
    "Lease",
    "Stats",
    "Store",
    "StoreItem",
    "StoreStat",
]
