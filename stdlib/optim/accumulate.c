/* Gradients summed over parts of a batch in one loop, so that memory holds one part; the result is the gradient of the
   mean over all weights (tokens), whatever each part weighs. On the way: the squares that the noise scale asks for.
   Source of the noise scale: McCandlish et al. 2018, appendix A. */
#include "stdlib/optim/method.h"
#include "weft/transform.h"

typedef struct parts {
    weft_body body;
    void *self;
    int count; /* parameters */
    const weft_parameter *parameters;
    weft_value **values, **gradients; /* scratch, by parameter */
    int input_count;
} parts;

/* Carries: a gradient per parameter, the sums of losses, weights and squares. Slices follow. */
static void one_part(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const parts *p = self;
    weft_value *found[2] = {0}, *square = NULL;
    p->body(p->self, g, arguments + p->count + 3, found);
    weft_gradient(g, found[0], NULL, p->count, p->values, p->gradients);
    for (int i = 0; i < p->count; i++) {
        results[i] = weft_add(g, arguments[i], p->gradients[i]);
        weft_value *own = weft_convert(g, weft_reduce_sum(g, weft_square(g, p->gradients[i]), 0, NULL, false),
                                       weft_value_dtype(arguments[p->count + 2]));
        square = square ? weft_add(g, square, own) : own;
    }
    weft_value *const *sums = arguments + p->count;
    weft_value *weight = weft_convert(g, found[1], weft_value_dtype(sums[1]));
    results[p->count] = weft_add(g, sums[0], weft_convert(g, found[0], weft_value_dtype(sums[0])));
    results[p->count + 1] = weft_add(g, sums[1], weight);
    results[p->count + 2] = weft_add(g, sums[2], weft_div(g, square, weft_square(g, weight)));
}

static bool may_accumulate(weft_graph *g, int input_count, weft_value *const *inputs, weft_body body, int count,
                           const weft_parameter *parameters) {
    if (input_count > 0 && inputs && inputs[0] && body && count > 0 && parameters) return true;
    weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "accumulation needs inputs, a body and parameters"));
    return false;
}

static void run(weft_graph *g, parts *p, weft_value *const *inputs, weft_value **carries, weft_value **results) {
    for (int i = 0; i < p->count; i++) {
        p->values[i] = p->parameters[i].value;
        carries[i] = weft_mul_number(g, p->values[i], 0);
    }
    for (int i = 0; i < 3; i++) carries[p->count + i] = weft_scalar(g, weft_value_dtype(p->values[0]), 0);
    weft_scan(g, p->count + 3, carries, p->input_count, inputs, weft_value_dim(inputs[0], 0), false, one_part, p, 0,
              results);
}

weft_value *weft_optim_accumulate(weft_graph *g, int input_count, weft_value *const *inputs, weft_body body, void *self,
                                  int count, weft_parameter *parameters, weft_value **out_squares) {
    if (!may_accumulate(g, input_count, inputs, body, count, parameters)) return weft_scalar(g, WEFT_F32, 0);
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    size_t n = (size_t)count + 3;
    weft_value **memory = weft_arena_allocate(&arena, 4 * n * sizeof(weft_value *)), *mean = NULL;
    if (memory) {
        parts p = {body, self, count, parameters, memory, memory + n, input_count};
        weft_value **results = memory + 3 * n;
        run(g, &p, inputs, memory + 2 * n, results);
        weft_value *weight = results[count + 1], *square = NULL;
        for (int i = 0; i < count; i++) {
            weft_dtype dtype = weft_value_dtype(parameters[i].value);
            parameters[i].gradient = weft_div(g, results[i], weft_convert(g, weight, dtype));
            weft_value *own = weft_reduce_sum(g, weft_square(g, parameters[i].gradient), 0, NULL, false);
            own = weft_convert(g, own, weft_value_dtype(weight));
            square = square ? weft_add(g, square, own) : own;
        }
        weft_value *trips = weft_convert(g, weft_extent(g, weft_value_dim(inputs[0], 0)), weft_value_dtype(weight));
        if (out_squares) out_squares[0] = weft_div(g, results[count + 2], trips), out_squares[1] = square;
        mean = weft_div(g, results[count], weight);
    } else {
        weft_graph_report(g, WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %d parameters", count));
    }
    weft_arena_deinit(&arena);
    return mean ? mean : weft_scalar(g, WEFT_F32, 0);
}

static weft_value *averaged(weft_graph *g, const char *name, weft_value *value, double momentum) {
    weft_graph_state_zeros(g, name, weft_value_dtype(value), 0, NULL);
    weft_value *average = weft_optim_average(g, weft_state_read(g, name), value, momentum);
    weft_state_update(g, name, average);
    return average;
}

weft_value *weft_optim_noise_scale(weft_graph *g, weft_value *small_square, weft_value *large_square,
                                   double small_batch, double large_batch, double momentum) {
    if (!(small_batch > 0) || !(large_batch > small_batch)) {
        weft_graph_report(
            g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a noise scale from batches of %g and %g", small_batch, large_batch));
        return weft_scalar(g, WEFT_F32, 0);
    }
    weft_value *mixed =
        weft_sub(g, weft_mul_number(g, large_square, large_batch), weft_mul_number(g, small_square, small_batch));
    weft_value *signal = weft_mul_number(g, mixed, 1 / (large_batch - small_batch));
    weft_value *noise =
        weft_mul_number(g, weft_sub(g, small_square, large_square), 1 / (1 / small_batch - 1 / large_batch));
    /* both averages start at zero: the factor cancels in the ratio */
    return weft_div(g, averaged(g, "optim/noise", noise, momentum), averaged(g, "optim/signal", signal, momentum));
}
