/* What printers of text share: pieces of it, lines, and questions about a kernel that every printer asks. */
#ifndef WEFT_CODEGEN_KERNEL_PIECE_H
#define WEFT_CODEGEN_KERNEL_PIECE_H

#include <stdarg.h>

#include "base/text.h"
#include "codegen/kernel/kernel.h"

typedef struct weft_piece {
    char text[160];
} weft_piece;

/* One that does not fit becomes text that no compiler accepts. */
weft_piece weft_piece_format(const char *format, ...) WEFT_PRINTF(1, 2);
/* A line, indented by two blanks a level. */
void weft_piece_line(weft_text *text, int depth, const char *format, va_list list) WEFT_PRINTF(3, 0);
/* Keeps the first problem. */
void weft_piece_fail(weft_code *failure, const char **problem, weft_code code, const char *text);

/* What is splat, at lane 0, instead of the splat. */
const weft_kinstr *weft_kernel_unsplat(const weft_kernel *kernel, weft_kval *value, int *lane);
/* The func_end of the func at `id`. */
weft_kval weft_kernel_func_end(const weft_kernel *kernel, weft_kval id);
/* The instruction that reads parameter `number` of a func; WEFT_KNONE: nobody does. */
weft_kval weft_kernel_func_parameter(const weft_kernel *kernel, weft_kval id, int64_t number);
/* deal and zip: which lane of which operand becomes `lane`. */
int weft_kernel_dealt(const weft_kinstr *instr, int lane, int *out_operand);

#endif
