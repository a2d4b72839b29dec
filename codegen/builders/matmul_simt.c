/* matmul for any GPU by scalar multiply-adds: every type, shape and alignment, operands through any view or elementwise
   prologue of the group. The builder behind the ones that are named after a matrix unit. Read next: simt.h. */
#include "codegen/builders/plan.h"
#include "codegen/builders/simt_product.h"

/* In registers. */
static weft_dtype sum_of(const weft_product *product) { return weft_product_sum(product->dot); }

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_product product;
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    if (!weft_product_find(graph, fusion, &product, out_reason)) return false;
    weft_dtype_kind kind = weft_dtype_kind_of(product.dtype);
    *out_reason = "operands that are no numbers, or complex ones";
    if (kind != WEFT_KIND_FLOAT && kind != WEFT_KIND_SIGNED && kind != WEFT_KIND_UNSIGNED) return false;
    *out_reason = "a sum in a type that targets do not add in";
    if (sum_of(&product) == WEFT_INVALID) return false;
    *out_reason = "64-bit sums on a target without 64-bit arithmetic";
    if (weft_dtype_bits(sum_of(&product)) == 64 &&
        !(weft_dtype_is_float(sum_of(&product)) ? capability->f64 : capability->i64))
        return false;
    *out_reason = NULL;
    return true;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_product product;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason)) return 0;
    return weft_simt_propose(request, "matmul-simt", product.m, product.n, product.batch, sum_of(&product), capacity,
                             out_schedules);
}

/* The index of an axis group at a row-major position within it. */
static void spread(weft_simt *s, const weft_value *value, const int *axes, int count, weft_kval position,
                   weft_lane_index *index) {
    weft_dim dims[WEFT_MAX_RANK];
    weft_lane_index parts[WEFT_MAX_RANK];
    if (count == 1)
        parts[0] = weft_lane_scalar(position);
    else {
        for (int i = 0; i < count; i++) dims[i] = value->type.dims[axes[i]];
        if (count > 0) weft_index_unflatten(s->index, count, dims, weft_lane_scalar(position), 1, parts);
    }
    for (int i = 0; i < count; i++) index[axes[i]] = parts[i];
}

static weft_kval load(weft_simt *s, int side, weft_kval row, weft_kval k, weft_kval *out_inside) {
    const weft_product *product = s->self;
    const weft_product_side *from = side ? &product->b : &product->a;
    const weft_value *value = product->dot->operands[side];
    weft_lane_index index[WEFT_MAX_RANK];
    *out_inside = WEFT_KNONE;
    spread(s, value, from->batch_axes, product->batch_count, s->batch_index, index);
    spread(s, value, from->free_axes, from->free_count, row, index);
    spread(s, value, from->contract_axes, product->contract_count, k, index);
    return weft_index_value(s->index, value, index, 1, s->readable);
}

/* A side that is dense has its contiguous axis last; wide when that is one axis of whole fours. */
static bool is_wide(const weft_product *product, int side, weft_dim_table *dims) {
    const weft_product_side *from = side ? &product->b : &product->a;
    const weft_value *value = product->dot->operands[side];
    if (!from->dense || (from->k_contiguous ? product->contract_count : from->free_count) != 1) return false;
    int axis = from->k_contiguous ? from->contract_axes[0] : from->free_axes[0];
    return weft_dim_divisor(dims, value->type.dims[axis]) % 4 == 0;
}

static weft_kval load_wide(weft_simt *s, int side, weft_kval row, weft_kval k) {
    const weft_product *product = s->self;
    const weft_product_side *from = side ? &product->b : &product->a;
    const weft_value *value = product->dot->operands[side];
    weft_lane_index index[WEFT_MAX_RANK];
    spread(s, value, from->batch_axes, product->batch_count, s->batch_index, index);
    spread(s, value, from->free_axes, from->free_count, row, index);
    spread(s, value, from->contract_axes, product->contract_count, k, index);
    if (from->k_contiguous)
        index[from->contract_axes[0]] = weft_lane_range(k, 4);
    else
        index[from->free_axes[0]] = weft_lane_range(row, 4);
    return weft_index_value(s->index, value, index, 4, WEFT_KNONE);
}

static void store(weft_simt *s, weft_kval row, weft_lane_index column, weft_kval mask, weft_kval sums) {
    const weft_product *product = s->self;
    weft_kernel *k = s->k;
    const weft_value *dot = &product->dot->results[0];
    weft_index_bind(s->index, dot, weft_product_finish(s->index, product->dot, sums));
    weft_kval line = s->batch == 1 ? row : weft_k_add(k, weft_k_mul(k, s->batch_index, weft_k_extent(k, s->m)), row);
    for (int result = 0; result < s->request->fusion->result_count; result++) {
        const weft_type *type = &weft_fusion_yield(s->request->fusion, result)->type;
        weft_lane_index index[WEFT_MAX_RANK];
        if (type->rank >= 1 && weft_dim_known_equal(k->dims, type->dims[type->rank - 1], s->n)) {
            if (type->rank > 1)
                weft_index_unflatten(s->index, type->rank - 1, type->dims, weft_lane_scalar(line), 1, index);
            index[type->rank - 1] = column;
            weft_index_emit(s->index, result, index, 4, mask);
        } else {
            weft_lane_index flat = {weft_k_add(k, weft_k_mul(k, line, weft_k_extent(k, s->n)), column.base), 1, 1};
            weft_index_emit_flat(s->index, result, flat, 4, mask);
        }
    }
}

void weft_simt_product(weft_simt *s, const weft_build_request *request, weft_kernel *k, weft_index_context *index,
                       const weft_product *product) {
    *s = (weft_simt){.request = request,
                     .k = k,
                     .index = index,
                     .m = product->m,
                     .n = product->n,
                     .depth = product->k,
                     .batch = product->batch,
                     .sum = sum_of(product),
                     .along_k = {product->a.k_contiguous, product->b.k_contiguous},
                     .wide = {is_wide(product, 0, k->dims), is_wide(product, 1, k->dims)},
                     .load = load,
                     .load_wide = load_wide,
                     .store = store,
                     .self = product};
}

static weft_status build_kernel(const weft_build_request *request, const char *suffix, weft_kernel **out_kernel) {
    weft_product product;
    weft_index_context index;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "matmul-simt: %s", reason);
    *out_kernel = weft_plan_kernel(request, suffix);
    if (!*out_kernel) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, *out_kernel, &index), "building %s", request->name);
    weft_simt s;
    weft_simt_product(&s, request, *out_kernel, &index, &product);
    return weft_simt_emit(&s);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    weft_product product;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "matmul-simt: %s", reason);
    weft_simt_extents extents = {product.m, product.n, product.batch, sum_of(&product)};
    return weft_simt_plan(request, &extents, build_kernel, out_plan);
}

extern const weft_builder weft_builder_matmul_simt;
const weft_builder weft_builder_matmul_simt = {
    .name = "matmul", .accepts = accepts, .propose = propose, .build = build};
