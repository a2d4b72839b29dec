/* The .npy format: magic, version, a header that is a Python dictionary of three known keys, then the elements.
   Source: NumPy Enhancement Proposal 1 and numpy.lib.format. */
#include "weft/npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/need.h"
#include "base/tensor.h"
#include "base/text.h"

enum { HEADER_ALIGN = 64 };

static const struct {
    const char *descr; /* without the byte order */
    weft_dtype dtype;
} types[] = {{"b1", WEFT_BOOL}, {"i1", WEFT_I8},  {"i2", WEFT_I16}, {"i4", WEFT_I32},  {"i8", WEFT_I64},
             {"u1", WEFT_U8},   {"u2", WEFT_U16}, {"u4", WEFT_U32}, {"u8", WEFT_U64},  {"f2", WEFT_F16},
             {"f4", WEFT_F32},  {"f8", WEFT_F64}, {"c8", WEFT_C64}, {"c16", WEFT_C128}};

typedef struct header {
    const char *text, *end; /* the dictionary */
    size_t data_at;
    weft_dtype dtype;
    bool column_major;
    int rank;
    int64_t shape[WEFT_MAX_RANK];
} header;

static const char *skip_space(const header *h, const char *p) {
    while (p < h->end && isspace((unsigned char)*p)) p++;
    return p;
}

/* The text behind 'key': in the dictionary; NULL also where two readers would take different ones. */
static const char *find_key(const header *h, const char *key) {
    size_t length = strlen(key);
    const char *found = NULL;
    for (const char *p = h->text; p + length + 3 <= h->end; p++) {
        if ((*p != '\'' && *p != '"') || memcmp(p + 1, key, length) != 0 || p[length + 1] != *p) continue;
        const char *colon = skip_space(h, p + length + 2);
        if (found || colon == h->end || *colon != ':') return NULL;
        found = skip_space(h, colon + 1);
    }
    return found;
}

/* Is the value that ends here followed by another key or the end? */
static bool ends_value(const header *h, const char *p) {
    p = skip_space(h, p);
    return p < h->end && (*p == ',' || *p == '}');
}

static weft_status parse_descr(header *h, const char *path) {
    const char *p = find_key(h, "descr");
    if (!p || p + 4 >= h->end || (*p != '\'' && *p != '"'))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: the header has no plain descr, or more than one", path);
    char order = p[1];
    const char *name = strchr("<>|=", order) ? p + 2 : p + 1, *quote = memchr(name, *p, (size_t)(h->end - name));
    if (!quote || !ends_value(h, quote + 1)) return WEFT_STATUS(WEFT_INVALID_DATA, "%s: descr does not end", path);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].descr) == (size_t)(quote - name) && !memcmp(types[i].descr, name, (size_t)(quote - name)))
            h->dtype = types[i].dtype;
    if (h->dtype == WEFT_INVALID)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: element type '%.*s' is not supported", path, (int)(quote - p - 1),
                           p + 1);
    if (order == '>' && weft_dtype_bits(h->dtype) > 8)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: big-endian elements; save it little-endian", path);
    return NULL;
}

static weft_status parse_shape(header *h, const char *path) {
    const char *p = find_key(h, "shape");
    if (!p || p >= h->end || *p != '(')
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: the header has no shape, or more than one", path);
    bool separated = true;
    for (p = skip_space(h, p + 1); p < h->end && *p != ')'; p = skip_space(h, p)) {
        if (*p == ',' && !separated) {
            separated = true, p++;
            continue;
        }
        if (!isdigit((unsigned char)*p) || !separated)
            return WEFT_STATUS(WEFT_INVALID_DATA, "%s: the shape is not a list of numbers", path);
        if (h->rank == WEFT_MAX_RANK)
            return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: more than %d axes", path, WEFT_MAX_RANK);
        int64_t extent = 0;
        for (; p < h->end && isdigit((unsigned char)*p); p++) {
            if (extent > (INT64_MAX - 9) / 10)
                return WEFT_STATUS(WEFT_INVALID_DATA, "%s: an extent is too large", path);
            extent = extent * 10 + (*p - '0');
        }
        h->shape[h->rank++] = extent;
        separated = false;
    }
    return p < h->end && ends_value(h, p + 1) ? NULL
                                              : WEFT_STATUS(WEFT_INVALID_DATA, "%s: the shape does not end", path);
}

static weft_status parse_header(const weft_file *file, const char *path, header *h) {
    const unsigned char *bytes = file->data;
    if (file->bytes < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s is not a .npy file", path);
    if (bytes[6] < 1 || bytes[6] > 3) return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: .npy version %d", path, bytes[6]);
    size_t at = bytes[6] == 1 ? 10 : 12, length = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > file->bytes - at) return WEFT_STATUS(WEFT_INVALID_DATA, "%s is cut off in its header", path);
    h->text = (const char *)bytes + at;
    h->end = h->text + length;
    h->data_at = at + length;
    WEFT_TRY(parse_descr(h, path), "reading a tensor");
    const char *order = find_key(h, "fortran_order");
    if (!order) return WEFT_STATUS(WEFT_INVALID_DATA, "%s: the header has no fortran_order, or more than one", path);
    h->column_major = h->end - order > 4 && !memcmp(order, "True", 4);
    bool row_major = h->end - order > 5 && !memcmp(order, "False", 5);
    if ((!h->column_major && !row_major) || !ends_value(h, order + (row_major ? 5 : 4)))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: fortran_order is neither True nor False", path);
    return parse_shape(h, path);
}

static weft_status read_elements(weft_context *context, const weft_file *file, const char *path, header *h,
                                 weft_tensor **out_tensor) {
    int64_t count = 1;
    size_t bytes;
    for (int i = 0; i < h->rank; i++)
        if (__builtin_mul_overflow(count, h->shape[i], &count))
            return WEFT_STATUS(WEFT_INVALID_DATA, "%s: the shape overflows", path);
    if (!weft_dtype_bytes(h->dtype, count, &bytes) || bytes > file->bytes - h->data_at)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s is cut off: the shape needs more elements than there are", path);
    const char *data = (const char *)file->data + h->data_at;
    if (!h->column_major || h->rank < 2)
        return weft_tensor_create_copy(context, h->dtype, h->rank, h->shape, data, out_tensor);
    WEFT_TRY(weft_tensor_create(context, h->dtype, h->rank, h->shape, out_tensor), "reading %s", path);
    size_t size = (size_t)weft_dtype_bits(h->dtype) / 8;
    int64_t index[WEFT_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t from = 0;
        for (int a = h->rank - 1; a >= 0; a--) from = from * h->shape[a] + index[a];
        memcpy((char *)weft_tensor_data(*out_tensor) + (size_t)i * size, data + (size_t)from * size, size);
        for (int a = h->rank - 1; a >= 0 && ++index[a] == h->shape[a]; a--) index[a] = 0;
    }
    return NULL;
}

weft_status weft_npy_read(weft_context *context, const char *path, weft_tensor **out_tensor) {
    WEFT_NEED(out_tensor, "out_tensor");
    *out_tensor = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    weft_file file;
    WEFT_TRY(weft_file_map(path, &file), "reading %s", path);
    header h = {0};
    weft_status status = parse_header(&file, path, &h);
    if (!status) status = read_elements(context, &file, path, &h, out_tensor);
    weft_file_unmap(&file);
    return status;
}

static void write_header(weft_text *text, const weft_tensor *tensor, weft_dtype dtype) {
    const char *descr = "f4";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) descr = types[i].descr;
    weft_text_append(text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                     weft_dtype_bits(dtype) > 8 ? '<' : '|', descr);
    for (int i = 0; i < tensor->rank; i++)
        weft_text_append(text, "%lld,%s", (long long)tensor->shape[i], i + 1 < tensor->rank ? " " : "");
    weft_text_append(text, "), }");
    while ((10 + text->length + 1) % HEADER_ALIGN) weft_text_append(text, " ");
    weft_text_append(text, "\n");
}

static bool has_descr(weft_dtype dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return true;
    return false;
}

/* Row-major, strides respected; types without a descr as f32. */
static bool write_elements(FILE *file, const weft_tensor *tensor, weft_dtype dtype) {
    size_t size = (size_t)weft_dtype_bits(dtype) / 8;
    if (tensor->packed && dtype == tensor->dtype) return fwrite(tensor->data, 1, tensor->bytes, file) == tensor->bytes;
    int64_t index[WEFT_MAX_RANK] = {0};
    for (int64_t i = 0; i < tensor->element_count; i++) {
        int64_t from = 0;
        for (int a = 0; a < tensor->rank; a++) from += index[a] * tensor->strides[a];
        float value = dtype == tensor->dtype ? 0 : (float)weft_element_double(tensor->dtype, tensor->data, from);
        const void *element =
            dtype == tensor->dtype ? (const char *)tensor->data + (size_t)from * size : (const char *)&value;
        if (fwrite(element, 1, size, file) != size) return false;
        for (int a = tensor->rank - 1; a >= 0 && ++index[a] == tensor->shape[a]; a--) index[a] = 0;
    }
    return true;
}

weft_status weft_npy_write(weft_context *context, const char *path, const weft_tensor *tensor) {
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    WEFT_NEED(tensor, "the tensor");
    weft_dtype dtype = has_descr(tensor->dtype) ? tensor->dtype : WEFT_F32;
    if (dtype != tensor->dtype && !weft_dtype_is_float(tensor->dtype))
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: .npy has no element type for %s", path,
                           weft_dtype_name(tensor->dtype));
    weft_text text;
    weft_file_writer writer;
    weft_text_init(context->allocator, &text);
    write_header(&text, tensor, dtype);
    weft_status status = weft_text_status(&text);
    if (!status) status = weft_file_writer_open(context->allocator, path, &writer);
    if (!status) {
        unsigned char magic[10] = {
            0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(text.length & 255), (unsigned char)(text.length >> 8)};
        bool written = fwrite(magic, 1, sizeof magic, writer.file) == sizeof magic &&
                       fwrite(text.data, 1, text.length, writer.file) == text.length &&
                       write_elements(writer.file, tensor, dtype);
        if (written) {
            status = weft_file_writer_commit(&writer);
        } else {
            status = weft_file_error("write", path, errno);
            weft_file_writer_abandon(&writer);
        }
    }
    weft_text_deinit(&text);
    return status;
}
