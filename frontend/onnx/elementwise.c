/* ONNX elementwise operators: one value per element, with numpy broadcasting since version 7.
   Read next: activation.c. Source: ONNX 1.22 operator specifications. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

typedef weft_value *(*unary_builder)(weft_graph *g, weft_value *x);
typedef weft_value *(*binary_builder)(weft_graph *g, weft_value *a, weft_value *b);

static const struct {
    const char *name;
    unary_builder build;
} unary_table[] = {
    {"Abs", weft_abs},      {"Neg", weft_neg},     {"Sign", weft_sign},        {"Ceil", weft_ceil},
    {"Floor", weft_floor},  {"Round", weft_round}, {"Exp", weft_exp},          {"Log", weft_log},
    {"Sqrt", weft_sqrt},    {"Sin", weft_sin},     {"Cos", weft_cos},          {"Tan", weft_tan},
    {"Asin", weft_asin},    {"Acos", weft_acos},   {"Atan", weft_atan},        {"Sinh", weft_sinh},
    {"Cosh", weft_cosh},    {"Asinh", weft_asinh}, {"Acosh", weft_acosh},      {"Atanh", weft_atanh},
    {"Tanh", weft_tanh},    {"Erf", weft_erf},     {"Not", weft_not},          {"BitwiseNot", weft_not},
    {"IsNaN", weft_is_nan}, {"Relu", weft_relu},   {"Sigmoid", weft_logistic}, {"Reciprocal", weft_reciprocal},
};

void weft_onnx_import_unary(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    for (size_t i = 0; i < sizeof unary_table / sizeof *unary_table; i++)
        if (strcmp(unary_table[i].name, node->proto->op_type) == 0)
            weft_onnx_output(node, 0, unary_table[i].build(node->graph, x));
}

void weft_onnx_import_identity(weft_onnx_node *node) {
    if (node->input_count < 1 || !node->inputs[0]) {
        weft_onnx_problem(node, "input 0 is missing");
        return;
    }
    if (node->output_count > 0) node->outputs[0] = node->inputs[0];
}

/* Before version 7 broadcasting was asked for: b's axes align with a's from `axis` on. */
static weft_value *align_old(weft_onnx_node *node, weft_value *a, weft_value *b) {
    if (node->version >= 7 || !weft_onnx_int(node, "broadcast", 0) || !weft_onnx_attribute(node, "axis")) return b;
    if (weft_value_is_poison(a) || weft_value_is_poison(b)) return b;
    int64_t axis = weft_onnx_int(node, "axis", 0);
    if (axis < 0) axis += a->type.rank;
    int64_t trailing = a->type.rank - axis - b->type.rank, axes[WEFT_MAX_RANK];
    if (axis < 0 || trailing < 0) {
        weft_onnx_problem(node, "axis %lld does not fit the operands", (long long)axis);
        return weft_value_poison(node->graph);
    }
    for (int i = 0; i < trailing; i++) axes[i] = b->type.rank + i;
    return trailing > 0 ? weft_unsqueeze(node->graph, b, (int)trailing, axes) : b;
}

static const struct {
    const char *name;
    binary_builder build;
} binary_table[] = {
    {"Add", weft_add}, {"Sub", weft_sub}, {"Mul", weft_mul},        {"Div", weft_div},      {"And", weft_and},
    {"Or", weft_or},   {"Xor", weft_xor}, {"BitwiseAnd", weft_and}, {"BitwiseOr", weft_or}, {"BitwiseXor", weft_xor},
};

void weft_onnx_import_binary(weft_onnx_node *node) {
    weft_value *a = weft_onnx_input(node, 0), *b = align_old(node, a, weft_onnx_input(node, 1));
    for (size_t i = 0; i < sizeof binary_table / sizeof *binary_table; i++)
        if (strcmp(binary_table[i].name, node->proto->op_type) == 0)
            weft_onnx_output(node, 0, binary_table[i].build(node->graph, a, b));
}

static const struct {
    const char *name;
    weft_comparison direction;
} compare_table[] = {
    {"Equal", WEFT_EQ}, {"Less", WEFT_LT}, {"LessOrEqual", WEFT_LE}, {"Greater", WEFT_GT}, {"GreaterOrEqual", WEFT_GE}};

void weft_onnx_import_compare(weft_onnx_node *node) {
    weft_value *a = weft_onnx_input(node, 0), *b = align_old(node, a, weft_onnx_input(node, 1));
    for (size_t i = 0; i < sizeof compare_table / sizeof *compare_table; i++)
        if (strcmp(compare_table[i].name, node->proto->op_type) == 0)
            weft_onnx_output(node, 0, weft_compare(node->graph, compare_table[i].direction, a, b));
}

/* Max, Min, Sum, Mean of any number of inputs. */
void weft_onnx_import_variadic(weft_onnx_node *node) {
    const char *name = node->proto->op_type;
    bool mean = strcmp(name, "Mean") == 0;
    binary_builder build = strcmp(name, "Max") == 0 ? weft_max : strcmp(name, "Min") == 0 ? weft_min : weft_add;
    weft_value *result = weft_onnx_input(node, 0);
    weft_dtype dtype = result->type.dtype;
    if (mean) result = weft_onnx_widen(node->graph, result);
    for (int i = 1; i < node->input_count; i++) {
        weft_value *next = weft_onnx_input(node, i);
        result = build(node->graph, result, mean ? weft_onnx_widen(node->graph, next) : next);
    }
    if (mean && !weft_value_is_poison(result))
        result = weft_convert(
            node->graph, weft_div(node->graph, result, weft_onnx_scalar_like(node->graph, result, node->input_count)),
            dtype);
    weft_onnx_output(node, 0, result);
}

void weft_onnx_import_where(weft_onnx_node *node) {
    weft_onnx_output(
        node, 0, weft_where(node->graph, weft_onnx_input(node, 0), weft_onnx_input(node, 1), weft_onnx_input(node, 2)));
}

void weft_onnx_import_mod(weft_onnx_node *node) {
    weft_value *a = weft_onnx_input(node, 0), *b = weft_onnx_input(node, 1);
    bool fmod_sign = weft_onnx_int(node, "fmod", 0) != 0;
    weft_onnx_output(node, 0, fmod_sign ? weft_rem(node->graph, a, b) : weft_mod(node->graph, a, b));
}

/* The result has the base's type; exponents of another type are converted, an integer base with a float exponent is
   computed in floats. */
void weft_onnx_import_pow(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *base = weft_onnx_input(node, 0), *exponent = align_old(node, base, weft_onnx_input(node, 1));
    if (weft_value_is_poison(base) || weft_value_is_poison(exponent)) return;
    weft_dtype type = base->type.dtype, exponent_type = exponent->type.dtype;
    if (type != exponent_type && weft_dtype_is_integer(type) && weft_dtype_is_float(exponent_type)) {
        weft_value *wide = weft_pow(g, weft_convert(g, base, WEFT_F64), weft_convert(g, exponent, WEFT_F64));
        weft_onnx_output(node, 0, weft_convert(g, wide, type));
        return;
    }
    weft_onnx_output(node, 0, weft_pow(g, base, weft_convert(g, exponent, type)));
}

void weft_onnx_import_bit_shift(weft_onnx_node *node) {
    weft_value *a = weft_onnx_input(node, 0), *b = weft_onnx_input(node, 1);
    if (weft_onnx_string_is(node, "direction", NULL, "LEFT"))
        weft_onnx_output(node, 0, weft_shift_left(node->graph, a, b));
    else if (weft_onnx_string_is(node, "direction", NULL, "RIGHT"))
        weft_onnx_output(node, 0, weft_shift_right_logical(node->graph, a, b));
    else
        weft_onnx_problem(node, "direction must be LEFT or RIGHT");
}

/* -- types */

/* Overflow of 8-bit floats saturates unless the attribute says otherwise. */
static weft_value *cast_to(weft_onnx_node *node, weft_value *x, weft_dtype dtype) {
    weft_graph *g = node->graph;
    if (weft_value_is_poison(x)) return x;
    bool narrow = weft_dtype_is_float(dtype) && weft_dtype_bits(dtype) <= 8;
    if (dtype == WEFT_F8E8M0FNU && weft_dtype_is_float(x->type.dtype) && x->type.dtype != dtype) {
        const char *mode = weft_onnx_string(node, "round_mode", "up");
        if (strcmp(mode, "nearest") != 0 && strcmp(mode, "up") != 0 && strcmp(mode, "down") != 0) {
            weft_onnx_problem(node, "round_mode %s is not up, down or nearest", mode);
            return weft_value_poison(g);
        }
        return weft_onnx_cast_e8m0(g, x, mode, weft_onnx_int(node, "saturate", 1) != 0);
    }
    /* below 8 bits out-of-range floats wrap, as the suite's reference does; the direct conversion would saturate */
    if (weft_dtype_is_integer(dtype) && weft_dtype_bits(dtype) < 8 && weft_dtype_is_float(x->type.dtype))
        x = weft_convert(g, x, WEFT_I32);
    if (narrow && weft_onnx_int(node, "saturate", 1)) return weft_convert_saturate(g, x, dtype);
    return weft_convert(g, x, dtype);
}

/* Powers of two: the exponent is the bits of |x| in f32 shifted down; up and nearest add to the fraction first. */
weft_value *weft_onnx_cast_e8m0(weft_graph *g, weft_value *x, const char *mode, bool saturate) {
    weft_value *wide = weft_convert(g, x, WEFT_F32), *bits = weft_bitcast(g, wide, WEFT_U32);
    bits = weft_and(g, bits, weft_scalar_integer(g, WEFT_U32, 0x7fffffff));
    int64_t rounding = mode[0] == 'u' ? 0x7fffff : mode[0] == 'n' ? 0x400000 : 0;
    weft_value *moved = weft_add(g, bits, weft_scalar_integer(g, WEFT_U32, rounding));
    weft_value *exponent = weft_shift_right_logical(g, moved, weft_scalar_integer(g, WEFT_U32, 23));
    exponent = weft_min(g, exponent, weft_scalar_integer(g, WEFT_U32, saturate ? 254 : 255));
    weft_value *nan = weft_compare(g, WEFT_GT, bits, weft_scalar_integer(g, WEFT_U32, 0x7f800000));
    exponent = weft_where(g, nan, weft_scalar_integer(g, WEFT_U32, 255), exponent);
    return weft_bitcast(g, weft_convert(g, exponent, WEFT_U8), WEFT_F8E8M0FNU);
}

void weft_onnx_import_cast(weft_onnx_node *node) {
    if (!weft_onnx_require(node, "to")) return;
    weft_dtype dtype = weft_onnx_dtype_attribute(node, "to", WEFT_F32);
    if (dtype != WEFT_INVALID) weft_onnx_output(node, 0, cast_to(node, weft_onnx_input(node, 0), dtype));
}

void weft_onnx_import_cast_like(weft_onnx_node *node) {
    weft_value *like = weft_onnx_input(node, 1);
    if (!weft_value_is_poison(like))
        weft_onnx_output(node, 0, cast_to(node, weft_onnx_input(node, 0), like->type.dtype));
}

void weft_onnx_import_bit_cast(weft_onnx_node *node) {
    if (!weft_onnx_require(node, "to")) return;
    weft_dtype dtype = weft_onnx_dtype_attribute(node, "to", WEFT_INVALID);
    weft_value *x = weft_onnx_input(node, 0);
    if (dtype == WEFT_BOOL || x->type.dtype == WEFT_BOOL) {
        /* bool is one byte of 0 or 1 on both sides */
        weft_dtype byte = dtype == WEFT_BOOL ? x->type.dtype : dtype;
        if (weft_dtype_bits(byte) != 8) weft_onnx_problem(node, "the types differ in width");
        weft_onnx_output(node, 0,
                         dtype == WEFT_BOOL
                             ? weft_convert(node->graph, weft_bitcast(node->graph, x, WEFT_U8), WEFT_BOOL)
                             : weft_bitcast(node->graph, weft_convert(node->graph, x, WEFT_U8), dtype));
        return;
    }
    if (dtype != WEFT_INVALID) weft_onnx_output(node, 0, weft_bitcast(node->graph, x, dtype));
}

void weft_onnx_import_is_inf(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    x = weft_onnx_widen(g, x);
    bool negative = weft_onnx_int(node, "detect_negative", 1) != 0,
         positive = weft_onnx_int(node, "detect_positive", 1) != 0;
    weft_value *high = weft_compare(g, WEFT_EQ, x, weft_onnx_scalar_like(g, x, INFINITY));
    weft_value *low = weft_compare(g, WEFT_EQ, x, weft_onnx_scalar_like(g, x, -INFINITY));
    if (negative && positive)
        weft_onnx_output(node, 0, weft_or(g, low, high));
    else if (negative || positive)
        weft_onnx_output(node, 0, negative ? low : high);
    else
        weft_onnx_output(node, 0, weft_full(g, WEFT_BOOL, x->type.rank, x->type.dims, 0));
}
