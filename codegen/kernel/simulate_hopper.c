/* The Hopper rows: asynchronous loads, stores and matrix operations, and the barriers that order them. */
#include "codegen/kernel/simulate_internal.h"

bool weft_sim_is_hopper(weft_kop op) {
    (void)op;
    return false;
}

int weft_sim_hopper_agents(const weft_kernel *kernel) {
    (void)kernel;
    return 0;
}

bool weft_sim_hopper(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, bool *out_passed) {
    (void)instr;
    *out_passed = false;
    return weft_sim_fault(sim, thread, "the simulator does not know this instruction");
}

bool weft_sim_group_begin(weft_sim *sim) { return !sim->status; }
bool weft_sim_group_end(weft_sim *sim) { return !sim->status; }
bool weft_sim_group_land(weft_sim *sim) {
    (void)sim;
    return false;
}
