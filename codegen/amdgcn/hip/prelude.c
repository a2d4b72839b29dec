/* Text only: what the shared printer (codegen/cxx) calls, for HIP C. Names of the C library are macros of builtins,
   which hold whether or not the compiler has read headers of its own. Products and sums are never fused, divisions and
   roots are rounded right (clang's default for HIP). Lanes move as in codegen/amdgcn/llvm/lanes.c: DPP within rows of
   16 lanes, permlanex16 or ds_swizzle within 32, ds_bpermute beyond; gfx9 has no XOR of rows. */
#include "codegen/amdgcn/hip/print.h"

#include <stddef.h>

const char *const weft_hip_prelude[] = {
    "#pragma clang fp contract(off)\n", "typedef unsigned char u8;\n", "typedef unsigned short u16;\n",
    "typedef unsigned int u32;\n", "typedef unsigned long long u64;\n", "typedef signed char i8;\n",
    "typedef long long i64;\n", "typedef u32 u32x2 __attribute__((ext_vector_type(2)));\n",
    "typedef u32 u32x4 __attribute__((ext_vector_type(4)));\n",
    "typedef u64 u64x2 __attribute__((ext_vector_type(2)));\n",
    "#define DEV static __attribute__((device, always_inline, unused)) inline\n",
    "DEV u32x2 u32x2_of(u32 x, u32 y) { return (u32x2){x, y}; }\n",
    "DEV u64x2 u64x2_of(u64 x, u64 y) { return (u64x2){x, y}; }\n",
    "DEV u32x4 u32x4_of(u32 x, u32 y, u32 z, u32 w) { return (u32x4){x, y, z, w}; }\n",
    "DEV float f32_of_bits(u32 x) { return __builtin_bit_cast(float, x); }\n",
    "DEV u32 bits_of_f32(float x) { return __builtin_bit_cast(u32, x); }\n",
    "DEV double f64_of_bits(u64 x) { return __builtin_bit_cast(double, x); }\n",
    "DEV u64 bits_of_f64(double x) { return __builtin_bit_cast(u64, x); }\n",
    "DEV int popcount32(u32 x) { return __builtin_popcount(x); }\n",
    "DEV int popcount64(u64 x) { return __builtin_popcountll(x); }\n",
    "DEV int mul_high(int a, int b) { return (int)((i64)a * b >> 32); }\n",
    "DEV u32 mul_high(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }\n", "DEV u64 mul_high(u64 a, u64 b) {\n",
    "  const u64 x = (u32)a, y = a >> 32, z = (u32)b, w = b >> 32, low = x * z >> 32, p = y * z + low, q = x * w + (u32)p;\n",
    "  return y * w + (p >> 32) + (q >> 32);\n", "}\n",
    "DEV i64 mul_high(i64 a, i64 b) { return (i64)(mul_high((u64)a, (u64)b) - (a < 0 ? (u64)b : 0) - (b < 0 ? (u64)a : 0)); }\n",
#define NAMES(X) X(fabs) X(floor) X(ceil) X(trunc) X(rint) X(sqrt) X(copysign) X(fma)
#define DEFINE(name)                                                                                                   \
    "#undef " #name "\n", "#define " #name " __builtin_" #name "\n", "#undef " #name "f\n",                            \
        "#define " #name "f __builtin_" #name "f\n",
    NAMES(DEFINE)
#undef DEFINE
#undef NAMES
        "#undef fminf\n",
    "#define fminf __builtin_fminf\n", "#undef fmaxf\n", "#define fmaxf __builtin_fmaxf\n",
    /* older compilers have no builtin of these two */
    "#if __has_builtin(__builtin_amdgcn_exp2f)\n",
    "DEV float exp2_fast(float x) { return __builtin_amdgcn_exp2f(x); }\n",
    "DEV float log2_fast(float x) { return __builtin_amdgcn_logf(x); }\n", "#else\n",
    "DEV float exp2_fast(float x) { return __builtin_exp2f(x); }\n",
    "DEV float log2_fast(float x) { return __builtin_log2f(x); }\n", "#endif\n",
    "DEV float rcp_fast(float x) { return __builtin_amdgcn_rcpf(x); }\n",
    "DEV float rsqrt_fast(float x) { return __builtin_amdgcn_rsqf(x); }\n",
    "template <class T> DEV T minimum(T a, T b) { return a < b ? a : b; }\n",
    "template <class T> DEV T maximum(T a, T b) { return a > b ? a : b; }\n",
    "DEV float max_nan(float a, float b) { return a != a ? a : a > b ? a : b; }\n",
    "DEV float min_nan(float a, float b) { return a != a ? a : a < b ? a : b; }\n",
    /* -- 16-bit floats as bits */
    "DEV float f32_of_bf16(u16 x) { return f32_of_bits((u32)x << 16); }\n",
    "DEV float f32_of_f16(u16 x) { return (float)__builtin_bit_cast(_Float16, x); }\n",
    "DEV u16 bf16_of_f32(float x) {\n", "  const u32 b = bits_of_f32(x);\n",
    "  return (u16)((b & 0x7fffffffu) > 0x7f800000u ? b >> 16 | 64u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16);\n", "}\n",
    "DEV u16 f16_of_f32(float x) { return __builtin_bit_cast(u16, (_Float16)x); }\n",
    "DEV u32 pack_bf16(float low, float high) { return (u32)bf16_of_f32(low) | (u32)bf16_of_f32(high) << 16; }\n",
    "DEV u32 pack_f16(float low, float high) { return (u32)f16_of_f32(low) | (u32)f16_of_f32(high) << 16; }\n",
    "DEV float bf16_low(u32 x) { return f32_of_bits(x << 16); }\n",
    "DEV float bf16_high(u32 x) { return f32_of_bits(x & 0xffff0000u); }\n",
    "DEV float f16_low(u32 x) { return f32_of_f16((u16)x); }\n",
    "DEV float f16_high(u32 x) { return f32_of_f16((u16)(x >> 16)); }\n",
    /* towards 0, the last bit set where that changed the value: a second rounding is then the only one */
    "DEV float odd_of_f64(double x) {\n", "  const float r = (float)x;\n", "  const double back = (double)r;\n",
    "  if (back == x || x != x) return r;\n",
    "  return f32_of_bits((bits_of_f32(r) - (fabs(back) > fabs(x) ? 1u : 0u)) | 1u);\n", "}\n",
    "DEV float odd_of_u64(u64 x) {\n", "  if (x >> 24 == 0) return (float)(u32)x;\n",
    "  const u32 s = 40u - (u32)__builtin_clzll(x);\n",
    "  const u32 top = (u32)(x >> s) | (u32)((x & (((u64)1 << s) - 1)) != 0);\n",
    "  return (float)top * f32_of_bits((127u + s) << 23);\n", "}\n",
    "DEV float odd_of_i64(i64 x) { return x < 0 ? -odd_of_u64((u64)0 - (u64)x) : odd_of_u64((u64)x); }\n",
    /* -- float to integer: truncates, saturates, NaN gives 0 */
    "template <class T> DEV int i32_of(T x) { return x != x ? 0 : x >= (T)0x1p31 ? 0x7fffffff : x <= (T)-0x1p31 ? (int)0x80000000u : (int)x; }\n",
    "template <class T> DEV u32 u32_of(T x) { return !(x > (T)0) ? 0u : x >= (T)0x1p32 ? 0xffffffffu : (u32)x; }\n",
    "template <class T> DEV i64 i64_of(T x) {\n",
    "  return x != x ? 0 : x >= (T)0x1p63 ? (i64)0x7fffffffffffffff : x <= (T)-0x1p63 ? (i64)0x8000000000000000 : (i64)x;\n",
    "}\n",
    "template <class T> DEV u64 u64_of(T x) { return !(x > (T)0) ? 0 : x >= (T)0x1p64 ? (u64)0xffffffffffffffff : (u64)x; }\n",
    "template <class T> DEV int i16_of(T x) { const int r = i32_of(x); return r < -32768 ? -32768 : r > 32767 ? 32767 : r; }\n",
    "template <class T> DEV int i8_of(T x) { const int r = i32_of(x); return r < -128 ? -128 : r > 127 ? 127 : r; }\n",
    "template <class T> DEV u32 u16_of(T x) { const u32 r = u32_of(x); return r > 65535u ? 65535u : r; }\n",
    "template <class T> DEV u32 u8_of(T x) { const u32 r = u32_of(x); return r > 255u ? 255u : r; }\n",
    /* -- threads together */
    "DEV void barrier() {\n", "  __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n",
    "  __builtin_amdgcn_s_barrier();\n", "  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n", "}\n",
    "template <int C> DEV u32 dpp(u32 x) { return (u32)__builtin_amdgcn_update_dpp(0, (int)x, C, 15, 15, true); }\n",
    /* lane l of four takes lane l ^ D */
    "template <int D> DEV u32 within_four(u32 x) {\n", "  if constexpr (D == 0) return x;\n",
    "  else return dpp<D | (1 ^ D) << 2 | (2 ^ D) << 4 | (3 ^ D) << 6>(x);\n", "}\n",
    "template <int D> DEV u32 within_row(u32 x) {\n", "#if defined(__GFX9__)\n",
    "  if constexpr (D >= 8) return within_row<D & 7>(dpp<0x128>(x));\n",             /* rotated by 8 */
    "  else if constexpr (D >= 4) return within_four<(D & 3) ^ 3>(dpp<0x141>(x));\n", /* 8 lanes mirrored: XOR 7 */
    "#else\n", "  if constexpr (D >= 4) return dpp<0x160 | D>(x);\n", "#endif\n", "  else return within_four<D>(x);\n",
    "}\n", "template <int D> DEV u32 shuffle_word(u32 x) {\n", "  if constexpr (D < 16) return within_row<D>(x);\n",
    "#if !defined(__GFX9__)\n", "  else if constexpr (D == 16) {\n",
    "    u32 r = (u32)__builtin_amdgcn_permlanex16(0, (int)x, 0x76543210, (int)0xfedcba98u, false, false);\n",
    "    __asm__ volatile(\"\" : \"+v\"(r));\n", "    return r;\n", "  }\n", "#endif\n",
    "  else if constexpr (D < 32) return (u32)__builtin_amdgcn_ds_swizzle((int)x, D << 10 | 31);\n", "  else {\n",
    "    const u32 lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));\n",
    "    return (u32)__builtin_amdgcn_ds_bpermute((int)((lane ^ D) << 2), (int)x);\n", "  }\n", "}\n",
    "template <int D, class T> DEV T shuffle(T x) {\n",
    "  if constexpr (sizeof(T) < 4) return (T)shuffle_word<D>((u32)x);\n",
    "  else if constexpr (sizeof(T) == 4) return __builtin_bit_cast(T, shuffle_word<D>(__builtin_bit_cast(u32, x)));\n",
    "  else {\n", "    const u64 w = __builtin_bit_cast(u64, x);\n",
    "    return __builtin_bit_cast(T, (u64)shuffle_word<D>((u32)w) | (u64)shuffle_word<D>((u32)(w >> 32)) << 32);\n",
    "  }\n", "}\n", NULL};
