/* Depthwise convolutions on CPUs: one input channel a group.

   A block is one channel of one image: its padded plane is made in scratch, then tiles of a few lines times a few
   vectors are computed from there, every vector of x loaded once for all the lines that it is a tap of. All taps are
   written out. Read next: convolution_pack.c. */
#include "codegen/builders/convolution_cpu.h"

enum { TAPS_MAX = 25 };

bool weft_convolution_is_depthwise(const weft_convolution *p) {
    return p->group_inputs == 1 && p->taps > 1 && p->taps <= TAPS_MAX && p->rank <= 2 && !p->direct;
}

typedef struct tile {
    int lines, nv;
    bool ends;                   /* the last vector may end early */
    weft_kval line, column, row; /* row: output channel of the group */
} tile;

/* y of the tile's lines from one packed row of x, `down` rows below the first. */
static void packed_row(weft_convolution_build *b, const tile *t, weft_kval regs, weft_kval w_at, weft_kval x_at,
                       int64_t down) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    const weft_convolution_axis *last = &p->axis[p->rank - 1], *first = &p->axis[0];
    int64_t rows = p->rank == 1 ? 1 : first->kernel,
            spread = p->rank == 1        ? 1
                     : first->subsampled ? 1
                                         : first->dilation,
            step = p->rank == 1 ? 1 : first->step;
    for (int64_t i = 0; i < last->kernel; i++) {
        weft_kval vectors[8];
        int64_t position = i * last->dilation;
        weft_kval shift = weft_cv_times(b, weft_cv_number(b, position % last->phases), last->extent);
        weft_kval at = weft_cv_plus(b, weft_k_add(k, x_at, shift), position / last->phases);
        bool used = false;
        for (int line = 0; line < t->lines; line++) {
            int64_t above = down - line * step;
            if (above < 0 || above % spread || above / spread >= rows) continue;
            for (int v = 0; v < t->nv && !used; v++)
                vectors[v] =
                    weft_k_load(k, b->x, weft_cv_plus(b, at, (int64_t)v * b->lanes), b->lanes, WEFT_KNONE, WEFT_KNONE);
            used = true;
            weft_kval w = weft_k_load(k, b->w, weft_cv_plus(b, w_at, above / spread * last->kernel + i), 1, WEFT_KNONE,
                                      WEFT_KNONE);
            w = weft_k_splat(k, w, b->lanes);
            for (int v = 0; v < t->nv; v++) {
                weft_kval slot = weft_cv_number(b, line * t->nv + v);
                weft_k_set_at(k, regs, slot,
                              weft_convolution_multiply_add(b, w, vectors[v], weft_k_get_at(k, regs, slot)));
            }
        }
    }
}

static void emit_tile(weft_convolution_build *b, const tile *t) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    const weft_convolution_axis *first = &p->axis[0];
    size_t mark = weft_index_mark(&b->c);
    weft_kval regs = weft_k_regs(k, p->accumulate, b->lanes, t->lines * t->nv),
              zero = weft_k_constant_lanes(k, p->accumulate, 0, b->lanes);
    for (int i = 0; i < t->lines * t->nv; i++) weft_k_set_at(k, regs, weft_cv_number(b, i), zero);
    weft_kval w_at = weft_k_add(k, b->w_base, weft_cv_times(b, t->row, p->taps)), x_at = t->column;
    int64_t rows = 1;
    if (p->rank == 2) {
        x_at = weft_k_add(
            k, x_at, weft_cv_times(b, t->line, weft_dim_multiply(b->request->graph->dims, first->pitch, first->step)));
        rows = (t->lines - 1) * first->step + (first->subsampled ? 0 : (first->kernel - 1) * first->dilation) + 1;
    }
    for (int64_t down = 0; down < rows; down++) {
        packed_row(b, t, regs, w_at, x_at, down);
        if (p->rank == 2) x_at = weft_k_add(k, x_at, weft_cv_extent(b, first->pitch));
    }
    for (int v = 0; v < t->nv; v++) {
        size_t inner = weft_index_mark(&b->c);
        weft_lane_index at = weft_lane_range(weft_cv_plus(b, t->column, (int64_t)v * b->lanes), b->lanes);
        weft_kval mask =
            t->ends && v == t->nv - 1 ? weft_index_below(&b->c, at, b->lanes, weft_cv_extent(b, p->line)) : WEFT_KNONE;
        b->index[p->rank + 1] = at;
        b->index[1] = weft_lane_scalar(weft_k_add(k, weft_cv_times(b, b->group, p->group_outputs), t->row));
        for (int line = 0; line < t->lines; line++) {
            if (p->rank == 2) b->index[2] = weft_lane_scalar(weft_cv_plus(b, t->line, line));
            weft_convolution_emit(b, weft_k_get_at(k, regs, weft_cv_number(b, line * t->nv + v)), mask);
        }
        weft_index_release(&b->c, inner);
    }
    weft_index_release(&b->c, mark);
}

/* Tiles of one band of lines: whole ones, then the rest of the columns by its number of vectors. */
static void columns(weft_convolution_build *b, int lines, weft_kval line, weft_kval row) {
    weft_kernel *k = b->k;
    int64_t width = (int64_t)b->nv * b->lanes;
    bool known = weft_dim_is_number(b->p->line);
    weft_kval wide = known ? weft_cv_number(b, b->p->line / width)
                           : weft_k_div(k, weft_cv_extent(b, b->p->line), weft_cv_number(b, width));
    tile t = {.lines = lines, .nv = b->nv, .line = line, .row = row};
    if (!known || b->p->line >= width) {
        weft_kval q = weft_k_for(k, weft_cv_number(b, 0), wide, weft_cv_number(b, 1), 0);
        t.column = weft_k_mul(k, q, weft_cv_number(b, width));
        emit_tile(b, &t);
        weft_k_end(k);
    }
    weft_kval start = weft_k_mul(k, wide, weft_cv_number(b, width)),
              rest = weft_k_sub(k, weft_cv_extent(b, b->p->line), start);
    t.column = start;
    for (t.nv = 1; t.nv <= b->nv; t.nv++) {
        int64_t least = (int64_t)(t.nv - 1) * b->lanes, most = (int64_t)t.nv * b->lanes;
        if (known) {
            int64_t left = b->p->line % width;
            t.ends = left % b->lanes != 0;
            if (left > least && left <= most) emit_tile(b, &t);
            continue;
        }
        t.ends = true;
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, weft_cv_number(b, least), rest),
                                weft_k_le(k, rest, weft_cv_number(b, most))));
        emit_tile(b, &t);
        weft_k_end(k);
    }
}

/* All lines of one output channel: bands of WEFT_DEPTHWISE_LINES, then what is left. */
static void bands(weft_convolution_build *b, weft_kval row) {
    weft_kernel *k = b->k;
    const weft_convolution *p = b->p;
    bool known = weft_dim_is_number(p->lines);
    int band =
        p->rank == 1 || (known && p->lines < WEFT_DEPTHWISE_LINES) ? (known ? (int)p->lines : 1) : WEFT_DEPTHWISE_LINES;
    weft_kval lines = weft_cv_extent(b, p->lines), size = weft_cv_number(b, band);
    weft_kval whole = weft_k_mul(k, weft_k_div(k, lines, size), size);
    weft_kval line = weft_k_for(k, weft_cv_number(b, 0), whole, size, 0);
    size_t mark = weft_index_mark(&b->c);
    columns(b, band, line, row);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
    if (known) {
        if (p->lines % band) columns(b, (int)(p->lines % band), whole, row);
        weft_index_release(&b->c, mark);
        return;
    }
    line = weft_k_for(k, whole, lines, weft_cv_number(b, 1), 0);
    columns(b, 1, line, row);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
}

weft_status weft_convolution_depthwise(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    WEFT_TRY(weft_convolution_begin(b, ""), "convolution");
    weft_kernel *k = b->k;
    weft_cv_extent(b, p->plane); /* the size of the scratch is an argument */
    b->x = weft_k_shared(k, p->accumulate, p->plane);
    b->w = b->w_temp < 0 ? b->c.operands[p->w_access.operand]
                         : weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->w_temp, p->accumulate, false, "w");
    k->grid = weft_dim_multiply(b->request->graph->dims, p->batch, p->groups);
    weft_kval id = weft_k_block(k);
    b->group = weft_convolution_take(b, &id, p->groups);
    b->image = p->batch == 1 ? weft_cv_number(b, 0) : id;
    b->index[0] = weft_lane_scalar(b->image);
    weft_kval w_start = b->w_temp < 0 ? weft_cv_extent(b, p->w_access.offset) : weft_cv_number(b, 0);
    b->w_base = weft_k_add(k, w_start, weft_cv_times(b, b->group, p->group_outputs * p->taps));
    weft_dim rows = p->rank == 1 ? 1 : p->axis[0].extent;
    size_t mark = weft_index_mark(&b->c);
    weft_convolution_pack_rows(b, b->x, weft_cv_number(b, 0), b->image, b->group, weft_cv_number(b, 0),
                               weft_cv_extent(b, rows));
    weft_index_release(&b->c, mark);
    weft_kval row = weft_k_for(k, weft_cv_number(b, 0), weft_cv_number(b, p->group_outputs), weft_cv_number(b, 1), 0);
    bands(b, row);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
    return weft_convolution_end(b);
}
