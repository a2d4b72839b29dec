/* Graphs whose inputs and only output have a batch as axis 0, and nothing that mixes its rows. Read next: main.c. */
#ifndef WEFT_TESTS_INVARIANCE_CASES_H
#define WEFT_TESTS_INVARIANCE_CASES_H

#include "weft/graph.h"

enum { CASE_INPUTS_MAX = 3 };

typedef struct invariance_case {
    const char *name;
    /* Adds inputs, `batch` rows each, and the output; NULL: the graph has recorded a problem. */
    void (*build)(weft_graph *g, weft_dim batch);
    bool portable; /* small enough for a card in software */
} invariance_case;

extern const invariance_case invariance_cases[];
extern const int invariance_case_count;

#endif
