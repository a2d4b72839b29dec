/* TensorProto to tensors: every encoding of every element type, external data included. Invariant: nothing is read
   beyond what the message or the file holds. Source: onnx.proto's comments on TensorProto (ONNX 1.22). */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/need.h"
#include "frontend/onnx/import.h"

static const struct {
    int data_type;
    weft_dtype dtype;
} data_types[] = {
    {1, WEFT_F32},   {2, WEFT_U8},        {3, WEFT_I8},          {4, WEFT_U16},        {5, WEFT_I16},
    {6, WEFT_I32},   {7, WEFT_I64},       {8, WEFT_STRING},      {9, WEFT_BOOL},       {10, WEFT_F16},
    {11, WEFT_F64},  {12, WEFT_U32},      {13, WEFT_U64},        {14, WEFT_C64},       {15, WEFT_C128},
    {16, WEFT_BF16}, {17, WEFT_F8E4M3FN}, {18, WEFT_F8E4M3FNUZ}, {19, WEFT_F8E5M2},    {20, WEFT_F8E5M2FNUZ},
    {21, WEFT_U4},   {22, WEFT_I4},       {23, WEFT_F4E2M1FN},   {24, WEFT_F8E8M0FNU}, {25, WEFT_U2},
    {26, WEFT_I2},
};

weft_dtype weft_onnx_dtype(int64_t data_type) {
    for (size_t i = 0; i < sizeof data_types / sizeof *data_types; i++)
        if (data_types[i].data_type == data_type) return data_types[i].dtype;
    return WEFT_INVALID;
}

static const char *tensor_name(const Onnx__TensorProto *proto) { return proto->name ? proto->name : "?"; }

static weft_status wrong_size(const Onnx__TensorProto *proto, size_t have, size_t want) {
    return WEFT_STATUS(WEFT_INVALID_DATA, "tensor %s holds %zu entries or bytes where its shape needs %zu",
                       tensor_name(proto), have, want);
}

static weft_status take_bytes(const Onnx__TensorProto *proto, const void *from, size_t bytes, weft_tensor *tensor) {
    if (bytes != weft_tensor_bytes(tensor)) return wrong_size(proto, bytes, weft_tensor_bytes(tensor));
    if (bytes) memcpy(weft_tensor_data(tensor), from, bytes);
    return NULL;
}

static const char *external_entry(const Onnx__TensorProto *proto, const char *key) {
    for (size_t i = 0; i < proto->n_external_data; i++)
        if (proto->external_data[i]->key && strcmp(proto->external_data[i]->key, key) == 0)
            return proto->external_data[i]->value;
    return NULL;
}

static bool parse_size(const char *text, uint64_t *out) {
    uint64_t value = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || value > (UINT64_MAX - 9) / 10) return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *out = value;
    return true;
}

/* The location stays inside the model's folder: no absolute path, no "..". */
static bool location_is_safe(const char *location) {
    if (!*location || location[0] == '/' || location[0] == '\\' || strchr(location, ':')) return false;
    for (const char *part = location; part;) {
        size_t length = strcspn(part, "/\\");
        if (length == 2 && part[0] == '.' && part[1] == '.') return false;
        part = part[length] ? part + length + 1 : NULL;
    }
    return true;
}

/* real: without links. A folder that is not there holds nothing. */
static bool lies_in(const char *real, const char *folder) {
    char *base = realpath(folder, NULL);
    size_t length = base ? strlen(base) : 0;
    if (length == 1) length = 0; /* "/" */
    bool inside = base && strncmp(real, base, length) == 0 && real[length] == '/';
    free(base);
    return inside;
}

/* What is not there is for the reading to say. */
static weft_status check_links(const Onnx__TensorProto *proto, const char *path, const weft_onnx_folder *folder) {
    char *real = realpath(path, NULL);
    weft_status status = NULL;
    if (real && !lies_in(real, folder->path) && !(folder->home && lies_in(real, folder->home)))
        status = WEFT_STATUS(WEFT_INVALID_DATA, "tensor %s: %s is a link to %s, which is not inside the model's folder",
                             tensor_name(proto), path, real);
    free(real);
    return status;
}

static weft_status take_external(weft_context *context, const Onnx__TensorProto *proto, const weft_onnx_folder *folder,
                                 weft_tensor *tensor) {
    const char *location = external_entry(proto, "location"), *offset_text = external_entry(proto, "offset"),
               *length_text = external_entry(proto, "length");
    uint64_t offset = 0, length = weft_tensor_bytes(tensor);
    if (!location || !location_is_safe(location))
        return WEFT_STATUS(WEFT_INVALID_DATA, "tensor %s: external location %s is not inside the model's folder",
                           tensor_name(proto), location ? location : "(none)");
    if ((offset_text && !parse_size(offset_text, &offset)) || (length_text && !parse_size(length_text, &length)))
        return WEFT_STATUS(WEFT_INVALID_DATA, "tensor %s: external offset or length is not a number",
                           tensor_name(proto));
    if (!folder->path)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "tensor %s lies in the file %s, but the model was given without a folder",
                           tensor_name(proto), location);
    weft_arena scratch;
    weft_arena_init(context->allocator, &scratch);
    weft_status status = NULL;
    weft_file file = {0};
    const char *path = weft_arena_format(&scratch, "%s/%s", folder->path, location);
    status = path ? check_links(proto, path, folder) : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "path of external data");
    if (!status) status = weft_file_map(path, &file);
    if (status) goto done;
    if (offset > file.bytes || length > file.bytes - offset) {
        status = WEFT_STATUS(WEFT_INVALID_DATA, "tensor %s: %s has %zu bytes, wanted %llu at %llu", tensor_name(proto),
                             path, file.bytes, (unsigned long long)length, (unsigned long long)offset);
        goto done;
    }
    status = take_bytes(proto, (const char *)file.data + offset, (size_t)length, tensor);
done:
    weft_file_unmap(&file);
    weft_arena_deinit(&scratch);
    return status;
}

/* int32_data holds everything of at most 32 bits that is not f32: integers by value, 16- and 8-bit floats by bits,
   types below 8 bits packed into bytes. */
static weft_status take_int32(const Onnx__TensorProto *proto, weft_tensor *tensor) {
    weft_dtype dtype = weft_tensor_dtype(tensor);
    int bits = weft_dtype_bits(dtype);
    size_t count = (size_t)weft_tensor_element_count(tensor);
    size_t want = bits < 8 ? weft_tensor_bytes(tensor) : count;
    if (proto->n_int32_data != want) return wrong_size(proto, proto->n_int32_data, want);
    unsigned char *data = weft_tensor_data(tensor);
    for (size_t i = 0; i < want; i++) {
        uint32_t value = (uint32_t)proto->int32_data[i];
        if (bits <= 8)
            data[i] = dtype == WEFT_BOOL ? value != 0 : (unsigned char)value;
        else if (bits == 16)
            memcpy(data + 2 * i, &(uint16_t){(uint16_t)value}, 2);
        else
            memcpy(data + 4 * i, &value, 4);
    }
    return NULL;
}

static weft_status take_uint64(const Onnx__TensorProto *proto, weft_tensor *tensor) {
    size_t count = (size_t)weft_tensor_element_count(tensor);
    if (proto->n_uint64_data != count) return wrong_size(proto, proto->n_uint64_data, count);
    for (size_t i = 0; i < count; i++)
        weft_element_set_i64(weft_tensor_dtype(tensor), weft_tensor_data(tensor), (int64_t)i,
                             (int64_t)proto->uint64_data[i]);
    return NULL;
}

static weft_status take_typed(const Onnx__TensorProto *proto, weft_tensor *tensor) {
    switch (weft_tensor_dtype(tensor)) {
    case WEFT_F32:
    case WEFT_C64: return take_bytes(proto, proto->float_data, proto->n_float_data * sizeof(float), tensor);
    case WEFT_F64:
    case WEFT_C128: return take_bytes(proto, proto->double_data, proto->n_double_data * sizeof(double), tensor);
    case WEFT_I64: return take_bytes(proto, proto->int64_data, proto->n_int64_data * sizeof(int64_t), tensor);
    case WEFT_U32:
    case WEFT_U64: return take_uint64(proto, tensor);
    case WEFT_BOOL:
    case WEFT_I8:
    case WEFT_I16:
    case WEFT_I32:
    case WEFT_U8:
    case WEFT_U16:
    case WEFT_F16:
    case WEFT_BF16:
    case WEFT_F8E4M3FN:
    case WEFT_F8E4M3FNUZ:
    case WEFT_F8E5M2:
    case WEFT_F8E5M2FNUZ:
    case WEFT_F8E8M0FNU:
    case WEFT_F4E2M1FN:
    case WEFT_I4:
    case WEFT_U4:
    case WEFT_I2:
    case WEFT_U2: return take_int32(proto, tensor);
    case WEFT_INVALID:
    case WEFT_STRING:
    case WEFT_DTYPE_COUNT: break;
    }
    return WEFT_STATUS(WEFT_UNSUPPORTED, "tensor %s has elements of type %s", tensor_name(proto),
                       weft_dtype_name(weft_tensor_dtype(tensor)));
}

/* Dense tensors above this are refused before memory is asked for: the file cannot hold them. */
static weft_status check_claim(const Onnx__TensorProto *proto, weft_dtype dtype) {
    uint64_t count = 1;
    for (size_t i = 0; i < proto->n_dims; i++) {
        if (proto->dims[i] < 0)
            return WEFT_STATUS(WEFT_INVALID_DATA, "tensor %s has a negative extent", tensor_name(proto));
        if (proto->dims[i] && count > (uint64_t)INT64_MAX / (uint64_t)proto->dims[i])
            return WEFT_STATUS(WEFT_INVALID_DATA, "the size of tensor %s overflows", tensor_name(proto));
        count *= (uint64_t)proto->dims[i];
    }
    if (proto->data_location == 1) return NULL;
    uint64_t held = proto->raw_data.len * 4 + proto->n_float_data + proto->n_int32_data * 4 + proto->n_int64_data +
                    proto->n_double_data + proto->n_uint64_data;
    if (count > held) return wrong_size(proto, (size_t)held, (size_t)count);
    (void)dtype;
    return NULL;
}

weft_status weft_onnx_tensor_create(weft_context *context, const Onnx__TensorProto *proto,
                                    const weft_onnx_folder *folder, weft_tensor **out_tensor) {
    *out_tensor = NULL;
    weft_dtype dtype = weft_onnx_dtype(proto->data_type);
    if (dtype == WEFT_INVALID)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "tensor %s has the unknown element type %d", tensor_name(proto),
                           proto->data_type);
    if (dtype == WEFT_STRING)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "tensor %s holds strings, which exist on the host only",
                           tensor_name(proto));
    if (proto->n_dims > WEFT_MAX_RANK)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "tensor %s has rank %zu, above %d", tensor_name(proto), proto->n_dims,
                           WEFT_MAX_RANK);
    WEFT_TRY(check_claim(proto, dtype), "tensor %s", tensor_name(proto));
    weft_tensor *tensor;
    WEFT_TRY(weft_tensor_create(context, dtype, (int)proto->n_dims, proto->dims, &tensor), "tensor %s",
             tensor_name(proto));
    weft_status status;
    if (proto->data_location == 1)
        status = take_external(context, proto, folder, tensor);
    else if (proto->has_raw_data)
        status = take_bytes(proto, proto->raw_data.data, proto->raw_data.len, tensor);
    else
        status = take_typed(proto, tensor);
    if (status) {
        weft_tensor_release(tensor);
        return weft_status_annotate(status, __FILE__, __LINE__, "tensor %s", tensor_name(proto));
    }
    *out_tensor = tensor;
    return NULL;
}

/* The dense tensor of a sparse one. indices: flat positions [n] or addresses [n, rank]. */
static weft_status scatter_sparse(const Onnx__SparseTensorProto *proto, weft_tensor *values, weft_tensor *indices,
                                  weft_tensor *dense) {
    int64_t count = weft_tensor_element_count(values);
    int rank = weft_tensor_rank(dense);
    const int64_t *shape = weft_tensor_shape(dense), *index = weft_tensor_data(indices);
    bool flat = weft_tensor_rank(indices) == 1;
    if (weft_tensor_dtype(indices) != WEFT_I64 || weft_tensor_element_count(indices) != (flat ? count : count * rank) ||
        weft_dtype_bits(weft_tensor_dtype(values)) < 8)
        return WEFT_STATUS(WEFT_INVALID_DATA, "sparse tensor %s: indices do not fit its values",
                           tensor_name(proto->values));
    size_t bytes = (size_t)weft_dtype_bits(weft_tensor_dtype(values)) / 8;
    for (int64_t i = 0; i < count; i++) {
        int64_t position = 0;
        for (int k = 0; !flat && k < rank; k++) {
            int64_t component = index[i * rank + k];
            if (component < 0 || component >= shape[k]) position = -1;
            if (position >= 0) position = position * shape[k] + component;
        }
        if (flat) position = index[i];
        if (position < 0 || position >= weft_tensor_element_count(dense))
            return WEFT_STATUS(WEFT_INVALID_DATA, "sparse tensor %s: an index is out of range",
                               tensor_name(proto->values));
        memcpy((char *)weft_tensor_data(dense) + (size_t)position * bytes,
               (char *)weft_tensor_data(values) + (size_t)i * bytes, bytes);
    }
    return NULL;
}

weft_status weft_onnx_sparse_tensor_create(weft_context *context, const Onnx__SparseTensorProto *proto,
                                           const weft_onnx_folder *folder, weft_tensor **out_tensor) {
    *out_tensor = NULL;
    if (!proto->values || !proto->indices || proto->n_dims > WEFT_MAX_RANK)
        return WEFT_STATUS(WEFT_INVALID_DATA, "an incomplete sparse tensor");
    uint64_t total = 1;
    for (size_t i = 0; i < proto->n_dims; i++) {
        if (proto->dims[i] < 0 || (proto->dims[i] && total > ((uint64_t)1 << 40) / (uint64_t)proto->dims[i]))
            return WEFT_STATUS(WEFT_INVALID_DATA, "a sparse tensor with an extent of %lld", (long long)proto->dims[i]);
        total *= (uint64_t)proto->dims[i];
    }
    weft_tensor *values = NULL, *indices = NULL, *dense = NULL;
    weft_status status = weft_onnx_tensor_create(context, proto->values, folder, &values);
    if (!status) status = weft_onnx_tensor_create(context, proto->indices, folder, &indices);
    if (!status)
        status = weft_tensor_create(context, weft_tensor_dtype(values), (int)proto->n_dims, proto->dims, &dense);
    if (!status) status = scatter_sparse(proto, values, indices, dense);
    if (status) {
        weft_tensor_release(dense);
        dense = NULL;
    }
    weft_tensor_release(values);
    weft_tensor_release(indices);
    *out_tensor = dense;
    return status;
}

weft_status weft_onnx_tensor_read(weft_context *context, const void *data, size_t bytes, weft_tensor **out_tensor,
                                  char **out_name) {
    WEFT_NEED(out_tensor, "out_tensor");
    *out_tensor = NULL;
    if (out_name) *out_name = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED_LIST(data, bytes, "the list of bytes");
    weft_arena arena;
    weft_arena_init(context->allocator, &arena);
    ProtobufCMessage *message;
    weft_status status = weft_onnx_message_unpack(&arena, &onnx__tensor_proto__descriptor, data, bytes, &message);
    if (!status)
        status =
            weft_onnx_tensor_create(context, (const Onnx__TensorProto *)message, &(weft_onnx_folder){0}, out_tensor);
    if (!status && out_name) {
        weft_text text;
        weft_text_init(context->allocator, &text);
        const char *name = ((const Onnx__TensorProto *)message)->name;
        weft_text_append(&text, "%s", name ? name : "");
        status = weft_onnx_text_take(context, &text, out_name);
        if (status) {
            weft_tensor_release(*out_tensor);
            *out_tensor = NULL;
        }
    }
    weft_arena_deinit(&arena);
    return status;
}
