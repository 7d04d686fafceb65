/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_table.h"

#define GIB ((uint64_t)1 << 30)
#define NVIDIA "/proc/driver/nvidia/version"

/* The library that each program with PyTorch loads. */
#define PYTORCH "libtorch_cpu.so"

const folder_cache folder_caches[] = {
    {
        .name = "cuda",
        .variables = {"CUDA_CACHE_PATH"},
        .default_place = "~/.nv/ComputeCache",
        .update = FOLDER_AS_A_WHOLE,
        .identity = IDENTITY_NVIDIA,
        .needs = NVIDIA,
        .triggers = "libcuda.so",
        .max_bytes = GIB,
    },
    {
        .name = "inductor",
        .variables = {"TORCHINDUCTOR_CACHE_DIR"},
        .default_place = "/tmp/torchinductor_USER",
        .update = FOLDER_MERGED,
        .identity = IDENTITY_PATH | IDENTITY_HOST | IDENTITY_NVIDIA,
        .triggers = PYTORCH,
        .left_out = {"*.lock", "*.tmp", "tmp*"},
        .max_bytes = 2 * GIB,
    },
    {
        .name = "vllm",
        .variables = {"VLLM_CACHE_ROOT"},
        .default_place = "~/.cache/vllm",
        .update = FOLDER_AS_A_WHOLE,
        .identity = IDENTITY_PATH | IDENTITY_HOST | IDENTITY_NVIDIA,
        .needs = NVIDIA,
        .triggers = PYTORCH,
        .files = "torch_compile_cache/*",
        .left_out = {"*.lock", "*.tmp", "tmp*"},
        .max_bytes = 2 * GIB,
    },
    {
        .name = "warp",
        .variables = {"WARP_CACHE_PATH"},
        .default_place = "~/.cache/warp/VERSION",
        .update = FOLDER_LEFT_OUT,
        .why = "no name of a file depends on Warp's version: only the default folder has it",
    },
    {
        .name = "cute-dsl",
        .variables = {"CUTE_DSL_CACHE_DIR"},
        .default_place = "/tmp/USER/cutlass_python_cache",
        .update = FOLDER_AS_A_WHOLE,
        .identity = IDENTITY_PATH | IDENTITY_HOST | IDENTITY_NVIDIA | IDENTITY_TOOLKIT,
        .needs = NVIDIA,
        .triggers = "libcute_dsl_runtime.so",
        .max_bytes = GIB,
    },
    {
        .name = "deepgemm",
        .variables = {"DG_JIT_CACHE_DIR"},
        .default_place = "~/.deep_gemm",
        .update = FOLDER_MERGED,
        .identity = IDENTITY_PATH | IDENTITY_NVIDIA | IDENTITY_TOOLKIT,
        .needs = NVIDIA,
        .triggers = PYTORCH,
        .left_out = {"tmp*"},
        .max_bytes = GIB,
    },
    {
        .name = "tilelang",
        .variables = {"TILELANG_CACHE_DIR"},
        .default_place = "~/.tilelang/cache",
        .update = FOLDER_AS_A_WHOLE,
        .identity = IDENTITY_PATH | IDENTITY_HOST | IDENTITY_NVIDIA | IDENTITY_TOOLKIT,
        .triggers = "libtilelang",
        .left_out = {"tmp*"},
        .max_bytes = GIB,
    },
    {
        .name = "numba",
        .variables = {"NUMBA_CACHE_DIR"},
        .default_place = "__pycache__ beside the source",
        .update = FOLDER_LEFT_OUT,
        .why = "numba compares the time and size of one source file, not the functions in other "
               "files that it has compiled in",
    },
    {
        .name = "miopen",
        .variables = {"MIOPEN_CUSTOM_CACHE_DIR", "MIOPEN_USER_DB_PATH"},
        .default_place = "~/.cache/miopen, ~/.config/miopen",
        .update = FOLDER_LEFT_OUT,
        .why = "its databases are changed in place for as long as the program runs, and it was not "
               "tried here",
    },
    {
        .name = "neo",
        .variables = {"NEO_CACHE_DIR", "NEO_CACHE_PERSISTENT"},
        .default_place = "~/.cache/neo_compiler_cache",
        .update = FOLDER_LEFT_OUT,
        .why = "Kiln's OpenCL layer caches what the driver compiles",
    },
    {
        .name = "mesa",
        .variables = {"MESA_SHADER_CACHE_DIR"},
        .default_place = "~/.cache/mesa_shader_cache",
        .update = FOLDER_LEFT_OUT,
        .why = "its index is changed in place through shared memory, and it was not tried here",
    },
    {
        .name = "pocl",
        .variables = {"POCL_CACHE_DIR"},
        .default_place = "~/.cache/pocl/kcache",
        .update = FOLDER_LEFT_OUT,
        .why = "Kiln's OpenCL layer caches what the driver compiles, and reads the driver's own "
               "folder later",
    },
    {
        .name = "torch-extensions",
        .variables = {"TORCH_EXTENSIONS_DIR"},
        .default_place = "~/.cache/torch_extensions",
        .update = FOLDER_LEFT_OUT,
        .why = "ninja decides by the times of files, and no name depends on the content of sources",
    },
    {
        .name = "flashinfer",
        .variables = {"FLASHINFER_WORKSPACE_BASE"},
        .default_place = "~/.cache/flashinfer",
        .update = FOLDER_LEFT_OUT,
        .why = "ninja decides by the times of files, and no name depends on the content of sources",
    },
};

const size_t folder_cache_count = sizeof folder_caches / sizeof folder_caches[0];
