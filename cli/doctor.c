/* weft doctor: devices, libraries, code generators. */
#include "cli/cli.h"

#include <string.h>

#include "base/capability.h"
#include "base/context.h"
#include "base/process.h"
#include "codegen/target.h"
#include "weft/device.h"

/* A tool that a code generator runs: its first line of --version. */
static void print_tool(weft_allocator allocator, const char *name, const char *remedy) {
    const char *const arguments[] = {name, "--version", NULL};
    weft_process process = {.arguments = arguments, .limit_ns = INT64_C(10000000000)};
    void *output;
    size_t bytes;
    weft_status status = weft_process_run(allocator, &process, &output, &bytes);
    if (status) {
        printf("tool    %-9s missing: %s: %s\n", name, weft_status_message(status), remedy);
        weft_status_release(status);
        return;
    }
    const char *end = memchr(output, '\n', bytes);
    printf("tool    %-9s %.*s\n", name, end ? (int)(end - (const char *)output) : (int)bytes, (const char *)output);
    weft_free(allocator, output, bytes);
}

static void print_targets(void) {
    const char *last = "";
    for (int i = 0; weft_capability_get(i); i++) {
        const weft_capability *record = weft_capability_get(i);
        bool here = weft_target_find(record->target) != NULL;
        if (strcmp(record->target, last) != 0)
            printf("%starget  %-9s %s%s", *last ? "\n" : "", record->target,
                   here ? "" : "not in this build: ", record->arch);
        else
            printf(" %s", record->arch);
        last = record->target;
    }
    printf("\n");
}

/* What the targets would compile with now, where that is no part of Weft. */
static void print_compilers(weft_context *context) {
    const char *last = "";
    for (int i = 0; weft_capability_get(i); i++) {
        const weft_target *target = weft_target_find(weft_capability_get(i)->target);
        if (!target || !target->describe_compiler || !strcmp(target->name, last)) continue;
        weft_text text;
        weft_text_init(context->allocator, &text);
        target->describe_compiler(context, &text);
        printf("compiler %-8s %s\n", target->name, weft_text_string(&text));
        weft_text_deinit(&text);
        last = target->name;
    }
}

int cli_run_doctor(cli_arguments *arguments) {
    char *text;
    weft_status status = weft_device_report(arguments->context, &text);
    if (status) return cli_fail(status);
    fputs(text, stdout);
    weft_string_release(arguments->context, text);
    print_targets();
    print_compilers(arguments->context);
    if (weft_target_find("cpu")) /* a build with LLVM */
        print_tool(arguments->context->allocator, "ld.lld-19",
                   "code for AMD GPUs by LLVM needs it: apt-get install lld-19");
    return 0;
}
