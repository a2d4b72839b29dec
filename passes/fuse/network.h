/* Networks over rows: values of [rows, features] that small products and elementwise ops take through any number of
   layers, branches and back again, so that no row ever needs another: a network, its tangents of any order, which are
   more columns of values through the same weights, and its backward pass, which goes through them transposed. One
   kernel takes a few rows a block through all of it; weights and values lie in shared memory. What adds over rows
   (gradients of weights, losses) reads its results.

   Shared by the pass that finds such networks and the builder. Stages: a product's result is one stage behind its left
   operand, an elementwise value stands where the last of its operands does. Read next: network.c,
   codegen/builders/network.c. */
#ifndef WEFT_PASSES_FUSE_NETWORK_H
#define WEFT_PASSES_FUSE_NETWORK_H

#include "base/arena.h"
#include "base/capability.h"
#include "base/map.h"
#include "ir/graph.h"

enum {
    WEFT_NETWORK_WIDTH_MAX = 256,
    WEFT_NETWORK_BLOCK_ROWS_MAX = 4, /* rows of a block */
    WEFT_NETWORK_THREADS_MAX = 256,
    WEFT_NETWORK_NODES_MAX = 512,
    WEFT_NETWORK_BUFFERS_MAX = 80
};

/* A right operand, [lines][columns] in shared memory; both multiples of four there, what is added is zero. */
typedef struct weft_network_weight {
    const weft_value *value;
    int64_t lines, columns;
} weft_network_weight;

/* A value of [rows, width] that has a place in shared memory for every row of a block. */
typedef struct weft_network_slot {
    const weft_value *value;
    int64_t width, at; /* at: numbers before it, counted for one row */
    bool outside;      /* not of the network: evaluated before the first stage */
} weft_network_slot;

typedef struct weft_network_product {
    const weft_node *dot;
    int weight, stage;      /* stage: of its left operand */
    bool contracts_columns; /* of the weight, else its lines */
    int64_t inputs, outputs;
} weft_network_product;

typedef struct weft_network {
    weft_dim rows;
    int stages; /* of elementwise values: 0 .. stages - 1 */
    int node_count, weight_count, slot_count, product_count;
    const weft_node **nodes; /* of the network, in order; each with its stage */
    int *stage;
    weft_network_weight *weights;
    weft_network_slot *slots;
    weft_network_product *products;
    int64_t slot_numbers; /* of all slots, for one row */
    int64_t weight_numbers;
    weft_map numbers, places; /* node -> its number + 1; value -> its slot + 1 */
} weft_network;

/* May the node be one of a network over `rows`? A product with a small weight, or an elementwise op. */
bool weft_network_takes(const weft_graph *graph, const weft_node *node, weft_dim rows);
/* The network of these nodes, all of which weft_network_takes, in order. The lists live in the arena, the maps until
   deinit. WEFT_OUT_OF_MEMORY is the only error. */
weft_status weft_network_init(const weft_graph *graph, int count, const weft_node *const *nodes, weft_dim rows,
                              weft_arena *arena, weft_network *out_net) WEFT_MUST_USE;
void weft_network_deinit(weft_network *net);
int weft_network_slot_of(const weft_network *net, const weft_value *value);  /* -1: none */
int weft_network_stage_of(const weft_network *net, const weft_value *value); /* 0 for what is outside */
bool weft_network_is_inside(const weft_network *net, const weft_value *value);
/* A scalar constant, broadcast: known without memory. */
bool weft_network_is_constant(const weft_value *value);

/* Numbers from one row of a slot, or one line of a weight, to the next: vectors of neighbouring threads meet different
   banks. */
static inline int64_t weft_network_pitch(int64_t width) { return (width + 3) / 4 * 4 + 4; }
static inline int64_t weft_network_weight_lines(int64_t lines) { return (lines + 3) / 4 * 4; }
int64_t weft_network_shared_bytes(const weft_network *net, int rows);
/* Rows of a block: as many as spread them over the processors, as far as memory goes; 0: one is too many. */
int weft_network_block_rows(const weft_network *net, const weft_graph *graph, const weft_capability *capability);

#endif
