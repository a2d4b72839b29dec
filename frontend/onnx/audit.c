/* The list of everything in a model that the importer does not know, made before anything is built, so that a user sees
   all of it at once. Invariant: an empty list means that every node has a handler that knows its attributes.
   Read next: operators.def. */
#include <string.h>

#include "base/file.h"
#include "base/need.h"
#include "frontend/onnx/import.h"

typedef struct audit {
    const Onnx__ModelProto *model;
    weft_text *text;
    size_t lines;
} audit;

enum { AUDIT_LINES_MAX = 200 };

static const char *node_label(const Onnx__NodeProto *node) {
    if (node->name && *node->name) return node->name;
    return node->n_output > 0 && node->output[0] ? node->output[0] : "?";
}

static void audit_nodes(audit *a, size_t count, Onnx__NodeProto *const *nodes, const weft_onnx_frame *frame, int depth);

static void audit_graph(audit *a, const Onnx__GraphProto *graph, const weft_onnx_frame *frame, int depth) {
    if (depth > WEFT_ONNX_DEPTH_MAX) {
        weft_text_append(a->text, "  subgraphs nest deeper than %d\n", WEFT_ONNX_DEPTH_MAX);
        a->lines++;
        return;
    }
    audit_nodes(a, graph->n_node, graph->node, frame, depth);
}

static void audit_attributes(audit *a, const Onnx__NodeProto *node, const weft_onnx_operator *row,
                             const weft_onnx_frame *frame, int depth) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->attribute[i];
        const char *name = attribute->name ? attribute->name : "";
        if (row && !weft_onnx_operator_has(row, name)) {
            weft_text_append(a->text, "  %s: %s has the unknown attribute %s\n", node_label(node), node->op_type, name);
            a->lines++;
        }
        if (attribute->g) audit_graph(a, attribute->g, frame, depth + 1);
        for (size_t k = 0; k < attribute->n_graphs; k++) audit_graph(a, attribute->graphs[k], frame, depth + 1);
    }
}

static void audit_node(audit *a, const Onnx__NodeProto *node, const weft_onnx_frame *frame, int depth) {
    if (!node->op_type || !*node->op_type) {
        weft_text_append(a->text, "  %s: a node without an operator\n", node_label(node));
        a->lines++;
        return;
    }
    bool function = weft_onnx_function_find(a->model, node) != NULL;
    const weft_onnx_operator *row = function ? NULL : weft_onnx_operator_find(node->domain, node->op_type);
    const char *domain = node->domain ? node->domain : "";
    int version = weft_onnx_version(frame, a->model, domain);
    if (!function && !row) {
        weft_text_append(a->text, "  %s: operator %s%s%s is not supported\n", node_label(node), domain,
                         *domain ? "." : "", node->op_type);
        a->lines++;
    } else if (row && version < row->first) {
        weft_text_append(a->text, "  %s: %s exists from version %d on, the model imports version %d\n",
                         node_label(node), node->op_type, row->first, version);
        a->lines++;
    } else if (row && version > row->last && row->last < WEFT_ONNX_OPSET_MAX && !*row->domain) {
        weft_text_append(a->text, "  %s: %s ended with version %d, the model imports version %d\n", node_label(node),
                         node->op_type, row->last, version);
        a->lines++;
    }
    audit_attributes(a, node, row, frame, depth);
}

static void audit_nodes(audit *a, size_t count, Onnx__NodeProto *const *nodes, const weft_onnx_frame *frame,
                        int depth) {
    for (size_t i = 0; i < count && a->lines < AUDIT_LINES_MAX; i++) audit_node(a, nodes[i], frame, depth);
}

void weft_onnx_audit_model(const Onnx__ModelProto *model, weft_text *text) {
    audit a = {.model = model, .text = text};
    int version = weft_onnx_version(NULL, model, "");
    if (version > WEFT_ONNX_OPSET_MAX) {
        weft_text_append(text, "  the model uses operator set %d; the newest known one is %d\n", version,
                         WEFT_ONNX_OPSET_MAX);
        a.lines++;
    }
    audit_graph(&a, model->graph, NULL, 0);
    for (size_t i = 0; i < model->n_functions; i++) {
        weft_onnx_frame frame = {.function = model->functions[i]};
        audit_nodes(&a, model->functions[i]->n_node, model->functions[i]->node, &frame, 0);
    }
    if (a.lines >= AUDIT_LINES_MAX) weft_text_append(text, "  ... and more\n");
}

weft_status weft_onnx_audit(weft_context *context, const char *path, char **out_text) {
    WEFT_NEED(out_text, "out_text");
    *out_text = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    weft_file file;
    WEFT_TRY(weft_file_map(path, &file), "auditing %s", path);
    weft_arena arena;
    weft_arena_init(context->allocator, &arena);
    const Onnx__ModelProto *model;
    weft_status status = weft_onnx_model_unpack(&arena, file.data, file.bytes, &model);
    if (!status) {
        weft_text text;
        weft_text_init(context->allocator, &text);
        weft_onnx_audit_model(model, &text);
        status = weft_onnx_text_take(context, &text, out_text);
    }
    weft_arena_deinit(&arena);
    weft_file_unmap(&file);
    return weft_status_annotate(status, __FILE__, __LINE__, "auditing %s", path);
}
