/* safetensors, .npy and DLPack: round trips, hostile files, ownership. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/safetensors.h"
#include "base/tensor.h"
#include "tests/base/base.h"
#include "weft/dlpack.h"
#include "weft/npy.h"

static weft_context *context_with(counting_allocator *counting) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.allocator = counting_allocator_get(counting);
    weft_context *context;
    ck_ok(weft_context_create(&options, &context));
    return context;
}

/* One tensor of every dtype, with odd extents; element i holds i + 1 (bits for floats that cannot). */
static int make_tensors(weft_context *context, const char **names, weft_tensor **tensors) {
    int count = 0;
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
        if (d == WEFT_STRING) continue;
        ck_ok(weft_tensor_create(context, (weft_dtype)d, 2, (int64_t[]){3, 5}, &tensors[count]));
        unsigned char *bytes = weft_tensor_data(tensors[count]);
        for (int64_t i = 0; i < 15; i++)
            if (weft_dtype_bits((weft_dtype)d) <= 64) weft_element_set_bits((weft_dtype)d, bytes, i, (uint64_t)i + 1);
        names[count++] = weft_dtype_name((weft_dtype)d);
    }
    ck_ok(weft_tensor_create(context, WEFT_F32, 0, NULL, &tensors[count]));
    names[count++] = "a \"quoted\" scalar";
    ck_ok(weft_tensor_create(context, WEFT_I4, 2, (int64_t[]){0, 7}, &tensors[count]));
    names[count++] = "empty";
    return count;
}

START_TEST(safetensors_round_trip) {
    counting_allocator counting = {0};
    weft_context *context = context_with(&counting);
    weft_tensor *tensors[32], *back;
    const char *names[32], path[] = "/tmp/weft-test.safetensors";
    int count = make_tensors(context, names, tensors);
    ck_ok(weft_safetensors_write(context, path, count, names, tensors, 1, (const char *[]){"step"},
                                 (const char *[]){"12"}));
    weft_safetensors *file;
    ck_ok(weft_safetensors_open(context, path, &file));
    ck_assert_int_eq(weft_safetensors_count(file), count);
    ck_assert_str_eq(weft_safetensors_metadata(file, "step"), "12");
    ck_assert_ptr_null(weft_safetensors_metadata(file, "other"));
    ck_assert_int_eq(weft_safetensors_find(file, "missing"), -1);
    for (int i = 0; i < count; i++) {
        ck_ok(weft_safetensors_get(file, weft_safetensors_find(file, names[i]), &back));
        ck_assert_int_eq(back->dtype, tensors[i]->dtype);
        ck_assert_int_eq(back->rank, tensors[i]->rank);
        ck_assert_int_eq(back->element_count, tensors[i]->element_count);
        ck_assert(!memcmp(back->data, tensors[i]->data, back->bytes));
        weft_tensor_release(back);
    }
    expect_code(weft_safetensors_get(file, count, &back), WEFT_OUT_OF_RANGE);
    ck_ok(weft_safetensors_get(file, 0, &back)); /* a view outlives its file */
    weft_safetensors_release(file);
    ck_assert(!memcmp(back->data, tensors[count - 2]->data, back->bytes)); /* a "quoted" scalar: the first by name */
    weft_tensor_release(back);
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i]);
    weft_context_release(context);
    ck_assert_uint_eq(counting.live_bytes, 0);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

static weft_code parse_code(const char *header, size_t data_bytes) {
    unsigned char file[1024] = {0};
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(length >> (8 * i));
    memcpy(file + 8, header, length);
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_safetensors_index index;
    weft_status status = weft_safetensors_parse(&arena, file, 8 + length + data_bytes, &index);
    weft_code code = weft_status_code(status);
    weft_status_release(status);
    weft_arena_deinit(&arena);
    return code;
}

START_TEST(safetensors_hostile) {
    static const struct {
        const char *header;
        size_t bytes;
        weft_code code;
    } cases[] = {
        {"{}", 0, WEFT_OK},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, WEFT_OK},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         3, WEFT_OK},
        {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, WEFT_OK},
        {"{\"a\":{\"dtype\":\"X9\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, WEFT_OK},
        {"", 0, WEFT_INVALID_DATA},
        {"[]", 0, WEFT_INVALID_DATA},
        {"{}", 1, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905,4],\"data_offsets\":[0,16]}}", 16,
         WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
         3, WEFT_INVALID_DATA},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, WEFT_INVALID_DATA},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, WEFT_INVALID_DATA},
        {"{\"a\":7}", 0, WEFT_INVALID_DATA},
        {"{\"__metadata__\":{\"k\":1}}", 0, WEFT_INVALID_DATA},
        {"{\"__metadata__\":[]}", 0, WEFT_INVALID_DATA},
        {"{\"__metadata__\":{\"weft.dtype.a\":\"i4[3]\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, WEFT_OK},
        {"{\"__metadata__\":{\"weft.dtype.a\":\"i4[5]\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, WEFT_INVALID_DATA},
        {"{\"__metadata__\":{\"weft.dtype.a\":\"i4[3\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, WEFT_INVALID_DATA},
        {"{\"__metadata__\":{\"weft.dtype.a\":\"q4[3]\"},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, WEFT_INVALID_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(parse_code(cases[i].header, cases[i].bytes) == cases[i].code, "%s", cases[i].header);
    weft_arena arena;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_safetensors_index index;
    expect_code(weft_safetensors_parse(&arena, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &index), WEFT_INVALID_DATA);
    expect_code(weft_safetensors_parse(&arena, "\x02\0\0\0\0\0\0\0{", 9, &index), WEFT_INVALID_DATA);
    weft_arena_deinit(&arena);
}
END_TEST

START_TEST(safetensors_memory) {
    static const char *const name = "w", path[] = "/tmp/weft-test-memory.safetensors";
    for (size_t n = 1;; n++) {
        counting_allocator counting = {0};
        weft_context *context = context_with(&counting);
        weft_tensor *tensor, *back = NULL;
        ck_ok(weft_tensor_create(context, WEFT_U2, 1, (int64_t[]){9}, &tensor));
        counting.requests = 0;
        counting.fail_at = n;
        weft_safetensors *file = NULL;
        weft_status status = weft_safetensors_write(context, path, 1, &name, &tensor, 0, NULL, NULL);
        if (!status) status = weft_safetensors_open(context, path, &file);
        if (!status) status = weft_safetensors_get(file, 0, &back);
        bool done = counting.requests < n;
        expect_code(status, done ? WEFT_OK : WEFT_OUT_OF_MEMORY);
        weft_tensor_release(back);
        weft_safetensors_release(file);
        weft_tensor_release(tensor);
        weft_context_release(context);
        ck_assert_uint_eq(counting.live_bytes, 0);
        if (done) break;
    }
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

static void count_delete(weft_dl_managed *managed) { ++*(int *)managed->manager; }

START_TEST(dlpack) {
    counting_allocator counting = {0};
    weft_context *context = context_with(&counting);
    weft_tensor *tensor, *back;
    ck_ok(weft_tensor_create(context, WEFT_BF16, 2, (int64_t[]){2, 3}, &tensor));
    weft_dl_managed *managed;
    ck_ok(weft_tensor_to_dlpack(tensor, &managed));
    ck_assert(managed->tensor.dtype.code == 4 && managed->tensor.dtype.bits == 16 && managed->tensor.dtype.lanes == 1);
    ck_assert(managed->tensor.rank == 2 && managed->tensor.strides[0] == 3 && managed->tensor.device.type == 1);
    void *data = tensor->data;
    weft_tensor_release(tensor); /* the capsule keeps it */
    ck_ok(weft_tensor_from_dlpack(context, managed, &back));
    ck_assert_ptr_eq(back->data, data);
    ck_assert(back->dtype == WEFT_BF16 && back->shape[1] == 3);
    weft_tensor_release(back);

    int deleted = 0;
    float values[8];
    int64_t shape[2] = {2, 2}, strides[2] = {1, 2};
    weft_dl_managed foreign = {.tensor = {.data = values,
                                          .device = {1, 0},
                                          .rank = 2,
                                          .dtype = {2, 32, 1},
                                          .shape = shape,
                                          .strides = strides,
                                          .offset_bytes = 4},
                               .manager = &deleted,
                               .deleter = count_delete};
    ck_ok(weft_tensor_from_dlpack(context, &foreign, &back));
    ck_assert(back->data == values + 1 && !back->packed);
    weft_tensor_release(back);
    ck_assert_int_eq(deleted, 1);
    foreign.tensor.dtype.lanes = 4;
    expect_code(weft_tensor_from_dlpack(context, &foreign, &back), WEFT_UNSUPPORTED);
    foreign.tensor.dtype = (weft_dl_dtype){3, 64, 1}; /* an opaque handle */
    expect_code(weft_tensor_from_dlpack(context, &foreign, &back), WEFT_UNSUPPORTED);
    foreign.tensor.dtype = (weft_dl_dtype){2, 32, 1};
    foreign.tensor.device.type = 2;
    expect_code(weft_tensor_from_dlpack(context, &foreign, &back), WEFT_UNSUPPORTED);
    foreign.tensor.device.type = 1;
    foreign.tensor.rank = 17;
    expect_code(weft_tensor_from_dlpack(context, &foreign, &back), WEFT_INVALID_ARGUMENT);
    foreign.tensor.rank = 1;
    shape[0] = -1;
    expect_code(weft_tensor_from_dlpack(context, &foreign, &back), WEFT_INVALID_ARGUMENT);
    ck_assert_int_eq(deleted, 1); /* failures leave the capsule to the caller */
    weft_context_release(context);
    ck_assert_uint_eq(counting.live_bytes, 0);
}
END_TEST

/* A header is a dictionary of three values and nothing else: what two readers would read differently is refused. */
START_TEST(npy_headers) {
    static const struct {
        const char *header;
        bool fine;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", true},
        {"{\"shape\":(2,3),\"fortran_order\":True,\"descr\":\"<f4\"}", true},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': Truth, 'shape': (2, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }", false},
        {"{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'fortran_order': True, 'shape': (2, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'shape': (3, 2), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3) + (9,), }", false},
        {"{'descr': '<f4' + 'x', 'fortran_order': False, 'shape': (2, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,2, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", false},
        {"{'descr': '<f4', 'fortran_order': False, 'shape' (2, 3), }", false},
    };
    char path[] = "/tmp/weft-npy-XXXXXX", bytes[256];
    int descriptor = mkstemp(path);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq(close(descriptor), 0);
    weft_context *context;
    ck_ok(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = strlen(cases[i].header);
        memcpy(bytes, "\x93NUMPY\x01", 8);
        bytes[8] = (char)length, bytes[9] = 0;
        memcpy(bytes + 10, cases[i].header, length);
        for (int k = 0; k < 6; k++) memcpy(bytes + 10 + length + 4 * k, &(float){(float)k}, 4);
        ck_ok(weft_file_write_all(weft_allocator_system(), path, bytes, 10 + length + 24));
        weft_tensor *tensor;
        weft_status status = weft_npy_read(context, path, &tensor);
        ck_assert_msg((status == NULL) == cases[i].fine, "%s", cases[i].header);
        ck_assert(!cases[i].fine || ((float *)weft_tensor_data(tensor))[1] == (i == 0 ? 1 : 2));
        expect_code(status, cases[i].fine ? WEFT_OK : WEFT_INVALID_DATA);
        weft_tensor_release(tensor);
    }
    weft_context_release(context);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

Suite *exchange_suite(void) {
    Suite *suite = suite_create("exchange");
    TCase *tests = tcase_create("exchange");
    tcase_add_test(tests, safetensors_round_trip);
    tcase_add_test(tests, safetensors_hostile);
    tcase_add_test(tests, safetensors_memory);
    tcase_add_test(tests, dlpack);
    tcase_add_test(tests, npy_headers);
    suite_add_tcase(suite, tests);
    return suite;
}
