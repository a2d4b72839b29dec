/* From a case to what the browser is sent, and back to a verdict. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "compile/unit.h"
#include "ir/interpret.h"
#include "tests/webgpu/cases.h"

static void require(weft_status status, const char *name, const char *what) {
    if (!status) return;
    char text[4096];
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_abort_msg("%s: %s: %s", name, what, text);
}

static uint64_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double random_float(uint64_t *state, bool special) {
    static const double specials[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 1e30, -1e-30, 0.5, 65504, 448};
    if (special && random_next(state) % 4 == 0)
        return specials[random_next(state) % (sizeof specials / sizeof *specials)];
    return (double)(int64_t)(random_next(state) % 6001) / 1000 - 3;
}

static int64_t random_integer(uint64_t *state, weft_dtype dtype, bool special) {
    int bits = weft_dtype_bits(dtype);
    if (special && random_next(state) % 4 == 0) {
        uint64_t top = (uint64_t)1 << (bits - 1), values[] = {0, top, top - 1, ~(uint64_t)0, top + 1};
        return (int64_t)values[random_next(state) % 5];
    }
    if (special && bits > 32 && random_next(state) % 2 == 0)
        return (int64_t)(random_next(state) << (32 + random_next(state) % 2) ^ random_next(state)
                                                                                   << random_next(state) % 20);
    return (int64_t)(random_next(state) % 19) - (weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED ? 9 : 0);
}

static void fill(weft_tensor *tensor, uint64_t seed, bool special) {
    uint64_t state = seed * 77 + 5;
    for (int64_t i = 0; i < tensor->element_count; i++) {
        if (weft_dtype_is_float(tensor->dtype))
            weft_element_set_double(tensor->dtype, tensor->data, i, random_float(&state, special));
        else if (tensor->dtype == WEFT_BOOL)
            weft_element_set_i64(tensor->dtype, tensor->data, i, (int64_t)(random_next(&state) & 1));
        else
            weft_element_set_i64(tensor->dtype, tensor->data, i, random_integer(&state, tensor->dtype, special));
    }
}

/* Weights, then inputs at multiples of 64; the JSON says where. */
static void pack(web_case *c, const weft_unit *unit, weft_tensor *const *inputs, browser_case *out) {
    weft_text text;
    weft_text_init(c->context->allocator, &text);
    weft_text_append(&text, "{\"program\": ");
    weft_program_write(unit->program, &text);
    weft_text_append(&text, ", \"image\": ");
    weft_text_append_bytes(&text, unit->image, unit->image_bytes);
    weft_text_append(&text, ", \"inputs\": [");
    size_t at = ((size_t)unit->program->weights_bytes + 63) / 64 * 64, bytes = at;
    int count = weft_graph_input_count(c->graph);
    for (int i = 0; i < count; i++) bytes += (inputs[i]->bytes + 63) / 64 * 64;
    out->data = calloc(1, bytes + 1);
    ck_assert_ptr_nonnull(out->data);
    weft_unit_weights(unit, out->data);
    for (int i = 0; i < count; i++) {
        const char *name = weft_graph_input_name(c->graph, i);
        weft_text_append(&text, "%s{\"name\": ", i ? ", " : "");
        weft_text_append_quoted(&text, name, strlen(name));
        weft_text_append(&text, ", \"shape\": [");
        for (int k = 0; k < inputs[i]->rank; k++)
            weft_text_append(&text, "%s%lld", k ? ", " : "", (long long)inputs[i]->shape[k]);
        weft_text_append(&text, "], \"offset\": %zu, \"bytes\": %zu}", at, inputs[i]->bytes);
        memcpy((char *)out->data + at, inputs[i]->data, inputs[i]->bytes);
        at += (inputs[i]->bytes + 63) / 64 * 64;
    }
    weft_text_append(&text, "]}");
    if (getenv("WEFT_TEST_DUMP")) fprintf(stderr, "%s\n", weft_text_string(&text));
    out->data_bytes = at;
    out->text = strdup(weft_text_string(&text));
    weft_text_deinit(&text);
}

static char *take_text(weft_status status) {
    char text[4096];
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    return strdup(text);
}

/* Sums have as many terms as the largest input elements, which are products of two of them: cli/compare.c. */
static void widen(web_case *c, const weft_tensor *input) {
    c->terms = fmax(c->terms, (double)input->element_count);
    for (int64_t i = 0; weft_dtype_is_float(input->dtype) && i < input->element_count; i++) {
        double x = fabs(weft_element_double(input->dtype, input->data, i));
        if (isfinite(x)) c->scale = fmax(c->scale, x * x);
    }
}

void web_case_prepare(web_case *c, browser_case *out) {
    const weft_capability *capability = weft_capability_find("webgpu", c->arch);
    weft_tensor *inputs[WEB_INPUTS_MAX];
    int count = weft_graph_input_count(c->graph);
    *out = (browser_case){.name = c->name};
    ck_assert_int_le(count, WEB_INPUTS_MAX);
    require(weft_graph_verify(c->graph), c->name, "verify");
    for (int i = 0; i < count; i++) {
        const weft_type *type = &c->graph->body->block->arguments[i]->type;
        int64_t shape[WEFT_MAX_RANK];
        for (int k = 0; k < type->rank; k++)
            ck_assert(weft_dim_evaluate(c->graph->dims, type->dims[k], c->symbols, &shape[k]));
        require(weft_tensor_create(c->context, type->dtype, type->rank, shape, &inputs[i]), c->name, "input");
        fill(inputs[i], (uint64_t)i + 1, c->special);
        if (c->by_inputs) widen(c, inputs[i]);
    }
    weft_unit *unit = NULL;
    weft_status status = weft_interpret(c->graph, WEFT_INTERPRET_EXACT, count, inputs, c->output_count, c->expected);
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    if (!status) status = weft_unit_compile(c->graph, NULL, capability, &options, &unit);
    if (status)
        c->refusal = take_text(status);
    else
        pack(c, unit, inputs, out);
    weft_unit_release(unit);
    for (int i = 0; i < count; i++) weft_tensor_release(inputs[i]);
}

const char *web_page_compare(web_case *c, const browser_case *from, char *room, size_t bytes) {
    int32_t head[4];
    int64_t shape[4];
    weft_tensor *input;
    if (!from->result || from->result_bytes < sizeof head) return "no result came back";
    memcpy(head, from->result, sizeof head);
    for (int i = 0; i < 4; i++) shape[i] = head[i];
    require(weft_tensor_create(c->context, WEFT_F32, 4, shape, &input), c->name, "input");
    size_t skipped = sizeof head + input->bytes;
    if (from->result_bytes < skipped) return "too few bytes came back";
    memcpy(input->data, from->result + sizeof head, input->bytes);
    const float *pixels = input->data;
    bool dark = false;
    for (int64_t i = 0; i < input->element_count; i++) dark |= pixels[i] < 0;
    require(weft_interpret(c->graph, WEFT_INTERPRET_EXACT, 1, &input, 1, c->expected), c->name, "interpreting");
    weft_tensor_release(input);
    if (!dark || shape[3] <= 16) return "the page did not show the model the picture";
    browser_case rest = *from;
    rest.result += skipped;
    rest.result_bytes -= skipped;
    return web_case_compare(c, &rest, room, bytes);
}

const char *web_case_compare(const web_case *c, const browser_case *from, char *room, size_t bytes) {
    if (from->error) return from->error;
    if (!from->result) return "no result came back";
    const unsigned char *at = from->result, *end = at + from->result_bytes;
    for (int o = 0; o < c->output_count; o++) {
        const weft_tensor *want = c->expected[o];
        weft_dtype dtype = want->dtype;
        weft_tolerance tolerance = weft_tolerance_get(c->class[o], dtype, "webgpu");
        if ((size_t)(end - at) < want->bytes) return "too few bytes came back";
        double scale = c->scale;
        for (int64_t i = 0; c->by_inputs && weft_dtype_is_float(dtype) && i < want->element_count; i++) {
            double x = fabs(weft_element_double(dtype, want->data, i));
            if (isfinite(x)) scale = fmax(scale, x);
        }
        for (int64_t i = 0; i < want->element_count; i++) {
            bool close;
            double a = weft_element_double(dtype, want->data, i), b = weft_element_double(dtype, at, i);
            if (weft_dtype_is_float(dtype))
                close = weft_tolerance_close(tolerance, dtype, a, b, c->terms, scale);
            else
                close = weft_element_i64(dtype, want->data, i) == weft_element_i64(dtype, at, i);
            /* WGSL lets subnormal numbers be flushed */
            close |= dtype == WEFT_F32 && fabs(a) < 0x1p-126 && b == 0;
            if (close) continue;
            snprintf(room, bytes, "output %s element %lld: %.17g instead of %.17g", weft_graph_output_name(c->graph, o),
                     (long long)i, b, a);
            return room;
        }
        at += want->bytes;
    }
    return at == end ? NULL : "more bytes than outputs came back";
}
