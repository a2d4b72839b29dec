/* The weft command: the table of commands and main. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIM_OPTION                                                                                                     \
    {"dim", "d", CLI_LIST, "NAME=LO..HI",                                                                              \
     "declare a symbolic extent with bounds; NAME=N fixes it; NAME=LO..HI/K multiples of K"}

#define NUMERICS_OPTIONS                                                                                               \
    {"relax", NULL, CLI_TEXT, "LIST",                                                                                  \
     "what products may give up for speed: f32-products (tf32), f8-sums, sum-order, comma-separated"},                 \
        {"batch-invariant", NULL, CLI_FLAG, NULL, "rows have the same bits in every batch; few rows take longer"}

const cli_command cli_commands[] = {
    {"compile",
     "MODEL",
     "compile a model to one artifact, or to a folder for browsers",
     {{"output", "o", CLI_TEXT, "FILE",
       "the artifact, or with --emit web the folder, to write (default: MODEL with .weft, MODEL-web)"},
      {"target", "t", CLI_TEXT, "LIST",
       "targets, comma-separated: cpu, cpu:x86-64-v3, cuda:sm_90a, webgpu ... (default cpu)"},
      {"emit", NULL, CLI_TEXT, "web", "write a page, a module and an artifact for WebGPU: static files"},
      {"labels", NULL, CLI_TEXT, "FILE",
       "with --emit web: names of the classes or characters, one a line, for the page"},
      DIM_OPTION,
      {"input", "i", CLI_LIST, "NAME=FILE.npy", "the value of an input that decides shapes: it becomes a constant"},
      {"pipeline", NULL, CLI_TEXT, "PASSES", "passes to run instead of the standard ones"},
      NUMERICS_OPTIONS,
      {0}},
     cli_run_compile},
    {"run",
     "MODEL",
     "run an artifact or a model",
     {{"input", "i", CLI_LIST, "NAME=FILE.npy", "an input (random when not given); repeat a name for further calls"},
      {"output", "o", CLI_LIST, "NAME=FILE.npy", "write an output"},
      DIM_OPTION,
      {"interpret", NULL, CLI_FLAG, NULL, "use the reference interpreter"},
      NUMERICS_OPTIONS,
      {"recompile", NULL, CLI_FLAG, NULL, "compile the graph inside an artifact again; its code does not run"},
      {"device", NULL, CLI_TEXT, "NAME", "device to run on (default cpu)"},
      {"verbose", "v", CLI_FLAG, NULL, "log compiles and their reasons"},
      {0}},
     cli_run_run},
    {"inspect",
     "MODEL",
     "show graph, fusion groups, kernels and memory plan",
     {{"json", NULL, CLI_FLAG, NULL, "machine-readable"},
      {"html", NULL, CLI_TEXT, "FILE", "write a page with the graph and the memory plan as pictures"},
      {"wir", NULL, CLI_FLAG, NULL, "print the graph"},
      {"after", NULL, CLI_TEXT, "PASSES", "print the graph after these passes"},
      {"kernel", NULL, CLI_TEXT, "NAME", "print one kernel: kernel IR and target code"},
      {"target", "t", CLI_TEXT, "TARGET", "target for kernels (default: this CPU)"},
      DIM_OPTION,
      {0}},
     cli_run_inspect},
    {"audit", "MODEL.onnx", "list everything in a model that Weft does not support", {{0}}, cli_run_audit},
    {"bench",
     "MODEL",
     "time a model",
     {{"dim-sweep", NULL, CLI_TEXT, "NAME=LO..HI", "call with every extent in the range, just in time"},
      {"specialized", NULL, CLI_FLAG, NULL, "a sweep also times a program compiled for each size, in turns"},
      {"samples", NULL, CLI_NUMBER, "N", "with --specialized: sizes, spread over the range (default: all)"},
      {"expect-compiles", NULL, CLI_NUMBER, "N", "fail when a sweep compiles more often"},
      {"load", NULL, CLI_FLAG, NULL, "time loading and the first call"},
      {"profile", NULL, CLI_FLAG, NULL, "the steps by time, each with its kernel, node and bytes"},
      {"runs", "n", CLI_NUMBER, "N", "timed runs (default: about two seconds)"},
      NUMERICS_OPTIONS,
      {"input", "i", CLI_LIST, "NAME=FILE.npy", "an input; others are random"},
      DIM_OPTION,
      {"threads", NULL, CLI_NUMBER, "N", "threads (default: one per core)"},
      {"device", NULL, CLI_TEXT, "NAME", "device to run on (default cpu)"},
      {"json", NULL, CLI_FLAG, NULL, "machine-readable"},
      {0}},
     cli_run_bench},
    {"profile",
     "MODEL|CONFIG.toml",
     "where the time and the memory of a model or a training step go, with reasons",
     {{"trace", NULL, CLI_TEXT, "FILE.json", "write events for chrome://tracing and Perfetto"},
      {"dot", NULL, CLI_TEXT, "FILE.dot", "write the steps as a graph for Graphviz"},
      {"html", NULL, CLI_TEXT, "FILE.html", "write a page"},
      {"runs", "n", CLI_NUMBER, "N", "timed runs (default: about two seconds)"},
      {"input", "i", CLI_LIST, "NAME=FILE.npy", "an input; others are random"},
      DIM_OPTION,
      NUMERICS_OPTIONS,
      {"threads", NULL, CLI_NUMBER, "N", "threads (default: one per core)"},
      {"device", NULL, CLI_TEXT, "NAME", "device to run on (default cpu)"},
      {0}},
     cli_run_profile},
    {"train",
     "CONFIG.toml",
     "train a model on a text file (examples/train_char.toml)",
     {{"find-rate", NULL, CLI_FLAG, NULL, "say which rate to train with: 100 steps of growing rates"}, {0}},
     cli_run_train},
    {"bisect",
     "MODEL",
     "find the first pass or kernel that changes the numbers",
     {{"input", "i", CLI_LIST, "NAME=FILE.npy", "an input; others are random"},
      {"target", "t", CLI_TEXT, "TARGET",
       "passes and groups as for this target (default: this CPU); with an architecture (cuda:sm_90a) passes only"},
      DIM_OPTION,
      {0}},
     cli_run_bisect},
    {"selftest",
     "[cpu|cuda|vulkan|cuda:ARCH|amdgcn:ARCH]",
     "every op against the interpreter on this machine",
     {{"json", NULL, CLI_FLAG, NULL, "machine-readable"},
      {"seconds", NULL, CLI_NUMBER, "N", "stop after about that long: first variants come first"},
      {"jobs", "j", CLI_NUMBER, "N", "processes (default: 1 on CPUs, one per core else)"},
      {"op", NULL, CLI_TEXT, "NAME", "this op only"},
      {"dtype", NULL, CLI_TEXT, "NAME", "this dtype only"},
      {"simulate", NULL, CLI_TEXT, "TARGETS",
       "also run every kernel in the simulator, built for these: cpu:x86-64-v3,cuda:sm_80 ..."},
      {0}},
     cli_run_selftest},
    {"fuzz",
     "",
     "random graphs: interpreter against compiled code",
     {{"count", "n", CLI_NUMBER, "N", "graphs to try (default 1000)"},
      {"seed", "s", CLI_NUMBER, "S", "first seed (default 1)"},
      {"statistics", NULL, CLI_FLAG, NULL, "how often each op occurred"},
      {"gradients", NULL, CLI_FLAG, NULL, "their derivatives: forward against reverse mode, compiled and interpreted"},
      {"second", NULL, CLI_FLAG, NULL, "with --gradients: symmetry of second derivatives instead"},
      {"batches", NULL, CLI_FLAG, NULL, "vmap of them against one element at a time, interpreted"},
      {"device", NULL, CLI_TEXT, "NAME", "where compiled code runs (default: this CPU): cuda, vulkan, amdgcn ..."},
      {0}},
     cli_run_fuzz},
    {"conformance",
     "onnx FOLDER",
     "run the ONNX node tests in a folder",
     {{"filter", NULL, CLI_TEXT, "TEXT", "only tests whose name contains TEXT"},
      {"interpret", NULL, CLI_FLAG, NULL, "use the reference interpreter instead of compiled code"},
      {"exclude", NULL, CLI_TEXT, "FILE", "list of excluded tests with reasons; they count as failures"},
      {"quiet", "q", CLI_FLAG, NULL, "only the last line"},
      {0}},
     cli_run_conformance},
    {"doctor",
     "",
     "what this machine offers: devices, drivers, libraries, and what to do about missing ones",
     {{0}},
     cli_run_doctor},
    {0}};

static void log_line(void *self, weft_log_level level, const char *message) {
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    (void)self;
    fprintf(stderr, "weft: %s: %s\n", names[level], message);
}

/* What was printed is not printed before it is written. */
static int finish(int code) {
    if (!fflush(stdout) && !ferror(stdout)) return code;
    fprintf(stderr, "weft: input/output error: the output could not be written: %s\n", strerror(errno));
    return code ? code : 1;
}

static const cli_command *find_command(const char *name) {
    const cli_command *command = cli_commands;
    while (command->name && strcmp(command->name, name) != 0) command++;
    if (!command->name) fprintf(stderr, "weft: there is no command \"%s\"; `weft help` lists them\n", name);
    return command->name ? command : NULL;
}

/* weft help [COMMAND] */
static int help(const char *name) {
    const cli_command *command = name ? find_command(name) : NULL;
    if (name && !command) return 2;
    command ? cli_command_help(command, stdout) : cli_help(stdout);
    return finish(0);
}

int main(int count, char **texts) {
    if (count < 2) return cli_help(stderr), 2;
    if (!strcmp(texts[1], "help") || !strcmp(texts[1], "--help") || !strcmp(texts[1], "-h"))
        return help(count > 2 ? texts[2] : NULL);
    if (!strcmp(texts[1], "--version")) return printf("weft " WEFT_VERSION "\n"), finish(0);
    const cli_command *command = find_command(texts[1]);
    if (!command) return 2;
    static cli_arguments arguments;
    for (int i = 2; i < count; i++)
        if (!strcmp(texts[i], "--help") || !strcmp(texts[i], "-h")) return help(command->name);
    int code = cli_parse(command, count - 2, texts + 2, &arguments);
    if (code) return code;
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.log = log_line;
    options.log_level =
        cli_get(&arguments, "verbose") && cli_flag(&arguments, "verbose") ? WEFT_LOG_INFO : WEFT_LOG_WARNING;
    options.thread_count = (int)cli_number(&arguments, "threads", 0);
    weft_status status = weft_context_create(&options, &arguments.context);
    if (status) return cli_fail(status);
    status = cli_check_outputs(&arguments);
    code = status ? cli_fail(status) : command->run(&arguments);
    weft_context_release(arguments.context);
    return finish(code);
}
