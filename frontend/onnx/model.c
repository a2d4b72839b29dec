/* Bytes to messages. protobuf-c recurses as deep as the file nests, so nesting is checked first with a bound; all
   messages live in the caller's arena. Read next: tensor.c. Source: the protobuf wire format. */
#include <string.h>

#include "frontend/onnx/import.h"

enum { MESSAGE_DEPTH_MAX = 400 };

static void *arena_allocate(void *self, size_t bytes) { return weft_arena_allocate(self, bytes); }
static void arena_free(void *self, void *pointer) { (void)self, (void)pointer; }

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Walks nested messages only; false when a field runs over its message or the nesting is too deep. */
static bool nesting_fits(const ProtobufCMessageDescriptor *descriptor, const uint8_t *at, const uint8_t *end,
                         int depth) {
    if (depth > MESSAGE_DEPTH_MAX) return false;
    while (at < end) {
        uint64_t tag, length;
        if (!read_varint(&at, end, &tag)) return false;
        switch (tag & 7) {
        case 0:
            if (!read_varint(&at, end, &length)) return false;
            break;
        case 1:
        case 5: {
            size_t fixed = (tag & 7) == 1 ? 8 : 4;
            if ((size_t)(end - at) < fixed) return false;
            at += fixed;
            break;
        }
        case 2: {
            if (!read_varint(&at, end, &length) || length > (uint64_t)(end - at)) return false;
            const ProtobufCFieldDescriptor *field =
                tag >> 3 <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(tag >> 3))
                                       : NULL;
            if (field && field->type == PROTOBUF_C_TYPE_MESSAGE &&
                !nesting_fits(field->descriptor, at, at + length, depth + 1))
                return false;
            at += length;
            break;
        }
        default: return false;
        }
    }
    return true;
}

weft_status weft_onnx_message_unpack(weft_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data,
                                     size_t bytes, ProtobufCMessage **out_message) {
    *out_message = NULL;
    if (bytes > 0 && !nesting_fits(descriptor, data, (const uint8_t *)data + bytes, 0))
        return WEFT_STATUS(WEFT_INVALID_DATA, "not a complete %s message", descriptor->short_name);
    ProtobufCAllocator allocator = {.alloc = arena_allocate, .free = arena_free, .allocator_data = arena};
    *out_message = protobuf_c_message_unpack(descriptor, &allocator, bytes, data);
    if (!*out_message)
        return WEFT_STATUS(WEFT_INVALID_DATA, "damaged %s message, or no memory for it", descriptor->short_name);
    return NULL;
}

weft_status weft_onnx_model_unpack(weft_arena *arena, const void *data, size_t bytes,
                                   const Onnx__ModelProto **out_model) {
    ProtobufCMessage *message;
    *out_model = NULL;
    WEFT_TRY(weft_onnx_message_unpack(arena, &onnx__model_proto__descriptor, data, bytes, &message),
             "reading the model");
    const Onnx__ModelProto *model = (const Onnx__ModelProto *)message;
    if (!model->graph) return WEFT_STATUS(WEFT_INVALID_DATA, "the model has no graph");
    *out_model = model;
    return NULL;
}

static const char *domain_of(const char *domain) { return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

static int version_in(size_t count, Onnx__OperatorSetIdProto *const *sets, const char *domain) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(domain_of(sets[i]->domain), domain_of(domain)) == 0)
            return sets[i]->version < 0 ? 0 : sets[i]->version > 100000 ? 100000 : (int)sets[i]->version;
    return 0;
}

int weft_onnx_version(const weft_onnx_frame *frame, const Onnx__ModelProto *model, const char *domain) {
    int version = 0;
    if (frame) version = version_in(frame->function->n_opset_import, frame->function->opset_import, domain);
    if (version == 0) version = version_in(model->n_opset_import, model->opset_import, domain);
    /* files of the first format name no operator sets */
    if (version == 0 && model->n_opset_import == 0 && *domain_of(domain) == 0) version = 1;
    return version;
}

static const char *text_or_empty(const char *text) { return text ? text : ""; }

const Onnx__FunctionProto *weft_onnx_function_find(const Onnx__ModelProto *model, const Onnx__NodeProto *node) {
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *function = model->functions[i];
        if (strcmp(text_or_empty(function->name), text_or_empty(node->op_type)) == 0 &&
            strcmp(domain_of(function->domain), domain_of(node->domain)) == 0 &&
            strcmp(text_or_empty(function->overload), text_or_empty(node->overload)) == 0)
            return function;
    }
    return NULL;
}

weft_status weft_onnx_text_take(weft_context *context, weft_text *text, char **out_text) {
    *out_text = NULL;
    weft_status status = weft_text_status(text);
    size_t bytes = strlen(weft_text_string(text)) + 1;
    char *copy = status ? NULL : weft_allocate(context->allocator, bytes);
    if (!status && !copy) status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a text of %zu bytes", bytes);
    if (copy) memcpy(copy, weft_text_string(text), bytes);
    weft_text_deinit(text);
    *out_text = copy;
    return status;
}
