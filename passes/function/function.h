/* Functions as what lies between values: the nodes by which some values depend on others, in execution order.

   Transforms (derivatives, vmap, substitution) name a function by its inputs and results, both ordinary values of a
   graph under construction, and build its transform at the insertion point. Invariant: nothing that exists is changed,
   so a value that the caller holds stays what it was; what a transform leaves without use is dead code.
   Read next: walk.c, apply.c. */
#ifndef WEFT_PASSES_FUNCTION_H
#define WEFT_PASSES_FUNCTION_H

#include "ir/build.h"

typedef struct weft_node_list {
    weft_node **nodes;
    size_t count, capacity;
} weft_node_list;

typedef struct weft_value_list {
    weft_value **values;
    size_t count, capacity;
} weft_value_list;

void weft_node_list_deinit(weft_graph *graph, weft_node_list *list);
void weft_value_list_deinit(weft_graph *graph, weft_value_list *list);
/* Without memory the graph's out_of_memory is set and the lists stay as they are. */
void weft_node_list_add(weft_graph *graph, weft_node_list *list, weft_node *node);
void weft_value_list_add(weft_graph *graph, weft_value_list *list, weft_value *value);
/* The same, each value once. */
void weft_value_list_add_new(weft_graph *graph, weft_value_list *list, weft_value *value);

/* The nodes that values depend on, of the block of the insertion point and of the blocks around it, in execution order;
   what lies behind the inputs is left out. A read of a state depends on the last update before it. */
void weft_function_nodes(weft_graph *graph, size_t value_count, weft_value *const *values, size_t input_count,
                         weft_value *const *inputs, weft_node_list *list);
/* Values of outside that the regions of a node use, each once. */
void weft_node_captures(weft_graph *graph, const weft_node *node, weft_value_list *list);
/* The update whose value a state_read reads; NULL = the state at entry. A loop or branch in between that updates the
   state is a problem of the graph. */
const weft_node *weft_state_source(weft_graph *graph, const weft_node *read);

/* Regions that are copied must not touch states that change: an update inside would run twice, a read might see another
   value. True after a problem was recorded. */
bool weft_function_touches_states(weft_graph *graph, const weft_node *node);

/* Is the value defined in this block or in one inside it? */
bool weft_value_is_inside(const weft_value *value, const weft_block *block);
/* A region whose block has no yield is scratch: takes its nodes, and their uses of values outside, away. */
void weft_region_discard(weft_region *region);
/* At the door of a transform: values are there and of this graph, else a problem of the graph is recorded. False then,
   and where one is poisoned (its problem was recorded). what: "weft_jvp: an input". */
bool weft_function_check(weft_graph *graph, const char *what, int count, weft_value *const *values);
/* Poison in every place of out, until there is something better. */
bool weft_function_poison(weft_graph *graph, const char *what, int count, weft_value **out);
/* The value behind a map, or itself. */
static inline weft_value *weft_value_mapped(const weft_value_map *map, weft_value *value) {
    weft_value *found = weft_value_map_find(map, value);
    return found ? found : value;
}

#endif
