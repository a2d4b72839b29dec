/* Finding networks over rows, and what a network keeps where: network.h. The pass: of all nodes that could take part,
   those whose operands do not come around through others; so nothing that leaves the network comes back into it. */
#include "passes/fuse/network.h"

#include "passes/fuse/chain.h"
#include "passes/fuse/fuse.h"

/* -- what a network is */

static bool is_number_type(const weft_type *type) { return type->dtype == WEFT_F32 || type->dtype == WEFT_BOOL; }

static bool is_rows_type(const weft_graph *graph, const weft_type *type, weft_dim rows) {
    return type->rank == 2 && is_number_type(type) && weft_dim_known_equal(graph->dims, type->dims[0], rows) &&
           weft_dim_is_number(type->dims[1]) && type->dims[1] >= 1 && type->dims[1] <= WEFT_NETWORK_WIDTH_MAX;
}

bool weft_network_takes(const weft_graph *graph, const weft_node *node, weft_dim rows) {
    weft_chain_layer layer;
    if (node->result_count != 1 || !is_rows_type(graph, &node->results[0].type, rows)) return false;
    if (node->op == WEFT_OP_dot_general)
        return weft_chain_layer_find(graph, node, &layer) && is_rows_type(graph, weft_operand_type(node, 0), rows);
    if (!(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE)) return false;
    for (int i = 0; i < node->operand_count; i++)
        if (!is_rows_type(graph, weft_operand_type(node, i), rows)) return false;
    return true;
}

bool weft_network_is_constant(const weft_value *value) {
    const weft_node *node = value->node;
    if (!node) return false;
    if (node->op == WEFT_OP_broadcast || node->op == WEFT_OP_reshape)
        return weft_network_is_constant(node->operands[0]);
    return node->op == WEFT_OP_constant && value->type.rank == 0;
}

static int number_of(const weft_network *net, const weft_value *value) {
    const weft_node *node = value->node;
    return node ? (int)(uintptr_t)weft_map_find(&net->numbers, &node, sizeof node) - 1 : -1;
}

bool weft_network_is_inside(const weft_network *net, const weft_value *value) { return number_of(net, value) >= 0; }

int weft_network_stage_of(const weft_network *net, const weft_value *value) {
    int number = number_of(net, value);
    return number < 0 ? 0 : net->stage[number];
}

int weft_network_slot_of(const weft_network *net, const weft_value *value) {
    return (int)(uintptr_t)weft_map_find(&net->places, &value, sizeof value) - 1;
}

static bool add_slot(weft_network *net, const weft_value *value) {
    if (weft_network_slot_of(net, value) >= 0) return true;
    int64_t width = value->type.dims[1];
    net->slots[net->slot_count] = (weft_network_slot){
        .value = value, .width = width, .at = net->slot_numbers, .outside = !weft_network_is_inside(net, value)};
    net->slot_numbers += weft_network_pitch(width);
    return weft_map_put(&net->places, &value, sizeof value, (void *)(uintptr_t)(++net->slot_count));
}

static int find_weight(weft_network *net, const weft_value *value) {
    int i = 0;
    while (i < net->weight_count && net->weights[i].value != value) i++;
    if (i < net->weight_count) return i;
    net->weights[i] = (weft_network_weight){value, value->type.dims[0], value->type.dims[1]};
    net->weight_numbers += weft_network_weight_lines(value->type.dims[0]) * weft_network_pitch(value->type.dims[1]);
    return net->weight_count++;
}

static void add_product(weft_network *net, const weft_graph *graph, const weft_node *dot) {
    weft_chain_layer layer;
    (void)weft_chain_layer_find(graph, dot, &layer);
    net->products[net->product_count++] = (weft_network_product){.dot = dot,
                                                                 .weight = find_weight(net, dot->operands[1]),
                                                                 .stage = weft_network_stage_of(net, dot->operands[0]),
                                                                 .contracts_columns = layer.outputs_first,
                                                                 .inputs = layer.inputs,
                                                                 .outputs = layer.outputs};
}

/* Slots: what products read and make, what later stages read of earlier ones, what comes from outside. */
static bool place_values(weft_network *net) {
    bool memory = true;
    for (int n = 0; n < net->node_count && memory; n++) {
        const weft_node *node = net->nodes[n];
        bool product = node->op == WEFT_OP_dot_general;
        if (product) memory = add_slot(net, node->operands[0]) && add_slot(net, &node->results[0]);
        for (int i = 0; i < node->operand_count && !product && memory; i++) {
            const weft_value *operand = node->operands[i];
            bool later = weft_network_is_inside(net, operand) ? weft_network_stage_of(net, operand) < net->stage[n]
                                                              : !weft_network_is_constant(operand);
            if (later) memory = add_slot(net, operand);
        }
    }
    return memory;
}

weft_status weft_network_init(const weft_graph *graph, int count, const weft_node *const *nodes, weft_dim rows,
                              weft_arena *arena, weft_network *out_net) {
    weft_network *net = out_net;
    size_t size = (size_t)count + 1, slots = size;
    for (int n = 0; n < count; n++) slots += (size_t)nodes[n]->operand_count;
    *net = (weft_network){.rows = rows, .node_count = count};
    weft_map_init(graph->context->allocator, &net->numbers);
    weft_map_init(graph->context->allocator, &net->places);
    net->nodes = weft_arena_allocate_array(arena, size, sizeof *net->nodes);
    net->stage = weft_arena_allocate_array(arena, size, sizeof *net->stage);
    net->weights = weft_arena_allocate_array(arena, size, sizeof *net->weights);
    net->products = weft_arena_allocate_array(arena, size, sizeof *net->products);
    net->slots = weft_arena_allocate_array(arena, slots, sizeof *net->slots);
    bool memory = net->nodes && net->stage && net->weights && net->products && net->slots;
    for (int n = 0; n < count && memory; n++) {
        const weft_node *node = net->nodes[n] = nodes[n];
        bool product = node->op == WEFT_OP_dot_general;
        int stage = 0;
        for (int i = 0; i < (product ? 1 : node->operand_count); i++) {
            int own = weft_network_stage_of(net, node->operands[i]) + product;
            stage = own > stage ? own : stage;
        }
        net->stage[n] = stage;
        if (stage >= net->stages) net->stages = stage + 1;
        memory = weft_map_put(&net->numbers, &node, sizeof node, (void *)(uintptr_t)(n + 1));
        if (product && memory) add_product(net, graph, node);
    }
    return memory && place_values(net) ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a network over rows");
}

void weft_network_deinit(weft_network *net) {
    weft_map_deinit(&net->numbers);
    weft_map_deinit(&net->places);
}

int64_t weft_network_shared_bytes(const weft_network *net, int rows) {
    return 4 * (net->weight_numbers + rows * net->slot_numbers);
}

static int64_t most_rows(const weft_network *net, const weft_graph *graph) {
    int64_t least, most;
    weft_dim_bounds(graph->dims, net->rows, &least, &most);
    return most;
}

static int64_t processors_of(const weft_capability *capability) {
    return capability->multiprocessors > 0 ? capability->multiprocessors : 16;
}

int weft_network_block_rows(const weft_network *net, const weft_graph *graph, const weft_capability *capability) {
    int64_t rows = most_rows(net, graph), processors = processors_of(capability);
    int each = rows / processors >= WEFT_NETWORK_BLOCK_ROWS_MAX ? WEFT_NETWORK_BLOCK_ROWS_MAX
                                                                : (int)((rows + processors - 1) / processors);
    while (each > 0 && weft_network_shared_bytes(net, each) > capability->shared_bytes) each--;
    return each;
}

/* -- the pass */

typedef enum mark { MARK_NONE, MARK_INSIDE, MARK_AFTER } mark; /* AFTER: outside, and depends on what is inside */

typedef struct search {
    weft_fuse *fuse;
    weft_dim rows;
    unsigned char *marks; /* by item */
    const weft_node **nodes;
    int count;
} search;

static weft_fuse_item *producer_of(const search *s, const weft_value *value) {
    return value->node && value->node->block == s->fuse->block ? value->node->note : NULL;
}

/* Features put together from what lies in memory: evaluated with the weights, before the first stage. */
static bool is_source(const search *s, const weft_node *node) {
    if (node->op != WEFT_OP_concat || !is_rows_type(s->fuse->graph, &node->results[0].type, s->rows)) return false;
    for (int i = 0; i < node->operand_count; i++) {
        const weft_fuse_item *item = producer_of(s, node->operands[i]);
        if (item && s->marks[item->order] != MARK_NONE) return false;
    }
    return true;
}

static bool may_enter(const search *s, const weft_fuse_item *item) {
    if (item->effect || (item->role != WEFT_FUSE_POINT && item->role != WEFT_FUSE_PRODUCT)) return false;
    if (is_source(s, item->node)) return true;
    if (!weft_network_takes(s->fuse->graph, item->node, s->rows)) return false;
    for (int i = 0; i < item->node->operand_count; i++) {
        const weft_fuse_item *producer = producer_of(s, item->node->operands[i]);
        bool weight = i > 0 && item->node->op == WEFT_OP_dot_general;
        if (producer && (s->marks[producer->order] == MARK_AFTER || (weight && s->marks[producer->order])))
            return false;
    }
    return true;
}

/* Whoever reads it, regions of control flow too, comes after the network unless it enters. */
static void mark_users(search *s, const weft_fuse_item *item) {
    for (int r = 0; r < item->node->result_count; r++)
        for (const weft_use *use = item->node->results[r].uses; use; use = use->next) {
            const weft_fuse_item *user = weft_fuse_item_of(s->fuse, use->user);
            if (user && user != item) s->marks[user->order] = MARK_AFTER;
        }
    if (item->next_effect >= 0) s->marks[item->next_effect] = MARK_AFTER;
}

static void enter(search *s) {
    for (int i = 0; i < s->fuse->count; i++) s->marks[i] = MARK_NONE;
    for (int i = 0; i < s->fuse->count; i++) {
        const weft_fuse_item *item = &s->fuse->items[i];
        if (may_enter(s, item)) s->marks[i] = MARK_INSIDE;
        if (s->marks[i] != MARK_NONE) mark_users(s, item);
    }
}

/* Does a product or a member of the network that stays read it? Or does it itself read a product of the network? */
static bool feeds(const search *s, const weft_fuse_item *item) {
    for (const weft_use *use = item->node->results[0].uses; use; use = use->next) {
        const weft_fuse_item *user = weft_fuse_item_of(s->fuse, use->user);
        if (user && user->node == use->user && s->marks[user->order] == MARK_INSIDE) return true;
    }
    return false;
}

static bool only_reduced(const search *s, const weft_fuse_item *item) {
    const weft_use *use = item->node->results[0].uses;
    bool reduced = use != NULL;
    for (; use && reduced; use = use->next) {
        const weft_fuse_item *user = weft_fuse_item_of(s->fuse, use->user);
        reduced = user && user->node == use->user &&
                  (user->role == WEFT_FUSE_REDUCE || (user->role == WEFT_FUSE_VIEW && only_reduced(s, user)));
    }
    return reduced;
}

/* Backwards: elementwise work that no product of the network needs stays with whoever reads it, when it depends on none
   or only sums read it, whose first step it becomes. */
static void leave(search *s, bool *fed) {
    for (int i = 0; i < s->fuse->count; i++) {
        const weft_fuse_item *item = &s->fuse->items[i];
        fed[i] = s->marks[i] == MARK_INSIDE && item->role == WEFT_FUSE_PRODUCT;
        for (int o = 0; o < item->node->operand_count && s->marks[i] == MARK_INSIDE; o++) {
            const weft_fuse_item *producer = producer_of(s, item->node->operands[o]);
            fed[i] |= producer && s->marks[producer->order] == MARK_INSIDE && fed[producer->order];
        }
    }
    for (int i = s->fuse->count - 1; i >= 0; i--) {
        const weft_fuse_item *item = &s->fuse->items[i];
        if (s->marks[i] != MARK_INSIDE || item->role == WEFT_FUSE_PRODUCT || feeds(s, item)) continue;
        if (!fed[i] || only_reduced(s, item)) s->marks[i] = MARK_AFTER;
    }
}

/* Buffers of the kernel: results that others read, and what is read. */
static int count_buffers(search *s, int *out_results) {
    weft_fuse *fuse = s->fuse;
    int count = 0, root = -1;
    *out_results = 0;
    for (int i = 0; i < fuse->count; i++) { /* for the time being one group, so that its outside is seen */
        if (s->marks[i] != MARK_INSIDE) continue;
        if (root < 0) root = i;
        fuse->items[i].parent = root;
    }
    int stamp = ++fuse->stamp;
    for (int i = 0; i < fuse->count; i++) {
        if (s->marks[i] != MARK_INSIDE) continue;
        const weft_node *node = fuse->items[i].node;
        *out_results += weft_fuse_used_outside(fuse, &node->results[0], root);
        for (int o = 0; o < node->operand_count; o++) {
            const weft_value *source = weft_fuse_source(node->operands[o]);
            weft_fuse_item *item = source->node ? weft_fuse_item_of(fuse, source->node) : NULL;
            bool free = item && (s->marks[item->order] == MARK_INSIDE || item->role == WEFT_FUSE_COPY);
            if (free || (item && item->stamp == stamp)) continue;
            if (item) item->stamp = stamp;
            count++;
        }
    }
    for (int i = 0; i < fuse->count; i++)
        if (s->marks[i] == MARK_INSIDE) fuse->items[i].parent = i;
    return count + *out_results;
}

/* Seconds: stage by stage, each one launch (compile/lower_join.c) whose products run one tile after another; and as one
   kernel, of whose stages each waits for shared memory. Rates as in chain.c. */
static bool pays(const weft_network *net, const weft_graph *graph, const weft_capability *capability) {
    const double launch = 2.5e-6, rate = 2e13, shared = 1e11, stage = 0.35e-6, block_rate = 2e11;
    int each = weft_network_block_rows(net, graph, capability);
    if (each < 1) return false;
    double rows = (double)most_rows(net, graph), products = 0, waves = rows / each / (double)processors_of(capability);
    for (int p = 0; p < net->product_count; p++)
        products += (double)(net->products[p].inputs * net->products[p].outputs);
    double apart = net->stages * launch + 2 * rows * products / rate;
    double whole = 4 * (double)net->weight_numbers / shared + net->stages * stage + each * products / block_rate;
    return launch + (waves > 1 ? waves : 1) * whole < apart;
}

/* Layers one after another, of which others see the last only: chain.c's, unless rows are so few that a block has one
   or two of them, where chain.c's tiles of rows leave most threads idle. */
static bool is_chain(const weft_network *net, int results) { return net->product_count < net->stages && results == 1; }

static weft_status take(search *s, weft_arena *arena) {
    weft_fuse *fuse = s->fuse;
    weft_network net;
    s->count = 0;
    for (int i = 0; i < fuse->count; i++)
        if (s->marks[i] == MARK_INSIDE && fuse->items[i].node->op != WEFT_OP_concat)
            s->nodes[s->count++] = fuse->items[i].node;
    int results, most = fuse->capability->bindings_max;
    if (!most || most > WEFT_NETWORK_BUFFERS_MAX) most = WEFT_NETWORK_BUFFERS_MAX;
    if (s->count < 2 || s->count > WEFT_NETWORK_NODES_MAX || count_buffers(s, &results) > most) return NULL;
    weft_status status = weft_network_init(fuse->graph, s->count, s->nodes, s->rows, arena, &net);
    bool found = !status && net.stages > 2 && !fuse->capability->batch_invariant &&
                 pays(&net, fuse->graph, fuse->capability) &&
                 (!is_chain(&net, results) || weft_network_block_rows(&net, fuse->graph, fuse->capability) <= 2);
    weft_network_deinit(&net);
    int root = -1;
    for (int i = 0; i < fuse->count && found; i++) {
        if (s->marks[i] != MARK_INSIDE) continue;
        fuse->items[i].role = WEFT_FUSE_NETWORK;
        if (root >= 0) weft_fuse_merge(fuse, i, root);
        if (root < 0) root = i;
    }
    return status;
}

/* Every number of rows that some product has, in order of appearance; what one network took is gone for the next. */
weft_status weft_fuse_network(weft_fuse *fuse) {
    const weft_capability *capability = fuse->capability;
    if (!capability || capability->warp <= 1 || capability->threads_max < WEFT_NETWORK_THREADS_MAX) return NULL;
    weft_arena arena;
    weft_arena_init(fuse->allocator, &arena);
    size_t size = (size_t)fuse->count + 1;
    search s = {.fuse = fuse,
                .marks = weft_arena_allocate(&arena, size),
                .nodes = weft_arena_allocate_array(&arena, size, sizeof *s.nodes)};
    bool *fed = weft_arena_allocate_array(&arena, size, sizeof *fed);
    weft_dim *tried = weft_arena_allocate_array(&arena, size, sizeof *tried);
    weft_status status =
        s.marks && s.nodes && fed && tried ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "networks over rows");
    int count = 0;
    for (int i = 0; i < fuse->count && !status; i++) {
        if (fuse->items[i].role != WEFT_FUSE_PRODUCT || fuse->items[i].node->op != WEFT_OP_dot_general) continue;
        s.rows = fuse->items[i].node->results[0].type.dims[0];
        bool seen = false;
        for (int t = 0; t < count; t++) seen |= tried[t] == s.rows;
        if (seen || fuse->items[i].node->results[0].type.rank != 2 ||
            !weft_network_takes(fuse->graph, fuse->items[i].node, s.rows))
            continue;
        tried[count++] = s.rows;
        enter(&s);
        leave(&s, fed);
        status = take(&s, &arena);
    }
    weft_arena_deinit(&arena);
    return status;
}
