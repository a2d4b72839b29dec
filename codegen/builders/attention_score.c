/* See attention_score.h. The mask is evaluated at an index in every register (index.h); what does not depend on the
   register is emitted once and hoisted by the target's compiler. Indexes are clamped to the last row and key, since
   tiles reach past them: those scores are hidden or never stored. Read next: attention_hopper_consumer.c. */
#include "codegen/builders/attention_score.h"

#include <math.h>

#include "ir/ops/attention.h"

static const double LOG2_E = 1.4426950408889634;

void weft_attention_forms_init(weft_attention_forms *f, const weft_build_request *request, const weft_node *node) {
    const weft_type *q = weft_operand_type(node, 0), *k = weft_operand_type(node, 1);
    double scale = weft_node_float(node, WEFT_ATTR_scale, 0);
    int mask = weft_attention_mask_at(node), key = weft_attention_key_at(node);
    *f = (weft_attention_forms){.request = request,
                                .node = node,
                                .mask = mask < 0 ? NULL : node->operands[mask],
                                .key = key < 0 ? NULL : node->operands[key],
                                .dropout = weft_attention_dropout(node),
                                .scale = scale == 0 ? 1 / sqrt((double)q->dims[3]) : scale,
                                .cap = weft_node_float(node, WEFT_ATTR_soft_cap, 0),
                                .left = weft_node_int(node, WEFT_ATTR_window_left, -1),
                                .right = weft_node_int(node, WEFT_ATTR_window_right, -1),
                                .heads = q->dims[1],
                                .rows = q->dims[2],
                                .keys = k->dims[2]};
    if (f->left < 0) f->left = -1;
    if (f->right < 0) f->right = -1;
    if (weft_node_int(node, WEFT_ATTR_causal, 0)) f->right = 0;
}

/* May mask or key read this argument? The node itself reads its other operands through tensor maps. */
static bool reads_argument(const weft_attention_forms *f, const weft_value *argument) {
    for (const weft_use *use = argument->uses; use; use = use->next) {
        const weft_value *operand = use->user->operands[use->index];
        if (use->user != f->node || operand == f->mask || operand == f->key) return true;
    }
    return false;
}

weft_status weft_attention_forms_declare(weft_attention_forms *f, weft_kernel *k) {
    const weft_block *block = weft_fusion_block(f->request->fusion);
    f->k = k;
    f->index = (weft_index_context){.request = f->request,
                                    .graph = f->request->graph,
                                    .kernel = k,
                                    .arena = f->request->arena,
                                    .fusion = f->request->fusion};
    if (!f->mask && !f->key) return NULL;
    f->index.operands =
        weft_arena_allocate_array(f->request->arena, (size_t)block->argument_count + 1, sizeof *f->index.operands);
    if (!f->index.operands) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: mask", k->name);
    for (int i = 0; i < block->argument_count; i++) {
        f->index.operands[i] = WEFT_KNONE;
        if (!reads_argument(f, block->arguments[i])) continue;
        weft_dtype storage = weft_index_storage(block->arguments[i]->type.dtype);
        const char *name = weft_arena_format(f->request->arena, "x%d", i);
        if (!name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: mask", k->name);
        f->index.operands[i] = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, i, storage, false, name);
    }
    return NULL;
}

bool weft_attention_natural(const weft_attention_forms *f) {
    return f->cap > 0 || (f->mask && (f->mask->type.dtype != WEFT_BOOL || f->scale <= 0));
}

double weft_attention_factor(const weft_attention_forms *f) {
    return weft_attention_natural(f) ? LOG2_E : f->scale * LOG2_E;
}

/* The key position of a row. */
static weft_kval position(const weft_attention_forms *f, weft_kval row) {
    return f->packed ? f->offset : weft_k_add(f->k, row, f->offset);
}

weft_kval weft_attention_first_key(const weft_attention_forms *f, weft_kval row) {
    if (f->left < 0) return weft_k_index(f->k, 0);
    weft_kval first = weft_k_sub(f->k, position(f, row), weft_k_index(f->k, f->left));
    return weft_k_min(f->k, f->s, weft_k_max(f->k, weft_k_index(f->k, 0), first));
}

weft_kval weft_attention_end_key(const weft_attention_forms *f, weft_kval row) {
    if (f->right < 0) return f->s;
    weft_kval end = weft_k_add(f->k, position(f, row), weft_k_index(f->k, f->right + 1));
    return weft_k_min(f->k, f->s, weft_k_max(f->k, weft_k_index(f->k, 0), end));
}

/* tanh(x) = 1 - 2 / (1 + e^2x): within some 1e-7 of the cap, at every x. */
static weft_kval capped(const weft_attention_forms *f, weft_kval product, weft_kval *out_slope) {
    weft_kernel *k = f->k;
    weft_kval one = weft_k_float(k, WEFT_F32, 1);
    weft_kval e = weft_k_unary(k, WEFT_K_exp2_fast,
                               weft_k_mul(k, product, weft_k_float(k, WEFT_F32, 2 * LOG2_E * f->scale / f->cap)));
    weft_kval tanh =
        weft_k_fma(k, weft_k_unary(k, WEFT_K_rcp_fast, weft_k_add(k, e, one)), weft_k_float(k, WEFT_F32, -2), one);
    if (out_slope) *out_slope = weft_k_fma(k, weft_k_unary(k, WEFT_K_neg, tanh), tanh, one);
    return weft_k_mul(k, tanh, weft_k_float(k, WEFT_F32, f->cap));
}

/* At one key, or at two from an even one: a vector. */
static weft_kval mask_value(weft_attention_forms *f, weft_kval head, weft_kval row, weft_kval key, int lanes) {
    weft_kernel *k = f->k;
    weft_kval heads = weft_k_extent(k, f->heads), at[4];
    row = weft_k_min(k, row, weft_k_extent(k, weft_dim_subtract(k->dims, f->rows, 1)));
    at[0] = weft_k_div(k, head, heads), at[1] = weft_k_rem(k, head, heads), at[2] = row;
    at[3] = weft_k_min(k, key, weft_k_sub(k, f->s, weft_k_index(f->k, lanes)));
    if (f->packed) {
        at[1] = weft_k_add(k, weft_k_mul(k, at[1], weft_k_extent(k, f->rows)), row);
        at[2] = weft_k_index(f->k, 0);
    }
    const weft_type *type = &f->mask->type;
    weft_lane_index index[4];
    for (int a = 0; a < type->rank; a++) {
        bool all = type->dims[a] == 1;
        weft_kval own = all ? weft_k_index(f->k, 0) : at[4 - type->rank + a];
        index[a] = lanes > 1 && a == type->rank - 1 && !all ? weft_lane_range(own, lanes) : weft_lane_scalar(own);
    }
    weft_kval value = weft_index_value(&f->index, f->mask, index, lanes, WEFT_KNONE);
    return lanes > 1 && weft_ktype_of(k, value).lanes == 1 ? weft_k_splat(k, value, lanes) : value;
}

weft_kval weft_attention_mask_sees(weft_attention_forms *f, weft_kval head, weft_kval row, weft_kval key) {
    return mask_value(f, head, row, key, 1);
}

/* The mask as a number to add. */
static weft_kval bias(const weft_attention_forms *f, weft_kval value) {
    weft_kernel *k = f->k;
    if (f->mask->type.dtype == WEFT_BOOL)
        return weft_k_select(k, value, weft_k_float(k, WEFT_F32, 0), weft_k_float(k, WEFT_F32, -INFINITY));
    return weft_k_convert(k, value, WEFT_F32);
}

/* Without the mask. */
static weft_kval scored(const weft_attention_forms *f, weft_kval product, weft_kval *out_slope) {
    if (out_slope) *out_slope = WEFT_KNONE;
    if (!weft_attention_natural(f)) return product;
    return f->cap > 0 ? capped(f, product, out_slope)
                      : weft_k_mul(f->k, product, weft_k_float(f->k, WEFT_F32, f->scale));
}

/* The mask is read behind the products' own arithmetic, which would hold its registers. */
weft_kval weft_attention_form_score(weft_attention_forms *f, weft_kval product, weft_kval head, weft_kval row,
                                    weft_kval key, weft_kval *out_slope) {
    weft_kval score = scored(f, product, out_slope);
    return f->mask ? weft_k_add(f->k, score, bias(f, mask_value(f, head, row, key, 1))) : score;
}

void weft_attention_form_pair(weft_attention_forms *f, const weft_kval *products, weft_kval head, weft_kval row,
                              weft_kval key, int column, weft_kval *out_scores, weft_kval *out_slopes) {
    weft_kernel *k = f->k;
    if (weft_attention_plain(f)) { /* the key may be none */
        for (int i = 0; i < 2; i++) out_scores[i] = scored(f, products[i], out_slopes ? &out_slopes[i] : NULL);
        return;
    }
    bool both = f->mask && weft_dim_divisor(k->dims, f->keys) % 2 == 0;
    for (int i = 0; i < 2; i++) {
        weft_kval *slope = out_slopes ? &out_slopes[i] : NULL;
        if (both)
            out_scores[i] = scored(f, products[i], slope);
        else
            out_scores[i] = weft_attention_form_score(f, products[i], head, row,
                                                      weft_k_add(k, key, weft_k_index(k, column + i)), slope);
    }
    if (!both) return;
    weft_kval values = mask_value(f, head, row, weft_k_add(k, key, weft_k_index(k, column)), 2);
    for (int i = 0; i < 2; i++) out_scores[i] = weft_k_add(k, out_scores[i], bias(f, weft_k_extract(k, values, i)));
}
