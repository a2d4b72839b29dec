/* Sessions: creation, states, and what a change of shape does. Invariant: while `bound`, the frame is resolved for the
   shapes in `ports` and the workspace holds the plan. Read next: call.c. */
#include "runtime/session.h"

#include <string.h>

#include "base/dtype.h"
#include "base/need.h"
#include "base/text.h"

static int port_count(const weft_program_data *data) { return data->input_count + data->output_count; }

static void free_memory(weft_session *session, void **memory, size_t *bytes) {
    weft_device *device = session->program->device;
    if (*memory) device->driver->free(device, *memory, *bytes);
    *memory = NULL;
    *bytes = 0;
}

weft_status weft_session_reserve(weft_session *session, void **memory, size_t *capacity_bytes, size_t bytes) {
    if (*memory && bytes <= *capacity_bytes) return NULL;
    weft_device *device = session->program->device;
    free_memory(session, memory, capacity_bytes);
    WEFT_TRY(device->driver->allocate(device, bytes, memory), "session of %s", session->program->data->name);
    *capacity_bytes = bytes;
    return NULL;
}

static bool is_no_data_symbol(void *self, int symbol) {
    return weft_dim_symbol_get(self, symbol)->origin != WEFT_SYMBOL_DATA;
}

static void init_ports(weft_session *session) {
    const weft_program_data *data = session->program->data;
    for (int i = 0; i < port_count(data); i++) {
        weft_session_port *p = &session->ports[i];
        bool output = i >= data->input_count;
        p->port = output ? &data->outputs[i - data->input_count] : &data->inputs[i];
        for (int axis = 0; output && axis < p->port->rank; axis++)
            p->late |= !weft_dim_visit_symbols(data->dims, p->port->dims[axis], is_no_data_symbol, data->dims);
    }
}

/* Initial values from the weights, zeros elsewhere. */
static weft_status init_states(weft_session *session) {
    const weft_program *program = session->program;
    const weft_program_data *data = program->data;
    const weft_driver *driver = program->device->driver;
    if (!program->state_bytes) return NULL;
    WEFT_TRY(driver->allocate(program->device, (size_t)program->state_bytes, &session->states),
             "states of %s, %lld bytes", data->name, (long long)program->state_bytes);
    size_t zero_bytes = 0;
    for (int i = 0; i < data->buffer_count; i++) {
        const weft_buffer *buffer = &data->buffers[i];
        bool starts_zero = buffer->kind == WEFT_BUFFER_STATE && buffer->offset < 0;
        if (starts_zero && (size_t)buffer->bytes > zero_bytes) zero_bytes = (size_t)buffer->bytes;
    }
    void *zeros = weft_allocate(program->context->allocator, zero_bytes);
    if (!zeros) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the states of %s", data->name);
    weft_status status = NULL;
    for (int i = 0; i < data->buffer_count && !status; i++) {
        const weft_buffer *buffer = &data->buffers[i];
        size_t bytes = (size_t)buffer->bytes;
        if (buffer->kind != WEFT_BUFFER_STATE || !bytes) continue;
        void *to = (char *)session->states + program->state_offsets[i];
        if (buffer->offset < 0)
            status = driver->upload(program->device, to, zeros, bytes);
        else if (program->source.constants) /* they lie on the host */
            status = driver->upload(program->device, to, program->constants[i], bytes);
        else
            status = driver->copy(program->device, to, program->constants[i], bytes);
    }
    weft_status waited = driver->synchronise(program->device); /* uploads read zeros */
    weft_free(program->context->allocator, zeros, zero_bytes);
    if (!status) return waited;
    weft_status_release(waited);
    return status;
}

/* Addresses that no shape changes. */
static void init_addresses(weft_session *session) {
    const weft_program *program = session->program;
    for (int i = 0; i < program->data->buffer_count; i++) {
        const weft_buffer *buffer = &program->data->buffers[i];
        void **address = &session->frame.addresses[i];
        if (buffer->kind == WEFT_BUFFER_CONSTANT) *address = program->constants[i];
        if (buffer->kind == WEFT_BUFFER_PERSISTENT)
            *address = (char *)program->persistent + program->persistent_offsets[i];
        if (buffer->kind == WEFT_BUFFER_STATE) *address = (char *)session->states + program->state_offsets[i];
    }
}

static weft_status fill(weft_session *session) {
    weft_program *program = session->program;
    WEFT_TRY(weft_frame_init(program->context, program->data, program->device, program->module, &session->frame),
             "session");
    size_t buffer_count = (size_t)program->data->buffer_count, ports = (size_t)port_count(program->data);
    session->offsets = weft_arena_allocate_array(&session->frame.arena, buffer_count, sizeof *session->offsets);
    session->ports = weft_arena_allocate_array(&session->frame.arena, ports, sizeof *session->ports);
    if (!session->offsets || !session->ports)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a session of %s", program->data->name);
    init_ports(session);
    WEFT_TRY(init_states(session), "session of %s", program->data->name);
    init_addresses(session);
    return NULL;
}

weft_status weft_session_create(weft_program *program, weft_session **out_session) {
    WEFT_NEED(out_session, "out_session");
    *out_session = NULL;
    WEFT_NEED(program, "the program");
    weft_session *session = weft_allocate(program->context->allocator, sizeof *session);
    if (!session) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a session");
    session->program = program;
    weft_program_retain(program);
    weft_status status = fill(session);
    if (status)
        weft_session_release(session);
    else
        *out_session = session;
    return status;
}

void weft_session_trim(weft_session *session) {
    if (!session) return;
    weft_device *device = session->program->device;
    for (int i = 0; session->ports && i < port_count(session->program->data); i++)
        free_memory(session, &session->ports[i].memory, &session->ports[i].memory_bytes);
    free_memory(session, &session->workspace, &session->workspace_bytes);
    weft_session_drop_mail(session);
    weft_free(session->program->context->allocator, session->packing, session->packing_bytes);
    session->packing = NULL;
    session->packing_bytes = 0;
    session->bound = false;
    weft_frame_forget(&session->frame);
    if (device->driver->trim) device->driver->trim(device);
}

void weft_session_release(weft_session *session) {
    if (!session) return;
    weft_program *program = session->program;
    size_t state_bytes = (size_t)program->state_bytes;
    for (int i = 0; session->ports && i < port_count(program->data); i++)
        free_memory(session, &session->ports[i].memory, &session->ports[i].memory_bytes);
    free_memory(session, &session->workspace, &session->workspace_bytes);
    free_memory(session, &session->states, &state_bytes);
    weft_session_drop_mail(session);
    weft_free(program->context->allocator, session->packing, session->packing_bytes);
    weft_frame_forget(&session->frame);
    weft_frame_deinit(&session->frame);
    weft_free(program->context->allocator, session, sizeof *session);
    weft_program_release(program);
}

bool weft_session_matches(const weft_session *session, int input_count, weft_tensor *const *inputs) {
    if (!session->bound || input_count != session->program->data->input_count) return false;
    for (int i = 0; i < input_count; i++) {
        const weft_session_port *p = &session->ports[i];
        const weft_tensor *tensor = inputs[i];
        if (!tensor || weft_tensor_dtype(tensor) != p->port->dtype || weft_tensor_rank(tensor) != p->port->rank)
            return false;
        const int64_t *shape = weft_tensor_shape(tensor);
        for (int axis = 0; axis < p->port->rank; axis++)
            if (shape[axis] != p->shape[axis]) return false;
    }
    return true;
}

static weft_status measure_port(const weft_session *session, weft_session_port *p) {
    const weft_frame *frame = &session->frame;
    int64_t count = 1;
    size_t bytes;
    for (int axis = 0; axis < p->port->rank; axis++) {
        bool fine = weft_dim_evaluate(frame->data->dims, p->port->dims[axis], frame->symbols, &p->shape[axis]) &&
                    p->shape[axis] >= 0;
        if (!fine || __builtin_mul_overflow(count, p->shape[axis], &count))
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "axis %d of %s overflows or is negative for these shapes", axis,
                               p->port->name);
    }
    if (!weft_dtype_bytes(p->port->dtype, count, &bytes) || bytes > INT64_MAX)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%s has too many bytes for these shapes", p->port->name);
    p->bytes = (int64_t)bytes;
    if (frame->sizes[p->port->buffer] > p->bytes)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%s has %lld bytes, but the program uses %lld", p->port->name,
                           (long long)p->bytes, (long long)frame->sizes[p->port->buffer]);
    return NULL;
}

enum { LARGEST_SHOWN = 3 };

/* Out of memory names the largest temporaries. */
static weft_status explain_workspace(const weft_session *session, weft_status status, int64_t total) {
    const weft_program_data *data = session->program->data;
    weft_text text;
    int shown[LARGEST_SHOWN] = {-1, -1, -1};
    weft_text_init(session->program->context->allocator, &text);
    for (int n = 0; n < LARGEST_SHOWN; n++) {
        for (int i = 0; i < data->buffer_count; i++) {
            bool taken = i == shown[0] || i == shown[1] || data->buffers[i].kind != WEFT_BUFFER_TEMP;
            if (!taken && (shown[n] < 0 || session->frame.sizes[i] > session->frame.sizes[shown[n]])) shown[n] = i;
        }
        if (shown[n] < 0) break;
        const char *name = data->buffers[shown[n]].name;
        weft_text_append(&text, "%s%s (%lld bytes)", n ? ", " : "", name ? name : "unnamed",
                         (long long)session->frame.sizes[shown[n]]);
    }
    status = weft_status_annotate(status, __FILE__, __LINE__, "%s needs %lld bytes of temporaries; the largest: %s",
                                  data->name, (long long)total, weft_text_string(&text));
    weft_text_deinit(&text);
    return status;
}

weft_status weft_session_bind(weft_session *session, int input_count, weft_tensor *const *inputs) {
    const weft_program_data *data = session->program->data;
    weft_frame *frame = &session->frame;
    int64_t total;
    session->bound = false;
    WEFT_TRY(weft_program_bind(data, input_count, inputs, frame->symbols), "calling %s", data->name);
    WEFT_TRY(weft_frame_measure(frame), "calling %s", data->name);
    for (int i = 0; i < port_count(data); i++)
        WEFT_TRY(measure_port(session, &session->ports[i]), "calling %s", data->name);
    weft_session_plan_mail(session);
    WEFT_TRY(weft_memory_plan(data, frame->symbols, session->program->context->allocator, session->offsets, &total),
             "calling %s", data->name);
    weft_status status = weft_session_reserve(session, &session->workspace, &session->workspace_bytes, (size_t)total);
    if (status) return explain_workspace(session, status, total);
    for (int i = 0; i < data->buffer_count; i++)
        if (session->offsets[i] >= 0) frame->addresses[i] = (char *)session->workspace + session->offsets[i];
    WEFT_TRY(weft_frame_resolve(frame, WEFT_REGION_MAIN, data->region_count), "calling %s", data->name);
    session->bound = session->stale = true;
    return NULL;
}

static weft_status find_state(const weft_session *session, const char *name, int *out_index) {
    const weft_program_data *data = session->program->data;
    for (*out_index = 0; *out_index < data->state_count; ++*out_index)
        if (!strcmp(data->states[*out_index].name, name)) return NULL;
    return WEFT_STATUS(WEFT_NOT_FOUND, "%s has no state \"%s\"", data->name, name);
}

int weft_program_state_count(const weft_program *program) { return program ? program->data->state_count : 0; }

const char *weft_program_state_name(const weft_program *program, int index) {
    return index >= 0 && index < weft_program_state_count(program) ? program->data->states[index].name : NULL;
}

weft_status weft_session_read_state(weft_session *session, const char *name, weft_tensor **out_tensor) {
    WEFT_NEED(out_tensor, "out_tensor");
    *out_tensor = NULL;
    WEFT_NEED(session, "the session");
    WEFT_NEED(name, "the name");
    weft_device *device = session->program->device;
    int index;
    WEFT_TRY(find_state(session, name, &index), "reading a state");
    const weft_port *port = &session->program->data->states[index];
    WEFT_TRY(weft_tensor_create(session->program->context, port->dtype, port->rank, port->dims, out_tensor), "state %s",
             name);
    size_t bytes = weft_tensor_bytes(*out_tensor), held = (size_t)session->program->data->buffers[port->buffer].bytes;
    weft_status status = device->driver->download(device, weft_tensor_data(*out_tensor),
                                                  session->frame.addresses[port->buffer], bytes < held ? bytes : held);
    if (!status) status = device->driver->synchronise(device);
    if (status) {
        weft_tensor_release(*out_tensor);
        *out_tensor = NULL;
    }
    return status;
}

static weft_status find_fitting_state(const weft_session *session, const char *name, const weft_tensor *tensor,
                                      const weft_port **out_port) {
    WEFT_NEED(session, "the session");
    WEFT_NEED(name, "the name");
    WEFT_NEED(tensor, "the tensor");
    int index;
    WEFT_TRY(find_state(session, name, &index), "writing a state");
    const weft_port *port = *out_port = &session->program->data->states[index];
    bool fits = weft_tensor_dtype(tensor) == port->dtype && weft_tensor_rank(tensor) == port->rank &&
                weft_tensor_is_packed(tensor);
    for (int i = 0; i < port->rank && fits; i++) fits = weft_tensor_shape(tensor)[i] == port->dims[i];
    if (!fits || weft_tensor_bytes(tensor) > (size_t)session->program->data->buffers[port->buffer].bytes)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "state %s: dtype, shape or packing does not fit", name);
    return NULL;
}

weft_status weft_session_check_state(const weft_session *session, const char *name, const weft_tensor *tensor) {
    const weft_port *port;
    return find_fitting_state(session, name, tensor, &port);
}

weft_status weft_session_write_state(weft_session *session, const char *name, const weft_tensor *tensor) {
    const weft_port *port;
    WEFT_TRY(find_fitting_state(session, name, tensor, &port), "writing a state");
    weft_device *device = session->program->device;
    WEFT_TRY(device->driver->upload(device, session->frame.addresses[port->buffer], weft_tensor_data(tensor),
                                    weft_tensor_bytes(tensor)),
             "state %s", name);
    return device->driver->synchronise(device);
}

weft_status weft_session_copy_states(const weft_session *from, weft_session *to) {
    WEFT_NEED(from && to, "the session");
    const weft_program_data *data = to->program->data;
    weft_device *device = to->program->device;
    int index;
    for (int i = 0; i < data->state_count; i++) {
        WEFT_TRY(find_state(from, data->states[i].name, &index), "moving states");
        int source = from->program->data->states[index].buffer, target = data->states[i].buffer;
        int64_t bytes = data->buffers[target].bytes;
        if (from->program->device != device || from->program->data->buffers[source].bytes != bytes)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "state %s differs in size or device between %s and %s",
                               data->states[i].name, from->program->data->name, data->name);
        WEFT_TRY(
            device->driver->copy(device, to->frame.addresses[target], from->frame.addresses[source], (size_t)bytes),
            "moving states");
    }
    return device->driver->synchronise(device);
}
