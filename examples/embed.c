/* Run an artifact with libweft-rt alone: embed model.weft --input NAME=FILE.npy ... --output NAME=FILE.npy ... */
#include <string.h>

#include "common.h"
#include "weft/npy.h"
#include "weft/runtime.h"

enum { PORTS_MAX = 32 };

typedef struct port {
    weft_port_info info;
    const char *file; /* NULL = not given */
    weft_tensor *tensor;
} port;

/* "NAME=FILE" for one of the ports. */
static void assign(port *ports, int count, const char *text) {
    const char *equals = strchr(text, '=');
    for (int i = 0; equals && i < count; i++)
        if (strlen(ports[i].info.name) == (size_t)(equals - text) &&
            !strncmp(ports[i].info.name, text, (size_t)(equals - text))) {
            ports[i].file = equals + 1;
            return;
        }
    fprintf(stderr, "\"%s\" names no port of the model\n", text);
    exit(2);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: embed model.weft --input NAME=FILE.npy ... --output NAME=FILE.npy ...\n");
        return 2;
    }
    static port inputs[PORTS_MAX], outputs[PORTS_MAX];
    weft_context *context;
    weft_program *program;
    weft_session *session;
    check(weft_context_create(NULL, &context));
    check(weft_program_load(context, arguments[1], NULL, &program));
    check(weft_session_create(program, &session));
    int input_count = weft_program_input_count(program), output_count = weft_program_output_count(program);
    if (input_count > PORTS_MAX || output_count > PORTS_MAX) return 1;
    for (int i = 0; i < input_count; i++) weft_program_input(program, i, &inputs[i].info);
    for (int i = 0; i < output_count; i++) weft_program_output(program, i, &outputs[i].info);
    for (int i = 2; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--input"))
            assign(inputs, input_count, arguments[i + 1]);
        else if (!strcmp(arguments[i], "--output"))
            assign(outputs, output_count, arguments[i + 1]);
        else
            return fprintf(stderr, "unknown option %s\n", arguments[i]), 2;
    }

    weft_tensor *given[PORTS_MAX] = {0}, *made[PORTS_MAX] = {0};
    for (int i = 0; i < input_count; i++) {
        if (!inputs[i].file) return fprintf(stderr, "input %s is missing\n", inputs[i].info.name), 2;
        check(weft_npy_read(context, inputs[i].file, &given[i]));
    }
    check(weft_session_call(session, input_count, given, output_count, made));
    for (int i = 0; i < output_count; i++)
        if (outputs[i].file) check(weft_npy_write(context, outputs[i].file, made[i]));

    for (int i = 0; i < input_count; i++) weft_tensor_release(given[i]);
    for (int i = 0; i < output_count; i++) weft_tensor_release(made[i]);
    weft_session_release(session);
    weft_program_release(program);
    weft_context_release(context);
    return 0;
}
