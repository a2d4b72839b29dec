/* Sums that pick one element of a row: sum over c of (label == c ? x[c] : 0), as cross-entropy and one-hot products
   write it. Such a sum is x[label], or 0 for a label outside: one load a row instead of a comparison an element.

   A pick belongs to no pass: its level is -1, and it is bound before the pass of its own level, when everything that
   its value needs is known. Exact but for the sign of a zero. Read next: reduce_rows.c, reduce_held.c. */
#include <string.h>

#include "base/tensor.h"
#include "codegen/builders/reduce.h"

static const weft_node *producer(const weft_value *value, weft_op op) {
    return value->node && value->node->op == op ? value->node : NULL;
}

static bool is_zero(const weft_value *value) {
    while (producer(value, WEFT_OP_broadcast) || producer(value, WEFT_OP_reshape)) value = value->node->operands[0];
    const weft_node *constant = producer(value, WEFT_OP_constant);
    if (!constant) return false;
    const weft_tensor *tensor = weft_node_attribute(constant, WEFT_ATTR_value)->as.tensor;
    return tensor->element_count == 1 && weft_dtype_is_float(tensor->dtype) &&
           weft_element_double(tensor->dtype, tensor->data, 0) == 0;
}

/* 0, 1, 2 ... along the axis, whose numbers the dtype can hold; an empty row has no place to read. */
static bool counts_along(const weft_reduction *r, const weft_value *value, int axis) {
    const weft_node *iota = producer(value, WEFT_OP_iota);
    int64_t low, high;
    weft_dim_bounds(r->request->graph->dims, r->lane_extent, &low, &high);
    return iota && weft_node_int(iota, WEFT_ATTR_axis, -1) == axis && weft_dtype_is_integer(value->type.dtype) &&
           weft_dtype_bits(value->type.dtype) >= 32 && low >= 1 && high <= INT32_MAX;
}

/* The same number in all of a row. */
static bool is_of_row(const weft_value *value, int axis) {
    while (producer(value, WEFT_OP_convert)) value = value->node->operands[0];
    const weft_node *broadcast = producer(value, WEFT_OP_broadcast);
    if (!broadcast) return false;
    const weft_attribute *axes = weft_node_attribute(broadcast, WEFT_ATTR_axes);
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis && broadcast->operands[0]->type.dims[i] != 1) return false;
    return true;
}

/* The label that reduce `i` picks by; NULL: it is no pick. */
static const weft_value *label_of(const weft_reduction *r, int i) {
    const weft_node *node = r->nodes[i], *choice = producer(node->operands[0], WEFT_OP_select);
    if (strcmp(r->kind[i], "sum") || !choice || !is_zero(choice->operands[2])) return NULL;
    const weft_node *equal = producer(choice->operands[0], WEFT_OP_compare);
    if (!equal || strcmp(weft_node_string(equal, WEFT_ATTR_direction, "eq"), "eq")) return NULL;
    for (int side = 0; side < 2; side++)
        if (counts_along(r, equal->operands[side], r->lane_axis) && is_of_row(equal->operands[1 - side], r->lane_axis))
            return equal->operands[1 - side];
    return NULL;
}

void weft_reduction_find_picks(weft_reduction *r) {
    /* the row is one axis: a label is a place in it */
    if (!r->rows || r->lane_axis < 0 || weft_node_attribute(r->nodes[0], WEFT_ATTR_axes)->count != 1) return;
    for (int i = 0; i < r->count; i++) {
        r->pick[i].label = label_of(r, i);
        if (!r->pick[i].label) continue;
        r->pick[i].level = r->level[i];
        r->level[i] = -1;
    }
}

/* The label of each pick, as I64. index: the row, lanes anywhere. */
void weft_reduction_read_labels(weft_reduction *r, const weft_lane_index *index, weft_kval *out_labels) {
    weft_lane_index at[WEFT_MAX_RANK];
    for (int i = 0; i < r->count; i++) {
        out_labels[i] = WEFT_KNONE;
        if (!r->pick[i].label) continue;
        for (int a = 0; a < r->x->rank; a++) at[a] = index[a];
        at[r->lane_axis] = weft_lane_scalar(weft_k_index(r->k, 0));
        out_labels[i] = weft_k_convert(r->k, weft_index_value(&r->c, r->pick[i].label, at, 1, WEFT_KNONE), WEFT_I64);
    }
}

/* Finds the places and starts the loads that they need. */
void weft_reduction_place_picks(weft_reduction *r, const weft_lane_index *index) {
    weft_kernel *k = r->k;
    weft_lane_index at[WEFT_MAX_RANK];
    weft_kval labels[WEFT_REDUCTIONS_MAX];
    if (!r->labels) weft_reduction_read_labels(r, index, labels);
    for (int i = 0; i < r->count; i++) {
        if (!r->pick[i].label) continue;
        weft_kval label = r->labels ? r->labels[i] : labels[i];
        for (int a = 0; a < r->x->rank; a++) at[a] = index[a];
        weft_kval extent = weft_k_convert(k, weft_ix_extent(&r->c, r->lane_extent), WEFT_I64);
        r->pick[i].inside =
            weft_k_and(k, weft_k_le(k, weft_k_integer(k, WEFT_I64, 0), label), weft_k_lt(k, label, extent));
        r->pick[i].place = weft_k_select(k, r->pick[i].inside, weft_k_convert(k, label, k->capability->index_dtype),
                                         weft_k_index(k, 0));
        at[r->lane_axis] = weft_lane_scalar(r->pick[i].place);
        weft_reduction_fetch(r, 0, at, 1);
    }
}

int weft_reduction_first_pick(const weft_reduction *r) {
    int first = r->levels;
    for (int i = 0; i < r->count; i++)
        if (r->pick[i].label && r->pick[i].level < first) first = r->pick[i].level;
    return first;
}

void weft_reduction_bind_picks(weft_reduction *r, int pass, const weft_lane_index *index) {
    weft_lane_index at[WEFT_MAX_RANK];
    for (int i = 0; i < r->count; i++) {
        const weft_node *node = r->nodes[i];
        if (!r->pick[i].label || r->pick[i].level != pass) continue;
        for (int a = 0; a < r->x->rank; a++) at[a] = index[a];
        at[r->lane_axis] = weft_lane_scalar(r->pick[i].place);
        weft_kval value = weft_index_value(&r->c, node->operands[0]->node->operands[1], at, 1, WEFT_KNONE);
        value = weft_index_select(&r->c, r->pick[i].inside, value,
                                  weft_index_identity(&r->c, "sum", node->results[0].type.dtype, 1));
        weft_index_bind(&r->c, &node->results[0], weft_index_round(&r->c, node->results[0].type.dtype, value));
    }
}

bool weft_reduction_pass_is_empty(const weft_reduction *r, int pass) {
    for (int i = 0; i < r->count; i++)
        if (r->level[i] == pass) return false;
    return pass < r->levels;
}
