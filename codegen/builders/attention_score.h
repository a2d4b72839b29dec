/* Forms of attention, as the Hopper builders compute them in registers between the product of queries and keys and the
   exponential: a soft cap, an additive or bool mask, causal and sliding windows.

       score = cap * tanh(scale * q k / cap) + mask[b, h, i, j], or -inf where j is not in i's window

   A mask is an operand in memory or an expression of the group (fuse copies cheap ones into the group): slopes times
   distances, equality of segments, anything that has a value at an index. Scores stay in units of the product while
   nothing but a bool mask changes them: then the scale is a factor of the exponent; else they are natural.
   Hidden scores have weight 0 whatever their mask gives: at rows and keys past the end it is read at the last ones.
   Letters as in attention_hopper.h. Read next: attention_score.c. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_SCORE_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_SCORE_H

#include "codegen/builders/index.h"

typedef struct weft_attention_forms {
    const weft_build_request *request;
    const weft_node *node;
    weft_kernel *k;
    const weft_value *mask; /* NULL: none */
    const weft_value *key;  /* of dropout (attention_draw.h); NULL: none */
    double dropout;
    weft_index_context index;
    double scale, cap;   /* of the node; cap 0: none */
    int64_t left, right; /* keys seen beside position i + S - T; -1: all */
    bool packed;         /* one query: rows are the heads of a group */
    weft_dim heads;      /* of a batch, that `head` below counts: H, or Hkv where packed */
    weft_dim rows;       /* T, or G where packed */
    weft_dim keys;
    weft_kval s, offset; /* S, S - T (S - 1 where packed) as values: set by the builder before places are made */
} weft_attention_forms;

/* Attributes, the mask and the key of a node of the fusion. Declares no buffers. */
void weft_attention_forms_init(weft_attention_forms *f, const weft_build_request *request, const weft_node *node);
/* Declares the buffers that the mask reads, in the kernel under construction. */
weft_status weft_attention_forms_declare(weft_attention_forms *f, weft_kernel *k) WEFT_MUST_USE;

static inline bool weft_attention_plain(const weft_attention_forms *f) { return !f->mask && f->cap == 0; }
/* Scores are natural, and not in units of the product. A bool mask alone hides products as they are. */
bool weft_attention_natural(const weft_attention_forms *f);
/* Exponents are 2^(factor * score - ...). */
double weft_attention_factor(const weft_attention_forms *f);
/* Does the position of a key decide whether it is seen, beyond the end of the keys? */
static inline bool weft_attention_windowed(const weft_attention_forms *f) { return f->left >= 0 || f->right >= 0; }

/* First key that rows from `row` on see, and one past the last that rows up to `row` see: within 0 ... S. */
weft_kval weft_attention_first_key(const weft_attention_forms *f, weft_kval row);
weft_kval weft_attention_end_key(const weft_attention_forms *f, weft_kval row);

/* A bool mask, head, row and key as below. */
weft_kval weft_attention_mask_sees(weft_attention_forms *f, weft_kval head, weft_kval row, weft_kval key);
/* The score of a product. head: of all batches; row: of the head, clamped to the last; slope: NULL, or receives the
   derivative of the cap (WEFT_KNONE: 1). Hides nothing by position. */
weft_kval weft_attention_form_score(weft_attention_forms *f, weft_kval product, weft_kval head, weft_kval row,
                                    weft_kval key, weft_kval *out_slope);
/* The same of keys key + column and the next one, the first even for every lane: masks are read two at a time where
   rows are even. */
void weft_attention_form_pair(weft_attention_forms *f, const weft_kval *products, weft_kval head, weft_kval row,
                              weft_kval key, int column, weft_kval *out_scores, weft_kval *out_slopes);

#endif
