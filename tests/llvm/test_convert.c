/* Conversions between all types with values on CPUs, against base/dtype.h, which converts single elements exactly. */
#include <math.h>

#include "tests/llvm/loader.h"

enum { COUNT = 4096 };

static const weft_dtype types[] = {WEFT_BOOL,   WEFT_I8,         WEFT_I16,      WEFT_I32,      WEFT_I64,
                                   WEFT_U8,     WEFT_U16,        WEFT_U32,      WEFT_U64,      WEFT_F16,
                                   WEFT_BF16,   WEFT_F32,        WEFT_F64,      WEFT_F8E4M3FN, WEFT_F8E4M3FNUZ,
                                   WEFT_F8E5M2, WEFT_F8E5M2FNUZ, WEFT_F8E8M0FNU};
enum { TYPE_COUNT = sizeof types / sizeof *types };

static bool is_real(weft_dtype t) { return weft_dtype_is_float(t); }

/* Random bits for narrow types (all codes occur), values around every rounding boundary for wide floats. */
static void fill(weft_dtype t, unsigned char *data, uint64_t seed) {
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    for (int i = 0; i < COUNT; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        if (t == WEFT_F32 || t == WEFT_F64) {
            double v = ldexp(1.0 + (double)(state >> 60) / 16, (int)(state % 300) - 150);
            static const double nudges[] = {0, 1e-7, -1e-7, 1e-12, -1e-12, 0.03125, 0.0625, 1e-15};
            v *= 1 + nudges[state >> 20 & 7];
            if (i % 2) v = ldexp((double)(int64_t)(state >> 12), -(int)(state % 60));
            static const double edges[] = {0,     -0.0, INFINITY, -INFINITY, NAN, 65504,        65520,
                                           448,   464,  57344,    61440,     240, 2147483648.0, -2147483649.0,
                                           255.9, -0.9, 9.3e18,   1.9e19};
            if (i < 18) v = edges[i];
            weft_element_set_double(t, data, i, state & 1u << 30 ? -v : v);
        } else if (is_real(t)) {
            if (weft_dtype_bits(t) == 8)
                data[i] = (unsigned char)i;
            else
                ((uint16_t *)(void *)data)[i] = (uint16_t)state;
        } else {
            weft_element_set_i64(
                t, data, i, t == WEFT_BOOL ? (int64_t)(state & 1) : (int64_t)(state >> (i % 64)) * (i % 3 ? 1 : -1));
        }
    }
}

static int64_t saturate(weft_dtype t, long double v) {
    int bits = weft_dtype_bits(t);
    bool s = weft_dtype_kind_of(t) == WEFT_KIND_SIGNED;
    long double high = ldexpl(1, s ? bits - 1 : bits), low = s ? -high : 0;
    if (isnan(v)) return 0;
    if (v >= high)
        return s ? (int64_t)(((uint64_t)1 << (bits - 1)) - 1) : bits == 64 ? -1 : (int64_t)(((uint64_t)1 << bits) - 1);
    if (v <= low) return s ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
    return v < 0 ? (int64_t)v : (int64_t)(uint64_t)v;
}

/* Bits of the nearest value of a narrow type for an integer that a double may not hold: odd-rounded first. */
static double integer_value(weft_dtype t, int64_t v) {
    bool s = weft_dtype_kind_of(t) == WEFT_KIND_SIGNED;
    long double exact = s ? (long double)v : (long double)(uint64_t)v;
    double near = (double)exact;
    if ((long double)near == exact) return near;
    if (fabsl((long double)near) > fabsl(exact)) near = nextafter(near, 0);
    uint64_t bits;
    memcpy(&bits, &near, 8);
    bits |= 1;
    memcpy(&near, &bits, 8);
    return near;
}

static void expect(weft_dtype from, weft_dtype to, const void *in, int i, void *out) {
    if (is_real(from)) {
        double v = weft_element_double(from, in, i);
        if (to == WEFT_BOOL)
            weft_element_set_i64(to, out, i, v != 0 || isnan(v));
        else if (is_real(to))
            weft_element_set_double(to, out, i, v);
        else
            weft_element_set_i64(to, out, i, saturate(to, (long double)v));
        return;
    }
    int64_t v = weft_element_i64(from, in, i);
    if (to == WEFT_F32 && weft_dtype_bits(from) == 64) {
        float f = weft_dtype_kind_of(from) == WEFT_KIND_SIGNED ? (float)v : (float)(uint64_t)v;
        memcpy((float *)out + i, &f, sizeof f);
    } else if (to == WEFT_F64) {
        double d = weft_dtype_kind_of(from) == WEFT_KIND_SIGNED ? (double)v : (double)(uint64_t)v;
        memcpy((double *)out + i, &d, sizeof d);
    } else if (is_real(to))
        weft_element_set_double(to, out, i, integer_value(from, v));
    else
        weft_element_set_i64(to, out, i, v);
}

static bool same(weft_dtype t, const void *a, const void *b, int i) {
    if (!is_real(t)) return weft_element_i64(t, a, i) == weft_element_i64(t, b, i);
    double x = weft_element_double(t, a, i), y = weft_element_double(t, b, i);
    return isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y);
}

static weft_kernel *conversion(bench *b, weft_dtype from, weft_dtype to, int lanes, const char *name) {
    weft_kernel *k = weft_kernel_create(&b->arena, NULL, b->capability, name);
    weft_kval source = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, 0, from, false, "in");
    weft_kval result = weft_kernel_buffer(k, WEFT_ARGUMENT_RESULT, 0, to, true, "out");
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, COUNT), weft_k_index(k, lanes), 0);
    weft_kval x = weft_k_load(k, source, i, lanes, WEFT_KNONE, WEFT_KNONE);
    weft_k_store(k, result, i, WEFT_KNONE, weft_k_convert(k, x, to));
    weft_k_end(k);
    ck_assert(!k->failed);
    return k;
}

static void check(kernel_function function, weft_dtype from, weft_dtype to, int lanes) {
    _Alignas(8) static unsigned char in[COUNT * 8], out[COUNT * 8], want[COUNT * 8];
    fill(from, in, (uint64_t)from * 31 + (uint64_t)to);
    function((void *[]){in, out}, NULL, 0, 1, NULL);
    for (int n = 0; n < COUNT; n++) {
        expect(from, to, in, n, want);
        double x = is_real(from) ? weft_element_double(from, in, n) : (double)weft_element_i64(from, in, n);
        double got = is_real(to) ? weft_element_double(to, out, n) : (double)weft_element_i64(to, out, n);
        double wanted = is_real(to) ? weft_element_double(to, want, n) : (double)weft_element_i64(to, want, n);
        ck_assert_msg(same(to, want, out, n), "%s -> %s, lanes %d, element %d: %.17g gave %.17g, not %.17g",
                      weft_dtype_name(from), weft_dtype_name(to), lanes, n, x, got, wanted);
    }
}

/* All pairs in one image. */
START_TEST(pairs) {
    if (!cpu_runs(arches[_i % 2])) return;
    bench b = bench_open(arches[_i % 2]);
    int lanes = _i / 2 ? 16 : 1;
    weft_kernel *kernels[TYPE_COUNT * TYPE_COUNT];
    for (int n = 0; n < TYPE_COUNT * TYPE_COUNT; n++)
        kernels[n] = conversion(&b, types[n / TYPE_COUNT], types[n % TYPE_COUNT], lanes,
                                weft_arena_format(&b.arena, "convert_%d", n));
    weft_code_image image;
    ck_assert_ptr_null(
        weft_target_find("cpu")->compile(b.context, b.capability, TYPE_COUNT * TYPE_COUNT, kernels, 2, &image));
    loaded l = load_image(&image);
    for (int n = 0; n < TYPE_COUNT * TYPE_COUNT; n++)
        check(find_kernel(&l, kernels[n]->name), types[n / TYPE_COUNT], types[n % TYPE_COUNT], lanes);
    unload_image(&l);
    weft_free(b.context->allocator, image.data, image.bytes);
    bench_close(&b);
}
END_TEST

START_TEST(bitcasts) {
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "bitcasts");
    weft_kval in = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, 0, WEFT_F32, false, "in"),
              out = weft_kernel_buffer(k, WEFT_ARGUMENT_RESULT, 0, WEFT_U32, true, "out");
    weft_k_store(k, out, weft_k_index(k, 0), WEFT_KNONE,
                 weft_k_bitcast(k, weft_k_load(k, in, weft_k_index(k, 0), 8, WEFT_KNONE, WEFT_KNONE), WEFT_U32));
    float data[8] = {1, -2, 3.5f, INFINITY, 0, -0.0f, 1e-40f, 7};
    uint32_t result[8];
    run_kernel(&b, k, (void *[]){data, result}, NULL, 1);
    ck_assert_int_eq(memcmp(data, result, sizeof data), 0);
    bench_close(&b);
}
END_TEST

Suite *convert_suite(void) {
    Suite *suite = suite_create("convert");
    TCase *tests = tcase_create("convert");
    tcase_add_loop_test(tests, pairs, 0, 4);
    tcase_add_loop_test(tests, bitcasts, 0, 2);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return suite;
}
