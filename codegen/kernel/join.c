/* See join.h. A piece is copied instruction by instruction. Objects that a kernel declares once come first, for all
   pieces: buffers; shared memory, which pieces use in turn, as a block runs one of them; functions, which have to stand
   before any nest. The rest goes into the piece's branch, where `block` counts from its first block and `grid` is its
   number of blocks. */
#include "codegen/kernel/join.h"

#include "codegen/kernel/build.h"

#include <limits.h>

enum { UNKNOWN_TRIPS = 8 };

typedef struct joined {
    weft_kernel *k;
    weft_kval *slots;                  /* buffers */
    weft_kval *shared;                 /* shared objects so far, instructions of k */
    int shared_count, shared_capacity; /* capacity: of all pieces */
} joined;

bool weft_kernel_may_join(const weft_kernel *kernel) {
    if (kernel->cluster != 1 || kernel->failed) return false;
    for (size_t n = 0; n < kernel->instr_count; n++) {
        int op = kernel->instrs[n].op;
        if (op >= WEFT_K_tensor_map && op != WEFT_K_warp_uniform && op != WEFT_K_warp_sync) return false;
        if (op == WEFT_K_shared && !weft_dim_is_number(kernel->instrs[n].extent)) return false;
    }
    return true;
}

bool weft_kernel_may_idle(const weft_kernel *kernel) {
    for (size_t n = 0; n < kernel->instr_count; n++)
        if (kernel->instrs[n].op == WEFT_K_barrier) return false;
    return kernel->threads % kernel->capability->warp == 0;
}

static int64_t trips_of(const weft_kernel *kernel, const weft_kinstr *loop) {
    int64_t ends[3];
    if (loop->op == WEFT_K_while) return UNKNOWN_TRIPS;
    for (int i = 0; i < 3; i++)
        if (!weft_k_is_constant(kernel, weft_koperand(kernel, loop, i), &ends[i])) return UNKNOWN_TRIPS;
    if (ends[2] < 1 || ends[1] <= ends[0]) return 0;
    return (ends[1] - ends[0] + ends[2] - 1) / ends[2];
}

int64_t weft_kernel_length(const weft_kernel *kernel) {
    enum { DEPTH = 64 };
    int64_t trips[DEPTH + 1] = {1}, length = 0;
    int depth = 0;
    for (size_t n = 0; n < kernel->instr_count; n++) {
        const weft_kinstr *instr = &kernel->instrs[n];
        int64_t times = trips[depth < DEPTH ? depth : DEPTH], own = 1;
        switch ((int)instr->op) {
        case WEFT_K_for:
        case WEFT_K_while: own = trips_of(kernel, instr); break;
        case WEFT_K_if:
        case WEFT_K_func: break;
        case WEFT_K_end:
        case WEFT_K_func_end: depth--; continue;
        default:
            if (times > INT64_MAX / 2 - length) return INT64_MAX / 2;
            length += times;
            continue;
        }
        if (++depth > DEPTH) continue;
        trips[depth] = own && times > INT32_MAX / own ? INT32_MAX : times * own;
    }
    return length;
}

/* -- copying */

static weft_kval copy(joined *j, const weft_kernel *from, size_t n, weft_kval *map) {
    const weft_kinstr *instr = &from->instrs[n];
    weft_kernel *k = j->k;
    weft_kval few[16], *operands = few;
    if (instr->operand_count > 16)
        operands = weft_arena_allocate_array(k->arena, instr->operand_count, sizeof *operands);
    if (!operands) {
        k->failed = true;
        return 0;
    }
    for (int i = 0; i < instr->operand_count; i++) {
        weft_kval operand = weft_koperand(from, instr, i);
        operands[i] = operand == WEFT_KNONE ? WEFT_KNONE : map[operand];
    }
    weft_kval made =
        weft_kernel_emit(k, (weft_kop)instr->op, instr->type, instr->operand_count, operands, instr->i, instr->f);
    if (!k->failed) k->instrs[made].align_bytes = instr->align_bytes, k->instrs[made].extent = instr->extent;
    return made;
}

/* The object of this element type that the piece has not taken yet, at least as long. */
static weft_kval take_shared(joined *j, const weft_kinstr *instr, int *taken) {
    weft_kernel *k = j->k;
    for (int i = *taken; i < j->shared_count; i++) {
        weft_kinstr *own = &k->instrs[j->shared[i]];
        if (own->type.elem != instr->type.elem) continue;
        weft_kval found = j->shared[i];
        j->shared[i] = j->shared[*taken], j->shared[(*taken)++] = found;
        if (own->extent < instr->extent) own->extent = instr->extent;
        return found;
    }
    weft_kval made = weft_k_shared(k, (weft_dtype)instr->type.elem, instr->extent);
    j->shared[j->shared_count] = j->shared[*taken], j->shared[(*taken)++] = made;
    j->shared_count++;
    return made;
}

/* Declarations of a piece, into its map. */
static void declare(joined *j, const weft_join_piece *piece, weft_kval *map) {
    const weft_kernel *from = piece->kernel;
    int taken = 0;
    bool inside = false;
    for (size_t n = 0; n < from->instr_count && !j->k->failed; n++) {
        const weft_kinstr *instr = &from->instrs[n];
        if (instr->op == WEFT_K_func) inside = true;
        if (inside)
            map[n] = copy(j, from, n, map);
        else if (instr->op == WEFT_K_buffer)
            map[n] = j->slots[piece->slots[instr->i]];
        else if (instr->op == WEFT_K_shared)
            map[n] = take_shared(j, instr, &taken);
        if (instr->op == WEFT_K_func_end) inside = false;
    }
}

static void emit_body(joined *j, const weft_kernel *from, weft_kval block, weft_kval *map) {
    weft_kernel *k = j->k;
    bool inside = false, guarded = from->threads < k->threads;
    if (guarded) { /* by whole warps, which shuffles may rely on */
        int warp = k->capability->warp;
        weft_kval own = weft_k_div(k, weft_k_thread(k), weft_k_index(k, warp));
        weft_k_if(k, weft_k_lt(k, own, weft_k_index(k, from->threads / warp)));
    }
    for (size_t n = 0; n < from->instr_count && !k->failed; n++) {
        const weft_kinstr *instr = &from->instrs[n];
        if (instr->op == WEFT_K_func) inside = true;
        if (instr->op == WEFT_K_func_end) inside = false;
        if (inside || instr->op == WEFT_K_func_end || instr->op == WEFT_K_buffer || instr->op == WEFT_K_shared)
            continue;
        if (instr->op == WEFT_K_block)
            map[n] = block;
        else if (instr->op == WEFT_K_grid)
            map[n] = weft_k_extent(k, from->grid);
        else if (instr->op == WEFT_K_scalar_argument)
            map[n] = weft_k_extent(k, from->arguments[instr->i].extent);
        else
            map[n] = copy(j, from, n, map);
    }
    if (guarded) weft_k_end(k);
}

static void emit_pieces(joined *j, int count, const weft_join_piece *pieces, weft_kval *const *maps) {
    weft_kernel *k = j->k;
    weft_dim first = 0;
    for (int i = 0; i < count; i++) {
        weft_dim end = weft_dim_add(k->dims, first, pieces[i].kernel->grid);
        weft_kval block = weft_k_block(k);
        bool last = i + 1 == count;
        if (!last) weft_k_if(k, weft_k_lt(k, block, weft_k_extent(k, end)));
        emit_body(j, pieces[i].kernel, first == 0 ? block : weft_k_sub(k, block, weft_k_extent(k, first)), maps[i]);
        if (!last) weft_k_else(k);
        first = end;
    }
    for (int i = 0; i + 1 < count; i++) weft_k_end(k);
    k->grid = first;
}

static void make_slots(joined *j, int count, const weft_join_piece *pieces, int slot_count) {
    for (int s = 0; s < slot_count && !j->k->failed; s++) {
        weft_dtype dtype = WEFT_INVALID;
        bool writes = false;
        for (int i = 0; i < count; i++)
            for (size_t n = 0; n < pieces[i].kernel->argument_count; n++) {
                const weft_kargument *argument = &pieces[i].kernel->arguments[n];
                if (argument->source == WEFT_ARGUMENT_EXTENT || pieces[i].slots[n] != s) continue;
                dtype = argument->dtype, writes |= argument->writes;
            }
        j->slots[s] = weft_kernel_buffer(j->k, WEFT_ARGUMENT_TEMP, s, dtype, writes, NULL);
    }
}

weft_kernel *weft_kernel_join(weft_arena *arena, const char *name, int count, const weft_join_piece *pieces,
                              int slot_count) {
    const weft_kernel *first = pieces[0].kernel;
    joined j = {.k = weft_kernel_create(arena, first->dims, first->capability, name)};
    for (int i = 0; i < count; i++)
        for (size_t n = 0; n < pieces[i].kernel->instr_count; n++)
            j.shared_capacity += pieces[i].kernel->instrs[n].op == WEFT_K_shared;
    j.slots = weft_arena_allocate_array(arena, (size_t)slot_count + 1, sizeof *j.slots);
    j.shared = weft_arena_allocate_array(arena, (size_t)j.shared_capacity + 1, sizeof *j.shared);
    weft_kval **maps = weft_arena_allocate_array(arena, (size_t)count, sizeof *maps);
    if (!j.k || !j.slots || !j.shared || !maps) return NULL;
    bool budgeted = true;
    for (int i = 0; i < count; i++) {
        const weft_kernel *k = pieces[i].kernel;
        maps[i] = weft_arena_allocate_array(arena, k->instr_count + 1, sizeof **maps);
        if (!maps[i]) return NULL;
        if (k->threads > j.k->threads) j.k->threads = k->threads;
        if (k->registers > j.k->registers) j.k->registers = k->registers;
        budgeted &= k->registers > 0;
        j.k->subnormals |= k->subnormals;
    }
    if (!budgeted) j.k->registers = 0;
    make_slots(&j, count, pieces, slot_count);
    for (int i = 0; i < count; i++) declare(&j, &pieces[i], maps[i]);
    emit_pieces(&j, count, pieces, maps);
    return j.k;
}
