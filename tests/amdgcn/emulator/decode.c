/* Instructions: LLVM's disassembler says what the bytes at an address are, in text; the text is read once into
   operands, modifiers and a handler from the tables, and kept. A name that no table has is a failure that says the
   name.

   A row's form: how many operands, from the left, are destinations ("?": one when the instruction returns the old
   value); then the type of its constants: i bits, f f32, h f16, F f64, I 64 bits, p pairs of f16, m a mix of both; then
   d when the destination is read as the last source. Read next: wrap.c for lane patterns, selects and pairs; scalar.c.
 */
#include <llvm-c/Target.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdgcn/emulator/internal.h"

static const amdgcn_opcode *const tables[] = {
    amdgcn_scalar_opcodes, amdgcn_control_opcodes, amdgcn_float_opcodes,   amdgcn_integer_opcodes, amdgcn_wide_opcodes,
    amdgcn_half_opcodes,   amdgcn_packed_opcodes,  amdgcn_compare_opcodes, amdgcn_convert_opcodes, amdgcn_lane_opcodes,
    amdgcn_memory_opcodes, amdgcn_shared_opcodes,  amdgcn_matrix_opcodes};

static const struct {
    const char *name;
    int index, count;
} named[] = {{"vcc", SCALAR_VCC, 2},
             {"vcc_lo", SCALAR_VCC, 1},
             {"vcc_hi", SCALAR_VCC + 1, 1},
             {"exec", SCALAR_EXEC, 2},
             {"exec_lo", SCALAR_EXEC, 1},
             {"exec_hi", SCALAR_EXEC + 1, 1},
             {"m0", SCALAR_M0, 1},
             {"null", SCALAR_NULL, 2},
             {"flat_scratch", SCALAR_FLAT, 2},
             {"flat_scratch_lo", SCALAR_FLAT, 1},
             {"flat_scratch_hi", SCALAR_FLAT + 1, 1},
             {"xnack_mask", SCALAR_XNACK, 2}};

static const amdgcn_opcode *find_opcode(const char *name) {
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const amdgcn_opcode *row = tables[t]; row->name; row++)
            if (!strcmp(row->name, name)) return row;
    return NULL;
}

/* -- operands */

/* Numbers with a point are floats of the row's type. Other decimal ones are inline integers, signed; hexadecimal ones
   are literals of 32 bits, which an f64 takes as its upper half. */
static uint64_t constant_of(const char *text, char type) {
    if (strchr(text, '.')) {
        double value = strtod(text, NULL);
        if (type == 'F' || type == 'I') return number_bits64(value);
        return type == 'h' || type == 'p' ? number_bits16(value) : number_bits32((float)value);
    }
    bool hexadecimal = strchr(text, 'x') != NULL;
    uint64_t bits = (uint64_t)strtoll(text, NULL, 0);
    if (hexadecimal && strlen(text) > 10) bits = strtoull(text, NULL, 0);
    return type == 'F' && hexadecimal && bits <= UINT32_MAX ? bits << 32 : bits;
}

static bool read_register(const char *text, amdgcn_operand *o) {
    static const struct {
        const char *prefix;
        amdgcn_operand_kind kind;
        int first;
    } files[] = {{"ttmp", SCALAR, SCALAR_TTMP}, {"s", SCALAR, 0}, {"v", VECTOR, 0}, {"a", VECTOR, ACCUMULATORS}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t length = strlen(files[i].prefix);
        if (strncmp(text, files[i].prefix, length)) continue;
        const char *at = text + length;
        char *end;
        long first, last;
        if (*at == '[') {
            first = last = strtol(at + 1, &end, 10);
            if (*end == ':') last = strtol(end + 1, &end, 10);
            if (*end != ']') continue;
            end++;
        } else {
            if (*at < '0' || *at > '9') continue;
            first = last = strtol(at, &end, 10);
        }
        if (!strcmp(end, ".h")) o->half = 1;
        if (*end && strcmp(end, ".h") && strcmp(end, ".l")) continue;
        int limit = files[i].kind == VECTOR ? 256 : *text == 't' ? 16 : 106;
        if (first < 0 || last < first || last >= limit) return false;
        o->kind = files[i].kind, o->index = files[i].first + (int)first, o->count = (int)(last - first + 1);
        return true;
    }
    return false;
}

static void read_operand(char *text, char type, amdgcn_operand *o) {
    *o = (amdgcn_operand){.kind = WORD, .count = 1};
    if (!strncmp(text, "sext(", 5)) {
        o->extend = true;
        text += 5;
        text[strlen(text) - 1] = 0;
    }
    if (*text == '-' && (text[1] < '0' || text[1] > '9')) o->negate = true, text++;
    if (*text == '|') {
        o->absolute = true;
        text++;
        if (*text) text[strlen(text) - 1] = 0;
    }
    if (read_register(text, o)) return;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strcmp(text, named[i].name)) {
            o->kind = SCALAR, o->index = named[i].index, o->count = named[i].count;
            return;
        }
    if ((*text >= '0' && *text <= '9') || (*text == '-' && text[1] >= '0' && text[1] <= '9')) {
        o->kind = CONSTANT;
        o->constant = constant_of(text, type);
    } else if (!strcmp(text, "off")) {
        o->kind = OFF;
    } else if (!strcmp(text, "src_scc") || !strcmp(text, "scc")) {
        o->kind = SCC;
    } else if (!strcmp(text, "src_shared_base")) {
        o->kind = CONSTANT, o->constant = SHARED_APERTURE;
    } else if (!strcmp(text, "src_private_base")) {
        o->kind = CONSTANT, o->constant = PRIVATE_APERTURE;
    } else {
        (void)snprintf(o->word, sizeof o->word, "%.*s", (int)sizeof o->word - 1, text);
    }
}

/* -- modifiers */

static unsigned bits_of(const char *list) {
    unsigned bits = 0;
    int at = 0;
    for (const char *c = list; *c && *c != ']'; c++)
        if (*c == '0' || *c == '1') bits |= (unsigned)(*c - '0') << at++;
    return bits;
}

static int select_of(const char *name) {
    static const char *const names[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
    for (int i = 0; i < 7; i++)
        if (!strncmp(name, names[i], strlen(names[i]))) return i + 1;
    return 0;
}

/* What may stand behind the operands and changes nothing here: caching hints, scopes. */
static bool is_hint(const char *word) {
    static const char *const hints[] = {"glc", "slc", "dlc", "sc0", "sc1",   "nt",    "scope:",  "th:",
                                        "nv",  "lwe", "tfe", "gds", "offen", "idxen", "matrix_", "index_key"};
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strncmp(word, hints[i], strlen(hints[i]))) return strcmp(word, "gds") != 0 && strcmp(word, "idxen") != 0;
    return false;
}

static const struct {
    const char *name;
    int pattern;
} patterns[] = {{"quad_perm:", 'q'}, {"row_shl:", 'l'},        {"row_shr:", 'r'},   {"row_ror:", 'o'},
                {"row_mirror", 'm'}, {"row_half_mirror", 'h'}, {"row_bcast:", 'b'}, {"row_newbcast:", 's'},
                {"row_share:", 's'}, {"row_xmask:", 'x'},      {"wave_shl:", 'L'},  {"wave_shr:", 'R'},
                {"dpp8:", '8'}};

static bool read_pattern(amdgcn_instruction *i, const char *word) {
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        size_t length = strlen(patterns[p].name);
        if (strncmp(word, patterns[p].name, length)) continue;
        i->pattern = patterns[p].pattern;
        if (i->pattern == 'q' || i->pattern == '8') {
            int at = 0, width = i->pattern == 'q' ? 2 : 3;
            for (const char *c = word + length; *c; c++)
                if (*c >= '0' && *c <= '7') i->eighths |= (unsigned)(*c - '0') << width * at++;
        } else if (word[length]) {
            i->pattern_value = atoi(word + length);
        }
        return true;
    }
    return false;
}

/* The names that the disassembler has for patterns of ds_swizzle, as the bits of the instruction. */
static int64_t swizzle_of(const char *text) {
    int64_t code = 0;
    const char *comma = strchr(text, ',');
    long first = comma ? strtol(comma + 1, NULL, 10) : 0;
    const char *second = comma ? strchr(comma + 1, ',') : NULL;
    if (!strncmp(text, "QUAD_PERM", 9)) {
        int at = 0;
        for (const char *c = comma; c && *c; c++)
            if (*c >= '0' && *c <= '3') code |= (int64_t)(*c - '0') << 2 * at++;
        return code | 0x8000;
    }
    if (!strncmp(text, "BITMASK_PERM", 12)) { /* the highest bit first: 0, 1, kept or inverted */
        int bit = 4;
        for (const char *c = comma; c && *c && bit >= 0; c++) {
            if (!strchr("01pi", *c)) continue;
            code |= (int64_t)((*c == 'p' || *c == 'i') | (*c == '1') << 5 | (*c == 'i') << 10) << bit--;
        }
        return code;
    }
    if (!strncmp(text, "BROADCAST", 9)) return (32 - first) | (second ? strtol(second + 1, NULL, 10) : 0) << 5;
    if (!strncmp(text, "SWAP", 4)) return 31 | (int64_t)first << 10;
    return 31 | (int64_t)(first - 1) << 10; /* REVERSE */
}

static bool read_modifier(amdgcn_instruction *i, const char *word) {
    const char *value = strchr(word, ':');
    value = value ? value + 1 : "";
    long long number = strtoll(value, NULL, 0);
    if (read_pattern(i, word)) return true;
    if (!strncmp(word, "offset:swizzle(", 15)) return i->offset = swizzle_of(word + 15), true;
    if (!strncmp(word, "offset:", 7)) return i->offset = number, true;
    if (!strncmp(word, "offset0:", 8)) return i->offset = number, true;
    if (!strncmp(word, "offset1:", 8)) return i->offset1 = number, true;
    if (!strcmp(word, "glc") || !strcmp(word, "sc0") || !strncmp(word, "th:TH_ATOMIC_RETURN", 19)) i->returns = true;
    if (is_hint(word)) return true;
    if (!strcmp(word, "clamp")) return i->clamp = true;
    if (!strncmp(word, "mul:", 4)) return i->scale = (int)number, true;
    if (!strcmp(word, "div:2")) return i->scale = -2, true;
    if (!strncmp(word, "op_sel:", 7)) return i->op_sel = bits_of(value), true;
    if (!strncmp(word, "op_sel_hi:", 10)) return i->op_sel_hi = bits_of(value), true;
    if (!strncmp(word, "neg_lo:", 7)) return i->neg_lo = bits_of(value), true;
    if (!strncmp(word, "neg_hi:", 7)) return i->neg_hi = bits_of(value), true;
    if (!strncmp(word, "row_mask:", 9)) return i->row_mask = (unsigned)number, true;
    if (!strncmp(word, "bank_mask:", 10)) return i->bank_mask = (unsigned)number, true;
    if (!strncmp(word, "bound_ctrl:", 11)) return i->bound_zero = true;
    if (!strncmp(word, "fi:", 3)) return i->fetch_inactive = number != 0, true;
    if (!strncmp(word, "dst_sel:", 8)) return i->select_out = select_of(value), true;
    if (!strncmp(word, "src0_sel:", 9)) return i->select_in[0] = select_of(value), true;
    if (!strncmp(word, "src1_sel:", 9)) return i->select_in[1] = select_of(value), true;
    if (!strncmp(word, "dst_unused:", 11)) {
        i->unused = !strcmp(value, "UNUSED_PRESERVE") ? 2 : !strcmp(value, "UNUSED_SEXT") ? 1 : 0;
        return true;
    }
    return false;
}

/* -- one instruction */

/* The end of the word at `at`: a space, a comma or the end of the text, outside of brackets. */
static char *word_end(char *at) {
    for (int depth = 0; *at && (depth || (*at != ',' && *at != ' ')); at++)
        depth += (*at == '[' || *at == '(') - (*at == ']' || *at == ')');
    return at;
}

/* Cuts the next word off; out_last: what it ended in. NULL: there is none. */
static char *next_word(char **text, char *out_last) {
    while (**text == ' ') ++*text;
    char *word = *text, *end = word_end(word);
    if (end == word) return NULL;
    *out_last = *end;
    *text = end + (*end != 0);
    *end = 0;
    return word;
}

static bool read_operands(amdgcn_instruction *i, const amdgcn_opcode *row, char *text) {
    amdgcn_operand all[OPERANDS + 2];
    int count = 0;
    char type = row->form[1] ? row->form[1] : 'i';
    char *word, last = ',';
    while (last == ',' && (word = next_word(&text, &last))) {
        if (count == OPERANDS + 2) return false;
        /* the product of v_mad_u64_u32 has sources of 32 bits */
        read_operand(word, type == 'I' && row->form[0] == '2' && count < 4 ? 'i' : type, &all[count]);
        count++;
    }
    while ((word = next_word(&text, &last)))
        if (!read_modifier(i, word)) return false;
    i->destinations = row->form[0] == '?' ? i->returns : row->form[0] == 'x' ? count - 2 : row->form[0] - '0';
    if (i->destinations < 0 || i->destinations > 2 || i->destinations > count) return false;
    i->sources = count - i->destinations;
    if (i->sources > OPERANDS) return false;
    memcpy(i->out, all, (size_t)i->destinations * sizeof *all);
    memcpy(i->in, all + i->destinations, (size_t)i->sources * sizeof *all);
    if (strchr(row->form, 'd')) i->in[i->sources++] = i->out[0];
    return true;
}

static void strip_suffix(char *name) {
    static const char *const suffixes[] = {"_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t own = strlen(suffixes[i]);
        if (length > own && !strcmp(name + length - own, suffixes[i])) {
            name[length - own] = 0;
            return;
        }
    }
}

/* Scalar floats without a row of their own do what the instruction of lanes does for one (gfx12): v_s_exp_f32,
   s_add_f16, s_cmp_lt_f16; NULL: there is none. */
static const amdgcn_opcode *find_lane_opcode(const char *name, bool *out_high) {
    static const char high[] = "s_cvt_hi_f32_f16";
    char of_lanes[72];
    bool transcendental = !strncmp(name, "v_s_", 4);
    size_t length = strlen(name);
    *out_high = strcmp(name, high) == 0;
    if (*out_high) return find_opcode("v_cvt_f32_f16");
    if (!transcendental && (strncmp(name, "s_", 2) != 0 || length < 6)) return NULL;
    if (strcmp(name + length - 4, "_f32") != 0 && strcmp(name + length - 4, "_f16") != 0) return NULL;
    (void)snprintf(of_lanes, sizeof of_lanes, "v_%s", name + (transcendental ? 4 : 2));
    return find_opcode(of_lanes);
}

/* The same for one lane: a comparison has no destination in its text. */
static bool read_alone(amdgcn_instruction *i, const char *name, char *operands) {
    bool high, compares = !strncmp(name, "s_cmp_", 6);
    const amdgcn_opcode *row = find_lane_opcode(name, &high);
    if (!row) return false;
    amdgcn_opcode alone = *row;
    char form[8];
    (void)snprintf(form, sizeof form, "%c%s", compares ? '0' : '1', row->form + 1);
    alone.form = form;
    i->run = row->run, i->op = row->op;
    if (!read_operands(i, &alone, operands)) return false;
    if (high) i->in[0].half = 1;
    return amdgcn_wrap_alone(i, compares);
}

/* Fills `i` from text without a "::"; false: unknown name or operand. */
static bool read_text(amdgcn_instruction *i, const char *text) {
    char copy[256], name[64];
    (void)snprintf(copy, sizeof copy, "%s", text);
    size_t length = strcspn(copy, " \t");
    if (length >= sizeof name) return false;
    memcpy(name, copy, length);
    name[length] = 0;
    strip_suffix(name);
    const char *plain = name;
    char dual[64];
    if (!strncmp(name, "v_dual_", 7)) {
        (void)snprintf(dual, sizeof dual, "v_%s", name + 7);
        plain = dual;
    }
    const amdgcn_opcode *row = find_opcode(plain);
    if (!row) return read_alone(i, name, copy + length);
    i->run = row->run, i->op = row->op;
    i->row_mask = i->bank_mask = 15;
    if (row->form[1] == 'p' || row->form[1] == 'P') i->op_sel_hi = 7;
    if (row->form[0] == '-') return true; /* operands without meaning here */
    if (!read_operands(i, row, copy + length)) return false;
    if (row->form[1] == 'h')
        for (int s = 0; s < i->sources; s++) i->in[s].half |= (int)(i->op_sel >> s & 1);
    if (row->form[1] == 'h' && i->destinations) i->out[0].half |= (int)(i->op_sel >> i->sources & 1);
    return true;
}

static amdgcn_instruction *create(const char *text, uint64_t address, uint64_t bytes) {
    amdgcn_instruction *i = calloc(1, sizeof *i);
    if (!i) return NULL;
    (void)snprintf(i->text, sizeof i->text, "%.*s", TEXT - 1, text);
    i->next = address + bytes;
    return i;
}

static bool finish(amdgcn_instruction *i, amdgcn_machine *machine, uint64_t address, uint64_t bytes) {
    i->low_half = machine->generation >= 10;
    if (i->sources && i->in[0].kind == CONSTANT) /* of branches: words from the next instruction */
        i->target = address + bytes + (uint64_t)((int64_t)(int16_t)i->in[0].constant * 4);
    return !((i->pattern || i->select_out || i->select_in[0] || i->select_in[1]) && !amdgcn_wrap(i));
}

static amdgcn_instruction *read_instruction(amdgcn_code *code, const char *text, uint64_t address, uint64_t bytes) {
    const char *both = strstr(text, " :: ");
    amdgcn_instruction *i = create(text, address, bytes);
    if (!i) return NULL;
    bool known;
    if (both) {
        char first[256];
        (void)snprintf(first, sizeof first, "%.*s", (int)(both - text), text);
        i->run = amdgcn_run_both;
        i->inner = create(first, address, bytes);
        i->second = create(both + 4, address, bytes);
        known = i->inner && i->second && read_text(i->inner, first) && read_text(i->second, both + 4) &&
                finish(i->inner, code->machine, address, bytes) && finish(i->second, code->machine, address, bytes);
    } else {
        known = read_text(i, text) && finish(i, code->machine, address, bytes);
    }
    if (known) return i;
    amdgcn_instruction_free(i);
    return NULL;
}

static weft_status open_disassembler(amdgcn_code *code, int which) {
    if (code->disassembler[which]) return NULL;
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    const char *features = code->machine->generation < 10 ? "" : which ? "+wavefrontsize32" : "+wavefrontsize64";
    code->disassembler[which] =
        LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", code->machine->arch, features, NULL, 0, NULL, NULL);
    return code->disassembler[which] ? NULL
                                     : WEFT_STATUS(WEFT_UNAVAILABLE, "this LLVM does not disassemble AMD's code");
}

/* The text at an address, without the tab in front; its bytes, 0 when there is no instruction. */
static uint64_t disassemble(amdgcn_code *code, int lanes, uint64_t address, char *text, size_t capacity) {
    char raw[256];
    size_t bytes = LLVMDisasmInstruction(code->disassembler[lanes == 32], code->image + address,
                                         code->image_bytes - address, address, raw, sizeof raw);
    const char *from = raw;
    while (bytes && (*from == '\t' || *from == ' ')) from++;
    (void)snprintf(text, capacity, "%s", bytes ? from : "no instruction");
    for (char *c = text; *c; c++)
        if (*c == '\t') *c = ' ';
    char *comment = strstr(text, " //");
    if (comment) *comment = 0;
    return bytes;
}

const amdgcn_instruction *amdgcn_decode(amdgcn_code *code, amdgcn_wave *wave, uint64_t address) {
    char text[256];
    amdgcn_machine *machine = code->machine;
    machine->current = NULL;
    if (address % 4 || address >= code->image_bytes) {
        amdgcn_fail(wave, -1, "a jump out of the code");
        return NULL;
    }
    weft_status status = open_disassembler(code, wave->lanes == 32);
    if (status) {
        amdgcn_fail(wave, -1, "%s", weft_status_message(status));
        weft_status_release(status);
        return NULL;
    }
    uint64_t bytes = disassemble(code, wave->lanes, address, text, sizeof text);
    amdgcn_instruction *i = bytes ? read_instruction(code, text, address, bytes) : NULL;
    if (!i) {
        amdgcn_fail(wave, -1, "no emulation of \"%s\"", text);
        return NULL;
    }
    code->decoded[address / 4] = i;
    machine->counts.decoded++;
    return i;
}

void amdgcn_instruction_free(amdgcn_instruction *instruction) {
    if (!instruction) return;
    amdgcn_instruction_free(instruction->inner);
    amdgcn_instruction_free(instruction->second);
    free(instruction);
}

weft_status amdgcn_code_unknown(amdgcn_code *code, char **out_names) {
    size_t length = 0;
    char *names = NULL;
    *out_names = NULL;
    for (int k = 0; k < code->kernel_count; k++) {
        const amdgcn_kernel *kernel = &code->kernels[k];
        int lanes = kernel->descriptor.properties >> 10 & 1 ? 32 : 64;
        WEFT_TRY(open_disassembler(code, lanes == 32), "listing instructions");
        uint64_t end = kernel->descriptor.entry + kernel->bytes;
        for (uint64_t at = kernel->descriptor.entry, bytes = 4; at < end && at < code->image_bytes; at += bytes) {
            char text[256];
            bytes = disassemble(code, lanes, at, text, sizeof text);
            amdgcn_instruction *i = bytes ? read_instruction(code, text, at, bytes) : NULL;
            if (!bytes) bytes = 4;
            bool known = i != NULL;
            amdgcn_instruction_free(i);
            if (known) continue;
            char *grown = realloc(names, length + strlen(text) + 2);
            if (!grown) {
                free(names);
                return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for names");
            }
            names = grown;
            length += (size_t)sprintf(names + length, "%s\n", text);
        }
    }
    *out_names = names;
    return NULL;
}
