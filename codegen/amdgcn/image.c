/* See image.h. */
#include "codegen/amdgcn/image.h"

#include <string.h>

#include "base/arena.h"

/* A whole ELF file ends with its section headers or behind them. */
bool weft_amdgcn_code_is_whole(const void *code, size_t bytes) {
    const unsigned char *data = code;
    if (bytes < 64 || memcmp(data, "\177ELF", 4) != 0) return false;
    uint64_t sections = 0, size = 0, count = 0;
    for (int i = 7; i >= 0; i--) sections = sections << 8 | data[40 + i];
    size = (uint64_t)data[58] | (uint64_t)data[59] << 8, count = (uint64_t)data[60] | (uint64_t)data[61] << 8;
    return sections > 0 && sections <= bytes && size * count <= bytes - sections;
}

static void put_number(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static size_t padded(size_t bytes) { return (bytes + 15) / 16 * 16; }

weft_status weft_amdgcn_image_pack(weft_allocator allocator, int count, const int *first, const weft_code_image *parts,
                                   weft_code_image *out_image) {
    size_t at = padded(WEFT_AMDGCN_IMAGE_HEAD + (size_t)count * WEFT_AMDGCN_IMAGE_PART), bytes = at;
    *out_image = (weft_code_image){0};
    for (int i = 0; i < count; i++) bytes += padded(parts[i].bytes);
    unsigned char *image = weft_allocate(allocator, bytes);
    if (!image) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "code image of %zu bytes", bytes);
    memcpy(image, "WEFTAMDG", 8);
    put_number(image + 8, WEFT_AMDGCN_IMAGE_FORMAT, 4);
    put_number(image + 12, (uint64_t)count, 4);
    for (int i = 0; i < count; i++) {
        unsigned char *row = image + WEFT_AMDGCN_IMAGE_HEAD + (size_t)i * WEFT_AMDGCN_IMAGE_PART;
        put_number(row, (uint64_t)first[i], 4);
        put_number(row + 4, (uint64_t)(first[i + 1] - first[i]), 4);
        put_number(row + 8, at, 8);
        put_number(row + 16, parts[i].bytes, 8);
        memcpy(image + at, parts[i].data, parts[i].bytes);
        at += padded(parts[i].bytes);
    }
    *out_image = (weft_code_image){image, bytes};
    return NULL;
}
