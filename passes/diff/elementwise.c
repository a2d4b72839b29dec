/* Derivatives of elementwise ops: forward rules first, then the transposes of the linear ones. */
#include "passes/diff/diff.h"

static const double two_over_sqrt_pi = 1.1283791670955126;

static weft_value *mul(weft_graph *g, weft_value *x, weft_value *y) { return weft_emit_binary(g, WEFT_OP_mul, x, y); }
static weft_value *divide(weft_graph *g, weft_value *x, weft_value *y) {
    return weft_emit_binary(g, WEFT_OP_div, x, y);
}
static weft_value *sub(weft_graph *g, weft_value *x, weft_value *y) { return weft_emit_binary(g, WEFT_OP_sub, x, y); }
static weft_value *add(weft_graph *g, weft_value *x, weft_value *y) { return weft_emit_binary(g, WEFT_OP_add, x, y); }
static weft_value *neg(weft_graph *g, weft_value *x) { return weft_emit_unary(g, WEFT_OP_neg, x); }
static weft_value *plus(weft_graph *g, weft_value *x, double c) {
    return weft_emit_binary_scalar(g, WEFT_OP_add, x, c);
}
static weft_value *times(weft_graph *g, weft_value *x, double c) {
    return weft_emit_binary_scalar(g, WEFT_OP_mul, x, c);
}
static weft_value *square(weft_graph *g, weft_value *x) { return mul(g, x, x); }
/* 1 - x */
static weft_value *one_minus(weft_graph *g, weft_value *x) { return sub(g, weft_emit_splat_like(g, 1, x), x); }

/* tangent * factor, the factor made from x = operand and y = result. */
#define FACTOR(name, expression)                                                                                       \
    void weft_jvp_##name(weft_jvp_rule *rule) {                                                                        \
        weft_graph *g = rule->graph;                                                                                   \
        weft_value *x = rule->node->operands[0], *y = &rule->node->results[0];                                         \
        (void)x, (void)y;                                                                                              \
        rule->out_tangents[0] = mul(g, rule->tangents[0], expression);                                                 \
    }
FACTOR(abs, weft_emit_unary(g, WEFT_OP_sign, x))
FACTOR(exp, y)
FACTOR(expm1, plus(g, y, 1))
FACTOR(log, divide(g, weft_emit_splat_like(g, 1, x), x))
FACTOR(log1p, divide(g, weft_emit_splat_like(g, 1, x), plus(g, x, 1)))
FACTOR(sqrt, divide(g, weft_emit_splat_like(g, 0.5, x), y))
FACTOR(rsqrt, times(g, mul(g, y, square(g, y)), -0.5))
FACTOR(sin, weft_emit_unary(g, WEFT_OP_cos, x))
FACTOR(cos, neg(g, weft_emit_unary(g, WEFT_OP_sin, x)))
FACTOR(tan, plus(g, square(g, y), 1))
FACTOR(asin, weft_emit_unary(g, WEFT_OP_rsqrt, one_minus(g, square(g, x))))
FACTOR(acos, neg(g, weft_emit_unary(g, WEFT_OP_rsqrt, one_minus(g, square(g, x)))))
FACTOR(atan, divide(g, weft_emit_splat_like(g, 1, x), plus(g, square(g, x), 1)))
FACTOR(sinh, weft_emit_unary(g, WEFT_OP_cosh, x))
FACTOR(cosh, weft_emit_unary(g, WEFT_OP_sinh, x))
FACTOR(asinh, weft_emit_unary(g, WEFT_OP_rsqrt, plus(g, square(g, x), 1)))
FACTOR(acosh, weft_emit_unary(g, WEFT_OP_rsqrt, plus(g, square(g, x), -1)))
FACTOR(atanh, divide(g, weft_emit_splat_like(g, 1, x), one_minus(g, square(g, x))))
FACTOR(tanh, one_minus(g, square(g, y)))
FACTOR(logistic, mul(g, y, one_minus(g, y)))
FACTOR(erf, times(g, weft_emit_unary(g, WEFT_OP_exp, neg(g, square(g, x))), two_over_sqrt_pi))
#undef FACTOR

void weft_jvp_zero(weft_jvp_rule *rule) { (void)rule; }

/* Ops that are linear in all operands together: the op itself on the tangents. */
void weft_jvp_linear(weft_jvp_rule *rule) {
    const weft_node *node = rule->node;
    weft_graph *g = rule->graph;
    weft_value *const *t = rule->tangents;
    if (node->op == WEFT_OP_convert && !weft_dtype_is_float(node->results[0].type.dtype)) return;
    if (node->op == WEFT_OP_add && (!t[0] || !t[1])) {
        rule->out_tangents[0] = t[0] ? t[0] : t[1];
    } else if (node->op == WEFT_OP_sub && (!t[0] || !t[1])) {
        rule->out_tangents[0] = t[0] ? t[0] : neg(g, t[1]);
    } else if (node->op == WEFT_OP_optimization_barrier) {
        for (int i = 0; i < node->operand_count; i++) rule->out_tangents[i] = t[i];
    } else {
        weft_value **operands = weft_arena_allocate_array(&g->arena, (size_t)node->operand_count + 1, sizeof *operands);
        if (!operands) {
            g->out_of_memory = true;
            return;
        }
        for (int i = 0; i < node->operand_count; i++) operands[i] = t[i] ? t[i] : weft_diff_zeros(g, node->operands[i]);
        rule->out_tangents[0] = weft_diff_same_op(g, node, operands);
    }
}

void weft_jvp_mul(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents;
    rule->out_tangents[0] = weft_diff_sum(g, t[0] ? mul(g, t[0], x[1]) : NULL, t[1] ? mul(g, x[0], t[1]) : NULL);
}

void weft_jvp_div(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents, *y = &rule->node->results[0];
    weft_value *second = t[1] ? mul(g, t[1], neg(g, divide(g, y, x[1]))) : NULL;
    rule->out_tangents[0] = weft_diff_sum(g, t[0] ? divide(g, t[0], x[1]) : NULL, second);
}

/* y = a - trunc(a / b) b */
void weft_jvp_rem(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents, *y = &rule->node->results[0];
    weft_value *second =
        t[1] ? mul(g, t[1], neg(g, weft_emit_unary(g, WEFT_OP_round, divide(g, sub(g, x[0], y), x[1])))) : NULL;
    rule->out_tangents[0] = weft_diff_sum(g, t[0], second);
}

/* d a^b = b a^(b-1) da + log(a) a^b db, the second 0 where a = 0. */
void weft_jvp_pow(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents, *y = &rule->node->results[0];
    weft_value *first = NULL, *second = NULL;
    if (t[0]) first = mul(g, t[0], mul(g, x[1], weft_emit_binary(g, WEFT_OP_pow, x[0], plus(g, x[1], -1))));
    if (t[1]) {
        weft_value *zero = weft_emit_compare(g, "eq", x[0], weft_diff_zeros(g, x[0]));
        weft_value *safe = weft_emit_select(g, zero, weft_emit_splat_like(g, 1, x[0]), x[0]);
        second = mul(g, t[1], mul(g, weft_emit_unary(g, WEFT_OP_log, safe), y));
    }
    rule->out_tangents[0] = weft_diff_sum(g, first, second);
}

/* The larger (smaller) operand's tangent; half of each where they are equal. */
static void extremum(weft_jvp_rule *rule, const char *wins) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents, *sum = NULL;
    weft_value *half = weft_emit_select(g, weft_emit_compare(g, "eq", x[0], x[1]), weft_emit_splat_like(g, 0.5, x[0]),
                                        weft_diff_zeros(g, x[0]));
    for (int i = 0; i < 2; i++) {
        if (!t[i]) continue;
        weft_value *factor =
            weft_emit_select(g, weft_emit_compare(g, wins, x[i], x[1 - i]), weft_emit_splat_like(g, 1, x[0]), half);
        sum = weft_diff_sum(g, sum, mul(g, t[i], factor));
    }
    rule->out_tangents[0] = sum;
}
void weft_jvp_max(weft_jvp_rule *rule) { extremum(rule, "gt"); }
void weft_jvp_min(weft_jvp_rule *rule) { extremum(rule, "lt"); }

void weft_jvp_atan2(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents;
    weft_value *norm = add(g, square(g, x[0]), square(g, x[1]));
    weft_value *first = t[0] ? mul(g, t[0], divide(g, x[1], norm)) : NULL,
               *second = t[1] ? mul(g, t[1], neg(g, divide(g, x[0], norm))) : NULL;
    rule->out_tangents[0] = weft_diff_sum(g, first, second);
}

void weft_jvp_select(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents, *zero = weft_diff_zeros(g, x[1]);
    if (weft_dtype_is_float(x[1]->type.dtype))
        rule->out_tangents[0] = weft_emit_select(g, x[0], t[1] ? t[1] : zero, t[2] ? t[2] : zero);
}

/* -- transposes */

void weft_transpose_neg(weft_transpose_rule *rule) { rule->out_cotangents[0] = neg(rule->graph, rule->cotangents[0]); }

void weft_transpose_add(weft_transpose_rule *rule) {
    rule->out_cotangents[0] = rule->out_cotangents[1] = rule->cotangents[0];
}

void weft_transpose_sub(weft_transpose_rule *rule) {
    rule->out_cotangents[0] = rule->cotangents[0];
    if (rule->linear[1]) rule->out_cotangents[1] = neg(rule->graph, rule->cotangents[0]);
}

weft_value *weft_diff_conjugate(weft_graph *g, weft_value *x) {
    if (weft_dtype_kind_of(x->type.dtype) != WEFT_KIND_COMPLEX) return x;
    return weft_emit_binary(g, WEFT_OP_complex, weft_emit_unary(g, WEFT_OP_real, x),
                            neg(g, weft_emit_unary(g, WEFT_OP_imag, x)));
}

/* Two linear operands: a public linear_transpose of what is not linear. */
static bool is_bilinear(weft_transpose_rule *rule) {
    if (!rule->linear[0] || !rule->linear[1]) return false;
    weft_graph_problem(rule->graph, "%s of two values that depend on the inputs is not linear",
                       weft_op_get(rule->node->op)->name);
    return true;
}

void weft_transpose_mul(weft_transpose_rule *rule) {
    if (is_bilinear(rule)) return;
    for (int i = 0; i < 2; i++)
        if (rule->linear[i])
            rule->out_cotangents[i] =
                mul(rule->graph, rule->cotangents[0], weft_diff_conjugate(rule->graph, rule->node->operands[1 - i]));
}

void weft_transpose_div(weft_transpose_rule *rule) {
    if (rule->linear[1]) {
        weft_graph_problem(rule->graph, "div is not linear in its divisor");
        return;
    }
    rule->out_cotangents[0] =
        divide(rule->graph, rule->cotangents[0], weft_diff_conjugate(rule->graph, rule->node->operands[1]));
}

void weft_transpose_select(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *c = rule->cotangents[0], *zero = weft_diff_zeros(g, c);
    if (rule->linear[1]) rule->out_cotangents[1] = weft_emit_select(g, rule->node->operands[0], c, zero);
    if (rule->linear[2]) rule->out_cotangents[2] = weft_emit_select(g, rule->node->operands[0], zero, c);
}

void weft_transpose_convert(weft_transpose_rule *rule) {
    rule->out_cotangents[0] = weft_emit_convert(rule->graph, rule->cotangents[0], rule->node->operands[0]->type.dtype);
}

void weft_transpose_identity(weft_transpose_rule *rule) {
    for (int i = 0; i < rule->node->operand_count; i++) rule->out_cotangents[i] = rule->cotangents[i];
}

/* Complex numbers as pairs: <u, v> = Re u Re v + Im u Im v. */
void weft_transpose_complex(weft_transpose_rule *rule) {
    rule->out_cotangents[0] = weft_emit_unary(rule->graph, WEFT_OP_real, rule->cotangents[0]);
    rule->out_cotangents[1] = weft_emit_unary(rule->graph, WEFT_OP_imag, rule->cotangents[0]);
}
void weft_transpose_real(weft_transpose_rule *rule) {
    rule->out_cotangents[0] = weft_emit_binary(rule->graph, WEFT_OP_complex, rule->cotangents[0],
                                               weft_diff_zeros(rule->graph, rule->cotangents[0]));
}
void weft_transpose_imag(weft_transpose_rule *rule) {
    rule->out_cotangents[0] = weft_emit_binary(rule->graph, WEFT_OP_complex,
                                               weft_diff_zeros(rule->graph, rule->cotangents[0]), rule->cotangents[0]);
}
