/* Files of tensors and archives. */
#include <stdlib.h>
#include <unistd.h>

#include "base/zip.h"
#include "tests/fuzz/targets.h"
#include "weft/npy.h"
#include "weft/safetensors.h"

/* Reads every byte, so that a sanitizer sees a tensor that ends behind its memory. */
static void read_tensor(weft_tensor *tensor) {
    const unsigned char *data = weft_tensor_data(tensor);
    volatile unsigned char sum = 0;
    for (size_t i = 0; weft_tensor_is_packed(tensor) && i < weft_tensor_bytes(tensor); i++)
        sum = (unsigned char)(sum + data[i]);
}

void fuzz_npy(const uint8_t *data, size_t bytes) {
    char path[64];
    weft_tensor *tensor;
    int fd = fuzz_file(data, bytes, path, sizeof path);
    weft_status status = weft_npy_read(fuzz_context(), path, &tensor);
    if ((status == NULL) != (tensor != NULL)) abort();
    if (tensor) read_tensor(tensor);
    weft_status_release(status);
    weft_tensor_release(tensor);
    close(fd);
}

void fuzz_safetensors(const uint8_t *data, size_t bytes) {
    char path[64];
    weft_safetensors *file;
    int fd = fuzz_file(data, bytes, path, sizeof path);
    weft_status status = weft_safetensors_open(fuzz_context(), path, &file);
    if ((status == NULL) != (file != NULL)) abort();
    for (int i = 0; file && i < weft_safetensors_count(file); i++) {
        weft_tensor *tensor;
        weft_status got = weft_safetensors_get(file, i, &tensor);
        if ((got == NULL) != (tensor != NULL)) abort();
        if (tensor) read_tensor(tensor);
        weft_tensor_release(tensor);
        weft_status_release(got);
        if (!weft_safetensors_name(file, i)) abort();
    }
    weft_status_release(status);
    weft_safetensors_release(file);
    close(fd);
}

void fuzz_zip(const uint8_t *data, size_t bytes) {
    weft_arena arena;
    weft_zip zip;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_status status = weft_zip_open(&arena, data, bytes, &zip);
    for (size_t i = 0; !status && i < zip.count; i++) {
        const unsigned char *at = zip.entries[i].data;
        if (zip.entries[i].bytes && (at < data || zip.entries[i].bytes > (size_t)(data + bytes - at))) abort();
        weft_status_release(weft_zip_check(&zip.entries[i]));
        if (!weft_zip_find(&zip, zip.entries[i].name)) abort();
    }
    weft_status_release(status);
    weft_arena_deinit(&arena);
}
