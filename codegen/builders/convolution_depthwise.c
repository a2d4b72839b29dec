/* Depthwise convolutions on CPUs: one input channel a group.

   A block is some channels of one image. A channel's padded plane is made in scratch, then tiles of a few lines times a
   few vectors are computed from there, every vector of x loaded once for all the lines that it is a tap of. All taps
   are written out; their weights stay in registers where there are enough of them.

   The plane: borders are the same for all channels of a block, so they are zeroed once and rows are copied between
   them, whole vectors, zeros past the row's end. Of a plane that would crowd L1 there is one chunk of lines at a time.
   Invariant: what a copied row writes lies in its own row of the plane (weft_convolution_depthwise_layout). Planes with
   holes or with rows that are left out are packed as other convolutions' are. Read next: convolution_pack.c. */
#include "codegen/builders/convolution_cpu.h"

enum { TAPS_MAX = 49, PHASES_MAX = 4, BLOCK_ELEMENTS = 8192, CHANNELS_MAX = 16 };
enum { CHUNK_BYTES = 20 << 10, CHUNK_LINES = 16 /* of symbolic planes */ };

bool weft_convolution_is_depthwise(const weft_convolution *p) {
    return p->group_inputs == 1 && p->taps > 1 && p->taps <= TAPS_MAX && p->rank <= 2 && !p->direct;
}

/* Padding that is a number, no holes: rows of x stand in the plane as they are. */
static bool copies_rows(const weft_convolution *p) {
    for (int d = 0; d < p->rank; d++) {
        const weft_convolution_axis *a = &p->axis[d];
        bool last = d == p->rank - 1;
        if (a->base_dilation != 1 || !weft_dim_is_number(a->low) || a->low < 0 || (a->subsampled && a->stride > 1) ||
            (last && a->phases > PHASES_MAX))
            return false;
    }
    return true;
}

/* The first source position of a phase, and where it stands in the phase. */
static int64_t phase_start(const weft_convolution_axis *a, int64_t phase, int64_t *out_to) {
    int64_t from = ((phase - a->low) % a->phases + a->phases) % a->phases;
    *out_to = (a->low + from) / a->phases;
    return from;
}

/* Positions of a phase that a row has. */
static weft_dim phase_count(weft_dim_table *table, const weft_convolution_axis *a, int64_t from) {
    weft_dim left = weft_dim_maximum(table, weft_dim_subtract(table, a->input, from), 0);
    return weft_dim_divide_ceil(table, left, a->phases);
}

/* Rows of the plane that some lines of outputs need. */
static int64_t chunk_rows(const weft_convolution_axis *first, int64_t lines) {
    return (lines - 1) * first->step + (first->subsampled ? 0 : (first->kernel - 1) * first->dilation) + 1;
}

/* Lines whose rows stay in L1: a number; all of them where that fits. */
static int64_t chunk_lines(const weft_convolution *p) {
    int64_t lines = CHUNK_LINES, bytes = weft_dtype_bits(p->accumulate) / 8;
    if (!weft_dim_is_number(p->lines) || !weft_dim_is_number(p->axis[0].pitch)) return lines;
    int64_t rows = CHUNK_BYTES / (p->axis[0].pitch * bytes), reach = chunk_rows(&p->axis[0], 1);
    lines = rows > reach ? (rows - reach) / p->axis[0].step + 1 : 1;
    lines = lines / WEFT_DEPTHWISE_LINES * WEFT_DEPTHWISE_LINES;
    if (lines < WEFT_DEPTHWISE_LINES) lines = WEFT_DEPTHWISE_LINES;
    return lines < p->lines ? lines : p->lines;
}

static bool is_chunked(const weft_convolution *p) {
    return p->rank == 2 && copies_rows(p) && !(weft_dim_is_number(p->lines) && chunk_lines(p) >= p->lines);
}

void weft_convolution_depthwise_layout(const weft_build_request *request, weft_convolution *p, int lanes) {
    weft_dim_table *table = request->graph->dims;
    weft_convolution_axis *last = &p->axis[p->rank - 1];
    if (!copies_rows(p)) return;
    for (int64_t phase = 0; phase < last->phases; phase++) {
        int64_t to, from = phase_start(last, phase, &to);
        weft_dim vectors = weft_dim_divide_ceil(table, phase_count(table, last, from), lanes);
        weft_dim end = weft_dim_add(table, weft_dim_multiply(table, vectors, lanes), to);
        last->extent = weft_dim_maximum(table, last->extent, end);
    }
    p->plane = weft_dim_multiply(table, last->extent, last->phases);
    if (p->rank == 2) {
        p->axis[0].pitch = p->plane;
        p->plane = weft_dim_multiply(
            table, p->plane, weft_dim_minimum(table, p->axis[0].extent, chunk_rows(&p->axis[0], chunk_lines(p))));
    }
    p->plane = weft_dim_multiply(table, weft_dim_divide_ceil(table, p->plane, lanes), lanes);
}

/* One phase of one row of x, from `to` on. */
static void copy_phase(weft_convolution_build *b, weft_kval to, int64_t phase, const weft_lane_index *leading) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    const weft_convolution_axis *a = &p->axis[p->rank - 1];
    int64_t start, from = phase_start(a, phase, &start);
    weft_kval count = weft_cv_extent(b, phase_count(b->request->graph->dims, a, from));
    weft_kval width = weft_cv_number(b, b->lanes), whole = weft_k_mul(k, weft_k_div(k, count, width), width);
    to = weft_cv_plus(b, weft_k_add(k, to, weft_cv_times(b, weft_cv_number(b, phase), a->extent)), start);
    for (int tail = 0; tail < 2; tail++) {
        int64_t lo, hi;
        if (weft_k_is_constant(k, tail ? whole : weft_cv_number(b, 0), &lo) &&
            weft_k_is_constant(k, tail ? count : whole, &hi) && lo >= hi)
            continue;
        weft_kval q = weft_k_for(k, tail ? whole : weft_cv_number(b, 0), tail ? count : whole, width, 0);
        size_t mark = weft_index_mark(&b->c);
        weft_point point = {.rank = p->rank + 2,
                            .lanes = b->lanes,
                            .dims = p->x->type.dims,
                            .has_axes = true,
                            .edge = WEFT_KNONE,
                            .scalar = WEFT_KNONE,
                            .vector = WEFT_KNONE};
        for (int i = 0; i < p->rank + 1; i++) point.axis[i] = leading[i];
        weft_lane_index at = weft_lane_multiply(&b->c, weft_lane_range(q, b->lanes), a->phases, b->lanes);
        point.axis[p->rank + 1] = weft_lane_add(&b->c, at, weft_lane_scalar(weft_cv_number(b, from)), b->lanes);
        weft_kval mask = tail ? weft_index_below(&b->c, weft_lane_range(q, b->lanes), b->lanes, count) : WEFT_KNONE;
        if (tail) weft_point_restrict(&b->c, &point, mask);
        weft_kval value = weft_parts_splat(&b->c, weft_index_evaluate(&b->c, p->x, point), b->lanes).part[0];
        value = weft_k_convert(k, value, p->accumulate);
        if (tail) value = weft_k_select(k, mask, value, weft_k_constant_lanes(k, p->accumulate, 0, b->lanes));
        weft_k_store(k, b->x, weft_k_add(k, to, q), WEFT_KNONE, value);
        weft_index_release(&b->c, mark);
        weft_k_end(k);
    }
}

static void clear(weft_convolution_build *b, weft_kval from, weft_dim elements) {
    weft_kernel *k = b->k;
    weft_kval at = weft_k_for(k, weft_cv_number(b, 0), weft_cv_extent(b, elements), weft_cv_number(b, b->lanes), 0);
    weft_kval mask = WEFT_KNONE;
    if (weft_dim_divisor(b->request->graph->dims, elements) % b->lanes)
        mask = weft_index_below(&b->c, weft_lane_range(at, b->lanes), b->lanes, weft_cv_extent(b, elements));
    weft_k_store(k, b->x, weft_k_add(k, from, at), mask, weft_k_constant_lanes(k, b->p->accumulate, 0, b->lanes));
    weft_k_end(k);
}

static void copy_row(weft_convolution_build *b, weft_kval to, const weft_lane_index *leading) {
    size_t mark = weft_index_mark(&b->c);
    for (int64_t phase = 0; phase < b->p->axis[b->p->rank - 1].phases; phase++) {
        copy_phase(b, to, phase, leading);
        weft_index_release(&b->c, mark);
    }
}

/* Rows of x between the borders of the plane; those that no output needs are left out. */
static void copy_plane(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    weft_dim_table *table = b->request->graph->dims;
    const weft_convolution_axis *first = &p->axis[0];
    weft_lane_index leading[WEFT_MAX_RANK] = {weft_lane_scalar(b->image), weft_lane_scalar(b->group)};
    if (p->rank == 1) {
        copy_row(b, weft_cv_number(b, 0), leading);
        return;
    }
    weft_dim fits = weft_dim_maximum(table, weft_dim_subtract(table, first->extent, first->low), 0);
    weft_kval row = weft_k_for(k, weft_cv_number(b, 0), weft_cv_extent(b, weft_dim_minimum(table, first->input, fits)),
                               weft_cv_number(b, 1), 0);
    leading[2] = weft_lane_scalar(row);
    copy_row(b, weft_cv_times(b, weft_cv_plus(b, row, first->low), first->pitch), leading);
    weft_k_end(k);
}

/* The rows that the lines from `line` on need, borders among them. */
static void copy_chunk(weft_convolution_build *b, weft_kval line) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    const weft_convolution_axis *first = &p->axis[0];
    weft_lane_index leading[WEFT_MAX_RANK] = {weft_lane_scalar(b->image), weft_lane_scalar(b->group)};
    weft_kval position = weft_cv_times(b, line, first->step),
              rows = weft_k_min(k, weft_cv_number(b, chunk_rows(first, chunk_lines(p))),
                                weft_k_sub(k, weft_cv_extent(b, first->extent), position));
    weft_kval row = weft_k_for(k, weft_cv_number(b, 0), rows, weft_cv_number(b, 1), 0);
    weft_kval source = weft_k_add(k, weft_k_add(k, position, row), weft_cv_number(b, -first->low)),
              to = weft_cv_times(b, row, first->pitch);
    weft_k_if(k, weft_k_and(k, weft_k_le(k, weft_cv_number(b, 0), source),
                            weft_k_lt(k, source, weft_cv_extent(b, first->input))));
    leading[2] = weft_lane_scalar(source);
    copy_row(b, to, leading);
    weft_k_else(k);
    clear(b, to, first->pitch);
    weft_k_end(k);
    weft_k_end(k);
}

typedef struct tile {
    int lines, nv;
    bool ends;                   /* the last vector may end early */
    weft_kval line, column, row; /* row: output channel of the group */
} tile;

/* Weight of one tap in all lanes. */
static weft_kval weight(weft_convolution_build *b, weft_kval w_at, int64_t tap) {
    weft_kernel *k = b->k;
    if (b->weights != WEFT_KNONE) return weft_k_get_at(k, b->weights, weft_cv_number(b, tap));
    return weft_k_splat(k, weft_k_load(k, b->w, weft_cv_plus(b, w_at, tap), 1, WEFT_KNONE, WEFT_KNONE), b->lanes);
}

/* Loaded once a channel where the tile leaves room for them. */
static void hold_weights(weft_convolution_build *b, weft_kval row) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    b->weights = WEFT_KNONE;
    if (p->taps + WEFT_DEPTHWISE_LINES * b->nv + 2 > b->request->capability->vector_registers) return;
    weft_kval w_at = weft_k_add(k, b->w_base, weft_cv_times(b, row, p->taps));
    weft_kval held = weft_k_regs(k, p->accumulate, b->lanes, (int)p->taps);
    for (int64_t tap = 0; tap < p->taps; tap++) weft_k_set_at(k, held, weft_cv_number(b, tap), weight(b, w_at, tap));
    b->weights = held;
}

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
            weft_kval w = weight(b, w_at, above / spread * last->kernel + i);
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
        x_at = weft_k_add(k, x_at,
                          weft_cv_times(b, weft_k_sub(k, t->line, b->line_start),
                                        weft_dim_multiply(b->request->graph->dims, first->pitch, first->step)));
        rows = chunk_rows(first, t->lines);
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

/* Tiles of one band of lines: whole ones, then the rest of the columns: of a known width as one tile, else vector by
   vector. Few variants of the tile: all taps are written out in each. */
static void columns(weft_convolution_build *b, int lines, weft_kval line, weft_kval row) {
    weft_kernel *k = b->k;
    int64_t width = (int64_t)b->nv * b->lanes;
    weft_kval end = weft_cv_extent(b, b->p->line), size = weft_cv_number(b, width), start = weft_cv_number(b, 0);
    bool known = weft_dim_is_number(b->p->line), whole = known ? b->p->line >= width : lines > 1;
    tile t = {.lines = lines, .nv = b->nv, .line = line, .row = row};
    if (whole) {
        start = weft_k_mul(k, weft_k_div(k, end, size), size);
        t.column = weft_k_for(k, weft_cv_number(b, 0), start, size, 0);
        emit_tile(b, &t);
        weft_k_end(k);
    }
    if (known) {
        int64_t left = b->p->line % width;
        t.nv = (int)((left + b->lanes - 1) / b->lanes);
        t.ends = left % b->lanes != 0;
        t.column = start;
        if (left) emit_tile(b, &t);
        return;
    }
    t.nv = 1;
    t.ends = true;
    t.column = weft_k_for(k, start, end, weft_cv_number(b, b->lanes), 0);
    emit_tile(b, &t);
    weft_k_end(k);
}

/* Lines [from, to) of one output channel: bands of WEFT_DEPTHWISE_LINES, then what is left. */
static void bands(weft_convolution_build *b, weft_kval row, weft_kval from, weft_kval to) {
    weft_kernel *k = b->k;
    const weft_convolution *p = b->p;
    bool known = weft_dim_is_number(p->lines);
    int band =
        p->rank == 1 || (known && p->lines < WEFT_DEPTHWISE_LINES) ? (known ? (int)p->lines : 1) : WEFT_DEPTHWISE_LINES;
    weft_kval size = weft_cv_number(b, band),
              whole = weft_k_add(k, from, weft_k_mul(k, weft_k_div(k, weft_k_sub(k, to, from), size), size));
    weft_kval line = weft_k_for(k, from, whole, size, 0);
    size_t mark = weft_index_mark(&b->c);
    columns(b, band, line, row);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
    if (known && p->lines % band == 0) return; /* chunks are whole bands */
    if (known)
        weft_k_if(k, weft_k_lt(k, whole, to));
    else
        line = weft_k_for(k, whole, to, weft_cv_number(b, 1), 0);
    columns(b, known ? (int)(p->lines % band) : 1, known ? whole : line, row);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
}

/* All output channels of one input channel, whose rows for the lines [from, to) stand in the plane. */
static void multiply(weft_convolution_build *b, weft_kval from, weft_kval to) {
    weft_kernel *k = b->k;
    size_t mark = weft_index_mark(&b->c);
    weft_kval row =
        weft_k_for(k, weft_cv_number(b, 0), weft_cv_number(b, b->p->group_outputs), weft_cv_number(b, 1), 0);
    b->line_start = from;
    hold_weights(b, row);
    bands(b, row, from, to);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
}

static void one_channel(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    weft_kernel *k = b->k;
    weft_kval zero = weft_cv_number(b, 0), lines = weft_cv_extent(b, p->lines);
    size_t mark = weft_index_mark(&b->c);
    if (is_chunked(p)) {
        weft_kval size = weft_cv_number(b, chunk_lines(p)), line = weft_k_for(k, zero, lines, size, 0);
        copy_chunk(b, line);
        weft_index_release(&b->c, mark);
        multiply(b, line, weft_k_min(k, weft_k_add(k, line, size), lines));
        weft_k_end(k);
        return;
    }
    if (copies_rows(p))
        copy_plane(b);
    else
        weft_convolution_pack_rows(b, b->x, zero, b->image, b->group, zero,
                                   weft_cv_extent(b, p->rank == 1 ? 1 : p->axis[0].extent));
    weft_index_release(&b->c, mark);
    multiply(b, zero, lines);
}

/* Enough of them that zeroing the plane does not count, few enough that the threads share the work. */
static int64_t channels_per_block(const weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    int threads = b->request->thread_count < 1 ? 1 : b->request->thread_count;
    int64_t plane = weft_dim_is_number(p->plane) ? p->plane : 4096, channels = BLOCK_ELEMENTS / plane + 1;
    int64_t images = weft_dim_is_number(p->batch) ? p->batch : 1, most = images * p->groups / (8 * threads);
    if (channels > CHANNELS_MAX) channels = CHANNELS_MAX;
    if (channels < 2) channels = 2;
    if (channels > most) channels = most;
    return channels < 1 ? 1 : channels;
}

weft_status weft_convolution_depthwise(weft_convolution_build *b) {
    const weft_convolution *p = b->p;
    WEFT_TRY(weft_convolution_begin(b, ""), "convolution");
    weft_kernel *k = b->k;
    weft_cv_extent(b, p->plane); /* the size of the scratch is an argument */
    b->x = weft_k_shared(k, p->accumulate, p->plane);
    b->w = b->w_temp < 0 ? b->c.operands[p->w_access.operand]
                         : weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->w_temp, p->accumulate, false, "w");
    bool copies = copies_rows(p);
    int64_t channels = copies ? channels_per_block(b) : 1;
    int64_t blocks = (p->groups + channels - 1) / channels;
    k->grid = weft_dim_multiply(b->request->graph->dims, p->batch, blocks);
    weft_kval id = weft_k_block(k), block = weft_convolution_take(b, &id, blocks);
    b->image = p->batch == 1 ? weft_cv_number(b, 0) : id;
    b->index[0] = weft_lane_scalar(b->image);
    weft_kval w_start = b->w_temp < 0 ? weft_cv_extent(b, p->w_access.offset) : weft_cv_number(b, 0);
    if (copies) clear(b, weft_cv_number(b, 0), p->plane);
    weft_kval from = weft_k_mul(k, block, weft_cv_number(b, channels));
    b->group = weft_k_for(k, from, weft_k_min(k, weft_cv_plus(b, from, channels), weft_cv_number(b, p->groups)),
                          weft_cv_number(b, 1), 0);
    size_t mark = weft_index_mark(&b->c);
    b->w_base = weft_k_add(k, w_start, weft_cv_times(b, b->group, p->group_outputs * p->taps));
    one_channel(b);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
    return weft_convolution_end(b);
}
