# SPDX-License-Identifier: Apache-2.0
"""rows.py ROW...: the programs that the bench of doors measures, one for each row. Prints a digest
of the results of each row, and the seconds from the end of the imports to the results of all. Waits
for the end of its input before it begins. A row whose framework or GPU is missing is left out, and
named; exits with 77 if none is left."""

import ctypes
import hashlib
import sys
import time


class Missing(Exception):
    pass


def digest(*arrays):
    """Returns a digest of numbers, rounded, since some kernels add in no fixed order."""
    import numpy
    text = "".join(f"{value:.2e} " for array in arrays
                   for value in numpy.asarray(array, dtype=float).ravel()[:64])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def import_torch():
    import torch
    if not torch.cuda.is_available():
        raise Missing("no GPU")
    torch.zeros(1, device="cuda")
    return torch


# ---- CuPy and cuda.core ----

def cupy_row():
    import cupy
    if cupy.cuda.runtime.getDeviceCount() == 0:
        raise Missing("no GPU")

    def run():
        x = cupy.arange(4096, dtype=cupy.float32).reshape(64, 64) / 4096
        found = [cupy.sin(x) + cupy.cos(x), x.sum(axis=0), x.mean(axis=1), x.max(axis=0),
                 cupy.sort(x.ravel()), cupy.cumsum(x), cupy.where(x > 0.5, x, -x),
                 cupy.exp(x) * cupy.tanh(x), cupy.clip(x, 0.2, 0.7), cupy.linalg.norm(x),
                 (x + 1j * x).conj().imag, cupy.argsort(x[0]), cupy.diff(x), cupy.floor(x * 9),
                 x.astype(cupy.float16).astype(cupy.float64), cupy.var(x, axis=0)]
        kernels = cupy.RawModule(code="".join(
            f'extern "C" __global__ void k{n}(float *y) {{ y[threadIdx.x] += {n}.5f; }}\n'
            for n in range(8)))
        y = cupy.zeros(32, dtype=cupy.float32)
        for number in range(8):
            kernels.get_function(f"k{number}")((1,), (32,), (y,))
        return digest(*(array.get().real for array in found), y.get())

    return run


def cuda_core_row():
    try:
        from cuda.core import Device, Program, ProgramOptions
    except ImportError:
        from cuda.core.experimental import Device, Program, ProgramOptions
    device = Device()
    device.set_current()
    arch = "sm_" + "".join(map(str, device.compute_capability))

    def run():
        found = []
        for number in range(4):
            code = "template<typename T> __global__ void k(T *x) { %s }" % (
                f"x[threadIdx.x] = x[threadIdx.x] * {number + 2} + sqrt((double)x[0]);" * 20)
            for target in ("cubin", "ptx", "ltoir"):
                options = ProgramOptions(arch=arch, link_time_optimization=target == "ltoir")
                built = Program(code, "c++", options).compile(
                    target, name_expressions=("k<float>", "k<double>"))
                found.append(len(built.code))
        return str(len(found))

    return run


# ---- Triton ----

def triton_row():
    torch = import_torch()
    import triton_kernels
    return lambda: digest(*(array.cpu() for array in triton_kernels.run(torch)))


# ---- PyTorch ----

def inductor_row():
    torch = import_torch()

    class Block(torch.nn.Module):
        def __init__(self, width=256, heads=4):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.layers = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                              torch.nn.Linear(4 * width, width))

        def forward(self, x):
            y = self.first(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.layers(self.second(x))

    def run():
        torch.manual_seed(0)
        model = torch.nn.Sequential(Block(), Block()).cuda()
        x = torch.randn(4, 128, 256, device="cuda")
        loss = torch.compile(model)(x).square().mean()
        loss.backward()
        return digest(loss.item())

    return run


def jiterator_row():
    torch = import_torch()

    def run():
        found = []
        for number in range(4):
            function = torch.cuda.jiterator._create_jit_fn(
                "template <typename T> T f(T x, T y) { return x * y + T(%d); }" % number)
            x = torch.arange(64, device="cuda", dtype=torch.float32)
            found.append(function(x, x + 1).cpu())
        found.append(torch.special.bessel_j0(x).cpu())
        found.append(torch.special.airy_ai(x / 64).cpu())
        return digest(*found)

    return run


# ---- JAX ----

def jax_row():
    import jax
    import jax.numpy as jnp
    jax.device_put(0.0).block_until_ready()

    def run():
        def block(weights, x):
            first, second = weights
            hidden = jax.nn.gelu(x @ first)
            return jnp.square(x + hidden @ second).mean()

        gradient = jax.jit(jax.value_and_grad(block))
        order = jax.jit(lambda x: jnp.sort(jnp.fft.rfft(x).real, axis=0))
        convolve = jax.jit(lambda x, kernel: jax.lax.conv(x, kernel, (1, 1), "SAME"))
        x = jnp.linspace(0, 1, 128 * 256).reshape(128, 256)
        weights = (x.T @ x / 128, x.T @ x / 256)
        loss, _ = gradient(weights, x)
        convolved = convolve(x.reshape(1, 1, 128, 256), jnp.ones((4, 1, 3, 3)))
        return digest(loss, order(x)[0], convolved[0, 0, 0])

    return run


# ---- the driver ----

def ptx_of(number):
    """Returns a module of 30 kernels as PTX."""
    kernels = []
    for kernel in range(30):
        steps = "\n".join(f"fma.rn.f32 %f{step % 7 + 1}, %f{(step + 3) % 7 + 1}, %f{step % 5 + 1}, "
                          f"0f{0x3F800000 + step * 4096 + kernel * 64 + number:08X};"
                          for step in range(400))
        kernels.append(f""".visible .entry k{kernel}(.param .u64 p)
{{
.reg .f32 %f<8>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [p];
cvta.to.global.u64 %rd2, %rd1;
{"".join(f"ld.global.f32 %f{index}, [%rd2+{4 * index}];" for index in range(1, 8))}
{steps}
st.global.f32 [%rd2], %f1;
ret;
}}""")
    return ".version 7.0\n.target sm_80\n.address_size 64\n" + "\n".join(kernels)


def ptx_row():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Missing(str(error)) from error

    def call(name, *arguments):
        status = getattr(driver, name)(*arguments)
        if status != 0:
            raise Missing(f"{name}: {status}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)

    def run():
        for number in range(6):
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            call("cuModuleLoadData", ctypes.byref(module), ptx_of(number).encode())
            call("cuModuleGetFunction", ctypes.byref(function), module, b"k29")
        return "loaded"

    return run


ROWS = {"cupy": cupy_row, "cuda-core": cuda_core_row, "triton": triton_row,
        "inductor": inductor_row, "jax": jax_row, "ptx": ptx_row, "jiterator": jiterator_row}


def main(names):
    runs, missing = [], []
    for name in names:
        try:
            runs.append((name, ROWS[name]()))
        except Exception as error:
            # CuPy and cuda.core have errors of their own without a GPU.
            text = f"{type(error).__name__}: {error}"
            if not isinstance(error, (ImportError, Missing)) and "CUDA" not in text:
                raise
            missing.append(f"missing {name}: {text}".splitlines()[0])
    if not runs:
        print(f"skipped: {missing[0]}")
        return 77
    print("ready", flush=True)
    sys.stdin.read()
    began = time.monotonic()
    found = [f"results {name} {run()}" for name, run in runs]
    print(f"seconds {time.monotonic() - began:.6f}", *found, *missing, sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
