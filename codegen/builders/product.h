/* The matrix product inside a fusion, as GPU builders see it: D[batch, m, n] = sum over k of A[batch, m, k] B[batch, n,
   k], whatever the order and number of axes in the graph. A side is dense when it is an operand of the fusion (through
   transposes) in whose memory batch axes come first and the free and the contracted axes are one run each.
   Read next: product.c, matmul_hopper.c, matmul_simt.c. Immutable once found. */
#ifndef WEFT_CODEGEN_BUILDERS_PRODUCT_H
#define WEFT_CODEGEN_BUILDERS_PRODUCT_H

#include "codegen/builders/builder.h"

typedef struct weft_product_side {
    int batch_axes[WEFT_MAX_RANK], free_axes[WEFT_MAX_RANK],
        contract_axes[WEFT_MAX_RANK]; /* of the dot's operand, in the product's order */
    int free_count;
    bool dense;
    int operand;       /* dense: of the fusion */
    bool k_contiguous; /* dense: memory is [batch, free, k], else [batch, k, free]; otherwise: the last axis is
                          contracted */
    weft_dim pitch;    /* dense: elements from one row of memory to the next */
} weft_product_side;

typedef struct weft_product {
    const weft_node *dot; /* dot_general or scaled_dot */
    const int64_t *block; /* scaled_dot: rows of A, rows of B, elements of k that share a scale; else NULL */
    weft_dtype dtype, dtype_b, accumulate; /* of the operands: equal but for floats of 8 bits; of the sum */
    weft_dim batch, m, n, k;
    int batch_count, contract_count;
    weft_product_side a, b;
} weft_product;

/* false: *out_reason says what is missing. The epilogue must keep every element at its row-major position. */
bool weft_product_find(const weft_graph *graph, const weft_node *fusion, weft_product *out_product,
                       const char **out_reason);
/* The operand of the fusion that is added or multiplied at the product's own positions, of the given dtype, so that its
   tiles may travel like the output's; -1 when there is none. */
int weft_product_companion(const weft_node *fusion, const weft_product *product, weft_dtype dtype);

#endif
