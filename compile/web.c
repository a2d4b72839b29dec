/* weft_compile_web: an artifact for WebGPU beside the module and the page that run it. */
#include "compile/web.h"

#include "base/file.h"
#include "base/need.h"
#include "base/text.h"
#include "ir/graph.h"
#include "weft/compile.h"

static weft_status write_files(weft_allocator allocator, const char *folder, weft_text *path) {
    for (const weft_web_file *file = weft_web_files; file->name; file++) {
        path->length = 0;
        weft_text_append(path, "%s/%s", folder, file->name);
        WEFT_TRY(weft_text_status(path), "writing %s", file->name);
        WEFT_TRY(weft_file_write_all(allocator, weft_text_string(path), file->data, file->bytes), "writing %s",
                 file->name);
    }
    return NULL;
}

weft_status weft_compile_web(weft_graph *graph, const weft_compile_options *options, const char *folder) {
    WEFT_NEED(graph, "the graph");
    WEFT_NEED(folder, "the folder");
    weft_compile_options web = WEFT_COMPILE_OPTIONS_INIT;
    weft_allocator allocator = graph->context->allocator;
    weft_text path;
    WEFT_TRY(WEFT_OPTIONS_READ(web, options, WEFT_COMPILE_OPTIONS_INIT), "options");
    web.targets = "webgpu";
    web.no_graph = true;
    WEFT_TRY(weft_folder_create(folder), "compiling for browsers");
    weft_text_init(allocator, &path);
    weft_text_append(&path, "%s/model.weft", folder);
    weft_status status = weft_text_status(&path);
    if (!status) status = weft_compile_file(graph, &web, weft_text_string(&path));
    if (!status) status = write_files(allocator, folder, &path);
    weft_text_deinit(&path);
    return status;
}
