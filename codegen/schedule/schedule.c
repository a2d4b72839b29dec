/* Text of schedules: builder{tile_m=9,threads=128}. Fields that are 0 are not written; the order is the record's.

   Invariant: parse(print(s)) = s, and print is deterministic, so the text can be a cache key. */
#include "codegen/schedule/schedule.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#define FIELDS(X)                                                                                                      \
    X(tile_m)                                                                                                          \
    X(tile_n)                                                                                                          \
    X(tile_k)                                                                                                          \
    X(threads)                                                                                                         \
    X(vector)                                                                                                          \
    X(unroll)                                                                                                          \
    X(stages)                                                                                                          \
    X(consumers)                                                                                                       \
    X(cluster)                                                                                                         \
    X(turns)                                                                                                           \
    X(raster)                                                                                                          \
    X(split)                                                                                                           \
    X(even)                                                                                                            \
    X(join)                                                                                                            \
    X(block_elements)                                                                                                  \
    X(panels_per_block) X(accumulator_sets) X(pack_a) X(tail) X(foot) X(box_w) X(box_h) X(promote) X(way) X(numerics)

typedef struct field {
    const char *name;
    size_t offset;
} field;

static const field fields[] = {
#define X(name) {#name, offsetof(weft_schedule, name)},
    FIELDS(X)
#undef X
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static int get(const weft_schedule *schedule, const field *f) {
    int value;
    memcpy(&value, (const char *)schedule + f->offset, sizeof value);
    return value;
}

static void set(weft_schedule *schedule, const field *f, int value) {
    memcpy((char *)schedule + f->offset, &value, sizeof value);
}

void weft_schedule_print(const weft_schedule *schedule, weft_text *text) {
    weft_text_append(text, "%s{", schedule->builder ? schedule->builder : "");
    const char *comma = "";
    for (size_t n = 0; n < FIELD_COUNT; n++) {
        int value = get(schedule, &fields[n]);
        if (!value) continue;
        weft_text_append(text, "%s%s=%d", comma, fields[n].name, value);
        comma = ",";
    }
    weft_text_append(text, "}");
}

typedef struct cursor {
    const char *start, *at, *end;
} cursor;

static weft_status problem(const cursor *c, const char *what) {
    return WEFT_STATUS(WEFT_INVALID_DATA, "schedule, column %d: %s in \"%.*s\"", (int)(c->at - c->start) + 1, what,
                       (int)(c->end - c->start), c->start);
}

static size_t word(cursor *c) {
    const char *from = c->at;
    while (c->at < c->end && (strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", *c->at) && *c->at)) c->at++;
    return (size_t)(c->at - from);
}

static bool take(cursor *c, char expected) {
    if (c->at == c->end || *c->at != expected) return false;
    c->at++;
    return true;
}

static bool integer(cursor *c, int *out_value) {
    bool negative = take(c, '-');
    int64_t value = 0;
    const char *from = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        value = value * 10 + (*c->at - '0');
        if (value > INT_MAX) return false;
    }
    *out_value = (int)(negative ? -value : value);
    return c->at > from;
}

static weft_status parse_field(cursor *c, weft_schedule *schedule, bool *seen) {
    const char *name = c->at;
    size_t bytes = word(c);
    size_t n = 0;
    while (n < FIELD_COUNT && (strlen(fields[n].name) != bytes || memcmp(fields[n].name, name, bytes) != 0)) n++;
    if (n == FIELD_COUNT) {
        c->at = name;
        return problem(c, "no such field");
    }
    if (seen[n]) return problem(c, "a field twice");
    seen[n] = true;
    int value;
    if (!take(c, '=') || !integer(c, &value)) return problem(c, "expected =number");
    set(schedule, &fields[n], value);
    return NULL;
}

weft_status weft_schedule_parse(weft_arena *arena, const char *text, size_t bytes, weft_schedule *out_schedule) {
    *out_schedule = (weft_schedule){0};
    cursor c = {text, text, text + bytes};
    size_t length = word(&c);
    if (!length) return problem(&c, "expected the name of a builder");
    out_schedule->builder = weft_arena_copy_string(arena, text, length);
    if (!out_schedule->builder) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "parsing a schedule");
    if (!take(&c, '{')) return problem(&c, "expected {");
    bool seen[FIELD_COUNT] = {false};
    while (c.at < c.end && *c.at != '}') {
        WEFT_TRY(parse_field(&c, out_schedule, seen), "parsing a schedule");
        if (c.at < c.end && *c.at != '}' && !take(&c, ',')) return problem(&c, "expected , or }");
    }
    if (!take(&c, '}')) return problem(&c, "expected }");
    if (c.at != c.end) return problem(&c, "text after the schedule");
    return NULL;
}
