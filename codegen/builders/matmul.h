/* A dot_general as matmul builders see it: D[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], and how the operands lie
   in memory. Letters: b batch, m rows, n columns, k contracted; W lanes of a vector; panel = the columns of one
   register tile.

   Each of b, m, n, k may stand for several axes of the operands; they are counted as one, row-major in the order of the
   dot's attributes. Result axes: b, m, n.
   Read next: matmul_problem.c, matmul_cpu.c (the CPU builder). */
#ifndef WEFT_CODEGEN_BUILDERS_MATMUL_H
#define WEFT_CODEGEN_BUILDERS_MATMUL_H

#include "codegen/builders/index.h"
#include "codegen/builders/plan.h"

/* An operand of a fusion seen through views: element at index i = operand[offset + sum of i[axis] * stride[axis]]. */
typedef struct weft_access {
    int operand;
    weft_dim offset;
    weft_dim stride[WEFT_MAX_RANK];
} weft_access;

/* Some axes of a value counted as one. */
typedef struct weft_axes {
    int count;
    int axis[WEFT_MAX_RANK];
    weft_dim dims[WEFT_MAX_RANK];
    weft_dim extent; /* product */
} weft_axes;

/* One side of the product: row = its free axes (m of A, n of B). */
typedef struct weft_matmul_side {
    const weft_value *value;
    weft_axes batch, row, contract;
    bool strided; /* access is known, row and contract each have one stride */
    weft_access access;
    weft_dim row_stride, contract_stride;
} weft_matmul_side;

typedef struct weft_matmul {
    const weft_node *dot;
    weft_matmul_side a, b;
    weft_dim batch, m, n, k;
    weft_dtype accumulate;          /* of the sums: F32 F64 I32 U32 I64 U64 */
    int batch_rank, m_rank, n_rank; /* axes of the result, in this order */
} weft_matmul;

/* false: the value is not a view of an operand. */
bool weft_access_find(const weft_build_request *request, const weft_value *value, weft_access *out_access);
/* The single stride of axes counted as one; false when there is none. */
bool weft_axes_stride(weft_graph *graph, const weft_axes *axes, const weft_access *access, weft_dim *out_stride);
/* Every result of the fusion is an elementwise function of `anchor` at the same index. */
bool weft_fusion_is_epilogue(const weft_graph *graph, const weft_node *fusion, const weft_node *anchor,
                             const char **out_reason);
/* Is the operand a constant, so that what is made of it alone is made at load? */
bool weft_fusion_operand_is_constant(const weft_node *fusion, int operand);
/* All operands that `value` is computed from are constants. */
bool weft_fusion_value_is_constant(const weft_node *fusion, const weft_value *value);

/* The dtype in which a product adds by ops.def's rule, and the one of the registers that do it. WEFT_INVALID: none. */
weft_dtype weft_product_declared_sum(const weft_node *node);
weft_dtype weft_product_sum(const weft_node *node);
/* A sum in registers -> the carrier of the product's result. */
weft_kval weft_product_finish(weft_index_context *c, const weft_node *node, weft_kval sum);

bool weft_matmul_find(const weft_build_request *request, weft_matmul *out_matmul);

/* Puts the index of an axis group into an index of a value of `rank` axes: lane position in the group -> axes. merge:
   bits of axes that may stay whole (weft_index_mergeable), 0 = none. */
void weft_axes_index(weft_index_context *c, const weft_axes *axes, uint32_t merge, weft_lane_index position, int lanes,
                     weft_lane_index *index);
/* offset + sum of index * stride over a group, for a scalar position. */
weft_kval weft_axes_offset(weft_index_context *c, const weft_axes *axes, const weft_access *access, weft_kval position);

/* Axes [first, first + count) of the product's result. */
weft_axes weft_matmul_result_axes(weft_graph *graph, const weft_matmul *p, int first, int count);

/* Arguments that no instruction reads or writes disappear from a finished kernel. */
weft_status weft_kernel_drop_unused_buffers(weft_kernel *kernel) WEFT_MUST_USE;

#endif
