/* weft audit: everything in a model that cannot be compiled, in one list. */
#include "cli/cli.h"

#include "weft/onnx.h"

int cli_run_audit(cli_arguments *arguments) {
#if WEFT_HAVE_ONNX
    char *text;
    weft_status status = weft_onnx_audit(arguments->context, arguments->positional[0], &text);
    if (status) return cli_fail(status);
    bool fine = !text[0];
    cli_print("%s", fine ? "everything in this model is supported\n" : text);
    weft_string_release(arguments->context, text);
    return fine ? 0 : 1;
#else
    return cli_fail(WEFT_STATUS(WEFT_UNSUPPORTED, "%s: this build has no ONNX importer (protobuf-c was not found)",
                                arguments->positional[0]));
#endif
}
