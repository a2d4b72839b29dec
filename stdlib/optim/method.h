/* What optimizers share: one hook per row of WEFT_OPTIMIZERS, and the pieces that they are made of.

   A hook sees one parameter. Scalars that all parameters share are appended for each of them again: they are equal
   expressions, which the compiler computes once. Read next: optim.c, then a method: sgd.c, adam.c. */
#ifndef WEFT_STDLIB_OPTIM_METHOD_H
#define WEFT_STDLIB_OPTIM_METHOD_H

#include "weft/optim.h"

#include "base/arena.h"

/* Updates of states wait until every state is read: then no update stands between a read and another, and the groups of
   different parameters may share a launch. */
typedef struct weft_optim_update_entry {
    const char *name;
    weft_value *value;
    struct weft_optim_update_entry *next;
} weft_optim_update_entry;
typedef struct weft_optim_updates {
    weft_graph *g;
    weft_arena arena;
    weft_value *apply; /* bool scalar: false keeps what the states hold; NULL = true */
    weft_optim_update_entry *first, **end;
} weft_optim_updates;
void weft_optim_updates_begin(weft_graph *g, weft_optim_updates *out_updates);
void weft_optim_updates_add(weft_optim_updates *updates, const char *name, weft_value *value);
/* Appends them to the graph. */
void weft_optim_updates_end(weft_optim_updates *updates);

typedef struct weft_optim_pass {
    weft_graph *g;
    weft_optim_updates *updates;
    const weft_optim_options *o;
    weft_parameter *p;
    weft_dtype dtype;         /* of the parameter */
    weft_value *rate, *decay; /* with the parameter's scales, in its dtype; decay NULL = none */
    weft_value *step;         /* in its dtype */
    weft_value *shared[2];    /* what a method keeps from the first parameter to the last; NULL at first */
    weft_parameter *all;      /* of this update, p among them */
    int count;
} weft_optim_pass;

typedef void (*weft_optim_hook)(weft_optim_pass *pass);
#define X(id, name, beta1, beta2, beta3, epsilon, decoupled) void weft_optim_##name(weft_optim_pass *pass);
WEFT_OPTIMIZERS(X)
#undef X

/* State NAME/suffix of the parameter's shape; copied: it starts as the parameter does, else as zeros. */
weft_value *weft_optim_state(weft_optim_pass *pass, const char *suffix, bool copied);
/* A state of NAME/suffix without axes. */
weft_value *weft_optim_scalar_state(weft_optim_pass *pass, const char *suffix);
/* A state of NAME/suffix of its own shape, zeros at first. */
weft_value *weft_optim_shaped_state(weft_optim_pass *pass, const char *suffix, int rank, const int64_t *shape);
/* rate and decay for pass->p. */
void weft_optim_pass_rates(weft_optim_pass *pass);
/* The parameter's shape; returns its rank. */
int weft_optim_shape(const weft_optim_pass *pass, weft_dim *out_shape);
/* value - rate sqrt(1 - beta2^t) / (1 - beta1^t) direction, and the decay, when it is decoupled, of what that gives. */
weft_value *weft_optim_stepped(const weft_optim_pass *pass, weft_value *step, weft_value *direction);
/* [n, n] */
weft_value *weft_optim_identity(weft_graph *g, weft_dim n, weft_dtype dtype);
static inline weft_value *weft_optim_transposed(weft_graph *g, weft_value *x) { return weft_transpose(g, x, NULL); }
/* What NAME/suffix holds after this step. */
void weft_optim_state_set(weft_optim_pass *pass, const char *suffix, weft_value *value);
/* The gradient, with decay * value unless decay is decoupled. */
weft_value *weft_optim_gradient(weft_optim_pass *pass);
/* The parameter, shrunk by rate * decay if decay is decoupled. */
weft_value *weft_optim_decayed(weft_optim_pass *pass);
/* Writes the parameter, with a look-ahead step where options say so. */
void weft_optim_finish(weft_optim_pass *pass, weft_value *updated);
/* beta * old + (1 - beta) * new. */
weft_value *weft_optim_average(weft_graph *g, weft_value *old, weft_value *new_value, double beta);
/* 1 - beta^step. */
weft_value *weft_optim_correction(weft_optim_pass *pass, double beta);
/* The 2-norm of a value, a scalar. */
weft_value *weft_optim_norm(weft_graph *g, weft_value *x);

/* line_search.c: how far along a direction (one tensor a parameter; slope: its product with the gradients) the loss of
   the options meets the strong Wolfe conditions; `first`: the first trial. 0 where the direction leads nowhere. */
weft_value *weft_optim_line_search(weft_optim_pass *pass, weft_value *const *direction, weft_value *slope,
                                   weft_value *first);

#endif
