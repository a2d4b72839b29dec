/* Copies of a convolution's operands: x padded with zeros and split by the last stride's phases, w dense. Vectors whose
   lanes all lie inside the input are copied without masks. Read next: convolution.h. */
#include "codegen/builders/convolution_cpu.h"

/* The source position of padded position `at` on axis d, for all lanes, and whether there is one. */
static weft_kval source(weft_convolution_build *b, int d, weft_lane_index at, int lanes, weft_lane_index *out_index) {
    weft_index_context *c = &b->c;
    weft_kernel *k = b->k;
    const weft_convolution_axis *a = &b->p->axis[d];
    weft_kval zero = weft_k_splat(k, weft_cv_number(b, 0), lanes);
    weft_lane_index position =
        weft_lane_add(c, at, weft_lane_scalar(weft_k_sub(k, weft_cv_number(b, 0), weft_cv_extent(b, a->low))), lanes);
    weft_kval inside = weft_k_le(k, zero, weft_lane_vector(c, position, lanes));
    if (a->base_dilation > 1) {
        weft_kval vector = weft_lane_vector(c, position, lanes),
                  hole = weft_k_splat(k, weft_cv_number(b, a->base_dilation), lanes);
        inside = weft_k_and(k, inside, weft_k_eq(k, weft_k_rem(k, vector, hole), zero));
        position = (weft_lane_index){weft_k_div(k, vector, hole), 0, 1};
    }
    *out_index = position;
    return weft_k_and(
        k, inside,
        weft_k_lt(k, weft_lane_vector(c, position, lanes), weft_k_splat(k, weft_cv_extent(b, a->input), lanes)));
}

/* Packed position -> padded position. */
static int64_t packed_scale(const weft_convolution_axis *a) { return a->subsampled ? a->stride : a->phases; }

/* One packed row of one phase: [q0, q1) in vectors; `inside`: no lane needs a mask. */
static void pack_run(weft_convolution_build *b, weft_kval buffer, weft_kval to, weft_kval phase, weft_kval q0,
                     weft_kval q1, bool inside, const weft_lane_index *leading) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    const weft_convolution_axis *a = &p->axis[p->rank - 1];
    int lanes = b->lanes;
    weft_kval q = weft_k_for(k, q0, q1, weft_cv_number(b, lanes), 0);
    size_t mark = weft_index_mark(&b->c);
    weft_point point = {.rank = p->rank + 2,
                        .lanes = lanes,
                        .dims = p->x->type.dims,
                        .has_axes = true,
                        .edge = WEFT_KNONE,
                        .scalar = WEFT_KNONE,
                        .vector = WEFT_KNONE};
    point.merge = 0;
    for (int i = 0; i < p->rank + 1; i++) point.axis[i] = leading[i];
    weft_lane_index at = weft_lane_multiply(&b->c, weft_lane_range(q, lanes), packed_scale(a), lanes);
    if (phase != WEFT_KNONE) at = weft_lane_add(&b->c, at, weft_lane_scalar(phase), lanes);
    weft_kval mask = WEFT_KNONE;
    if (inside) {
        point.axis[p->rank + 1] = weft_lane_add(
            &b->c, at, weft_lane_scalar(weft_k_sub(k, weft_cv_number(b, 0), weft_cv_extent(b, a->low))), lanes);
    } else {
        mask = source(b, p->rank - 1, at, lanes, &point.axis[p->rank + 1]);
        weft_point_restrict(&b->c, &point, mask);
    }
    weft_kval value = weft_parts_splat(&b->c, weft_index_evaluate(&b->c, p->x, point), lanes).part[0];
    value = weft_k_convert(k, value, p->accumulate);
    if (mask != WEFT_KNONE) value = weft_k_select(k, mask, value, weft_k_constant_lanes(k, p->accumulate, 0, lanes));
    weft_kval store =
        inside ? WEFT_KNONE : weft_index_below(&b->c, weft_lane_range(q, lanes), lanes, weft_cv_extent(b, a->extent));
    weft_k_store(k, buffer, weft_k_add(k, to, q), store, value);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
}

static void pack_row(weft_convolution_build *b, weft_kval buffer, weft_kval to, const weft_lane_index *leading) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    const weft_convolution_axis *a = &p->axis[p->rank - 1];
    int64_t scale = packed_scale(a);
    enum { UNROLLED = 8 };
    if (a->phases > UNROLLED) { /* as many loops as phases would be much code */
        weft_kval phase = weft_k_for(k, weft_cv_number(b, 0), weft_cv_number(b, a->phases), weft_cv_number(b, 1), 0);
        pack_run(b, buffer, weft_k_add(k, to, weft_cv_times(b, phase, a->extent)), phase, weft_cv_number(b, 0),
                 weft_cv_extent(b, a->extent), false, leading);
        weft_k_end(k);
        return;
    }
    for (int64_t phase = 0; phase < a->phases; phase++) {
        weft_kval shift = phase ? weft_cv_number(b, phase) : WEFT_KNONE;
        weft_kval at = weft_k_add(k, to, weft_cv_times(b, weft_cv_number(b, phase), a->extent)),
                  lanes = weft_cv_number(b, b->lanes), zero = weft_cv_number(b, 0);
        if (a->base_dilation > 1) { /* holes: every vector has masks */
            pack_run(b, buffer, at, shift, zero, weft_cv_extent(b, a->extent), false, leading);
            continue;
        }
        /* The first vector whose lanes are all >= 0, and the last whose lanes are all below the input's end. */
        weft_dim before =
            weft_dim_maximum(b->request->graph->dims, weft_dim_subtract(b->request->graph->dims, a->low, phase), 0);
        weft_dim first = weft_dim_multiply(
            b->request->graph->dims, weft_dim_divide_ceil(b->request->graph->dims, before, scale * b->lanes), b->lanes);
        weft_dim past = weft_dim_add(
            b->request->graph->dims,
            weft_dim_subtract(b->request->graph->dims, weft_dim_add(b->request->graph->dims, a->input, a->low), phase),
            scale - 1);
        weft_dim fits = weft_dim_minimum(
            b->request->graph->dims,
            weft_dim_divide_floor(b->request->graph->dims, weft_dim_maximum(b->request->graph->dims, past, 0), scale),
            a->extent);
        weft_kval lo = weft_k_min(k, weft_cv_extent(b, first), weft_cv_extent(b, a->extent));
        weft_kval whole = weft_k_max(k, lo, weft_k_mul(k, weft_k_div(k, weft_cv_extent(b, fits), lanes), lanes));
        pack_run(b, buffer, at, shift, zero, lo, false, leading);
        pack_run(b, buffer, at, shift, lo, whole, true, leading);
        pack_run(b, buffer, at, shift, whole, weft_cv_extent(b, a->extent), false, leading);
    }
}

/* Row numbers count the leading packed axes row-major. */
void weft_convolution_pack_rows(weft_convolution_build *b, weft_kval buffer, weft_kval to, weft_kval image,
                                weft_kval channel, weft_kval lo, weft_kval hi) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    weft_dim leading_dims[WEFT_MAX_RANK];
    for (int d = 0; d < p->rank - 1; d++) leading_dims[d] = p->axis[d].extent;
    const weft_convolution_axis *last = &p->axis[p->rank - 1];
    weft_dim row_elements = weft_dim_multiply(b->request->graph->dims, last->extent, last->phases);
    weft_kval row = weft_k_for(k, lo, hi, weft_cv_number(b, 1), 0);
    size_t mark = weft_index_mark(&b->c);
    weft_lane_index packed[WEFT_MAX_RANK],
        leading[WEFT_MAX_RANK] = {weft_lane_scalar(image), weft_lane_scalar(channel)};
    weft_index_unflatten(&b->c, p->rank - 1, leading_dims, weft_lane_scalar(row), 1, packed);
    weft_kval inside = weft_k_integer(k, WEFT_BOOL, 1);
    for (int d = 0; d < p->rank - 1; d++) {
        weft_lane_index position = weft_lane_multiply(&b->c, packed[d], packed_scale(&p->axis[d]), 1);
        inside = weft_k_and(k, inside, source(b, d, position, 1, &leading[d + 2]));
    }
    weft_kval row_to = weft_k_add(k, to, weft_k_mul(k, row, weft_cv_extent(b, row_elements)));
    weft_k_if(k, inside);
    size_t inner = weft_index_mark(&b->c);
    pack_row(b, buffer, row_to, leading);
    weft_index_release(&b->c, inner);
    weft_k_else(k);
    weft_kval q = weft_k_for(k, weft_cv_number(b, 0), weft_cv_extent(b, row_elements), weft_cv_number(b, b->lanes), 0);
    weft_kval mask = weft_index_below(&b->c, weft_lane_range(q, b->lanes), b->lanes, weft_cv_extent(b, row_elements));
    weft_k_store(k, buffer, weft_k_add(k, row_to, q), mask, weft_k_constant_lanes(k, p->accumulate, 0, b->lanes));
    weft_k_end(k);
    weft_k_end(k);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
}

/* A block is one channel of one image, or one row of it when there are few channels. */
weft_status weft_convolution_pack_x(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    WEFT_TRY(weft_convolution_begin(b, "_pack_x"), "convolution");
    weft_kernel *k = b->k;
    weft_dim_table *table = b->request->graph->dims;
    weft_kval buffer = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->x_temp, p->accumulate, true, "x");
    int64_t channels = p->groups * p->group_inputs;
    weft_dim rows = 1;
    for (int d = 0; d < p->rank - 1; d++) rows = weft_dim_multiply(table, rows, p->axis[d].extent);
    bool by_rows = channels < 16;
    k->grid = weft_dim_multiply(table, p->batch, channels);
    if (by_rows) k->grid = weft_dim_multiply(table, k->grid, rows);
    weft_kval id = weft_k_block(k), lo = by_rows ? weft_convolution_take(b, &id, rows) : weft_cv_number(b, 0);
    weft_kval plane = weft_k_mul(k, id, weft_cv_extent(b, p->plane)), channel = weft_convolution_take(b, &id, channels);
    weft_kval image = p->batch == 1 ? weft_cv_number(b, 0) : id;
    weft_convolution_pack_rows(b, buffer, plane, image, channel, lo,
                               by_rows ? weft_cv_plus(b, lo, 1) : weft_cv_extent(b, rows));
    return weft_convolution_end(b);
}

/* w as a dense array of sums' type; a block is one output channel. */
weft_status weft_convolution_pack_w(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    WEFT_TRY(weft_convolution_begin(b, "_pack_w"), "convolution");
    weft_kernel *k = b->k;
    int64_t row = p->group_inputs * p->taps;
    weft_kval buffer = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->w_temp, p->accumulate, true, "w");
    k->grid = p->groups * p->group_outputs;
    weft_kval lo = weft_k_mul(k, weft_k_block(k), weft_cv_number(b, row));
    weft_kval i = weft_k_for(k, lo, weft_cv_plus(b, lo, row), weft_cv_number(b, 1), 0);
    size_t mark = weft_index_mark(&b->c);
    weft_kval value =
        weft_k_convert(k, weft_index_value_flat(&b->c, p->w, weft_lane_scalar(i), 1, WEFT_KNONE), p->accumulate);
    weft_k_store(k, buffer, i, WEFT_KNONE, value);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
    return weft_convolution_end(b);
}
