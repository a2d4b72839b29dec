/* The table of symbolic extents: interning, symbols, accessors.
   Invariant: equal canonical nodes have equal numbers, so extents compare with ==.
   Read next: dim_table.h, dim_poly.c. */
#include "base/dim_table.h"

#include <stdio.h>
#include <string.h>

static void *resize_noting(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    weft_dim_table *table = self;
    void *result = table->source.resize(table->source.self, pointer, old_bytes, new_bytes, align_bytes);
    if (!result && new_bytes) table->out_of_memory = true;
    return result;
}

weft_status weft_dim_table_create(weft_allocator allocator, weft_dim_table **out_table) {
    *out_table = NULL;
    weft_dim_table *table = weft_allocate(allocator, sizeof *table);
    if (!table) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a table of extents");
    table->source = allocator;
    table->allocator = (weft_allocator){table, resize_noting};
    weft_arena_init(table->allocator, &table->arena);
    *out_table = table;
    return NULL;
}

void weft_dim_table_release(weft_dim_table *table) {
    if (!table) return;
    weft_allocator allocator = table->source;
    weft_free(allocator, table->entries, table->entry_capacity * sizeof *table->entries);
    weft_free(allocator, table->slots, table->slot_capacity * sizeof *table->slots);
    weft_free(allocator, (void *)table->symbols, table->symbol_capacity * sizeof *table->symbols);
    weft_free(allocator, table->symbol_values, table->value_capacity * sizeof *table->symbol_values);
    weft_arena_deinit(&table->arena);
    weft_free(allocator, table, sizeof *table);
}

weft_allocator weft_dim_table_allocator(const weft_dim_table *table) { return table->source; }

bool weft_dim_out_of_memory(const weft_dim_table *table) { return table->out_of_memory; }

weft_status weft_dim_invalid(const weft_dim_table *table, const char *what) {
    if (table->out_of_memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %s", what);
    return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%s is beyond 2^63 or its expression too large", what);
}

bool weft_dim_is_valid(const weft_dim_table *table, weft_dim dim) { return weft_dim_is_usable(table, dim); }

int64_t weft_dim_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

static uint64_t slot_hash(int32_t operation, weft_dim a, weft_dim b) {
    uint64_t hash = (uint64_t)a * 0x9E3779B97F4A7C15u ^ ((uint64_t)b + (uint64_t)operation) * 0xC2B2AE3D27D4EB4Fu;
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9u;
    return hash ^ (hash >> 32);
}

static weft_dim_slot *slot_find(const weft_dim_table *table, int32_t operation, weft_dim a, weft_dim b) {
    size_t mask = table->slot_capacity - 1;
    for (size_t i = (size_t)slot_hash(operation, a, b) & mask;; i = (i + 1) & mask) {
        weft_dim_slot *slot = &table->slots[i];
        if (!slot->operation || (slot->operation == operation && slot->a == a && slot->b == b)) return slot;
    }
}

static bool slot_reserve(weft_dim_table *table) {
    if (table->slot_count * 2 < table->slot_capacity) return true;
    size_t old_capacity = table->slot_capacity, capacity = old_capacity ? old_capacity * 2 : 64, bytes;
    if (!weft_size_multiply(capacity, sizeof *table->slots, &bytes)) return false;
    weft_dim_slot *old = table->slots, *slots = weft_allocate(table->allocator, bytes);
    if (!slots) return false;
    table->slots = slots;
    table->slot_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].operation) *slot_find(table, old[i].operation, old[i].a, old[i].b) = old[i];
    weft_free(table->allocator, old, old_capacity * sizeof *old);
    return true;
}

static void slot_put(weft_dim_table *table, int32_t operation, weft_dim a, weft_dim b, weft_dim result) {
    weft_dim_slot *slot = slot_find(table, operation, a, b);
    if (!slot->operation) table->slot_count++;
    *slot = (weft_dim_slot){operation, a, b, result};
}

bool weft_dim_recall(const weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b, weft_dim *out_result) {
    if (!table->slot_capacity) return false;
    const weft_dim_slot *slot = slot_find(table, 16 + (int32_t)kind, a, b);
    *out_result = slot->result;
    return slot->operation != 0;
}

weft_dim weft_dim_remember(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b, weft_dim result) {
    /* Forgetting is harmless: without memory the result is computed again. */
    if (result != WEFT_DIM_INVALID && slot_reserve(table)) slot_put(table, 16 + (int32_t)kind, a, b, result);
    return result;
}

static void measure(const weft_dim_table *table, weft_dim dim, int32_t *size, int32_t *depth) {
    if (dim >= 0) {
        *size += 1;
        return;
    }
    const weft_dim_entry *entry = weft_dim_entry_get(table, dim);
    *size += entry->size;
    if (*depth < entry->depth) *depth = entry->depth;
}

weft_dim weft_dim_intern(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b, int64_t number,
                         weft_dim_poly poly) {
    int32_t operation = 1 + (int32_t)kind;
    if (kind == WEFT_DIM_NUMBER) {
        a = number;
        b = 0;
    }
    if (!slot_reserve(table)) return WEFT_DIM_INVALID;
    weft_dim_slot *slot = slot_find(table, operation, a, b);
    if (slot->operation) return slot->result;
    weft_dim_entry entry = {.node = {kind, a, b, number}, .poly = poly, .size = 1, .depth = 0};
    if (kind == WEFT_DIM_NUMBER) entry.node.a = 0;
    if (kind != WEFT_DIM_NUMBER && kind != WEFT_DIM_SYMBOL) {
        measure(table, a, &entry.size, &entry.depth);
        measure(table, b, &entry.size, &entry.depth);
    }
    entry.depth++;
    if (entry.size > WEFT_DIM_SIZE_MAX || entry.depth > WEFT_DIM_DEPTH_MAX) return WEFT_DIM_INVALID;
    if (table->entry_count >= INT32_MAX ||
        !WEFT_ARRAY_RESERVE(table->allocator, table->entries, table->entry_capacity, table->entry_count + 1))
        return WEFT_DIM_INVALID;
    table->entries[table->entry_count++] = entry;
    weft_dim result = -(int64_t)table->entry_count;
    if (poly.count < 0) { /* an atom: its polynomial is itself */
        weft_dim *atoms = weft_arena_allocate(&table->arena, sizeof *atoms);
        weft_dim_term *term = weft_arena_allocate(&table->arena, sizeof *term);
        if (!atoms || !term) {
            table->entry_count--;
            return WEFT_DIM_INVALID;
        }
        *atoms = result;
        *term = (weft_dim_term){1, 1, atoms};
        table->entries[table->entry_count - 1].poly = (weft_dim_poly){1, term};
    }
    weft_dim_bounds_of_entry(table, &table->entries[table->entry_count - 1]);
    slot_put(table, operation, a, b, result);
    return result;
}

weft_dim weft_dim_intern_atom(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b) {
    return weft_dim_intern(table, kind, a, b, 0, weft_dim_poly_invalid());
}

weft_dim weft_dim_number(weft_dim_table *table, int64_t value) {
    if (value >= 0) return value;
    if (value == INT64_MIN) return WEFT_DIM_INVALID; /* its negation does not exist */
    weft_dim_poly poly = weft_dim_poly_constant(table, value);
    return poly.count < 0 ? WEFT_DIM_INVALID : weft_dim_intern(table, WEFT_DIM_NUMBER, 0, 0, value, poly);
}

/* name, or name_1, name_2 ... when it is taken */
static const char *unique_name(weft_dim_table *table, const char *name) {
    if (!name || !*name) name = "s";
    if (weft_dim_symbol_find(table, name) < 0) return weft_arena_copy_string(&table->arena, name, strlen(name));
    for (int suffix = 1;; suffix++) {
        char *candidate = weft_arena_format(&table->arena, "%s_%d", name, suffix);
        if (!candidate || weft_dim_symbol_find(table, candidate) < 0) return candidate;
    }
}

weft_dim weft_dim_symbol(weft_dim_table *table, const char *name, int64_t minimum, int64_t maximum, int64_t divisor,
                         weft_symbol_origin origin) {
    if (minimum > maximum || divisor < 1 || table->symbol_count >= INT32_MAX) return WEFT_DIM_INVALID;
    size_t count = table->symbol_count;
    weft_symbol *symbol = weft_arena_allocate(&table->arena, sizeof *symbol);
    if (!symbol || !WEFT_ARRAY_RESERVE(table->allocator, table->symbols, table->symbol_capacity, count + 1) ||
        !WEFT_ARRAY_RESERVE(table->allocator, table->symbol_values, table->value_capacity, count + 1))
        return WEFT_DIM_INVALID;
    *symbol = (weft_symbol){unique_name(table, name), minimum, maximum, divisor, origin};
    if (!symbol->name) return WEFT_DIM_INVALID;
    table->symbols[count] = symbol;
    weft_dim value = weft_dim_intern_atom(table, WEFT_DIM_SYMBOL, (weft_dim)count, 0);
    if (value == WEFT_DIM_INVALID) return WEFT_DIM_INVALID;
    table->symbol_values[count] = value;
    table->symbol_count++;
    return value;
}

int weft_dim_symbol_count(const weft_dim_table *table) { return (int)table->symbol_count; }

const weft_symbol *weft_dim_symbol_get(const weft_dim_table *table, int index) { return table->symbols[index]; }

weft_dim weft_dim_symbol_value(weft_dim_table *table, int index) { return table->symbol_values[index]; }

int weft_dim_symbol_find(const weft_dim_table *table, const char *name) {
    for (size_t i = 0; i < table->symbol_count; i++)
        if (!strcmp(table->symbols[i]->name, name)) return (int)i;
    return -1;
}

weft_dim_node weft_dim_get(const weft_dim_table *table, weft_dim dim) {
    if (dim >= 0) return (weft_dim_node){WEFT_DIM_NUMBER, 0, 0, dim};
    if (!weft_dim_is_usable(table, dim)) return (weft_dim_node){WEFT_DIM_NUMBER, WEFT_DIM_INVALID, WEFT_DIM_INVALID, 0};
    return weft_dim_entry_get(table, dim)->node;
}
