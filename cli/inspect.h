/* What weft inspect shows: a program, its memory plan at some extents, and the fused graph when there is one. */
#ifndef WEFT_CLI_INSPECT_H
#define WEFT_CLI_INSPECT_H

#include "base/program.h"
#include "cli/cli.h"
#include "ir/build.h"
#include "runtime/program.h"

typedef struct cli_inspection {
    weft_graph *graph; /* NULL for artifacts */
    const weft_program_data *program;
    int symbol_count;
    int64_t *symbols;
    int64_t *offsets; /* by buffer; -1 = not a temporary */
    int64_t temporary_bytes;
} cli_inspection;

/* One self-contained page. */
weft_status cli_inspect_html(const cli_inspection *inspection, const char *path) WEFT_MUST_USE;

#endif
