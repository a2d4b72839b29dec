/* See small_run.h. */
#include "tests/train/small_run.h"

#include <stdlib.h>

#include "weft/loss.h"

void small_run_begin_loader(small_run *r, int threads) {
    r->batches = (weft_corpus_batches){r->text, 0, weft_corpus_count(r->text), 7, false};
    weft_loader_options loading = WEFT_LOADER_OPTIONS_INIT;
    loading.thread_count = threads;
    require(weft_loader_create(r->context, r->program, weft_corpus_fill, &r->batches, &loading, &r->loader));
    r->o.loader = r->loader;
}

void small_run_begin(small_run *r, const char *folder, int threads) {
    *r = (small_run){.o = WEFT_TRAIN_OPTIONS_INIT};
    weft_context_options context = WEFT_CONTEXT_OPTIONS_INIT;
    if (threads == 0) context.thread_count = 1;
    require(weft_context_create(&context, &r->context));
    require(weft_corpus_open(r->context, WEFT_SOURCE_DIR "/tests/data/tinyshakespeare.txt", &r->text));
    require(weft_graph_create(r->context, "step", &r->g));
    require(weft_parameters_create(r->context, r->g, NULL, &r->p));
    weft_nn_gpt_options gpt = WEFT_NN_GPT_OPTIONS_INIT;
    gpt.layers = 1, gpt.heads = 2, gpt.width = 16, gpt.context = LENGTH;
    gpt.vocabulary = weft_corpus_vocabulary(r->text);
    weft_value *tokens = weft_graph_input(r->g, "tokens", WEFT_I64, 2, (weft_dim[]){BATCH, LENGTH});
    weft_value *next = weft_graph_input(r->g, "next", WEFT_I64, 2, (weft_dim[]){BATCH, LENGTH});
    weft_value *loss = weft_loss_cross_entropy(r->g, weft_nn_gpt(r->p, &gpt, tokens), next, NULL);
    weft_graph_output(r->g, "loss", loss);
    weft_parameters_gradient(r->p, loss);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    o.step = weft_optim_step(r->g);
    o.rate = weft_scalar(r->g, WEFT_F32, 0.01);
    weft_optim_update(r->g, &o, weft_parameters_count(r->p), weft_parameters_list(r->p));
    require(weft_compile(r->g, NULL, &r->program));
    require(weft_session_create(r->program, &r->session));
    if (threads > 0) small_run_begin_loader(r, threads);
    r->o.program = r->program, r->o.session = r->session;
    r->o.steps = ALL_STEPS, r->o.folder = folder, r->o.log_every = 1, r->o.checkpoint_every = EVERY;
    r->o.checkpoint_keep = 2, r->o.resume = true;
}

void small_run_end(small_run *r) {
    weft_loader_release(r->loader);
    weft_session_release(r->session);
    weft_program_release(r->program);
    weft_parameters_release(r->p);
    weft_graph_release(r->g);
    weft_corpus_release(r->text);
    weft_context_release(r->context);
}

void same_states(small_run *a, small_run *b) {
    for (int i = 0; i < weft_program_state_count(a->program); i++) {
        const char *name = weft_program_state_name(a->program, i);
        weft_tensor *x, *y;
        require(weft_session_read_state(a->session, name, &x));
        require(weft_session_read_state(b->session, name, &y));
        ck_assert_msg(!memcmp(weft_tensor_data(x), weft_tensor_data(y), weft_tensor_bytes(x)), "%s differs", name);
        weft_tensor_release(x);
        weft_tensor_release(y);
    }
}

int count_files(const char *folder, const char *pattern) {
    char command[1024], line[64] = "";
    snprintf(command, sizeof command, "ls %s | grep -c '%s'", folder, pattern);
    FILE *pipe = popen(command, "r");
    ck_assert(pipe && fgets(line, sizeof line, pipe));
    pclose(pipe);
    return atoi(line);
}

void remove_folder(const char *folder) {
    char command[1024];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}
