/* Small inputs and outputs of a call. Each would be a copy of its own, three microseconds of the host's time and a turn
   of the card's copy engine; so they gather in one piece of pinned host memory, [inputs | outputs], that has a twin on
   the device, and a call makes one copy each way, which a recording does by itself. Only for drivers that can pin
   memory.

   Invariant: while a call runs, ports that are `mailed` have their address in the twin; the recording, if there is one,
   copies exactly frame->inbox and frame->outbox. Read next: call.c, record.c. */
#include <string.h>

#include "base/tensor.h"
#include "runtime/session.h"

enum { PORT_MAX = 1 << 14, ALL_MAX = 1 << 16, ALIGN = 256 };

void weft_session_drop_mail(weft_session *session) {
    weft_device *device = session->program->device;
    if (session->mail_host) device->driver->unpin(device, session->mail_host);
    if (session->mail_device) device->driver->free(device, session->mail_device, session->mail_bytes);
    session->mail_host = session->mail_device = NULL;
    session->mail_bytes = 0;
}

/* Both memories or none: then ports are staged one by one. */
static bool reserve(weft_session *session, size_t bytes) {
    weft_device *device = session->program->device;
    if (bytes <= session->mail_bytes) return true;
    weft_session_drop_mail(session);
    weft_status status = device->driver->pin(device, bytes, &session->mail_host);
    if (!status) status = device->driver->allocate(device, bytes, &session->mail_device);
    if (!status) session->mail_bytes = bytes;
    if (status) weft_session_drop_mail(session);
    weft_status_release(status);
    return session->mail_bytes > 0;
}

void weft_session_plan_mail(weft_session *session) {
    const weft_program_data *data = session->program->data;
    const weft_driver *driver = session->program->device->driver;
    size_t at = 0;
    session->mail_inputs = session->mail_outputs = 0;
    for (int i = 0; i < data->input_count + data->output_count; i++) {
        weft_session_port *p = &session->ports[i];
        bool fits = driver->pin && !p->late && p->bytes > 0 && p->bytes <= PORT_MAX && at + (size_t)p->bytes <= ALL_MAX;
        p->mail = fits ? (int64_t)at : -1;
        if (fits) at += ((size_t)p->bytes + ALIGN - 1) / ALIGN * ALIGN;
        if (i < data->input_count) session->mail_inputs = at;
    }
    session->mail_outputs = at - session->mail_inputs;
    if (at && reserve(session, at)) return;
    session->mail_inputs = session->mail_outputs = 0;
    for (int i = 0; i < data->input_count + data->output_count; i++) session->ports[i].mail = -1;
}

void weft_session_write_mail(weft_session *session, const weft_session_port *p, const weft_tensor *tensor) {
    void *to = (char *)session->mail_host + p->mail;
    if (tensor->packed)
        memcpy(to, tensor->data, (size_t)p->bytes);
    else
        weft_tensor_pack(tensor, to);
}

void weft_session_read_mail(const weft_session *session, const weft_session_port *p, weft_tensor *tensor) {
    memcpy(tensor->data, (const char *)session->mail_host + p->mail, tensor->bytes);
}

/* What this call copies; `within`: as part of its steps, so of its recording. A recording that copies otherwise is of
   no use. */
void weft_session_address_mail(weft_session *session, bool within) {
    const weft_program_data *data = session->program->data;
    weft_frame *frame = &session->frame;
    bool sends = false, fetches = false;
    for (int i = 0; i < data->input_count; i++) sends |= session->ports[i].mailed;
    for (int i = 0; i < data->output_count; i++) fetches |= session->ports[data->input_count + i].mailed;
    weft_mail in = {session->mail_host, session->mail_device, sends ? session->mail_inputs : 0};
    weft_mail out = {fetches ? (char *)session->mail_host + session->mail_inputs : NULL,
                     fetches ? (char *)session->mail_device + session->mail_inputs : NULL,
                     fetches ? session->mail_outputs : 0};
    bool same = in.bytes == frame->inbox.bytes && out.bytes == frame->outbox.bytes && within == frame->mails &&
                in.host == frame->inbox.host && in.device == frame->inbox.device;
    if (!same) session->stale = true;
    frame->inbox = in, frame->outbox = out, frame->mails = within;
}
