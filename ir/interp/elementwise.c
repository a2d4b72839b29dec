/* Elementwise ops: blocks of elements as double or int64, one function per op and domain, results rounded once.
   Integers wrap; their values are held sign- or zero-extended (u64: as bits). */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

/* -- one operand, floats */

static double f_neg(double x) { return -x; }
static double f_sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; /* zeros and NaN stay */ }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_logistic(double x) { return 1 / (1 + exp(-x)); }
static double f_is_nan(double x) { return isnan(x) ? 1 : 0; }
static double f_is_finite(double x) { return isfinite(x) ? 1 : 0; }

static double (*const unary_floats[WEFT_OP_COUNT])(double) = {
    [WEFT_OP_abs] = fabs,
    [WEFT_OP_neg] = f_neg,
    [WEFT_OP_sign] = f_sign,
    [WEFT_OP_ceil] = ceil,
    [WEFT_OP_floor] = floor,
    [WEFT_OP_round] = rint,
    [WEFT_OP_exp] = exp,
    [WEFT_OP_expm1] = expm1,
    [WEFT_OP_log] = log,
    [WEFT_OP_log1p] = log1p,
    [WEFT_OP_sqrt] = sqrt,
    [WEFT_OP_rsqrt] = f_rsqrt,
    [WEFT_OP_sin] = sin,
    [WEFT_OP_cos] = cos,
    [WEFT_OP_tan] = tan,
    [WEFT_OP_asin] = asin,
    [WEFT_OP_acos] = acos,
    [WEFT_OP_atan] = atan,
    [WEFT_OP_sinh] = sinh,
    [WEFT_OP_cosh] = cosh,
    [WEFT_OP_asinh] = asinh,
    [WEFT_OP_acosh] = acosh,
    [WEFT_OP_atanh] = atanh,
    [WEFT_OP_tanh] = tanh,
    [WEFT_OP_logistic] = f_logistic,
    [WEFT_OP_erf] = erf,
    [WEFT_OP_is_nan] = f_is_nan,
    [WEFT_OP_is_finite] = f_is_finite,
};

/* -- one operand, integers: (value, dtype) */

static int64_t i_abs(int64_t x, weft_dtype t) {
    return weft_dtype_kind_of(t) == WEFT_KIND_SIGNED && x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
}
static int64_t i_neg(int64_t x, weft_dtype t) { return (void)t, (int64_t)(0 - (uint64_t)x); }
static int64_t i_sign(int64_t x, weft_dtype t) {
    return weft_dtype_kind_of(t) == WEFT_KIND_SIGNED ? (x > 0) - (x < 0) : x != 0;
}
static int64_t i_not(int64_t x, weft_dtype t) { return t == WEFT_BOOL ? !x : ~x; }
static int64_t i_popcount(int64_t x, weft_dtype t) {
    int bits = weft_dtype_bits(t);
    return __builtin_popcountll((uint64_t)x & (bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1));
}

static int64_t (*const unary_integers[WEFT_OP_COUNT])(int64_t, weft_dtype) = {
    [WEFT_OP_abs] = i_abs, [WEFT_OP_neg] = i_neg,           [WEFT_OP_sign] = i_sign,
    [WEFT_OP_not] = i_not, [WEFT_OP_popcount] = i_popcount,
};

static weft_status no_meaning(const weft_node *node, weft_dtype dtype) {
    return WEFT_STATUS(WEFT_INTERNAL, "%s of %s has no meaning; infer should have refused it",
                       weft_op_get(node->op)->name, weft_dtype_name(dtype));
}

static void neg_complex(const weft_tensor *x, weft_tensor *y) {
    for (int64_t i = 0; i < y->element_count; i++) {
        weft_complex v = weft_interp_load_complex(x->dtype, x->data, i);
        weft_interp_store_complex(y->dtype, y->data, i, (weft_complex){-v.re, -v.im});
    }
}

static int64_t block_length(int64_t start, int64_t count) {
    return count - start < WEFT_INTERP_BLOCK ? count - start : WEFT_INTERP_BLOCK;
}

weft_status weft_interpret_unary(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                 weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    weft_interp_domain domain = weft_interp_domain_of(x->dtype);
    double (*f)(double) = unary_floats[node->op];
    int64_t (*g)(int64_t, weft_dtype) = unary_integers[node->op];
    if (domain == WEFT_DOMAIN_FLOAT ? !f : domain == WEFT_DOMAIN_INTEGER ? !g : node->op != WEFT_OP_neg)
        return no_meaning(node, x->dtype);
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of %s", weft_op_get(node->op)->name);
    weft_tensor *y = results[0];
    if (domain == WEFT_DOMAIN_COMPLEX) {
        neg_complex(x, y);
        return NULL;
    }
    for (int64_t start = 0; start < y->element_count; start += WEFT_INTERP_BLOCK) {
        int64_t n = block_length(start, y->element_count);
        if (domain == WEFT_DOMAIN_FLOAT) {
            double values[WEFT_INTERP_BLOCK];
            weft_interp_load_f64(x->dtype, x->data, start, n, values);
            for (int64_t i = 0; i < n; i++) values[i] = f(values[i]);
            weft_interp_store_f64(y->dtype, y->data, start, n, values);
        } else {
            int64_t values[WEFT_INTERP_BLOCK];
            weft_interp_load_i64(x->dtype, x->data, start, n, values);
            for (int64_t i = 0; i < n; i++) values[i] = g(values[i], x->dtype);
            weft_interp_store_i64(y->dtype, y->data, start, n, values);
        }
    }
    return NULL;
}

/* -- two operands, floats */

static double f_add(double a, double b) { return a + b; }
static double f_sub(double a, double b) { return a - b; }
static double f_mul(double a, double b) { return a * b; }
static double f_div(double a, double b) { return a / b; }

static double (*const binary_floats[WEFT_OP_COUNT])(double, double) = {
    [WEFT_OP_add] = f_add,
    [WEFT_OP_sub] = f_sub,
    [WEFT_OP_mul] = f_mul,
    [WEFT_OP_div] = f_div,
    [WEFT_OP_rem] = fmod,
    [WEFT_OP_pow] = pow,
    [WEFT_OP_max] = weft_interp_maximum,
    [WEFT_OP_min] = weft_interp_minimum,
    [WEFT_OP_atan2] = atan2,
};

/* -- two operands, integers: (a, b, dtype) */

static int64_t i_add(int64_t a, int64_t b, weft_dtype t) { return (void)t, (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t i_sub(int64_t a, int64_t b, weft_dtype t) { return (void)t, (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t i_mul(int64_t a, int64_t b, weft_dtype t) { return (void)t, (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t i_div(int64_t a, int64_t b, weft_dtype t) {
    if (b == 0) return -1;
    if (t == WEFT_U64) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; /* INT64_MIN / -1 wraps */
}
static int64_t i_rem(int64_t a, int64_t b, weft_dtype t) {
    if (b == 0) return a;
    if (t == WEFT_U64) return (int64_t)((uint64_t)a % (uint64_t)b);
    return b == -1 ? 0 : a % b;
}
/* Negative exponents: the exact power truncated toward zero, and 0 for a base of 0. */
static int64_t i_pow(int64_t a, int64_t b, weft_dtype t) {
    uint64_t base = (uint64_t)a, power = 1, left = (uint64_t)b;
    if (t != WEFT_U64 && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (; left; left >>= 1, base *= base)
        if (left & 1) power *= base;
    return (int64_t)power;
}
static int64_t i_max(int64_t a, int64_t b, weft_dtype t) { return weft_interp_less_i64(t, a, b) ? b : a; }
static int64_t i_min(int64_t a, int64_t b, weft_dtype t) { return weft_interp_less_i64(t, b, a) ? b : a; }
static int64_t i_and(int64_t a, int64_t b, weft_dtype t) { return (void)t, a & b; }
static int64_t i_or(int64_t a, int64_t b, weft_dtype t) { return (void)t, a | b; }
static int64_t i_xor(int64_t a, int64_t b, weft_dtype t) { return (void)t, a ^ b; }

/* Amounts are unsigned: negative ones are too large as well. */
static bool shifts_out(int64_t amount, weft_dtype t) { return (uint64_t)amount >= (uint64_t)weft_dtype_bits(t); }
static int64_t i_shift_left(int64_t a, int64_t b, weft_dtype t) {
    return shifts_out(b, t) ? 0 : (int64_t)((uint64_t)a << b);
}
static int64_t i_shift_right_logical(int64_t a, int64_t b, weft_dtype t) {
    int bits = weft_dtype_bits(t);
    return shifts_out(b, t) ? 0 : (int64_t)(((uint64_t)a & (bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1)) >> b);
}
/* An amount beyond the width leaves copies of the sign bit, also for unsigned types. */
static int64_t i_shift_right_arithmetic(int64_t a, int64_t b, weft_dtype t) {
    int bits = weft_dtype_bits(t);
    int64_t extended = (int64_t)((uint64_t)a << (64 - bits)) >> (64 - bits);
    return extended >> (shifts_out(b, t) ? 63 : b);
}

static int64_t (*const binary_integers[WEFT_OP_COUNT])(int64_t, int64_t, weft_dtype) = {
    [WEFT_OP_add] = i_add,
    [WEFT_OP_sub] = i_sub,
    [WEFT_OP_mul] = i_mul,
    [WEFT_OP_div] = i_div,
    [WEFT_OP_rem] = i_rem,
    [WEFT_OP_pow] = i_pow,
    [WEFT_OP_max] = i_max,
    [WEFT_OP_min] = i_min,
    [WEFT_OP_and] = i_and,
    [WEFT_OP_or] = i_or,
    [WEFT_OP_xor] = i_xor,
    [WEFT_OP_shift_left] = i_shift_left,
    [WEFT_OP_shift_right_logical] = i_shift_right_logical,
    [WEFT_OP_shift_right_arithmetic] = i_shift_right_arithmetic,
};

/* Smith's division (1962): no overflow of intermediate squares. */
static weft_complex divide_complex(weft_complex a, weft_complex b) {
    if (fabs(b.re) >= fabs(b.im)) {
        double ratio = b.im / b.re, scale = b.re + b.im * ratio;
        return (weft_complex){(a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale};
    }
    double ratio = b.re / b.im, scale = b.re * ratio + b.im;
    return (weft_complex){(a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale};
}

static weft_complex binary_complex(weft_op op, weft_complex a, weft_complex b) {
    if (op == WEFT_OP_add) return weft_interp_combine_complex(WEFT_REDUCTION_SUM, a, b);
    if (op == WEFT_OP_sub) return (weft_complex){a.re - b.re, a.im - b.im};
    if (op == WEFT_OP_mul) return weft_interp_combine_complex(WEFT_REDUCTION_PRODUCT, a, b);
    return divide_complex(a, b);
}

weft_status weft_interpret_binary(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                  weft_tensor **results) {
    const weft_tensor *a = inputs[0], *b = inputs[1];
    weft_interp_domain domain = weft_interp_domain_of(a->dtype);
    double (*f)(double, double) = binary_floats[node->op];
    int64_t (*g)(int64_t, int64_t, weft_dtype) = binary_integers[node->op];
    if (domain == WEFT_DOMAIN_FLOAT ? !f : !g) return no_meaning(node, a->dtype);
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of %s", weft_op_get(node->op)->name);
    weft_tensor *y = results[0];
    for (int64_t i = 0; domain == WEFT_DOMAIN_COMPLEX && i < y->element_count; i++)
        weft_interp_store_complex(y->dtype, y->data, i,
                                  binary_complex(node->op, weft_interp_load_complex(a->dtype, a->data, i),
                                                 weft_interp_load_complex(b->dtype, b->data, i)));
    for (int64_t start = 0; domain != WEFT_DOMAIN_COMPLEX && start < y->element_count; start += WEFT_INTERP_BLOCK) {
        int64_t n = block_length(start, y->element_count);
        if (domain == WEFT_DOMAIN_FLOAT) {
            double left[WEFT_INTERP_BLOCK], right[WEFT_INTERP_BLOCK];
            weft_interp_load_f64(a->dtype, a->data, start, n, left);
            weft_interp_load_f64(b->dtype, b->data, start, n, right);
            for (int64_t i = 0; i < n; i++) left[i] = f(left[i], right[i]);
            weft_interp_store_f64(y->dtype, y->data, start, n, left);
        } else {
            int64_t left[WEFT_INTERP_BLOCK], right[WEFT_INTERP_BLOCK];
            weft_interp_load_i64(a->dtype, a->data, start, n, left);
            weft_interp_load_i64(b->dtype, b->data, start, n, right);
            for (int64_t i = 0; i < n; i++) left[i] = g(left[i], right[i], a->dtype);
            weft_interp_store_i64(y->dtype, y->data, start, n, left);
        }
    }
    return NULL;
}

/* -- compare, select */

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

static int outcome_of(const weft_tensor *a, const weft_tensor *b, int64_t i) {
    switch (weft_interp_domain_of(a->dtype)) {
    case WEFT_DOMAIN_FLOAT: {
        double x = weft_element_double(a->dtype, a->data, i), y = weft_element_double(b->dtype, b->data, i);
        return x < y ? LESS : x == y ? EQUAL : x > y ? GREATER : UNORDERED;
    }
    case WEFT_DOMAIN_INTEGER: {
        int64_t x = weft_element_i64(a->dtype, a->data, i), y = weft_element_i64(b->dtype, b->data, i);
        return x == y ? EQUAL : weft_interp_less_i64(a->dtype, x, y) ? LESS : GREATER;
    }
    case WEFT_DOMAIN_COMPLEX: {
        weft_complex x = weft_interp_load_complex(a->dtype, a->data, i),
                     y = weft_interp_load_complex(b->dtype, b->data, i);
        return x.re == y.re && x.im == y.im ? EQUAL : UNORDERED;
    }
    }
    return UNORDERED;
}

weft_status weft_interpret_compare(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    static const struct {
        const char *name;
        int accepted;
    } directions[] = {{"eq", EQUAL},   {"ne", LESS | GREATER | UNORDERED},
                      {"lt", LESS},    {"le", LESS | EQUAL},
                      {"gt", GREATER}, {"ge", GREATER | EQUAL}};
    const char *direction = weft_node_string(node, WEFT_ATTR_direction, "");
    int accepted = 0;
    for (int i = 0; i < 6; i++)
        if (!strcmp(directions[i].name, direction)) accepted = directions[i].accepted;
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of compare");
    unsigned char *out = results[0]->data;
    for (int64_t i = 0; i < results[0]->element_count; i++)
        out[i] = (outcome_of(inputs[0], inputs[1], i) & accepted) != 0;
    return NULL;
}

weft_status weft_interpret_select(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                  weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of select");
    weft_tensor *y = results[0];
    int bits = weft_dtype_bits(y->dtype);
    size_t bytes = (size_t)bits / 8;
    for (int64_t i = 0; i < y->element_count; i++) {
        const weft_tensor *x = weft_element_i64(WEFT_BOOL, inputs[0]->data, i) ? inputs[1] : inputs[2];
        if (bits < 8)
            weft_element_set_bits(y->dtype, y->data, i, weft_element_bits(y->dtype, x->data, i));
        else
            memcpy((unsigned char *)y->data + (size_t)i * bytes, (const unsigned char *)x->data + (size_t)i * bytes,
                   bytes);
    }
    return NULL;
}

/* -- complex parts */

weft_status weft_interpret_complex(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of complex");
    for (int64_t i = 0; i < results[0]->element_count; i++)
        weft_interp_store_complex(results[0]->dtype, results[0]->data, i,
                                  (weft_complex){weft_element_double(inputs[0]->dtype, inputs[0]->data, i),
                                                 weft_element_double(inputs[1]->dtype, inputs[1]->data, i)});
    return NULL;
}

weft_status weft_interpret_real(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of %s", weft_op_get(node->op)->name);
    for (int64_t i = 0; i < results[0]->element_count; i++) {
        weft_complex v = weft_interp_load_complex(inputs[0]->dtype, inputs[0]->data, i);
        weft_element_set_double(results[0]->dtype, results[0]->data, i, node->op == WEFT_OP_real ? v.re : v.im);
    }
    return NULL;
}
