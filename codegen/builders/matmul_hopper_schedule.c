/* Which tiles the Hopper matmul takes: a table of choices, ranked by an estimate of the cycles of the whole grid. A
   unit of cost is two cycles: 128 bytes of k of a 128 x 256 tile take the matrix unit 512 at full rate. Measured
   figures that the constants come from: docs/benchmarks-gpu.md. Read next: matmul_hopper.c. */
#include "codegen/builders/matmul_hopper.h"

typedef struct tile_choice {
    int bm, consumers, bn, cluster, turns, tail, split;
    int join;          /* parts of k in a cluster; 0: none, and the tile is one of the table's */
    int even;          /* steps that every cluster has; a tile has `split` parts at most then */
    double efficiency; /* of the tensor pipe in a long main loop: operand reads from shared memory bound narrow tiles */
    int foot;          /* rows at the end that have a launch of their own */
} tile_choice;

/* Tiles of consumers in turns keep 0.955 of the pipe busy (32768x2304x768 alone: 0.93 of the time of shared tiles,
   whose epilogue nothing hides), and move twice the bytes from the L2 for each product: that takes power, and under its
   limit, in a training step, what is bound by the pipe takes 1.09 (x2304x768: 0.93 alone, 1.01 there) to 1.12 times as
   long (x768x3072 with a residual in f32: 0.98, 1.10) beside shared tiles. Rates here are those under the limit. */
static const tile_choice choices[] = {{128, 2, 256, 2, 0, 0, 1, 0, 0, 0.97, 0},
                                      {128, 2, 256, 1, 0, 0, 1, 0, 0, 0.96, 0},
                                      {128, 2, 192, 2, 0, 0, 1, 0, 0, 0.94, 0},
                                      {128, 2, 128, 2, 1, 0, 1, 0, 0, 0.950 / 1.12, 0},
                                      {128, 2, 128, 1, 1, 0, 1, 0, 0, 0.955 / 1.12, 0},
                                      {128, 2, 128, 2, 0, 0, 1, 0, 0, 0.90, 0},
                                      {128, 2, 128, 1, 0, 0, 1, 0, 0, 0.88, 0},
                                      {64, 1, 256, 1, 0, 0, 1, 0, 0, 0.80, 0},
                                      {64, 1, 128, 1, 0, 0, 1, 0, 0, 0.70, 0},
                                      {128, 2, 64, 2, 0, 0, 1, 0, 0, 0.72, 0},
                                      {64, 1, 64, 1, 0, 0, 1, 0, 0, 0.50, 0}}; /* equal cost: the first */
enum { CHOICES = sizeof choices / sizeof *choices, FEW = 3, ALL = 3 * CHOICES + FEW, EVEN_BYTES = 32 << 20 };

/* What is multiplied, as numbers: symbolic extents by a sample. */
typedef struct problem {
    int64_t m, n, k, batch;
    int64_t groups; /* of rows: each ends half a tile early, on average */
    int bk;
    bool straddles;  /* an operand is read in place whose rows are not whole lines */
    int staged;      /* bytes of an element of results that leave through shared memory; 0: from registers */
    bool slow;       /* a companion arrives before them */
    double epilogue; /* units of cost an element of the result */
    bool b_along_k;  /* B's memory runs along k: tiles may have any 16 columns */
} problem;

static int64_t sample_extent(const weft_graph *graph, weft_dim extent) {
    if (weft_dim_is_number(extent)) return extent;
    int64_t low, high;
    weft_dim_bounds(graph->dims, extent, &low, &high);
    return high < (1 << 20) ? high : low > 1024 ? low : 1024;
}

int weft_hopper_outs(int chunks, int limit) {
    int outs = chunks < limit ? chunks : limit;
    while (chunks % outs) outs--;
    return outs;
}

static int stages_of(const weft_capability *capability, const tile_choice *choice, const problem *p) {
    if (choice->join) { /* what is on its way hides the latency of memory */
        int left = capability->shared_bytes - (choice->join > 1 ? choice->bm * choice->bn * 4 + 8 : 0), most = 12;
        while (most > 3 && weft_hopper_shared_bytes(choice->bm, choice->bn, most, choice->consumers, 0) > left) most--;
        return most;
    }
    int wide = p->staged == 4, chunks = (choice->turns ? choice->bm / 64 : 1) * choice->bn / (wide ? 32 : 64),
        outs = weft_hopper_outs(chunks, weft_hopper_outs_limit(p->staged, choice->turns, p->slow)), stages = 8;
    while (stages > 3 &&
           weft_hopper_shared_bytes(choice->bm, choice->bn, stages, choice->consumers, outs) > capability->shared_bytes)
        stages--;
    return stages;
}

/* Narrow tiles at the right edge take about a third of a whole one; the blocks that the last round leaves idle have
 * them.
 */
static double tail_waves(const tile_choice *choice, int64_t tiles, int64_t blocks, int64_t tails) {
    if (!choice->tail) return 0;
    int64_t busy = tiles % blocks, idle = blocks - busy;
    double rounds = 0.35 * (double)((tails + idle - 1) / idle);
    return busy == 0 ? rounds : rounds > 1 ? rounds - 1 : 0;
}

/* Columns of narrow tiles that such a choice is worth: up to 64 behind whole tiles. */
int weft_hopper_tail(const weft_build_request *request, const weft_product *product, int bn) {
    const weft_value *yield = weft_fusion_yield(request->fusion, 0);
    if (!weft_dim_is_number(product->n)) return 0;
    int64_t n = product->n, rest = n % bn;
    if (n < bn || rest < 1 || rest > 64 || weft_product_companion(request->fusion, product, yield->type.dtype) >= 0)
        return 0;
    return (int)(rest + 15) / 16 * 16;
}

/* Instructions an element, roughly, of an elementwise op on 32 bits. */
static double instructions_of(const weft_node *node) {
    switch ((int)node->op) {
    case WEFT_OP_erf: return 12;
    case WEFT_OP_tanh:
    case WEFT_OP_logistic:
    case WEFT_OP_sin:
    case WEFT_OP_cos:
    case WEFT_OP_exp:
    case WEFT_OP_log:
    case WEFT_OP_pow: return 10;
    case WEFT_OP_div:
    case WEFT_OP_rem: return 6;
    case WEFT_OP_reshape:
    case WEFT_OP_broadcast:
    case WEFT_OP_constant: return 0;
    default: return 1.5;
    }
}

static weft_dim elements_of(weft_dim_table *dims, const weft_type *type) {
    weft_dim count = 1;
    for (int i = 0; i < type->rank; i++) count = weft_dim_multiply(dims, count, type->dims[i]);
    return count;
}

/* Units of cost that the epilogue takes an element of the product, when nothing hides it: results through shared memory
   0.018 each, arithmetic at the rate of issue; pairs stored from registers are slow, and what is read beside them waits
   for memory. */
static double epilogue_of(const weft_build_request *request, const weft_product *product, bool direct) {
    const weft_block *block = weft_fusion_block(request->fusion);
    const weft_type *shape = &product->dot->results[0].type;
    weft_dim_table *dims = request->graph->dims;
    double cost = 0;
    for (int i = 0; i < request->fusion->result_count; i++)
        cost += 0.018 * weft_dtype_bits(weft_fusion_yield(request->fusion, i)->type.dtype) / 16;
    for (int i = 0; i < block->argument_count; i++) {
        const weft_type *type = &block->arguments[i]->type;
        bool whole = i != product->a.operand && i != product->b.operand && type->rank == shape->rank;
        for (int d = 0; whole && d < shape->rank; d++) whole = type->dims[d] == shape->dims[d];
        if (whole) cost += direct ? 0.4 : 0.01 * weft_dtype_bits(type->dtype) / 8;
    }
    for (const weft_node *node = block->first; node; node = node->next)
        if (node != product->dot && node->result_count == 1 &&
            weft_dim_known_equal(dims, elements_of(dims, &node->results[0].type), elements_of(dims, shape)))
            cost += 0.0039 * instructions_of(node);
    return cost;
}

int weft_hopper_foot_columns(const weft_capability *capability, const weft_product *product) {
    int step = product->b.k_contiguous ? 16 : 64, columns = step > 32 ? step : 32;
    int64_t n = product->n, batch = weft_dim_is_number(product->batch) ? product->batch : 1;
    while (columns < 256 && (n + columns - 1) / columns * batch > capability->multiprocessors) columns += step;
    return columns;
}

/* Units of cost of a launch for the rows at the end: B is read once more. */
static double foot_cost(const problem *p) {
    return 5000 + (double)(p->n * p->k * p->batch) * HOPPER_ROW_BYTES / p->bk * 0.00021;
}

/* Units of cost, two cycles each, of the whole grid: waves of tiles, each a main loop and what of its epilogue is not
   hidden. In turns, a tile's epilogue runs beside the next one's products, with half the warps to hide its latencies.
 */
static double cost_of(const weft_capability *capability, const tile_choice *choice, const problem *whole) {
    problem above = *whole;
    const problem *p = &above;
    above.m -= choice->foot;
    double foot = choice->foot ? foot_cost(p) : 0;
    int64_t high = choice->bm * choice->cluster,
            rows = (p->m + p->groups * high / 2 + high - 1) / high * choice->cluster;
    int64_t tiles = rows * ((p->n + choice->bn - 1) / choice->bn) * p->batch,
            blocks = capability->multiprocessors / choice->cluster * choice->cluster;
    if (choice->tail) tiles = rows * (p->n / choice->bn) * p->batch;
    int join = choice->join > 1 ? choice->join : 1, parts = choice->split * join;
    tiles *= parts;
    double waves = (double)((tiles + blocks - 1) / blocks) + tail_waves(choice, tiles, blocks, rows * p->batch),
           steps = (double)(((p->k + p->bk - 1) / p->bk + parts - 1) / parts);
    double area = (double)(choice->bm * choice->bn), tensor = area / 64 / choice->efficiency; /* 128 bytes of k */
    /* what no other block reads comes at a block's share of the memory, the rest from the L2 at twice that; rows that
       do not start at lines of it cost two for each 128 bytes */
    double a = (double)(choice->bm < p->m ? choice->bm : p->m) * HOPPER_ROW_BYTES,
           b = (double)(choice->bn / choice->cluster) * HOPPER_ROW_BYTES;
    double inlet = a / (choice->bn < p->n ? 128 : 64) + b / (high < p->m ? 128 : 64);
    if (p->straddles && choice->bm < p->m) inlet *= 2;
    double step = tensor > inlet ? tensor : inlet, loop = steps * step, epilogue = area * p->epilogue;
    /* nor do all blocks together read more than the memory gives; of equal ones the shorter loop, and once if possible
     */
    double bytes = (double)((p->m + p->n) * p->k * p->batch) * HOPPER_ROW_BYTES / p->bk, floor = bytes * 0.00021;
    if (waves * loop < floor) loop = floor / waves * (high < p->m ? 1.05 : 1) + 0.05 * loop;
    /* sums go through the memory of the cluster's blocks at 16 bytes a cycle */
    if (choice->join) return waves * (loop + epilogue / join + (join > 1 ? area / 8 + 1000 : 0)) + 2200;
    if (choice->turns) {
        double own = 1.6 * epilogue, beside = (loop + own) / 2;
        return waves * (loop > beside ? loop : beside) + own + 2200 + foot;
    }
    if (choice->even) { /* a tile or two in part for each cluster: as many places of sums as tiles and clusters */
        double places = (double)(tiles / choice->split + blocks), each = 600 + area * 4 / 40;
        return choice->even * step + 2 * each + 2200 + 5000 + places * area * 8 / 2400;
    }
    if (choice->split == 1) return waves * (loop + epilogue) + 2200 + foot;
    /* parts of k: a launch, their sums written while no product runs, and read */
    double sums = 5000 + (double)(choice->split * p->m * p->n * p->batch) * 8 / 2400 + waves * (600 + area * 4 / 40);
    return waves * loop + 2200 + sums;
}

/* An even share of all steps for every cluster: for grids that leave blocks idle, whose k is long. false: not to be
   had. Whole tiles' sums go through the temporary too, so there are no more tiles than clusters. */
static bool share_evenly(const weft_capability *capability, const problem *p, tile_choice *choice) {
    int64_t rows = (p->m + choice->bm * choice->cluster - 1) / (choice->bm * choice->cluster),
            tiles = rows * ((p->n + choice->bn - 1) / choice->bn) * p->batch, steps = (p->k + p->bk - 1) / p->bk,
            clusters = capability->multiprocessors / choice->cluster;
    int64_t bytes = (p->m + p->n) * p->k * p->batch * HOPPER_ROW_BYTES / p->bk;
    if (tiles > clusters || tiles == 0 || bytes > EVEN_BYTES) return false;
    int64_t even = (tiles * steps + clusters - 1) / clusters, parts = (steps + even - 2) / even + 1;
    if (even < 16 || parts < 2 || parts > HOPPER_SPLIT_MAX || p->m * p->n * p->batch > INT32_MAX / parts) return false;
    choice->even = (int)even, choice->split = (int)parts;
    return true;
}

/* The best number of parts of k, none shorter than 8 steps: for grids that leave blocks idle, in their only round or in
   the last one; 1: none pays. */
static int split_of(const weft_capability *capability, const tile_choice *choice, const problem *p) {
    tile_choice tried = *choice;
    double least = cost_of(capability, choice, p);
    int best = 1;
    for (tried.split = 2; tried.split <= HOPPER_SPLIT_MAX && p->k / p->bk / tried.split >= 8; tried.split++) {
        double cost = cost_of(capability, &tried, p);
        if (cost >= least || p->m * p->n * p->batch > INT32_MAX / tried.split) continue;
        least = cost, best = tried.split;
    }
    return best;
}

/* Rows at the end for a launch of their own, where they cost the others a round; 0: they do not pay. */
static int foot_of(const weft_capability *capability, const tile_choice *choice, const problem *p) {
    tile_choice tried = *choice;
    int64_t rest = p->m % ((int64_t)choice->bm * choice->cluster);
    if (rest == 0 || rest > HOPPER_FOOT_MAX || rest == p->m) return 0;
    tried.foot = (int)rest;
    return cost_of(capability, &tried, p) < 0.98 * cost_of(capability, choice, p) ? tried.foot : 0;
}

/* Is an operand read in place whose rows are not whole lines? */
static bool straddles(const weft_graph *graph, const weft_product *product) {
    const weft_product_side *sides[2] = {&product->a, &product->b};
    int64_t bytes = weft_dtype_bits(product->dtype) / 8;
    bool found = false;
    for (int i = 0; i < 2; i++) {
        int64_t known = weft_dim_divisor(graph->dims, sides[i]->pitch) * bytes;
        found |= known % 16 == 0 && known % 128 != 0;
    }
    return found;
}

/* The best tiles for a product whose tiles of the table leave blocks idle or wait for few of them: any 16 columns, and
   parts of k in clusters. How many were found, FEW at most, the best first. */
static int find_few(const weft_capability *capability, const problem *p, tile_choice *out) {
    enum { FEW_ROWS = 512, MOST = 144 /* results leave from registers, which wider tiles fill */ };
    double cost[FEW];
    int count = 0;
    if (p->m > FEW_ROWS) return 0;
    for (int join = 1; join <= 8; join *= 2)
        for (int bn = 16 > 8 * join ? 16 : 8 * join; bn <= MOST; bn += 16) {
            tile_choice tried = {.bm = p->m <= 64 ? 64 : 128, .bn = bn, .cluster = 1, .split = 1, .efficiency = 0.7};
            tried.join = join, tried.consumers = tried.bm / 64;
            int64_t tiles = (p->m + tried.bm - 1) / tried.bm * ((p->n + bn - 1) / bn) * p->batch * join;
            bool in_table = join == 1 && bn % 64 == 0, boxes = p->b_along_k || bn % 64 == 0;
            if (in_table || !boxes || bn % (8 * join) || tiles > capability->multiprocessors ||
                p->k / p->bk < 4 * join || stages_of(capability, &tried, p) < 4)
                continue;
            double own = cost_of(capability, &tried, p);
            int at = count < FEW ? count++ : FEW;
            for (; at > 0 && cost[at - 1] > own; at--)
                if (at < FEW) cost[at] = cost[at - 1], out[at] = out[at - 1];
            if (at < FEW) cost[at] = own, out[at] = tried;
        }
    return count;
}

static problem problem_of(const weft_build_request *request, const weft_product *product) {
    const weft_graph *graph = request->graph;
    problem p = {.m = sample_extent(graph, product->m),
                 .n = sample_extent(graph, product->n),
                 .k = sample_extent(graph, product->k),
                 .batch = sample_extent(graph, product->batch),
                 .bk = HOPPER_ROW_BYTES * 8 / weft_dtype_bits(product->dtype),
                 .straddles = straddles(graph, product),
                 .staged = weft_hopper_staged_bytes(request, product),
                 .b_along_k = product->b.k_contiguous};
    bool tensor = p.staged && weft_dim_divisor(graph->dims, product->n) % (p.staged == 2 ? 8 : 4) == 0;
    const weft_type *result = &weft_fusion_yield(request->fusion, 0)->type;
    p.slow = tensor && request->fusion->result_count == 1 &&
             weft_product_companion(request->fusion, product, result->dtype) >= 0;
    p.epilogue = epilogue_of(request, product, p.staged == 0);
    return p;
}

static weft_schedule schedule_of(const weft_capability *capability, const problem *p, const tile_choice *choice,
                                 bool promote) {
    return (weft_schedule){.builder = "matmul-hopper",
                           .tile_m = choice->bm,
                           .tile_n = choice->bn,
                           .tile_k = p->bk,
                           .threads = 128 * (1 + choice->consumers),
                           .stages = stages_of(capability, choice, p),
                           .consumers = choice->consumers,
                           .cluster = choice->cluster,
                           .turns = choice->turns,
                           .raster = 8,
                           .split = choice->split,
                           .even = choice->even,
                           .join = choice->join > 1 ? choice->join : 0,
                           .tail = choice->tail,
                           .foot = choice->foot,
                           .promote = promote ? p->bk : 0};
}

int weft_hopper_propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_product product;
    weft_ragged ragged;
    const char *reason;
    if (!weft_hopper_find(request->graph, request->fusion, &product, &ragged, &reason)) return 0;
    problem p = problem_of(request, &product);
    weft_capability capability = *request->capability;
    if (ragged.node) { /* a table beside the tiles */
        capability.shared_bytes -= HOPPER_RAGGED_BYTES;
        if (ragged.by_rows)
            p.groups = ragged.groups;
        else
            p.k = p.k / ragged.groups + 1;
    }
    int order[ALL], count = 0;
    double cost[ALL];
    tile_choice own[ALL];
    bool known = !capability.batch_invariant && !ragged.node && weft_dim_is_number(product.m) &&
                 weft_dim_is_number(product.n) && weft_dim_is_number(product.k) && weft_dim_is_number(product.batch);
    bool promote = weft_dtype_bits(product.dtype) == 8 && (product.block || !capability.relax_f8);
    int few = known && !promote ? find_few(&capability, &p, own + 3 * CHOICES) : 0;
    for (int i = 0; i < 3 * CHOICES + few; i++) { /* with k whole, split, shared evenly; then tiles of few rows */
        bool table = i < 3 * CHOICES, evenly = table && i >= 2 * CHOICES;
        if (table) own[i] = choices[i % CHOICES];
        if (promote && (own[i].bn > HOPPER_PROMOTED_MAX || own[i].turns)) continue;
        /* rows that are contracted: turns know how many steps the other takes; clearing rows wants registers */
        if (ragged.node && !ragged.by_rows && (own[i].turns || own[i].bn > HOPPER_CLEARED_MAX)) continue;
        if (table && i >= CHOICES && !evenly && known && !own[i].turns)
            own[i].split = split_of(&capability, &own[i], &p);
        if (evenly && (!known || own[i].turns || !share_evenly(&capability, &p, &own[i]))) continue;
        if (table && i >= CHOICES && own[i].split == 1) continue;
        if (i < CHOICES && !ragged.node && !own[i].turns && !(promote && own[i].bn > 128)) /* registers */
            own[i].tail = weft_hopper_tail(request, &product, own[i].bn);
        if (i < CHOICES && known && !promote) own[i].foot = foot_of(&capability, &own[i], &p);
        cost[i] = cost_of(&capability, &own[i], &p);
        int at = count++;
        for (; at > 0 && cost[order[at - 1]] > cost[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    if (count > capacity) count = capacity;
    for (int i = 0; i < count; i++) out_schedules[i] = schedule_of(&capability, &p, &own[order[i]], promote);
    return count;
}
