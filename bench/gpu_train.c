/* weft_gpu_train: training steps on one device, through the public API: checked against the interpreter, timed,
   profiled by kernel, and a whole training on a text. Lines of JSON and of text for bench/gpu_train.py, which runs
   PyTorch beside it.

   weft_gpu_train MODEL ACTION [--KEY VALUE]...
     MODEL   gpt, vit, pinn
     ACTION  check     one step: loss and every gradient against the interpreter; another one of the program without
                       gradients as outputs: every parameter
             time      compile, first step, `runs` steps on the device and as round trips, memory
             profile   microseconds by kernel; each step is waited for, so that small kernels show the wait
             train     `steps` steps on --text (gpt), evaluated; metrics go to --folder
             save      an artifact for --target in --folder
             simulate  every kernel of one step for sm_90a alone in the simulator, on the interpreter's values: no card
   Read next: gpu_train_models.c, gpu_train.py. */
#include "bench/gpu_train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/capability.h"
#include "base/dtype.h"
#include "bench/clock.h"
#include "cli/compare.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "weft/compile.h"
#include "weft/train.h"

enum { RUNS_MAX = 1000, OUTPUTS_MAX = 512, STEPS_MAX = 8192 };

typedef struct options {
    train_options train;
    const char *action, *device, *target, *text, *folder, *pipeline;
    int runs;
    int64_t evaluate_every, evaluation_batches;
    double tolerance;
    uint32_t relax;
    bool apart;    /* a launch for each group */
    bool waits;    /* for every launch: a fault names its kernel */
    double memory; /* a budget: bytes, or a share up to 1; 0 = none */
} options;

typedef struct compiled {
    weft_graph *graph;
    weft_parameters *parameters;
    weft_program *program;
    weft_session *session;
    double build_s, compile_s;
} compiled;

static void release(compiled *c) {
    weft_session_release(c->session);
    weft_program_release(c->program);
    weft_parameters_release(c->parameters);
    weft_graph_release(c->graph);
}

static void set_budget(const options *o, weft_compile_options *settings) {
    if (o->memory > 1) settings->memory_bytes = (int64_t)o->memory;
    if (o->memory > 0 && o->memory <= 1) settings->memory_share = o->memory;
}

static weft_status compile(weft_context *context, const options *o, const train_outputs *outputs, compiled *out) {
    weft_compile_options settings = WEFT_COMPILE_OPTIONS_INIT;
    settings.targets = o->device, settings.relax = o->relax, settings.pipeline = o->pipeline;
    settings.keep_launches = o->apart;
    set_budget(o, &settings);
    double start = clock_seconds();
    WEFT_TRY(train_build(context, &o->train, outputs, &out->graph, &out->parameters), "the graph");
    out->build_s = clock_seconds() - start;
    start = clock_seconds();
    WEFT_TRY(weft_compile(out->graph, &settings, &out->program), "compiling");
    out->compile_s = clock_seconds() - start;
    WEFT_TRY(weft_session_create(out->program, &out->session), "a session");
    out->session->frame.waits = o->waits;
    return NULL;
}

/* -- check */

/* Largest difference over largest value. */
static double difference(const weft_tensor *got, const weft_tensor *want) {
    double worst = 0, largest = 1e-30;
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double x = weft_element_double(weft_tensor_dtype(got), weft_tensor_data(got), i);
        double y = weft_element_double(weft_tensor_dtype(want), weft_tensor_data(want), i);
        double off = fabs(x - y);
        if (!(off <= worst)) worst = isfinite(off) ? off : INFINITY;
        if (fabs(y) > largest) largest = fabs(y);
    }
    return worst / largest;
}

typedef struct verdict {
    int compared, failed;
    double worst;
} verdict;

static void compare(const options *o, verdict *v, const char *what, const char *name, const weft_tensor *got,
                    const weft_tensor *want) {
    double off = difference(got, want);
    bool right = off <= o->tolerance;
    v->compared++, v->failed += !right;
    if (off > v->worst) v->worst = off;
    if (!right) printf("train FAILED %s %s: off by %.3g of %.3g\n", what, name, off, o->tolerance);
}

static weft_status run_check(weft_context *context, const options *o, verdict *v) {
    static weft_tensor *wanted[OUTPUTS_MAX], *got[OUTPUTS_MAX];
    train_outputs all = {.gradients = true, .updated = true}, gradients = {.gradients = true}, none = {0};
    compiled reference = {0}, with = {0}, plain = {0};
    weft_tensor *in[TRAIN_INPUTS_MAX] = {0}, *loss = NULL;
    int inputs = 0, count = 0;
    weft_status status = train_build(context, &o->train, &all, &reference.graph, &reference.parameters);
    if (!status) status = train_inputs(context, &o->train, reference.graph, &inputs, in);
    if (!status) count = weft_parameters_count(reference.parameters);
    if (!status && 2 * count + 1 > OUTPUTS_MAX) status = WEFT_STATUS(WEFT_OUT_OF_RANGE, "%d parameters", count);
    if (!status) status = weft_graph_interpret(reference.graph, inputs, in, 2 * count + 1, wanted);
    if (!status) status = compile(context, o, &gradients, &with);
    if (!status) status = weft_session_call(with.session, inputs, in, count + 1, got);
    for (int i = 0; !status && i <= count; i++)
        compare(o, v, "gradient", weft_graph_output_name(reference.graph, i), got[i], wanted[i]);
    if (!status) status = compile(context, o, &none, &plain);
    if (!status) status = weft_session_call(plain.session, inputs, in, 1, &loss);
    if (!status) compare(o, v, "plain", "loss", loss, wanted[0]);
    for (int i = 0; !status && i < count; i++) {
        const char *name = weft_parameters_list(reference.parameters)[i].name;
        weft_tensor *value = NULL;
        status = weft_session_read_state(plain.session, name, &value);
        if (!status) compare(o, v, "updated", name, value, wanted[count + 1 + i]);
        weft_tensor_release(value);
    }
    for (int i = 0; i < OUTPUTS_MAX; i++) weft_tensor_release(wanted[i]), weft_tensor_release(got[i]);
    for (int i = 0; i < inputs; i++) weft_tensor_release(in[i]);
    weft_tensor_release(loss);
    release(&reference), release(&with), release(&plain);
    return status;
}

static weft_status check(weft_context *context, const options *o, bool *out_failed) {
    verdict v = {0};
    WEFT_TRY(run_check(context, o, &v), "check");
    printf("train check %s %s on %s: %d compared, %d failed, worst %.3g of %.3g\n", o->train.model,
           weft_dtype_name(o->train.dtype), o->device, v.compared, v.failed, v.worst, o->tolerance);
    *out_failed = v.failed > 0 || v.compared == 0;
    return NULL;
}

/* -- time */

typedef struct timing {
    double device_ms, round_ms, first_s, loss[2];
} timing;

static weft_status time_steps(const options *o, compiled *c, int inputs, weft_tensor *const *in, timing *out) {
    static double device[RUNS_MAX], round[RUNS_MAX];
    weft_tensor *loss = NULL;
    double start = clock_seconds();
    weft_status status = NULL;
    for (int i = -4; i < o->runs && !status; i++) {
        c->session->timed = i >= 0;
        status = weft_session_call(c->session, inputs, in, 1, &loss);
        if (!status && i == -4)
            out->first_s = clock_seconds() - start, out->loss[0] = (double)*(float *)weft_tensor_data(loss);
        if (i >= 0) device[i] = c->session->device_ns * 1e-6;
    }
    c->session->timed = false;
    for (int i = 0; i < o->runs && !status; i++) {
        start = clock_seconds();
        status = weft_session_call(c->session, inputs, in, 1, &loss);
        round[i] = (clock_seconds() - start) * 1e3;
    }
    if (!status) {
        out->loss[1] = (double)*(float *)weft_tensor_data(loss);
        out->device_ms = clock_median(device, o->runs), out->round_ms = clock_median(round, o->runs);
    }
    weft_tensor_release(loss);
    return status;
}

static int launch_count(const compiled *c) {
    int count = 0;
    const weft_resolved_region *steps = &c->session->frame.regions[WEFT_REGION_MAIN];
    for (int i = 0; i < steps->count; i++) count += steps->steps[i].step->kind == WEFT_STEP_LAUNCH;
    return count;
}

static weft_status report_time(const options *o, compiled *c, int inputs, weft_tensor *const *in) {
    const int64_t *shapes[TRAIN_INPUTS_MAX];
    int64_t temporaries = 0, constants = 0;
    timing t = {0};
    for (int i = 0; i < inputs; i++) shapes[i] = weft_tensor_shape(in[i]);
    WEFT_TRY(weft_program_memory(c->program, inputs, shapes, &temporaries, &constants), "memory");
    WEFT_TRY(time_steps(o, c, inputs, in, &t), "timing");
    printf("{\"model\": \"%s\", \"dtype\": \"%s\", \"build_s\": %.3f, \"compile_s\": %.3f, \"first_s\": %.3f, "
           "\"device_ms\": %.4f, \"round_trip_ms\": %.4f, \"launches\": %d, \"steps\": %d, \"temporary_bytes\": %lld, "
           "\"state_bytes\": %lld, \"constant_bytes\": %lld, \"loss_first\": %.5f, \"loss_last\": %.5f}\n",
           o->train.model, weft_dtype_name(o->train.dtype), c->build_s, c->compile_s, t.first_s, t.device_ms,
           t.round_ms, launch_count(c), c->session->frame.regions[WEFT_REGION_MAIN].count, (long long)temporaries,
           (long long)c->program->state_bytes, (long long)constants, t.loss[0], t.loss[1]);
    return NULL;
}

/* -- profile */

typedef struct profile {
    double last, us[STEPS_MAX];
} profile;

static void observe(void *self, int step) {
    profile *p = self;
    double now = clock_seconds();
    if (step < STEPS_MAX) p->us[step] += (now - p->last) * 1e6;
    p->last = clock_seconds();
}

static int64_t bytes_of(const weft_frame *frame, const weft_resolved_step *resolved) {
    int64_t bytes = resolved->step->kind == WEFT_STEP_COPY ? 2 * resolved->count : 0;
    for (int v = 0; v < resolved->step->variant_count; v++) {
        const weft_launch_variant *variant = &resolved->step->variants[v];
        if (variant->kernel != resolved->launch.kernel) continue;
        for (int i = 0; i < variant->buffer_count; i++) bytes += frame->sizes[variant->buffers[i]];
        break;
    }
    return bytes;
}

/* A line for each kernel of the main region: times it runs, microseconds, bytes of its buffers, where it first stands.
 */
static void print_profile(const weft_frame *frame, const profile *p, int calls) {
    const weft_resolved_region *steps = &frame->regions[WEFT_REGION_MAIN];
    double total = 0;
    for (int i = 0; i < steps->count && i < STEPS_MAX; i++) total += p->us[i] / calls;
    printf("profile %d steps, %.1f us, each waited for\n", steps->count, total);
    for (int i = 0; i < steps->count && i < STEPS_MAX; i++) {
        const weft_resolved_step *first = &steps->steps[i];
        bool launch = first->step->kind == WEFT_STEP_LAUNCH, seen = false;
        int times = 0;
        double sum = 0;
        for (int j = 0; j < steps->count && j < STEPS_MAX; j++) {
            const weft_resolved_step *other = &steps->steps[j];
            bool same =
                other->step->kind == first->step->kind && (!launch || other->launch.kernel == first->launch.kernel);
            if (!same) continue;
            seen |= j < i;
            sum += p->us[j] / calls, times++;
        }
        if (seen) continue;
        double mb = (double)bytes_of(frame, first) * 1e-6;
        printf("profile %9.1f us %4d times %8.1f us each %9.2f MB %5.2f TB/s grid %lld  %s  %s\n", sum, times,
               sum / times, mb, mb / (sum / times), launch ? (long long)first->launch.grid : 0LL,
               launch ? frame->data->kernels[first->launch.kernel].name : "copy or control",
               first->step->location ? first->step->location : "");
    }
}

static weft_status profile_steps(compiled *c, int inputs, weft_tensor *const *in) {
    enum { CALLS = 5 };
    static profile p;
    weft_tensor *loss = NULL;
    weft_frame *frame = &c->session->frame;
    weft_status status = NULL;
    for (int i = 0; i <= CALLS && !status; i++) {
        p.last = clock_seconds();
        frame->observe = observe, frame->observe_self = &p;
        status = weft_session_call(c->session, inputs, in, 1, &loss);
        frame->observe = NULL;
        if (i == 0) memset(p.us, 0, sizeof p.us);
    }
    if (!status) print_profile(frame, &p, CALLS);
    weft_tensor_release(loss);
    return status;
}

static weft_status run(weft_context *context, const options *o, bool profiled) {
    compiled c = {0};
    train_outputs outputs = {0};
    weft_tensor *in[TRAIN_INPUTS_MAX] = {0};
    weft_device *device = NULL;
    int inputs = 0;
    weft_status status = weft_device_open(context, o->device, &device);
    if (!status) status = compile(context, o, &outputs, &c);
    if (!status) status = train_inputs(context, &o->train, c.graph, &inputs, in);
    if (!status) status = profiled ? profile_steps(&c, inputs, in) : report_time(o, &c, inputs, in);
    for (int i = 0; i < inputs; i++) weft_tensor_release(in[i]);
    release(&c);
    weft_device_release(device);
    return status;
}

static weft_status save(weft_context *context, const options *o) {
    weft_compile_options settings = WEFT_COMPILE_OPTIONS_INIT;
    train_outputs outputs = {0};
    compiled c = {0};
    settings.targets = o->target, settings.relax = o->relax, settings.pipeline = o->pipeline;
    set_budget(o, &settings);
    weft_status status = train_build(context, &o->train, &outputs, &c.graph, &c.parameters);
    if (!status) status = weft_compile_file(c.graph, &settings, o->folder);
    release(&c);
    return status;
}

/* -- train */

typedef struct curve {
    double best;
    int64_t at;
    const options *o;
} curve;

static bool show(void *self, const weft_train_progress *p) {
    curve *c = self;
    if (p->validation < c->best) c->best = p->validation, c->at = p->step;
    if (p->step % c->o->evaluate_every == 0)
        printf("train step %lld loss %.4f validation %.4f %.1f s %.1f steps/s\n", (long long)p->step, p->loss,
               p->validation, p->seconds, p->steps_per_second);
    fflush(stdout);
    return true;
}

static weft_status train(weft_context *context, options *o) {
    compiled training = {0}, evaluation = {0};
    weft_corpus *text = NULL;
    weft_loader *loaders[2] = {0};
    weft_train_options loop = WEFT_TRAIN_OPTIONS_INIT;
    weft_train_result result = {0};
    train_outputs outputs = {.norm = true};
    options evaluating;
    curve c = {.best = INFINITY, .o = o};
    double start = clock_seconds();
    weft_status status = weft_corpus_open(context, o->text, &text);
    if (!status) o->train.vocabulary = (weft_corpus_vocabulary(text) + 7) / 8 * 8; /* rows of 16 bytes */
    evaluating = *o, evaluating.train.evaluates = true;
    if (!status) status = compile(context, o, &outputs, &training);
    if (!status) status = compile(context, &evaluating, &outputs, &evaluation);
    int64_t count = weft_corpus_count(text), split = count * 9 / 10;
    weft_corpus_batches batches[2] = {{text, 0, split, 1, false}, {text, split, count, 0, true}};
    if (!status)
        status = weft_loader_create(context, training.program, weft_corpus_fill, &batches[0], NULL, &loaders[0]);
    if (!status)
        status = weft_loader_create(context, evaluation.program, weft_corpus_fill, &batches[1], NULL, &loaders[1]);
    loop.program = training.program, loop.session = training.session, loop.loader = loaders[0];
    loop.evaluation_program = evaluation.program, loop.evaluation_session = evaluation.session;
    loop.evaluation_loader = loaders[1], loop.evaluation_batches = o->evaluation_batches;
    loop.evaluate_every = o->evaluate_every, loop.steps = o->train.steps, loop.folder = o->folder, loop.log_every = 10;
    loop.progress = show, loop.progress_self = &c;
    double prepared = clock_seconds() - start;
    if (!status) status = weft_train(context, &loop, &result);
    if (!status)
        printf("train %s %s: %lld steps in %.1f s, prepared in %.1f s; best validation %.4f after %lld steps, last "
               "%.4f; loss %.4f\n",
               o->train.model, weft_dtype_name(o->train.dtype), (long long)result.steps, result.seconds, prepared,
               c.best, (long long)c.at, result.validation, result.loss);
    weft_loader_release(loaders[0]), weft_loader_release(loaders[1]);
    weft_corpus_release(text);
    release(&training), release(&evaluation);
    return status;
}

/* -- the command line */

static bool parse_number(options *o, const char *key, const char *value) {
    train_options *t = &o->train;
    const struct {
        const char *key;
        int64_t *to;
    } counts[] = {{"--width", &t->width},
                  {"--vocabulary", &t->vocabulary},
                  {"--context", &t->context},
                  {"--batch", &t->batch},
                  {"--side", &t->side},
                  {"--patch", &t->patch},
                  {"--classes", &t->classes},
                  {"--steps", &t->steps},
                  {"--evaluate-every", &o->evaluate_every},
                  {"--evaluation-batches", &o->evaluation_batches}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(key, counts[i].key)) return *counts[i].to = atoll(value), true;
    const struct {
        const char *key;
        int *to;
    } small[] = {{"--layers", &t->layers},
                 {"--heads", &t->heads},
                 {"--runs", &o->runs},
                 {"--pieces", &t->pieces},
                 {"--remat", &t->remat}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (!strcmp(key, small[i].key)) return *small[i].to = atoi(value), true;
    const struct {
        const char *key;
        double *to;
    } reals[] = {{"--dropout", &t->dropout},     {"--attention-dropout", &t->attention_dropout},
                 {"--epsilon", &t->epsilon},     {"--rate", &t->rate},
                 {"--tolerance", &o->tolerance}, {"--memory", &o->memory}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (!strcmp(key, reals[i].key)) return *reals[i].to = atof(value), true;
    return false;
}

static bool parse_text(options *o, const char *key, const char *value) {
    const struct {
        const char *key, **to;
    } texts[] = {{"--device", &o->device},
                 {"--target", &o->target},
                 {"--text", &o->text},
                 {"--folder", &o->folder},
                 {"--pipeline", &o->pipeline}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key)) return *texts[i].to = value, true;
    if (!strcmp(key, "--dtype")) {
        o->train.dtype = !strcmp(value, "bf16") ? WEFT_BF16 : !strcmp(value, "f16") ? WEFT_F16 : WEFT_F32;
        return true;
    }
    if (!strcmp(key, "--bias")) return o->train.bias = atoi(value) != 0, true;
    if (!strcmp(key, "--waits")) return o->waits = atoi(value), true;
    if (!strcmp(key, "--apart")) return o->apart = atoi(value), true;
    if (!strcmp(key, "--relax")) return o->relax = (uint32_t)atoi(value), true;
    return false;
}

static bool parse(int count, char **arguments, options *o) {
    *o = (options){.device = "cuda:0", .target = "cuda:sm_90a", .runs = 20, .evaluate_every = 250, .tolerance = 1e-4};
    o->evaluation_batches = 20;
    o->train = (train_options){.layers = 2, .heads = 4, .width = 128, .vocabulary = 65, .context = 64, .batch = 4};
    o->train.side = 224, o->train.patch = 16, o->train.classes = 1000, o->train.rate = 1e-3, o->train.steps = 5000;
    o->train.dtype = WEFT_F32;
    if (count < 3) return false;
    o->train.model = arguments[1], o->action = arguments[2];
    for (int i = 3; i < count; i += 2)
        if (i + 1 >= count ||
            !(parse_number(o, arguments[i], arguments[i + 1]) || parse_text(o, arguments[i], arguments[i + 1])))
            return false;
    bool known = !strcmp(o->train.model, "gpt") || !strcmp(o->train.model, "vit") || !strcmp(o->train.model, "pinn");
    return known && o->train.layers > 0 && o->train.heads > 0 && o->train.batch > 0 && o->runs > 0 &&
           o->runs <= RUNS_MAX && o->evaluate_every > 0;
}

static weft_status simulate(weft_context *context, const options *o, bool *out_failed) {
    train_outputs outputs = {0};
    weft_graph *graph = NULL;
    weft_parameters *parameters = NULL;
    weft_tensor *in[TRAIN_INPUTS_MAX] = {0};
    cli_difference found = {0};
    int inputs = 0, bad = -1;
    weft_status status = train_build(context, &o->train, &outputs, &graph, &parameters);
    if (!status) status = train_inputs(context, &o->train, graph, &inputs, in);
    if (!status) status = cli_simulate_graph(graph, in, NULL, weft_capability_find("cuda", "sm_90a"), &bad, &found);
    if (!status && bad >= 0)
        printf("train FAILED simulate: element %lld is %g, not %g\n", (long long)found.element, found.got,
               found.expected);
    *out_failed = bad >= 0;
    if (!status && bad < 0) printf("train simulate: every kernel right\n");
    for (int i = 0; i < inputs; i++) weft_tensor_release(in[i]);
    weft_parameters_release(parameters);
    weft_graph_release(graph);
    return status;
}

/* What a budget for memory came to. */
static void print_budget(void *self, weft_log_level level, const char *message) {
    (void)self, (void)level;
    if (!strncmp(message, "memory:", 7)) printf("train %s\n", message);
}

int main(int count, char **arguments) {
    options o;
    if (!parse(count, arguments, &o)) {
        fprintf(stderr, "usage: weft_gpu_train gpt|vit|pinn check|time|profile|train|save|simulate [--KEY VALUE]...\n");
        return 2;
    }
    weft_context *context = NULL;
    bool failed = false;
    weft_context_options log = WEFT_CONTEXT_OPTIONS_INIT;
    log.log = print_budget;
    weft_status status = weft_context_create(&log, &context);
    if (status)
        ;
    else if (!strcmp(o.action, "check"))
        status = check(context, &o, &failed);
    else if (!strcmp(o.action, "simulate"))
        status = simulate(context, &o, &failed);
    else if (!strcmp(o.action, "save"))
        status = save(context, &o);
    else if (!strcmp(o.action, "train"))
        status = train(context, &o);
    else
        status = run(context, &o, !strcmp(o.action, "profile"));
    if (status) {
        char text[4000];
        (void)weft_status_format(status, text, sizeof text);
        fprintf(stderr, "%s\n", text);
        failed = true;
    }
    weft_status_release(status);
    weft_context_release(context);
    return failed ? 1 : 0;
}
