/* Recordings: the launches and copies of one call, captured on a stream of their own (so that other threads may use the
   device's meanwhile) and kept as a graph. A recording keeps the addresses and extents of its commands; whoever made it
   drops it when one changes. */
#include "base/arena.h"
#include "runtime/drivers/hip/hip.h"

struct weft_recording {
    hip_graph_exec exec;
};

static weft_status add_commands(hip_device *device, weft_module *module, int count, const weft_command *commands,
                                hip_stream stream) {
    for (int i = 0; i < count; i++) {
        const weft_command *command = &commands[i];
        if (command->launch) {
            if (command->launch->grid > 0)
                WEFT_TRY(weft_hip_launch_on(device, module, command->launch, stream), "command %d", i);
        } else if (command->bytes > 0) {
            hip_result result =
                device->api.hipMemcpyDtoDAsync(command->to, (void *)(uintptr_t)command->from, command->bytes, stream);
            WEFT_TRY(weft_hip_status(&device->api, result, "hipMemcpyDtoDAsync"), "command %d", i);
        }
    }
    return NULL;
}

/* The capture is ended in any case: a stream that captures cannot be destroyed. */
static weft_status capture(hip_device *device, weft_module *module, int count, const weft_command *commands,
                           hip_stream stream, hip_graph *out_graph) {
    WEFT_TRY(weft_hip_status(&device->api, device->api.hipStreamBeginCapture(stream, HIP_CAPTURE_THREAD_LOCAL),
                             "hipStreamBeginCapture"),
             "recording");
    weft_status status = add_commands(device, module, count, commands, stream);
    weft_status ended =
        weft_hip_status(&device->api, device->api.hipStreamEndCapture(stream, out_graph), "hipStreamEndCapture");
    if (!status) return ended;
    weft_status_release(ended);
    return status;
}

weft_status weft_hip_record(weft_device *base, weft_module *module, weft_command_list list,
                            weft_recording **out_recording) {
    hip_device *device = (hip_device *)base;
    *out_recording = NULL;
    WEFT_TRY(weft_gpu_enter(base), "recording");
    hip_stream stream = NULL;
    hip_graph graph = NULL;
    weft_recording *recording = weft_allocate(base->context->allocator, sizeof *recording);
    weft_status status = recording ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a recording");
    if (!status)
        status = weft_hip_status(&device->api, device->api.hipStreamCreateWithFlags(&stream, HIP_STREAM_NON_BLOCKING),
                                 "hipStreamCreateWithFlags");
    if (!status) status = capture(device, module, list.count, list.commands, stream, &graph);
    if (!status)
        status = weft_hip_status(&device->api, device->api.hipGraphInstantiate(&recording->exec, graph, NULL, NULL, 0),
                                 "hipGraphInstantiate");
    if (graph) (void)device->api.hipGraphDestroy(graph);
    if (stream) (void)device->api.hipStreamDestroy(stream);
    if (status)
        weft_free(base->context->allocator, recording, sizeof *recording);
    else
        *out_recording = recording;
    return status;
}

weft_status weft_hip_replay(weft_device *base, weft_recording *recording) {
    hip_device *device = (hip_device *)base;
    WEFT_TRY(weft_gpu_enter(base), "replaying");
    return weft_hip_status(&device->api, device->api.hipGraphLaunch(recording->exec, device->stream), "hipGraphLaunch");
}

void weft_hip_forget(weft_device *base, weft_recording *recording) {
    hip_device *device = (hip_device *)base;
    if (!recording) return;
    weft_status_release(weft_gpu_enter(base));
    (void)device->api.hipGraphExecDestroy(recording->exec);
    weft_free(base->context->allocator, recording, sizeof *recording);
}
