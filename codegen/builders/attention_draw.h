/* Dropout of attention's weights in registers: which are kept, drawn where they lie (ir/ops/attention_dropout.c says
   what a draw is). A lane of an accumulator's fragment, or of its transpose's, has rows i and i + 8 and columns j and
   j + 8 of a cell of 16 x 16: four weights for one draw. Kernels mark dropped weights by the sign, so that a gradient
   still finds the weight itself. Letters as in attention_hopper.h. Read next: attention_draw.c. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_DRAW_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_DRAW_H

#include "codegen/builders/attention_score.h"

typedef struct weft_attention_draw {
    weft_attention_forms *forms;
    weft_kval key[2], counter[2]; /* words of the key; WEFT_KNONE in a kernel that has not begun */
    weft_kval across;             /* u64: draws of a row of cells */
} weft_attention_draw;

static inline bool weft_attention_draws(const weft_attention_forms *f) { return f->key != NULL; }

/* Reads the key: once, outside of the loops over tiles. */
weft_attention_draw weft_attention_draw_begin(weft_attention_forms *f);
/* Number of the draw of a weight in the upper left quarter of its cell; head: of all batches. */
weft_kval weft_attention_draw_number(const weft_attention_draw *d, weft_kval head, weft_kval row, weft_kval key);
/* The number `rows` and `columns` of draws further. */
weft_kval weft_attention_draw_moved(const weft_attention_draw *d, weft_kval number, int rows, int columns);
/* Two words of bits: of the row, and of the row 8 further. */
void weft_attention_draw_bits(const weft_attention_draw *d, weft_kval number, weft_kval *out_words);
/* Is the weight of a word kept, of its column, or (right) of the column 8 further? */
weft_kval weft_attention_kept(const weft_attention_draw *d, weft_kval word, bool right);
/* weight, or its negative where it is dropped. */
weft_kval weft_attention_mark(const weft_attention_draw *d, weft_kval weight, weft_kval word, bool right);
/* With dP a gradient of a dropped matrix: marked weight w to |w| (dP' - delta), dP' scaled where w is kept, else 0. */
weft_kval weft_attention_marked_slope(const weft_attention_draw *d, weft_kval weight, weft_kval dp, weft_kval delta);
/* Two packed 16-bit floats without those below zero. */
weft_kval weft_attention_unmarked(weft_kernel *k, weft_kval pair);

#endif
