/* Staged results and kernels over positions. */
#include "codegen/builders/stage.h"

weft_point weft_position_point(const weft_value *value, weft_lane_index position, int lanes, weft_kval mask) {
    return (weft_point){.rank = value->type.rank,
                        .dims = value->type.dims,
                        .lanes = lanes,
                        .has_flat = true,
                        .flat = position,
                        .edge = mask,
                        .scalar = WEFT_KNONE,
                        .vector = WEFT_KNONE};
}

weft_point weft_axes_point(const weft_value *value, const weft_lane_index *index, int lanes, weft_kval mask) {
    weft_point point = {.rank = value->type.rank,
                        .dims = value->type.dims,
                        .lanes = lanes,
                        .has_axes = true,
                        .edge = mask,
                        .scalar = WEFT_KNONE,
                        .vector = WEFT_KNONE};
    for (int i = 0; i < point.rank; i++) point.axis[i] = index[i];
    return point;
}

weft_stage weft_stage_make(const weft_build_request *request, weft_kernel_plan *plan, int result, bool accumulates) {
    const weft_type *type = &request->fusion->results[result].type;
    int bits = weft_dtype_bits(type->dtype);
    weft_stage stage = {.result = result, .dtype = type->dtype};
    stage.staged = bits < 8 || (accumulates && weft_dtype_is_float(type->dtype) && bits < 32);
    if (!stage.staged) return stage;
    stage.temp = plan->temp_count++;
    stage.dtype = weft_index_carrier(type->dtype);
    weft_dim count = weft_type_count(request->graph, type);
    plan->temps[stage.temp].bytes = weft_dim_multiply(request->graph->dims, count, weft_dtype_bits(stage.dtype) / 8);
    return stage;
}

weft_kval weft_stage_buffer(weft_index_context *c, const weft_stage *stage) {
    if (!stage->staged) return c->results[stage->result];
    const char *name = weft_arena_format(c->arena, "t%d", stage->temp);
    return weft_kernel_buffer(c->kernel, WEFT_ARGUMENT_TEMP, stage->temp, stage->dtype, true, name);
}

typedef struct packing {
    const weft_stage *stage;
    weft_kval buffer;
} packing;

static void pack(weft_index_context *c, void *self, weft_lane_index position, int lanes, weft_kval mask) {
    packing *p = self;
    const weft_stage *stage = p->stage;
    if (lanes == 0) {
        p->buffer = weft_stage_buffer(c, stage);
        return;
    }
    weft_kval value = weft_index_load(c, p->buffer, stage->dtype, position, lanes, mask);
    weft_kval rounded = weft_index_round(c, c->fusion->results[stage->result].type.dtype, value);
    weft_index_store_flat(c, stage->result, position, lanes, mask, rounded);
}

weft_status weft_stage_finish(const weft_build_request *request, weft_kernel_plan *plan, const weft_stage *stage) {
    if (!stage->staged) return NULL;
    packing p = {stage, WEFT_KNONE};
    const weft_type *type = &request->fusion->results[stage->result].type;
    int lanes = weft_fusion_lanes(request);
    const char *suffix = weft_arena_format(request->arena, "_pack%d", stage->result);
    if (!suffix) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: name", request->name);
    return weft_flat_launch(request, plan, suffix, weft_type_count(request->graph, type), lanes, pack, &p);
}

weft_status weft_flat_launch(const weft_build_request *request, weft_kernel_plan *plan, const char *suffix,
                             weft_dim count, int lanes, weft_flat_body body, void *self) {
    weft_kernel *k = weft_plan_kernel(request, suffix);
    weft_index_context *c = weft_arena_allocate(request->arena, sizeof *c);
    if (!k || !c) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    WEFT_TRY(weft_index_init(request, k, c), "%s", suffix);
    weft_dim_table *table = request->graph->dims;
    bool cpu = weft_capability_is_cpu(request->capability);
    weft_kval width = weft_k_index(k, lanes), end = weft_k_extent(k, count);
    body(c, self, weft_lane_scalar(WEFT_KNONE), 0, WEFT_KNONE); /* arguments */
    size_t mark = weft_index_mark(c);
    if (cpu) {
        int64_t elements = request->schedule->block_elements > 0 ? request->schedule->block_elements : 4096;
        elements = (elements + lanes - 1) / lanes * lanes;
        k->grid = weft_dim_divide_ceil(table, count, elements);
        weft_kval lo = weft_k_mul(k, weft_k_block(k), weft_k_index(k, elements));
        weft_kval hi = weft_k_min(k, weft_k_add(k, lo, weft_k_index(k, elements)), end);
        weft_kval whole = weft_k_add(k, lo, weft_k_mul(k, weft_k_div(k, weft_k_sub(k, hi, lo), width), width));
        weft_kval at = weft_k_for(k, lo, whole, width, 0);
        body(c, self, weft_lane_range(at, lanes), lanes, WEFT_KNONE);
        weft_index_release(c, mark);
        weft_k_end(k);
        at = weft_k_for(k, whole, hi, width, 0);
        body(c, self, weft_lane_range(at, lanes), lanes, weft_index_below(c, weft_lane_range(at, lanes), lanes, hi));
    } else {
        k->threads = k->capability->threads_max < 256 ? k->capability->threads_max : 256;
        k->grid = weft_dim_divide_ceil(table, count, (int64_t)lanes * k->threads);
        weft_kval id = weft_k_add(k, weft_k_mul(k, weft_k_block(k), weft_k_index(k, k->threads)), weft_k_thread(k));
        weft_kval at = weft_k_mul(k, id, width);
        weft_k_if(k, weft_k_lt(k, at, end));
        body(c, self, weft_lane_range(at, lanes), lanes, weft_index_below(c, weft_lane_range(at, lanes), lanes, end));
    }
    weft_index_release(c, mark);
    weft_k_end(k);
    WEFT_TRY(weft_index_finish(c), "%s", suffix);
    return weft_plan_set(request, plan, plan->launch_count++, k);
}
