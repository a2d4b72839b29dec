/* A frame: a program's steps with everything resolved that shapes decide: variants, grids, extents, addresses. Built
   once per session (and once for the load region), resolved again when a shape changes; a call with unchanged shapes
   only walks it.

   Invariants: `addresses` holds the memory of every buffer that is no view (inputs and outputs: of this call). Steps
   that depend on DATA symbols (`dynamic`) are resolved each time they run. Argument slots of static steps that lie in
   inputs or outputs are listed in `patches` and rewritten when an address changes. Every use was checked against the
   size of the buffer it lies in. Thread-compatible. Read next: resolve.c, execute.c. */
#ifndef WEFT_RUNTIME_FRAME_H
#define WEFT_RUNTIME_FRAME_H

#include "runtime/program.h"

typedef struct weft_resolved_step {
    const weft_step *step;
    bool dynamic, idle;                 /* idle: a grid of 0 blocks, a copy of 0 bytes */
    const weft_launch_variant *variant; /* LAUNCH: the chosen one */
    weft_launch launch;                 /* LAUNCH; its pointers lead to the arrays below */
    void **buffers;                     /* LAUNCH: arguments; COPY: from, to; others: the buffer read */
    int64_t *extents;
    weft_launch_map *maps;
    int64_t count; /* COPY: bytes; LOOP: trips */
} weft_resolved_step;

typedef struct weft_resolved_region {
    int count;
    weft_resolved_step *steps;
} weft_resolved_region;

typedef struct weft_patch {
    void **slot;
    int buffer; /* INPUT or OUTPUT */
    int64_t offset;
} weft_patch;

/* A copy between pinned host memory and the device, 0 bytes = none: mail.c. */
typedef struct weft_mail {
    void *host, *device;
    size_t bytes;
} weft_mail;

typedef struct weft_frame {
    weft_arena arena;
    const weft_program_data *data;
    weft_device *device;
    weft_module *module;
    int64_t *symbols;
    int64_t *sizes;   /* per buffer: bytes at the last resolve; DATA symbols at their maximum */
    void **addresses; /* per buffer */
    weft_resolved_region *regions;
    weft_patch *patches;
    int patch_count;
    weft_recording *recording; /* of the main region, for the present addresses */
    int steady;                /* runs of the main region since an address or a shape changed; -1: cannot be recorded */
    bool was_recorded;         /* before that */
    weft_mail inbox, outbox;   /* copied to the device before the steps of the main region, from it behind them */
    bool mails;                /* by weft_frame_run_main; else by who calls it */
    bool waits;                /* for every step, none is recorded: what faults is known */
    /* For profiles: called after each step of the main region, once the device has finished it. NULL = off. */
    void (*observe)(void *self, int step);
    void *observe_self;
} weft_frame;

weft_status weft_frame_init(weft_context *context, const weft_program_data *data, weft_device *device,
                            weft_module *module, weft_frame *out_frame) WEFT_MUST_USE;
void weft_frame_deinit(weft_frame *frame);
/* Evaluates the sizes of all buffers for frame->symbols. */
weft_status weft_frame_measure(weft_frame *frame) WEFT_MUST_USE;
/* Resolves the static steps of the regions [first, end) and lists their patches. */
weft_status weft_frame_resolve(weft_frame *frame, int first_region, int end_region) WEFT_MUST_USE;
/* One step for the present symbols; list_patches: its slots in inputs and outputs become patches. */
weft_status weft_frame_resolve_step(weft_frame *frame, weft_resolved_step *resolved, bool list_patches) WEFT_MUST_USE;
/* Writes the addresses of inputs and outputs into the static steps. */
void weft_frame_patch(weft_frame *frame);
weft_status weft_frame_run(weft_frame *frame, int region) WEFT_MUST_USE;
/* record.c. Runs the main region. Where the driver can record and nothing has changed for some runs, from a recording.
 */
weft_status weft_frame_run_main(weft_frame *frame) WEFT_MUST_USE;
/* The copies of the mail, now. */
weft_status weft_frame_send(weft_frame *frame) WEFT_MUST_USE;
weft_status weft_frame_fetch(weft_frame *frame) WEFT_MUST_USE;
/* order.c: fills `after` of the commands, whose steps are commands' places in `steps`: those that a command must follow
   because one writes what the other reads or writes, shortened to those that no other implies; loops and branches
   stand alone. What it allocates lives in the arena. */
weft_status weft_frame_order(const weft_frame *frame, const weft_resolved_step *const *steps, int count,
                             weft_command *commands, weft_arena *arena) WEFT_MUST_USE;
/* Drops the recording: something it holds changes. */
void weft_frame_forget(weft_frame *frame);

/* Values of DATA symbols before a step sets them. */
void weft_program_reset_data_symbols(const weft_program_data *data, int64_t *symbols);

#endif
