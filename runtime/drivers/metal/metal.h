/* The Metal driver's device, in plain C: the Objective-C runtime is found like any library and its one function for
   messages called with the type of each method, so that no compiler of Objective-C and no header of Apple's is needed.

   Memory handed out is the address of an MTLBuffer's contents (shared storage: the processors of a Mac see one memory),
   so programs do arithmetic on it; a table of blocks finds the buffer and the offset that a launch binds. Commands go
   into one command buffer, committed when somebody waits or it is long; within it dispatches are serial.
   Each entry drains what was autoreleased. Read next: objc.c, device.c, memory.c,
   commands.c, module.c. Source: Apple, Metal framework reference. */
#ifndef WEFT_RUNTIME_DRIVERS_METAL_METAL_H
#define WEFT_RUNTIME_DRIVERS_METAL_METAL_H

#include "runtime/driver.h"
#include "runtime/drivers/blocks.h"
#include "runtime/drivers/drivers.h"

typedef void *metal_id;  /* an object or class */
typedef void *metal_sel; /* a method's name */

/* X(field, method) */
#define METAL_METHODS(X)                                                                                               \
    X(make, "new")                                                                                                     \
    X(retain, "retain")                                                                                                \
    X(release, "release")                                                                                              \
    X(text_of, "stringWithUTF8String:")                                                                                \
    X(bytes_of, "UTF8String")                                                                                          \
    X(description, "localizedDescription")                                                                             \
    X(code, "code")                                                                                                    \
    X(count, "count")                                                                                                  \
    X(object_at, "objectAtIndex:")                                                                                     \
    X(name, "name")                                                                                                    \
    X(supports_family, "supportsFamily:")                                                                              \
    X(working_set, "recommendedMaxWorkingSetSize")                                                                     \
    X(buffer_limit, "maxBufferLength")                                                                                 \
    X(new_queue, "newCommandQueue")                                                                                    \
    X(new_buffer, "newBufferWithLength:options:")                                                                      \
    X(new_library, "newLibraryWithSource:options:error:")                                                              \
    X(set_fast_math, "setFastMathEnabled:")                                                                            \
    X(set_language, "setLanguageVersion:")                                                                             \
    X(new_function, "newFunctionWithName:")                                                                            \
    X(new_pipeline, "newComputePipelineStateWithFunction:error:")                                                      \
    X(threads_limit, "maxTotalThreadsPerThreadgroup")                                                                  \
    X(simd_width, "threadExecutionWidth")                                                                              \
    X(contents, "contents")                                                                                            \
    X(command_buffer, "commandBuffer")                                                                                 \
    X(compute_encoder, "computeCommandEncoder")                                                                        \
    X(copy_encoder, "blitCommandEncoder")                                                                              \
    X(set_pipeline, "setComputePipelineState:")                                                                        \
    X(set_buffer, "setBuffer:offset:atIndex:")                                                                         \
    X(set_bytes, "setBytes:length:atIndex:")                                                                           \
    X(dispatch, "dispatchThreadgroups:threadsPerThreadgroup:")                                                         \
    X(copy, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:")                                            \
    X(end, "endEncoding")                                                                                              \
    X(commit, "commit")                                                                                                \
    X(wait, "waitUntilCompleted")                                                                                      \
    X(status, "status")                                                                                                \
    X(error, "error")

/* Passed by value, as MTLSize. */
typedef struct metal_size {
    unsigned long width, height, depth;
} metal_size;

typedef struct metal_api {
    metal_id (*get_class)(const char *name);
    metal_sel (*register_name)(const char *name);
    void (*send)(void); /* objc_msgSend: called as the method's type only */
    void *(*push_pool)(void);
    void (*pop_pool)(void *pool);
    metal_id (*all_devices)(void); /* MTLCopyAllDevices */
    metal_id string, options;      /* the classes NSString and MTLCompileOptions */
#define X(field, method) metal_sel field;
    METAL_METHODS(X)
#undef X
} metal_api;

/* METAL_SEND(api, result, (types of self, _cmd and the arguments), self, selector, arguments...) */
#define METAL_SEND(api, result, parameters, self, selector, ...)                                                       \
    ((result(*) parameters)(api)->send)((self), (api)->selector, __VA_ARGS__)

typedef struct metal_device {
    weft_block_device gpu; /* first; a block's address is its contents, its buffer an MTLBuffer */
    metal_api api;
    metal_id device, queue;
    metal_id commands, encoder; /* the open command buffer and encoder; NULL: none */
    bool copying;               /* the encoder is one for copies */
    int command_count;
    int family; /* 7 and up: Apple7 ... */
    bool lost;
    char name[128];
    int64_t memory_bytes;
} metal_device;

/* -- objc.c */
weft_status weft_metal_api_open(weft_allocator allocator, metal_api *api) WEFT_MUST_USE;
metal_id weft_metal_get(const metal_api *api, metal_id self, metal_sel selector);
unsigned long weft_metal_number(const metal_api *api, metal_id self, metal_sel selector);
void weft_metal_tell(const metal_api *api, metal_id self, metal_sel selector);
/* The bytes of an NSString, valid in the open pool; "" for nil. */
const char *weft_metal_text(const metal_api *api, metal_id string);
/* What an NSError says. */
const char *weft_metal_error(const metal_api *api, metal_id error);

/* -- memory.c */
extern const weft_block_calls weft_metal_blocks;

/* -- commands.c */
/* The open encoder, of the kind asked for. */
weft_status weft_metal_encoder(metal_device *device, bool copying, metal_id *out_encoder) WEFT_MUST_USE;
/* Commits and waits. A command buffer that fails loses the device, unless it had no memory. */
weft_status weft_metal_flush(metal_device *device) WEFT_MUST_USE;
weft_status weft_metal_upload(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_metal_download(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_metal_copy(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;

/* -- module.c */
weft_status weft_metal_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                            weft_module **out_module) WEFT_MUST_USE;
void weft_metal_unload(weft_device *device, weft_module *module);
weft_status weft_metal_launch(weft_device *device, weft_module *module, const weft_launch *launch) WEFT_MUST_USE;

#endif
