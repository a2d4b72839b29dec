/* Jumps, barriers, what threads of a warp do together. Read next: matrix.c.
   Source: "Parallel Thread Execution ISA", Control Flow; bar; shfl; vote; redux. */
#include <stdio.h>

#include "tests/ptx/interpreter/internal.h"

void ptx_run_function(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    const ptx_operand *o = i->operands;
    static const ptx_operand zero = {.kind = CONSTANT};
    const ptx_operand *a = i->count > 1 ? &o[1] : &zero, *b = i->count > 2 ? &o[2] : &zero,
                      *c = i->count > 3 ? &o[3] : &zero;
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1)
            ptx_put(w, o[0].index, l, i->function(ptx_get(w, a, l), ptx_get(w, b, l), ptx_get(w, c, l)));
}

/* -- mov between a register and the parts of a vector */

static void move(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    const ptx_operand *to = &i->operands[0], *from = &i->operands[1];
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t value = 0;
        int shift = 0;
        if (from->kind == VECTOR)
            for (int p = 0; p < from->count; p++) {
                value |= w->rows[from->parts[p]][l] << shift;
                shift += w->kernel->widths[from->parts[p]];
            }
        else
            value = ptx_get(w, from, l);
        if (to->kind != VECTOR) {
            ptx_put(w, to->index, l, value);
            continue;
        }
        shift = 0;
        for (int p = 0; p < to->count; p++) {
            int bits = to->parts[p] >= 0 ? w->kernel->widths[to->parts[p]] : i->op / to->count;
            ptx_put(w, to->parts[p], l, value >> shift);
            shift += bits;
        }
    }
}

/* -- control: machine.c looks at these handlers */

static void jump(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) w->pc[l] = i->target;
}

static void end(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    (void)i;
    w->alive &= ~lanes;
}

static void trap(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    (void)i, (void)lanes;
    ptx_fail(w, -1, "a trap");
}

/* cudaGraphSetConditional(handle, value) */
static void call(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t handle = ptx_get(w, &i->operands[0], l);
        const ptx_machine *machine = w->machine;
        if (!machine->set_condition ||
            !machine->set_condition(machine->condition_self, handle, (uint32_t)ptx_get(w, &i->operands[1], l)))
            ptx_fail(w, l, "condition %#llx, which is none of the running graph", (unsigned long long)handle);
    }
}

static void barrier(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    if (lanes != w->alive) {
        ptx_fail(w, -1, "a barrier that not all threads of a warp reach (%#x of %#x)", lanes, w->alive);
        return;
    }
    int lane = __builtin_ctz(lanes);
    w->barrier = (int)ptx_get(w, &i->operands[0], lane);
    w->barrier_threads = i->count > 1 ? (int)ptx_get(w, &i->operands[1], lane) : -1;
    if (w->barrier < 0 || w->barrier >= BARRIERS)
        ptx_fail(w, -1, "barrier %d", w->barrier);
    else if (i->op)
        w->block->arrived[w->barrier] += LANES;
    else
        w->stop = AT_BARRIER;
}

static void together(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    uint32_t mask = (uint32_t)ptx_get(w, &i->operands[0], __builtin_ctz(lanes)) & w->alive;
    if (lanes != mask) ptx_fail(w, -1, "a meeting of threads %#x that %#x reach", mask, lanes);
}

static void nothing(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) { (void)w, (void)i, (void)lanes; }

/* -- shuffles */

enum { UP, DOWN, BUTTERFLY, INDEX };

/* shfl.sync.MODE.b32 d|p, a, b, c, mask: c holds the bounds of the segments */
static void shuffle(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    const ptx_operand *o = i->operands;
    uint64_t values[LANES];
    uint32_t mask = (uint32_t)ptx_get(w, &o[4], __builtin_ctz(lanes)) & w->alive;
    if (mask != lanes) {
        ptx_fail(w, -1, "a shuffle of threads %#x that %#x reach", mask, lanes);
        return;
    }
    for (int l = 0; l < LANES; l++) values[l] = ptx_get(w, &o[1], l);
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        int b = (int)ptx_get(w, &o[2], l) & 31, c = (int)ptx_get(w, &o[3], l), segment = c >> 8 & 31, most = c & 31;
        int low = l & segment, limit = low | (most & ~segment), from;
        bool valid;
        switch (i->op) {
        case UP: from = l - b, valid = from >= limit; break;
        case DOWN: from = l + b, valid = from <= limit; break;
        case BUTTERFLY: from = l ^ b, valid = from <= limit; break;
        default: from = low | (b & ~segment), valid = from <= limit; break;
        }
        if (!valid) from = l;
        if (!(lanes >> from & 1)) {
            ptx_fail(w, l, "a shuffle from thread %d, which does not take part", from);
            return;
        }
        ptx_put(w, o[0].index, l, values[from]);
        if (o[0].other >= 0) ptx_put(w, o[0].other, l, valid);
    }
}

/* -- votes and reductions */

enum { ANY, ALL, BALLOT };

static void vote(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    uint32_t set = 0;
    for (int l = 0; l < LANES; l++)
        if ((lanes >> l & 1) && (ptx_get(w, &i->operands[1], l) & 1) != i->operands[1].negate) set |= UINT32_C(1) << l;
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1)
            ptx_put(w, i->operands[0].index, l, i->op == ANY ? set != 0 : i->op == ALL ? set == lanes : set);
}

static void active(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) ptx_put(w, i->operands[0].index, l, lanes);
}

enum { R_ADD, R_MIN_S, R_MAX_S, R_MIN_U, R_MAX_U, R_AND, R_OR, R_XOR };

static void reduce(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    bool first = true;
    uint32_t r = 0;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint32_t x = (uint32_t)ptx_get(w, &i->operands[1], l);
        switch (first ? -1 : i->op) {
        case -1: r = x; break;
        case R_ADD: r += x; break;
        case R_MIN_S: r = (int32_t)x < (int32_t)r ? x : r; break;
        case R_MAX_S: r = (int32_t)x > (int32_t)r ? x : r; break;
        case R_MIN_U: r = x < r ? x : r; break;
        case R_MAX_U: r = x > r ? x : r; break;
        case R_AND: r &= x; break;
        case R_OR: r |= x; break;
        default: r ^= x; break;
        }
        first = false;
    }
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) ptx_put(w, i->operands[0].index, l, r);
}

const ptx_opcode ptx_warp_opcodes[] = {{"mov.b16", move, NULL, 16},
                                       {"mov.b32", move, NULL, 32},
                                       {"mov.b64", move, NULL, 64},
                                       {"bra", jump, NULL, 0},
                                       {"call", call, NULL, 0},
                                       {"ret", end, NULL, 0},
                                       {"exit", end, NULL, 0},
                                       {"trap", trap, NULL, 0},
                                       {"bar.sync", barrier, NULL, 0},
                                       {"barrier.sync", barrier, NULL, 0},
                                       {"bar.arrive", barrier, NULL, 1},
                                       {"bar.warp.sync", together, NULL, 0},
                                       {"membar.gl", nothing, NULL, 0},
                                       {"membar.cta", nothing, NULL, 0},
                                       {"membar.sys", nothing, NULL, 0},
                                       {"fence.acq_rel.cta", nothing, NULL, 0},
                                       {"fence.acq_rel", nothing, NULL, 0},
                                       {"fence.sc", nothing, NULL, 0},
                                       {"shfl.sync.up.b32", shuffle, NULL, UP},
                                       {"shfl.sync.down.b32", shuffle, NULL, DOWN},
                                       {"shfl.sync.bfly.b32", shuffle, NULL, BUTTERFLY},
                                       {"shfl.sync.idx.b32", shuffle, NULL, INDEX},
                                       {"vote.sync.any.pred", vote, NULL, ANY},
                                       {"vote.sync.all.pred", vote, NULL, ALL},
                                       {"vote.sync.ballot.b32", vote, NULL, BALLOT},
                                       {"activemask.b32", active, NULL, 0},
                                       {"redux.sync.add.s32", reduce, NULL, R_ADD},
                                       {"redux.sync.add.u32", reduce, NULL, R_ADD},
                                       {"redux.sync.min.s32", reduce, NULL, R_MIN_S},
                                       {"redux.sync.max.s32", reduce, NULL, R_MAX_S},
                                       {"redux.sync.min.u32", reduce, NULL, R_MIN_U},
                                       {"redux.sync.max.u32", reduce, NULL, R_MAX_U},
                                       {"redux.sync.and.b32", reduce, NULL, R_AND},
                                       {"redux.sync.or.b32", reduce, NULL, R_OR},
                                       {"redux.sync.xor.b32", reduce, NULL, R_XOR},
                                       {0}};
