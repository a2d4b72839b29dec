/* A sentence embedding model built through the C API from its safetensors: all-MiniLM-L6-v2.
   embed_text model.safetensors --ids ids.npy --mask mask.npy --output out.npy: i64 [B, T] each; out f32 [B, 384].
   With --save FILE.weft the model is compiled to an artifact instead. */
#include <string.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/nn.h"
#include "weft/npy.h"

static const char *option(int count, char **arguments, const char *name) {
    for (int i = 2; i + 1 < count; i += 2)
        if (!strcmp(arguments[i], name)) return arguments[i + 1];
    return NULL;
}

int main(int count, char **arguments) {
    const char *ids_file = option(count, arguments, "--ids"), *mask_file = option(count, arguments, "--mask");
    const char *output_file = option(count, arguments, "--output"), *save = option(count, arguments, "--save");
    if (count < 2 || (!save && (!ids_file || !mask_file || !output_file))) {
        fprintf(stderr,
                "usage: embed_text model.safetensors --ids FILE --mask FILE --output FILE | --save FILE.weft\n");
        return 2;
    }
    weft_context *context;
    weft_safetensors *weights;
    weft_graph *g;
    check(weft_context_create(NULL, &context));
    check(weft_safetensors_open(context, arguments[1], &weights));
    check(weft_graph_create(context, "all-MiniLM-L6-v2", &g));
    weft_dim batch = weft_graph_symbol(g, "B", 1, 1024, 1), tokens = weft_graph_symbol(g, "T", 1, 512, 1);
    weft_value *ids = weft_graph_input(g, "ids", WEFT_I64, 2, (weft_dim[]){batch, tokens});
    weft_value *mask = weft_graph_input(g, "mask", WEFT_I64, 2, (weft_dim[]){batch, tokens});
    weft_nn_bert_options options = WEFT_NN_BERT_OPTIONS_INIT;
    options.layers = 6, options.heads = 12;
    weft_graph_output(g, "embedding", weft_nn_mean_pool(g, weft_nn_bert(g, weights, &options, ids, mask), mask));
    check(weft_graph_verify(g));
    if (save) {
        check(weft_compile_file(g, NULL, save));
    } else {
        weft_program *program;
        weft_session *session;
        weft_tensor *in[2], *out = NULL;
        check(weft_compile(g, NULL, &program));
        check(weft_session_create(program, &session));
        check(weft_npy_read(context, ids_file, &in[0]));
        check(weft_npy_read(context, mask_file, &in[1]));
        check(weft_session_call(session, 2, in, 1, &out));
        check(weft_npy_write(context, output_file, out));
        weft_tensor_release(out);
        for (int i = 0; i < 2; i++) weft_tensor_release(in[i]);
        weft_session_release(session);
        weft_program_release(program);
    }
    weft_graph_release(g);
    weft_safetensors_release(weights);
    weft_context_release(context);
    return 0;
}
