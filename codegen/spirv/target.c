/* The target record "vulkan": assembly from print.h, assembled and validated by SPIRV-Tools. The image is little-endian
   32-bit words: "WSPV", the number of kernels, then for each kernel the position and the number of its words; then the
   modules. runtime/drivers/vulkan loads it. */
#include "codegen/target.h"

#include <spirv-tools/libspirv.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/spirv/print.h"

enum { MAGIC = 0x56505357 /* "WSPV" */, HEAD_WORDS = 2, ENTRY_WORDS = 2 };

static weft_status refusal(const weft_kernel *kernel, const char *what, spv_diagnostic diagnostic) {
    weft_status status =
        WEFT_STATUS(WEFT_INTERNAL, "kernel %s: SPIRV-Tools does not %s its module: line %zu: %s", kernel->name, what,
                    diagnostic ? diagnostic->position.line + 1 : 0, diagnostic ? diagnostic->error : "no reason given");
    spvDiagnosticDestroy(diagnostic);
    return status;
}

/* Cooperative matrices: versions from 2023.4 on. */
static bool knows(spv_const_context tools, const char *capability) {
    spv_binary binary = NULL;
    bool known = spvTextToBinary(tools, capability, strlen(capability), &binary, NULL) == SPV_SUCCESS;
    spvBinaryDestroy(binary);
    return known;
}

/* What matrix.c put before instructions that are numbers. */
static void drop_nops(spv_binary binary) {
    enum { HEADER_WORDS = 5, NOP = 1 << 16 };
    size_t kept = HEADER_WORDS;
    for (size_t at = HEADER_WORDS, words; at < binary->wordCount; at += words) {
        words = binary->code[at] >> 16;
        if (words == 0 || words > binary->wordCount - at) return; /* nothing of ours */
        if (binary->code[at] == NOP) continue;
        memmove(binary->code + kept, binary->code + at, words * sizeof *binary->code);
        kept += words;
    }
    binary->wordCount = kept;
}

/* out_binary belongs to SPIRV-Tools: spvBinaryDestroy. numbers: what it does not know it cannot validate. */
static weft_status assemble(spv_const_context tools, const weft_kernel *kernel, bool numbers, const weft_text *text,
                            spv_binary *out_binary) {
    spv_diagnostic diagnostic = NULL;
    *out_binary = NULL;
    if (spvTextToBinary(tools, weft_text_string(text), text->length, out_binary, &diagnostic) != SPV_SUCCESS)
        return refusal(kernel, "assemble", diagnostic);
    if (numbers) {
        drop_nops(*out_binary);
        if (strstr(weft_text_string(text), "SPV_KHR_cooperative_matrix")) return NULL;
    }
    if (spvValidateBinary(tools, (*out_binary)->code, (*out_binary)->wordCount, &diagnostic) != SPV_SUCCESS) {
        spvBinaryDestroy(*out_binary);
        *out_binary = NULL;
        return refusal(kernel, "accept", diagnostic);
    }
    return NULL;
}

static weft_status assemble_all(weft_context *context, spv_const_context tools, int count, weft_kernel *const *kernels,
                                spv_binary *binaries) {
    weft_text text;
    weft_text_init(context->allocator, &text);
    weft_status status = NULL;
    bool matrices = knows(tools, "OpCapability CooperativeMatrixKHR"),
         bfloat = knows(tools, "OpCapability BFloat16CooperativeMatrixKHR");
    for (int i = 0; i < count && !status; i++) {
        bool numbers = !matrices || (!bfloat && weft_spirv_multiplies_bf16(kernels[i]));
        text.length = 0;
        status = weft_spirv_print_as(kernels[i], numbers, &text);
        if (!status) status = assemble(tools, kernels[i], numbers, &text, &binaries[i]);
    }
    weft_text_deinit(&text);
    return status;
}

static weft_status join(weft_context *context, int count, const spv_binary *binaries, weft_code_image *out_image) {
    size_t head = HEAD_WORDS + (size_t)count * ENTRY_WORDS, words = head;
    for (int i = 0; i < count; i++) words += binaries[i]->wordCount;
    if (words > UINT32_MAX / 4) return WEFT_STATUS(WEFT_UNSUPPORTED, "SPIR-V modules of %zu words together", words);
    uint32_t *data = weft_allocate(context->allocator, words * sizeof *data);
    if (!data) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "code image of %zu bytes", words * sizeof *data);
    data[0] = MAGIC;
    data[1] = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        size_t size = binaries[i]->wordCount;
        data[HEAD_WORDS + i * ENTRY_WORDS] = (uint32_t)head;
        data[HEAD_WORDS + i * ENTRY_WORDS + 1] = (uint32_t)size;
        memcpy(data + head, binaries[i]->code, size * sizeof *data);
        head += size;
    }
    *out_image = (weft_code_image){data, words * sizeof *data};
    return NULL;
}

static weft_status compile_spirv(weft_context *context, const weft_capability *capability, int kernel_count,
                                 weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    (void)capability, (void)thread_count;
    *out_image = (weft_code_image){0};
    spv_context tools = spvContextCreate(SPV_ENV_VULKAN_1_2);
    spv_binary *binaries = weft_allocate(context->allocator, (size_t)(kernel_count + 1) * sizeof *binaries);
    weft_status status = NULL;
    if (!tools || !binaries) {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to assemble SPIR-V");
    } else {
        memset(binaries, 0, (size_t)(kernel_count + 1) * sizeof *binaries);
        status = assemble_all(context, tools, kernel_count, kernels, binaries);
        if (!status) status = join(context, kernel_count, binaries, out_image);
        for (int i = 0; i < kernel_count; i++)
            if (binaries[i]) spvBinaryDestroy(binaries[i]);
    }
    weft_free(context->allocator, binaries, (size_t)(kernel_count + 1) * sizeof *binaries);
    if (tools) spvContextDestroy(tools);
    return status;
}

/* Shared memory is declared in the module: nothing is given at launch. */
static weft_dim scratch_spirv(const weft_kernel *kernel) {
    (void)kernel;
    return 0;
}

const weft_target weft_target_vulkan = {
    .name = "vulkan", .compile = compile_spirv, .scratch_bytes = scratch_spirv, .print = weft_spirv_print};
