/* Plans and facts shared by the builders. */
#include "codegen/builders/plan.h"

#include <string.h>

weft_status weft_plan_init(const weft_build_request *request, int launches, int temps, weft_kernel_plan *out_plan) {
    *out_plan = (weft_kernel_plan){.launch_count = launches, .temp_count = temps};
    out_plan->launches = weft_arena_allocate_array(request->arena, (size_t)launches + 1, sizeof *out_plan->launches);
    out_plan->temps = weft_arena_allocate_array(request->arena, (size_t)temps + 1, sizeof *out_plan->temps);
    if (!out_plan->launches || !out_plan->temps)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel plan", request->name);
    return NULL;
}

weft_kernel *weft_plan_kernel(const weft_build_request *request, const char *suffix) {
    const char *name = weft_arena_format(request->arena, "%s%s", request->name, suffix);
    weft_kernel *k = name ? weft_kernel_create(request->arena, request->graph->dims, request->capability, name) : NULL;
    if (k) k->subnormals = weft_fusion_reads_powers(request->fusion);
    return k;
}

/* Is f8e8m0fnu among the types of a group? */
static bool has_powers(const weft_node *group) {
    for (int i = 0; i < group->operand_count; i++)
        if (weft_operand_type(group, i)->dtype == WEFT_F8E8M0FNU) return true;
    for (const weft_node *node = weft_fusion_block(group)->first; node; node = node->next)
        for (int i = 0; i < node->result_count; i++)
            if (node->results[i].type.dtype == WEFT_F8E8M0FNU) return true;
    return false;
}

bool weft_fusion_reads_powers(const weft_node *fusion) {
    if (strcmp(weft_node_string(fusion, WEFT_ATTR_anchor, ""), "pointwise") != 0) return false;
    for (int i = 0; i < fusion->operand_count; i++) {
        const weft_node *from = fusion->operands[i]->node;
        while (from && from->op == WEFT_OP_reshape) from = from->operands[0]->node;
        if (from && from->op == WEFT_OP_fusion && fusion->operands[i]->type.dtype == WEFT_F32 && has_powers(from))
            return true;
    }
    return false;
}

weft_status weft_plan_set(const weft_build_request *request, weft_kernel_plan *plan, int launch, weft_kernel *kernel) {
    weft_plan_variant *variant = weft_arena_allocate(request->arena, sizeof *variant);
    if (!variant) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel plan", request->name);
    variant->kernel = kernel;
    plan->launches[launch] = (weft_plan_launch){.variant_count = 1, .variants = variant};
    return NULL;
}

static int element_bytes(weft_dtype dtype) {
    int bits = weft_dtype_bits(weft_index_carrier(dtype));
    return bits < 8 ? 1 : bits / 8;
}

int weft_fusion_element_bytes(const weft_node *fusion) {
    int floats = 0, others = 1;
    const weft_block *block = weft_fusion_block(fusion);
    for (const weft_node *node = block->first; node; node = node->next) {
        if (node->op == WEFT_OP_yield) continue;
        for (int i = 0; i < node->result_count + node->operand_count; i++) {
            const weft_type *type =
                i < node->result_count ? &node->results[i].type : weft_operand_type(node, i - node->result_count);
            if (type->rank == 0 && node->op != WEFT_OP_reduce) continue;
            weft_dtype_kind kind = weft_dtype_kind_of(type->dtype);
            int bytes = element_bytes(type->dtype);
            if (kind == WEFT_KIND_FLOAT || kind == WEFT_KIND_COMPLEX)
                floats = bytes > floats ? bytes : floats;
            else
                others = bytes > others ? bytes : others;
        }
    }
    for (int i = 0; i < fusion->result_count; i++) { /* a region that only passes values on */
        int bytes = element_bytes(fusion->results[i].type.dtype);
        others = bytes > others ? bytes : others;
    }
    return floats ? floats : others;
}

bool weft_fusion_stores_narrow(const weft_node *fusion) {
    for (int i = 0; i < fusion->result_count; i++)
        if (weft_dtype_bits(fusion->results[i].type.dtype) < 8) return true;
    return false;
}

int weft_fusion_lanes(const weft_build_request *request) {
    int bytes = weft_fusion_element_bytes(request->fusion), lanes;
    if (weft_capability_is_cpu(request->capability)) {
        lanes = request->capability->vector_bytes / bytes;
    } else {
        int widest = 1; /* of memory accesses: vector_bytes a thread */
        for (int i = 0; i < request->fusion->result_count; i++) {
            int stored = weft_dtype_bits(request->fusion->results[i].type.dtype) / 8;
            widest = stored > widest ? stored : widest;
        }
        lanes = request->capability->vector_bytes / widest;
        if (lanes > 8) lanes = 8;
    }
    if (weft_fusion_stores_narrow(request->fusion) && lanes < 4) lanes = 4;
    return lanes < 1 ? 1 : lanes;
}

bool weft_fusion_fits_index(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability) {
    if (capability->index_dtype == WEFT_I64) return true;
    for (int i = 0; i < fusion->operand_count + fusion->result_count; i++) {
        const weft_type *type =
            i < fusion->operand_count ? weft_operand_type(fusion, i) : &fusion->results[i - fusion->operand_count].type;
        weft_dim count = weft_dtype_kind_of(type->dtype) == WEFT_KIND_COMPLEX ? 2 : 1;
        for (int a = 0; a < type->rank; a++) count = weft_dim_multiply(graph->dims, count, type->dims[a]);
        int64_t low, high;
        weft_dim_bounds(graph->dims, count, &low, &high);
        if (low > INT32_MAX) return false;
    }
    return true;
}

bool weft_fusion_is_empty(const weft_build_request *request) {
    for (int i = 0; i < request->fusion->result_count; i++)
        if (weft_type_count(request->graph, &request->fusion->results[i].type) != 0) return false;
    return true;
}

/* 8- and 16-bit elements have masked moves only with AVX-512. */
bool weft_tail_is_masked(const weft_build_request *request) {
    const weft_capability *capability = request->capability;
    if (!capability->masked_memory) return false;
    if (capability->vector_bytes >= 64) return true;
    for (int i = 0; i < request->fusion->result_count; i++)
        if (weft_dtype_bits(request->fusion->results[i].type.dtype) < 32) return false;
    for (int i = 0; i < request->fusion->operand_count; i++)
        if (weft_dtype_bits(request->fusion->operands[i]->type.dtype) < 32) return false;
    return true;
}

const weft_node *weft_fusion_find(const weft_node *fusion, weft_op op) {
    for (const weft_node *node = weft_fusion_block(fusion)->first; node; node = node->next)
        if (node->op == op) return node;
    return NULL;
}

weft_dim weft_dim_at_least_one(weft_dim_table *table, weft_dim dim) { return weft_dim_maximum(table, dim, 1); }

int weft_propose_default(const weft_build_request *request, const char *builder, weft_schedule *out_schedules) {
    bool cpu = weft_capability_is_cpu(request->capability);
    int lanes = weft_fusion_lanes(request), bytes = weft_fusion_element_bytes(request->fusion);
    int threads = request->capability->threads_max < 256 ? request->capability->threads_max : 256;
    out_schedules[0] = (weft_schedule){.builder = builder,
                                       .vector = lanes,
                                       .threads = threads,
                                       .block_elements = cpu ? (64 << 10) / bytes : threads * lanes};
    return 1;
}

weft_items weft_items_begin(weft_index_context *c, weft_dim count, weft_dim per_block) {
    weft_kernel *k = c->kernel;
    weft_dim_table *table = c->graph->dims;
    weft_items items = {.mark = weft_index_mark(c)};
    if (weft_capability_is_cpu(k->capability)) {
        k->grid = weft_dim_divide_ceil(table, count, per_block);
        weft_kval width = weft_k_extent(k, per_block), first = weft_k_mul(k, weft_k_block(k), width);
        weft_kval last = weft_k_min(k, weft_k_add(k, first, width), weft_k_extent(k, count));
        items.item = weft_k_for(k, first, last, weft_k_index(k, 1), 0);
        return items;
    }
    k->threads = 64;
    k->grid = weft_dim_divide_ceil(table, count, k->threads);
    items.item = weft_k_add(k, weft_k_mul(k, weft_k_block(k), weft_k_index(k, k->threads)), weft_k_thread(k));
    weft_k_if(k, weft_k_lt(k, items.item, weft_k_extent(k, count)));
    return items;
}

void weft_items_end(weft_index_context *c, const weft_items *items) {
    weft_index_release(c, items->mark);
    weft_k_end(c->kernel);
}

weft_dim weft_items_per_block(const weft_build_request *request, weft_dim work) {
    weft_dim_table *table = request->graph->dims;
    int64_t elements = request->schedule->block_elements > 0 ? request->schedule->block_elements : 4096;
    return weft_dim_at_least_one(table, weft_dim_divide_floor(table, elements, weft_dim_at_least_one(table, work)));
}

void weft_line_index(weft_index_context *c, int rank, const weft_dim *dims, int axis, weft_kval line,
                     weft_lane_index *out_index) {
    weft_dim others[WEFT_MAX_RANK] = {0};
    weft_lane_index index[WEFT_MAX_RANK];
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (i != axis) others[count++] = dims[i];
    weft_index_unflatten(c, count, others, weft_lane_scalar(line), 1, index);
    for (int i = 0, at = 0; i < rank; i++)
        if (i != axis) out_index[i] = index[at++];
}

weft_dim weft_line_count(const weft_build_request *request, int rank, const weft_dim *dims, int axis) {
    weft_dim count = 1;
    for (int i = 0; i < rank; i++)
        if (i != axis) count = weft_dim_multiply(request->graph->dims, count, dims[i]);
    return count;
}

bool weft_single_accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                         const char **out_reason) {
    if (!weft_fusion_fits_index(graph, fusion, capability))
        return *out_reason = "more elements than 32-bit indices reach", false;
    weft_op op = weft_op_find(weft_node_string(fusion, WEFT_ATTR_anchor, ""),
                              strlen(weft_node_string(fusion, WEFT_ATTR_anchor, "")));
    const weft_node *node = op == WEFT_OP_COUNT ? NULL : weft_fusion_find(fusion, op);
    if (!node) return *out_reason = "the region lacks the op of its anchor", false;
    for (const weft_node *other = weft_fusion_block(fusion)->first; other; other = other->next)
        if (other != node && !weft_index_has_value(other->op))
            return *out_reason = "another op of the region has no value at an index", false;
    for (int i = 0; i < fusion->result_count; i++) {
        const weft_value *value = weft_fusion_yield(fusion, i);
        if (value->node != node || value->index != i) return *out_reason = "a result is not the op's own", false;
    }
    if (fusion->result_count != node->result_count) return *out_reason = "a result of the op is missing", false;
    if (capability->bindings_max && fusion->operand_count + 2 * fusion->result_count + 2 > capability->bindings_max)
        return *out_reason = "more buffers than the target can bind", false;
    return true;
}

int weft_single_propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    (void)capacity;
    return weft_propose_default(request, weft_node_string(request->fusion, WEFT_ATTR_anchor, ""), out_schedules);
}

bool weft_fusion_is_long(const weft_node *fusion) {
    static const weft_op functions[] = {WEFT_OP_exp,  WEFT_OP_expm1, WEFT_OP_log,  WEFT_OP_log1p,
                                        WEFT_OP_tanh, WEFT_OP_erf,   WEFT_OP_sin,  WEFT_OP_cos,
                                        WEFT_OP_tan,  WEFT_OP_pow,   WEFT_OP_atan2};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (weft_fusion_find(fusion, functions[i])) return true;
    return false;
}
