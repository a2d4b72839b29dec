/* Program records: round trip, every rule of the validator, hostile manifests, memory plans. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tests/program/sample.h"

static weft_status read_text(weft_allocator allocator, const char *json, size_t bytes, weft_arena *arena,
                             weft_program_data **out) {
    weft_json *parsed;
    *out = NULL;
    weft_arena_init(allocator, arena);
    WEFT_TRY(weft_json_parse(arena, json, bytes, &parsed), "json");
    return weft_program_read(arena, parsed, out);
}

static void assert_fine(weft_status status) {
    char text[2048];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s", text);
}

static void assert_code(weft_status status, weft_code code) {
    char text[2048];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(weft_status_code(status) == code, "%s, not %s: %s", weft_code_name(weft_status_code(status)),
                  weft_code_name(code), text);
    weft_status_release(status);
}

START_TEST(round_trip) {
    sample s;
    sample_init(&s);
    assert_fine(weft_program_check(&s.data));
    weft_text first, second;
    weft_text_init(weft_allocator_system(), &first);
    weft_text_init(weft_allocator_system(), &second);
    weft_program_write(&s.data, &first);
    assert_fine(weft_text_status(&first));
    weft_arena arena;
    weft_program_data *read;
    assert_fine(read_text(weft_allocator_system(), first.data, first.length, &arena, &read));
    weft_program_write(read, &second);
    ck_assert_str_eq(weft_text_string(&first), weft_text_string(&second));
    ck_assert_uint_eq(read->kernels[0].hash, 0x123456789abcdef0u);
    ck_assert_str_eq(read->regions[1].steps[0].location, "dot, \"fc\"");
    ck_assert_int_eq(weft_dim_symbol_get(read->dims, 0)->divisor, 2);
    ck_assert_int_eq(weft_dim_symbol_get(read->dims, 0)->maximum, INT64_MAX);
    ck_assert_int_eq(read->regions[1].steps[0].variants[1].maps[0].box[1], 128);
    weft_dim_table_release(read->dims);
    weft_arena_deinit(&arena);
    weft_text_deinit(&first);
    weft_text_deinit(&second);
    weft_dim_table_release(s.data.dims);
}
END_TEST

/* Each breaks one rule of a fresh record. */
static void break_record(sample *s, int rule) {
    static const int beyond[] = {0, 3};
    weft_dim_table *t = s->data.dims;
    weft_dim stray = weft_dim_symbol(t, "unbound", 0, 9, 1, WEFT_SYMBOL_ANONYMOUS);
    static const int far_buffers[] = {99, 99, 99};
    switch (rule) {
    case 0: s->data.name = NULL; return;
    case 1: s->data.region_count = 1; return;
    case 2: s->data.buffer_count = -1; return;
    case 3: s->inputs[0].dtype = WEFT_STRING; return;
    case 4: s->inputs[0].rank = WEFT_MAX_RANK + 1; return;
    case 5: s->inputs[0].buffer = 99; return;
    case 6: s->inputs[0].buffer = 1; return;
    case 7: s->dims[0] = stray; return; /* then B is bound by nothing */
    case 8: s->dims[2] = stray; return;
    case 9: s->dims[2] = WEFT_DIM_INVALID; return;
    case 10: s->dims[2] = WEFT_DIM_ANY; return;
    case 11: s->dims[2] = -1000000; return;
    case 12: s->buffers[3].offset = 128; return; /* 128 + 256 > 320 */
    case 13: s->buffers[3].offset = s->dims[0]; return;
    case 14: s->buffers[4].bytes = s->dims[0]; return;
    case 15: s->buffers[6].first_step = 1; return; /* used in step 0 */
    case 16: s->buffers[6].last_step = 6; return;
    case 17: s->buffers[6].last_step = 3; return; /* used through a view in step 4 */
    case 18: s->buffers[7].index = 7; return;
    case 19: s->buffers[7].index = -1; return;
    case 20: s->buffers[7] = (weft_buffer){WEFT_BUFFER_ALIAS, 4, 512, 8, 0, 0, NULL}; return;
    case 21: s->buffers[2].index = 1; return;
    case 22: s->buffers[0].kind = (weft_buffer_kind)17; return;
    case 23: s->variants[2].condition_count = 1, s->variants[2].conditions = s->conditions; return;
    case 24: s->variants[1].kernel = 2; return;
    case 25: s->variants[1].buffers = far_buffers; return;
    case 26: s->variants[0].buffers = s->variants[1].buffers; return; /* inputs in the load region */
    case 27: s->variants[0].grid = s->dims[0]; return;
    case 28: s->main[0].variant_count = 0; return;
    case 29: s->main[5].buffers[1] = 3; return; /* writes a constant */
    case 30: s->main[5].buffers[1] = 0; return; /* writes an input */
    case 31: s->main[1].regions[1] = 2; return; /* one body twice */
    case 32: s->main[1].regions[0] = 1; return;
    case 33: s->main[1].regions[0] = 7; return;
    case 34: s->main[3].symbol = 0; return;
    case 35: s->main[3].symbol = 9; return;
    case 36: s->main[4].kind = (weft_step_kind)9; return;
    case 37: s->maps[0].rank = 6; return;
    case 38: s->maps[0].swizzle_bytes = 48; return;
    case 39: s->maps[0].box[0] = 0; return;
    case 40: s->kernels[1].name = ""; return;
    case 41: s->kernels[1].threads = -1; return;
    case 42: s->guards[0].condition.relation = (weft_relation)4; return;
    case 43: s->guards[0].condition.rhs = stray; return;
    case 44: s->main[2].kind = WEFT_STEP_COPY, s->main[2].buffers[1] = 8; return; /* regions 4 and 5 lose their step */
    case 45: s->kernels[0].scratch_bytes = s->dims[0]; return;                    /* of a load kernel */
    case 48: s->variants[1].reads = beyond; return;                               /* no argument */
    default: s->data.weights_bytes = -1; return;
    }
}

START_TEST(every_rule) {
    sample s;
    sample_init(&s);
    break_record(&s, _i);
    assert_code(weft_program_check(&s.data), WEFT_INVALID_DATA);
    weft_dim_table_release(s.data.dims);
}
END_TEST

/* Every number and word of a manifest replaced in turn: a status or a program that passes the checks, never a crash. */
START_TEST(hostile_manifests) {
    static const char *const replacements[] = {
        "-1",       "0",         "3",   "99", "2147483648", "9223372036854775807",
        "1e300",    "null",      "[]",  "{}", "\"\"",       "\"B*9223372036854775807*B\"",
        "\"temp\"", "\"alias\"", "true"};
    sample s;
    sample_init(&s);
    weft_text text, mutant;
    weft_text_init(weft_allocator_system(), &text);
    weft_text_init(weft_allocator_system(), &mutant);
    weft_program_write(&s.data, &text);
    int refused = 0, accepted = 0;
    for (size_t at = 1; at < text.length; at++) {
        char before = text.data[at - 1];
        bool start = before == ':' || before == '[' || before == ',';
        if (!start || text.data[at] == '{' || text.data[at] == '[') continue;
        size_t end = at + 1;
        if (text.data[at] == '"') {
            while (text.data[end] != '"') end += text.data[end] == '\\' ? 2 : 1;
            end++;
        } else {
            end = at + strcspn(text.data + at, ",]}");
        }
        for (size_t i = 0; i < sizeof replacements / sizeof *replacements; i++) {
            mutant.length = 0;
            weft_text_append_bytes(&mutant, text.data, at);
            weft_text_append(&mutant, "%s", replacements[i]);
            weft_text_append_bytes(&mutant, text.data + end, text.length - end);
            weft_arena arena;
            weft_program_data *read;
            weft_status status = read_text(weft_allocator_system(), mutant.data, mutant.length, &arena, &read);
            ck_assert_int_ne(weft_status_code(status), WEFT_OUT_OF_MEMORY);
            ck_assert_int_ne(weft_status_code(status), WEFT_INTERNAL);
            ck_assert((read == NULL) == (status != NULL));
            if (read) weft_dim_table_release(read->dims);
            refused += status != NULL;
            accepted += status == NULL;
            weft_status_release(status);
            weft_arena_deinit(&arena);
        }
    }
    ck_assert_int_gt(refused, 2000);
    ck_assert_int_gt(accepted, 50); /* sizes, bounds and thread counts may change */
    for (size_t length = 0; length < text.length; length += 7) {
        weft_arena arena;
        weft_program_data *read;
        assert_code(read_text(weft_allocator_system(), text.data, length, &arena, &read), WEFT_INVALID_DATA);
        weft_arena_deinit(&arena);
    }
    weft_text_deinit(&text);
    weft_text_deinit(&mutant);
    weft_dim_table_release(s.data.dims);
}
END_TEST

START_TEST(other_formats) {
    const char json[] = "{\"format\":2,\"name\":\"x\"}";
    weft_arena arena;
    weft_program_data *read;
    assert_code(read_text(weft_allocator_system(), json, strlen(json), &arena, &read), WEFT_UNSUPPORTED);
    weft_arena_deinit(&arena);
}
END_TEST

START_TEST(memory_runs_out) {
    sample s;
    sample_init(&s);
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_program_write(&s.data, &text);
    bool done = false;
    for (long limit = 0; !done; limit++) {
        test_allocator counter = {limit, 0};
        weft_arena arena;
        weft_program_data *read;
        weft_status status = read_text(test_allocator_make(&counter), text.data, text.length, &arena, &read);
        if (status) /* an expression without memory cannot tell from one that overflows */
            ck_assert(weft_status_code(status) == WEFT_OUT_OF_MEMORY || weft_status_code(status) == WEFT_INVALID_DATA);
        done = !status;
        weft_status_release(status);
        if (read) weft_dim_table_release(read->dims);
        weft_arena_deinit(&arena);
        ck_assert_int_eq(counter.live, 0);
        ck_assert_int_lt(limit, 5000);
    }
    weft_text_deinit(&text);
    weft_dim_table_release(s.data.dims);
}
END_TEST

enum { PLAN_BUFFERS = 200, PLAN_STEPS = 60 };

START_TEST(plans_do_not_overlap) {
    weft_buffer buffers[PLAN_BUFFERS];
    weft_step_list regions[2] = {{0, NULL}, {PLAN_STEPS, NULL}};
    weft_program_data program = {
        .name = "p", .buffer_count = PLAN_BUFFERS, .buffers = buffers, .region_count = 2, .regions = regions};
    ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &program.dims));
    weft_dim B = weft_dim_symbol(program.dims, "B", 0, INT64_MAX, 1, WEFT_SYMBOL_DECLARED);
    srand((unsigned)_i);
    for (int i = 0; i < PLAN_BUFFERS; i++) {
        int first = rand() % PLAN_STEPS, last = first + rand() % 12;
        weft_dim bytes = weft_dim_multiply(program.dims, B, rand() % 1000);
        buffers[i] = (weft_buffer){rand() % 8 ? WEFT_BUFFER_TEMP : WEFT_BUFFER_OUTPUT, 0,   bytes, 0, first,
                                   last < PLAN_STEPS ? last : PLAN_STEPS - 1,          NULL};
    }
    int64_t symbols[1] = {7}, offsets[PLAN_BUFFERS], again[PLAN_BUFFERS], total, total_again, live_most = 0, sum = 0;
    ck_assert_ptr_null(weft_memory_plan(&program, symbols, weft_allocator_system(), offsets, &total));
    ck_assert_ptr_null(weft_memory_plan(&program, symbols, weft_allocator_system(), again, &total_again));
    ck_assert(total == total_again && !memcmp(offsets, again, sizeof offsets));
    int64_t sizes[PLAN_BUFFERS];
    for (int i = 0; i < PLAN_BUFFERS; i++) {
        ck_assert(weft_dim_evaluate(program.dims, buffers[i].bytes, symbols, &sizes[i]));
        if (buffers[i].kind != WEFT_BUFFER_TEMP) {
            ck_assert_int_eq(offsets[i], -1);
            continue;
        }
        sum += sizes[i];
        ck_assert(offsets[i] >= 0 && offsets[i] % 64 == 0 && offsets[i] + sizes[i] <= total);
        for (int k = 0; k < i; k++) {
            if (buffers[k].kind != WEFT_BUFFER_TEMP || buffers[k].last_step < buffers[i].first_step ||
                buffers[k].first_step > buffers[i].last_step || !sizes[i] || !sizes[k])
                continue;
            ck_assert(offsets[i] + sizes[i] <= offsets[k] || offsets[k] + sizes[k] <= offsets[i]);
        }
    }
    for (int step = 0; step < PLAN_STEPS; step++) {
        int64_t live = 0;
        for (int i = 0; i < PLAN_BUFFERS; i++)
            if (buffers[i].kind == WEFT_BUFFER_TEMP && buffers[i].first_step <= step && step <= buffers[i].last_step)
                live += (sizes[i] + 63) / 64 * 64;
        if (live > live_most) live_most = live;
    }
    ck_assert_int_ge(total, live_most);
    ck_assert_msg(total <= live_most * 13 / 10, "%lld bytes planned, %lld live at most", (long long)total,
                  (long long)live_most);
    ck_assert_int_lt(total, sum / 2);
    program.target = "cuda"; /* little memory: nothing is used again */
    ck_assert_ptr_null(weft_memory_plan(&program, symbols, weft_allocator_system(), offsets, &total));
    for (int i = 0; i < PLAN_BUFFERS; i++)
        for (int k = 0; k < i; k++)
            ck_assert(offsets[i] < 0 || offsets[k] < 0 || !sizes[i] || !sizes[k] ||
                      offsets[i] + sizes[i] <= offsets[k] || offsets[k] + sizes[k] <= offsets[i]);
    symbols[0] = 700;
    ck_assert_ptr_null(weft_memory_plan(&program, symbols, weft_allocator_system(), offsets, &total_again));
    ck_assert_int_lt(total_again, total * 100 / 2); /* much of it: it is */
    weft_dim_table_release(program.dims);
}
END_TEST

START_TEST(plans_that_overflow) {
    weft_buffer buffers[2];
    weft_step_list regions[2] = {{0, NULL}, {1, NULL}};
    weft_program_data program = {
        .name = "p", .buffer_count = 2, .buffers = buffers, .region_count = 2, .regions = regions};
    ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &program.dims));
    weft_dim B = weft_dim_symbol(program.dims, "B", 0, INT64_MAX, 1, WEFT_SYMBOL_DECLARED);
    buffers[0] = buffers[1] = (weft_buffer){WEFT_BUFFER_TEMP, 0, weft_dim_multiply(program.dims, B, 2), 0, 0, 0, "t"};
    int64_t offsets[2], total, symbols[1];
    int64_t bad[] = {INT64_MAX, INT64_MAX / 2, INT64_MAX / 3, -1};
    for (int i = 0; i < 4; i++) {
        symbols[0] = bad[i];
        assert_code(weft_memory_plan(&program, symbols, weft_allocator_system(), offsets, &total), WEFT_OUT_OF_RANGE);
    }
    symbols[0] = INT64_MAX / 8;
    ck_assert_ptr_null(weft_memory_plan(&program, symbols, weft_allocator_system(), offsets, &total));
    weft_dim_table_release(program.dims);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("program");
    TCase *schema = tcase_create("schema"), *plan = tcase_create("plan");
    tcase_add_test(schema, round_trip);
    tcase_add_loop_test(schema, every_rule, 0, 48);
    tcase_add_test(schema, hostile_manifests);
    tcase_add_test(schema, other_formats);
    tcase_add_test(schema, memory_runs_out);
    tcase_set_timeout(schema, 60);
    tcase_add_loop_test(plan, plans_do_not_overlap, 0, 20);
    tcase_add_test(plan, plans_that_overflow);
    suite_add_tcase(suite, schema);
    suite_add_tcase(suite, plan);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
