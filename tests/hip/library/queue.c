/* Streams: what was queued runs when somebody waits; what was captured becomes a graph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/hip/library/state.h"

static int push(fake_commands *commands, const fake_command *one) {
    if (commands->count == commands->capacity) {
        size_t capacity = commands->capacity ? 2 * commands->capacity : 16;
        fake_command *more = realloc(commands->list, capacity * sizeof *more);
        if (!more) {
            free(one->staged);
            return OUT_OF_MEMORY;
        }
        commands->list = more, commands->capacity = capacity;
    }
    commands->list[commands->count++] = *one;
    return SUCCESS;
}

int fake_queue(fake_stream *stream, const fake_command *one) {
    if (!stream->capturing) return push(&stream->queue, one);
    bool plain = one->function || (!one->staged && !one->mark && one->from && fake_block_holds(one->to, one->bytes));
    if (plain) return push(&stream->captured, one);
    free(one->staged);
    return CAPTURE_UNSUPPORTED;
}

int fake_repeat(fake_stream *stream, const fake_commands *captured) {
    int result = SUCCESS;
    for (size_t i = 0; i < captured->count && !result; i++) result = fake_queue(stream, &captured->list[i]);
    return result;
}

static int run(const fake_command *one) {
    fake *f = &fake_state;
    if (one->mark) {
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        one->mark->time_ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
        one->mark->pending = false;
        return SUCCESS;
    }
    if (!one->function) {
        if (one->fills)
            memset(one->to, one->value, one->bytes);
        else
            memmove(one->to, one->staged ? one->staged : one->from, one->bytes);
        return SUCCESS;
    }
    amdgcn_launch launch = {.kernel = one->function->name,
                            .blocks = one->blocks,
                            .threads = (int)one->threads,
                            .shared_bytes = one->shared_bytes,
                            .arguments = one->arguments,
                            .argument_bytes = one->function->argument_bytes};
    weft_status status = amdgcn_machine_launch(one->function->owner->code, &launch);
    if (!status) return SUCCESS;
    (void)weft_status_format(status, f->message, sizeof f->message);
    weft_status_release(status);
    f->fault = LAUNCH_FAILURE;
    return LAUNCH_FAILURE;
}

int fake_drain(fake_stream *stream) {
    int result = fake_state.fault;
    for (size_t i = 0; i < stream->queue.count; i++) {
        if (!result) result = run(&stream->queue.list[i]);
        free(stream->queue.list[i].staged);
    }
    stream->queue.count = 0;
    return result;
}

void fake_drain_all(void) {
    for (fake_stream *s = fake_state.streams; s; s = s->next) (void)fake_drain(s);
}

void fake_clear(fake_commands *commands) {
    for (size_t i = 0; i < commands->count; i++) free(commands->list[i].staged);
    free(commands->list);
    memset(commands, 0, sizeof *commands);
}
