/* SPDX-License-Identifier: Apache-2.0 */
#include "traits.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/device.h>

const char *const kilni_opencl_option_variables[] = {
    "POCL_EXTRA_BUILD_FLAGS",                                       /* PoCL */
    "OPENCL_PROGRAM_COMPILE_OPTIONS",                               /* Intel, CPUs */
    "AMD_OCL_BUILD_OPTIONS",                                        /* AMD */
    "AMD_OCL_BUILD_OPTIONS_APPEND",   "CLOVER_EXTRA_BUILD_OPTIONS", /* Mesa */
    "CLOVER_EXTRA_COMPILE_OPTIONS",   NULL,
};

static const char *const nothing[] = {NULL};

/* Variables that LLVM and clang read in every driver that contains them. */
#define LLVM_VARIABLES                                                                             \
    "LLVM_OVERRIDE_PRODUCER", "CLANG_CONFIG_PATH", "CLANG_NO_DEFAULT_CONFIG", "CCC_OVERRIDE_OPTIONS"

/* PoCL links kernels with the system's linker, which its clang starts. */
#define LINKER_VARIABLES "LIBRARY_PATH", "COMPILER_PATH", "LD_RUN_PATH", "LDEMULATION", "GNUTARGET"

#define POCL_VARIABLES                                                                             \
    "POCL_*", "!POCL_CACHE_DIR", "!POCL_KERNEL_CACHE", "!POCL_DEBUG", "!POCL_DEBUG_LLVM_PASSES",   \
        "!POCL_DEVICES", "!POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES", "!POCL_AFFINITY",               \
        "!POCL_TRACING*", "!POCL_SIGFPE_HANDLER", "!POCL_SIGUSR2_HANDLER", "!POCL_STARTUP_DELAY",  \
        "!POCL_MEMORY_LIMIT", "!POCL_PTHREAD_MIN_THREADS", "!POCL_MAX_PTHREAD_COUNT",              \
        "!POCL_CPU_MAX_CU_COUNT", "!POCL_MAX_COMPUTE_UNITS"

/* The kernel library and the headers are in folders below the driver's own installation prefix. */
static const char *const pocl_files[] = {
    "pocl/libpocl-devices-*.so",
    "libpocl-devices-*.so",
    "../share/pocl/kernel-*.bc",
    "../share/pocl/include/*.h",
    "../../share/pocl/kernel-*.bc",
    "../../share/pocl/include/*.h",
    "/usr/share/pocl/kernel-*.bc",
    "/usr/share/pocl/include/*.h",
    "/usr/bin/ld",
    NULL,
};

/* The driver's temporary files, and a folder for each program. LLVM first writes some of the
 * temporary files under a different name. The path of the folder is made from the program's digest
 * and has 38 letters. No header has such a name. */
#define POCL_TEMPORARY "tempfile_" POCL_RANDOM POCL_RANDOM
#define POCL_RANDOM "[0-9A-Za-z][0-9A-Za-z][0-9A-Za-z]"
#define POCL_PROGRAM "[A-P][A-P]/" POCL_LETTERS POCL_LETTERS POCL_LETTERS POCL_LETTERS
#define POCL_LETTERS "[A-P][A-P][A-P][A-P][A-P][A-P][A-P][A-P][A-P]"

static const char *const pocl_own_files[] = {POCL_TEMPORARY,
                                             POCL_TEMPORARY ".cl",
                                             POCL_TEMPORARY ".preproc*.cl",
                                             POCL_TEMPORARY "*.tmp",
                                             POCL_TEMPORARY ".so*",
                                             POCL_TEMPORARY ".spirv",
                                             POCL_PROGRAM "*",
                                             POCL_PROGRAM "*/*",
                                             POCL_PROGRAM "*/*/*",
                                             POCL_PROGRAM "*/*/*/*",
                                             NULL};

static const char *const pocl_variables[] = {POCL_VARIABLES, LLVM_VARIABLES, LINKER_VARIABLES,
                                             NULL};

#define INTEL_CPU_VARIABLES                                                                        \
    "CL_CONFIG_*", "!CL_CONFIG_LOG_FILE", "!CL_CONFIG_USER_LOGGER",                                \
        "!CL_CONFIG_CPU_TBB_NUM_WORKERS", "VOLCANO_*", "OCLBACKEND_PLUGINS", "OPENCL_PROGRAM_*",   \
        "DISABLE_INFER_AS", "NO_OVERRIDE_CLANG_VERSION"

/* Files with the built-in functions for each instruction set, and libraries that the runtime loads
 * without being linked to them. The runtime looks first in the parent folder for the files that all
 * instruction sets share. */
static const char *const intel_cpu_files[] = {
    "*.rtl", "../*.rtl", "cllibrary*.o", "libocl_svml_*.so*", "cl.cfg", NULL,
};

static const char *const intel_cpu_variables[] = {INTEL_CPU_VARIABLES, LLVM_VARIABLES, NULL};

static const char *const intel_cpu_file_variables[] = {
    "OCLBACKEND_PLUGINS",
    "CL_CONFIG_REPLACE_IR_BEFORE_OPTIMIZER",
    "CL_CONFIG_REPLACE_IR_AFTER_OPTIMIZER",
    NULL,
};

/* cl.cfg in the working directory takes precedence over cl.cfg in the folder of the library. clang
 * looks for modules.idx, an index that tells it which names need no look-up in a precompiled
 * header. Both files are read again for each build. */
static const char *const intel_cpu_working_files[] = {"cl.cfg", "modules.idx", NULL};

/* With NEOReadDebugKeys=1 the driver reads variables with many names. */
#define INTEL_GPU_VARIABLES                                                                        \
    "IGC_*", "!IGC_Dump*", "NEO*", "!NEO_CACHE_*", "Override*", "Force*", "Enable*", "Disable*",   \
        "Use*", "CIF_*", "VISA_*"

static const char *const intel_gpu_files[] = {
    "libigc.so*",    "libigdfcl.so*",    "libopencl-clang*.so*",    "libiga64.so*",
    "../libigc.so*", "../libigdfcl.so*", "../libopencl-clang*.so*", NULL,
};

static const char *const intel_gpu_variables[] = {INTEL_GPU_VARIABLES, LLVM_VARIABLES, NULL};

#define NVIDIA_VARIABLES                                                                           \
    "CUDA_*", "!CUDA_CACHE_*", "!CUDA_VISIBLE_DEVICES", "!CUDA_DEVICE_ORDER", "!CUDA_HOME",        \
        "!CUDA_PATH*", "!CUDA_ROOT", "!CUDA_VERSION", "!CUDA_MPS_*", "!CUDA_LAUNCH_BLOCKING",      \
        "!CUDA_MODULE_LOADING", "!CUDA_MODULE_DATA_LOADING", "!CUDA_DEVICE_MAX_*",                 \
        "!CUDA_COREDUMP_*", "!CUDA_LOG_FILE", "!CUDA_SCALE_LAUNCH_QUEUES", "!CUDA_AUTO_BOOST",     \
        "__CUDA_*", "NVVM_*"

static const char *const nvidia_files[] = {
    "libnvidia-nvvm*.so*", "libnvidia-ptxjitcompiler.so*", "libnvidia-compiler.so*",
    "libcuda.so*",         "libnvidia-gpucomp.so*",        NULL,
};

static const char *const nvidia_variables[] = {NVIDIA_VARIABLES, LLVM_VARIABLES, NULL};

/* Variables that the drivers of AMD, Mesa and clvk are known to read. These drivers have no row. */
#define OTHER_VARIABLES                                                                            \
    "AMD_*", "GPU_*", "HSA_*", "ROC_*", "ROCM_*", "MESA_*", "!MESA_SHADER_CACHE_*", "!MESA_LOG*",  \
        "RUSTICL_*", "CLOVER_*", "GALLIUM_*", "LP_*", "RADEON*", "AMDGPU_*", "CLC_*", "CLVK_*",    \
        "CLSPV_*", "!CLVK_CACHE_DIR", "!CLVK_LOG*", "LIBCLC*"

static const char *const other_variables[] = {
    POCL_VARIABLES,  INTEL_CPU_VARIABLES, INTEL_GPU_VARIABLES, NVIDIA_VARIABLES,
    OTHER_VARIABLES, LLVM_VARIABLES,      LINKER_VARIABLES,    NULL};

static const kilni_opencl_traits table[] = {
    {
        .platform_name = "Portable Computing Language",
        .capture_cost = KILN_CAPTURE_EXPENSIVE,
        .own_cache_switch = "POCL_KERNEL_CACHE",
        .counts_kernels = 1,
        .counts_programs = 1,
        .builds_for_roots = 1,
        .compiler_files = pocl_files,
        .compiler = "libLLVM-*.so*",
        .own_files = pocl_own_files,
        .variables = pocl_variables,
        .file_variables = nothing,
        .working_files = nothing,
    },
    {
        .platform_name = "Intel(R) OpenCL",
        .capture_cost = KILN_CAPTURE_CHEAP,
        .rebuild_is_no_op = 1,
        .links_reload = 1,
        .compiler_files = intel_cpu_files,
        .compiler = "libcommon_clang.so*",
        .knows_working_folder = 1,
        .variables = intel_cpu_variables,
        .file_variables = intel_cpu_file_variables,
        .working_files = intel_cpu_working_files,
    },
    {
        .platform_name = "Intel(R) OpenCL Graphics",
        .capture_cost = KILN_CAPTURE_CHEAP,
        .compiler_files = intel_gpu_files,
        .variables = intel_gpu_variables,
        .file_variables = nothing,
        .working_files = nothing,
    },
    {
        .platform_name = "NVIDIA CUDA",
        .capture_cost = KILN_CAPTURE_CHEAP,
        .compiler_files = nvidia_files,
        .variables = nvidia_variables,
        .file_variables = nothing,
        .working_files = nothing,
    },
    {
        .platform_name = NULL,
        .capture_cost = KILN_CAPTURE_EXPENSIVE,
        .compiler_files = nothing,
        .variables = other_variables,
        .file_variables = intel_cpu_file_variables,
        .working_files = intel_cpu_working_files,
    },
};

const kilni_opencl_traits *kilni_opencl_traits_of(const char *platform_name)
{
    const kilni_opencl_traits *row = table;
    while (row->platform_name &&
           !(platform_name && strcmp(row->platform_name, platform_name) == 0)) {
        row++;
    }
    return row;
}

int kilni_opencl_keeps_cache(const kilni_opencl_traits *traits)
{
    const char *value = traits->own_cache_switch ? getenv(traits->own_cache_switch) : "0";
    return !value || value[0] == '1';
}
