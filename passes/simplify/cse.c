/* Common subexpressions: nodes with the same op, operands and attributes become one. What an enclosing block computed
   is known inside; what a block computed is forgotten behind it. A node's key is its text-free image: op, operand
   addresses, attribute bytes; constants count by content. */
#include <string.h>

#include "base/tensor.h"
#include "passes/simplify/simplify.h"

/* Constants above this are equal only when they are the same tensor. */
enum { COMPARED_BYTES = 1 << 16 };

typedef struct expressions {
    weft_graph *graph;
    weft_map known; /* key -> weft_node* */
    weft_text key;
    bool *changed;
} expressions;

static void key_bytes(expressions *table, const void *data, size_t bytes) {
    weft_text_append_bytes(&table->key, data, bytes);
}

static void key_tensor(expressions *table, const weft_tensor *tensor) {
    if (tensor->bytes > COMPARED_BYTES || !tensor->packed) {
        key_bytes(table, &tensor, sizeof(const weft_tensor *));
        return;
    }
    key_bytes(table, &tensor->dtype, sizeof tensor->dtype);
    key_bytes(table, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape);
    key_bytes(table, tensor->data, tensor->bytes);
}

static void key_attribute(expressions *table, const weft_attribute *attribute) {
    key_bytes(table, &attribute->name, sizeof attribute->name);
    key_bytes(table, &attribute->count, sizeof attribute->count);
    switch (weft_attribute_kind_of(attribute->name)) {
    case WEFT_ATTR_KIND_INT: key_bytes(table, &attribute->as.integer, sizeof attribute->as.integer); return;
    case WEFT_ATTR_KIND_FLOAT: key_bytes(table, &attribute->as.number, sizeof attribute->as.number); return;
    case WEFT_ATTR_KIND_DTYPE: key_bytes(table, &attribute->as.dtype, sizeof attribute->as.dtype); return;
    case WEFT_ATTR_KIND_STRING: key_bytes(table, attribute->as.string, strlen(attribute->as.string) + 1); return;
    case WEFT_ATTR_KIND_TENSOR: key_tensor(table, attribute->as.tensor); return;
    case WEFT_ATTR_KIND_INTS:
    case WEFT_ATTR_KIND_FLOATS:
    case WEFT_ATTR_KIND_DIMS: key_bytes(table, attribute->as.ints, (size_t)attribute->count * 8); return;
    }
}

/* attention with and without its log-sum-exp counts as one expression: a derivative asks for what the forward pass,
   built before it, did not. */
static void make_key(expressions *table, const weft_node *node) {
    table->key.length = 0;
    key_bytes(table, &node->op, sizeof node->op);
    for (int i = 0; i < node->operand_count; i++) key_bytes(table, &node->operands[i], sizeof node->operands[i]);
    for (int i = 0; i < node->attribute_count; i++)
        if (node->attributes[i].name != WEFT_ATTR_lse) key_attribute(table, &node->attributes[i]);
}

/* Named constants are parameters: each keeps its identity. */
static bool takes_part(const weft_node *node) {
    if (weft_op_get(node->op)->flags & (WEFT_FLAG_EFFECT | WEFT_FLAG_REGION | WEFT_FLAG_TERMINATOR)) return false;
    if (node->op == WEFT_OP_optimization_barrier || weft_node_attribute(node, WEFT_ATTR_symbol)) return false;
    return node->op != WEFT_OP_constant || !node->results[0].name;
}

/* b's results are the first of a's. */
static bool gives_all(const weft_node *a, const weft_node *b) {
    if (a->result_count < b->result_count) return false;
    for (int i = 0; i < b->result_count; i++)
        if (!weft_type_equal(&a->results[i].type, &b->results[i].type)) return false;
    return true;
}

static void replace(weft_node *node, weft_node *by) {
    for (int i = 0; i < node->result_count; i++) {
        if (!by->results[i].name) by->results[i].name = node->results[i].name;
        weft_value_replace(&node->results[i], &by->results[i]);
    }
    weft_node_remove(node);
}

static weft_status sweep_block(expressions *table, weft_block *block);

static weft_status visit(expressions *table, weft_node *node) {
    for (int i = 0; node->op != WEFT_OP_fusion && i < node->region_count; i++)
        WEFT_TRY(sweep_block(table, node->regions[i]->block), "%s", weft_op_get(node->op)->name);
    if (!takes_part(node)) return NULL;
    make_key(table, node);
    WEFT_TRY(weft_text_status(&table->key), "key of %s", weft_op_get(node->op)->name);
    weft_node *twin = weft_map_find(&table->known, table->key.data, table->key.length);
    if (twin && gives_all(twin, node)) {
        replace(node, twin);
        *table->changed = true;
        return NULL;
    }
    bool extends = twin && gives_all(node, twin); /* the same operands: it may stand where the twin does */
    if (twin && !extends) return NULL;            /* equal under a guard only */
    if (extends) {
        weft_node_move(node, (weft_place){twin->block, twin});
        replace(twin, node);
        *table->changed = true;
    }
    if (weft_map_put(&table->known, table->key.data, table->key.length, node)) return NULL;
    return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "table of expressions");
}

static weft_status sweep_block(expressions *table, weft_block *block) {
    for (weft_node *node = block->first, *next; node; node = next) {
        next = node->next;
        WEFT_TRY(visit(table, node), "common subexpressions");
    }
    for (weft_node *node = block->first; block->region->parent && node; node = node->next) {
        if (!takes_part(node)) continue;
        make_key(table, node);
        WEFT_TRY(weft_text_status(&table->key), "key of %s", weft_op_get(node->op)->name);
        if (weft_map_find(&table->known, table->key.data, table->key.length) == node)
            weft_map_remove(&table->known, table->key.data, table->key.length);
    }
    return NULL;
}

weft_status weft_simplify_cse(weft_graph *graph, bool *changed) {
    expressions table = {.graph = graph, .changed = changed};
    weft_map_init(graph->context->allocator, &table.known);
    weft_text_init(graph->context->allocator, &table.key);
    weft_status status = sweep_block(&table, graph->body->block);
    weft_text_deinit(&table.key);
    weft_map_deinit(&table.known);
    return status;
}
