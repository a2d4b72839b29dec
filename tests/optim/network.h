/* The small network that optimizers train in the tests: mean((tanh(x w + b) - y)^2), parameters as states. */
#ifndef WEFT_TESTS_OPTIM_NETWORK_H
#define WEFT_TESTS_OPTIM_NETWORK_H

#include "tests/support/golden.h"
#include "weft/optim.h"

enum { PARAMETERS = 2 };
extern const char *const names[PARAMETERS];

typedef struct fixture {
    weft_context *context;
    weft_safetensors *file;
    weft_dtype dtype;
    weft_tensor *x, *y, *initial[PARAMETERS];
    weft_graph *g;
    weft_parameter p[PARAMETERS];
    weft_value *step, *rows, *before, *loss; /* rows [8, 5]: the input; before: x w + b */
} fixture;

/* square: the first 3 rows of w and columns of x. */
void network_begin(fixture *f, weft_dtype dtype, bool square);
void network_end(fixture *f);
/* Runs the steps; after each, state NAME + suffix is compared with CASE/NAME. */
void network_compare(fixture *f, const char *name, const char *suffix, double tolerance);
/* The same for one tensor of the data and one state. */
void network_compare_state(fixture *f, const char *golden, const char *state, double tolerance);

#endif
