/* docs/targets.md: what each target compiles. Every op at every dtype it takes is lowered for one architecture of each
   target and its kernels are printed in the target's language; what is refused is refused with a reason. No device and
   no vendor's compiler is asked. `test-targets --write` writes the page, without it the page is compared.
   Invariant: the page depends on sources only. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/kernel/verify.h"
#include "codegen/target.h"
#include "compile/lower.h"
#include "passes/pass.h"
#include "tests/ir/sample.h"

/* The first SHOWN targets have columns of their own; the others are the rest of AMD's architectures and ways to code.
 */
enum { DTYPES = WEFT_DTYPE_COUNT, VARIANTS = 3, WHY = 100, SHOWN = 6, TARGETS = 15, LISTED = 8 };

typedef struct target_row {
    const char *target, *arch, *title;
    const char *compiler; /* WEFT_AMDGCN_COMPILER */
} target_row;
static const target_row targets[TARGETS] = {
    {"cpu", "x86-64-v4", "CPU", ""},        {"cuda", "sm_90a", "CUDA", ""},
    {"amdgcn", "gfx942", "AMD", "llvm"},    {"metal", "apple9", "Metal", ""},
    {"vulkan", "vulkan1.2", "Vulkan", ""},  {"webgpu", "wgsl", "WebGPU", ""},
    {"amdgcn", "gfx942", "AMD", "hiprtc"},  {"amdgcn", "gfx90a", "AMD", "llvm"},
    {"amdgcn", "gfx90a", "AMD", "hiprtc"},  {"amdgcn", "gfx1030", "AMD", "llvm"},
    {"amdgcn", "gfx1030", "AMD", "hiprtc"}, {"amdgcn", "gfx1100", "AMD", "llvm"},
    {"amdgcn", "gfx1100", "AMD", "hiprtc"}, {"amdgcn", "gfx1200", "AMD", "llvm"},
    {"amdgcn", "gfx1200", "AMD", "hiprtc"}};

typedef enum outcome { ABSENT, COMPILED, REFUSED, BROKEN } outcome;

typedef struct pair {
    outcome outcome;
    char why[WHY];
} pair;

typedef struct results { /* shared by the processes */
    pair cells[TARGETS][WEFT_OP_COUNT][DTYPES];
} results;

static weft_status print_kernels(const weft_lowered *lowered, const weft_target *target, weft_allocator allocator) {
    for (int i = 0; i < lowered->program->kernel_count; i++) {
        weft_text text;
        WEFT_TRY(weft_kernel_verify(lowered->kernels[i]), "verifying");
        weft_text_init(allocator, &text);
        weft_status status = target->print(lowered->kernels[i], &text);
        weft_text_deinit(&text);
        if (status) return status;
    }
    return NULL;
}

static weft_status compile(weft_graph *graph, const weft_capability *capability, const weft_target *target) {
    weft_pass_context pass = {.graph = graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    WEFT_TRY(weft_graph_verify(graph), "sample");
    WEFT_TRY(weft_pipeline_run(&pass, weft_pipeline_standard), "passes");
    weft_arena arena, kernels;
    weft_lowered lowered = {0};
    weft_arena_init(graph->context->allocator, &arena);
    weft_arena_init(graph->context->allocator, &kernels);
    weft_status status =
        weft_lower(graph, capability, &(weft_lower_settings){.thread_count = 1}, &arena, &kernels, &lowered);
    if (!status) {
        status = print_kernels(&lowered, target, graph->context->allocator);
        weft_dim_table_release(lowered.program->dims);
    }
    weft_arena_deinit(&kernels);
    weft_arena_deinit(&arena);
    return status;
}

/* What stands behind the last colon of the reason. */
static void keep_reason(pair *cell, weft_status status) {
    const char *text = weft_status_message(status);
    for (const char *colon; (colon = strstr(text, ": ")) != NULL;) text = colon + 2;
    snprintf(cell->why, WHY, "%s", text);
    cell->outcome = weft_status_code(status) == WEFT_UNSUPPORTED ? REFUSED : BROKEN;
}

/* All variants must compile; the first that does not says why. */
static void try_op(weft_context *context, const weft_capability *capability, const weft_target *target, int op,
                   int dtype, pair *cell) {
    for (int variant = 0; variant < VARIANTS && cell->outcome <= COMPILED; variant++) {
        weft_graph *graph;
        weft_status status = weft_graph_create(context, "sample", &graph);
        if (!status && !weft_sample_node(graph, (weft_op)op, (weft_dtype)dtype, variant)) {
            weft_graph_release(graph);
            return;
        }
        if (!status) status = compile(graph, capability, target);
        if (status)
            keep_reason(cell, status);
        else
            cell->outcome = COMPILED;
        weft_status_release(status);
        weft_graph_release(graph);
    }
}

/* One process a target. */
static int try_target(results *r, int t) {
    const weft_target *target = weft_target_find(targets[t].target);
    const weft_capability *capability = weft_capability_find(targets[t].target, targets[t].arch);
    weft_context *context;
    if (!target || !capability) return 77;
    setenv("WEFT_AMDGCN_COMPILER", targets[t].compiler, 1);
    weft_status status = weft_context_create(NULL, &context);
    if (status) return 1;
    for (int op = 0; op < WEFT_OP_COUNT; op++)
        for (int dtype = WEFT_BOOL; dtype < DTYPES; dtype++)
            try_op(context, capability, target, op, dtype, &r->cells[t][op][dtype]);
    weft_context_release(context);
    return 0;
}

/* 77: a target is missing in this build. */
static int try_all(results *r) {
    pid_t children[TARGETS];
    int code = 0;
    fflush(stdout);
    for (int t = 0; t < TARGETS; t++) {
        children[t] = fork();
        if (children[t] == 0) _exit(try_target(r, t));
    }
    for (int t = 0; t < TARGETS; t++) {
        int state = 0;
        if (children[t] < 0 || waitpid(children[t], &state, 0) != children[t] || !WIFEXITED(state)) return 1;
        if (WEXITSTATUS(state) && code != 1) code = WEXITSTATUS(state);
    }
    return code;
}

/* -- the page */

static void count(const results *r, int t, int op, int *taken, int *compiled) {
    *taken = *compiled = 0;
    for (int d = WEFT_BOOL; d < DTYPES; d++) {
        *taken += r->cells[t][op][d].outcome != ABSENT;
        *compiled += r->cells[t][op][d].outcome == COMPILED;
    }
}

static void print_shares(const results *r, FILE *file) {
    fprintf(file, "| | ");
    for (int t = 0; t < SHOWN; t++) fprintf(file, "%s | ", targets[t].title);
    fprintf(file, "\n|---|---|---|---|---|---|---|\n| architecture |");
    for (int t = 0; t < SHOWN; t++) fprintf(file, " %s |", targets[t].arch);
    fprintf(file, "\n| ops at their dtypes that compile |");
    int pairs[SHOWN] = {0}, common[SHOWN] = {0}, on_cpu = 0, ops[SHOWN] = {0}, cpu_ops = 0;
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        int taken, compiled, cpu_compiled;
        count(r, 0, op, &taken, &cpu_compiled);
        on_cpu += cpu_compiled, cpu_ops += cpu_compiled > 0;
        for (int t = 0; t < SHOWN; t++) {
            count(r, t, op, &taken, &compiled);
            pairs[t] += compiled, ops[t] += cpu_compiled > 0 && compiled > 0;
            for (int d = WEFT_BOOL; d < DTYPES; d++)
                common[t] += r->cells[t][op][d].outcome == COMPILED && r->cells[0][op][d].outcome == COMPILED;
        }
    }
    for (int t = 0; t < SHOWN; t++) fprintf(file, " %d |", pairs[t]);
    fprintf(file, "\n| share of those of the CPU |");
    for (int t = 0; t < SHOWN; t++) fprintf(file, " %.1f %% |", 100.0 * common[t] / on_cpu);
    fprintf(file, "\n| ops of the CPU that compile at some dtype |");
    for (int t = 0; t < SHOWN; t++) fprintf(file, " %d of %d |", ops[t], cpu_ops);
    fprintf(file, "\n\n");
}

/* AMD's architectures, by both ways to code: pairs, and which share of those of the CPU. */
static void print_amd(const results *r, FILE *file) {
    fprintf(
        file,
        "| architecture | through | ops at their dtypes that compile | share of those of the CPU |\n|---|---|---|---|\n");
    for (int t = 0; t < TARGETS; t++) {
        if (strcmp(targets[t].target, "amdgcn")) continue;
        int pairs = 0, common = 0, on_cpu = 0;
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            for (int d = WEFT_BOOL; d < DTYPES; d++) {
                bool here = r->cells[t][op][d].outcome == COMPILED, cpu = r->cells[0][op][d].outcome == COMPILED;
                pairs += here, on_cpu += cpu, common += here && cpu;
            }
        fprintf(file, "| %s | %s | %d | %.1f %% |\n", targets[t].arch,
                strcmp(targets[t].compiler, "llvm") ? "HIP C" : "LLVM IR", pairs, 100.0 * common / on_cpu);
    }
    fprintf(file, "\n");
}

static void print_ops(const results *r, FILE *file) {
    fprintf(file, "| op |");
    for (int t = 0; t < SHOWN; t++) fprintf(file, " %s |", targets[t].title);
    fprintf(file, "\n|---|---|---|---|---|---|---|\n");
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        int taken, compiled;
        count(r, 0, op, &taken, &compiled);
        if (!taken) continue;
        fprintf(file, "| %s |", weft_op_get((weft_op)op)->name);
        for (int t = 0; t < SHOWN; t++) {
            count(r, t, op, &taken, &compiled);
            if (compiled == taken)
                fprintf(file, " all %d |", taken);
            else
                fprintf(file, " %d of %d |", compiled, taken);
        }
        fprintf(file, "\n");
    }
}

/* The ops that fail for one reason, dtypes of all of them together. */
static void print_reason(const results *r, int t, const char *why, FILE *file) {
    bool dtypes[DTYPES] = {0};
    int pairs = 0, ops = 0;
    char names[1000] = "";
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        int before = pairs;
        for (int d = WEFT_BOOL; d < DTYPES; d++) {
            const pair *c = &r->cells[t][op][d];
            if (c->outcome < REFUSED || strcmp(c->why, why) != 0) continue;
            dtypes[d] = true, pairs++;
        }
        if (pairs == before) continue;
        size_t used = strlen(names);
        if (ops++ < LISTED)
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", weft_op_get((weft_op)op)->name);
    }
    fprintf(file, "| %s | %s | %s", targets[t].title, why, names);
    if (ops > LISTED) fprintf(file, " and %d more", ops - LISTED);
    fprintf(file, " |");
    for (int d = WEFT_BOOL; d < DTYPES; d++)
        if (dtypes[d]) fprintf(file, " %s", weft_dtype_name((weft_dtype)d));
    fprintf(file, " | %d |\n", pairs);
}

static bool first_with(const results *r, int t, int op, int dtype) {
    const char *why = r->cells[t][op][dtype].why;
    for (int o = 0; o <= op; o++)
        for (int d = WEFT_BOOL; d < (o == op ? dtype : DTYPES); d++)
            if (r->cells[t][o][d].outcome >= REFUSED && !strcmp(r->cells[t][o][d].why, why)) return false;
    return true;
}

static void print_reasons(const results *r, FILE *file) {
    fprintf(file, "| target | reason | ops | dtypes | pairs |\n|---|---|---|---|---|\n");
    for (int t = 0; t < SHOWN; t++)
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            for (int d = WEFT_BOOL; d < DTYPES; d++)
                if (r->cells[t][op][d].outcome >= REFUSED && first_with(r, t, op, d))
                    print_reason(r, t, r->cells[t][op][d].why, file);
}

static void print_page(const results *r, FILE *file) {
    fprintf(file,
            "# Targets: what compiles where\n\n"
            "Printed by `tests/targets` (`build/release/tests/test-targets --write`): every op at every dtype it "
            "takes, up to three variants,\nlowered for one architecture of each target and printed in its "
            "language. What a table refuses is a status when a graph is\ncompiled, never a wrong number; the "
            "interpreter runs all of it. That what compiles is also right is shown elsewhere:\n`weft selftest "
            "DEVICE` for CPU, CUDA, AMD, Metal and Vulkan, `tests/webgpu` for browsers, `tests/faults` for all.\n\n");
    print_shares(r, file);
    fprintf(
        file,
        "## AMD GPUs\n\nThe column above is gfx942 through LLVM. On the emulated cards of tests/amdgcn `weft selftest "
        "amdgcn` says last which share was right.\n\n");
    print_amd(r, file);
    fprintf(file, "## Why not\n\n");
    print_reasons(r, file);
    fprintf(file, "\n## Ops\n\nHow many of an op's dtypes compile.\n\n");
    print_ops(r, file);
}

static char *read_all(FILE *file, size_t *out_bytes) {
    fseek(file, 0, SEEK_END);
    *out_bytes = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, *out_bytes + 1);
    if (text && fread(text, 1, *out_bytes, file) != *out_bytes) *out_bytes = 0;
    return text;
}

static int compare(const results *r, const char *path) {
    FILE *made = tmpfile(), *page = fopen(path, "r");
    size_t made_bytes = 0, page_bytes = 0;
    if (!made || !page) return 1;
    print_page(r, made);
    char *a = read_all(made, &made_bytes), *b = read_all(page, &page_bytes);
    bool same = a && b && made_bytes == page_bytes && !memcmp(a, b, made_bytes);
    for (size_t i = 0, line = 1; !same && a && b && i <= made_bytes && i <= page_bytes; line += a[i] == '\n', i++)
        if (a[i] != b[i]) {
            printf("%s is not current (line %zu): build/release/tests/test-targets --write\n", path, line);
            break;
        }
    free(a);
    free(b);
    fclose(made);
    fclose(page);
    return !same;
}

static bool none_broken(const results *r) {
    bool fine = true;
    for (int t = 0; t < TARGETS; t++)
        for (int op = 0; op < WEFT_OP_COUNT; op++)
            for (int d = WEFT_BOOL; d < DTYPES; d++)
                if (r->cells[t][op][d].outcome == BROKEN) {
                    printf("%s %s %s: %s\n", targets[t].target, weft_op_get((weft_op)op)->name,
                           weft_dtype_name((weft_dtype)d), r->cells[t][op][d].why);
                    fine = false;
                }
    return fine;
}

int main(int argument_count, char **arguments) {
    const char *path = WEFT_SOURCE_DIR "/docs/targets.md";
    results *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED) return 1;
    int code = try_all(r);
    if (code) {
        printf(code == 77 ? "skipped: this build lacks a target\n" : "a process did not finish\n");
        return code;
    }
    if (argument_count > 1 && !strcmp(arguments[1], "--write")) {
        FILE *file = fopen(path, "w");
        if (!file) return 1;
        print_page(r, file);
        return fclose(file) != 0;
    }
    code = compare(r, path);
    return none_broken(r) ? code : 1;
}
