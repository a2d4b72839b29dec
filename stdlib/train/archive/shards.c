/* WebDataset shards: tar files, compressed or not, of samples whose files follow each other and share a name up to its
   first dot: NAME.jpg (or .jpeg), NAME.cls with the class as a number; files with other endings are skipped. Images are
   decoded once, into records of a label and C x H x W bytes; gray ones have one channel. By libarchive and
   libjpeg-turbo, which is why this file has a folder of its own. Sources: the page of webdataset; ITU-T T.81. See
   ../images.h. */
#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "base/arena.h"
#include "base/context.h"
#include "stdlib/train/images.h"

enum { FILE_BYTES_MAX = 64 << 20, SIDE_MAX = 8192, LABEL_MAX = 255, NAME_BYTES = 512, LABEL_BYTES = 16 };

typedef struct shard {
    weft_images *images;
    weft_image_part *part;
    const char *path;
    struct archive *archive;
    tjhandle decoder;
    char name[NAME_BYTES]; /* of the sample that is being read */
    bool has_image, has_label;
    unsigned char *bytes; /* of one file */
    size_t byte_capacity;
} shard;

static weft_status damaged(const shard *s, const char *name, const char *what) {
    return WEFT_STATUS(WEFT_INVALID_DATA, "%s: %s: %s", s->path, name, what);
}

static weft_status grow(weft_context *context, unsigned char **memory, size_t *capacity, size_t bytes) {
    if (bytes <= *capacity) return NULL;
    size_t wanted = *capacity < 4096 ? 4096 : *capacity;
    while (wanted < bytes)
        if (!weft_size_multiply(wanted, 2, &wanted)) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for images");
    unsigned char *more = weft_allocate(context->allocator, wanted);
    if (!more) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu bytes of images", wanted);
    if (*capacity) memcpy(more, *memory, *capacity);
    weft_free(context->allocator, *memory, *capacity);
    *memory = more, *capacity = wanted;
    return NULL;
}

/* The record that the sample is written to. */
static weft_status record(shard *s, unsigned char **out_record) {
    const int64_t *shape = s->images->shape;
    weft_image_part *part = s->part;
    size_t step = 1 + (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2], end;
    if (!weft_size_multiply(step, (size_t)part->count + 1, &end))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: too many images", s->path);
    WEFT_TRY(grow(s->images->context, &part->decoded, &part->decoded_bytes, end), "%s", s->path);
    part->step = part->label_step = (int64_t)step;
    *out_record = part->decoded + (end - step);
    return NULL;
}

static weft_status read_bytes(shard *s, const char *name, struct archive_entry *entry, size_t *out_bytes) {
    int64_t size = archive_entry_size(entry);
    if (!archive_entry_size_is_set(entry) || size < 1 || size > FILE_BYTES_MAX)
        return damaged(s, name, "a file of 1 byte to 64 MB was expected");
    WEFT_TRY(grow(s->images->context, &s->bytes, &s->byte_capacity, (size_t)size), "%s", s->path);
    for (size_t at = 0; at < (size_t)size;) {
        la_ssize_t got = archive_read_data(s->archive, s->bytes + at, (size_t)size - at);
        if (got <= 0) return damaged(s, name, got < 0 ? archive_error_string(s->archive) : "it is cut short");
        at += (size_t)got;
    }
    *out_bytes = (size_t)size;
    return NULL;
}

/* Interleaved pixels behind the label become one plane a channel. */
static weft_status decode(shard *s, const char *name, size_t bytes) {
    int width, height, sampling, space;
    int64_t *shape = s->images->shape;
    if (tjDecompressHeader3(s->decoder, s->bytes, (unsigned long)bytes, &width, &height, &sampling, &space))
        return damaged(s, name, tjGetErrorStr2(s->decoder));
    if (width < 1 || height < 1 || width > SIDE_MAX || height > SIDE_MAX)
        return damaged(s, name, "its sides are not 1 to 8192");
    int channels = space == TJCS_GRAY ? 1 : 3;
    if (!shape[0]) shape[0] = channels, shape[1] = height, shape[2] = width;
    if (shape[0] != channels || shape[1] != height || shape[2] != width)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: %s is %d x %d x %d, the images before it %lld x %lld x %lld",
                           s->path, name, channels, height, width, (long long)shape[0], (long long)shape[1],
                           (long long)shape[2]);
    unsigned char *to = NULL;
    WEFT_TRY(record(s, &to), "%s", name);
    size_t area = (size_t)width * (size_t)height;
    unsigned char *pixels = weft_allocate(s->images->context->allocator, area * (size_t)channels);
    if (!pixels) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for an image");
    weft_status status = NULL;
    /* warnings too: what a damaged file's rest would have been is not made up */
    if (tjDecompress2(s->decoder, s->bytes, (unsigned long)bytes, pixels, width, 0, height,
                      channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING))
        status = damaged(s, name, tjGetErrorStr2(s->decoder));
    for (size_t c = 0; !status && c < (size_t)channels; c++)
        for (size_t i = 0; i < area; i++) to[1 + c * area + i] = pixels[i * (size_t)channels + c];
    weft_free(s->images->context->allocator, pixels, area * (size_t)channels);
    return status;
}

/* A label may come before its image, whose size is not known then: it is kept beside. */
static weft_status read_label(shard *s, const char *name, size_t bytes, unsigned char *out_label) {
    char text[LABEL_BYTES + 1] = "", *end;
    if (bytes <= LABEL_BYTES) memcpy(text, s->bytes, bytes);
    long value = strtol(text, &end, 10);
    while (*end == '\n' || *end == '\r' || *end == ' ') end++;
    if (bytes > LABEL_BYTES || text[0] < '0' || text[0] > '9' || *end || value > LABEL_MAX)
        return damaged(s, name, "a class from 0 to 255 was expected");
    *out_label = (unsigned char)value;
    return NULL;
}

static weft_status end_sample(shard *s, unsigned char label) {
    if (!s->has_image && !s->has_label) return NULL;
    if (!s->has_image || !s->has_label)
        return damaged(s, s->name, s->has_image ? "the sample has no .cls" : "the sample has no .jpg");
    s->part->decoded[(size_t)s->part->count * (size_t)s->part->step] = label;
    s->part->count++;
    s->has_image = s->has_label = false;
    return NULL;
}

static weft_status read_entry(shard *s, struct archive_entry *entry, unsigned char *label) {
    const char *path = archive_entry_pathname(entry);
    const char *base = path ? strrchr(path, '/') : NULL, *name = base ? base + 1 : path;
    const char *dot = name ? strchr(name, '.') : NULL;
    if (!dot || dot == name || archive_entry_filetype(entry) != AE_IFREG) return NULL; /* folders, hidden files */
    size_t length = (size_t)(dot - path), bytes = 0;
    if (length >= NAME_BYTES) return damaged(s, "a name", "it is longer than 511 bytes");
    if (strlen(s->name) != length || memcmp(s->name, path, length) != 0) {
        WEFT_TRY(end_sample(s, *label), "%s", s->path);
        memcpy(s->name, path, length);
        s->name[length] = 0;
    }
    bool image = !strcmp(dot, ".jpg") || !strcmp(dot, ".jpeg"), class = !strcmp(dot, ".cls");
    if (!image && !class) return NULL;
    if (image ? s->has_image : s->has_label) return damaged(s, path, "the sample has one already");
    WEFT_TRY(read_bytes(s, path, entry, &bytes), "%s", s->path);
    *(image ? &s->has_image : &s->has_label) = true;
    return image ? decode(s, path, bytes) : read_label(s, path, bytes, label);
}

static weft_status read_entries(shard *s) {
    struct archive_entry *entry;
    unsigned char label = 0;
    int result;
    while ((result = archive_read_next_header(s->archive, &entry)) == ARCHIVE_OK)
        WEFT_TRY(read_entry(s, entry, &label), "a sample");
    if (result != ARCHIVE_EOF) return damaged(s, "the archive", archive_error_string(s->archive));
    WEFT_TRY(end_sample(s, label), "%s", s->path);
    if (!s->part->count) return damaged(s, "the archive", "it has no sample of .jpg and .cls");
    s->part->labels = s->part->decoded, s->part->pixels = s->part->decoded + 1;
    return NULL;
}

weft_status weft_images_read_shard(weft_images *images, weft_image_part *part, const char *path) {
    shard s = {.images = images, .part = part, .path = path};
    s.archive = archive_read_new();
    s.decoder = tjInitDecompress();
    weft_status status = NULL;
    if (!s.archive || !s.decoder) status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to read %s", path);
    /* not all filters: some of them start programs */
    if (!status && (archive_read_support_filter_gzip(s.archive) < ARCHIVE_WARN ||
                    archive_read_support_filter_bzip2(s.archive) < ARCHIVE_WARN ||
                    archive_read_support_filter_xz(s.archive) < ARCHIVE_WARN ||
                    archive_read_support_format_tar(s.archive) < ARCHIVE_WARN ||
                    archive_read_open_filename(s.archive, path, 1 << 16) != ARCHIVE_OK))
        status = WEFT_STATUS(WEFT_IO, "opening %s: %s", path, archive_error_string(s.archive));
    if (!status) status = read_entries(&s);
    if (s.decoder) (void)tjDestroy(s.decoder);
    if (s.archive) (void)archive_read_free(s.archive);
    weft_free(images->context->allocator, s.bytes, s.byte_capacity);
    return status;
}
