/* See attention_side.h. Read next: attention_hopper.c. */
#include "codegen/builders/attention_side.h"

#include "codegen/builders/index.h"

const weft_value *weft_attention_memory(const weft_graph *graph, const weft_value *operand, weft_head_view *out_view) {
    *out_view = (weft_head_view){.base = operand};
    if (!operand->node) return operand;
    if (operand->type.dims[2] == 1 || !weft_head_view_find(graph, operand, out_view)) return NULL;
    const weft_value *base = out_view->base;
    while (base->node && base->node->op == WEFT_OP_reshape) base = base->node->operands[0];
    return base->node ? NULL : base;
}

bool weft_attention_tokens_first(const weft_node *fusion, const weft_node *node) {
    bool tokens_first;
    return weft_attention_result(fusion, node, 0, &tokens_first) == 0 && tokens_first;
}

static bool operands_in_memory(const weft_graph *graph, const weft_node *node, int count, const char **out_reason) {
    *out_reason = "operands are computed in the group";
    weft_head_view view;
    for (int i = 0; i < count; i++)
        if (!weft_attention_memory(graph, node->operands[i], &view)) return false;
    return true;
}

bool weft_attention_reaches(const weft_graph *graph, const weft_node *fusion, const weft_node *node, int count,
                            const char **out_reason) {
    if (!operands_in_memory(graph, node, count, out_reason)) return false;
    *out_reason = "the result is used in the group";
    if (fusion->result_count != node->result_count) return false;
    bool tokens_first;
    for (int i = 0; i < node->result_count; i++)
        if (weft_attention_result(fusion, node, i, &tokens_first) < 0 ||
            (tokens_first && node->results[i].type.rank != 4))
            return false;
    *out_reason = NULL;
    return true;
}

bool weft_attention_in_memory(const weft_graph *graph, const weft_node *fusion, const weft_node *node,
                              const char **out_reason) {
    if (!operands_in_memory(graph, node, 3, out_reason)) return false;
    *out_reason = "the result is used in the group";
    if (fusion->result_count != node->result_count) return false;
    bool tokens_first;
    for (int i = 0; i < node->result_count; i++)
        if (weft_attention_result(fusion, node, i, &tokens_first) != i || (i > 0 && tokens_first)) return false;
    *out_reason = NULL;
    return true;
}

weft_attention_side weft_attention_operand_side(const weft_graph *graph, const weft_value *operand) {
    weft_head_view view;
    const weft_dim *dims = operand->type.dims;
    weft_attention_side side = {.map = WEFT_KNONE, .batches = dims[0], .heads = dims[1], .rows = dims[2]};
    side.tokens_first = operand->node && weft_attention_memory(graph, operand, &view);
    if (side.tokens_first) side.across = view.heads, side.first = view.first;
    return side;
}

int weft_attention_result(const weft_node *fusion, const weft_node *node, int index, bool *out_tokens_first) {
    *out_tokens_first = false;
    for (int i = 0; i < fusion->result_count; i++) {
        const weft_value *yield = weft_fusion_yield(fusion, i);
        if (yield == &node->results[index]) return i;
        const weft_node *last = yield->node;
        if (last && last != node && weft_is_head_transpose(last) && last->operands[0] == &node->results[index] &&
            node->results[index].type.dims[2] != 1) {
            *out_tokens_first = true;
            return i;
        }
    }
    return -1;
}

weft_attention_side weft_attention_result_side(const weft_type *type, bool tokens_first) {
    return (weft_attention_side){.map = WEFT_KNONE,
                                 .tokens_first = tokens_first,
                                 .batches = type->dims[0],
                                 .heads = type->dims[1],
                                 .rows = type->dims[2],
                                 .across = type->dims[1]};
}

void weft_attention_side_map(weft_attention_side *side, weft_kernel *k, weft_kernel_plan *plan, int buffer,
                             weft_dtype dtype, int columns, int box_rows, bool writes, const char *name) {
    weft_dim_table *dims = k->dims;
    weft_tensor_map *map = &plan->maps[plan->map_count];
    bool tokens = side->tokens_first;
    *map = (weft_tensor_map){.buffer = buffer, .dtype = dtype, .rank = tokens ? 4 : 3, .swizzle_bytes = 128};
    map->extent[0] = columns, map->box[0] = 64;
    map->stride_bytes[1] = columns * 2;
    if (tokens) {
        map->extent[1] = side->across, map->extent[2] = side->rows, map->extent[3] = side->batches;
        map->stride_bytes[2] = weft_dim_multiply(dims, side->across, columns * 2);
        map->stride_bytes[3] = weft_dim_multiply(dims, side->rows, map->stride_bytes[2]);
        map->box[1] = 1, map->box[2] = box_rows, map->box[3] = 1;
    } else {
        map->extent[1] = side->rows, map->extent[2] = weft_dim_multiply(dims, side->batches, side->heads);
        map->stride_bytes[2] = weft_dim_multiply(dims, side->rows, columns * 2);
        map->box[1] = box_rows, map->box[2] = 1;
    }
    side->map = weft_kernel_buffer(k, WEFT_ARGUMENT_TENSOR_MAP, plan->map_count++, dtype, writes, name);
}

int weft_attention_coordinates(weft_kernel *k, const weft_attention_side *side, int column, weft_kval row,
                               weft_kval head, weft_kval *out) {
    out[0] = weft_k_index(k, column);
    if (!side->tokens_first) return out[1] = row, out[2] = head, 3;
    weft_kval heads = weft_k_extent(k, side->heads);
    out[1] = weft_k_add(k, weft_k_rem(k, head, heads), weft_k_index(k, side->first));
    out[2] = row, out[3] = weft_k_div(k, head, heads);
    return 4;
}

weft_kval weft_attention_line(weft_kernel *k, const weft_attention_side *side, weft_kval row, weft_kval head) {
    weft_kval rows = weft_k_extent(k, side->rows), heads = weft_k_extent(k, side->heads);
    if (!side->tokens_first) return weft_k_add(k, weft_k_mul(k, head, rows), row);
    weft_kval token = weft_k_add(k, weft_k_mul(k, weft_k_div(k, head, heads), rows), row),
              own = weft_k_add(k, weft_k_rem(k, head, heads), weft_k_index(k, side->first));
    return weft_k_add(k, weft_k_mul(k, token, weft_k_extent(k, side->across)), own);
}

weft_kval weft_attention_line_step(weft_kernel *k, const weft_attention_side *side) {
    return side->tokens_first ? weft_k_extent(k, side->across) : weft_k_index(k, 1);
}
