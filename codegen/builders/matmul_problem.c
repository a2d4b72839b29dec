/* From a dot_general in a fusion to a weft_matmul: axis groups, accumulation type, strides through views.
   Read next: matmul_plan.c. */
#include "codegen/builders/matmul.h"

#include <string.h>

/* -- access through views */

static bool same(const weft_build_request *request, weft_dim a, weft_dim b) {
    return a == b || weft_dim_known_equal(request->graph->dims, a, b);
}

/* Strides of the axes of a reshape: groups of equal products; inside a group the operand's axes must have one stride.
 */
static bool reshape_access(const weft_build_request *request, const weft_type *x, const weft_type *y,
                           weft_access *access) {
    weft_dim_table *table = request->graph->dims;
    weft_dim strides[WEFT_MAX_RANK] = {0};
    int i = x->rank, j = y->rank; /* from the innermost axes */
    while (i > 0 || j > 0) {
        if (j > 0 && y->dims[j - 1] == 1) {
            strides[--j] = 0;
            continue;
        }
        if (i > 0 && x->dims[i - 1] == 1) {
            i--;
            continue;
        }
        if (i == 0 || j == 0) return false;
        int j_end = j;
        weft_dim stride = access->stride[i - 1], a = x->dims[i - 1], b = y->dims[j - 1], q;
        i--, j--;
        while (!same(request, a, b)) {
            bool b_smaller =
                weft_dim_is_number(a) && weft_dim_is_number(b) ? b < a : weft_dim_divide_exact(table, a, b, &q);
            if (b_smaller && j > 0) {
                b = weft_dim_multiply(table, b, y->dims[--j]);
            } else if (!b_smaller && i > 0) {
                if (x->dims[i - 1] != 1 && !same(request, access->stride[i - 1], weft_dim_multiply(table, stride, a)))
                    return false;
                a = weft_dim_multiply(table, a, x->dims[--i]);
            } else {
                return false;
            }
        }
        for (int n = j_end - 1; n >= j; n--) {
            strides[n] = stride;
            stride = weft_dim_multiply(table, stride, y->dims[n]);
        }
    }
    memcpy(access->stride, strides, sizeof strides);
    return true;
}

static void broadcast_access(const weft_node *node, weft_access *access) {
    const weft_type *x = weft_operand_type(node, 0), *y = &node->results[0].type;
    const int64_t *axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    weft_dim strides[WEFT_MAX_RANK] = {0};
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i] != 1 || y->dims[axes[i]] == 1) strides[axes[i]] = access->stride[i];
    memcpy(access->stride, strides, sizeof strides);
}

static void transpose_access(const weft_node *node, weft_access *access) {
    const int64_t *permutation = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    weft_dim strides[WEFT_MAX_RANK] = {0};
    for (int i = 0; i < node->results[0].type.rank; i++) strides[i] = access->stride[permutation[i]];
    memcpy(access->stride, strides, sizeof strides);
}

static void slice_access(weft_dim_table *table, const weft_node *node, weft_access *access) {
    const weft_dim *start = weft_node_attribute(node, WEFT_ATTR_start)->as.dims;
    const int64_t *stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints;
    for (int i = 0; i < node->results[0].type.rank; i++) {
        access->offset = weft_dim_add(table, access->offset, weft_dim_multiply(table, start[i], access->stride[i]));
        access->stride[i] = weft_dim_multiply(table, access->stride[i], stride[i]);
    }
}

bool weft_access_find(const weft_build_request *request, const weft_value *value, weft_access *out_access) {
    weft_dim_table *table = request->graph->dims;
    if (!value->node) {
        *out_access = (weft_access){.operand = value->index};
        weft_dim stride = 1;
        for (int i = value->type.rank - 1; i >= 0; i--) {
            out_access->stride[i] = stride;
            stride = weft_dim_multiply(table, stride, value->type.dims[i]);
        }
        return value->block == weft_fusion_block(request->fusion);
    }
    const weft_node *node = value->node;
    if (node->op != WEFT_OP_transpose && node->op != WEFT_OP_broadcast && node->op != WEFT_OP_slice &&
        node->op != WEFT_OP_reshape)
        return false;
    if (!weft_access_find(request, node->operands[0], out_access)) return false;
    switch ((int)node->op) {
    case WEFT_OP_transpose: transpose_access(node, out_access); return true;
    case WEFT_OP_broadcast: broadcast_access(node, out_access); return true;
    case WEFT_OP_slice: slice_access(table, node, out_access); return true;
    default: return reshape_access(request, weft_operand_type(node, 0), &value->type, out_access);
    }
}

bool weft_axes_stride(weft_graph *graph, const weft_axes *axes, const weft_access *access, weft_dim *out_stride) {
    weft_dim stride = 0, next = WEFT_DIM_INVALID;
    for (int i = axes->count - 1; i >= 0; i--) {
        if (axes->dims[i] == 1) continue;
        weft_dim here = access->stride[axes->axis[i]];
        if (next == WEFT_DIM_INVALID)
            stride = here;
        else if (here != next && !weft_dim_known_equal(graph->dims, here, next))
            return false;
        next = weft_dim_multiply(graph->dims, here, axes->dims[i]);
    }
    *out_stride = stride;
    return true;
}

/* -- what depends on what */

static bool depends(const weft_value *value, const weft_node *anchor, int depth) {
    if (!value->node) return false;
    if (value->node == anchor || depth > 1000) return true;
    for (int i = 0; i < value->node->operand_count; i++)
        if (depends(value->node->operands[i], anchor, depth + 1)) return true;
    return false;
}

bool weft_fusion_is_epilogue(const weft_graph *graph, const weft_node *fusion, const weft_node *anchor,
                             const char **out_reason) {
    (void)graph;
    const weft_type *type = &anchor->results[0].type;
    for (const weft_node *node = weft_fusion_block(fusion)->first; node; node = node->next) {
        if (node == anchor || node->op == WEFT_OP_yield) continue;
        if (!weft_index_has_value(node->op)) return *out_reason = "an op of the region has no value at an index", false;
        if (node->result_count == 0 || !depends(&node->results[0], anchor, 0)) continue;
        if (!(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE))
            return *out_reason = "an op after the product moves elements", false;
    }
    for (int i = 0; i < fusion->result_count; i++) {
        const weft_type *result = &fusion->results[i].type;
        if (result->rank != type->rank) return *out_reason = "a result has another shape than the product", false;
        for (int d = 0; d < type->rank; d++)
            if (result->dims[d] != type->dims[d])
                return *out_reason = "a result has another shape than the product", false;
        if (weft_dtype_bits(result->dtype) < 8) return *out_reason = "a result has elements of less than a byte", false;
        if (weft_dtype_kind_of(result->dtype) == WEFT_KIND_COMPLEX) return *out_reason = "complex results", false;
    }
    for (int i = 0; i < anchor->operand_count; i++)
        if (depends(anchor->operands[i], anchor, 0)) return *out_reason = "the product depends on itself", false;
    return true;
}

bool weft_fusion_operand_is_constant(const weft_node *fusion, int operand) {
    const weft_node *producer = fusion->operands[operand]->node;
    return producer && producer->op == WEFT_OP_constant;
}

static bool value_is_constant(const weft_node *fusion, const weft_value *value, int depth) {
    if (depth > 100) return false;
    if (!value->node)
        return value->block == weft_fusion_block(fusion) && weft_fusion_operand_is_constant(fusion, value->index);
    for (int i = 0; i < value->node->operand_count; i++)
        if (!value_is_constant(fusion, value->node->operands[i], depth + 1)) return false;
    return true;
}

bool weft_fusion_value_is_constant(const weft_node *fusion, const weft_value *value) {
    return value_is_constant(fusion, value, 0);
}

/* -- the problem */

static void add_axis(weft_graph *graph, weft_axes *axes, const weft_type *type, int axis) {
    axes->axis[axes->count] = axis;
    axes->dims[axes->count++] = type->dims[axis];
    axes->extent = weft_dim_multiply(graph->dims, axes->extent, type->dims[axis]);
}

static void find_side(const weft_build_request *request, const weft_value *value, const weft_attribute *batch,
                      const weft_attribute *contract, weft_matmul_side *out_side) {
    const weft_type *type = &value->type;
    bool taken[WEFT_MAX_RANK] = {false};
    *out_side = (weft_matmul_side){.value = value};
    out_side->batch.extent = out_side->row.extent = out_side->contract.extent = 1;
    for (int i = 0; i < batch->count; i++) {
        add_axis(request->graph, &out_side->batch, type, (int)batch->as.ints[i]);
        taken[batch->as.ints[i]] = true;
    }
    for (int i = 0; i < contract->count; i++) {
        add_axis(request->graph, &out_side->contract, type, (int)contract->as.ints[i]);
        taken[contract->as.ints[i]] = true;
    }
    for (int i = 0; i < type->rank; i++)
        if (!taken[i]) add_axis(request->graph, &out_side->row, type, i);
    out_side->strided =
        weft_access_find(request, value, &out_side->access) &&
        weft_axes_stride(request->graph, &out_side->row, &out_side->access, &out_side->row_stride) &&
        weft_axes_stride(request->graph, &out_side->contract, &out_side->access, &out_side->contract_stride);
}

weft_dtype weft_product_declared_sum(const weft_node *node) {
    weft_dtype operand = weft_operand_type(node, 0)->dtype;
    weft_dtype wanted = weft_node_dtype(node, WEFT_ATTR_accumulate, WEFT_INVALID);
    if (wanted != WEFT_INVALID) return wanted;
    if (weft_dtype_is_float(operand)) return weft_dtype_bits(operand) <= 32 ? WEFT_F32 : operand;
    return weft_dtype_bits(operand) <= 8 ? WEFT_I32 : operand;
}

weft_dtype weft_product_sum(const weft_node *node) {
    weft_dtype declared = weft_product_declared_sum(node);
    switch (weft_dtype_kind_of(declared)) {
    case WEFT_KIND_FLOAT: return weft_dtype_bits(declared) <= 32 ? WEFT_F32 : declared;
    case WEFT_KIND_SIGNED: return weft_dtype_bits(declared) <= 32 ? WEFT_I32 : WEFT_I64;
    case WEFT_KIND_UNSIGNED: return weft_dtype_bits(declared) <= 32 ? WEFT_U32 : WEFT_U64;
    case WEFT_KIND_NONE:
    case WEFT_KIND_BOOL:
    case WEFT_KIND_COMPLEX:
    case WEFT_KIND_STRING: break;
    }
    return WEFT_INVALID;
}

weft_kval weft_product_finish(weft_index_context *c, const weft_node *node, weft_kval sum) {
    weft_dtype dtype = node->results[0].type.dtype, declared = weft_product_declared_sum(node);
    if (weft_dtype_is_integer(declared)) sum = weft_k_convert(c->kernel, sum, weft_index_carrier(declared)); /* wraps */
    return weft_index_round(c, dtype, weft_k_convert(c->kernel, sum, weft_index_carrier(dtype)));
}

bool weft_matmul_find(const weft_build_request *request, weft_matmul *out_matmul) {
    const weft_node *dot = weft_fusion_find(request->fusion, WEFT_OP_dot_general);
    if (!dot) return false;
    weft_matmul *p = out_matmul;
    *p = (weft_matmul){.dot = dot, .accumulate = weft_product_sum(dot)};
    find_side(request, dot->operands[0], weft_node_attribute(dot, WEFT_ATTR_lhs_batch),
              weft_node_attribute(dot, WEFT_ATTR_lhs_contract), &p->a);
    find_side(request, dot->operands[1], weft_node_attribute(dot, WEFT_ATTR_rhs_batch),
              weft_node_attribute(dot, WEFT_ATTR_rhs_contract), &p->b);
    p->batch = p->a.batch.extent;
    p->m = p->a.row.extent;
    p->n = p->b.row.extent;
    p->k = p->a.contract.extent;
    p->batch_rank = p->a.batch.count;
    p->m_rank = p->a.row.count;
    p->n_rank = p->b.row.count;
    return p->accumulate != WEFT_INVALID;
}

/* -- indices */

void weft_axes_index(weft_index_context *c, const weft_axes *axes, uint32_t merge, weft_lane_index position, int lanes,
                     weft_lane_index *index) {
    weft_lane_index inner[WEFT_MAX_RANK];
    uint32_t bits = 0; /* only axes that are neighbours in the value can be whole */
    for (int i = 0; i + 1 < axes->count; i++)
        if (axes->axis[i + 1] == axes->axis[i] + 1 && (merge >> axes->axis[i] & 1)) bits |= (uint32_t)1 << i;
    weft_index_unflatten_merged(c, axes->count, axes->dims, bits, position, lanes, inner);
    for (int i = 0; i < axes->count; i++) index[axes->axis[i]] = inner[i];
}

weft_kval weft_axes_offset(weft_index_context *c, const weft_axes *axes, const weft_access *access,
                           weft_kval position) {
    weft_lane_index inner[WEFT_MAX_RANK];
    weft_kval sum = weft_k_index(c->kernel, 0);
    weft_dim stride;
    if (weft_axes_stride(c->graph, axes, access, &stride))
        return weft_k_mul(c->kernel, position, weft_k_extent(c->kernel, stride));
    weft_index_unflatten(c, axes->count, axes->dims, weft_lane_scalar(position), 1, inner);
    for (int i = 0; i < axes->count; i++)
        sum = weft_k_add(c->kernel, sum,
                         weft_k_mul(c->kernel, inner[i].base, weft_k_extent(c->kernel, access->stride[axes->axis[i]])));
    return sum;
}

weft_axes weft_matmul_result_axes(weft_graph *graph, const weft_matmul *p, int first, int count) {
    weft_axes axes = {.extent = 1};
    const weft_type *type = &p->dot->results[0].type;
    for (int i = first; i < first + count; i++) {
        axes.axis[axes.count] = i;
        axes.dims[axes.count++] = type->dims[i];
        axes.extent = weft_dim_multiply(graph->dims, axes.extent, type->dims[i]);
    }
    return axes;
}

weft_status weft_kernel_drop_unused_buffers(weft_kernel *kernel) {
    int *renumbered = weft_arena_allocate_array(kernel->arena, kernel->argument_count + 1, sizeof *renumbered);
    if (!renumbered) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "kernel %s", kernel->name);
    bool *used = weft_arena_allocate_array(kernel->arena, kernel->argument_count + 1, sizeof *used);
    if (!used) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "kernel %s", kernel->name);
    for (size_t i = 0; i < kernel->argument_count; i++) used[i] = kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT;
    for (size_t i = 0; i < kernel->operand_count; i++) {
        weft_kval value = kernel->operands[i];
        if (value >= 0 && kernel->instrs[value].op == WEFT_K_buffer) used[kernel->instrs[value].i] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < kernel->argument_count; i++) {
        renumbered[i] = used[i] ? (int)kept : -1;
        if (used[i]) kernel->arguments[kept++] = kernel->arguments[i];
    }
    kernel->argument_count = kept;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        weft_kinstr *instr = &kernel->instrs[i];
        if (instr->op != WEFT_K_buffer && instr->op != WEFT_K_scalar_argument) continue;
        if (renumbered[instr->i] >= 0)
            instr->i = renumbered[instr->i];
        else /* nobody looks at it: any pure instruction keeps the numbering of values */
            *instr = (weft_kinstr){.op = WEFT_K_constant, .type = weft_kvector(WEFT_I32, 1)};
    }
    return NULL;
}
