/* SPDX-License-Identifier: Apache-2.0
 *
 * SPIR-V: kernel f, out[i] = base + i, where base is specialization constant 7, 77 by default.
 */
#pragma once

#include <CL/cl.h>

enum { SPIRV_DEFAULT_BASE = 77, SPIRV_SPEC_ID = 7 };

/* clang-format off */
static const cl_uint spirv_module[] = {
    0x07230203, 0x00010000, 0, 18, 0, /* magic, version 1.0, no generator, 18 ids */
    0x00020011, 4, /* OpCapability Addresses */
    0x00020011, 6, /* OpCapability Kernel */
    0x00020011, 11, /* OpCapability Int64 */
    0x0003000e, 2, 2, /* OpMemoryModel Physical64 OpenCL */
    0x0005000f, 6, 1, 102, 2, /* OpEntryPoint Kernel %main "f" %global_id */
    0x00030003, 3, 0x00018e70, /* OpSource OpenCL_C 102000 */
    0x00030005, 1, 102, /* OpName %main "f" */
    0x00040047, 2, 11, 28, /* OpDecorate %global_id BuiltIn GlobalInvocationId */
    0x00030047, 2, 22, /* OpDecorate %global_id Constant */
    0x00040047, 3, 1, 7, /* OpDecorate %base SpecId 7 */
    0x00020013, 4, /* %void = OpTypeVoid */
    0x00040015, 5, 32, 0, /* %uint = OpTypeInt 32 0 */
    0x00040015, 6, 64, 0, /* %ulong = OpTypeInt 64 0 */
    0x00040017, 7, 6, 3, /* %vector = OpTypeVector %ulong 3 */
    0x00040020, 8, 1, 7, /* %ptr_vector = OpTypePointer Input %vector */
    0x00040020, 9, 5, 5, /* %ptr_int = OpTypePointer CrossWorkgroup %uint */
    0x00040021, 10, 4, 9, /* %function = OpTypeFunction %void %ptr_int */
    0x00040032, 5, 3, 77, /* %base = OpSpecConstant %uint 77 */
    0x0004003b, 8, 2, 1, /* %global_id = OpVariable %ptr_vector Input */
    0x00050036, 4, 1, 0, 10, /* %main = OpFunction %void None %function */
    0x00030037, 9, 11, /* %out = OpFunctionParameter %ptr_int */
    0x000200f8, 12, /* %label = OpLabel */
    0x0006003d, 7, 13, 2, 2, 32, /* %ids = OpLoad %vector %global_id Aligned 32 */
    0x00050051, 6, 14, 13, 0, /* %id = OpCompositeExtract %ulong %ids 0 */
    0x00040071, 5, 15, 14, /* %short = OpUConvert %uint %id */
    0x00050080, 5, 16, 3, 15, /* %sum = OpIAdd %uint %base %short */
    0x00050046, 9, 17, 11, 14, /* %at = OpInBoundsPtrAccessChain %ptr_int %out %id */
    0x0005003e, 17, 16, 2, 4, /* OpStore %at %sum Aligned 4 */
    0x000100fd, /* OpReturn */
    0x00010038, /* OpFunctionEnd */
};
/* clang-format on */
