/* Several kernels as one: the blocks of a launch are dealt to them in turn, so that independent work which fills only a
   part of a device each costs one launch and runs side by side. A piece's code stays as it is, behind a condition on
   the block's number. Pieces may not depend on each other. Used by compile/lower_join.c. */
#ifndef WEFT_CODEGEN_KERNEL_JOIN_H
#define WEFT_CODEGEN_KERNEL_JOIN_H

#include "codegen/kernel/kernel.h"

typedef struct weft_join_piece {
    const weft_kernel *kernel;
    const int *slots; /* for each argument that is a buffer: its number among the buffers of the joined kernel */
} weft_join_piece;

/* May it be a piece at all? What roles, clusters, tensor copies and their barriers assume of a block, only whole
   kernels give. */
bool weft_kernel_may_join(const weft_kernel *kernel);
/* In a block of more threads than it was made for? Its barriers would wait for threads that do not come. */
bool weft_kernel_may_idle(const weft_kernel *kernel);
/* Instructions that a thread runs one after another, loops of unknown length counted as a few trips. What an estimate
   of time starts from. */
int64_t weft_kernel_length(const weft_kernel *kernel);

/* The joined kernel, in the arena of extents and instructions given; its buffers, arguments of source TEMP, are
   numbered as the slots; a slot has one element type. Its threads are the most that a piece has. NULL: out of memory;
   what else goes wrong is said by weft_kernel_verify. */
weft_kernel *weft_kernel_join(weft_arena *arena, const char *name, int count, const weft_join_piece *pieces,
                              int slot_count);

#endif
