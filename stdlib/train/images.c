/* Images with labels from IDX files: big-endian magic 0x0000TTRR (type, rank), extents of 32 bits, elements. Here u8
   [N, H, W] and u8 [N]. Source: LeCun, Cortes, Burges, the format note of the MNIST database. */
#include "weft/train.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/file.h"
#include "base/need.h"
#include "stdlib/random.h"

enum { IDX_U8 = 0x08 };

typedef struct idx {
    weft_file file;
    const unsigned char *elements;
    int64_t shape[3];
} idx;

struct weft_images {
    weft_context *context;
    idx pixels, labels;
};

static int64_t big_endian(const unsigned char *at) {
    return (int64_t)at[0] << 24 | (int64_t)at[1] << 16 | (int64_t)at[2] << 8 | at[3];
}

static weft_status check_idx(idx *f, const char *path, int rank) {
    const unsigned char *at = f->file.data;
    size_t header = 4 + 4 * (size_t)rank;
    if (f->file.bytes < header || at[0] || at[1] || at[2] != IDX_U8 || at[3] != rank)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s is no IDX file of bytes with %d axes", path, rank);
    size_t count = 1;
    for (int i = 0; i < rank; i++) {
        f->shape[i] = big_endian(at + 4 + 4 * i);
        if (!weft_size_multiply(count, (size_t)f->shape[i], &count))
            return WEFT_STATUS(WEFT_INVALID_DATA, "%s: its extents overflow", path);
    }
    if (f->file.bytes - header != count)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s has %zu bytes of elements, not %zu", path, f->file.bytes - header,
                           count);
    f->elements = at + header;
    return NULL;
}

static weft_status open_idx(const char *path, int rank, idx *f) {
    WEFT_TRY(weft_file_map(path, &f->file), "opening %s", path);
    return check_idx(f, path, rank);
}

weft_status weft_images_open_idx(weft_context *context, const char *images_path, const char *labels_path,
                                 weft_images **out_images) {
    WEFT_NEED(out_images, "out_images");
    *out_images = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(images_path && labels_path, "a path");
    weft_images *images = weft_allocate(context->allocator, sizeof *images);
    if (!images) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for images %s", images_path);
    images->context = context;
    weft_context_retain(context);
    weft_status status = open_idx(images_path, 3, &images->pixels);
    if (!status) status = open_idx(labels_path, 1, &images->labels);
    if (!status && images->pixels.shape[0] != images->labels.shape[0])
        status = WEFT_STATUS(WEFT_INVALID_DATA, "%s has %lld images, %s %lld labels", images_path,
                             (long long)images->pixels.shape[0], labels_path, (long long)images->labels.shape[0]);
    if (status)
        weft_images_release(images);
    else
        *out_images = images;
    return status;
}

void weft_images_release(weft_images *images) {
    if (!images) return;
    weft_context *context = images->context;
    weft_file_unmap(&images->pixels.file);
    weft_file_unmap(&images->labels.file);
    weft_free(context->allocator, images, sizeof *images);
    weft_context_release(context);
}

int64_t weft_images_count(const weft_images *images) { return images ? images->pixels.shape[0] : 0; }

static bool is_batch(const weft_images *images, weft_tensor *const *tensors) {
    const int64_t *shape = weft_tensor_shape(tensors[0]);
    return weft_tensor_rank(tensors[0]) == 4 && weft_tensor_dtype(tensors[0]) == WEFT_F32 && shape[1] == 1 &&
           shape[2] == images->pixels.shape[1] && shape[3] == images->pixels.shape[2] &&
           weft_tensor_rank(tensors[1]) == 1 && weft_tensor_dtype(tensors[1]) == WEFT_I64 &&
           weft_tensor_shape(tensors[1])[0] == shape[0];
}

weft_status weft_images_fill(void *self, int64_t batch, weft_tensor *const *tensors) {
    const weft_image_batches *s = self;
    WEFT_NEED(s && s->images, "the images");
    WEFT_NEED(tensors, "the tensors");
    const weft_images *images = s->images;
    if (!is_batch(images, tensors))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "batches of images are f32 [B, 1, %lld, %lld] and i64 [B]",
                           (long long)images->pixels.shape[1], (long long)images->pixels.shape[2]);
    int64_t rows = weft_tensor_shape(tensors[0])[0], count = images->pixels.shape[0];
    int64_t size = images->pixels.shape[1] * images->pixels.shape[2], per_epoch = rows ? count / rows : 0;
    if (!per_epoch)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%lld images do not fill a batch of %lld", (long long)count,
                           (long long)rows);
    float scale = 1 / (s->deviation > 0 ? s->deviation : 1), *x = weft_tensor_data(tensors[0]);
    int64_t *y = weft_tensor_data(tensors[1]), first = batch % per_epoch * rows;
    uint64_t key = weft_draw_stream(s->seed, (uint64_t)(batch / per_epoch));
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = s->shuffle ? weft_draw_permuted(key, count, first + row) : first + row;
        const unsigned char *pixels = images->pixels.elements + at * size;
        for (int64_t i = 0; i < size; i++) *x++ = ((float)pixels[i] / 255 - s->mean) * scale;
        *y++ = images->labels.elements[at];
    }
    return NULL;
}
