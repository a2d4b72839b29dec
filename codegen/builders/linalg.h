/* What the builders of dense linear algebra share: one matrix or right-hand side is an item, work happens in one
   temporary, in f64 where the target has it, so that results round once. Read next: linalg.c, linalg_eigen.c,
   linalg_jacobi.c. */
#ifndef WEFT_CODEGEN_BUILDERS_LINALG_H
#define WEFT_CODEGEN_BUILDERS_LINALG_H

#include "codegen/builders/stage.h"

typedef struct weft_solver {
    weft_index_context c;
    const weft_build_request *request;
    const weft_node *node;
    weft_dtype work;
    weft_kval memory; /* the temporary */
} weft_solver;

/* A plan of one launch whose temporary holds `elements` numbers; 0: there is none. */
weft_status weft_solver_begin(const weft_build_request *request, weft_kernel_plan *plan, weft_op op, weft_dim elements,
                              weft_solver *out_solver) WEFT_MUST_USE;
weft_status weft_solver_finish(weft_solver *s, weft_kernel_plan *plan) WEFT_MUST_USE;
/* How many matrices the batch of the node's operand 0 has. */
weft_dim weft_solver_batch(const weft_solver *s);

/* Element (i, j) of matrix `batch` of an operand, in the working type. */
weft_kval weft_solver_element(weft_solver *s, int operand, weft_kval batch, weft_kval i, weft_kval j);
/* Stores element (i, j) of matrix `batch` of a result; j WEFT_KNONE: element i of a vector. */
void weft_solver_store(weft_solver *s, int result, weft_kval batch, weft_kval i, weft_kval j, weft_kval value);
/* One number of the temporary. */
weft_kval weft_solver_load(weft_solver *s, weft_kval at);
void weft_solver_put(weft_solver *s, weft_kval at, weft_kval value);

/* An eigenvector's sign is that of its first element beyond WEFT_SOLVER_SIGN / sqrt(n), as in the interpreter: one
   element is at least 1 / sqrt(n), and rounding rarely decides. sign: a variable, 0 until that element came by. */
#define WEFT_SOLVER_SIGN 0.37
void weft_solver_find_sign(weft_solver *s, weft_kval sign, weft_kval element, weft_kval least);

#endif
