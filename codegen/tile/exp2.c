/* See exp2.h: 2^x = 2^n 2^r with n the nearest integer, the low bits of x + 1.5 2^23. */
#include "codegen/tile/exp2.h"

weft_kval weft_exp2_by_fma(weft_kernel *k, weft_kval x) {
    static const double factors[] = {0.0551716685295105, 0.2426111251115799, 0.6932609677314758, 0.9999280571937561};
    weft_kval magic = weft_k_float(k, WEFT_F32, 12582912), p = weft_k_float(k, WEFT_F32, factors[0]);
    x = weft_kernel_emit(k, WEFT_K_max, weft_kvector(WEFT_F32, 1), 2, (weft_kval[]){x, weft_k_float(k, WEFT_F32, -126)},
                         1, 0);
    weft_kval shifted = weft_k_add(k, x, magic), r = weft_k_sub(k, x, weft_k_sub(k, shifted, magic));
    for (int i = 1; i < 4; i++) p = weft_k_fma(k, p, r, weft_k_float(k, WEFT_F32, factors[i]));
    weft_kval n = weft_k_binary(k, WEFT_K_shl, weft_k_bitcast(k, shifted, WEFT_U32), weft_k_integer(k, WEFT_U32, 23));
    return weft_k_bitcast(k, weft_k_add(k, weft_k_bitcast(k, p, WEFT_U32), n), WEFT_F32);
}
