/* The analytic choice of tiles for the CPU matmul.

   Cost of one k-step of a rows x nv tile, in cycles: max(FMA, loads) / 2, a tenth of the loads and a quarter of a cycle
   per line of B that comes from L2 (fitted to interleaved runs on a family 6 model 207 Xeon); a tile adds the cost of
   touching its results. One block of k: a panel streams out of L2, and rereading the results costs more.
   A is read in place: a broadcast needs no layout; tiles whose rows fall into one set of L1 are not taken.
   Read next: matmul_cpu.c. */
#include "codegen/builders/matmul_plan.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void set_rows(weft_matmul_tiles *t, int64_t m) {
    t->tiles = ceil_div(m, t->mr);
    if (t->tiles < 1) t->tiles = 1;
    t->base = m / t->tiles;
    t->extra = m % t->tiles;
}

static void set_columns(weft_matmul_tiles *t, int64_t n) {
    int64_t width = (int64_t)t->nv * t->lanes, rest = n % width;
    t->wide = n / width;
    t->last_nv = (int)ceil_div(rest, t->lanes);
    t->last_live = rest ? (int)(rest - (int64_t)(t->last_nv - 1) * t->lanes) : 0;
}

static double tile_cost(double rows, int nv, double k) {
    double fma = rows * nv / 2, loads = (rows + nv) / 2, latency = 4 * (rows * nv < 8 ? rows * nv / 8 : 1);
    double step = (fma > loads ? fma : loads) + 0.1 * loads + 0.25 * nv;
    if (step < latency) step = latency;
    return step * k + 1.5 * rows * nv + 30;
}

/* Cycles of all tiles, on the busiest of `threads` threads. */
static double cost(const weft_matmul_tiles *t, double k, int threads) {
    double total = 0;
    for (int narrow = 0; narrow < 2; narrow++) {
        int nv = narrow ? t->last_nv : t->nv;
        double panels = narrow ? t->last_nv > 0 : (double)t->wide;
        if (nv == 0) continue;
        total += panels * ((double)t->extra * tile_cost((double)t->base + 1, nv, k) +
                           (double)(t->tiles - t->extra) * tile_cost((double)t->base, nv, k));
    }
    if (threads == 1) return total;
    double panels = (double)t->wide + (t->last_nv > 0);
    double by_rows = (double)ceil_div(t->tiles, threads) / (double)t->tiles,
           by_panels = (double)ceil_div((int64_t)panels, threads) / panels;
    return total * (by_rows < by_panels ? by_rows : by_panels);
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* Rows `stride` bytes apart that share a set of a 64-set L1. */
static int64_t rows_in_one_set(int64_t rows, int64_t stride) {
    return stride % 64 ? 1 : ceil_div(rows * gcd(stride / 64, 64), 64);
}

static int64_t number_or(weft_dim dim, int64_t fallback) { return weft_dim_is_number(dim) ? dim : fallback; }

void weft_tile_choose(const weft_capability *capability, int element_bytes, int64_t m, int64_t n, int64_t k,
                      int64_t stride, int threads, int *out_rows, int *out_vectors) {
    static const int many[][2] = {{9, 3}, {8, 3}, {14, 2}, {12, 2}}, few[][2] = {{6, 2}, {4, 3}};
    bool wide_file = capability->vector_registers >= 32;
    const int(*table)[2] = wide_file ? many : few;
    int count = wide_file ? 4 : 2, pick = 1; /* rests of symbolic m are made of 4, 2 and 1 rows: tiles of 8 or 4 */
    double best = 1e300;
    for (int i = 0; i < count && m >= 0; i++) {
        weft_matmul_tiles t = {.lanes = capability->vector_bytes / element_bytes, .mr = table[i][0], .nv = table[i][1]};
        set_rows(&t, m);
        set_columns(&t, n);
        if (i > 0 && rows_in_one_set(t.mr, stride) > capability->l1_ways - 2) continue;
        double c = cost(&t, (double)k, threads < 1 ? 1 : threads);
        if (t.extra > 0) c *= 1.02; /* two heights of tiles: twice the code */
        if (c < best * 0.995) {
            best = c;
            pick = i;
        }
    }
    *out_rows = table[pick][0];
    *out_vectors = table[pick][1];
}

void weft_matmul_propose_tiles(const weft_build_request *request, const weft_matmul *p, weft_schedule *out_schedule) {
    int bytes = weft_dtype_bits(p->accumulate) / 8, lanes = request->capability->vector_bytes / bytes, rows, vectors;
    int64_t m = number_or(p->m, -1), n = number_or(p->n, 1 << 12), k = number_or(p->k, 1 << 10);
    int64_t stride = p->a.strided && weft_dim_is_number(p->a.row_stride) ? p->a.row_stride * bytes : 0;
    weft_tile_choose(request->capability, bytes, m, n, k, stride, request->thread_count, &rows, &vectors);
    int width = vectors * lanes;
    int64_t in_cache = request->capability->l2_bytes / 2 / (k * width * bytes + 1);
    *out_schedule = (weft_schedule){.builder = "matmul-cpu",
                                    .vector = lanes,
                                    /* few rows want several sums of each result, many have no registers for them */
                                    .accumulator_sets = request->capability->batch_invariant ? 1 : 0,
                                    .tile_m = rows,
                                    .tile_n = width,
                                    .unroll = 4,
                                    .panels_per_block = in_cache < 1      ? 1
                                                        : in_cache > 4096 ? 4096
                                                                          : (int)in_cache};
}

/* Blocks large enough to be worth handing out, enough of them to balance. */
static void set_blocks(const weft_build_request *request, const weft_matmul *p, weft_matmul_tiles *t) {
    weft_dim_table *table = request->graph->dims;
    int threads = request->thread_count < 1 ? 1 : request->thread_count;
    int64_t panels = number_or(t->panels, 64), k = number_or(p->k, 512), batch = number_or(p->batch, threads);
    int64_t tiles = t->m_known ? t->tiles : 64, rows = t->m_known && t->tiles == 1 ? t->base : t->mr;
    double tile_work = 2.0 * (double)rows * t->nv * t->lanes * (double)k;
    double total = tile_work * (double)tiles * (double)panels * (double)batch;
    const double BLOCK_WORK = 4 << 20;
    if (tiles == 1) { /* nothing is reused: panels are the blocks */
        int64_t wanted = (int64_t)(BLOCK_WORK / 4 / tile_work) + 1, most = ceil_div(panels, threads);
        t->panels_per_block = (int)(wanted < most ? wanted : most);
        t->tiles_per_block = 1;
    } else {
        int64_t panel_blocks = ceil_div(panels, t->panels_per_block) * batch;
        if (total < 2.0 * BLOCK_WORK) panel_blocks = batch;
        int64_t row_blocks = (int64_t)(total / BLOCK_WORK / (double)panel_blocks) + 1;
        if (threads > 1 && total > BLOCK_WORK / 4)
            while (row_blocks < tiles && row_blocks < 64 && row_blocks * panel_blocks < 8 * threads &&
                   row_blocks * panel_blocks % threads)
                row_blocks++;
        if (row_blocks > tiles) row_blocks = tiles;
        t->tiles_per_block = ceil_div(tiles, row_blocks);
        if (!t->m_known && t->tiles_per_block > 8) t->tiles_per_block = 8;
    }
    t->panel_blocks = weft_dim_divide_ceil(table, t->panels, t->panels_per_block);
    if (t->m_known)
        t->row_blocks = ceil_div(t->tiles, t->tiles_per_block);
    else
        t->row_blocks = weft_dim_divide_ceil(table, p->m, t->tiles_per_block * t->mr);
}

weft_matmul_tiles weft_matmul_tiles_of(const weft_build_request *request, const weft_matmul *p,
                                       const weft_schedule *schedule, bool single_row) {
    weft_matmul_tiles t = {
        .lanes = schedule->vector, .mr = schedule->tile_m, .panels_per_block = schedule->panels_per_block};
    t.nv = schedule->tile_n / schedule->vector;
    t.m_known = single_row || weft_dim_is_number(p->m);
    t.n_known = weft_dim_is_number(p->n);
    if (t.m_known) set_rows(&t, single_row ? 1 : p->m);
    if (t.n_known) {
        set_columns(&t, p->n);
        t.panels = t.wide + (t.last_nv > 0);
    } else {
        t.panels = weft_dim_divide_ceil(request->graph->dims, p->n, schedule->tile_n);
    }
    int64_t rows = t.m_known ? t.base + (t.extra > 0) : t.mr;
    t.sets = schedule->accumulator_sets;
    if (t.sets < 1)
        for (t.sets = 1; t.sets < 4 && rows * t.nv * t.sets < 8;) t.sets *= 2;
    set_blocks(request, p, &t);
    return t;
}
