/* ragged_dot: a product for each group of rows, with the kernels of dot.c. Offsets are made bounds first (ops.def):
   clamped to the rows, and never falling. */
#include <string.h>

#include "ir/interp/interp.h"

typedef struct ragged {
    int64_t rows, k, n, groups;
    int64_t contract; /* axis of the rhs */
    size_t item;
    bool floats, round;
    const char *a, *b;
    char *y;
    char *turned; /* one operand of one group in the order of the kernels */
} ragged;

static void multiply(const ragged *r, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *y) {
    if (r->floats)
        (r->round ? weft_interp_matmul_f32 : weft_interp_matmul_f64)(m, n, k, a, b, y);
    else
        weft_interp_matmul_i64(m, n, k, a, b, y);
}

/* [rows, columns] -> [columns, rows] */
static void turn(const ragged *r, int64_t rows, int64_t columns, const char *from) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            memcpy(r->turned + (size_t)(j * rows + i) * r->item, from + (size_t)(i * columns + j) * r->item, r->item);
}

/* Group g, the rows from `first` up to `end`. */
static void multiply_group(const ragged *r, int64_t g, int64_t first, int64_t end) {
    const char *a = r->a + (size_t)(first * r->k) * r->item;
    if (r->contract == 0) {
        turn(r, end - first, r->k, a);
        multiply(r, r->k, r->n, end - first, r->turned, r->b + (size_t)(first * r->n) * r->item,
                 r->y + (size_t)(g * r->k * r->n) * r->item);
        return;
    }
    const char *w = r->b + (size_t)(g * r->k * r->n) * r->item;
    if (r->contract == 2) turn(r, r->n, r->k, w);
    multiply(r, end - first, r->n, r->k, a, r->contract == 2 ? r->turned : w, r->y + (size_t)(first * r->n) * r->item);
}

static void multiply_groups(const ragged *r, const weft_tensor *offsets) {
    int64_t first = 0;
    for (int64_t g = 0; g <= r->groups; g++) {
        int64_t end = weft_interp_index(offsets, g);
        end = end < first ? first : end > r->rows ? r->rows : end;
        if (g > 0) multiply_group(r, g - 1, first, end);
        first = end;
    }
}

static void load(const ragged *r, const weft_tensor *x, void *out) {
    if (r->floats)
        weft_interp_load_f64(x->dtype, x->data, 0, x->element_count, out);
    else
        weft_interp_load_i64(x->dtype, x->data, 0, x->element_count, out);
}

weft_status weft_interpret_ragged_dot(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                      weft_tensor **results) {
    const weft_tensor *x = inputs[0], *w = inputs[1];
    weft_dtype sum = weft_interp_accumulate(node);
    ragged r = {.contract = weft_node_attribute(node, WEFT_ATTR_rhs_contract)->as.ints[0],
                .item = sizeof(double),
                .floats = weft_interp_domain_of(x->dtype) == WEFT_DOMAIN_FLOAT,
                .round = weft_interp_rounds(interpreter, sum)};
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of ragged_dot");
    r.rows = x->shape[0], r.k = x->shape[1], r.n = w->shape[r.contract ? 3 - r.contract : 1];
    r.groups = inputs[2]->shape[0] - 1;
    int64_t turned = r.contract == 0 ? x->element_count : r.k * r.n;
    int64_t counts[4] = {x->element_count, w->element_count, results[0]->element_count, turned};
    void *memory[4] = {NULL, NULL, NULL, NULL};
    weft_status status = NULL;
    for (int i = 0; i < 4 && !status; i++) status = weft_interp_scratch(interpreter, counts[i], r.item, &memory[i]);
    if (!status) {
        load(&r, x, memory[0]);
        load(&r, w, memory[1]);
        memset(memory[2], 0, (size_t)counts[2] * r.item);
        r.a = memory[0], r.b = memory[1], r.y = memory[2], r.turned = memory[3];
        multiply_groups(&r, inputs[2]);
        weft_interp_store_sums(node, r.floats ? WEFT_DOMAIN_FLOAT : WEFT_DOMAIN_INTEGER, memory[2], results[0]);
    }
    for (int i = 0; i < 4; i++) weft_interp_scratch_free(interpreter, counts[i], r.item, memory[i]);
    return status;
}
