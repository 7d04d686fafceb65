# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's kernels that NVRTC compiles. Exits with 77 if there is no GPU or no PyTorch."""

import hashlib
import sys
import time

from start import wait_for_start

try:
    import torch
    if not torch.cuda.is_available():
        raise RuntimeError("no GPU")
except Exception as error:  # the exception depends on what is missing
    print(f"skipped: {error}")
    sys.exit(77)


def main():
    jiterated = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T blend(T x, T y, T a) { return x * a + y * (T(1) - a); }", a=0.5)
    x = torch.arange(4096, device="cuda", dtype=torch.float32)
    torch.cuda.synchronize()
    wait_for_start()
    start = time.perf_counter()
    results = [jiterated(x, x + 1, a=a) for a in (0.25, 0.75)]
    # Special functions are compiled when they are first used.
    results += [torch.special.bessel_j0(x / 512), torch.special.zeta(x + 2, x + 1)]
    torch.cuda.synchronize()
    print(f"kernels took {(time.perf_counter() - start) * 1e3:.0f} ms", file=sys.stderr)
    assert torch.equal(results[0], x * 0.25 + (x + 1) * 0.75)
    digest = hashlib.sha256(b"".join(r.cpu().numpy().tobytes() for r in results))
    print(f"results {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
