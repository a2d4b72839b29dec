/* The built-in capability records, one row per architecture.
   Sources: Intel 64 optimization manual (L1 48 KiB/12 ways, L2 2 MiB since Golden Cove; records state what a schedule
   may assume, not what a machine has); CUDA programming guide, table of technical specifications per compute
   capability; AMD CDNA 3 and RDNA 3 ISA guides; Metal feature set tables; WebGPU default limits; Vulkan 1.3 required
   limits. */
#include <string.h>

#include "base/capability.h"

#define CPU                                                                                                            \
    .target = "cpu", .index_dtype = WEFT_I64, .l1_bytes = 48 << 10, .l1_ways = 12, .l2_bytes = 2 << 20,                \
    .multiprocessors = 1, .warp = 1, .threads_max = 1, .f64 = true, .i64 = true, .i16 = true, .i8 = true, .f16 = true, \
    .bf16 = true, .masked_memory = true
#define CUDA                                                                                                           \
    .target = "cuda", .index_dtype = WEFT_I32, .vector_bytes = 16, .warp = 32, .threads_max = 1024,                    \
    .registers = 65536, .f64 = true, .i64 = true, .i16 = true, .i8 = true, .f16 = true, .fast_math = true,             \
    .subgroups = true, .atomics = true
#define AMPERE CUDA, .bf16 = true, .mma_sync = true, .ldmatrix = true, .copy_async = true
#define AMD                                                                                                            \
    .target = "amdgcn", .index_dtype = WEFT_I32, .vector_bytes = 16, .threads_max = 1024, .shared_bytes = 64 << 10,    \
    .f64 = true, .i64 = true, .i16 = true, .i8 = true, .f16 = true, .bf16 = true, .fast_math = true,                   \
    .subgroups = true, .atomics = true

/* The functions of Metal's library are off by up to 4 units and more: fast_math stays false. One of 31 bindings is the
   array of extents. */
#define METAL                                                                                                          \
    .target = "metal", .index_dtype = WEFT_I32, .vector_bytes = 16, .warp = 32, .threads_max = 1024,                   \
    .shared_bytes = 32 << 10, .bindings_max = 30, .i64 = true, .i16 = true, .i8 = true, .f16 = true, .bf16 = true,     \
    .subgroups = true, .atomics = true, .simdgroup_matrix = true

/* The first record is what every adapter has; the others are for those with 16-bit floats, and for those whose
   subgroups are always of that size: cards, and the adapters in software of Chromium (4) and Mesa (8). */
#define WEBGPU                                                                                                         \
    .target = "webgpu", .index_dtype = WEFT_I32, .vector_bytes = 4, .multiprocessors = 1, .threads_max = 256,          \
    .shared_bytes = 16 << 10, .bindings_max = 8, .i64 = true, .i16 = true, .i8 = true, .f16 = true, .bf16 = true,      \
    .atomics = true

/* The first record is what every device has; the others are for those with cooperative matrices: graphics cards, and
   Mesa's device in software. */
#define VULKAN                                                                                                         \
    .target = "vulkan", .index_dtype = WEFT_I32, .vector_bytes = 16, .threads_max = 256, .i64 = true, .i16 = true,     \
    .i8 = true, .f16 = true, .bf16 = true, .atomics = true

static const weft_capability records[] = {
    {CPU, .arch = "x86-64-v3", .vector_bytes = 32, .vector_registers = 16},
    {CPU, .arch = "x86-64-v4", .vector_bytes = 64, .vector_registers = 32},
    {CUDA, .arch = "sm_75", .l1_bytes = 96 << 10, .l2_bytes = 4 << 20, .multiprocessors = 40, .shared_bytes = 64 << 10,
     .ldmatrix = true},
    {AMPERE, .arch = "sm_80", .l1_bytes = 192 << 10, .l2_bytes = 40 << 20, .multiprocessors = 108,
     .shared_bytes = 163 << 10},
    {AMPERE, .arch = "sm_89", .l1_bytes = 128 << 10, .l2_bytes = 72 << 20, .multiprocessors = 128,
     .shared_bytes = 99 << 10},
    {AMPERE, .arch = "sm_90a", .l1_bytes = 256 << 10, .l2_bytes = 50 << 20, .multiprocessors = 132,
     .shared_bytes = 227 << 10, .hopper = true},
    {AMPERE, .arch = "sm_100a", .l1_bytes = 256 << 10, .l2_bytes = 126 << 20, .multiprocessors = 148,
     .shared_bytes = 227 << 10},
    {AMPERE, .arch = "sm_120a", .l1_bytes = 128 << 10, .l2_bytes = 96 << 20, .multiprocessors = 170,
     .shared_bytes = 99 << 10},
    {AMD, .arch = "gfx90a", .cores = WEFT_CORES_MFMA2, .warp = 64, .registers = 131072, .l1_bytes = 16 << 10,
     .l2_bytes = 8 << 20, .multiprocessors = 104},
    {AMD, .arch = "gfx942", .cores = WEFT_CORES_MFMA3, .warp = 64, .registers = 131072, .l1_bytes = 32 << 10,
     .l2_bytes = 4 << 20, .multiprocessors = 304},
    {AMD, .arch = "gfx1030", .warp = 32, .registers = 131072, .l1_bytes = 16 << 10, .l2_bytes = 4 << 20,
     .multiprocessors = 36},
    {AMD, .arch = "gfx1100", .cores = WEFT_CORES_WMMA11, .warp = 32, .registers = 196608, .l1_bytes = 32 << 10,
     .l2_bytes = 6 << 20, .multiprocessors = 48},
    {AMD, .arch = "gfx1200", .cores = WEFT_CORES_WMMA12, .warp = 32, .registers = 196608, .l1_bytes = 32 << 10,
     .l2_bytes = 4 << 20, .multiprocessors = 32},
    {METAL, .arch = "apple7", .multiprocessors = 8},
    {METAL, .arch = "apple8", .multiprocessors = 10},
    {METAL, .arch = "apple9", .multiprocessors = 10},
    {WEBGPU, .arch = "wgsl", .warp = 1},
    {WEBGPU, .arch = "wgsl-f16", .warp = 1, .native_f16 = true},
    {WEBGPU, .arch = "wgsl-subgroups32", .warp = 32, .subgroups = true},
    {WEBGPU, .arch = "wgsl-f16-subgroups32", .warp = 32, .subgroups = true, .native_f16 = true},
    {WEBGPU, .arch = "wgsl-subgroups4", .warp = 4, .subgroups = true, .by_name = true},
    {WEBGPU, .arch = "wgsl-subgroups8", .warp = 8, .subgroups = true, .by_name = true},
    {WEBGPU, .arch = "wgsl-f16-subgroups8", .warp = 8, .subgroups = true, .native_f16 = true, .by_name = true},
    {VULKAN, .arch = "vulkan1.2", .multiprocessors = 1, .warp = 1, .shared_bytes = 16 << 10},
    {VULKAN, .arch = "vulkan1.2-coop16", .cores = WEFT_CORES_COOPERATIVE16, .multiprocessors = 32, .warp = 32,
     .shared_bytes = 48 << 10, .subgroups = true},
    {VULKAN, .arch = "vulkan1.2-coop16-bf16", .cores = WEFT_CORES_COOPERATIVE16_BF16, .multiprocessors = 32, .warp = 32,
     .shared_bytes = 48 << 10, .subgroups = true, .by_name = true},
    {VULKAN, .arch = "vulkan1.2-coop16-bf16-i8", .cores = WEFT_CORES_COOPERATIVE16_I8, .multiprocessors = 32,
     .warp = 32, .shared_bytes = 48 << 10, .subgroups = true, .by_name = true},
    {VULKAN, .arch = "vulkan1.2-coop8", .cores = WEFT_CORES_COOPERATIVE8, .multiprocessors = 1, .warp = 8,
     .shared_bytes = 32 << 10, .subgroups = true, .by_name = true},
};

const weft_capability *weft_capability_find(const char *target, const char *arch) {
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        if (!strcmp(records[i].target, target) && !strcmp(records[i].arch, arch)) return &records[i];
    return NULL;
}

const weft_capability *weft_capability_get(int index) {
    return index >= 0 && (size_t)index < sizeof records / sizeof *records ? &records[index] : NULL;
}
