/* convolution for GPUs from sm_80 on as an implicit product by mma.sync: bf16, f16, and f32 as tf32 where the compile
   permits it. The problem is that of convolution_simt.c; weights that lie in memory arrive by asynchronous copies, so
   does x where the kernel is a point (no taps, padding or stride); otherwise its elements are looked up one by one,
   which costs more than the multiplications but far less than scalar ones. Groups of few channels fill no tile and stay
   with the other builders. Read next: mma.h. */
#include "codegen/builders/mma.h"
#include "codegen/builders/plan.h"
#include "codegen/builders/simt_convolution.h"

enum { OUTPUTS_MIN = 32, DEPTH_MIN = 32 };

static bool at_least(const weft_graph *graph, weft_dim dim, int64_t least) {
    int64_t low, high;
    weft_dim_bounds(graph->dims, dim, &low, &high);
    return low >= least;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_simt_convolution p;
    if (!weft_simt_convolution_accepts(graph, fusion, capability, out_reason)) return false;
    *out_reason = "no convolution in the group";
    if (!weft_simt_convolution_find(graph, fusion, &p, out_reason)) return false;
    weft_dtype dtype = weft_operand_type(p.node, 0)->dtype;
    *out_reason = "no matrix unit for operands of these types";
    if (!weft_mma_takes(capability, dtype, p.sum) || weft_operand_type(p.node, 1)->dtype != dtype) return false;
    *out_reason = "too few channels for a tile";
    if (!at_least(graph, p.outputs, OUTPUTS_MIN) ||
        !at_least(graph, weft_dim_multiply(graph->dims, p.inputs, p.taps), DEPTH_MIN))
        return false;
    *out_reason = "positions need more than 31 bits";
    if (!weft_fusion_fits_index(graph, fusion, capability)) return false;
    *out_reason = NULL;
    return true;
}

/* The operand of the fusion that a value is; -1. */
static int operand_of(const weft_node *fusion, const weft_value *value) {
    return !value->node && value->block == weft_fusion_block(fusion) ? value->index : -1;
}

/* Output positions are input positions: x is a matrix of channels by positions for every image and group. */
static bool is_point(const weft_graph *graph, const weft_simt_convolution *p) {
    const weft_type *x = weft_operand_type(p->node, 0), *y = &p->node->results[0].type;
    for (int d = 0; d < p->rank; d++)
        if (weft_node_attribute(p->node, WEFT_ATTR_stride)->as.ints[d] != 1 ||
            weft_node_attribute(p->node, WEFT_ATTR_base_dilation)->as.ints[d] != 1 ||
            weft_node_attribute(p->node, WEFT_ATTR_low)->as.dims[d] != 0 ||
            !weft_dim_known_equal(graph->dims, x->dims[d + 2], y->dims[d + 2]))
            return false;
    return p->taps == 1;
}

static void find_sides(const weft_build_request *request, const weft_simt_convolution *p, weft_mma_side sides[2]) {
    weft_dim_table *dims = request->graph->dims;
    sides[0] = (weft_mma_side){.operand = operand_of(request->fusion, p->node->operands[1]),
                               .pitch = weft_dim_multiply(dims, p->inputs, p->taps),
                               .period = p->groups};
    sides[1] =
        (weft_mma_side){.operand = is_point(request->graph, p) ? operand_of(request->fusion, p->node->operands[0]) : -1,
                        .pitch = p->positions};
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_simt_convolution p;
    weft_mma_side sides[2];
    const char *reason;
    if (!weft_simt_convolution_find(request->graph, request->fusion, &p, &reason)) return 0;
    find_sides(request, &p, sides);
    return weft_mma_propose(request, "convolution-mma", p.outputs, p.positions,
                            weft_simt_convolution_batches(request->graph, &p), weft_operand_type(p.node, 0)->dtype,
                            sides, capacity, out_schedules);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    weft_simt_convolution p;
    weft_mma_side sides[2];
    weft_index_context index;
    weft_simt s;
    const char *reason;
    if (!weft_simt_convolution_find(request->graph, request->fusion, &p, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "convolution-mma: %s", reason);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    weft_kernel *k = weft_plan_kernel(request, "");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, k, &index), "building %s", request->name);
    weft_simt_convolution_problem(&s, request, k, &index, &p);
    find_sides(request, &p, sides);
    WEFT_TRY(weft_mma_emit(&s, weft_operand_type(p.node, 0)->dtype, sides), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, k);
}

extern const weft_builder weft_builder_convolution_mma;
const weft_builder weft_builder_convolution_mma = {
    .name = "convolution", .accepts = accepts, .propose = propose, .build = build};
