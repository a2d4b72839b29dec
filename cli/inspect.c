/* weft inspect: a model as text, JSON or a page with pictures. Read next: inspect_html.c. */
#include "cli/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/builders/builder.h"
#include "codegen/target.h"
#include "compile/lower.h"
#include "compile/relower.h"
#include "ir/print.h"
#include "passes/pass.h"

/* A symbol's value for the pictures: --dim NAME=N, else the lower bound, at least 1. */
static int64_t symbol_value(cli_arguments *arguments, const weft_symbol *symbol) {
    const cli_value *dims = cli_get(arguments, "dim");
    for (int i = 0; dims && i < dims->count; i++) {
        size_t length = strlen(symbol->name);
        if (strncmp(dims->texts[i], symbol->name, length) != 0 || dims->texts[i][length] != '=') continue;
        const char *range = strstr(dims->texts[i], "..");
        long long value = strtoll(range ? range + 2 : dims->texts[i] + length + 1, NULL, 10);
        if (value > 0) return value;
    }
    int64_t least = symbol->minimum > 1 ? symbol->minimum : 1, step = symbol->divisor > 1 ? symbol->divisor : 1;
    return (least + step - 1) / step * step;
}

static weft_status plan_memory(cli_arguments *arguments, cli_inspection *in) {
    weft_allocator allocator = weft_allocator_system();
    in->symbol_count = weft_dim_symbol_count(in->program->dims);
    in->symbols = weft_allocate(allocator, ((size_t)in->symbol_count + 1) * sizeof *in->symbols);
    in->offsets = weft_allocate(allocator, ((size_t)in->program->buffer_count + 1) * sizeof *in->offsets);
    if (!in->symbols || !in->offsets) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "planning memory");
    for (int i = 0; i < in->symbol_count; i++)
        in->symbols[i] = symbol_value(arguments, weft_dim_symbol_get(in->program->dims, i));
    return weft_memory_plan(in->program, in->symbols, allocator, in->offsets, &in->temporary_bytes);
}

static void print_ports(const cli_inspection *in, const char *what, int count, const weft_port *ports) {
    for (int i = 0; i < count; i++) {
        weft_text text;
        weft_text_init(weft_allocator_system(), &text);
        for (int d = 0; d < ports[i].rank; d++) {
            if (d) weft_text_append(&text, ", ");
            weft_dim_print(in->program->dims, ports[i].dims[d], &text);
        }
        cli_print("%s %s: %s[%s]\n", what, ports[i].name, weft_dtype_name(ports[i].dtype), weft_text_string(&text));
        weft_text_deinit(&text);
    }
}

static void print_steps(const cli_inspection *in) {
    static const char *const names[] = {"launch", "copy", "while", "cond", "read_dim", "loop"};
    for (int r = 0; r < in->program->region_count; r++) {
        const weft_step_list *list = &in->program->regions[r];
        cli_print("region %d%s: %d steps\n", r,
                  r == WEFT_REGION_LOAD   ? " (load)"
                  : r == WEFT_REGION_MAIN ? " (main)"
                                          : "",
                  list->count);
        for (int s = 0; s < list->count; s++) {
            const weft_step *step = &list->steps[s];
            const char *kernel = step->variant_count ? in->program->kernels[step->variants[0].kernel].name : "";
            cli_print("  %4d %-8s %-28s %s%s\n", s, names[step->kind], kernel, step->location ? step->location : "",
                      step->variant_count > 1 ? " (variants)" : "");
        }
    }
}

static void print_summary(const cli_inspection *in) {
    const weft_program_data *p = in->program;
    cli_print("%s: %d kernels, %d buffers, %d guards, weights %lld bytes, temporaries %lld bytes", p->name,
              p->kernel_count, p->buffer_count, p->guard_count, (long long)p->weights_bytes,
              (long long)in->temporary_bytes);
    for (int i = 0; i < in->symbol_count; i++)
        cli_print("%s%s=%lld", i ? ", " : " at ", weft_dim_symbol_get(p->dims, i)->name, (long long)in->symbols[i]);
    cli_print("\n");
    print_ports(in, "input", p->input_count, p->inputs);
    print_ports(in, "output", p->output_count, p->outputs);
    for (int i = 0; i < p->guard_count; i++) {
        weft_text text;
        weft_text_init(weft_allocator_system(), &text);
        weft_condition_print(p->dims, &p->guards[i].condition, &text);
        cli_print("guard %s (%s, %s)\n", weft_text_string(&text), p->guards[i].pass, p->guards[i].location);
        weft_text_deinit(&text);
    }
    print_steps(in);
}

static weft_status print_json(const cli_inspection *in) {
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_program_write(in->program, &text);
    weft_status status = weft_text_status(&text);
    if (!status) puts(weft_text_string(&text));
    weft_text_deinit(&text);
    return status;
}

static weft_status print_kernel(const cli_inspection *in, const weft_lowered *lowered, const char *name,
                                const weft_capability *capability) {
    for (int i = 0; i < in->program->kernel_count; i++) {
        if (strcmp(in->program->kernels[i].name, name) != 0) continue;
        weft_text text;
        weft_text_init(weft_allocator_system(), &text);
        weft_kernel_print(lowered->kernels[i], &text);
        const weft_target *target = weft_target_find(capability->target);
        weft_text_append(&text, "\n");
        weft_status status = target ? target->print(lowered->kernels[i], &text) : NULL;
        if (!status) status = weft_text_status(&text);
        if (!status) cli_print("%s\n", weft_text_string(&text));
        weft_text_deinit(&text);
        return status;
    }
    return WEFT_STATUS(WEFT_NOT_FOUND, "there is no kernel \"%s\"; `weft inspect MODEL` lists them", name);
}

static weft_status print_graph(weft_graph *graph) {
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_print_options options = {.locations = true, .elide_constants = true};
    weft_status status = weft_print(graph, &options, &text);
    if (!status) cli_print("%s\n", weft_text_string(&text));
    weft_text_deinit(&text);
    return status;
}

static weft_status inspect_graph(cli_arguments *arguments, weft_graph *graph) {
    const char *after = cli_text(arguments, "after", NULL), *html = cli_text(arguments, "html", NULL),
               *kernel = cli_text(arguments, "kernel", NULL);
    const weft_capability *capability;
    WEFT_TRY(cli_find_capability(arguments, &capability), "inspecting");
    WEFT_TRY(weft_graph_finish(graph), "inspecting");
    weft_pass_context pass = {.graph = graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    if (after) WEFT_TRY(weft_pipeline_run(&pass, after), "inspecting");
    if (after || cli_flag(arguments, "wir")) return print_graph(graph);
    WEFT_TRY(weft_pipeline_run(&pass, weft_pipeline_standard), "inspecting");
    weft_arena arena, kernels;
    weft_lowered lowered;
    weft_arena_init(weft_allocator_system(), &arena);
    weft_arena_init(weft_allocator_system(), &kernels);
    cli_inspection in = {.graph = graph};
    weft_status status =
        weft_lower(graph, capability, &(weft_lower_settings){.thread_count = 2}, &arena, &kernels, &lowered);
    if (!status) in.program = lowered.program;
    if (!status) status = plan_memory(arguments, &in);
    if (!status) {
        if (html)
            status = cli_inspect_html(&in, html);
        else if (kernel)
            status = print_kernel(&in, &lowered, kernel, capability);
        else if (cli_flag(arguments, "json"))
            status = print_json(&in);
        else
            print_summary(&in);
    }
    weft_free(weft_allocator_system(), in.symbols, ((size_t)in.symbol_count + 1) * sizeof *in.symbols);
    if (in.program)
        weft_free(weft_allocator_system(), in.offsets, ((size_t)in.program->buffer_count + 1) * sizeof *in.offsets);
    if (in.program) weft_dim_table_release(in.program->dims);
    weft_arena_deinit(&kernels);
    weft_arena_deinit(&arena);
    return status;
}

static weft_status inspect_artifact(cli_arguments *arguments) {
    weft_program *program;
    WEFT_TRY(weft_program_load(arguments->context, arguments->positional[0], NULL, &program), "inspecting");
    cli_inspection in = {.program = weft_program_get_data(program)};
    weft_status status = plan_memory(arguments, &in);
    const char *html = cli_text(arguments, "html", NULL);
    if (!status && html)
        status = cli_inspect_html(&in, html);
    else if (!status && cli_flag(arguments, "json"))
        status = print_json(&in);
    else if (!status)
        print_summary(&in);
    weft_free(weft_allocator_system(), in.symbols, ((size_t)in.symbol_count + 1) * sizeof *in.symbols);
    weft_free(weft_allocator_system(), in.offsets, ((size_t)in.program->buffer_count + 1) * sizeof *in.offsets);
    weft_program_release(program);
    return status;
}

/* Of an artifact the program that would run here is shown; with an option that asks for the graph, or for another
   target, the graph inside it. */
static bool wants_graph(cli_arguments *arguments) {
    return cli_text(arguments, "after", NULL) || cli_text(arguments, "kernel", NULL) || cli_flag(arguments, "wir") ||
           cli_text(arguments, "target", NULL);
}

int cli_run_inspect(cli_arguments *arguments) {
    bool artifact = cli_is_artifact(arguments->positional[0]);
    if (artifact && !wants_graph(arguments)) {
        weft_status status = inspect_artifact(arguments);
        return status ? cli_fail(status) : 0;
    }
    weft_graph *graph = NULL;
    weft_status status = artifact ? weft_graph_read_artifact(arguments->context, arguments->positional[0], &graph)
                                  : cli_open_graph(arguments, arguments->positional[0], 0, NULL, &graph);
    if (!status) status = inspect_graph(arguments, graph);
    weft_graph_release(graph);
    return status ? cli_fail(status) : 0;
}
