/* The verifier: walks every region and checks what graph.h promises.
   Invariant: changes nothing but guards (inference may record one again); problems found here do not stay in the graph.
 */
#include "ir/verify.h"

#include <string.h>

#include "ir/build.h"
#include "ir/infer.h"

typedef struct verifier {
    weft_graph *graph;
    weft_map visible; /* values that the current node may use */
    bool failed;      /* no memory */
} verifier;

static bool make_visible(verifier *verify, const weft_value *value) {
    if (weft_map_put(&verify->visible, &value, sizeof value, verify)) return true;
    verify->failed = true;
    return false;
}

static bool is_visible(const verifier *verify, const weft_value *value) {
    return weft_map_has(&verify->visible, &value, sizeof value);
}

static void check_uses(verifier *verify, const weft_value *value, const char *what) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        const weft_node *user = use->user;
        if (use->index >= user->operand_count || user->operands[use->index] != value || !user->block ||
            (use->next && use->next->previous != use))
            weft_graph_problem(verify->graph, "%s %%%d: its use list is wrong at a %s", what, value->id,
                               weft_op_get(user->op)->name);
    }
}

static void check_operands(verifier *verify, const weft_node *node) {
    const char *name = weft_op_get(node->op)->name;
    for (int i = 0; i < node->operand_count; i++) {
        const weft_value *operand = node->operands[i];
        const weft_use *use = operand->uses;
        while (use && use != &node->uses[i]) use = use->next;
        if (!use)
            weft_graph_problem(verify->graph, "%s: operand %d is not in the use list of %%%d", name, i, operand->id);
        if (!is_visible(verify, operand))
            weft_graph_problem(verify->graph, "%s: operand %d (%%%d) is not defined before it", name, i, operand->id);
    }
}

static void check_attributes(verifier *verify, const weft_node *node) {
    weft_attribute_name name;
    bool optional;
    int at = 0;
    for (int row = 0; weft_op_attribute(node->op, row, &name, &optional); row++) {
        if (at < node->attribute_count && node->attributes[at].name == name)
            at++;
        else if (!optional)
            weft_graph_problem(verify->graph, "%s: attribute %s is missing or out of order",
                               weft_op_get(node->op)->name, weft_attribute_string(name));
    }
    if (at != node->attribute_count)
        weft_graph_problem(verify->graph, "%s: %d attributes do not belong to the op", weft_op_get(node->op)->name,
                           node->attribute_count - at);
}

/* Result types are what inference says now. */
static void check_types(verifier *verify, weft_node *node) {
    weft_graph *graph = verify->graph;
    int capacity = 64 > node->operand_count ? 64 : node->operand_count;
    if (node->result_count > capacity) capacity = node->result_count;
    for (int i = 0; i < node->region_count; i++) {
        const weft_node *last = node->regions[i]->block->last;
        if (last && last->operand_count > capacity) capacity = last->operand_count;
    }
    weft_type few[64];
    weft_infer infer = {.graph = graph, .node = node, .result_capacity = capacity, .results = few};
    if (capacity > 64) infer.results = weft_graph_allocate(graph, (size_t)capacity, sizeof *infer.results);
    if (!infer.results) {
        verify->failed = true;
        return;
    }
    if (!weft_infer_run(&infer)) return;
    bool equal = infer.result_count == node->result_count;
    for (int i = 0; equal && i < node->result_count; i++) {
        equal = node->results[i].type.rank == infer.results[i].rank &&
                node->results[i].type.dtype == infer.results[i].dtype;
        for (int axis = 0; equal && axis < infer.results[i].rank; axis++)
            equal = weft_dim_known_equal(graph->dims, node->results[i].type.dims[axis], infer.results[i].dims[axis]);
    }
    if (!equal)
        weft_graph_problem(graph, "%s: its result types are not what inference gives", weft_op_get(node->op)->name);
}

static void check_block(verifier *verify, const weft_block *block, const weft_node *parent);

static void check_node(verifier *verify, weft_node *node) {
    const weft_op_info *info = weft_op_get(node->op);
    weft_graph *graph = verify->graph;
    graph->location = node->location;
    if (node->operand_count < info->operands_min ||
        (info->operands_max >= 0 && node->operand_count > info->operands_max))
        weft_graph_problem(graph, "%s: %d operands", info->name, node->operand_count);
    if ((info->flags & WEFT_FLAG_TERMINATOR) && node->next)
        weft_graph_problem(graph, "%s: not the last node of its block", info->name);
    if (node->note) weft_graph_problem(graph, "%s: a pass left its note", info->name);
    size_t before = graph->problem_count;
    check_operands(verify, node);
    check_attributes(verify, node);
    for (int i = 0; i < node->region_count; i++) {
        if (node->regions[i]->parent != node)
            weft_graph_problem(graph, "%s: region %d has another parent", info->name, i);
        check_block(verify, node->regions[i]->block, node);
    }
    graph->location = node->location;
    if (graph->problem_count == before) check_types(verify, node);
    for (int i = 0; i < node->result_count; i++) {
        if (node->results[i].node != node || node->results[i].index != i)
            weft_graph_problem(graph, "%s: result %d does not point back", info->name, i);
        check_uses(verify, &node->results[i], "result");
        if (!make_visible(verify, &node->results[i])) return;
    }
}

static void check_block(verifier *verify, const weft_block *block, const weft_node *parent) {
    for (int i = 0; i < block->argument_count; i++) {
        check_uses(verify, block->arguments[i], "argument");
        if (block->arguments[i]->block != block || block->arguments[i]->index != i)
            weft_graph_problem(verify->graph, "argument %d does not point back to its block", i);
        if (!make_visible(verify, block->arguments[i])) return;
    }
    const weft_node *previous = NULL;
    for (weft_node *node = block->first; node && !verify->failed; node = node->next) {
        if (node->previous != previous || node->block != block)
            weft_graph_problem(verify->graph, "%s: the node list of its block is broken", weft_op_get(node->op)->name);
        check_node(verify, node);
        previous = node;
    }
    if (block->last != previous) weft_graph_problem(verify->graph, "a block's last node is not its last");
    if (!block->last || !(weft_op_get(block->last->op)->flags & WEFT_FLAG_TERMINATOR))
        weft_graph_problem(verify->graph, "%s: a block does not end in yield",
                           parent ? weft_op_get(parent->op)->name : "body");
    /* what a block defines is not seen outside */
    for (int i = 0; i < block->argument_count; i++)
        weft_map_remove(&verify->visible, &block->arguments[i], sizeof block->arguments[i]);
    for (const weft_node *node = block->first; node; node = node->next)
        for (int i = 0; i < node->result_count; i++) {
            const weft_value *value = &node->results[i];
            weft_map_remove(&verify->visible, &value, sizeof value);
        }
}

static void check_outputs(verifier *verify) {
    weft_graph *graph = verify->graph;
    graph->location = (weft_location){.name = NULL};
    const weft_node *yield = graph->body->block->last;
    if (!yield || yield->op != WEFT_OP_yield) return; /* reported by check_block */
    bool equal = (size_t)yield->operand_count == graph->output_count;
    for (size_t i = 0; equal && i < graph->output_count; i++) equal = yield->operands[i] == graph->outputs[i];
    if (!equal)
        weft_graph_problem(graph, "the body's yield is not the list of outputs: weft_graph_finish was not called");
}

/* A body that is written out a hundred times has its problem a hundred times. */
enum { PROBLEMS_SHOWN = 200 };

static bool is_equal(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* The first problem from `start` on that reads as problem `of`; the count when there is none. */
static size_t find_equal(const weft_graph *graph, size_t start, size_t of) {
    const weft_problem *p = &graph->problems[of];
    while (start < graph->problem_count) {
        const weft_problem *q = &graph->problems[start];
        if (p->location.line == q->location.line && is_equal(p->text, q->text) &&
            is_equal(p->location.name, q->location.name))
            break;
        start++;
    }
    return start;
}

static weft_status report(const weft_graph *graph) {
    weft_text text;
    weft_text_init(graph->context->allocator, &text);
    weft_text_append(&text, "graph %s: %zu problem%s", graph->name, graph->problem_count,
                     graph->problem_count == 1 ? "" : "s");
    size_t shown = 0, i = 0;
    for (; i < graph->problem_count && shown < PROBLEMS_SHOWN; i++) {
        const weft_problem *problem = &graph->problems[i];
        if (find_equal(graph, 0, i) < i) continue;
        shown++;
        size_t times = 1;
        for (size_t k = i; (k = find_equal(graph, k + 1, i)) < graph->problem_count;) times++;
        weft_text_append(&text, "\n  ");
        weft_location_print(&problem->location, &text);
        weft_text_append(&text, "%s%s", problem->location.name ? ": " : "", problem->text);
        if (times > 1) weft_text_append(&text, " (%zu times)", times);
    }
    /* not looked at: comparing each with all others would take the square of their number */
    if (i < graph->problem_count) weft_text_append(&text, "\n  and up to %zu more", graph->problem_count - i);
    weft_status status = weft_text_status(&text);
    if (!status) status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s", weft_text_string(&text));
    weft_text_deinit(&text);
    return status;
}

weft_status weft_verify(weft_graph *graph) {
    if (graph->out_of_memory || weft_dim_out_of_memory(graph->dims))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "graph %s: no memory while it was built", graph->name);
    if (graph->problem_count) return report(graph); /* a graph with problems is not whole: nothing more to learn */
    verifier verify = {.graph = graph};
    weft_map_init(graph->context->allocator, &verify.visible);
    weft_location location = graph->location;
    check_block(&verify, graph->body->block, NULL);
    check_outputs(&verify);
    graph->location = location;
    weft_map_deinit(&verify.visible);
    weft_status status = NULL;
    if (verify.failed || graph->out_of_memory)
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "verifying graph %s", graph->name);
    else if (graph->problem_count)
        status = report(graph);
    graph->problem_count = 0;
    return status;
}
