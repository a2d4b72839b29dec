/* What the graph knows of a program's steps: how many operations they are, whether they belong to a derivative or to
   the update of a state, and whose derivative. The graph is lowered once more, without kernels' code, so that each step
   has its node; passes and lowering are functions of the graph, so the steps are the same.

   Operations are multiplications and additions of the mathematics: a product of M by K by N has 2 M K N, other nodes
   one an element. Read next: profile_words.c. */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/builders/builder.h"
#include "compile/unit.h"
#include "ir/build.h"
#include "passes/pass.h"

typedef struct counter {
    const weft_graph *graph;
    const weft_graph *source; /* as it was built: origins are its nodes */
    const int64_t *symbols;
} counter;

static double extent(const counter *c, weft_dim dim) {
    int64_t value;
    return weft_dim_evaluate(c->graph->dims, dim, c->symbols, &value) ? (double)value : 0;
}

static double elements(const counter *c, const weft_type *type) {
    double count = 1;
    for (int i = 0; i < type->rank; i++) count *= extent(c, type->dims[i]);
    return count;
}

static double of_node(const counter *c, const weft_node *node);

static double of_block(const counter *c, const weft_block *block) {
    double sum = 0;
    for (const weft_node *node = block->first; node; node = node->next) sum += of_node(c, node);
    return sum;
}

static double of_product(const counter *c, const weft_node *node) {
    const weft_attribute *contract = weft_node_attribute(node, WEFT_ATTR_lhs_contract);
    double sum = 2 * elements(c, &node->results[0].type);
    for (int i = 0; i < contract->count; i++) sum *= extent(c, node->operands[0]->type.dims[contract->as.ints[i]]);
    return sum;
}

/* q [B, H, T, D], k [.., S, D], v [.., S, E] */
static double of_attention(const counter *c, const weft_node *node) {
    const weft_type *q = &node->operands[0]->type, *v = &node->operands[2]->type;
    double rows = elements(c, q) / extent(c, q->dims[q->rank - 1]), keys = extent(c, v->dims[v->rank - 2]);
    double wide = extent(c, q->dims[q->rank - 1]) + extent(c, v->dims[v->rank - 1]);
    double share = weft_node_int(node, WEFT_ATTR_causal, 0) ? 0.5 : 1;
    return share * 2 * rows * keys * wide * (node->op == WEFT_OP_attention ? 1 : 2.5);
}

static double of_node(const counter *c, const weft_node *node) {
    if (!node->result_count) return 0;
    const weft_type *first = &node->results[0].type;
    switch ((int)node->op) {
    case WEFT_OP_dot_general: return of_product(c, node);
    case WEFT_OP_ragged_dot: /* every row is of one group at most */
        return 2 * elements(c, &node->operands[0]->type) *
               (node->operands[1]->type.rank == 3 ? extent(c, first->dims[1]) : extent(c, first->dims[2]));
    case WEFT_OP_scaled_dot: return 2 * elements(c, first) * extent(c, node->operands[0]->type.dims[first->rank - 1]);
    case WEFT_OP_convolution: {
        const weft_type *w = &node->operands[1]->type;
        return 2 * elements(c, first) * elements(c, w) / extent(c, w->dims[0]);
    }
    case WEFT_OP_attention:
    case WEFT_OP_attention_backward: return of_attention(c, node);
    case WEFT_OP_reduce:
    case WEFT_OP_scatter:
    case WEFT_OP_cumulative: return elements(c, &node->operands[node->op == WEFT_OP_scatter ? 2 : 0]->type);
    case WEFT_OP_fusion:
    case WEFT_OP_cond: return of_block(c, node->regions[0]->block);
    case WEFT_OP_scan: {
        const weft_attribute *trips = weft_node_attribute(node, WEFT_ATTR_trips);
        return extent(c, trips->as.dims[0]) * of_block(c, node->regions[0]->block);
    }
    default: break;
    }
    bool computes = node->operand_count && !(weft_op_get(node->op)->flags & WEFT_FLAG_VIEW);
    return computes ? elements(c, first) : 0;
}

/* The result of an update of a state. */
static bool updates(const weft_node *node) {
    for (int i = 0; i < node->result_count; i++)
        for (const weft_use *use = node->results[i].uses; use; use = use->next)
            if (use->user->op == WEFT_OP_state_update) return true;
    return node->op == WEFT_OP_state_update;
}

/* A group belongs where most of its operations do. */
static cli_profile_part part_of(const counter *c, const weft_node *node) {
    if (updates(node)) return CLI_PROFILE_UPDATE;
    double derivative = node->location.origin ? 0.5 : 0, all = 1;
    if (node->op == WEFT_OP_fusion) {
        for (const weft_node *n = node->regions[0]->block->first; n; n = n->next) {
            double own = of_node(c, n);
            all += own;
            /* a derivative asks attention for more results: that node does the forward work for both */
            if (n->location.origin && n->op != WEFT_OP_attention) derivative += own;
        }
    }
    return derivative * 2 >= all ? CLI_PROFILE_BACKWARD : CLI_PROFILE_FORWARD;
}

/* The node of a group that has the most operations, the last of equals. */
static const weft_node *heaviest(const counter *c, const weft_node *node) {
    const weft_node *found = node;
    double most = -1;
    if (node->op != WEFT_OP_fusion) return node;
    for (const weft_node *n = node->regions[0]->block->first; n; n = n->next) {
        if (n->op == WEFT_OP_yield || of_node(c, n) < most || !n->location.name) continue;
        most = of_node(c, n);
        found = n;
    }
    return found;
}

/* A parameter's copy in fewer bits bears its name; moments and the like are none. */
static const char *parameter_name(cli_profile_data *p, const char *state) {
    const char *slash = strrchr(state, '/');
    if (!slash) return state;
    return strcmp(slash, "/rounded") ? NULL : weft_arena_copy_string(&p->arena, state, (size_t)(slash - state));
}

/* The parameter among a node's operands, seen through views and conversions; NULL = none. */
static const char *parameter_of(cli_profile_data *p, const weft_node *node) {
    for (int i = 0; i < node->operand_count; i++) {
        const weft_node *from = node->operands[i]->node;
        while (from && from->operand_count &&
               (weft_op_get(from->op)->flags & WEFT_FLAG_VIEW || from->op == WEFT_OP_convert))
            from = from->operands[0]->node;
        if (!from) continue;
        const char *name = from->op == WEFT_OP_state_read ? weft_node_string(from, WEFT_ATTR_name, "")
                           : from->op == WEFT_OP_constant ? from->results[0].name
                                                          : NULL;
        name = name && name[0] ? parameter_name(p, name) : NULL;
        if (name) return name;
    }
    return NULL;
}

static const weft_node *find_node(const weft_graph *graph, int id) {
    const weft_node *node = graph->body->block->first;
    while (node && node->id != id) node = node->next;
    return node;
}

/* What the step is the derivative of: derivatives carry the node's number through all passes. */
static void find_origin(cli_profile_data *p, const counter *c, const weft_node *n, cli_profile_step *s) {
    const weft_node *origin = n->location.origin ? find_node(c->source, n->location.origin) : NULL;
    if (!origin || !origin->location.name || !origin->location.line) return;
    const char *place = weft_arena_format(&p->arena, "%s:%d", origin->location.name, origin->location.line);
    const char *parameter = parameter_of(p, origin);
    if (place) s->origin = place;
    if (parameter) s->parameter = parameter;
}

/* "dot_general at gpt.c:72" in place of where the group ends. */
static void name_step(cli_profile_data *p, const counter *c, const weft_node *node, cli_profile_step *s) {
    const weft_node *n = heaviest(c, node);
    const char *parameter = parameter_of(p, node);
    char *copy = parameter ? weft_arena_copy_string(&p->arena, parameter, strlen(parameter)) : NULL;
    if (copy) s->parameter = copy;
    if (s->part == CLI_PROFILE_BACKWARD) find_origin(p, c, n, s);
    if (!n->location.name || n == node) return;
    const char *op = weft_op_get(n->op)->name;
    char *text = n->location.line ? weft_arena_format(&p->arena, "%s at %s:%d", op, n->location.name, n->location.line)
                                  : weft_arena_format(&p->arena, "%s at %s", op, n->location.name);
    if (!text) return; /* the place of the group's end stays */
    s->what = text;
    s->place = text + strlen(op) + 4;
}

static bool comes_from(const weft_step_nodes *nodes, const weft_node *node) {
    for (int n = 0; n < nodes->count; n++)
        if (nodes->nodes[n] == node) return true;
    return false;
}

/* Of the steps of one node the longest does the work; the others pack. */
static int working_step(const cli_profile_data *p, const weft_lowered *lowered, const weft_node *node) {
    int longest = -1;
    for (int i = 0; i < p->count; i++)
        if (comes_from(&lowered->main_nodes[i], node) && (longest < 0 || p->steps[i].best > p->steps[longest].best))
            longest = i;
    return longest;
}

/* A step of several nodes is told of by the first of them. */
static void spread(cli_profile_data *p, const counter *c, const weft_lowered *lowered) {
    for (int i = 0; i < p->count; i++) {
        const weft_step_nodes *nodes = &lowered->main_nodes[i];
        p->steps[i].part = nodes->count ? part_of(c, nodes->nodes[0]) : CLI_PROFILE_FORWARD;
        if (nodes->count) name_step(p, c, nodes->nodes[0], &p->steps[i]);
        for (int n = 0; n < nodes->count; n++)
            if (working_step(p, lowered, nodes->nodes[n]) == i) p->steps[i].operations += of_node(c, nodes->nodes[n]);
    }
}

/* A step that comes from what the other is the derivative of: of its place and its parameter. */
static bool is_origin(const cli_profile_step *a, const cli_profile_step *s) {
    return s->origin[0] && !strcmp(a->place, s->origin) && !strcmp(a->parameter, s->parameter);
}

/* Two steps of which one may be the derivative of the other: of one parameter, or, without one, of one place. */
static bool related(const cli_profile_step *a, const cli_profile_step *s) {
    if (a->parameter[0] || s->parameter[0]) return !strcmp(a->parameter, s->parameter);
    return a->place[0] && !strcmp(a->place, s->place);
}

typedef bool (*relation)(const cli_profile_step *a, const cli_profile_step *s);

/* The derivative runs through steps of one kind from the last to the first. */
static void link_step(cli_profile_data *p, int i, relation holds) {
    cli_profile_step *s = &p->steps[i];
    int forward = 0, backward = 0, before = 0;
    for (int j = 0; j < p->count; j++) {
        const cli_profile_step *other = &p->steps[j];
        bool twin = other->part == CLI_PROFILE_BACKWARD && !strcmp(other->parameter, s->parameter) &&
                    (holds == is_origin ? !strcmp(other->origin, s->origin) : related(other, s));
        forward += other->part == CLI_PROFILE_FORWARD && holds(other, s);
        backward += twin;
        before += twin && j < i;
    }
    int wanted = forward - 1 - (int)((int64_t)before * forward / (backward ? backward : 1));
    for (int j = 0; j < p->count && forward; j++)
        if (p->steps[j].part == CLI_PROFILE_FORWARD && holds(&p->steps[j], s) && wanted-- == 0) s->forward = j;
}

static void link_derivatives(cli_profile_data *p) {
    for (int i = 0; i < p->count; i++) {
        if (p->steps[i].part != CLI_PROFILE_BACKWARD) continue;
        link_step(p, i, is_origin);
        if (p->steps[i].forward < 0) link_step(p, i, related);
    }
}

static weft_status lower(cli_profile_data *p, weft_context *context, const weft_graph *graph, weft_graph *copy,
                         weft_arena *arena, weft_arena *kernels) {
    weft_lowered lowered;
    const weft_capability *capability;
    WEFT_TRY(weft_unit_capability(p->frame->device, &capability), "profiling");
    weft_pass_context pass = {.graph = copy, .capability = capability, .options = "", .claims = weft_builder_claims};
    WEFT_TRY(weft_graph_finish(copy), "profiling");
    WEFT_TRY(weft_pipeline_run(&pass, weft_pipeline_standard), "profiling");
    WEFT_TRY(weft_lower(copy, capability, &(weft_lower_settings){.thread_count = context->thread_count}, arena, kernels,
                        &lowered),
             "profiling");
    p->has_graph = lowered.program->regions[WEFT_REGION_MAIN].count == p->count;
    if (p->has_graph) {
        counter c = {copy, graph, p->frame->symbols};
        spread(p, &c, &lowered);
        link_derivatives(p);
    }
    weft_dim_table_release(lowered.program->dims);
    return p->has_graph ? NULL
                        : WEFT_STATUS(WEFT_INTERNAL, "a graph gave two programs: %d steps and %d", p->count,
                                      lowered.program->regions[WEFT_REGION_MAIN].count);
}

weft_status cli_profile_add_graph(cli_profile_data *p, weft_context *context, weft_graph *graph) {
    weft_graph *copy;
    weft_arena arena, kernels;
    WEFT_TRY(weft_graph_clone(graph, NULL, &copy), "profiling");
    weft_arena_init(weft_allocator_system(), &arena);
    weft_arena_init(weft_allocator_system(), &kernels);
    weft_status status = lower(p, context, graph, copy, &arena, &kernels);
    weft_arena_deinit(&kernels);
    weft_arena_deinit(&arena);
    weft_graph_release(copy);
    return status;
}

weft_status cli_profile_measure_copy(cli_profile_data *p) {
    enum { BYTES = 64 << 20, TURNS = 5 };
    char *from = malloc(BYTES), *to = malloc(BYTES);
    if (from && to) {
        memset(from, 1, BYTES), memset(to, 2, BYTES);
        for (int i = 0; i < TURNS; i++) {
            double start = cli_now();
            memcpy(to, from, BYTES);
            from[i] = to[BYTES - 1 - i]; /* the copy is wanted */
            double rate = 2.0 * (double)BYTES / (cli_now() - start + 1e-9);
            if (rate > p->copy_rate) p->copy_rate = rate;
        }
    }
    free(from), free(to);
    return p->copy_rate > 0 ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "measuring a copy");
}
