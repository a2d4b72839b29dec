/* Builder "network" for GPUs: a network over rows (passes/fuse/network.h) in one kernel. A block takes a few rows: it
   brings weights and whatever else the network reads into shared memory, then goes from stage to stage: elementwise
   values of the stage, from slots to slots, and those that are results to memory; a barrier; products of slots with
   weights. Where there are asynchronous copies, weights come by them in the order of their first stage, which alone
   waits for them.

   Wide products: a thread has a column of some rows, of all products of the stage that share a weight, so that a weight
   is read once for them; four partial sums along k, combined in a fixed order. Narrow ones: a warp each, k over its
   lanes. Rows past the end repeat the last one and are not stored. Read next: passes/fuse/network.c. */
#include "passes/fuse/network.h"

#include "codegen/builders/plan.h"
#include "codegen/tile/ring.h"

#include <string.h>

enum { NARROW = 8, TOGETHER_MAX = 8, FLIGHT_MAX = 40, UNROLL = 4 };

/* A value on its way into shared memory. */
typedef struct flight {
    weft_kval value, memory, index, exists; /* exists: WEFT_KNONE = always */
} flight;

typedef struct network {
    const weft_build_request *request;
    weft_network net;
    weft_kernel *k;
    weft_index_context c;
    int rows, threads; /* of a block */
    weft_kval features, *weights, thread, first, end;
    int *need;                /* of each weight: the first stage that multiplies with it */
    int *groups, group_count; /* of each weight: its group of asynchronous copies, from 1; 0 = it came otherwise */
    flight flights[FLIGHT_MAX];
    int flight_count;
} network;

/* -- what the region is */

static bool find(const weft_graph *graph, const weft_node *fusion, weft_arena *arena, weft_network *net,
                 const char **out_reason) {
    const weft_block *block = weft_fusion_block(fusion);
    const weft_node *nodes[WEFT_NETWORK_NODES_MAX];
    weft_dim rows = WEFT_DIM_INVALID;
    int count = 0;
    *net = (weft_network){0};
    for (const weft_node *node = block->first; node && rows == WEFT_DIM_INVALID; node = node->next)
        if (node->op == WEFT_OP_dot_general && node->results[0].type.rank == 2) rows = node->results[0].type.dims[0];
    *out_reason = "no product";
    if (rows == WEFT_DIM_INVALID) return false;
    for (const weft_node *node = block->first; node; node = node->next) {
        *out_reason = "a product that is no layer";
        bool takes = weft_network_takes(graph, node, rows);
        if (node->op == WEFT_OP_dot_general && !takes) return false;
        *out_reason = "too many nodes";
        if (count == WEFT_NETWORK_NODES_MAX) return false;
        if (takes) nodes[count++] = node;
    }
    weft_status status = weft_network_init(graph, count, nodes, rows, arena, net);
    *out_reason = status ? "no memory" : "a weight that the network makes";
    bool fits = !status;
    for (int w = 0; w < net->weight_count && fits; w++) fits = !weft_network_is_inside(net, net->weights[w].value);
    if (fits) *out_reason = "a value that is not read where it stands";
    weft_status_release(status);
    for (int i = 0; i < net->node_count && fits; i++)
        for (int o = 0; o < nodes[i]->operand_count && fits; o++) {
            const weft_value *operand = nodes[i]->operands[o];
            for (const weft_node *from = operand->node; from && from->operand_count && fits;
                 from = from->operands[0]->node)
                fits = weft_network_is_inside(net, operand) || !weft_network_is_inside(net, &from->results[0]);
        }
    for (int r = 0; r < fusion->result_count && fits; r++) {
        const weft_value *value = weft_fusion_yield(fusion, r);
        *out_reason = "a result that is not of the network";
        fits = weft_network_is_inside(net, value) || weft_network_slot_of(net, value) >= 0;
    }
    if (fits) *out_reason = NULL;
    return fits;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    *out_reason = "no warps";
    if (capability->warp <= 1 || capability->threads_max < WEFT_NETWORK_THREADS_MAX) return false;
    weft_arena arena;
    weft_network net;
    weft_arena_init(graph->context->allocator, &arena);
    bool fits = find(graph, fusion, &arena, &net, out_reason);
    if (fits && weft_network_block_rows(&net, graph, capability) < 1)
        fits = false, *out_reason = "weights and values do not fit shared memory";
    weft_network_deinit(&net);
    weft_arena_deinit(&arena);
    return fits && (weft_fusion_fits_index(graph, fusion, capability) ||
                    (*out_reason = "more elements than 32-bit indices reach", false));
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    (void)request, (void)capacity;
    out_schedules[0] = (weft_schedule){.builder = "network"};
    return 1;
}

/* -- places */

static weft_kval number(network *n, int64_t value) { return weft_k_index(n->k, value); }
static weft_kval at(network *n, weft_kval row, int64_t pitch, weft_kval column) {
    return weft_k_add(n->k, weft_k_mul(n->k, row, number(n, pitch)), column);
}
/* Of row `row` of the block, column `column`, in the slot. */
static weft_kval in_slot(network *n, int slot, weft_kval row, weft_kval column) {
    const weft_network_slot *s = &n->net.slots[slot];
    return weft_k_add(n->k, number(n, n->rows * s->at), at(n, row, weft_network_pitch(s->width), column));
}
/* The row of the problem: the last one past the end. */
static weft_kval row_of(network *n, weft_kval row) {
    weft_kernel *k = n->k;
    return weft_k_min(k, weft_k_add(k, n->first, row), weft_k_sub(k, n->end, number(n, 1)));
}

/* Predicates lie in slots as 0 and 1. */
static weft_kval to_slot(network *n, const weft_value *value, weft_kval carrier) {
    if (value->type.dtype != WEFT_BOOL) return carrier;
    return weft_k_select(n->k, carrier, weft_k_float(n->k, WEFT_F32, 1), weft_k_float(n->k, WEFT_F32, 0));
}
static weft_kval from_slot(network *n, int slot, weft_kval row, weft_kval column) {
    weft_kval stored = weft_k_load(n->k, n->features, in_slot(n, slot, row, column), 1, WEFT_KNONE, WEFT_KNONE);
    if (n->net.slots[slot].value->type.dtype != WEFT_BOOL) return stored;
    return weft_k_ne(n->k, stored, weft_k_float(n->k, WEFT_F32, 0));
}

/* -- before the first stage */

static void land(network *n) {
    weft_kernel *k = n->k;
    for (int i = 0; i < n->flight_count; i++) {
        const flight *f = &n->flights[i];
        if (f->exists != WEFT_KNONE) weft_k_if(k, f->exists);
        weft_k_store(k, f->memory, f->index, WEFT_KNONE, f->value);
        if (f->exists != WEFT_KNONE) weft_k_end(k);
    }
    n->flight_count = 0;
}

static void fly(network *n, weft_kval value, weft_kval memory, weft_kval index, weft_kval exists) {
    if (n->flight_count == FLIGHT_MAX) land(n);
    n->flights[n->flight_count++] = (flight){value, memory, index, exists};
}

/* The item of this thread in round `round` of `count` items, the last one past the end. */
static weft_kval item_of(network *n, int64_t round, int64_t count, weft_kval *out_exists) {
    weft_kernel *k = n->k;
    weft_kval item = weft_k_add(k, n->thread, number(n, round * n->threads));
    *out_exists = (round + 1) * n->threads <= count ? WEFT_KNONE : weft_k_lt(k, item, number(n, count));
    return *out_exists == WEFT_KNONE ? item : weft_k_min(k, item, number(n, count - 1));
}

/* An operand as it lies in memory, in vectors of 16 bytes. */
static bool is_copied(const network *n, const weft_network_weight *w) {
    return n->k->capability->copy_async && !w->value->node && w->value->type.dtype == WEFT_F32 && w->columns % 4 == 0 &&
           n->c.operands[w->value->index] != WEFT_KNONE;
}

static void copy_weight(network *n, int index) {
    const weft_network_weight *w = &n->net.weights[index];
    weft_kernel *k = n->k;
    int64_t vectors = w->columns / 4, count = vectors * w->lines;
    for (int64_t round = 0; round * n->threads < count; round++) {
        weft_kval exists, item = item_of(n, round, count, &exists);
        weft_kval line = weft_k_div(k, item, number(n, vectors));
        weft_kval column = weft_k_mul(k, weft_k_rem(k, item, number(n, vectors)), number(n, 4));
        weft_kval to = weft_k_mul(k, at(n, line, weft_network_pitch(w->columns), column), number(n, 4));
        weft_kval from = weft_k_mul(k, item, number(n, 4));
        if (exists != WEFT_KNONE) weft_k_if(k, exists);
        weft_kval operands[5] = {n->weights[index], to, n->c.operands[w->value->index], from, WEFT_KNONE};
        weft_k_effect(k, WEFT_K_copy_async, 5, operands, 16, 0);
        if (exists != WEFT_KNONE) weft_k_end(k);
    }
    weft_k_effect(k, WEFT_K_copy_commit, 0, NULL, 0, 0);
    n->groups[index] = ++n->group_count;
}

static void copy_weights(network *n) {
    for (int w = 0; w < n->net.weight_count; w++) n->need[w] = n->net.stages, n->groups[w] = 0;
    for (int p = 0; p < n->net.product_count; p++) {
        int *need = &n->need[n->net.products[p].weight];
        if (n->net.products[p].stage < *need) *need = n->net.products[p].stage;
    }
    for (int stage = 0; stage < n->net.stages; stage++)
        for (int w = 0; w < n->net.weight_count; w++)
            if (n->need[w] == stage && is_copied(n, &n->net.weights[w])) copy_weight(n, w);
}

/* The weights that the stage is the first to use are there, once the block has met. */
static bool wait_for_weights(network *n, int stage) {
    int last = 0;
    for (int w = 0; w < n->net.weight_count; w++)
        if (n->need[w] == stage && n->groups[w] > last) last = n->groups[w];
    if (last) weft_k_effect(n->k, WEFT_K_copy_wait, 0, NULL, n->group_count - last, 0);
    return last > 0;
}

static void load_weight(network *n, int index) {
    const weft_network_weight *w = &n->net.weights[index];
    weft_kernel *k = n->k;
    int lanes = w->columns % 4 ? 1 : 4;
    int64_t vectors = w->columns / lanes, count = vectors * w->lines;
    for (int64_t round = 0; round * n->threads < count; round++) {
        weft_kval exists, item = item_of(n, round, count, &exists);
        weft_kval line = weft_k_div(k, item, number(n, vectors));
        weft_kval column = weft_k_mul(k, weft_k_rem(k, item, number(n, vectors)), number(n, lanes));
        weft_lane_index place[2] = {weft_lane_scalar(line), weft_lane_range(column, lanes)};
        weft_kval value = weft_k_splat(k, weft_index_value(&n->c, w->value, place, lanes, WEFT_KNONE), lanes);
        fly(n, value, n->weights[index], at(n, line, weft_network_pitch(w->columns), column), exists);
    }
}

static void load_slot(network *n, int slot) {
    const weft_network_slot *s = &n->net.slots[slot];
    weft_kernel *k = n->k;
    for (int64_t round = 0; round * n->threads < n->rows * s->width; round++) {
        weft_kval exists, item = item_of(n, round, n->rows * s->width, &exists);
        weft_kval row = weft_k_div(k, item, number(n, s->width)), column = weft_k_rem(k, item, number(n, s->width));
        weft_lane_index place[2] = {weft_lane_scalar(row_of(n, row)), weft_lane_scalar(column)};
        weft_kval value = to_slot(n, s->value, weft_index_value(&n->c, s->value, place, 1, WEFT_KNONE));
        fly(n, value, n->features, in_slot(n, slot, row, column), exists);
    }
}

/* Zeros at [line][column] for lines and columns from those given up to the next multiples of four. */
static void clear(network *n, weft_kval memory, int64_t offset, int64_t lines, int64_t columns, int64_t all_lines) {
    weft_kernel *k = n->k;
    int64_t whole = (columns + 3) / 4 * 4, pitch = weft_network_pitch(columns);
    struct {
        int64_t line, lines, column, columns;
    } parts[2] = {{0, lines, columns, whole - columns}, {lines, all_lines - lines, 0, whole}};
    for (int p = 0; p < 2; p++)
        for (int64_t round = 0; round * n->threads < parts[p].lines * parts[p].columns; round++) {
            weft_kval exists, item = item_of(n, round, parts[p].lines * parts[p].columns, &exists);
            weft_kval line = weft_k_add(k, weft_k_div(k, item, number(n, parts[p].columns)), number(n, parts[p].line));
            weft_kval column =
                weft_k_add(k, weft_k_rem(k, item, number(n, parts[p].columns)), number(n, parts[p].column));
            weft_kval index = weft_k_add(k, number(n, offset), at(n, line, pitch, column));
            fly(n, weft_k_float(k, WEFT_F32, 0), memory, index, exists);
        }
}

static bool is_left_operand(const network *n, const weft_value *value) {
    for (int p = 0; p < n->net.product_count; p++)
        if (n->net.products[p].dot->operands[0] == value) return true;
    return false;
}

static void load(network *n) {
    copy_weights(n);
    for (int s = 0; s < n->net.slot_count; s++)
        if (n->net.slots[s].outside) load_slot(n, s);
    for (int w = 0; w < n->net.weight_count; w++)
        if (!n->groups[w]) load_weight(n, w);
    land(n);
    for (int w = 0; w < n->net.weight_count; w++) {
        const weft_network_weight *own = &n->net.weights[w];
        clear(n, n->weights[w], 0, own->lines, own->columns, weft_network_weight_lines(own->lines));
    }
    for (int s = 0; s < n->net.slot_count; s++) {
        const weft_network_slot *own = &n->net.slots[s];
        if (is_left_operand(n, own->value)) clear(n, n->features, n->rows * own->at, n->rows, own->width, n->rows);
    }
    land(n);
}

/* -- elementwise values of a stage */

/* Binds what the value is made of to its slots: what is outside, products, and values of earlier stages. */
static void bind_operands(network *n, const weft_value *value, int stage, weft_kval row, weft_kval column,
                          const weft_node **bound, int *count) {
    int slot = weft_network_slot_of(&n->net, value);
    bool product = value->node && value->node->op == WEFT_OP_dot_general;
    bool there = slot >= 0 && (product || n->net.slots[slot].outside || weft_network_stage_of(&n->net, value) < stage);
    for (int i = 0; i < *count; i++)
        if (bound[i] == (const void *)value) return;
    if (*count < 2 * WEFT_NETWORK_NODES_MAX) bound[(*count)++] = (const void *)value;
    if (there) {
        weft_index_bind(&n->c, value, from_slot(n, slot, row, column));
    } else if (weft_network_is_inside(&n->net, value)) {
        for (int i = 0; i < value->node->operand_count; i++)
            bind_operands(n, value->node->operands[i], stage, row, column, bound, count);
    }
}

/* Is it made at this stage, and for a slot? */
static bool is_made(const network *n, int slot, int stage) {
    const weft_network_slot *s = &n->net.slots[slot];
    return !s->outside && s->value->node->op != WEFT_OP_dot_general &&
           weft_network_stage_of(&n->net, s->value) == stage;
}

static bool is_yielded(const network *n, int result, int stage, int64_t width) {
    const weft_value *value = weft_fusion_yield(n->request->fusion, result);
    return value->type.dims[1] == width && weft_network_stage_of(&n->net, value) == stage;
}

static weft_kval evaluate(network *n, const weft_value *value, int stage, weft_kval row, weft_kval column,
                          const weft_node **bound, int *count) {
    bind_operands(n, value, stage, row, column, bound, count);
    weft_lane_index place[2] = {weft_lane_scalar(row_of(n, row)), weft_lane_scalar(column)};
    return weft_index_value(&n->c, value, place, 1, WEFT_KNONE);
}

static void store_results(network *n, int stage, int64_t width, weft_kval row, weft_kval column,
                          const weft_node **bound, int *count) {
    weft_kernel *k = n->k;
    const weft_node *fusion = n->request->fusion;
    weft_kval values[WEFT_NETWORK_BUFFERS_MAX];
    int results[WEFT_NETWORK_BUFFERS_MAX], found = 0;
    for (int r = 0; r < fusion->result_count && found < WEFT_NETWORK_BUFFERS_MAX; r++) {
        if (!is_yielded(n, r, stage, width)) continue;
        results[found] = r;
        values[found++] = evaluate(n, weft_fusion_yield(fusion, r), stage, row, column, bound, count);
    }
    if (!found) return;
    weft_k_if(k, weft_k_lt(k, weft_k_add(k, n->first, row), n->end));
    size_t mark = weft_index_mark(&n->c);
    weft_lane_index place[2] = {weft_lane_scalar(weft_k_add(k, n->first, row)), weft_lane_scalar(column)};
    for (int i = 0; i < found; i++) weft_index_store(&n->c, results[i], place, 1, WEFT_KNONE, values[i]);
    weft_index_release(&n->c, mark);
    weft_k_end(k);
}

/* All values of one width at the stage, an element a thread. */
static void make_width(network *n, int stage, int64_t width) {
    weft_kernel *k = n->k;
    const weft_node *bound[2 * WEFT_NETWORK_NODES_MAX];
    for (int64_t round = 0; round * n->threads < n->rows * width; round++) {
        weft_kval exists, item = item_of(n, round, n->rows * width, &exists);
        int count = 0;
        size_t mark = weft_index_mark(&n->c);
        if (exists != WEFT_KNONE) weft_k_if(k, exists);
        weft_kval row = weft_k_div(k, item, number(n, width)), column = weft_k_rem(k, item, number(n, width));
        for (int s = 0; s < n->net.slot_count; s++) {
            if (n->net.slots[s].width != width || !is_made(n, s, stage)) continue;
            weft_kval value = evaluate(n, n->net.slots[s].value, stage, row, column, bound, &count);
            weft_k_store(k, n->features, in_slot(n, s, row, column), WEFT_KNONE,
                         to_slot(n, n->net.slots[s].value, value));
        }
        store_results(n, stage, width, row, column, bound, &count);
        if (exists != WEFT_KNONE) weft_k_end(k);
        weft_index_release(&n->c, mark);
    }
}

/* Widths that something at the stage has, each once. */
static bool make_stage(network *n, int stage) {
    bool widths[WEFT_NETWORK_WIDTH_MAX + 1] = {false}, any = false;
    for (int s = 0; s < n->net.slot_count; s++)
        if (is_made(n, s, stage)) widths[n->net.slots[s].width] = true;
    for (int r = 0; r < n->request->fusion->result_count; r++) {
        int64_t width = weft_fusion_yield(n->request->fusion, r)->type.dims[1];
        if (is_yielded(n, r, stage, width)) widths[width] = true;
    }
    for (int width = 1; width <= WEFT_NETWORK_WIDTH_MAX; width++) {
        if (!widths[width]) continue;
        make_width(n, stage, width);
        any = true;
    }
    return any;
}

/* -- products */

/* Four numbers along k of the column `column` of a weight. */
static weft_kval weight_vector(network *n, const weft_network_product *p, weft_kval column, weft_kval step) {
    weft_kernel *k = n->k;
    int64_t pitch = weft_network_pitch(n->net.weights[p->weight].columns);
    weft_kval memory = n->weights[p->weight];
    if (p->contracts_columns) {
        weft_kval vector = weft_k_load(k, memory, at(n, column, pitch, step), 4, WEFT_KNONE, WEFT_KNONE);
        if (!k->failed) k->instrs[vector].align_bytes = 16;
        return vector;
    }
    weft_kval vector = weft_k_constant_lanes(k, WEFT_F32, 0, 4);
    for (int i = 0; i < 4; i++) {
        weft_kval line = weft_k_add(k, step, number(n, i));
        vector =
            weft_k_insert(k, vector, i, weft_k_load(k, memory, at(n, line, pitch, column), 1, WEFT_KNONE, WEFT_KNONE));
    }
    return vector;
}

/* Products of one weight, used the same way, at one stage: rows over groups of threads, a thread has one column of
   every product. */
static void multiply_wide(network *n, const weft_network_product *const *together, int count) {
    weft_kernel *k = n->k;
    const weft_network_product *first = together[0];
    int64_t columns = first->outputs, groups = n->threads / columns < n->rows ? n->threads / columns : n->rows;
    weft_kval column = weft_k_rem(k, n->thread, number(n, columns));
    weft_kval group = weft_k_div(k, n->thread, number(n, columns));
    size_t mark = weft_index_mark(&n->c);
    bool idle = groups * columns < n->threads;
    if (idle) weft_k_if(k, weft_k_lt(k, n->thread, number(n, groups * columns)));
    for (int64_t base = 0; base < n->rows; base += groups) {
        weft_kval row = weft_k_add(k, group, number(n, base));
        bool partial = base + groups > n->rows;
        if (partial) weft_k_if(k, weft_k_lt(k, row, number(n, n->rows)));
        weft_kval sums = weft_k_regs(k, WEFT_F32, 4, count);
        for (int i = 0; i < count; i++) weft_k_set_at(k, sums, number(n, i), weft_k_constant_lanes(k, WEFT_F32, 0, 4));
        weft_kval step = weft_k_for(k, number(n, 0), number(n, (first->inputs + 3) / 4 * 4), number(n, 4), UNROLL);
        weft_kval w = weight_vector(n, first, column, step);
        for (int i = 0; i < count; i++) {
            int slot = weft_network_slot_of(&n->net, together[i]->dot->operands[0]);
            weft_kval x = weft_k_load(k, n->features, in_slot(n, slot, row, step), 4, WEFT_KNONE, WEFT_KNONE);
            if (!k->failed) k->instrs[x].align_bytes = 16;
            weft_k_set_at(k, sums, number(n, i), weft_k_mad(k, w, x, weft_k_get_at(k, sums, number(n, i))));
        }
        weft_k_end(k);
        for (int i = 0; i < count; i++) {
            int slot = weft_network_slot_of(&n->net, &together[i]->dot->results[0]);
            weft_kval sum = weft_k_reduce(k, WEFT_K_reduce_add, weft_k_get_at(k, sums, number(n, i)));
            weft_k_store(k, n->features, in_slot(n, slot, row, column), WEFT_KNONE, sum);
        }
        if (partial) weft_k_end(k);
    }
    if (idle) weft_k_end(k);
    weft_index_release(&n->c, mark);
}

/* A warp for each row and column. */
static void multiply_narrow(network *n, const weft_network_product *p) {
    weft_kernel *k = n->k;
    int warp = k->capability->warp, warps = n->threads / warp;
    int64_t pitch = weft_network_pitch(n->net.weights[p->weight].columns), count = n->rows * p->outputs;
    weft_kval lane = weft_k_rem(k, n->thread, number(n, warp)), own = weft_k_div(k, n->thread, number(n, warp));
    int from = weft_network_slot_of(&n->net, p->dot->operands[0]),
        to = weft_network_slot_of(&n->net, &p->dot->results[0]);
    for (int64_t base = 0; base < count; base += warps) {
        weft_kval item = weft_k_add(k, own, number(n, base));
        size_t mark = weft_index_mark(&n->c);
        bool partial = base + warps > count;
        if (partial) weft_k_if(k, weft_k_lt(k, item, number(n, count)));
        weft_kval row = weft_k_div(k, item, number(n, p->outputs)), column = weft_k_rem(k, item, number(n, p->outputs));
        weft_kval sum = weft_k_float(k, WEFT_F32, 0), zero = sum;
        for (int64_t start = 0; start < p->inputs; start += warp) {
            weft_kval step = weft_k_add(k, lane, number(n, start));
            weft_kval mask = start + warp > p->inputs ? weft_k_lt(k, step, number(n, p->inputs)) : WEFT_KNONE;
            weft_kval other = mask == WEFT_KNONE ? WEFT_KNONE : zero;
            weft_kval place = p->contracts_columns ? at(n, column, pitch, step) : at(n, step, pitch, column);
            weft_kval w = weft_k_load(k, n->weights[p->weight], place, 1, mask, other);
            weft_kval x = weft_k_load(k, n->features, in_slot(n, from, row, step), 1, mask, other);
            sum = weft_k_mad(k, w, x, sum);
        }
        for (int distance = warp / 2; distance > 0; distance /= 2)
            sum = weft_k_add(k, sum, weft_k_shuffle_xor(k, sum, distance));
        weft_k_if(k, weft_k_eq(k, lane, number(n, 0)));
        weft_k_store(k, n->features, in_slot(n, to, row, column), WEFT_KNONE, sum);
        weft_k_end(k);
        if (partial) weft_k_end(k);
        weft_index_release(&n->c, mark);
    }
}

static bool goes_with(const weft_network_product *a, const weft_network_product *b) {
    return a->weight == b->weight && a->contracts_columns == b->contracts_columns && a->stage == b->stage;
}

static bool multiply(network *n, int stage) {
    bool done[WEFT_NETWORK_NODES_MAX] = {false}, any = false;
    for (int p = 0; p < n->net.product_count; p++) {
        const weft_network_product *first = &n->net.products[p], *together[TOGETHER_MAX];
        int count = 0;
        if (first->stage != stage || done[p]) continue;
        any = true;
        if (first->outputs < NARROW) {
            multiply_narrow(n, first);
            continue;
        }
        for (int q = p; q < n->net.product_count && count < TOGETHER_MAX; q++)
            if (!done[q] && goes_with(first, &n->net.products[q]))
                done[q] = true, together[count++] = &n->net.products[q];
        multiply_wide(n, together, count);
    }
    return any;
}

/* -- the kernel */

static int threads_of(const network *n) {
    int64_t widest = 1;
    for (int s = 0; s < n->net.slot_count; s++)
        if (n->net.slots[s].width > widest) widest = n->net.slots[s].width;
    return widest * n->rows > WEFT_NETWORK_THREADS_MAX / 2 ? WEFT_NETWORK_THREADS_MAX : WEFT_NETWORK_THREADS_MAX / 2;
}

static void emit(network *n) {
    weft_kernel *k = n->k;
    for (int w = 0; w < n->net.weight_count; w++) {
        const weft_network_weight *own = &n->net.weights[w];
        n->weights[w] =
            weft_k_shared(k, WEFT_F32, weft_network_weight_lines(own->lines) * weft_network_pitch(own->columns));
    }
    n->features = weft_k_shared(k, WEFT_F32, n->rows * n->net.slot_numbers);
    k->threads = n->threads = threads_of(n);
    k->grid = weft_dim_divide_ceil(k->dims, n->net.rows, n->rows);
    n->thread = weft_k_thread(k);
    n->first = weft_k_mul(k, weft_k_block(k), number(n, n->rows));
    n->end = weft_k_extent(k, n->net.rows);
    load(n);
    bool open = true; /* something was stored since the last barrier */
    for (int stage = 0; stage < n->net.stages; stage++) {
        if (open) weft_k_barrier(k);
        open = make_stage(n, stage);
        if (stage + 1 == n->net.stages) break;
        open |= wait_for_weights(n, stage);
        if (open) weft_k_barrier(k);
        open = multiply(n, stage);
    }
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const char *reason;
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    if (weft_fusion_is_empty(request)) return out_plan->launch_count = 0, NULL;
    network *n = weft_arena_allocate(request->arena, sizeof *n);
    if (!n) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    n->request = request, n->k = weft_plan_kernel(request, "");
    weft_status status = find(request->graph, request->fusion, request->arena, &n->net, &reason)
                             ? NULL
                             : WEFT_STATUS(WEFT_INTERNAL, "rows: %s", reason);
    n->weights = weft_arena_allocate_array(request->arena, (size_t)n->net.weight_count + 1, sizeof *n->weights);
    n->need = weft_arena_allocate_array(request->arena, (size_t)n->net.weight_count + 1, sizeof *n->need);
    n->groups = weft_arena_allocate_array(request->arena, (size_t)n->net.weight_count + 1, sizeof *n->groups);
    n->rows = status ? 0 : weft_network_block_rows(&n->net, request->graph, request->capability);
    if (!status && (!n->k || !n->weights || !n->need || !n->groups))
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    if (!status) status = weft_index_init(request, n->k, &n->c);
    if (!status) {
        emit(n);
        status = weft_index_finish(&n->c);
    }
    weft_network_deinit(&n->net);
    return status ? status : weft_plan_set(request, out_plan, 0, n->k);
}

const weft_builder weft_builder_network = {"network", accepts, propose, build};
