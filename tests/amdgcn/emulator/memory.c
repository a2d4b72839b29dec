/* Global, flat, scratch and buffer accesses. A flat address in an aperture means shared memory or scratch; buffers are
   met as descriptors of scratch alone (before gfx942), whose base lies in the scratch aperture. Scratch is private to
   each lane here, where the hardware interleaves lanes; the addresses that code computes are the same. Read next:
   shared.c. Source: AMD instruction set documents, FLAT, MUBUF; "User Guide for AMDGPU Backend", Memory Spaces. */
#include "tests/amdgcn/emulator/access.h"

static uint8_t *scratch_at(amdgcn_wave *w, int lane, uint64_t address, unsigned bytes) {
    if (address > (uint64_t)w->scratch_bytes || bytes > (uint64_t)w->scratch_bytes - address) {
        amdgcn_fail(w, lane, "an access of %u bytes at %#llx of %lld bytes of scratch", bytes,
                    (unsigned long long)address, (long long)w->scratch_bytes);
        return NULL;
    }
    return w->scratch + (int64_t)lane * w->scratch_bytes + address;
}

static uint8_t *shared_at(amdgcn_wave *w, int lane, uint64_t address, unsigned bytes) {
    if (address > (uint64_t)w->block->shared_bytes || bytes > (uint64_t)w->block->shared_bytes - address) {
        amdgcn_fail(w, lane, "an access of %u bytes at %#llx of %lld bytes of shared memory", bytes,
                    (unsigned long long)address, (long long)w->block->shared_bytes);
        return NULL;
    }
    return w->block->shared + address;
}

/* The three operands of an address, by the order of each kind's text. */
typedef struct place {
    const amdgcn_operand *vector, *scalar, *offset, *data;
} place;

static place place_of(const amdgcn_instruction *i, int space, bool has_data) {
    static const amdgcn_operand off = {.kind = OFF};
    place p = {&i->in[0], &off, &off, &i->in[0]};
    int next = 1;
    if (space == BUFFER && has_data) p.vector = &i->in[next++];
    if (space != BUFFER && has_data) p.data = &i->in[next++];
    if (next < i->sources) p.scalar = &i->in[next++];
    if (next < i->sources) p.offset = &i->in[next];
    return p;
}

static void addresses(amdgcn_wave *w, const amdgcn_instruction *i, int space, const place *p, uint64_t *out) {
    uint32_t words[LANES];
    uint64_t base = (uint64_t)i->offset;
    bool has_scalar = p->scalar->kind == SCALAR && p->scalar->index != SCALAR_NULL, narrow = space >= PRIVATE;
    if (space == BUFFER)
        base += amdgcn_scalar32(w, p->offset, 0) / (unsigned)w->lanes;
    else if (has_scalar)
        base += narrow ? amdgcn_scalar32(w, p->scalar, 0) : amdgcn_scalar64(w, p->scalar);
    if (p->vector->kind == OFF) {
        for (int l = 0; l < LANES; l++) out[l] = base;
    } else if (narrow || (has_scalar && space == GLOBAL)) {
        const uint32_t *v = amdgcn_words(w, p->vector, 0, words);
        for (int l = 0; l < LANES; l++) out[l] = base + v[l];
    } else {
        (void)amdgcn_wide(w, p->vector, out);
        for (int l = 0; l < LANES; l++) out[l] += base;
    }
    if (narrow)
        for (int l = 0; l < LANES; l++) out[l] = (uint32_t)out[l];
}

static bool known_buffer(amdgcn_wave *w, const place *p) {
    uint64_t base = amdgcn_scalar64(w, p->scalar) & UINT64_C(0xffffffffffff);
    if (base >= PRIVATE_APERTURE - 1 && base < PRIVATE_APERTURE + (UINT64_C(1) << 32)) return true;
    amdgcn_fail(w, -1, "a buffer that is not the scratch");
    return false;
}

static inline uint8_t *resolve(amdgcn_wave *w, int space, int lane, uint64_t address, unsigned bytes, bool writes) {
    if (space == GLOBAL) return amdgcn_global(w, lane, address, bytes, writes);
    if (space >= PRIVATE) return scratch_at(w, lane, address, bytes);
    uint64_t aperture = address & UINT64_C(0xffffffff00000000);
    if (aperture == SHARED_APERTURE) return shared_at(w, lane, address - aperture, bytes);
    if (aperture == PRIVATE_APERTURE) return scratch_at(w, lane, address - aperture, bytes);
    return amdgcn_global(w, lane, address, bytes, writes);
}

/* Do all active lanes' accesses to global memory lie in one range? Then none needs a look of its own. */
static bool all_inside(amdgcn_wave *w, const uint64_t *at, uint64_t exec, unsigned bytes, bool writes) {
    uint64_t low = UINT64_MAX, high = 0;
    for (int l = 0; l < w->lanes; l++) {
        if (!(exec >> l & 1)) continue;
        if (at[l] < low) low = at[l];
        if (at[l] > high) high = at[l];
    }
    if (low > high || high > UINT64_MAX - bytes) return false;
    const memory_range *range = ranges_find(&w->machine->ranges, low, high - low + bytes);
    return range && (range->writable || !writes);
}

static inline uint8_t *host(uint64_t address) { return (uint8_t *)(uintptr_t)address; } /* NOLINT: as amdgcn_global */

/* Whole words, of lanes that were looked at. */
static void load_words(amdgcn_wave *w, const amdgcn_instruction *i, const uint64_t *at, uint64_t exec, int words) {
    uint32_t(*rows)[LANES] = &w->rows[i->out[0].index];
    for (int l = 0; l < w->lanes; l++) {
        if (!(exec >> l & 1)) continue;
        uint32_t values[4];
        memcpy(values, host(at[l]), (size_t)words * 4);
        for (int word = 0; word < words; word++) rows[word][l] = values[word];
    }
}

static void store_words(amdgcn_wave *w, const place *p, const uint64_t *at, uint64_t exec, int words) {
    uint32_t(*rows)[LANES] = &w->rows[p->data->index];
    for (int l = 0; l < w->lanes; l++) {
        if (!(exec >> l & 1)) continue;
        uint32_t values[4];
        for (int word = 0; word < words; word++) values[word] = rows[word][l];
        memcpy(host(at[l]), values, (size_t)words * 4);
    }
}

static void load(amdgcn_wave *w, const amdgcn_instruction *i) {
    int space = i->op >> SPACE_SHIFT & 3, words = ((i->op & BYTES) + 3) / 4;
    unsigned bytes = (unsigned)i->op & BYTES;
    uint64_t at[LANES], exec = amdgcn_exec(w);
    place p = place_of(i, space, false);
    if (space == BUFFER && !known_buffer(w, &p)) return;
    addresses(w, i, space, &p, at);
    if (space == GLOBAL && bytes % 4 == 0 && all_inside(w, at, exec, bytes, false)) {
        load_words(w, i, at, exec, words);
        return;
    }
    for (int l = 0; l < w->lanes; l++) {
        if (!(exec >> l & 1)) continue;
        const uint8_t *from = resolve(w, space, l, at[l], bytes, false);
        if (!from) return;
        uint32_t values[4] = {0};
        memcpy(values, from, bytes);
        if (bytes < 4) values[0] = amdgcn_loaded(i->op, values[0], w->rows[i->out[0].index][l]);
        for (int word = 0; word < words; word++) w->rows[i->out[0].index + word][l] = values[word];
    }
}

static void store(amdgcn_wave *w, const amdgcn_instruction *i) {
    int space = i->op >> SPACE_SHIFT & 3, words = ((i->op & BYTES) + 3) / 4;
    unsigned bytes = (unsigned)i->op & BYTES;
    uint64_t at[LANES], exec = amdgcn_exec(w);
    place p = place_of(i, space, true);
    if (space == BUFFER && !known_buffer(w, &p)) return;
    addresses(w, i, space, &p, at);
    if (space == GLOBAL && bytes % 4 == 0 && !(i->op & HIGH_HALF) && all_inside(w, at, exec, bytes, true)) {
        store_words(w, &p, at, exec, words);
        return;
    }
    for (int l = 0; l < w->lanes; l++) {
        if (!(exec >> l & 1)) continue;
        uint8_t *to = resolve(w, space, l, at[l], bytes, true);
        if (!to) return;
        uint32_t values[4];
        for (int word = 0; word < words; word++) values[word] = w->rows[p.data->index + word][l];
        if (i->op & HIGH_HALF) values[0] >>= 16;
        memcpy(to, values, bytes);
    }
}

static void atomic(amdgcn_wave *w, const amdgcn_instruction *i) {
    int space = i->op >> SPACE_SHIFT & 3, bytes = i->op & BYTES, op = i->op >> ATOMIC_SHIFT, words = bytes / 4;
    uint64_t at[LANES], exec = amdgcn_exec(w);
    place p = place_of(i, space, true);
    addresses(w, i, space, &p, at);
    for (int l = 0; l < w->lanes; l++) {
        if (!(exec >> l & 1)) continue;
        uint8_t *to = resolve(w, space, l, at[l], (unsigned)bytes, true);
        if (!to) return;
        uint64_t old = 0, value[2] = {0};
        memcpy(&old, to, (size_t)bytes);
        for (int n = 0; n < (op == A_COMPARE ? 2 : 1); n++)
            for (int word = 0; word < words; word++)
                value[n] |= (uint64_t)w->rows[p.data->index + n * words + word][l] << 32 * word;
        uint64_t result = amdgcn_atomic_apply(op, bytes, old, value[0], value[1]);
        memcpy(to, &result, (size_t)bytes);
        for (int word = 0; word < words && i->returns; word++)
            w->rows[i->out[0].index + word][l] = (uint32_t)(old >> 32 * word);
    }
}

#define MOVES(PREFIX, SPACE)                                                                                           \
    {PREFIX "load_ubyte", load, 1 | SPACE << SPACE_SHIFT, "1"},                                                        \
        {PREFIX "load_u8", load, 1 | SPACE << SPACE_SHIFT, "1"},                                                       \
        {PREFIX "load_sbyte", load, 1 | EXTENDS | SPACE << SPACE_SHIFT, "1"},                                          \
        {PREFIX "load_i8", load, 1 | EXTENDS | SPACE << SPACE_SHIFT, "1"},                                             \
        {PREFIX "load_ushort", load, 2 | SPACE << SPACE_SHIFT, "1"},                                                   \
        {PREFIX "load_u16", load, 2 | SPACE << SPACE_SHIFT, "1"},                                                      \
        {PREFIX "load_sshort", load, 2 | EXTENDS | SPACE << SPACE_SHIFT, "1"},                                         \
        {PREFIX "load_i16", load, 2 | EXTENDS | SPACE << SPACE_SHIFT, "1"},                                            \
        {PREFIX "load_dword", load, 4 | SPACE << SPACE_SHIFT, "1"},                                                    \
        {PREFIX "load_b32", load, 4 | SPACE << SPACE_SHIFT, "1"},                                                      \
        {PREFIX "load_dwordx2", load, 8 | SPACE << SPACE_SHIFT, "1"},                                                  \
        {PREFIX "load_b64", load, 8 | SPACE << SPACE_SHIFT, "1"},                                                      \
        {PREFIX "load_dwordx3", load, 12 | SPACE << SPACE_SHIFT, "1"},                                                 \
        {PREFIX "load_b96", load, 12 | SPACE << SPACE_SHIFT, "1"},                                                     \
        {PREFIX "load_dwordx4", load, 16 | SPACE << SPACE_SHIFT, "1"},                                                 \
        {PREFIX "load_b128", load, 16 | SPACE << SPACE_SHIFT, "1"},                                                    \
        {PREFIX "load_ubyte_d16", load, 1 | LOW_HALF | SPACE << SPACE_SHIFT, "1"},                                     \
        {PREFIX "load_d16_u8", load, 1 | LOW_HALF | SPACE << SPACE_SHIFT, "1"},                                        \
        {PREFIX "load_sbyte_d16", load, 1 | EXTENDS | LOW_HALF | SPACE << SPACE_SHIFT, "1"},                           \
        {PREFIX "load_d16_i8", load, 1 | EXTENDS | LOW_HALF | SPACE << SPACE_SHIFT, "1"},                              \
        {PREFIX "load_short_d16", load, 2 | LOW_HALF | SPACE << SPACE_SHIFT, "1"},                                     \
        {PREFIX "load_d16_b16", load, 2 | LOW_HALF | SPACE << SPACE_SHIFT, "1"},                                       \
        {PREFIX "load_ubyte_d16_hi", load, 1 | HIGH_HALF | SPACE << SPACE_SHIFT, "1"},                                 \
        {PREFIX "load_d16_hi_u8", load, 1 | HIGH_HALF | SPACE << SPACE_SHIFT, "1"},                                    \
        {PREFIX "load_sbyte_d16_hi", load, 1 | EXTENDS | HIGH_HALF | SPACE << SPACE_SHIFT, "1"},                       \
        {PREFIX "load_d16_hi_i8", load, 1 | EXTENDS | HIGH_HALF | SPACE << SPACE_SHIFT, "1"},                          \
        {PREFIX "load_short_d16_hi", load, 2 | HIGH_HALF | SPACE << SPACE_SHIFT, "1"},                                 \
        {PREFIX "load_d16_hi_b16", load, 2 | HIGH_HALF | SPACE << SPACE_SHIFT, "1"},                                   \
        {PREFIX "store_byte", store, 1 | SPACE << SPACE_SHIFT, "0"},                                                   \
        {PREFIX "store_b8", store, 1 | SPACE << SPACE_SHIFT, "0"},                                                     \
        {PREFIX "store_short", store, 2 | SPACE << SPACE_SHIFT, "0"},                                                  \
        {PREFIX "store_b16", store, 2 | SPACE << SPACE_SHIFT, "0"},                                                    \
        {PREFIX "store_dword", store, 4 | SPACE << SPACE_SHIFT, "0"},                                                  \
        {PREFIX "store_b32", store, 4 | SPACE << SPACE_SHIFT, "0"},                                                    \
        {PREFIX "store_dwordx2", store, 8 | SPACE << SPACE_SHIFT, "0"},                                                \
        {PREFIX "store_b64", store, 8 | SPACE << SPACE_SHIFT, "0"},                                                    \
        {PREFIX "store_dwordx3", store, 12 | SPACE << SPACE_SHIFT, "0"},                                               \
        {PREFIX "store_b96", store, 12 | SPACE << SPACE_SHIFT, "0"},                                                   \
        {PREFIX "store_dwordx4", store, 16 | SPACE << SPACE_SHIFT, "0"},                                               \
        {PREFIX "store_b128", store, 16 | SPACE << SPACE_SHIFT, "0"},                                                  \
        {PREFIX "store_byte_d16_hi", store, 1 | HIGH_HALF | SPACE << SPACE_SHIFT, "0"},                                \
        {PREFIX "store_d16_hi_b8", store, 1 | HIGH_HALF | SPACE << SPACE_SHIFT, "0"},                                  \
        {PREFIX "store_short_d16_hi", store, 2 | HIGH_HALF | SPACE << SPACE_SHIFT, "0"},                               \
        {PREFIX "store_d16_hi_b16", store, 2 | HIGH_HALF | SPACE << SPACE_SHIFT, "0"}

#define ATOMIC(PREFIX, SPACE, NAME, OP, BYTES_)                                                                        \
    {PREFIX "atomic_" NAME, atomic, BYTES_ | SPACE << SPACE_SHIFT | OP << ATOMIC_SHIFT, "?"}
/* The names up to gfx10, then those from gfx11 on. */
#define ATOMIC_PAIR(PREFIX, SPACE, OLD, LETTER, OP)                                                                    \
    ATOMIC(PREFIX, SPACE, OLD, OP, 4), ATOMIC(PREFIX, SPACE, OLD "_x2", OP, 8),                                        \
        ATOMIC(PREFIX, SPACE, OLD "_" LETTER "32", OP, 4), ATOMIC(PREFIX, SPACE, OLD "_" LETTER "64", OP, 8)
#define ATOMICS(PREFIX, SPACE)                                                                                         \
    ATOMIC_PAIR(PREFIX, SPACE, "swap", "b", A_SWAP), ATOMIC_PAIR(PREFIX, SPACE, "cmpswap", "b", A_COMPARE),            \
        ATOMIC_PAIR(PREFIX, SPACE, "add", "u", A_ADD), ATOMIC_PAIR(PREFIX, SPACE, "sub", "u", A_SUB),                  \
        ATOMIC(PREFIX, SPACE, "smin", A_MIN_I, 4), ATOMIC(PREFIX, SPACE, "smin_x2", A_MIN_I, 8),                       \
        ATOMIC(PREFIX, SPACE, "umin", A_MIN_U, 4), ATOMIC(PREFIX, SPACE, "umin_x2", A_MIN_U, 8),                       \
        ATOMIC(PREFIX, SPACE, "smax", A_MAX_I, 4), ATOMIC(PREFIX, SPACE, "smax_x2", A_MAX_I, 8),                       \
        ATOMIC(PREFIX, SPACE, "umax", A_MAX_U, 4), ATOMIC(PREFIX, SPACE, "umax_x2", A_MAX_U, 8),                       \
        ATOMIC(PREFIX, SPACE, "min_i32", A_MIN_I, 4), ATOMIC(PREFIX, SPACE, "min_i64", A_MIN_I, 8),                    \
        ATOMIC(PREFIX, SPACE, "min_u32", A_MIN_U, 4), ATOMIC(PREFIX, SPACE, "min_u64", A_MIN_U, 8),                    \
        ATOMIC(PREFIX, SPACE, "max_i32", A_MAX_I, 4), ATOMIC(PREFIX, SPACE, "max_i64", A_MAX_I, 8),                    \
        ATOMIC(PREFIX, SPACE, "max_u32", A_MAX_U, 4), ATOMIC(PREFIX, SPACE, "max_u64", A_MAX_U, 8),                    \
        ATOMIC_PAIR(PREFIX, SPACE, "and", "b", A_AND), ATOMIC_PAIR(PREFIX, SPACE, "or", "b", A_OR),                    \
        ATOMIC_PAIR(PREFIX, SPACE, "xor", "b", A_XOR), ATOMIC_PAIR(PREFIX, SPACE, "inc", "u", A_INC),                  \
        ATOMIC_PAIR(PREFIX, SPACE, "dec", "u", A_DEC), ATOMIC(PREFIX, SPACE, "add_f32", A_ADD_F, 4),                   \
        ATOMIC(PREFIX, SPACE, "add_f64", A_ADD_F, 8), ATOMIC(PREFIX, SPACE, "pk_add_f16", A_ADD_PAIR, 4),              \
        ATOMIC(PREFIX, SPACE, "min_f32", A_MIN_F, 4), ATOMIC(PREFIX, SPACE, "min_num_f32", A_MIN_F, 4),                \
        ATOMIC(PREFIX, SPACE, "min_f64", A_MIN_F, 8), ATOMIC(PREFIX, SPACE, "max_f32", A_MAX_F, 4),                    \
        ATOMIC(PREFIX, SPACE, "max_num_f32", A_MAX_F, 4), ATOMIC(PREFIX, SPACE, "max_f64", A_MAX_F, 8)

const amdgcn_opcode amdgcn_memory_opcodes[] = {MOVES("global_", GLOBAL),
                                               MOVES("flat_", FLAT),
                                               MOVES("scratch_", PRIVATE),
                                               MOVES("buffer_", BUFFER),
                                               ATOMICS("global_", GLOBAL),
                                               ATOMICS("flat_", FLAT),
                                               {"buffer_gl0_inv", amdgcn_run_nothing, 0, "-"},
                                               {"buffer_gl1_inv", amdgcn_run_nothing, 0, "-"},
                                               {"buffer_wbl2", amdgcn_run_nothing, 0, "-"},
                                               {"buffer_invl2", amdgcn_run_nothing, 0, "-"},
                                               {"buffer_inv", amdgcn_run_nothing, 0, "-"},
                                               {"buffer_wbinvl1", amdgcn_run_nothing, 0, "-"},
                                               {"buffer_wbinvl1_vol", amdgcn_run_nothing, 0, "-"},
                                               {"global_inv", amdgcn_run_nothing, 0, "-"},
                                               {"global_wb", amdgcn_run_nothing, 0, "-"},
                                               {"global_wbinv", amdgcn_run_nothing, 0, "-"},
                                               {0}};
