/* Loops, branches, functions, memory, blocks, the linker. */
#include <stdlib.h>
#include <unistd.h>

#include "codegen/llvm/link.h"
#include "tests/llvm/loader.h"

static weft_kval buffer(weft_kernel *k, int index, weft_dtype t, bool writes) {
    return weft_kernel_buffer(k, writes ? WEFT_ARGUMENT_RESULT : WEFT_ARGUMENT_OPERAND, index, t, writes,
                              writes ? "out" : "in");
}

/* Sums with a variable in a loop of `count` trips, unrolled `unroll` times. */
START_TEST(loops) {
    static const int unrolls[] = {0, 1, 2, 3, 4, 7, -1};
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    for (size_t u = 0; u < sizeof unrolls / sizeof *unrolls; u++)
        for (int count = 0; count < 12; count++)
            for (int step = 1; step < 4; step += 2) {
                weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "loops");
                weft_kval in = buffer(k, 0, WEFT_I64, false), out = buffer(k, 0, WEFT_I64, true);
                weft_kval sum = weft_k_var(k, weft_k_integer(k, WEFT_I64, 1));
                /* The bound comes from memory unless it must be constant. */
                weft_kval hi = unrolls[u] == -1 ? weft_k_index(k, count)
                                                : weft_k_load(k, in, weft_k_index(k, 0), 1, WEFT_KNONE, WEFT_KNONE);
                weft_kval i = weft_k_for(k, weft_k_index(k, 0), hi, weft_k_index(k, step), unrolls[u]);
                weft_k_set(k, sum, weft_k_add(k, weft_k_mul(k, weft_k_get(k, sum), weft_k_integer(k, WEFT_I64, 3)), i));
                weft_k_end(k);
                weft_k_store(k, out, weft_k_index(k, 0), WEFT_KNONE, weft_k_get(k, sum));
                int64_t data[1] = {count}, result[1], want = 1;
                for (int64_t n = 0; n < count; n += step) want = want * 3 + n;
                run_kernel(&b, k, (void *[]){data, result}, NULL, 1);
                ck_assert_msg(result[0] == want, "unroll %d count %d step %d: %lld, not %lld", unrolls[u], count, step,
                              (long long)result[0], (long long)want);
            }
    bench_close(&b);
}
END_TEST

/* A register tile: regs indexed by unrolled loops inside a counted loop; blocks [lo, hi) each do one row of the result.
 */
START_TEST(registers_and_blocks) {
    enum { M = 5, K = 19, N = 32, W = 8 };
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "registers");
    weft_kval in_a = buffer(k, 0, WEFT_F32, false), in_b = buffer(k, 1, WEFT_F32, false),
              out = buffer(k, 0, WEFT_F32, true);
    weft_kval row = weft_k_block(k), regs = weft_k_regs(k, WEFT_F32, W, N / W);
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    weft_kval v = weft_k_for(k, zero, weft_k_index(k, N / W), one, -1);
    weft_k_set_at(k, regs, v, weft_k_constant_lanes(k, WEFT_F32, 0, W));
    weft_k_end(k);
    weft_kval kk = weft_k_for(k, zero, weft_k_index(k, K), one, 4);
    weft_kval a = weft_k_splat(
        k, weft_k_load(k, in_a, weft_k_add(k, weft_k_mul(k, row, weft_k_index(k, K)), kk), 1, WEFT_KNONE, WEFT_KNONE),
        W);
    v = weft_k_for(k, zero, weft_k_index(k, N / W), one, -1);
    weft_kval at = weft_k_add(k, weft_k_mul(k, kk, weft_k_index(k, N)), weft_k_mul(k, v, weft_k_index(k, W)));
    weft_k_set_at(k, regs, v,
                  weft_k_fma(k, a, weft_k_load(k, in_b, at, W, WEFT_KNONE, WEFT_KNONE), weft_k_get_at(k, regs, v)));
    weft_k_end(k);
    weft_k_end(k);
    v = weft_k_for(k, zero, weft_k_index(k, N / W), one, -1);
    weft_k_store(k, out, weft_k_add(k, weft_k_mul(k, row, weft_k_index(k, N)), weft_k_mul(k, v, weft_k_index(k, W))),
                 WEFT_KNONE, weft_k_get_at(k, regs, v));
    weft_k_end(k);
    float A[M * K], B[K * N], C[M * N];
    for (int i = 0; i < M * K; i++) A[i] = (float)(i % 7) - 3;
    for (int i = 0; i < K * N; i++) B[i] = (float)(i % 11) - 5;
    run_kernel(&b, k, (void *[]){A, B, C}, NULL, M);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            float want = 0;
            for (int i = 0; i < K; i++) want += A[m * K + i] * B[i * N + n];
            ck_assert_msg(C[m * N + n] == want, "C[%d][%d] = %g, not %g", m, n, (double)C[m * N + n], (double)want);
        }
    bench_close(&b);
}
END_TEST

/* Collatz steps by while, parity by if/else, through a function. */
START_TEST(branches) {
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "collatz");
    weft_ktype i64 = weft_kvector(WEFT_I64, 1), none = {0}, function_type = {WEFT_KIND_FUNC, WEFT_I64, 1};
    weft_kval function = weft_kernel_emit(k, WEFT_K_func, function_type, 0, NULL, 1, 0);
    weft_kval x = weft_kernel_emit(k, WEFT_K_parameter, i64, 0, NULL, 0, 0);
    weft_kval tripled = weft_k_add(k, weft_k_mul(k, x, weft_k_integer(k, WEFT_I64, 3)), weft_k_integer(k, WEFT_I64, 1));
    weft_kernel_emit(k, WEFT_K_func_end, none, 1, (weft_kval[]){tripled}, 0, 0);
    weft_kval in = buffer(k, 0, WEFT_I64, false), out = buffer(k, 0, WEFT_I64, true);
    weft_kval value = weft_k_var(k, weft_k_load(k, in, weft_k_block(k), 1, WEFT_KNONE, WEFT_KNONE)),
              steps = weft_k_var(k, weft_k_integer(k, WEFT_I64, 0));
    weft_k_while(k);
    weft_kval now = weft_k_get(k, value);
    weft_k_test(k, weft_k_ne(k, now, weft_k_integer(k, WEFT_I64, 1)));
    weft_k_if(k, weft_k_eq(k, weft_k_and(k, now, weft_k_integer(k, WEFT_I64, 1)), weft_k_integer(k, WEFT_I64, 0)));
    weft_k_set(k, value, weft_k_div(k, now, weft_k_integer(k, WEFT_I64, 2)));
    weft_k_else(k);
    weft_k_set(k, value, weft_kernel_emit(k, WEFT_K_call, i64, 2, (weft_kval[]){function, now}, 0, 0));
    weft_k_end(k);
    weft_k_set(k, steps, weft_k_add(k, weft_k_get(k, steps), weft_k_integer(k, WEFT_I64, 1)));
    weft_k_end(k);
    weft_k_store(k, out, weft_k_block(k), WEFT_KNONE, weft_k_get(k, steps));
    ck_assert(!k->failed);
    int64_t data[4] = {1, 6, 27, 97}, result[4], want[4] = {0, 8, 111, 118};
    run_kernel(&b, k, (void *[]){data, result}, NULL, 4);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(result[i], want[i]);
    bench_close(&b);
}
END_TEST

/* Masked vector and scalar accesses up to the last byte before a page that must not be touched; masked lanes give
 * `other`. */
START_TEST(masks) {
    static const weft_dtype types[] = {WEFT_F32, WEFT_F64, WEFT_I8, WEFT_BF16, WEFT_I64, WEFT_BOOL};
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int lanes = 1; lanes <= 16; lanes *= 4)
            for (int live = 0; live <= lanes; live++) {
                int bytes = weft_dtype_bits(types[t]) / 8;
                char *in = pages + 4096 - live * bytes, copy[16 * 8], seen[16 * 8];
                for (int i = 0; i < live * bytes; i++) in[i] = (char)(types[t] == WEFT_BOOL ? i % 2 : i * 37 + live);
                memcpy(copy, in, (size_t)(live * bytes));
                weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "masks");
                weft_kval source = buffer(k, 0, types[t], false), target = buffer(k, 0, types[t], true),
                          all = buffer(k, 1, types[t], true);
                weft_kval count =
                    weft_k_load(k, buffer(k, 1, WEFT_I64, false), weft_k_index(k, 0), 1, WEFT_KNONE, WEFT_KNONE);
                weft_kval mask =
                    weft_k_lt(k, weft_k_iota(k, WEFT_I64, lanes), lanes > 1 ? weft_k_splat(k, count, lanes) : count);
                weft_kval x = weft_k_load(k, source, weft_k_index(k, 0), lanes, mask,
                                          weft_k_constant_lanes(k, types[t], 1, lanes));
                weft_k_store(k, target, weft_k_index(k, 0), mask, x);
                weft_k_store(k, all, weft_k_index(k, 0), WEFT_KNONE, x);
                int64_t number = live;
                ck_assert(!k->failed);
                run_kernel(&b, k, (void *[]){in, in, seen, &number}, NULL, 1);
                ck_assert_int_eq(memcmp(in, copy, (size_t)(live * bytes)), 0);
                ck_assert_int_eq(memcmp(seen, copy, (size_t)(live * bytes)), 0);
                for (int i = live; i < lanes; i++) {
                    double other = weft_dtype_is_float(types[t]) ? weft_element_double(types[t], seen, i)
                                                                 : (double)weft_element_i64(types[t], seen, i);
                    ck_assert_msg(other == 1, "%s lane %d of %d: %g", weft_dtype_name(types[t]), i, lanes, other);
                }
            }
    munmap(pages, 8192);
    bench_close(&b);
}
END_TEST

START_TEST(gathers) {
    static const weft_dtype types[] = {WEFT_F32, WEFT_I8, WEFT_I64, WEFT_F16, WEFT_BOOL};
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "gathers");
        weft_kval in = buffer(k, 0, types[t], false), out = buffer(k, 0, types[t], true);
        weft_kval lane = weft_k_iota(k, WEFT_I64, 8),
                  index = weft_k_rem(k, weft_k_mul(k, lane, weft_k_integer(k, WEFT_I64, 5)),
                                     weft_k_integer(k, WEFT_I64, 8));
        weft_kval odd =
            weft_k_eq(k, weft_k_and(k, lane, weft_k_integer(k, WEFT_I64, 1)), weft_k_integer(k, WEFT_I64, 1));
        weft_kval x = weft_k_load(k, in, index, 8, odd, WEFT_KNONE);
        weft_k_store(k, out, weft_k_sub(k, weft_k_integer(k, WEFT_I64, 7), lane), odd, x);
        unsigned char data[64], result[64], want[64];
        int bytes = weft_dtype_bits(types[t]) / 8;
        for (int i = 0; i < 64; i++)
            data[i] = (unsigned char)(types[t] == WEFT_BOOL ? i % 3 == 0 : i * 29 + 3), result[i] = want[i] = 0x55;
        for (int i = 1; i < 8; i += 2) memcpy(want + (7 - i) * bytes, data + i * 5 % 8 * bytes, (size_t)bytes);
        run_kernel(&b, k, (void *[]){data, result}, NULL, 1);
        ck_assert_msg(memcmp(result, want, 64) == 0, "%s", weft_dtype_name(types[t]));
    }
    bench_close(&b);
}
END_TEST

/* Scratch arrays do not overlap and are 64-byte aligned; atomics count. */
START_TEST(scratch_and_atomics) {
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    weft_dim_table *dims;
    ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &dims));
    weft_kernel *k = weft_kernel_create(&b.arena, dims, b.capability, "scratch");
    weft_kval out = buffer(k, 0, WEFT_I32, true), first = weft_k_shared(k, WEFT_I8, 5),
              second = weft_k_shared(k, WEFT_I32, 16);
    weft_k_store(k, first, weft_k_index(k, 0), WEFT_KNONE, weft_k_constant_lanes(k, WEFT_I8, 7, 4));
    weft_k_store(k, second, weft_k_index(k, 0), WEFT_KNONE, weft_k_iota(k, WEFT_I32, 16));
    weft_kval seven = weft_k_convert(k, weft_k_load(k, first, weft_k_index(k, 3), 1, WEFT_KNONE, WEFT_KNONE), WEFT_I32);
    weft_kval five = weft_k_load(k, second, weft_k_index(k, 5), 1, WEFT_KNONE, WEFT_KNONE);
    weft_kernel_emit(k, WEFT_K_atomic, (weft_ktype){0}, 3,
                     (weft_kval[]){out, weft_k_index(k, 0), weft_k_add(k, seven, five)}, WEFT_ATOMIC_ADD, 0);
    weft_kernel_emit(k, WEFT_K_atomic, (weft_ktype){0}, 3, (weft_kval[]){out, weft_k_index(k, 1), five},
                     WEFT_ATOMIC_MAX, 0);
    weft_k_prefetch(k, out, weft_k_index(k, 0), 3, true);
    int32_t result[2] = {100, -3};
    run_kernel(&b, k, (void *[]){result}, NULL, 3);
    ck_assert_int_eq(result[0], 136);
    ck_assert_int_eq(result[1], 5);
    ck_assert_int_eq(weft_target_find("cpu")->scratch_bytes(k), 128);
    weft_dim_table_release(dims);
    bench_close(&b);
}
END_TEST

/* Extents arrive as arguments; the grid is one of them. */
START_TEST(extents) {
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    weft_dim_table *dims;
    ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &dims));
    weft_dim n = weft_dim_symbol(dims, "N", 1, 1000, 1, WEFT_SYMBOL_DECLARED),
             m = weft_dim_symbol(dims, "M", 1, 1000, 1, WEFT_SYMBOL_DECLARED);
    weft_kernel *k = weft_kernel_create(&b.arena, dims, b.capability, "extents");
    k->grid = m;
    weft_kval vn = weft_k_extent(k, n), out = buffer(k, 0, WEFT_I64, true), vm = weft_k_extent(k, m);
    weft_kval grid = weft_kernel_emit(k, WEFT_K_grid, weft_kvector(WEFT_I64, 1), 0, NULL, 0, 0);
    weft_k_store(k, out, weft_k_block(k), WEFT_KNONE,
                 weft_k_add(k, weft_k_mul(k, weft_k_add(k, vm, grid), weft_k_index(k, 1000)), vn));
    int64_t result[5], values[2] = {17, 5};
    run_kernel(&b, k, (void *[]){result}, values, 5);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(result[i], 10017);
    weft_dim_table_release(dims);
    bench_close(&b);
}
END_TEST

/* Ops of other targets are refused by name. */
START_TEST(refusals) {
    bench b = bench_open("x86-64-v3");
    weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "refused");
    weft_kval out = buffer(k, 0, WEFT_F32, true), x = weft_k_float(k, WEFT_F32, 2);
    weft_k_store(k, out, weft_k_index(k, 0), WEFT_KNONE,
                 weft_kernel_emit(k, WEFT_K_exp2_fast, weft_kvector(WEFT_F32, 1), 1, &x, 0, 0));
    weft_code_image image;
    weft_status status = weft_target_find("cpu")->compile(b.context, b.capability, 1, &k, 1, &image);
    ck_assert_int_eq(weft_status_code(status), WEFT_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "exp2_fast"));
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "refused"));
    ck_assert_ptr_null(image.data);
    weft_status_release(status);
    bench_close(&b);
}
END_TEST

/* Many kernels, by one thread and by two: the same bytes; every kernel is found. */
START_TEST(determinism) {
    enum { COUNT = 70 };
    bench b = bench_open("x86-64-v3");
    weft_kernel *kernels[COUNT];
    char names[COUNT][24];
    for (int n = 0; n < COUNT; n++) {
        snprintf(names[n], sizeof names[n], "kernel_%d", n);
        kernels[n] = weft_kernel_create(&b.arena, NULL, b.capability, names[n]);
        weft_kval out = buffer(kernels[n], 0, WEFT_F32, true);
        weft_k_store(kernels[n], out, weft_k_block(kernels[n]), WEFT_KNONE,
                     weft_k_float(kernels[n], WEFT_F32, n * 1.5));
    }
    weft_code_image one, two;
    ck_assert_ptr_null(weft_target_find("cpu")->compile(b.context, b.capability, COUNT, kernels, 1, &one));
    ck_assert_ptr_null(weft_target_find("cpu")->compile(b.context, b.capability, COUNT, kernels, 2, &two));
    ck_assert_uint_eq(one.bytes, two.bytes);
    ck_assert_int_eq(memcmp(one.data, two.data, one.bytes), 0);
    loaded l = load_image(&one);
    for (int n = 0; n < COUNT; n++) {
        float result[3] = {-1, -1, -1};
        kernel_function function = find_kernel(&l, names[n]);
        ck_assert_msg(function != NULL, "%s", names[n]);
        function((void *[]){result}, NULL, 1, 2, NULL);
        ck_assert(result[0] == -1 && result[1] == (float)n * 1.5f && result[2] == -1);
    }
    unload_image(&l);
    weft_free(b.context->allocator, one.data, one.bytes);
    weft_free(b.context->allocator, two.data, two.bytes);
    bench_close(&b);
}
END_TEST

/* A relocatable object by hand: 16 bytes of code of `kernel_a` with one relocation. */
typedef struct hand_object {
    Elf64_Ehdr header;
    unsigned char text[16], data[16];
    char names[32];
    Elf64_Sym symbols[3];
    Elf64_Rela relocation;
    Elf64_Shdr sections[6];
} hand_object;

static hand_object hand_made(uint32_t type, int symbol_section, uint64_t data_flags) {
    hand_object o = {.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                                .e_type = ET_REL,
                                .e_machine = EM_X86_64,
                                .e_shnum = 6,
                                .e_shentsize = sizeof(Elf64_Shdr)}};
    o.header.e_shoff = offsetof(hand_object, sections);
    memcpy(o.names, "\0kernel_a\0memcpy", 17);
    o.symbols[1] =
        (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_size = 16};
    o.symbols[2] = (Elf64_Sym){.st_name = 10,
                               .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE),
                               .st_shndx = (uint16_t)symbol_section,
                               .st_value = 4};
    o.relocation = (Elf64_Rela){.r_offset = 8, .r_info = ELF64_R_INFO(2, type), .r_addend = -4};
    o.sections[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                 .sh_offset = offsetof(hand_object, text),
                                 .sh_size = 16,
                                 .sh_addralign = 16};
    o.sections[2] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                                 .sh_flags = SHF_ALLOC | data_flags,
                                 .sh_offset = offsetof(hand_object, data),
                                 .sh_size = 16,
                                 .sh_addralign = 16};
    o.sections[3] = (Elf64_Shdr){
        .sh_type = SHT_SYMTAB, .sh_offset = offsetof(hand_object, symbols), .sh_size = sizeof o.symbols, .sh_link = 4};
    o.sections[4] =
        (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(hand_object, names), .sh_size = sizeof o.names};
    o.sections[5] = (Elf64_Shdr){.sh_type = SHT_RELA,
                                 .sh_offset = offsetof(hand_object, relocation),
                                 .sh_size = sizeof o.relocation,
                                 .sh_info = 1,
                                 .sh_link = 3};
    return o;
}

static weft_status link_one(const hand_object *o, size_t bytes, weft_code_image *image) {
    return weft_link(weft_allocator_system(), 1, &(weft_link_object){o, bytes}, image);
}

START_TEST(linker) {
    weft_code_image image;
    hand_object good = hand_made(R_X86_64_PC32, 2, 0);
    ck_assert_ptr_null(link_one(&good, sizeof good, &image));
    const Elf64_Phdr *segments = (const void *)((char *)image.data + sizeof(Elf64_Ehdr));
    int32_t displacement;
    memcpy(&displacement, (char *)image.data + segments[1].p_offset + 8, 4);
    /* S + A - P: the data follows the headers, 16-byte aligned */
    ck_assert_int_eq(displacement, (int32_t)(176 + 4) - 4 - (int32_t)(segments[1].p_vaddr + 8));
    weft_free(weft_allocator_system(), image.data, image.bytes);

    hand_object undefined = hand_made(R_X86_64_PLT32, SHN_UNDEF, 0), absolute = hand_made(R_X86_64_64, 2, 0),
                writable = hand_made(R_X86_64_PC32, 2, SHF_WRITE);
    weft_status status = link_one(&undefined, sizeof undefined, &image);
    ck_assert_int_eq(weft_status_code(status), WEFT_INTERNAL);
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "kernel_a"));
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "memcpy"));
    weft_status_release(status);
    const hand_object *bad[] = {&absolute, &writable};
    for (int i = 0; i < 2; i++) {
        status = link_one(bad[i], sizeof absolute, &image);
        ck_assert_int_eq(weft_status_code(status), WEFT_INTERNAL);
        weft_status_release(status);
    }
    for (size_t bytes = 0; bytes < sizeof good; bytes += 7) { /* truncated */
        status = link_one(&good, bytes, &image);
        ck_assert_int_eq(weft_status_code(status), WEFT_INTERNAL);
        weft_status_release(status);
    }
}
END_TEST

Suite *structure_suite(void) {
    Suite *suite = suite_create("structure");
    TCase *tests = tcase_create("structure");
    tcase_add_loop_test(tests, loops, 0, 2);
    tcase_add_loop_test(tests, registers_and_blocks, 0, 2);
    tcase_add_loop_test(tests, branches, 0, 2);
    tcase_add_loop_test(tests, masks, 0, 2);
    tcase_add_loop_test(tests, gathers, 0, 2);
    tcase_add_loop_test(tests, scratch_and_atomics, 0, 2);
    tcase_add_loop_test(tests, extents, 0, 2);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, determinism);
    tcase_add_test(tests, linker);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return suite;
}
