/* See testing.h. */
#include "tests/runtime/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static void *resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    test_allocator *counter = self;
    weft_allocator system = weft_allocator_system();
    if (atomic_load(&counter->largest) && (long)new_bytes > atomic_load(&counter->largest)) return NULL;
    if (new_bytes > old_bytes && atomic_load(&counter->left) >= 0 && atomic_fetch_sub(&counter->left, 1) <= 0) {
        atomic_store(&counter->left, 0);
        return NULL;
    }
    void *result = system.resize(system.self, pointer, old_bytes, new_bytes, align_bytes);
    if (!pointer && result) atomic_fetch_add(&counter->live, 1);
    if (pointer && !new_bytes) atomic_fetch_sub(&counter->live, 1);
    return result;
}

weft_allocator test_allocator_make(test_allocator *counter) { return (weft_allocator){counter, resize}; }

void test_log_write(void *self, weft_log_level level, const char *message) {
    test_log *log = self;
    log->count[level]++;
    snprintf(log->last, sizeof log->last, "%s", message);
}

weft_binary test_image(void) {
    static unsigned char image[1 << 16];
    static size_t bytes;
    if (!bytes) {
        FILE *file = fopen(KERNELS_IMAGE, "rb");
        ck_assert_ptr_nonnull(file);
        bytes = fread(image, 1, sizeof image, file);
        fclose(file);
        ck_assert_uint_gt(bytes, 64);
        image[16] = 3; /* the linker makes ET_EXEC at address 0; nothing else tells it from ET_DYN */
    }
    return (weft_binary){"x86-64", image, bytes};
}

void maker_init(maker *m, weft_allocator allocator, const char *name) {
    static const char *const kernel_names[TEST_KERNELS] = {"add",      "square",   "twice",     "less",
                                                           "increase", "positive", "block_sums"};
    memset(m, 0, sizeof *m);
    weft_arena_init(allocator, &m->arena);
    assert_fine(weft_dim_table_create(weft_allocator_system(), &m->data.dims));
    for (int i = 0; i < TEST_KERNELS; i++) m->kernels[i] = (weft_program_kernel){kernel_names[i], 0, 1, 0, 0};
    m->data.name = name;
    m->data.inputs = m->ports[0];
    m->data.outputs = m->ports[1];
    m->data.states = m->ports[2];
    m->data.guards = m->guards;
    m->data.buffers = m->buffers;
    m->data.kernel_count = TEST_KERNELS;
    m->data.kernels = m->kernels;
    m->data.region_count = 2;
    m->data.regions = m->regions;
    m->data.target = "cpu";
    m->data.producer = "test";
    for (int i = 0; i < 8; i++) m->regions[i].steps = m->steps[i];
}

void maker_deinit(maker *m) {
    weft_dim_table_release(m->data.dims);
    weft_arena_deinit(&m->arena);
}

int maker_buffer(maker *m, weft_buffer buffer) {
    m->buffers[m->data.buffer_count] = buffer;
    return m->data.buffer_count++;
}

int maker_port(maker *m, weft_buffer_kind kind, const char *name, weft_dtype dtype, int rank, const weft_dim *dims) {
    int which = kind == WEFT_BUFFER_INPUT ? 0 : kind == WEFT_BUFFER_OUTPUT ? 1 : 2;
    int *counts[] = {&m->data.input_count, &m->data.output_count, &m->data.state_count};
    weft_dim bytes = weft_dtype_bits(dtype) / 8;
    for (int i = 0; i < rank; i++) bytes = weft_dim_multiply(m->data.dims, bytes, dims[i]);
    int index = (*counts[which])++;
    weft_dim offset = kind == WEFT_BUFFER_STATE ? WEFT_DIM_ANY : 0;
    int buffer = maker_buffer(m, (weft_buffer){kind, index, bytes, offset, 0, 0, name});
    weft_dim *copy = weft_arena_copy(&m->arena, dims, (size_t)rank * sizeof *dims);
    m->ports[which][index] = (weft_port){name, dtype, rank, copy, buffer};
    return buffer;
}

int maker_region(maker *m) { return m->data.region_count++; }

weft_step *maker_step(maker *m, int region, weft_step step) {
    m->steps[region][m->regions[region].count] = step;
    return &m->steps[region][m->regions[region].count++];
}

weft_step *maker_launch(maker *m, int region, int kernel, weft_dim grid, int buffer_count, const int *buffers,
                        int extent_count, const weft_dim *extents) {
    weft_launch_variant *variant = weft_arena_allocate(&m->arena, sizeof *variant);
    *variant = (weft_launch_variant){
        .kernel = kernel, .grid = grid, .buffer_count = buffer_count, .extent_count = extent_count};
    variant->buffers = weft_arena_copy(&m->arena, buffers, (size_t)buffer_count * sizeof *buffers);
    variant->extents = weft_arena_copy(&m->arena, extents, (size_t)extent_count * sizeof *extents);
    return maker_step(
        m, region,
        (weft_step){
            .kind = WEFT_STEP_LAUNCH, .variant_count = 1, .variants = variant, .location = m->kernels[kernel].name});
}

const float affine_weights[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}; /* w at byte 32 */

void make_affine(maker *m, weft_allocator allocator) {
    maker_init(m, allocator, "affine");
    weft_dim_table *t = m->data.dims;
    weft_dim B = weft_dim_symbol(t, "B", 1, 4096, 1, WEFT_SYMBOL_DECLARED);
    weft_dim shape[2] = {B, 8}, count = weft_dim_multiply(t, B, 8), bytes = weft_dim_multiply(t, count, 4);
    int x = maker_port(m, WEFT_BUFFER_INPUT, "x", WEFT_F32, 2, shape);
    int y = maker_port(m, WEFT_BUFFER_OUTPUT, "y", WEFT_F32, 2, shape);
    int w = maker_buffer(m, (weft_buffer){WEFT_BUFFER_CONSTANT, 0, 32, 32, 0, 0, "w"});
    int packed = maker_buffer(m, (weft_buffer){WEFT_BUFFER_PERSISTENT, 0, 32, 0, 0, 0, "w packed"});
    int h = maker_buffer(m, (weft_buffer){WEFT_BUFFER_TEMP, 0, bytes, 0, 0, 1, "h"});
    m->data.weights_bytes = sizeof affine_weights;
    maker_launch(m, WEFT_REGION_LOAD, KERNEL_TWICE, 1, 2, (int[]){w, packed}, 1, (weft_dim[]){8});
    weft_dim grid = weft_dim_divide_ceil(t, count, 16);
    maker_launch(m, WEFT_REGION_MAIN, KERNEL_ADD, grid, 3, (int[]){x, packed, h}, 2, (weft_dim[]){count, 8});
    maker_launch(m, WEFT_REGION_MAIN, KERNEL_SQUARE, grid, 2, (int[]){h, y}, 1, &count);
    m->guards[0] = (weft_guard){{B, 1000, WEFT_RELATION_LE}, "fuse", "add \"h\" (test.c:1)"};
    m->data.guard_count = 1;
}

void affine_expected(int64_t rows, const float *x, float *y) {
    for (int64_t i = 0; i < rows * 8; i++) {
        float h = x[i] + 2 * affine_weights[8 + i % 8];
        y[i] = h * h;
    }
}

weft_status load_made(weft_context *context, const char *device_name, maker *m, const void *weights,
                      weft_program **out_program) {
    weft_device *device;
    *out_program = NULL;
    WEFT_TRY(weft_device_open(context, device_name, &device), "test");
    weft_program_source source = {.data = &m->data, .weights = weights, .code = test_image()};
    weft_status status = weft_program_create(context, device, &source, out_program);
    weft_device_release(device);
    return status;
}
