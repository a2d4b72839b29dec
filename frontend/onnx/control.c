/* ONNX If, Loop, Scan. A condition or a trip count that is known at import writes the body out or makes a scan; else
   cond and while. Read next: sequence.c. */
#include <string.h>

#include "frontend/onnx/import.h"

static const Onnx__GraphProto *body_of(weft_onnx_node *node, const char *name) {
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, name);
    if (!attribute || !attribute->g) {
        weft_onnx_problem(node, "attribute %s holds no graph", name);
        return NULL;
    }
    return attribute->g;
}

static weft_value *tensor_of(weft_onnx_node *node, const weft_onnx_value *value) {
    if (!value) return weft_value_poison(node->graph);
    if (value->kind == WEFT_ONNX_TENSOR) return value->value;
    weft_onnx_problem(node, "a sequence or optional crosses control flow that is decided at run time");
    return weft_value_poison(node->graph);
}

/* -- If */

typedef struct branches {
    weft_onnx_node *node;
    const Onnx__GraphProto *graphs[2];
} branches;

static void import_branch(branches *b, int which, weft_value **results) {
    weft_onnx_import_state *import = b->node->import;
    weft_onnx_value **made = weft_onnx_allocate(import, b->graphs[which]->n_output + 1, sizeof *made);
    if (!made) return;
    weft_location location = import->graph->location;
    weft_onnx_import_subgraph(import, b->graphs[which], 0, NULL, made);
    import->graph->location = location;
    for (int i = 0; i < b->node->output_count && (size_t)i < b->graphs[which]->n_output; i++)
        if (made[i] && made[i]->kind != WEFT_ONNX_TENSOR)
            weft_onnx_need(b->node, weft_onnx_input(b->node, 0), "which branch gives a sequence or optional");
    for (int i = 0; i < b->node->output_count; i++)
        results[i] =
            (size_t)i < b->graphs[which]->n_output ? tensor_of(b->node, made[i]) : weft_value_poison(import->graph);
}
static void then_body(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)g, (void)arguments;
    import_branch(self, 0, results);
}
static void else_body(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)g, (void)arguments;
    import_branch(self, 1, results);
}

/* The extents that a value is computed from; false when it depends on anything else at run time. */
static bool only_extents(weft_value *value, weft_text *text, int depth) {
    if (!value->node || depth > 64) return false;
    if (value->node->op == WEFT_OP_dim) {
        weft_text_append(text, text->length ? ", " : "");
        weft_dim_print(value->graph->dims, weft_node_attribute(value->node, WEFT_ATTR_extent)->as.dims[0], text);
        return true;
    }
    for (int i = 0; i < value->node->operand_count; i++)
        if (!only_extents(value->node->operands[i], text, depth + 1)) return false;
    return true;
}

/* After branches that do not fit each other, or one that does not fit the shapes (it would not be taken): says what
   would decide between them. */
static void explain_branches(weft_onnx_node *node, weft_value *condition) {
    weft_text text;
    weft_text_init(node->import->context->allocator, &text);
    if (only_extents(condition, &text, 0))
        weft_onnx_problem(node,
                          "the branches differ in type and the condition depends on extents (%s): fix them with dims",
                          weft_text_string(&text));
    else
        weft_onnx_need(node, condition, "a branch that cannot be built for these shapes");
    weft_text_deinit(&text);
}

void weft_onnx_import_if(weft_onnx_node *node) {
    weft_onnx_import_state *import = node->import;
    branches b = {.node = node, .graphs = {body_of(node, "then_branch"), body_of(node, "else_branch")}};
    weft_value *condition = weft_onnx_input(node, 0);
    if (!b.graphs[0] || !b.graphs[1] || weft_value_is_poison(condition)) return;
    int64_t known;
    if (weft_onnx_try_integer(import, condition, &known)) {
        const Onnx__GraphProto *taken = b.graphs[known ? 0 : 1];
        weft_onnx_value **made = weft_onnx_allocate(import, taken->n_output + 1, sizeof *made);
        if (!made) return;
        weft_onnx_import_subgraph(import, taken, 0, NULL, made);
        for (int i = 0; i < node->output_count && (size_t)i < taken->n_output; i++) node->outputs[i] = made[i];
        return;
    }
    weft_value **results = weft_onnx_allocate(import, (size_t)node->output_count + 1, sizeof *results);
    if (!results) return;
    size_t problems = node->graph->problem_count;
    weft_cond(node->graph, weft_reshape(node->graph, condition, 0, NULL), then_body, else_body, &b, node->output_count,
              results);
    if (node->graph->problem_count > problems) explain_branches(node, condition);
    for (int i = 0; i < node->output_count; i++) weft_onnx_output(node, i, results[i]);
}

/* -- Loop */

typedef struct loop {
    weft_onnx_node *node;
    const Onnx__GraphProto *body;
    int carried, scans; /* loop-carried values; stacked outputs */
    weft_onnx_value **state;
    int64_t trips;         /* -1: not known */
    weft_type *scan_types; /* of one slice of each stacked output, from types_stay */
} loop;

/* One written-out trip. made: condition, carried, scans. */
static bool unrolled_trip(loop *l, int64_t trip, weft_value *condition, weft_onnx_value **made) {
    weft_onnx_import_state *import = l->node->import;
    weft_onnx_value **arguments = weft_onnx_allocate(import, (size_t)l->carried + 2, sizeof *arguments);
    if (!arguments) return false;
    arguments[0] = weft_onnx_value_tensor(import, weft_scalar_integer(import->graph, WEFT_I64, trip));
    arguments[1] = weft_onnx_value_tensor(import, condition);
    for (int i = 0; i < l->carried; i++) arguments[2 + i] = l->state[i];
    weft_onnx_import_subgraph(import, l->body, l->carried + 2, arguments, made);
    for (size_t i = 0; i < l->body->n_output; i++)
        if (!made[i]) return false;
    return made[0]->kind == WEFT_ONNX_TENSOR && import->graph->problem_count == 0;
}

/* Writes the loop out while its condition is known. */
static void unroll(loop *l, weft_value *condition) {
    weft_onnx_node *node = l->node;
    weft_onnx_import_state *import = node->import;
    size_t outputs = l->body->n_output;
    weft_onnx_value **made = weft_onnx_allocate(import, outputs + 1, sizeof *made);
    int64_t limit = l->trips >= 0 ? l->trips : WEFT_ONNX_UNROLL_MAX + 1, trip = 0, go;
    weft_value **stacks = weft_onnx_allocate(import, (size_t)l->scans * WEFT_ONNX_UNROLL_MAX + 1, sizeof *stacks);
    if (!made || !stacks) return;
    for (;; trip++) {
        if (!weft_onnx_try_integer(import, condition, &go)) {
            weft_onnx_need(node, condition,
                           "the condition of a loop with sequences, stacked outputs or changing shapes");
            return;
        }
        if (!go || trip >= limit) break;
        if (trip >= WEFT_ONNX_UNROLL_MAX) {
            weft_onnx_problem(node, "more than %d trips to write out", WEFT_ONNX_UNROLL_MAX);
            return;
        }
        if (!unrolled_trip(l, trip, condition, made)) return;
        condition = weft_reshape(import->graph, made[0]->value, 0, NULL);
        for (int i = 0; i < l->carried; i++) l->state[i] = made[1 + i];
        for (int i = 0; i < l->scans; i++)
            stacks[i * WEFT_ONNX_UNROLL_MAX + trip] = tensor_of(node, made[1 + l->carried + i]);
    }
    for (int i = 0; i < l->carried && i < node->output_count; i++) node->outputs[i] = l->state[i];
    for (int i = 0; i < l->scans; i++) {
        if (trip > 0)
            weft_onnx_output(node, l->carried + i,
                             weft_stack(import->graph, 0, (int)trip, &stacks[i * WEFT_ONNX_UNROLL_MAX]));
        else if (weft_onnx_wants(node, l->carried + i))
            weft_onnx_problem(node, "a stacked output of no trips has no type");
    }
}

/* Body of scan and while: carried values, then (scan) the trip number as a slice. */
static void run_body(loop *l, weft_value *trip, weft_value *condition, weft_value *const *carried,
                     weft_onnx_value **made) {
    weft_onnx_import_state *import = l->node->import;
    weft_onnx_value **arguments = weft_onnx_allocate(import, (size_t)l->carried + 2, sizeof *arguments);
    if (!arguments) return;
    arguments[0] = weft_onnx_value_tensor(import, trip);
    arguments[1] = weft_onnx_value_tensor(import, condition);
    for (int i = 0; i < l->carried; i++) arguments[2 + i] = weft_onnx_value_tensor(import, carried[i]);
    weft_location location = import->graph->location;
    weft_onnx_import_subgraph(import, l->body, l->carried + 2, arguments, made);
    import->graph->location = location;
}

static void loop_scan_body(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    loop *l = self;
    weft_onnx_value **made = weft_onnx_allocate(l->node->import, l->body->n_output + 1, sizeof *made);
    if (!made) return;
    run_body(l, arguments[l->carried], weft_scalar_integer(g, WEFT_BOOL, 1), arguments, made);
    for (int i = 0; i < l->carried + l->scans; i++) results[i] = tensor_of(l->node, made[1 + i]);
}

/* State of the while: trip number, condition, carried values. */
static void loop_condition(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    loop *l = self;
    results[0] = arguments[1];
    weft_value *limit = weft_onnx_optional(l->node, 0);
    if (!limit) return;
    limit = weft_reshape(g, limit, 0, NULL);
    results[0] = weft_and(g, arguments[1], weft_compare(g, WEFT_LT, arguments[0], limit));
}

static void loop_while_body(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    loop *l = self;
    weft_onnx_value **made = weft_onnx_allocate(l->node->import, l->body->n_output + 1, sizeof *made);
    if (!made) return;
    run_body(l, arguments[0], arguments[1], arguments + 2, made);
    results[0] = weft_add(g, arguments[0], weft_scalar_integer(g, WEFT_I64, 1));
    results[1] = weft_reshape(g, tensor_of(l->node, made[0]), 0, NULL);
    for (int i = 0; i < l->carried; i++) results[2 + i] = tensor_of(l->node, made[1 + i]);
    /* slices of stacked outputs go to their place in a buffer of as many as there can be trips */
    for (int i = 0; i < l->scans; i++) {
        weft_value *buffer = arguments[2 + l->carried + i], *slice = tensor_of(l->node, made[1 + l->carried + i]);
        weft_value *starts[WEFT_MAX_RANK] = {arguments[0]};
        int64_t front = 0;
        for (int k = 1; k < buffer->type.rank; k++) starts[k] = weft_scalar_integer(g, WEFT_I64, 0);
        results[2 + l->carried + i] = weft_dynamic_update_slice(g, buffer, weft_unsqueeze(g, slice, 1, &front), starts);
    }
}

/* A loop that ends at run time. Stacked outputs need a largest trip count; they are cut to the trips that were made, an
   extent that depends on data. */
static void run_while(loop *l, weft_value *condition, weft_dim bound) {
    weft_onnx_node *node = l->node;
    weft_graph *g = node->graph;
    int count = 2 + l->carried + l->scans;
    weft_value **operands = weft_onnx_allocate(node->import, (size_t)count + 1, sizeof *operands);
    weft_value **results = weft_onnx_allocate(node->import, (size_t)count + 1, sizeof *results);
    if (!operands || !results || !l->scan_types) return;
    operands[0] = weft_scalar_integer(g, WEFT_I64, 0), operands[1] = condition;
    for (int i = 0; i < l->carried; i++) operands[2 + i] = l->state[i]->value;
    for (int i = 0; i < l->scans; i++) {
        weft_dim shape[WEFT_MAX_RANK] = {bound};
        for (int k = 0; k < l->scan_types[i].rank; k++) shape[k + 1] = l->scan_types[i].dims[k];
        operands[2 + l->carried + i] = weft_full(g, l->scan_types[i].dtype, l->scan_types[i].rank + 1, shape, 0);
    }
    weft_while(g, count, operands, l->trips, loop_condition, loop_while_body, l, results);
    for (int i = 0; i < l->carried; i++) weft_onnx_output(node, i, results[2 + i]);
    if (l->scans == 0) return;
    weft_dim made;
    weft_value *done = weft_compare(g, WEFT_LT, weft_iota(g, WEFT_I64, 1, &bound, 0), results[0]);
    weft_value *kept = weft_reshape(g, weft_onnx_nonzero(node, done, &made), 1, &made);
    for (int i = 0; i < l->scans; i++)
        weft_onnx_output(node, l->carried + i, weft_take(g, results[2 + l->carried + i], kept, 0));
}

/* The body's condition is its condition input passed through (or constant true): then only the trip count ends the
 * loop. */
static bool condition_is_passed_on(const loop *l) {
    const char *out = l->body->output[0]->name, *in = l->body->n_input > 1 ? l->body->input[1]->name : NULL;
    for (int hops = 0; out && hops < 16; hops++) {
        if (in && strcmp(out, in) == 0) return true;
        const char *next = NULL;
        for (size_t i = 0; i < l->body->n_node; i++) {
            const Onnx__NodeProto *node = l->body->node[i];
            if (node->n_output < 1 || !node->output[0] || strcmp(node->output[0], out) != 0) continue;
            if (node->op_type && strcmp(node->op_type, "Identity") == 0 && node->n_input == 1) next = node->input[0];
            if (node->op_type && strcmp(node->op_type, "Constant") == 0 && node->n_attribute == 1 &&
                node->attribute[0]->t) {
                const Onnx__TensorProto *t = node->attribute[0]->t;
                return (t->has_raw_data && t->raw_data.len == 1 && t->raw_data.data[0]) ||
                       (t->n_int32_data == 1 && t->int32_data[0]);
            }
        }
        for (size_t i = 0; !next && i < l->body->n_initializer; i++) {
            const Onnx__TensorProto *t = l->body->initializer[i];
            if (t->name && strcmp(t->name, out) == 0)
                return (t->has_raw_data && t->raw_data.len == 1 && t->raw_data.data[0]) ||
                       (t->n_int32_data == 1 && t->int32_data[0]);
        }
        out = next;
    }
    return false;
}

static bool carries_sequences(const loop *l) {
    for (int i = 0; i < l->carried; i++)
        if (l->state[i]->kind != WEFT_ONNX_TENSOR) return true;
    return false;
}

/* Does a trip leave the types of the carried values as they are? Tried on a copy of the walk whose nodes are unused. */
static bool types_stay(loop *l, weft_value *condition) {
    weft_onnx_import_state *import = l->node->import;
    weft_graph *g = import->graph;
    size_t problems = g->problem_count;
    weft_onnx_value **made = weft_onnx_allocate(import, l->body->n_output + 1, sizeof *made);
    weft_region *aside = weft_region_create(g);
    if (!made || !aside) return false;
    weft_place place = weft_graph_place_end(g, aside->block);
    weft_type trip_type = weft_type_make(g, WEFT_I64, 0, NULL);
    weft_value *trip = weft_block_add_argument(aside->block, &trip_type, NULL),
               **carried = weft_onnx_allocate(import, (size_t)l->carried + 1, sizeof *carried);
    bool stay = carried != NULL;
    for (int i = 0; stay && i < l->carried; i++)
        carried[i] = weft_block_add_argument(aside->block, &l->state[i]->value->type, NULL);
    if (stay) run_body(l, trip, condition, carried, made);
    for (int i = 0; stay && i < l->carried; i++) {
        const weft_onnx_value *next = made[1 + i];
        stay = next && next->kind == WEFT_ONNX_TENSOR && !weft_value_is_poison(next->value) &&
               weft_type_equal(&next->value->type, &l->state[i]->value->type);
    }
    l->scan_types = weft_onnx_allocate(import, (size_t)l->scans + 1, sizeof *l->scan_types);
    for (int i = 0; stay && l->scan_types && i < l->scans; i++) {
        const weft_onnx_value *slice = made[1 + l->carried + i];
        stay = slice && slice->kind == WEFT_ONNX_TENSOR && !weft_value_is_poison(slice->value) &&
               slice->value->type.rank < WEFT_MAX_RANK;
        if (stay) l->scan_types[i] = slice->value->type;
    }
    weft_graph_place(g, place);
    weft_onnx_discard(aside->block);
    stay = stay && g->problem_count == problems;
    g->problem_count = problems; /* the walk that counts says it again */
    return stay;
}

static bool read_loop(weft_onnx_node *node, loop *l) {
    l->node = node;
    l->body = body_of(node, "body");
    if (!l->body) return false;
    l->carried = node->input_count > 2 ? node->input_count - 2 : 0;
    if (l->body->n_output < (size_t)l->carried + 1 || l->body->n_input != (size_t)l->carried + 2) {
        weft_onnx_problem(node, "the body takes %zu and gives %zu values for %d carried ones", l->body->n_input,
                          l->body->n_output, l->carried);
        return false;
    }
    l->scans = (int)l->body->n_output - 1 - l->carried;
    l->state = weft_onnx_allocate(node->import, (size_t)l->carried + 1, sizeof *l->state);
    if (!l->state) return false;
    for (int i = 0; i < l->carried; i++) {
        l->state[i] = node->inputs[2 + i] ? node->inputs[2 + i] : weft_onnx_value_none(node->import);
        if (!l->state[i] || (l->state[i]->kind == WEFT_ONNX_TENSOR && weft_value_is_poison(l->state[i]->value)))
            return false;
    }
    return true;
}

void weft_onnx_import_loop(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    loop l;
    if (!read_loop(node, &l)) return;
    weft_value *limit = weft_onnx_optional(node, 0), *condition = weft_onnx_optional(node, 1);
    condition = condition ? weft_reshape(g, condition, 0, NULL) : weft_scalar_integer(g, WEFT_BOOL, 1);
    if (weft_value_is_poison(condition) || (limit && weft_value_is_poison(limit))) return;
    int64_t start;
    weft_dim trips = WEFT_DIM_INVALID;
    int count = 0;
    bool starts = weft_onnx_try_integer(node->import, condition, &start),
         runs_out = condition_is_passed_on(&l) && starts && start;
    if (limit && !weft_onnx_try_extents(node->import, limit, 1, &count, &trips)) trips = WEFT_DIM_INVALID;
    l.trips = trips >= 0 ? trips : -1;
    if (starts && !start) l.trips = 0;
    if (carries_sequences(&l) && limit && trips == WEFT_DIM_INVALID) {
        weft_onnx_need(node, limit, "the trip count of a loop that carries sequences");
        return;
    }
    if (carries_sequences(&l) || l.trips == 0) {
        unroll(&l, condition);
        return;
    }
    bool stay = types_stay(&l, condition);
    weft_value **operands =
        weft_onnx_allocate(node->import, (size_t)l.carried + l.body->n_output + 4, sizeof *operands);
    weft_value **results = weft_onnx_allocate(node->import, (size_t)l.carried + l.body->n_output + 4, sizeof *results);
    if (!operands || !results) return;
    if (stay && runs_out && trips != WEFT_DIM_INVALID) {
        for (int i = 0; i < l.carried; i++) operands[i] = l.state[i]->value;
        weft_value *numbers = weft_iota(g, WEFT_I64, 1, &trips, 0);
        weft_scan(g, l.carried, operands, 1, &numbers, trips, false, loop_scan_body, &l, l.scans, results);
        for (int i = 0; i < l.carried + l.scans; i++) weft_onnx_output(node, i, results[i]);
    } else if (stay && (l.scans == 0 || trips != WEFT_DIM_INVALID)) {
        run_while(&l, condition, trips);
    } else if (limit && trips == WEFT_DIM_INVALID)
        weft_onnx_need(node, limit, "the trip count of a loop with stacked outputs or changing shapes");
    else
        unroll(&l, condition);
}

/* -- Scan */

typedef struct scan {
    weft_onnx_node *node;
    const Onnx__GraphProto *body;
    int carried, inputs, outputs;
} scan;

static void scan_body(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    scan *s = self;
    (void)g;
    weft_onnx_import_state *import = s->node->import;
    weft_onnx_value **made = weft_onnx_allocate(import, s->body->n_output + 1, sizeof *made);
    weft_onnx_value **bound = weft_onnx_allocate(import, (size_t)(s->carried + s->inputs) + 1, sizeof *bound);
    if (!made || !bound) return;
    for (int i = 0; i < s->carried + s->inputs; i++) bound[i] = weft_onnx_value_tensor(import, arguments[i]);
    weft_location location = import->graph->location;
    weft_onnx_import_subgraph(import, s->body, s->carried + s->inputs, bound, made);
    import->graph->location = location;
    for (int i = 0; i < s->carried + s->outputs; i++) results[i] = tensor_of(s->node, made[i]);
}

static int64_t list_entry(weft_onnx_node *node, const char *name, int index) {
    int count;
    const int64_t *values;
    return weft_onnx_ints(node, name, &count, &values) && index < count ? values[index] : 0;
}

/* Moves an axis to the front or back. */
static weft_value *move_axis(weft_graph *g, weft_value *x, int64_t from, int64_t to) {
    if (weft_value_is_poison(x)) return x;
    int rank = x->type.rank;
    if (from < 0) from += rank;
    if (to < 0) to += rank;
    if (from < 0 || from >= rank || to < 0 || to >= rank) {
        weft_graph_problem(g, "axis %lld of rank %d", (long long)(from < 0 || from >= rank ? from : to), rank);
        return weft_value_poison(g);
    }
    int64_t order[WEFT_MAX_RANK];
    for (int i = 0, next = 0; i < rank; i++) {
        if (i == to) {
            order[i] = from;
            continue;
        }
        if (next == from) next++;
        order[i] = next++;
    }
    return weft_transpose(g, x, order);
}

/* One scan over given values (without a batch axis). */
static void run_scan(scan *s, weft_value *const *carries, weft_value **inputs, weft_value **results) {
    weft_onnx_node *node = s->node;
    weft_graph *g = node->graph;
    const char *in_directions = node->version < 9 ? "directions" : "scan_input_directions";
    for (int i = 0; i < s->inputs; i++) {
        inputs[i] = move_axis(g, inputs[i], node->version < 9 ? 0 : list_entry(node, "scan_input_axes", i), 0);
        int64_t zero = 0;
        if (list_entry(node, in_directions, i)) inputs[i] = weft_reverse(g, inputs[i], 1, &zero);
        if (weft_value_is_poison(inputs[i])) return;
    }
    weft_scan(g, s->carried, carries, s->inputs, inputs, inputs[0]->type.dims[0], false, scan_body, s, s->outputs,
              results);
    for (int i = 0; i < s->outputs; i++) {
        weft_value **out = &results[s->carried + i];
        int64_t zero = 0;
        if (node->version >= 9 && list_entry(node, "scan_output_directions", i)) *out = weft_reverse(g, *out, 1, &zero);
        *out = move_axis(g, *out, 0, node->version < 9 ? 0 : list_entry(node, "scan_output_axes", i));
    }
}

void weft_onnx_import_scan(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    scan s = {.node = node, .body = body_of(node, "body"), .inputs = weft_onnx_int32(node, "num_scan_inputs", 0)};
    int first = node->version < 9 ? 1 : 0; /* version 8 has optional lengths first, and a batch axis everywhere */
    s.carried = node->input_count - first - s.inputs;
    if (!s.body || s.inputs < 1 || s.carried < 0 || s.body->n_output < (size_t)s.carried ||
        s.body->n_input != (size_t)(s.carried + s.inputs)) {
        weft_onnx_problem(node, "the body does not fit the inputs");
        return;
    }
    s.outputs = (int)s.body->n_output - s.carried;
    size_t room = (size_t)(s.carried + s.inputs + s.outputs) + 1;
    weft_value **values = weft_onnx_allocate(node->import, room, sizeof *values),
               **results = weft_onnx_allocate(node->import, room, sizeof *results);
    if (!values || !results) return;
    int64_t batch = 1, zero = 0;
    if (node->version < 9) {
        weft_value *x = weft_onnx_input(node, first);
        if (weft_onnx_has(node, 0) || weft_value_is_poison(x) || x->type.rank < 1 ||
            !weft_onnx_dim_number(g, x->type.dims[0], &batch) || batch > 64) {
            weft_onnx_problem(node, "version 8 is supported without lengths and with a known batch of at most 64");
            return;
        }
    }
    weft_value **rows = weft_onnx_allocate(node->import, room * (size_t)batch, sizeof *rows);
    if (!rows) return;
    for (int64_t b = 0; b < batch; b++) {
        for (int i = 0; i < s.carried + s.inputs; i++) {
            values[i] = weft_onnx_input(node, first + i);
            if (node->version < 9) values[i] = weft_squeeze(g, weft_slice_axis(g, values[i], 0, b, b + 1), 1, &zero);
            if (weft_value_is_poison(values[i])) return;
        }
        for (size_t i = 0; i < room; i++) results[i] = weft_value_poison(g);
        run_scan(&s, values, values + s.carried, results);
        for (int i = 0; i < s.carried + s.outputs; i++) rows[(size_t)i * (size_t)batch + (size_t)b] = results[i];
    }
    for (int i = 0; i < s.carried + s.outputs; i++)
        weft_onnx_output(node, i,
                         node->version < 9 ? weft_stack(g, 0, (int)batch, &rows[(size_t)i * (size_t)batch]) : rows[i]);
}
