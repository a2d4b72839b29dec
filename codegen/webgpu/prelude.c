/* The functions that WGSL lacks, each appended to a module only when it is called. Names ending in 64 take vec2<u32>,
   low word first.
   Sources: Hacker's Delight (products of halves, division by shift and subtract); IEEE 754 formats for conversions. */
#include <string.h>

#include "codegen/webgpu/print.h"

typedef struct prelude_row {
    const char *name, *text;
} prelude_row;

static const prelude_row rows[] = {
    /* Arguments of functions are no constant expressions: infinities and NaN may pass. */
    {"f32_of_bits(", "fn f32_of_bits(x: u32) -> f32 { return bitcast<f32>(x); }\n"},
    /* weft_zero is 0, which no compiler knows */
    {"opaque(", "fn opaque(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ weft_zero); }\n"},
    {"is_nan(", "fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n"},
    {"copy_sign(", "fn copy_sign(x: f32, s: f32) -> f32 { return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | "
                   "(bitcast<u32>(s) & 0x80000000u)); }\n"},
    /* WGSL's fma may round twice. Product and sum with their errors (Dekker, Knuth); out of range the plain one serves.
     */
    {"fma_exact(",
     "fn fma_exact(a: f32, b: f32, c: f32) -> f32 {\n"
     "  let p = a * b;\n"
     "  let s = opaque(p + c);\n"
     "  let m = abs(p);\n"
     "  if (!(m < 1.0e37f) || !(m > 1.0e-30f) || !(abs(a) < 1.0e34f) || !(abs(b) < 1.0e34f) || !(abs(c) < 1.0e37f)) { return s; }\n"
     "  let ah = bitcast<f32>((bitcast<u32>(a) + 0x800u) & 0xfffff000u); let al = a - ah;\n"
     "  let bh = bitcast<f32>((bitcast<u32>(b) + 0x800u) & 0xfffff000u); let bl = b - bh;\n"
     "  let e = (((ah * bh - p) + ah * bl) + al * bh) + al * bl;\n"
     "  let t = s - p;\n"
     "  return s + (((p - (s - t)) + (c - t)) + e);\n}\n"},
    {"sign8(", "fn sign8(x: u32) -> i32 { return bitcast<i32>(x << 24u) >> 24u; }\n"},
    {"sign16(", "fn sign16(x: u32) -> i32 { return bitcast<i32>(x << 16u) >> 16u; }\n"},
    {"mul_wide(", "fn mul_wide(a: u32, b: u32) -> vec2<u32> {\n"
                  "  let al = a & 0xffffu; let ah = a >> 16u; let bl = b & 0xffffu; let bh = b >> 16u;\n"
                  "  let t = ah * bl + ((al * bl) >> 16u);\n"
                  "  let m = al * bh + (t & 0xffffu);\n"
                  "  return vec2<u32>(a * b, ah * bh + (t >> 16u) + (m >> 16u));\n}\n"},
    {"mul_high_u32(", "fn mul_high_u32(a: u32, b: u32) -> u32 { return mul_wide(a, b).y; }\n"},
    {"mul_high_i32(", "fn mul_high_i32(a: i32, b: i32) -> i32 {\n"
                      "  let h = mul_wide(bitcast<u32>(a), bitcast<u32>(b)).y;\n"
                      "  return bitcast<i32>(h - select(0u, bitcast<u32>(b), a < 0i) - select(0u, bitcast<u32>(a), b < "
                      "0i));\n}\n"},
    /* -- floats of 16 bits */
    {"f32_of_bf16(", "fn f32_of_bf16(x: u32) -> f32 { return bitcast<f32>(x << 16u); }\n"},
    {"bf16_of_f32(", "fn bf16_of_f32(x: f32) -> u32 {\n"
                     "  let b = bitcast<u32>(x);\n"
                     "  if ((b & 0x7fffffffu) > 0x7f800000u) { return (b >> 16u) | 0x40u; }\n"
                     "  return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;\n}\n"},
    {"f32_of_f16(", "fn f32_of_f16(x: u32) -> f32 {\n"
                    "  let s = (x & 0x8000u) << 16u; let e = (x >> 10u) & 31u; let m = x & 0x3ffu;\n"
                    "  if (e == 31u) { return bitcast<f32>(s | 0x7f800000u | (m << 13u)); }\n"
                    "  if (e != 0u) { return bitcast<f32>(s | ((e + 112u) << 23u) | (m << 13u)); }\n"
                    "  let d = f32(m) * 5.9604644775390625e-8f;\n" /* 2^-24: a subnormal f16 is a normal f32 */
                    "  return bitcast<f32>(bitcast<u32>(d) | s);\n}\n"},
    {"f16_of_f32(", "fn f16_of_f32(x: f32) -> u32 {\n"
                    "  let b = bitcast<u32>(x); let s = (b >> 16u) & 0x8000u; let a = b & 0x7fffffffu;\n"
                    "  if (a > 0x7f800000u) { return s | 0x7e00u | ((a >> 13u) & 0x3ffu); }\n"
                    "  if (a >= 0x477ff000u) { return s | 0x7c00u; }\n" /* 65520 and more */
                    "  if (a >= 0x38800000u) { return s | ((a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u); }\n"
                    "  if (a <= 0x33000000u) { return s; }\n" /* up to 2^-25: ties to zero */
                    "  let shift = 126u - (a >> 23u);\n"
                    "  let m = (a & 0x7fffffu) | 0x800000u;\n"
                    "  let low = m & ((1u << shift) - 1u); let half = 1u << (shift - 1u); let r = m >> shift;\n"
                    "  return s | (r + select(0u, 1u, low > half || (low == half && (r & 1u) == 1u)));\n}\n"},
    /* -- floats to integers: truncate, saturate, NaN gives 0 */
    {"i32_of_f32(", "fn i32_of_f32(x: f32) -> i32 {\n"
                    "  if (is_nan(x)) { return 0i; }\n"
                    "  if (x >= 2147483648.0f) { return 2147483647i; }\n"
                    "  if (x < -2147483648.0f) { return i32(-2147483648); }\n"
                    "  return i32(x);\n}\n"},
    {"u32_of_f32(", "fn u32_of_f32(x: f32) -> u32 {\n"
                    "  if (is_nan(x) || x <= 0.0f) { return 0u; }\n"
                    "  if (x >= 4294967296.0f) { return 0xffffffffu; }\n"
                    "  return u32(x);\n}\n"},
    {"u64_of_f32(", "fn u64_of_f32(x: f32) -> vec2<u32> {\n"
                    "  if (is_nan(x) || x < 1.0f) { return vec2<u32>(0u, 0u); }\n"
                    "  if (x >= 18446744073709551616.0f) { return vec2<u32>(0xffffffffu, 0xffffffffu); }\n"
                    "  let b = bitcast<u32>(x); let e = (b >> 23u) - 127u;\n"
                    "  let m = vec2<u32>((b & 0x7fffffu) | 0x800000u, 0u);\n"
                    "  if (e < 23u) { return shr_u64(m, 23u - e); }\n"
                    "  return shl64(m, e - 23u);\n}\n"},
    {"i64_of_f32(", "fn i64_of_f32(x: f32) -> vec2<u32> {\n"
                    "  if (x >= 9223372036854775808.0f) { return vec2<u32>(0xffffffffu, 0x7fffffffu); }\n"
                    "  if (x <= -9223372036854775808.0f) { return vec2<u32>(0u, 0x80000000u); }\n"
                    "  let m = u64_of_f32(abs(x));\n"
                    "  return select(m, neg64(m), x < 0.0f);\n}\n"},
    /* -- integers to floats: one rounding. odd_*: to 24 bits, the last of which collects what is lost */
    {"round_of_u32(", /* f32(x) may take either neighbour */
     "fn round_of_u32(x: u32) -> f32 {\n"
     "  let z = countLeadingZeros(x);\n"
     "  if (z >= 8u) { return f32(x); }\n"
     "  let shift = 8u - z; let low = x & ((1u << shift) - 1u); let half = 1u << (shift - 1u); let h = x >> shift;\n"
     "  return f32(h + select(0u, 1u, low > half || (low == half && (h & 1u) == 1u))) * f32(1u << shift);\n}\n"},
    {"round_of_i32(", "fn round_of_i32(x: i32) -> f32 {\n"
                      "  let m = round_of_u32(bitcast<u32>(abs(x)));\n"
                      "  return select(m, -m, x < 0i);\n}\n"},
    {"odd_of_u32(", "fn odd_of_u32(x: u32) -> f32 {\n"
                    "  let z = countLeadingZeros(x);\n"
                    "  if (z >= 8u) { return f32(x); }\n"
                    "  let shift = 8u - z; let lost = x & ((1u << shift) - 1u);\n"
                    "  return f32(((x >> shift) | select(0u, 1u, lost != 0u)) << shift);\n}\n"},
    {"odd_of_i32(", "fn odd_of_i32(x: i32) -> f32 {\n"
                    "  let m = odd_of_u32(bitcast<u32>(abs(x)));\n"
                    "  return select(m, -m, x < 0i);\n}\n"},
    {"top_of_u64(", /* the upper 32 bits of a number normalised to 64, the last collecting what is lost */
     "fn top_of_u64(x: vec2<u32>) -> u32 {\n"
     "  let n = shl64(x, countLeadingZeros(x.y));\n"
     "  return n.y | select(0u, 1u, n.x != 0u);\n}\n"},
    {"f32_of_u64(", "fn f32_of_u64(x: vec2<u32>) -> f32 {\n"
                    "  if (x.y == 0u) { return round_of_u32(x.x); }\n"
                    "  return ldexp(round_of_u32(top_of_u64(x)), 32i - i32(countLeadingZeros(x.y)));\n}\n"},
    {"f32_of_i64(", "fn f32_of_i64(x: vec2<u32>) -> f32 {\n"
                    "  if ((x.y >> 31u) == 0u) { return f32_of_u64(x); }\n"
                    "  return -f32_of_u64(neg64(x));\n}\n"},
    {"odd_of_u64(", "fn odd_of_u64(x: vec2<u32>) -> f32 {\n"
                    "  if (x.y == 0u) { return odd_of_u32(x.x); }\n"
                    "  return ldexp(odd_of_u32(top_of_u64(x)), 32i - i32(countLeadingZeros(x.y)));\n}\n"},
    {"odd_of_i64(", "fn odd_of_i64(x: vec2<u32>) -> f32 {\n"
                    "  if ((x.y >> 31u) == 0u) { return odd_of_u64(x); }\n"
                    "  return -odd_of_u64(neg64(x));\n}\n"},
    /* -- integers of 64 bits */
    {"i64_of_i32(", "fn i64_of_i32(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); "
                    "}\n"},
    {"add64(", "fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {\n"
               "  let low = a.x + b.x;\n"
               "  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));\n}\n"},
    {"sub64(", "fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {\n"
               "  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));\n}\n"},
    {"neg64(", "fn neg64(x: vec2<u32>) -> vec2<u32> { return sub64(vec2<u32>(0u, 0u), x); }\n"},
    {"mul64(", "fn mul64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {\n"
               "  let p = mul_wide(a.x, b.x);\n"
               "  return vec2<u32>(p.x, p.y + a.x * b.y + a.y * b.x);\n}\n"},
    {"shl64(", "fn shl64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
               "  if (n == 0u) { return x; }\n"
               "  if (n >= 32u) { return vec2<u32>(0u, x.x << (n - 32u)); }\n"
               "  return vec2<u32>(x.x << n, (x.y << n) | (x.x >> (32u - n)));\n}\n"},
    {"shr_u64(", "fn shr_u64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
                 "  if (n == 0u) { return x; }\n"
                 "  if (n >= 32u) { return vec2<u32>(x.y >> (n - 32u), 0u); }\n"
                 "  return vec2<u32>((x.x >> n) | (x.y << (32u - n)), x.y >> n);\n}\n"},
    {"shr_i64(", "fn shr_i64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
                 "  let high = bitcast<i32>(x.y);\n"
                 "  if (n == 0u) { return x; }\n"
                 "  if (n >= 32u) { return vec2<u32>(bitcast<u32>(high >> (n - 32u)), bitcast<u32>(high >> 31u)); }\n"
                 "  return vec2<u32>((x.x >> n) | (x.y << (32u - n)), bitcast<u32>(high >> n));\n}\n"},
    {"lt_u64(", "fn lt_u64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }\n"},
    {"lt_i64(", "fn lt_i64(a: vec2<u32>, b: vec2<u32>) -> bool {\n"
                "  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);\n}\n"},
    {"div_rem64(", /* quotient in xy, remainder in zw */
     "fn div_rem64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {\n"
     "  if (a.y == 0u && b.y == 0u && b.x != 0u) { return vec4<u32>(a.x / b.x, 0u, a.x % b.x, 0u); }\n"
     "  var q = a; var r = vec2<u32>(0u, 0u);\n"
     "  for (var i = 0i; i < 64i; i += 1i) {\n"
     "    let carry = r.y >> 31u;\n"
     "    r = vec2<u32>((r.x << 1u) | (q.y >> 31u), (r.y << 1u) | (r.x >> 31u));\n"
     "    q = shl64(q, 1u);\n"
     "    if (carry == 1u || !lt_u64(r, b)) { r = sub64(r, b); q.x |= 1u; }\n"
     "  }\n"
     "  return vec4<u32>(q, r);\n}\n"},
    {"div_u64(", "fn div_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return div_rem64(a, b).xy; }\n"},
    {"rem_u64(", "fn rem_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return div_rem64(a, b).zw; }\n"},
    {"abs64(", "fn abs64(x: vec2<u32>) -> vec2<u32> { return select(x, neg64(x), (x.y >> 31u) == 1u); }\n"},
    {"div_i64(", "fn div_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {\n"
                 "  let q = div_u64(abs64(a), abs64(b));\n"
                 "  return select(q, neg64(q), ((a.y ^ b.y) >> 31u) == 1u);\n}\n"},
    {"rem_i64(", "fn rem_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {\n"
                 "  let r = rem_u64(abs64(a), abs64(b));\n"
                 "  return select(r, neg64(r), (a.y >> 31u) == 1u);\n}\n"},
};
enum { ROWS = sizeof rows / sizeof *rows };

void weft_wgsl_print_prelude(const char *body, weft_text *text) {
    bool taken[ROWS] = {false}, changed = true;
    for (int i = 0; i < ROWS; i++) taken[i] = strstr(body, rows[i].name) != NULL;
    while (changed) {
        changed = false;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; taken[i] && j < ROWS; j++)
                if (!taken[j] && strstr(rows[i].text, rows[j].name)) taken[j] = changed = true;
    }
    for (int i = 0; i < ROWS; i++)
        if (taken[i]) weft_text_append(text, "%s", rows[i].text);
}
