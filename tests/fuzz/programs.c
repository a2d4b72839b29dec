/* Artifacts and program records, loaded and called on the null device: everything but native code. */
#include <stdlib.h>
#include <unistd.h>

#include "base/context.h"
#include "base/json.h"
#include "runtime/program.h"
#include "tests/fuzz/targets.h"
#include "weft/runtime.h"

enum { PORTS = 8, ELEMENTS_MAX = 1 << 16 };

/* One call with symbolic extents at 3; programs with large inputs are left out. */
static void call(weft_program *program) {
    weft_session *session = NULL;
    weft_tensor *inputs[PORTS] = {0}, *outputs[PORTS] = {0};
    int count = weft_program_input_count(program), output_count = weft_program_output_count(program);
    bool small = count <= PORTS && output_count <= PORTS;
    weft_status status = NULL;
    for (int i = 0; i < count && small && !status; i++) {
        weft_port_info info;
        int64_t elements = 1;
        weft_program_input(program, i, &info);
        for (int d = 0; d < info.rank && small; d++) {
            if (info.shape[d] < 0) info.shape[d] = 3;
            small = !__builtin_mul_overflow(elements, info.shape[d], &elements) && elements <= ELEMENTS_MAX;
        }
        if (small) status = weft_tensor_create(fuzz_context(), info.dtype, info.rank, info.shape, &inputs[i]);
    }
    if (small && !status) status = weft_session_create(program, &session);
    if (small && !status) status = weft_session_call(session, count, inputs, output_count, outputs);
    weft_status_release(status);
    for (int i = 0; i < PORTS; i++) weft_tensor_release(inputs[i]), weft_tensor_release(outputs[i]);
    weft_session_release(session);
}

void fuzz_artifact(const uint8_t *data, size_t bytes) {
    char path[64];
    weft_program *program;
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    options.device = "null";
    options.verify = bytes % 2;
    int fd = fuzz_file(data, bytes, path, sizeof path);
    weft_status status = weft_program_load(fuzz_context(), path, &options, &program);
    if ((status == NULL) != (program != NULL)) abort();
    if (program) call(program);
    weft_program_release(program);
    weft_status_release(status);
    close(fd);
}

/* The JSON of one program, as a manifest holds it; its checksum would keep a fuzzer out. */
void fuzz_program(const uint8_t *data, size_t bytes) {
    weft_arena arena;
    weft_json *json;
    weft_program_data *record = NULL;
    weft_program *program = NULL;
    weft_device *device = NULL;
    void *weights = NULL;
    weft_arena_init(fuzz_context()->allocator, &arena);
    weft_status status = weft_json_parse(&arena, (const char *)data, bytes, &json);
    if (!status) status = weft_program_read(&arena, json, &record);
    if (!status && record->weights_bytes <= ELEMENTS_MAX) {
        weights = calloc((size_t)record->weights_bytes + 1, 1);
        status = weft_device_open(fuzz_context(), "null", &device);
        weft_program_source source = {.data = record, .weights = weights, .code = {"null", data, bytes}};
        if (!status) status = weft_program_create(fuzz_context(), device, &source, &program);
        if (program) call(program);
        weft_program_release(program);
        weft_device_release(device);
    }
    if (record) weft_dim_table_release(record->dims);
    free(weights);
    weft_status_release(status);
    weft_arena_deinit(&arena);
}
