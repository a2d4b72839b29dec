/* The part of the standard webgpu.h that the driver calls, written out: the library is found when a program runs, so
   its header is not needed to build. Field for field as in webgpu.h 1.0; handles are pointers, enumerations 32-bit.
   Source: webgpu-native/webgpu-headers; `wgpuDevicePoll` and feature 0x30021 are wgpu-native's own. */
#ifndef WEFT_RUNTIME_DRIVERS_WEBGPU_API_H
#define WEFT_RUNTIME_DRIVERS_WEBGPU_API_H

#include <stddef.h>
#include <stdint.h>

typedef void *wgpu_handle;
typedef uint32_t wgpu_enum;
typedef uint32_t wgpu_bool;

enum {
    WGPU_ANY_MOMENT = 3, /* callback mode */
    WGPU_SUCCESS = 1,    /* of requests, maps, scopes */
    WGPU_NO_ERROR = 1,
    WGPU_OUT_OF_MEMORY = 3, /* error types */
    WGPU_FILTER_VALIDATION = 1,
    WGPU_FILTER_OUT_OF_MEMORY = 2,
    WGPU_SHADER_WGSL = 2, /* chained structure */
    WGPU_ADAPTER_CPU = 3,
    WGPU_MAP_READ = 1, /* buffer usages and map mode */
    WGPU_COPY_SOURCE = 4,
    WGPU_COPY_TARGET = 8,
    WGPU_UNIFORM = 0x40,
    WGPU_BINDS_UNIFORM = 2, /* types of bindings */
    WGPU_BINDS_STORAGE = 3,
    WGPU_COMPUTE = 4, /* shader stage */
    WGPU_STORAGE = 0x80,
    WGPU_HALVES = 0xb, /* features */
    WGPU_SUBGROUPS = 0x12,
    WGPU_NATIVE_SUBGROUPS = 0x30021, /* wgpu-native's own */
    WGPU_NVIDIA = 0x10de,            /* vendors whose subgroups have one size, of every kernel */
    WGPU_APPLE = 0x106b,
    WGPU_MESA = 0x10005
};
#define WGPU_WHOLE_SIZE UINT64_MAX

typedef struct wgpu_text {
    const char *data;
    size_t length;
} wgpu_text;

typedef struct wgpu_chain {
    struct wgpu_chain *next;
    wgpu_enum kind;
} wgpu_chain;

typedef struct wgpu_future {
    uint64_t id;
} wgpu_future;

/* Of requests and maps: status, object (requests only), message, two pointers of the caller. */
typedef void (*wgpu_on_object)(wgpu_enum status, wgpu_handle object, wgpu_text message, void *a, void *b);
typedef void (*wgpu_on_map)(wgpu_enum status, wgpu_text message, void *a, void *b);
typedef void (*wgpu_on_scope)(wgpu_enum status, wgpu_enum type, wgpu_text message, void *a, void *b);
typedef void (*wgpu_on_lost)(const wgpu_handle *device, wgpu_enum reason, wgpu_text message, void *a, void *b);
typedef void (*wgpu_on_error)(const wgpu_handle *device, wgpu_enum type, wgpu_text message, void *a, void *b);

#define WGPU_CALLBACK(name, type)                                                                                      \
    typedef struct name {                                                                                              \
        wgpu_chain *next;                                                                                              \
        wgpu_enum mode;                                                                                                \
        type call;                                                                                                     \
        void *a, *b;                                                                                                   \
    } name;
WGPU_CALLBACK(wgpu_object_callback, wgpu_on_object)
WGPU_CALLBACK(wgpu_map_callback, wgpu_on_map)
WGPU_CALLBACK(wgpu_scope_callback, wgpu_on_scope)
WGPU_CALLBACK(wgpu_lost_callback, wgpu_on_lost)
#undef WGPU_CALLBACK

typedef struct wgpu_error_callback {
    wgpu_chain *next;
    wgpu_on_error call;
    void *a, *b;
} wgpu_error_callback;

typedef struct wgpu_adapter_info {
    wgpu_chain *next;
    wgpu_text vendor, architecture, device, description;
    wgpu_enum backend, kind;
    uint32_t vendor_id, device_id, subgroup_least, subgroup_most;
} wgpu_adapter_info;

typedef struct wgpu_limits {
    wgpu_chain *next;
    uint32_t textures[4], bind_groups, bind_groups_and_vertex_buffers, bindings, dynamic_uniforms, dynamic_storages;
    uint32_t sampled, samplers, storage_buffers, storage_textures, uniform_buffers;
    uint64_t uniform_bytes, storage_bytes;
    uint32_t uniform_alignment, storage_alignment, vertex_buffers;
    uint64_t buffer_bytes;
    uint32_t vertex[5];
    uint32_t workgroup_bytes, workgroup_threads, workgroup_size[3], workgroups, immediate_bytes;
} wgpu_limits;

typedef struct wgpu_label {
    wgpu_chain *next;
    wgpu_text label;
} wgpu_label;

typedef struct wgpu_device_options {
    wgpu_chain *next;
    wgpu_text label;
    size_t feature_count;
    const wgpu_enum *features;
    const wgpu_limits *limits;
    wgpu_label queue;
    wgpu_lost_callback lost;
    wgpu_error_callback error;
} wgpu_device_options;

typedef struct wgpu_buffer_options {
    wgpu_chain *next;
    wgpu_text label;
    uint64_t usage, size;
    wgpu_bool mapped;
} wgpu_buffer_options;

typedef struct wgpu_shader_text {
    wgpu_chain chain;
    wgpu_text code;
} wgpu_shader_text;

typedef struct wgpu_pipeline_options {
    wgpu_chain *next;
    wgpu_text label;
    wgpu_handle layout;
    struct {
        wgpu_chain *next;
        wgpu_handle module;
        wgpu_text entry;
        size_t constant_count;
        const void *constants;
    } compute;
} wgpu_pipeline_options;

typedef struct wgpu_binding {
    wgpu_chain *next;
    uint32_t binding;
    wgpu_handle buffer;
    uint64_t offset, size;
    wgpu_handle sampler, texture;
} wgpu_binding;

/* Of samplers and textures: unused, zero. */
typedef struct wgpu_layout_entry {
    wgpu_chain *next;
    uint32_t binding;
    uint64_t stages;
    uint32_t array_size;
    struct {
        wgpu_chain *next;
        wgpu_enum type;
        wgpu_bool dynamic;
        uint64_t least_bytes;
    } buffer;
    struct {
        wgpu_chain *next;
        wgpu_enum type;
    } sampler;
    struct {
        wgpu_chain *next;
        wgpu_enum type, view;
        wgpu_bool multisampled;
    } texture;
    struct {
        wgpu_chain *next;
        wgpu_enum access, format, view;
    } storage_texture;
} wgpu_layout_entry;

typedef struct wgpu_layout_options {
    wgpu_chain *next;
    wgpu_text label;
    size_t count;
    const wgpu_layout_entry *entries;
} wgpu_layout_options;

typedef struct wgpu_pipeline_layout_options {
    wgpu_chain *next;
    wgpu_text label;
    size_t count;
    const wgpu_handle *layouts;
    uint32_t immediate_bytes;
} wgpu_pipeline_layout_options;

typedef struct wgpu_group_options {
    wgpu_chain *next;
    wgpu_text label;
    wgpu_handle layout;
    size_t count;
    const wgpu_binding *entries;
} wgpu_group_options;

/* X(field, result, symbol, parameters) */
#define WGPU_FUNCTIONS(X)                                                                                              \
    X(create_instance, wgpu_handle, "wgpuCreateInstance", (const void *))                                              \
    X(request_adapter, wgpu_future, "wgpuInstanceRequestAdapter", (wgpu_handle, const void *, wgpu_object_callback))   \
    X(adapter_info, wgpu_enum, "wgpuAdapterGetInfo", (wgpu_handle, wgpu_adapter_info *))                               \
    X(adapter_limits, wgpu_enum, "wgpuAdapterGetLimits", (wgpu_handle, wgpu_limits *))                                 \
    X(has_feature, wgpu_bool, "wgpuAdapterHasFeature", (wgpu_handle, wgpu_enum))                                       \
    X(request_device, wgpu_future, "wgpuAdapterRequestDevice",                                                         \
      (wgpu_handle, const wgpu_device_options *, wgpu_object_callback))                                                \
    X(queue_of, wgpu_handle, "wgpuDeviceGetQueue", (wgpu_handle))                                                      \
    X(poll, wgpu_bool, "wgpuDevicePoll", (wgpu_handle, wgpu_bool, const void *))                                       \
    X(push_scope, void, "wgpuDevicePushErrorScope", (wgpu_handle, wgpu_enum))                                          \
    X(pop_scope, wgpu_future, "wgpuDevicePopErrorScope", (wgpu_handle, wgpu_scope_callback))                           \
    X(create_buffer, wgpu_handle, "wgpuDeviceCreateBuffer", (wgpu_handle, const wgpu_buffer_options *))                \
    X(create_shader, wgpu_handle, "wgpuDeviceCreateShaderModule", (wgpu_handle, const wgpu_label *))                   \
    X(create_pipeline, wgpu_handle, "wgpuDeviceCreateComputePipeline", (wgpu_handle, const wgpu_pipeline_options *))   \
    X(create_layout, wgpu_handle, "wgpuDeviceCreateBindGroupLayout", (wgpu_handle, const wgpu_layout_options *))       \
    X(create_pipeline_layout, wgpu_handle, "wgpuDeviceCreatePipelineLayout",                                           \
      (wgpu_handle, const wgpu_pipeline_layout_options *))                                                             \
    X(release_pipeline_layout, void, "wgpuPipelineLayoutRelease", (wgpu_handle))                                       \
    X(create_group, wgpu_handle, "wgpuDeviceCreateBindGroup", (wgpu_handle, const wgpu_group_options *))               \
    X(create_encoder, wgpu_handle, "wgpuDeviceCreateCommandEncoder", (wgpu_handle, const void *))                      \
    X(begin_pass, wgpu_handle, "wgpuCommandEncoderBeginComputePass", (wgpu_handle, const void *))                      \
    X(set_pipeline, void, "wgpuComputePassEncoderSetPipeline", (wgpu_handle, wgpu_handle))                             \
    X(set_group, void, "wgpuComputePassEncoderSetBindGroup",                                                           \
      (wgpu_handle, uint32_t, wgpu_handle, size_t, const uint32_t *))                                                  \
    X(dispatch, void, "wgpuComputePassEncoderDispatchWorkgroups", (wgpu_handle, uint32_t, uint32_t, uint32_t))         \
    X(end_pass, void, "wgpuComputePassEncoderEnd", (wgpu_handle))                                                      \
    X(copy, void, "wgpuCommandEncoderCopyBufferToBuffer",                                                              \
      (wgpu_handle, wgpu_handle, uint64_t, wgpu_handle, uint64_t, uint64_t))                                           \
    X(finish, wgpu_handle, "wgpuCommandEncoderFinish", (wgpu_handle, const void *))                                    \
    X(submit, void, "wgpuQueueSubmit", (wgpu_handle, size_t, const wgpu_handle *))                                     \
    X(write, void, "wgpuQueueWriteBuffer", (wgpu_handle, wgpu_handle, uint64_t, const void *, size_t))                 \
    X(map, wgpu_future, "wgpuBufferMapAsync", (wgpu_handle, uint64_t, size_t, size_t, wgpu_map_callback))              \
    X(mapped, const void *, "wgpuBufferGetConstMappedRange", (wgpu_handle, size_t, size_t))                            \
    X(unmap, void, "wgpuBufferUnmap", (wgpu_handle))                                                                   \
    X(destroy_buffer, void, "wgpuBufferDestroy", (wgpu_handle))                                                        \
    X(release_buffer, void, "wgpuBufferRelease", (wgpu_handle))                                                        \
    X(release_shader, void, "wgpuShaderModuleRelease", (wgpu_handle))                                                  \
    X(release_pipeline, void, "wgpuComputePipelineRelease", (wgpu_handle))                                             \
    X(release_layout, void, "wgpuBindGroupLayoutRelease", (wgpu_handle))                                               \
    X(release_group, void, "wgpuBindGroupRelease", (wgpu_handle))                                                      \
    X(release_pass, void, "wgpuComputePassEncoderRelease", (wgpu_handle))                                              \
    X(release_encoder, void, "wgpuCommandEncoderRelease", (wgpu_handle))                                               \
    X(release_commands, void, "wgpuCommandBufferRelease", (wgpu_handle))                                               \
    X(release_queue, void, "wgpuQueueRelease", (wgpu_handle))                                                          \
    X(release_device, void, "wgpuDeviceRelease", (wgpu_handle))                                                        \
    X(release_adapter, void, "wgpuAdapterRelease", (wgpu_handle))                                                      \
    X(release_instance, void, "wgpuInstanceRelease", (wgpu_handle))

typedef struct wgpu_api {
#define X(field, result, symbol, parameters) result(*field) parameters;
    WGPU_FUNCTIONS(X)
#undef X
} wgpu_api;

#endif
