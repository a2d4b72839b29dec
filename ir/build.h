/* Making and changing nodes. Passes and the public builders both use these.

   Errors: weft_node_create never returns NULL except without memory; a problem (wrong operand types, attributes) is
   recorded in the graph with the current location and the results are poisoned. */
#ifndef WEFT_IR_BUILD_H
#define WEFT_IR_BUILD_H

#include "ir/graph.h"

/* Attribute literals: weft_attr_int(WEFT_ATTR_axis, 1). Arrays are copied into the arena by weft_node_create. */
static inline weft_attribute weft_attr_int(weft_attribute_name name, int64_t value) {
    return (weft_attribute){.name = name, .as.integer = value};
}
static inline weft_attribute weft_attr_float(weft_attribute_name name, double value) {
    return (weft_attribute){.name = name, .as.number = value};
}
static inline weft_attribute weft_attr_ints(weft_attribute_name name, int count, const int64_t *values) {
    return (weft_attribute){.name = name, .count = count, .as.ints = values};
}
static inline weft_attribute weft_attr_dims(weft_attribute_name name, int count, const weft_dim *values) {
    return (weft_attribute){.name = name, .count = count, .as.dims = values};
}
static inline weft_attribute weft_attr_dtype(weft_attribute_name name, weft_dtype value) {
    return (weft_attribute){.name = name, .as.dtype = value};
}
static inline weft_attribute weft_attr_string(weft_attribute_name name, const char *value) {
    return (weft_attribute){.name = name, .as.string = value};
}
static inline weft_attribute weft_attr_tensor(weft_attribute_name name, weft_tensor *value) {
    return (weft_attribute){.name = name, .as.tensor = value};
}

/* Appends at the insertion point. Result types come from the op's infer hook; result_count only for ops with results -1
   (while, cond, scan, fusion, sort: -1 = let infer decide from operands or regions). Attributes in any order.
   For region ops: create the regions first (weft_region_create), fill them, then create the node. */
weft_node *weft_node_create(weft_graph *graph, weft_op op, int operand_count, weft_value *const *operands,
                            int attribute_count, const weft_attribute *attributes, int region_count,
                            weft_region *const *regions);
/* The same for ops with one result; returns a poisoned value without memory. */
weft_value *weft_build(weft_graph *graph, weft_op op, int operand_count, weft_value *const *operands,
                       int attribute_count, const weft_attribute *attributes);

weft_region *weft_region_create(weft_graph *graph);
weft_value *weft_block_add_argument(weft_block *block, const weft_type *type, const char *name);

/* Where new nodes go. Returns the old place, to be restored. */
typedef struct weft_place {
    weft_block *block;
    weft_node *before;
} weft_place;
weft_place weft_graph_place_before(weft_graph *graph, weft_node *node);
weft_place weft_graph_place_end(weft_graph *graph, weft_block *block);
void weft_graph_place(weft_graph *graph, weft_place place);

void weft_node_set_operand(weft_node *node, int index, weft_value *value);
/* Every use of from (graph outputs included) becomes a use of to. */
void weft_value_replace(weft_value *from, weft_value *to);
/* Takes the node out of its block and puts it at a place. */
void weft_node_move(weft_node *node, weft_place place);
/* Unlinks a node without uses from its block and from its operands' use lists. */
void weft_node_remove(weft_node *node);
bool weft_value_has_uses(const weft_value *value); /* graph outputs count */

/* Deep copy of a block's nodes to the insertion point; map from old to new values through weft_value_map. */
typedef struct weft_value_map {
    weft_map map;
} weft_value_map;
void weft_value_map_init(weft_allocator allocator, weft_value_map *out_map);
void weft_value_map_deinit(weft_value_map *map);
bool weft_value_map_put(weft_value_map *map, const weft_value *from, weft_value *to);
weft_value *weft_value_map_find(const weft_value_map *map, const weft_value *from); /* NULL */
/* Clones node with its regions into graph; operands through map (unmapped ones stay: captured values). Types are
 * inferred anew. */
weft_node *weft_node_clone(weft_graph *graph, const weft_node *node, weft_value_map *map);
/* A copy of the graph with symbols replaced: replacement[i] for symbol i, WEFT_DIM_ANY keeps it. NULL = none. */
weft_status weft_graph_clone(weft_graph *graph, const weft_dim *replacement, weft_graph **out_graph) WEFT_MUST_USE;

/* Type with dims copied into the arena. */
weft_type weft_type_make(weft_graph *graph, weft_dtype dtype, int rank, const weft_dim *dims);
weft_value *weft_value_poison(weft_graph *graph);
static inline bool weft_value_is_poison(const weft_value *value) { return value->type.dtype == WEFT_INVALID; }
/* Records a problem at the graph's current location. */
void weft_graph_problem(weft_graph *graph, const char *format, ...) WEFT_PRINTF(2, 3);
/* Two extents that must be equal for a node to make sense: identical or provably equal: true. Provably different: false
   (the caller reports the problem). Otherwise the fact is recorded once in graph->guards, with the current location,
   and checked when the program or the interpreter is entered. */
bool weft_graph_assume_equal(weft_graph *graph, weft_dim a, weft_dim b);
/* The same for a <= b. */
bool weft_graph_assume_at_most(weft_graph *graph, weft_dim a, weft_dim b);
/* The same for any condition, with the pass and the location that rely on it (copies of graphs, parsed text). */
bool weft_graph_assume(weft_graph *graph, weft_condition condition, const char *pass, const char *location);
/* Records a condition that is neither provable nor refutable, once. */
void weft_graph_add_guard(weft_graph *graph, weft_condition condition, const char *pass, const char *location);
/* A value that outlives calls: state_read and state_update name it. initial may be NULL (zeros) and is retained. */
void weft_graph_add_state(weft_graph *graph, const char *name, const weft_type *type, weft_tensor *initial);
/* The graph's reference on a tensor that a node or state uses, or its packed copy of a strided one; NULL without
 * memory. */
weft_tensor *weft_graph_keep_tensor(weft_graph *graph, weft_tensor *tensor);
/* Makes or refreshes the body's yield from outputs. Passes see a finished graph. */
weft_status weft_graph_finish(weft_graph *graph) WEFT_MUST_USE;

#endif
