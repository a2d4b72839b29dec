/* The target record "webgpu". The image is one JSON object, the same bytes for the same kernels:

   {"format": 1, "kernels": [{"name": N, "threads": T, "buffers": [A, ...], "extents": E, "code": WGSL}, ...]}

   buffers: access to each buffer argument in order, which is its binding: "read", "read_write" or "none" (bound to
   nothing). Binding number `count of buffers` is the uniform block of 1 + E 32-bit integers: blocks, extents. A launch
   of g blocks dispatches (min(g, 65535), ceil(g / 65535)) workgroups. Every buffer is bound from a multiple of 256
   bytes and rounded up to whole words. */
#include "codegen/target.h"

#include <string.h>

#include "codegen/webgpu/print.h"

static void print_buffers(const weft_kernel *kernel, weft_text *text) {
    const char *separator = "";
    int extents = 0;
    weft_text_append(text, "\"buffers\": [");
    for (size_t i = 0; i < kernel->argument_count; i++) {
        if (kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT) {
            extents++;
            continue;
        }
        weft_text_append(text, "%s\"%s\"", separator, weft_wgsl_access(kernel, i));
        separator = ", ";
    }
    weft_text_append(text, "], \"extents\": %d", extents);
}

static weft_status print_image(int kernel_count, weft_kernel *const *kernels, weft_text *image, weft_text *code) {
    weft_text_append(image, "{\"format\": 1, \"kernels\": [");
    for (int i = 0; i < kernel_count; i++) {
        code->length = 0;
        WEFT_TRY(weft_wgsl_print(kernels[i], code), "printing kernel %d of %d", i + 1, kernel_count);
        weft_text_append(image, "%s\n{\"name\": \"%s\", \"threads\": %d, ", i ? "," : "", kernels[i]->name,
                         kernels[i]->threads);
        print_buffers(kernels[i], image);
        weft_text_append(image, ", \"code\": ");
        weft_text_append_quoted(image, weft_text_string(code), code->length);
        weft_text_append(image, "}");
    }
    weft_text_append(image, "\n]}\n");
    return weft_text_status(image);
}

static weft_status compile_webgpu(weft_context *context, const weft_capability *capability, int kernel_count,
                                  weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    (void)capability, (void)thread_count;
    *out_image = (weft_code_image){0};
    weft_text image, code;
    weft_text_init(context->allocator, &image);
    weft_text_init(context->allocator, &code);
    weft_status status = print_image(kernel_count, kernels, &image, &code);
    if (!status) {
        out_image->data = weft_allocate(context->allocator, image.length);
        if (out_image->data) {
            memcpy(out_image->data, image.data, image.length);
            out_image->bytes = image.length;
        } else
            status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "code image of %zu bytes", image.length);
    }
    weft_text_deinit(&code);
    weft_text_deinit(&image);
    return status;
}

/* Shared memory is declared in the text: nothing is given at launch. */
static weft_dim scratch_webgpu(const weft_kernel *kernel) {
    (void)kernel;
    return 0;
}

const weft_target weft_target_webgpu = {
    .name = "webgpu", .compile = compile_webgpu, .scratch_bytes = scratch_webgpu, .print = weft_wgsl_print};
