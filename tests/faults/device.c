/* A changed program on a device, through loader, executor and driver. See faults.h. */
#include "tests/faults/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/context.h"
#include "runtime/program.h"

enum { SECONDS = 60 };

weft_status subject_generate(const subject *s, weft_code_image *out_image) {
    const weft_target *target = weft_target_find(s->capability->target);
    WEFT_TRY(
        target->compile(s->context, s->capability, s->lowered.program->kernel_count, s->lowered.kernels, 1, out_image),
        "generating code");
    if (s->truncated) out_image->bytes /= 2;
    return NULL;
}

static weft_status load(const subject *s, weft_device *device, weft_program **out_program) {
    weft_code_image image;
    weft_weight_pool *pool;
    WEFT_TRY(subject_generate(s, &image), "loading");
    size_t count = (size_t)s->lowered.program->buffer_count + 1;
    const void **constants = calloc(count, sizeof *constants);
    weft_program_source source = {.data = s->lowered.program,
                                  .constants = constants,
                                  .code = {.arch = s->capability->arch, .data = image.data, .bytes = image.bytes}};
    WEFT_TRY(weft_weight_pool_create(s->context, device, &pool), "loading");
    source.pool = pool;
    return weft_program_create(s->context, device, &source, out_program);
}

static weft_status call(const subject *s, weft_device *device, weft_tensor **out_result) {
    weft_program *program;
    weft_session *session;
    WEFT_TRY(load(s, device, &program), "loading");
    WEFT_TRY(weft_session_create(program, &session), "a session");
    return weft_session_call(session, s->input_count, (weft_tensor *const *)s->inputs, 1, out_result);
}

/* Nothing is released: the process ends. */
static int run_here(const fault *f, int place, const weft_capability *capability, const char *device_name, char *why) {
    weft_context *context;
    weft_device *device;
    weft_tensor *result = NULL;
    subject s;
    (void)setenv("WEFT_POISON", "1", 1);
    assert_fine(weft_context_create(NULL, &context));
    weft_status status = weft_device_open(context, device_name, &device);
    if (status) {
        (void)weft_status_format(status, why, WORDS);
        return ABSENT;
    }
    subject_make(context, f->model, capability, &s);
    (void)f->apply(&s, place);
    status = call(&s, device, &result);
    if (status) {
        (void)weft_status_format(status, why, WORDS);
        return REFUSED;
    }
    return subject_compare(&s, weft_tensor_data(result), why) ? WRONG : RIGHT;
}

int subject_run(weft_context *context, const fault *f, int place, const weft_capability *capability, const char *device,
                char *why) {
    (void)context;
    int ends[2], state = 0;
    struct {
        int verdict;
        char why[WORDS];
    } answer = {REFUSED, ""};
    ck_assert_int_eq(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(SECONDS);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        answer.verdict = run_here(f, place, capability, device, answer.why);
        _exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
    }
    close(ends[1]);
    bool answered = child > 0 && read(ends[0], &answer, sizeof answer) == sizeof answer;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    if (!answered && WIFSIGNALED(state))
        snprintf(answer.why, WORDS, WTERMSIG(state) == SIGALRM ? "it does not end" : "the process dies of signal %d",
                 WTERMSIG(state));
    answer.why[strcspn(answer.why, "\n")] = '\0';
    memcpy(why, answer.why, WORDS);
    return answered ? answer.verdict : REFUSED;
}
