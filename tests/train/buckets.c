/* Sequences of different lengths: which ones an epoch has, rows and labels, resuming, padding, what is refused. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/train/small_run.h"

enum { COUNT = 203, ROWS = 6, COLUMNS = 40, PER_EPOCH = COUNT / ROWS };

static weft_context *context;
static weft_sequences *sequences;
static weft_tensor *tensors[3], *again[3];
static int64_t offsets[COUNT + 1], tokens[COUNT * COLUMNS], of_sequence[COUNT];

/* Sequence i has 1 + 17 i mod 37 tokens: 100 i, 100 i + 1, ... */
static void set_up(void) {
    require(weft_context_create(NULL, &context));
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t length = 1 + 17 * i % 37;
        for (int64_t j = 0; j < length; j++) tokens[offsets[i] + j] = 100 * i + j;
        offsets[i + 1] = offsets[i] + length;
        of_sequence[i] = 7 * i;
    }
    weft_sequence_source source = {COUNT, offsets, WEFT_I64, tokens, offsets[COUNT], NULL, NULL};
    require(weft_sequences_create(context, &source, &sequences));
    for (int i = 0; i < 3; i++) {
        require(weft_tensor_create(context, WEFT_I64, i < 2 ? 2 : 1, (int64_t[]){ROWS, COLUMNS}, &tensors[i]));
        require(weft_tensor_create(context, WEFT_I64, i < 2 ? 2 : 1, (int64_t[]){ROWS, COLUMNS}, &again[i]));
    }
}

static void tear_down(void) {
    for (int i = 0; i < 3; i++) weft_tensor_release(tensors[i]), weft_tensor_release(again[i]);
    weft_sequences_release(sequences);
    weft_context_release(context);
}

static void refused(weft_status status, int code) {
    ck_assert_int_eq((int)weft_status_code(status), code);
    weft_status_release(status);
}

/* Row `row` of the tensors is a whole sequence, its successors and padding. */
static int64_t check_row(int row) {
    const int64_t *x = (int64_t *)weft_tensor_data(tensors[0]) + row * COLUMNS;
    const int64_t *y = (int64_t *)weft_tensor_data(tensors[1]) + row * COLUMNS, sequence = x[0] / 100;
    int64_t length = ((int64_t *)weft_tensor_data(tensors[2]))[row];
    ck_assert(sequence >= 0 && sequence < COUNT);
    ck_assert_int_eq(length, 1 + 17 * sequence % 37);
    for (int64_t j = 0; j < COLUMNS; j++) {
        ck_assert_int_eq(x[j], j < length ? 100 * sequence + j : -5);
        ck_assert_int_eq(y[j], j + 1 < length ? 100 * sequence + j + 1 : -100);
    }
    return sequence;
}

static const int64_t windows[] = {0, 1, 5, 50, 1000}, buckets[] = {0, 1, 13, 60, 1000};

/* Every sequence once an epoch, less those that fill no batch; two epochs differ unless nothing is drawn. */
START_TEST(test_epochs) {
    int64_t order[2][PER_EPOCH * ROWS];
    weft_sequence_batches b = {sequences, 9, windows[_i / 5], buckets[_i % 5], 8, -5, -100, false, true};
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[COUNT] = {0}, visited = 0;
        for (int batch = 0; batch < PER_EPOCH; batch++) {
            int64_t length, longest = 0;
            require(weft_sequences_fill(&b, epoch * PER_EPOCH + batch, tensors));
            for (int row = 0; row < ROWS; row++) {
                int64_t sequence = order[epoch][batch * ROWS + row] = check_row(row), own = 1 + 17 * sequence % 37;
                if (own > longest) longest = own;
                seen[sequence]++;
            }
            require(weft_sequences_batch_length(&b, epoch * PER_EPOCH + batch, ROWS, COLUMNS, &length));
            ck_assert_int_eq(length, (longest + 7) / 8 * 8);
        }
        for (int i = 0; i < COUNT; i++) {
            ck_assert_int_le(seen[i], 1);
            visited += seen[i];
        }
        ck_assert_int_eq(visited, PER_EPOCH * ROWS);
    }
    bool drawn = b.window != 1 || b.bucket > ROWS;
    ck_assert((memcmp(order[0], order[1], sizeof order[0]) != 0) == drawn);
    for (int i = 0; !drawn && b.bucket == 0 && i < PER_EPOCH * ROWS; i++) ck_assert_int_eq(order[0][i], i);
}
END_TEST

/* A batch has the same bytes after others, backwards and from another object. */
START_TEST(test_resumed) {
    weft_sequences *fresh;
    weft_sequence_source source = {COUNT, offsets, WEFT_I64, tokens, offsets[COUNT], NULL, NULL};
    weft_sequence_batches b = {sequences, 9, windows[_i / 5], buckets[_i % 5], 8, -5, -100, false, true}, other = b;
    for (int batch = 3 * PER_EPOCH; batch-- > 0;) {
        if (batch % 7 == 0) {
            require(weft_sequences_create(context, &source, &fresh));
            other.sequences = fresh;
            require(weft_sequences_fill(&b, batch, tensors));
            require(weft_sequences_fill(&other, batch, again));
            for (int i = 0; i < 3; i++) {
                size_t bytes = sizeof(int64_t) * ROWS * (i < 2 ? COLUMNS : 1);
                ck_assert(memcmp(weft_tensor_data(tensors[i]), weft_tensor_data(again[i]), bytes) == 0);
            }
            weft_sequences_release(fresh);
        }
    }
}
END_TEST

typedef struct worker {
    weft_sequence_batches batches;
    weft_tensor *tensors[3];
    int64_t first;
    uint64_t sum[2 * PER_EPOCH];
} worker;

static void *work(void *argument) {
    worker *w = argument;
    for (int64_t i = 0; i < 2 * PER_EPOCH; i++) {
        int64_t batch = (w->first + i) % (2 * PER_EPOCH), *x = weft_tensor_data(w->tensors[0]);
        require(weft_sequences_fill(&w->batches, batch, w->tensors));
        for (int64_t j = 0; j < ROWS * COLUMNS; j++) w->sum[batch] = w->sum[batch] * 31 + (uint64_t)x[j];
    }
    return NULL;
}

/* One object filled from two threads at different batches, and in turn with other seeds and windows: the bytes of one
   that is filled alone. */
START_TEST(test_shared) {
    static worker workers[3];
    pthread_t threads[2];
    for (int i = 0; i < 3; i++) {
        workers[i].batches = (weft_sequence_batches){sequences, 9, 50, 30, 8, -5, -100, false, true};
        workers[i].first = 17 * i;
        memcpy(workers[i].tensors, i == 1 ? again : tensors, sizeof tensors);
    }
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    weft_sequence_batches other[] = {workers[2].batches, workers[2].batches};
    other[0].seed = 10, other[1].window = 60;
    for (int i = 0; i < 2; i++) {
        memset(workers[2].sum, 0, sizeof workers[2].sum);
        require(weft_sequences_fill(&other[i], 0, again)); /* forgets the group that work ends with */
        require(weft_sequences_fill(&other[i], workers[2].first, again));
        work(&workers[2]);
        ck_assert(memcmp(workers[0].sum, workers[2].sum, sizeof workers[0].sum) == 0);
    }
    ck_assert(memcmp(workers[0].sum, workers[1].sum, sizeof workers[0].sum) == 0);
}
END_TEST

/* Lines of a play: sorted by length they pad little, the more so the more are sorted together. */
START_TEST(test_padding) {
    enum { BYTES = 1200000, LINES = 50000 };
    FILE *file = fopen(WEFT_SOURCE_DIR "/tests/data/tinyshakespeare.txt", "rb");
    char *text = malloc(BYTES);
    int32_t *bytes = malloc(BYTES * sizeof *bytes);
    int64_t *lines = malloc((LINES + 1) * sizeof *lines), count = 0;
    ck_assert(file && text && bytes && lines);
    int64_t size = (int64_t)fread(text, 1, BYTES, file);
    fclose(file);
    lines[0] = 0;
    for (int64_t i = 0; i < size; i++) {
        bytes[i] = text[i];
        if (text[i] == '\n' && count < LINES) lines[++count] = i + 1;
    }
    weft_sequences *play;
    weft_sequence_source source = {count, lines, WEFT_I32, bytes, size, NULL, NULL};
    require(weft_sequences_create(context, &source, &play));
    weft_sequence_batches b = {play, 3, 0, 0, 1, 0, -1, false, false};
    double plain, some, all, coarse;
    require(weft_sequences_padding(&b, 0, 32, 128, &plain));
    b.bucket = 1024;
    require(weft_sequences_padding(&b, 0, 32, 128, &some));
    b.multiple = 8;
    require(weft_sequences_padding(&b, 0, 32, 128, &coarse));
    b.bucket = count, b.multiple = 1;
    require(weft_sequences_padding(&b, 0, 32, 128, &all));
    if (getenv("WEFT_TEST_PRINT")) printf("padding %.4f %.4f %.4f %.4f\n", plain, some, coarse, all);
    ck_assert(plain > 0.3 && some < 0.1 && all < 0.01 && all < some && some < coarse && coarse < 0.2);
    weft_tensor *x;
    require(weft_tensor_create(context, WEFT_I32, 2, (int64_t[]){ROWS, COLUMNS}, &x));
    b = (weft_sequence_batches){play, 0, 1, 0, 0, -2, -1, true, false};
    require(weft_sequences_fill(&b, 0, (weft_tensor *[]){x, tensors[1]}));
    const int32_t *row = weft_tensor_data(x);
    const int64_t *labels = weft_tensor_data(tensors[1]);
    for (int64_t i = 0; i < COLUMNS; i++) { /* the first line fits */
        ck_assert_int_eq(row[i], i < lines[1] ? text[i] : -2);
        ck_assert_int_eq(labels[i], i + 1 < lines[1] ? text[i + 1] : -1);
    }
    weft_tensor_release(x);
    weft_sequences_release(play);
    free(text), free(bytes), free(lines);
}
END_TEST

/* Cut sequences keep the successor of their last token; labels of tokens and of sequences. */
START_TEST(test_labels) {
    enum { SHORT = 4 };
    weft_tensor *x, *y, *z;
    require(weft_tensor_create(context, WEFT_I64, 2, (int64_t[]){ROWS, SHORT}, &x));
    require(weft_tensor_create(context, WEFT_I64, 2, (int64_t[]){ROWS, SHORT}, &y));
    require(weft_tensor_create(context, WEFT_I64, 1, (int64_t[]){ROWS}, &z));
    weft_sequence_batches b = {sequences, 0, 1, 0, 0, -5, -100, false, true};
    refused(weft_sequences_fill(&b, 0, (weft_tensor *[]){x, y, z}), WEFT_OUT_OF_RANGE);
    b.cut = true;
    require(weft_sequences_fill(&b, 0, (weft_tensor *[]){x, y, z}));
    ck_assert_int_eq(((int64_t *)weft_tensor_data(x))[SHORT + 3], 103);
    ck_assert_int_eq(((int64_t *)weft_tensor_data(y))[SHORT + 3], 104);
    ck_assert_int_eq(((int64_t *)weft_tensor_data(z))[1], SHORT);
    weft_sequence_source source = {COUNT, offsets, WEFT_I64, tokens, offsets[COUNT], tokens, NULL};
    require(weft_sequences_create(context, &source, &b.sequences));
    require(weft_sequences_fill(&b, 0, (weft_tensor *[]){x, y, z}));
    ck_assert_int_eq(((int64_t *)weft_tensor_data(y))[SHORT + 3], 103);
    ck_assert_int_eq(((int64_t *)weft_tensor_data(y))[1], -100); /* sequence 0 has one token */
    weft_sequences_release(b.sequences);
    source.token_labels = NULL, source.sequence_labels = of_sequence;
    require(weft_sequences_create(context, &source, &b.sequences));
    b.lengths = false;
    require(weft_sequences_fill(&b, 1, (weft_tensor *[]){x, z}));
    ck_assert_int_eq(((int64_t *)weft_tensor_data(z))[2], 7 * (ROWS + 2));
    refused(weft_sequences_fill(&b, 1, (weft_tensor *[]){x, y}), WEFT_INVALID_ARGUMENT);
    weft_sequences_release(b.sequences);
    weft_tensor_release(x), weft_tensor_release(y), weft_tensor_release(z);
}
END_TEST

START_TEST(test_refused) {
    weft_sequences *q;
    weft_tensor *narrow;
    int64_t falls[] = {0, 3, 2, 5}, leaves[] = {0, 3, 4, 9}, before[] = {-1, 3, 4, 5};
    weft_sequence_source source = {0, falls, WEFT_I64, tokens, 5, NULL, NULL};
    refused(weft_sequences_create(context, &source, &q), WEFT_INVALID_ARGUMENT);
    source.count = 3;
    refused(weft_sequences_create(context, &source, &q), WEFT_INVALID_DATA);
    source.offsets = leaves;
    refused(weft_sequences_create(context, &source, &q), WEFT_OUT_OF_RANGE);
    source.offsets = before;
    refused(weft_sequences_create(context, &source, &q), WEFT_OUT_OF_RANGE);
    source.offsets = offsets, source.token_count = offsets[3], source.dtype = WEFT_F32;
    refused(weft_sequences_create(context, &source, &q), WEFT_INVALID_ARGUMENT);
    source.dtype = WEFT_I64;
    source.token_labels = source.sequence_labels = tokens;
    refused(weft_sequences_create(context, &source, &q), WEFT_INVALID_ARGUMENT);
    source.token_labels = source.sequence_labels = NULL;
    require(weft_sequences_create(context, &source, &q));
    weft_sequence_batches b = {q, 0, 0, 4, 0, 0, -1, true, true};
    refused(weft_sequences_fill(&b, 0, tensors), WEFT_OUT_OF_RANGE); /* 3 sequences, 6 rows */
    weft_sequences_release(q);
    b.sequences = sequences;
    refused(weft_sequences_fill(&b, -1, tensors), WEFT_INVALID_ARGUMENT);
    require(weft_tensor_create(context, WEFT_I32, 2, (int64_t[]){ROWS, COLUMNS}, &narrow));
    refused(weft_sequences_fill(&b, 0, (weft_tensor *[]){narrow, tensors[1], tensors[2]}), WEFT_INVALID_ARGUMENT);
    refused(weft_sequences_fill(&b, 0, (weft_tensor *[]){tensors[0], tensors[1], NULL}), WEFT_INVALID_ARGUMENT);
    refused(weft_sequences_fill(&b, 0, (weft_tensor *[]){tensors[0], tensors[2], tensors[2]}), WEFT_INVALID_ARGUMENT);
    b.bucket = -1;
    refused(weft_sequences_fill(&b, 0, tensors), WEFT_INVALID_ARGUMENT);
    weft_tensor_release(narrow);
}
END_TEST

Suite *buckets_suite(void) {
    Suite *suite = suite_create("buckets");
    TCase *group = tcase_create("buckets");
    tcase_add_checked_fixture(group, set_up, tear_down);
    tcase_add_loop_test(group, test_epochs, 0, 25);
    tcase_add_loop_test(group, test_resumed, 0, 25);
    tcase_add_test(group, test_shared);
    tcase_add_test(group, test_padding);
    tcase_add_test(group, test_labels);
    tcase_add_test(group, test_refused);
    suite_add_tcase(suite, group);
    return suite;
}
