/* Batching (vmap): a function of elements becomes one of whole batches, node by node (batch hooks of ir/ops.def).

   A batched value has the batch as its axis 0, before the element's own shape; a value that is the same for every
   element stays as it is. batch.c walks nodes; vmap.c has the public calls; rules are in one file per family. A derived
   op without a hook goes through its decomposition; an op whose batch no single op computes goes element by element
   (weft_batch_loop). Invariant: element i of a result is bit for bit what the function gives for element i of its
   inputs, up to the order of sums inside products. */
#ifndef WEFT_PASSES_BATCH_H
#define WEFT_PASSES_BATCH_H

#include "ir/emit.h"
#include "passes/function/function.h"
#include "weft/transform.h"

typedef struct weft_batch {
    weft_graph *graph;
    weft_dim extent;        /* of the batch */
    weft_value_map batched; /* value -> its batch */
    weft_value_map plain;   /* value of a copied region -> its copy, the same for every element */
    weft_vmap_randomness randomness;
    int first_id; /* nodes from here on are the function's own: randomness is about them */
} weft_batch;

typedef struct weft_batch_rule {
    weft_batch *batch;
    weft_graph *graph;
    const weft_node *node; /* for attributes and types of elements */
    weft_dim extent;
    weft_value *const *operands; /* to be used: batches where is_batched, else the same for every element */
    const bool *is_batched;      /* at least one, or a captured value, is */
    weft_value **out_batches;    /* by result; NULL at entry and for results that do not depend on the element */
} weft_batch_rule;

typedef void (*weft_batch_hook)(weft_batch_rule *rule);

#define HOOK(name) void weft_batch_##name(weft_batch_rule *rule);
#define NONE(reason)
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, transpose, batch)  \
    batch
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK

/* The hook of an op, or NULL and the reason. */
weft_batch_hook weft_batch_get(weft_op op, const char **out_reason);

/* -- walking */

void weft_batch_init(weft_batch *batch, weft_graph *graph, weft_dim extent);
void weft_batch_deinit(weft_batch *batch);
void weft_batch_put(weft_batch *batch, const weft_value *value, weft_value *batched);
/* NULL = the same for every element. */
weft_value *weft_batch_find(const weft_batch *batch, const weft_value *value);
/* The batch of a value, made by repetition when it is the same for every element. */
weft_value *weft_batch_value(weft_batch *batch, weft_value *value);
/* copy: nodes that do not depend on the element are copied to the insertion point too (bodies of regions). */
void weft_batch_node(weft_batch *batch, weft_node *node, bool copy);
void weft_batch_block(weft_batch *batch, const weft_block *block);

/* -- for rules */

/* Operand i as a batch. */
weft_value *weft_batch_operand(weft_batch_rule *rule, int i);
/* x [...] -> [extent, ...]. */
weft_value *weft_batch_repeat(weft_graph *graph, weft_value *x, weft_dim extent);
/* Axis `from` to position `to`, the others in order. */
weft_value *weft_batch_move_axis(weft_graph *graph, weft_value *x, int from, int to);
/* The node's attributes, to be changed. NULL without memory. */
weft_attribute *weft_batch_attributes(weft_batch_rule *rule);
weft_attribute *weft_batch_attribute(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name);
/* INTS: every axis one further, after `first` when that is >= 0. INT: one further. */
void weft_batch_shift(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name, int64_t first);
/* DIMS, INTS: one more entry in front. */
void weft_batch_prepend_dim(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name, weft_dim dim);
void weft_batch_prepend_int(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name, int64_t value);
/* The node's op on other operands and attributes: all its results are batches. */
void weft_batch_build(weft_batch_rule *rule, weft_value *const *operands, const weft_attribute *attributes);
/* The same where every operand is a batch. */
void weft_batch_build_all(weft_batch_rule *rule, const weft_attribute *attributes);
/* A derived op through its decomposition. */
void weft_batch_decompose(weft_batch_rule *rule);
/* Element by element, as a scan over the batch. */
void weft_batch_loop(weft_batch_rule *rule);

#endif
