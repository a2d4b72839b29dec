/* Small programs as the backend compiles them: divisions and roots rounded right, all kinds of memory, barriers,
 * atomics. */
#include <math.h>
#include <stdlib.h>

#include "tests/amdgcn/testing.h"

enum { LANES = 64, ROUNDS = 40, BLOCK = 256, BLOCKS = 5 };

/* The correctly rounded results; numbers that are not are all the same one. */
static uint64_t expected(int which, uint64_t a, uint64_t b) {
    _Float16 h[3];
    uint16_t half;
    switch (which) {
    case 0: return number_bits32(number_f32(a) / number_f32(b));
    case 1: return number_bits64(number_f64(a) / number_f64(b));
    case 2: return number_bits32(sqrtf(number_f32(a)));
    case 3: return number_bits64(sqrt(number_f64(a)));
    case 4: return a / (b | 1);
    case 5: return (uint64_t)((int64_t)(int32_t)a % (int64_t)((b & 1048575) | 2));
    case 6: return number_bits32((float)a);
    case 7: return number_bits64((double)(int64_t)a);
    case 8: return (((a & 0x7f7f7f7f) + (b & 0x7f7f7f7f)) ^ ((a ^ b) & 0x80808080)) & UINT32_MAX;
    default:
        memcpy(h, &a, 4);
        memcpy(h + 2, &b, 2);
        h[0] = (_Float16)fma((double)h[0], (double)h[1], (double)h[2]);
        memcpy(&half, h, 2);
        return half;
    }
}

static const struct {
    const char *name;
    uint64_t kept; /* bits of the result */
} programs[] = {{"divide_f32", UINT32_MAX}, {"divide_f64", UINT64_MAX}, {"sqrt_f32", UINT32_MAX},
                {"sqrt_f64", UINT64_MAX},   {"divide_u64", UINT64_MAX}, {"remainder_s32", UINT64_MAX},
                {"f32_of_u64", UINT32_MAX}, {"f64_of_s64", UINT64_MAX}, {"bytes_summed", UINT32_MAX},
                {"fma_f16", 0xffff}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static bool is_nan(int which, uint64_t bits) {
    if (which == 9) return (bits & 0x7fff) > 0x7c00;
    if (which == 1 || which == 3) return isnan(number_f64(bits));
    return (which == 0 || which == 2) && isnan(number_f32(bits));
}

/* Any bits, floats of ordinary size, those near the ends of the range, zeros and infinities. */
static uint64_t pick(uint64_t *state, int which) {
    static const uint64_t special[] = {0,
                                       UINT64_C(1) << 63,
                                       UINT64_C(0x7ff0000000000000),
                                       UINT64_C(0x7ff8000000000000),
                                       1,
                                       UINT64_MAX,
                                       0x80000000,
                                       0x7f800000,
                                       0x7fc00000,
                                       0x00800000,
                                       0x00400001,
                                       UINT64_C(0x0010000000000000)};
    uint64_t bits = number_random(state), kind = number_random(state) % 8;
    if (kind == 0) return special[bits % (sizeof special / sizeof *special)];
    double x = ((double)(bits % 1000003) + 1) / 1009;
    if (kind < 4 && (which == 0 || which == 2)) return number_bits32((float)x);
    if (kind < 4 && (which == 1 || which == 3)) return number_bits64(x);
    if (kind < 6 && which == 4) return bits >> (bits % 61);
    if (kind < 6 && which == 9) return (bits & UINT64_C(0x3fff3fff)) | 0x30003000;
    return bits;
}

START_TEST(arithmetic) {
    static uint64_t a[LANES], b[LANES], out[LANES];
    loaded l = load_file("arithmetic.ll", arches[_i]);
    uint64_t state = 99;
    assert_fine(amdgcn_machine_map(l.machine, a, sizeof a, false));
    assert_fine(amdgcn_machine_map(l.machine, b, sizeof b, false));
    assert_fine(amdgcn_machine_map(l.machine, out, sizeof out, true));
    for (int which = 0; which < PROGRAMS; which++)
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < LANES; i++) a[i] = pick(&state, which), b[i] = pick(&state, which);
            memset(out, 0, sizeof out);
            assert_fine(launch_kernel(&l, programs[which].name, 1, LANES, a, b, out));
            for (int i = 0; i < LANES; i++) {
                uint64_t want = expected(which, a[i], b[i]) & programs[which].kept, got = out[i] & programs[which].kept;
                ck_assert_msg(got == want || (is_nan(which, got) && is_nan(which, want)),
                              "%s on %s of %llx, %llx: %llx, not %llx", programs[which].name, arches[_i],
                              (unsigned long long)a[i], (unsigned long long)b[i], (unsigned long long)got,
                              (unsigned long long)want);
            }
        }
    drop(&l);
}
END_TEST

START_TEST(memory) {
    static int32_t in[BLOCK * BLOCKS], out[BLOCK * BLOCKS];
    loaded l = load_file("memory.ll", arches[_i]);
    assert_fine(amdgcn_machine_map(l.machine, in, sizeof in, false));
    assert_fine(amdgcn_machine_map(l.machine, out, sizeof out, true));
    for (int i = 0; i < BLOCK * BLOCKS; i++) in[i] = i * 7919 % 1013 - 500;
    for (int atomics = 0; atomics < 2; atomics++) {
        memset(out, 0, sizeof out);
        assert_fine(launch_kernel(&l, atomics ? "atomic_sum" : "block_sum", BLOCKS, BLOCK, in, out, NULL));
        for (int block = 0; block < BLOCKS; block++) {
            int32_t sum = 0;
            for (int i = 0; i < BLOCK; i++) sum += in[block * BLOCK + i];
            ck_assert_int_eq(out[block], sum);
        }
    }
    assert_fine(launch_kernel(&l, "private_array", BLOCKS, BLOCK, in, out, NULL));
    for (int i = 0; i < BLOCK * BLOCKS; i++) ck_assert_int_eq(out[i], in[i ^ 5]);
    assert_fine(launch_kernel(&l, "generic", BLOCKS, BLOCK, in, out, NULL));
    for (int i = 0; i < BLOCK * BLOCKS; i++) ck_assert_int_eq(out[i], in[i] + 7);
    amdgcn_counts counts = amdgcn_machine_counts(l.machine);
    ck_assert_uint_eq(counts.launches, 4);
    ck_assert_uint_ge(counts.barriers, BLOCKS * 10);
    drop(&l);
}
END_TEST

void add_program_tests(Suite *suite) {
    TCase *tests = tcase_create("programs");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, arithmetic, 0, ARCHES);
    tcase_add_loop_test(tests, memory, 0, ARCHES);
    suite_add_tcase(suite, tests);
}
