/* The target record "cuda": groups of kernels through NVRTC on several threads, packed into one image.
   Architectures without the suffix "a" also carry PTX, so that later devices can run them. */
#include "codegen/target.h"

#include <string.h>

#include "base/thread.h"
#include "codegen/cuda/image.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/print.h"

typedef struct cuda_job {
    weft_context *context;
    const weft_nvrtc *nvrtc;
    const char *arch;
    weft_kernel *const *kernels;
    int kernel_count, group_size;
    weft_nvrtc_output *outputs; /* one per group */
    weft_status *statuses;
} cuda_job;

static weft_status compile_group(cuda_job *job, int64_t group) {
    int first = (int)group * job->group_size, count = job->kernel_count - first;
    if (count > job->group_size) count = job->group_size;
    weft_text source;
    weft_text_init(job->context->allocator, &source);
    weft_status status = weft_cuda_print(count, job->kernels + first, &source);
    if (!status)
        status = weft_nvrtc_compile(job->nvrtc, weft_text_string(&source), job->kernels[first]->name, job->arch,
                                    &job->outputs[group]);
    if (!status && job->outputs[group].spill_bytes > 0)
        weft_context_log(job->context, WEFT_LOG_WARNING, "cuda: kernels from %s on spill %lld bytes",
                         job->kernels[first]->name, (long long)job->outputs[group].spill_bytes);
    weft_text_deinit(&source);
    return status;
}

static void compile_range(void *self, int thread, int64_t lo, int64_t hi) {
    (void)thread;
    cuda_job *job = self;
    for (int64_t group = lo; group < hi; group++) job->statuses[group] = compile_group(job, group);
}

static void put_number(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static void put_part(unsigned char *image, int part, uint32_t kind, const cuda_job *job, int group, const void *data,
                     size_t bytes, size_t *at) {
    unsigned char *row = image + WEFT_CUDA_IMAGE_HEAD + part * WEFT_CUDA_IMAGE_PART;
    int first = group * job->group_size, count = job->kernel_count - first;
    put_number(row, kind, 4);
    put_number(row + 4, (uint64_t)first, 4);
    put_number(row + 8, (uint64_t)(count < job->group_size ? count : job->group_size), 4);
    put_number(row + 16, *at, 8);
    put_number(row + 24, bytes, 8);
    memcpy(image + *at, data, bytes);
    *at += (bytes + 15) / 16 * 16;
}

static weft_status pack_image(const cuda_job *job, int groups, bool with_ptx, weft_code_image *out_image) {
    int parts = groups * (with_ptx ? 2 : 1);
    size_t bytes = (size_t)WEFT_CUDA_IMAGE_HEAD + (size_t)parts * WEFT_CUDA_IMAGE_PART, at = (bytes + 15) / 16 * 16;
    bytes = at;
    for (int g = 0; g < groups; g++) {
        bytes += (job->outputs[g].cubin_bytes + 15) / 16 * 16;
        if (with_ptx) bytes += (job->outputs[g].ptx_bytes + 15) / 16 * 16;
    }
    unsigned char *image = weft_allocate(job->context->allocator, bytes);
    if (!image) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "code image of %zu bytes", bytes);
    memcpy(image, "WEFTCUDA", 8);
    put_number(image + 8, WEFT_CUDA_IMAGE_FORMAT, 4);
    put_number(image + 12, (uint64_t)parts, 4);
    for (int g = 0; g < groups; g++) {
        const weft_nvrtc_output *output = &job->outputs[g];
        put_part(image, g, WEFT_CUDA_PART_CUBIN, job, g, output->cubin, output->cubin_bytes, &at);
        if (with_ptx) put_part(image, groups + g, WEFT_CUDA_PART_PTX, job, g, output->ptx, output->ptx_bytes, &at);
    }
    *out_image = (weft_code_image){image, bytes};
    return NULL;
}

static weft_status run_groups(cuda_job *job, int groups, int thread_count) {
    if (thread_count > groups) thread_count = groups;
    if (thread_count <= 1) {
        compile_range(job, 0, 0, groups);
    } else {
        weft_pool *pool = NULL;
        WEFT_TRY(weft_pool_create(job->context->allocator, thread_count, &pool), "compile threads");
        weft_pool_run(pool, groups, 1, compile_range, job);
        weft_pool_release(pool);
    }
    weft_status first = NULL;
    for (int g = 0; g < groups; g++) {
        if (!first)
            first = job->statuses[g];
        else
            weft_status_release(job->statuses[g]);
    }
    return first;
}

static weft_status compile_cuda(weft_context *context, const weft_capability *capability, int kernel_count,
                                weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    weft_nvrtc *nvrtc;
    WEFT_TRY(weft_nvrtc_open(context, &nvrtc), "compiling for %s", capability->arch);
    /* Hopper kernels are big: one a group. Small ones share the cost of starting NVRTC. */
    int group_size = 1;
    for (int i = 0, plain = 1; i < kernel_count && plain; i++) {
        plain = !(weft_cuda_needs(kernels[i]) & WEFT_CUDA_NEEDS_HOPPER);
        if (i + 1 == kernel_count && plain) group_size = 4;
    }
    int groups = (kernel_count + group_size - 1) / group_size;
    size_t output_bytes = (size_t)(groups + 1) * sizeof(weft_nvrtc_output),
           status_bytes = (size_t)(groups + 1) * sizeof(weft_status);
    cuda_job job = {.context = context,
                    .nvrtc = nvrtc,
                    .arch = capability->arch,
                    .kernels = kernels,
                    .kernel_count = kernel_count,
                    .group_size = group_size,
                    .outputs = weft_allocate(context->allocator, output_bytes),
                    .statuses = weft_allocate(context->allocator, status_bytes)};
    weft_status status = job.outputs && job.statuses ? run_groups(&job, groups, thread_count)
                                                     : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "compiling kernels");
    size_t length = strlen(capability->arch);
    bool specific = length > 0 && capability->arch[length - 1] == 'a';
    if (!status) status = pack_image(&job, groups, !specific, out_image);
    for (int g = 0; job.outputs && g < groups; g++) weft_nvrtc_output_deinit(nvrtc, &job.outputs[g]);
    weft_free(context->allocator, job.outputs, output_bytes);
    weft_free(context->allocator, job.statuses, status_bytes);
    weft_nvrtc_close(nvrtc);
    return status;
}

static void describe_compiler(weft_context *context, weft_text *text) {
    weft_nvrtc *nvrtc;
    int major = 0, minor = 0;
    weft_status missing = weft_nvrtc_open(context, &nvrtc);
    if (missing) {
        weft_text_append(text, "no NVRTC");
        weft_status_release(missing);
        return;
    }
    weft_nvrtc_version(nvrtc, &major, &minor);
    weft_text_append(text, "NVRTC %d.%d", major, minor);
    weft_nvrtc_close(nvrtc);
}

static weft_status print_cuda(const weft_kernel *kernel, weft_text *text) {
    weft_kernel copy = *kernel, *one = &copy;
    return weft_cuda_print(1, &one, text);
}

static weft_dim scratch_cuda(const weft_kernel *kernel) {
    int64_t bytes = 0;
    weft_status status = weft_cuda_shared_bytes(kernel, &bytes);
    if (!status) return bytes;
    weft_status_release(status); /* the compile reports it with its reason */
    return WEFT_DIM_INVALID;
}

const weft_target weft_target_cuda = {.name = "cuda",
                                      .compile = compile_cuda,
                                      .scratch_bytes = scratch_cuda,
                                      .describe_compiler = describe_compiler,
                                      .print = print_cuda};
