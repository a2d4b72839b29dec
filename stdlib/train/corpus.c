/* Text, one token per byte. B pieces of T tokens and, for each token, the one that follows. */
#include "weft/train.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/file.h"
#include "base/need.h"
#include "stdlib/random.h"

#include <string.h>

struct weft_corpus {
    weft_context *context;
    weft_file file;
    int vocabulary;
    unsigned char token[256], symbol[256]; /* by byte, by token */
};

weft_status weft_corpus_open(weft_context *context, const char *path, weft_corpus **out_corpus) {
    WEFT_NEED(out_corpus, "out_corpus");
    *out_corpus = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    weft_corpus *t = weft_allocate(context->allocator, sizeof *t);
    if (!t) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for text %s", path);
    weft_status status = weft_file_map(path, &t->file);
    if (!status && t->file.bytes == 0) {
        weft_file_unmap(&t->file);
        status = WEFT_STATUS(WEFT_INVALID_DATA, "%s is empty", path);
    }
    if (status) {
        weft_free(context->allocator, t, sizeof *t);
        return weft_status_annotate(status, __FILE__, __LINE__, "opening text %s", path);
    }
    bool occurs[256] = {false};
    for (size_t i = 0; i < t->file.bytes; i++) occurs[((const unsigned char *)t->file.data)[i]] = true;
    for (int c = 0; c < 256; c++) {
        if (!occurs[c]) continue;
        t->token[c] = (unsigned char)t->vocabulary;
        t->symbol[t->vocabulary++] = (unsigned char)c;
    }
    t->context = context;
    weft_context_retain(context);
    *out_corpus = t;
    return NULL;
}

void weft_corpus_release(weft_corpus *t) {
    if (!t) return;
    weft_context *context = t->context;
    weft_file_unmap(&t->file);
    weft_free(context->allocator, t, sizeof *t);
    weft_context_release(context);
}

int64_t weft_corpus_count(const weft_corpus *t) { return t ? (int64_t)t->file.bytes : 0; }
int weft_corpus_vocabulary(const weft_corpus *t) { return t ? t->vocabulary : 0; }
unsigned char weft_corpus_symbol(const weft_corpus *t, int token) {
    return t && token >= 0 && token < t->vocabulary ? t->symbol[token] : 0;
}

static bool is_batch(weft_tensor *const *tensors) {
    for (int i = 0; i < 2; i++)
        if (weft_tensor_rank(tensors[i]) != 2 || weft_tensor_dtype(tensors[i]) != WEFT_I64) return false;
    const int64_t *a = weft_tensor_shape(tensors[0]), *b = weft_tensor_shape(tensors[1]);
    return a[0] == b[0] && a[1] == b[1];
}

weft_status weft_corpus_fill(void *self, int64_t batch, weft_tensor *const *tensors) {
    const weft_corpus_batches *s = self;
    WEFT_NEED(s && s->text, "the text");
    WEFT_NEED(tensors, "the tensors");
    if (!is_batch(tensors)) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "batches of text are two i64 tensors [B, T]");
    int64_t rows = weft_tensor_shape(tensors[0])[0], length = weft_tensor_shape(tensors[0])[1];
    int64_t places = s->to - s->from - length; /* where a piece and its successor may start */
    if (s->from < 0 || s->to > weft_corpus_count(s->text) || places <= 0)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "no piece of %lld tokens in [%lld, %lld) of %lld", (long long)length,
                           (long long)s->from, (long long)s->to, (long long)weft_corpus_count(s->text));
    const unsigned char *bytes = s->text->file.data;
    int64_t *x = weft_tensor_data(tensors[0]), *y = weft_tensor_data(tensors[1]);
    int64_t pieces = (places + length - 1) / length;
    uint64_t random = weft_draw_stream(s->seed, (uint64_t)batch);
    for (int64_t row = 0; row < rows; row++) {
        int64_t start = s->in_order ? (batch * rows + row) % pieces * length : weft_draw_below(&random, places);
        if (start >= places) start = places - 1;
        const unsigned char *at = bytes + s->from + start;
        for (int64_t i = 0; i < length; i++, x++, y++) *x = s->text->token[at[i]], *y = s->text->token[at[i + 1]];
    }
    return NULL;
}
