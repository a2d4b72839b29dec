/* The functions that WGSL lacks, each appended to a module only when it is called. Names ending in 64 take vec2<u32>,
   low word first. Each has one exit and chooses by select, not by branches: a driver that inlines a call with early
   returns must merge them, which took one of them minutes for a kernel with thirty calls. Shifts count modulo 32.
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
     "  let fine = (m < 1.0e37f) & (m > 1.0e-30f) & (abs(a) < 1.0e34f) & (abs(b) < 1.0e34f) & (abs(c) < 1.0e37f);\n"
     "  let ah = bitcast<f32>((bitcast<u32>(a) + 0x800u) & 0xfffff000u); let al = a - ah;\n"
     "  let bh = bitcast<f32>((bitcast<u32>(b) + 0x800u) & 0xfffff000u); let bl = b - bh;\n"
     "  let e = (((ah * bh - p) + ah * bl) + al * bh) + al * bl;\n"
     "  let t = s - p;\n"
     "  return select(s, s + (((p - (s - t)) + (c - t)) + e), fine);\n}\n"},
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
                     "  return select((b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u, (b >> 16u) | 0x40u, is_nan(x));\n}\n"},
    {"f32_of_f16(",
     "fn f32_of_f16(x: u32) -> f32 {\n"
     "  let s = (x & 0x8000u) << 16u; let e = (x >> 10u) & 31u; let m = x & 0x3ffu;\n"
     "  let d = bitcast<u32>(f32(m) * 5.9604644775390625e-8f);\n" /* 2^-24: a subnormal f16 is a normal f32 */
     "  let n = ((e + 112u) << 23u) | (m << 13u);\n"
     "  return bitcast<f32>(s | select(select(n, 0x7f800000u | (m << 13u), e == 31u), d, e == 0u));\n}\n"},
    /* the f32 that is the nearest f16: compilers drop f32(f16(x)), and which way f16(x) rounds is theirs */
    {"round_f16(", "fn round_f16(x: f32) -> f32 {\n"
                   "  let b = bitcast<u32>(x); let a = b & 0x7fffffffu;\n"
                   "  let n = (a + 0xfffu + ((a >> 13u) & 1u)) & 0xffffe000u;\n"
                   "  let d = bitcast<u32>(opaque(bitcast<f32>(a) + 0.5f) - 0.5f);\n" /* a multiple of 2^-24 */
                   "  var r = select(n, d, a < 0x38800000u);\n"
                   "  r = select(r, 0x7f800000u, a >= 0x477ff000u);\n"
                   "  r = select(r, 0x7fc00000u | (a & 0x7fe000u), a > 0x7f800000u);\n"
                   "  return bitcast<f32>(r | (b & 0x80000000u));\n}\n"},
    {"f16_of_f32(", "fn f16_of_f32(x: f32) -> u32 {\n"
                    "  let b = bitcast<u32>(x); let s = (b >> 16u) & 0x8000u; let a = b & 0x7fffffffu;\n"
                    "  let shift = 126u - (a >> 23u);\n" /* of a subnormal result */
                    "  let m = (a & 0x7fffffu) | 0x800000u;\n"
                    "  let low = m & ((1u << shift) - 1u); let half = 1u << (shift - 1u); let h = m >> shift;\n"
                    "  var r = h + select(0u, 1u, (low > half) | ((low == half) & ((h & 1u) == 1u)));\n"
                    "  r = select(r, 0u, a <= 0x33000000u);\n" /* up to 2^-25: ties to zero */
                    "  r = select(r, (a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u, a >= 0x38800000u);\n"
                    "  r = select(r, 0x7c00u, a >= 0x477ff000u);\n" /* 65520 and more */
                    "  return s | select(r, 0x7e00u | ((a >> 13u) & 0x3ffu), a > 0x7f800000u);\n}\n"},
    /* -- floats to integers: truncate, saturate, NaN gives 0 */
    {"i32_of_f32(", "fn i32_of_f32(x: f32) -> i32 {\n"
                    "  let r = select(i32(clamp(x, -2147483648.0f, 2147483520.0f)), 2147483647i, x >= 2147483648.0f);\n"
                    "  return select(r, 0i, is_nan(x));\n}\n"},
    {"u32_of_f32(", "fn u32_of_f32(x: f32) -> u32 {\n"
                    "  let r = select(u32(clamp(x, 0.0f, 4294967040.0f)), 0xffffffffu, x >= 4294967296.0f);\n"
                    "  return select(r, 0u, is_nan(x));\n}\n"},
    {"u64_of_f32(", "fn u64_of_f32(x: f32) -> vec2<u32> {\n"
                    "  let b = bitcast<u32>(x); let e = (b >> 23u) - 127u;\n"
                    "  let m = vec2<u32>((b & 0x7fffffu) | 0x800000u, 0u);\n"
                    "  var r = select(shl64(m, e - 23u), shr_u64(m, 23u - e), e < 23u);\n"
                    "  r = select(r, vec2<u32>(0xffffffffu, 0xffffffffu), x >= 18446744073709551616.0f);\n"
                    "  return select(r, vec2<u32>(0u, 0u), is_nan(x) | (x < 1.0f));\n}\n"},
    {"i64_of_f32(", "fn i64_of_f32(x: f32) -> vec2<u32> {\n"
                    "  let m = u64_of_f32(abs(x));\n"
                    "  let r = select(m, neg64(m), x < 0.0f);\n"
                    "  let high = select(r, vec2<u32>(0xffffffffu, 0x7fffffffu), x >= 9223372036854775808.0f);\n"
                    "  return select(high, vec2<u32>(0u, 0x80000000u), x <= -9223372036854775808.0f);\n}\n"},
    /* -- integers to floats: one rounding. odd_*: to 24 bits, the last of which collects what is lost */
    {"round_of_u32(", /* f32(x) may take either neighbour */
     "fn round_of_u32(x: u32) -> f32 {\n"
     "  let shift = 8u - min(countLeadingZeros(x), 8u);\n"
     "  let low = x & ((1u << shift) - 1u); let half = (1u << shift) >> 1u; let h = x >> shift;\n"
     "  let up = (low > half) | ((low == half) & (low != 0u) & ((h & 1u) == 1u));\n"
     "  return f32(h + select(0u, 1u, up)) * f32(1u << shift);\n}\n"},
    {"round_of_i32(", "fn round_of_i32(x: i32) -> f32 {\n"
                      "  let m = round_of_u32(bitcast<u32>(abs(x)));\n"
                      "  return select(m, -m, x < 0i);\n}\n"},
    {"odd_of_u32(", "fn odd_of_u32(x: u32) -> f32 {\n"
                    "  let shift = 8u - min(countLeadingZeros(x), 8u); let lost = x & ((1u << shift) - 1u);\n"
                    "  return f32(((x >> shift) | select(0u, 1u, lost != 0u)) << shift);\n}\n"},
    {"odd_of_i32(", "fn odd_of_i32(x: i32) -> f32 {\n"
                    "  let m = odd_of_u32(bitcast<u32>(abs(x)));\n"
                    "  return select(m, -m, x < 0i);\n}\n"},
    {"top_of_u64(", /* the upper 32 bits of a number normalised to 64, the last collecting what is lost */
     "fn top_of_u64(x: vec2<u32>) -> u32 {\n"
     "  let n = shl64(x, countLeadingZeros(x.y));\n"
     "  return n.y | select(0u, 1u, n.x != 0u);\n}\n"},
    {"f32_of_u64(", "fn f32_of_u64(x: vec2<u32>) -> f32 {\n"
                    "  return ldexp(round_of_u32(top_of_u64(x)), 32i - i32(countLeadingZeros(x.y)));\n}\n"},
    {"f32_of_i64(", "fn f32_of_i64(x: vec2<u32>) -> f32 {\n"
                    "  let m = f32_of_u64(abs64(x));\n"
                    "  return select(m, -m, (x.y >> 31u) == 1u);\n}\n"},
    {"odd_of_u64(", "fn odd_of_u64(x: vec2<u32>) -> f32 {\n"
                    "  return ldexp(odd_of_u32(top_of_u64(x)), 32i - i32(countLeadingZeros(x.y)));\n}\n"},
    {"odd_of_i64(", "fn odd_of_i64(x: vec2<u32>) -> f32 {\n"
                    "  let m = odd_of_u64(abs64(x));\n"
                    "  return select(m, -m, (x.y >> 31u) == 1u);\n}\n"},
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
               "  let low = x.x << n;\n"
               "  return select(vec2<u32>(low, (x.y << n) | ((x.x >> 1u) >> (31u - n))), vec2<u32>(0u, low), n >= "
               "32u);\n}\n"},
    {"shr_u64(", "fn shr_u64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
                 "  let high = x.y >> n;\n"
                 "  return select(vec2<u32>((x.x >> n) | ((x.y << 1u) << (31u - n)), high), vec2<u32>(high, 0u), n >= "
                 "32u);\n}\n"},
    {"shr_i64(",
     "fn shr_i64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
     "  let high = bitcast<u32>(bitcast<i32>(x.y) >> n); let sign = bitcast<u32>(bitcast<i32>(x.y) >> 31u);\n"
     "  return select(vec2<u32>((x.x >> n) | ((x.y << 1u) << (31u - n)), high), vec2<u32>(high, sign), n >= "
     "32u);\n}\n"},
    {"lt_u64(",
     "fn lt_u64(a: vec2<u32>, b: vec2<u32>) -> bool { return (a.y < b.y) | ((a.y == b.y) & (a.x < b.x)); }\n"},
    {"lt_i64(", "fn lt_i64(a: vec2<u32>, b: vec2<u32>) -> bool {\n"
                "  return (bitcast<i32>(a.y) < bitcast<i32>(b.y)) | ((a.y == b.y) & (a.x < b.x));\n}\n"},
    {"div_rem64(", /* quotient in xy, remainder in zw */
     "fn div_rem64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {\n"
     "  var q = a; var r = vec2<u32>(0u, 0u);\n"
     "  if ((a.y | b.y) == 0u && b.x != 0u) {\n"
     "    q.x = a.x / b.x; r.x = a.x % b.x;\n"
     "  } else {\n"
     "    for (var i = 0i; i < 64i; i += 1i) {\n"
     "      let carry = r.y >> 31u;\n"
     "      r = vec2<u32>((r.x << 1u) | (q.y >> 31u), (r.y << 1u) | (r.x >> 31u));\n"
     "      q = shl64(q, 1u);\n"
     "      let take = (carry == 1u) | !lt_u64(r, b);\n"
     "      r = select(r, sub64(r, b), take); q.x |= select(0u, 1u, take);\n"
     "    }\n"
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
