/* Images from files of both kinds: which ones a batch has, how they are seen, what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/train/small_run.h"

static void write_idx(const char *path, int count, int side, bool labels) {
    FILE *file = fopen(path, "wb");
    unsigned char header[16] = {0, 0, 8, labels ? 1 : 3,      0, 0, 0, (unsigned char)count,
                                0, 0, 0, (unsigned char)side, 0, 0, 0, (unsigned char)side};
    ck_assert(file && fwrite(header, 1, labels ? 8 : 16, file) > 0);
    for (int i = 0; i < count; i++)
        for (int pixel = 0; pixel < (labels ? 1 : side * side); pixel++) fputc(labels ? i : (i + pixel) % 256, file);
    fclose(file);
}

/* Every epoch has each image once; a file with a byte too few is refused. */
START_TEST(test_images) {
    enum { COUNT = 30, SIDE = 5, ROWS = 6 };
    char pixels[512], labels[512];
    weft_context *context;
    weft_images *images;
    weft_tensor *tensors[2];
    test_path(pixels, sizeof pixels, "images");
    test_path(labels, sizeof labels, "labels");
    write_idx(pixels, COUNT, SIDE, false);
    write_idx(labels, COUNT, 0, true);
    require(weft_context_create(NULL, &context));
    require(weft_images_open_idx(context, pixels, labels, &images));
    require(weft_tensor_create(context, WEFT_F32, 4, (int64_t[]){ROWS, 1, SIDE, SIDE}, &tensors[0]));
    require(weft_tensor_create(context, WEFT_I64, 1, (int64_t[]){ROWS}, &tensors[1]));
    weft_image_batches batches = {images, 3, true, 0.5f, 0.25f, 0, false};
    int64_t order[2][COUNT];
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[COUNT] = {0};
        for (int batch = 0; batch < COUNT / ROWS; batch++) {
            require(weft_images_fill(&batches, epoch * (COUNT / ROWS) + batch, tensors));
            for (int row = 0; row < ROWS; row++) {
                int64_t label = ((int64_t *)weft_tensor_data(tensors[1]))[row];
                float second = ((float *)weft_tensor_data(tensors[0]))[row * SIDE * SIDE + 1];
                float want = ((float)(label + 1) / 255 - 0.5f) / 0.25f;
                ck_assert_float_eq_tol(second, want, 1e-5f);
                order[epoch][batch * ROWS + row] = label;
                seen[label]++;
            }
        }
        for (int i = 0; i < COUNT; i++) ck_assert_int_eq(seen[i], 1);
    }
    ck_assert(memcmp(order[0], order[1], sizeof order[0]) != 0);
    weft_images_release(images);
    ck_assert_int_eq(truncate(pixels, 16 + COUNT * SIDE * SIDE - 1), 0);
    weft_status status = weft_images_open_idx(context, pixels, labels, &images);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    weft_status_release(status);
    weft_tensor_release(tensors[0]);
    weft_tensor_release(tensors[1]);
    weft_context_release(context);
    remove(pixels);
    remove(labels);
}
END_TEST

enum { CIFAR_PIXELS = 3 * 32 * 32 };

/* Byte `at` of image `number`: other ones in every image, row, column and channel. */
static int cifar_byte(int number, int at) { return (37 * number + 7 * at + at / 32 + 11 * (at / 1024)) % 256; }

/* Records as CIFAR-10's page describes them: a label, then 1024 bytes each of red, green and blue, row by row. */
static void write_cifar(const char *path, int first, int count) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (int i = first; i < first + count; i++) {
        fputc(i % 10, file);
        for (int at = 0; at < CIFAR_PIXELS; at++) fputc(cifar_byte(i, at), file);
    }
    ck_assert_int_eq(fclose(file), 0);
}

/* Three shards of the training folder are one list; the other part is the test's. */
START_TEST(test_cifar) {
    enum { ROWS = 4, COUNT = 12 };
    char folder[500], path[600];
    weft_context *context;
    weft_images *train, *test;
    weft_tensor *tensors[2];
    test_path(folder, sizeof folder, "cifar");
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    static const struct {
        const char *name;
        int first, count;
    } files[] = {
        {"data_batch_1.bin", 0, 3}, {"data_batch_2.bin", 3, 4}, {"data_batch_5.bin", 7, 5}, {"test_batch.bin", 40, 8}};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        write_cifar(path, files[i].first, files[i].count);
    }
    require(weft_context_create(NULL, &context));
    require(weft_images_open_folder(context, folder, true, &train));
    require(weft_images_open_folder(context, folder, false, &test));
    ck_assert_int_eq(weft_images_count(train), COUNT);
    ck_assert_int_eq(weft_images_count(test), 8);
    ck_assert_int_eq(weft_images_classes(train), 10);
    ck_assert_int_eq(weft_images_classes(test), 8);
    require(weft_tensor_create(context, WEFT_F32, 4, (int64_t[]){ROWS, 3, 32, 32}, &tensors[0]));
    require(weft_tensor_create(context, WEFT_I64, 1, (int64_t[]){ROWS}, &tensors[1]));
    weft_image_batches batches = {train, 3, false, 0.5f, 0.25f, 0, false};
    const float *x = weft_tensor_data(tensors[0]);
    const int64_t *labels = weft_tensor_data(tensors[1]);
    for (int i = 0; i < COUNT; i++) {
        if (i % ROWS == 0) require(weft_images_fill(&batches, i / ROWS, tensors));
        ck_assert_int_eq(labels[i % ROWS], i % 10);
        for (int at = 0; at < CIFAR_PIXELS; at += 97)
            ck_assert_float_eq_tol(x[i % ROWS * CIFAR_PIXELS + at], ((float)cifar_byte(i, at) / 255 - 0.5f) / 0.25f,
                                   1e-5f);
    }
    snprintf(path, sizeof path, "%s/test_batch.bin", folder);
    ck_assert_int_eq(truncate(path, 8 * (CIFAR_PIXELS + 1) - 1), 0);
    weft_images_release(test);
    weft_status status = weft_images_open_folder(context, folder, false, &test);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    ck_assert_ptr_null(test);
    weft_status_release(status);
    weft_images_release(train);
    for (int i = 0; i < 2; i++) weft_tensor_release(tensors[i]);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        remove(path);
    }
    status = weft_images_open_folder(context, folder, true, &train);
    ck_assert_int_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_release(status);
    ck_assert_int_eq(rmdir(folder), 0);
    weft_context_release(context);
}
END_TEST

/* Is the image at x that of `number`, shifted and perhaps mirrored? What came in is the mean, 0. */
static bool is_view(const float *x, int number, int down, int right, bool mirrored) {
    for (int at = 0; at < CIFAR_PIXELS; at++) {
        int c = at / 1024, y = at / 32 % 32 - down, column = at % 32, from = (mirrored ? 31 - column : column) - right;
        bool inside = y >= 0 && y < 32 && from >= 0 && from < 32;
        float want = inside ? (float)cifar_byte(number, c * 1024 + y * 32 + from) / 255 - 0.25f : 0;
        if (fabsf(x[at] - want) > 1e-5f) return false;
    }
    return true;
}

/* Each image is seen in one of 25 shifts, mirrored or not: another one in other batches, the same one again. */
START_TEST(test_views) {
    enum { ROWS = 8, SHIFTS = 25 };
    char path[512];
    weft_context *context;
    weft_images *images;
    weft_tensor *tensors[2];
    int seen[2 * SHIFTS] = {0}, kinds = 0;
    test_path(path, sizeof path, "views.bin");
    write_cifar(path, 0, ROWS);
    require(weft_context_create(NULL, &context));
    require(weft_images_open_cifar(context, 1, (const char *const[]){path}, &images));
    require(weft_tensor_create(context, WEFT_F32, 4, (int64_t[]){ROWS, 3, 32, 32}, &tensors[0]));
    require(weft_tensor_create(context, WEFT_I64, 1, (int64_t[]){ROWS}, &tensors[1]));
    weft_image_batches batches = {images, 3, false, 0.25f, 1, 2, true};
    const float *x = weft_tensor_data(tensors[0]);
    for (int turn = 0; turn < 13; turn++) {
        require(weft_images_fill(&batches, turn % 12, tensors));
        for (int row = 0; row < ROWS; row++) {
            int found = -1;
            for (int v = 0; v < 2 * SHIFTS && found < 0; v++)
                if (is_view(x + row * CIFAR_PIXELS, row, v / 2 / 5 - 2, v / 2 % 5 - 2, v % 2 != 0)) found = v;
            ck_assert_int_ge(found, 0);
            if (turn < 12) seen[found]++;
        }
    }
    for (int v = 0; v < 2 * SHIFTS; v++) kinds += seen[v] > 0;
    ck_assert_int_ge(kinds, 30); /* of 50, after 96 draws: 43 are expected */
    weft_images_release(images);
    for (int i = 0; i < 2; i++) weft_tensor_release(tensors[i]);
    remove(path);
    weft_context_release(context);
}
END_TEST

#define SHARDS WEFT_SOURCE_DIR "/tests/data/shards/"

/* false: this build has no libarchive, and says so. */
static bool reads_shards(weft_context *context) {
    weft_images *images;
    weft_status status = weft_images_open_shards(context, 1, (const char *[]){SHARDS "gray.tar"}, &images);
    bool lacks = weft_status_code(status) == WEFT_UNSUPPORTED;
    if (!lacks) require(status);
    weft_status_release(status);
    int64_t shape[3];
    weft_images_shape(images, shape);
    if (!lacks) ck_assert(shape[0] == 1 && shape[1] == 16 && weft_images_classes(images) == 2);
    weft_images_release(images);
    return !lacks;
}

/* Five images of two shards, by the folder's usual names: their classes and colours (tests/golden/shards.py says
 * which). */
START_TEST(test_shards) {
    enum { COUNT = 5, SIDE = 16, AREA = SIDE * SIDE };
    weft_context *context;
    weft_images *images;
    weft_tensor *tensors[2];
    require(weft_context_create(NULL, &context));
    if (reads_shards(context)) {
        require(weft_images_open_folder(context, SHARDS, true, &images));
        ck_assert_int_eq(weft_images_count(images), COUNT);
        ck_assert_int_eq(weft_images_classes(images), 3);
        require(weft_tensor_create(context, WEFT_F32, 4, (int64_t[]){COUNT, 3, SIDE, SIDE}, &tensors[0]));
        require(weft_tensor_create(context, WEFT_I64, 1, (int64_t[]){COUNT}, &tensors[1]));
        weft_image_batches batches = {images, 3, false, 0, 0, 0, false};
        require(weft_images_fill(&batches, 0, tensors));
        for (int i = 0; i < COUNT; i++) {
            const float left[] = {(float)(40 * i), (float)(200 - 30 * i), (float)(20 + 35 * i)};
            const float *x = (const float *)weft_tensor_data(tensors[0]) + i * 3 * AREA;
            ck_assert_int_eq(((int64_t *)weft_tensor_data(tensors[1]))[i], i % 3);
            for (int c = 0; c < 3; c++) {
                ck_assert_float_eq_tol(x[c * AREA + 5 * SIDE + 2] * 255, left[c], 3);
                ck_assert_float_eq_tol(x[c * AREA + 5 * SIDE + 13] * 255, left[2 - c], 3);
            }
        }
        weft_images_release(images);
        weft_tensor_release(tensors[0]), weft_tensor_release(tensors[1]);
        require(weft_images_open_folder(context, SHARDS, false, &images));
        ck_assert_int_eq(weft_images_count(images), 1);
        weft_images_release(images);
    }
    weft_context_release(context);
}
END_TEST

/* All of CIFAR-10 where WEFT_DATA says it is (cifar10/train-00000.tar.gz ...): as many of each class. */
START_TEST(test_cifar_shards) {
    char folder[600];
    weft_context *context;
    weft_images *images;
    snprintf(folder, sizeof folder, "%s/cifar10", getenv("WEFT_DATA") ? getenv("WEFT_DATA") : "/nowhere");
    require(weft_context_create(NULL, &context));
    for (int train = 0; reads_shards(context) && !access(folder, R_OK) && train < 2; train++) {
        enum { ROWS = 1000 };
        weft_tensor *tensors[2];
        int64_t counts[10] = {0}, each = train ? 5000 : 1000;
        require(weft_images_open_folder(context, folder, train, &images));
        ck_assert_int_eq(weft_images_count(images), 10 * each);
        ck_assert_int_eq(weft_images_classes(images), 10);
        require(weft_tensor_create(context, WEFT_F32, 4, (int64_t[]){ROWS, 3, 32, 32}, &tensors[0]));
        require(weft_tensor_create(context, WEFT_I64, 1, (int64_t[]){ROWS}, &tensors[1]));
        weft_image_batches batches = {images, 3, true, 0, 0, 0, false};
        for (int64_t batch = 0; batch < 10 * each / ROWS; batch++) {
            require(weft_images_fill(&batches, batch, tensors));
            for (int i = 0; i < ROWS; i++) counts[((int64_t *)weft_tensor_data(tensors[1]))[i]]++;
        }
        for (int i = 0; i < 10; i++) ck_assert_int_eq(counts[i], each);
        weft_tensor_release(tensors[0]), weft_tensor_release(tensors[1]);
        weft_images_release(images);
    }
    weft_context_release(context);
}
END_TEST

/* Each is refused with the shard, the sample and what is wrong. */
START_TEST(test_damaged_shards) {
    static const struct {
        const char *file, *words;
    } cases[] = {{"no-label", "0000: the sample has no .cls"},
                 {"no-image", "0001: the sample has no .jpg"},
                 {"twice", "0000.jpg: the sample has one already"},
                 {"other-size", "0001.jpg is 3 x 24 x 24, the images before it 3 x 16 x 16"},
                 {"bad-class", "0.cls: a class from 0 to 255"},
                 {"large-class", "0.cls: a class from 0 to 255"},
                 {"cut-image", "0.jpg: "},
                 {"no-jpeg", "0.jpg: "},
                 {"empty", "no sample"},
                 {"missing", "opening "}};
    weft_context *context;
    require(weft_context_create(NULL, &context));
    bool reads = reads_shards(context);
    for (size_t i = 0; reads && i < sizeof cases / sizeof *cases; i++) {
        char path[600], text[1024];
        snprintf(path, sizeof path, "%s%s.tar", SHARDS, cases[i].file);
        weft_images *images;
        weft_status status = weft_images_open_shards(context, 1, (const char *[]){path}, &images);
        ck_assert_msg(status && !images, "%s was taken", path);
        weft_status_format(status, text, sizeof text);
        ck_assert_msg(strstr(text, cases[i].words) && strstr(text, cases[i].file), "%s: %s", path, text);
        weft_status_release(status);
    }
    /* one shard more than there may be is no data set of 64 */
    char folder[512], path[600];
    test_path(folder, sizeof folder, "many");
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    for (int i = 0; i < 65; i++) {
        snprintf(path, sizeof path, "%s/train-%05d.tar", folder, i);
        FILE *file = fopen(path, "wb");
        ck_assert(file && !fclose(file));
    }
    weft_images *images;
    weft_status status = weft_images_open_folder(context, folder, true, &images);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_release(status);
    remove_folder(folder);
    weft_context_release(context);
}
END_TEST

Suite *images_suite(void) {
    Suite *suite = suite_create("images");
    TCase *group = tcase_create("images");
    tcase_add_test(group, test_images);
    tcase_add_test(group, test_shards);
    tcase_add_test(group, test_damaged_shards);
    tcase_add_test(group, test_cifar_shards);
    tcase_add_test(group, test_cifar);
    tcase_add_test(group, test_views);
    suite_add_tcase(suite, group);
    return suite;
}
