/* The files a command is to write, looked at before it reads anything: a model written over would be lost, and of two
   outputs in one file only the last would be left. */
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

/* The same path, or two names of one file. */
static bool same_file(const char *a, const char *b) {
    struct stat first, second;
    if (!strcmp(a, b)) return true;
    return !stat(a, &first) && !stat(b, &second) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

weft_status cli_check_output(const char *model, const char *option, const char *output) {
    if (!same_file(model, output)) return NULL;
    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s is the model itself; choose another --%s", output, option);
}

weft_status cli_check_outputs(const cli_arguments *arguments) {
    static const char *const names[] = {"output", "trace", "dot", "html"};
    const char *files[4 * CLI_VALUES_MAX];
    int count = 0;
    for (int n = 0; n < 4; n++) {
        const cli_value *value = cli_get(arguments, names[n]);
        for (int i = 0; value && i < value->count; i++) {
            const char *file = value->texts[i], *equals = strchr(file, '=');
            bool list = !strcmp(names[n], "output") && !strcmp(arguments->command->name, "run");
            if (list && !equals) continue; /* refused where it is read */
            if (list) file = equals + 1;
            if (arguments->positional_count)
                WEFT_TRY(cli_check_output(arguments->positional[0], names[n], file), "looking at outputs");
            for (int k = 0; k < count; k++)
                if (same_file(files[k], file))
                    return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                       "two outputs go to %s; the second would replace the first", file);
            files[count++] = file;
        }
    }
    return NULL;
}
