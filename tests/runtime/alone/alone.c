/* A serving program: libweft-rt and nothing else. Loads an artifact, runs it once on zeros of extent 3 wherever a shape
   is symbolic, prints the first output's first element. Its stripped size is tested. */
#include <stdio.h>
#include <stdlib.h>

#include "weft/runtime.h"

enum { PORTS_MAX = 8 };

static weft_status run(weft_context *context, const char *path) {
    weft_program *program;
    weft_session *session;
    weft_tensor *inputs[PORTS_MAX] = {0}, *outputs[PORTS_MAX] = {0};
    WEFT_TRY(weft_program_load(context, path, NULL, &program), "alone");
    WEFT_TRY(weft_session_create(program, &session), "alone");
    int input_count = weft_program_input_count(program), output_count = weft_program_output_count(program);
    if (input_count > PORTS_MAX || output_count > PORTS_MAX || output_count < 1)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%d inputs, %d outputs", input_count, output_count);
    for (int i = 0; i < input_count; i++) {
        weft_port_info port;
        weft_program_input(program, i, &port);
        for (int k = 0; k < port.rank; k++)
            if (port.shape[k] < 0) port.shape[k] = 3;
        WEFT_TRY(weft_tensor_create(context, port.dtype, port.rank, port.shape, &inputs[i]), "input %s", port.name);
    }
    WEFT_TRY(weft_session_call(session, input_count, inputs, output_count, outputs), "alone");
    if (weft_tensor_dtype(outputs[0]) == WEFT_F32) printf("%g\n", (double)*(float *)weft_tensor_data(outputs[0]));
    for (int i = 0; i < PORTS_MAX; i++) {
        weft_tensor_release(inputs[i]);
        weft_tensor_release(outputs[i]);
    }
    weft_session_release(session);
    weft_program_release(program);
    return NULL;
}

int main(int count, char **arguments) {
    weft_context *context = NULL;
    weft_status status = weft_context_create(NULL, &context);
    if (!status)
        status = count == 2 ? run(context, arguments[1]) : WEFT_STATUS(WEFT_INVALID_ARGUMENT, "usage: alone FILE");
    char text[1024];
    if (status && weft_status_format(status, text, sizeof text)) fprintf(stderr, "%s\n", text);
    int code = status ? EXIT_FAILURE : EXIT_SUCCESS;
    weft_status_release(status);
    weft_context_release(context);
    return code;
}
