/* Builder "scatter": y = x with updates combined in, in index order. Two launches, or three when y is staged (stage.h):
   copy x, apply the updates, pack.

   updates [batch..., window...]; batch position b has a start in x (indices), window element w adds to it along the
   axes that are not inserted. Updates of different window elements never meet when their axes of x are addressed by no
   index: those axes are the parallel ones (an embedding's features), the rest runs in order inside a lane. When that is
   too little to fill a GPU, each block owns every n-th place and applies what is its own (below); where nothing is
   parallel, each of a few workers owns every n-th element and skips the others. So the order stays. Read next:
   select_and_scatter.c. */
#include <string.h>

#include "codegen/builders/stage.h"

typedef struct scatter {
    weft_index_context *c;
    const weft_build_request *request;
    const weft_node *node;
    const weft_type *x, *indices, *updates;
    const char *kind;
    weft_stage stage;
    weft_kval y;
    int window_axis[WEFT_MAX_RANK]; /* of x, for each window axis in order; -1 for batch axes: by axis of updates */
    bool parallel[WEFT_MAX_RANK];   /* by axis of updates */
    int owners;                     /* 1: everybody owns all */
    weft_kval me;
} scatter;

static bool contains(const weft_attribute *list, int64_t value) {
    for (int i = 0; i < list->count; i++)
        if (list->as.ints[i] == value) return true;
    return false;
}

static void read_node(scatter *s) {
    const weft_attribute *offset = weft_node_attribute(s->node, WEFT_ATTR_offset_axes);
    const weft_attribute *inserted = weft_node_attribute(s->node, WEFT_ATTR_collapsed_axes);
    const weft_attribute *map = weft_node_attribute(s->node, WEFT_ATTR_index_map);
    s->x = weft_operand_type(s->node, 0);
    s->indices = weft_operand_type(s->node, 1);
    s->updates = weft_operand_type(s->node, 2);
    s->kind = weft_node_string(s->node, WEFT_ATTR_kind, "set");
    int axis = 0;
    for (int i = 0; i < s->updates->rank; i++) {
        s->window_axis[i] = -1;
        s->parallel[i] = false;
        if (!contains(offset, i)) continue;
        while (contains(inserted, axis)) axis++;
        s->window_axis[i] = axis;
        s->parallel[i] = !contains(map, axis);
        axis++;
    }
}

/* Start of x's axis map[component] at the batch position of index, in i64: what does not fit an index is outside. */
static weft_kval start_of(scatter *s, const weft_lane_index *index, int component) {
    weft_index_context *c = s->c;
    weft_kernel *k = c->kernel;
    int index_axis = (int)weft_node_int(s->node, WEFT_ATTR_index_axis, 0);
    weft_lane_index at[WEFT_MAX_RANK];
    int from = 0;
    for (int i = 0; i < s->indices->rank; i++) {
        if (i == index_axis) {
            at[i] = weft_lane_constant(c, component);
            continue;
        }
        while (s->window_axis[from] >= 0) from++;
        at[i] = index[from++];
    }
    weft_kval start = weft_index_value(c, s->node->operands[1], at, 1, WEFT_KNONE);
    if (s->indices->dtype != WEFT_U64) return weft_k_convert(k, start, WEFT_I64);
    weft_kval most = weft_k_integer(k, WEFT_U64, INT64_MAX);
    return weft_k_convert(k, weft_k_min(k, start, most), WEFT_I64);
}

/* Where in x the update at `index` goes: out_at by axis; returns whether it is inside (WEFT_KNONE: always). out_key: a
   number that equal places share. */
static weft_kval place(scatter *s, const weft_lane_index *index, weft_lane_index *out_at, weft_kval *out_key) {
    weft_index_context *c = s->c;
    weft_kernel *k = c->kernel;
    const weft_attribute *map = weft_node_attribute(s->node, WEFT_ATTR_index_map);
    weft_kval inside = WEFT_KNONE, zero = weft_k_integer(k, WEFT_I64, 0);
    *out_key = WEFT_KNONE;
    for (int a = 0; a < s->x->rank; a++) out_at[a] = weft_lane_constant(c, 0);
    for (int i = 0; i < s->updates->rank; i++)
        if (s->window_axis[i] >= 0) out_at[s->window_axis[i]] = index[i];
    for (int component = 0; component < map->count; component++) {
        int axis = (int)map->as.ints[component];
        weft_kval start = start_of(s, index, component),
                  extent = weft_k_convert(k, weft_ix_extent(c, s->x->dims[axis]), WEFT_I64);
        weft_kval offset = weft_k_convert(k, out_at[axis].base, WEFT_I64);
        weft_kval room = weft_k_lt(k, start, extent); /* before the sum, which then cannot overflow */
        weft_kval sum = weft_k_add(k, start, offset);
        weft_kval fits = weft_k_and(k, room, weft_k_and(k, weft_k_lt(k, sum, extent), weft_k_le(k, zero, sum)));
        inside = inside == WEFT_KNONE ? fits : weft_k_and(k, inside, fits);
        out_at[axis] = weft_lane_scalar(weft_k_convert(k, sum, k->capability->index_dtype));
        *out_key = *out_key == WEFT_KNONE ? out_at[axis].base : weft_k_add(k, *out_key, out_at[axis].base);
    }
    return inside;
}

static weft_parts read_update(scatter *s, const weft_lane_index *index, int lanes, weft_kval mask) {
    const weft_value *updates = s->node->operands[2];
    weft_point point = weft_axes_point(updates, index, lanes, mask);
    return weft_parts_splat(s->c, weft_index_evaluate(s->c, updates, point), lanes);
}

/* y[position] = kind(y[position], value) */
static void combine(scatter *s, weft_lane_index position, int lanes, weft_kval mask, weft_parts value) {
    weft_index_context *c = s->c;
    weft_point point = weft_position_point(s->node->operands[0], position, lanes, mask);
    if (strcmp(s->kind, "set")) {
        weft_parts old = weft_parts_splat(c, weft_index_load_point(c, s->y, s->stage.dtype, point), lanes);
        value = weft_index_combine_parts(c, s->kind, s->x->dtype, old, value);
        if (!s->stage.staged && value.part[1] == WEFT_KNONE)
            value.part[0] = weft_index_round(c, s->x->dtype, value.part[0]);
    }
    weft_index_store_point(c, s->y, s->stage.dtype, point, value);
}

/* y[at] = kind(y[at], update) for the lanes of one update vector. */
static void apply(scatter *s, const weft_lane_index *index, int lanes, weft_kval mask) {
    weft_index_context *c = s->c;
    weft_kernel *k = c->kernel;
    weft_lane_index at[WEFT_MAX_RANK];
    weft_kval key, inside = place(s, index, at, &key);
    if (inside != WEFT_KNONE) weft_k_if(k, inside);
    weft_lane_index position = weft_index_position(c, s->x->rank, s->x->dims, at, lanes);
    if (s->owners > 1) weft_k_if(k, weft_k_eq(k, weft_k_rem(k, position.base, weft_k_index(k, s->owners)), s->me));
    combine(s, position, lanes, mask, read_update(s, index, lanes, mask));
    if (s->owners > 1) weft_k_end(k);
    if (inside != WEFT_KNONE) weft_k_end(k);
}

/* All updates of one parallel position, in order. */
static void apply_in_order(scatter *s, weft_lane_index *index, int lanes, weft_kval mask) {
    weft_index_context *c = s->c;
    weft_kernel *k = c->kernel;
    weft_dim dims[WEFT_MAX_RANK], count = 1;
    int axes[WEFT_MAX_RANK], rank = 0;
    for (int pass = 0; pass < 2; pass++) { /* batch axes first: windows are applied whole, one after another */
        for (int i = 0; i < s->updates->rank; i++) {
            if (s->parallel[i] || (s->window_axis[i] >= 0) != (pass == 1)) continue;
            axes[rank] = i;
            dims[rank++] = s->updates->dims[i];
            count = weft_dim_multiply(c->graph->dims, count, s->updates->dims[i]);
        }
    }
    size_t mark = weft_index_mark(c);
    weft_kval step = weft_k_for(k, weft_k_index(k, 0), weft_ix_extent(c, count), weft_k_index(k, 1), 0);
    weft_lane_index own[WEFT_MAX_RANK];
    weft_index_unflatten(c, rank, dims, weft_lane_scalar(step), 1, own);
    for (int i = 0; i < rank; i++) index[axes[i]] = own[i];
    apply(s, index, lanes, mask);
    weft_index_release(c, mark);
    weft_k_end(k);
}

/* -- rows dealt to blocks, on GPUs

   Features of one update are few threads, and updates of one place must run in order. So each block owns every n-th
   place: piece by piece its threads look through the updates together, list in order those that are its own, and apply
   the list, several loads under way at once. */

enum { DEAL_CHUNK = 8, DEAL_AHEAD = 8, DEAL_UPDATES_MIN = 256, DEAL_THREADS_MAX = 192 };

typedef struct dealing {
    scatter *s;
    int lane, lanes, rank;
    int axes[WEFT_MAX_RANK]; /* batch axes of updates */
    weft_dim dims[WEFT_MAX_RANK], count;
    weft_kval counts, list, places; /* shared: matches by thread; numbers and places of the block's updates */
} dealing;

/* Only batch axes beside the features, which are contiguous on both sides; few enough of them to leave threads idle. */
static bool can_deal(scatter *s, int lane, weft_dim columns, dealing *d) {
    const weft_capability *capability = s->request->capability;
    weft_dim_table *table = s->c->graph->dims;
    int64_t low, most, updates;
    *d = (dealing){.s = s, .lane = lane, .count = 1};
    if (capability->threads_max < DEAL_THREADS_MAX || capability->multiprocessors < 2) return false;
    if (lane != s->updates->rank - 1 || s->window_axis[lane] != s->x->rank - 1) return false;
    for (int i = 0; i < lane; i++) {
        if (s->window_axis[i] >= 0) return false;
        d->axes[d->rank] = i;
        d->dims[d->rank++] = s->updates->dims[i];
        d->count = weft_dim_multiply(table, d->count, s->updates->dims[i]);
    }
    weft_dim_bounds(table, columns, &low, &most);
    weft_dim_bounds(table, d->count, &updates, &low);
    if (most > (int64_t)capability->multiprocessors * 256 || updates < DEAL_UPDATES_MIN || low > INT32_MAX / 2)
        return false;
    d->lanes = weft_fusion_lanes(s->request);
    while (d->lanes > 1 && weft_dim_divisor(table, columns) % d->lanes) d->lanes /= 2;
    int64_t threads = (most / d->lanes + 31) / 32 * 32;
    s->c->kernel->threads = (int)(threads < 64 ? 64 : threads > DEAL_THREADS_MAX ? DEAL_THREADS_MAX : threads);
    return true;
}

static void batch_index(const dealing *d, weft_kval number, weft_lane_index *out_index) {
    weft_lane_index own[WEFT_MAX_RANK];
    weft_index_unflatten(d->s->c, d->rank, d->dims, weft_lane_scalar(number), 1, own);
    for (int i = 0; i < d->rank; i++) out_index[d->axes[i]] = own[i];
}

/* The thread's own updates of a piece from `first` on: counts those of this block, or lists them from *found on. */
static void look_through(const dealing *d, weft_kval first, weft_kval found, bool lists) {
    scatter *s = d->s;
    weft_index_context *c = s->c;
    weft_kernel *k = c->kernel;
    size_t mark = weft_index_mark(c);
    weft_kval end = weft_k_extent(k, d->count), one = weft_k_index(k, 1);
    weft_kval number = weft_k_add(
        k, first, weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, DEAL_CHUNK), one, lists ? 0 : DEAL_CHUNK));
    weft_kval known = weft_k_min(k, number, weft_k_sub(k, end, one)), key;
    weft_lane_index index[WEFT_MAX_RANK], at[WEFT_MAX_RANK];
    batch_index(d, known, index);
    index[d->lane] = weft_lane_constant(c, 0);
    weft_kval mine = place(s, index, at, &key), block = weft_k_block(k);
    mine = weft_k_and(k, mine, weft_k_lt(k, number, end));
    mine = weft_k_and(k, mine, weft_k_eq(k, weft_k_rem(k, key, weft_k_index(k, s->owners)), block));
    if (lists) {
        weft_k_if(k, mine);
        weft_k_store(k, d->list, weft_k_get(k, found), WEFT_KNONE, number);
        weft_k_store(k, d->places, weft_k_get(k, found), WEFT_KNONE,
                     weft_index_position(c, s->x->rank, s->x->dims, at, 1).base);
        weft_k_set(k, found, weft_k_add(k, weft_k_get(k, found), one));
        weft_k_end(k);
    } else {
        weft_k_set(k, found, weft_k_add(k, weft_k_get(k, found), weft_k_select(k, mine, one, weft_k_index(k, 0))));
    }
    weft_index_release(c, mark);
    weft_k_end(k);
}

/* The list, in order, for one vector of features. */
static void apply_list(const dealing *d, weft_kval column, weft_kval total) {
    scatter *s = d->s;
    weft_index_context *c = s->c;
    weft_kernel *k = c->kernel;
    weft_parts value[DEAL_AHEAD];
    weft_kval base[DEAL_AHEAD], at[DEAL_AHEAD], last = weft_k_sub(k, total, weft_k_index(k, 1));
    weft_kval first = weft_k_for(k, weft_k_index(k, 0), total, weft_k_index(k, DEAL_AHEAD), 0);
    size_t mark = weft_index_mark(c);
    for (int i = 0; i < DEAL_AHEAD; i++) {
        weft_lane_index index[WEFT_MAX_RANK];
        size_t inner = weft_index_mark(c);
        at[i] = weft_k_add(k, first, weft_k_index(k, i));
        weft_kval known = weft_k_min(k, at[i], last);
        batch_index(d, weft_k_load(k, d->list, known, 1, WEFT_KNONE, WEFT_KNONE), index);
        base[i] = weft_k_load(k, d->places, known, 1, WEFT_KNONE, WEFT_KNONE);
        index[d->lane] = weft_lane_range(column, d->lanes);
        value[i] = read_update(s, index, d->lanes, WEFT_KNONE);
        weft_index_release(c, inner);
    }
    for (int i = 0; i < DEAL_AHEAD; i++) {
        weft_k_if(k, weft_k_lt(k, at[i], total));
        combine(s, weft_lane_range(weft_k_add(k, base[i], column), d->lanes), d->lanes, WEFT_KNONE, value[i]);
        weft_k_end(k);
    }
    weft_index_release(c, mark);
    weft_k_end(k);
}

static void deal(dealing *d, weft_dim columns) {
    scatter *s = d->s;
    weft_kernel *k = s->c->kernel;
    weft_dim_table *table = s->c->graph->dims;
    weft_dtype own = k->capability->index_dtype;
    int threads = k->threads;
    int64_t piece_size = (int64_t)threads * DEAL_CHUNK;
    s->owners = 2 * s->request->capability->multiprocessors;
    k->grid = s->owners;
    d->counts = weft_k_shared(k, own, threads);
    d->list = weft_k_shared(k, own, piece_size), d->places = weft_k_shared(k, own, piece_size);
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), thread = weft_k_thread(k);
    weft_kval piece = weft_k_for(k, zero, weft_k_extent(k, weft_dim_divide_ceil(table, d->count, piece_size)), one, 0);
    weft_kval first = weft_k_mul(k, weft_k_add(k, weft_k_mul(k, piece, weft_k_index(k, threads)), thread),
                                 weft_k_index(k, DEAL_CHUNK));
    weft_kval found = weft_k_var(k, zero), offset = weft_k_var(k, zero), total = weft_k_var(k, zero);
    look_through(d, first, found, false);
    weft_k_store(k, d->counts, thread, WEFT_KNONE, weft_k_get(k, found));
    weft_k_barrier(k);
    weft_kval other = weft_k_for(k, zero, weft_k_index(k, threads), one, 8);
    weft_kval count = weft_k_load(k, d->counts, other, 1, WEFT_KNONE, WEFT_KNONE);
    weft_k_set(k, total, weft_k_add(k, weft_k_get(k, total), count));
    weft_kval before = weft_k_select(k, weft_k_lt(k, other, thread), count, zero);
    weft_k_set(k, offset, weft_k_add(k, weft_k_get(k, offset), before));
    weft_k_end(k);
    look_through(d, first, offset, true);
    weft_k_barrier(k);
    weft_kval column = weft_k_for(k, weft_k_mul(k, thread, weft_k_index(k, d->lanes)), weft_k_extent(k, columns),
                                  weft_k_index(k, (int64_t)threads * d->lanes), 0);
    apply_list(d, column, weft_k_get(k, total));
    weft_k_end(k);
    weft_k_barrier(k); /* the list is read: the next piece may write it */
    weft_k_end(k);
}

/* Parallel positions: the last parallel axis in vectors, the others one by one. */
static void emit_updates(scatter *s) {
    weft_index_context *c = s->c;
    weft_kernel *k = c->kernel;
    weft_dim_table *table = c->graph->dims;
    weft_lane_index index[WEFT_MAX_RANK];
    weft_dim others[WEFT_MAX_RANK], rows = 1, columns = 1;
    int lane = -1;
    for (int i = 0; i < s->updates->rank; i++) {
        index[i] = weft_lane_constant(c, 0);
        if (s->parallel[i]) lane = i;
    }
    for (int i = 0; i < s->updates->rank; i++) {
        others[i] = s->parallel[i] && i != lane ? s->updates->dims[i] : 1;
        rows = weft_dim_multiply(table, rows, others[i]);
    }
    if (lane >= 0) columns = s->updates->dims[lane];
    bool contiguous = lane == s->updates->rank - 1 && lane >= 0 && s->window_axis[lane] == s->x->rank - 1;
    int lanes = contiguous ? weft_fusion_lanes(s->request) : 1;
    while (lanes > 1 && weft_dim_is_number(columns) && columns < lanes) lanes /= 2;
    weft_dim pieces = weft_dim_divide_ceil(table, columns, lanes), items = weft_dim_multiply(table, rows, pieces);
    bool cpu = weft_capability_is_cpu(s->request->capability);
    dealing d;
    s->owners = 1;
    if (lane >= 0 && rows == 1 && !cpu && can_deal(s, lane, columns, &d)) {
        deal(&d, columns);
        return;
    }
    if (lane < 0) { /* nothing parallel: owners */
        int threads = s->request->thread_count > 1 ? s->request->thread_count : 1;
        s->owners = cpu ? threads : 64 * 64;
        items = s->owners;
    }
    weft_items work = weft_items_begin(c, items, 1);
    weft_kval mask = WEFT_KNONE, item = work.item;
    s->me = item;
    if (lane >= 0) {
        weft_kval count = weft_k_extent(k, pieces);
        weft_lane_index own[WEFT_MAX_RANK];
        weft_index_unflatten(c, s->updates->rank, others, weft_lane_scalar(weft_k_div(k, item, count)), 1, own);
        for (int i = 0; i < s->updates->rank; i++)
            if (s->parallel[i]) index[i] = own[i];
        weft_kval column = weft_k_mul(k, weft_k_rem(k, item, count), weft_k_index(k, lanes));
        index[lane] = weft_lane_range(column, lanes);
        if (lanes > 1 && weft_dim_divisor(table, columns) % lanes)
            mask = weft_index_below(c, index[lane], lanes, weft_ix_extent(c, columns));
    }
    apply_in_order(s, index, lanes, mask);
    weft_items_end(c, &work);
}

static void copy(weft_index_context *c, void *self, weft_lane_index position, int lanes, weft_kval mask) {
    scatter *s = self;
    if (lanes == 0) {
        s->y = weft_stage_buffer(c, &s->stage);
        return;
    }
    const weft_value *x = s->node->operands[0];
    weft_point point = weft_position_point(x, position, lanes, mask);
    weft_parts value = weft_parts_splat(c, weft_index_evaluate(c, x, point), lanes);
    weft_index_store_point(c, s->y, s->stage.dtype, point, value);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    scatter s = {.request = request, .node = weft_single_node(request, WEFT_OP_scatter)};
    WEFT_TRY(weft_plan_init(request, 3, 1, out_plan), "scatter");
    out_plan->launch_count = out_plan->temp_count = 0;
    if (weft_fusion_is_empty(request)) return NULL;
    read_node(&s);
    bool sums = !strcmp(s.kind, "sum") || !strcmp(s.kind, "product");
    s.stage = weft_stage_make(request, out_plan, 0, sums);
    weft_dim count = weft_type_count(request->graph, s.x);
    WEFT_TRY(weft_flat_launch(request, out_plan, "_copy", count, weft_fusion_lanes(request), copy, &s), "scatter");
    weft_kernel *k = weft_plan_kernel(request, "");
    s.c = weft_arena_allocate(request->arena, sizeof *s.c);
    if (!k || !s.c) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    WEFT_TRY(weft_index_init(request, k, s.c), "scatter");
    s.y = weft_stage_buffer(s.c, &s.stage);
    emit_updates(&s);
    WEFT_TRY(weft_index_finish(s.c), "scatter");
    WEFT_TRY(weft_plan_set(request, out_plan, out_plan->launch_count++, k), "scatter");
    return weft_stage_finish(request, out_plan, &s.stage);
}

const weft_builder weft_builder_scatter = {"scatter", weft_single_accepts, weft_single_propose, build};
