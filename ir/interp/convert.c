/* convert and bitcast. Every conversion rounds once: integers wider than a double's significand keep a sticky bit on
   their way into narrow floats. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

/* A double that rounds to any float of at most 50 significant bits as the integer itself would: the bits that do not
   fit are folded into the last kept one (rounding to odd; Boldo and Melquiond, 2008). */
static double double_to_odd(weft_dtype from, int64_t value) {
    bool negative = from != WEFT_U64 && value < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
    if (magnitude >> 53) magnitude = (magnitude >> 12 << 12) | (uint64_t)((magnitude & 4095) != 0) << 12;
    return negative ? -(double)magnitude : (double)magnitude;
}

static void integer_to_float(weft_dtype from, int64_t value, weft_dtype to, bool saturate, void *out, int64_t i) {
    if (to == WEFT_F64) {
        double wide = from == WEFT_U64 ? (double)(uint64_t)value : (double)value;
        memcpy((double *)out + i, &wide, sizeof wide);
    } else {
        weft_element_set_bits(to, out, i, weft_float_encode(to, double_to_odd(from, value), saturate));
    }
}

static void convert_one(const weft_tensor *x, weft_tensor *y, int64_t i, bool saturate) {
    weft_interp_domain from = weft_interp_domain_of(x->dtype), to = weft_interp_domain_of(y->dtype);
    if (to == WEFT_DOMAIN_COMPLEX) {
        weft_complex value = {0, 0};
        if (from == WEFT_DOMAIN_COMPLEX)
            value = weft_interp_load_complex(x->dtype, x->data, i);
        else
            value.re = weft_element_double(x->dtype, x->data, i);
        weft_interp_store_complex(y->dtype, y->data, i, value);
    } else if (from == WEFT_DOMAIN_FLOAT) {
        double value = weft_element_double(x->dtype, x->data, i);
        if (to == WEFT_DOMAIN_INTEGER) /* truncates and clamps; bool is value != 0 */
            weft_element_set_double(y->dtype, y->data, i, value);
        else
            weft_element_set_bits(y->dtype, y->data, i, weft_float_encode(y->dtype, value, saturate));
    } else {
        int64_t value = weft_element_i64(x->dtype, x->data, i);
        if (to == WEFT_DOMAIN_INTEGER)
            weft_element_set_i64(y->dtype, y->data, i, value);
        else
            integer_to_float(x->dtype, value, y->dtype, saturate, y->data, i);
    }
}

weft_status weft_interpret_convert(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of convert");
    /* saturate is a rule of 8-bit and 4-bit floats: wider ones overflow to infinity whatever it says. */
    bool saturate = weft_node_int(node, WEFT_ATTR_saturate, 0) && weft_dtype_bits(results[0]->dtype) <= 8;
    for (int64_t i = 0; i < results[0]->element_count; i++) convert_one(inputs[0], results[0], i, saturate);
    return NULL;
}

weft_status weft_interpret_bitcast(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of bitcast");
    memcpy(results[0]->data, inputs[0]->data, inputs[0]->bytes);
    return NULL;
}
