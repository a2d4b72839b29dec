/* What the files of the samples share: a sample, its inputs, its node. Read next: sample.c, sample_derived.c. */
#ifndef WEFT_TESTS_IR_SAMPLE_INTERNAL_H
#define WEFT_TESTS_IR_SAMPLE_INTERNAL_H

#include <stdio.h>

#include "tests/ir/sample.h"

typedef struct sample {
    weft_graph *graph;
    weft_op op;
    weft_dtype dtype;
    int variant;
    int rank; /* of the usual shape of the variant */
    weft_dim dims[3];
} sample;

static inline weft_value *input(sample *s, weft_dtype dtype, int rank, const weft_dim *dims) {
    char name[16];
    snprintf(name, sizeof name, "x%d", weft_graph_input_count(s->graph));
    return weft_graph_input(s->graph, name, dtype, rank, dims);
}
static inline weft_value *usual(sample *s, weft_dtype dtype) { return input(s, dtype, s->rank, s->dims); }

static inline weft_node *node(sample *s, int operand_count, weft_value *const *operands, int attribute_count,
                              const weft_attribute *attributes) {
    return weft_node_create(s->graph, s->op, operand_count, operands, attribute_count, attributes, 0, NULL);
}

static inline bool is_bool(weft_dtype d) { return d == WEFT_BOOL; }
static inline bool is_integer(weft_dtype d) { return weft_dtype_is_integer(d); }
static inline bool is_float(weft_dtype d) { return weft_dtype_is_float(d); }
static inline bool is_complex(weft_dtype d) { return d == WEFT_C64 || d == WEFT_C128; }
static inline bool is_number(weft_dtype d) { return is_integer(d) || is_float(d); }

/* sample_derived.c */
weft_node *weft_sample_softmax(sample *s);
weft_node *weft_sample_norm(sample *s);
weft_node *weft_sample_gelu(sample *s);
weft_node *weft_sample_attention(sample *s);
weft_node *weft_sample_rope(sample *s);
weft_node *weft_sample_cross_entropy(sample *s);

#endif
