/* Loads, stores, atomics, asynchronous copies, and addresses between spaces. Shared memory counts from 0, as the
   thread's own does; as generic addresses both lie in windows above the host's. Read next: warp.c. Source: "Parallel
   Thread Execution ISA", Data Movement; Parallel Synchronization. */
#include <math.h>
#include <stdio.h>

#include "tests/ptx/interpreter/internal.h"

enum { GENERIC, GLOBAL, SHARED, LOCAL, PARAM };
enum { SIGNED = 1 };

static uint8_t *inside(ptx_warp *w, int lane, uint8_t *base, uint64_t size, uint64_t at, int bytes, const char *what) {
    if (at <= size && (uint64_t)bytes <= size - at) return base + at;
    ptx_fail(w, lane, "an access of %d bytes at %#llx of %llu bytes of %s", bytes, (unsigned long long)at,
             (unsigned long long)size, what);
    return NULL;
}

static uint8_t *place(ptx_warp *w, int lane, int space, uint64_t at, int bytes, bool writes) {
    if (at % (uint64_t)bytes) {
        ptx_fail(w, lane, "an access of %d bytes at %#llx, which is not a multiple of that", bytes,
                 (unsigned long long)at);
        return NULL;
    }
    if (space == GENERIC) {
        uint64_t window = at & UINT64_C(0xffffffff00000000);
        space = window == SHARED_WINDOW ? SHARED : window == LOCAL_WINDOW ? LOCAL : GLOBAL;
        if (space != GLOBAL) at -= window;
    }
    if (space == SHARED) return inside(w, lane, w->block->shared, w->block->shared_bytes, at, bytes, "shared memory");
    if (space == LOCAL)
        return inside(w, lane, w->local + (uint64_t)lane * w->kernel->local_bytes, w->kernel->local_bytes, at, bytes,
                      "local memory");
    if (space == PARAM)
        return inside(w, lane, (uint8_t *)(uintptr_t)w->parameters, (uint64_t)w->kernel->parameter_bytes, at, bytes,
                      "parameters");
    const memory_range *range = ranges_find(&w->machine->ranges, at, (uint64_t)bytes);
    if (range && (range->writable || !writes)) return (uint8_t *)(uintptr_t)at; /* NOLINT: the host's addresses */
    ptx_fail(w, lane, "%s of %d bytes at %#llx, %s", writes ? "a store" : "a load", bytes, (unsigned long long)at,
             range ? "which is read only" : "outside of every buffer");
    return NULL;
}

static uint64_t address(const ptx_warp *w, const ptx_operand *o, int lane) {
    return o->index < 0 ? o->value : w->rows[o->index][lane] + o->value;
}

static int part_of(const ptx_operand *o, int part) { return o->kind == VECTOR ? o->parts[part] : o->index; }

static void load(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    int bytes = i->bytes;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t at = address(w, &i->operands[1], l);
        if (i->vector > 1 && at % (uint64_t)(bytes * i->vector)) {
            ptx_fail(w, l, "a load of %d bytes at %#llx, which is not a multiple of that", bytes * i->vector,
                     (unsigned long long)at);
            return;
        }
        for (int part = 0; part < i->vector; part++) {
            const uint8_t *from = place(w, l, i->space, at + (uint64_t)(part * bytes), bytes, false);
            if (!from) return;
            uint64_t value = 0;
            memcpy(&value, from, (size_t)bytes);
            if (i->type & SIGNED) value = (uint64_t)((int64_t)(value << (64 - 8 * bytes)) >> (64 - 8 * bytes));
            ptx_put(w, part_of(&i->operands[0], part), l, value);
        }
    }
}

static void store(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t at = address(w, &i->operands[0], l);
        if (i->vector > 1 && at % (uint64_t)(i->bytes * i->vector)) {
            ptx_fail(w, l, "a store of %d bytes at %#llx, which is not a multiple of that", i->bytes * i->vector,
                     (unsigned long long)at);
            return;
        }
        for (int part = 0; part < i->vector; part++) {
            const ptx_operand *o = &i->operands[1];
            uint64_t value = o->kind == VECTOR ? w->rows[o->parts[part]][l] : ptx_get(w, o, l);
            uint8_t *to = place(w, l, i->space, at + (uint64_t)(part * i->bytes), i->bytes, true);
            if (!to) return;
            memcpy(to, &value, (size_t)i->bytes);
        }
    }
}

/* -- atomics */

enum { A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_INC, A_DEC };
static const char *const atomic_names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
enum { T_UNSIGNED, T_SIGNED, T_FLOAT };

static uint64_t atomic_result(const ptx_instruction *i, uint64_t old, uint64_t b, uint64_t c) {
    int shift = 64 - 8 * i->bytes;
    if (i->type == T_FLOAT && i->op == A_ADD)
        return i->bytes == 4 ? number_bits32(number_f32(old) + number_f32(b))
                             : number_bits64(number_f64(old) + number_f64(b));
    bool less = i->type == T_SIGNED ? (int64_t)(old << shift) < (int64_t)(b << shift) : old < b;
    switch (i->op) {
    case A_ADD: return old + b;
    case A_MIN: return less ? old : b;
    case A_MAX: return less ? b : old;
    case A_AND: return old & b;
    case A_OR: return old | b;
    case A_XOR: return old ^ b;
    case A_EXCH: return b;
    case A_CAS: return old == b ? c : old;
    case A_INC: return old >= b ? 0 : old + 1;
    default: return old == 0 || old > b ? b : old - 1;
    }
}

/* atom d, [a], b{, c}; red [a], b */
static void atomic(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    bool returns = i->operands[0].kind != ADDRESS;
    const ptx_operand *at = &i->operands[returns], *b = at + 1;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint8_t *memory = place(w, l, i->space, address(w, at, l), i->bytes, true);
        if (!memory) return;
        uint64_t old = 0;
        memcpy(&old, memory, (size_t)i->bytes);
        uint64_t result = atomic_result(i, old, ptx_get(w, b, l), i->op == A_CAS ? ptx_get(w, b + 1, l) : 0);
        memcpy(memory, &result, (size_t)i->bytes);
        if (returns) ptx_put(w, i->operands[0].index, l, old);
    }
}

/* -- cp.async: what is behind the bytes that are read is filled with zeros; it lands when its group is waited for */

static void copy(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        int bytes = (int)i->operands[2].value, used = i->count > 3 ? (int)ptx_get(w, &i->operands[3], l) : bytes;
        if ((bytes != 4 && bytes != 8 && bytes != 16) || used < 0 || used > bytes) {
            ptx_fail(w, l, "a copy of %d of %d bytes", used, bytes);
            return;
        }
        uint8_t *to = place(w, l, SHARED, address(w, &i->operands[0], l), bytes, true);
        const uint8_t *from = NULL;
        if (used) from = place(w, l, GLOBAL, address(w, &i->operands[1], l), used, false);
        if (!to || (used && !from)) return;
        if (w->copy_count == w->copy_capacity) {
            ptx_copy *grown = realloc(w->copies, (size_t)(w->copy_capacity * 2 + 64) * sizeof *grown);
            if (!grown) {
                ptx_fail(w, l, "no memory for copies");
                return;
            }
            w->copies = grown, w->copy_capacity = w->copy_capacity * 2 + 64;
        }
        w->copies[w->copy_count++] = (ptx_copy){to, from, used, bytes - used, l, w->group};
    }
}

static void commit(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    (void)i;
    if (lanes != w->alive) ptx_fail(w, -1, "a commit that not all threads of a warp reach");
    w->group++;
}

/* All but the last `op` committed groups; wait_all: the ones that are not committed, too. */
static void land(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    (void)lanes;
    unsigned kept = i->count ? (unsigned)i->operands[0].value : 0, below = w->group > kept ? w->group - kept : 0;
    int left = 0;
    for (int c = 0; c < w->copy_count; c++) {
        ptx_copy one = w->copies[c];
        if (i->count && one.group >= below) {
            w->copies[left++] = one;
            continue;
        }
        if (one.bytes) memcpy(one.to, one.from, (size_t)one.bytes);
        memset(one.to + one.bytes, 0, (size_t)one.zeros);
    }
    w->copy_count = left;
}

/* -- matrices of 8 x 8 halves: lane l of eight gives row l's address; lane l receives two columns of row l / 4 */

static void load_matrix(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    uint16_t values[4][8][8];
    if (lanes != UINT32_MAX) {
        ptx_fail(w, -1, "ldmatrix without all threads of a warp");
        return;
    }
    for (int matrix = 0; matrix < i->vector; matrix++)
        for (int row = 0; row < 8; row++) {
            int lane = matrix * 8 + row;
            uint64_t at = address(w, &i->operands[1], lane);
            const uint8_t *from = place(w, lane, SHARED, at, 16, false);
            if (!from) return;
            memcpy(values[matrix][row], from, 16);
        }
    for (int matrix = 0; matrix < i->vector; matrix++)
        for (int l = 0; l < LANES; l++) {
            int row = l / 4, column = l % 4 * 2;
            uint64_t low = i->op ? values[matrix][column][row] : values[matrix][row][column],
                     high = i->op ? values[matrix][column + 1][row] : values[matrix][row][column + 1];
            ptx_put(w, part_of(&i->operands[0], matrix), l, low | high << 16);
        }
}

/* -- addresses between spaces */

static void to_generic(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    uint64_t window = i->space == SHARED ? SHARED_WINDOW : i->space == LOCAL ? LOCAL_WINDOW : 0;
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) ptx_put(w, i->operands[0].index, l, ptx_get(w, &i->operands[1], l) + window);
}

static void from_generic(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    uint64_t window = i->space == SHARED ? SHARED_WINDOW : i->space == LOCAL ? LOCAL_WINDOW : 0;
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) ptx_put(w, i->operands[0].index, l, ptx_get(w, &i->operands[1], l) - window);
}

static void nothing(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) { (void)w, (void)i, (void)lanes; }

/* -- names */

static int space_of(const char *word) {
    static const char *const names[] = {"", "global", "shared", "local", "param"};
    for (int s = GLOBAL; s <= PARAM; s++)
        if (!strcmp(word, names[s])) return s;
    if (!strcmp(word, "shared::cta")) return SHARED;
    return !strcmp(word, "const") ? GLOBAL : -1;
}

/* The pieces behind the first; false at one that is not known. */
static bool read_pieces(ptx_instruction *i, bool is_atomic) {
    const char *at = strchr(i->name, '.');
    i->vector = 1, i->space = GENERIC, i->op = -1;
    while (at) {
        char word[NAME];
        size_t length = strcspn(++at, ".");
        memcpy(word, at, length);
        word[length] = 0;
        at = at[length] ? at + length : NULL;
        int space = space_of(word), bits = 0;
        char kind = 0;
        if (space >= 0) {
            i->space = space;
            continue;
        }
        if (!strcmp(word, "v2") || !strcmp(word, "v4")) {
            i->vector = word[1] - '0';
            continue;
        }
        bool found = false;
        for (size_t a = 0; is_atomic && a < sizeof atomic_names / sizeof *atomic_names; a++)
            if (!strcmp(word, atomic_names[a])) i->op = (int)a, found = true;
        if (found) continue;
        if (sscanf(word, "%c%d", &kind, &bits) != 2 || !strchr("usbf", kind) || bits % 8 || bits > 64) return false;
        i->bytes = bits / 8;
        i->type = is_atomic ? (kind == 's' ? T_SIGNED : kind == 'f' ? T_FLOAT : T_UNSIGNED) : kind == 's' ? SIGNED : 0;
    }
    return i->bytes > 0;
}

bool ptx_prepare_memory(ptx_instruction *i) {
    static const struct {
        const char *start;
        ptx_handler run;
    } families[] = {{"ld.", load}, {"st.", store}, {"atom.", atomic}, {"red.", atomic}};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        if (!strncmp(i->name, families[f].start, strlen(families[f].start))) {
            i->run = families[f].run;
            bool is_atomic = families[f].run == atomic;
            return read_pieces(i, is_atomic) && (!is_atomic || i->op >= 0);
        }
    if (!strncmp(i->name, "cvta.", 5)) {
        bool to = !strncmp(i->name + 5, "to.", 3);
        const char *word = i->name + (to ? 8 : 5);
        char space[NAME];
        size_t length = strcspn(word, ".");
        memcpy(space, word, length);
        space[length] = 0;
        i->space = space_of(space), i->run = to ? from_generic : to_generic;
        return i->space >= 0;
    }
    if (!strncmp(i->name, "ldmatrix.sync.m8n8.x", 20)) {
        i->vector = i->name[20] - '0', i->op = strstr(i->name, ".trans") != NULL, i->run = load_matrix;
        return strstr(i->name, ".shared") && (i->vector == 1 || i->vector == 2 || i->vector == 4);
    }
    if (!strcmp(i->name, "cp.async.commit_group")) return i->run = commit, true;
    if (!strcmp(i->name, "cp.async.wait_group") || !strcmp(i->name, "cp.async.wait_all")) return i->run = land, true;
    if (!strncmp(i->name, "cp.async.c", 10) && strstr(i->name, ".shared.global")) return i->run = copy, true;
    if (!strncmp(i->name, "prefetch", 8)) return i->run = nothing, true;
    return false;
}
