/* Copies in front of the Hopper matmul: rows at multiples of 128 bytes for operands whose own rows tensor copies cannot
   take, and rows along k for 8- and 32-bit operands, which wgmma reads in no other order. Operands that are constants
   are copied once, when the program is loaded. Read next: matmul_hopper.c. */
#include "codegen/builders/matmul_hopper.h"
#include "codegen/builders/plan.h"
#include "codegen/kernel/verify.h"

enum { PACK_THREADS = 256, TURN_TILE = 64 };

/* Copied rows start at multiples of 128 bytes: a tensor copy of rows that do not reads two lines of the L2 for each. */
weft_dim weft_hopper_padded(const weft_hopper *h, weft_dim pitch) {
    weft_dim_table *dims = h->request->graph->dims;
    return weft_dim_multiply(dims, weft_dim_divide_ceil(dims, pitch, h->bk), h->bk);
}

enum { PACK_VECTORS = 4 /* of 16 bytes a thread */ };

/* Blocks that copy the rows of a side. */
static weft_dim row_blocks(const weft_hopper *h, const weft_product_side *side, weft_dim rows) {
    weft_dim_table *dims = h->request->graph->dims;
    weft_dim vectors = weft_dim_divide_ceil(dims, weft_hopper_padded(h, side->pitch), 16 / h->element_bytes);
    return weft_dim_divide_ceil(dims, weft_dim_multiply(dims, rows, vectors), PACK_THREADS * PACK_VECTORS);
}

/* Block `block` of those: from rows of `pitch` elements to rows of the padded pitch, zeros in between. A thread has
   several vectors of 16 bytes, all of them read before the first is stored. */
static void emit_rows(const weft_hopper *h, weft_kernel *k, const weft_product_side *side, weft_kval from, weft_kval to,
                      weft_dim rows, weft_kval block) {
    weft_dim_table *dims = k->dims;
    int bytes = h->element_bytes, lanes = 16 / bytes;
    weft_dim vectors = weft_dim_divide_ceil(dims, weft_hopper_padded(h, side->pitch), lanes),
             total = weft_dim_multiply(dims, rows, vectors);
    weft_kval width = weft_k_index(k, lanes), per_row = weft_k_extent(k, vectors),
              pitch = weft_k_extent(k, side->pitch);
    weft_kval first = weft_k_mul(k, block, weft_k_index(k, PACK_THREADS * PACK_VECTORS)), end = weft_k_extent(k, total);
    weft_kval position[PACK_VECTORS], value[PACK_VECTORS];
    int64_t known = weft_dim_divisor(dims, side->pitch);
    int run = known % 4 == 0 && lanes > 4 ? 4 : known % 2 == 0 ? 2 : 1;
    first = weft_k_add(k, first, weft_k_thread(k));
    for (int i = 0; i < PACK_VECTORS; i++) {
        position[i] = weft_k_add(k, first, weft_k_index(k, (int64_t)i * PACK_THREADS));
        weft_kval row = weft_k_div(k, position[i], per_row),
                  column = weft_k_mul(k, weft_k_rem(k, position[i], per_row), width);
        weft_kval each =
            weft_k_add(k, weft_k_splat(k, column, lanes), weft_k_iota(k, k->capability->index_dtype, lanes));
        weft_kval here = weft_k_lt(k, position[i], end);
        weft_kval mask = weft_k_and(k, weft_k_lt(k, each, pitch), weft_k_splat(k, here, lanes));
        value[i] = weft_k_load(k, from, weft_k_add(k, weft_k_mul(k, row, pitch), column), lanes, mask, WEFT_KNONE);
        if (!k->failed) k->instrs[value[i]].align_bytes = run * bytes;
    }
    for (int i = 0; i < PACK_VECTORS; i++) {
        weft_k_if(k, weft_k_lt(k, position[i], end));
        weft_k_store(k, to, weft_k_mul(k, position[i], width), WEFT_KNONE, value[i]);
        if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 16;
        weft_k_end(k);
    }
}

/* Thread `thread`'s places in a tile of 64 lines by 64 / lanes groups: groups run fastest. */
enum { TURN_MOST = TURN_TILE * TURN_TILE / PACK_THREADS };
typedef struct turn_places {
    int count, lanes;
    weft_kval group; /* first element of it in a line */
    weft_kval line[TURN_MOST];
} turn_places;

static turn_places place_turn(weft_kernel *k, int lanes) {
    turn_places out = {.count = TURN_MOST / lanes, .lanes = lanes};
    weft_kval groups = weft_k_index(k, TURN_TILE / lanes), thread = weft_k_thread(k);
    out.group = weft_k_mul(k, weft_k_rem(k, thread, groups), weft_k_index(k, lanes));
    for (int i = 0; i < out.count; i++)
        out.line[i] = weft_k_add(k, weft_k_div(k, thread, groups),
                                 weft_k_index(k, (int64_t)i * PACK_THREADS * lanes / TURN_TILE));
    return out;
}

/* Pairs where every line has an even number of them: all loads of a thread are under way before the first is used. */
void weft_hopper_turn(weft_kernel *k, weft_kval from, weft_kval to, weft_dim batches, weft_dim depth, weft_dim free,
                      weft_dim padded) {
    weft_dim_table *dims = k->dims;
    int bytes = weft_dtype_bits((weft_dtype)weft_ktype_of(k, from).elem) / 8;
    bool pairs = bytes <= 2;
    weft_dim across = weft_dim_divide_ceil(dims, free, TURN_TILE), along = weft_dim_divide_ceil(dims, depth, TURN_TILE);
    k->threads = PACK_THREADS;
    k->grid = weft_dim_multiply(dims, batches, weft_dim_multiply(dims, across, along));
    weft_kval tile = weft_k_shared(k, (weft_dtype)weft_ktype_of(k, from).elem, TURN_TILE * (TURN_TILE + 1)),
              size = weft_k_index(k, TURN_TILE), pitch = weft_k_index(k, TURN_TILE + 1), one = weft_k_index(k, 1);
    weft_kval block = weft_k_block(k), line = weft_k_div(k, block, weft_k_extent(k, across));
    weft_kval f0 = weft_k_mul(k, weft_k_rem(k, block, weft_k_extent(k, across)), size),
              k0 = weft_k_mul(k, weft_k_rem(k, line, weft_k_extent(k, along)), size),
              batch = weft_k_div(k, line, weft_k_extent(k, along));
    weft_kval frees = weft_k_extent(k, free), depths = weft_k_extent(k, depth), value[TURN_MOST], inside[TURN_MOST];
    turn_places in = place_turn(k, pairs && weft_dim_divisor(dims, free) % 2 == 0 ? 2 : 1);
    for (int i = 0; i < in.count; i++) {
        weft_kval at_k = weft_k_add(k, k0, in.line[i]), at_f = weft_k_add(k, f0, in.group);
        inside[i] = weft_k_and(k, weft_k_lt(k, at_k, depths), weft_k_lt(k, at_f, frees));
        weft_kval row = weft_k_add(k, weft_k_mul(k, batch, depths), at_k),
                  at = weft_k_add(k, weft_k_mul(k, row, frees), at_f);
        value[i] = weft_k_load(k, from, at, in.lanes, weft_k_splat(k, inside[i], in.lanes), WEFT_KNONE);
        if (!k->failed) k->instrs[value[i]].align_bytes = in.lanes * bytes;
    }
    for (int i = 0; i < in.count; i++) {
        weft_kval at = weft_k_add(k, weft_k_mul(k, in.line[i], pitch), in.group);
        for (int lane = 0; lane < in.lanes; lane++)
            weft_k_store(k, tile, weft_k_add(k, at, weft_k_index(k, lane)), WEFT_KNONE,
                         in.lanes == 1 ? value[i] : weft_k_extract(k, value[i], lane));
    }
    weft_k_barrier(k);
    turn_places out = place_turn(k, pairs && weft_dim_divisor(dims, depth) % 2 == 0 ? 2 : 1);
    for (int i = 0; i < out.count; i++) {
        weft_kval at_f = weft_k_add(k, f0, out.line[i]), at_k = weft_k_add(k, k0, out.group);
        weft_kval at = weft_k_add(k, weft_k_mul(k, out.group, pitch), out.line[i]);
        weft_kval first = weft_k_load(k, tile, at, 1, WEFT_KNONE, WEFT_KNONE), turned = first;
        if (out.lanes == 2) {
            at = weft_k_add(k, weft_k_mul(k, weft_k_add(k, out.group, one), pitch), out.line[i]);
            weft_kval second = weft_k_load(k, tile, at, 1, WEFT_KNONE, WEFT_KNONE);
            turned = weft_k_insert(k, weft_k_splat(k, first, 2), 1, second);
        }
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, at_k, depths), weft_k_lt(k, at_f, frees)));
        weft_kval row = weft_k_add(k, weft_k_mul(k, batch, frees), at_f);
        weft_k_store(k, to, weft_k_add(k, weft_k_mul(k, row, weft_k_extent(k, padded)), at_k), WEFT_KNONE, turned);
        if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = out.lanes * bytes;
        weft_k_end(k);
    }
}

/* One operand's copy, while the plan is made. */
typedef struct copy {
    weft_product_side *side;
    weft_dim free, rows;
    int temp;
    bool turn;
    weft_kval from, to;
} copy;

static void add_buffers(const weft_hopper *h, weft_kernel *k, copy *c) {
    c->from =
        weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, c->side->operand, weft_hopper_dtype(h, c->side), false, "rows");
    c->to = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, c->temp, weft_hopper_dtype(h, c->side), true, "padded");
}

/* One launch for `count` copies: several only when none is turned. */
static weft_status plan_copies(weft_hopper *h, weft_kernel_plan *plan, copy *copies, int count, int launch,
                               const char *suffix) {
    weft_kernel *k = weft_plan_kernel(h->request, suffix);
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", h->request->name);
    k->threads = PACK_THREADS;
    for (int i = 0; i < count; i++) add_buffers(h, k, &copies[i]);
    weft_kval block = weft_k_block(k);
    if (copies->turn) {
        weft_hopper_turn(k, copies->from, copies->to, h->product.batch, h->product.k, copies->free,
                         weft_hopper_padded(h, h->product.k));
    } else {
        weft_dim first = row_blocks(h, copies->side, copies->rows);
        k->grid = first;
        if (count == 2) {
            k->grid = weft_dim_add(k->dims, first, row_blocks(h, copies[1].side, copies[1].rows));
            weft_k_if(k, weft_k_lt(k, block, weft_k_extent(k, first)));
        }
        emit_rows(h, k, copies->side, copies->from, copies->to, copies->rows, block);
        if (count == 2) {
            weft_k_else(k);
            emit_rows(h, k, copies[1].side, copies[1].from, copies[1].to, copies[1].rows,
                      weft_k_sub(k, block, weft_k_extent(k, first)));
            weft_k_end(k);
        }
    }
    WEFT_TRY(weft_kernel_verify(k), "building %s", h->request->name);
    WEFT_TRY(weft_plan_set(h->request, plan, launch, k), "building %s", h->request->name);
    plan->launches[launch].packs = true;
    return NULL;
}

static bool divides(const weft_graph *graph, weft_dim extent, int64_t divisor) {
    int64_t known = weft_dim_divisor(graph->dims, extent);
    return known == 0 || known % divisor == 0;
}

bool weft_hopper_is_constant(const weft_hopper *h, const weft_product_side *side) {
    const weft_node *producer = h->request->fusion->operands[side->operand]->node;
    return producer && producer->op == WEFT_OP_constant;
}

/* Can the copy of both be one launch? Not when one of them is done at load, the other at each call. */
static bool join(const weft_hopper *h, const copy *copies) {
    return !copies[0].turn && !copies[1].turn &&
           weft_hopper_is_constant(h, copies[0].side) == weft_hopper_is_constant(h, copies[1].side);
}

weft_status weft_hopper_plan_packing(weft_hopper *h, weft_kernel_plan *plan) {
    weft_product *p = &h->product;
    weft_product_side *sides[2] = {&p->a, &p->b};
    weft_dim_table *dims = h->request->graph->dims;
    int *temps[2] = {&h->packed_a, &h->packed_b}, count = 0;
    copy copies[2];
    for (int i = 0; i < 2; i++) {
        bool turn = !sides[i]->k_contiguous && h->element_bytes != 2,
             odd = !divides(h->request->graph, sides[i]->pitch, 16 / h->element_bytes);
        *temps[i] = -1;
        if (!turn && !odd) continue;
        weft_dim free = i ? p->n : p->m, lines = sides[i]->k_contiguous || turn ? free : p->k;
        copies[count] = (copy){.side = sides[i], .free = free, .temp = count, .turn = turn};
        copies[count].rows = weft_dim_multiply(dims, p->batch, lines);
        *temps[i] = count++;
    }
    int sums = h->split > 1, own = 1 + (h->foot > 0), launches = count == 2 && join(h, copies) ? 1 : count;
    h->parts = sums ? count : -1;
    WEFT_TRY(weft_plan_init(h->request, launches + own + sums, count + sums, plan), "building %s", h->request->name);
    for (int i = 0; i < count; i++) {
        weft_dim pitch = weft_hopper_padded(h, copies[i].turn ? p->k : copies[i].side->pitch);
        plan->temps[i] = (weft_plan_temp){
            .bytes = weft_dim_multiply(dims, weft_dim_multiply(dims, copies[i].rows, pitch), h->element_bytes),
            .persistent = true,
            .operand = copies[i].side->operand};
    }
    for (int i = 0; i < launches; i++)
        WEFT_TRY(plan_copies(h, plan, &copies[i], launches < count ? 2 : 1, i,
                             launches < count             ? "_rows"
                             : copies[i].side == sides[0] ? "_rows_a"
                                                          : "_rows_b"),
                 "building %s", h->request->name);
    for (int i = 0; i < count; i++)
        if (copies[i].turn) copies[i].side->k_contiguous = true, copies[i].side->pitch = p->k;
    return NULL;
}
