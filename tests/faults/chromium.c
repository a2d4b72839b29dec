/* Faults in WGSL, all in one run of headless Chromium (tests/webgpu/browser.h). See faults.h. */
#include "tests/faults/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "tests/webgpu/browser.h"

enum { PLACES = 2, CASES_MAX = 128, LIMIT = 200, CASE_SECONDS = 60, SECONDS = 600 };

typedef struct attempt {
    const fault *fault;
    subject subject;
} attempt;

/* What the page reads: program, image, inputs. */
static void pack(attempt *a, const weft_code_image *image, browser_case *out) {
    const subject *s = &a->subject;
    weft_text text;
    size_t at = 0, bytes = 0;
    weft_text_init(s->context->allocator, &text);
    weft_text_append(&text, "{\"program\": ");
    weft_program_write(s->lowered.program, &text);
    weft_text_append(&text, ", \"image\": ");
    weft_text_append_bytes(&text, image->data, image->bytes);
    weft_text_append(&text, ", \"inputs\": [");
    for (int i = 0; i < s->input_count; i++) bytes += (s->inputs[i]->bytes + 63) / 64 * 64;
    *out = (browser_case){.name = a->fault->name, .data = calloc(1, bytes + 1), .data_bytes = bytes};
    for (int i = 0; i < s->input_count; i++) {
        const weft_tensor *x = s->inputs[i];
        weft_text_append(&text, "%s{\"name\": \"%s\", \"shape\": [", i ? ", " : "", s->lowered.program->inputs[i].name);
        for (int k = 0; k < x->rank; k++) weft_text_append(&text, "%s%lld", k ? ", " : "", (long long)x->shape[k]);
        weft_text_append(&text, "], \"offset\": %zu, \"bytes\": %zu}", at, x->bytes);
        memcpy((char *)out->data + at, x->data, x->bytes);
        at += (x->bytes + 63) / 64 * 64;
    }
    weft_text_append(&text, "]}");
    out->text = strdup(weft_text_string(&text));
    weft_text_deinit(&text);
}

/* false: code cannot even be made, which is a status. */
static bool prepare(weft_context *context, const fault *f, int place, const weft_capability *capability, attempt *a,
                    browser_case *out) {
    weft_code_image image;
    a->fault = f;
    subject_make(context, f->model, capability, &a->subject);
    (void)f->apply(&a->subject, place);
    weft_status status = subject_generate(&a->subject, &image);
    if (status) {
        weft_status_release(status);
        subject_drop(&a->subject);
        return false;
    }
    pack(a, &image, out);
    weft_free(context->allocator, image.data, a->subject.truncated ? image.bytes * 2 + image.bytes % 2 : image.bytes);
    return true;
}

/* The first places where the simulator sees the fault. True: the verifier or the printer refuses it already. */
static bool gather(weft_context *context, const fault *f, const weft_capability *capability, attempt *attempts,
                   browser_case *cases, int *count) {
    bool more = true;
    char why[WORDS] = "", text[WORDS];
    for (int place = 0, taken = 0; more && place < LIMIT && taken < PLACES; place++) {
        verdict v = look(context, f, place, capability, &more, why);
        bool control = f->apply == faults[0].apply;
        if (!more || (v == RIGHT && !f->unseen && !control)) continue;
        subject s;
        subject_make(context, f->model, capability, &s);
        (void)f->apply(&s, place);
        bool refused = subject_verify(&s, text) == REFUSED;
        subject_drop(&s);
        if (refused || !prepare(context, f, place, capability, &attempts[*count], &cases[*count])) return true;
        ++*count, taken++;
        ck_assert_int_lt(*count, CASES_MAX);
    }
    return false;
}

static const char *difference(const attempt *a, const browser_case *c, char *why) {
    if (c->error) return c->error;
    if (!c->result) return "no result";
    if (c->result_bytes < a->subject.expected->bytes) return "too few bytes";
    return subject_compare(&a->subject, (const float *)(const void *)c->result, why);
}

/* A fault is noticed when one of its places is; a control when it is right. */
static bool judge(const fault *f, const attempt *attempts, const browser_case *cases, int count) {
    char why[WORDS];
    bool noticed = false;
    for (int i = 0; i < count; i++) {
        if (attempts[i].fault != f) continue;
        const char *differs = difference(&attempts[i], &cases[i], why);
        if (differs && !noticed) printf("  %-42s %.110s\n", f->name, differs);
        noticed |= differs != NULL;
    }
    return noticed;
}

void browser_check(weft_context *context, int *out_wrong, int *out_count) {
    static attempt attempts[CASES_MAX];
    static browser_case cases[CASES_MAX];
    bool refused[64] = {0};
    int count = 0, number = 0;
    char *log = NULL;
    const char *program = browser_find();
    const weft_capability *capability = weft_capability_find("webgpu", "wgsl");
    printf("webgpu:wgsl in %s\n", program);
    for (const fault *f = faults; f->name; f++, number++)
        refused[number] = gather(context, f, capability, attempts, cases, &count);
    browser_job job = {program, "page.html", NULL, CASE_SECONDS, SECONDS, count, cases};
    bool finished = browser_run(&job, &log);
    ck_assert_msg(finished && log && strstr(log, "swiftshader"), "the browser did not finish: %s", log ? log : "");
    number = 0;
    for (const fault *f = faults; f->name; f++, number++) {
        bool control = f->apply == faults[0].apply;
        bool noticed = refused[number] || judge(f, attempts, cases, count);
        if (refused[number]) printf("  %-42s refused before\n", f->name);
        if (noticed == control) printf("  %-42s %s\n", f->name, control ? "WRONG without a fault" : "MISSED");
        *out_wrong += noticed == control;
        *out_count += !control;
    }
    for (int i = 0; i < count; i++) {
        subject_drop(&attempts[i].subject);
        free(cases[i].text), free(cases[i].data), free(cases[i].result), free(cases[i].error);
    }
    free(log);
}
