/* Facts about element types and exact conversion of single elements; arrays go through weft_element_read/write too.
   Rounding: to nearest even; overflow saturates only where the caller asks (f4e2m1fn always does). */
#ifndef WEFT_BASE_DTYPE_H
#define WEFT_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/dtype.h"

typedef enum weft_dtype_kind {
    WEFT_KIND_NONE,
    WEFT_KIND_BOOL,
    WEFT_KIND_SIGNED,
    WEFT_KIND_UNSIGNED,
    WEFT_KIND_FLOAT,
    WEFT_KIND_COMPLEX,
    WEFT_KIND_STRING
} weft_dtype_kind;

weft_dtype_kind weft_dtype_kind_of(weft_dtype dtype);
static inline bool weft_dtype_is_float(weft_dtype d) { return weft_dtype_kind_of(d) == WEFT_KIND_FLOAT; }
static inline bool weft_dtype_is_integer(weft_dtype d) {
    return weft_dtype_kind_of(d) == WEFT_KIND_SIGNED || weft_dtype_kind_of(d) == WEFT_KIND_UNSIGNED;
}
/* Bytes of count elements, packed; false on overflow. */
bool weft_dtype_bytes(weft_dtype dtype, int64_t count, size_t *out_bytes);

/* Bits <-> value for every float type, round to nearest even; saturate: finite overflow gives the largest finite value.
 */
double weft_float_decode(weft_dtype dtype, uint64_t bits);
uint64_t weft_float_encode(weft_dtype dtype, double value, bool saturate);

/* One element of a packed array as double (floats, exact) or int64 (integers and bool). Crossing kinds: a float read or
   set as an integer is truncated and clamped, NaN is 0; set_i64 on integers keeps the low bits; complex numbers are
   their real part, elements 2i and 2i + 1 of f32 or f64 are both parts. */
double weft_element_double(weft_dtype dtype, const void *data, int64_t index);
int64_t weft_element_i64(weft_dtype dtype, const void *data, int64_t index); /* u64 as its two's complement bits */
void weft_element_set_double(weft_dtype dtype, void *data, int64_t index, double value);
void weft_element_set_i64(weft_dtype dtype, void *data, int64_t index, int64_t value);
/* The raw bits of element index; types of at most 64 bits. */
uint64_t weft_element_bits(weft_dtype dtype, const void *data, int64_t index);
void weft_element_set_bits(weft_dtype dtype, void *data, int64_t index, uint64_t bits);

#endif
