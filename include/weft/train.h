/* Training: batches from files, prefetched; a loop with evaluation, metrics and checkpoints; exact resume.

       weft_corpus_open(context, "shakespeare.txt", &text);
       weft_corpus_batches batches = {text, 0, weft_corpus_count(text) * 9 / 10, seed, false};
       weft_loader_create(context, program, weft_corpus_fill, &batches, NULL, &loader);
       weft_train_options o = WEFT_TRAIN_OPTIONS_INIT;
       o.program = program, o.session = session, o.loader = loader, o.steps = 2000, o.folder = "runs/a";
       weft_train(context, &o, &result);

   Every batch is a function of its number, so the number of the step is all that a checkpoint needs besides the states:
   a run that was killed and resumed gives the bits of one that was not. The library prints nothing; progress is a
   callback. Threading: objects are thread-compatible unless said otherwise. Ownership: borrowed objects must outlive
   the borrower. Errors: statuses; a file that is not what it should be is INVALID_DATA with what is wrong. */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "weft/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- batches */

/* Fills the tensors, one per input of a program, with batch `batch`. Called from several threads at once. */
typedef weft_status (*weft_batch_function)(void *self, int64_t batch, weft_tensor *const *tensors);

/* Prefetches batches in threads of its own. */
typedef struct weft_loader weft_loader;
typedef struct weft_loader_options {
    size_t struct_bytes;
    int thread_count;    /* default 1 */
    int prefetch;        /* batches ready ahead; default 4 */
    int64_t invalid_max; /* batches whose data are invalid (WEFT_INVALID_DATA) that may be replaced, each with a warning
                            in the log; default 0: the first one is an error. The batch that takes the place is a
                            function of the number, so runs still repeat */
} weft_loader_options;
#define WEFT_LOADER_OPTIONS_INIT {sizeof(weft_loader_options), 0, 0, 0}
/* The tensors have the dtypes and shapes of the program's inputs, which must be numbers. options may be NULL. `self` is
   borrowed. */
WEFT_API weft_status weft_loader_create(weft_context *context, const weft_program *program, weft_batch_function fill,
                                        void *self, const weft_loader_options *options,
                                        weft_loader **out_loader) WEFT_MUST_USE;
WEFT_API void weft_loader_release(weft_loader *loader);
/* How many replaced batches were handed out so far. */
WEFT_API int64_t weft_loader_invalid_count(weft_loader *loader);
/* Tensors of a batch, borrowed until the next call. Batches in sequence are ready; any other starts anew there. */
WEFT_API weft_status weft_loader_get(weft_loader *loader, int64_t batch,
                                     weft_tensor *const **out_tensors) WEFT_MUST_USE;

/* Text as one token per byte; the symbols that occur are numbered in byte order. Immutable, thread-safe. */
typedef struct weft_corpus weft_corpus;
WEFT_API weft_status weft_corpus_open(weft_context *context, const char *path, weft_corpus **out_corpus) WEFT_MUST_USE;
WEFT_API void weft_corpus_release(weft_corpus *text);
WEFT_API int64_t weft_corpus_count(const weft_corpus *text);
WEFT_API int weft_corpus_vocabulary(const weft_corpus *text);
WEFT_API unsigned char weft_corpus_symbol(const weft_corpus *text, int token);
/* For weft_corpus_fill: pieces of tokens [from, to) at random places; in_order: one after the other instead, from the
   start again at the end. */
typedef struct weft_corpus_batches {
    const weft_corpus *text;
    int64_t from, to;
    uint64_t seed;
    bool in_order;
} weft_corpus_batches;
/* tensors: i64 [B, T] tokens and i64 [B, T], each token's successor. self: weft_corpus_batches. */
WEFT_API weft_status weft_corpus_fill(void *self, int64_t batch, weft_tensor *const *tensors);

/* Images of bytes with labels. Immutable, thread-safe. */
typedef struct weft_images weft_images;
/* IDX files (MNIST and its relatives), uncompressed: one channel. */
WEFT_API weft_status weft_images_open_idx(weft_context *context, const char *images_path, const char *labels_path,
                                          weft_images **out_images) WEFT_MUST_USE;
/* The binary files of CIFAR-10, one behind the other: records of a label and three planes of 32 by 32. */
WEFT_API weft_status weft_images_open_cifar(weft_context *context, int count, const char *const *paths,
                                            weft_images **out_images) WEFT_MUST_USE;
/* WebDataset shards: tar files (plain, gzip, bzip2, xz) of NAME.jpg and NAME.cls, classes 0 to 255, all images of one
   size, gray or colour; decoded whole into memory, a byte an element. A damaged sample is an error that names it. By
   libarchive and libjpeg-turbo; UNSUPPORTED in builds without them. */
WEFT_API weft_status weft_images_open_shards(weft_context *context, int count, const char *const *paths,
                                             weft_images **out_images) WEFT_MUST_USE;
/* What a folder has of these, by the usual names: data_batch_1.bin to 5 (train) or test_batch.bin; else
   train-images-idx3-ubyte and train-labels-idx1-ubyte, or t10k-...; else train-00000.tar, or .tar.gz, and so on, or
   test-00000... */
WEFT_API weft_status weft_images_open_folder(weft_context *context, const char *folder, bool train,
                                             weft_images **out_images) WEFT_MUST_USE;
WEFT_API void weft_images_release(weft_images *images);
WEFT_API int64_t weft_images_count(const weft_images *images);
/* The largest label plus one. */
WEFT_API int weft_images_classes(const weft_images *images);
/* Channels, height, width. */
WEFT_API void weft_images_shape(const weft_images *images, int64_t out_shape[3]);
/* For weft_images_fill: every epoch visits each image once (what does not fill a batch is left out), in an order of its
   own with shuffle. */
typedef struct weft_image_batches {
    const weft_images *images;
    uint64_t seed;
    bool shuffle;
    float mean, deviation; /* of pixels in [0, 1]; deviation 0 = 1 */
    int64_t margin;        /* each image is shifted by up to so many pixels either way, drawn; the mean comes in */
    bool mirror;           /* half of the images, drawn, are seen from behind: left is right */
} weft_image_batches;
/* tensors: f32 [B, C, H, W] and i64 [B]. self: weft_image_batches. */
WEFT_API weft_status weft_images_fill(void *self, int64_t batch, weft_tensor *const *tensors);

/* Sequences of tokens of different lengths: sequence i is tokens [offsets[i], offsets[i + 1]); it may be empty. All
   arrays are borrowed. */
typedef struct weft_sequence_source {
    int64_t count;          /* of sequences, at least 1 */
    const int64_t *offsets; /* count + 1 */
    weft_dtype dtype;       /* of the tokens: WEFT_I32 or WEFT_I64 */
    const void *tokens;
    int64_t token_count;
    const int64_t *token_labels;    /* one per token, or NULL */
    const int64_t *sequence_labels; /* one per sequence, or NULL; neither: a token's label is its successor */
} weft_sequence_source;
/* Thread-safe. Remembers one group's order, under a lock: batches of other seeds or sizes are better filled from an
   object of their own. */
typedef struct weft_sequences weft_sequences;
/* No sequences, another dtype or both kinds of labels: INVALID_ARGUMENT; offsets that fall: INVALID_DATA; offsets that
   leave the tokens: OUT_OF_RANGE. */
WEFT_API weft_status weft_sequences_create(weft_context *context, const weft_sequence_source *source,
                                           weft_sequences **out_sequences) WEFT_MUST_USE;
WEFT_API void weft_sequences_release(weft_sequences *sequences);
/* For weft_sequences_fill. An epoch of count / B batches visits each sequence once, less the count % B that come last
   in its order, other ones in each epoch (with window 1 the source's last). The order: from a drawn sequence on, around
   the end, the source is cut into windows, and each is permuted. Then, with buckets, groups of that order are sorted by
   length and cut into batches, and each group's batches are permuted. */
typedef struct weft_sequence_batches {
    weft_sequences *sequences;
    uint64_t seed;
    int64_t window;   /* sequences shuffled together; 0 = all, 1 = the source's order from its start */
    int64_t bucket;   /* sequences sorted by length together, rounded up to whole batches; 0 = none are */
    int64_t multiple; /* a batch is as long as its longest sequence, rounded up to one of these, at most T; 0 = 1 */
    int64_t pad;      /* the token behind a sequence's end, up to T */
    int64_t ignore;   /* the label there, and that of a last token that has no successor */
    bool cut;         /* sequences longer than T lose their ends; otherwise they are OUT_OF_RANGE */
    bool lengths;     /* the third tensor is there */
} weft_sequence_batches;
/* tensors: [B, T] tokens of the source's dtype; i64 labels, [B, T], or [B] with sequence_labels; with lengths, i64 [B],
   tokens in each row. self: weft_sequence_batches. */
WEFT_API weft_status weft_sequences_fill(void *self, int64_t batch, weft_tensor *const *tensors);
/* How long a batch of `rows` sequences is (see multiple): columns from there to T are padding in every row. */
WEFT_API weft_status weft_sequences_batch_length(const weft_sequence_batches *batches, int64_t batch, int64_t rows,
                                                 int64_t length_max, int64_t *out_length) WEFT_MUST_USE;
/* The share of padding in an epoch's batches, each as long as weft_sequences_batch_length says; in [0, 1]. */
WEFT_API weft_status weft_sequences_padding(const weft_sequence_batches *batches, int64_t epoch, int64_t rows,
                                            int64_t length_max, double *out_share) WEFT_MUST_USE;

/* -- checkpoints: FOLDER/step-N.safetensors, all states, the step and a CRC of the states. A file appears complete and
   synced, or not; a damaged one is refused before any state changes. */

/* Writes one and removes all but the newest `keep` (0 = keeps all). */
WEFT_API weft_status weft_checkpoint_write(weft_context *context, const weft_program *program, weft_session *session,
                                           const char *folder, int64_t step, int keep) WEFT_MUST_USE;
/* Reads the newest into the session. *out_step: its step, 0 when there is none. A damaged newest one is an error. */
WEFT_API weft_status weft_checkpoint_read(weft_context *context, const weft_program *program, weft_session *session,
                                          const char *folder, int64_t *out_step) WEFT_MUST_USE;

/* -- the loop */

typedef struct weft_train_progress {
    int64_t step, steps; /* step: done so far */
    double loss;         /* of this step */
    double validation;   /* the latest; NaN = none yet */
    double seconds;      /* since the call began */
    double steps_per_second;
} weft_train_progress;

typedef struct weft_train_options {
    size_t struct_bytes;
    weft_program *program; /* one step; output 0 is the loss, further scalar outputs are metrics by their names */
    weft_session *session;
    weft_loader *loader;
    int64_t steps;
    /* Evaluation: a program whose states are among the other's; its outputs are averaged: 0 is the loss, further ones
       are metrics "validation_NAME". NULL = none. */
    weft_program *evaluation_program;
    weft_session *evaluation_session;
    weft_loader *evaluation_loader;
    int64_t evaluation_batches; /* default 1: batches 0, 1, ..., the same ones in every evaluation */
    int64_t evaluate_every;     /* steps; default: at the end only */
    const char *folder;         /* metrics.csv, metrics.jsonl, report.html and checkpoints; NULL = no files */
    int64_t log_every;          /* steps; default 10 */
    int64_t checkpoint_every;   /* steps; default: at the end only */
    int checkpoint_keep;        /* default 3 */
    bool resume;                /* goes on from the newest checkpoint in the folder */
    /* Called after each step; returning false ends the loop, with a checkpoint. May be NULL. */
    bool (*progress)(void *self, const weft_train_progress *progress);
    void *progress_self;
    bool evaluate_anew; /* each evaluation takes other batches: from number step * evaluation_batches on */
} weft_train_options;
#define WEFT_TRAIN_OPTIONS_INIT {sizeof(weft_train_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0, 0, false}

enum { WEFT_TRAIN_FURTHER_MAX = 8 };
typedef struct weft_train_result {
    int64_t first_step, steps; /* resumed after; done in all */
    double loss, validation;   /* the last ones; validation NaN = none */
    double seconds;
    double best_validation; /* the least of this call's evaluations, and the step it followed; NaN and 0 = none */
    int64_t best_step;
    double further[WEFT_TRAIN_FURTHER_MAX]; /* of the last evaluation: means of its outputs 1, 2, ...; NaN = none */
} weft_train_result;
/* A loss that is not finite ends the loop with OUT_OF_RANGE and the step. */
WEFT_API weft_status weft_train(weft_context *context, const weft_train_options *options,
                                weft_train_result *out_result) WEFT_MUST_USE;

/* A range test: `steps` steps of a program whose rate grows (a schedule WEFT_SCHEDULE_EXPONENTIAL from 1e-7 to 10, say)
   and is its output "rate". rates, losses: places for `steps` numbers; losses are averages with momentum 0.98. It ends
   early when the loss is four times its least. *out_rate: where the loss falls fastest; NaN when there are too few
   steps to say. The session is of no use afterwards. */
WEFT_API weft_status weft_train_find_rate(weft_program *program, weft_session *session, weft_loader *loader,
                                          int64_t steps, double *rates, double *losses, int64_t *out_count,
                                          double *out_rate) WEFT_MUST_USE;
/* The rate where losses fall fastest, the first 10 and the last one left out; NaN: too few. */
WEFT_API double weft_train_suggest_rate(int64_t count, const double *rates, const double *losses);

/* One page with a curve for each column of a metrics.csv. */
WEFT_API weft_status weft_train_report(weft_context *context, const char *csv_path,
                                       const char *html_path) WEFT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
