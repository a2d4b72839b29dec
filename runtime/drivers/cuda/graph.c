/* Recordings: the launches and copies of one call as a CUDA graph, made node by node, so that other threads may use the
   stream meanwhile. A node follows those that its command has to follow; what is free runs side by side. A recording
   keeps the addresses and extents of its commands; whoever made it drops it when one changes. Source: CUDA driver API
   manual, graph management. */
#include "runtime/drivers/cuda/cuda.h"

#include <string.h>

#include "base/arena.h"

struct weft_recording {
    cu_graph_exec exec;
};

static bool has_graphs(const cu_api *api) {
    return api->cuGraphCreate && api->cuGraphDestroy && api->cuGraphAddKernelNode && api->cuGraphAddMemcpyNode &&
           api->cuGraphInstantiate && api->cuGraphLaunch && api->cuGraphExecDestroy;
}

/* A graph under construction: a node for each command so far. */
typedef struct drawing {
    cu_graph graph;
    cu_graph_node *nodes, *before; /* before: of the command at hand */
} drawing;

static size_t find_before(const drawing *d, const weft_command *command) {
    for (int i = 0; i < command->after_count; i++) d->before[i] = d->nodes[command->after[i]];
    return (size_t)command->after_count;
}

static weft_status add_launch(cuda_device *device, weft_module *module, const weft_command *command, const drawing *d,
                              cu_graph_node *out_node) {
    const weft_launch *launch = command->launch;
    cuda_prepared prepared;
    WEFT_TRY(weft_cuda_prepare(device, module, launch, &prepared), "recording a launch");
    cu_kernel_node node = {.function = prepared.function,
                           .grid = {prepared.blocks, 1, 1},
                           .block = {prepared.threads, 1, 1},
                           .shared_bytes = prepared.shared_bytes,
                           .parameters = prepared.parameters};
    size_t before = find_before(d, command);
    return weft_cuda_status(
        &device->api, device->api.cuGraphAddKernelNode(out_node, d->graph, before ? d->before : NULL, before, &node),
        "cuGraphAddKernelNode");
}

static weft_status add_copy(cuda_device *device, const weft_command *command, const drawing *d,
                            cu_graph_node *out_node) {
    cu_copy copy = {.from_type = CU_MEMORY_DEVICE,
                    .from = (cu_pointer)(uintptr_t)command->from,
                    .to_type = CU_MEMORY_DEVICE,
                    .to = (cu_pointer)(uintptr_t)command->to,
                    .width_bytes = command->bytes,
                    .height = 1,
                    .depth = 1};
    size_t before = find_before(d, command);
    return weft_cuda_status(
        &device->api,
        device->api.cuGraphAddMemcpyNode(out_node, d->graph, before ? d->before : NULL, before, &copy, device->context),
        "cuGraphAddMemcpyNode");
}

static weft_status add_commands(cuda_device *device, weft_module *module, int count, const weft_command *commands,
                                cu_graph graph) {
    weft_allocator allocator = device->gpu.base.context->allocator;
    size_t bytes = ((size_t)count + 1) * sizeof(cu_graph_node);
    drawing d = {graph, weft_allocate(allocator, bytes), weft_allocate(allocator, bytes)};
    weft_status status =
        d.nodes && d.before ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to record %d commands", count);
    for (int i = 0; i < count && !status; i++) {
        const weft_command *command = &commands[i];
        status = command->launch ? add_launch(device, module, command, &d, &d.nodes[i])
                                 : add_copy(device, command, &d, &d.nodes[i]);
        if (status) status = weft_status_annotate(status, __FILE__, __LINE__, "command %d", i);
    }
    if (d.nodes) weft_free(allocator, d.nodes, bytes);
    if (d.before) weft_free(allocator, d.before, bytes);
    return status;
}

weft_status weft_cuda_record(weft_device *base, weft_module *module, int count, const weft_command *commands,
                             weft_recording **out_recording) {
    cuda_device *device = (cuda_device *)base;
    *out_recording = NULL;
    if (!has_graphs(&device->api)) return WEFT_STATUS(WEFT_UNSUPPORTED, "this NVIDIA driver has no graphs of CUDA 12");
    WEFT_TRY(weft_gpu_enter(base), "recording");
    weft_recording *recording = weft_allocate(base->context->allocator, sizeof *recording);
    if (!recording) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a recording");
    cu_graph graph = NULL;
    weft_status status = weft_cuda_status(&device->api, device->api.cuGraphCreate(&graph, 0), "cuGraphCreate");
    if (!status) status = add_commands(device, module, count, commands, graph);
    if (!status)
        status = weft_cuda_status(&device->api, device->api.cuGraphInstantiate(&recording->exec, graph, 0),
                                  "cuGraphInstantiate");
    if (graph) (void)device->api.cuGraphDestroy(graph);
    if (status)
        weft_free(base->context->allocator, recording, sizeof *recording);
    else
        *out_recording = recording;
    return status;
}

weft_status weft_cuda_replay(weft_device *base, weft_recording *recording) {
    cuda_device *device = (cuda_device *)base;
    WEFT_TRY(weft_gpu_enter(base), "replaying");
    return weft_cuda_status(&device->api, device->api.cuGraphLaunch(recording->exec, device->stream), "cuGraphLaunch");
}

void weft_cuda_forget(weft_device *base, weft_recording *recording) {
    cuda_device *device = (cuda_device *)base;
    if (!recording) return;
    weft_status_release(weft_gpu_enter(base));
    (void)device->api.cuGraphExecDestroy(recording->exec);
    weft_free(base->context->allocator, recording, sizeof *recording);
}
