/* mma_async and what goes with it, warp by warp: each of the four warps of a warpgroup computes its 16 rows.

   An operation reads shared memory as late as the mma_wait that completes it; its accumulators, and its a registers,
   are in flight until then: reading or setting one is a fault. An operand is the instruction that made it and an offset
   in units of 16 bytes. Shapes and swizzles: kernel/matrix.h; PTX ISA 9.7.15. */
#include <string.h>

#include "codegen/kernel/matrix.h"
#include "codegen/kernel/simulate_internal.h"

typedef struct operation {
    const weft_kinstr *instr;
    uint64_t a, b; /* operands; a only when it is no register */
    size_t d_slot, a_slot;
    bool accumulate;
    int64_t group;
    uint32_t action;
} operation;

typedef struct weft_sim_warp {
    operation *operations; /* in flight, oldest first */
    size_t count, capacity;
    int64_t group; /* being filled */
    bool fenced;
} weft_sim_warp;

bool weft_sim_is_matrix(weft_kop op) {
    return op == WEFT_K_mma_fence || op == WEFT_K_mma_async || op == WEFT_K_mma_commit || op == WEFT_K_mma_wait;
}

static int warps(const weft_sim *sim) { return (sim->group_threads + 31) / 32; }

bool weft_sim_matrix_begin(weft_sim *sim) {
    sim->warps = weft_arena_allocate_array(&sim->group_arena, (size_t)warps(sim), sizeof *sim->warps);
    return sim->warps ? true : weft_sim_no_memory(sim);
}

bool weft_sim_matrix_end(weft_sim *sim) {
    for (int n = 0; n < warps(sim); n++)
        if (sim->warps[n].count) return weft_sim_fault(sim, &sim->threads[32 * n], "mma_async: never waited for");
    return true;
}

static int element_bytes(int64_t unit) {
    weft_async_type type = weft_async_type_of(unit);
    return type == WEFT_ASYNC_TF32 ? 4 : type >= WEFT_ASYNC_E4M3 ? 1 : 2;
}

static float decode(int64_t unit, bool is_b, uint32_t bits) {
    weft_async_type type = weft_async_type_of(unit);
    switch (type) {
    case WEFT_ASYNC_BF16: return weft_kscalar_f32(bits << 16);
    case WEFT_ASYNC_F16: return (float)weft_float_decode(WEFT_F16, bits & 0xffff);
    case WEFT_ASYNC_E4M3:
    case WEFT_ASYNC_E4M3_E5M2:
    case WEFT_ASYNC_E5M2_E4M3:
    case WEFT_ASYNC_E5M2:
        return (float)weft_float_decode(weft_async_is_e5m2(type, is_b) ? WEFT_F8E5M2 : WEFT_F8E4M3FN, bits & 0xff);
    case WEFT_ASYNC_TF32:
    default: return weft_kscalar_f32(bits & 0xffffe000u);
    }
}

/* Byte offset in its shared object of element (row, k) of an operand: row along m or n. */
static size_t address(int64_t layout, uint64_t start, bool transposed, int bytes, int row, int k) {
    int swizzle = weft_operand_swizzle(layout), leading = weft_operand_leading(layout),
        stride = weft_operand_stride(layout);
    int pitch = swizzle ? swizzle : 16, along = (transposed ? row : k) * bytes, across = transposed ? k : row;
    size_t at = (size_t)start * 16 +
                (size_t)(across / 8 * stride + across % 8 * pitch + along / pitch * leading + along % pitch);
    size_t rows = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
    return at ^ (at >> 7 & rows) << 4;
}

typedef struct source {
    weft_sim_memory *memory;
    int64_t layout;
    uint64_t start;
    bool transposed;
} source;

static source source_of(weft_sim *sim, weft_sim_thread *lane, uint64_t operand, bool transposed) {
    const weft_kinstr *instr = &sim->kernel->instrs[operand >> 32];
    return (source){weft_sim_memory_of(sim, lane, weft_koperand(sim->kernel, instr, 0)), instr->i, operand & UINT32_MAX,
                    transposed};
}

/* Reads of one side are checked when the operation is issued, by lane 0 for the warp. */
static bool check_side(weft_sim *sim, weft_sim_thread *lane, const source *s, int first, int rows, int64_t unit,
                       const weft_sim_actor *actor) {
    int bytes = element_bytes(unit);
    for (int row = first; row < first + rows; row++)
        for (int k = 0; k < 32 / bytes; k++)
            if (!weft_sim_read(sim, lane, s->memory, address(s->layout, s->start, s->transposed, bytes, row, k),
                               (size_t)bytes, actor))
                return false;
    return true;
}

static size_t register_slot(weft_sim *sim, weft_sim_thread *lane, const weft_kinstr *instr, int at) {
    weft_kval object = weft_koperand(sim->kernel, instr, at);
    return sim->slot[object] + (size_t)*weft_sim_value(sim, lane, weft_koperand(sim->kernel, instr, at + 1));
}

static bool take_registers(weft_sim *sim, weft_sim_thread *lane, const operation *o, int n, bool a_registers) {
    for (int r = 0; r < n / 2; r++) {
        uint8_t *state = &lane->defined[o->d_slot + (size_t)r];
        if (o->accumulate && *state == WEFT_SIM_UNSET)
            return weft_sim_fault(sim, lane, "uninitialised: accumulator %d", r);
        if (*state == WEFT_SIM_BEING_READ)
            return weft_sim_fault(sim, lane, "in flight: accumulator %d is an a register of another operation", r);
        *state = WEFT_SIM_IN_FLIGHT;
    }
    for (int r = 0; a_registers && r < 4; r++) {
        uint8_t *state = &lane->defined[o->a_slot + (size_t)r];
        if (*state == WEFT_SIM_UNSET) return weft_sim_fault(sim, lane, "uninitialised: a register %d", r);
        if (*state == WEFT_SIM_IN_FLIGHT) return weft_sim_fault(sim, lane, "in flight: a register %d", r);
        *state = WEFT_SIM_BEING_READ;
    }
    return true;
}

static bool a_in_registers(const weft_sim *sim, const weft_kinstr *instr) {
    return weft_ktype_of(sim->kernel, weft_koperand(sim->kernel, instr, 2)).kind == WEFT_KIND_REGS;
}

static bool issue(weft_sim *sim, weft_sim_warp *w, weft_sim_thread *const *lanes, const weft_kinstr *instr) {
    weft_kval accumulate = weft_koperand(sim->kernel, instr, 5);
    bool registers = a_in_registers(sim, instr);
    int64_t first = (int64_t)*weft_sim_value(sim, lanes[0], weft_koperand(sim->kernel, instr, 1));
    if (first < 0 ||
        first + weft_async_n(instr->i) / 2 > weft_kernel_get(sim->kernel, weft_koperand(sim->kernel, instr, 0))->i)
        return weft_sim_fault(sim, lanes[0], "out of bounds: accumulators from register %lld", (long long)first);
    if (!w->fenced) return weft_sim_fault(sim, lanes[0], "mma_async without an mma_fence before it");
    operation o = {.instr = instr, .group = w->group, .d_slot = register_slot(sim, lanes[0], instr, 0)};
    o.b = *weft_sim_value(sim, lanes[0], weft_koperand(sim->kernel, instr, 4));
    o.accumulate =
        !(instr->i & WEFT_ASYNC_FIRST) && (accumulate == WEFT_KNONE || *weft_sim_value(sim, lanes[0], accumulate));
    if (registers)
        o.a_slot = register_slot(sim, lanes[0], instr, 2);
    else
        o.a = *weft_sim_value(sim, lanes[0], weft_koperand(sim->kernel, instr, 2));
    for (int l = 0; l < 32; l++) {
        bool same = *weft_sim_value(sim, lanes[l], weft_koperand(sim->kernel, instr, 4)) == o.b;
        if (!registers) same &= *weft_sim_value(sim, lanes[l], weft_koperand(sim->kernel, instr, 2)) == o.a;
        if (!same) return weft_sim_fault(sim, lanes[l], "mma_async: operands differ inside a warp");
        if (!take_registers(sim, lanes[l], &o, weft_async_n(instr->i), registers)) return false;
    }
    weft_sim_thread *lane = lanes[0];
    o.action = ++lane->matrix_clock;
    weft_sim_actor actor = {.agent = weft_sim_agent(sim, lane->index, WEFT_SIM_MATRIX),
                            .clock = o.action,
                            .seen = lane->clock,
                            .what = "mma_async",
                            .async = true};
    source b = source_of(sim, lane, o.b, instr->i & WEFT_ASYNC_B_TRANSPOSED);
    if (!check_side(sim, lane, &b, 0, weft_async_n(instr->i), instr->i, &actor)) return false;
    if (!registers) {
        source a = source_of(sim, lane, o.a, instr->i & WEFT_ASYNC_A_TRANSPOSED);
        if (!check_side(sim, lane, &a, lane->thread / 32 % 4 * 16, 16, instr->i, &actor)) return false;
    }
    if (w->count == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 16;
        operation *grown = weft_arena_allocate_array(&sim->group_arena, capacity, sizeof *grown);
        if (!grown) return weft_sim_no_memory(sim);
        if (w->count) memcpy(grown, w->operations, w->count * sizeof *grown);
        w->operations = grown;
        w->capacity = capacity;
    }
    w->operations[w->count++] = o;
    return true;
}

static float element(const weft_sim_memory *memory, const source *s, int64_t unit, bool is_b, int row, int k) {
    int bytes = element_bytes(unit);
    uint32_t bits = 0;
    memcpy(&bits, memory->data + address(s->layout, s->start, s->transposed, bytes, row, k), (size_t)bytes);
    return decode(unit, is_b, bits);
}

static void compute(weft_sim *sim, weft_sim_thread *const *lanes, const operation *o) {
    int64_t unit = o->instr->i;
    int bytes = element_bytes(unit), depth = 32 / bytes, n = weft_async_n(unit);
    bool registers = a_in_registers(sim, o->instr);
    source b = source_of(sim, lanes[0], o->b, unit & WEFT_ASYNC_B_TRANSPOSED), a = b;
    if (!registers) a = source_of(sim, lanes[0], o->a, unit & WEFT_ASYNC_A_TRANSPOSED);
    float left[16][32];
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < depth; k++) {
            int at = k * bytes; /* in registers: lane and register by bytes of k, as for mma */
            const uint64_t *words = lanes[row % 8 * 4 + at % 16 / 4]->slots + o->a_slot;
            left[row][k] = registers ? decode(unit, false, (uint32_t)words[row / 8 + 2 * (at / 16)] >> 8 * (at % 4))
                                     : element(a.memory, &a, unit, false, lanes[0]->thread / 32 % 4 * 16 + row, k);
        }
    for (int column = 0; column < n; column++) {
        float right[32];
        for (int k = 0; k < depth; k++) right[k] = element(b.memory, &b, unit, true, column, k);
        for (int row = 0; row < 16; row++) {
            uint64_t *d = &lanes[row % 8 * 4 + column % 8 / 2]
                               ->slots[o->d_slot + (size_t)(column / 8 * 4 + row / 8 * 2 + column % 2)];
            float sum = o->accumulate ? weft_kscalar_f32(*d) : 0;
            for (int k = 0; k < depth; k++) sum += left[row][k] * right[k];
            *d = weft_kscalar_of_f32(sum);
        }
    }
}

/* Is a register range used by an operation that stays in flight? */
static bool still_used(const weft_sim_warp *w, size_t from, size_t slot) {
    for (size_t n = from; n < w->count; n++) {
        const operation *o = &w->operations[n];
        if (slot >= o->d_slot && slot < o->d_slot + (size_t)weft_async_n(o->instr->i) / 2) return true;
        if (o->a_slot && slot >= o->a_slot && slot < o->a_slot + 4) return true;
    }
    return false;
}

static void settle(weft_sim *sim, weft_sim_warp *w, weft_sim_thread *const *lanes, size_t done, size_t slot,
                   size_t count) {
    (void)sim;
    for (size_t s = slot; s < slot + count; s++) {
        if (still_used(w, done, s)) continue;
        for (int l = 0; l < 32; l++)
            if (lanes[l]->defined[s] >= WEFT_SIM_IN_FLIGHT) lanes[l]->defined[s] = WEFT_SIM_SET;
    }
}

static bool wait(weft_sim *sim, weft_sim_warp *w, weft_sim_thread *const *lanes, const weft_kinstr *instr) {
    size_t done = 0;
    uint32_t agent = weft_sim_agent(sim, lanes[0]->index, WEFT_SIM_MATRIX);
    for (; done < w->count && w->operations[done].group < w->group - instr->i; done++) {
        const operation *o = &w->operations[done];
        compute(sim, lanes, o);
        for (int l = 0; l < 32; l++) lanes[l]->clock[agent] = o->action;
    }
    for (size_t n = 0; n < done; n++)
        if (w->operations[n].a_slot) settle(sim, w, lanes, done, w->operations[n].a_slot, 4);
    for (int n = 0; n < instr->operand_count; n++) { /* only the named tiles become readable */
        weft_kval object = weft_koperand(sim->kernel, instr, n);
        settle(sim, w, lanes, done, sim->slot[object], (size_t)weft_kernel_get(sim->kernel, object)->i);
    }
    w->count -= done;
    if (w->count) memmove(w->operations, w->operations + done, w->count * sizeof *w->operations);
    w->fenced = false;
    return true;
}

bool weft_sim_matrix(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr) {
    if (count != 32 || !sim->warps) return weft_sim_fault(sim, lanes[0], "needs a whole warp");
    weft_sim_warp *w = &sim->warps[lanes[0]->index / 32];
    switch ((int)instr->op) {
    case WEFT_K_mma_fence: w->fenced = true; return true;
    case WEFT_K_mma_commit: w->group++; return true;
    case WEFT_K_mma_wait: return wait(sim, w, lanes, instr);
    default: return issue(sim, w, lanes, instr);
    }
}
