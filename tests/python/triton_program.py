# SPDX-License-Identifier: Apache-2.0
"""Compiles kernels for sm_90, without a GPU, and prints digests of what was compiled as JSON."""

import hashlib
import json
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def total(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i, mask=i < n, other=0) * tl.load(y + i, mask=i < n), 0))


@triton.jit
def broken(x, y, out, n, BLOCK: tl.constexpr):
    tl.store(out, no_such_name)


@triton.jit
def product(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(out + i, tl.dot(tl.load(x + i), tl.load(y + i)))


def compiled(function, kind="fp32", block=128, architecture=90):
    signature = {"x": "*" + kind, "y": "*" + kind, "out": "*fp32", "n": "i32",
                 "BLOCK": "constexpr"}
    if triton.__version__ < "3.3":
        del signature["BLOCK"]
        source = triton.compiler.ASTSource(function, signature, constants={"BLOCK": block})
    else:
        source = triton.compiler.ASTSource(function, signature, constexprs={"BLOCK": block})
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32))


def compiled_from_ir(ir, path):
    """Compiles Triton's IR, which is written to a file."""
    with open(path, "w") as file:
        file.write(ir)
    return triton.compile(path, target=GPUTarget("cuda", 90, 32))


def digests(kernel):
    # Triton 3.2 itself makes the first LLVM IR of a process different from the later ones.
    return {name: hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()
            for name, data in kernel.asm.items() if name not in ("source", "llir")}


if __name__ == "__main__":
    print(json.dumps({function.__name__: digests(compiled(function))
                      for function in (add, total)}), flush=True)
