/* Batches ahead of their use. A ring of slots: batch n goes to slot n modulo depth. Invariant: a slot is EMPTY
   (anyone's), FILLING (one worker's), READY, or IN_USE (the caller's until its next call); all under one lock. */
#include "weft/train.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/need.h"

#include <pthread.h>
#include <string.h>

enum { INPUTS_MAX = 32, THREADS_MAX = 64, DEPTH_MAX = 64, REPLACEMENTS_MAX = 8, REPLACEMENT_STRIDE = 1000003 };

typedef enum slot_state { EMPTY, FILLING, READY, IN_USE } slot_state;

typedef struct slot {
    slot_state state;
    int64_t batch;
    weft_status status, replaced; /* replaced: why another batch lies here */
    weft_tensor *tensors[INPUTS_MAX];
} slot;

struct weft_loader {
    weft_context *context;
    weft_batch_function fill;
    void *self;
    int input_count, depth, thread_count, started;
    slot slots[DEPTH_MAX];
    int64_t next_fill; /* batch that the next free worker takes */
    int64_t expected;  /* batch that a sequence goes on with */
    int64_t invalid_max, invalid_count;
    bool stop, paused; /* paused: workers finish what they fill and take nothing */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[THREADS_MAX];
};

/* Batch `batch`, or, where its data are invalid and some may be, one that far behind it. *out_replaced: why, when it
   was. Whether it is too many is decided when the batch is handed out: what is filled ahead may never be. */
static weft_status fill_valid(weft_loader *l, int64_t batch, weft_tensor *const *tensors, weft_status *out_replaced) {
    weft_status status = l->fill(l->self, batch, tensors);
    *out_replaced = NULL;
    for (int64_t i = 1; l->invalid_max > 0 && weft_status_code(status) == WEFT_INVALID_DATA && i <= REPLACEMENTS_MAX;
         i++) {
        int64_t other = batch < INT64_MAX / 2 ? batch + i * REPLACEMENT_STRIDE : batch - i * REPLACEMENT_STRIDE;
        if (*out_replaced)
            weft_status_release(status); /* the first one is told */
        else
            *out_replaced = status;
        status = l->fill(l->self, other, tensors);
    }
    return status;
}

static void *work(void *argument) {
    weft_loader *l = argument;
    (void)pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        slot *s = &l->slots[l->next_fill % l->depth];
        if (l->paused || s->state != EMPTY) {
            (void)pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        s->state = FILLING;
        s->batch = l->next_fill++;
        (void)pthread_mutex_unlock(&l->lock);
        weft_status replaced, status = fill_valid(l, s->batch, s->tensors, &replaced);
        (void)pthread_mutex_lock(&l->lock);
        s->status = status;
        s->replaced = replaced;
        s->state = READY;
        (void)pthread_cond_broadcast(&l->changed);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return NULL;
}

static weft_status make_tensors(weft_loader *l, const weft_program *program) {
    for (int i = 0; i < l->input_count; i++) {
        weft_port_info info;
        weft_program_input(program, i, &info);
        for (int axis = 0; axis < info.rank; axis++)
            if (info.shape[axis] < 0)
                return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "input %s: axis %d is symbolic; batches have fixed shapes",
                                   info.name, axis);
        for (int s = 0; s < l->depth; s++)
            WEFT_TRY(weft_tensor_create(l->context, info.dtype, info.rank, info.shape, &l->slots[s].tensors[i]),
                     "batches of input %s", info.name);
    }
    return NULL;
}

static weft_status start(weft_loader *l) {
    for (; l->started < l->thread_count; l->started++)
        if (pthread_create(&l->threads[l->started], NULL, work, l))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no thread to load batches");
    return NULL;
}

weft_status weft_loader_create(weft_context *context, const weft_program *program, weft_batch_function fill, void *self,
                               const weft_loader_options *options, weft_loader **out_loader) {
    WEFT_NEED(out_loader, "out_loader");
    *out_loader = NULL;
    weft_loader_options own = WEFT_LOADER_OPTIONS_INIT;
    WEFT_TRY(WEFT_OPTIONS_READ(own, options, WEFT_LOADER_OPTIONS_INIT), "a loader");
    WEFT_NEED(context, "the context");
    WEFT_NEED(program, "the program");
    WEFT_NEED(fill, "the function that fills batches");
    int inputs = weft_program_input_count(program);
    int threads = own.thread_count ? own.thread_count : 1, prefetch = own.prefetch ? own.prefetch : 4;
    if (inputs > INPUTS_MAX || threads < 1 || threads > THREADS_MAX || prefetch < 1 || prefetch >= DEPTH_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a loader of %d inputs with %d threads and %d batches ahead", inputs,
                           threads, prefetch);
    weft_loader *l = weft_allocate(context->allocator, sizeof *l);
    if (!l) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a loader");
    l->context = context, l->fill = fill, l->self = self;
    l->input_count = inputs, l->thread_count = threads, l->depth = prefetch + 1;
    l->invalid_max = own.invalid_max;
    weft_context_retain(context);
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->changed, NULL);
    weft_status status = make_tensors(l, program);
    if (!status) status = start(l);
    if (status)
        weft_loader_release(l);
    else
        *out_loader = l;
    return status;
}

void weft_loader_release(weft_loader *l) {
    if (!l) return;
    (void)pthread_mutex_lock(&l->lock);
    l->stop = true;
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->started; i++) (void)pthread_join(l->threads[i], NULL);
    for (int s = 0; s < l->depth; s++) {
        weft_status_release(l->slots[s].status);
        weft_status_release(l->slots[s].replaced);
        for (int i = 0; i < l->input_count; i++) weft_tensor_release(l->slots[s].tensors[i]);
    }
    (void)pthread_cond_destroy(&l->changed);
    (void)pthread_mutex_destroy(&l->lock);
    weft_context *context = l->context;
    weft_free(context->allocator, l, sizeof *l);
    weft_context_release(context);
}

int64_t weft_loader_invalid_count(weft_loader *l) {
    if (!l) return 0;
    (void)pthread_mutex_lock(&l->lock);
    int64_t count = l->invalid_count;
    (void)pthread_mutex_unlock(&l->lock);
    return count;
}

static void empty(slot *s) {
    weft_status_release(s->status);
    weft_status_release(s->replaced);
    s->status = s->replaced = NULL;
    s->state = EMPTY;
}

/* Waits until nobody fills, forgets what is ready, goes on at `batch`. */
static void restart(weft_loader *l, int64_t batch) {
    l->paused = true;
    for (int s = 0; s < l->depth; s++)
        while (l->slots[s].state == FILLING) (void)pthread_cond_wait(&l->changed, &l->lock);
    l->next_fill = batch;
    for (int s = 0; s < l->depth; s++) empty(&l->slots[s]);
    l->paused = false;
}

/* A replaced batch is one warning, or, beyond what is allowed, the error that it would have been. */
static weft_status count_replaced(weft_loader *l, int64_t batch, weft_status status, weft_status replaced,
                                  bool allowed) {
    char text[512];
    if (!replaced) return status;
    if (status || !allowed) {
        weft_status_release(status);
        return replaced;
    }
    weft_status_format(replaced, text, sizeof text);
    weft_context_log(l->context, WEFT_LOG_WARNING, "batch %lld is replaced: %s", (long long)batch, text);
    weft_status_release(replaced);
    return NULL;
}

weft_status weft_loader_get(weft_loader *l, int64_t batch, weft_tensor *const **out_tensors) {
    WEFT_NEED(out_tensors, "out_tensors");
    *out_tensors = NULL;
    WEFT_NEED(l, "the loader");
    if (batch < 0) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "batch %lld", (long long)batch);
    (void)pthread_mutex_lock(&l->lock);
    if (batch != l->expected) {
        restart(l, batch);
    } else {
        for (int s = 0; s < l->depth; s++)
            if (l->slots[s].state == IN_USE) empty(&l->slots[s]);
    }
    l->expected = batch + 1;
    (void)pthread_cond_broadcast(&l->changed);
    slot *s = &l->slots[batch % l->depth];
    while (s->state != READY || s->batch != batch) (void)pthread_cond_wait(&l->changed, &l->lock);
    weft_status status = s->status, replaced = s->replaced;
    s->status = s->replaced = NULL;
    s->state = IN_USE;
    bool allowed = !replaced || l->invalid_count < l->invalid_max;
    if (replaced && allowed) l->invalid_count++;
    (void)pthread_mutex_unlock(&l->lock);
    status = count_replaced(l, batch, status, replaced, allowed);
    if (status) return weft_status_annotate(status, __FILE__, __LINE__, "batch %lld", (long long)batch);
    *out_tensors = s->tensors;
    return NULL;
}
