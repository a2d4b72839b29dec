/* CPU matmul against OpenBLAS in one process, rounds interleaved; both with the same number of threads.

       OPENBLAS_CORETYPE=SAPPHIRERAPIDS bench-matmul_cpu [rounds] [threads ...]

   B is a weight: packed beforehand for us, OpenBLAS packs in every call. "best" compares the fastest calls, "median"
   the median over rounds of each round's fastest; spread = (highest - lowest) / median of our rounds. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "tests/support/plan_run.h"
#include "weft/ops.h"

typedef void (*gemm_function)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                              float *, int);

typedef struct blas {
    gemm_function gemm;
    void (*threads)(int);
} blas;

enum { ROUNDS_MAX = 200 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static blas load_blas(void) {
    blas b = {0};
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) return b;
    void *gemm = dlsym(library, "cblas_sgemm"), *threads = dlsym(library, "openblas_set_num_threads");
    memcpy(&b.gemm, &gemm, sizeof gemm);
    memcpy(&b.threads, &threads, sizeof threads);
    return b;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void fail(weft_status status) {
    char text[2000];
    weft_status_format(status, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(1);
}

static float *random_floats(size_t count) {
    float *data = aligned_alloc(64, (count * 4 + 8255) / 64 * 64);
    for (size_t i = 0; i < count; i++) data[i] = (float)((double)rand() / RAND_MAX - 0.5);
    return data;
}

typedef struct side {
    double rounds[ROUNDS_MAX], best;
} side;

static void note(side *s, int round, double seconds) {
    s->rounds[round] = seconds;
    if (round == 0 || seconds < s->best) s->best = seconds;
}

/* The other library's workers spin for a while after its last call (OpenBLAS: 2^26 cycles), at our expense. */
static void settle(void) { nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL); }
/* Seconds of calls before those that count: sleeping workers need some ticks until each has a core of its own. */
static const double warm_up = 0.02;

static void run_shape(weft_context *context, const blas *openblas, int m, int k, int n, int threads, int rounds,
                      double *log_best, double *log_median) {
    weft_graph *g;
    weft_status status = weft_graph_create(context, "matmul", &g);
    if (status) fail(status);
    weft_tensor *weights;
    status = weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){k, n}, &weights);
    if (status) fail(status);
    float *b = weft_tensor_data(weights), *a = random_floats((size_t)m * (size_t)k),
          *c = random_floats((size_t)m * (size_t)n), *d = random_floats((size_t)m * (size_t)n);
    for (int i = 0; i < k * n; i++) b[i] = (float)((double)rand() / RAND_MAX - 0.5);
    weft_graph_output(
        g, "y",
        weft_matmul(g, weft_graph_input(g, "a", WEFT_F32, 2, (weft_dim[]){m, k}), weft_graph_constant(g, weights)));
    const weft_capability *capability =
        weft_capability_find("cpu", __builtin_cpu_supports("avx512bw") ? "x86-64-v4" : "x86-64-v3");
    weft_node *fusion = NULL;
    plan_run run;
    double start = now();
    if ((status = plan_fuse(g, capability, &fusion)) ||
        (status = plan_open(g, fusion, capability, threads, NULL, &run)))
        fail(status);
    double compile_ms = (now() - start) * 1e3;
    void *operands[2], *results[] = {c};
    for (int i = 0; i < 2; i++) operands[i] = fusion->operands[i]->node ? (void *)b : (void *)a;
    if ((status = plan_execute(&run, true, NULL, operands, results))) fail(status);
    double flops = 2.0 * m * k * n, budget = flops / 5e10 > 0.004 ? flops / 5e10 : 0.004;
    side ours = {0}, theirs = {0};
    openblas->threads(threads);
    for (int round = 0; round < rounds; round++) {
        settle();
        double best = 1e9, begin = now(), t = begin;
        do {
            double s = now();
            if ((status = plan_execute(&run, false, NULL, operands, results))) fail(status);
            t = now();
            if (t - begin > warm_up && t - s < best) best = t - s;
        } while (t - begin < warm_up + budget);
        note(&ours, round, best);
        settle();
        best = 1e9, begin = now();
        do {
            double s = now();
            openblas->gemm(101, 111, 111, m, n, k, 1, a, k, b, n, 0, d, n);
            t = now();
            if (t - begin > warm_up && t - s < best) best = t - s;
        } while (t - begin < warm_up + budget);
        note(&theirs, round, best);
    }
    double worst = 0;
    for (int i = 0; i < m * n; i++) worst = fmax(worst, fabs((double)(c[i] - d[i])) / sqrt(k));
    if (worst > 1e-5) fprintf(stderr, "results differ by %g\n", worst), exit(1);
    qsort(ours.rounds, (size_t)rounds, sizeof(double), compare);
    qsort(theirs.rounds, (size_t)rounds, sizeof(double), compare);
    double ratio = theirs.best / ours.best, median = theirs.rounds[rounds / 2] / ours.rounds[rounds / 2];
    printf("| %d | %dx%dx%d | %dx%d | %.0f | %.0f | %.2f | %.2f | %.0f %% | %.0f |\n", threads, m, k, n,
           run.schedule.tile_m, run.schedule.tile_n, flops / ours.best * 1e-9, flops / theirs.best * 1e-9, ratio,
           median, 100 * (ours.rounds[rounds - 1] - ours.rounds[0]) / ours.rounds[rounds / 2], compile_ms);
    fflush(stdout);
    *log_best += log(ratio);
    *log_median += log(median);
    plan_close(&run);
    weft_tensor_release(weights);
    weft_graph_release(g);
    free(a), free(c), free(d);
}

int main(int argc, char **argv) {
    static const int shapes[][3] = {{256, 256, 256},  {512, 512, 512},  {1024, 1024, 1024}, {2048, 2048, 2048},
                                    {1, 768, 768},    {4, 768, 3072},   {128, 768, 3072},   {197, 768, 2304},
                                    {512, 384, 1536}, {64, 147, 12544}, {12544, 147, 64},   {31, 35, 33},
                                    {31, 33, 35}};
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    int rounds = argc > 1 ? atoi(argv[1]) : 15;
    if (rounds < 1 || rounds > ROUNDS_MAX) return 2;
    blas openblas = load_blas();
    if (!openblas.gemm)
        return fprintf(stderr, "libopenblas.so.0 is missing: apt-get install libopenblas0-pthread\n"), 2;
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    if (status) fail(status);
    printf(
        "| threads | MxKxN | tile | ours, best GFLOP/s | OpenBLAS best | ratio best | ratio median | spread | compile ms |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 2; i < (argc > 2 ? argc : 4); i++) {
        int threads = argc > 2 ? atoi(argv[i]) : i - 1;
        double best = 0, median = 0;
        for (int s = 0; s < SHAPES; s++)
            run_shape(context, &openblas, shapes[s][0], shapes[s][1], shapes[s][2], threads, rounds, &best, &median);
        printf("| %d | geometric mean | | | | %.2f | %.2f | | |\n", threads, exp(best / SHAPES), exp(median / SHAPES));
    }
    weft_context_release(context);
    return 0;
}
