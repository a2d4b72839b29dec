/* Launches side by side: what is ready together and fills only a part of the device each becomes one launch
   (codegen/kernel/join.h), whatever builders made it: projections that read one value, a gradient beside the next
   layer's, updates of states, pieces of sums. A launch costs about 2 us on a card, between branches of a recording too;
   on a CPU it wakes threads.

   Steps are ordered by whom they have to follow; a level is those with equally long chains of others before them, so
   that no two of a level depend on each other and joining them makes no cycle. What is lost is that all who wait for a
   joined launch wait for its longest piece, so pieces have about the same length. Runs of launches and copies are
   looked at one by one: control flow and sizes read from data stay where they are.

   Invariant: the order of two steps of which one writes what the other touches stays. Lifetimes of temporaries are
   those of the new steps. Read next: lower_fusion.c, runtime/order.c; passes/fuse/side.c, where updates of states
   become one kernel before that. */
#include "compile/lower.h"

#include "codegen/kernel/join.h"
#include "codegen/kernel/verify.h"

#include <string.h>

enum {
    PIECES_MAX = 12,
    SIDE_BY_SIDE = 3,   /* launches that a recording runs beside each other at the price of one */
    BUFFERS_MAX = 88,   /* of a kernel: its arguments take 4 KB on older drivers */
    INSTRS_MAX = 12000, /* of a kernel: what compilers take in a second or two */
    SHARED_OBJECTS_MAX = 64,
    THREADS_OF_A_PROCESSOR = 1024, /* half of what a processor holds: blocks of other sizes find a place */
    NEAR = 16,                     /* steps between pieces: a value that moves further is kept for longer */
    STEPS_MAX = 4096               /* of a run; what is beyond stays apart */
};

/* In instructions of a thread, one after another: about 2 us on a card, what it takes to wake a CPU's threads. */
enum { LAUNCH_LENGTH = 1500, CPU_WORK_MAX = 200000 };

typedef struct touched {
    int buffer;
    bool writes;
} touched;

typedef struct item {
    const weft_step *step;
    weft_step_nodes nodes; /* of the main region */
    int level, bin;        /* bin: -1 = alone */
    int first, count;      /* of its accesses */
    int64_t length, blocks;
    bool joins, done;
} item;

typedef struct bin {
    int members[PIECES_MAX], count, threads, buffers, shared_count;
    int64_t longest, fill, instrs;
    int buffer[BUFFERS_MAX];
    struct {
        uint8_t elem;
        int64_t extent;
    } shared[SHARED_OBJECTS_MAX];
    bool idles; /* all its pieces may have threads too many */
} bin;

typedef struct joining {
    weft_lowering *l;
    weft_arena *arena; /* of one run */
    item *items;
    int count;
    touched *touches;
    size_t touch_count, touch_capacity;
    bin *bins;
    int bin_count;
    weft_step_buffer *out;      /* of the region */
    weft_step_nodes *out_nodes; /* as many; of the main region */
    int *moved;                 /* old number of a step of the region: the new one */
    int base;                   /* of the run's first step */
} joining;

static int root_of(const weft_lowering *l, int buffer) {
    while (l->buffer_list[buffer].kind == WEFT_BUFFER_ALIAS) buffer = l->buffer_list[buffer].index;
    return buffer;
}

static const weft_kernel *kernel_of(const weft_lowering *l, const weft_step *step) {
    return l->kernels[step->variants[0].kernel];
}

static bool is_plain(const weft_step *step) { return step->kind == WEFT_STEP_LAUNCH || step->kind == WEFT_STEP_COPY; }

/* -- whom a step follows */

static weft_status note_touch(joining *j, int buffer, bool writes) {
    if (!WEFT_ARRAY_RESERVE(j->l->allocator, j->touches, j->touch_capacity, j->touch_count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    j->touches[j->touch_count++] = (touched){root_of(j->l, buffer), writes};
    return NULL;
}

/* What the instructions of its kernels do; arguments that they ignore do not bind it. */
static weft_status note_launch(joining *j, const weft_step *step) {
    for (int v = 0; v < step->variant_count; v++) {
        const weft_launch_variant *variant = &step->variants[v];
        const weft_kernel *kernel = j->l->kernels[variant->kernel];
        int at = 0;
        for (size_t n = 0; n < kernel->argument_count; n++) {
            const weft_kargument *argument = &kernel->arguments[n];
            if (argument->source == WEFT_ARGUMENT_EXTENT || argument->source == WEFT_ARGUMENT_TENSOR_MAP) continue;
            int buffer = variant->buffers[at++];
            bool whole = variant->map_count > 0; /* maps name buffers by themselves */
            if (whole || argument->reads || argument->stores)
                WEFT_TRY(note_touch(j, buffer, whole || argument->stores), "joining launches");
        }
        for (int m = 0; m < variant->map_count; m++)
            WEFT_TRY(note_touch(j, variant->maps[m].buffer, true), "joining launches");
    }
    return NULL;
}

typedef struct history {
    int writer; /* level of the last write + 1; 0 = none */
    int reader; /* highest level of reads since then + 1 */
} history;

static weft_status find_levels(joining *j) {
    history *seen = weft_arena_allocate_array(j->arena, (size_t)j->l->buffer_count + 1, sizeof *seen);
    if (!seen) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    for (int i = 0; i < j->count; i++) {
        item *it = &j->items[i];
        it->first = (int)j->touch_count;
        if (it->step->kind == WEFT_STEP_LAUNCH) {
            WEFT_TRY(note_launch(j, it->step), "joining launches");
        } else {
            WEFT_TRY(note_touch(j, it->step->buffers[0], false), "joining launches");
            WEFT_TRY(note_touch(j, it->step->buffers[1], true), "joining launches");
        }
        it->count = (int)j->touch_count - it->first;
        it->level = 0;
        for (int t = 0; t < it->count; t++) {
            const touched *touch = &j->touches[it->first + t];
            const history *h = &seen[touch->buffer];
            if (h->writer > it->level) it->level = h->writer;
            if (touch->writes && h->reader > it->level) it->level = h->reader;
        }
        for (int t = 0; t < it->count; t++) {
            const touched *touch = &j->touches[it->first + t];
            history *h = &seen[touch->buffer];
            if (touch->writes)
                h->writer = it->level + 1, h->reader = 0;
            else if (h->reader <= it->level)
                h->reader = it->level + 1;
        }
    }
    return NULL;
}

static bool conflict(const joining *j, const item *a, const item *b) {
    for (int x = 0; x < a->count; x++)
        for (int y = 0; y < b->count; y++) {
            const touched *s = &j->touches[a->first + x], *t = &j->touches[b->first + y];
            if (s->buffer == t->buffer && (s->writes || t->writes)) return true;
        }
    return false;
}

/* -- what may share a launch */

static bool is_cpu(const joining *j) { return j->l->capability->threads_max == 1; }

/* Pieces from which on a launch is shared. */
static int pieces_min(const joining *j) {
    const char *target = j->l->capability->target;
    return !strcmp(target, "cuda") || !strcmp(target, "amdgcn") ? SIDE_BY_SIDE + 1 : 2;
}

static bool may_join(const joining *j, item *it) {
    const weft_step *step = it->step;
    if (step->kind != WEFT_STEP_LAUNCH || step->variant_count != 1 || step->variants[0].map_count) return false;
    const weft_kernel *kernel = kernel_of(j->l, step);
    const weft_capability *capability = j->l->capability;
    int64_t fewest;
    weft_dim_bounds(kernel->dims, kernel->grid, &fewest, &it->blocks);
    it->length = weft_kernel_length(kernel);
    if (it->blocks < 1 || !weft_kernel_may_join(kernel)) return false;
    if (is_cpu(j)) /* a launch of one block without scratch wakes nobody */
        return j->l->thread_count > 1 && (fewest > 1 || j->l->kernel_records[step->variants[0].kernel].scratch_bytes) &&
               it->blocks < CPU_WORK_MAX && it->length * it->blocks <= CPU_WORK_MAX;
    int64_t room =
        (int64_t)(capability->multiprocessors > 0 ? capability->multiprocessors : 16) * THREADS_OF_A_PROCESSOR;
    return it->blocks <= room / kernel->threads;
}

static bool add_buffer(bin *b, int buffer, int most) {
    for (int i = 0; i < b->buffers; i++)
        if (b->buffer[i] == buffer) return true;
    if (b->buffers == most) return false;
    b->buffer[b->buffers++] = buffer;
    return true;
}

/* Shared memory as weft_kernel_join lays it out: objects of one element type are used in turn. */
static bool add_shared(bin *b, const weft_kernel *kernel, int64_t most) {
    bool taken[SHARED_OBJECTS_MAX] = {false};
    for (size_t n = 0; n < kernel->instr_count; n++) {
        const weft_kinstr *instr = &kernel->instrs[n];
        if (instr->op != WEFT_K_shared) continue;
        int i = 0;
        while (i < b->shared_count && (taken[i] || b->shared[i].elem != instr->type.elem)) i++;
        if (i == SHARED_OBJECTS_MAX) return false;
        if (i == b->shared_count)
            b->shared[b->shared_count].elem = instr->type.elem, b->shared[b->shared_count++].extent = 0;
        taken[i] = true;
        if (b->shared[i].extent < instr->extent) b->shared[i].extent = instr->extent;
    }
    int64_t bytes = 0;
    for (int i = 0; i < b->shared_count; i++)
        bytes += (b->shared[i].extent * weft_dtype_bits((weft_dtype)b->shared[i].elem) / 8 + 127) / 128 * 128;
    return !most || bytes <= most;
}

/* The bin with the item in it; false: it does not fit, the bin is spoilt. */
static bool add_item(const joining *j, bin *b, int index) {
    const item *it = &j->items[index];
    const weft_kernel *kernel = kernel_of(j->l, it->step);
    const weft_capability *capability = j->l->capability;
    int most =
        capability->bindings_max && capability->bindings_max < BUFFERS_MAX ? capability->bindings_max : BUFFERS_MAX;
    int threads = b->threads > kernel->threads ? b->threads : kernel->threads;
    bool idles = is_cpu(j) || weft_kernel_may_idle(kernel);
    if (b->count == PIECES_MAX || b->instrs + (int64_t)kernel->instr_count > INSTRS_MAX) return false;
    if (b->longest - it->length > LAUNCH_LENGTH && !is_cpu(j)) return false;
    if ((b->threads < threads && b->count && !b->idles) || (kernel->threads < threads && !idles)) return false;
    for (int t = 0; t < it->count; t++)
        if (!add_buffer(b, j->touches[it->first + t].buffer, most)) return false;
    if (!add_shared(b, kernel, capability->shared_bytes)) return false;
    b->fill = (b->threads ? b->fill / b->threads : 0) * threads + it->blocks * threads;
    int64_t room =
        (int64_t)(capability->multiprocessors > 0 ? capability->multiprocessors : 16) * THREADS_OF_A_PROCESSOR;
    if (!is_cpu(j) && b->fill > room) return false;
    b->idles = (b->idles || !b->count) && idles;
    b->threads = threads;
    b->instrs += (int64_t)kernel->instr_count;
    if (b->longest < it->length) b->longest = it->length;
    b->members[b->count++] = index;
    return true;
}

/* Is some piece close to the item in the order of steps? What is computed again for the backward pass, to be kept for a
   short time only, must not move beside the forward pass. */
static bool is_near(const bin *b, int index) {
    for (int m = 0; m < b->count; m++)
        if (b->members[m] - index <= NEAR && index - b->members[m] <= NEAR) return true;
    return false;
}

/* Items of one level, the longest first, each into the first bin that has room. */
static void fill_bins(joining *j, const int *order, int count) {
    int first = j->bin_count;
    bin trial;
    for (int n = 0; n < count; n++) {
        int at = first;
        for (; at < j->bin_count; at++) {
            trial = j->bins[at];
            if (is_near(&trial, order[n]) && add_item(j, &trial, order[n])) break;
        }
        if (at == j->bin_count) {
            trial = (bin){0};
            if (!add_item(j, &trial, order[n])) continue;
            j->bin_count++;
        }
        j->bins[at] = trial;
    }
    for (int at = first; at < j->bin_count; at++)
        for (int m = 0; m < j->bins[at].count && j->bins[at].count >= pieces_min(j); m++)
            j->items[j->bins[at].members[m]].bin = at;
}

static weft_status choose(joining *j) {
    int *order = weft_arena_allocate_array(j->arena, (size_t)j->count + 1, sizeof *order), highest = 0;
    j->bins = weft_arena_allocate_array(j->arena, (size_t)j->count + 1, sizeof *j->bins);
    if (!order || !j->bins) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    for (int i = 0; i < j->count; i++) {
        j->items[i].joins = may_join(j, &j->items[i]);
        if (j->items[i].level > highest) highest = j->items[i].level;
    }
    for (int level = 0; level <= highest; level++) {
        int count = 0;
        for (int i = 0; i < j->count; i++) {
            if (j->items[i].level != level || !j->items[i].joins) continue;
            int at = count++;
            for (; at > 0 && j->items[order[at - 1]].length < j->items[i].length; at--) order[at] = order[at - 1];
            order[at] = i;
        }
        if (count > 1) fill_bins(j, order, count);
    }
    return NULL;
}

/* -- the joined step */

typedef struct slot_table {
    int count;
    struct {
        int buffer;
        weft_dtype dtype;
        bool stores;
    } slot[BUFFERS_MAX * 2];
} slot_table;

/* The slot of a buffer as elements of one type: a bool and its bytes are two. */
static int slot_of(slot_table *table, int buffer, const weft_kargument *argument) {
    int i = 0;
    while (i < table->count && (table->slot[i].buffer != buffer || table->slot[i].dtype != argument->dtype)) i++;
    if (i == BUFFERS_MAX * 2) return -1;
    if (i == table->count) {
        table->slot[i].buffer = buffer, table->slot[i].dtype = argument->dtype, table->slot[i].stores = false;
        table->count++;
    }
    table->slot[i].stores |= argument->stores;
    return i;
}

static weft_status make_pieces(joining *j, const bin *b, weft_join_piece *pieces, slot_table *table) {
    for (int m = 0; m < b->count; m++) {
        const weft_step *step = j->items[b->members[m]].step;
        const weft_kernel *kernel = kernel_of(j->l, step);
        int *slots = weft_arena_allocate_array(j->arena, kernel->argument_count + 1, sizeof *slots), at = 0;
        if (!slots) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
        for (size_t n = 0; n < kernel->argument_count; n++) {
            const weft_kargument *argument = &kernel->arguments[n];
            slots[n] = -1;
            if (argument->source == WEFT_ARGUMENT_EXTENT) continue;
            int buffer = step->variants[0].buffers[at++];
            if (!argument->reads && !argument->stores) continue; /* an argument of other launches of its plan */
            slots[n] = slot_of(table, buffer, argument);
            if (slots[n] < 0) return WEFT_STATUS(WEFT_INTERNAL, "joining launches: too many buffers");
        }
        pieces[m] = (weft_join_piece){kernel, slots};
    }
    return NULL;
}

/* Equal pieces with buffers shared alike have one kernel. */
static weft_status find_kernel(joining *j, const bin *b, const weft_join_piece *pieces, const slot_table *table,
                               int *out_number) {
    weft_lowering *l = j->l;
    weft_text key;
    weft_text_init(l->allocator, &key);
    for (int m = 0; m < b->count; m++) {
        weft_text_append(&key, "join %d:", j->items[b->members[m]].step->variants[0].kernel);
        for (size_t n = 0; n < pieces[m].kernel->argument_count; n++) weft_text_append(&key, "%d,", pieces[m].slots[n]);
    }
    weft_status status = weft_text_status(&key);
    *out_number = status ? -1 : (int)(uintptr_t)weft_map_find(&l->plans, key.data, key.length) - 1;
    if (!status && *out_number < 0) {
        const char *name = weft_arena_format(l->kernel_arena, "j%d_%s", l->join_count++, pieces[0].kernel->name);
        weft_kernel *kernel = name ? weft_kernel_join(l->kernel_arena, name, b->count, pieces, table->count) : NULL;
        status = kernel ? weft_kernel_verify(kernel) : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
        if (!status) status = weft_lower_add_kernel(l, kernel, out_number);
        if (!status && !weft_map_put(&l->plans, key.data, key.length, (void *)((uintptr_t)*out_number + 1)))
            status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    }
    weft_text_deinit(&key);
    return status;
}

static weft_status join(joining *j, const bin *b, weft_step *out_step) {
    weft_lowering *l = j->l;
    weft_join_piece pieces[PIECES_MAX];
    slot_table *table = weft_arena_allocate(j->arena, sizeof *table);
    weft_launch_variant *variant = weft_arena_allocate(l->arena, sizeof *variant);
    if (!table || !variant) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    WEFT_TRY(make_pieces(j, b, pieces, table), "joining launches");
    WEFT_TRY(find_kernel(j, b, pieces, table, &variant->kernel), "joining launches");
    const weft_kernel *kernel = l->kernels[variant->kernel];
    size_t slots = (size_t)table->count + 1;
    int *buffers = weft_arena_allocate_array(l->arena, slots, sizeof *buffers);
    int *reads = weft_arena_allocate_array(l->arena, slots, sizeof *reads);
    weft_dim *extents = weft_arena_allocate_array(l->arena, kernel->argument_count + 1, sizeof *extents);
    if (!buffers || !reads || !extents) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    for (int s = 0; s < table->count; s++) {
        buffers[s] = table->slot[s].buffer;
        if (!table->slot[s].stores) reads[variant->read_count++] = s;
    }
    for (size_t n = 0; n < kernel->argument_count; n++)
        if (kernel->arguments[n].source == WEFT_ARGUMENT_EXTENT)
            WEFT_TRY(weft_lower_extent(l, kernel->arguments[n].extent, &extents[variant->extent_count++]), "kernel %s",
                     kernel->name);
    WEFT_TRY(weft_lower_extent(l, kernel->grid, &variant->grid), "grid of %s", kernel->name);
    variant->buffers = buffers, variant->reads = reads, variant->extents = extents;
    variant->buffer_count = table->count;
    const item *first = &j->items[b->members[0]];
    const char *location = weft_arena_format(l->arena, "%s and %d more", first->step->location, b->count - 1);
    *out_step = (weft_step){.kind = WEFT_STEP_LAUNCH,
                            .variant_count = 1,
                            .variants = variant,
                            .location = location ? location : first->step->location};
    return NULL;
}

/* -- the new order */

static void put(joining *j, const weft_step *step, const weft_step_nodes *nodes) {
    if (j->out_nodes) j->out_nodes[j->out->count] = *nodes;
    j->out->steps[j->out->count++] = *step;
}

static weft_status emit(joining *j, int index);

/* What the item has to follow, first. All of it is of lower levels. */
static weft_status emit_before(joining *j, int index) {
    const item *it = &j->items[index];
    for (int i = 0; i < index; i++)
        if (!j->items[i].done && j->items[i].level < it->level && conflict(j, &j->items[i], it))
            WEFT_TRY(emit(j, i), "joining launches");
    return NULL;
}

static weft_status emit_bin(joining *j, const bin *b) {
    weft_step step;
    weft_step_nodes all = {0};
    int nodes = 0;
    for (int m = 0; m < b->count; m++)
        j->items[b->members[m]].done = true, nodes += j->items[b->members[m]].nodes.count;
    for (int m = 0; m < b->count; m++) WEFT_TRY(emit_before(j, b->members[m]), "joining launches");
    const weft_node **list = weft_arena_allocate_array(j->l->kernel_arena, (size_t)nodes + 1, sizeof *list);
    if (!list) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    for (int m = 0; m < b->count; m++) {
        const item *it = &j->items[b->members[m]];
        for (int n = 0; n < it->nodes.count; n++) list[all.count++] = it->nodes.nodes[n];
        j->moved[j->base + b->members[m]] = j->out->count;
    }
    all.nodes = list;
    WEFT_TRY(join(j, b, &step), "joining launches");
    put(j, &step, &all);
    return NULL;
}

static weft_status emit(joining *j, int index) {
    item *it = &j->items[index];
    if (it->bin >= 0) return emit_bin(j, &j->bins[it->bin]);
    it->done = true;
    WEFT_TRY(emit_before(j, index), "joining launches");
    j->moved[j->base + index] = j->out->count;
    put(j, it->step, &it->nodes);
    return NULL;
}

/* A joined launch has its place where the last of its pieces had it, or before the first step that needs it. */
static bool is_last(const joining *j, int index) {
    int own = j->items[index].bin;
    for (int m = 0; own >= 0 && m < j->bins[own].count; m++)
        if (j->bins[own].members[m] > index) return false;
    return true;
}

/* Steps [base, base + count) of the region, launches and copies. */
static weft_status join_run(joining *j, const weft_step_buffer *from, const weft_step_nodes *nodes, int count) {
    j->items = weft_arena_allocate_array(j->arena, (size_t)count + 1, sizeof *j->items);
    if (!j->items) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    j->count = count, j->touch_count = 0, j->bin_count = 0;
    for (int i = 0; i < count; i++)
        j->items[i] = (item){
            .step = &from->steps[j->base + i], .nodes = nodes ? nodes[j->base + i] : (weft_step_nodes){0}, .bin = -1};
    if (count > 1 && count <= STEPS_MAX) {
        WEFT_TRY(find_levels(j), "joining launches");
        WEFT_TRY(choose(j), "joining launches");
    }
    for (int i = 0; i < count; i++)
        if (!j->items[i].done && is_last(j, i)) WEFT_TRY(emit(j, i), "joining launches");
    return NULL;
}

static weft_status join_region(weft_lowering *l, int region, int *moved) {
    weft_step_buffer *list = &l->regions[region];
    weft_step_nodes *nodes = region == WEFT_REGION_MAIN ? l->main_nodes : NULL, *new_nodes = NULL;
    weft_arena arena;
    weft_arena_init(l->allocator, &arena);
    joining j = {.l = l, .arena = &arena, .moved = moved};
    size_t count = (size_t)list->count + 1;
    weft_step_buffer fresh = {.steps = weft_arena_allocate_array(&arena, count, sizeof *fresh.steps)};
    if (nodes) new_nodes = weft_arena_allocate_array(&arena, count, sizeof *new_nodes);
    weft_status status =
        fresh.steps && (!nodes || new_nodes) ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    j.out = &fresh, j.out_nodes = new_nodes;
    for (j.base = 0; j.base < list->count && !status;) {
        int run = 0;
        while (j.base + run < list->count && is_plain(&list->steps[j.base + run])) run++;
        status = join_run(&j, list, nodes, run);
        j.base += run;
        if (status || j.base == list->count) continue;
        moved[j.base] = fresh.count;
        put(&j, &list->steps[j.base], nodes ? &nodes[j.base] : &(weft_step_nodes){0});
        j.base++;
    }
    if (!status) {
        memcpy(list->steps, fresh.steps, (size_t)fresh.count * sizeof *fresh.steps);
        if (nodes) memcpy(nodes, new_nodes, (size_t)fresh.count * sizeof *nodes);
        list->count = fresh.count;
    }
    weft_free(l->allocator, j.touches, j.touch_capacity * sizeof *j.touches);
    weft_arena_deinit(&arena);
    return status;
}

/* -- lifetimes */

static void live(weft_lowering *l, int number, int step) {
    weft_buffer *buffer = &l->buffer_list[root_of(l, number)];
    if (buffer->first_step < 0 || buffer->first_step > step) buffer->first_step = step;
    if (buffer->last_step < step) buffer->last_step = step;
}

/* Whatever a step names lives then; what its regions name too. */
static void live_step(weft_lowering *l, const weft_step *step, int at) {
    if (step->kind == WEFT_STEP_LAUNCH) {
        for (int v = 0; v < step->variant_count; v++) {
            const weft_launch_variant *variant = &step->variants[v];
            for (int b = 0; b < variant->buffer_count; b++) live(l, variant->buffers[b], at);
            for (int m = 0; m < variant->map_count; m++) live(l, variant->maps[m].buffer, at);
        }
        return;
    }
    if (step->kind != WEFT_STEP_LOOP) live(l, step->buffers[0], at);
    if (step->kind == WEFT_STEP_COPY) live(l, step->buffers[1], at);
    int regions = step->kind == WEFT_STEP_WHILE || step->kind == WEFT_STEP_COND ? 2 : step->kind == WEFT_STEP_LOOP;
    for (int r = 0; r < regions; r++) {
        const weft_step_buffer *body = &l->regions[step->regions[r]];
        for (int i = 0; i < body->count; i++) live_step(l, &body->steps[i], at);
    }
}

/* Values without elements are in no step: they keep their place beside the step where they were. */
static void renew_lifetimes(weft_lowering *l, const int *moved, int old_count) {
    const weft_step_buffer *main = &l->regions[WEFT_REGION_MAIN];
    for (int i = 0; i < l->buffer_count; i++) {
        weft_buffer *buffer = &l->buffer_list[i];
        if (buffer->kind == WEFT_BUFFER_ALIAS || buffer->first_step < 0) continue;
        int at = buffer->first_step < old_count ? moved[buffer->first_step] : main->count;
        bool named = buffer->kind == WEFT_BUFFER_TEMP && buffer->bytes != 0;
        buffer->first_step = named ? -1 : at, buffer->last_step = named ? -1 : at;
    }
    for (int i = 0; i < main->count; i++) live_step(l, &main->steps[i], i);
}

/* -- kernels that no step names any more */

static weft_status rename_kernels(weft_lowering *l, weft_step *step, const int *numbers) {
    weft_launch_variant *variants =
        weft_arena_copy(l->arena, step->variants, (size_t)step->variant_count * sizeof *variants);
    if (!variants) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    for (int v = 0; v < step->variant_count; v++) variants[v].kernel = numbers[variants[v].kernel];
    step->variants = variants;
    return NULL;
}

static weft_status drop_kernels(weft_lowering *l) {
    int *numbers = weft_arena_allocate_array(l->kernel_arena, (size_t)l->kernel_count + 1, sizeof *numbers), kept = 0;
    if (!numbers) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    for (int r = 0; r < l->region_count; r++)
        for (int i = 0; i < l->regions[r].count; i++)
            for (int v = 0; v < l->regions[r].steps[i].variant_count; v++)
                numbers[l->regions[r].steps[i].variants[v].kernel] = 1;
    for (int k = 0; k < l->kernel_count; k++) {
        if (!numbers[k]) continue;
        l->kernels[kept] = l->kernels[k], l->kernel_records[kept] = l->kernel_records[k];
        numbers[k] = kept++;
    }
    if (kept == l->kernel_count) return NULL;
    l->kernel_count = kept;
    for (int r = 0; r < l->region_count; r++)
        for (int i = 0; i < l->regions[r].count; i++)
            if (l->regions[r].steps[i].variant_count)
                WEFT_TRY(rename_kernels(l, &l->regions[r].steps[i], numbers), "joining launches");
    return NULL;
}

weft_status weft_lower_join(weft_lowering *l) {
    int old_count = l->regions[WEFT_REGION_MAIN].count, most = 0, kernels = l->kernel_count;
    for (int r = 0; r < l->region_count; r++) most = l->regions[r].count > most ? l->regions[r].count : most;
    int *moved = weft_arena_allocate_array(l->kernel_arena, (size_t)most + 1, sizeof *moved);
    int *main_moved = weft_arena_allocate_array(l->kernel_arena, (size_t)old_count + 1, sizeof *main_moved);
    if (!moved || !main_moved) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "joining launches");
    for (int r = WEFT_REGION_MAIN; r < l->region_count; r++)
        WEFT_TRY(join_region(l, r, r == WEFT_REGION_MAIN ? main_moved : moved), "joining launches");
    if (l->kernel_count == kernels) return NULL; /* nothing was joined: nothing has moved */
    renew_lifetimes(l, main_moved, old_count);
    return drop_kernels(l);
}
