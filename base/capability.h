/* What a target can do: the one record that builders, budgets and legalizers ask. Immutable. */
#ifndef WEFT_BASE_CAPABILITY_H
#define WEFT_BASE_CAPABILITY_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/dtype.h"

/* Matrix units of whole wavefronts: CDNA 2 and 3, RDNA 3 and 4; Vulkan's cooperative matrices of 8 x 8 by subgroups of
   8, of 16 x 16 by subgroups of 32, of more types from one to the next (codegen/kernel/matrix.h). */
typedef enum weft_cores {
    WEFT_CORES_NONE,
    WEFT_CORES_MFMA2,
    WEFT_CORES_MFMA3,
    WEFT_CORES_WMMA11,
    WEFT_CORES_WMMA12,
    WEFT_CORES_COOPERATIVE8,
    WEFT_CORES_COOPERATIVE16,      /* f16 */
    WEFT_CORES_COOPERATIVE16_BF16, /* and bf16 */
    WEFT_CORES_COOPERATIVE16_I8    /* and i8 */
} weft_cores;
/* Where elements of such matrices are only the device knows. */
static inline bool weft_cores_cooperative(weft_cores cores) { return cores >= WEFT_CORES_COOPERATIVE8; }

typedef struct weft_capability {
    const char *target;     /* cpu cuda amdgcn metal webgpu vulkan */
    const char *arch;       /* x86-64-v3, x86-64-v4, sm_80, sm_90a, gfx942, ... */
    weft_dtype index_dtype; /* of buffer indices: I64 on CPUs, I32 on GPUs */

    int vector_bytes;     /* widest register (CPU) or memory access per thread (GPU: 16) */
    int vector_registers; /* CPU: 16 or 32 */
    int l1_bytes, l1_ways, l2_bytes;
    int multiprocessors;

    int warp;         /* 1 on CPUs */
    int threads_max;  /* per block; 1 on CPUs */
    int registers;    /* per multiprocessor; 0 = not budgeted */
    int shared_bytes; /* per block; 0 on CPUs = private scratch without a fixed limit */
    int bindings_max; /* buffers of one kernel; 0 = no limit */

    bool f64, i64, i16, i8; /* arithmetic or at least storage */
    bool f16, bf16;         /* arithmetic conversions exist */
    bool native_f16;        /* WGSL: f16 is a type of memory and values (shader-f16), not bits of words */
    bool fast_math;         /* exp2_fast and its kind are within about 2 ulp */
    bool subgroups, atomics;
    bool masked_memory;                  /* masked vector loads and stores */
    bool mma_sync, ldmatrix, copy_async; /* sm_80 */
    weft_cores cores;                    /* AMD, Vulkan */
    bool simdgroup_matrix;               /* Metal: products of 8 x 8 f32 by a simdgroup */
    bool hopper;                         /* wgmma, tensor maps, mbarrier, clusters, setmaxnreg */

    bool by_name; /* compiled for only where it is named: devices in software, variants of another record */

    /* What one compile permits (weft_relax in compile.h); false in the built-in records. */
    bool relax_f32, relax_f8, relax_order;
    /* What one compile promises (batch_invariant there): how sums are ordered follows from what is summed and from the
       extents of one row, never from how many rows, images or heads there are beside it. */
    bool batch_invariant;
} weft_capability;

/* The built-in records; NULL when unknown. ("cpu", "x86-64-v4") ("cuda", "sm_90a") ... */
const weft_capability *weft_capability_find(const char *target, const char *arch);
/* All records, for tables and tests. */
const weft_capability *weft_capability_get(int index);

#endif
