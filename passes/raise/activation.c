/* gelu spelled out:
     erf form:  x * 0.5 * (1 + erf(x / sqrt(2)))
     tanh form: x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), also with x (1 + 0.044715 x^2) inside
   and silu: x * logistic(x). Factors in any order, numbers anywhere in the product. */
#include "passes/raise/match.h"
#include "passes/raise/raisers.h"

static weft_node *producer(const weft_value *value, weft_op op) {
    return value->node && value->node->op == op ? value->node : NULL;
}

/* The other operand of value = 1 + other; NULL when it is not that. */
static weft_value *one_plus(const weft_value *value) {
    double number;
    weft_node *add = producer(value, WEFT_OP_add);
    for (int i = 0; add && i < 2; i++)
        if (weft_match_number(add->operands[i], &number) && number == 1) return add->operands[1 - i];
    return NULL;
}

/* value = number * x^power, x^3 also as pow(x, 3). */
static bool is_monomial(weft_value *value, const weft_value *x, double number, int power) {
    weft_match_product product;
    double exponent;
    if (!weft_match_factors(value, &product) || !weft_match_near(x->type.dtype, product.number, number)) return false;
    int found = weft_match_count(&product, x), others = product.count - found;
    for (int i = 0; i < product.count; i++) {
        weft_node *pow = producer(product.factors[i], WEFT_OP_pow);
        weft_node *square = producer(product.factors[i], WEFT_OP_mul);
        if (pow && pow->operands[0] == x && weft_match_number(pow->operands[1], &exponent) &&
            exponent == (int)exponent) {
            found += (int)exponent;
            others--;
        } else if (square && square->operands[0] == x && square->operands[1] == x) { /* shared x * x */
            found += 2;
            others--;
        }
    }
    return others == 0 && found == power;
}

/* sqrt(2 / pi) * (x + 0.044715 x^3) */
static bool is_tanh_argument(weft_value *value, weft_value *x) {
    weft_match_product product;
    if (!weft_match_factors(value, &product) || !weft_match_near(x->type.dtype, product.number, 0.7978845608028654))
        return false;
    if (product.count == 2 && weft_match_count(&product, x) == 1) { /* x * (1 + 0.044715 x^2) */
        weft_value *inner = one_plus(product.factors[product.factors[0] == x ? 1 : 0]);
        return inner && is_monomial(inner, x, 0.044715, 2);
    }
    weft_node *add = product.count == 1 ? producer(product.factors[0], WEFT_OP_add) : NULL;
    for (int i = 0; add && i < 2; i++)
        if (add->operands[i] == x && is_monomial(add->operands[1 - i], x, 0.044715, 3)) return true;
    return false;
}

weft_value *weft_raise_gelu(weft_graph *graph, weft_node *node) {
    weft_match_product product;
    weft_dtype dtype = node->results[0].type.dtype;
    if (node->op != WEFT_OP_mul || !weft_dtype_is_float(dtype)) return NULL;
    if (!weft_match_factors(&node->results[0], &product) || product.count != 2) return NULL;
    if (!weft_match_near(dtype, product.number, 0.5)) return NULL;
    for (int i = 0; i < 2; i++) {
        weft_value *x = product.factors[1 - i], *inner = one_plus(product.factors[i]);
        if (!inner) continue;
        weft_node *erf = producer(inner, WEFT_OP_erf), *tanh = producer(inner, WEFT_OP_tanh);
        bool matched = (erf && is_monomial(erf->operands[0], x, 0.7071067811865476, 1)) ||
                       (tanh && is_tanh_argument(tanh->operands[0], x));
        if (!matched) continue;
        weft_attribute approximate = weft_attr_string(WEFT_ATTR_approximate, erf ? "none" : "tanh");
        return weft_build(graph, WEFT_OP_gelu, 1, &x, 1, &approximate);
    }
    return NULL;
}

weft_value *weft_raise_silu(weft_graph *graph, weft_node *node) {
    if (node->op != WEFT_OP_mul) return NULL;
    for (int i = 0; i < 2; i++) {
        weft_node *gate = producer(node->operands[i], WEFT_OP_logistic);
        weft_value *x = node->operands[1 - i];
        if (gate && gate->operands[0] == x) return weft_build(graph, WEFT_OP_silu, 1, &x, 0, NULL);
    }
    return NULL;
}
