/* A run of a small GPT on text, for tests of what surrounds steps: checkpoints, metrics, batches. */
#ifndef WEFT_TESTS_TRAIN_SMALL_RUN_H
#define WEFT_TESTS_TRAIN_SMALL_RUN_H

#include "tests/support/golden.h"
#include "tests/train/testing.h"
#include "weft/nn.h"
#include "weft/train.h"

enum { BATCH = 4, LENGTH = 8, ALL_STEPS = 24, EVERY = 5 };

typedef struct small_run {
    weft_context *context;
    weft_corpus *text;
    weft_graph *g;
    weft_parameters *p;
    weft_program *program;
    weft_session *session;
    weft_corpus_batches batches;
    weft_loader *loader;
    weft_train_options o;
} small_run;

/* folder NULL: no files. threads: of the loader; 0 = none yet, and no threads in the context: a fork may follow. */
void small_run_begin(small_run *r, const char *folder, int threads);
void small_run_begin_loader(small_run *r, int threads);
void small_run_end(small_run *r);
/* Every state, bit for bit. */
void same_states(small_run *a, small_run *b);
int count_files(const char *folder, const char *pattern);
void remove_folder(const char *folder);

#endif
