/* Element types. One row each: name in .wir and in manifests, bits of storage, kind.
   Values are stable: they appear in artifacts. Types below 8 bits are packed from the low bits of each byte up. */
#ifndef WEFT_DTYPE_H
#define WEFT_DTYPE_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*            id, name, bits, kind */
#define WEFT_DTYPES(X)                                                                                                 \
    X(INVALID, 0, "invalid", 0, NONE)                                                                                  \
    X(BOOL, 1, "bool", 8, BOOL)                                                                                        \
    X(I8, 2, "i8", 8, SIGNED)                                                                                          \
    X(I16, 3, "i16", 16, SIGNED)                                                                                       \
    X(I32, 4, "i32", 32, SIGNED)                                                                                       \
    X(I64, 5, "i64", 64, SIGNED)                                                                                       \
    X(U8, 6, "u8", 8, UNSIGNED)                                                                                        \
    X(U16, 7, "u16", 16, UNSIGNED)                                                                                     \
    X(U32, 8, "u32", 32, UNSIGNED)                                                                                     \
    X(U64, 9, "u64", 64, UNSIGNED)                                                                                     \
    X(F16, 10, "f16", 16, FLOAT)                                                                                       \
    X(BF16, 11, "bf16", 16, FLOAT)                                                                                     \
    X(F32, 12, "f32", 32, FLOAT)                                                                                       \
    X(F64, 13, "f64", 64, FLOAT)                                                                                       \
    X(F8E4M3FN, 14, "f8e4m3fn", 8, FLOAT)                                                                              \
    X(F8E4M3FNUZ, 15, "f8e4m3fnuz", 8, FLOAT)                                                                          \
    X(F8E5M2, 16, "f8e5m2", 8, FLOAT)                                                                                  \
    X(F8E5M2FNUZ, 17, "f8e5m2fnuz", 8, FLOAT)                                                                          \
    X(F8E8M0FNU, 18, "f8e8m0fnu", 8, FLOAT)                                                                            \
    X(F4E2M1FN, 19, "f4e2m1fn", 4, FLOAT)                                                                              \
    X(I4, 20, "i4", 4, SIGNED)                                                                                         \
    X(U4, 21, "u4", 4, UNSIGNED)                                                                                       \
    X(I2, 22, "i2", 2, SIGNED)                                                                                         \
    X(U2, 23, "u2", 2, UNSIGNED)                                                                                       \
    X(C64, 24, "c64", 64, COMPLEX)                                                                                     \
    X(C128, 25, "c128", 128, COMPLEX)                                                                                  \
    X(STRING, 26, "string", 0, STRING)

typedef enum weft_dtype {
#define X(id, value, name, bits, kind) WEFT_##id = value,
    WEFT_DTYPES(X)
#undef X
        WEFT_DTYPE_COUNT
} weft_dtype;

WEFT_API const char *weft_dtype_name(weft_dtype dtype);
/* Bits of one element in memory; 0 for INVALID and STRING. */
WEFT_API int weft_dtype_bits(weft_dtype dtype);
/* WEFT_INVALID when no type has that name. */
WEFT_API weft_dtype weft_dtype_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif
