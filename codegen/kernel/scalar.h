/* Arithmetic of one lane, as every target must compute it.

   A value is 64 bits and canonical: floats as their bits, signed integers sign-extended, unsigned ones zero-extended,
   BOOL 0 or 1. Floats are rounded once; F16, BF16 and smaller have no arithmetic, they only convert.
   A function that returns text says what is wrong with its operands, or NULL. */
#ifndef WEFT_CODEGEN_KERNEL_SCALAR_H
#define WEFT_CODEGEN_KERNEL_SCALAR_H

#include "codegen/kernel/kernel.h"

/* value modulo 2^bits, extended as the dtype says; BOOL: value != 0. */
int64_t weft_kscalar_wrap(weft_dtype elem, int64_t value);
/* The low bits of a canonical value: what memory holds. */
uint64_t weft_kscalar_raw(weft_dtype elem, uint64_t value);
float weft_kscalar_f32(uint64_t value);
double weft_kscalar_f64(uint64_t value);
uint64_t weft_kscalar_of_f32(float value);
uint64_t weft_kscalar_of_f64(double value);
/* Any float dtype to and from double. */
double weft_kscalar_decode(weft_dtype elem, uint64_t value);
uint64_t weft_kscalar_encode(weft_dtype elem, double value);
/* The value of a constant instruction. */
uint64_t weft_kscalar_constant(const weft_kinstr *constant);

const char *weft_kscalar_unary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t *out);
/* INT_MIN / -1 wraps; a division by zero or a shift by the width or more is a fault. */
const char *weft_kscalar_binary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b, uint64_t *out);
bool weft_kscalar_compare(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b);
/* Floats to integers saturate, NaN to 0; wide integers to narrow ones wrap. */
uint64_t weft_kscalar_convert(weft_dtype from, weft_dtype to, uint64_t a);

#endif
