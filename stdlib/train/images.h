/* What files of images become: parts of records. images.c maps files whose bytes lie as batches want them;
   archive/shards.c decodes those that do not. Invariant: image i of a part lies at pixels + i * step, its label at
   labels + i * label_step. Thread-compatible. */
#ifndef WEFT_STDLIB_TRAIN_IMAGES_H
#define WEFT_STDLIB_TRAIN_IMAGES_H

#include "base/file.h"
#include "weft/train.h"

enum { WEFT_IMAGE_FILES_MAX = 64 };

typedef struct weft_image_part {
    weft_file files[2]; /* the second: labels of their own */
    unsigned char *decoded;
    size_t decoded_bytes; /* of the allocation; 0: mapped */
    const unsigned char *pixels, *labels;
    int64_t step, label_step, count;
} weft_image_part;

struct weft_images {
    weft_context *context;
    int part_count;
    weft_image_part *parts;
    int64_t count, shape[3]; /* channels, height, width; 0 until the first image is seen */
    int classes;
};

weft_status weft_images_create(weft_context *context, int parts, weft_images **out_images) WEFT_MUST_USE;
/* Count and classes are those of all parts; with a status the images are released. */
weft_status weft_images_finish(weft_images *images, weft_status status, weft_images **out_images) WEFT_MUST_USE;

#ifdef WEFT_HAVE_ARCHIVE
/* One shard: all its images, decoded, of the shape that images->shape says or, of the first one, becomes. */
weft_status weft_images_read_shard(weft_images *images, weft_image_part *part, const char *path) WEFT_MUST_USE;
#endif

#endif
