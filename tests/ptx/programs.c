/* Small programs: divergence, barriers, shuffles, asynchronous copies, matrices; and those that do what they must not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/interpreter/ptx.h"
#include "tests/support/numbers.h"
#include "tests/support/status.h"

enum { WORDS = 1024, THREADS = 128 };

/* What is mapped lies between what is not. */
static int32_t room[5][WORDS], *const in = room[1], *const out = room[3];

/* %rd1: in, %rd2: out, %r1: thread, %rd3 = 4 * thread; registers to use: %p1-7, %r2-30, %rd4-19, %f1-19 */
static weft_status run(const char *body, unsigned threads) {
    char text[8000];
    (void)snprintf(
        text, sizeof text,
        ".version 9.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry k(.param .u64 k_0, .param .u64 k_1)\n.maxntid 128, 1, 1\n{\n"
        ".reg .pred %%p<8>; .reg .b32 %%r<40>; .reg .f32 %%f<20>; .reg .b64 %%rd<20>;\n"
        ".shared .align 16 .b8 buffer[2048];\n.local .align 8 .b8 own[64];\n"
        "ld.param.u64 %%rd1, [k_0]; ld.param.u64 %%rd2, [k_1]; mov.u32 %%r1, %%tid.x; mul.wide.u32 %%rd3, %%r1, 4;\n"
        "%s\nret;\n}\n",
        body);
    ptx_machine *machine;
    ptx_module *module;
    assert_fine(ptx_machine_create(&machine));
    ptx_machine_set_limit(machine, 20000);
    weft_status status = ptx_module_load(machine, text, &module);
    for (int i = 0; i < WORDS; i++) in[i] = i * 3 + 1;
    memset(out, 0, sizeof room[3]);
    if (!status) {
        assert_fine(ptx_machine_map(machine, in, sizeof room[1], false));
        assert_fine(ptx_machine_map(machine, out, sizeof room[3], true));
        void *addresses[] = {in, out}, *parameters[] = {&addresses[0], &addresses[1]};
        ptx_launch launch = {.kernel = "k", .blocks = 1, .threads = threads, .parameters = parameters};
        status = ptx_machine_launch(module, &launch);
        ptx_module_unload(module);
    }
    ptx_machine_release(machine);
    return status;
}

#define STORE     "add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r9;"
#define LOAD      "add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r8, [%rd4];"
#define TO_SHARED "mov.u32 %r10, buffer; shl.b32 %r11, %r1, 2; add.s32 %r10, %r10, %r11; st.shared.u32 [%r10], %r8;"

/* Each thread its own number of trips. */
START_TEST(divergence) {
    assert_fine(run(
        "mov.u32 %r9, 0; and.b32 %r2, %r1, 7;\n"
        "$again: setp.eq.s32 %p1, %r2, 0; @%p1 bra $done; add.s32 %r9, %r9, %r2; sub.s32 %r2, %r2, 1; bra.uni $again;\n"
        "$done: " STORE,
        THREADS));
    for (int i = 0; i < THREADS; i++) ck_assert_int_eq(out[i], i % 8 * (i % 8 + 1) / 2);
}
END_TEST

START_TEST(barriers) {
    assert_fine(run(LOAD TO_SHARED "bar.sync 0;\nsub.s32 %r12, 127, %r1; shl.b32 %r12, %r12, 2; mov.u32 %r13, buffer;"
                                   "add.s32 %r12, %r12, %r13; ld.shared.u32 %r9, [%r12];" STORE,
                    THREADS));
    for (int i = 0; i < THREADS; i++) ck_assert_int_eq(out[i], (127 - i) * 3 + 1);
    /* without it the last warps' values are not there yet */
    assert_fine(run(LOAD TO_SHARED "sub.s32 %r12, 127, %r1; shl.b32 %r12, %r12, 2; mov.u32 %r13, buffer;"
                                   "add.s32 %r12, %r12, %r13; ld.shared.u32 %r9, [%r12];" STORE,
                    THREADS));
    int wrong = 0;
    for (int i = 0; i < THREADS; i++) wrong += out[i] != (127 - i) * 3 + 1;
    ck_assert_int_gt(wrong, 0);
}
END_TEST

START_TEST(shuffles) {
    assert_fine(run(
        LOAD "mov.u32 %r9, %r8;\n"
             "shfl.sync.bfly.b32 %r2, %r9, 16, 31, -1; add.s32 %r9, %r9, %r2;\n"
             "shfl.sync.bfly.b32 %r2, %r9, 8, 31, -1; add.s32 %r9, %r9, %r2;\n"
             "shfl.sync.down.b32 %r3|%p1, %r1, 4, 31, -1; selp.u32 %r4, 1000000, 0, %p1; add.s32 %r9, %r9, %r4;" STORE,
        THREADS));
    for (int i = 0; i < THREADS; i++) {
        int sum = 0;
        for (int k = 0; k < 32; k += 8) sum += (i / 32 * 32 + i % 8 + k) * 3 + 1;
        ck_assert_int_eq(out[i], sum + (i % 32 < 28 ? 1000000 : 0));
    }
}
END_TEST

/* 16 bytes a thread; those of threads from 8 on are zeros. Before it is waited for, nothing has come. */
START_TEST(copies) {
    static const char head[] =
        "mov.u32 %r10, buffer; shl.b32 %r11, %r1, 4; add.s32 %r10, %r10, %r11; mul.wide.u32 %rd6, %r1, 16;"
        "add.s64 %rd4, %rd1, %rd6; setp.lt.u32 %p1, %r1, 8; selp.b32 %r12, 16, 0, %p1;\n"
        "cp.async.cg.shared.global [%r10], [%rd4], 16, %r12; cp.async.commit_group;\n";
    static const char tail[] = "ld.shared.u32 %r9, [%r10+4];" STORE;
    char text[2000];
    (void)snprintf(text, sizeof text, "%s cp.async.wait_group 0; %s", head, tail);
    assert_fine(run(text, 32));
    for (int i = 0; i < 32; i++) ck_assert_int_eq(out[i], i < 8 ? (4 * i + 1) * 3 + 1 : 0);
    (void)snprintf(text, sizeof text, "%s cp.async.wait_group 1; %s", head, tail);
    assert_fine(run(text, 32));
    for (int i = 0; i < 32; i++) ck_assert_int_ne(out[i], i < 8 ? (4 * i + 1) * 3 + 1 : 0);
}
END_TEST

/* A (16 x 16) and B (16 x 8) of small whole numbers in bf16 through shared memory and ldmatrix; D in f32. */
START_TEST(matrices) {
    static const char text[] =
        /* a[i][k] = (i + 2 k) % 5 - 2, thread t writes row t / 2, half of k; b[k][n] = (3 k + n) % 7 - 3, kept by
           columns */
        "mov.u32 %r10, buffer; shr.u32 %r2, %r1, 1; and.b32 %r3, %r1, 1; shl.b32 %r3, %r3, 3; mov.u32 %r4, 0;\n"
        "$fill: add.s32 %r5, %r3, %r4; mad.lo.s32 %r6, %r5, 2, %r2; rem.u32 %r6, %r6, 5; sub.s32 %r6, %r6, 2; cvt.rn.f32.s32 %f1, %r6;\n"
        "mov.b32 %r7, %f1; shr.u32 %r7, %r7, 16; shl.b32 %r8, %r2, 4; add.s32 %r8, %r8, %r5; shl.b32 %r8, %r8, 1; add.s32 %r8, %r8, %r10; st.shared.u16 [%r8], %r7;\n"
        "setp.gt.u32 %p2, %r1, 15; @%p2 bra $skip; mad.lo.s32 %r6, %r5, 3, %r2; rem.u32 %r6, %r6, 7; sub.s32 %r6, %r6, 3; cvt.rn.f32.s32 %f1, %r6;\n"
        "mov.b32 %r7, %f1; shr.u32 %r7, %r7, 16; shl.b32 %r8, %r2, 4; add.s32 %r8, %r8, %r5; shl.b32 %r8, %r8, 1; add.s32 %r8, %r8, %r10; st.shared.u16 [%r8+512], %r7;\n"
        "$skip: add.s32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 8; @%p1 bra $fill;\nbar.warp.sync -1;\n"
        /* rows of A's four matrices: lane % 16, k half lane / 16; of B's two: lane % 8, k half lane / 8 % 2 */
        "and.b32 %r2, %r1, 15; shl.b32 %r2, %r2, 5; shr.u32 %r3, %r1, 4; shl.b32 %r3, %r3, 4; add.s32 %r2, %r2, %r3; add.s32 %r2, %r2, %r10;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r2];\n"
        "and.b32 %r2, %r1, 7; shl.b32 %r2, %r2, 5; shr.u32 %r3, %r1, 3; and.b32 %r3, %r3, 1; shl.b32 %r3, %r3, 4; add.s32 %r2, %r2, %r3; add.s32 %r2, %r2, %r10;\n"
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r24, %r25}, [%r2+512];\n"
        "mov.f32 %f10, 0f3F800000; mov.f32 %f11, %f10; mov.f32 %f12, %f10; mov.f32 %f13, %f10;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f10, %f11, %f12, %f13}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f10, %f11, %f12, %f13};\n"
        "shr.u32 %r2, %r1, 2; shl.b32 %r2, %r2, 3; and.b32 %r3, %r1, 3; shl.b32 %r3, %r3, 1; add.s32 %r2, %r2, %r3; mul.wide.u32 %rd6, %r2, 4; add.s64 %rd6, %rd2, %rd6;\n"
        "st.global.v2.f32 [%rd6], {%f10, %f11}; st.global.v2.f32 [%rd6+256], {%f12, %f13};";
    assert_fine(run(text, 32));
    for (int i = 0; i < 16; i++)
        for (int n = 0; n < 8; n++) {
            int sum = 1;
            for (int k = 0; k < 16; k++) sum += ((i + 2 * k) % 5 - 2) * ((3 * k + n) % 7 - 3);
            float got;
            memcpy(&got, &out[i * 8 + n], 4);
            ck_assert_msg(got == (float)sum, "row %d, column %d: %g, not %d", i, n, (double)got, sum);
        }
}
END_TEST

static const struct {
    const char *body, *says;
    weft_code code;
} faults[] = {
    {"ld.global.u32 %r9, [%rd1+4096];" STORE, "outside of every buffer", WEFT_INVALID_DATA},
    {"ld.global.u32 %r9, [%rd1+-4];" STORE, "outside of every buffer", WEFT_INVALID_DATA},
    {"ld.global.u32 %r9, [%rd1+2];" STORE, "not a multiple", WEFT_INVALID_DATA},
    {"ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd1+8];" STORE, "a load of 16 bytes", WEFT_INVALID_DATA},
    {"st.global.u32 [%rd1], %r1;", "read only", WEFT_INVALID_DATA},
    {"mov.u32 %r10, buffer; st.shared.u32 [%r10+2048], %r1;", "2048 bytes of shared memory", WEFT_INVALID_DATA},
    {"mov.u64 %rd6, own; st.local.u64 [%rd6+64], %rd1;", "64 bytes of local memory", WEFT_INVALID_DATA},
    {"setp.lt.u32 %p1, %r1, 40; @%p1 bar.sync 0;", "not all threads of a warp", WEFT_INVALID_DATA},
    {"setp.gt.u32 %p1, %r1, 63; @%p1 bra $over; bar.sync 0;\n$over: bar.sync 1;", "wait at barriers for ever",
     WEFT_INVALID_DATA},
    {"and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; @%p1 shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", "a shuffle",
     WEFT_INVALID_DATA},
    {"$again: bra $again;", "more than 20000 steps", WEFT_INVALID_DATA},
    {"trap;", "a trap", WEFT_INVALID_DATA},
    {"tanh.approx.bf16x2 %r1, %r2;", "tanh.approx.bf16x2", WEFT_UNSUPPORTED},
    {"add.s32 %r1, %q2, 1;", "%q2", WEFT_UNSUPPORTED},
    {"bra $nowhere;", "$nowhere", WEFT_UNSUPPORTED},
    {"add.s32 %r1, %r40, 1;", "%r40", WEFT_UNSUPPORTED},
};

START_TEST(forbidden) { assert_fails(run(faults[_i].body, THREADS), faults[_i].code, faults[_i].says); }
END_TEST

/* Any text is refused or understood. */
START_TEST(damaged) {
    static const char text[] =
        ".version 9.0\n.target sm_80\n.visible .entry k(.param .u64 k_0)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>;\n"
        ".shared .align 16 .b8 s[64];\nmov.u32 %r1, %tid.x; setp.lt.s32 %p1, %r1, 5; @%p1 bra $a;\n"
        "st.shared.v2.u32 [s+8], {%r1, %r2};\n$a: { .reg .b32 x; add.s32 x, %r1, -3; } ret;\n}\n";
    ptx_machine *machine;
    uint64_t state = 3;
    assert_fine(ptx_machine_create(&machine));
    for (int trial = 0; trial < 4000; trial++) {
        char copy[sizeof text];
        memcpy(copy, text, sizeof text);
        for (int n = 0; n < 1 + trial % 5; n++) {
            copy[number_random(&state) % (sizeof text - 1)] = (char)number_random(&state);
        }
        if (trial % 7 == 0) copy[number_random(&state) % (sizeof text - 1)] = 0;
        ptx_module *module;
        weft_status_release(ptx_module_load(machine, copy, &module));
        ptx_module_unload(module);
    }
    ptx_machine_release(machine);
}
END_TEST

void add_program_tests(Suite *suite) {
    TCase *tests = tcase_create("programs");
    tcase_add_test(tests, divergence);
    tcase_add_test(tests, barriers);
    tcase_add_test(tests, shuffles);
    tcase_add_test(tests, copies);
    tcase_add_test(tests, matrices);
    tcase_add_loop_test(tests, forbidden, 0, sizeof faults / sizeof *faults);
    tcase_add_test(tests, damaged);
    suite_add_tcase(suite, tests);
}
