/* When do two groups compile to the same kernels: same ops, attributes and types, values numbered by order, and the
   same operands constant (a constant operand may be packed at load), or subnormal numbers that count. */
#include "codegen/builders/plan.h"
#include "compile/lower.h"
#include "ir/print.h"

#include <inttypes.h>
#include <string.h>

static void key_type(const weft_graph *graph, const weft_type *type, weft_text *key) {
    weft_type_print(graph, type, key);
}

static void key_attribute(const weft_graph *graph, const weft_attribute *attribute, weft_text *key) {
    weft_text_append(key, " %d=", (int)attribute->name);
    switch (weft_attribute_kind_of(attribute->name)) {
    case WEFT_ATTR_KIND_INT: weft_text_append(key, "%" PRId64, attribute->as.integer); break;
    case WEFT_ATTR_KIND_FLOAT: weft_text_append_double(key, attribute->as.number); break;
    case WEFT_ATTR_KIND_INTS:
        for (int i = 0; i < attribute->count; i++) weft_text_append(key, "%" PRId64 ",", attribute->as.ints[i]);
        break;
    case WEFT_ATTR_KIND_FLOATS:
        for (int i = 0; i < attribute->count; i++)
            weft_text_append_double(key, attribute->as.numbers[i]), weft_text_append(key, ",");
        break;
    case WEFT_ATTR_KIND_DIMS:
        for (int i = 0; i < attribute->count; i++)
            weft_dim_print(graph->dims, attribute->as.dims[i], key), weft_text_append(key, ",");
        break;
    case WEFT_ATTR_KIND_DTYPE: weft_text_append(key, "%d", (int)attribute->as.dtype); break;
    case WEFT_ATTR_KIND_STRING: weft_text_append_quoted(key, attribute->as.string, strlen(attribute->as.string)); break;
    case WEFT_ATTR_KIND_TENSOR: {
        const weft_tensor *tensor = attribute->as.tensor;
        weft_text_append_bytes(key, weft_tensor_data(tensor),
                               weft_tensor_bytes(tensor)); /* copied constants are small and packed */
        break;
    }
    }
}

weft_status weft_structure_key(const weft_node *fusion, weft_text *key) {
    const weft_block *block = fusion->regions[0]->block;
    const weft_graph *graph = block->graph;
    weft_map numbers;
    weft_map_init(graph->context->allocator, &numbers);
    uintptr_t next = 1;
    bool memory = true;
    weft_text_append(key, "%s%s", weft_node_string(fusion, WEFT_ATTR_anchor, ""),
                     weft_fusion_reads_powers(fusion) ? " powers" : "");
    for (int i = 0; i < block->argument_count && memory; i++) {
        const weft_value *argument = block->arguments[i], *outer = fusion->operands[i];
        memory = weft_map_put(&numbers, &argument, sizeof argument, (void *)next++);
        weft_text_append(key, outer->node && outer->node->op == WEFT_OP_constant ? " c" : " v");
        key_type(graph, &argument->type, key);
    }
    for (const weft_node *node = block->first; node && memory; node = node->next) {
        weft_text_append(key, "\n%d(", (int)node->op);
        for (int i = 0; i < node->operand_count; i++) {
            const weft_value *operand = node->operands[i];
            weft_text_append(key, "%d,", (int)(uintptr_t)weft_map_find(&numbers, &operand, sizeof operand));
        }
        weft_text_append(key, ")");
        for (int i = 0; i < node->attribute_count; i++) key_attribute(graph, &node->attributes[i], key);
        for (int i = 0; i < node->result_count && memory; i++) {
            const weft_value *result = &node->results[i];
            memory = weft_map_put(&numbers, &result, sizeof result, (void *)next++);
            weft_text_append(key, ":");
            key_type(graph, &result->type, key);
        }
    }
    weft_map_deinit(&numbers);
    if (!memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "comparing fusion groups");
    return weft_text_status(key);
}
