/* DLPack exchange. Codes of 8-bit and narrower floats are those of DLPack 1.1; their elements are packed as Weft's are.
 */
#include "weft/dlpack.h"

#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/need.h"
#include "base/tensor.h"

enum { DEVICE_CPU = 1, DEVICE_PINNED = 3 };

static const struct {
    weft_dtype dtype;
    uint8_t code, bits;
} codes[] = {
    {WEFT_I8, 0, 8},          {WEFT_I16, 0, 16},    {WEFT_I32, 0, 32},        {WEFT_I64, 0, 64},
    {WEFT_I4, 0, 4},          {WEFT_I2, 0, 2},      {WEFT_U8, 1, 8},          {WEFT_U16, 1, 16},
    {WEFT_U32, 1, 32},        {WEFT_U64, 1, 64},    {WEFT_U4, 1, 4},          {WEFT_U2, 1, 2},
    {WEFT_F16, 2, 16},        {WEFT_F32, 2, 32},    {WEFT_F64, 2, 64},        {WEFT_BF16, 4, 16},
    {WEFT_C64, 5, 64},        {WEFT_C128, 5, 128},  {WEFT_BOOL, 6, 8},        {WEFT_F8E4M3FN, 10, 8},
    {WEFT_F8E4M3FNUZ, 11, 8}, {WEFT_F8E5M2, 12, 8}, {WEFT_F8E5M2FNUZ, 13, 8}, {WEFT_F8E8M0FNU, 14, 8},
    {WEFT_F4E2M1FN, 17, 4},
};

static bool find_code(weft_dtype dtype, weft_dl_dtype *out) {
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].dtype != dtype) continue;
        *out = (weft_dl_dtype){codes[i].code, codes[i].bits, 1};
        return true;
    }
    return false;
}

static weft_dtype find_dtype(weft_dl_dtype dtype) {
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == dtype.code && codes[i].bits == dtype.bits) return codes[i].dtype;
    return WEFT_INVALID;
}

/* The capsule with the shape that it points to. The tensor's reference is what keeps the data. */
typedef struct weft_dl_export {
    weft_dl_managed managed;
    weft_tensor *tensor;
    int64_t shape[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
} weft_dl_export;

static void delete_export(weft_dl_managed *managed) {
    weft_dl_export *export = managed->manager;
    weft_tensor *tensor = export->tensor;
    weft_free(tensor->context->allocator, export, sizeof *export);
    weft_tensor_release(tensor);
}

weft_status weft_tensor_to_dlpack(weft_tensor *tensor, weft_dl_managed **out_managed) {
    WEFT_NEED(out_managed, "out_managed");
    *out_managed = NULL;
    WEFT_NEED(tensor, "the tensor");
    weft_dl_dtype dtype;
    if (tensor->device)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "DLPack: the tensor is in device memory; copy it to the host");
    if (!find_code(tensor->dtype, &dtype))
        return WEFT_STATUS(WEFT_UNSUPPORTED, "DLPack has no code for %s", weft_dtype_name(tensor->dtype));
    weft_dl_export *export = weft_allocate(tensor->context->allocator, sizeof *export);
    if (!export) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a DLPack capsule");
    memcpy(export->shape, tensor->shape, sizeof export->shape);
    memcpy(export->strides, tensor->strides, sizeof export->strides);
    export->tensor = tensor;
    weft_tensor_retain(tensor);
    export->managed = (weft_dl_managed){
        .tensor = {.data = tensor->data,
                   .device = {DEVICE_CPU, 0},
                   .rank = tensor->rank,
                   .dtype = dtype,
                   .shape = export->shape,
                   .strides = export->strides},
        .manager = export,
        .deleter = delete_export,
    };
    *out_managed = &export->managed;
    return NULL;
}

static void release_import(void *self, void *data) {
    weft_dl_managed *managed = self;
    (void)data;
    if (managed->deleter) managed->deleter(managed);
}

weft_status weft_tensor_from_dlpack(weft_context *context, weft_dl_managed *managed, weft_tensor **out_tensor) {
    WEFT_NEED(out_tensor, "out_tensor");
    *out_tensor = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(managed, "the tensor");
    const weft_dl_tensor *tensor = &managed->tensor;
    if (tensor->device.type != DEVICE_CPU && tensor->device.type != DEVICE_PINNED)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "DLPack: memory of device type %d; Weft takes host memory",
                           (int)tensor->device.type);
    weft_dtype dtype = find_dtype(tensor->dtype);
    if (dtype == WEFT_INVALID || tensor->dtype.lanes != 1)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "DLPack: type code %d of %d bits and %d lanes", tensor->dtype.code,
                           tensor->dtype.bits, tensor->dtype.lanes);
    if (tensor->rank < 0 || tensor->rank > WEFT_MAX_RANK || (tensor->rank && !tensor->shape))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "DLPack: rank %d", (int)tensor->rank);
    unsigned char *data = tensor->data;
    if (data) data += tensor->offset_bytes;
    return weft_tensor_wrap(context, dtype, tensor->rank, tensor->shape, tensor->strides, data, release_import, managed,
                            out_tensor);
}
