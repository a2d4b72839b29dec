/* weft selftest: every op of the table x every dtype it takes, on this machine, against the interpreter. An op that has
   no builder counts as unsupported and is named; it fails nothing, since compiling it is a status, not a wrong number.

   With --simulate every kernel of a sample also runs alone in the simulator, built for the targets named.

   The samples are taken by worker processes from one shared list: first variants of everything first, and of these in
   each round over the ops another dtype for each, so that a limit of time leaves neither ops nor dtypes out. A process
   that dies, or whose device is lost to a fault, costs its sample and is replaced. "cuda:sm_90a" (an architecture):
   samples are compiled for it and not run, which needs no device. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/capability.h"
#include "base/context.h"
#include "base/dtype.h"
#include "cli/compare.h"
#include "cli/fuzz.h"
#include "compile/unit.h"
#include "tests/ir/sample.h"

enum { EXTENT = 5, JOBS_MAX = 64, WHY_MAX = 400, LOST = 3, TARGETS_MAX = 4 };

typedef enum outcome { WAITING, RUNNING, ABSENT, PASSED, FAILED, UNSUPPORTED } outcome;

typedef struct sample_result {
    atomic_int outcome;
    int worker;
    char why[WHY_MAX];
} sample_result;

typedef struct selftest { /* shared by the processes */
    const char *target;
    const char *only_op;                 /* NULL: all */
    weft_dtype only_dtype;               /* WEFT_INVALID: all */
    const weft_capability *only_compile; /* NULL: run */
    const weft_capability *simulated[TARGETS_MAX];
    int simulated_count;
    atomic_int simulations, not_simulated; /* graphs; those with a kernel that no builder makes */
    double end;
    int count;
    atomic_int next, taken;
    atomic_int refused; /* a worker had no device; why */
    char why[WHY_MAX];
    sample_result results[];
} selftest;

/* Samples in the order in which they are taken: variants, rounds, ops. */
enum { ROUNDS = WEFT_DTYPE_COUNT - WEFT_BOOL, APART = 7 /* dtypes between neighbouring ops of a round */ };

static weft_op op_of(int sample) { return (weft_op)(sample % WEFT_OP_COUNT); }
static int variant_of(int sample) { return sample / WEFT_OP_COUNT / ROUNDS; }
static weft_dtype dtype_of(int sample) {
    int round = sample / WEFT_OP_COUNT % ROUNDS;
    return (weft_dtype)(WEFT_BOOL + (round + APART * (int)op_of(sample)) % ROUNDS);
}
static int sample_of(int op, int dtype, int variant) {
    int round = ((dtype - WEFT_BOOL - APART * op) % ROUNDS + ROUNDS) % ROUNDS;
    return (variant * ROUNDS + round) * WEFT_OP_COUNT + op;
}

static weft_status compile_only(weft_graph *graph, const weft_capability *capability) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    weft_unit *unit;
    WEFT_TRY(weft_unit_compile(graph, NULL, capability, &options, &unit), "compiling for %s", capability->arch);
    weft_unit_release(unit);
    return NULL;
}

/* a + diagonal per matrix of the last two axes, a made symmetric on request: definite, well conditioned, right for
 * triangles. */
static void make_definite(weft_tensor *tensor, bool symmetric) {
    int rank = weft_tensor_rank(tensor);
    int64_t n = weft_tensor_shape(tensor)[rank - 1], matrices = weft_tensor_element_count(tensor) / (n * n);
    weft_dtype dtype = weft_tensor_dtype(tensor);
    void *data = weft_tensor_data(tensor);
    for (int64_t m = 0; m < matrices; m++)
        for (int64_t r = 0; r < n; r++)
            for (int64_t c = 0; c <= r; c++) {
                int64_t at = (m * n + r) * n + c, mirrored = (m * n + c) * n + r;
                double x = weft_element_double(dtype, data, at);
                if (r == c)
                    weft_element_set_double(dtype, data, at, fabs(x) + 2 * (double)n);
                else if (symmetric)
                    weft_element_set_double(dtype, data, mirrored, x);
            }
}

/* Random inputs, then what the op demands of them. Indices need nothing: those out of range have a meaning. */
static weft_status make_inputs(weft_graph *graph, const weft_node *node, int variant, weft_tensor **out_inputs) {
    WEFT_TRY(cli_fuzz_inputs(graph->context, graph, 17 + (unsigned long long)variant, EXTENT, out_inputs), "inputs");
    if (node->op == WEFT_OP_cholesky || node->op == WEFT_OP_eigh) make_definite(out_inputs[0], true);
    if (node->op == WEFT_OP_triangular_solve) make_definite(out_inputs[0], false);
    /* its bound allows three trips, its counter runs to 3 */
    if (node->op == WEFT_OP_while) weft_element_set_i64(WEFT_I64, weft_tensor_data(out_inputs[0]), 0, variant % 3);
    return NULL;
}

static weft_status simulate(selftest *t, weft_graph *graph, weft_tensor *const *inputs, cli_contract contract,
                            int *out_bad, cli_difference *out_difference) {
    for (int i = 0; i < t->simulated_count && *out_bad < 0; i++) {
        contract.target = t->simulated[i]->target;
        weft_status status = cli_simulate_graph(graph, inputs, &contract, t->simulated[i], out_bad, out_difference);
        atomic_fetch_add(weft_status_code(status) == WEFT_UNSUPPORTED ? &t->not_simulated : &t->simulations, 1);
        if (weft_status_code(status) == WEFT_UNSUPPORTED)
            weft_status_release(status);
        else if (status)
            return weft_status_annotate(status, __FILE__, __LINE__, "simulating for %s", t->simulated[i]->arch);
    }
    return NULL;
}

/* True: the device does not take any more work from this process. */
static bool check_one(selftest *t, weft_graph *graph, const weft_node *node, int sample, sample_result *result) {
    weft_tensor *inputs[CLI_VALUES_MAX] = {0};
    cli_difference d = {0};
    int bad = -1;
    weft_status status = weft_graph_verify(graph);
    if (!status && t->only_compile) status = compile_only(graph, t->only_compile);
    if (!status && !t->only_compile) status = make_inputs(graph, node, variant_of(sample), inputs);
    if (!status && !t->only_compile) {
        cli_contract contract = cli_contract_of(node, weft_graph_input_count(graph), inputs);
        contract.target = strncmp(t->target, "cpu", 3) ? "gpu" : "cpu";
        status = cli_check_graph(graph, t->target, inputs, &contract, &bad, &d);
        if (!status && bad < 0) status = simulate(t, graph, inputs, contract, &bad, &d);
    }
    if (status)
        (void)weft_status_format(status, result->why, sizeof result->why);
    else if (bad >= 0 && d.unstable)
        snprintf(result->why, sizeof result->why, "output %d: two runs differ in their bits", bad);
    else if (bad >= 0)
        snprintf(result->why, sizeof result->why, "output %d element %lld: got %.9g, expected %.9g", bad,
                 (long long)d.element, d.got, d.expected);
    bool unsupported = weft_status_code(status) == WEFT_UNSUPPORTED,
         lost = status && (strstr(result->why, "CUDA_ERROR") || strstr(result->why, "hipErrorLaunchFailure"));
    weft_status_release(status);
    for (int i = 0; i < CLI_VALUES_MAX; i++) weft_tensor_release(inputs[i]);
    atomic_store(&result->outcome, unsupported ? UNSUPPORTED : status || bad >= 0 ? FAILED : PASSED);
    return lost;
}

static int work(selftest *t, int worker, weft_context *context) {
    for (;;) {
        int sample = atomic_fetch_add(&t->next, 1);
        if (sample >= t->count || cli_now() > t->end) return 0;
        sample_result *result = &t->results[sample];
        weft_graph *graph;
        result->worker = worker;
        atomic_store(&result->outcome, RUNNING);
        weft_status status = weft_graph_create(context, "sample", &graph);
        if (status) return cli_fail(status);
        bool lost = false;
        bool skipped = (t->only_op && strcmp(t->only_op, weft_op_get(op_of(sample))->name) != 0) ||
                       (t->only_dtype != WEFT_INVALID && t->only_dtype != dtype_of(sample));
        const weft_node *node =
            skipped ? NULL : weft_sample_node(graph, op_of(sample), dtype_of(sample), variant_of(sample));
        if (node)
            lost = check_one(t, graph, node, sample, result);
        else
            atomic_store(&result->outcome, ABSENT);
        weft_graph_release(graph);
        atomic_fetch_add(&t->taken, 1);
        if (lost) return LOST;
    }
}

/* The device stays open over all samples of a worker. */
static int open_and_work(selftest *t, int worker, int jobs) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_context *context = NULL;
    weft_device *device = NULL;
    options.thread_count = jobs > 1 ? 1 : 0;
    weft_status status = weft_context_create(&options, &context);
    if (!status && !t->only_compile) status = weft_device_open(context, t->target, &device);
    if (!status) return work(t, worker, context);
    if (!atomic_exchange(&t->refused, 1)) (void)weft_status_format(status, t->why, sizeof t->why);
    return 1;
}

static pid_t start_worker(selftest *t, int worker, int jobs) {
    fflush(stdout);
    pid_t process = fork();
    if (process != 0) return process;
    _exit(open_and_work(t, worker, jobs)); /* nothing is closed: the device may be lost */
}

/* The sample a dead worker had in hand. */
static void bury(selftest *t, int worker, int state) {
    for (int i = 0; i < t->count; i++) {
        sample_result *result = &t->results[i];
        if (result->worker != worker || atomic_load(&result->outcome) != RUNNING) continue;
        if (WIFSIGNALED(state))
            snprintf(result->why, sizeof result->why, "the process died of signal %d", WTERMSIG(state));
        else
            snprintf(result->why, sizeof result->why, "the process ended");
        atomic_store(&result->outcome, FAILED);
    }
}

static weft_status run_workers(selftest *t, int jobs) {
    pid_t processes[JOBS_MAX];
    int living = 0;
    cli_progress progress;
    cli_progress_start(&progress, "selftest");
    for (int i = 0; i < jobs; i++) {
        processes[i] = start_worker(t, i + 1, jobs);
        living += processes[i] > 0;
    }
    if (!living) return WEFT_STATUS(WEFT_INTERNAL, "no process could be started");
    while (living > 0) {
        int state = 0;
        pid_t ended = waitpid(-1, &state, WNOHANG);
        if (ended == 0) usleep(20000), cli_progress_at(&progress, atomic_load(&t->taken), t->count, "");
        if (ended <= 0) continue;
        int i = 0;
        while (i < jobs && processes[i] != ended) i++;
        if (i == jobs) continue;
        living--;
        bury(t, i + 1, state);
        bool again = WIFSIGNALED(state) || (WIFEXITED(state) && WEXITSTATUS(state) == LOST);
        if (again && cli_now() < t->end && (processes[i] = start_worker(t, i + 1, jobs)) > 0) living++;
    }
    cli_progress_end(&progress);
    return atomic_load(&t->refused) ? WEFT_STATUS(WEFT_UNAVAILABLE, "%s", t->why) : NULL;
}

/* As the inside of a JSON string. */
static const char *quotable(const char *text, char *out) {
    size_t i = 0;
    for (; text[i] && i < WHY_MAX - 1; i++)
        out[i] = text[i] == '"' || text[i] == '\\' ? '\'' : (unsigned char)text[i] < ' ' ? ' ' : text[i];
    out[i] = 0;
    return out;
}

static int outcome_of(const selftest *t, int sample) {
    return atomic_load(&((sample_result *)(uintptr_t)&t->results[sample])->outcome);
}

/* Of the ops at the dtypes that they take, as far as they were reached: how many gave right numbers in every sample. */
static void report_pairs(const selftest *t) {
    int pairs = 0, right = 0;
    for (int op = 0; op < WEFT_OP_COUNT; op++)
        for (int dtype = WEFT_BOOL; dtype < WEFT_DTYPE_COUNT; dtype++) {
            int passed = 0, reached = 0;
            for (int variant = 0; variant < WEFT_SAMPLE_VARIANTS; variant++) {
                int o = outcome_of(t, sample_of(op, dtype, variant));
                reached += o > ABSENT, passed += o == PASSED;
            }
            pairs += reached > 0, right += reached > 0 && passed == reached;
        }
    if (pairs)
        printf("%d of %d ops at their dtypes %s in all their samples (%.1f %%)\n", right, pairs,
               t->only_compile ? "compiled" : "were right", 100.0 * right / pairs);
}

static int report(const selftest *t, bool json) {
    char why[WHY_MAX];
    static const char *const names[] = {"not run", "not run", "", "passed", "FAILED", "unsupported"};
    int counts[UNSUPPORTED + 1] = {0}, last = -1;
    for (int op = 0; op < WEFT_OP_COUNT; op++)
        for (int place = 0; place < ROUNDS * WEFT_SAMPLE_VARIANTS; place++) {
            int sample = sample_of(op, WEFT_BOOL + place % ROUNDS, place / ROUNDS), o = outcome_of(t, sample);
            const sample_result *result = &t->results[sample];
            const char *name = weft_op_get((weft_op)op)->name, *dtype = weft_dtype_name(dtype_of(sample));
            counts[o]++;
            if (json && o > ABSENT)
                printf("{\"op\": \"%s\", \"dtype\": \"%s\", \"variant\": %d, \"result\": \"%s\", \"why\": \"%s\"}\n",
                       name, dtype, variant_of(sample), names[o], quotable(result->why, why));
            bool shown = o == FAILED || (o == UNSUPPORTED && last != op); /* one line tells why an op has no builder */
            if (!json && shown)
                printf("%-11s %-24s %-12s variant %d  %s\n", names[o], name, dtype, variant_of(sample), result->why);
            if (o == UNSUPPORTED) last = op;
        }
    if (!json) report_pairs(t);
    printf("%d passed, %d failed, %d unsupported, %d of %d places of the list not reached\n", counts[PASSED],
           counts[FAILED], counts[UNSUPPORTED], counts[WAITING] + counts[RUNNING], t->count);
    if (t->simulated_count && !json)
        printf("%d simulated, %d not: no builder, or it needs a device\n",
               atomic_load(&((selftest *)(uintptr_t)t)->simulations),
               atomic_load(&((selftest *)(uintptr_t)t)->not_simulated));
    return counts[FAILED] || !counts[PASSED] ? 1 : 0;
}

static weft_status find_target(cli_arguments *arguments, selftest *t) {
    t->target = arguments->positional_count ? arguments->positional[0] : "cpu";
    const char *colon = strchr(t->target, ':');
    size_t length = colon ? (size_t)(colon - t->target) : strlen(t->target);
    bool known = false;
    for (int i = 0; weft_capability_get(i) && !known; i++)
        known = strlen(weft_capability_get(i)->target) == length &&
                !strncmp(weft_capability_get(i)->target, t->target, length);
    if (!known)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "there is no target \"%s\"; `weft doctor` lists devices", t->target);
    if (!colon || strspn(colon + 1, "0123456789") == strlen(colon + 1))
        return NULL; /* a device: workers open it, a driver does not survive fork */
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)(colon - t->target), t->target);
    t->only_compile = weft_capability_find(name, colon + 1);
    return t->only_compile ? NULL : WEFT_STATUS(WEFT_INVALID_ARGUMENT, "there is no target \"%s\"", t->target);
}

/* "cpu:x86-64-v3,cuda:sm_80" */
static weft_status find_simulated(selftest *t, const char *text) {
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        const weft_capability *found = NULL, *record;
        for (int i = 0; (record = weft_capability_get(i)) && !found; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s:%s", record->target, record->arch);
            if (strlen(name) == length && !memcmp(name, at, length)) found = record;
        }
        if (!found) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "there is no target \"%.*s\"", (int)length, at);
        if (t->simulated_count == TARGETS_MAX)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "more than %d targets", TARGETS_MAX);
        t->simulated[t->simulated_count++] = found;
        at += length + (at[length] == ',');
    }
    return NULL;
}

static weft_status check_op(const char *name) {
    for (int op = 0; name && op < WEFT_OP_COUNT; op++)
        if (!strcmp(weft_op_get((weft_op)op)->name, name)) return NULL;
    return name ? WEFT_STATUS(WEFT_NOT_FOUND, "there is no op \"%s\"; docs/ops.md lists them", name) : NULL;
}

static weft_status find_dtype(const char *name, weft_dtype *out_dtype) {
    *out_dtype = name ? weft_dtype_find(name) : WEFT_INVALID;
    return name && *out_dtype == WEFT_INVALID ? WEFT_STATUS(WEFT_NOT_FOUND, "there is no dtype \"%s\"", name) : NULL;
}

int cli_run_selftest(cli_arguments *arguments) {
    int count = WEFT_OP_COUNT * (WEFT_DTYPE_COUNT - WEFT_BOOL) * WEFT_SAMPLE_VARIANTS;
    (void)setenv("WEFT_POISON", "1", 0);
    size_t bytes = sizeof(selftest) + (size_t)count * sizeof(sample_result);
    selftest *t = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED) return cli_fail(WEFT_STATUS(WEFT_OUT_OF_MEMORY, "selftest"));
    t->count = count;
    t->end = cli_now() + (double)cli_number(arguments, "seconds", 1000000);
    t->only_op = cli_text(arguments, "op", NULL);
    weft_status status = find_target(arguments, t);
    if (!status) status = check_op(t->only_op);
    if (!status) status = find_dtype(cli_text(arguments, "dtype", NULL), &t->only_dtype);
    if (!status) status = find_simulated(t, cli_text(arguments, "simulate", ""));
    long long jobs =
        cli_number(arguments, "jobs", strncmp(t->target, "cpu", 3) ? (long long)arguments->context->thread_count : 1);
    if (!status) status = run_workers(t, (int)(jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : jobs));
    int code = status ? cli_fail(status) : report(t, cli_flag(arguments, "json"));
    (void)munmap(t, bytes);
    return code;
}
