/* The table of builders. One anchor may have several; the first that accepts is taken, so machine-specific ones come
   first. Adding a builder: declare its record here and add a row. */
#include "codegen/builders/builder.h"

#include <string.h>

#include "codegen/builders/attention_hopper.h"
#include "codegen/builders/attention_wave.h"
#include "codegen/builders/matmul_hopper.h"
#include "codegen/builders/reduce.h"
#include "codegen/builders/scaled_mma.h"

extern const weft_builder weft_builder_convolution_direct, weft_builder_convolution_simt;
extern const weft_builder weft_builder_attention_backward_hopper, weft_builder_attention_backward_wave;
extern const weft_builder weft_builder_matmul_mma, weft_builder_convolution_mma;
extern const weft_builder weft_builder_attention_wave, weft_builder_attention_hopper, weft_builder_matmul_hopper,
    weft_builder_matmul_simt;
extern const weft_builder weft_builder_convolution_hopper;
extern const weft_builder weft_builder_chain, weft_builder_network;
extern const weft_builder weft_builder_ragged_simt, weft_builder_ragged_cpu, weft_builder_scaled_hopper,
    weft_builder_ragged_hopper, weft_builder_scaled_mma;
extern const weft_builder weft_builder_pointwise, weft_builder_reduce, weft_builder_arg_reduce,
    weft_builder_reduce_window, weft_builder_dynamic_update_slice, weft_builder_rng_bits, weft_builder_gather,
    weft_builder_cumulative, weft_builder_scatter, weft_builder_sort, weft_builder_top_k,
    weft_builder_select_and_scatter, weft_builder_nonzero, weft_builder_cholesky, weft_builder_triangular_solve,
    weft_builder_eigh_block, weft_builder_eigh, weft_builder_qr;
extern const weft_builder weft_builder_matmul_cpu, weft_builder_convolution_cpu;

static const weft_builder *const builders[] = {
    &weft_builder_attention_hopper,
    &weft_builder_attention_wave,
    &weft_builder_attention_backward_hopper,
    &weft_builder_attention_backward_wave,
    &weft_builder_matmul_hopper,
    &weft_builder_matmul_mma,
    &weft_builder_matmul_simt,
    &weft_builder_convolution_direct,
    &weft_builder_convolution_hopper,
    &weft_builder_convolution_mma,
    &weft_builder_convolution_simt,
    &weft_builder_chain,
    &weft_builder_network,
    &weft_builder_scaled_hopper,
    &weft_builder_scaled_mma,
    &weft_builder_ragged_hopper,
    &weft_builder_ragged_simt,
    &weft_builder_ragged_cpu,
    &weft_builder_pointwise,
    &weft_builder_reduce,
    &weft_builder_arg_reduce,
    &weft_builder_reduce_window,
    &weft_builder_dynamic_update_slice,
    &weft_builder_rng_bits,
    &weft_builder_gather,
    &weft_builder_cumulative,
    &weft_builder_scatter,
    &weft_builder_sort,
    &weft_builder_top_k,
    &weft_builder_select_and_scatter,
    &weft_builder_nonzero,
    &weft_builder_cholesky,
    &weft_builder_triangular_solve,
    &weft_builder_eigh_block,
    &weft_builder_eigh,
    &weft_builder_qr,
    &weft_builder_matmul_cpu,
    &weft_builder_convolution_cpu,
};

/* Derived ops that have builders of their own, by the op's name as anchor. */
bool weft_builder_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability) {
    const char *reason;
    if (node->op == WEFT_OP_fusion) return weft_reduce_beside_fits(graph, node, capability);
    if (node->op == WEFT_OP_scaled_dot)
        return weft_hopper_scales_claims(graph, node, capability) || weft_scaled_mma_claims(graph, node, capability);
    return (node->op == WEFT_OP_attention || node->op == WEFT_OP_attention_backward) &&
           (weft_attention_claims(graph, node, capability, &reason) ||
            weft_attention_wave_claims(graph, node, capability, &reason));
}

const weft_builder *weft_builder_find(const char *anchor, const weft_graph *graph, const weft_node *fusion,
                                      const weft_capability *capability, const char **out_reason) {
    const char *reason = "no builder has this anchor";
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        if (strcmp(builders[i]->name, anchor)) continue;
        const char *own = NULL;
        if (builders[i]->accepts(graph, fusion, capability, &own)) return builders[i];
        if (own) reason = own;
    }
    if (out_reason) *out_reason = reason;
    return NULL;
}
