/* PTX text to kernels: declarations give places, instructions find their row in the tables, labels become indices.
   Names live in scopes, those of braces. Everything that is not understood is a status with its text. Read next:
   machine.c. Source: "Parallel Thread Execution ISA", Syntax; Directives. */
#include <ctype.h>
#include <stdio.h>

#include "tests/ptx/interpreter/internal.h"

enum { REGISTERS_MAX = 1 << 16, VARIABLE_MAX = 1 << 26 };

typedef struct pending { /* a branch whose label is not known yet */
    char label[NAME];
    int at, scope;
} pending;

typedef struct parser {
    const char *at;
    ptx_module *module;
    ptx_kernel *kernel; /* NULL: outside */
    ptx_symbol *symbols;
    int symbol_count, symbol_capacity;
    pending *branches, *labels;
    int branch_count, branch_capacity, label_count, label_capacity;
    int scope, scopes[16], depth, scope_next;
    char word[NAME];
    weft_status status;
} parser;

static void problem(parser *p, const char *what, const char *text) {
    if (!p->status) p->status = WEFT_STATUS(WEFT_UNSUPPORTED, "PTX: %s: %.80s", what, text);
}

static void *grow(parser *p, void *list, int count, int *capacity, size_t size) {
    if (count < *capacity) return list;
    void *grown = realloc(list, (size_t)(*capacity * 2 + 64) * size);
    if (!grown && !p->status) p->status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for PTX");
    if (!grown) return NULL;
    *capacity = *capacity * 2 + 64;
    return grown;
}

/* -- words */

static void skip(parser *p) {
    for (;;) {
        while (isspace((unsigned char)*p->at)) p->at++;
        if (!strncmp(p->at, "//", 2)) {
            p->at += strcspn(p->at, "\n");
        } else if (!strncmp(p->at, "/*", 2)) {
            const char *end = strstr(p->at, "*/");
            p->at = end ? end + 2 : p->at + strlen(p->at);
        } else {
            return;
        }
    }
}

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.' || c == ':';
}

/* The next name, number or single character into p->word. ':' belongs to a word only as "::". */
static bool next(parser *p) {
    skip(p);
    size_t n = 0;
    while (is_name(p->at[n]) && n < NAME - 1) {
        if (p->at[n] == ':') {
            if (p->at[n + 1] != ':') break;
            n++;
        }
        n++;
    }
    if (!n) n = *p->at != 0;
    memcpy(p->word, p->at, n);
    p->word[n] = 0;
    p->at += n;
    return n > 0;
}

static bool peek(parser *p, char c) {
    skip(p);
    return *p->at == c;
}

static bool take(parser *p, char c) {
    if (!peek(p, c)) return false;
    p->at++;
    return true;
}

static void expect(parser *p, char c) {
    char wanted[8] = {'\'', c, '\'', 0};
    if (!take(p, c)) problem(p, wanted, p->at);
}

static void skip_to(parser *p, char c) {
    while (*p->at && *p->at != c) p->at++;
    if (*p->at) p->at++;
}

/* -- names */

static ptx_symbol *find(parser *p, const char *name) {
    for (int i = p->symbol_count - 1; i >= 0; i--)
        if (!strcmp(p->symbols[i].name, name)) return &p->symbols[i];
    return NULL;
}

static ptx_symbol *declare(parser *p, const char *name) {
    ptx_symbol *grown = grow(p, p->symbols, p->symbol_count, &p->symbol_capacity, sizeof *grown);
    if (!grown) return NULL;
    p->symbols = grown;
    ptx_symbol *s = &grown[p->symbol_count++];
    memset(s, 0, sizeof *s);
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    s->scope = p->scope, s->reg = -1;
    return s;
}

static void open_scope(parser *p) {
    if (p->depth < 15) p->depth++;
    p->scopes[p->depth] = p->scope = ++p->scope_next;
}

static void close_scope(parser *p) {
    while (p->symbol_count && p->symbols[p->symbol_count - 1].scope == p->scope) p->symbol_count--;
    if (p->depth) p->depth--;
    p->scope = p->scopes[p->depth];
}

static int new_register(parser *p, int bits) {
    ptx_kernel *k = p->kernel;
    int *grown = grow(p, k->widths, k->register_count, &k->register_capacity, sizeof *grown);
    if (!grown) return 0;
    k->widths = grown;
    k->widths[k->register_count] = bits;
    return k->register_count++;
}

static int type_bits(const char *type) {
    if (!strcmp(type, ".pred")) return 1;
    const char *digits = type + strcspn(type, "0123456789");
    return atoi(digits);
}

/* .reg .b32 %r<9>, a; registers of a range are declared one by one when they are met */
static void registers(parser *p) {
    (void)next(p);
    int bits = type_bits(p->word);
    if (bits != 1 && bits != 8 && bits != 16 && bits != 32 && bits != 64) problem(p, "a register", p->word);
    do {
        (void)next(p);
        ptx_symbol *s = declare(p, p->word);
        if (!s) return;
        s->bits = bits;
        if (take(p, '<')) {
            (void)next(p);
            int count = atoi(p->word), first = p->kernel->register_count;
            expect(p, '>');
            if (count < 0 || count > REGISTERS_MAX) problem(p, "too many registers", s->name);
            for (int i = 0; i < count && !p->status; i++) (void)new_register(p, bits);
            s->reg = first, s->address = (uint64_t)count;
        } else {
            s->reg = new_register(p, bits);
        }
    } while (take(p, ',') && !p->status);
    expect(p, ';');
}

/* A register by its name: its own, or the member of a range. */
static int register_named(parser *p, const char *name) {
    const ptx_symbol *s = find(p, name);
    if (s && s->reg >= 0) return s->reg;
    size_t length = strlen(name), digits = length;
    while (digits && isdigit((unsigned char)name[digits - 1])) digits--;
    char prefix[NAME];
    memcpy(prefix, name, digits);
    prefix[digits] = 0;
    s = digits < length ? find(p, prefix) : NULL;
    uint64_t number = strtoull(name + digits, NULL, 10);
    return s && s->reg >= 0 && number < s->address ? s->reg + (int)number : -1;
}

static uint64_t placed(uint64_t *used, uint64_t bytes, uint64_t align) {
    uint64_t at = (*used + align - 1) / align * align;
    *used = at + bytes;
    return at;
}

/* Initial values: numbers of the element's size. */
static void initial(parser *p, uint64_t address, int size) {
    bool list = take(p, '{');
    do {
        (void)next(p);
        uint64_t value = !strncmp(p->word, "0f", 2) || !strncmp(p->word, "0F", 2) ? strtoull(p->word + 2, NULL, 16)
                                                                                  : strtoull(p->word, NULL, 0);
        memcpy(p->module->data + address, &value, (size_t)size);
        address += (uint64_t)size;
    } while (list && take(p, ',') && !p->status);
    if (list) expect(p, '}');
}

/* .shared .align 16 .b8 name[64]; also .local, .global, .const */
static void variable(parser *p, const char *space) {
    uint64_t align = 1, count = 1;
    (void)next(p);
    if (!strcmp(p->word, ".align")) {
        (void)next(p);
        align = strtoull(p->word, NULL, 10);
        (void)next(p);
    }
    int size = type_bits(p->word) / 8;
    if (align < (uint64_t)size) align = (uint64_t)size;
    if (!align) align = 1;
    (void)next(p);
    ptx_symbol *s = declare(p, p->word);
    if (!s || size < 1) {
        problem(p, "a variable", p->word);
        return;
    }
    if (take(p, '[')) {
        count = 0; /* dynamic */
        if (!peek(p, ']')) {
            (void)next(p);
            count = strtoull(p->word, NULL, 10);
        }
        expect(p, ']');
    }
    if (count > VARIABLE_MAX || align > 4096) {
        problem(p, "a variable that is too large", s->name);
        return;
    }
    uint64_t bytes = count * (uint64_t)size;
    if (!strcmp(space, ".shared")) {
        uint64_t *used = p->kernel ? &p->kernel->shared_bytes : &p->module->shared_bytes;
        if (count)
            s->address = placed(used, bytes, align);
        else
            s->moves = 2; /* dynamic: behind the others */
    } else if (!strcmp(space, ".local")) {
        s->address = placed(&p->kernel->local_bytes, bytes, align);
    } else {
        uint64_t at = placed(&p->module->data_bytes, bytes, align);
        uint8_t *grown = realloc(p->module->data, p->module->data_bytes + 64);
        if (!grown) {
            problem(p, "no memory for variables", p->word);
            return;
        }
        p->module->data = grown;
        memset(grown + at, 0, p->module->data_bytes - at);
        s->address = at, s->moves = 1;
        if (take(p, '=')) initial(p, at, size);
    }
    expect(p, ';');
}

/* -- operands */

static const struct {
    const char *name;
    int which;
} specials[] = {{"%tid.x", TID},     {"%ntid.x", NTID}, {"%ctaid.x", CTAID}, {"%nctaid.x", NCTAID}, {"%laneid", LANEID},
                {"%warpid", WARPID}, {"%tid.y", ZERO},  {"%tid.z", ZERO},    {"%ctaid.y", ZERO},    {"%ctaid.z", ZERO},
                {"%ntid.y", ONE},    {"%ntid.z", ONE},  {"%nctaid.y", ONE},  {"%nctaid.z", ONE},    {"WARP_SZ", -1}};

static bool number(const char *word, bool negative, uint64_t *out) {
    if (!isdigit((unsigned char)*word)) return false;
    if (!strncmp(word, "0f", 2) || !strncmp(word, "0F", 2) || !strncmp(word, "0d", 2) || !strncmp(word, "0D", 2)) {
        *out = strtoull(word + 2, NULL, 16);
        return true;
    }
    *out = strtoull(word, NULL, 0);
    if (negative) *out = 0 - *out;
    return true;
}

static void plain_operand(parser *p, ptx_operand *o) {
    bool negative = take(p, '-');
    (void)next(p);
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (!strcmp(p->word, specials[i].name)) {
            o->kind = SPECIAL, o->index = specials[i].which;
            if (o->index < 0) o->kind = CONSTANT, o->value = LANES;
            return;
        }
    if (number(p->word, negative, &o->value)) {
        o->kind = CONSTANT;
        return;
    }
    if (!strcmp(p->word, "_")) {
        o->kind = REGISTER, o->index = -1;
        return;
    }
    o->index = register_named(p, p->word);
    if (o->index >= 0) {
        o->kind = REGISTER;
        return;
    }
    const ptx_symbol *s = find(p, p->word);
    if (!s) {
        problem(p, "an unknown name", p->word);
        return;
    }
    o->kind = CONSTANT, o->value = s->address, o->moves = s->moves;
}

static void operand(parser *p, ptx_operand *o) {
    memset(o, 0, sizeof *o);
    o->other = -1;
    if (take(p, '!')) o->negate = true;
    if (take(p, '{')) {
        o->kind = VECTOR;
        while (!p->status && !take(p, '}')) {
            ptx_operand part = {.other = -1};
            plain_operand(p, &part);
            if (o->count == PARTS || part.kind != REGISTER)
                problem(p, "a vector of something else than registers", p->word);
            else
                o->parts[o->count++] = part.index;
            (void)take(p, ',');
        }
        return;
    }
    if (take(p, '[')) {
        plain_operand(p, o);
        if (o->kind == CONSTANT) o->index = -1;
        o->kind = ADDRESS;
        bool minus = false;
        if (take(p, '+') || (minus = take(p, '-'))) {
            bool negative = take(p, '-') != minus;
            uint64_t value = 0;
            (void)next(p);
            if (!number(p->word, negative, &value)) problem(p, "an offset", p->word);
            o->value = (o->index < 0 ? o->value : 0) + value;
        }
        expect(p, ']');
        return;
    }
    plain_operand(p, o);
    if (take(p, '|')) {
        (void)next(p);
        o->other = register_named(p, p->word);
    }
}

/* -- instructions */

static const ptx_opcode *const tables[] = {ptx_integer_opcodes, ptx_float_opcodes, ptx_warp_opcodes};

/* Tokens that change nothing here are left out of names. */
static void shorten(char *name) {
    static const char *const tokens[] = {".uni", ".volatile", ".nc",       ".relaxed",
                                         ".gpu", ".weak",     ".L2::128B", ".aligned"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        size_t length = strlen(tokens[i]);
        for (char *at = name; (at = strstr(at, tokens[i]));)
            if (at[length] == '.' || !at[length])
                memmove(at, at + length, strlen(at + length) + 1);
            else
                at += length;
    }
}

static bool find_handler(ptx_instruction *i) {
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const ptx_opcode *row = tables[t]; row->name; row++)
            if (!strcmp(row->name, i->name)) {
                i->run = row->run ? row->run : ptx_run_function, i->function = row->function, i->op = row->op;
                return true;
            }
    return ptx_prepare_memory(i) || ptx_prepare_compare(i) || ptx_prepare_convert(i) || ptx_prepare_matrix(i);
}

static void add_label(parser *p, pending **list, int *count, int *capacity, const char *name, int at) {
    pending *grown = grow(p, *list, *count, capacity, sizeof *grown);
    if (!grown) return;
    *list = grown;
    grown[*count].at = at, grown[*count].scope = p->scope;
    (void)snprintf(grown[*count].label, sizeof grown[*count].label, "%s", name);
    ++*count;
}

static ptx_instruction *append(parser *p) {
    ptx_kernel *k = p->kernel;
    ptx_instruction *grown = grow(p, k->code, k->code_count, &k->code_capacity, sizeof *grown);
    if (!grown) return NULL;
    k->code = grown;
    memset(&grown[k->code_count], 0, sizeof *grown);
    grown[k->code_count].predicate = -1;
    return &grown[k->code_count++];
}

static void instruction(parser *p) {
    ptx_instruction *i = append(p);
    if (!i) return;
    if (!strcmp(p->word, "@")) {
        i->predicate_negated = take(p, '!');
        (void)next(p);
        i->predicate = register_named(p, p->word);
        if (i->predicate < 0) problem(p, "an unknown predicate", p->word);
        (void)next(p);
    }
    (void)snprintf(i->name, sizeof i->name, "%s", p->word);
    shorten(i->name);
    if (!strcmp(i->name, "call")) { /* the one function that is known: call NAME, (a, b); */
        (void)next(p);
        if (strcmp(p->word, "cudaGraphSetConditional") != 0) problem(p, "a call of a function", p->word);
        expect(p, ',');
        expect(p, '(');
        operand(p, &i->operands[i->count++]);
        expect(p, ',');
        operand(p, &i->operands[i->count++]);
        expect(p, ')');
    }
    i->jumps = !strcmp(i->name, "bra");
    if (i->jumps) {
        (void)next(p);
        add_label(p, &p->branches, &p->branch_count, &p->branch_capacity, p->word, p->kernel->code_count - 1);
        expect(p, ';');
    } else {
        while (!p->status && !take(p, ';')) {
            if (i->count == OPERANDS)
                problem(p, "too many operands", i->name);
            else
                operand(p, &i->operands[i->count++]);
            (void)take(p, ',');
        }
    }
    if (!p->status && !find_handler(i)) problem(p, "no emulation of the instruction", i->name);
}

static void statement(parser *p) {
    if (!next(p))
        problem(p, "the text ends within a kernel", "");
    else if (!strcmp(p->word, "{"))
        open_scope(p);
    else if (!strcmp(p->word, "}"))
        close_scope(p);
    else if (!strcmp(p->word, ";"))
        return;
    else if (!strcmp(p->word, ".reg"))
        registers(p);
    else if (!strcmp(p->word, ".shared") || !strcmp(p->word, ".local")) {
        char space[NAME];
        (void)snprintf(space, sizeof space, "%s", p->word);
        variable(p, space);
    } else if (!strcmp(p->word, ".pragma"))
        skip_to(p, ';');
    else if (p->word[0] == '.')
        problem(p, "a directive", p->word);
    else if (take(p, ':'))
        add_label(p, &p->labels, &p->label_count, &p->label_capacity, p->word, p->kernel->code_count);
    else
        instruction(p);
}

/* The innermost label of that name: of the branch's own scope before others. */
static void resolve(parser *p) {
    for (int b = 0; b < p->branch_count; b++) {
        const pending *branch = &p->branches[b];
        int found = -1;
        for (int l = 0; l < p->label_count; l++)
            if (!strcmp(p->labels[l].label, branch->label) && (found < 0 || p->labels[l].scope == branch->scope))
                found = l;
        if (found < 0)
            problem(p, "an unknown label", branch->label);
        else
            p->kernel->code[branch->at].target = p->labels[found].at;
    }
    p->branch_count = p->label_count = 0;
}

static void parameters(parser *p) {
    ptx_kernel *k = p->kernel;
    expect(p, '(');
    while (!p->status && !take(p, ')')) {
        int align = 1, count = 1;
        (void)next(p); /* .param */
        (void)next(p);
        if (!strcmp(p->word, ".align")) {
            (void)next(p);
            align = atoi(p->word);
            (void)next(p);
        }
        int size = type_bits(p->word) / 8;
        (void)next(p);
        ptx_symbol *s = declare(p, p->word);
        if (align < 1 || align > 4096 || size < 1 || size > 8) problem(p, "a parameter", p->word);
        if (take(p, '[')) {
            (void)next(p);
            count = atoi(p->word);
            if (count < 1 || count > 4096) problem(p, "a parameter", p->word);
            expect(p, ']');
        }
        if (!s || k->parameter_count == PTX_PARAMETERS_MAX) {
            problem(p, "too many parameters", k->name);
            return;
        }
        if (align < size) align = size;
        int at = (k->parameter_bytes + align - 1) / align * align;
        s->address = (uint64_t)at;
        k->parameter_offset[k->parameter_count] = at, k->parameter_size[k->parameter_count++] = size * count;
        k->parameter_bytes = at + size * count;
        (void)take(p, ',');
    }
}

static void entry(parser *p) {
    ptx_kernel *grown = realloc(p->module->kernels, (size_t)(p->module->kernel_count + 1) * sizeof *grown);
    if (!grown) {
        problem(p, "no memory", "for a kernel");
        return;
    }
    p->module->kernels = grown;
    p->kernel = &grown[p->module->kernel_count++];
    memset(p->kernel, 0, sizeof *p->kernel);
    (void)next(p);
    (void)snprintf(p->kernel->name, sizeof p->kernel->name, "%s", p->word);
    open_scope(p);
    parameters(p);
    p->kernel->shared_bytes = p->module->shared_bytes;
    while (!p->status && !peek(p, '{')) /* limits of threads and registers */
        if (!next(p)) problem(p, "the text ends within a kernel", "");
    expect(p, '{');
    int depth = p->depth;
    open_scope(p);
    while (!p->status && p->depth > depth) statement(p);
    close_scope(p);
    if (!p->status) resolve(p);
    p->kernel = NULL;
}

static void top(parser *p) {
    static const char *const lines[] = {".version", ".target", ".address_size", ".file", ".section"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strcmp(p->word, lines[i])) {
            skip_to(p, '\n');
            return;
        }
    if (!strcmp(p->word, ".visible") || !strcmp(p->word, ".extern") || !strcmp(p->word, ".weak")) return;
    if (!strcmp(p->word, ".func")) /* a declaration: instructions say which functions are known */
        skip_to(p, ';');
    else if (!strcmp(p->word, ".entry"))
        entry(p);
    else if (!strcmp(p->word, ".shared") || !strcmp(p->word, ".global") || !strcmp(p->word, ".const")) {
        char space[NAME];
        (void)snprintf(space, sizeof space, "%s", p->word);
        variable(p, space);
    } else
        problem(p, "a directive", p->word);
}

/* Variables in memory have their places now; a dynamic array in shared memory lies behind its kernel's others. */
static void place_data(ptx_module *module) {
    for (int k = 0; k < module->kernel_count; k++) {
        ptx_kernel *kernel = &module->kernels[k];
        kernel->shared_bytes = (kernel->shared_bytes + 15) / 16 * 16;
        for (int c = 0; c < kernel->code_count; c++)
            for (int o = 0; o < kernel->code[c].count; o++) {
                ptx_operand *operand = &kernel->code[c].operands[o];
                if (operand->moves == 1) operand->value += (uint64_t)(uintptr_t)module->data;
                if (operand->moves == 2) operand->value += kernel->shared_bytes;
            }
    }
}

weft_status ptx_module_load(ptx_machine *machine, const char *text, ptx_module **out_module) {
    *out_module = NULL;
    ptx_module *module = calloc(1, sizeof *module);
    if (!module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    module->machine = machine;
    parser p = {.at = text, .module = module};
    while (!p.status && next(&p)) top(&p);
    if (!p.status && !module->kernel_count) problem(&p, "no kernels", "");
    free(p.symbols);
    free(p.branches);
    free(p.labels);
    if (!p.status) place_data(module);
    if (!p.status && module->data) p.status = ptx_machine_map(machine, module->data, module->data_bytes, true);
    if (p.status)
        ptx_module_unload(module);
    else
        *out_module = module;
    return p.status;
}

void ptx_module_unload(ptx_module *module) {
    if (!module) return;
    if (module->data) ptx_machine_unmap(module->machine, module->data);
    for (int k = 0; k < module->kernel_count; k++) {
        free(module->kernels[k].code);
        free(module->kernels[k].widths);
    }
    free(module->kernels);
    free(module->data);
    free(module);
}

bool ptx_module_has(const ptx_module *module, const char *kernel) {
    for (int k = 0; k < module->kernel_count; k++)
        if (!strcmp(module->kernels[k].name, kernel)) return true;
    return false;
}

int ptx_module_parameters(const ptx_module *module, const char *kernel, const int **out_bytes) {
    for (int k = 0; k < module->kernel_count; k++)
        if (!strcmp(module->kernels[k].name, kernel)) {
            *out_bytes = module->kernels[k].parameter_size;
            return module->kernels[k].parameter_count;
        }
    *out_bytes = NULL;
    return 0;
}
