/* The pass "budget": makes a program fit in less memory by running groups a second time.

   A value that is made early and read late, a training step's activations above all, is in memory when most is. Here
   the node is found at which the block's temporaries take most, and of the values that are kept across it without being
   read there those are given up that free most bytes for the time it takes to make them again where they are read next:
   by their group once more, or from the product whose epilogue made them, which is then kept instead of them (one
   tensor for the two of a GELU and its derivative). That is repeated, each time for the largest moment, until the
   budget holds. Groups with products run again only when no other can. Bytes and order are those of the plan that is
   lowered next; padding and reuse inside the planner differ from the sum of sizes by a percent or so.

   Invariant: the same operations from the same values, so the same bits by the graph's meaning. Extents must be
   numbers: values of open ones are kept and count nothing. Source: Chen, Xu, Zhang, Guestrin 2016; the choice by bytes
   per time as Kirisame et al. 2021 ("Dynamic tensor rematerialization"), ahead of time. Read next: again.c. */
#include "passes/fuse/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 8192 };

/* -- places and memory */

int weft_budget_place(const weft_budget *b, const weft_node *node) {
    while (node->block != b->block) node = node->block->region->parent;
    return (int)(intptr_t)node->note;
}

static bool is_alias(const weft_budget *b, const weft_node *node) {
    return node->block == b->block && (node->op == WEFT_OP_reshape || node->op == WEFT_OP_optimization_barrier);
}

weft_value *weft_budget_root(const weft_budget *b, weft_value *value) {
    while (value->node && is_alias(b, value->node))
        value = value->node->operands[value->node->op == WEFT_OP_reshape ? 0 : value->index];
    return value;
}

static void extend(const weft_budget *b, const weft_value *value, weft_budget_span *s) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        const weft_node *user = use->user;
        if (is_alias(b, user)) {
            extend(b, &user->results[user->op == WEFT_OP_reshape ? 0 : use->index], s);
            continue;
        }
        int at = weft_budget_place(b, user);
        s->leaves |= user->op == WEFT_OP_yield && user->block == b->block;
        s->at_peak |= at == b->at;
        if (at > s->last) s->last = at;
        if (at > b->at && (!s->next || at < s->next)) s->next = at;
    }
}

weft_budget_span weft_budget_span_of(const weft_budget *b, const weft_value *root) {
    weft_budget_span s = {.first = weft_budget_place(b, root->node)};
    s.last = s.first, s.at_peak = s.first == b->at;
    extend(b, root, &s);
    return s;
}

/* Does a state take it, and nobody else? Then it is written over the state. */
static bool is_state(const weft_value *value) {
    for (const weft_use *use = value->uses; use; use = use->next)
        if (use->user->op != WEFT_OP_state_update) return false;
    return value->uses != NULL;
}

double weft_budget_bytes(const weft_budget *b, const weft_value *root) {
    const weft_node *node = root->node;
    if (!node || node->block != b->block || node->op == WEFT_OP_state_read || node->op == WEFT_OP_constant ||
        is_alias(b, node) || is_state(root))
        return 0;
    double bytes = weft_fuse_bytes(&root->type);
    return bytes > 0 ? bytes : 0;
}

static weft_status measure(weft_budget *b) {
    b->count = 0;
    for (weft_node *node = b->block->first; node; node = node->next) b->count++;
    size_t places = (size_t)b->count + 2;
    if (!WEFT_ARRAY_RESERVE(b->allocator, b->nodes, b->node_capacity, places) ||
        !WEFT_ARRAY_RESERVE(b->allocator, b->live, b->live_capacity, places))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "places of %d nodes", b->count);
    int place = 0;
    for (weft_node *node = b->block->first; node; node = node->next) {
        node->note = (void *)(intptr_t)++place;
        b->nodes[place] = node;
    }
    memset(b->live, 0, places * sizeof *b->live);
    for (int at = 1; at <= b->count; at++)
        for (int i = 0; i < b->nodes[at]->result_count; i++) {
            const weft_value *value = &b->nodes[at]->results[i];
            double bytes = weft_budget_bytes(b, value);
            if (bytes <= 0) continue;
            weft_budget_span s = weft_budget_span_of(b, value);
            b->live[s.first] += bytes, b->live[s.last + 1] -= bytes;
        }
    double live = 0;
    b->peak = 0, b->at = 1;
    for (int at = 1; at <= b->count; at++) {
        live += b->live[at];
        if (live > b->peak) b->peak = live, b->at = at;
    }
    return NULL;
}

/* What a program holds besides its temporaries. */
static double fixed_bytes(const weft_graph *graph, const weft_block *block) {
    double bytes = 0;
    for (size_t i = 0; i < graph->state_count; i++) {
        double own = weft_fuse_bytes(&graph->states[i].type);
        if (own > 0) bytes += own;
    }
    for (const weft_node *node = block->first; node; node = node->next)
        if (node->op == WEFT_OP_constant) bytes += weft_fuse_bytes(&node->results[0].type);
    return bytes;
}

/* -- choosing */

/* The results of the group that are kept across the peak; a value below a thousandth of it is not worth a launch. */
static bool find_kept(const weft_budget *b, weft_node *group, weft_budget_choice *choice) {
    *choice = (weft_budget_choice){.group = group};
    if (group->op != WEFT_OP_fusion || group->result_count > WEFT_FUSE_RESULTS_MAX) return false;
    for (int i = 0; i < group->result_count; i++) {
        if (weft_budget_bytes(b, &group->results[i]) < b->peak / 1000) continue;
        weft_budget_span s = weft_budget_span_of(b, &group->results[i]);
        if (!s.next || s.at_peak || s.leaves) continue;
        choice->results[choice->count++] = i;
        if (!choice->place || s.next < choice->place) choice->place = s.next;
    }
    return choice->count > 0;
}

/* The product whose epilogue makes results of the group; NULL = there is no epilogue. */
static weft_value *product_of(const weft_node *group) {
    const char *anchor = weft_fuse_anchor_of(group);
    if (strcmp(anchor, "matmul") != 0 && strcmp(anchor, "convolution") != 0) return NULL;
    for (const weft_node *node = weft_fuse_inside(group)->first; node; node = node->next)
        if (node->op == WEFT_OP_dot_general || node->op == WEFT_OP_convolution) return &node->results[0];
    return NULL;
}

static bool is_better(const weft_budget_choice *a, const weft_budget_choice *b) {
    if (!b->group || a->dear != b->dear) return !b->group || b->dear;
    return a->freed * b->seconds > b->freed * a->seconds;
}

static bool choose(weft_budget *b, weft_budget_choice *out_best) {
    weft_budget_choice choice;
    *out_best = (weft_budget_choice){0};
    for (int at = 1; at < b->at; at++) {
        if (!find_kept(b, b->nodes[at], &choice)) continue;
        choice.way = WEFT_BUDGET_AGAIN;
        if (weft_budget_weigh(b, &choice) && is_better(&choice, out_best)) *out_best = choice;
        choice.product = product_of(choice.group);
        if (!choice.product) continue;
        choice.way = WEFT_BUDGET_MAPPED;
        if (weft_budget_weigh(b, &choice) && is_better(&choice, out_best)) *out_best = choice;
    }
    return out_best->group != NULL;
}

/* -- the pass */

static weft_status cannot(const weft_budget *b, double fixed, double budget) {
    const weft_value *largest = NULL;
    for (int at = 1; at <= b->at; at++)
        for (int i = 0; i < b->nodes[at]->result_count; i++) {
            const weft_value *value = &b->nodes[at]->results[i];
            double bytes = weft_budget_bytes(b, value);
            if (bytes > 0 && weft_budget_span_of(b, value).last >= b->at &&
                (!largest || bytes > weft_budget_bytes(b, largest)))
                largest = value;
        }
    weft_text where;
    weft_text_init(b->allocator, &where);
    if (largest) weft_location_print(&largest->node->location, &where);
    weft_status status =
        WEFT_STATUS(WEFT_OUT_OF_MEMORY,
                    "a budget of %.6g MB is too small: %.6g MB are needed with %d groups run again, %.6g of them for "
                    "states and constants; the largest temporary then has %.6g MB (made at %s)",
                    budget / 1e6, (fixed + b->peak) / 1e6, b->groups, fixed / 1e6,
                    largest ? weft_budget_bytes(b, largest) / 1e6 : 0.0, weft_text_string(&where));
    weft_text_deinit(&where);
    return status;
}

static weft_status fit(weft_budget *b, const char *options) {
    double fixed = fixed_bytes(b->graph, b->block);
    WEFT_TRY(measure(b), "measuring");
    double before = fixed + b->peak;
    bool bytes = !strncmp(options, "bytes=", 6), share = !strncmp(options, "share=", 6);
    char *end = NULL;
    double given = bytes || share ? strtod(options + 6, &end) : 0;
    if (!(given > 0) || !isfinite(given) || *end)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "budget{%s}: bytes=N or share=X", options);
    double budget = share ? given * before : given;
    for (int round = 0; fixed + b->peak > budget; round++) {
        weft_budget_choice choice;
        if (round == ROUNDS_MAX || !choose(b, &choice)) return cannot(b, fixed, budget);
        WEFT_TRY(weft_budget_apply(b, &choice), "running %s again", weft_fuse_anchor_of(choice.group));
        WEFT_TRY(measure(b), "measuring");
    }
    if (b->groups)
        weft_context_log(b->graph->context, WEFT_LOG_INFO,
                         "memory: %.1f MB instead of %.1f for a budget of %.1f: %d groups run again, about %.3f ms",
                         (fixed + b->peak) / 1e6, before / 1e6, budget / 1e6, b->groups, b->seconds * 1e3);
    return NULL;
}

weft_status weft_pass_budget(weft_pass_context *context) {
    weft_graph *graph = context->graph;
    bool gpu = context->capability && context->capability->warp > 1;
    /* of a machine whose products are as fast, against its memory, as those that there are: 170 operations a byte on
       GPUs, 5 on CPUs; only their proportion decides */
    weft_budget b = {.graph = graph,
                     .block = graph->body->block,
                     .allocator = graph->context->allocator,
                     .bytes_per_second = gpu ? 3.5e12 : 20e9,
                     .operations_per_second = gpu ? 6e14 : 100e9};
    weft_location location = graph->location;
    weft_status status = fit(&b, context->options ? context->options : "");
    for (weft_node *node = b.block->first; node; node = node->next) node->note = NULL;
    weft_free(b.allocator, b.nodes, b.node_capacity * sizeof(*b.nodes));
    weft_free(b.allocator, b.live, b.live_capacity * sizeof *b.live);
    weft_free(b.allocator, b.pairs, b.pair_capacity * sizeof *b.pairs);
    graph->location = location;
    return status;
}
