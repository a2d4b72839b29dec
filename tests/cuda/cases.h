/* The graphs that the GPU tests and the benchmark build: one name, some extents. */
#ifndef WEFT_TESTS_CUDA_CASES_H
#define WEFT_TESTS_CUDA_CASES_H

#include "base/capability.h"
#include "weft/graph.h"

/* matmul        m n k order epilogue dtype   D = A B, order "nt" = 1: A [m, k], B [n, k]; "nn" = 0: B [k, n]; "tn" =
                                              2: A [k, m], B [k, n]; epilogue 0 none, 1 scale[m] bias[n] gelu
                                              residual[m, n], 2 two scalars, result bf16, 3 bias[n], and GELU of that:
                                              two results; 4 bias[n] residual[m, n], all f32; 5 gelu(d + bias[n]); 6
                                              bias[n] residual[m, n] of the product's dtype; 7 bias[n], what a bool
                                              mask[m, n] keeps times 1.25, residual[m, n], all f32; 8 bias[n], GELU of
                                              that as layers have it in training, and its derivative: two results; 9
                                              slope[m, n] times the product, its backward twin; dtype 0 bf16, 1 f16, 2
                                              f32, 3 f8e4m3fn, 4 f8e5m2, 5 f8e5m2 times f8e4m3fn, 6 f8e4m3fn times
                                              f8e5m2, + 8: compiled with every relaxation, + 16: without what only
                                              Hopper has
   matmul_batched  b m n k order                  bf16, order 1 or 0
   softmax       rows columns dtype           along columns
   layer_norm    rows columns dtype           with scale and bias
   rms_norm      rows columns dtype
   cross_entropy rows columns                 bf16 logits, i64 labels
   pointwise     elements                     f32: (a * b + c) * sigmoid(a)
   sum           elements                     f32, all
   copy          elements                     f32: -a
   attention     b h hkv t s d causal dtype
   attention_backward  the same; inputs q, k, v, o, lse, do -> dq, dk, dv
   attention_form  b h hkv t s d causal dtype left right cap mask   windows, -1 none; mask 0 none, 1 added [1, h, t, s],
                                              2 bool [b, 1, t, s], 3 slopes of heads times distances, 4 equality of
                                              segments, 5 bool [b, 1, 1, s], 6 the first 200 keys; + 10: dropout of 0.3;
                                              + 20, backward: the gradient of scores
   attention_backward_form                    the same; inputs and results of attention_backward, then the mask's and
                                              the step u64 [] of a key
   attention_backward_tokens  b h t d causal dtype   q, k, v in columns of [b, t, 3 h d], o, do, gradients as tokens
   attention_gradient                         the same as attention; inputs q, k, v, do -> o, dq, dk, dv
   convolution   n c o size kernel stride pad groups   f32, 2-d, with bias and relu
   convolution_half, convolution_tf32         the same in bf16; in f32 compiled with WEFT_RELAX_F32_PRODUCTS
   attention_tokens  b h t d causal dtype     q, k, v beside each other in tokens [b, t, 3 h d], result [b, t, h d]
   scaled_dot    m n k epilogue dtype         f8 a [m, k], b [n, k], f32 scales [m, k / 128], [n / 128, k / 128], bf16
                                              result; epilogue 0 none, 1 bias[n] and GELU; dtype as matmul's, + 16 too
   ragged_dot    m groups k n contract dtype  x [m, k], i32 offsets [groups + 1]; contract 1: w [groups, k, n], 2: w
                                              [groups, n, k], 0: y [m, n], result [groups, k, n]
   mlp           rows inputs width layers     f32, tanh between layers, one output
   Returns a status when the name or a number is wrong. */
weft_status weft_bench_graph(weft_context *context, const char *name, int count, const int64_t *numbers,
                             weft_graph **out_graph) WEFT_MUST_USE;
/* The record that the case is to be compiled for, from the device's. */
weft_capability weft_bench_capability(const weft_capability *device, const char *name, const int64_t *numbers);

#endif
