/* Float formats against brute force: every code decodes to what the format's definition says, and encoding equals the
   nearest code found by searching the decoded table. Integers and packed types: clamping, wrapping, neighbours. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/base/base.h"

START_TEST(decode) {
    static const struct {
        weft_dtype dtype;
        unsigned bits;
        double value;
    } cases[] = {{WEFT_F16, 0x3c00, 1},
                 {WEFT_F16, 0x7bff, 65504},
                 {WEFT_F16, 0x0001, 0x1p-24},
                 {WEFT_BF16, 0x3fc0, 1.5},
                 {WEFT_BF16, 0x7f80, INFINITY},
                 {WEFT_F8E4M3FN, 0x7e, 448},
                 {WEFT_F8E4M3FN, 0x01, 0x1p-9},
                 {WEFT_F8E4M3FN, 0xb8, -1},
                 {WEFT_F8E4M3FNUZ, 0x7f, 240},
                 {WEFT_F8E4M3FNUZ, 0x01, 0x1p-10},
                 {WEFT_F8E5M2, 0x7b, 57344},
                 {WEFT_F8E5M2, 0xfc, -INFINITY},
                 {WEFT_F8E5M2, 0x01, 0x1p-16},
                 {WEFT_F8E5M2FNUZ, 0x7f, 57344},
                 {WEFT_F8E5M2FNUZ, 0x01, 0x1p-17},
                 {WEFT_F8E8M0FNU, 127, 1},
                 {WEFT_F8E8M0FNU, 0, 0x1p-127},
                 {WEFT_F8E8M0FNU, 254, 0x1p127},
                 {WEFT_F4E2M1FN, 7, 6},
                 {WEFT_F4E2M1FN, 9, -0.5},
                 {WEFT_F32, 0x40490fdb, 3.1415927410125732}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_double_eq(weft_float_decode(cases[i].dtype, cases[i].bits), cases[i].value);
    ck_assert(isnan(weft_float_decode(WEFT_F8E4M3FN, 0x7f)) && isnan(weft_float_decode(WEFT_F8E4M3FNUZ, 0x80)));
    ck_assert(isnan(weft_float_decode(WEFT_F8E5M2, 0x7d)) && isnan(weft_float_decode(WEFT_F8E8M0FNU, 255)));
}
END_TEST

/* Nearest finite code of the table, ties to the even code; *over when the value lies past the midpoint above the top.
 */
static unsigned nearest(weft_dtype dtype, double value, bool *over) {
    int bits = weft_dtype_bits(dtype);
    unsigned best = 0, top = 0;
    double distance = INFINITY, largest = 0, second = 0;
    for (unsigned code = 0; code < 1u << (bits - 1); code++) {
        double d = weft_float_decode(dtype, code);
        if (!isfinite(d)) continue;
        double gap = fabs(d - fabs(value));
        if (gap < distance || (gap == distance && code % 2 == 0)) best = code, distance = gap;
        if (d > largest) second = largest, largest = d, top = code;
    }
    double middle = largest + (largest - second) / 2; /* between the largest and the next, absent value */
    *over = fabs(value) > middle || (fabs(value) == middle && top % 2 == 1);
    if (fabs(value) > largest) best = top; /* distances to huge values are all equal */
    return best | (signbit(value) ? 1u << (bits - 1) : 0);
}

START_TEST(encode) {
    static const weft_dtype dtypes[] = {WEFT_F8E4M3FN, WEFT_F8E4M3FNUZ, WEFT_F8E5M2, WEFT_F8E5M2FNUZ, WEFT_F4E2M1FN};
    for (size_t t = 0; t < 5; t++) {
        weft_dtype dtype = dtypes[t];
        int bits = weft_dtype_bits(dtype);
        bool fnuz = dtype == WEFT_F8E4M3FNUZ || dtype == WEFT_F8E5M2FNUZ;
        for (unsigned code = 0; code < 1u << (bits - 1); code++) {
            double a = weft_float_decode(dtype, code), b = weft_float_decode(dtype, code + 1);
            if (!isfinite(a)) continue;
            if (!isfinite(b) || b <= a) b = a * 1.25;
            double middle = (a + b) / 2;
            double probes[] = {
                a, nextafter(a, b), nextafter(middle, a), middle, nextafter(middle, b), a * 1.01, a * 3, 1e300, 1e-300};
            for (size_t i = 0; i < 2 * sizeof probes / sizeof *probes; i++) {
                double value = i % 2 ? -probes[i / 2] : probes[i / 2];
                bool over;
                unsigned want = nearest(dtype, value, &over);
                if (fnuz && !(want & 0x7f)) want = 0;
                ck_assert_uint_eq(weft_float_encode(dtype, value, true), want);
                if (!over) ck_assert_uint_eq(weft_float_encode(dtype, value, false), want);
            }
        }
    }
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E4M3FN, 464, false), 0x7e); /* tie goes to even: 448 */
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E4M3FN, 465, false), 0x7f);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E4M3FN, -INFINITY, false), 0xff);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E4M3FN, -INFINITY, true), 0xfe);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E5M2, 61440, false), 0x7c);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E5M2, INFINITY, true), 0x7b);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E4M3FNUZ, 1e9, false), 0x80);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E8M0FNU, 1.5, false), 128); /* ties go up */
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E8M0FNU, 3, false), 129);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E8M0FNU, 1.49, false), 127);
    ck_assert_uint_eq(weft_float_encode(WEFT_F8E8M0FNU, 1e300, true), 254);
}
END_TEST

/* Wide formats: every f16 and bf16 code survives, and the compiler's float conversion agrees for f32. */
START_TEST(wide) {
    for (unsigned code = 0; code < 65536; code++) {
        for (int t = 0; t < 2; t++) {
            weft_dtype dtype = t ? WEFT_F16 : WEFT_BF16;
            double value = weft_float_decode(dtype, code);
            if (!isnan(value) && weft_float_encode(dtype, value, false) != code)
                ck_abort_msg("%s %04x", weft_dtype_name(dtype), code);
            if (isnan(value)) ck_assert(isnan(weft_float_decode(dtype, weft_float_encode(dtype, value, true))));
        }
    }
    ck_assert_uint_eq(weft_float_encode(WEFT_F16, 65519.99, false), 0x7bff);
    ck_assert_uint_eq(weft_float_encode(WEFT_F16, 65520, false), 0x7c00);
    ck_assert_uint_eq(weft_float_encode(WEFT_F16, 65520, true), 0x7bff);
    ck_assert_uint_eq(weft_float_encode(WEFT_F16, -INFINITY, true), 0xfc00);
    ck_assert_uint_eq(weft_float_encode(WEFT_F16, 1 + 0x1p-11, false), 0x3c00);
    ck_assert_uint_eq(weft_float_encode(WEFT_F16, 1 + 0x1p-11 + 0x1p-52, false), 0x3c01);
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double value = ldexp((double)(state >> 11), (int)(state % 330) - 210);
        float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, 4);
        if (weft_float_encode(WEFT_F32, value, false) != bits) ck_abort_msg("%a", value);
    }
}
END_TEST

START_TEST(elements) {
    unsigned char data[16];
    for (int t = 0; t < 4; t++) {
        weft_dtype dtype = (weft_dtype[]){WEFT_I4, WEFT_U4, WEFT_I2, WEFT_U2}[t];
        memset(data, 0xff, sizeof data);
        for (int64_t i = 0; i < 9; i++) weft_element_set_i64(dtype, data, i, i);
        int bits = weft_dtype_bits(dtype), half = 1 << (bits - 1);
        for (int64_t i = 0; i < 9; i++) {
            int64_t want = i & ((1 << bits) - 1);
            if (weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED && want >= half) want -= 2 * half;
            ck_assert_int_eq(weft_element_i64(dtype, data, i), want);
        }
        size_t bytes;
        ck_assert(weft_dtype_bytes(dtype, 9, &bytes) && bytes == (size_t)(9 * bits + 7) / 8);
        ck_assert_uint_eq(data[bytes], 0xff);
    }
    ck_assert_uint_eq((weft_element_set_i64(WEFT_U4, data, 0, 1), weft_element_set_i64(WEFT_U4, data, 1, 2), data[0]),
                      0x21);
    static const struct {
        weft_dtype dtype;
        double value;
        int64_t want;
    } cases[] = {{WEFT_I8, 127.9, 127},
                 {WEFT_I8, 1000, 127},
                 {WEFT_I8, -128.9, -128},
                 {WEFT_I8, -1e30, -128},
                 {WEFT_U8, -1, 0},
                 {WEFT_U8, 255.5, 255},
                 {WEFT_U8, 256, 255},
                 {WEFT_I64, 0x1p63, INT64_MAX},
                 {WEFT_I64, -INFINITY, INT64_MIN},
                 {WEFT_U64, 0x1p64, -1},
                 {WEFT_U64, 0x1p63, INT64_MIN},
                 {WEFT_I32, NAN, 0},
                 {WEFT_I4, 9, 7},
                 {WEFT_U2, 2.5, 2},
                 {WEFT_BOOL, 0.5, 1},
                 {WEFT_BOOL, -0.0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_element_set_double(cases[i].dtype, data, 0, cases[i].value);
        ck_assert_int_eq(weft_element_i64(cases[i].dtype, data, 0), cases[i].want);
    }
    weft_element_set_i64(WEFT_U64, data, 0, -1);
    ck_assert_double_eq(weft_element_double(WEFT_U64, data, 0), 0x1p64);
    weft_element_set_double(WEFT_C64, data, 1, 2.5);
    ck_assert_double_eq(weft_element_double(WEFT_C64, data, 1), 2.5);
    ck_assert_double_eq(weft_element_double(WEFT_F32, data, 3), 0);
    size_t bytes;
    ck_assert(!weft_dtype_bytes(WEFT_F64, INT64_MAX, &bytes) && !weft_dtype_bytes(WEFT_F64, -1, &bytes));
    ck_assert_int_eq(weft_dtype_find("bf16"), WEFT_BF16);
    ck_assert_int_eq(weft_dtype_find("f31"), WEFT_INVALID);
}
END_TEST

Suite *floats_suite(void) {
    Suite *suite = suite_create("floats");
    TCase *tests = tcase_create("floats");
    tcase_add_test(tests, decode);
    tcase_add_test(tests, encode);
    tcase_add_test(tests, wide);
    tcase_add_test(tests, elements);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
