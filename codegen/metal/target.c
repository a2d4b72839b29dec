/* The target record "metal". The image is the source itself, the same bytes for the same kernels: the device's own
   compiler takes it when a program is loaded, and so does `xcrun metal` when somebody wants to look. */
#include "codegen/target.h"

#include <string.h>

#include "codegen/metal/print.h"

static weft_status compile_metal(weft_context *context, const weft_capability *capability, int kernel_count,
                                 weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    (void)capability, (void)thread_count;
    *out_image = (weft_code_image){0};
    weft_text source;
    weft_text_init(context->allocator, &source);
    weft_status status = weft_metal_print(kernel_count, kernels, &source);
    if (!status) {
        out_image->data = weft_allocate(context->allocator, source.length);
        if (out_image->data) {
            memcpy(out_image->data, source.data, source.length);
            out_image->bytes = source.length;
        } else
            status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "code image of %zu bytes", source.length);
    }
    weft_text_deinit(&source);
    return status;
}

static weft_status print_metal(const weft_kernel *kernel, weft_text *text) {
    weft_kernel copy = *kernel, *one = &copy;
    return weft_metal_print(1, &one, text);
}

/* Shared memory is declared in the text: nothing is given at launch. */
static weft_dim scratch_metal(const weft_kernel *kernel) {
    (void)kernel;
    return 0;
}

const weft_target weft_target_metal = {
    .name = "metal", .compile = compile_metal, .scratch_bytes = scratch_metal, .print = print_metal};
