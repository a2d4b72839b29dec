/* Recordings: the commands of one call as a CUDA graph, made node by node, so that other threads may use the stream
   meanwhile. Loops and branches are graphs inside it (conditions.c). A node follows those that its command has to
   follow; what is free runs side by side. A recording keeps the addresses and extents of its commands; whoever made it
   drops it when one changes. Source: CUDA driver API manual, graph management. */
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
    cu_copy copy = {.from_type = command->from_host ? CU_MEMORY_HOST : CU_MEMORY_DEVICE,
                    .from_host = command->from_host ? command->from : NULL,
                    .from = command->from_host ? 0 : (cu_pointer)(uintptr_t)command->from,
                    .to_type = command->to_host ? CU_MEMORY_HOST : CU_MEMORY_DEVICE,
                    .to_host = command->to_host ? command->to : NULL,
                    .to = command->to_host ? 0 : (cu_pointer)(uintptr_t)command->to,
                    .width_bytes = command->bytes,
                    .height = 1,
                    .depth = 1};
    size_t before = find_before(d, command);
    return weft_cuda_status(
        &device->api,
        device->api.cuGraphAddMemcpyNode(out_node, d->graph, before ? d->before : NULL, before, &copy, device->context),
        "cuGraphAddMemcpyNode");
}

static weft_status add_list(cuda_device *device, weft_module *module, weft_command_list list, cu_graph graph,
                            const weft_command *loop, cu_condition handle) WEFT_MUST_USE;

/* The predicate is read before anything that it decides: its memory may be used again there. */
static weft_status add_control(cuda_device *device, weft_module *module, const weft_command *command, const drawing *d,
                               cu_graph_node *out_node) {
    cu_condition handles[2];
    cu_graph_node setters[2];
    cu_graph body;
    size_t before = find_before(d, command);
    int count = !command->loop && command->other.count > 0 ? 2 : 1;
    for (int i = 0; i < count; i++) {
        WEFT_TRY(weft_cuda_make_condition(device, d->graph, &handles[i]), "a condition");
        WEFT_TRY(weft_cuda_add_setter(device, d->graph, before, d->before, handles[i], command->predicate, i == 1,
                                      &setters[i]),
                 "a condition");
    }
    WEFT_TRY(
        weft_cuda_add_condition(device, d->graph, (size_t)count, setters, handles[0], command->loop, out_node, &body),
        "a condition");
    WEFT_TRY(add_list(device, module, command->body, body, command->loop ? command : NULL, handles[0]), "its body");
    if (count == 1) return NULL;
    cu_graph_node first = *out_node;
    WEFT_TRY(weft_cuda_add_condition(device, d->graph, 1, &first, handles[1], false, out_node, &body), "a condition");
    return add_list(device, module, command->other, body, NULL, 0);
}

static weft_status add_command(cuda_device *device, weft_module *module, const weft_command *command, const drawing *d,
                               cu_graph_node *out_node) {
    if (command->predicate) return add_control(device, module, command, d, out_node);
    return command->launch ? add_launch(device, module, command, d, out_node) : add_copy(device, command, d, out_node);
}

/* At the end of a loop's body its condition is set anew, once everything else has run. */
static weft_status end_loop(cuda_device *device, weft_command_list list, const drawing *d, const weft_command *loop,
                            cu_condition handle) {
    size_t count = 0;
    cu_graph_node node;
    for (int i = 0; i < list.count; i++) {
        bool followed = false;
        for (int k = i + 1; k < list.count && !followed; k++)
            for (int a = 0; a < list.commands[k].after_count; a++) followed |= list.commands[k].after[a] == i;
        if (!followed) d->before[count++] = d->nodes[i];
    }
    return weft_cuda_add_setter(device, d->graph, count, d->before, handle, loop->predicate, false, &node);
}

/* loop: whose body the list is; NULL: of none. */
static weft_status add_list(cuda_device *device, weft_module *module, weft_command_list list, cu_graph graph,
                            const weft_command *loop, cu_condition handle) {
    weft_allocator allocator = device->gpu.base.context->allocator;
    size_t bytes = ((size_t)list.count + 1) * sizeof(cu_graph_node);
    drawing d = {graph, weft_allocate(allocator, bytes), weft_allocate(allocator, bytes)};
    weft_status status =
        d.nodes && d.before ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to record %d commands", list.count);
    for (int i = 0; i < list.count && !status; i++) {
        status = add_command(device, module, &list.commands[i], &d, &d.nodes[i]);
        if (status) status = weft_status_annotate(status, __FILE__, __LINE__, "command %d", i);
    }
    if (!status && loop) status = end_loop(device, list, &d, loop, handle);
    if (d.nodes) weft_free(allocator, d.nodes, bytes);
    if (d.before) weft_free(allocator, d.before, bytes);
    return status;
}

weft_status weft_cuda_record(weft_device *base, weft_module *module, weft_command_list list,
                             weft_recording **out_recording) {
    cuda_device *device = (cuda_device *)base;
    *out_recording = NULL;
    if (!has_graphs(&device->api)) return WEFT_STATUS(WEFT_UNSUPPORTED, "this NVIDIA driver has no graphs of CUDA 12");
    WEFT_TRY(weft_gpu_enter(base), "recording");
    weft_recording *recording = weft_allocate(base->context->allocator, sizeof *recording);
    if (!recording) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a recording");
    cu_graph graph = NULL;
    weft_status status = weft_cuda_status(&device->api, device->api.cuGraphCreate(&graph, 0), "cuGraphCreate");
    if (!status) status = add_list(device, module, list, graph, NULL, 0);
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
