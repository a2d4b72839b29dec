/* Batches of sequences of different lengths. The order of an epoch is a permutation of places: place -> sequence by
   window (sequence_at), places -> rows of batches by group (find_rows). Invariant: both are functions of (seed, epoch),
   so that any batch is one of its number; the group that is remembered only saves sorting it again. Buckets: Khomenko,
   Shyshkov, Radyvonenko, Bokhan 2016, "Accelerating recurrent neural network training using sequence bucketing". Read
   next: loader.c. */
#include "weft/train.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/need.h"
#include "stdlib/random.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 }; /* rows looked up under the lock at a time */

typedef struct entry {
    int64_t length, place;
} entry;

/* What a sorted group belongs to. */
typedef struct group {
    uint64_t seed;
    int64_t window, epoch, first, count;
} group;

struct weft_sequences {
    weft_context *context;
    weft_sequence_source source;
    pthread_mutex_t lock; /* of what follows */
    group sorted;         /* count 0: none */
    entry *entries;       /* source.count */
};

static weft_status check_source(const weft_sequence_source *s) {
    if (s->count < 1) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%lld sequences", (long long)s->count);
    WEFT_NEED(s->offsets, "the offsets");
    WEFT_NEED_LIST(s->tokens, s->token_count, "the tokens");
    if (s->dtype != WEFT_I32 && s->dtype != WEFT_I64)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "tokens of sequences are i32 or i64");
    if (s->token_labels && s->sequence_labels)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "labels are those of tokens or those of sequences, not both");
    for (int64_t i = 0; i <= s->count; i++) {
        long long at = (long long)s->offsets[i];
        if (at < 0 || at > s->token_count)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "offset %lld is %lld, of %lld tokens", (long long)i, at,
                               (long long)s->token_count);
        if (i > 0 && at < s->offsets[i - 1])
            return WEFT_STATUS(WEFT_INVALID_DATA, "offset %lld falls from %lld to %lld", (long long)i,
                               (long long)s->offsets[i - 1], at);
    }
    return NULL;
}

weft_status weft_sequences_create(weft_context *context, const weft_sequence_source *source,
                                  weft_sequences **out_sequences) {
    WEFT_NEED(out_sequences, "out_sequences");
    *out_sequences = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(source, "the source");
    WEFT_TRY(check_source(source), "sequences");
    size_t bytes;
    if (!weft_size_multiply((size_t)source->count, sizeof(entry), &bytes))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%lld sequences", (long long)source->count);
    weft_sequences *q = weft_allocate(context->allocator, sizeof *q);
    entry *entries = weft_allocate(context->allocator, bytes);
    if (!q || !entries) {
        weft_free(context->allocator, q, sizeof *q);
        weft_free(context->allocator, entries, bytes);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the order of %lld sequences", (long long)source->count);
    }
    q->context = context, q->source = *source, q->entries = entries;
    (void)pthread_mutex_init(&q->lock, NULL);
    weft_context_retain(context);
    *out_sequences = q;
    return NULL;
}

void weft_sequences_release(weft_sequences *q) {
    if (!q) return;
    weft_context *context = q->context;
    (void)pthread_mutex_destroy(&q->lock);
    weft_free(context->allocator, q->entries, (size_t)q->source.count * sizeof(entry));
    weft_free(context->allocator, q, sizeof *q);
    weft_context_release(context);
}

/* -- the order of an epoch */

static int64_t length_of(const weft_sequence_source *s, int64_t i) { return s->offsets[i + 1] - s->offsets[i]; }

static int64_t sequence_at(const weft_sequence_batches *b, int64_t epoch, int64_t place) {
    int64_t count = b->sequences->source.count, window = b->window && b->window < count ? b->window : count;
    if (b->window == 1) return place;
    uint64_t stream = weft_draw_stream(b->seed, (uint64_t)epoch);
    int64_t start = weft_draw_below(&stream, count), first = place - place % window;
    int64_t size = count - first < window ? count - first : window;
    uint64_t key = weft_draw_stream(stream, (uint64_t)first);
    int64_t at = first + weft_draw_permuted(key, size, place - first);
    return at < count - start ? at + start : at - (count - start);
}

static int by_length(const void *left, const void *right) {
    const entry *a = left, *b = right;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Under the lock. */
static void sort_group(const weft_sequence_batches *b, group want) {
    weft_sequences *q = b->sequences;
    const group *g = &q->sorted;
    if (g->seed == want.seed && g->window == want.window && g->epoch == want.epoch && g->first == want.first &&
        g->count == want.count)
        return;
    for (int64_t i = 0; i < want.count; i++) {
        int64_t place = want.first + i;
        q->entries[i] = (entry){length_of(&q->source, sequence_at(b, want.epoch, place)), place};
    }
    qsort(q->entries, (size_t)want.count, sizeof(entry), by_length);
    q->sorted = want;
}

/* Sequences of rows [row, row + count) of a batch; count <= CHUNK. */
static void find_rows(const weft_sequence_batches *b, int64_t batch, int64_t rows, int64_t row, int64_t count,
                      int64_t *out_sequences) {
    int64_t per_epoch = b->sequences->source.count / rows, epoch = batch / per_epoch, number = batch % per_epoch;
    if (!b->bucket) {
        for (int64_t i = 0; i < count; i++) out_sequences[i] = sequence_at(b, epoch, number * rows + row + i);
        return;
    }
    int64_t span = b->bucket / rows + (b->bucket % rows != 0), first = number - number % span; /* in batches */
    int64_t size = per_epoch - first < span ? per_epoch - first : span;
    uint64_t key = weft_draw_stream(~weft_draw_stream(b->seed, (uint64_t)epoch), (uint64_t)first);
    int64_t at = weft_draw_permuted(key, size, number - first) * rows + row;
    weft_sequences *q = b->sequences;
    (void)pthread_mutex_lock(&q->lock);
    sort_group(b, (group){b->seed, b->window, epoch, first * rows, size * rows});
    for (int64_t i = 0; i < count; i++) out_sequences[i] = q->entries[at + i].place;
    (void)pthread_mutex_unlock(&q->lock);
    for (int64_t i = 0; i < count; i++) out_sequences[i] = sequence_at(b, epoch, out_sequences[i]);
}

static weft_status check_batches(const weft_sequence_batches *b, int64_t batch, int64_t rows) {
    WEFT_NEED(b && b->sequences, "the sequences");
    if (b->window < 0 || b->bucket < 0 || b->multiple < 0 || batch < 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "batch %lld of windows of %lld, buckets of %lld, multiples of %lld",
                           (long long)batch, (long long)b->window, (long long)b->bucket, (long long)b->multiple);
    int64_t count = b->sequences->source.count;
    if (rows < 1 || rows > count)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%lld sequences do not fill a batch of %lld", (long long)count,
                           (long long)rows);
    return NULL;
}

/* -- batches */

static weft_status too_long(const weft_sequence_batches *b, int64_t sequence, int64_t length_max) {
    if (b->cut || length_of(&b->sequences->source, sequence) <= length_max) return NULL;
    return WEFT_STATUS(WEFT_OUT_OF_RANGE, "sequence %lld has %lld tokens, a row %lld", (long long)sequence,
                       (long long)length_of(&b->sequences->source, sequence), (long long)length_max);
}

static bool is_batch(const weft_sequence_batches *b, weft_tensor *const *tensors) {
    const weft_sequence_source *s = &b->sequences->source;
    int label_rank = s->sequence_labels ? 1 : 2;
    for (int i = 0; i < (b->lengths ? 3 : 2); i++)
        if (!tensors[i]) return false;
    if (weft_tensor_rank(tensors[0]) != 2 || weft_tensor_dtype(tensors[0]) != s->dtype) return false;
    const int64_t *shape = weft_tensor_shape(tensors[0]);
    for (int i = 1; i < (b->lengths ? 3 : 2); i++) {
        int rank = i == 1 ? label_rank : 1;
        if (weft_tensor_rank(tensors[i]) != rank || weft_tensor_dtype(tensors[i]) != WEFT_I64) return false;
        const int64_t *own = weft_tensor_shape(tensors[i]);
        if (own[0] != shape[0] || (rank == 2 && own[1] != shape[1])) return false;
    }
    return true;
}

static void fill_tokens(const weft_sequence_batches *b, int64_t from, int64_t length, int64_t columns, void *row) {
    const weft_sequence_source *s = &b->sequences->source;
    size_t width = s->dtype == WEFT_I32 ? sizeof(int32_t) : sizeof(int64_t);
    if (length > 0) memcpy(row, (const char *)s->tokens + (size_t)from * width, (size_t)length * width);
    for (int64_t i = length; i < columns; i++) {
        if (s->dtype == WEFT_I32)
            ((int32_t *)row)[i] = (int32_t)b->pad;
        else
            ((int64_t *)row)[i] = b->pad;
    }
}

static void fill_labels(const weft_sequence_batches *b, int64_t from, int64_t to, int64_t columns, int64_t *row) {
    const weft_sequence_source *s = &b->sequences->source;
    for (int64_t i = 0; i < columns; i++) {
        int64_t at = from + i;
        row[i] = b->ignore;
        if (s->token_labels && i < to - from)
            row[i] = s->token_labels[at];
        else if (!s->token_labels && i + 1 < to - from)
            row[i] = s->dtype == WEFT_I32 ? ((const int32_t *)s->tokens)[at + 1] : ((const int64_t *)s->tokens)[at + 1];
    }
}

static void fill_row(const weft_sequence_batches *b, int64_t sequence, int64_t row, weft_tensor *const *tensors) {
    const weft_sequence_source *s = &b->sequences->source;
    int64_t columns = weft_tensor_shape(tensors[0])[1], from = s->offsets[sequence], to = s->offsets[sequence + 1];
    int64_t length = to - from < columns ? to - from : columns, *labels = weft_tensor_data(tensors[1]);
    size_t width = s->dtype == WEFT_I32 ? sizeof(int32_t) : sizeof(int64_t);
    fill_tokens(b, from, length, columns, (char *)weft_tensor_data(tensors[0]) + (size_t)(row * columns) * width);
    if (s->sequence_labels)
        labels[row] = s->sequence_labels[sequence];
    else
        fill_labels(b, from, to, columns, labels + row * columns);
    if (b->lengths) ((int64_t *)weft_tensor_data(tensors[2]))[row] = length;
}

weft_status weft_sequences_fill(void *self, int64_t batch, weft_tensor *const *tensors) {
    const weft_sequence_batches *b = self;
    WEFT_NEED(b && b->sequences, "the sequences");
    WEFT_NEED(tensors, "the tensors");
    const weft_sequence_source *s = &b->sequences->source;
    if (!is_batch(b, tensors))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "batches of sequences are %s [B, T], i64 %s%s",
                           s->dtype == WEFT_I32 ? "i32" : "i64", s->sequence_labels ? "[B]" : "[B, T]",
                           b->lengths ? " and i64 [B]" : "");
    int64_t rows = weft_tensor_shape(tensors[0])[0], columns = weft_tensor_shape(tensors[0])[1];
    WEFT_TRY(check_batches(b, batch, rows), "batches of sequences");
    if (s->dtype == WEFT_I32 && (b->pad < INT32_MIN || b->pad > INT32_MAX))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "padding %lld among tokens of i32", (long long)b->pad);
    for (int64_t row = 0; row < rows; row += CHUNK) {
        int64_t sequences[CHUNK], count = rows - row < CHUNK ? rows - row : CHUNK;
        find_rows(b, batch, rows, row, count, sequences);
        for (int64_t i = 0; i < count; i++) {
            WEFT_TRY(too_long(b, sequences[i], columns), "batch %lld", (long long)batch);
            fill_row(b, sequences[i], row + i, tensors);
        }
    }
    return NULL;
}

/* Length and tokens of a batch. */
static weft_status measure(const weft_sequence_batches *b, int64_t batch, int64_t rows, int64_t length_max,
                           int64_t *out_length, int64_t *out_tokens) {
    int64_t longest = 0, tokens = 0, multiple = b->multiple ? b->multiple : 1;
    for (int64_t row = 0; row < rows; row += CHUNK) {
        int64_t sequences[CHUNK], count = rows - row < CHUNK ? rows - row : CHUNK;
        find_rows(b, batch, rows, row, count, sequences);
        for (int64_t i = 0; i < count; i++) {
            WEFT_TRY(too_long(b, sequences[i], length_max), "batch %lld", (long long)batch);
            int64_t length = length_of(&b->sequences->source, sequences[i]);
            if (length > length_max) length = length_max;
            if (length > longest) longest = length;
            tokens += length;
        }
    }
    int64_t over = longest % multiple, more = over ? multiple - over : 0;
    *out_length = more > length_max - longest ? length_max : longest + more;
    *out_tokens = tokens;
    return NULL;
}

weft_status weft_sequences_batch_length(const weft_sequence_batches *b, int64_t batch, int64_t rows, int64_t length_max,
                                        int64_t *out_length) {
    int64_t tokens;
    WEFT_NEED(out_length, "out_length");
    *out_length = 0;
    WEFT_TRY(check_batches(b, batch, rows), "the length of a batch");
    return measure(b, batch, rows, length_max, out_length, &tokens);
}

weft_status weft_sequences_padding(const weft_sequence_batches *b, int64_t epoch, int64_t rows, int64_t length_max,
                                   double *out_share) {
    WEFT_NEED(out_share, "out_share");
    *out_share = 0;
    WEFT_TRY(check_batches(b, epoch, rows), "the padding of an epoch");
    int64_t per_epoch = b->sequences->source.count / rows;
    if (epoch > INT64_MAX / per_epoch - 1) return WEFT_STATUS(WEFT_OUT_OF_RANGE, "epoch %lld", (long long)epoch);
    double places = 0, tokens = 0;
    for (int64_t i = 0; i < per_epoch; i++) {
        int64_t length, own;
        WEFT_TRY(measure(b, epoch * per_epoch + i, rows, length_max, &length, &own), "the padding of an epoch");
        places += (double)length * (double)rows;
        tokens += (double)own;
    }
    if (places > 0) *out_share = 1 - tokens / places;
    return NULL;
}
