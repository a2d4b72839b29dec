/* The public calls: a batch over values that exist, over a callback, and in chunks. */
#include "base/need.h"
#include "passes/batch/batch.h"

/* -- axes */

static weft_value *to_front(weft_graph *graph, weft_value *x, int axis) {
    int rank = x->type.rank;
    if (weft_value_is_poison(x)) return x;
    if (axis < -rank || axis >= rank) {
        weft_graph_problem(graph, "vmap: axis %d of a value of rank %d", axis, rank);
        return weft_value_poison(graph);
    }
    return weft_batch_move_axis(graph, x, axis < 0 ? axis + rank : axis, 0);
}

static weft_value *from_front(weft_graph *graph, weft_value *x, int axis) {
    int rank = x->type.rank;
    if (weft_value_is_poison(x)) return x;
    if (axis < -rank || axis >= rank) {
        weft_graph_problem(graph, "vmap: axis %d for a result of rank %d", axis, rank);
        return weft_value_poison(graph);
    }
    return weft_batch_move_axis(graph, x, 0, axis < 0 ? axis + rank : axis);
}

static int axis_of(const int *axes, int i) { return axes ? axes[i] : 0; }

/* -- values */

/* batches: with the batch in front; NULL = the input stays. Results likewise in front, always batches. */
static void batch_values(weft_graph *graph, weft_dim extent, weft_vmap_randomness randomness, int first_id,
                         int value_count, weft_value *const *values, int input_count, weft_value *const *inputs,
                         weft_value *const *batches, weft_value **out_batches) {
    weft_batch batch;
    weft_node_list nodes = {0};
    weft_batch_init(&batch, graph, extent);
    batch.randomness = randomness, batch.first_id = first_id;
    for (int i = 0; i < input_count; i++) weft_batch_put(&batch, inputs[i], batches[i]);
    weft_function_nodes(graph, (size_t)value_count, values, (size_t)input_count, inputs, &nodes);
    for (size_t i = 0; i < nodes.count && !graph->out_of_memory; i++) weft_batch_node(&batch, nodes.nodes[i], false);
    for (int i = 0; i < value_count; i++)
        out_batches[i] = weft_value_is_poison(values[i]) ? values[i] : weft_batch_value(&batch, values[i]);
    weft_node_list_deinit(graph, &nodes);
    weft_batch_deinit(&batch);
}

/* The extent of the batches, which must agree; WEFT_DIM_INVALID after a problem. */
static weft_dim common_extent(weft_graph *graph, int count, weft_value *const *batches) {
    weft_dim extent = WEFT_DIM_INVALID;
    for (int i = 0; i < count; i++) {
        if (!batches[i]) continue;
        if (weft_value_is_poison(batches[i])) return WEFT_DIM_INVALID;
        weft_dim own = batches[i]->type.dims[0];
        if (extent == WEFT_DIM_INVALID) extent = own;
        if (weft_graph_assume_equal(graph, extent, own)) continue;
        weft_graph_problem(graph, "vmap: the batches of input %d and of one before it differ in length", i);
        return WEFT_DIM_INVALID;
    }
    if (extent == WEFT_DIM_INVALID) weft_graph_problem(graph, "vmap: no input has a batch");
    return extent;
}

static bool element_matches(weft_graph *graph, int i, const weft_value *input, const weft_value *batch) {
    bool fits = batch->type.rank == input->type.rank + 1 && batch->type.dtype == input->type.dtype;
    for (int k = 0; fits && k < input->type.rank; k++)
        fits = weft_dim_known_equal(graph->dims, batch->type.dims[k + 1], input->type.dims[k]);
    if (!fits) weft_graph_problem(graph, "vmap: the elements of batch %d are not of its input's type", i);
    return fits;
}

void weft_vmap_values(weft_graph *graph, const weft_vmap_options *options, int value_count, weft_value *const *values,
                      int input_count, weft_value *const *inputs, weft_value *const *batches,
                      weft_value **out_batches) {
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    weft_value **front = weft_graph_allocate(graph, (size_t)input_count + 1, sizeof *front);
    if (!weft_function_poison(graph, "weft_vmap_values", value_count, out_batches)) return;
    if (weft_graph_report(graph, WEFT_OPTIONS_READ(o, options, WEFT_VMAP_OPTIONS_INIT))) return;
    if (!front || !weft_function_check(graph, "vmap: a value", value_count, values) ||
        !weft_function_check(graph, "vmap: an input", input_count, inputs))
        return;
    for (int i = 0; i < input_count; i++) {
        if (batches[i] && !weft_function_check(graph, "vmap: a batch", 1, &batches[i])) return;
        front[i] = batches[i] ? to_front(graph, batches[i], axis_of(o.in_axes, i)) : NULL;
        if (!front[i]) continue;
        if (weft_value_is_poison(front[i]) || weft_value_is_poison(inputs[i]) ||
            !element_matches(graph, i, inputs[i], front[i]))
            return;
    }
    weft_dim extent = common_extent(graph, input_count, front);
    if (extent == WEFT_DIM_INVALID) return;
    batch_values(graph, extent, o.randomness, 0, value_count, values, input_count, inputs, front, out_batches);
    for (int i = 0; i < value_count; i++) out_batches[i] = from_front(graph, out_batches[i], axis_of(o.out_axes, i));
}

/* -- callbacks */

typedef struct mapped {
    weft_graph *graph;
    const weft_vmap_options *options;
    weft_body body;
    void *self;
    int input_count, output_count;
    weft_value *const *inputs; /* batches in front; those without a batch as they are */
    const bool *is_batched;
} mapped;

/* A body's updates of states would write what one element gives: its placeholders' zeros. */
static bool updates_states(weft_graph *graph, const weft_block *block, int first_id) {
    for (const weft_node *node = block->last; node && node->id >= first_id; node = node->previous) {
        bool updates = node->op == WEFT_OP_state_update;
        for (int r = 0; r < node->region_count; r++)
            updates |= updates_states(graph, node->regions[r]->block, first_id);
        if (updates) return true;
    }
    return false;
}

/* The body built on placeholders, then batched over `inputs` (as mapped.inputs, of this extent). */
static bool run_body(const mapped *m, weft_dim extent, weft_value *const *inputs, weft_value **out_batches) {
    weft_graph *graph = m->graph;
    size_t count = (size_t)m->input_count + 1;
    weft_value **arguments = weft_graph_allocate(graph, count, sizeof *arguments),
               **batches = weft_graph_allocate(graph, count, sizeof *batches),
               **results = weft_graph_allocate(graph, (size_t)m->output_count + 1, sizeof *results);
    if (!arguments || !batches || !results) return false;
    for (int i = 0; i < m->input_count; i++) {
        arguments[i] = inputs[i];
        if (!m->is_batched[i]) continue;
        const weft_type *type = &inputs[i]->type;
        arguments[i] = weft_placeholder(graph, type->dtype, type->rank - 1, type->dims + 1);
        batches[i] = inputs[i];
    }
    int first_id = graph->next_id;
    m->body(m->self, graph, arguments, results);
    if (updates_states(graph, graph->insertion, first_id)) {
        weft_graph_problem(graph, "vmap: the body updates a state, which has one value, not one for each element");
        return false;
    }
    for (int i = 0; i < m->output_count; i++) {
        if (!results[i]) weft_graph_problem(graph, "vmap: the body gives no result %d", i);
        if (!results[i] || weft_value_is_poison(results[i])) return false;
    }
    batch_values(graph, extent, m->options->randomness, first_id, m->output_count, results, m->input_count, arguments,
                 batches, out_batches);
    return true;
}

/* [start, start + length) of every batch, as [length / chunk, chunk, ...] on request. */
static void cut(const mapped *m, weft_dim start, weft_dim length, weft_dim chunk, weft_value **out_inputs) {
    weft_graph *g = m->graph;
    for (int i = 0; i < m->input_count; i++) {
        out_inputs[i] = m->inputs[i];
        if (!m->is_batched[i]) continue;
        weft_value *x = m->inputs[i];
        if (start != 0 || length != x->type.dims[0])
            x = weft_emit_slice_axis(g, x, 0, start, weft_dim_add(g->dims, start, length), 1);
        weft_dim dims[WEFT_MAX_RANK + 1];
        if (chunk && !weft_value_is_poison(x)) {
            dims[0] = weft_dim_divide_floor(g->dims, length, chunk), dims[1] = chunk;
            for (int k = 1; k < x->type.rank; k++) dims[k + 1] = x->type.dims[k];
            x = weft_emit_reshape(g, x, x->type.rank + 1, dims);
        }
        out_inputs[i] = x;
    }
}

/* A scan over chunks: [trips, chunk, ...] of every batch -> [trips * chunk, ...] of every result. */
static bool run_chunks(const mapped *m, weft_dim length, weft_dim chunk, weft_value **out_batches) {
    weft_graph *g = m->graph;
    size_t count = (size_t)m->input_count + 1;
    weft_value **inputs = weft_graph_allocate(g, count, sizeof *inputs),
               **stacked = weft_graph_allocate(g, count, sizeof *stacked);
    weft_region *region = weft_region_create(g);
    int stacked_count = 0;
    if (!inputs || !stacked || !region) return false;
    cut(m, 0, length, chunk, inputs);
    for (int i = 0; i < m->input_count; i++) {
        if (!m->is_batched[i]) continue;
        stacked[stacked_count++] = inputs[i];
        weft_type slice = inputs[i]->type;
        if (weft_value_is_poison(inputs[i])) return false;
        slice.rank--, slice.dims++;
        inputs[i] = weft_block_add_argument(region->block, &slice, NULL);
    }
    weft_place outside = weft_graph_place_end(g, region->block);
    bool fine = run_body(m, chunk, inputs, out_batches);
    if (fine) (void)weft_node_create(g, WEFT_OP_yield, m->output_count, out_batches, 0, NULL, 0, NULL);
    weft_graph_place(g, outside);
    if (!fine) return false;
    weft_dim none = 0, trips = weft_dim_divide_floor(g->dims, length, chunk);
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_k, 1, &none), weft_attr_dims(WEFT_ATTR_trips, 1, &trips),
                                    weft_attr_int(WEFT_ATTR_reverse, 0)};
    weft_node *scan = weft_node_create(g, WEFT_OP_scan, stacked_count, stacked, 3, attributes, 1, &region);
    for (int i = 0; scan && i < m->output_count; i++) {
        weft_value *y = &scan->results[i];
        if (weft_value_is_poison(y)) return false;
        weft_dim dims[WEFT_MAX_RANK] = {length};
        for (int k = 2; k < y->type.rank; k++) dims[k - 1] = y->type.dims[k];
        out_batches[i] = weft_emit_reshape(g, y, y->type.rank - 1, dims);
    }
    return scan != NULL;
}

/* Whole chunks in a scan, the rest by itself. */
static bool run_chunked(const mapped *m, weft_dim extent, weft_dim chunk, weft_value **out_batches) {
    weft_graph *g = m->graph;
    weft_dim rest = weft_dim_modulo(g->dims, extent, chunk), whole = weft_dim_subtract(g->dims, extent, rest);
    if (!weft_dim_is_number(rest)) {
        weft_graph_problem(g, "vmap in chunks of %lld: the length of the batch must be a number or a multiple of it",
                           (long long)chunk);
        return false;
    }
    if (whole == 0) return run_body(m, extent, m->inputs, out_batches);
    if (!run_chunks(m, whole, chunk, out_batches)) return false;
    if (rest == 0) return true;
    weft_value **inputs = weft_graph_allocate(g, (size_t)m->input_count + 1, sizeof *inputs),
               **tail = weft_graph_allocate(g, (size_t)m->output_count + 1, sizeof *tail);
    if (!inputs || !tail) return false;
    cut(m, whole, rest, 0, inputs);
    if (!run_body(m, rest, inputs, tail)) return false;
    for (int i = 0; i < m->output_count; i++)
        out_batches[i] = weft_emit_concat(g, 0, 2, (weft_value *[]){out_batches[i], tail[i]});
    return true;
}

void weft_vmap(weft_graph *graph, const weft_vmap_options *options, weft_body body, void *self, int input_count,
               weft_value *const *inputs, int output_count, weft_value **outputs) {
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    weft_value **front = weft_graph_allocate(graph, (size_t)input_count + 1, sizeof *front),
               **batches = weft_graph_allocate(graph, (size_t)input_count + 1, sizeof *batches);
    bool *is_batched = weft_graph_allocate(graph, (size_t)input_count + 1, sizeof *is_batched);
    if (!weft_function_poison(graph, "weft_vmap", output_count, outputs)) return;
    if (weft_graph_report(graph, WEFT_OPTIONS_READ(o, options, WEFT_VMAP_OPTIONS_INIT))) return;
    if (!body) weft_graph_problem(graph, "vmap: the body is missing");
    if (!front || !batches || !is_batched || !body ||
        !weft_function_check(graph, "vmap: an input", input_count, inputs))
        return;
    for (int i = 0; i < input_count; i++) {
        is_batched[i] = axis_of(o.in_axes, i) != WEFT_VMAP_NONE;
        front[i] = is_batched[i] ? to_front(graph, inputs[i], axis_of(o.in_axes, i)) : inputs[i];
        if (is_batched[i]) batches[i] = front[i];
        if (weft_value_is_poison(front[i])) return;
    }
    weft_dim extent = common_extent(graph, input_count, batches);
    if (extent == WEFT_DIM_INVALID) return;
    mapped m = {graph, &o, body, self, input_count, output_count, front, is_batched};
    weft_value **made = weft_graph_allocate(graph, (size_t)output_count + 1, sizeof *made);
    if (!made || !(o.chunk_size > 0 ? run_chunked(&m, extent, o.chunk_size, made) : run_body(&m, extent, front, made)))
        return;
    for (int i = 0; i < output_count; i++) outputs[i] = from_front(graph, made[i], axis_of(o.out_axes, i));
}
