/* The JIT cache with a compiler that makes programs by hand: y[A,C] = x[A,C]^2 (+ a state that counts calls). */
#include <stdlib.h>
#include <string.h>

#include "runtime/jit.h"
#include "tests/runtime/testing.h"

typedef struct compiler {
    weft_context *context;
    maker signature;
    maker made[64];
    int count;
    int64_t guard_limit; /* of A: programs with a symbolic A rely on A <= guard_limit; 0 = no guard */
    bool fail;
} compiler;

/* fixed == NULL: the signature */
static void make_program(compiler *c, maker *m, const int64_t *fixed) {
    maker_init(m, weft_allocator_system(), "jit");
    weft_dim_table *t = m->data.dims;
    weft_dim A =
        fixed && fixed[0] != WEFT_DIM_ANY ? fixed[0] : weft_dim_symbol(t, "A", 0, 100000, 1, WEFT_SYMBOL_ANONYMOUS);
    weft_dim C =
        fixed && fixed[1] != WEFT_DIM_ANY ? fixed[1] : weft_dim_symbol(t, "C", 0, 100000, 1, WEFT_SYMBOL_ANONYMOUS);
    weft_dim shape[2] = {A, C}, count = weft_dim_multiply(t, A, C);
    int x = maker_port(m, WEFT_BUFFER_INPUT, "x", WEFT_F32, 2, shape),
        y = maker_port(m, WEFT_BUFFER_OUTPUT, "y", WEFT_F32, 2, shape);
    int calls = maker_port(m, WEFT_BUFFER_STATE, "calls", WEFT_I64, 0, NULL);
    if (!fixed) return;
    maker_launch(m, WEFT_REGION_MAIN, KERNEL_SQUARE, weft_dim_divide_ceil(t, count, 16), 2, (int[]){x, y}, 1, &count);
    maker_launch(m, WEFT_REGION_MAIN, KERNEL_INCREASE, 1, 1, &calls, 1, (weft_dim[]){1});
    if (c->guard_limit && A < 0) {
        m->guards[0] = (weft_guard){{A, c->guard_limit, WEFT_RELATION_LE}, "fuse", "square (jit.c:1)"};
        m->data.guard_count = 1;
    }
}

static weft_status compile(void *self, const int64_t *fixed, weft_program **out_program) {
    compiler *c = self;
    *out_program = NULL;
    if (c->fail) return WEFT_STATUS(WEFT_UNSUPPORTED, "told to fail");
    ck_assert_int_lt(c->count, 64);
    maker *m = &c->made[c->count++];
    make_program(c, m, fixed);
    return load_made(c->context, "cpu", m, NULL, out_program);
}

static test_log log_lines;
static compiler c;
static weft_jit *jit;
static int64_t calls;

static void set_up_jit(int capacity) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    memset(&c, 0, sizeof c);
    memset(&log_lines, 0, sizeof log_lines);
    options.log = test_log_write;
    options.log_self = &log_lines;
    assert_fine(weft_context_create(&options, &c.context));
    make_program(&c, &c.signature, NULL);
    weft_jit_options jit_options = {c.context, &c.signature.data, compile, &c, capacity};
    assert_fine(weft_jit_create(&jit_options, &jit));
    calls = 0;
}

static void tear_down_jit(void) {
    weft_jit_release(jit);
    maker_deinit(&c.signature);
    for (int i = 0; i < c.count; i++) maker_deinit(&c.made[i]);
    weft_context_release(c.context);
}

/* Calls with x[a, b], checks the result and the state, and how many compiles there were so far. */
static void call(int64_t a, int64_t b, int compiles) {
    weft_tensor *x, *y = NULL, *state;
    assert_fine(weft_tensor_create(c.context, WEFT_F32, 2, (int64_t[]){a, b}, &x));
    float *in = weft_tensor_data(x);
    for (int64_t i = 0; i < a * b; i++) in[i] = (float)(i % 50);
    assert_fine(weft_jit_call(jit, 1, &x, 1, &y));
    for (int64_t i = 0; i < a * b; i++) ck_assert(((float *)weft_tensor_data(y))[i] == in[i] * in[i]);
    ck_assert_int_eq(weft_jit_compile_count(jit), compiles);
    assert_fine(weft_session_read_state(weft_jit_session(jit), "calls", &state));
    ck_assert_int_eq(*(int64_t *)weft_tensor_data(state), ++calls);
    weft_tensor_release(state);
    weft_tensor_release(x);
    weft_tensor_release(y);
}

START_TEST(second_sizes_become_symbolic) {
    set_up_jit(0);
    call(4, 6, 1);
    ck_assert(strstr(log_lines.last, "compile 1 of jit, fixed: A = 4, C = 6; reason: first call"));
    call(4, 6, 1);
    call(5, 6, 2);
    ck_assert_msg(
        strstr(log_lines.last, "compile 2 of jit, fixed: C = 6; reason: A was 4, is 5: symbolic from now on") != NULL,
        "%s", log_lines.last);
    call(9, 6, 2);
    call(4, 6, 2); /* the first program still serves its size */
    call(9, 7, 3);
    ck_assert_msg(strstr(log_lines.last, "fixed: nothing; reason: C was 6, is 7") != NULL, "%s", log_lines.last);
    for (int64_t i = 0; i < 30; i++) call(i, 100 - i, 3);
    call(4, 6, 3);
    ck_assert_int_eq(log_lines.count[WEFT_LOG_INFO], 3);
    ck_assert_int_eq(log_lines.count[WEFT_LOG_WARNING], 0);
    tear_down_jit();
}
END_TEST

START_TEST(two_at_once) {
    set_up_jit(0);
    call(4, 6, 1);
    call(5, 7, 2);
    call(6, 8, 2);
    tear_down_jit();
}
END_TEST

START_TEST(guards_specialise) {
    set_up_jit(3);
    c.guard_limit = 10;
    call(4, 6, 1);
    call(5, 6, 2);
    call(11, 6, 3);
    ck_assert_msg(strstr(log_lines.last, "fixed: A = 11, C = 6") &&
                      strstr(log_lines.last,
                             "program 2: A <= 10 does not hold (A = 11); pass fuse relied on it for square (jit.c:1)"),
                  "%s", log_lines.last);
    call(7, 6, 3);
    call(11, 6, 3);
    ck_assert_int_eq(log_lines.count[WEFT_LOG_WARNING], 0);
    call(12, 6, 4); /* past the limit: a warning, and the least recently used one goes */
    ck_assert_int_eq(log_lines.count[WEFT_LOG_WARNING], 1);
    call(12, 6, 4);
    call(7, 6, 4);
    call(4, 6, 4); /* program 1 is gone, program 2 serves */
    call(13, 6, 5);
    ck_assert_int_eq(log_lines.count[WEFT_LOG_WARNING], 1); /* said once */
    tear_down_jit();
}
END_TEST

START_TEST(failures) {
    set_up_jit(0);
    weft_tensor *x, *y = NULL, *flat;
    assert_fine(weft_tensor_create(c.context, WEFT_F32, 2, (int64_t[]){2, 2}, &x));
    assert_fine(weft_tensor_create(c.context, WEFT_F32, 1, (int64_t[]){2}, &flat));
    assert_fails(weft_jit_call(jit, 1, &flat, 1, &y), WEFT_INVALID_ARGUMENT, "rank 1, not 2");
    ck_assert_ptr_null(weft_jit_session(jit));
    c.fail = true;
    assert_fails(weft_jit_call(jit, 1, &x, 1, &y), WEFT_UNSUPPORTED, "told to fail");
    ck_assert_int_eq(weft_jit_compile_count(jit), 0);
    c.fail = false;
    call(2, 2, 1);
    c.fail = true;
    weft_tensor *other;
    assert_fine(weft_tensor_create(c.context, WEFT_F32, 2, (int64_t[]){3, 2}, &other));
    assert_fails(weft_jit_call(jit, 1, &other, 1, &y), WEFT_UNSUPPORTED, NULL);
    c.fail = false;
    call(2, 2, 1); /* what was there still serves */
    call(3, 2, 2);
    weft_tensor_release(x);
    weft_tensor_release(flat);
    weft_tensor_release(other);
    tear_down_jit();
}
END_TEST

Suite *suite_jit(void) {
    Suite *suite = suite_create("jit");
    TCase *cache = tcase_create("cache");
    tcase_add_test(cache, second_sizes_become_symbolic);
    tcase_add_test(cache, two_at_once);
    tcase_add_test(cache, guards_specialise);
    tcase_add_test(cache, failures);
    suite_add_tcase(suite, cache);
    return suite;
}
