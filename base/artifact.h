/* The artifact file, model.weft: a ZIP64 of stored entries that holds everything a runtime needs.

   manifest.json: {"format": "weft-artifact", "version": 1, "producer", "name", "weights": entry or null,
   "weights_bytes", "graph": entry or null, "targets": [{"target", "arch", "code": entry, "program": {...}}]}.

   kernels/<target>/<arch>.<ext> is code, weights.bin the constants: both start at multiples of 64 KiB, so they are used
   in place from the mapped file. graph.wir is the text of the graph that the programs were made from, re-lowered where
   no code fits.

   Several targets share one weights entry; each program's CONSTANT offsets count from its start.
   Used by compile/ (writer), runtime/artifact.c (loader) and tools. */
#ifndef WEFT_BASE_ARTIFACT_H
#define WEFT_BASE_ARTIFACT_H

#include "base/json.h"
#include "base/program.h"
#include "base/zip.h"

enum { WEFT_ARTIFACT_VERSION = 1, WEFT_ARTIFACT_ALIGN = 1 << 16 };

typedef struct weft_artifact_target {
    const weft_program_data *program; /* its target: cpu, cuda ... */
    const char *arch;                 /* x86-64-v4, sm_90a ... */
    const void *code;
    size_t code_bytes;
} weft_artifact_target;

typedef struct weft_artifact_content {
    const char *name;
    int target_count;
    const weft_artifact_target *targets;
    const char *graph; /* NULL = left out */
    size_t graph_bytes;
    const void *weights; /* weights_bytes: at least every program's */
    uint64_t weights_bytes;
    bool batch_invariant; /* compiled so (weft/compile.h), and to be compiled so again */
} weft_artifact_content;

/* The file appears complete or not at all. */
weft_status weft_artifact_write(weft_allocator allocator, const char *path,
                                const weft_artifact_content *content) WEFT_MUST_USE;

/* What an artifact says about itself; the pointers lie in the arena or in the mapped file. */
typedef struct weft_artifact_entry {
    const char *target, *arch;
    const weft_json *program; /* for weft_program_read */
    const weft_zip_entry *code;
} weft_artifact_entry;

typedef struct weft_artifact {
    const char *name, *producer;
    int target_count;
    const weft_artifact_entry *targets;
    const weft_zip_entry *graph;   /* NULL = none */
    const weft_zip_entry *weights; /* NULL = none */
    bool batch_invariant;
} weft_artifact;

/* Checks the ZIP structure, the manifest (its CRC too) and that every entry it names exists. Entries' own CRCs are for
   the caller (weft_zip_check). A newer format is UNSUPPORTED and says how to go on. */
weft_status weft_artifact_open(weft_arena *arena, const void *data, size_t bytes,
                               weft_artifact *out_artifact) WEFT_MUST_USE;

#endif
