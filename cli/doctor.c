/* weft doctor: devices and libraries. */
#include "cli/cli.h"

#include "weft/device.h"

int cli_run_doctor(cli_arguments *arguments) {
    char *text;
    weft_status status = weft_device_report(arguments->context, &text);
    if (status) return cli_fail(status);
    fputs(text, stdout);
    weft_string_release(arguments->context, text);
    return 0;
}
