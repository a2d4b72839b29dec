/* The JIT cache. Invariant: an entry's program accepts exactly the symbol values that agree with `fixed` and hold its
   guards; `last` is the entry of the last successful choice and owns the current states. */
#include "runtime/jit.h"

#include <string.h>

#include "base/text.h"
#include "runtime/session.h"

enum { DEFAULT_CAPACITY = 8 };

typedef struct jit_entry {
    weft_program *program;
    weft_session *session;
    int64_t *fixed;
    int number; /* of the compile, from 1 */
    uint64_t used;
} jit_entry;

struct weft_jit {
    weft_jit_options options;
    int symbol_count, entry_count, compile_count;
    jit_entry *entries; /* capacity */
    jit_entry *last;
    int64_t *symbols;       /* values of this call */
    int64_t *seen;          /* first value of each symbol; WEFT_DIM_ANY before the first call */
    bool *symbolic;         /* anonymous symbols that came with a second value, and declared ones */
    int64_t *guard_symbols; /* values in a program's own table, for finding the guard that fails */
    size_t guard_symbol_count;
    uint64_t clock;
    bool warned;
};

static weft_allocator allocator_of(const weft_jit *jit) { return jit->options.context->allocator; }

static void entry_clear(const weft_jit *jit, jit_entry *entry) {
    weft_session_release(entry->session);
    weft_program_release(entry->program);
    weft_free(allocator_of(jit), entry->fixed, (size_t)jit->symbol_count * sizeof *entry->fixed);
    *entry = (jit_entry){0};
}

void weft_jit_release(weft_jit *jit) {
    if (!jit) return;
    weft_context *context = jit->options.context;
    size_t count = (size_t)jit->symbol_count;
    for (int i = 0; i < jit->entry_count; i++) entry_clear(jit, &jit->entries[i]);
    weft_free(context->allocator, jit->entries, (size_t)jit->options.capacity * sizeof *jit->entries);
    weft_free(context->allocator, jit->symbols, count * sizeof *jit->symbols);
    weft_free(context->allocator, jit->seen, count * sizeof *jit->seen);
    weft_free(context->allocator, jit->symbolic, count * sizeof *jit->symbolic);
    weft_free(context->allocator, jit->guard_symbols, jit->guard_symbol_count * sizeof *jit->guard_symbols);
    weft_free(context->allocator, jit, sizeof *jit);
    weft_context_release(context);
}

weft_status weft_jit_create(const weft_jit_options *options, weft_jit **out_jit) {
    *out_jit = NULL;
    weft_jit *jit = weft_allocate(options->context->allocator, sizeof *jit);
    if (!jit) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a JIT cache");
    jit->options = *options;
    if (jit->options.capacity <= 0) jit->options.capacity = DEFAULT_CAPACITY;
    weft_context_retain(options->context);
    jit->symbol_count = weft_dim_symbol_count(options->signature->dims);
    size_t count = (size_t)jit->symbol_count;
    jit->entries = weft_allocate(allocator_of(jit), (size_t)jit->options.capacity * sizeof *jit->entries);
    jit->symbols = weft_allocate(allocator_of(jit), count * sizeof *jit->symbols);
    jit->seen = weft_allocate(allocator_of(jit), count * sizeof *jit->seen);
    jit->symbolic = weft_allocate(allocator_of(jit), count * sizeof *jit->symbolic);
    if (!jit->entries || !jit->symbols || !jit->seen || !jit->symbolic) {
        weft_jit_release(jit);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a JIT cache");
    }
    for (int i = 0; i < jit->symbol_count; i++) {
        jit->seen[i] = WEFT_DIM_ANY;
        jit->symbolic[i] = weft_dim_symbol_get(options->signature->dims, i)->origin != WEFT_SYMBOL_ANONYMOUS;
    }
    *out_jit = jit;
    return NULL;
}

int weft_jit_compile_count(const weft_jit *jit) { return jit->compile_count; }

weft_session *weft_jit_session(const weft_jit *jit) { return jit->last ? jit->last->session : NULL; }

static const char *symbol_name(const weft_jit *jit, int symbol) {
    return weft_dim_symbol_get(jit->options.signature->dims, symbol)->name;
}

/* The number of fixed symbols, all of them as fixed; -1 when one differs. */
static int agreement(const weft_jit *jit, const jit_entry *entry) {
    int count = 0;
    for (int i = 0; i < jit->symbol_count; i++) {
        if (entry->fixed[i] == WEFT_DIM_ANY) continue;
        if (entry->fixed[i] != jit->symbols[i]) return -1;
        count++;
    }
    return count;
}

typedef struct guard_fixer {
    const weft_jit *jit;
    const weft_dim_table *dims;
    int64_t *fixed;
} guard_fixer;

static bool fix_symbol(void *self, int symbol) {
    guard_fixer *fixer = self;
    int index =
        weft_dim_symbol_find(fixer->jit->options.signature->dims, weft_dim_symbol_get(fixer->dims, symbol)->name);
    if (index >= 0) fixer->fixed[index] = fixer->jit->symbols[index];
    return true;
}

static weft_status reserve_guard_symbols(weft_jit *jit, const weft_program_data *data) {
    size_t count = (size_t)weft_dim_symbol_count(data->dims);
    if (count <= jit->guard_symbol_count) return NULL;
    int64_t *grown = weft_allocate(allocator_of(jit), count * sizeof *grown);
    if (!grown) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to check guards");
    weft_free(allocator_of(jit), jit->guard_symbols, jit->guard_symbol_count * sizeof *grown);
    jit->guard_symbols = grown;
    jit->guard_symbol_count = count;
    return NULL;
}

/* Does the program take these inputs? fixed != NULL: fixes the symbols of the first guard that fails. */
static weft_status check_program(weft_jit *jit, const weft_program *program, int input_count,
                                 weft_tensor *const *inputs, int64_t *fixed) {
    const weft_program_data *data = program->data;
    WEFT_TRY(reserve_guard_symbols(jit, data), "guards");
    weft_status status = weft_program_bind(data, input_count, inputs, jit->guard_symbols);
    if (weft_status_code(status) != WEFT_GUARD_FAILED || !fixed) return status;
    guard_fixer fixer = {jit, data->dims, fixed};
    for (int i = 0; i < data->guard_count; i++) {
        const weft_condition *condition = &data->guards[i].condition;
        if (weft_condition_holds(data->dims, condition, jit->guard_symbols)) continue;
        if (!weft_dim_visit_symbols(data->dims, condition->lhs, fix_symbol, &fixer) ||
            !weft_dim_visit_symbols(data->dims, condition->rhs, fix_symbol, &fixer))
            break;
        break;
    }
    return status;
}

/* The most specialised entry that takes the inputs, the latest of several; NULL when none does. Then reason says why,
   and fixed holds the symbols of a guard that failed. */
static weft_status find_entry(weft_jit *jit, int input_count, weft_tensor *const *inputs, int64_t *fixed,
                              weft_text *reason, jit_entry **out_entry) {
    int best = -1;
    *out_entry = NULL;
    for (int i = 0; i < jit->entry_count; i++) {
        jit_entry *entry = &jit->entries[i];
        int count = agreement(jit, entry);
        if (count < 0 || count < best || (count == best && *out_entry && (*out_entry)->used > entry->used)) continue;
        weft_status status = check_program(jit, entry->program, input_count, inputs, fixed);
        if (!status) {
            best = count;
            *out_entry = entry;
            continue;
        }
        if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
        weft_text_append(reason, "%sprogram %d: %s", reason->length ? "; " : "", entry->number,
                         weft_status_message(status));
        weft_status_release(status);
    }
    return NULL;
}

/* Symbols with a second value become symbolic; the others are fixed as seen. */
static void choose_fixed(weft_jit *jit, int64_t *fixed, weft_text *reason) {
    bool everything = jit->compile_count >= jit->options.capacity;
    for (int i = 0; i < jit->symbol_count; i++) {
        if (jit->seen[i] == WEFT_DIM_ANY) jit->seen[i] = jit->symbols[i];
        if (!jit->symbolic[i] && jit->seen[i] != jit->symbols[i]) {
            jit->symbolic[i] = true;
            weft_text_append(reason, "%s%s was %lld, is %lld: symbolic from now on", reason->length ? "; " : "",
                             symbol_name(jit, i), (long long)jit->seen[i], (long long)jit->symbols[i]);
        }
        if (everything) jit->symbolic[i] = true;
        if (!jit->symbolic[i]) fixed[i] = jit->seen[i];
    }
    if (!reason->length) weft_text_append(reason, jit->compile_count ? "no cached program fits" : "first call");
}

static void log_compile(weft_jit *jit, const int64_t *fixed, const weft_text *reason) {
    weft_text list;
    weft_text_init(allocator_of(jit), &list);
    for (int i = 0; i < jit->symbol_count; i++)
        if (fixed[i] != WEFT_DIM_ANY)
            weft_text_append(&list, "%s%s = %lld", list.length ? ", " : "", symbol_name(jit, i), (long long)fixed[i]);
    weft_context_log(jit->options.context, WEFT_LOG_INFO, "compile %d of %s, fixed: %s; reason: %s",
                     jit->compile_count + 1, jit->options.signature->name,
                     list.length ? weft_text_string(&list) : "nothing", weft_text_string(reason));
    weft_text_deinit(&list);
    if (jit->compile_count < jit->options.capacity) return;
    weft_context_log(
        jit->options.context, jit->warned ? WEFT_LOG_INFO : WEFT_LOG_WARNING,
        "%s was compiled %d times: from now on the most general program serves, and the least recently used one goes; "
        "declare the extents that vary (last reason: %s)",
        jit->options.signature->name, jit->compile_count, weft_text_string(reason));
    jit->warned = true;
}

/* The slot for one more entry: a free one, else the least recently used. */
static jit_entry *find_slot(weft_jit *jit) {
    if (jit->entry_count < jit->options.capacity) return &jit->entries[jit->entry_count];
    jit_entry *oldest = &jit->entries[0];
    for (int i = 1; i < jit->entry_count; i++)
        if (jit->entries[i].used < oldest->used) oldest = &jit->entries[i];
    return oldest;
}

static weft_status fill_entry(weft_jit *jit, int input_count, weft_tensor *const *inputs, const int64_t *fixed,
                              jit_entry *entry) {
    WEFT_TRY(jit->options.compile(jit->options.compile_self, fixed, &entry->program), "compiling %s",
             jit->options.signature->name);
    WEFT_TRY(check_program(jit, entry->program, input_count, inputs, NULL),
             "the program just compiled for these shapes");
    WEFT_TRY(weft_session_create(entry->program, &entry->session), "compiling %s", jit->options.signature->name);
    if (jit->last)
        WEFT_TRY(weft_session_copy_states(jit->last->session, entry->session), "states of %s",
                 jit->options.signature->name);
    return NULL;
}

static weft_status add_entry(weft_jit *jit, int input_count, weft_tensor *const *inputs, const int64_t *fixed,
                             jit_entry **out_entry) {
    size_t bytes = (size_t)jit->symbol_count * sizeof *fixed;
    jit_entry entry = {.fixed = weft_allocate(allocator_of(jit), bytes)};
    if (!entry.fixed) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a JIT entry");
    memcpy(entry.fixed, fixed, bytes);
    weft_status status = fill_entry(jit, input_count, inputs, fixed, &entry);
    if (status) {
        entry_clear(jit, &entry);
        return status;
    }
    entry.number = ++jit->compile_count;
    jit_entry *slot = find_slot(jit);
    if (slot == &jit->entries[jit->entry_count])
        jit->entry_count++;
    else
        entry_clear(jit, slot);
    *slot = entry;
    jit->last = *out_entry = slot; /* it has the states */
    return NULL;
}

static weft_status choose(weft_jit *jit, int input_count, weft_tensor *const *inputs, int64_t *fixed, weft_text *reason,
                          jit_entry **out_entry) {
    WEFT_TRY(find_entry(jit, input_count, inputs, fixed, reason, out_entry), "choosing a program");
    if (!*out_entry) {
        choose_fixed(jit, fixed, reason);
        log_compile(jit, fixed, reason);
        return add_entry(jit, input_count, inputs, fixed, out_entry);
    }
    if (jit->last && jit->last != *out_entry)
        WEFT_TRY(weft_session_copy_states(jit->last->session, (*out_entry)->session), "states of %s",
                 jit->options.signature->name);
    jit->last = *out_entry;
    return NULL;
}

/* Shapes other than the last call's. */
static weft_status switch_program(weft_jit *jit, int input_count, weft_tensor *const *inputs, jit_entry **out_entry) {
    size_t bytes = (size_t)jit->symbol_count * sizeof(int64_t);
    weft_text reason;
    WEFT_TRY(weft_program_bind(jit->options.signature, input_count, inputs, jit->symbols), "calling %s",
             jit->options.signature->name);
    int64_t *fixed = weft_allocate(allocator_of(jit), bytes);
    if (!fixed) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to choose a program");
    for (int i = 0; i < jit->symbol_count; i++) fixed[i] = WEFT_DIM_ANY;
    weft_text_init(allocator_of(jit), &reason);
    weft_status status = choose(jit, input_count, inputs, fixed, &reason, out_entry);
    weft_text_deinit(&reason);
    weft_free(allocator_of(jit), fixed, bytes);
    return status;
}

weft_status weft_jit_call(weft_jit *jit, int input_count, weft_tensor *const *inputs, int output_count,
                          weft_tensor **outputs) {
    jit_entry *entry = jit->last;
    if (!entry || !weft_session_matches(entry->session, input_count, inputs))
        WEFT_TRY(switch_program(jit, input_count, inputs, &entry), "choosing a program");
    entry->used = ++jit->clock;
    return weft_session_call(entry->session, input_count, inputs, output_count, outputs);
}
