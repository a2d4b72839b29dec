/* What may run beside what: which commands of a recording each command has to follow. Two commands keep their order
   when one writes memory that the other reads or writes: values, and places of the workspace that are used again.
   Everything else is free, so that a device fills itself with small launches instead of draining between them.

   Invariant: any order that respects `after` gives the bits of the order of the steps. A launch may write whatever the
   program does not say it only reads. Read next: execute.c. */
#include "runtime/frame.h"

enum { COMMANDS_MAX = 4096 }; /* beyond: one after another */

typedef struct access {
    uintptr_t begin, end;
    bool writes;
} access;

typedef struct ordering {
    const weft_frame *frame;
    const weft_resolved_step *const *steps;
    int count;
    access *accesses;
    int *first;      /* of each command; one more at the end */
    uint64_t *reach; /* a row of bits a command: those that come before it for sure */
    size_t words;
} ordering;

static access access_of(const void *memory, int64_t bytes, bool writes) {
    uintptr_t begin = (uintptr_t)memory;
    return (access){begin, begin + (uintptr_t)(bytes > 0 ? bytes : 0), writes};
}

static void list_launch(ordering *o, const weft_resolved_step *step, access *out) {
    const weft_launch_variant *variant = step->variant;
    for (int i = 0; i < variant->buffer_count; i++)
        out[i] = access_of(step->buffers[i], o->frame->sizes[variant->buffers[i]], true);
    for (int i = 0; i < variant->read_count; i++) out[variant->reads[i]].writes = false;
}

/* Loops and branches: what they hold may touch anything. */
static bool is_control(const weft_resolved_step *step) {
    return step->step->kind == WEFT_STEP_WHILE || step->step->kind == WEFT_STEP_COND;
}

static bool conflict(const ordering *o, int a, int b) {
    if (is_control(o->steps[a]) || is_control(o->steps[b])) return true;
    for (int i = o->first[a]; i < o->first[a + 1]; i++)
        for (int j = o->first[b]; j < o->first[b + 1]; j++) {
            const access *x = &o->accesses[i], *y = &o->accesses[j];
            if ((x->writes || y->writes) && x->begin < y->end && y->begin < x->end) return true;
        }
    return false;
}

/* Backwards over the commands before it: whatever one of those follows already needs no word. */
static int follow(ordering *o, int command, int *after) {
    uint64_t *own = o->reach + (size_t)command * o->words;
    int count = 0;
    for (int before = command - 1; before >= 0; before--) {
        if (own[before / 64] >> (before % 64) & 1 || !conflict(o, before, command)) continue;
        const uint64_t *other = o->reach + (size_t)before * o->words;
        for (size_t w = 0; w < o->words; w++) own[w] |= other[w];
        own[before / 64] |= (uint64_t)1 << (before % 64);
        after[count++] = before;
    }
    for (int i = 0; i < count / 2; i++) {
        int swapped = after[i];
        after[i] = after[count - 1 - i], after[count - 1 - i] = swapped;
    }
    return count;
}

static weft_status chain(int count, weft_command *commands, weft_arena *arena) {
    int *after = weft_arena_allocate_array(arena, (size_t)count + 1, sizeof *after);
    if (!after) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "ordering %d commands", count);
    for (int i = 1; i < count; i++) after[i] = i - 1, commands[i].after = &after[i], commands[i].after_count = 1;
    return NULL;
}

weft_status weft_frame_order(const weft_frame *frame, const weft_resolved_step *const *steps, int count,
                             weft_command *commands, weft_arena *arena) {
    if (count > COMMANDS_MAX) return chain(count, commands, arena);
    ordering o = {.frame = frame, .steps = steps, .count = count, .words = ((size_t)count + 63) / 64};
    size_t total = 0, bits = (size_t)count * o.words;
    for (int i = 0; i < count; i++)
        total += steps[i]->step->kind == WEFT_STEP_LAUNCH ? (size_t)steps[i]->variant->buffer_count : 2;
    o.first = weft_arena_allocate_array(arena, (size_t)count + 1, sizeof *o.first);
    o.accesses = weft_arena_allocate_array(arena, total + 1, sizeof *o.accesses);
    o.reach = weft_arena_allocate_array(arena, bits + 1, sizeof *o.reach);
    int *after = weft_arena_allocate_array(arena, (size_t)count + 1, sizeof *after);
    if (!o.first || !o.accesses || !o.reach || !after)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "ordering %d commands", count);
    for (size_t i = 0; i < bits; i++) o.reach[i] = 0;
    int at = 0;
    for (int i = 0; i < count; i++) {
        o.first[i] = at;
        if (steps[i]->step->kind == WEFT_STEP_LAUNCH) {
            list_launch(&o, steps[i], o.accesses + at);
            at += steps[i]->variant->buffer_count;
        } else if (!is_control(steps[i])) {
            o.accesses[at++] = access_of(steps[i]->buffers[0], steps[i]->count, false);
            o.accesses[at++] = access_of(steps[i]->buffers[1], steps[i]->count, true);
        }
    }
    o.first[count] = at;
    for (int i = 0; i < count; i++) {
        int found = follow(&o, i, after), *kept = weft_arena_allocate_array(arena, (size_t)found + 1, sizeof *kept);
        if (!kept) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "ordering %d commands", count);
        for (int n = 0; n < found; n++) kept[n] = after[n];
        commands[i].after = kept, commands[i].after_count = found;
    }
    return NULL;
}
