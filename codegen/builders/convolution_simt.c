/* convolution for any GPU as an implicit product: rows are the output channels of a group, columns its output
   positions, k runs over input channels and taps; batches are images times groups. x is read where it lies: padding,
   stride, dilation and base dilation (transposed convolutions) are tests and index arithmetic in the fetch. Read next:
   simt.h. */
#include "codegen/builders/matmul.h"
#include "codegen/builders/plan.h"
#include "codegen/builders/simt_convolution.h"

typedef weft_simt_convolution problem;

bool weft_simt_convolution_find(const weft_graph *graph, const weft_node *fusion, weft_simt_convolution *out,
                                const char **out_reason) {
    const weft_node *node = weft_fusion_find(fusion, WEFT_OP_convolution);
    *out_reason = "no convolution in the group";
    if (!node) return false;
    const weft_type *x = weft_operand_type(node, 0), *w = weft_operand_type(node, 1), *y = &node->results[0].type;
    weft_dtype_kind kind = weft_dtype_kind_of(x->dtype);
    *out_reason = "operands that are no numbers, or complex ones";
    if ((kind != WEFT_KIND_FLOAT && kind != WEFT_KIND_SIGNED && kind != WEFT_KIND_UNSIGNED) ||
        weft_dtype_kind_of(w->dtype) != kind)
        return false;
    *out = (problem){.node = node,
                     .rank = x->rank - 2,
                     .groups = weft_node_int(node, WEFT_ATTR_groups, 1),
                     .inputs = w->dims[1],
                     .taps = 1,
                     .positions = 1};
    out->sum = weft_product_sum(node);
    *out_reason = "a sum in a type that targets do not add in";
    if (out->sum == WEFT_INVALID) return false;
    *out_reason = "no known number of output channels a group";
    if (!weft_dim_divide_exact(graph->dims, w->dims[0], out->groups, &out->outputs)) return false;
    for (int d = 0; d < out->rank; d++) {
        out->taps = weft_dim_multiply(graph->dims, out->taps, w->dims[d + 2]);
        out->positions = weft_dim_multiply(graph->dims, out->positions, y->dims[d + 2]);
    }
    *out_reason = NULL;
    return true;
}

bool weft_convolution_keeps_positions(const weft_graph *graph, const weft_node *fusion, const weft_node *convolution) {
    const weft_value *reached[64] = {&convolution->results[0]};
    int count = 1;
    for (const weft_node *node = weft_fusion_block(fusion)->first; node; node = node->next) {
        bool depends = false;
        for (int o = 0; o < node->operand_count; o++)
            for (int i = 0; i < count; i++) depends |= node->operands[o] == reached[i];
        if (!depends || node->op == WEFT_OP_yield) continue;
        bool keeps = (weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE) || node->op == WEFT_OP_reshape;
        if (!keeps || node->result_count != 1 || count == 64) return false;
        reached[count++] = &node->results[0];
    }
    weft_dim elements = 1;
    const weft_type *y = &convolution->results[0].type;
    for (int i = 0; i < y->rank; i++) elements = weft_dim_multiply(graph->dims, elements, y->dims[i]);
    for (int i = 0; i < fusion->result_count; i++) {
        const weft_type *type = &weft_fusion_yield(fusion, i)->type;
        weft_dim own = 1;
        for (int d = 0; d < type->rank; d++) own = weft_dim_multiply(graph->dims, own, type->dims[d]);
        if (!weft_dim_known_equal(graph->dims, own, elements)) return false;
    }
    return true;
}

bool weft_simt_convolution_accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                                   const char **out_reason) {
    problem p;
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    if (!weft_simt_convolution_find(graph, fusion, &p, out_reason)) return false;
    *out_reason = "64-bit sums on a target without 64-bit arithmetic";
    if (weft_dtype_bits(p.sum) == 64 && !(weft_dtype_is_float(p.sum) ? capability->f64 : capability->i64)) return false;
    int64_t low, high;
    *out_reason = "an empty kernel";
    weft_dim_bounds(graph->dims, weft_dim_multiply(graph->dims, p.inputs, p.taps), &low, &high);
    if (low < 1) return false;
    *out_reason = "the epilogue moves elements of the result";
    if (!weft_convolution_keeps_positions(graph, fusion, p.node)) return false;
    *out_reason = NULL;
    return true;
}

weft_dim weft_simt_convolution_batches(const weft_graph *graph, const weft_simt_convolution *p) {
    return weft_dim_multiply(graph->dims, weft_operand_type(p->node, 0)->dims[0], p->groups);
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    problem p;
    const char *reason;
    if (!weft_simt_convolution_find(request->graph, request->fusion, &p, &reason)) return 0;
    return weft_simt_propose(request, "convolution-simt", p.outputs, p.positions,
                             weft_simt_convolution_batches(request->graph, &p), p.sum, capacity, out_schedules);
}

static weft_kval image_of(weft_simt *s, const problem *p) {
    return weft_k_div(s->k, s->batch_index, weft_k_index(s->k, p->groups));
}
static weft_kval group_of(weft_simt *s, const problem *p) {
    return weft_k_rem(s->k, s->batch_index, weft_k_index(s->k, p->groups));
}

/* k -> input channel, then one index per spatial axis of the kernel. */
static void split_k(weft_simt *s, const problem *p, weft_kval k, weft_lane_index *out) {
    const weft_type *w = weft_operand_type(p->node, 1);
    weft_index_unflatten(s->index, p->rank + 1, w->dims + 1, weft_lane_scalar(k), 1, out);
}

static weft_kval load_weight(weft_simt *s, const problem *p, weft_kval row, weft_kval k) {
    weft_lane_index index[WEFT_MAX_RANK];
    index[0] =
        weft_lane_scalar(weft_k_add(s->k, weft_k_mul(s->k, group_of(s, p), weft_k_extent(s->k, p->outputs)), row));
    split_k(s, p, k, index + 1);
    return weft_index_value(s->index, p->node->operands[1], index, 1, WEFT_KNONE);
}

/* Position of an axis in x: p * stride + t * dilation - low, over base_dilation when that divides it. */
static weft_kval input_position(weft_simt *s, const problem *p, int d, weft_kval output, weft_kval tap,
                                weft_kval *inside) {
    weft_kernel *k = s->k;
    int64_t stride = weft_node_attribute(p->node, WEFT_ATTR_stride)->as.ints[d],
            dilation = weft_node_attribute(p->node, WEFT_ATTR_dilation)->as.ints[d];
    int64_t base = weft_node_attribute(p->node, WEFT_ATTR_base_dilation)->as.ints[d];
    weft_dim low = weft_node_attribute(p->node, WEFT_ATTR_low)->as.dims[d];
    weft_kval at =
        weft_k_add(k, weft_k_mul(k, output, weft_k_index(k, stride)), weft_k_mul(k, tap, weft_k_index(k, dilation)));
    at = weft_k_sub(k, at, weft_k_extent(k, low));
    weft_kval zero = weft_k_index(k, 0), exists = weft_k_le(k, zero, at);
    if (base > 1) {
        exists = weft_k_and(k, exists, weft_k_eq(k, weft_k_rem(k, at, weft_k_index(k, base)), zero));
        at = weft_k_div(k, at, weft_k_index(k, base));
    }
    exists = weft_k_and(k, exists, weft_k_lt(k, at, weft_k_extent(k, weft_operand_type(p->node, 0)->dims[d + 2])));
    *inside = *inside == WEFT_KNONE ? exists : weft_k_and(k, *inside, exists);
    return weft_k_select(k, exists, at, zero);
}

static weft_kval load_input(weft_simt *s, const problem *p, weft_kval position, weft_kval k, weft_kval *out_inside) {
    weft_lane_index parts[WEFT_MAX_RANK], outputs[WEFT_MAX_RANK], index[WEFT_MAX_RANK];
    split_k(s, p, k, parts);
    weft_index_unflatten(s->index, p->rank, p->node->results[0].type.dims + 2, weft_lane_scalar(position), 1, outputs);
    index[0] = weft_lane_scalar(image_of(s, p));
    index[1] = weft_lane_scalar(
        weft_k_add(s->k, weft_k_mul(s->k, group_of(s, p), weft_k_extent(s->k, p->inputs)), parts[0].base));
    *out_inside = WEFT_KNONE;
    for (int d = 0; d < p->rank; d++)
        index[d + 2] = weft_lane_scalar(input_position(s, p, d, outputs[d].base, parts[d + 1].base, out_inside));
    return weft_index_value(s->index, p->node->operands[0], index, 1, *out_inside); /* masked: the input may be empty */
}

static weft_kval load(weft_simt *s, int side, weft_kval row, weft_kval k, weft_kval *out_inside) {
    const problem *p = s->self;
    *out_inside = WEFT_KNONE;
    return side ? load_input(s, p, row, k, out_inside) : load_weight(s, p, row, k);
}

static void store(weft_simt *s, weft_kval row, weft_lane_index column, weft_kval mask, weft_kval sums) {
    const problem *p = s->self;
    weft_kernel *k = s->k;
    const weft_value *y = &p->node->results[0];
    weft_index_bind(s->index, y, weft_product_finish(s->index, p->node, sums));
    weft_kval line = weft_k_add(k, weft_k_mul(k, s->batch_index, weft_k_extent(k, p->outputs)),
                                row); /* image, group, channel are neighbours */
    int64_t divisor = weft_dim_divisor(k->dims, p->positions) % 4 == 0 ? 4 : 1;
    weft_lane_index flat = {weft_k_add(k, weft_k_mul(k, line, weft_k_extent(k, p->positions)), column.base), 1,
                            divisor};
    for (int result = 0; result < s->request->fusion->result_count; result++)
        weft_index_emit_flat(s->index, result, flat, 4, mask);
}

void weft_simt_convolution_problem(weft_simt *s, const weft_build_request *request, weft_kernel *k,
                                   weft_index_context *index, const weft_simt_convolution *p) {
    *s = (weft_simt){.request = request,
                     .k = k,
                     .index = index,
                     .m = p->outputs,
                     .n = p->positions,
                     .depth = weft_dim_multiply(k->dims, p->inputs, p->taps),
                     .batch = weft_simt_convolution_batches(request->graph, p),
                     .sum = p->sum,
                     .along_k = {true, false},
                     .load = load,
                     .store = store,
                     .self = p};
}

static weft_status build_kernel(const weft_build_request *request, const char *suffix, weft_kernel **out_kernel) {
    problem p;
    weft_index_context index;
    const char *reason;
    if (!weft_simt_convolution_find(request->graph, request->fusion, &p, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "convolution-simt: %s", reason);
    weft_kernel *k = *out_kernel = weft_plan_kernel(request, suffix);
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, k, &index), "building %s", request->name);
    weft_simt s;
    weft_simt_convolution_problem(&s, request, k, &index, &p);
    return weft_simt_emit(&s);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    problem p;
    const char *reason;
    if (!weft_simt_convolution_find(request->graph, request->fusion, &p, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "convolution-simt: %s", reason);
    weft_simt_extents extents = {p.outputs, p.positions, weft_simt_convolution_batches(request->graph, &p), p.sum};
    return weft_simt_plan(request, &extents, build_kernel, out_plan);
}

extern const weft_builder weft_builder_convolution_simt;
const weft_builder weft_builder_convolution_simt = {
    .name = "convolution", .accepts = weft_simt_convolution_accepts, .propose = propose, .build = build};
