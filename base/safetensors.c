/* Reading safetensors. A hostile file cannot make an entry point outside the data: offsets are checked one by one and
   together they tile it. Read next: safetensors_write.c. */
#include "base/safetensors.h"
#include "base/need.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/tensor.h"

enum { HEADER_LIMIT = 100 << 20 }; /* the reference implementation's */

#define BAD(...) WEFT_STATUS(WEFT_INVALID_DATA, "safetensors: " __VA_ARGS__)

static const struct {
    const char *name;
    weft_dtype dtype;
    int bits;
} dtype_names[] = {
    {"BOOL", WEFT_BOOL, 8},
    {"U8", WEFT_U8, 8},
    {"I8", WEFT_I8, 8},
    {"U16", WEFT_U16, 16},
    {"I16", WEFT_I16, 16},
    {"U32", WEFT_U32, 32},
    {"I32", WEFT_I32, 32},
    {"U64", WEFT_U64, 64},
    {"I64", WEFT_I64, 64},
    {"F16", WEFT_F16, 16},
    {"BF16", WEFT_BF16, 16},
    {"F32", WEFT_F32, 32},
    {"F64", WEFT_F64, 64},
    {"C64", WEFT_C64, 64},
    {"F8_E4M3", WEFT_F8E4M3FN, 8},
    {"F8_E5M2", WEFT_F8E5M2, 8},
    {"F8_E8M0", WEFT_F8E8M0FNU, 8},
    {"F4", WEFT_F4E2M1FN, 4},
    {"F6_E2M3", WEFT_INVALID, 6},
    {"F6_E3M2", WEFT_INVALID, 6},
};

const char *weft_safetensors_dtype_name(weft_dtype dtype) {
    for (size_t i = 0; i < sizeof dtype_names / sizeof *dtype_names; i++)
        if (dtype_names[i].dtype == dtype && dtype != WEFT_INVALID) return dtype_names[i].name;
    return NULL;
}

static weft_status read_shape(const weft_json *shape, int64_t *out_shape, int *out_rank, int64_t *out_count) {
    if (!shape || shape->kind != WEFT_JSON_ARRAY) return BAD("no shape");
    if (shape->length > WEFT_MAX_RANK) return WEFT_STATUS(WEFT_UNSUPPORTED, "safetensors: rank %zu", shape->length);
    *out_rank = (int)shape->length;
    *out_count = 1;
    for (size_t i = 0; i < shape->length; i++) {
        const weft_json *extent = &shape->children[i];
        if (extent->kind != WEFT_JSON_NUMBER || !extent->is_integer || extent->integer < 0)
            return BAD("extent %zu is not a count", i);
        if (__builtin_mul_overflow(*out_count, extent->integer, out_count)) return BAD("the shape overflows");
        out_shape[i] = extent->integer;
    }
    return NULL;
}

static weft_status read_offsets(const weft_json *offsets, size_t data_bytes, size_t *out_begin, size_t *out_end) {
    if (!offsets || offsets->kind != WEFT_JSON_ARRAY || offsets->length != 2) return BAD("no data_offsets");
    const weft_json *begin = &offsets->children[0], *end = &offsets->children[1];
    if (begin->kind != WEFT_JSON_NUMBER || end->kind != WEFT_JSON_NUMBER || !begin->is_integer || !end->is_integer ||
        begin->integer < 0 || end->integer < begin->integer || (uint64_t)end->integer > data_bytes)
        return BAD("data_offsets lie outside the %zu bytes of data", data_bytes);
    *out_begin = (size_t)begin->integer;
    *out_end = (size_t)end->integer;
    return NULL;
}

static weft_status read_entry(const weft_json *json, const unsigned char *data, size_t data_bytes,
                              weft_safetensors_entry *entry) {
    if (json->kind != WEFT_JSON_OBJECT) return BAD("not an object");
    const weft_json *dtype = weft_json_find(json, "dtype");
    if (!dtype || dtype->kind != WEFT_JSON_STRING) return BAD("no dtype");
    int64_t count = 0;
    size_t begin = 0, end = 0, bits_total;
    WEFT_TRY(read_shape(weft_json_find(json, "shape"), entry->shape, &entry->rank, &count), "shape");
    WEFT_TRY(read_offsets(weft_json_find(json, "data_offsets"), data_bytes, &begin, &end), "data_offsets");
    entry->type_name = dtype->string;
    entry->data = data + begin;
    entry->bytes = end - begin;
    for (size_t i = 0; i < sizeof dtype_names / sizeof *dtype_names; i++) {
        if (strcmp(dtype_names[i].name, dtype->string)) continue;
        if (!weft_size_multiply((size_t)count, (size_t)dtype_names[i].bits, &bits_total) || bits_total % 8 ||
            bits_total / 8 != entry->bytes)
            return BAD("%lld elements of %s do not fill %zu bytes", (long long)count, dtype->string, entry->bytes);
        entry->dtype = dtype_names[i].dtype;
        return NULL;
    }
    return NULL; /* a newer dtype: INVALID, refused when it is read */
}

static int by_begin(const void *a, const void *b) {
    const weft_safetensors_entry *x = a, *y = b;
    if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const weft_safetensors_entry *)a)->name, ((const weft_safetensors_entry *)b)->name);
}

/* The entries cover the data without holes and without overlap. */
static weft_status check_tiling(weft_safetensors_entry *entries, size_t count, const unsigned char *data,
                                size_t bytes) {
    const unsigned char *at = data;
    qsort(entries, count, sizeof *entries, by_begin);
    for (size_t i = 0; i < count; i++) {
        if ((const unsigned char *)entries[i].data != at)
            return BAD("a hole or an overlap in front of %s", entries[i].name);
        at += entries[i].bytes;
    }
    return at == data + bytes ? NULL : BAD("%zu bytes belong to no tensor", (size_t)(data + bytes - at));
}

/* "i4[3,5]": false when it is not a type. */
static bool parse_type(const char *text, weft_dtype *out_dtype, int *out_rank, int64_t *out_shape, int64_t *out_count) {
    char name[32];
    const char *at = strchr(text, '[');
    if (!at || (size_t)(at - text) >= sizeof name) return false;
    memcpy(name, text, (size_t)(at - text));
    name[at - text] = 0;
    *out_dtype = weft_dtype_find(name);
    *out_rank = 0;
    *out_count = 1;
    for (at++; *at && *at != ']';) {
        char *end;
        if (*out_rank == WEFT_MAX_RANK || *at < '0' || *at > '9') return false;
        out_shape[*out_rank] = strtoll(at, &end, 10);
        if (__builtin_mul_overflow(*out_count, out_shape[*out_rank], out_count)) return false;
        ++*out_rank;
        at = *end == ',' ? end + 1 : end;
    }
    return *at == ']' && weft_dtype_bits(*out_dtype) != 0;
}

/* Types kept as bytes: metadata "weft.dtype.NAME" = "i4[3,5]" turns u8 back into what it was. */
static weft_status restore_types(const weft_json *metadata, weft_safetensors_entry *entries, size_t count) {
    static const char prefix[] = "weft.dtype.";
    for (size_t i = 0; metadata && i < metadata->length; i++) {
        if (strncmp(metadata->keys[i], prefix, sizeof prefix - 1)) continue;
        const weft_safetensors_entry key = {.name = metadata->keys[i] + sizeof prefix - 1};
        weft_safetensors_entry *entry = count ? bsearch(&key, entries, count, sizeof key, by_name) : NULL;
        if (!entry) continue;
        weft_safetensors_entry typed = *entry;
        int64_t elements;
        size_t bytes;
        const char *text = metadata->children[i].string;
        if (entry->dtype != WEFT_U8 || !parse_type(text, &typed.dtype, &typed.rank, typed.shape, &elements) ||
            !weft_dtype_bytes(typed.dtype, elements, &bytes) || bytes != entry->bytes)
            return BAD("%s cannot be of type %s", entry->name, text);
        *entry = typed;
    }
    return NULL;
}

static weft_status check_metadata(const weft_json *metadata) {
    if (metadata->kind != WEFT_JSON_OBJECT) return BAD("__metadata__ is not an object");
    for (size_t i = 0; i < metadata->length; i++)
        if (metadata->children[i].kind != WEFT_JSON_STRING)
            return BAD("metadata %s is not a string", metadata->keys[i]);
    return NULL;
}

static weft_status parse_header(weft_arena *arena, const unsigned char *data, size_t bytes, weft_json **out_root,
                                size_t *out_start) {
    uint64_t header_bytes = 0;
    if (bytes < 8) return BAD("%zu bytes are too few", bytes);
    for (int i = 0; i < 8; i++) header_bytes |= (uint64_t)data[i] << (8 * i);
    if (header_bytes > bytes - 8 || header_bytes > HEADER_LIMIT)
        return BAD("a header of %llu bytes", (unsigned long long)header_bytes);
    WEFT_TRY(weft_json_parse(arena, (const char *)data + 8, (size_t)header_bytes, out_root), "safetensors header");
    *out_start = 8 + (size_t)header_bytes;
    return (*out_root)->kind == WEFT_JSON_OBJECT ? NULL : BAD("the header is not an object");
}

weft_status weft_safetensors_parse(weft_arena *arena, const void *data, size_t bytes,
                                   weft_safetensors_index *out_index) {
    *out_index = (weft_safetensors_index){0};
    weft_json *root = NULL;
    size_t start = 0, count = 0;
    WEFT_TRY(parse_header(arena, data, bytes, &root, &start), "opening");
    const unsigned char *payload = (const unsigned char *)data + start;
    const weft_json *metadata = weft_json_find(root, "__metadata__");
    if (metadata) WEFT_TRY(check_metadata(metadata), "opening");
    weft_safetensors_entry *entries = weft_arena_allocate_array(arena, root->length, sizeof *entries);
    if (!entries) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu tensors", root->length);
    for (size_t i = 0; i < root->length; i++) {
        if (&root->children[i] == metadata) continue;
        entries[count].name = root->keys[i];
        WEFT_TRY(read_entry(&root->children[i], payload, bytes - start, &entries[count]), "tensor %s", root->keys[i]);
        count++;
    }
    WEFT_TRY(check_tiling(entries, count, payload, bytes - start), "opening");
    qsort(entries, count, sizeof *entries, by_name);
    WEFT_TRY(restore_types(metadata, entries, count), "opening");
    *out_index = (weft_safetensors_index){.count = count, .entries = entries, .metadata = metadata};
    return NULL;
}

const weft_safetensors_entry *weft_safetensors_lookup(const weft_safetensors_index *index, const char *name) {
    const weft_safetensors_entry key = {.name = name};
    return index->count ? bsearch(&key, index->entries, index->count, sizeof key, by_name) : NULL;
}

/* -- the public reader */

struct weft_safetensors {
    atomic_int references; /* the opener's and one per view */
    weft_context *context;
    weft_arena arena;
    weft_file file;
    weft_safetensors_index index;
};

weft_status weft_safetensors_open(weft_context *context, const char *path, weft_safetensors **out_file) {
    WEFT_NEED(out_file, "out_file");
    *out_file = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    weft_safetensors *file = weft_allocate(context->allocator, sizeof *file);
    if (!file) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a tensor file");
    atomic_init(&file->references, 1);
    file->context = context;
    weft_context_retain(context);
    weft_arena_init(context->allocator, &file->arena);
    weft_status status = weft_file_map(path, &file->file);
    if (!status) status = weft_safetensors_parse(&file->arena, file->file.data, file->file.bytes, &file->index);
    if (status) {
        weft_safetensors_release(file);
        return weft_status_annotate(status, __FILE__, __LINE__, "opening %s", path);
    }
    *out_file = file;
    return NULL;
}

void weft_safetensors_release(weft_safetensors *file) {
    if (!file || atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) != 1) return;
    weft_context *context = file->context;
    weft_file_unmap(&file->file);
    weft_arena_deinit(&file->arena);
    weft_free(context->allocator, file, sizeof *file);
    weft_context_release(context);
}

int weft_safetensors_count(const weft_safetensors *file) { return file ? (int)file->index.count : 0; }

const char *weft_safetensors_name(const weft_safetensors *file, int index) {
    return index >= 0 && index < weft_safetensors_count(file) ? file->index.entries[index].name : NULL;
}

int weft_safetensors_find(const weft_safetensors *file, const char *name) {
    const weft_safetensors_entry *entry = file && name ? weft_safetensors_lookup(&file->index, name) : NULL;
    return entry ? (int)(entry - file->index.entries) : -1;
}

static void release_view(void *self, void *data) {
    (void)data;
    weft_safetensors_release(self);
}

weft_status weft_safetensors_get(weft_safetensors *file, int index, weft_tensor **out_tensor) {
    WEFT_NEED(out_tensor, "out_tensor");
    *out_tensor = NULL;
    WEFT_NEED(file, "the file");
    if (index < 0 || (size_t)index >= file->index.count)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "tensor %d of %zu", index, file->index.count);
    const weft_safetensors_entry *entry = &file->index.entries[index];
    if (entry->dtype == WEFT_INVALID)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "tensor %s has the dtype %s", entry->name, entry->type_name);
    union {
        const void *constant;
        void *plain;
    } data = {entry->data};
    uintptr_t align_bytes = weft_dtype_bits(entry->dtype) < 8 ? 1 : (uintptr_t)weft_dtype_bits(entry->dtype) / 8;
    if ((uintptr_t)entry->data % align_bytes)
        return weft_tensor_create_copy(file->context, entry->dtype, entry->rank, entry->shape, entry->data, out_tensor);
    atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
    weft_status status = weft_tensor_wrap(file->context, entry->dtype, entry->rank, entry->shape, NULL, data.plain,
                                          release_view, file, out_tensor);
    if (status) weft_safetensors_release(file);
    return status;
}

const char *weft_safetensors_metadata(const weft_safetensors *file, const char *key) {
    const weft_json *value = file && key && file->index.metadata ? weft_json_find(file->index.metadata, key) : NULL;
    return value ? value->string : NULL;
}
