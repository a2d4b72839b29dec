/* Metal's classes: devices, buffers, libraries, command buffers, encoders. Commands are kept and run in
   waitUntilCompleted. Read fake.h first. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/metal/fake/fake.h"

enum { BINDINGS = 31, BYTES_MAX = 4096, PAGE = 4096 };
typedef void (*anything)(void);

/* One size of Metal's, as arguments are passed. */
typedef struct size3 {
    unsigned long width, height, depth;
} size3;

typedef struct command {
    fake_object *pipeline; /* NULL: a copy from buffers[0] to buffers[1] */
    fake_object *buffers[BINDINGS];
    size_t offsets[BINDINGS];
    char *bytes[BINDINGS];
    size_t sizes[BINDINGS]; /* of bytes; [0] of the copy */
    size_t groups, threads;
} command;

/* data of a command buffer */
typedef struct command_list {
    command *commands;
    size_t count;
    bool committed;
} command_list;

/* data of an encoder */
typedef struct encoder_state {
    command next;
    bool ended;
} encoder_state;

/* data of a pipeline */
typedef struct pipeline_state {
    const fake_code *code;
    fake_shared shared;
    int threads;
    char name[256];
} pipeline_state;

/* -- buffers: between two pages that nobody may touch, against the second */

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static void buffer_destroy(fake_object *self) {
    char *end = (char *)self->data + self->size;
    munmap(end - pages(self->size) - PAGE, pages(self->size) + 2 * PAGE);
}

static void *buffer_contents(fake_object *self) { return self->data; }

static const fake_method buffer_methods[] = {{"contents", (anything)buffer_contents}, {NULL, NULL}};
static const fake_class buffer_class = {"MTLBuffer", buffer_methods, buffer_destroy};

static fake_object *device_new_buffer(fake_object *self, const char *selector, unsigned long bytes,
                                      unsigned long options) {
    (void)self, (void)selector;
    if (options != 0) fake_die("newBufferWithLength: options %lu", options);
    if (bytes == 0 || bytes % 256) fake_die("a buffer of %lu bytes", bytes);
    if (bytes > (unsigned long)fake_setting("limit", 1l << 36)) fake_die("a buffer beyond maxBufferLength");
    if (fake_fails("buffer")) return NULL;
    char *all = mmap(NULL, pages(bytes) + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    if (mprotect(all + PAGE, pages(bytes), PROT_READ | PROT_WRITE)) fake_die("mprotect");
    fake_object *buffer = fake_new(&buffer_class);
    buffer->data = all + PAGE + pages(bytes) - bytes;
    buffer->size = bytes;
    return buffer;
}

/* -- libraries and pipelines */

static fake_object *options_new(void) { return fake_new(&fake_options_class); }
static void options_fast_math(fake_object *self, const char *selector, signed char on) {
    (void)selector;
    self->number |= on ? 1 : 2;
}
static void options_language(fake_object *self, const char *selector, unsigned long version) {
    (void)selector;
    if (version < 3ul << 16) fake_die("Metal %lu.%lu has no bfloat and float atomics", version >> 16, version & 65535);
    self->number |= 4;
}
static const fake_method options_methods[] = {{"new", (anything)options_new},
                                              {"setFastMathEnabled:", (anything)options_fast_math},
                                              {"setLanguageVersion:", (anything)options_language},
                                              {NULL, NULL}};
const fake_class fake_options_class = {"MTLCompileOptions", options_methods, NULL};
fake_object fake_options_itself = {.class = &fake_options_class, .references = 1};

static const fake_class function_class; /* text: name; parts[0]: library */

static fake_object *library_new_function(fake_object *self, const char *selector, fake_object *name) {
    (void)selector;
    if (!fake_library_find(self->data, name->text)) return NULL;
    fake_object *function = fake_new(&function_class);
    function->text = strdup(name->text);
    function->parts[0] = fake_retain(self);
    return function;
}

static void library_destroy(fake_object *self) { fake_library_close(self->data); }

static const fake_method no_methods[] = {{NULL, NULL}},
                         library_methods[] = {{"newFunctionWithName:", (anything)library_new_function}, {NULL, NULL}};
static const fake_class function_class = {"MTLFunction", no_methods, NULL},
                        library_class = {"MTLLibrary", library_methods, library_destroy};

static fake_object *device_new_library(fake_object *self, const char *selector, fake_object *source,
                                       fake_object *options, fake_object **out_error) {
    (void)self, (void)selector;
    if (options->number != 6) fake_die("options that let the compiler rewrite arithmetic, or without a language");
    char *problem = fake_fails("library") ? strdup("program_source:1: error: injected") : NULL;
    fake_library *code = problem ? NULL : fake_library_compile(source->text, &problem);
    if (code) {
        fake_object *library = fake_new(&library_class);
        library->data = code;
        return library;
    }
    *out_error = fake_error(3, problem);
    free(problem);
    return NULL;
}

static unsigned long pipeline_threads(fake_object *self) {
    return (unsigned long)fake_setting("threads", ((pipeline_state *)self->data)->threads);
}
static unsigned long pipeline_width(fake_object *self) {
    (void)self;
    return (unsigned long)fake_setting("simd", 32);
}
static void pipeline_destroy(fake_object *self) { free(self->data); }

static const fake_method pipeline_methods[] = {{"maxTotalThreadsPerThreadgroup", (anything)pipeline_threads},
                                               {"threadExecutionWidth", (anything)pipeline_width},
                                               {NULL, NULL}};
static const fake_class pipeline_class = {"MTLComputePipelineState", pipeline_methods, pipeline_destroy};

static fake_object *device_new_pipeline(fake_object *self, const char *selector, fake_object *function,
                                        fake_object **out_error) {
    (void)self, (void)selector;
    if (fake_fails("pipeline")) {
        *out_error = fake_error(2, "injected");
        return NULL;
    }
    pipeline_state *state = calloc(1, sizeof *state);
    fake_library *library = function->parts[0]->data;
    state->code = fake_library_find(library, function->text);
    state->threads = fake_library_threads(library, function->text);
    snprintf(state->name, sizeof state->name, "%s", function->text);
    fake_object *pipeline = fake_new(&pipeline_class);
    pipeline->data = state;
    pipeline->parts[0] = fake_retain(function->parts[0]);
    return pipeline;
}

/* -- encoders */

static encoder_state *encoding(fake_object *self) {
    encoder_state *state = self->data;
    if (state->ended) fake_die("an encoder is used after its end");
    return state;
}

static void append(fake_object *self, const command *next) {
    command_list *list = self->parts[0]->data;
    list->commands = realloc(list->commands, (list->count + 1) * sizeof *list->commands);
    if (!list->commands) fake_die("no memory");
    command *kept = &list->commands[list->count++];
    *kept = *next;
    if (kept->pipeline) fake_retain(kept->pipeline);
    for (int i = 0; i < BINDINGS; i++) {
        if (kept->buffers[i]) fake_retain(kept->buffers[i]);
        if (!next->bytes[i]) continue;
        kept->bytes[i] = malloc(next->sizes[i]);
        memcpy(kept->bytes[i], next->bytes[i], next->sizes[i]);
    }
}

static void compute_pipeline(fake_object *self, const char *selector, fake_object *pipeline) {
    (void)selector;
    encoding(self)->next.pipeline = pipeline;
}

static void compute_buffer(fake_object *self, const char *selector, fake_object *buffer, unsigned long offset,
                           unsigned long index) {
    (void)selector;
    command *next = &encoding(self)->next;
    if (index >= BINDINGS) fake_die("buffer index %lu", index);
    if (buffer->class != &buffer_class || offset >= buffer->size)
        fake_die("buffer %lu: offset %lu of %zu", index, offset, buffer->size);
    next->buffers[index] = buffer;
    next->offsets[index] = offset;
    free(next->bytes[index]);
    next->bytes[index] = NULL;
}

static void compute_bytes(fake_object *self, const char *selector, const void *bytes, unsigned long length,
                          unsigned long index) {
    (void)selector;
    command *next = &encoding(self)->next;
    if (index >= BINDINGS || length > BYTES_MAX) fake_die("%lu bytes at index %lu", length, index);
    free(next->bytes[index]);
    next->bytes[index] = malloc(length);
    memcpy(next->bytes[index], bytes, length);
    next->sizes[index] = length;
    next->buffers[index] = NULL;
}

static void compute_dispatch(fake_object *self, const char *selector, size3 groups, size3 threads) {
    (void)selector;
    command *next = &encoding(self)->next;
    if (groups.height != 1 || groups.depth != 1 || threads.height != 1 || threads.depth != 1 || groups.width == 0)
        fake_die("dispatch of %lu x %lu x %lu threadgroups", groups.width, groups.height, groups.depth);
    if (!next->pipeline) fake_die("a dispatch without a pipeline");
    const pipeline_state *pipeline = next->pipeline->data;
    if (threads.width != (unsigned long)pipeline->threads) fake_die("%s: %lu threads", pipeline->name, threads.width);
    for (int i = 0; i < pipeline->code->count; i++)
        if (!next->buffers[i] && !next->bytes[i]) fake_die("%s: nothing is bound at %d", pipeline->name, i);
    next->groups = groups.width;
    next->threads = threads.width;
    append(self, next);
}

static void copy_buffers(fake_object *self, const char *selector, fake_object *from, unsigned long from_offset,
                         fake_object *to, unsigned long to_offset, unsigned long bytes) {
    (void)selector;
    if ((from_offset | to_offset | bytes) % 4 || from_offset + bytes > from->size || to_offset + bytes > to->size)
        fake_die("copy of %lu bytes from %lu to %lu", bytes, from_offset, to_offset);
    (void)encoding(self);
    command next = {.buffers = {from, to}, .offsets = {from_offset, to_offset}, .sizes = {bytes}};
    append(self, &next);
}

static void encoder_end(fake_object *self) { encoding(self)->ended = true; }

static void encoder_destroy(fake_object *self) {
    encoder_state *state = self->data;
    if (!state->ended) fake_die("an encoder goes without its end");
    for (int i = 0; i < BINDINGS; i++) free(state->next.bytes[i]);
    free(state);
}

static const fake_method compute_methods[] = {
    {"setComputePipelineState:", (anything)compute_pipeline},
    {"setBuffer:offset:atIndex:", (anything)compute_buffer},
    {"setBytes:length:atIndex:", (anything)compute_bytes},
    {"dispatchThreadgroups:threadsPerThreadgroup:", (anything)compute_dispatch},
    {"endEncoding", (anything)encoder_end},
    {NULL, NULL}};
static const fake_method copy_methods[] = {
    {"copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", (anything)copy_buffers},
    {"endEncoding", (anything)encoder_end},
    {NULL, NULL}};
static const fake_class compute_class = {"MTLComputeCommandEncoder", compute_methods, encoder_destroy},
                        copy_class = {"MTLBlitCommandEncoder", copy_methods, encoder_destroy};

/* -- command buffers. parts[0]: the error */

static fake_object *new_encoder(fake_object *self, const fake_class *class) {
    command_list *list = self->data;
    if (list->committed || self->number == -1) fake_die("an encoder of a command buffer that has one or is committed");
    if (fake_fails("encoder")) return NULL;
    fake_object *encoder = fake_new(class);
    encoder->data = calloc(1, sizeof(encoder_state));
    encoder->parts[0] = fake_retain(self);
    return fake_autorelease(encoder);
}
static fake_object *commands_compute(fake_object *self) { return new_encoder(self, &compute_class); }
static fake_object *commands_copy(fake_object *self) { return new_encoder(self, &copy_class); }
static void commands_commit(fake_object *self) { ((command_list *)self->data)->committed = true; }

static const char *run_command(const command *c) {
    static char text[400];
    void *bound[BINDINGS];
    for (int i = 0; i < BINDINGS; i++)
        bound[i] = c->buffers[i] ? (char *)c->buffers[i]->data + c->offsets[i] : c->bytes[i];
    if (!c->pipeline) {
        memcpy(bound[1], bound[0], c->sizes[0]);
        return NULL;
    }
    pipeline_state *pipeline = c->pipeline->data;
    for (int i = 0; i < pipeline->code->count; i++)
        if ((uintptr_t)bound[i] % pipeline->code->align[i])
            fake_die("%s: buffer %d at %zu is not aligned for its elements", pipeline->name, i, c->offsets[i]);
    const char *problem = fake_dispatch(pipeline->code, &pipeline->shared, bound, (uint32_t)c->groups, (int)c->threads);
    if (problem) snprintf(text, sizeof text, "%s: %s", pipeline->name, problem);
    return problem ? text : NULL;
}

static void fail(fake_object *self, int code, const char *text) {
    self->number = 5; /* MTLCommandBufferStatusError */
    self->parts[0] = fake_retain(fake_error(code, text));
}

static void commands_wait(fake_object *self) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    command_list *list = self->data;
    if (!list->committed) fake_die("waiting for a command buffer that is not committed");
    self->number = 4;
    if (fake_fails("lost")) fail(self, 4, "injected: access revoked");
    if (fake_fails("memory")) fail(self, 8, "injected: insufficient memory");
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < list->count && self->number == 4; i++) {
        const char *problem = run_command(&list->commands[i]);
        if (problem) fail(self, 1, problem);
    }
    (void)pthread_mutex_unlock(&lock);
}

static unsigned long commands_status(fake_object *self) { return (unsigned long)self->number; }
static fake_object *commands_error(fake_object *self) { return self->parts[0]; }

static void commands_destroy(fake_object *self) {
    command_list *list = self->data;
    for (size_t i = 0; i < list->count; i++) {
        if (list->commands[i].pipeline) fake_release(list->commands[i].pipeline);
        for (int k = 0; k < BINDINGS; k++) {
            if (list->commands[i].buffers[k]) fake_release(list->commands[i].buffers[k]);
            free(list->commands[i].bytes[k]);
        }
    }
    free(list->commands);
    free(list);
}

static const fake_method commands_methods[] = {{"computeCommandEncoder", (anything)commands_compute},
                                               {"blitCommandEncoder", (anything)commands_copy},
                                               {"commit", (anything)commands_commit},
                                               {"waitUntilCompleted", (anything)commands_wait},
                                               {"status", (anything)commands_status},
                                               {"error", (anything)commands_error},
                                               {NULL, NULL}};
static const fake_class commands_class = {"MTLCommandBuffer", commands_methods, commands_destroy};

static fake_object *queue_commands(void) {
    if (fake_fails("commands")) return NULL;
    fake_object *commands = fake_new(&commands_class);
    commands->data = calloc(1, sizeof(command_list));
    return fake_autorelease(commands);
}

static const fake_method queue_methods[] = {{"commandBuffer", (anything)queue_commands}, {NULL, NULL}};
static const fake_class queue_class = {"MTLCommandQueue", queue_methods, NULL};

/* -- devices */

static fake_object *device_name(void) { return fake_string("Apple M3 that is none"); }
static signed char device_family(fake_object *self, const char *selector, long family) {
    (void)self, (void)selector;
    return family >= 1001 && family <= fake_setting("family", 1009);
}
static unsigned long device_memory(void) { return 8ul << 30; }
static unsigned long device_limit(void) { return (unsigned long)fake_setting("limit", 1l << 36); }
static fake_object *device_queue(void) { return fake_fails("queue") ? NULL : fake_new(&queue_class); }

static const fake_method device_methods[] = {
    {"name", (anything)device_name},
    {"supportsFamily:", (anything)device_family},
    {"recommendedMaxWorkingSetSize", (anything)device_memory},
    {"maxBufferLength", (anything)device_limit},
    {"newCommandQueue", (anything)device_queue},
    {"newBufferWithLength:options:", (anything)device_new_buffer},
    {"newLibraryWithSource:options:error:", (anything)device_new_library},
    {"newComputePipelineStateWithFunction:error:", (anything)device_new_pipeline},
    {NULL, NULL}};
const fake_class fake_device_class = {"MTLDevice", device_methods, NULL};

static unsigned long array_count(fake_object *self) { return self->size; }
static fake_object *array_at(fake_object *self, const char *selector, unsigned long index) {
    (void)selector;
    if (index >= self->size) fake_die("device %lu of %zu", index, self->size);
    return self->parts[index];
}
static const fake_method array_methods[] = {
    {"count", (anything)array_count}, {"objectAtIndex:", (anything)array_at}, {NULL, NULL}};
const fake_class fake_array_class = {"NSArray", array_methods, NULL};

fake_object *MTLCopyAllDevices(void) {
    fake_object *array = fake_new(&fake_array_class);
    array->size = fake_fails("devices") ? 0 : 1;
    if (array->size) array->parts[0] = fake_new(&fake_device_class);
    return array;
}
