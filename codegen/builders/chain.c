/* Builder "chain" for GPUs: several small products one after another (passes/fuse/chain.h), a kernel for all layers. A
   block has some rows: it brings every layer's weights into shared memory at once, then takes its rows from layer to
   layer between two sets of features there. Weights lie [N][K], features [row][K], both padded so that four numbers
   along K are one access without bank conflicts; what pads K is zero.

   A thread makes four columns, a quarter of the layer's width apart, for the rows r, r + RG, ... of the block (RG rows
   side by side); four partial sums along K each, combined in a fixed order. Rows past the end repeat the last one and
   are not stored. Read next: passes/fuse/chain.c. */
#include "passes/fuse/chain.h"
#include "codegen/builders/matmul.h"
#include "codegen/builders/plan.h"

enum { COLUMNS = 4, ROWS_EACH_MAX = 4, UNROLL = 4 };

typedef struct chain {
    const weft_graph *graph;
    const weft_node *fusion;
    weft_kernel *k;
    weft_index_context c;
    int count, rows; /* layers; rows of a block */
    weft_chain_layer layers[WEFT_CHAIN_LAYERS_MAX];
    int *stage; /* of results: the layer they belong to */
    weft_kval weights[WEFT_CHAIN_LAYERS_MAX], features[2], sums, thread, first, end;
} chain;

/* While the region is taken apart, notes hold which layer's sums a node is made of: NONE, SEVERAL or the layer. */
enum { NONE = -1, SEVERAL = -2 };

static int layer_of(const weft_value *value, const weft_block *block) {
    if (!value->node || value->node->block != block) return NONE;
    return (int)(intptr_t)value->node->note + NONE;
}

/* What depends on a product stays at its place: elementwise ops and reshapes. */
static bool set_layers(chain *h, const char **out_reason) {
    const weft_block *block = weft_fusion_block(h->fusion);
    for (weft_node *node = block->first; node; node = node->next) {
        int layer = NONE;
        for (int i = 0; i < node->operand_count; i++) {
            int own = layer_of(node->operands[i], block);
            if (own == NONE) continue;
            layer = layer == NONE || layer == own ? own : SEVERAL;
        }
        if (node->op == WEFT_OP_yield) return true;
        if (node->op == WEFT_OP_dot_general) {
            *out_reason = "a product that is no layer";
            if (h->count == WEFT_CHAIN_LAYERS_MAX || !weft_chain_layer_find(h->graph, node, &h->layers[h->count]))
                return false;
            *out_reason = "layers that do not follow each other";
            if (layer_of(node->operands[0], block) != h->count - 1 || layer_of(node->operands[1], block) != NONE)
                return false;
            layer = h->count++;
        } else if (layer != NONE) {
            *out_reason = "values between layers that move";
            if (node->op != WEFT_OP_reshape && !(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE)) return false;
        }
        node->note = (void *)(intptr_t)(layer - NONE);
    }
    return true;
}

static bool find(chain *h, const char **out_reason) {
    const weft_graph *graph = h->graph;
    const weft_node *fusion = h->fusion;
    const weft_block *block = weft_fusion_block(fusion);
    for (weft_node *node = block->first; node; node = node->next) node->note = NULL;
    bool fits = set_layers(h, out_reason);
    if (fits) *out_reason = "layers of different numbers of rows";
    for (int i = 0; i < h->count; i++) fits &= weft_dim_known_equal(graph->dims, h->layers[i].rows, h->layers[0].rows);
    fits &= h->count > 0;
    if (fits) *out_reason = "a result that is not of one layer's shape";
    for (int r = 0; fits && r < fusion->result_count; r++) {
        const weft_value *value = weft_fusion_yield(fusion, r);
        int own = layer_of(value, block);
        fits = own >= 0;
        weft_dim elements = 1;
        for (int a = 0; a < value->type.rank; a++)
            elements = weft_dim_multiply(graph->dims, elements, value->type.dims[a]);
        if (fits)
            fits = weft_dim_known_equal(graph->dims, elements,
                                        weft_dim_multiply(graph->dims, h->layers[own].rows, h->layers[own].outputs));
        if (fits && h->stage) h->stage[r] = own;
    }
    for (weft_node *node = block->first; node; node = node->next) node->note = NULL;
    if (fits) *out_reason = NULL;
    return fits;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    chain h = {.graph = graph, .fusion = fusion};
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    *out_reason = "no warps";
    if (capability->warp <= 1 || capability->threads_max < WEFT_CHAIN_THREADS) return false;
    if (!find(&h, out_reason)) return false;
    *out_reason = "weights do not fit shared memory";
    if (weft_chain_rows_max(capability, h.count, h.layers) < 1) return false;
    *out_reason = "more elements than 32-bit indices reach";
    return weft_fusion_fits_index(graph, fusion, capability) && (*out_reason = NULL, true);
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    (void)request, (void)capacity;
    out_schedules[0] = (weft_schedule){.builder = "chain", .threads = WEFT_CHAIN_THREADS};
    return 1;
}

/* -- the kernel */

static weft_kval number(chain *h, int64_t value) { return weft_k_index(h->k, value); }
static weft_kval at(chain *h, weft_kval row, int64_t pitch, weft_kval column) {
    return weft_k_add(h->k, weft_k_mul(h->k, row, number(h, pitch)), column);
}

/* Items 0 .. count - 1 over the threads of the block, written out: their loads are in flight together. */
typedef void (*chain_item)(chain *h, int layer, weft_kval item);
static void for_items(chain *h, int layer, int64_t count, chain_item body) {
    weft_kernel *k = h->k;
    int64_t whole = count / WEFT_CHAIN_THREADS;
    for (int64_t i = 0; i <= whole; i++) {
        if (i == whole && count % WEFT_CHAIN_THREADS == 0) break;
        weft_kval item = weft_k_add(k, h->thread, number(h, i * WEFT_CHAIN_THREADS));
        size_t mark = weft_index_mark(&h->c);
        if (i == whole) weft_k_if(k, weft_k_lt(k, item, number(h, count)));
        body(h, layer, item);
        if (i == whole) weft_k_end(k);
        weft_index_release(&h->c, mark);
    }
}

/* Numbers of a weight's memory line that one access brings: 4 along the axis that is last there. */
static int weight_lanes(const weft_chain_layer *layer) {
    return (layer->outputs_first ? layer->inputs : layer->outputs) % 4 ? 1 : 4;
}

/* Neighbouring threads take neighbouring vectors of the weight's memory. */
static void load_weight(chain *h, int layer, weft_kval item) {
    const weft_chain_layer *l = &h->layers[layer];
    weft_kernel *k = h->k;
    int lanes = weight_lanes(l);
    int64_t line = (l->outputs_first ? l->inputs : l->outputs) / lanes, pitch = weft_chain_pitch(l->inputs);
    weft_kval slow = weft_k_div(k, item, number(h, line)),
              fast = weft_k_mul(k, weft_k_rem(k, item, number(h, line)), number(h, lanes));
    weft_lane_index index[2] = {weft_lane_scalar(slow), weft_lane_range(fast, lanes)};
    weft_kval value = weft_k_splat(k, weft_index_value(&h->c, l->dot->operands[1], index, lanes, WEFT_KNONE), lanes);
    if (l->outputs_first) {
        weft_k_store(k, h->weights[layer], at(h, slow, pitch, fast), WEFT_KNONE, value);
        return;
    }
    for (int i = 0; i < lanes; i++)
        weft_k_store(k, h->weights[layer], at(h, weft_k_add(k, fast, number(h, i)), pitch, slow), WEFT_KNONE,
                     weft_k_extract(k, value, i));
}

/* The row of the problem that row `row` of the block is: the last one past the end. */
static weft_kval row_of(chain *h, weft_kval row) {
    weft_kernel *k = h->k;
    return weft_k_min(k, weft_k_add(k, h->first, row), weft_k_sub(k, h->end, number(h, 1)));
}

static void load_features(chain *h, int layer, weft_kval item) {
    weft_kernel *k = h->k;
    const weft_chain_layer *l = &h->layers[layer];
    weft_kval row = weft_k_div(k, item, number(h, l->inputs)), column = weft_k_rem(k, item, number(h, l->inputs));
    weft_lane_index flat = weft_lane_scalar(at(h, row_of(h, row), l->inputs, column));
    weft_kval value = weft_index_value_flat(&h->c, l->dot->operands[0], flat, 1, WEFT_KNONE);
    weft_k_store(k, h->features[0], at(h, row, weft_chain_pitch(l->inputs), column), WEFT_KNONE, value);
}

/* Zeros between the last input and the next multiple of four: of weights and of the first features. */
static void pad(chain *h, weft_kval memory, int64_t lines, int64_t inputs) {
    weft_kernel *k = h->k;
    int64_t missing = (4 - inputs % 4) % 4;
    for (int64_t start = 0; missing && start < lines * missing; start += WEFT_CHAIN_THREADS) {
        weft_kval item = weft_k_add(k, h->thread, number(h, start));
        weft_k_if(k, weft_k_lt(k, item, number(h, lines * missing)));
        weft_kval line = weft_k_div(k, item, number(h, missing)),
                  column = weft_k_add(k, weft_k_rem(k, item, number(h, missing)), number(h, inputs));
        weft_k_store(k, memory, at(h, line, weft_chain_pitch(inputs), column), WEFT_KNONE,
                     weft_k_float(k, WEFT_F32, 0));
        weft_k_end(k);
    }
}

typedef struct place {
    int64_t beside, rows_each;                     /* rows of the block side by side, rows of a thread */
    weft_kval column[COLUMNS], row[ROWS_EACH_MAX]; /* columns past the width read the last one */
    weft_kval inside[COLUMNS];                     /* WEFT_KNONE = always */
} place;

static place place_thread(chain *h, const weft_chain_layer *l) {
    weft_kernel *k = h->k;
    int64_t apart = (l->outputs + COLUMNS - 1) / COLUMNS;
    place p = {.beside = WEFT_CHAIN_THREADS / apart};
    if (p.beside > h->rows) p.beside = h->rows;
    p.rows_each = (h->rows + p.beside - 1) / p.beside;
    weft_kval own = weft_k_rem(k, h->thread, number(h, apart)), group = weft_k_div(k, h->thread, number(h, apart));
    for (int j = 0; j < COLUMNS; j++) {
        weft_kval column = weft_k_add(k, own, number(h, j * apart));
        p.inside[j] = (j + 1) * apart <= l->outputs ? WEFT_KNONE : weft_k_lt(k, column, number(h, l->outputs));
        p.column[j] = p.inside[j] == WEFT_KNONE ? column : weft_k_min(k, column, number(h, l->outputs - 1));
    }
    for (int64_t q = 0; q < p.rows_each; q++)
        p.row[q] = weft_k_min(k, weft_k_add(k, group, number(h, q * p.beside)), number(h, h->rows - 1));
    return p;
}

/* The sums of a thread: [column][row], four partial sums along K each. */
static void sum_products(chain *h, int layer, const place *p) {
    weft_kernel *k = h->k;
    const weft_chain_layer *l = &h->layers[layer];
    int64_t pitch = weft_chain_pitch(l->inputs), steps = (l->inputs + 3) / 4;
    int count = (int)(COLUMNS * p->rows_each);
    weft_kval sums = h->sums;
    for (int i = 0; i < count; i++) weft_k_set_at(k, sums, number(h, i), weft_k_constant_lanes(k, WEFT_F32, 0, 4));
    weft_kval step = weft_k_for(k, number(h, 0), number(h, 4 * steps), number(h, 4), UNROLL);
    weft_kval features[ROWS_EACH_MAX];
    for (int64_t q = 0; q < p->rows_each; q++)
        features[q] = weft_k_load(k, h->features[layer % 2], at(h, p->row[q], pitch, step), 4, WEFT_KNONE, WEFT_KNONE);
    for (int j = 0; j < COLUMNS; j++) {
        weft_kval w = weft_k_load(k, h->weights[layer], at(h, p->column[j], pitch, step), 4, WEFT_KNONE, WEFT_KNONE);
        if (!k->failed) k->instrs[w].align_bytes = 16;
        for (int64_t q = 0; q < p->rows_each; q++) {
            weft_kval slot = number(h, j * p->rows_each + q);
            weft_k_set_at(k, sums, slot, weft_k_mad(k, w, features[q], weft_k_get_at(k, sums, slot)));
        }
    }
    for (int64_t q = 0; q < p->rows_each && !k->failed; q++) k->instrs[features[q]].align_bytes = 16;
    weft_k_end(k);
}

/* One output: into the next layer's features, and to the results of this layer. */
static void finish(chain *h, int layer, weft_kval sum, weft_kval row, weft_kval column, weft_kval inside) {
    weft_kernel *k = h->k;
    const weft_chain_layer *l = &h->layers[layer];
    size_t mark = weft_index_mark(&h->c);
    weft_index_bind(&h->c, &l->dot->results[0], weft_product_finish(&h->c, l->dot, sum));
    weft_lane_index flat = weft_lane_scalar(at(h, row_of(h, row), l->outputs, column));
    if (layer + 1 < h->count) {
        int64_t pitch = weft_chain_pitch(l->outputs);
        weft_kval value = weft_index_value_flat(&h->c, h->layers[layer + 1].dot->operands[0], flat, 1, WEFT_KNONE);
        if (inside != WEFT_KNONE) weft_k_if(k, inside);
        weft_k_store(k, h->features[(layer + 1) % 2], at(h, row, pitch, column), WEFT_KNONE, value);
        if (inside != WEFT_KNONE) weft_k_end(k);
    }
    weft_kval exists = weft_k_lt(k, weft_k_add(k, h->first, row), h->end);
    if (inside != WEFT_KNONE) exists = weft_k_and(k, exists, inside);
    for (int r = 0; r < h->fusion->result_count; r++) {
        if (h->stage[r] != layer) continue;
        weft_k_if(k, exists);
        size_t inner = weft_index_mark(&h->c);
        weft_index_emit_flat(&h->c, r, flat, 1, WEFT_KNONE);
        weft_index_release(&h->c, inner);
        weft_k_end(k);
    }
    weft_index_release(&h->c, mark);
}

static void emit_layer(chain *h, int layer) {
    weft_kernel *k = h->k;
    const weft_chain_layer *l = &h->layers[layer];
    int64_t apart = (l->outputs + COLUMNS - 1) / COLUMNS;
    place p = place_thread(h, l);
    int64_t busy = apart * p.beside;
    if (busy < WEFT_CHAIN_THREADS) weft_k_if(k, weft_k_lt(k, h->thread, number(h, busy)));
    size_t mark = weft_index_mark(&h->c);
    sum_products(h, layer, &p);
    for (int64_t q = 0; q < p.rows_each; q++)
        for (int j = 0; j < COLUMNS; j++) {
            weft_kval sum =
                weft_k_reduce(k, WEFT_K_reduce_add, weft_k_get_at(k, h->sums, number(h, j * p.rows_each + q)));
            finish(h, layer, sum, p.row[q], p.column[j], p.inside[j]);
        }
    weft_index_release(&h->c, mark);
    if (busy < WEFT_CHAIN_THREADS) weft_k_end(k);
    if (layer + 1 < h->count) pad(h, h->features[(layer + 1) % 2], h->rows, l->outputs);
}

static void emit(chain *h) {
    weft_kernel *k = h->k;
    int64_t pitch = 0;
    for (int i = 0; i < h->count; i++) {
        int64_t own = weft_chain_pitch(h->layers[i].inputs);
        pitch = own > pitch ? own : pitch;
        h->weights[i] = weft_k_shared(k, WEFT_F32, h->layers[i].outputs * own);
    }
    h->sums = weft_k_regs(k, WEFT_F32, 4, COLUMNS * ROWS_EACH_MAX);
    for (int i = 0; i < 2; i++) h->features[i] = weft_k_shared(k, WEFT_F32, h->rows * pitch);
    k->threads = WEFT_CHAIN_THREADS;
    k->grid = weft_dim_divide_ceil(k->dims, h->layers[0].rows, h->rows);
    h->thread = weft_k_thread(k);
    h->first = weft_k_mul(k, weft_k_block(k), number(h, h->rows));
    h->end = weft_k_extent(k, h->layers[0].rows);
    for_items(h, 0, h->rows * h->layers[0].inputs, load_features);
    pad(h, h->features[0], h->rows, h->layers[0].inputs);
    for (int i = 0; i < h->count; i++) {
        const weft_chain_layer *l = &h->layers[i];
        for_items(h, i, l->inputs * l->outputs / weight_lanes(l), load_weight);
        pad(h, h->weights[i], l->outputs, l->inputs);
    }
    for (int i = 0; i < h->count; i++) {
        weft_k_barrier(k);
        emit_layer(h, i);
    }
}

static weft_status build_kernel(const weft_build_request *request, int rows, const char *suffix, weft_kernel **out) {
    const char *reason;
    chain *h = weft_arena_allocate(request->arena, sizeof *h);
    if (!h) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    *h = (chain){
        .graph = request->graph, .fusion = request->fusion, .k = weft_plan_kernel(request, suffix), .rows = rows};
    h->stage = weft_arena_allocate_array(request->arena, (size_t)request->fusion->result_count + 1, sizeof *h->stage);
    if (!h->k || !h->stage) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    if (!find(h, &reason)) return WEFT_STATUS(WEFT_INTERNAL, "chain: %s", reason);
    WEFT_TRY(weft_index_init(request, h->k, &h->c), "building %s", request->name);
    emit(h);
    *out = h->k;
    return weft_index_finish(&h->c);
}

/* Few rows: a few a block, so that all processors work; many: as many as four a thread. */
static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const char *reason;
    chain h = {.graph = request->graph, .fusion = request->fusion};
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    if (weft_fusion_is_empty(request)) return out_plan->launch_count = 0, NULL;
    if (!find(&h, &reason)) return WEFT_STATUS(WEFT_INTERNAL, "chain: %s", reason);
    int most = weft_chain_rows_max(request->capability, h.count, h.layers), few = most < 4 ? most : 4;
    int64_t low, high,
        processors = request->capability->multiprocessors > 0 ? request->capability->multiprocessors : 64;
    weft_dim_bounds(request->graph->dims, h.layers[0].rows, &low, &high);
    weft_plan_variant *variants = weft_arena_allocate_array(request->arena, 2, sizeof *variants);
    weft_condition *condition = weft_arena_allocate(request->arena, sizeof *condition);
    if (!variants || !condition) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    int count = 0;
    if (low <= few * processors) {
        *condition = (weft_condition){.relation = WEFT_RELATION_LE, .lhs = h.layers[0].rows, .rhs = few * processors};
        WEFT_TRY(build_kernel(request, few, "_few", &variants[count].kernel), "building %s", request->name);
        bool always = high <= few * processors;
        variants[count].condition_count = always ? 0 : 1;
        variants[count++].conditions = always ? NULL : condition;
    }
    if (high > few * processors) {
        WEFT_TRY(build_kernel(request, most, "_many", &variants[count].kernel), "building %s", request->name);
        count++;
    }
    out_plan->launches[0] = (weft_plan_launch){.variant_count = count, .variants = variants};
    return NULL;
}

extern const weft_builder weft_builder_chain;
const weft_builder weft_builder_chain = {.name = "chain", .accepts = accepts, .propose = propose, .build = build};
