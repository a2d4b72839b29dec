/* One call: addresses of inputs and outputs, the run, and the outputs' way to the caller.
   Hot path (unchanged shapes, host tensors, a host-memory driver): compare shapes, take addresses, patch, walk the
   frame. Tensors on the device or host tensors on a driver without host memory go through staging buffers of the
   session. */
#include <stdint.h>

#include "base/arena.h"
#include "base/need.h"
#include "base/tensor.h"
#include "runtime/session.h"

static void set_address(weft_session *session, weft_session_port *p, void *address) {
    void **slot = &session->frame.addresses[p->port->buffer];
    if (*slot == address) return;
    *slot = address;
    session->stale = true;
}

static weft_status stage(weft_session *session, weft_session_port *p) {
    WEFT_TRY(weft_session_reserve(session, &p->memory, &p->memory_bytes, (size_t)p->bytes), "staging %s",
             p->port->name);
    p->staged = true;
    set_address(session, p, p->memory);
    return NULL;
}

static weft_status pack_on_host(weft_session *session, const weft_tensor *tensor, const void **out_data) {
    weft_allocator allocator = session->program->context->allocator;
    size_t bytes = weft_tensor_bytes(tensor);
    if (bytes > session->packing_bytes || !session->packing) {
        weft_free(allocator, session->packing, session->packing_bytes);
        session->packing = weft_allocate(allocator, bytes);
        session->packing_bytes = session->packing ? bytes : 0;
        if (!session->packing) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to pack an input of %zu bytes", bytes);
    }
    weft_tensor_pack(tensor, session->packing);
    *out_data = session->packing;
    return NULL;
}

static weft_status set_input(weft_session *session, weft_session_port *p, const weft_tensor *tensor) {
    weft_device *device = session->program->device;
    const weft_driver *driver = device->driver;
    p->staged = p->mailed = false;
    if (tensor->device && tensor->device != device)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "input %s lies on another device", p->port->name);
    bool in_place = tensor->device || driver->host_memory;
    if (in_place && tensor->packed) {
        set_address(session, p, tensor->data);
        return NULL;
    }
    if (tensor->device) return WEFT_STATUS(WEFT_UNSUPPORTED, "input %s is a strided tensor on a device", p->port->name);
    if (p->mail >= 0) {
        p->mailed = true;
        set_address(session, p, (char *)session->mail_device + p->mail);
        weft_session_write_mail(session, p, tensor);
        return NULL;
    }
    WEFT_TRY(stage(session, p), "input");
    if (driver->host_memory) {
        weft_tensor_pack(tensor, p->memory);
        return NULL;
    }
    const void *from = tensor->data;
    if (!tensor->packed) {
        /* the previous upload may still read the packing buffer */
        WEFT_TRY(driver->synchronise(device), "input %s", p->port->name);
        WEFT_TRY(pack_on_host(session, tensor, &from), "input %s", p->port->name);
    }
    return driver->upload(device, p->memory, from, (size_t)p->bytes);
}

/* A tensor of the caller as output: exact type, packed, apart from everything else in this call. */
static weft_status check_given(const weft_session *session, const weft_session_port *p, const weft_tensor *tensor) {
    bool fits = tensor->dtype == p->port->dtype && tensor->rank == p->port->rank;
    for (int axis = 0; axis < p->port->rank && fits && !p->late; axis++) fits = tensor->shape[axis] == p->shape[axis];
    if (!fits)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %s: the given tensor has another dtype or shape",
                           p->port->name);
    if (!tensor->packed)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %s: the given tensor is strided", p->port->name);
    if (tensor->device && tensor->device != session->program->device)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %s lies on another device", p->port->name);
    return NULL;
}

static weft_status set_output(weft_session *session, weft_session_port *p, const weft_tensor *given) {
    weft_device *device = session->program->device;
    p->staged = p->mailed = false;
    if (given) WEFT_TRY(check_given(session, p, given), "calling %s", session->program->data->name);
    if (p->mail >= 0 && !(given && given->device)) {
        p->mailed = true;
        set_address(session, p, (char *)session->mail_device + p->mail);
        return NULL;
    }
    if (p->late || (!device->driver->host_memory && !(given && given->device))) return stage(session, p);
    if (!given) {
        WEFT_TRY(weft_tensor_create_uncleared(session->program->context, p->port->dtype, p->port->rank, p->shape,
                                              &p->created),
                 "output %s", p->port->name);
        given = p->created;
    }
    set_address(session, p, given->data);
    return NULL;
}

static bool overlap(const weft_tensor *a, const weft_tensor *b) {
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return a->device == b->device && x < y + b->bytes && y < x + a->bytes;
}

/* Outputs of the caller may share bytes with no input (kernels read inputs after they write outputs) and no output. */
static weft_status check_overlap(const weft_program_data *data, weft_tensor *const *inputs,
                                 weft_tensor *const *outputs) {
    for (int i = 0; i < data->output_count; i++) {
        if (!outputs[i]) continue;
        for (int k = 0; k < data->input_count; k++)
            if (overlap(outputs[i], inputs[k]))
                return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %s shares memory with input %s",
                                   data->outputs[i].name, data->inputs[k].name);
        for (int k = 0; k < i; k++)
            if (outputs[k] && overlap(outputs[i], outputs[k]))
                return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %s shares memory with output %s",
                                   data->outputs[i].name, data->outputs[k].name);
    }
    return NULL;
}

/* Staged outputs: the tensor with its actual shape, and its elements. */
static weft_status finish_output(weft_session *session, weft_session_port *p, weft_tensor *given) {
    weft_device *device = session->program->device;
    const weft_frame *frame = &session->frame;
    int64_t shape[WEFT_MAX_RANK];
    if (!p->staged && !p->mailed) return NULL;
    for (int axis = 0; axis < p->port->rank; axis++)
        if (!weft_dim_evaluate(frame->data->dims, p->port->dims[axis], frame->symbols, &shape[axis]))
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "output %s: axis %d overflows", p->port->name, axis);
    if (!given) {
        WEFT_TRY(
            weft_tensor_create_uncleared(session->program->context, p->port->dtype, p->port->rank, shape, &p->created),
            "output %s", p->port->name);
        given = p->created;
    }
    for (int axis = 0; axis < p->port->rank; axis++)
        if (given->shape[axis] != shape[axis])
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %s: axis %d is %lld, the given tensor has %lld",
                               p->port->name, axis, (long long)shape[axis], (long long)given->shape[axis]);
    if ((int64_t)given->bytes > p->bytes)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "output %s: %zu bytes, at most %lld were expected", p->port->name,
                           given->bytes, (long long)p->bytes);
    if (p->mailed) {
        weft_session_read_mail(session, p, given);
        return NULL;
    }
    if (given->device) return device->driver->copy(device, given->data, p->memory, given->bytes);
    return device->driver->download(device, given->data, p->memory, given->bytes);
}

static weft_status set_ports(weft_session *session, weft_tensor *const *inputs, weft_tensor *const *outputs) {
    const weft_program_data *data = session->program->data;
    bool given = false;
    for (int i = 0; i < data->input_count; i++)
        WEFT_TRY(set_input(session, &session->ports[i], inputs[i]), "calling %s", data->name);
    for (int i = 0; i < data->output_count; i++) {
        given |= outputs[i] != NULL;
        WEFT_TRY(set_output(session, &session->ports[data->input_count + i], outputs[i]), "calling %s", data->name);
    }
    return given ? check_overlap(data, inputs, outputs) : NULL;
}

static weft_status run(weft_session *session, weft_tensor *const *inputs, weft_tensor *const *outputs) {
    const weft_program_data *data = session->program->data;
    weft_device *device = session->program->device;
    weft_frame *frame = &session->frame;
    weft_status status = set_ports(session, inputs, outputs), waited = NULL;
    bool timed = session->timed && device->driver->mark, rests = false;
    if (!status) weft_session_address_mail(session, !timed);
    if (!status && session->stale) {
        weft_frame_forget(frame);
        weft_frame_patch(frame);
    }
    if (!status && timed) status = weft_frame_send(frame);
    if (!status && timed) status = device->driver->mark(device, 0);
    if (!status) {
        session->stale = false;
        status = weft_frame_run_main(frame);
    }
    if (!status && timed) status = device->driver->mark(device, 1);
    if (!status && timed) status = weft_frame_fetch(frame);
    if (!status && !timed && frame->outbox.bytes) { /* what the recording fetched is there */
        status = device->driver->synchronise(device);
        rests = !status;
    }
    for (int i = 0; i < data->output_count && !status; i++) {
        weft_session_port *p = &session->ports[data->input_count + i];
        rests &= !p->staged;
        status = finish_output(session, p, outputs[i]);
    }
    if (!rests) waited = device->driver->synchronise(device); /* also after an error: inputs are the caller's again */
    if (status) {
        weft_status_release(waited);
        waited = status;
    } else if (timed && !waited)
        waited = device->driver->elapsed(device, &session->device_ns);
    weft_program_reset_data_symbols(data, session->frame.symbols);
    return waited;
}

weft_status weft_session_call(weft_session *session, int input_count, weft_tensor *const *inputs, int output_count,
                              weft_tensor **outputs) {
    WEFT_NEED(session, "the session");
    WEFT_NEED_LIST(inputs, input_count, "the list of inputs");
    WEFT_NEED_LIST(outputs, output_count, "the list of outputs");
    const weft_program_data *data = session->program->data;
    if (output_count != data->output_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s has %d outputs, not %d", data->name, data->output_count,
                           output_count);
    if (!weft_session_matches(session, input_count, inputs))
        WEFT_TRY(weft_session_bind(session, input_count, inputs), "binding shapes");
    weft_status status = run(session, inputs, outputs);
    for (int i = 0; i < output_count; i++) {
        weft_session_port *p = &session->ports[data->input_count + i];
        if (status)
            weft_tensor_release(p->created);
        else if (p->created)
            outputs[i] = p->created;
        p->created = NULL;
    }
    return status;
}
