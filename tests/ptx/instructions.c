/* Instructions one by one against plain functions that follow the manual. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/interpreter/ptx.h"
#include "tests/support/numbers.h"
#include "tests/support/status.h"

enum { THREADS = 64, SOURCES = 3 };

typedef uint64_t (*expectation)(uint64_t a, uint64_t b, uint64_t c);

#define EXPECT(NAME) static uint64_t NAME(uint64_t a, uint64_t b, uint64_t c)
#define UNUSED       (void)a, (void)b, (void)c

EXPECT(permute) {
    UNUSED;
    uint8_t bytes[8], out[4];
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(a >> 8 * i), bytes[4 + i] = (uint8_t)(b >> 8 * i);
    for (int i = 0; i < 4; i++) {
        int n = (int)(c >> 4 * i) & 15;
        out[i] = n < 8 ? bytes[n] : bytes[n - 8] >= 128 ? 255 : 0;
    }
    return out[0] | (uint64_t)out[1] << 8 | (uint64_t)out[2] << 16 | (uint64_t)out[3] << 24;
}
EXPECT(high) {
    UNUSED;
    return (uint32_t)((a % (UINT64_C(1) << 32)) * (b % (UINT64_C(1) << 32)) >> 32);
}
EXPECT(wide) {
    UNUSED;
    return (uint64_t)((int64_t)(int32_t)a * (int32_t)b);
}
EXPECT(wide_sum) {
    UNUSED;
    return (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + c;
}
EXPECT(shifted_left) {
    UNUSED;
    return (uint32_t)b > 31 ? 0 : (uint32_t)a << (uint32_t)b;
}
EXPECT(shifted_signed) {
    UNUSED;
    return (uint32_t)((int64_t)(int32_t)a >> ((uint32_t)b > 63 ? 63 : (uint32_t)b));
}
EXPECT(funnel) {
    UNUSED;
    return (uint32_t)((b << 32 | (uint32_t)a) >> (c % 32));
}
EXPECT(majority) {
    UNUSED;
    return (uint32_t)((a & b) | (a & c) | (b & c));
}
EXPECT(field) {
    UNUSED;
    return (uint32_t)a >> 5 & 0x7ff;
}
EXPECT(field_signed) {
    UNUSED;
    return (uint32_t)((int32_t)((uint32_t)a << 16) >> 21);
}
EXPECT(inserted) {
    UNUSED;
    return ((uint32_t)b & ~UINT32_C(0xff00)) | ((uint32_t)a & 255) << 8;
}
EXPECT(leading) {
    UNUSED;
    for (int i = 31; i >= 0; i--)
        if (a >> i & 1) return (uint64_t)(31 - i);
    return 32;
}
EXPECT(counted) {
    UNUSED;
    uint64_t n = 0;
    for (int i = 0; i < 32; i++) n += a >> i & 1;
    return n;
}
EXPECT(quotient) {
    UNUSED;
    uint64_t d = b % 1000 + 1;
    return (uint32_t)((int64_t)(int32_t)a / (int64_t)d);
}
EXPECT(dots) {
    UNUSED;
    int64_t s = (int32_t)c;
    for (int i = 0; i < 4; i++) s += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return (uint32_t)s;
}
EXPECT(product16) {
    UNUSED;
    return (uint16_t)((uint16_t)a * (uint32_t)(uint16_t)b);
}
EXPECT(smaller16) {
    UNUSED;
    return (uint16_t)((int16_t)a < (int16_t)b ? a : b);
}
EXPECT(picked) {
    UNUSED;
    return (uint32_t)((int32_t)a < (int32_t)b ? a : c);
}
EXPECT(both) {
    UNUSED;
    return number_f32(a) < number_f32(b) && (uint32_t)c > 7;
}
EXPECT(not_ordered) {
    UNUSED;
    return !(number_f32(a) >= number_f32(b));
}
EXPECT(nan_or_more) {
    UNUSED;
    return !(number_f32(a) < number_f32(b));
}
EXPECT(fused) {
    UNUSED;
    return number_bits32(fmaf(number_f32(a), number_f32(b), number_f32(c)));
}
EXPECT(rounded_up) {
    UNUSED;
    return number_bits32(ceilf(number_f32(a)));
}
EXPECT(to_signed) {
    UNUSED;
    double x = (double)number_f32(a);
    return isnan(x)             ? 0
           : x >= 2147483647.0  ? 0x7fffffff
           : x <= -2147483648.0 ? 0x80000000
                                : (uint32_t)(int32_t)trunc(x);
}
EXPECT(to_byte) {
    UNUSED;
    int32_t x = (int32_t)a;
    return (uint32_t)(x > 127 ? 127 : x < -128 ? -128 : x);
}
EXPECT(of_unsigned64) {
    UNUSED;
    return number_bits32((float)a);
}
EXPECT(with_sign) {
    UNUSED;
    return number_bits32(copysignf(number_f32(b), number_f32(a)));
}
EXPECT(two_halves) {
    UNUSED;
    _Float16 h[2] = {(_Float16)number_f32(b), (_Float16)number_f32(a)};
    uint32_t r;
    memcpy(&r, h, 4);
    return r;
}
EXPECT(bf16_rounded) {
    UNUSED;
    uint64_t x = a % (UINT64_C(1) << 32), up = x + 0x7fff + (x >> 16 & 1);
    return isnan(number_f32(a)) ? 0x7fff : up >> 16;
}
EXPECT(parts_swapped) {
    UNUSED;
    return a >> 32 | a << 32;
}

EXPECT(two_dots) {
    UNUSED;
    int64_t sum = (int32_t)c;
    for (int i = 0; i < 2; i++) sum += (int16_t)(a >> 16 * i) * (int8_t)(b >> 8 * i);
    return (uint32_t)sum;
}
EXPECT(two_dots_high) {
    UNUSED;
    uint64_t sum = c;
    for (int i = 0; i < 2; i++) sum += (a >> 16 * i & 0xffff) * (b >> (16 + 8 * i) & 255);
    return (uint32_t)sum;
}

/* d: the result, 64 bits wide for all; a b c in %rd1..3 and as 32 bits in %r1..3, as 16 in %rs1..3. */
static const struct {
    const char *text, *store;
    char kind; /* f: f32, any number that is not equals any other */
    expectation expected;
} rows[] = {
    {"prmt.b32 %r4, %r1, %r2, %r3;", "%r4", 'w', permute},
    {"mul.hi.u32 %r4, %r1, %r2;", "%r4", 'w', high},
    {"mul.wide.s32 %rd4, %r1, %r2;", "%rd4", 'w', wide},
    {"mad.wide.s32 %rd4, %r1, %r2, %rd3;", "%rd4", 'w', wide_sum},
    {"shl.b32 %r4, %r1, %r2;", "%r4", 'w', shifted_left},
    {"shr.s32 %r4, %r1, %r2;", "%r4", 'w', shifted_signed},
    {"shf.r.wrap.b32 %r4, %r1, %r2, %r3;", "%r4", 'w', funnel},
    {"lop3.b32 %r4, %r1, %r2, %r3, 232;", "%r4", 'w', majority},
    {"bfe.u32 %r4, %r1, 5, 11;", "%r4", 'w', field},
    {"bfe.s32 %r4, %r1, 5, 11;", "%r4", 'w', field_signed},
    {"bfi.b32 %r4, %r1, %r2, 8, 8;", "%r4", 'w', inserted},
    {"clz.b32 %r4, %r1;", "%r4", 'w', leading},
    {"popc.b32 %r4, %r1;", "%r4", 'w', counted},
    {"rem.u64 %rd5, %rd2, 1000; cvt.u32.u64 %r5, %rd5; add.s32 %r5, %r5, 1; "
     "div.s32 %r4, %r1, %r5;",
     "%r4", 'w', quotient},
    {"dp2a.lo.s32.s32 %r4, %r1, %r2, %r3;", "%r4", 'w', two_dots},
    {"dp2a.hi.u32.u32 %r4, %r1, %r2, %r3;", "%r4", 'w', two_dots_high},
    {"dp4a.s32.s32 %r4, %r1, %r2, %r3;", "%r4", 'w', dots},
    {"mul.lo.s16 %rs4, %rs1, %rs2;", "%rs4", 'w', product16},
    {"min.s16 %rs4, %rs1, %rs2;", "%rs4", 'w', smaller16},
    {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r4, %r1, %r3, %p1;", "%r4", 'w', picked},
    {"mov.b32 %f1, %r1; mov.b32 %f2, %r2; setp.gt.u32 %p2, %r3, 7; setp.lt.and.f32 %p1, %f1, %f2, %p2; selp.u32 %r4, 1, 0, %p1;",
     "%r4", 'w', both},
    {"mov.b32 %f1, %r1; mov.b32 %f2, %r2; setp.ltu.f32 %p1, %f1, %f2; selp.u32 %r4, 1, 0, %p1;", "%r4", 'w',
     not_ordered},
    {"mov.b32 %f1, %r1; mov.b32 %f2, %r2; setp.geu.f32 %p1, %f1, %f2; selp.u32 %r4, 1, 0, %p1;", "%r4", 'w',
     nan_or_more},
    {"mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3; fma.rn.f32 %f4, %f1, %f2, %f3; mov.b32 %r4, %f4;", "%r4",
     'f', fused},
    {"mov.b32 %f1, %r1; cvt.rpi.f32.f32 %f4, %f1; mov.b32 %r4, %f4;", "%r4", 'f', rounded_up},
    {"mov.b32 %f1, %r1; cvt.rzi.s32.f32 %r4, %f1;", "%r4", 'w', to_signed},
    {"cvt.sat.s8.s32 %r4, %r1;", "%r4", 'w', to_byte},
    {"cvt.rn.f32.u64 %f4, %rd1; mov.b32 %r4, %f4;", "%r4", 'f', of_unsigned64},
    {"mov.b32 %f1, %r1; mov.b32 %f2, %r2; copysign.f32 %f4, %f1, %f2; mov.b32 %r4, %f4;", "%r4", 'f', with_sign},
    {"mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.rn.f16x2.f32 %r4, %f1, %f2;", "%r4", 'p', two_halves},
    {"mov.b32 %f1, %r1; cvt.rn.bf16.f32 %rs4, %f1;", "%rs4", 'w', bf16_rounded},
    {"mov.b64 {%r4, %r5}, %rd1; mov.b64 %rd4, {%r5, %r4};", "%rd4", 'w', parts_swapped},
};
enum { ROWS = sizeof rows / sizeof *rows };

static uint64_t pick(uint64_t *state) {
    static const uint32_t words[] = {0,          1,          0xffffffff, 0x7fffffff, 0x80000000,
                                     0x3f800000, 0x7f800000, 0xff800000, 0x7fc00000, 1,
                                     31,         32,         33,         0x4f000000, 0xcf000000};
    uint64_t bits = number_random(state), kind = number_random(state) % 4;
    if (kind == 0) return words[bits % (sizeof words / sizeof *words)];
    if (kind == 1) return number_bits32((float)(int64_t)(bits % 4001) / 16 - 125);
    return kind == 2 ? bits % 64 : bits;
}

static bool half_is_nan(uint64_t bits) { return (bits & 0x7fff) > 0x7c00; }

static bool same(char kind, uint64_t got, uint64_t wanted) {
    if (got == wanted) return true;
    if (kind == 'f') return isnan(number_f32(got)) && isnan(number_f32(wanted));
    if (kind != 'p') return false;
    for (int shift = 0; shift < 32; shift += 16)
        if ((got >> shift & 0xffff) != (wanted >> shift & 0xffff) &&
            !(half_is_nan(got >> shift) && half_is_nan(wanted >> shift)))
            return false;
    return true;
}

START_TEST(each_instruction) {
    static uint64_t in[SOURCES][THREADS], out[THREADS];
    char text[4000];
    const char *store = rows[_i].store, *widen = !strncmp(store, "%rs", 3)   ? "cvt.u64.u16 %rd9, %rs4;"
                                                 : !strncmp(store, "%rd", 3) ? "mov.u64 %rd9, %rd4;"
                                                                             : "cvt.u64.u32 %rd9, %r4;";
    (void)snprintf(
        text, sizeof text,
        ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 k_0, .param .u64 k_1)\n{\n"
        ".reg .pred %%p<4>; .reg .b16 %%rs<6>; .reg .b32 %%r<10>; .reg .f32 %%f<6>; .reg .b64 %%rd<20>;\n"
        "ld.param.u64 %%rd10, [k_0]; ld.param.u64 %%rd11, [k_1]; mov.u32 %%r9, %%tid.x; mul.wide.u32 %%rd12, %%r9, 8;\n"
        "add.s64 %%rd10, %%rd10, %%rd12; add.s64 %%rd11, %%rd11, %%rd12;\n"
        "ld.global.u64 %%rd1, [%%rd10]; ld.global.u64 %%rd2, [%%rd10+512]; ld.global.u64 %%rd3, [%%rd10+1024];\n"
        "cvt.u32.u64 %%r1, %%rd1; cvt.u32.u64 %%r2, %%rd2; cvt.u32.u64 %%r3, %%rd3;\n"
        "cvt.u16.u64 %%rs1, %%rd1; cvt.u16.u64 %%rs2, %%rd2; cvt.u16.u64 %%rs3, %%rd3;\n%s\n%s\nst.global.u64 [%%rd11], %%rd9;\nret;\n}\n",
        rows[_i].text, widen);
    ptx_machine *machine;
    ptx_module *module;
    uint64_t state = 5;
    assert_fine(ptx_machine_create(&machine));
    assert_fine(ptx_module_load(machine, text, &module));
    assert_fine(ptx_machine_map(machine, in, sizeof in, false));
    assert_fine(ptx_machine_map(machine, out, sizeof out, true));
    void *addresses[] = {in, out}, *parameters[] = {&addresses[0], &addresses[1]};
    ptx_launch launch = {.kernel = "k", .blocks = 1, .threads = THREADS, .parameters = parameters};
    for (int round = 0; round < 16; round++) {
        for (int s = 0; s < SOURCES; s++)
            for (int t = 0; t < THREADS; t++) in[s][t] = pick(&state);
        assert_fine(ptx_machine_launch(module, &launch));
        for (int t = 0; t < THREADS; t++) {
            uint64_t wanted = rows[_i].expected(in[0][t], in[1][t], in[2][t]);
            ck_assert_msg(same(rows[_i].kind, out[t], wanted), "%s of %llx %llx %llx: %llx, expected %llx",
                          rows[_i].text, (unsigned long long)in[0][t], (unsigned long long)in[1][t],
                          (unsigned long long)in[2][t], (unsigned long long)out[t], (unsigned long long)wanted);
        }
    }
    ptx_module_unload(module);
    ptx_machine_release(machine);
}
END_TEST

void add_instruction_tests(Suite *suite) {
    TCase *tests = tcase_create("instructions");
    tcase_add_loop_test(tests, each_instruction, 0, ROWS);
    suite_add_tcase(suite, tests);
}
