/* Interrupted and resumed runs against one that was not: every state, bit for bit, and the metrics. Batches,
   checkpoints, damaged files. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/train/small_run.h"

static bool kill_at_13(void *self, const weft_train_progress *p) {
    (void)self;
    if (p->step == 13) (void)raise(SIGKILL);
    return true;
}
static bool stop_at_9(void *self, const weft_train_progress *p) {
    (void)self;
    return p->step != 9;
}

/* kill -9 in step 13: the run goes on from the checkpoint of step 10. */
START_TEST(test_killed) {
    char folder[512];
    small_run whole, resumed;
    weft_train_result result;
    test_path(folder, sizeof folder, "killed");
    pid_t child = fork();
    if (child == 0) {
        small_run_begin(&resumed, folder, 1);
        resumed.o.progress = kill_at_13;
        require(weft_train(resumed.context, &resumed.o, &result));
        _exit(1);
    }
    int state = 0;
    ck_assert(waitpid(child, &state, 0) == child && WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
    ck_assert_int_eq(count_files(folder, "^step-000000010"), 1);
    small_run_begin(&resumed, folder, 3);
    require(weft_train(resumed.context, &resumed.o, &result));
    ck_assert_int_eq(result.first_step, 10);
    ck_assert_int_eq(result.steps, ALL_STEPS);
    small_run_begin(&whole, NULL, 1);
    require(weft_train(whole.context, &whole.o, &result));
    same_states(&resumed, &whole);
    ck_assert_int_eq(count_files(folder, "^step-"), 2); /* 20 and 24 */
    char csv[600], line[256];
    snprintf(csv, sizeof csv, "%s/metrics.csv", folder);
    FILE *file = fopen(csv, "r");
    int rows = 0;
    while (file && fgets(line, sizeof line, file))
        if (rows++) ck_assert_int_eq(atoi(line), rows - 1); /* each step once, in order */
    ck_assert_int_eq(rows, ALL_STEPS + 1);
    fclose(file);
    ck_assert_int_eq(count_files(folder, "^report.html"), 1);
    small_run_end(&resumed);
    small_run_end(&whole);
    remove_folder(folder);
}
END_TEST

/* Stopped by its callback: a checkpoint of that very step. */
START_TEST(test_stopped) {
    char folder[512];
    small_run a, b;
    weft_train_result result;
    test_path(folder, sizeof folder, "stopped");
    small_run_begin(&a, folder, 1);
    a.o.progress = stop_at_9;
    require(weft_train(a.context, &a.o, &result));
    ck_assert_int_eq(result.steps, 9);
    small_run_begin(&b, folder, 1);
    int64_t step;
    require(weft_checkpoint_read(b.context, b.program, b.session, folder, &step));
    ck_assert_int_eq(step, 9);
    same_states(&a, &b);
    small_run_end(&a);
    small_run_end(&b);
    remove_folder(folder);
}
END_TEST

/* A newest checkpoint that is cut short is an error that names it, not a silent start from an older one. */
START_TEST(test_damaged) {
    char folder[512], path[600];
    small_run r;
    int64_t step;
    test_path(folder, sizeof folder, "damaged");
    small_run_begin(&r, folder, 1);
    static const int64_t no_steps[] = {-5, INT64_MAX}; /* files that no reader would find */
    for (int i = 0; i < 2; i++) {
        weft_status status = weft_checkpoint_write(r.context, r.program, r.session, folder, no_steps[i], 0);
        ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
        weft_status_release(status);
    }
    require(weft_checkpoint_write(r.context, r.program, r.session, folder, 3, 0));
    require(weft_checkpoint_write(r.context, r.program, r.session, folder, 4, 0));
    snprintf(path, sizeof path, "%s/step-000000004.safetensors", folder);
    ck_assert_int_eq(truncate(path, 1000), 0);
    weft_status status = weft_checkpoint_read(r.context, r.program, r.session, folder, &step);
    char text[1024];
    weft_status_format(status, text, sizeof text);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    ck_assert_msg(strstr(text, "step-000000004"), "%s", text);
    weft_status_release(status);
    /* one bit of one state: nothing is read, and the checkpoint before it serves */
    require(weft_checkpoint_write(r.context, r.program, r.session, folder, 4, 0));
    FILE *file = fopen(path, "r+b");
    ck_assert(file && fseek(file, -40, SEEK_END) == 0);
    int byte = fgetc(file);
    ck_assert(byte != EOF && fseek(file, -40, SEEK_END) == 0 && fputc(byte ^ 4, file) != EOF && fclose(file) == 0);
    status = weft_checkpoint_read(r.context, r.program, r.session, folder, &step);
    weft_status_format(status, text, sizeof text);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    ck_assert_msg(strstr(text, "its states are damaged") && strstr(text, "step-000000004"), "%s", text);
    weft_status_release(status);
    ck_assert_int_eq(unlink(path), 0);
    require(weft_checkpoint_read(r.context, r.program, r.session, folder, &step));
    ck_assert_int_eq(step, 3);
    small_run_end(&r);
    remove_folder(folder);
}
END_TEST

/* A program that reads two states, `first` [4] and `second` [extent], that begin with the given numbers. */
static void two_states(weft_context *context, int64_t extent, float value, weft_program **program,
                       weft_session **session) {
    static const char *const names[] = {"first", "second"};
    weft_graph *g;
    require(weft_graph_create(context, "states", &g));
    for (int i = 0; i < 2; i++) {
        int64_t count = i ? extent : 4;
        weft_tensor *initial;
        require(weft_tensor_create(context, WEFT_F32, 1, &count, &initial));
        for (int64_t k = 0; k < count; k++) ((float *)weft_tensor_data(initial))[k] = value;
        weft_graph_state(g, names[i], initial);
        weft_tensor_release(initial);
        weft_graph_output(g, names[i], weft_state_read(g, names[i]));
    }
    require(weft_compile(g, NULL, program));
    require(weft_session_create(*program, session));
    weft_graph_release(g);
}

/* States of another shape: the status names the state and the file, and the session's other states stay as they were.
 */
START_TEST(test_of_another_shape) {
    char folder[512], text[1024];
    test_path(folder, sizeof folder, "shape");
    weft_context *context;
    weft_program *small, *large;
    weft_session *from, *to;
    int64_t step;
    require(weft_context_create(NULL, &context));
    two_states(context, 3, 1, &small, &from);
    two_states(context, 5, 2, &large, &to);
    require(weft_checkpoint_write(context, small, from, folder, 7, 0));
    weft_status status = weft_checkpoint_read(context, large, to, folder, &step);
    weft_status_format(status, text, sizeof text);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    ck_assert_msg(strstr(text, "second") && strstr(text, "step-000000007"), "%s", text);
    weft_status_release(status);
    weft_tensor *first;
    require(weft_session_read_state(to, "first", &first));
    for (int i = 0; i < 4; i++) ck_assert_float_eq(((const float *)weft_tensor_data(first))[i], 2);
    weft_tensor_release(first);
    weft_session_release(from), weft_session_release(to);
    weft_program_release(small), weft_program_release(large);
    weft_context_release(context);
    remove_folder(folder);
}
END_TEST

/* Batches are the same whatever the number of threads and wherever the sequence begins. */
START_TEST(test_batches) {
    small_run a, b;
    small_run_begin(&a, NULL, 1);
    small_run_begin(&b, NULL, 4);
    static const int64_t order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 40, 41, 42, 3, 4, 5, 5, 5, 0, 1000000};
    int64_t first[sizeof order / sizeof *order];
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        weft_tensor *const *x, *const *y;
        require(weft_loader_get(a.loader, order[i], &x));
        require(weft_loader_get(b.loader, order[i], &y));
        const int64_t *tokens = weft_tensor_data(x[0]), *next = weft_tensor_data(x[1]);
        for (int t = 0; t < 2; t++)
            ck_assert(!memcmp(weft_tensor_data(x[t]), weft_tensor_data(y[t]), weft_tensor_bytes(x[t])));
        for (int row = 0; row < BATCH; row++)
            ck_assert(!memcmp(tokens + row * LENGTH + 1, next + row * LENGTH, (LENGTH - 1) * sizeof *tokens));
        first[i] = tokens[0] * 1000003 + tokens[1] * 1009 + tokens[5] * 7 + tokens[LENGTH - 1];
    }
    ck_assert_int_eq(first[3], first[13]); /* both batch 3 */
    ck_assert_int_ne(first[0], first[1]);
    small_run_end(&a);
    small_run_end(&b);
}
END_TEST

/* A loss that falls along a logistic curve: fastest at its middle, whatever noise-free ends do. */
START_TEST(test_suggested_rate) {
    double rates[60], losses[60];
    for (int i = 0; i < 60; i++) rates[i] = pow(10, i / 10.0 - 5), losses[i] = 1 / (1 + exp((i - 33) / 4.0));
    losses[3] = -5, losses[59] = -9; /* in the parts that are left out */
    ck_assert_double_eq(weft_train_suggest_rate(60, rates, losses), rates[33]);
    ck_assert(isnan(weft_train_suggest_rate(12, rates, losses)));
}
END_TEST

Suite *resume_suite(void) {
    Suite *suite = suite_create("resume");
    TCase *group = tcase_create("runs");
    tcase_set_timeout(group, 200);
    tcase_add_test(group, test_killed);
    tcase_add_test(group, test_stopped);
    tcase_add_test(group, test_damaged);
    tcase_add_test(group, test_of_another_shape);
    tcase_add_test(group, test_batches);
    tcase_add_test(group, test_suggested_rate);
    suite_add_tcase(suite, group);
    return suite;
}
