/* matmul by matrix units: on NVIDIA GPUs from sm_80 on mma.sync (bf16, f16, and f32 as tf32 where the compile permits
   it), on AMD GPUs MFMA or WMMA (bf16, f16, i8, f8, on CDNA f32), on Vulkan cooperative matrices (f16, bf16, i8); every
   shape, alignment and view, as matmul_simt. Dense operands whose rows are multiples of 4 bytes arrive by asynchronous
   copies of up to 16. On sm_90 it takes what the Hopper builder does not. Sums in f32, of i8 in i32. Read next: mma.h,
   mma_wave.h. */
#include "codegen/builders/mma.h"
#include "codegen/builders/plan.h"
#include "codegen/builders/simt_product.h"

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_product product;
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    if (!weft_product_find(graph, fusion, &product, out_reason)) return false;
    *out_reason = "no matrix unit for operands of this type";
    if (!weft_mma_takes(capability, product.dtype, weft_product_sum(product.dot)) || product.dtype_b != product.dtype)
        return false;
    *out_reason = "positions need more than 31 bits";
    if (!weft_fusion_fits_index(graph, fusion, capability)) return false;
    *out_reason = NULL;
    return true;
}

static void find_sides(const weft_product *product, weft_mma_side sides[2]) {
    const weft_product_side *from[2] = {&product->a, &product->b};
    for (int i = 0; i < 2; i++)
        sides[i] = (weft_mma_side){.operand = from[i]->dense ? from[i]->operand : -1,
                                   .pitch = from[i]->pitch,
                                   .along_k = from[i]->k_contiguous};
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_product product;
    weft_mma_side sides[2];
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason)) return 0;
    find_sides(&product, sides);
    return weft_mma_propose(request, "matmul-mma", product.m, product.n, product.batch, product.dtype, sides, capacity,
                            out_schedules);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    weft_product product;
    weft_index_context index;
    weft_simt s;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "matmul-mma: %s", reason);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    weft_kernel *k = weft_plan_kernel(request, "");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, k, &index), "building %s", request->name);
    weft_simt_product(&s, request, k, &index, &product);
    weft_mma_side sides[2];
    find_sides(&product, sides);
    WEFT_TRY(weft_mma_emit(&s, product.dtype, sides), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, k);
}

extern const weft_builder weft_builder_matmul_mma;
const weft_builder weft_builder_matmul_mma = {.name = "matmul", .accepts = accepts, .propose = propose, .build = build};
