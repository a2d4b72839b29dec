/* What the adapter does, asked by running it: webgpu.h 1.0 says neither whether f16 keeps its numbers below 2^-14 nor,
   in wgpu-native, how large subgroups are. WGSL lets devices flush the former; code for wgsl-f16 relies on IEEE 754, so
   it is taken only where every f16 that is read from memory widens, and every one that is written narrows, as
   arithmetic on bits says. (Rounding is in the kernels themselves: codegen/webgpu/prelude.c.) runtime/web/weft.js has
   the same text. Read next: device.c. */
#include <string.h>

#include "base/text.h"
#include "runtime/drivers/webgpu/probe.h"
#include "runtime/drivers/webgpu/webgpu.h"

enum { HALVES = 1 << 16, THREADS = 256 };

const char weft_webgpu_half_probe[] =
    "enable f16;\n"
    "@group(0) @binding(0) var<storage, read_write> halves: array<f16>;\n"
    "@group(0) @binding(1) var<storage, read_write> wrong: array<atomic<u32>>;\n"
    "fn widened(x: u32) -> u32 {\n"
    "  let s = (x & 0x8000u) << 16u; let e = (x >> 10u) & 31u; let m = x & 0x3ffu;\n"
    "  let d = bitcast<u32>(f32(m) * 5.9604644775390625e-8f);\n"
    "  return s | select(select(((e + 112u) << 23u) | (m << 13u), 0x7f800000u | (m << 13u), e == 31u), d, e == 0u);\n"
    "}\n"
    "fn differ(a: u32, b: u32) -> u32 {\n"
    "  let numbers = ((a & 0x7fffffffu) <= 0x7f800000u) | ((b & 0x7fffffffu) <= 0x7f800000u);\n"
    "  return select(0u, 1u, (a != b) & numbers);\n"
    "}\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
    "  let w = widened(id.x); let n = differ(bitcast<u32>(f32(halves[id.x])), w);\n"
    "  halves[id.x] = f16(bitcast<f32>(w));\n"
    "  if (n > 0u) { atomicAdd(&wrong[0], n); }\n"
    "}\n";

static const char size_probe[] = "@group(0) @binding(0) var<storage, read_write> unused: array<u32>;\n"
                                 "@group(0) @binding(1) var<storage, read_write> sizes: array<atomic<u32>>;\n"
                                 "@compute @workgroup_size(256)\n"
                                 "fn main(@builtin(subgroup_size) size: u32) { atomicOr(&sizes[0], size); }\n";

/* An image of one kernel with two buffers. */
static weft_status make_image(weft_text *image, const char *code) {
    weft_text_append(
        image,
        "{\"format\": 1, \"kernels\": [{\"name\": \"probe\", \"threads\": %d, \"buffers\": [\"read_write\", "
        "\"read_write\"], \"extents\": 0, \"code\": ",
        THREADS);
    weft_text_append_quoted(image, code, strlen(code));
    weft_text_append(image, "}]}");
    return weft_text_status(image);
}

/* Runs the probe over every f16 in memory; what it leaves there, and the word. */
static weft_status run(weft_device *device, weft_module *module, uint16_t *halves, uint32_t *out_word) {
    size_t bytes = HALVES * sizeof *halves;
    void *buffers[2] = {NULL, NULL};
    weft_status status = weft_block_device_allocate(device, bytes, &buffers[0]);
    if (!status) status = weft_block_device_allocate(device, sizeof *out_word, &buffers[1]);
    for (int i = 0; i < HALVES; i++) halves[i] = (uint16_t)i;
    *out_word = 0;
    if (!status) status = weft_block_device_upload(device, buffers[0], halves, bytes);
    if (!status) status = weft_block_device_upload(device, buffers[1], out_word, sizeof *out_word);
    const weft_launch launch = {.grid = HALVES / THREADS, .buffer_count = 2, .buffers = buffers};
    if (!status) status = weft_webgpu_launch(device, module, &launch);
    if (!status) status = weft_block_device_download(device, out_word, buffers[1], sizeof *out_word);
    if (!status) status = weft_block_device_download(device, halves, buffers[0], bytes);
    if (buffers[1]) weft_block_device_free(device, buffers[1], sizeof *out_word);
    if (buffers[0]) weft_block_device_free(device, buffers[0], bytes);
    return status;
}

static bool is_nan(int half) { return (half & 0x7fff) > 0x7c00; }

/* *out_changed: how many numbers in memory are others afterwards. */
static weft_status probe(weft_device *device, const char *code, uint32_t *out_word, int *out_changed) {
    weft_allocator allocator = device->context->allocator;
    weft_program_kernel kernel = {.name = "probe"};
    const weft_program_data program = {.kernel_count = 1, .kernels = &kernel};
    weft_module *module = NULL;
    weft_text image;
    uint16_t *halves = weft_allocate(allocator, HALVES * sizeof *halves);
    weft_status status = halves ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for numbers");
    weft_text_init(allocator, &image);
    if (!status) status = make_image(&image, code);
    if (!status) {
        const weft_binary binary = {"wgsl", image.data, image.length};
        status = weft_webgpu_load(device, &program, &binary, &module);
    }
    if (!status) status = run(device, module, halves, out_word);
    *out_changed = 0;
    for (int i = 0; i < HALVES && !status; i++) *out_changed += halves[i] != i && !(is_nan(i) && is_nan(halves[i]));
    weft_webgpu_unload(device, module);
    weft_text_deinit(&image);
    if (halves) weft_free(allocator, halves, HALVES * sizeof *halves);
    return status;
}

/* A device that cannot run a probe has not what it asks about; what else is wrong shows when programs run. */
static bool answers(webgpu_device *device, const char *code, uint32_t *out_word, int *out_changed) {
    weft_status status = probe(&device->gpu.base, code, out_word, out_changed);
    bool fine = !status;
    weft_status_release(status);
    return fine;
}

bool weft_webgpu_keeps_halves(webgpu_device *device) {
    uint32_t wrong;
    int changed;
    return answers(device, weft_webgpu_half_probe, &wrong, &changed) && wrong == 0 && changed == 0;
}

int weft_webgpu_subgroup_size(webgpu_device *device) {
    uint32_t size;
    int changed;
    bool one = answers(device, size_probe, &size, &changed) && size > 0 && (size & (size - 1)) == 0 && size <= 128;
    return one ? (int)size : 0;
}
