/* Instructions around others: a lane pattern (DPP) permutes the first source, selects (SDWA) take bytes and words of
   sources and place the result, a pair (VOPD) runs two at once, an instruction of lanes computes one scalar. The
   wrapped instruction reads and writes scratch rows in place of the operands in question and knows nothing of it.
   Source: AMD instruction set documents, "DPP", "SDWA", "VOPD". */
#include <stdlib.h>

#include "tests/amdgcn/emulator/internal.h"

enum {
    ROW_PATTERN = SCRATCH_ROWS,
    ROW_FIRST,
    ROW_SECOND,
    ROW_RESULT,
    ROW_SAVED,
    ROW_SAVED_HIGH,
    ROW_MOVED,
    ROW_MOVED_HIGH
};

static amdgcn_operand row_operand(int row) { return (amdgcn_operand){.kind = VECTOR, .index = row, .count = 1}; }

void amdgcn_run_nothing(amdgcn_wave *w, const amdgcn_instruction *i) { (void)w, (void)i; }

bool amdgcn_wrap(amdgcn_instruction *i) {
    amdgcn_instruction *inner = malloc(sizeof *inner);
    if (!inner) return false;
    *inner = *i;
    i->inner = inner;
    if (i->pattern) {
        i->run = amdgcn_run_pattern;
        if (i->in[0].kind != VECTOR) return false;
        inner->in[0].index = ROW_PATTERN;
        return true;
    }
    i->run = amdgcn_run_select;
    for (int s = 0; s < 2 && s < i->sources; s++) {
        if (!i->select_in[s] || i->select_in[s] == 7) continue;
        inner->in[s].kind = VECTOR, inner->in[s].index = ROW_FIRST + s, inner->in[s].extend = false;
    }
    if (i->select_out && i->select_out != 7) {
        inner->out[0].index = ROW_RESULT;
        for (int s = 2; s < i->sources; s++) /* the accumulator of v_mac and its kind is read whole */
            if (i->in[s].kind == VECTOR && i->in[s].index == i->out[0].index) return false;
    }
    return true;
}

/* The lane that lane l reads; -1: none. */
static int source_lane(const amdgcn_wave *w, const amdgcn_instruction *i, int l) {
    int row = l & ~15, at = l & 15, n = i->pattern_value;
    switch (i->pattern) {
    case 'q': return (l & ~3) | (int)(i->eighths >> 2 * (l & 3) & 3);
    case '8': return (l & ~7) | (int)(i->eighths >> 3 * (l & 7) & 7);
    case 'l': return at + n < 16 ? l + n : -1;
    case 'r': return at - n >= 0 ? l - n : -1;
    case 'o': return row | ((at - n) & 15);
    case 'm': return row | (15 - at);
    case 'h': return (l & ~7) | (7 - (l & 7));
    case 's': return row | n;
    case 'x': return row | (at ^ n);
    case 'L': return l + 1 < w->lanes ? l + 1 : -1;
    case 'R': return l - 1;
    case 'b': /* the last lane of a row, or of a half, to the next one */
        if (n == 15) return row ? row - 1 : l;
        return l >= 32 ? 31 : l;
    default: return -1;
    }
}

void amdgcn_run_pattern(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t exec = amdgcn_exec(w), writes = 0;
    const uint32_t *from = amdgcn_row(w, &i->in[0], 0);
    uint32_t *to = w->rows[ROW_PATTERN];
    for (int l = 0; l < w->lanes; l++) {
        int source = source_lane(w, i, l);
        bool valid = source >= 0 && (i->fetch_inactive || (exec >> source & 1)),
             bound = i->bound_zero || i->pattern == '8';
        bool enabled = i->pattern == '8' || ((i->row_mask >> (l / 16 % 4) & 1) && (i->bank_mask >> (l / 4 % 4) & 1));
        to[l] = valid ? from[source] : 0;
        if (enabled && (valid || bound)) writes |= UINT64_C(1) << l;
    }
    w->pair[SCALAR_EXEC / 2] = exec & writes;
    i->inner->run(w, i->inner);
    w->pair[SCALAR_EXEC / 2] = exec;
}

static uint32_t selected(uint32_t word, int select, bool extend) {
    if (select <= 4) {
        uint32_t byte = word >> 8 * (select - 1) & 255;
        return extend ? (uint32_t)(int32_t)(int8_t)byte : byte;
    }
    uint32_t half = word >> 16 * (select - 5) & 0xffff;
    return extend ? (uint32_t)(int32_t)(int16_t)half : half;
}

/* The word with `value` at its place; what lies beside it as `unused` says. */
static uint32_t placed(uint32_t before, uint32_t value, int select, int unused) {
    int bits = select <= 4 ? 8 : 16, shift = select <= 4 ? 8 * (select - 1) : 16 * (select - 5);
    uint32_t mask = bits == 8 ? 255 : 0xffff, own = (value & mask) << shift;
    if (unused == 2) return (before & ~(mask << shift)) | own;
    if (unused == 1 && (value >> (bits - 1) & 1)) return own | (shift + bits < 32 ? UINT32_MAX << (shift + bits) : 0);
    return own;
}

void amdgcn_run_select(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES];
    for (int s = 0; s < 2 && s < i->sources; s++) {
        if (!i->select_in[s] || i->select_in[s] == 7) continue;
        const uint32_t *from = amdgcn_words(w, &i->in[s], 0, space);
        uint32_t *to = w->rows[ROW_FIRST + s];
        for (int l = 0; l < LANES; l++) to[l] = selected(from[l], i->select_in[s], i->in[s].extend);
    }
    i->inner->run(w, i->inner);
    if (!i->select_out || i->select_out == 7 || i->out[0].kind != VECTOR) return;
    const uint32_t *before = amdgcn_row(w, &i->out[0], 0), *value = w->rows[ROW_RESULT];
    for (int l = 0; l < LANES; l++) space[l] = placed(before[l], value[l], i->select_out, i->unused);
    amdgcn_put(w, &i->out[0], 0, space);
}

/* Scalars: sources are spread over the lanes, of which the first one counts, whatever EXEC says. */
static void run_alone(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t exec = w->pair[SCALAR_EXEC / 2];
    w->pair[SCALAR_EXEC / 2] = 1;
    w->rows[ROW_RESULT][0] = 0; /* 16 bits leave the others 0 */
    i->inner->run(w, i->inner);
    w->pair[SCALAR_EXEC / 2] = exec;
    amdgcn_set32(w, &i->out[0], 0, w->rows[ROW_RESULT][0]);
}

static void compare_alone(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t exec = w->pair[SCALAR_EXEC / 2], kept = w->pair[SCALAR_TTMP / 2];
    w->pair[SCALAR_EXEC / 2] = 1;
    i->inner->run(w, i->inner);
    w->pair[SCALAR_EXEC / 2] = exec;
    w->scc = w->pair[SCALAR_TTMP / 2] & 1;
    w->pair[SCALAR_TTMP / 2] = kept;
}

bool amdgcn_wrap_alone(amdgcn_instruction *i, bool compares) {
    amdgcn_instruction *inner = malloc(sizeof *inner);
    if (!inner) return false;
    *inner = *i;
    i->inner = inner;
    i->run = compares ? compare_alone : run_alone;
    inner->destinations = 1;
    inner->low_half = true;
    inner->out[0] =
        compares ? (amdgcn_operand){.kind = SCALAR, .index = SCALAR_TTMP, .count = 2} : row_operand(ROW_RESULT);
    return true;
}

/* Both read before either writes. */
void amdgcn_run_both(amdgcn_wave *w, const amdgcn_instruction *i) {
    const amdgcn_operand *out = &i->inner->out[0];
    amdgcn_operand saved = row_operand(ROW_SAVED), moved = row_operand(ROW_MOVED);
    memcpy(w->rows[saved.index], w->rows[out->index], sizeof w->rows[0]);
    i->inner->run(w, i->inner);
    memcpy(w->rows[moved.index], w->rows[out->index], sizeof w->rows[0]);
    memcpy(w->rows[out->index], w->rows[saved.index], sizeof w->rows[0]);
    i->second->run(w, i->second);
    memcpy(w->rows[out->index], w->rows[moved.index], sizeof w->rows[0]);
}
