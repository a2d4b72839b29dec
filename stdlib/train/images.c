/* Images with labels. From files that are mapped, not read: IDX (big-endian magic 0x0000TTRR, type and rank, extents of
   32 bits, elements; here u8 [N, H, W] and u8 [N]) and the binary files of CIFAR-10 (records of a label and 3 x 32 x 32
   bytes); from shards of JPEG files, which archive/shards.c decodes when they are opened. See images.h. Sources: LeCun,
   Cortes, Burges, the format note of the MNIST database; Krizhevsky 2009 and the page of CIFAR-10. Read next:
   loader.c. */
#include "stdlib/train/images.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/need.h"
#include "stdlib/random.h"

#include <stdio.h>
#include <string.h>

enum { IDX_U8 = 0x08, CIFAR_SIDE = 32, CIFAR_CHANNELS = 3, PATH_BYTES = 4096 };

/* -- opening */

weft_status weft_images_create(weft_context *context, int parts, weft_images **out_images) {
    weft_images *images = weft_allocate(context->allocator, sizeof *images);
    weft_image_part *list = weft_allocate(context->allocator, (size_t)parts * sizeof *list);
    if (!images || !list) {
        weft_free(context->allocator, images, sizeof *images);
        weft_free(context->allocator, list, (size_t)parts * sizeof *list);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for images");
    }
    images->context = context, images->parts = list, images->part_count = parts;
    weft_context_retain(context);
    *out_images = images;
    return NULL;
}

void weft_images_release(weft_images *images) {
    if (!images) return;
    weft_context *context = images->context;
    for (int i = 0; i < images->part_count; i++) {
        for (int j = 0; j < 2; j++) weft_file_unmap(&images->parts[i].files[j]);
        weft_free(context->allocator, images->parts[i].decoded, images->parts[i].decoded_bytes);
    }
    weft_free(context->allocator, images->parts, (size_t)images->part_count * sizeof *images->parts);
    weft_free(context->allocator, images, sizeof *images);
    weft_context_release(context);
}

weft_status weft_images_finish(weft_images *images, weft_status status, weft_images **out_images) {
    for (int i = 0; !status && i < images->part_count; i++) {
        const weft_image_part *p = &images->parts[i];
        images->count += p->count;
        for (int64_t row = 0; row < p->count; row++)
            if (p->labels[row * p->label_step] >= images->classes) images->classes = p->labels[row * p->label_step] + 1;
    }
    if (status)
        weft_images_release(images);
    else
        *out_images = images;
    return status;
}

static int64_t big_endian(const unsigned char *at) {
    return (int64_t)at[0] << 24 | (int64_t)at[1] << 16 | (int64_t)at[2] << 8 | at[3];
}

static weft_status open_idx(const char *path, int rank, weft_file *file, int64_t *shape,
                            const unsigned char **out_elements) {
    WEFT_TRY(weft_file_map(path, file), "opening %s", path);
    const unsigned char *at = file->data;
    size_t header = 4 + 4 * (size_t)rank;
    if (file->bytes < header || at[0] || at[1] || at[2] != IDX_U8 || at[3] != rank)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s is no IDX file of bytes with %d axes", path, rank);
    size_t count = 1;
    for (int i = 0; i < rank; i++) {
        shape[i] = big_endian(at + 4 + 4 * i);
        if (!weft_size_multiply(count, (size_t)shape[i], &count))
            return WEFT_STATUS(WEFT_INVALID_DATA, "%s: its extents overflow", path);
    }
    if (file->bytes - header != count)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s has %zu bytes of elements, not %zu", path, file->bytes - header,
                           count);
    *out_elements = at + header;
    return NULL;
}

static weft_status open_idx_pair(weft_images *images, const char *images_path, const char *labels_path) {
    weft_image_part *p = images->parts;
    int64_t shape[3], labels;
    WEFT_TRY(open_idx(images_path, 3, &p->files[0], shape, &p->pixels), "images");
    WEFT_TRY(open_idx(labels_path, 1, &p->files[1], &labels, &p->labels), "labels");
    if (shape[0] != labels)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s has %lld images, %s %lld labels", images_path, (long long)shape[0],
                           labels_path, (long long)labels);
    images->shape[0] = 1, images->shape[1] = shape[1], images->shape[2] = shape[2];
    p->count = labels, p->step = shape[1] * shape[2], p->label_step = 1;
    return NULL;
}

weft_status weft_images_open_idx(weft_context *context, const char *images_path, const char *labels_path,
                                 weft_images **out_images) {
    WEFT_NEED(out_images, "out_images");
    *out_images = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(images_path && labels_path, "a path");
    weft_images *images = NULL;
    WEFT_TRY(weft_images_create(context, 1, &images), "%s", images_path);
    return weft_images_finish(images, open_idx_pair(images, images_path, labels_path), out_images);
}

static weft_status read_records(weft_images *images, weft_image_part *p, const char *path) {
    images->shape[0] = CIFAR_CHANNELS, images->shape[1] = images->shape[2] = CIFAR_SIDE;
    WEFT_TRY(weft_file_map(path, &p->files[0]), "opening %s", path);
    p->step = p->label_step = 1 + CIFAR_CHANNELS * CIFAR_SIDE * CIFAR_SIDE;
    p->count = (int64_t)p->files[0].bytes / p->step;
    if (!p->count || p->files[0].bytes != (size_t)(p->count * p->step))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s has %zu bytes, no whole number of records of %lld", path,
                           p->files[0].bytes, (long long)p->step);
    p->labels = p->files[0].data, p->pixels = p->labels + 1;
    return NULL;
}

typedef weft_status (*part_reader)(weft_images *images, weft_image_part *part, const char *path);

/* A part for each file. */
static weft_status open_files(weft_context *context, int count, const char *const *paths, part_reader read,
                              weft_images **out_images) {
    WEFT_NEED(out_images, "out_images");
    *out_images = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(paths, "the paths");
    if (count < 1 || count > WEFT_IMAGE_FILES_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%d files of images; 1 to %d", count, WEFT_IMAGE_FILES_MAX);
    for (int i = 0; i < count; i++) WEFT_NEED(paths[i], "a path");
    weft_images *images = NULL;
    weft_status status = weft_images_create(context, count, &images);
    if (status) return status;
    for (int i = 0; i < count && !status; i++) status = read(images, &images->parts[i], paths[i]);
    return weft_images_finish(images, status, out_images);
}

weft_status weft_images_open_cifar(weft_context *context, int count, const char *const *paths,
                                   weft_images **out_images) {
    return open_files(context, count, paths, read_records, out_images);
}

#ifndef WEFT_HAVE_ARCHIVE
static weft_status weft_images_read_shard(weft_images *images, weft_image_part *part, const char *path) {
    (void)images, (void)part;
    return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: this build was made without libarchive or TurboJPEG", path);
}
#endif

weft_status weft_images_open_shards(weft_context *context, int count, const char *const *paths,
                                    weft_images **out_images) {
    return open_files(context, count, paths, weft_images_read_shard, out_images);
}

static bool is_there(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file) (void)fclose(file);
    return file != NULL;
}

/* Numbered from 0 without a gap. How many there are; the names of the first paths_max go to paths. */
static int find_shards(const char *folder, bool train, char paths[][PATH_BYTES], int paths_max) {
    static const char *const endings[] = {"tar", "tar.gz", "tgz", "tar.xz", "tar.bz2"};
    int count = 0;
    for (bool found = true; found && count < paths_max; count += found) {
        found = false;
        for (size_t e = 0; e < sizeof endings / sizeof *endings && !found; e++) {
            snprintf(paths[count], PATH_BYTES, "%s/%s-%05d.%s", folder, train ? "train" : "test", count, endings[e]);
            found = is_there(paths[count]);
        }
    }
    return count;
}

static weft_status open_folder_shards(weft_context *context, const char *folder, bool train, bool *out_found,
                                      weft_images **out_images) {
    enum { LOOKED_FOR = WEFT_IMAGE_FILES_MAX + 1 }; /* one too many is refused, not left out */
    char(*paths)[PATH_BYTES] = weft_allocate(context->allocator, sizeof *paths * LOOKED_FOR);
    if (!paths) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for names of shards");
    const char *list[LOOKED_FOR];
    int count = find_shards(folder, train, paths, LOOKED_FOR);
    for (int i = 0; i < count; i++) list[i] = paths[i];
    *out_found = count > 0;
    weft_status status = count ? weft_images_open_shards(context, count, list, out_images) : NULL;
    weft_free(context->allocator, paths, sizeof *paths * LOOKED_FOR);
    return status;
}

weft_status weft_images_open_folder(weft_context *context, const char *folder, bool train, weft_images **out_images) {
    WEFT_NEED(out_images, "out_images");
    *out_images = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(folder, "the folder");
    if (strlen(folder) > PATH_BYTES - 64) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the folder's name is too long");
    static const char *const cifar[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
    char paths[5][PATH_BYTES];
    const char *list[5];
    int count = 0;
    for (int i = train ? 0 : 5; i < (train ? 5 : 6); i++) {
        snprintf(paths[count], PATH_BYTES, "%s/%s", folder, cifar[i]);
        list[count] = paths[count];
        if (is_there(paths[count])) count++;
    }
    if (count) return weft_images_open_cifar(context, count, list, out_images);
    const char *prefix = train ? "train" : "t10k";
    snprintf(paths[0], PATH_BYTES, "%s/%s-images-idx3-ubyte", folder, prefix);
    snprintf(paths[1], PATH_BYTES, "%s/%s-labels-idx1-ubyte", folder, prefix);
    if (is_there(paths[0])) return weft_images_open_idx(context, paths[0], paths[1], out_images);
    bool found;
    WEFT_TRY(open_folder_shards(context, folder, train, &found, out_images), "shards of %s", folder);
    if (found) return NULL;
    return WEFT_STATUS(WEFT_NOT_FOUND, "%s has neither %s nor %s-images-idx3-ubyte (uncompressed) nor %s-00000.tar",
                       folder, cifar[train ? 0 : 5], prefix, train ? "train" : "test");
}

int64_t weft_images_count(const weft_images *images) { return images ? images->count : 0; }

int weft_images_classes(const weft_images *images) { return images ? images->classes : 0; }

void weft_images_shape(const weft_images *images, int64_t out_shape[3]) {
    for (int i = 0; i < 3; i++) out_shape[i] = images ? images->shape[i] : 0;
}

/* -- batches */

static bool is_batch(const weft_images *images, weft_tensor *const *tensors) {
    const int64_t *shape = weft_tensor_shape(tensors[0]);
    return weft_tensor_rank(tensors[0]) == 4 && weft_tensor_dtype(tensors[0]) == WEFT_F32 &&
           shape[1] == images->shape[0] && shape[2] == images->shape[1] && shape[3] == images->shape[2] &&
           weft_tensor_rank(tensors[1]) == 1 && weft_tensor_dtype(tensors[1]) == WEFT_I64 &&
           weft_tensor_shape(tensors[1])[0] == shape[0];
}

/* How an image is seen: shifted by (down, right), mirrored. */
typedef struct view {
    int64_t down, right;
    bool mirrored;
} view;

static view draw_view(const weft_image_batches *s, uint64_t *random) {
    view v = {0, 0, false};
    if (s->margin > 0) v.down = weft_draw_below(random, 2 * s->margin + 1) - s->margin;
    if (s->margin > 0) v.right = weft_draw_below(random, 2 * s->margin + 1) - s->margin;
    if (s->mirror) v.mirrored = weft_draw_below(random, 2) != 0;
    return v;
}

/* What a shift brings in from outside is the mean: 0. */
static void fill_image(const weft_image_batches *s, const unsigned char *pixels, view v, float *x) {
    const int64_t *shape = s->images->shape;
    float scale = 1 / (s->deviation > 0 ? s->deviation : 1);
    for (int64_t c = 0; c < shape[0]; c++)
        for (int64_t i = 0; i < shape[1]; i++)
            for (int64_t j = 0; j < shape[2]; j++, x++) {
                int64_t y = i - v.down, at = (v.mirrored ? shape[2] - 1 - j : j) - v.right;
                bool inside = y >= 0 && y < shape[1] && at >= 0 && at < shape[2];
                *x = inside ? ((float)pixels[(c * shape[1] + y) * shape[2] + at] / 255 - s->mean) * scale : 0;
            }
}

weft_status weft_images_fill(void *self, int64_t batch, weft_tensor *const *tensors) {
    const weft_image_batches *s = self;
    WEFT_NEED(s && s->images, "the images");
    WEFT_NEED(tensors, "the tensors");
    const weft_images *images = s->images;
    if (!is_batch(images, tensors))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "batches of images are f32 [B, %lld, %lld, %lld] and i64 [B]",
                           (long long)images->shape[0], (long long)images->shape[1], (long long)images->shape[2]);
    int64_t rows = weft_tensor_shape(tensors[0])[0], count = images->count, per_epoch = rows ? count / rows : 0;
    int64_t size = images->shape[0] * images->shape[1] * images->shape[2];
    if (!per_epoch)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%lld images do not fill a batch of %lld", (long long)count,
                           (long long)rows);
    float *x = weft_tensor_data(tensors[0]);
    int64_t *y = weft_tensor_data(tensors[1]), first = batch % per_epoch * rows;
    uint64_t key = weft_draw_stream(s->seed, (uint64_t)(batch / per_epoch));
    uint64_t random = weft_draw_stream(~s->seed, (uint64_t)batch);
    for (int64_t row = 0; row < rows; row++, x += size) {
        int64_t at = s->shuffle ? weft_draw_permuted(key, count, first + row) : first + row;
        const weft_image_part *p = images->parts;
        while (at >= p->count) at -= p++->count;
        fill_image(s, p->pixels + at * p->step, draw_view(s, &random), x);
        *y++ = p->labels[at * p->label_step];
    }
    return NULL;
}
