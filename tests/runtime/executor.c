/* Programs and sessions: shapes, guards, outputs, control flow, states, memory, threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/frame.h"
#include "tests/runtime/testing.h"

static weft_context *context;
static maker m;
static weft_program *program;
static weft_session *session;

static void set_up(void) { assert_fine(weft_context_create(NULL, &context)); }
static void tear_down(void) { weft_context_release(context); }

static void start(const void *weights) {
    assert_fine(load_made(context, "cpu", &m, weights, &program));
    assert_fine(weft_session_create(program, &session));
}

static void stop(void) {
    weft_session_release(session);
    weft_program_release(program);
    maker_deinit(&m);
}

static weft_tensor *filled(int64_t rows, int64_t columns) {
    weft_tensor *tensor;
    assert_fine(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){rows, columns}, &tensor));
    float *data = weft_tensor_data(tensor);
    for (int64_t i = 0; i < rows * columns; i++) data[i] = (float)(i % 97) - 40;
    return tensor;
}

static void assert_affine(const weft_tensor *x, const weft_tensor *y) {
    int64_t rows = weft_tensor_shape(x)[0];
    float *expected = malloc((size_t)rows * 32 + 1);
    affine_expected(rows, weft_tensor_data(x), expected);
    ck_assert_int_eq(weft_tensor_shape(y)[0], rows);
    ck_assert(!memcmp(weft_tensor_data(y), expected, (size_t)rows * 32));
    free(expected);
}

START_TEST(shapes_change) {
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    int64_t rows[] = {1, 1, 3, 1000, 3, 7, 7, 1000, 2};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_tensor *x = filled(rows[i], 8), *y = NULL, *again = NULL;
        assert_fine(weft_session_call(session, 1, &x, 1, &y));
        assert_affine(x, y);
        assert_fine(weft_session_call(session, 1, &x, 1, &again));
        ck_assert_ptr_ne(weft_tensor_data(y), weft_tensor_data(again));
        assert_affine(x, again);
        if (i == 4) weft_session_trim(session);
        weft_tensor_release(x);
        weft_tensor_release(y);
        weft_tensor_release(again);
    }
    stop();
}
END_TEST

START_TEST(ports_and_guards) {
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    weft_tensor *y = NULL, *x = filled(5, 7), *none = NULL, *bytes;
    assert_fails(weft_session_call(session, 1, &x, 1, &y), WEFT_INVALID_ARGUMENT, "input x: axis 1 is 7, not 8");
    weft_tensor_release(x);
    x = filled(1001, 8);
    assert_fails(weft_session_call(session, 1, &x, 1, &y), WEFT_GUARD_FAILED,
                 "B <= 1000 does not hold (B = 1001); pass fuse relied on it for add \"h\" (test.c:1)");
    weft_tensor_release(x);
    x = filled(5000, 8);
    assert_fails(weft_session_call(session, 1, &x, 1, &y), WEFT_OUT_OF_RANGE, "extent B is 5000: not in [1, 4096]");
    weft_tensor_release(x);
    x = filled(0, 8);
    assert_fails(weft_session_call(session, 1, &x, 1, &y), WEFT_OUT_OF_RANGE, NULL);
    weft_tensor_release(x);
    assert_fine(weft_tensor_create(context, WEFT_I32, 2, (int64_t[]){5, 8}, &bytes));
    assert_fails(weft_session_call(session, 1, &bytes, 1, &y), WEFT_INVALID_ARGUMENT, "input x is i32, not f32");
    weft_tensor_release(bytes);
    assert_fine(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){8}, &bytes));
    assert_fails(weft_session_call(session, 1, &bytes, 1, &y), WEFT_INVALID_ARGUMENT, "rank 1, not 2");
    weft_tensor_release(bytes);
    assert_fails(weft_session_call(session, 1, &none, 1, &y), WEFT_INVALID_ARGUMENT, "NULL");
    x = filled(5, 8);
    assert_fails(weft_session_call(session, 0, NULL, 1, &y), WEFT_INVALID_ARGUMENT, "1 inputs, not 0");
    assert_fails(weft_session_call(session, 1, &x, 0, NULL), WEFT_INVALID_ARGUMENT, "1 outputs, not 0");
    ck_assert_ptr_null(y);
    assert_fine(weft_session_call(session, 1, &x, 1, &y)); /* a session survives failures */
    assert_affine(x, y);
    weft_tensor_release(x);
    weft_tensor_release(y);
    stop();
}
END_TEST

START_TEST(given_outputs) {
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    weft_tensor *x = filled(9, 8), *y = filled(9, 8), *wrong = filled(8, 8), *before = y;
    assert_fine(weft_session_call(session, 1, &x, 1, &y));
    ck_assert_ptr_eq(y, before);
    assert_affine(x, y);
    assert_fails(weft_session_call(session, 1, &x, 1, &wrong), WEFT_INVALID_ARGUMENT, "another dtype or shape");
    weft_tensor *same = x, *view;
    assert_fails(weft_session_call(session, 1, &x, 1, &same), WEFT_INVALID_ARGUMENT, "shares memory with input x");
    float *memory = calloc(200, sizeof *memory);
    assert_fine(
        weft_tensor_wrap(context, WEFT_F32, 2, (int64_t[]){9, 8}, (int64_t[]){16, 1}, memory, NULL, NULL, &view));
    assert_fails(weft_session_call(session, 1, &x, 1, &view), WEFT_INVALID_ARGUMENT, "strided");
    assert_fine(weft_session_call(session, 1, &x, 1, &y)); /* addresses after failures are the right ones */
    assert_affine(x, y);
    weft_tensor_release(view);
    free(memory);
    weft_tensor_release(x);
    weft_tensor_release(y);
    weft_tensor_release(wrong);
    stop();
}
END_TEST

START_TEST(strided_inputs) {
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    weft_tensor *transposed, *packed = filled(6, 8), *y = NULL;
    float *memory = malloc(48 * sizeof *memory);
    const float *source = weft_tensor_data(packed);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 8; k++) memory[k * 6 + i] = source[i * 8 + k];
    assert_fine(
        weft_tensor_wrap(context, WEFT_F32, 2, (int64_t[]){6, 8}, (int64_t[]){1, 6}, memory, NULL, NULL, &transposed));
    for (int repeat = 0; repeat < 2; repeat++) {
        assert_fine(weft_session_call(session, 1, repeat ? &packed : &transposed, 1, &y));
        assert_affine(packed, y);
        weft_tensor_release(y);
        y = NULL;
    }
    float *reversed = malloc(48 * sizeof *reversed); /* negative strides */
    for (int i = 0; i < 48; i++) reversed[47 - i] = source[i];
    weft_tensor *backward;
    assert_fine(weft_tensor_wrap(context, WEFT_F32, 2, (int64_t[]){6, 8}, (int64_t[]){-8, -1}, reversed + 47, NULL,
                                 NULL, &backward));
    assert_fine(weft_session_call(session, 1, &backward, 1, &y));
    assert_affine(packed, y);
    weft_tensor_release(y);
    weft_tensor_release(backward);
    weft_tensor_release(transposed);
    weft_tensor_release(packed);
    free(memory);
    free(reversed);
    stop();
}
END_TEST

/* n is counted up to limit in a while loop; then rows = copies by a loop over a moving view. */
static void make_control(void) {
    maker_init(&m, weft_allocator_system(), "control");
    weft_dim_table *t = m.data.dims;
    weft_dim R = weft_dim_symbol(t, "R", 0, 64, 1, WEFT_SYMBOL_DECLARED);
    weft_dim T = weft_dim_symbol(t, "trip", 0, 63, 1, WEFT_SYMBOL_DATA);
    int limit = maker_port(&m, WEFT_BUFFER_INPUT, "limit", WEFT_I64, 0, NULL);
    int rows = maker_port(&m, WEFT_BUFFER_INPUT, "rows", WEFT_F32, 2, (weft_dim[]){R, 4});
    int flag = maker_port(&m, WEFT_BUFFER_INPUT, "flag", WEFT_BOOL, 0, NULL);
    int counter = maker_port(&m, WEFT_BUFFER_OUTPUT, "counter", WEFT_I64, 0, NULL);
    int out = maker_port(&m, WEFT_BUFFER_OUTPUT, "out", WEFT_F32, 2, (weft_dim[]){R, 4});
    int go_on = maker_buffer(&m, (weft_buffer){WEFT_BUFFER_TEMP, 0, 1, 0, 0, 0, "go on"});
    int from = maker_buffer(&m, (weft_buffer){WEFT_BUFFER_ALIAS, rows, 16, weft_dim_multiply(t, T, 16), 0, 0, "row"});
    weft_dim backward = weft_dim_subtract(t, weft_dim_subtract(t, R, 1), T);
    int to =
        maker_buffer(&m, (weft_buffer){WEFT_BUFFER_ALIAS, out, 16, weft_dim_multiply(t, backward, 16), 0, 0, "row"});
    int predicate = maker_region(&m), body = maker_region(&m), yes = maker_region(&m), no = maker_region(&m),
        trip = maker_region(&m);
    maker_step(
        &m, WEFT_REGION_MAIN,
        (weft_step){.kind = WEFT_STEP_WHILE, .buffers = {go_on}, .regions = {predicate, body}, .location = "while"});
    maker_launch(&m, predicate, KERNEL_LESS, 1, 3, (int[]){counter, limit, go_on}, 0, NULL);
    maker_launch(&m, body, KERNEL_INCREASE, 1, 1, &counter, 1, (weft_dim[]){3});
    maker_step(&m, WEFT_REGION_MAIN,
               (weft_step){.kind = WEFT_STEP_COND, .buffers = {flag}, .regions = {yes, no}, .location = "cond"});
    maker_launch(&m, yes, KERNEL_INCREASE, 1, 1, &counter, 1, (weft_dim[]){1000});
    maker_launch(&m, no, KERNEL_INCREASE, 1, 1, &counter, 1, (weft_dim[]){2000});
    maker_step(&m, WEFT_REGION_MAIN,
               (weft_step){.kind = WEFT_STEP_LOOP, .regions = {trip}, .bytes = R, .symbol = 1, .location = "loop"});
    maker_launch(&m, trip, KERNEL_SQUARE, 1, 2, (int[]){from, to}, 1, (weft_dim[]){4});
}

START_TEST(control_flow) {
    make_control();
    start(NULL);
    for (int64_t rows = 0; rows <= 5; rows++) {
        int64_t limit = 10 * rows;
        bool flag = rows % 2;
        weft_tensor *inputs[3], *outputs[2];
        assert_fine(weft_tensor_create_copy(context, WEFT_I64, 0, NULL, &limit, &inputs[0]));
        inputs[1] = filled(rows, 4);
        assert_fine(weft_tensor_create_copy(context, WEFT_BOOL, 0, NULL, &flag, &inputs[2]));
        assert_fine(weft_tensor_create(context, WEFT_I64, 0, NULL, &outputs[0]));
        outputs[1] = NULL;
        assert_fine(weft_session_call(session, 3, inputs, 2, outputs));
        ck_assert_int_eq(*(int64_t *)weft_tensor_data(outputs[0]), (limit + 2) / 3 * 3 + (flag ? 1000 : 2000));
        const float *in = weft_tensor_data(inputs[1]), *out = weft_tensor_data(outputs[1]);
        for (int64_t i = 0; i < rows * 4; i++) ck_assert(out[(rows - 1 - i / 4) * 4 + i % 4] == in[i] * in[i]);
        for (int i = 0; i < 3; i++) weft_tensor_release(inputs[i]);
        for (int i = 0; i < 2; i++) weft_tensor_release(outputs[i]);
    }
    stop();
}
END_TEST

/* positive elements of x[N], then their squares: the output's extent is known after the first kernel only. */
static void make_positive(weft_dim bound) {
    maker_init(&m, weft_allocator_system(), "positive");
    weft_dim_table *t = m.data.dims;
    weft_dim N = weft_dim_symbol(t, "N", 0, 1000, 1, WEFT_SYMBOL_DECLARED);
    weft_dim U = weft_dim_symbol(t, "u", 0, bound, 1, WEFT_SYMBOL_DATA);
    int x = maker_port(&m, WEFT_BUFFER_INPUT, "x", WEFT_F32, 1, &N);
    int y = maker_port(&m, WEFT_BUFFER_OUTPUT, "y", WEFT_F32, 1, &U);
    int payload = maker_buffer(&m, (weft_buffer){WEFT_BUFFER_TEMP, 0, weft_dim_multiply(t, N, 4), 0, 0, 2, "payload"});
    int found = maker_buffer(&m, (weft_buffer){WEFT_BUFFER_TEMP, 0, 8, 0, 0, 1, "found"});
    maker_launch(&m, WEFT_REGION_MAIN, KERNEL_POSITIVE, 1, 3, (int[]){x, payload, found}, 1, &N);
    maker_step(&m, WEFT_REGION_MAIN,
               (weft_step){.kind = WEFT_STEP_READ_DIM, .buffers = {found}, .symbol = 1, .location = "compress"});
    maker_launch(&m, WEFT_REGION_MAIN, KERNEL_SQUARE, weft_dim_divide_ceil(t, U, 16), 2, (int[]){payload, y}, 1, &U);
}

START_TEST(sizes_from_data) {
    make_positive(1000);
    start(NULL);
    for (int64_t count = 0; count < 100; count += 9) {
        weft_tensor *x, *y = NULL;
        float values[100], expected[100];
        int64_t found = 0;
        for (int64_t i = 0; i < count; i++) {
            values[i] = (float)(i * 37 % 11) - 5;
            if (values[i] > 0) expected[found++] = values[i] * values[i];
        }
        assert_fine(weft_tensor_create_copy(context, WEFT_F32, 1, &count, values, &x));
        for (int repeat = 0; repeat < 2; repeat++) {
            assert_fine(weft_session_call(session, 1, &x, 1, &y)); /* the second time into the tensor of the first */
            ck_assert_int_eq(weft_tensor_shape(y)[0], found);
            ck_assert(!memcmp(weft_tensor_data(y), expected, (size_t)found * sizeof *expected));
        }
        weft_tensor_release(y);
        assert_fine(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){found + 1}, &y));
        assert_fails(weft_session_call(session, 1, &x, 1, &y), WEFT_INVALID_ARGUMENT, "the given tensor has");
        weft_tensor_release(x);
        weft_tensor_release(y);
    }
    stop();
}
END_TEST

START_TEST(data_beyond_bounds) {
    make_positive(3);
    start(NULL);
    int64_t count = 5;
    weft_tensor *x, *y = NULL;
    assert_fine(weft_tensor_create_copy(context, WEFT_F32, 1, &count, (float[]){1, 2, 3, 4, 5}, &x));
    assert_fails(weft_session_call(session, 1, &x, 1, &y), WEFT_OUT_OF_RANGE, "extent u is 5");
    ck_assert_ptr_null(y);
    weft_tensor_release(x);
    stop();
    make_positive(1000); /* the program promises 1000 elements of a payload that holds N */
    m.buffers[2].bytes = weft_dim_multiply(m.data.dims, weft_dim_symbol_value(m.data.dims, 0), 2);
    start(NULL);
    assert_fine(weft_tensor_create_copy(context, WEFT_F32, 1, &count, (float[]){1, 2, 3, 4, 5}, &x));
    weft_tensor_release(x);
    stop();
}
END_TEST

START_TEST(states) {
    maker_init(&m, weft_allocator_system(), "counter");
    int state = maker_port(&m, WEFT_BUFFER_STATE, "steps", WEFT_I64, 0, NULL);
    int seeded = maker_port(&m, WEFT_BUFFER_STATE, "seeded", WEFT_I64, 0, NULL);
    int out = maker_port(&m, WEFT_BUFFER_OUTPUT, "out", WEFT_I64, 0, NULL);
    m.buffers[seeded].offset = 8;
    m.data.weights_bytes = 16;
    maker_launch(&m, WEFT_REGION_MAIN, KERNEL_INCREASE, 1, 1, &state, 1, (weft_dim[]){2});
    maker_launch(&m, WEFT_REGION_MAIN, KERNEL_INCREASE, 1, 1, &seeded, 1, (weft_dim[]){1});
    maker_step(&m, WEFT_REGION_MAIN, (weft_step){.kind = WEFT_STEP_COPY, .buffers = {state, out}, .bytes = 8});
    static const int64_t weights[2] = {0, 40};
    start(weights);
    weft_session *other;
    assert_fine(weft_session_create(program, &other));
    weft_tensor *y = NULL;
    for (int64_t i = 1; i <= 3; i++) {
        assert_fine(weft_session_call(session, 0, NULL, 1, &y));
        ck_assert_int_eq(*(int64_t *)weft_tensor_data(y), 2 * i);
    }
    assert_fine(weft_session_call(other, 0, NULL, 1, &y)); /* states are the session's own */
    ck_assert_int_eq(*(int64_t *)weft_tensor_data(y), 2);
    weft_tensor *read;
    assert_fine(weft_session_read_state(session, "seeded", &read));
    ck_assert_int_eq(*(int64_t *)weft_tensor_data(read), 43);
    *(int64_t *)weft_tensor_data(read) = 100;
    assert_fine(weft_session_write_state(session, "steps", read));
    assert_fine(weft_session_call(session, 0, NULL, 1, &y));
    ck_assert_int_eq(*(int64_t *)weft_tensor_data(y), 102);
    weft_tensor *none;
    assert_fails(weft_session_read_state(session, "moment", &none), WEFT_NOT_FOUND, "moment");
    ck_assert_int_eq(weft_program_state_count(program), 2);
    ck_assert_str_eq(weft_program_state_name(program, 1), "seeded");
    ck_assert_int_eq(weights[1], 40); /* weights are not written */
    weft_tensor_release(read);
    weft_tensor_release(y);
    weft_session_release(other);
    stop();
}
END_TEST

START_TEST(variants) {
    maker_init(&m, weft_allocator_system(), "variants");
    weft_dim N = weft_dim_symbol(m.data.dims, "N", 0, 1000, 1, WEFT_SYMBOL_DECLARED);
    int x = maker_port(&m, WEFT_BUFFER_INPUT, "x", WEFT_F32, 1, &N),
        y = maker_port(&m, WEFT_BUFFER_OUTPUT, "y", WEFT_F32, 1, &N);
    weft_condition small = {N, 4, WEFT_RELATION_LE};
    weft_launch_variant both[2] = {
        {1, &small, KERNEL_TWICE, 1, 2, 1, 0, 0, (int[]){x, y}, NULL, &N, NULL},
        {0, NULL, KERNEL_SQUARE, weft_dim_divide_ceil(m.data.dims, N, 16), 2, 1, 0, 0, (int[]){x, y}, NULL, &N, NULL},
    };
    maker_step(&m, WEFT_REGION_MAIN, (weft_step){.kind = WEFT_STEP_LAUNCH, .variant_count = 2, .variants = both});
    start(NULL);
    for (int64_t count = 0; count < 40; count += 4) {
        weft_tensor *in, *out = NULL;
        assert_fine(weft_tensor_create(context, WEFT_F32, 1, &count, &in));
        for (int64_t i = 0; i < count; i++) ((float *)weft_tensor_data(in))[i] = (float)i;
        assert_fine(weft_session_call(session, 1, &in, 1, &out));
        for (int64_t i = 0; i < count; i++)
            ck_assert(((float *)weft_tensor_data(out))[i] == (float)(count <= 4 ? 2 * i : i * i));
        weft_tensor_release(in);
        weft_tensor_release(out);
    }
    stop();
}
END_TEST

/* A view that leaves its buffer for some shapes is a status, not a fault. */
START_TEST(views_that_leave) {
    maker_init(&m, weft_allocator_system(), "view");
    weft_dim N = weft_dim_symbol(m.data.dims, "N", 0, 1000, 1, WEFT_SYMBOL_DECLARED);
    int x = maker_port(&m, WEFT_BUFFER_INPUT, "x", WEFT_F32, 1, &N),
        y = maker_port(&m, WEFT_BUFFER_OUTPUT, "y", WEFT_F32, 1, &N);
    weft_dim back = weft_dim_subtract(m.data.dims, 64, weft_dim_multiply(m.data.dims, N, 4));
    int view = maker_buffer(&m, (weft_buffer){WEFT_BUFFER_ALIAS, x, 16, back, 0, 0, "tail"});
    maker_step(&m, WEFT_REGION_MAIN, (weft_step){.kind = WEFT_STEP_COPY, .buffers = {view, y}, .bytes = 16});
    start(NULL);
    for (int64_t count = 0; count < 30; count++) {
        weft_tensor *in, *out = NULL;
        assert_fine(weft_tensor_create(context, WEFT_F32, 1, &count, &in));
        bool inside = count >= 4 && 64 - 4 * count >= 0 && 64 - 4 * count + 16 <= 4 * count;
        weft_status status = weft_session_call(session, 1, &in, 1, &out);
        if (inside)
            assert_fine(status);
        else
            assert_fails(status, WEFT_OUT_OF_RANGE, NULL);
        weft_tensor_release(in);
        weft_tensor_release(out);
    }
    stop();
}
END_TEST

/* So is a tensor map that says more than its memory holds: a card would believe it. */
START_TEST(maps_that_leave) {
    maker_init(&m, weft_allocator_system(), "map");
    weft_dim N = weft_dim_symbol(m.data.dims, "N", 0, 1000, 1, WEFT_SYMBOL_DECLARED);
    int x = maker_port(&m, WEFT_BUFFER_INPUT, "x", WEFT_F32, 1, &N),
        y = maker_port(&m, WEFT_BUFFER_OUTPUT, "y", WEFT_F32, 1, &N);
    weft_dim more = weft_dim_subtract(m.data.dims, N, 2); /* columns: negative, none, then some of rows of 16 bytes */
    weft_tensor_map map = {.buffer = x, .dtype = WEFT_F32, .rank = 2, .box = {4, 1}};
    map.extent[0] = weft_dim_minimum(m.data.dims, more, 4), map.extent[1] = 5, map.stride_bytes[1] = 16;
    weft_launch_variant launch = {.kernel = KERNEL_SQUARE, .grid = 1, .buffer_count = 2, .map_count = 1};
    launch.buffers = (int[]){x, y}, launch.maps = &map;
    maker_step(&m, WEFT_REGION_MAIN, (weft_step){.kind = WEFT_STEP_LAUNCH, .variant_count = 1, .variants = &launch});
    assert_fine(load_made(context, "null", &m, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    for (int64_t count = 0; count < 30; count++) {
        weft_tensor *in, *out = NULL;
        assert_fine(weft_tensor_create(context, WEFT_F32, 1, &count, &in));
        weft_status status = weft_session_call(session, 1, &in, 1, &out);
        if (count == 2 || count >= 20) /* four rows and four elements, or nothing at all */
            assert_fine(status);
        else
            assert_fails(status, WEFT_OUT_OF_RANGE, count < 2 ? "extent of a tensor map" : "does not fit");
        weft_tensor_release(in);
        weft_tensor_release(out);
    }
    stop();
}
END_TEST

START_TEST(on_the_null_device) {
    make_affine(&m, weft_allocator_system());
    assert_fine(load_made(context, "null", &m, affine_weights, &program));
    assert_fine(weft_session_create(program, &session));
    weft_tensor *x = filled(4, 8), *y = NULL, *view;
    assert_fine(weft_session_call(session, 1, &x, 1, &y)); /* staging both ways; launches do nothing */
    ck_assert_int_eq(weft_tensor_shape(y)[0], 4);
    assert_fine(weft_session_call(session, 1, &x, 1, &y));
    float memory[64] = {0};
    assert_fine(
        weft_tensor_wrap(context, WEFT_F32, 2, (int64_t[]){4, 8}, (int64_t[]){1, 4}, memory, NULL, NULL, &view));
    assert_fine(weft_session_call(session, 1, &view, 1, &y));
    weft_tensor_release(view);
    weft_tensor_release(x);
    weft_tensor_release(y);
    stop();
}
END_TEST

START_TEST(facts) {
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    weft_port_info info;
    weft_program_input(program, 0, &info);
    ck_assert_str_eq(info.name, "x");
    ck_assert(info.dtype == WEFT_F32 && info.rank == 2 && info.shape[0] == -1 && info.shape[1] == 8);
    weft_program_output(program, 0, &info);
    ck_assert_str_eq(info.name, "y");
    ck_assert_str_eq(weft_program_arch(program), "x86-64");
    int64_t temporary, weights, shape[2] = {10, 8}, bad[2] = {10, 9};
    const int64_t *shapes[1] = {shape};
    assert_fine(weft_program_memory(program, 1, shapes, &temporary, &weights));
    ck_assert_int_eq(temporary, 320);
    ck_assert_int_eq(weights, 64 + 64);
    shapes[0] = bad;
    assert_fails(weft_program_memory(program, 1, shapes, &temporary, &weights), WEFT_INVALID_ARGUMENT, "axis 1 is 9");
    stop();
    make_affine(&m, weft_allocator_system());
    m.data.target = "cuda";
    assert_fails(load_made(context, "cpu", &m, affine_weights, &program), WEFT_INVALID_ARGUMENT, "is for cuda");
    m.data.target = "cpu";
    m.steps[1][1].kind = (weft_step_kind)77;
    assert_fails(load_made(context, "cpu", &m, affine_weights, &program), WEFT_INVALID_DATA, "step kind 77");
    maker_deinit(&m);
}
END_TEST

/* Every allocation of load, session, call and trim fails once: no leak, no fault, and the next call works. */
START_TEST(memory_runs_out) {
    make_affine(&m, weft_allocator_system());
    bool done = false;
    for (long limit = 0; !done; limit++) {
        test_allocator counter = {limit, 0, 0};
        weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
        options.allocator = test_allocator_make(&counter);
        options.cache_folder = "";
        options.thread_count = 2;
        weft_context *small = NULL;
        weft_program *loaded = NULL;
        weft_session *called = NULL;
        weft_tensor *x = NULL, *y = NULL;
        weft_status status = weft_context_create(&options, &small);
        if (!status) status = load_made(small, "cpu", &m, affine_weights, &loaded);
        if (!status) status = weft_session_create(loaded, &called);
        if (!status) status = weft_tensor_create(small, WEFT_F32, 2, (int64_t[]){4, 8}, &x);
        if (!status) status = weft_session_call(called, 1, &x, 1, &y);
        bool failed = status != NULL;
        if (failed) ck_assert_int_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY);
        weft_status_release(status);
        if (called && x && failed) { /* memory is back: the same session goes on */
            atomic_store(&counter.left, -1);
            assert_fine(weft_session_call(called, 1, &x, 1, &y));
            assert_affine(x, y);
        }
        done = !failed;
        weft_tensor_release(x);
        weft_tensor_release(y);
        weft_session_release(called);
        weft_program_release(loaded);
        weft_context_release(small);
        ck_assert_int_eq(atomic_load(&counter.live), 0);
        ck_assert_int_lt(limit, 500);
    }
    maker_deinit(&m);
}
END_TEST

START_TEST(too_large) {
    test_allocator counter = {-1, 0, 0};
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.allocator = test_allocator_make(&counter);
    weft_context *small;
    assert_fine(weft_context_create(&options, &small));
    make_affine(&m, weft_allocator_system());
    assert_fine(load_made(small, "cpu", &m, affine_weights, &program));
    assert_fine(weft_session_create(program, &session));
    weft_tensor *x = filled(500, 8), *y = NULL;
    atomic_store(&counter.largest, 8000);
    assert_fails(weft_session_call(session, 1, &x, 1, &y), WEFT_OUT_OF_MEMORY,
                 "16000 bytes of temporaries; the largest: h (16000 bytes)");
    weft_tensor_release(x);
    stop();
    weft_context_release(small);
}
END_TEST

static void *call_often(void *argument) {
    weft_session *own;
    (void)argument;
    assert_fine(weft_session_create(program, &own));
    for (int i = 0; i < 200; i++) {
        weft_tensor *x = filled(1 + i % 70, 8), *y = NULL;
        assert_fine(weft_session_call(own, 1, &x, 1, &y));
        assert_affine(x, y);
        if (i % 50 == 0) weft_session_trim(own);
        weft_tensor_release(x);
        weft_tensor_release(y);
    }
    weft_session_release(own);
    return NULL;
}

static void *open_often(void *argument) {
    (void)argument;
    for (int i = 0; i < 300; i++) {
        weft_device *device;
        assert_fine(weft_device_open(context, i % 3 ? "null" : "cpu", &device));
        weft_device_release(device);
    }
    return NULL;
}

START_TEST(threads_share_devices) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, open_often, NULL), 0);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_ptr_null(context->devices);
}
END_TEST

START_TEST(threads_share_a_program) {
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    stop();
}
END_TEST

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The quickest of many batches: what the runtime itself costs, whatever else the machine does. */
START_TEST(hot_calls_are_cheap) {
    enum { BATCHES = 300, CALLS = 100 };
    double best[2] = {1, 1};
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    weft_tensor *x = filled(2, 8), *kept = filled(2, 8); /* one block per launch: no thread is woken */
    for (int batch = 0; batch < BATCHES; batch++)
        for (int fresh = 0; fresh < 2; fresh++) {
            double begin = seconds();
            for (int i = 0; i < CALLS; i++) {
                weft_tensor *y = fresh ? NULL : kept;
                weft_status status = weft_session_call(session, 1, &x, 1, &y);
                if (status) assert_fine(status);
                if (fresh) weft_tensor_release(y);
            }
            double each = (seconds() - begin) / CALLS;
            if (each < best[fresh]) best[fresh] = each;
        }
    assert_affine(x, kept);
    if (getenv("WEFT_TEST_TIMES"))
        printf("hot call of two launches: %.0f ns, with a new output %.0f ns\n", best[0] * 1e9, best[1] * 1e9);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ck_assert_msg(best[1] < 3e-6, "%.2f us per call", best[1] * 1e6);
#endif
    weft_tensor_release(x);
    weft_tensor_release(kept);
    stop();
}
END_TEST

/* -- recordings: the CPU driver with a recorder that copies what it is given, so that a recording that outlives its
   addresses computes something wrong */

enum { RECORDED_MAX = 8 };

typedef struct recorded {
    weft_launch launch;
    void *buffers[RECORDED_MAX];
    int64_t extents[RECORDED_MAX];
    int after_count, after[RECORDED_MAX];
} recorded;

struct weft_recording {
    weft_module *module;
    int count;
    recorded commands[RECORDED_MAX];
};

static struct {
    weft_driver driver;
    int records, replays, forgets;
    bool refuses;
} recorder;

static weft_status test_record(weft_device *device, weft_module *module, weft_command_list list,
                               weft_recording **out_recording) {
    (void)device;
    *out_recording = NULL;
    if (recorder.refuses) return WEFT_STATUS(WEFT_UNSUPPORTED, "no recordings here");
    int count = list.count;
    const weft_command *commands = list.commands;
    ck_assert_int_le(count, RECORDED_MAX);
    weft_recording *recording = calloc(1, sizeof *recording);
    recording->module = module;
    recording->count = count;
    for (int i = 0; i < count; i++) {
        recorded *to = &recording->commands[i];
        ck_assert_ptr_nonnull(commands[i].launch);
        to->launch = *commands[i].launch;
        memcpy(to->buffers, to->launch.buffers, (size_t)to->launch.buffer_count * sizeof *to->buffers);
        memcpy(to->extents, to->launch.extents, (size_t)to->launch.extent_count * sizeof *to->extents);
        to->launch.buffers = to->buffers, to->launch.extents = to->extents;
        to->after_count = commands[i].after_count;
        if (to->after_count) memcpy(to->after, commands[i].after, (size_t)to->after_count * sizeof *to->after);
    }
    recorder.records++;
    *out_recording = recording;
    return NULL;
}

static weft_status test_replay(weft_device *device, weft_recording *recording) {
    recorder.replays++;
    bool done[RECORDED_MAX] = {false};
    for (int n = 0; n < recording->count; n++) { /* the last one that may run: any order that is allowed will do */
        int next = -1;
        for (int i = 0; i < recording->count; i++) {
            bool ready = !done[i];
            for (int a = 0; a < recording->commands[i].after_count; a++)
                ready = ready && done[recording->commands[i].after[a]];
            if (ready) next = i;
        }
        ck_assert_int_ge(next, 0);
        done[next] = true;
        WEFT_TRY(recorder.driver.launch(device, recording->module, &recording->commands[next].launch), "replay");
    }
    return NULL;
}

static void test_forget(weft_device *device, weft_recording *recording) {
    (void)device;
    recorder.forgets++;
    free(recording);
}

static void call_affine(weft_tensor *x, weft_tensor **y, int times) {
    for (int i = 0; i < times; i++) {
        if (*y) memset(weft_tensor_data(*y), 0, weft_tensor_bytes(*y));
        assert_fine(weft_session_call(session, 1, &x, 1, y));
        assert_affine(x, *y);
    }
}

START_TEST(steady_calls_are_recorded) {
    memset(&recorder, 0, sizeof recorder);
    make_affine(&m, weft_allocator_system());
    start(affine_weights);
    recorder.driver = *program->device->driver;
    recorder.driver.record = test_record, recorder.driver.replay = test_replay, recorder.driver.forget = test_forget;
    program->device->driver = &recorder.driver;
    weft_tensor *x = filled(9, 8), *other = filled(9, 8), *longer = filled(40, 8), *y = NULL, *long_y = NULL;
    call_affine(x, &y, 8);
    ck_assert_int_eq(recorder.records, 1);
    ck_assert_int_ge(recorder.replays, 4);
    ((float *)weft_tensor_data(x))[3] = 11; /* contents may change */
    int replays = recorder.replays;
    call_affine(x, &y, 1);
    ck_assert_int_eq(recorder.replays, replays + 1);
    ((float *)weft_tensor_data(other))[5] = 12;
    call_affine(other, &y, 1); /* an address changed */
    ck_assert_int_eq(recorder.forgets, 1);
    call_affine(other, &y, 6);
    ck_assert_int_eq(recorder.records, 2);
    call_affine(longer, &long_y, 6); /* a shape changed, the workspace moved */
    ck_assert_int_eq(recorder.records, 3);
    weft_session_trim(session);
    ck_assert_int_eq(recorder.forgets, 3);
    recorder.refuses = true; /* then calls go on without */
    call_affine(longer, &long_y, 6);
    ck_assert_int_eq(recorder.records, 3);
    recorder.refuses = false;
    call_affine(x, &y, 6);
    ck_assert_int_eq(recorder.records, 4);
    weft_tensor_release(x), weft_tensor_release(other), weft_tensor_release(longer);
    weft_tensor_release(y), weft_tensor_release(long_y);
    weft_session_release(session);
    session = NULL;
    ck_assert_int_eq(recorder.forgets, recorder.records);
    stop();
}
END_TEST

/* Launches 0 and 1 read A; 2 reads what they write; 3 writes again where 0 did; 4 copies A; 5 does not say that it only
   reads A. */
START_TEST(what_shares_no_memory_is_free) {
    static char memory[6][64];
    enum { A, B, C, D, E, COMMANDS = 6 };
    static const int buffers[COMMANDS][3] = {{A, B}, {A, C}, {B, C, D}, {B}, {A, E}, {A}},
                     counts[COMMANDS] = {2, 2, 3, 1, 2, 1};
    static const int reads[2] = {0, 1}, read_counts[COMMANDS] = {1, 1, 2, 0, 0, 0};
    static const int expected[COMMANDS][4] = {{0}, {0}, {2, 0, 1}, {1, 2}, {0}, {3, 0, 1, 4}};
    int64_t sizes[6] = {64, 64, 64, 64, 64, 64};
    weft_frame frame = {.sizes = sizes};
    weft_step launch = {.kind = WEFT_STEP_LAUNCH}, copy = {.kind = WEFT_STEP_COPY};
    weft_launch_variant chosen[COMMANDS] = {0};
    weft_resolved_step resolved[COMMANDS] = {0};
    const weft_resolved_step *steps[COMMANDS];
    void *places[COMMANDS][3];
    weft_command commands[COMMANDS] = {0};
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    for (int i = 0; i < COMMANDS; i++) {
        for (int b = 0; b < counts[i]; b++) places[i][b] = memory[buffers[i][b]];
        chosen[i] = (weft_launch_variant){
            .buffer_count = counts[i], .buffers = buffers[i], .read_count = read_counts[i], .reads = reads};
        resolved[i] = (weft_resolved_step){
            .step = i == 4 ? &copy : &launch, .variant = &chosen[i], .buffers = places[i], .count = 64};
        steps[i] = &resolved[i];
    }
    assert_fine(weft_frame_order(&frame, steps, COMMANDS, commands, &arena));
    for (int i = 0; i < COMMANDS; i++) {
        ck_assert_msg(commands[i].after_count == expected[i][0], "command %d follows %d", i, commands[i].after_count);
        for (int a = 0; a < expected[i][0]; a++) ck_assert_int_eq(commands[i].after[a], expected[i][a + 1]);
    }
    weft_arena_deinit(&arena);
}
END_TEST

Suite *suite_executor(void) {
    Suite *suite = suite_create("executor");
    TCase *calls = tcase_create("calls");
    tcase_add_checked_fixture(calls, set_up, tear_down);
    tcase_add_test(calls, shapes_change);
    tcase_add_test(calls, ports_and_guards);
    tcase_add_test(calls, given_outputs);
    tcase_add_test(calls, strided_inputs);
    tcase_add_test(calls, control_flow);
    tcase_add_test(calls, sizes_from_data);
    tcase_add_test(calls, data_beyond_bounds);
    tcase_add_test(calls, states);
    tcase_add_test(calls, variants);
    tcase_add_test(calls, views_that_leave);
    tcase_add_test(calls, maps_that_leave);
    tcase_add_test(calls, on_the_null_device);
    tcase_add_test(calls, facts);
    tcase_add_test(calls, memory_runs_out);
    tcase_add_test(calls, too_large);
    tcase_add_test(calls, threads_share_a_program);
    tcase_add_test(calls, threads_share_devices);
    tcase_add_test(calls, steady_calls_are_recorded);
    tcase_add_test(calls, what_shares_no_memory_is_free);
    tcase_add_test(calls, hot_calls_are_cheap);
    tcase_set_timeout(calls, 120);
    suite_add_tcase(suite, calls);
    return suite;
}
