/* Kernels that do what they must not end in a status that says it; damaged code objects are a status or run to some
   end, but never touch what they should not. */
#include <stdlib.h>

#include "tests/amdgcn/testing.h"

enum { THREADS = 256, WORDS = 1024 };

/* What is mapped lies between what is not. */
static int32_t room[5][WORDS], *const in = room[1], *const out = room[3];

static loaded load_faults(int arch, int32_t at) {
    loaded l = load_file("faults.ll", arches[arch]);
    amdgcn_machine_set_limit(l.machine, 100000);
    for (int i = 0; i < WORDS; i++) in[i] = i;
    memset(out, 0, sizeof room[3]);
    in[0] = at;
    assert_fine(amdgcn_machine_map(l.machine, in, sizeof room[1], false));
    assert_fine(amdgcn_machine_map(l.machine, out, sizeof room[3], true));
    return l;
}

static const struct {
    const char *kernel;
    int32_t at;
    const char *says; /* NULL: it is allowed */
} accesses[] = {{"load_far", 1023, NULL},
                {"load_far", 1024, "a load of 4 bytes"},
                {"load_far", -1, "a load of 4 bytes"},
                {"store_far", 1023, NULL},
                {"store_far", 1 << 20, "a store of 4 bytes"},
                {"store_to_input", 0, "read only"},
                {"shared_far", 63, NULL},
                {"shared_far", 64, "256 bytes of shared memory"},
                {"shared_far", -1, "256 bytes of shared memory"},
                {"scratch_far", 7, NULL},
                {"scratch_far", 4000, "bytes of scratch"},
                {"some_wait", 0, "wait at a barrier"},
                {"no_end", 0, "more than 100000 instructions"},
                {"unknown", 0, "no emulation of \"s_incperflevel"}};

START_TEST(forbidden) {
    for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++) {
        loaded l = load_faults(_i, accesses[i].at);
        weft_status status = launch_kernel(&l, accesses[i].kernel, 1, THREADS, in, out, NULL);
        ck_assert_msg(!accesses[i].says == !status, "%s %d", accesses[i].kernel, (int)accesses[i].at);
        if (!accesses[i].says)
            assert_fine(status);
        else
            assert_fails(status, WEFT_INVALID_DATA, accesses[i].says);
        drop(&l);
    }
}
END_TEST

/* Wavefronts run from barrier to barrier: what is not ordered is seen as it was. */
START_TEST(missing_barrier) {
    loaded l = load_faults(_i, 0);
    assert_fine(launch_kernel(&l, "no_barrier", 1, THREADS, in, out, NULL));
    int wrong = 0;
    for (int i = 0; i < THREADS; i++) wrong += out[i] != in[192 + i % 64];
    ck_assert_int_gt(wrong, 0);
    drop(&l);
}
END_TEST

START_TEST(wrong_launches) {
    loaded l = load_faults(_i, 0);
    void *arguments[] = {in, out};
    amdgcn_launch launch = {
        .kernel = "load_far", .blocks = 1, .threads = THREADS, .arguments = arguments, .argument_bytes = 16};
    assert_fine(amdgcn_machine_launch(l.code, &launch));
    launch.argument_bytes = 8;
    assert_fails(amdgcn_machine_launch(l.code, &launch), WEFT_INVALID_ARGUMENT, "8 bytes of arguments");
    launch.argument_bytes = 800;
    assert_fails(amdgcn_machine_launch(l.code, &launch), WEFT_INVALID_ARGUMENT, "800 bytes of arguments");
    launch.argument_bytes = 16, launch.threads = 2000;
    assert_fails(amdgcn_machine_launch(l.code, &launch), WEFT_INVALID_ARGUMENT, "blocks of 2000 threads");
    launch.threads = THREADS, launch.shared_bytes = 70000;
    assert_fails(amdgcn_machine_launch(l.code, &launch), WEFT_INVALID_DATA, "shared memory");
    launch.shared_bytes = 0, launch.kernel = "load_near";
    assert_fails(amdgcn_machine_launch(l.code, &launch), WEFT_NOT_FOUND, "load_near");
    amdgcn_machine *other;
    amdgcn_code *code;
    assert_fine(amdgcn_machine_create(arches[(_i + 1) % ARCHES], &other));
    assert_fails(amdgcn_code_load(other, l.data, l.bytes, &code), WEFT_INVALID_DATA, arches[_i]);
    ck_assert_ptr_null(code);
    amdgcn_machine_release(other);
    assert_fails(amdgcn_machine_create("gfx900", &other), WEFT_UNSUPPORTED, "gfx900");
    assert_fails(amdgcn_machine_map(l.machine, in + 5, 4, false), WEFT_INVALID_ARGUMENT, "mapped already");
    drop(&l);
}
END_TEST

/* Loads a damaged copy and, where that is possible, runs it. Returns whether it was refused. */
static bool try_damaged(loaded *l, const void *data, size_t bytes) {
    amdgcn_code *code;
    weft_status status = amdgcn_code_load(l->machine, data, bytes, &code);
    bool refused = status != NULL;
    weft_status_release(status);
    if (!code) return refused;
    void *arguments[] = {in, out};
    amdgcn_launch launch = {
        .kernel = "shared_far", .blocks = 1, .threads = THREADS, .arguments = arguments, .argument_bytes = 16};
    weft_status_release(amdgcn_machine_launch(code, &launch));
    amdgcn_code_unload(code);
    return refused;
}

START_TEST(truncated) {
    loaded l = load_faults(_i, 0);
    unsigned char *copy = malloc(l.bytes);
    for (size_t bytes = 0; bytes < l.bytes; bytes += 1 + l.bytes / 200) {
        memcpy(copy, l.data, bytes);
        ck_assert_msg(try_damaged(&l, copy, bytes), "%zu of %zu bytes of an object are taken for one", bytes, l.bytes);
    }
    free(copy);
    drop(&l);
}
END_TEST

START_TEST(flipped) {
    enum { TRIALS = 600 };
    loaded l = load_faults(_i, 0);
    amdgcn_machine_set_limit(l.machine, 2000);
    unsigned char *copy = malloc(l.bytes);
    uint64_t state = 7 + (uint64_t)_i;
    for (int trial = 0; trial < TRIALS; trial++) {
        memcpy(copy, l.data, l.bytes);
        for (int n = 0; n < 1 + trial % 8; n++) {
            copy[number_random(&state) % l.bytes] = (unsigned char)number_random(&state);
        }
        (void)try_damaged(&l, copy, l.bytes);
    }
    free(copy);
    drop(&l);
}
END_TEST

void add_fault_tests(Suite *suite) {
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, forbidden, 0, ARCHES);
    tcase_add_loop_test(tests, missing_barrier, 0, ARCHES);
    tcase_add_loop_test(tests, wrong_launches, 0, ARCHES);
    tcase_add_loop_test(tests, truncated, 0, ARCHES);
    tcase_add_loop_test(tests, flipped, 0, ARCHES);
    suite_add_tcase(suite, tests);
}
