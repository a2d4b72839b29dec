/* A schedule is data: everything a builder decides before it emits. Serialisable (cache, artifact, dumps), made only in
   codegen/schedule and in the builders' propose functions. Zero fields are "not used". */
#ifndef WEFT_CODEGEN_SCHEDULE_H
#define WEFT_CODEGEN_SCHEDULE_H

#include "base/arena.h"
#include "base/text.h"

typedef struct weft_schedule {
    const char *builder;        /* pointwise row reduction transpose matmul-cpu matmul-hopper ... */
    int tile_m, tile_n, tile_k; /* of one block (GPU) or register tile (CPU: rows, columns; k = block of K) */
    int threads;                /* per block */
    int vector;                 /* lanes */
    int unroll;
    int stages;    /* ring depth */
    int consumers; /* consumer warpgroups */
    int cluster;
    int turns;            /* matmul-hopper: consumers have tiles of their own and take turns at the matrix unit */
    int raster;           /* group size of the tile order */
    int split;            /* K or row splits */
    int even;             /* matmul-hopper: steps of K that each cluster has; its splits are uneven then */
    int join;             /* matmul-hopper: blocks of a cluster that have a part of K each */
    int block_elements;   /* pointwise, reduction: elements of one block */
    int panels_per_block; /* CPU matmul: NC in panels */
    int accumulator_sets; /* CPU matmul: hides FMA latency */
    int pack_a;           /* CPU matmul: copy A */
    int box_w, box_h;     /* convolution-hopper: positions of a tile along the last axis and the one before */
    int tail;             /* matmul-hopper: columns of narrow tiles at the right edge */
    int foot;             /* matmul-hopper: rows at the end that a launch of their own computes */
    int promote;          /* elements of k that the matrix unit sums before they are added in f32; 0 = all */
    int way;              /* attention_backward: bits of attention_backward_hopper.h */
    int numerics;         /* key: instruction family, order over K, split */
} weft_schedule;

/* builder{tile_m=9,threads=128}: fields that are 0 are left out; deterministic. */
void weft_schedule_print(const weft_schedule *schedule, weft_text *text);
/* The builder's name is copied into the arena; whether there is such a builder is the caller's to ask. */
weft_status weft_schedule_parse(weft_arena *arena, const char *text, size_t bytes,
                                weft_schedule *out_schedule) WEFT_MUST_USE;

#endif
