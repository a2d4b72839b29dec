/* What goes wrong around a run: it is killed anywhere, the disk is full, data are damaged. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/train/small_run.h"

enum { KILLS = 100, UNBOUNDED = 1000000, REPORTS = 4, DELAY_US = 6000 };

/* A step begins to be reported when the checkpoint of the one before is complete. */
static bool report_step(void *self, const weft_train_progress *p) {
    const int *pipe_end = self;
    int64_t step = p->step - 1;
    return write(*pipe_end, &step, sizeof step) == sizeof step;
}

static void train_until_killed(small_run *r, const char *folder, int pipe_end) {
    weft_train_result result;
    small_run_begin_loader(r, 1);
    r->o.folder = folder, r->o.steps = UNBOUNDED, r->o.checkpoint_every = 1, r->o.checkpoint_keep = 2;
    r->o.progress = report_step, r->o.progress_self = &pipe_end;
    weft_status status = weft_train(r->context, &r->o, &result);
    _exit(status ? 3 : 4);
}

static void sleep_us(long us) {
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&t, NULL);
}

/* Forks a run, waits for some reports, kills it a while later; the last step that it reported as saved. */
static int64_t run_and_kill(small_run *r, const char *folder, int reports, long delay_us) {
    int ends[2], state = 0;
    int64_t saved = 0, step;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)close(ends[0]);
        train_until_killed(r, folder, ends[1]);
    }
    (void)close(ends[1]);
    for (int i = 0; i < reports && read(ends[0], &step, sizeof step) == sizeof step; i++) saved = step;
    sleep_us(delay_us);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert(waitpid(child, &state, 0) == child && WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
    while (read(ends[0], &step, sizeof step) == sizeof step) saved = step;
    (void)close(ends[0]);
    return saved;
}

/* Killed at 100 random moments: the newest complete checkpoint is always there and readable, and what the chain of runs
   came to has the bits of one run of as many steps. */
START_TEST(test_killed_anywhere) {
    char folder[512];
    small_run r, whole;
    weft_train_result result;
    int64_t reached = 0, moved = 0, step;
    test_path(folder, sizeof folder, "anywhere");
    small_run_begin(&r, folder, 0);
    srand(7);
    for (int i = 0; i < KILLS; i++) {
        int64_t saved = run_and_kill(&r, folder, rand() % REPORTS, rand() % DELAY_US);
        require(weft_checkpoint_read(r.context, r.program, r.session, folder, &step));
        ck_assert_msg(step >= saved && step >= reached, "kill %d: step %lld after %lld and %lld", i, (long long)step,
                      (long long)saved, (long long)reached);
        moved += step > reached;
        reached = step;
    }
    ck_assert_msg(moved >= KILLS / 10, "only %lld of the runs came to a checkpoint", (long long)moved);
    small_run_begin(&whole, NULL, 1);
    whole.o.steps = reached;
    require(weft_train(whole.context, &whole.o, &result));
    same_states(&r, &whole);
    require(weft_checkpoint_write(r.context, r.program, r.session, folder, reached + 1, 2));
    ck_assert_int_le(count_files(folder, "^step-.*safetensors\\."), 1); /* pieces of later steps at most */
    small_run_end(&whole);
    small_run_end(&r);
    remove_folder(folder);
}
END_TEST

/* No room for the second checkpoint: an error that names it, the first one whole and the newest, nothing half written.
 */
START_TEST(test_full_disk) {
    char folder[512], text[1024];
    small_run r, again;
    struct rlimit old, small;
    int64_t step;
    test_path(folder, sizeof folder, "full");
    small_run_begin(&r, folder, 1);
    require(weft_checkpoint_write(r.context, r.program, r.session, folder, 1, 3));
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old, small.rlim_cur = 8192;
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status status = weft_checkpoint_write(r.context, r.program, r.session, folder, 2, 3);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(status && strstr(text, "step-000000002"), "%s", text);
    weft_status_release(status);
    ck_assert_int_eq(count_files(folder, "^step-"), 1);
    small_run_begin(&again, folder, 1);
    require(weft_checkpoint_read(again.context, again.program, again.session, folder, &step));
    ck_assert_int_eq(step, 1);
    same_states(&r, &again);
    small_run_end(&again);
    small_run_end(&r);
    remove_folder(folder);
}
END_TEST

/* Every fifth batch is damaged. */
static weft_status fill(void *self, int64_t batch, weft_tensor *const *tensors) {
    if (batch % 5 == 3) return WEFT_STATUS(WEFT_INVALID_DATA, "batch %lld is damaged", (long long)batch);
    int64_t *x = weft_tensor_data(tensors[0]);
    (void)self;
    x[0] = batch;
    return NULL;
}

static int64_t first_of(weft_loader *loader, int64_t batch) {
    weft_tensor *const *tensors;
    require(weft_loader_get(loader, batch, &tensors));
    return *(const int64_t *)weft_tensor_data(tensors[0]);
}

START_TEST(test_damaged_batches) {
    small_run r;
    weft_loader *strict, *tolerant, *other;
    weft_tensor *const *tensors;
    weft_loader_options o = WEFT_LOADER_OPTIONS_INIT;
    small_run_begin(&r, NULL, 1);
    require(weft_loader_create(r.context, r.program, fill, NULL, NULL, &strict)); /* the defaults */
    ck_assert_int_eq(first_of(strict, 2), 2);
    weft_status status = weft_loader_get(strict, 3, &tensors);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    weft_status_release(status);
    o.invalid_max = 100;
    require(weft_loader_create(r.context, r.program, fill, NULL, &o, &tolerant));
    o.thread_count = 4, o.prefetch = 7;
    require(weft_loader_create(r.context, r.program, fill, NULL, &o, &other));
    for (int64_t batch = 0; batch < 30; batch++) {
        int64_t got = first_of(tolerant, batch);
        ck_assert(batch % 5 == 3 ? got > 1000000 && got % 5 != 3 : got == batch);
        ck_assert_int_eq(got, first_of(other, batch)); /* whoever fills it */
    }
    ck_assert_int_eq(weft_loader_invalid_count(tolerant),
                     6); /* what was filled ahead and not asked for does not count */
    weft_loader_release(other);
    weft_loader_release(tolerant);
    weft_loader_release(strict);
    o.invalid_max = 1;
    require(weft_loader_create(r.context, r.program, fill, NULL, &o, &strict));
    (void)first_of(strict, 3);
    status = weft_loader_get(strict, 8, &tensors);
    ck_assert_msg(weft_status_code(status) == WEFT_INVALID_DATA, "one is enough");
    weft_status_release(status);
    weft_loader_release(strict);
    small_run_end(&r);
}
END_TEST

Suite *crash_suite(void) {
    Suite *suite = suite_create("crash");
    TCase *group = tcase_create("crashes");
    tcase_set_timeout(group, 200);
    tcase_add_test(group, test_killed_anywhere);
    tcase_add_test(group, test_full_disk);
    tcase_add_test(group, test_damaged_batches);
    suite_add_tcase(suite, group);
    return suite;
}
