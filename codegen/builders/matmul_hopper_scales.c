/* Scales of blocks in the Hopper matmul (scaled_dot). A stage of the ring is 128 elements of k of 8 bits, one block of
   scales deep: the sums of a stage, which leave the matrix unit anyway (matmul_hopper_kernel.c), are multiplied by the
   scale of their row and of their columns, in f32. Scales are read where they lie, a step at a time: a row's follow
   each other in memory, so most reads meet the first level of cache. Read next: matmul_hopper_kernel.c. */
#include "codegen/builders/matmul_hopper.h"
#include "codegen/builders/plan.h"

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }

static int64_t divisor_of(int64_t a, int64_t b) { return b ? divisor_of(b, a % b) : a; }

bool weft_hopper_scales_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability) {
    const int64_t *block = weft_node_attribute(node, WEFT_ATTR_block)->as.ints;
    if (!capability->hopper || block[0] != 1 || block[1] % 64 || block[2] != HOPPER_ROW_BYTES) return false;
    weft_dtype sides[2] = {weft_operand_type(node, 0)->dtype, weft_operand_type(node, 1)->dtype};
    for (int i = 0; i < 2; i++)
        if (sides[i] != WEFT_F8E4M3FN && sides[i] != WEFT_F8E5M2) return false;
    /* as other sums of 8-bit floats: good for 16 bits */
    if (weft_dtype_bits(node->results[0].type.dtype) > 16 && !capability->relax_f8) return false;
    const weft_type *a = weft_operand_type(node, 0), *b = weft_operand_type(node, 1), *d = &node->results[0].type;
    const weft_type *types[3] = {a, b, d};
    int64_t low, high;
    weft_dim_bounds(graph->dims, a->dims[a->rank - 1], &low, &high);
    if (low < 1) return false;
    for (int i = 0; i < 3; i++) {
        weft_dim count = 1;
        for (int axis = 0; axis < types[i]->rank; axis++)
            count = weft_dim_multiply(graph->dims, count, types[i]->dims[axis]);
        if (weft_dim_is_number(count) && count > INT32_MAX) return false;
    }
    return true;
}

/* The first scale of row `row` of side's blocks, [batch, rows, blocks of k]. */
static weft_kval start_of(weft_hopper *h, int side, weft_kval batch, weft_kval row) {
    weft_kernel *k = h->k;
    const weft_type *type = &h->product.dot->operands[2 + side]->type;
    weft_kval rows = weft_k_extent(k, type->dims[type->rank - 2]);
    row = weft_k_min(k, row, weft_k_sub(k, rows, index_of(h, 1)));
    return weft_k_mul(k, weft_k_add(k, weft_k_mul(k, batch, rows), row), weft_k_extent(k, type->dims[type->rank - 1]));
}

static weft_kval scale_at(weft_hopper *h, int side, weft_kval at) {
    const weft_value *scales = h->product.dot->operands[2 + side];
    return weft_index_load(h->index, h->index->operands[scales->index], scales->type.dtype, weft_lane_scalar(at), 1,
                           WEFT_KNONE);
}

void weft_hopper_scales_begin(weft_hopper *h, weft_tile_place place, weft_kval row, weft_kval first,
                              weft_hopper_scales *out_scales) {
    weft_kernel *k = h->k;
    weft_hopper_scales *s = out_scales;
    /* tiles start at multiples of their width; narrow ones at the right edge lie within one block */
    s->columns = h->bn <= 64 ? h->bn : (int)divisor_of(h->bn, h->product.block[1]);
    for (int i = 0; i < 2; i++) {
        s->row[i] = start_of(h, 0, place.batch, weft_k_add(k, row, index_of(h, 8 * i)));
        s->next_row[i] = weft_k_var(k, scale_at(h, 0, weft_k_add(k, s->row[i], first)));
    }
    for (int run = 0; run < h->bn / s->columns; run++) {
        weft_kval column = weft_k_add(k, place.n, index_of(h, (int64_t)run * s->columns));
        s->run[run] = start_of(h, 1, place.batch, weft_k_div(k, column, index_of(h, h->product.block[1])));
        s->next_run[run] = weft_k_var(k, scale_at(h, 1, weft_k_add(k, s->run[run], first)));
    }
}

void weft_hopper_scales_step(weft_hopper *h, weft_hopper_scales *scales) {
    weft_kernel *k = h->k;
    for (int run = 0; run < h->bn / scales->columns; run++)
        for (int i = 0; i < 2; i++)
            scales->product[run][i] =
                weft_k_mul(k, weft_k_get(k, scales->next_row[i]), weft_k_get(k, scales->next_run[run]));
}

void weft_hopper_scales_load(weft_hopper *h, weft_kval next, const weft_hopper_scales *scales) {
    weft_kernel *k = h->k;
    next = weft_k_min(k, next, weft_k_sub(k, h->steps, index_of(h, 1)));
    for (int i = 0; i < 2; i++) weft_k_set(k, scales->next_row[i], scale_at(h, 0, weft_k_add(k, scales->row[i], next)));
    for (int run = 0; run < h->bn / scales->columns; run++)
        weft_k_set(k, scales->next_run[run], scale_at(h, 1, weft_k_add(k, scales->run[run], next)));
}
