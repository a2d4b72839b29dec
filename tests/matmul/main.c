/* The CPU matmul builder: compiled and run against plain loops, at sizes around every tile edge, static and symbolic.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/plan_run.h"
#include "weft/ops.h"

typedef struct product {
    const char *spec;     /* "bmk,bkn:b": letters of both operands, then the batch letters */
    int size[26];         /* by letter */
    const char *symbolic; /* letters that are symbols */
    weft_dtype dtype, result;
    bool constant; /* the second operand is a weight */
    bool epilogue; /* relu(2 * (x + bias)) */
    const char *arch;
    int threads;
} product;

typedef struct operand {
    int rank;
    char letters[8];
    int64_t shape[8], count;
    double *values;
    void *data;
} operand;

static operand parse(const product *p, const char *letters, size_t length) {
    operand o = {.rank = (int)length, .count = 1};
    for (size_t i = 0; i < length; i++) {
        o.letters[i] = letters[i];
        o.shape[i] = p->size[letters[i] - 'a'];
        o.count *= o.shape[i];
    }
    return o;
}

static uint64_t state = 1;
static void fill(operand *o, weft_dtype t) {
    o->values = calloc((size_t)o->count + 1, sizeof *o->values);
    o->data = calloc((size_t)o->count + 64, 8);
    for (int64_t i = 0; i < o->count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double v = weft_dtype_is_float(t) ? (double)(int64_t)(state >> 40) / (1 << 23) - 1 : (double)(state >> 60) - 7;
        if (weft_dtype_is_float(t))
            weft_element_set_double(t, o->data, i, v);
        else
            weft_element_set_i64(t, o->data, i, (int64_t)v);
        o->values[i] =
            weft_dtype_is_float(t) ? weft_element_double(t, o->data, i) : (double)weft_element_i64(t, o->data, i);
    }
}

static int64_t offset(const operand *o, const int64_t *index) {
    int64_t at = 0;
    for (int i = 0; i < o->rank; i++) at = at * o->shape[i] + index[o->letters[i] - 'a'];
    return at;
}

/* D at every position: output letters outermost. sum and the sum of magnitudes, for the error bound. */
static void reference(const operand *a, const operand *b, const char *out, const char *contract, const product *p,
                      double *sums, double *sizes) {
    int64_t count = 1, inner = 1;
    for (const char *l = out; *l; l++) count *= p->size[*l - 'a'];
    for (const char *l = contract; *l; l++) inner *= p->size[*l - 'a'];
    int64_t index[26] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (size_t n = strlen(out); n-- > 0;) {
            index[out[n] - 'a'] = rest % p->size[out[n] - 'a'];
            rest /= p->size[out[n] - 'a'];
        }
        sums[i] = sizes[i] = 0;
        for (int64_t j = 0; j < inner; j++) {
            rest = j;
            for (size_t n = strlen(contract); n-- > 0;) {
                index[contract[n] - 'a'] = rest % p->size[contract[n] - 'a'];
                rest /= p->size[contract[n] - 'a'];
            }
            double term = a->values[offset(a, index)] * b->values[offset(b, index)];
            sums[i] += term;
            sizes[i] += fabs(term);
        }
    }
}

static void ok(weft_status status, const product *p, const char *what) {
    char text[3000] = "";
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s (%s): %s", p->spec, what, text);
}

static weft_value *operand_value(weft_graph *g, const product *p, const operand *o, const weft_dim *symbols,
                                 const char *name, bool constant, weft_context *context) {
    weft_dim dims[8];
    for (int i = 0; i < o->rank; i++) dims[i] = symbols[o->letters[i] - 'a'];
    if (!constant) return weft_graph_input(g, name, p->dtype, o->rank, dims);
    weft_tensor *tensor;
    ok(weft_tensor_create(context, p->dtype, o->rank, o->shape, &tensor), p, "tensor");
    memcpy(weft_tensor_data(tensor), o->data, (size_t)(o->count * weft_dtype_bits(p->dtype) / 8));
    weft_value *value = weft_graph_constant(g, tensor);
    weft_tensor_release(tensor);
    return value;
}

static void check(product p) {
    if (strcmp(p.arch, "x86-64-v4") == 0 && !__builtin_cpu_supports("avx512bw")) return;
    const char *comma = strchr(p.spec, ','), *colon = strchr(p.spec, ':');
    operand a = parse(&p, p.spec, (size_t)(comma - p.spec)), b = parse(&p, comma + 1, (size_t)(colon - comma - 1));
    fill(&a, p.dtype);
    fill(&b, p.dtype);
    char out[16] = "", contract[8] = "";
    int64_t axes[4][8];
    int counts[2] = {0};
    for (const char *l = colon + 1; *l; l++) {
        strncat(out, l, 1);
        axes[0][counts[0]] = memchr(a.letters, *l, 8) ? (char *)memchr(a.letters, *l, 8) - a.letters : -1;
        axes[1][counts[0]++] = (char *)memchr(b.letters, *l, 8) - b.letters;
    }
    for (int i = 0; i < a.rank; i++) {
        const char *in_b = memchr(b.letters, a.letters[i], (size_t)b.rank);
        if (strchr(colon, a.letters[i])) continue;
        if (!in_b) {
            strncat(out, &a.letters[i], 1);
            continue;
        }
        strncat(contract, &a.letters[i], 1);
        axes[2][counts[1]] = i;
        axes[3][counts[1]++] = in_b - b.letters;
    }
    for (int i = 0; i < b.rank; i++)
        if (!memchr(a.letters, b.letters[i], (size_t)a.rank)) strncat(out, &b.letters[i], 1);

    weft_context *context;
    weft_graph *g;
    ok(weft_context_create(NULL, &context), &p, "context");
    ok(weft_graph_create(context, "g", &g), &p, "graph");
    weft_dim symbols[26];
    int64_t values[26] = {0};
    for (int l = 0, n = 0; l < 26; l++) {
        symbols[l] = p.size[l];
        if (p.symbolic && strchr(p.symbolic, 'a' + l)) {
            char name[2] = {(char)('A' + l), 0};
            symbols[l] = weft_graph_symbol(g, name, 1, 1 << 20, 1);
            values[n++] = p.size[l];
        }
    }
    weft_value *va = operand_value(g, &p, &a, symbols, "a", false, context),
               *vb = operand_value(g, &p, &b, symbols, "b", p.constant, context);
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.batch_count = counts[0], options.contract_count = counts[1];
    options.lhs_batch = axes[0], options.rhs_batch = axes[1], options.lhs_contract = axes[2],
    options.rhs_contract = axes[3];
    options.dtype = p.result;
    weft_value *y = weft_dot_general(g, va, vb, &options);
    int64_t columns = p.size[out[strlen(out) - 1] - 'a'], count = 1;
    operand bias = {.rank = 1, .count = columns};
    fill(&bias, p.result);
    if (p.epilogue) {
        weft_dim last = symbols[out[strlen(out) - 1] - 'a'];
        y = weft_add(g, y, weft_graph_input(g, "bias", p.result, 1, &last));
        y = weft_relu(g, weft_add(g, y, y));
    }
    weft_graph_output(g, "y", y);
    ok(weft_graph_verify(g), &p, "graph");
    const weft_capability *capability = weft_capability_find("cpu", p.arch);
    weft_node *fusion = NULL;
    plan_run run;
    ok(plan_fuse(g, capability, &fusion), &p, "fuse");
    ok(plan_open(g, fusion, capability, p.threads, values, &run), &p, "open");
    for (const char *l = out; *l; l++) count *= p.size[*l - 'a'];
    double *sums = calloc((size_t)count + 1, 8), *sizes = calloc((size_t)count + 1, 8);
    reference(&a, &b, out, contract, &p, sums, sizes);
    unsigned char *result = calloc((size_t)count * 8 + 128, 1);
    size_t result_bytes = (size_t)(count * weft_dtype_bits(p.result) / 8);
    memset(result, 0x55, (size_t)count * 8 + 128);
    void *operands[3] = {0};
    for (int i = 0; i < fusion->operand_count; i++) {
        const weft_value *v = fusion->operands[i];
        operands[i] = v->node                     ? b.data
                      : strcmp(v->name, "a") == 0 ? a.data
                      : strcmp(v->name, "b") == 0 ? b.data
                                                  : bias.data;
    }
    ok(plan_execute(&run, true, values, operands, (void *[]){result}), &p, "pack");
    ok(plan_execute(&run, false, values, operands, (void *[]){result}), &p, "run");
    double eps = p.result == WEFT_BF16           ? 1.0 / 256
                 : p.result == WEFT_F16          ? 1.0 / 2048
                 : p.result == WEFT_F64          ? 1e-15
                 : weft_dtype_is_float(p.result) ? 6e-8
                                                 : 0;
    double acc = p.result == WEFT_F64 ? 1.2e-16 : 6e-8;
    int64_t k = 1;
    for (const char *l = contract; *l; l++) k *= p.size[*l - 'a'];
    for (int64_t i = 0; i < count; i++) {
        double got = eps > 0 ? weft_element_double(p.result, result, i) : (double)weft_element_i64(p.result, result, i),
               want = sums[i];
        if (p.dtype == WEFT_U16) want = fmod(want, 65536);
        if (p.epilogue) want = fmax(0, 2 * (want + bias.values[i % columns]));
        double bound =
            eps > 0 ? 2 * (acc * (double)(k + 4) * sizes[i] + 2 * eps * (fabs(sums[i]) + fabs(want) + 1)) : 0;
        ck_assert_msg(fabs(got - want) <= bound,
                      "%s m%d n%d k%d sym '%s' %s->%s %s threads %d%s: element %lld is %g, not %g (bound %g)", p.spec,
                      p.size['m' - 'a'], p.size['n' - 'a'], p.size['k' - 'a'], p.symbolic ? p.symbolic : "",
                      weft_dtype_name(p.dtype), weft_dtype_name(p.result), p.arch, p.threads,
                      p.constant ? " constant" : "", (long long)i, got, want, bound);
    }
    for (size_t i = 0; i < 64; i++)
        ck_assert_msg(result[result_bytes + i] == 0x55, "%s: wrote behind the result", p.spec);
    plan_close(&run);
    weft_graph_release(g);
    weft_context_release(context);
    free(sums), free(sizes), free(result);
    operand *all[] = {&a, &b, &bias};
    for (int i = 0; i < 3; i++) free(all[i]->values), free(all[i]->data);
}

#define L(c) [c - 'a']
static const char *const arches[] = {"x86-64-v4", "x86-64-v3"};

START_TEST(edges) {
    static const int ms[] = {1, 2, 5, 9, 17, 28, 31}, ns[] = {1, 15, 16, 33, 47, 48, 49, 97},
                     ks[] = {1, 3, 4, 5, 16, 37};
    for (size_t m = 0; m < sizeof ms / sizeof *ms; m++)
        for (size_t n = m % 3; n < sizeof ns / sizeof *ns; n += 3) {
            product p = {.spec = "mk,kn:",
                         .dtype = WEFT_F32,
                         .result = WEFT_F32,
                         .arch = arches[_i],
                         .threads = 1 + (int)(m + n) % 2,
                         .constant = (m + n) % 3 != 0,
                         .epilogue = n % 3 == 0};
            p.size['m' - 'a'] = ms[m], p.size['n' - 'a'] = ns[n], p.size['k' - 'a'] = ks[(m * 5 + n) % 6];
            check(p);
        }
}
END_TEST

START_TEST(symbolic) {
    static const char *const which[] = {"m", "n", "k", "mn", "mnk", "bm", "bmnk"};
    static const int ms[] = {1, 3, 8, 13, 70}, ns[] = {1, 16, 40, 49, 100};
    for (size_t s = 0; s < sizeof which / sizeof *which; s++)
        for (int i = 0; i < 5; i++) {
            bool batch = strchr(which[s], 'b') != NULL;
            product p = {.spec = batch ? "bmk,bkn:b" : "mk,kn:",
                         .size = {L('b') = 3, L('m') = ms[i], L('n') = ns[(i + (int)s) % 5], L('k') = 5 + 9 * i},
                         .symbolic = which[s],
                         .dtype = WEFT_F32,
                         .result = WEFT_F32,
                         .arch = arches[_i],
                         .threads = 1 + i % 2,
                         .epilogue = i % 2 == 0,
                         .constant = !strchr(which[s], 'n') && !strchr(which[s], 'k') && !batch};
            check(p);
        }
}
END_TEST

START_TEST(layouts) {
    static const char *const specs[] = {
        "mk,nk:",       "km,kn:",    "km,nk:",  "bmk,bnk:b", "bmk,bkn:b", "mbk,nbk:b", "bcmk,bckn:bc",
        "bmck,bnck:bc", "mck,cknd:", "pmk,kn:", "pmk,knq:",  "mkc,nck:",  "bkm,bkn:b", "mpk,kqn:"};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
        for (int i = 0; i < 4; i++) {
            product p = {.spec = specs[s],
                         .size = {L('b') = 2, L('c') = 3, L('m') = 7 + 6 * i, L('k') = 9, L('n') = 20 + 17 * i,
                                  L('p') = 3, L('q') = 2, L('d') = 5},
                         .dtype = WEFT_F32,
                         .result = WEFT_F32,
                         .arch = arches[_i],
                         .threads = 2,
                         .constant = i % 2,
                         .epilogue = i > 1,
                         .symbolic = i == 3 ? "m" : NULL};
            if (i == 3 && p.constant && strchr(strchr(p.spec, ','), 'm')) p.constant = false;
            check(p);
        }
}
END_TEST

/* Dot products along k: few rows, the second operand is no weight. */
START_TEST(dots) {
    static const char *const specs[] = {"mk,nk:", "bmk,bnk:b", "bmk,nbk:b", "mbk,bnk:b"};
    for (int s = 0; s < 4; s++)
        for (int m = 1; m <= 5; m++)
            for (int i = 0; i < 3; i++) {
                product p = {.spec = specs[s],
                             .size = {L('b') = 3, L('m') = m, L('k') = (int[]){16, 37, 128}[(i + m) % 3],
                                      L('n') = (int[]){1, 70, 131}[i]},
                             .dtype = m == 3   ? WEFT_F64
                                      : m == 5 ? WEFT_I32
                                               : WEFT_F32,
                             .arch = arches[_i],
                             .threads = 1 + i % 2,
                             .epilogue = i == 1,
                             .symbolic = (const char *[]){NULL, "n", "bnk"}[(i + s) % 3]};
                p.result = p.dtype;
                check(p);
            }
}
END_TEST

START_TEST(dtypes) {
    static const weft_dtype types[][2] = {{WEFT_F64, WEFT_F64},  {WEFT_F16, WEFT_F16}, {WEFT_BF16, WEFT_BF16},
                                          {WEFT_BF16, WEFT_F32}, {WEFT_I8, WEFT_I32},  {WEFT_U8, WEFT_I32},
                                          {WEFT_U16, WEFT_I32},  {WEFT_I32, WEFT_I32}, {WEFT_I64, WEFT_I64},
                                          {WEFT_F32, WEFT_BF16}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < 3; i++) {
            product p = {.spec = i == 2 ? "bmk,bnk:b" : "mk,kn:",
                         .size = {L('b') = 2, L('m') = 1 + 12 * i, L('n') = 37, L('k') = 21},
                         .dtype = types[t][0],
                         .result = types[t][1],
                         .arch = arches[_i],
                         .threads = 1,
                         .constant = i == 1,
                         .epilogue = i == 1,
                         .symbolic = i == 2 ? "m" : NULL};
            check(p);
        }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("matmul");
    TCase *tests = tcase_create("matmul");
    tcase_add_loop_test(tests, edges, 0, 2);
    tcase_add_loop_test(tests, symbolic, 0, 2);
    tcase_add_loop_test(tests, layouts, 0, 2);
    tcase_add_loop_test(tests, dots, 0, 2);
    tcase_add_loop_test(tests, dtypes, 0, 2);
    tcase_set_timeout(tests, 200);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
