/* Parsing and help, both from the tables in main.c. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int usage(const cli_command *command, const char *text, const char *problem) {
    fprintf(stderr, "weft %s: \"%s\" %s; see `weft %s --help`\n", command->name, text, problem, command->name);
    return 2;
}

static int find_option(const cli_command *command, const char *text, size_t bytes, bool is_letter) {
    for (int i = 0; command->options[i].name; i++) {
        const char *name = is_letter ? command->options[i].letter : command->options[i].name;
        if (name && strlen(name) == bytes && !memcmp(name, text, bytes)) return i;
    }
    return -1;
}

static int take(const cli_command *command, const cli_option *option, cli_value *value, const char *text) {
    if (value->count == CLI_VALUES_MAX) return usage(command, option->name, "is given too often");
    if (option->kind == CLI_LIST && !text[0]) return usage(command, option->argument, "is missing");
    value->texts[value->count++] = text;
    if (option->kind != CLI_NUMBER) return 0;
    char *end;
    errno = 0;
    value->number = strtoll(text, &end, 10);
    if (errno || end == text || *end || value->number < 0 || value->number > INT_MAX)
        return usage(command, text, "is not a number from 0 to 2147483647");
    return 0;
}

int cli_parse(const cli_command *command, int count, char **texts, cli_arguments *out) {
    out->command = command;
    for (int i = 0; i < count; i++) {
        const char *text = texts[i];
        if (text[0] != '-' || !text[1]) {
            if (out->positional_count == CLI_VALUES_MAX) return usage(command, text, "is one argument too many");
            out->positional[out->positional_count++] = text;
            continue;
        }
        bool is_letter = text[1] != '-';
        const char *name = is_letter ? text + 1 : text + 2, *equals = is_letter ? NULL : strchr(name, '=');
        int at = find_option(command, name, is_letter ? 1 : equals ? (size_t)(equals - name) : strlen(name), is_letter);
        if (at < 0) return usage(command, text, "is no option of this command");
        const cli_option *option = &command->options[at];
        const char *argument = equals ? equals + 1 : is_letter && text[2] ? text + 2 : NULL;
        if (option->kind == CLI_FLAG) {
            if (argument) return usage(command, text, "takes no value");
            out->values[at].count++;
            continue;
        }
        if (!argument && ++i == count) return usage(command, text, "needs a value");
        int code = take(command, option, &out->values[at], argument ? argument : texts[i]);
        if (code) return code;
    }
    int most = command->positional[0] != 0; /* words of "onnx FOLDER" */
    for (const char *at = command->positional; *at; at++) most += *at == ' ';
    if (out->positional_count > most) return usage(command, out->positional[most], "is one argument too many");
    bool needs = command->positional[0] && command->positional[0] != '[';
    if (needs && !out->positional_count) return usage(command, command->positional, "is missing");
    return 0;
}

void cli_help(FILE *file) {
    fprintf(file, "weft: compiles and runs models\n\n");
    for (const cli_command *c = cli_commands; c->name; c++)
        fprintf(file, "  weft %-12s %-12s %s\n", c->name, c->positional, c->summary);
    fprintf(file, "\n`weft COMMAND --help` lists the options of a command.\n");
}

void cli_command_help(const cli_command *command, FILE *file) {
    fprintf(file, "weft %s %s\n  %s\n", command->name, command->positional, command->summary);
    for (const cli_option *o = command->options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        fprintf(file, "  %s%s%s%-26s %s\n", o->letter ? "-" : "  ", o->letter ? o->letter : "", o->letter ? ", " : "  ",
                left, o->help);
    }
}

const cli_value *cli_get(const cli_arguments *arguments, const char *name) {
    int at = find_option(arguments->command, name, strlen(name), false);
    return at < 0 ? NULL : &arguments->values[at];
}

const char *cli_text(const cli_arguments *arguments, const char *name, const char *fallback) {
    const cli_value *value = cli_get(arguments, name);
    return value && value->count ? value->texts[value->count - 1] : fallback;
}

long long cli_number(const cli_arguments *arguments, const char *name, long long fallback) {
    const cli_value *value = cli_get(arguments, name);
    return value && value->count ? value->number : fallback;
}

bool cli_flag(const cli_arguments *arguments, const char *name) {
    const cli_value *value = cli_get(arguments, name);
    return value && value->count;
}
