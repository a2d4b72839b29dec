/* The data of tests/golden and comparing with it: for tests of optimizers, losses and training. */
#ifndef WEFT_TESTS_SUPPORT_GOLDEN_H
#define WEFT_TESTS_SUPPORT_GOLDEN_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/safetensors.h"

enum { STEPS = 20 };

static inline void require(weft_status status) {
    char text[2048] = "";
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_assert_msg(!status, "%s", text);
}

/* All outputs of a graph, compiled for this CPU; the caller releases them. */
static inline void compile_and_run(weft_graph *g, int inputs, weft_tensor **in, weft_tensor **out) {
    weft_program *program;
    weft_session *session;
    require(weft_graph_verify(g));
    require(weft_compile(g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_call(session, inputs, in, weft_graph_output_count(g), out));
    weft_session_release(session);
    weft_program_release(program);
}

/* Opens tests/golden/data/NAME. */
static inline weft_safetensors *golden_open(weft_context *context, const char *name) {
    char path[512];
    weft_safetensors *file;
    snprintf(path, sizeof path, "%s/tests/golden/data/%s", WEFT_SOURCE_DIR, name);
    require(weft_safetensors_open(context, path, &file));
    return file;
}

static inline double element(const weft_tensor *tensor, int64_t index) {
    const void *data = weft_tensor_data(tensor);
    return weft_tensor_dtype(tensor) == WEFT_F64 ? ((const double *)data)[index] : (double)((const float *)data)[index];
}

/* A tensor of the file in dtype (WEFT_INVALID: as it is); the caller releases it. */
static inline weft_tensor *golden_tensor(weft_context *context, weft_safetensors *file, const char *name,
                                         weft_dtype dtype) {
    int index = weft_safetensors_find(file, name);
    weft_tensor *found, *copy;
    ck_assert_msg(index >= 0, "the golden data have no %s", name);
    require(weft_safetensors_get(file, index, &found));
    require(weft_tensor_create(context, dtype == WEFT_INVALID ? weft_tensor_dtype(found) : dtype,
                               weft_tensor_rank(found), weft_tensor_shape(found), &copy));
    if (dtype == WEFT_INVALID || dtype == weft_tensor_dtype(found)) {
        memcpy(weft_tensor_data(copy), weft_tensor_data(found), weft_tensor_bytes(found));
    } else {
        ck_assert(dtype == WEFT_F32 && weft_tensor_dtype(found) == WEFT_F64);
        for (int64_t i = 0; i < weft_tensor_element_count(found); i++)
            ((float *)weft_tensor_data(copy))[i] = (float)element(found, i);
    }
    weft_tensor_release(found);
    return copy;
}

/* Row `row` of a tensor's first axis, a copy. */
static inline weft_tensor *tensor_row(weft_context *context, const weft_tensor *tensor, int64_t row) {
    weft_tensor *copy;
    require(weft_tensor_create(context, weft_tensor_dtype(tensor), weft_tensor_rank(tensor) - 1,
                               weft_tensor_shape(tensor) + 1, &copy));
    size_t bytes = weft_tensor_bytes(copy);
    memcpy(weft_tensor_data(copy), (const char *)weft_tensor_data(tensor) + (size_t)row * bytes, bytes);
    return copy;
}

/* |a - b| / |b| over all elements. */
static inline double distance(const weft_tensor *a, const weft_tensor *b) {
    double difference = 0, norm = 0;
    ck_assert_int_eq(weft_tensor_element_count(a), weft_tensor_element_count(b));
    for (int64_t i = 0; i < weft_tensor_element_count(a); i++) {
        double d = element(a, i) - element(b, i), n = element(b, i);
        difference += d * d, norm += n * n;
    }
    return sqrt(difference) / (norm > 0 ? sqrt(norm) : 1);
}

#endif
