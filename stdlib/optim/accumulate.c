/* Gradients summed over parts of a batch in one loop, so that memory holds one part; the result is the gradient of the
   mean over all weights (tokens), whatever each part weighs. On the way: the squares that the noise scale asks for, and
   by it, on request, how many of the parts count. What does not count is not computed. Source of the noise scale:
   McCandlish et al. 2018, appendix A. */
#include "stdlib/optim/method.h"
#include "weft/transform.h"

typedef struct accumulation {
    weft_body body;
    void *self;
    int count; /* parameters */
    const weft_parameter *parameters;
    weft_value **values, **gradients; /* scratch: values of parameters, then the copies they are computed with */
    weft_value *active;               /* i64; NULL = all */
    weft_value *const *arguments;     /* of the loop's body at hand */
    int input_count, carry_count;
} accumulation;

/* Of parameter i: by its value and by its copy. */
static weft_value *gradient_of(weft_graph *g, const accumulation *p, int i) {
    weft_value *gradient = p->gradients[i];
    int copy = p->count;
    for (int j = 0; j < i; j++) copy += p->parameters[j].rounded != NULL;
    if (!p->parameters[i].rounded) return gradient;
    return weft_add(g, gradient, weft_convert(g, p->gradients[copy], weft_value_dtype(gradient)));
}

static int list_values(const accumulation *p) {
    int count = 0;
    for (int i = 0; i < p->count; i++) p->values[count++] = p->parameters[i].value;
    for (int i = 0; i < p->count; i++)
        if (p->parameters[i].rounded) p->values[count++] = p->parameters[i].rounded;
    return count;
}

/* Carries: a gradient per parameter, the sums of losses, weights and squares, the number of the part. Slices follow. */
static void compute(void *self, weft_graph *g, weft_value *const *unused, weft_value **results) {
    const accumulation *p = self;
    weft_value *const *old = p->arguments, *const *sums = old + p->count;
    weft_value *found[2] = {0}, *square = NULL;
    (void)unused;
    p->body(p->self, g, old + p->carry_count, found);
    weft_gradient(g, found[0], NULL, list_values(p), p->values, p->gradients);
    for (int i = 0; i < p->count; i++) {
        weft_value *gradient = gradient_of(g, p, i);
        results[i] = weft_add(g, old[i], gradient);
        weft_value *own = weft_reduce_sum(g, weft_square(g, gradient), 0, NULL, false);
        own = weft_convert(g, own, weft_value_dtype(sums[2]));
        square = square ? weft_add(g, square, own) : own;
    }
    weft_value *weight = weft_convert(g, found[1], weft_value_dtype(sums[1]));
    results[p->count] = weft_add(g, sums[0], weft_convert(g, found[0], weft_value_dtype(sums[0])));
    results[p->count + 1] = weft_add(g, sums[1], weight);
    results[p->count + 2] = weft_add(g, sums[2], weft_div(g, square, weft_square(g, weight)));
}

static void keep(void *self, weft_graph *g, weft_value *const *unused, weft_value **results) {
    const accumulation *p = self;
    (void)g, (void)unused;
    for (int i = 0; i < p->count + 3; i++) results[i] = p->arguments[i];
}

static void one_part(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    accumulation *p = self;
    weft_value *number = arguments[p->count + 3];
    p->arguments = arguments;
    if (p->active)
        weft_cond(g, weft_compare(g, WEFT_LT, number, p->active), compute, keep, p, p->count + 3, results);
    else
        compute(p, g, NULL, results);
    results[p->count + 3] = weft_add(g, number, weft_scalar_integer(g, WEFT_I64, 1));
}

static bool may_accumulate(weft_graph *g, int input_count, weft_value *const *inputs, weft_body body, int count,
                           const weft_parameter *parameters) {
    if (input_count > 0 && inputs && inputs[0] && body && count > 0 && parameters) return true;
    weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "accumulation needs inputs, a body and parameters"));
    return false;
}

static void run(weft_graph *g, accumulation *p, weft_value *const *inputs, weft_value **carries, weft_value **results) {
    for (int i = 0; i < p->count; i++) {
        const weft_value *value = p->parameters[i].value;
        weft_dim shape[WEFT_MAX_RANK];
        int rank = weft_value_rank(value);
        for (int a = 0; a < rank; a++) shape[a] = weft_value_dim(value, a);
        carries[i] = weft_full(g, weft_value_dtype(value), rank, shape, 0);
    }
    weft_dtype dtype = weft_value_dtype(p->parameters[0].value);
    for (int i = 0; i < 3; i++) carries[p->count + i] = weft_scalar(g, dtype, 0);
    carries[p->count + 3] = weft_scalar_integer(g, WEFT_I64, 0);
    weft_scan(g, p->carry_count, carries, p->input_count, inputs, weft_value_dim(inputs[0], 0), false, one_part, p, 0,
              results);
}

/* Sums become means: the gradients take their places, the mean loss is returned. */
static weft_value *finish(weft_graph *g, const accumulation *p, weft_parameter *parameters, weft_value *const *sums,
                          weft_value *part_count, weft_value **out_squares) {
    weft_value *weight = sums[p->count + 1], *square = NULL;
    weft_dtype dtype = weft_value_dtype(weight);
    for (int i = 0; i < p->count; i++) {
        weft_parameter *q = &parameters[i];
        q->gradient = weft_div(g, sums[i], weft_convert(g, weight, weft_value_dtype(q->value)));
        weft_value *own = weft_reduce_sum(g, weft_square(g, q->gradient), 0, NULL, false);
        own = weft_convert(g, own, dtype);
        square = square ? weft_add(g, square, own) : own;
    }
    if (out_squares) {
        out_squares[0] = weft_div(g, sums[p->count + 2], weft_convert(g, part_count, dtype));
        out_squares[1] = square;
    }
    return weft_div(g, sums[p->count], weight);
}

weft_value *weft_optim_accumulate(weft_graph *g, int input_count, weft_value *const *inputs, weft_value *active,
                                  weft_body body, void *self, int count, weft_parameter *parameters,
                                  weft_value **out_squares) {
    if (!may_accumulate(g, input_count, inputs, body, count, parameters)) return weft_scalar(g, WEFT_F32, 0);
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    size_t n = (size_t)count + 4;
    weft_value **memory = weft_arena_allocate(&arena, 6 * n * sizeof(weft_value *)), *mean;
    if (memory) {
        accumulation p = {.body = body, .self = self, .count = count, .parameters = parameters, .active = active};
        p.values = memory, p.gradients = memory + 2 * n, p.input_count = input_count, p.carry_count = count + 4;
        run(g, &p, inputs, memory + 4 * n, memory + 5 * n);
        weft_value *part_count = active ? active : weft_extent(g, weft_value_dim(inputs[0], 0));
        mean = finish(g, &p, parameters, memory + 5 * n, part_count, out_squares);
    } else {
        weft_graph_report(g, WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %d parameters", count));
        mean = weft_scalar(g, WEFT_F32, 0);
    }
    weft_arena_deinit(&arena);
    return mean;
}

/* -- the noise scale */

static weft_value *averaged(weft_graph *g, const char *name, weft_value *value, double momentum) {
    weft_graph_state_zeros(g, name, weft_value_dtype(value), 0, NULL);
    weft_value *average = weft_optim_average(g, weft_state_read(g, name), value, momentum);
    weft_state_update(g, name, average);
    return average;
}

weft_value *weft_optim_noise_scale(weft_graph *g, weft_value *const *squares, double part_examples, weft_value *parts,
                                   double momentum) {
    if (!squares || !parts || !(part_examples > 0)) {
        weft_graph_report(g,
                          WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a noise scale needs squares, parts and their examples"));
        return weft_scalar(g, WEFT_F32, 0);
    }
    weft_value *part = squares[0], *whole = squares[1], *count = weft_convert(g, parts, weft_value_dtype(whole));
    weft_value *rest = weft_add_number(g, count, -1);
    /* with b examples a part and B = n b: (B whole - b part) / (B - b), (part - whole) / (1 / b - 1 / B) */
    weft_value *signal = weft_div(g, weft_sub(g, weft_mul(g, whole, count), part), rest);
    weft_value *noise =
        weft_mul_number(g, weft_div(g, weft_mul(g, weft_sub(g, part, whole), count), rest), part_examples);
    /* both averages start at zero: the factor cancels in the ratio */
    return weft_div(g, averaged(g, "optim/noise", noise, momentum), averaged(g, "optim/signal", signal, momentum));
}

weft_value *weft_optim_parts(weft_graph *g, int64_t least) {
    weft_graph_state_zeros(g, "optim/parts", WEFT_I64, 0, NULL);
    return weft_max(g, weft_state_read(g, "optim/parts"), weft_scalar_integer(g, WEFT_I64, least > 2 ? least : 2));
}

void weft_optim_parts_adapt(weft_graph *g, weft_value *parts, weft_value *noise_scale, double part_examples,
                            int64_t most, weft_value *step, int64_t every) {
    if (!parts || !noise_scale || !step) {
        weft_graph_report(
            g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "adapting a batch needs parts, a noise scale and the step"));
        return;
    }
    weft_value *phase = weft_rem(g, step, weft_scalar_integer(g, WEFT_I64, every > 0 ? every : 1));
    weft_value *due = weft_compare(g, WEFT_EQ, phase, weft_scalar_integer(g, WEFT_I64, 0));
    weft_value *examples = weft_mul_number(g, weft_convert(g, parts, weft_value_dtype(noise_scale)), part_examples);
    weft_value *noisy = weft_compare(g, WEFT_GT, noise_scale, examples);
    weft_value *doubled = weft_min(g, weft_add(g, parts, parts), weft_scalar_integer(g, WEFT_I64, most));
    weft_state_update(g, "optim/parts", weft_where(g, weft_and(g, due, noisy), doubled, parts));
}
