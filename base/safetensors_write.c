/* Writing safetensors. Wide elements come first, so that every tensor is aligned to its element; the header is padded
   to a multiple of 64 bytes. Equal tensors give equal bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/need.h"
#include "base/safetensors.h"
#include "base/tensor.h"

typedef struct weft_save_item {
    const char *name;
    const weft_tensor *tensor;
    int position; /* in the caller's list */
} weft_save_item;

/* The format counts F4 in whole bytes: an odd number of them goes as bytes too. */
static const char *native_name(const weft_tensor *tensor) {
    const char *name = weft_safetensors_dtype_name(tensor->dtype);
    int64_t per_byte = weft_dtype_bits(tensor->dtype) < 8 ? 8 / weft_dtype_bits(tensor->dtype) : 1;
    return tensor->element_count % per_byte ? NULL : name;
}

static int by_width(const void *a, const void *b) {
    const weft_save_item *x = a, *y = b;
    int bits_x = native_name(x->tensor) ? weft_dtype_bits(x->tensor->dtype) : 8;
    int bits_y = native_name(y->tensor) ? weft_dtype_bits(y->tensor->dtype) : 8;
    return bits_x != bits_y ? bits_y - bits_x : x->position - y->position;
}

static void append_shape(weft_text *text, const weft_tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++) weft_text_append(text, "%s%lld", i ? "," : "", (long long)tensor->shape[i]);
}

static void append_metadata(weft_text *text, int count, const weft_save_item *items, int metadata_count,
                            const char *const *keys, const char *const *texts) {
    bool first = true;
    for (int i = 0; i < metadata_count; i++, first = false) {
        weft_text_append(text, "%s", first ? "\"__metadata__\":{" : ",");
        weft_text_append_quoted(text, keys[i], strlen(keys[i]));
        weft_text_append(text, ":");
        weft_text_append_quoted(text, texts[i], strlen(texts[i]));
    }
    for (int i = 0; i < count; i++) {
        if (native_name(items[i].tensor)) continue;
        weft_text key;
        weft_text_init(text->allocator, &key);
        weft_text_append(&key, "weft.dtype.%s", items[i].name);
        weft_text_append(text, "%s", first ? "\"__metadata__\":{" : ",");
        weft_text_append_quoted(text, weft_text_string(&key), key.length);
        weft_text_append(text, ":\"%s[", weft_dtype_name(items[i].tensor->dtype));
        append_shape(text, items[i].tensor);
        weft_text_append(text, "]\"");
        text->failed = text->failed || key.failed;
        weft_text_deinit(&key);
        first = false;
    }
    if (!first) weft_text_append(text, "}%s", count ? "," : "");
}

static void append_header(weft_text *text, int count, const weft_save_item *items, int metadata_count,
                          const char *const *keys, const char *const *texts) {
    size_t at = 0;
    weft_text_append(text, "{");
    append_metadata(text, count, items, metadata_count, keys, texts);
    for (int i = 0; i < count; i++) {
        const weft_tensor *tensor = items[i].tensor;
        const char *dtype = native_name(tensor);
        if (i) weft_text_append(text, ",");
        weft_text_append_quoted(text, items[i].name, strlen(items[i].name));
        weft_text_append(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype ? dtype : "U8");
        if (dtype)
            append_shape(text, tensor);
        else
            weft_text_append(text, "%zu", tensor->bytes);
        weft_text_append(text, "],\"data_offsets\":[%zu,%zu]}", at, at + tensor->bytes);
        at += tensor->bytes;
    }
    weft_text_append(text, "}");
    while (!text->failed && (text->length + 8) % 64) weft_text_append_bytes(text, " ", 1);
}

static weft_status write_content(FILE *file, const weft_text *header, int count, const weft_save_item *items) {
    unsigned char size[8];
    for (int i = 0; i < 8; i++) size[i] = (unsigned char)((uint64_t)header->length >> (8 * i));
    bool written = fwrite(size, 1, 8, file) == 8 && fwrite(header->data, 1, header->length, file) == header->length;
    for (int i = 0; i < count && written; i++) {
        size_t bytes = items[i].tensor->bytes;
        written = bytes == 0 || fwrite(items[i].tensor->data, 1, bytes, file) == bytes;
    }
    return written ? NULL : weft_file_error("write", "a safetensors file", errno);
}

static weft_status save_items(weft_context *context, const char *path, int count, weft_save_item *items,
                              const weft_text *header) {
    WEFT_TRY(weft_text_status(header), "saving %s", path);
    weft_file_writer writer;
    WEFT_TRY(weft_file_writer_open(context->allocator, path, &writer), "saving %s", path);
    weft_status status = write_content(writer.file, header, count, items);
    if (!status) return weft_file_writer_commit(&writer);
    weft_file_writer_abandon(&writer);
    return weft_status_annotate(status, __FILE__, __LINE__, "saving %s", path);
}

static weft_status check_items(int count, const weft_save_item *items) {
    for (int i = 0; i < count; i++) {
        WEFT_NEED(items[i].name, "the name of a tensor");
        WEFT_NEED(items[i].tensor, "a tensor");
        if (!items[i].tensor->packed || items[i].tensor->device)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "tensor %s is not a packed host tensor", items[i].name);
        if (!strcmp(items[i].name, "__metadata__"))
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "no tensor can be named __metadata__");
    }
    return NULL;
}

/* A name given twice or one that is no UTF-8 makes a file that readers refuse: ours reads the header first. */
static weft_status check_header(weft_allocator allocator, const weft_text *header) {
    weft_arena arena;
    weft_json *root;
    WEFT_TRY(weft_text_status(header), "the header");
    weft_arena_init(allocator, &arena);
    weft_status status = weft_json_parse(&arena, weft_text_string(header), header->length, &root);
    weft_arena_deinit(&arena);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY || !status) return status;
    weft_status wrong =
        WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a name or a text of the metadata is given twice or is no UTF-8: %s",
                    weft_status_message(status));
    weft_status_release(status);
    return wrong;
}

weft_status weft_safetensors_write(weft_context *context, const char *path, int count, const char *const *names,
                                   weft_tensor *const *tensors, int metadata_count, const char *const *keys,
                                   const char *const *texts) {
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    WEFT_NEED_LIST(names, count, "the list of names");
    WEFT_NEED_LIST(tensors, count, "the list of tensors");
    WEFT_NEED_LIST(keys, metadata_count, "the list of keys");
    WEFT_NEED_LIST(texts, metadata_count, "the list of texts");
    if (count < 0 || metadata_count < 0) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a negative count");
    size_t bytes = (size_t)count * sizeof(weft_save_item);
    weft_save_item *items = weft_allocate(context->allocator, bytes);
    if (!items) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %d tensors", count);
    for (int i = 0; i < count; i++) items[i] = (weft_save_item){names[i], tensors[i], i};
    weft_text header;
    weft_text_init(context->allocator, &header);
    weft_status status = check_items(count, items);
    for (int i = 0; i < metadata_count && !status; i++)
        if (!keys[i] || !texts[i])
            status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a key or text of the metadata is missing");
    if (!status) {
        qsort(items, (size_t)count, sizeof *items, by_width);
        append_header(&header, count, items, metadata_count, keys, texts);
        status = check_header(context->allocator, &header);
    }
    if (!status) {
        status = save_items(context, path, count, items, &header);
    }
    weft_text_deinit(&header);
    weft_free(context->allocator, items, bytes);
    return status;
}
