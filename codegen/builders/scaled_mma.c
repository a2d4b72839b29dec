/* scaled_dot by matrix units from sm_80 on: 8-bit operands become f16 as they are fetched, which holds each of their
   numbers; sums of a block of k in f32 by the unit, times their two scales into sums of their own (mma.c). What
   Hopper's builder does not take (wide results, other blocks), and GPUs before and after it. Read next: mma.h,
   simt_product.h. */
#include "codegen/builders/scaled_mma.h"

#include "codegen/builders/mma.h"
#include "codegen/builders/simt_product.h"

enum { STEP = 64 /* elements of k in a stage of f16 */, NARROWEST = 64 /* tile */ };

bool weft_scaled_mma_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability) {
    const int64_t *block = weft_node_attribute(node, WEFT_ATTR_block)->as.ints;
    if (capability->cores || !weft_mma_takes(capability, WEFT_F16, WEFT_F32)) return false;
    if (block[0] != 1 || block[1] % NARROWEST || block[2] % STEP) return false;
    for (int i = 0; i < 2; i++) {
        weft_dtype dtype = weft_operand_type(node, i)->dtype;
        if (dtype != WEFT_F8E4M3FN && dtype != WEFT_F8E5M2) return false;
    }
    for (int i = 0; i < 3; i++) {
        const weft_type *type = i < 2 ? weft_operand_type(node, i) : &node->results[0].type;
        weft_dim count = 1;
        for (int axis = 0; axis < type->rank; axis++) count = weft_dim_multiply(graph->dims, count, type->dims[axis]);
        if (weft_dim_is_number(count) && count > INT32_MAX) return false;
    }
    return true;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_product product;
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    if (!weft_product_find(graph, fusion, &product, out_reason)) return false;
    *out_reason = "blocks of scales, or operands, that the matrix unit does not take";
    if (!product.block || !weft_scaled_mma_claims(graph, product.dot, capability)) return false;
    *out_reason = "scales that are computed in the group";
    for (int i = 2; i < 4; i++)
        if (product.dot->operands[i]->node) return false;
    *out_reason = NULL;
    return true;
}

/* Both are fetched through registers. */
static const weft_mma_side sides[2] = {{.operand = -1}, {.operand = -1}};

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    enum { CANDIDATES = 8 };
    weft_product product;
    weft_schedule all[CANDIDATES];
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason)) return 0;
    int found = weft_mma_propose(request, "scaled-mma", product.m, product.n, product.batch, WEFT_F16, sides,
                                 CANDIDATES, all),
        count = 0;
    for (int i = 0; i < found && count < capacity; i++) /* all columns of a tile share their scale */
        if (product.block[1] % all[i].tile_n == 0) out_schedules[count++] = all[i];
    return count;
}

static weft_kval scale(weft_simt *s, int side, weft_kval row, weft_kval block) {
    const weft_product *product = s->self;
    weft_kernel *k = s->k;
    const weft_value *scales = product->dot->operands[2 + side];
    const weft_type *type = &scales->type;
    weft_kval rows = weft_k_extent(k, type->dims[type->rank - 2]),
              blocks = weft_k_extent(k, type->dims[type->rank - 1]);
    row = weft_k_div(k, row, weft_k_index(k, product->block[side]));
    row = weft_k_min(k, row, weft_k_sub(k, rows, weft_k_index(k, 1)));
    weft_kval line = weft_k_add(k, weft_k_mul(k, s->batch_index, rows), row);
    return weft_index_load(s->index, s->index->operands[scales->index], type->dtype,
                           weft_lane_scalar(weft_k_add(k, weft_k_mul(k, line, blocks), block)), 1, WEFT_KNONE);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    weft_product product;
    weft_index_context index;
    weft_simt s;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason) || !product.block)
        return WEFT_STATUS(WEFT_INTERNAL, "scaled-mma: no product with scales");
    if (product.block[1] % request->schedule->tile_n)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "scaled-mma: tiles of %d columns", request->schedule->tile_n);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    weft_kernel *k = weft_plan_kernel(request, "");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, k, &index), "building %s", request->name);
    weft_simt_product(&s, request, k, &index, &product);
    s.scale_depth = product.block[2], s.scale = scale;
    WEFT_TRY(weft_mma_emit(&s, WEFT_F16, sides), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, k);
}

extern const weft_builder weft_builder_scaled_mma;
const weft_builder weft_builder_scaled_mma = {
    .name = "scaled_dot", .accepts = accepts, .propose = propose, .build = build};
