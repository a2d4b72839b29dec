/* The memory of one caller of a program. Thread-compatible; read next: session.c (shapes), call.c (one call). */
#ifndef WEFT_RUNTIME_SESSION_H
#define WEFT_RUNTIME_SESSION_H

#include "runtime/frame.h"

/* An input or output of the program as this session sees it. Inputs come first. */
typedef struct weft_session_port {
    const weft_port *port;
    int64_t shape[WEFT_MAX_RANK]; /* of the last bind; late outputs: with DATA symbols at their maximum */
    int64_t bytes;                /* packed */
    bool late;                    /* output: its extents depend on DATA symbols, so the tensor is made after the run */
    bool staged;                  /* this call: the buffer is `memory`, copied from or to the tensor */
    void *memory;                 /* staging, driver memory; grown on demand */
    size_t memory_bytes;
    int64_t mail;         /* place in the session's mail (mail.c); -1: too large */
    bool mailed;          /* this call: the buffer lies there */
    weft_tensor *created; /* output: made by the call in progress */
} weft_session_port;

struct weft_session {
    weft_program *program;
    weft_frame frame;
    bool bound; /* frame is resolved for the shapes in ports */
    bool stale; /* an address of an input or output changed since weft_frame_patch */
    weft_session_port *ports;
    int64_t *offsets; /* of TEMP buffers in the workspace */
    void *workspace, *states;
    size_t workspace_bytes;
    void *mail_host, *mail_device;                /* mail.c */
    size_t mail_bytes, mail_inputs, mail_outputs; /* allocated; of inputs, of outputs behind them */
    void *packing;                                /* host: packed copy of an input on its way to a device */
    size_t packing_bytes;
    bool timed;       /* measure each call on the device, where the driver can */
    double device_ns; /* what the steps of the last timed call took, without inputs and outputs; 0 = not known */
};

/* Inputs have exactly the dtypes and shapes of the last successful bind. */
bool weft_session_matches(const weft_session *session, int input_count, weft_tensor *const *inputs);
/* Binds, plans, grows the workspace, resolves. After a failure the session is unbound. */
weft_status weft_session_bind(weft_session *session, int input_count, weft_tensor *const *inputs) WEFT_MUST_USE;
/* At least `bytes` of driver memory in *memory; contents are lost when it grows. */
weft_status weft_session_reserve(weft_session *session, void **memory, size_t *capacity_bytes,
                                 size_t bytes) WEFT_MUST_USE;

/* mail.c: places of the ports after a change of shapes; what one call does with them. */
void weft_session_plan_mail(weft_session *session);
void weft_session_drop_mail(weft_session *session);
void weft_session_write_mail(weft_session *session, const weft_session_port *p, const weft_tensor *tensor);
void weft_session_read_mail(const weft_session *session, const weft_session_port *p, weft_tensor *tensor);
void weft_session_address_mail(weft_session *session, bool within);

#endif
