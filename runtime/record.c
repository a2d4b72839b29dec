/* Recordings of the main region: the steps as commands that a device keeps and starts at once, loops and branches with
   what they hold included where it can decide them itself, loops of known trips written out. Invariant: a recording
   holds the addresses and extents of its commands; weft_frame_forget drops it before one changes. Read next: order.c,
   drivers/cuda/graph.c. */
#include "runtime/frame.h"

enum { STEADY_RUNS = 2 };     /* recording costs some runs: only what stays the same is worth it */
enum { UNROLLED_MAX = 1024 }; /* commands of a region whose loops of known trips are written out */

void weft_frame_forget(weft_frame *frame) {
    if (frame->recording) frame->device->driver->forget(frame->device, frame->recording);
    frame->recording = NULL;
    frame->steady = 0;
}

static int count_commands(const weft_frame *frame, int region);

/* Only steps that shapes alone decide, or the trip of a loop whose trips are known, and predicates that the device
   reads itself. looped: inside such a loop. Extents read from the device are nowhere in it, so what is dynamic depends
   on trips. */
static bool is_recordable(const weft_frame *frame, int region, bool looped, bool *out_control) {
    const weft_driver *driver = frame->device->driver;
    const weft_resolved_region *steps = &frame->regions[region];
    for (int i = 0; i < steps->count; i++) {
        const weft_resolved_step *resolved = &steps->steps[i];
        const weft_step *step = resolved->step;
        bool plain = step->kind == WEFT_STEP_LAUNCH || step->kind == WEFT_STEP_COPY;
        if (resolved->dynamic && !(looped && plain)) return false;
        if (plain) continue;
        if (step->kind == WEFT_STEP_LOOP) {
            if (!is_recordable(frame, step->regions[0], true, out_control)) return false;
            continue;
        }
        if (step->kind != WEFT_STEP_WHILE && step->kind != WEFT_STEP_COND) return false;
        if (!driver->records_control || !driver->records_control(frame->device)) return false;
        for (int r = 0; r < 2; r++)
            if (!is_recordable(frame, step->regions[r], looped, out_control)) return false;
        *out_control = true;
    }
    return true;
}

/* What becomes a list: the steps of some regions, one after the other. */
typedef struct listing {
    weft_frame *frame;
    weft_arena *arena;
    int count, capacity;
    weft_command *commands;
    const weft_resolved_step **steps; /* of each command */
} listing;

/* At most INT_MAX / 2. */
static int count_commands(const weft_frame *frame, int region) {
    const weft_resolved_region *steps = &frame->regions[region];
    int64_t count = steps->count;
    for (int i = 0; i < steps->count && count < INT32_MAX / 2; i++) {
        const weft_resolved_step *resolved = &steps->steps[i];
        const weft_step *step = resolved->step;
        int64_t own = 0;
        /* the predicate stands before the loop, too */
        if (step->kind == WEFT_STEP_WHILE || step->kind == WEFT_STEP_LOOP)
            own = count_commands(frame, step->regions[0]);
        if (step->kind == WEFT_STEP_LOOP && __builtin_mul_overflow(own, resolved->count, &own)) own = INT32_MAX;
        count = own > INT32_MAX / 2 - count ? INT32_MAX / 2 : count + own;
    }
    return (int)count;
}

static weft_status list_regions(weft_frame *frame, weft_arena *arena, int count, const int *regions,
                                weft_command_list *out_list) WEFT_MUST_USE;
static weft_status add_region(listing *l, int region) WEFT_MUST_USE;

/* The step as it is at this trip, for itself. */
static weft_status keep_step(listing *l, weft_resolved_step *resolved, const weft_resolved_step **out_step) {
    WEFT_TRY(weft_frame_resolve_step(l->frame, resolved, false), "recording a trip");
    bool launch = resolved->step->kind == WEFT_STEP_LAUNCH;
    size_t buffers = launch ? (size_t)resolved->launch.buffer_count : 2, extents = 0, maps = 0;
    if (launch) extents = (size_t)resolved->launch.extent_count, maps = (size_t)resolved->launch.map_count;
    weft_resolved_step *copy = weft_arena_allocate(l->arena, sizeof *copy);
    void **own = weft_arena_allocate_array(l->arena, buffers + 1, sizeof *own);
    int64_t *numbers = weft_arena_allocate_array(l->arena, extents + 1, sizeof *numbers);
    weft_launch_map *places = weft_arena_allocate_array(l->arena, maps + 1, sizeof *places);
    if (!copy || !own || !numbers || !places) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to record a trip");
    *copy = *resolved;
    for (size_t i = 0; i < buffers && !resolved->idle; i++) own[i] = resolved->buffers[i];
    for (size_t i = 0; i < extents && !resolved->idle; i++) numbers[i] = resolved->extents[i];
    for (size_t i = 0; i < maps && !resolved->idle; i++) places[i] = resolved->maps[i];
    copy->buffers = own, copy->extents = numbers, copy->maps = places;
    copy->launch.buffers = own, copy->launch.extents = numbers, copy->launch.maps = places;
    *out_step = copy;
    return NULL;
}

/* A loop of known trips, written out. */
static weft_status add_trips(listing *l, const weft_resolved_step *loop) {
    int64_t *trip = &l->frame->symbols[loop->step->symbol], before = *trip;
    weft_status status = NULL;
    for (int64_t i = 0; i < loop->count && !status; i++) {
        *trip = i;
        status = add_region(l, loop->step->regions[0]);
    }
    *trip = before;
    return status;
}

static weft_status add_region(listing *l, int region) {
    const weft_resolved_region *steps = &l->frame->regions[region];
    for (int i = 0; i < steps->count; i++) {
        const weft_resolved_step *resolved = &steps->steps[i];
        const int *regions = resolved->step->regions, around[2] = {regions[1], regions[0]};
        weft_command command = {0};
        if (resolved->step->kind == WEFT_STEP_LOOP) {
            WEFT_TRY(add_trips(l, resolved), "recording a loop");
            continue;
        }
        if (resolved->dynamic) WEFT_TRY(keep_step(l, &steps->steps[i], &resolved), "recording a loop");
        if (resolved->idle) continue;
        switch (resolved->step->kind) {
        case WEFT_STEP_LAUNCH: command.launch = &resolved->launch; break;
        case WEFT_STEP_COPY:
            command.from = resolved->buffers[0], command.to = resolved->buffers[1];
            command.bytes = (size_t)resolved->count;
            break;
        case WEFT_STEP_WHILE:
            WEFT_TRY(add_region(l, regions[0]), "recording a loop's predicate");
            WEFT_TRY(list_regions(l->frame, l->arena, 2, around, &command.body), "recording a loop");
            command.predicate = resolved->buffers[0], command.loop = true;
            break;
        case WEFT_STEP_COND:
            WEFT_TRY(list_regions(l->frame, l->arena, 1, &regions[0], &command.body), "recording a branch");
            WEFT_TRY(list_regions(l->frame, l->arena, 1, &regions[1], &command.other), "recording a branch");
            command.predicate = resolved->buffers[0];
            break;
        case WEFT_STEP_READ_DIM:
        case WEFT_STEP_LOOP: return WEFT_STATUS(WEFT_INTERNAL, "step %d cannot be recorded", i);
        }
        l->steps[l->count] = resolved;
        l->commands[l->count++] = command;
    }
    return NULL;
}

/* The mail, as a copy among the steps. */
static weft_status add_mail(listing *l, const weft_mail *mail, bool sends) {
    static const weft_step copy = {.kind = WEFT_STEP_COPY};
    if (!mail->bytes) return NULL;
    weft_resolved_step *step = weft_arena_allocate(l->arena, sizeof *step);
    void **sides = weft_arena_allocate_array(l->arena, 2, sizeof *sides);
    if (!step || !sides) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to record a copy");
    sides[0] = sends ? mail->host : mail->device, sides[1] = sends ? mail->device : mail->host;
    *step = (weft_resolved_step){.step = &copy, .buffers = sides, .count = (int64_t)mail->bytes};
    l->steps[l->count] = step;
    l->commands[l->count++] =
        (weft_command){.from = sides[0], .to = sides[1], .bytes = mail->bytes, .from_host = sends, .to_host = !sends};
    return NULL;
}

static weft_status list_regions(weft_frame *frame, weft_arena *arena, int count, const int *regions,
                                weft_command_list *out_list) {
    listing l = {.frame = frame, .arena = arena, .capacity = 2};
    bool whole = frame->mails && count == 1 && regions[0] == WEFT_REGION_MAIN;
    for (int i = 0; i < count; i++) l.capacity += count_commands(frame, regions[i]);
    l.commands = weft_arena_allocate_array(arena, (size_t)l.capacity + 1, sizeof *l.commands);
    l.steps = weft_arena_allocate_array(arena, (size_t)l.capacity + 1, sizeof *l.steps);
    if (!l.commands || !l.steps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to record %d commands", l.capacity);
    if (whole) WEFT_TRY(add_mail(&l, &frame->inbox, true), "recording");
    for (int i = 0; i < count; i++) WEFT_TRY(add_region(&l, regions[i]), "recording");
    if (whole) WEFT_TRY(add_mail(&l, &frame->outbox, false), "recording");
    *out_list = (weft_command_list){l.count, l.commands};
    return weft_frame_order(frame, l.steps, l.count, l.commands, arena);
}

static weft_status record(weft_frame *frame) {
    static const int region = WEFT_REGION_MAIN;
    weft_command_list list;
    weft_arena arena;
    weft_arena_init(frame->device->context->allocator, &arena);
    weft_status status = list_regions(frame, &arena, 1, &region, &list);
    if (!status) status = frame->device->driver->record(frame->device, frame->module, list, &frame->recording);
    weft_arena_deinit(&arena);
    return status;
}

static bool loops(const weft_frame *frame) {
    const weft_program_data *data = frame->data;
    for (int r = 0; r < data->region_count; r++)
        for (int i = 0; i < data->regions[r].count; i++)
            if (data->regions[r].steps[i].kind == WEFT_STEP_LOOP) return true;
    return false;
}

/* Loops that the device decides are worth a recording at once, if the last one was not in vain. */
static void try_to_record(weft_frame *frame) {
    bool control = false, recordable = frame->steady >= 0 && is_recordable(frame, WEFT_REGION_MAIN, false, &control);
    bool mails = frame->mails && (frame->inbox.bytes || frame->outbox.bytes);
    int commands = recordable ? count_commands(frame, WEFT_REGION_MAIN) : 0;
    if (!recordable || (loops(frame) && commands > UNROLLED_MAX) || (!control && !mails && commands < 2)) {
        frame->steady = -1;
        return;
    }
    if (frame->steady++ < STEADY_RUNS && (!control || frame->was_recorded)) return;
    weft_status status = record(frame);
    frame->was_recorded = true;
    if (status)
        weft_context_log(frame->device->context, WEFT_LOG_WARNING, "%s is launched step by step: %s", frame->data->name,
                         weft_status_message(status));
    weft_status_release(status);
    if (!frame->recording) frame->steady = -1;
}

weft_status weft_frame_send(weft_frame *frame) {
    if (!frame->inbox.bytes) return NULL;
    return frame->device->driver->upload(frame->device, frame->inbox.device, frame->inbox.host, frame->inbox.bytes);
}

weft_status weft_frame_fetch(weft_frame *frame) {
    if (!frame->outbox.bytes) return NULL;
    return frame->device->driver->download(frame->device, frame->outbox.host, frame->outbox.device,
                                           frame->outbox.bytes);
}

weft_status weft_frame_run_main(weft_frame *frame) {
    const weft_driver *driver = frame->device->driver;
    bool apart = frame->observe || frame->waits;
    if (!apart && driver->record && !frame->recording && frame->steady >= 0) try_to_record(frame);
    if (apart || !frame->recording) {
        if (frame->mails) WEFT_TRY(weft_frame_send(frame), "running %s", frame->data->name);
        WEFT_TRY(weft_frame_run(frame, WEFT_REGION_MAIN), "running %s", frame->data->name);
        return frame->mails ? weft_frame_fetch(frame) : NULL;
    }
    WEFT_TRY(driver->replay(frame->device, frame->recording), "running %s", frame->data->name);
    return NULL;
}
