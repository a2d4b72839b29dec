/* Builder "convolution" on CPUs: an implicit matmul whose vectors run along the last output axis.

   Launches: pack x (padded with zeros, split into stride phases; not for kernel 1 x stride 1), copy w when it cannot be
   read in place, multiply. y[o, p] += w[o, k] * x[k, p + shift]: rows are output channels (w is broadcast), vectors are
   positions, read without masks. A block is some lines of some images and groups; inside, each tile of positions meets
   all its output channels while its input is in L1. Depthwise convolutions have a kernel of their own. Then the
   fusion's elementwise ops on the registers, then the stores. Read next: convolution.h, convolution_pack.c,
   convolution_depthwise.c. */
#include "codegen/builders/convolution_cpu.h"

typedef struct tile {
    int rows, nv;
    bool ends; /* the last vector may end early */
    weft_kval row, column;
} tile;

/* -- the register tile */

weft_kval weft_convolution_multiply_add(weft_convolution_build *b, weft_kval x, weft_kval y, weft_kval sum) {
    if (weft_dtype_is_float(b->p->accumulate)) return weft_k_fma(b->k, x, y, sum);
    return weft_k_add(b->k, weft_k_mul(b->k, x, y), sum);
}

static weft_kval column_mask(weft_convolution_build *b, const tile *t, int v) {
    if (!t->ends || v < t->nv - 1) return WEFT_KNONE;
    weft_lane_index at = weft_lane_range(weft_cv_plus(b, t->column, (int64_t)v * b->lanes), b->lanes);
    return weft_index_below(&b->c, at, b->lanes, weft_cv_extent(b, b->p->line));
}

/* Weights at w_at + row * K, positions at x_at. */
static void step(weft_convolution_build *b, const tile *t, weft_kval regs, weft_kval w_at, weft_kval x_at) {
    weft_kernel *k = b->k;
    weft_kval vectors[8];
    int64_t row_stride = b->p->group_inputs * b->p->taps;
    for (int v = 0; v < t->nv; v++) {
        weft_kval mask = b->x_temp < 0 ? column_mask(b, t, v) : WEFT_KNONE;
        vectors[v] = weft_k_load(k, b->x, weft_cv_plus(b, x_at, (int64_t)v * b->lanes), b->lanes, mask, WEFT_KNONE);
    }
    for (int r = 0; r < t->rows; r++) {
        weft_kval w = weft_k_splat(
            k, weft_k_load(k, b->w, weft_cv_plus(b, w_at, r * row_stride), 1, WEFT_KNONE, WEFT_KNONE), b->lanes);
        for (int v = 0; v < t->nv; v++) {
            weft_kval slot = weft_cv_number(b, r * t->nv + v);
            weft_k_set_at(k, regs, slot, weft_convolution_multiply_add(b, w, vectors[v], weft_k_get_at(k, regs, slot)));
        }
    }
}

/* Taps of axis d and inwards; w_at and x_at stand at their first. The last axis is written out unless it is long, the
   others are loops unless there is one input channel only: then nothing else fills the pipeline. */
static void tap_loops(weft_convolution_build *b, const tile *t, weft_kval regs, int d, weft_kval w_at, weft_kval x_at) {
    const weft_convolution *p = b->p;
    const weft_convolution_axis *a = &p->axis[d];
    int64_t inner = 1;
    for (int i = d + 1; i < p->rank; i++) inner *= p->axis[i].kernel;
    if (d == p->rank - 1 && a->kernel > WEFT_CONVOLUTION_UNROLLED) {
        weft_kval i = weft_k_for(b->k, weft_cv_number(b, 0), weft_cv_number(b, a->kernel), weft_cv_number(b, 1), 0);
        weft_kval position = weft_cv_times(b, i, a->dilation), phases = weft_cv_number(b, a->phases);
        weft_kval shift = weft_k_add(b->k, weft_cv_times(b, weft_k_rem(b->k, position, phases), a->extent),
                                     weft_k_div(b->k, position, phases));
        step(b, t, regs, weft_k_add(b->k, w_at, i), weft_k_add(b->k, x_at, shift));
        weft_k_end(b->k);
        return;
    }
    if (d == p->rank - 1) {
        for (int64_t i = 0; i < a->kernel; i++) {
            int64_t position = i * a->dilation;
            weft_kval shift =
                p->direct ? weft_cv_number(b, 0) : weft_cv_times(b, weft_cv_number(b, position % a->phases), a->extent);
            step(b, t, regs, weft_cv_plus(b, w_at, i),
                 weft_cv_plus(b, weft_k_add(b->k, x_at, shift), p->direct ? 0 : position / a->phases));
        }
        return;
    }
    weft_dim pitch = p->direct ? 0 : weft_dim_multiply(b->request->graph->dims, a->pitch, a->dilation);
    if (a->kernel == 1 || (p->group_inputs == 1 && p->taps <= 25)) {
        for (int64_t i = 0; i < a->kernel; i++)
            tap_loops(b, t, regs, d + 1, weft_cv_plus(b, w_at, i * inner),
                      weft_k_add(b->k, x_at, weft_cv_times(b, weft_cv_number(b, i), pitch)));
        return;
    }
    weft_kval i = weft_k_for(b->k, weft_cv_number(b, 0), weft_cv_number(b, a->kernel), weft_cv_number(b, 1), 0);
    tap_loops(b, t, regs, d + 1, weft_k_add(b->k, w_at, weft_cv_times(b, i, inner)),
              weft_k_add(b->k, x_at, weft_cv_times(b, i, pitch)));
    weft_k_end(b->k);
}

static weft_dim channel_stride(const weft_convolution_build *b) {
    return b->x_temp < 0 ? b->p->x_channel_stride : b->p->plane;
}

static void sum_channels(weft_convolution_build *b, const tile *t, weft_kval regs) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    weft_kval w_row = weft_k_add(k, b->w_base, weft_cv_times(b, t->row, p->group_inputs * p->taps));
    weft_kval x_at = weft_k_add(k, weft_k_add(k, b->x_base, b->line_start), t->column);
    weft_kval channel = weft_k_for(k, weft_cv_number(b, 0), weft_cv_number(b, p->group_inputs), weft_cv_number(b, 1),
                                   p->taps == 1 ? 4 : 0);
    tap_loops(b, t, regs, 0, weft_k_add(k, w_row, weft_cv_times(b, channel, p->taps)),
              weft_k_add(k, x_at, weft_cv_times(b, channel, channel_stride(b))));
    weft_k_end(k);
}

void weft_convolution_emit(weft_convolution_build *b, weft_kval sum, weft_kval mask) {
    weft_index_context *c = &b->c;
    const weft_value *result = &b->p->node->results[0];
    weft_index_bind(c, result, weft_product_finish(c, b->p->node, sum));
    for (int i = 0; i < b->request->fusion->result_count; i++) weft_index_emit(c, i, b->index, b->lanes, mask);
}

/* Vector v of every row, by a loop: the code of the epilogue stands once. */
static void emit_staged(weft_convolution_build *b, const tile *t, weft_kval regs, int v, weft_kval first,
                        weft_kval mask) {
    weft_kernel *k = b->k;
    for (int r = 0; r < t->rows; r++)
        weft_k_store(k, b->stage, weft_cv_number(b, (int64_t)r * b->lanes), WEFT_KNONE,
                     weft_k_get_at(k, regs, weft_cv_number(b, r * t->nv + v)));
    weft_kval r = weft_k_for(k, weft_cv_number(b, 0), weft_cv_number(b, t->rows), weft_cv_number(b, 1), 0);
    b->index[1] = weft_lane_scalar(weft_k_add(k, first, r));
    weft_kval at = weft_k_mul(k, r, weft_cv_number(b, b->lanes));
    weft_convolution_emit(b, weft_k_load(k, b->stage, at, b->lanes, WEFT_KNONE, WEFT_KNONE), mask);
    weft_k_end(k);
}

static void epilogue(weft_convolution_build *b, const tile *t, weft_kval regs) {
    weft_index_context *c = &b->c;
    const weft_convolution *p = b->p;
    const weft_type *type = &p->node->results[0].type;
    weft_axes positions = {.extent = 1};
    for (int d = p->direct ? 0 : p->rank - 1; d < p->rank; d++) {
        positions.axis[positions.count] = d + 2;
        positions.dims[positions.count++] = type->dims[d + 2];
    }
    for (int v = 0; v < t->nv; v++) {
        size_t mark = weft_index_mark(c);
        weft_kval mask = column_mask(b, t, v);
        weft_axes_index(c, &positions, b->merge,
                        weft_lane_range(weft_cv_plus(b, t->column, (int64_t)v * b->lanes), b->lanes), b->lanes,
                        b->index);
        weft_kval first = weft_k_add(b->k, weft_cv_times(b, b->group, p->group_outputs), t->row);
        if (b->stage != WEFT_KNONE && t->rows > 1) {
            emit_staged(b, t, regs, v, first, mask);
        } else {
            for (int r = 0; r < t->rows; r++) {
                b->index[1] = weft_lane_scalar(weft_cv_plus(b, first, r));
                weft_convolution_emit(b, weft_k_get_at(b->k, regs, weft_cv_number(b, r * t->nv + v)), mask);
            }
        }
        weft_index_release(c, mark);
    }
}

static void emit_tile(weft_convolution_build *b, const tile *t) {
    size_t mark = weft_index_mark(&b->c);
    weft_kval regs = weft_k_regs(b->k, b->p->accumulate, b->lanes, t->rows * t->nv);
    weft_kval zero = weft_k_constant_lanes(b->k, b->p->accumulate, 0, b->lanes);
    for (int i = 0; i < t->rows * t->nv; i++) weft_k_set_at(b->k, regs, weft_cv_number(b, i), zero);
    sum_channels(b, t, regs);
    epilogue(b, t, regs);
    weft_index_release(&b->c, mark);
}

/* -- loops over tiles */

/* All row tiles [t0, t1) of one tile of positions. */
static void row_loops(weft_convolution_build *b, weft_kval column, int nv, bool ends, weft_kval t0, weft_kval t1) {
    weft_kernel *k = b->k;
    for (int more = 1; more >= 0; more--) {
        if (more ? b->extra == 0 : b->extra == b->tiles) continue;
        weft_kval lo = more ? t0 : weft_k_max(k, t0, weft_cv_number(b, b->extra)),
                  hi = more ? weft_k_min(k, t1, weft_cv_number(b, b->extra)) : t1;
        weft_kval i = weft_k_for(k, lo, hi, weft_cv_number(b, 1), 0),
                  row = weft_k_mul(k, i, weft_cv_number(b, b->base + more));
        tile t = {.rows = (int)b->base + more,
                  .nv = nv,
                  .ends = ends,
                  .row = more ? row : weft_cv_plus(b, row, b->extra),
                  .column = column};
        emit_tile(b, &t);
        weft_k_end(k);
    }
}

/* One line: whole panels, then the rest by its number of vectors. */
static void line_loops(weft_convolution_build *b, weft_kval q0, weft_kval q1, weft_kval t0, weft_kval t1) {
    weft_kernel *k = b->k;
    int64_t width = (int64_t)b->nv * b->lanes;
    bool known = weft_dim_is_number(b->p->line);
    weft_kval wide = known ? weft_cv_number(b, b->p->line / width)
                           : weft_k_div(k, weft_cv_extent(b, b->p->line), weft_cv_number(b, width));
    if (!known || b->p->line >= width) {
        weft_kval q = weft_k_for(k, q0, weft_k_min(k, q1, wide), weft_cv_number(b, 1), 0);
        row_loops(b, weft_k_mul(k, q, weft_cv_number(b, width)), b->nv, false, t0, t1);
        weft_k_end(k);
    }
    if (known && b->p->line % width == 0) return;
    weft_kval column = weft_k_mul(k, wide, weft_cv_number(b, width)),
              rest = weft_k_sub(k, weft_cv_extent(b, b->p->line), column);
    bool always = known && b->panel_blocks == 1;
    if (!always) weft_k_if(k, weft_k_and(k, weft_k_lt(k, wide, q1), weft_k_lt(k, weft_cv_number(b, 0), rest)));
    int64_t rest_vectors = known ? (b->p->line % width + b->lanes - 1) / b->lanes : 0;
    for (int nv = 1; nv <= b->nv; nv++) {
        if (known) {
            if (nv == rest_vectors) row_loops(b, column, nv, b->p->line % b->lanes != 0, t0, t1);
            continue;
        }
        weft_kval least = weft_cv_number(b, (int64_t)(nv - 1) * b->lanes),
                  most = weft_cv_number(b, (int64_t)nv * b->lanes);
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, least, rest), weft_k_le(k, rest, most)));
        row_loops(b, column, nv, true, t0, t1);
        weft_k_end(k);
    }
    if (!always) weft_k_end(k);
}

weft_kval weft_convolution_take(weft_convolution_build *b, weft_kval *id, weft_dim count) {
    if (count == 1) return weft_cv_number(b, 0);
    weft_kval n = weft_cv_extent(b, count), part = weft_k_rem(b->k, *id, n);
    *id = weft_k_div(b->k, *id, n);
    return part;
}

weft_status weft_convolution_begin(weft_convolution_build *b, const char *suffix) {
    b->k = weft_plan_kernel(b->request, suffix);
    if (!b->k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", b->request->name);
    WEFT_TRY(weft_index_init(b->request, b->k, &b->c), "convolution");
    b->merge = ~(uint32_t)0;
    for (int i = 0; i < b->request->fusion->result_count; i++)
        b->merge &= weft_index_mergeable(&b->c, weft_fusion_yield(b->request->fusion, i));
    return NULL;
}

weft_status weft_convolution_end(weft_convolution_build *b) {
    WEFT_TRY(weft_kernel_drop_unused_buffers(b->k), "convolution");
    return weft_index_finish(&b->c);
}

/* Where the line's outputs start in the packed input, and its leading output axes. */
static void enter_line(weft_convolution_build *b, weft_kval line) {
    const weft_convolution *p = b->p;
    b->line_start = weft_cv_number(b, 0);
    if (p->direct) return;
    weft_lane_index leading[WEFT_MAX_RANK];
    weft_index_unflatten(&b->c, p->rank - 1, p->node->results[0].type.dims + 2, weft_lane_scalar(line), 1, leading);
    for (int d = 0; d < p->rank - 1; d++) {
        b->index[d + 2] = leading[d];
        b->line_start =
            weft_k_add(b->k, b->line_start,
                       weft_cv_times(b, leading[d].base,
                                     weft_dim_multiply(b->request->graph->dims, p->axis[d].pitch, p->axis[d].step)));
    }
}

static weft_status multiply(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    weft_dim_table *table = b->request->graph->dims;
    WEFT_TRY(weft_convolution_begin(b, ""), "convolution");
    weft_kernel *k = b->k;
    b->x = b->x_temp < 0 ? b->c.operands[p->x_access.operand]
                         : weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->x_temp, p->accumulate, false, "x");
    b->w = b->w_temp < 0 ? b->c.operands[p->w_access.operand]
                         : weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->w_temp, p->accumulate, false, "w");
    b->stage = WEFT_KNONE;
    if (weft_fusion_is_long(b->request->fusion))
        b->stage = weft_k_shared(k, p->accumulate, (int64_t)(b->base + (b->extra > 0)) * b->lanes);
    k->grid = weft_dim_multiply(
        table, weft_dim_multiply(table, p->batch, p->groups),
        weft_dim_multiply(table, weft_dim_multiply(table, b->line_blocks, b->panel_blocks), b->row_blocks));
    weft_kval id = weft_k_block(k), row_block = weft_convolution_take(b, &id, b->row_blocks),
              panel_block = weft_convolution_take(b, &id, b->panel_blocks),
              line_block = weft_convolution_take(b, &id, b->line_blocks);
    b->group = weft_convolution_take(b, &id, p->groups);
    b->image = p->batch == 1 ? weft_cv_number(b, 0) : id;
    b->index[0] = weft_lane_scalar(b->image);
    weft_kval first = weft_cv_times(b, b->group, p->group_inputs);
    if (b->x_temp < 0)
        b->x_base = weft_k_add(
            k, weft_cv_extent(b, p->x_access.offset),
            weft_k_add(k, weft_cv_times(b, b->image, p->x_batch_stride), weft_cv_times(b, first, p->x_channel_stride)));
    else
        b->x_base =
            weft_cv_times(b, weft_k_add(k, weft_cv_times(b, b->image, p->groups * p->group_inputs), first), p->plane);
    weft_kval w_start = b->w_temp < 0 ? weft_cv_extent(b, p->w_access.offset) : weft_cv_number(b, 0);
    b->w_base = weft_k_add(k, w_start, weft_cv_times(b, b->group, p->group_outputs * p->group_inputs * p->taps));
    weft_kval q0 = weft_k_mul(k, panel_block, weft_cv_number(b, b->panels_per_block)),
              q1 = weft_k_min(k, weft_cv_plus(b, q0, b->panels_per_block), weft_cv_extent(b, b->panels));
    weft_kval t0 = weft_k_mul(k, row_block, weft_cv_number(b, b->tiles_per_block)),
              t1 = weft_k_min(k, weft_cv_plus(b, t0, b->tiles_per_block), weft_cv_number(b, b->tiles));
    if (b->panel_blocks == 1) q1 = weft_cv_extent(b, b->panels);
    if (b->row_blocks == 1) t1 = weft_cv_number(b, b->tiles);
    weft_kval l0 = weft_k_mul(k, line_block, weft_cv_extent(b, b->lines_per_block)),
              l1 = weft_k_min(k, weft_k_add(k, l0, weft_cv_extent(b, b->lines_per_block)), weft_cv_extent(b, p->lines));
    if (b->line_blocks == 1) l1 = weft_cv_extent(b, p->lines);
    weft_kval line = weft_k_for(k, l0, l1, weft_cv_number(b, 1), 0);
    size_t mark = weft_index_mark(&b->c);
    enter_line(b, line);
    line_loops(b, q0, q1, t0, t1);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
    return weft_convolution_end(b);
}

/* -- the plan */

static int64_t number_or(weft_dim dim, int64_t fallback) { return weft_dim_is_number(dim) ? dim : fallback; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Blocks of some million operations: several lines, or a part of one, or a part of the channels when positions are few.
 */
static void set_blocks(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    const double BLOCK_WORK = 2 << 20;
    int threads = b->request->thread_count < 1 ? 1 : b->request->thread_count;
    int64_t line = number_or(p->line, p->direct ? 4096 : 80), lines = number_or(p->lines, 40),
            width = (int64_t)b->nv * b->lanes;
    double panel_work = 2.0 * (double)width * (double)p->group_outputs * (double)(p->group_inputs * p->taps);
    double line_work = panel_work * (double)ceil_div(line, width);
    b->panels = weft_dim_divide_ceil(b->request->graph->dims, p->line, width);
    int64_t by_work = (int64_t)(BLOCK_WORK / panel_work) + 1;
    b->panels_per_block = line_work > 2.0 * BLOCK_WORK ? by_work : 1 << 20;
    b->panel_blocks = line_work > 2.0 * BLOCK_WORK
                          ? weft_dim_divide_ceil(b->request->graph->dims, b->panels, b->panels_per_block)
                          : 1;
    b->lines_per_block = line_work * 2 > BLOCK_WORK || p->lines == 1 ? 1 : (int64_t)(BLOCK_WORK / line_work);
    if (weft_dim_is_number(p->lines) && threads > 1 && b->lines_per_block > ceil_div(p->lines, threads))
        b->lines_per_block = ceil_div(p->lines, threads);
    b->line_blocks = weft_dim_divide_ceil(b->request->graph->dims, p->lines, b->lines_per_block);
    double blocks = (double)number_or(p->batch, 1) * (double)p->groups * (double)ceil_div(lines, b->lines_per_block) *
                    (b->panel_blocks == 1 ? 1.0 : (double)ceil_div(ceil_div(line, width), b->panels_per_block));
    double total = line_work * (double)lines * (double)p->groups * (double)number_or(p->batch, 1);
    int64_t row_blocks = 1;
    if (threads > 1 && blocks < 4 * threads && total > BLOCK_WORK / 8) row_blocks = (int64_t)(4 * threads / blocks) + 1;
    if (row_blocks > b->tiles) row_blocks = b->tiles;
    b->tiles_per_block = ceil_div(b->tiles, row_blocks);
    b->row_blocks = ceil_div(b->tiles, b->tiles_per_block);
}

static void set_tiles(weft_convolution_build *b) {
    const weft_schedule *schedule = b->request->schedule;
    b->lanes = schedule->vector;
    b->mr = schedule->tile_m;
    b->nv = schedule->tile_n / schedule->vector;
    b->tiles = ceil_div(b->p->group_outputs, b->mr);
    b->base = b->p->group_outputs / b->tiles;
    b->extra = b->p->group_outputs % b->tiles;
    set_blocks(b);
}

static weft_status build_convolution(const weft_build_request *request, weft_kernel_plan *out_plan) {
    weft_convolution p;
    const char *reason = "";
    if (!weft_convolution_find(request, &p, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "%s: %s", request->name, reason);
    if (weft_fusion_is_empty(request)) return weft_plan_init(request, 0, 0, out_plan);
    weft_convolution_build b = {.request = request, .p = &p, .x_temp = -1, .w_temp = -1};
    int count = 0;
    bool depthwise = weft_convolution_is_depthwise(&p);
    if (!p.w_direct) b.w_temp = count++;
    if (!p.direct && !depthwise) b.x_temp = count++;
    set_tiles(&b);
    if (depthwise) weft_convolution_depthwise_layout(request, &p, b.lanes);
    WEFT_TRY(weft_plan_init(request, count + 1, count, out_plan), "convolution");
    weft_dim_table *table = request->graph->dims;
    int64_t bytes = weft_dtype_bits(p.accumulate) / 8, channels = p.groups * p.group_inputs;
    if (b.w_temp >= 0) {
        bool constant = weft_fusion_value_is_constant(request->fusion, p.w);
        weft_access access;
        int operand = constant && weft_access_find(request, p.w, &access) ? access.operand : -1;
        out_plan->temps[b.w_temp] =
            (weft_plan_temp){.bytes = p.groups * p.group_outputs * p.group_inputs * p.taps * bytes,
                             .persistent = operand >= 0,
                             .operand = operand};
        WEFT_TRY(weft_convolution_pack_w(&b), "packing the kernel");
        WEFT_TRY(weft_plan_set(request, out_plan, 0, b.k), "packing the kernel");
        out_plan->launches[0].packs = operand >= 0;
    }
    if (b.x_temp >= 0) {
        out_plan->temps[b.x_temp] = (weft_plan_temp){
            .bytes = weft_dim_multiply(table, weft_dim_multiply(table, p.batch, channels * bytes), p.plane),
            .operand = -1};
        WEFT_TRY(weft_convolution_pack_x(&b), "packing the input");
        WEFT_TRY(weft_plan_set(request, out_plan, count - 1, b.k), "packing the input");
    }
    if (depthwise)
        WEFT_TRY(weft_convolution_depthwise(&b), "multiplying");
    else
        WEFT_TRY(multiply(&b), "multiplying");
    return weft_plan_set(request, out_plan, count, b.k);
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_convolution p;
    const char *reason;
    if (capacity < 1 || !weft_convolution_find(request, &p, &reason)) return 0;
    int bytes = weft_dtype_bits(p.accumulate) / 8, lanes = request->capability->vector_bytes / bytes, rows, vectors;
    int64_t k = p.group_inputs * p.taps;
    weft_tile_choose(request->capability, bytes, p.group_outputs, number_or(p.line, 960), k, k * bytes, 1, &rows,
                     &vectors);
    if (weft_convolution_is_depthwise(&p))
        rows = WEFT_DEPTHWISE_LINES, vectors = number_or(p.line, 960) > lanes ? 2 : 1;
    out_schedules[0] =
        (weft_schedule){.builder = "convolution-cpu", .vector = lanes, .tile_m = rows, .tile_n = vectors * lanes};
    return 1;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    if (!weft_capability_is_cpu(capability)) return *out_reason = NULL, false;
    const weft_node *node = weft_fusion_find(fusion, WEFT_OP_convolution);
    if (!node) return *out_reason = "no convolution in the fusion", false;
    if (node->operands[1]->type.rank < 3) return *out_reason = "no spatial axis", false;
    for (int i = 0; i < node->operands[1]->type.rank; i++) {
        if (!weft_dim_is_number(node->operands[1]->type.dims[i])) return *out_reason = "a symbolic kernel", false;
    }
    weft_dtype_kind kind = weft_dtype_kind_of(node->operands[0]->type.dtype);
    if (kind != WEFT_KIND_FLOAT && kind != WEFT_KIND_SIGNED && kind != WEFT_KIND_UNSIGNED)
        return *out_reason = "operands are neither floats nor integers", false;
    return weft_fusion_is_epilogue(graph, fusion, node, out_reason);
}

const weft_builder weft_builder_convolution_cpu = {"convolution", accepts, propose, build_convolution};
