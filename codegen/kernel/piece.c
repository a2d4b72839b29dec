/* See piece.h. */
#include "codegen/kernel/piece.h"

#include <stdio.h>
#include <string.h>

weft_piece weft_piece_format(const char *format, ...) {
    weft_piece piece;
    va_list list;
    va_start(list, format);
    int length = vsnprintf(piece.text, sizeof piece.text, format, list);
    va_end(list);
    if (length < 0 || length >= (int)sizeof piece.text) memcpy(piece.text, "#too long", sizeof "#too long");
    return piece;
}

void weft_piece_line(weft_text *text, int depth, const char *format, va_list list) {
    for (int i = 0; i < depth; i++) weft_text_append_bytes(text, "  ", 2);
    weft_text_append_list(text, format, list);
    weft_text_append_bytes(text, "\n", 1);
}

void weft_piece_fail(weft_code *failure, const char **problem, weft_code code, const char *text) {
    if (*failure != WEFT_OK) return;
    *failure = code;
    *problem = text;
}

const weft_kinstr *weft_kernel_unsplat(const weft_kernel *kernel, weft_kval *value, int *lane) {
    const weft_kinstr *instr = weft_kernel_get(kernel, *value);
    for (; instr->op == WEFT_K_splat; instr = weft_kernel_get(kernel, *value)) {
        *value = weft_koperand(kernel, instr, 0);
        *lane = 0;
    }
    return instr;
}

weft_kval weft_kernel_func_end(const weft_kernel *kernel, weft_kval id) {
    while ((size_t)id < kernel->instr_count && kernel->instrs[id].op != WEFT_K_func_end) id++;
    return id;
}

weft_kval weft_kernel_func_parameter(const weft_kernel *kernel, weft_kval id, int64_t number) {
    weft_kval end = weft_kernel_func_end(kernel, id);
    for (weft_kval i = id + 1; i < end; i++)
        if (weft_kernel_get(kernel, i)->op == WEFT_K_parameter && weft_kernel_get(kernel, i)->i == number) return i;
    return WEFT_KNONE;
}

int weft_kernel_dealt(const weft_kinstr *instr, int lane, int *out_operand) {
    int lanes = instr->type.lanes, first = (int)instr->i;
    bool deals = instr->op == WEFT_K_deal;
    int at = deals ? 2 * lane + first : first * lanes + lane;
    *out_operand = deals ? at / lanes : at % 2;
    return deals ? at % lanes : at / 2;
}
