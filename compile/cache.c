/* The disk cache of code images: one file per set of kernels, named by the hash of everything that determines the code.
   A file holds its whole key, so a collision of names is a miss; it appears by rename, complete or not at all. A folder
   that cannot be written costs speed, never a result: it is logged. */
#include "compile/unit.h"

#include "base/file.h"
#include "base/zip.h"
#include "weft_codegen_version.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

typedef struct cache_header {
    char magic[8];
    uint64_t key_bytes, image_bytes;
    uint32_t key_crc, image_crc;
} cache_header;

static const char cache_magic[8] = "weftkern";

static void make_key(weft_context *context, const weft_target *target, const weft_capability *capability,
                     int kernel_count, weft_kernel *const *kernels, weft_text *key) {
    weft_text_append(key, "weft " WEFT_VERSION " " WEFT_CODEGEN_VERSION " %s %s\n", capability->target,
                     capability->arch);
    if (target->describe_compiler) target->describe_compiler(context, key);
    weft_text_append(key, "\n");
    for (int i = 0; i < kernel_count; i++)
        weft_text_append(key, "%s %016" PRIx64 "\n", kernels[i]->name, weft_kernel_hash(kernels[i]));
}

static bool read_image(const weft_file *file, const weft_text *key, weft_allocator allocator,
                       weft_code_image *out_image) {
    cache_header header;
    if (file->bytes < sizeof header) return false;
    memcpy(&header, file->data, sizeof header);
    const char *body = (const char *)file->data + sizeof header;
    if (memcmp(header.magic, cache_magic, sizeof cache_magic) != 0 || header.key_bytes != key->length) return false;
    if (header.image_bytes != file->bytes - sizeof header - key->length || file->bytes < sizeof header + key->length)
        return false;
    if (memcmp(body, key->data, key->length) != 0) return false;
    if (weft_crc32(0, body + key->length, header.image_bytes) != header.image_crc) return false;
    out_image->data = weft_allocate(allocator, header.image_bytes);
    if (!out_image->data) return false;
    memcpy(out_image->data, body + key->length, header.image_bytes);
    out_image->bytes = header.image_bytes;
    return true;
}

static bool find_image(const char *path, const weft_text *key, weft_allocator allocator, weft_code_image *out_image) {
    weft_file file;
    weft_status status = weft_file_map(path, &file);
    weft_status_release(status);
    if (status) return false;
    bool found = read_image(&file, key, allocator, out_image);
    weft_file_unmap(&file);
    return found;
}

static weft_status store_image(weft_context *context, const char *path, const weft_text *key,
                               const weft_code_image *image) {
    cache_header header = {.key_bytes = key->length,
                           .image_bytes = image->bytes,
                           .key_crc = weft_crc32(0, key->data, key->length),
                           .image_crc = weft_crc32(0, image->data, image->bytes)};
    memcpy(header.magic, cache_magic, sizeof cache_magic);
    weft_file_writer writer;
    WEFT_TRY(weft_folder_create(context->cache_folder), "creating the cache folder");
    WEFT_TRY(weft_file_writer_open(context->allocator, path, &writer), "writing to the cache");
    bool written = fwrite(&header, sizeof header, 1, writer.file) == 1 &&
                   fwrite(key->data, key->length, 1, writer.file) == 1 &&
                   fwrite(image->data, 1, image->bytes, writer.file) == image->bytes;
    if (written) return weft_file_writer_commit(&writer);
    weft_status status = weft_file_error("write", path, errno);
    weft_file_writer_abandon(&writer);
    return status;
}

weft_status weft_cache_compile(weft_context *context, const weft_target *target, const weft_capability *capability,
                               int kernel_count, weft_kernel *const *kernels, int thread_count,
                               weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    bool cached = context->cache_folder && context->cache_folder[0];
    if (!cached) return target->compile(context, capability, kernel_count, kernels, thread_count, out_image);
    weft_text key, path;
    weft_text_init(context->allocator, &key);
    weft_text_init(context->allocator, &path);
    make_key(context, target, capability, kernel_count, kernels, &key);
    weft_text_append(&path, "%s/%016" PRIx64 ".kernels", context->cache_folder,
                     weft_hash(weft_text_string(&key), key.length, 0));
    weft_status status = weft_text_status(&key);
    if (!status) status = weft_text_status(&path);
    if (!status && find_image(path.data, &key, context->allocator, out_image)) {
        weft_context_log(context, WEFT_LOG_DEBUG, "%d kernels were taken from the cache, %s", kernel_count, path.data);
    } else if (!status) {
        status = target->compile(context, capability, kernel_count, kernels, thread_count, out_image);
        weft_status stored = status ? NULL : store_image(context, path.data, &key, out_image);
        if (stored)
            weft_context_log(context, WEFT_LOG_WARNING, "compiled code was not cached: %s",
                             weft_status_message(stored));
        else if (!status)
            weft_context_log(context, WEFT_LOG_DEBUG, "%d kernels were compiled and cached, %s", kernel_count,
                             path.data);
        weft_status_release(stored);
    }
    weft_text_deinit(&key);
    weft_text_deinit(&path);
    return status;
}
