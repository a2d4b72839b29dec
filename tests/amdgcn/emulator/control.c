/* Jumps, waits, barriers, scalar loads. Waiting for memory means nothing here: every access is done when its
   instruction is. Read next: float.c. Source: AMD instruction set documents, SOPP, SOP1, SMEM. */
#include <stdlib.h>

#include "tests/amdgcn/emulator/internal.h"

enum { ALWAYS, SCC0, SCC1, VCCZ, VCCNZ, EXECZ, EXECNZ };

static void jump(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t all = amdgcn_all(w), vcc = w->pair[SCALAR_VCC / 2] & all, exec = amdgcn_exec(w) & all;
    const bool taken[] = {true, !w->scc, w->scc, !vcc, vcc != 0, !exec, exec != 0};
    if (taken[i->op]) w->pc = i->target;
}

static void end(amdgcn_wave *w, const amdgcn_instruction *i) {
    (void)i;
    w->stopped = ENDED;
}

/* gfx12 signals and waits apart: the wait is where a wavefront stops, since all of them signal before they wait. */
static void barrier(amdgcn_wave *w, const amdgcn_instruction *i) {
    (void)i;
    w->stopped = UNTIL_BARRIER;
}

static void trap(amdgcn_wave *w, const amdgcn_instruction *i) {
    (void)i;
    amdgcn_fail(w, -1, "a trap");
}

/* -- the program counter */

enum { GET, SET, SWAP, CALL };

static void counter(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t base = (uint64_t)(uintptr_t)w->code->image, next = base + w->pc;
    uint64_t to = i->op == SET || i->op == SWAP ? amdgcn_scalar64(w, &i->in[0]) - base : w->pc;
    if (i->op == CALL) to = i->target;
    if (i->op != SET) amdgcn_set64(w, &i->out[0], next);
    w->pc = to;
}

/* -- loads */

/* op: bytes; negative: signed */
static void load(amdgcn_wave *w, const amdgcn_instruction *i) {
    unsigned bytes = (unsigned)abs(i->op);
    uint64_t address = amdgcn_scalar64(w, &i->in[0]) + (uint64_t)i->offset;
    if (i->sources > 1) /* an offset: a constant of 21 or 24 bits, signed, or a register */
        address += i->in[1].kind == CONSTANT ? i->in[1].constant : amdgcn_scalar32(w, &i->in[1], 0);
    if (bytes >= 4) address &= ~UINT64_C(3);
    const uint8_t *from = amdgcn_global(w, -1, address, bytes, false);
    if (!from) return;
    uint32_t words[16] = {0};
    memcpy(words, from, bytes);
    if (i->op == -1) words[0] = (uint32_t)(int32_t)(int8_t)words[0];
    if (i->op == -2) words[0] = (uint32_t)(int32_t)(int16_t)words[0];
    for (unsigned part = 0; part < (bytes + 3) / 4; part++) amdgcn_set32(w, &i->out[0], (int)part, words[part]);
}

/* The modes are those of the descriptor, which the launch has checked. Where scratch lies is no mode. */
static void mode(amdgcn_wave *w, const amdgcn_instruction *i) {
    if (!strstr(i->text, "HW_REG_FLAT_SCR")) amdgcn_fail(w, -1, "a change of modes");
}

/* The clock: instructions so far. */
static void count_clock(amdgcn_wave *w, const amdgcn_instruction *i) {
    amdgcn_set64(w, &i->out[0], w->machine->counts.instructions);
}

const amdgcn_opcode amdgcn_control_opcodes[] = {{"s_branch", jump, ALWAYS, "0"},
                                                {"s_cbranch_scc0", jump, SCC0, "0"},
                                                {"s_cbranch_scc1", jump, SCC1, "0"},
                                                {"s_cbranch_vccz", jump, VCCZ, "0"},
                                                {"s_cbranch_vccnz", jump, VCCNZ, "0"},
                                                {"s_cbranch_execz", jump, EXECZ, "0"},
                                                {"s_cbranch_execnz", jump, EXECNZ, "0"},
                                                {"s_endpgm", end, 0, "-"},
                                                {"s_endpgm_saved", end, 0, "-"},
                                                {"s_barrier", barrier, 0, "-"},
                                                {"s_barrier_wait", barrier, 0, "-"},
                                                {"s_barrier_signal", amdgcn_run_nothing, 0, "-"},
                                                {"s_trap", trap, 0, "-"},
                                                {"s_getpc_b64", counter, GET, "1"},
                                                {"s_setpc_b64", counter, SET, "0"},
                                                {"s_swappc_b64", counter, SWAP, "1"},
                                                {"s_call_b64", counter, CALL, "1"},
                                                {"s_nop", amdgcn_run_nothing, 0, "-"},
                                                {"s_waitcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_waitcnt_depctr", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_alu", amdgcn_run_nothing, 0, "-"},
                                                {"s_waitcnt_vscnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_waitcnt_vmcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_waitcnt_expcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_waitcnt_lgkmcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_loadcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_loadcnt_dscnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_storecnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_storecnt_dscnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_dscnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_kmcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_samplecnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_bvhcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_expcnt", amdgcn_run_nothing, 0, "-"},
                                                {"s_wait_idle", amdgcn_run_nothing, 0, "-"},
                                                {"s_delay_alu", amdgcn_run_nothing, 0, "-"},
                                                {"s_clause", amdgcn_run_nothing, 0, "-"},
                                                {"s_sendmsg", amdgcn_run_nothing, 0, "-"},
                                                {"s_sleep", amdgcn_run_nothing, 0, "-"},
                                                {"s_setprio", amdgcn_run_nothing, 0, "-"},
                                                {"s_inst_prefetch", amdgcn_run_nothing, 0, "-"},
                                                {"s_set_inst_prefetch_distance", amdgcn_run_nothing, 0, "-"},
                                                {"s_prefetch_inst", amdgcn_run_nothing, 0, "-"},
                                                {"s_prefetch_inst_pc_rel", amdgcn_run_nothing, 0, "-"},
                                                {"s_prefetch_data", amdgcn_run_nothing, 0, "-"},
                                                {"s_icache_inv", amdgcn_run_nothing, 0, "-"},
                                                {"s_dcache_inv", amdgcn_run_nothing, 0, "-"},
                                                {"s_dcache_wb", amdgcn_run_nothing, 0, "-"},
                                                {"s_code_end", trap, 0, "-"},
                                                {"s_ttracedata", amdgcn_run_nothing, 0, "-"},
                                                {"s_setreg_b32", mode, 0, "-"},
                                                {"s_setreg_imm32_b32", mode, 0, "-"},
                                                {"s_denorm_mode", mode, 0, "-"},
                                                {"s_round_mode", mode, 0, "-"},
                                                {"s_memtime", count_clock, 0, "1"},
                                                {"s_memrealtime", count_clock, 0, "1"},
                                                {"s_load_dword", load, 4, "1I"},
                                                {"s_load_dwordx2", load, 8, "1I"},
                                                {"s_load_dwordx4", load, 16, "1I"},
                                                {"s_load_dwordx8", load, 32, "1I"},
                                                {"s_load_dwordx16", load, 64, "1I"},
                                                {"s_load_b32", load, 4, "1I"},
                                                {"s_load_b64", load, 8, "1I"},
                                                {"s_load_b96", load, 12, "1I"},
                                                {"s_load_b128", load, 16, "1I"},
                                                {"s_load_b256", load, 32, "1I"},
                                                {"s_load_b512", load, 64, "1I"},
                                                {"s_load_u8", load, 1, "1I"},
                                                {"s_load_i8", load, -1, "1I"},
                                                {"s_load_u16", load, 2, "1I"},
                                                {"s_load_i16", load, -2, "1I"},
                                                {0}};
