/* Merges groups of products into chains: a group follows another when all that leaves the first is the left operand of
   the second's product. Merging never makes a cycle, because nothing else reads the first. Read next: chain.h. */
#include "passes/fuse/chain.h"

#include "passes/fuse/fuse.h"

bool weft_chain_layer_find(const weft_graph *graph, const weft_node *dot, weft_chain_layer *out_layer) {
    if (dot->op != WEFT_OP_dot_general) return false;
    const weft_type *x = weft_operand_type(dot, 0), *w = weft_operand_type(dot, 1);
    const weft_attribute *lhs = weft_node_attribute(dot, WEFT_ATTR_lhs_contract),
                         *rhs = weft_node_attribute(dot, WEFT_ATTR_rhs_contract);
    if (weft_node_attribute(dot, WEFT_ATTR_lhs_batch)->count || lhs->count != 1 || w->rank != 2) return false;
    if (lhs->as.ints[0] != x->rank - 1 || x->dtype != WEFT_F32 || w->dtype != WEFT_F32 ||
        dot->results[0].type.dtype != WEFT_F32)
        return false;
    weft_dtype sum = WEFT_INVALID;
    const weft_attribute *accumulate = weft_node_attribute(dot, WEFT_ATTR_accumulate);
    if (accumulate) sum = accumulate->as.dtype;
    if (sum != WEFT_INVALID && sum != WEFT_F32) return false;
    int k = (int)rhs->as.ints[0];
    if (!weft_dim_is_number(w->dims[0]) || !weft_dim_is_number(w->dims[1])) return false;
    *out_layer = (weft_chain_layer){
        .dot = dot, .inputs = w->dims[k], .outputs = w->dims[1 - k], .outputs_first = k == 1, .rows = 1};
    for (int i = 0; i < x->rank - 1; i++) out_layer->rows = weft_dim_multiply(graph->dims, out_layer->rows, x->dims[i]);
    return out_layer->inputs >= 1 && out_layer->outputs >= 1 && out_layer->inputs <= WEFT_CHAIN_WIDTH_MAX &&
           out_layer->outputs <= WEFT_CHAIN_WIDTH_MAX;
}

static int64_t widest(int count, const weft_chain_layer *layers) {
    int64_t most = layers[0].inputs;
    for (int i = 0; i < count; i++) most = layers[i].outputs > most ? layers[i].outputs : most;
    return most;
}

int64_t weft_chain_shared_bytes(int count, const weft_chain_layer *layers, int rows) {
    int64_t floats = 2 * rows * weft_chain_pitch(widest(count, layers));
    for (int i = 0; i < count; i++) floats += layers[i].outputs * weft_chain_pitch(layers[i].inputs);
    return floats * 4;
}

int weft_chain_rows_max(const weft_capability *capability, int count, const weft_chain_layer *layers) {
    int64_t columns = (widest(count, layers) + 3) / 4; /* threads beside each other */
    int rows = (int)(4 * (WEFT_CHAIN_THREADS / columns));
    rows = rows > WEFT_CHAIN_ROWS_MAX ? WEFT_CHAIN_ROWS_MAX : rows;
    while (rows >= 1 && weft_chain_shared_bytes(count, layers, rows) > capability->shared_bytes) rows /= 2;
    return rows;
}

/* Seconds at `rows` rows, layer by layer and as one kernel: launches and the wait for their first loads, sums, and what
   goes through memory. Layer by layer, sums come in tiles of 64 columns whose pipeline fills for 32 steps of K. Rates
   are those of an H200 (docs/benchmarks-gpu.md, small networks): what counts is which of the two is shorter. */
static void estimate(const weft_capability *capability, int count, const weft_chain_layer *layers, double rows,
                     double *out_apart, double *out_whole) {
    const double launch = 3e-6, rate = 2.5e13, memory = 3.5e12, shared = 1e11;
    double apart = 0, whole = 0, weights = 0, between = 0;
    double blocks = rows / weft_chain_rows_max(capability, count, layers);
    for (int i = 0; i < count; i++) {
        apart += 2 * rows * (double)((layers[i].outputs + 63) / 64 * 64) * (double)(layers[i].inputs + 32);
        whole += 2 * rows * (double)(layers[i].outputs * layers[i].inputs);
        weights += 4 * (double)(layers[i].inputs * layers[i].outputs);
        if (i + 1 < count) between += 2 * 4 * rows * (double)layers[i].outputs;
    }
    double processors = capability->multiprocessors > 0 ? capability->multiprocessors : 64;
    double waves = blocks > processors ? blocks / processors : 1;
    *out_apart = count * launch + apart / rate + between / memory;
    *out_whole = launch + whole / rate + waves * weights / shared;
}

/* Is one kernel faster than a launch a layer, at the fewest and at the most rows? */
static bool pays(const weft_graph *graph, const weft_capability *capability, int count,
                 const weft_chain_layer *layers) {
    int64_t bounds[2];
    weft_dim_bounds(graph->dims, layers[0].rows, &bounds[0], &bounds[1]);
    if (capability->batch_invariant) bounds[0] = 1, bounds[1] = 1 << 16;
    if (bounds[1] > 1 << 20) bounds[1] = 1 << 20;
    for (int i = 0; i < 2; i++) {
        double apart, whole;
        estimate(capability, count, layers, (double)bounds[i], &apart, &whole);
        if (whole >= apart) return false;
    }
    return true;
}

/* -- the pass */

/* The one value of the group that others read, when all of them read it as the left operand of one product. */
static weft_fuse_item *next_product(weft_fuse *fuse, int root, const weft_value **out_value) {
    weft_fuse_item *next = NULL;
    *out_value = NULL;
    for (int i = root; i >= 0; i = fuse->items[i].next) {
        weft_node *node = fuse->items[i].node;
        for (int r = 0; r < node->result_count; r++) {
            if (!weft_fuse_used_outside(fuse, &node->results[r], root)) continue;
            if (*out_value) return NULL;
            *out_value = &node->results[r];
        }
    }
    if (!*out_value) return NULL;
    for (const weft_use *use = (*out_value)->uses; use; use = use->next) {
        weft_fuse_item *user = weft_fuse_item_of(fuse, use->user);
        if (!user || user->node != use->user) return NULL;
        if (weft_fuse_root(fuse, user->order) == root) continue;
        if (user->role != WEFT_FUSE_PRODUCT || use->index != 0 || (next && next != user)) return NULL;
        next = user;
    }
    return next;
}

/* Every node of the group stays at its row: elementwise ops, on the product's shape where they depend on it. */
static bool keeps_rows(const weft_fuse *fuse, int root, const weft_node *dot) {
    const weft_type *y = &dot->results[0].type;
    for (int i = root; i >= 0; i = fuse->items[i].next) {
        const weft_fuse_item *item = &fuse->items[i];
        if (item->node == dot) continue;
        if (!(weft_op_get(item->node->op)->flags & WEFT_FLAG_ELEMENTWISE) || item->node->result_count != 1)
            return false;
        const weft_type *type = &item->node->results[0].type;
        if (item->dependent && type->rank != y->rank) return false;
        for (int a = 0; item->dependent && a < type->rank; a++)
            if (type->dims[a] != y->dims[a]) return false;
    }
    return true;
}

static bool layer_of_group(const weft_fuse *fuse, int root, weft_chain_layer *out) {
    const weft_fuse_item *item = &fuse->items[root];
    if (item->anchor < 0) return false;
    const weft_node *dot = fuse->items[item->anchor].node;
    return weft_chain_layer_find(fuse->graph, dot, out) && keeps_rows(fuse, root, dot);
}

void weft_fuse_chain(weft_fuse *fuse) {
    const weft_capability *capability = fuse->capability;
    if (!capability || capability->warp <= 1 || capability->bindings_max ||
        capability->threads_max < WEFT_CHAIN_THREADS)
        return;
    for (int i = 0; i < fuse->count; i++) {
        weft_chain_layer layers[WEFT_CHAIN_LAYERS_MAX];
        int roots[WEFT_CHAIN_LAYERS_MAX], count = 0, best = 0;
        if (fuse->items[i].role != WEFT_FUSE_PRODUCT) continue;
        int root = weft_fuse_root(fuse, i);
        if (fuse->items[root].chain) continue;
        while (count < WEFT_CHAIN_LAYERS_MAX && layer_of_group(fuse, root, &layers[count])) {
            const weft_value *value;
            roots[count++] = root;
            if (weft_chain_rows_max(capability, count, layers) < 4) break;
            if (count > 1 && pays(fuse->graph, capability, count, layers)) best = count;
            weft_fuse_item *next = next_product(fuse, root, &value);
            if (!next || value->type.dtype != WEFT_F32) break;
            root = weft_fuse_root(fuse, next->order);
        }
        for (int g = 1; g < best; g++) weft_fuse_merge(fuse, roots[g], roots[0]);
        if (best > 1) fuse->items[roots[0]].chain = true;
    }
}
