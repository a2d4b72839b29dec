/* Loops and branches inside CUDA graphs: conditional nodes, and the kernel that sets what they read. The device
   function that sets a condition belongs to no header: code that calls it names it as an external function, which the
   driver knows when it loads the code. So the kernel is PTX of a few lines, compiled by the driver, and generated
   kernels need not know that they run in a graph. Source: CUDA driver API manual, graph management; CUDA programming
   guide, conditional graph nodes. */
#include "runtime/drivers/cuda/cuda.h"

/* weft_set_condition(handle, predicate, inverted): condition = (*predicate != 0) ^ inverted. One thread. */
static const char setter_code[] = ".version 8.3\n"
                                  ".target sm_75\n"
                                  ".address_size 64\n"
                                  ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
                                  ".visible .entry weft_set_condition(.param .u64 handle, .param .u64 predicate,\n"
                                  "                                   .param .u32 inverted)\n"
                                  "{\n"
                                  "  .reg .pred %p<2>;\n"
                                  "  .reg .b32 %r<5>;\n"
                                  "  .reg .b64 %rd<4>;\n"
                                  "  ld.param.u64 %rd1, [handle];\n"
                                  "  ld.param.u64 %rd2, [predicate];\n"
                                  "  ld.param.u32 %r1, [inverted];\n"
                                  "  cvta.to.global.u64 %rd3, %rd2;\n"
                                  "  ld.global.u8 %r2, [%rd3];\n"
                                  "  setp.ne.u32 %p1, %r2, 0;\n"
                                  "  selp.u32 %r3, 1, 0, %p1;\n"
                                  "  xor.b32 %r4, %r3, %r1;\n"
                                  "  call.uni cudaGraphSetConditional, (%rd1, %r4);\n"
                                  "  ret;\n"
                                  "}\n";

bool weft_cuda_records_control(const weft_device *base) {
    const cu_api *api = &((const cuda_device *)base)->api;
    return api->version >= CU_VERSION_WITH_CONDITIONS && api->cuGraphConditionalHandleCreate && api->cuGraphAddNode;
}

const char *weft_cuda_remark(const weft_device *base) {
    return weft_cuda_records_control(base) ? "loops run in graphs on the card"
                                           : "loops wait for the host after each trip: the driver is older than CUDA "
                                             "12.4, whose graphs have loops";
}

static weft_status find_setter(cuda_device *device) {
    weft_status status = NULL;
    (void)pthread_mutex_lock(&device->lock);
    if (!device->condition_module)
        status = weft_cuda_status(&device->api, device->api.cuModuleLoadData(&device->condition_module, setter_code),
                                  "cuModuleLoadData");
    if (!status && !device->set_condition)
        status = weft_cuda_status(
            &device->api,
            device->api.cuModuleGetFunction(&device->set_condition, device->condition_module, "weft_set_condition"),
            "cuModuleGetFunction");
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

void weft_cuda_drop_conditions(cuda_device *device) {
    if (device->condition_module) (void)device->api.cuModuleUnload(device->condition_module);
    device->condition_module = NULL, device->set_condition = NULL;
}

weft_status weft_cuda_make_condition(cuda_device *device, cu_graph graph, cu_condition *out_handle) {
    WEFT_TRY(find_setter(device), "loading the kernel that sets conditions");
    return weft_cuda_status(
        &device->api,
        device->api.cuGraphConditionalHandleCreate(out_handle, graph, device->context, 0, CU_CONDITION_ASSIGN_DEFAULT),
        "cuGraphConditionalHandleCreate");
}

weft_status weft_cuda_add_setter(cuda_device *device, cu_graph graph, size_t before_count, const cu_graph_node *before,
                                 cu_condition handle, const void *predicate, bool inverted, cu_graph_node *out_node) {
    cu_pointer at = (cu_pointer)(uintptr_t)predicate;
    uint32_t flag = inverted;
    void *parameters[] = {&handle, &at, &flag};
    cu_kernel_node node = {
        .function = device->set_condition, .grid = {1, 1, 1}, .block = {1, 1, 1}, .parameters = parameters};
    return weft_cuda_status(
        &device->api,
        device->api.cuGraphAddKernelNode(out_node, graph, before_count ? before : NULL, before_count, &node),
        "cuGraphAddKernelNode");
}

weft_status weft_cuda_add_condition(cuda_device *device, cu_graph graph, size_t before_count,
                                    const cu_graph_node *before, cu_condition handle, bool loop,
                                    cu_graph_node *out_node, cu_graph *out_body) {
    cu_conditional_node node = {.type = CU_NODE_CONDITIONAL,
                                .handle = handle,
                                .kind = loop ? CU_CONDITION_WHILE : CU_CONDITION_IF,
                                .size = 1,
                                .context = device->context};
    _Static_assert(sizeof node == 256, "CUgraphNodeParams");
    WEFT_TRY(weft_cuda_status(&device->api,
                              device->api.cuGraphAddNode(out_node, graph, before, NULL, before_count, &node),
                              "cuGraphAddNode"),
             "a conditional node");
    *out_body = node.bodies[0];
    return NULL;
}
