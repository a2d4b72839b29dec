/* Graphs: nodes that follow others. What may run side by side runs in another order each time, so that a missing edge
   shows as a wrong number. A conditional node has a graph of its own, which runs as often as its condition says;
   conditions are forgotten between launches, so that one that nobody has set shows too. Source: "CUDA Driver API",
   Graph Management. */
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/library/card.h"
#include "tests/support/numbers.h"

struct card_graph;
typedef struct card_node {
    struct card_graph *body; /* of a conditional node */
    uint64_t handle;
    bool loop;
    int number;
    const card_function *function; /* NULL: a copy */
    unsigned blocks, threads, shared_bytes;
    unsigned char *arguments; /* one after the other, each at a multiple of 8 */
    int argument_count;
    cu_pointer to, from;
    size_t bytes;
    int *after, after_count;
} card_node;

typedef struct card_graph {
    card_node **nodes;
    int count, card;
    uint64_t random;
    struct card_graph *body; /* the last one made: what cuGraphAddNode points to */
} card_graph;

enum { TRIPS_MAX = 1 << 20, CONDITIONS_MAX = 4096 };
/* Handles count from 1, over all graphs of the process. */
static struct {
    const card_graph *graph; /* that it was made for */
    uint32_t value;
    bool set, used;
} conditions[CONDITIONS_MAX];
static uint64_t condition_count;

static void drop(card_graph *graph) {
    for (int i = 0; graph && i < graph->count; i++) {
        drop(graph->nodes[i]->body);
        free(graph->nodes[i]->arguments);
        free(graph->nodes[i]->after);
        free(graph->nodes[i]);
    }
    if (graph) free(graph->nodes);
    free(graph);
}

/* A copy of `node` behind the graph's others. */
static card_node *append(card_graph *graph, const card_node *node) {
    card_node **grown = realloc(graph->nodes, (size_t)(graph->count + 1) * sizeof *grown);
    if (grown) graph->nodes = grown;
    card_node *copy = grown ? malloc(sizeof *copy) : NULL;
    if (!copy) return NULL;
    *copy = *node;
    copy->number = graph->count;
    graph->nodes[graph->count++] = copy;
    return copy;
}

static int add(card_graph *graph, card_node *node, card_node *const *before, size_t count, card_node **out) {
    node->after = malloc((count + 1) * sizeof *node->after);
    if (!node->after) return CU_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) node->after[i] = before[i]->number;
    node->after_count = (int)count;
    *out = append(graph, node);
    if (!*out) free(node->after);
    return *out ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}

EXPORT int cuGraphCreate(card_graph **out, unsigned flags) {
    *out = calloc(1, sizeof **out);
    if (flags) return INVALID_VALUE;
    return *out ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}

EXPORT int cuGraphDestroy(card_graph *graph) {
    drop(graph);
    return CU_SUCCESS;
}

EXPORT int cuGraphAddKernelNode_v2(card_node **out, card_graph *graph, card_node *const *before, size_t count,
                                   const cu_kernel_node *from) {
    const card_function *f = (const card_function *)(const void *)from->function;
    const int *sizes;
    card_node node = {
        .function = f, .blocks = from->grid[0], .threads = from->block[0], .shared_bytes = from->shared_bytes};
    if (!from->grid[0] || from->grid[1] != 1 || from->grid[2] != 1 || from->block[1] != 1 || from->block[2] != 1)
        return INVALID_VALUE;
    int result = card_enter();
    node.argument_count = ptx_module_parameters(f->module, f->name, &sizes);
    size_t bytes = 0;
    for (int i = 0; i < node.argument_count; i++) bytes += ((size_t)sizes[i] + 7) / 8 * 8;
    node.arguments = malloc(bytes + 1);
    if (!node.arguments) result = CU_ERROR_OUT_OF_MEMORY;
    unsigned char *at = node.arguments;
    for (int i = 0; i < node.argument_count && !result; i++) {
        memcpy(at, from->parameters[i], (size_t)sizes[i]);
        at += (sizes[i] + 7) / 8 * 8;
    }
    if (!result) result = add(graph, &node, before, count, out);
    if (result) free(node.arguments);
    return card_leave(result);
}

EXPORT int cuGraphAddMemcpyNode(card_node **out, card_graph *graph, card_node *const *before, size_t count,
                                const cu_copy *from, void *context) {
    (void)context;
    bool from_host = from->from_type == CU_MEMORY_HOST, to_host = from->to_type == CU_MEMORY_HOST;
    card_node node = {.to = to_host ? (cu_pointer)(uintptr_t)from->to_host : from->to,
                      .from = from_host ? (cu_pointer)(uintptr_t)from->from_host : from->from,
                      .bytes = from->width_bytes};
    if ((!from_host && from->from_type != CU_MEMORY_DEVICE) || (!to_host && from->to_type != CU_MEMORY_DEVICE) ||
        from->height != 1 || from->depth != 1)
        return INVALID_VALUE;
    int result = card_enter();
    if (!to_host && !card_holds(node.to, node.bytes)) result = INVALID_VALUE;
    if (!from_host && !card_holds(node.from, node.bytes)) result = INVALID_VALUE;
    if (!result) result = add(graph, &node, before, count, out);
    return card_leave(result);
}

EXPORT int cuGraphConditionalHandleCreate(uint64_t *out, card_graph *graph, void *context, unsigned first,
                                          unsigned flags) {
    if (!context || first || flags != CU_CONDITION_ASSIGN_DEFAULT) return INVALID_VALUE;
    int result = card_enter();
    if (!result && condition_count + 1 == CONDITIONS_MAX) result = CU_ERROR_OUT_OF_MEMORY;
    if (!result) {
        *out = ++condition_count;
        conditions[*out].graph = graph;
    }
    return card_leave(result);
}

bool card_set_condition(void *self, uint64_t handle, uint32_t value) {
    (void)self;
    if (handle < 1 || handle > condition_count || !conditions[handle].used) return false;
    conditions[handle].value = value, conditions[handle].set = true;
    return true;
}

EXPORT int cuGraphAddNode_v2(card_node **out, card_graph *graph, card_node *const *before, const void *edges,
                             size_t count, cu_conditional_node *params) {
    card_node node = {.handle = params->handle, .loop = params->kind == CU_CONDITION_WHILE};
    if (edges || params->type != CU_NODE_CONDITIONAL || params->size != 1 || !params->context ||
        params->kind > CU_CONDITION_WHILE)
        return INVALID_VALUE;
    int result = card_enter();
    if (!result && (params->handle < 1 || params->handle > condition_count || conditions[params->handle].used ||
                    conditions[params->handle].graph != graph))
        result = INVALID_VALUE;
    if (!result && !(node.body = calloc(1, sizeof *node.body))) result = CU_ERROR_OUT_OF_MEMORY;
    if (!result) result = add(graph, &node, before, count, out);
    if (!result) {
        conditions[params->handle].used = true;
        graph->body = node.body;
        params->bodies = (cu_graph *)(void *)&graph->body;
    } else {
        free(node.body);
    }
    return card_leave(result);
}

static int copy_graph(card_graph **out, const card_graph *graph) {
    *out = calloc(1, sizeof **out);
    if (!*out) return CU_ERROR_OUT_OF_MEMORY;
    (*out)->card = card_current();
    (*out)->random = 1;
    for (int i = 0; i < graph->count; i++) {
        card_node node = *graph->nodes[i];
        size_t bytes = 0;
        const int *sizes;
        if (node.function) (void)ptx_module_parameters(node.function->module, node.function->name, &sizes);
        for (int a = 0; node.function && a < node.argument_count; a++) bytes += ((size_t)sizes[a] + 7) / 8 * 8;
        node.arguments = malloc(bytes + 1);
        node.after = malloc(((size_t)node.after_count + 1) * sizeof *node.after);
        bool copied = !node.body || !copy_graph(&node.body, node.body);
        if (!node.arguments || !node.after || !copied || !append(*out, &node)) {
            if (copied) drop(node.body);
            free(node.arguments);
            free(node.after);
            drop(*out);
            return CU_ERROR_OUT_OF_MEMORY;
        }
        if (bytes) memcpy(node.arguments, graph->nodes[i]->arguments, bytes);
        memcpy(node.after, graph->nodes[i]->after, (size_t)node.after_count * sizeof *node.after);
    }
    return CU_SUCCESS;
}

EXPORT int cuGraphInstantiateWithFlags(card_graph **out, const card_graph *graph, unsigned long long flags) {
    return flags ? INVALID_VALUE : copy_graph(out, graph);
}

static int run_graph(card_graph *graph);

/* A condition that is read before it was set in this launch is a mistake. */
static int run_conditional(const card_node *node) {
    for (int trip = 0; trip < TRIPS_MAX; trip++) {
        if (!conditions[node->handle].set) return INVALID_VALUE;
        if (!conditions[node->handle].value) return CU_SUCCESS;
        conditions[node->handle].set = !node->loop;
        int result = run_graph(node->body);
        if (result || !node->loop) return result;
    }
    return LAUNCH_FAILED;
}

static int run_node(const card_node *node) {
    void *parameters[PTX_PARAMETERS_MAX];
    const int *sizes;
    if (node->body) return run_conditional(node);
    if (!node->function) {
        memmove((void *)(uintptr_t)node->to, (const void *)(uintptr_t)node->from, node->bytes); /* NOLINT */
        return CU_SUCCESS;
    }
    unsigned char *at = node->arguments;
    (void)ptx_module_parameters(node->function->module, node->function->name, &sizes);
    for (int i = 0; i < node->argument_count; i++) {
        parameters[i] = at;
        at += (sizes[i] + 7) / 8 * 8;
    }
    return card_launch(node->function, node->blocks, node->threads, node->shared_bytes, parameters);
}

static bool is_ready(const card_node *node, const bool *done) {
    for (int i = 0; i < node->after_count; i++)
        if (!done[node->after[i]]) return false;
    return !done[node->number];
}

static int run_graph(card_graph *graph) {
    int result = CU_SUCCESS;
    bool *done = calloc((size_t)graph->count + 1, sizeof *done);
    if (!done) return CU_ERROR_OUT_OF_MEMORY;
    for (int left = graph->count; left > 0 && !result; left--) {
        int ready = 0, pick = -1;
        for (int i = 0; i < graph->count; i++) { /* each of those that are ready with equal chance */
            if (!is_ready(graph->nodes[i], done)) continue;
            if (number_random(&graph->random) % (uint64_t)++ready == 0) pick = i;
        }
        if (pick < 0)
            result = INVALID_VALUE; /* a circle */
        else
            result = run_node(graph->nodes[pick]);
        if (pick >= 0) done[pick] = true;
    }
    free(done);
    return result;
}

static int launches;
EXPORT int card_graph_launches(void) { return launches; }

EXPORT int cuGraphLaunch(card_graph *graph, void *stream) {
    int result = card_enter_stream(stream);
    if (!result && graph->card != card_current()) result = INVALID_HANDLE;
    launches++;
    for (uint64_t i = 1; i <= condition_count; i++) conditions[i].set = false;
    return card_leave(result ? result : run_graph(graph));
}

EXPORT int cuGraphExecDestroy(card_graph *graph) {
    drop(graph);
    return CU_SUCCESS;
}
