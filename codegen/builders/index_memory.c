/* Carriers and memory: what a dtype looks like in registers and in buffers, and the loads and stores between the two.
   Invariant: a carrier always holds a number of its dtype. Access forms: lanes side by side = one vector access, all
   lanes at one place = a scalar, anything else = gather or scatter. 4- and 2-bit elements are shifted out of bytes,
   from the low bits up; a store writes whole bytes. Read next: index_math.c. */
#include "codegen/builders/index_internal.h"
#include "codegen/builders/plan.h"

weft_dtype weft_index_carrier(weft_dtype dtype) {
    switch (weft_dtype_kind_of(dtype)) {
    case WEFT_KIND_FLOAT: return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    case WEFT_KIND_COMPLEX: return dtype == WEFT_C128 ? WEFT_F64 : WEFT_F32;
    case WEFT_KIND_SIGNED: return weft_dtype_bits(dtype) < 8 ? WEFT_I8 : dtype;
    case WEFT_KIND_UNSIGNED: return weft_dtype_bits(dtype) < 8 ? WEFT_U8 : dtype;
    case WEFT_KIND_NONE:
    case WEFT_KIND_BOOL:
    case WEFT_KIND_STRING: break;
    }
    return dtype;
}

weft_dtype weft_index_storage(weft_dtype dtype) {
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) return weft_index_carrier(dtype);
    return weft_dtype_bits(dtype) < 8 ? WEFT_U8 : dtype;
}

static weft_kval splat_like(weft_kernel *k, weft_kval like, weft_kval scalar) {
    return weft_k_splat(k, scalar, weft_ktype_of(k, like).lanes);
}

static weft_kval float_like(weft_kernel *k, weft_kval like, double value) {
    return splat_like(k, like, weft_k_float(k, (weft_dtype)weft_ktype_of(k, like).elem, value));
}

static weft_kval integer_like(weft_kernel *k, weft_kval like, int64_t value) {
    return splat_like(k, like, weft_k_integer(k, (weft_dtype)weft_ktype_of(k, like).elem, value));
}

/* Wraps an I8 or U8 carrier to `bits`. */
static weft_kval wrap_narrow(weft_kernel *k, weft_dtype dtype, weft_kval value) {
    int bits = weft_dtype_bits(dtype);
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_UNSIGNED)
        return weft_k_and(k, value, integer_like(k, value, (1 << bits) - 1));
    weft_kval shift = integer_like(k, value, 8 - bits);
    return weft_k_binary(k, WEFT_K_shr, weft_k_binary(k, WEFT_K_shl, value, shift), shift);
}

/* f4e2m1: 0 0.5 1 1.5 2 3 4 6; steps of 0.5 below 2, of 1 below 4, of 2 above. NaN becomes 0. */
static weft_kval round_f4(weft_kernel *k, weft_kval value) {
    weft_kval a = weft_k_unary(k, WEFT_K_abs, value), half = float_like(k, value, 0.5), two = float_like(k, value, 2);
    weft_kval fine = weft_k_mul(k, weft_k_unary(k, WEFT_K_round, weft_k_mul(k, a, two)), half);
    weft_kval middle = weft_k_unary(k, WEFT_K_round, a);
    weft_kval coarse = weft_k_mul(k, weft_k_unary(k, WEFT_K_round, weft_k_mul(k, a, half)), two);
    weft_kval big =
        weft_k_select(k, weft_k_lt(k, a, float_like(k, a, 4)), middle, weft_k_min(k, coarse, float_like(k, a, 6)));
    weft_kval magnitude = weft_k_select(k, weft_k_lt(k, a, two), fine, big);
    weft_kval result = weft_k_binary(k, WEFT_K_copysign, magnitude, value);
    return weft_k_select(k, weft_k_eq(k, value, value), result, float_like(k, value, 0));
}

/* F64 -> F32 rounded to odd: a later rounding to a narrower type then rounds once. */
static weft_kval narrow_to_odd(weft_kernel *k, weft_kval value) {
    weft_kval near = weft_k_convert(k, value, WEFT_F32), back = weft_k_convert(k, near, WEFT_F64);
    weft_kval bits = weft_k_bitcast(k, near, WEFT_U32), one = integer_like(k, bits, 1);
    weft_kval even = weft_k_eq(k, weft_k_and(k, bits, one), integer_like(k, bits, 0));
    weft_kval inexact = weft_k_or(k, weft_k_lt(k, back, value), weft_k_lt(k, value, back)); /* false for NaN */
    weft_kval away = weft_k_lt(k, weft_k_unary(k, WEFT_K_abs, value), weft_k_unary(k, WEFT_K_abs, back));
    weft_kval odd = weft_k_select(k, away, weft_k_sub(k, bits, one), weft_k_add(k, bits, one));
    bits = weft_k_select(k, weft_k_and(k, even, inexact), odd, bits);
    return weft_k_bitcast(k, bits, WEFT_F32);
}

weft_kval weft_index_round(weft_index_context *c, weft_dtype dtype, weft_kval value) {
    weft_kernel *k = c->kernel;
    if (weft_dtype_is_integer(dtype) && weft_dtype_bits(dtype) < 8) return wrap_narrow(k, dtype, value);
    if (!weft_dtype_is_float(dtype) || dtype == WEFT_F64) return value;
    bool wide = weft_ktype_of(k, value).elem == WEFT_F64;
    if (dtype == WEFT_F32) return wide ? weft_k_convert(k, value, WEFT_F32) : value;
    if (wide) value = narrow_to_odd(k, value);
    if (dtype == WEFT_F4E2M1FN) return round_f4(k, value);
    return weft_k_convert(k, weft_k_convert(k, value, dtype), WEFT_F32);
}

/* The code of an f4 carrier, as U8. */
static weft_kval encode_f4(weft_kernel *k, weft_kval value) {
    weft_kval a = weft_k_unary(k, WEFT_K_abs, value), two = float_like(k, value, 2), four = float_like(k, value, 4);
    weft_kval coarse = weft_k_add(k, weft_k_mul(k, a, float_like(k, a, 0.5)), four);
    weft_kval code = weft_k_select(k, weft_k_lt(k, a, four), weft_k_add(k, a, two), coarse);
    code = weft_k_select(k, weft_k_lt(k, a, two), weft_k_mul(k, a, two), code);
    weft_kval bits = weft_k_bitcast(k, value, WEFT_U32);
    weft_kval sign =
        weft_k_and(k, weft_k_binary(k, WEFT_K_shr, bits, integer_like(k, bits, 28)), integer_like(k, bits, 8));
    return weft_k_convert(k, weft_k_or(k, weft_k_convert(k, code, WEFT_U32), sign), WEFT_U8);
}

static weft_kval decode_f4(weft_kernel *k, weft_kval code) {
    weft_kval wide = weft_k_convert(k, code, WEFT_U32);
    weft_kval c = weft_k_convert(k, weft_k_and(k, wide, integer_like(k, wide, 7)), WEFT_F32);
    weft_kval four = float_like(k, c, 4), two = float_like(k, c, 2);
    weft_kval big = weft_k_select(k, weft_k_lt(k, c, float_like(k, c, 6)), weft_k_sub(k, c, two),
                                  weft_k_mul(k, weft_k_sub(k, c, four), two));
    weft_kval magnitude = weft_k_select(k, weft_k_lt(k, c, four), weft_k_mul(k, c, float_like(k, c, 0.5)), big);
    weft_kval sign =
        weft_k_binary(k, WEFT_K_shl, weft_k_and(k, wide, integer_like(k, wide, 8)), integer_like(k, wide, 28));
    return weft_k_bitcast(k, weft_k_or(k, weft_k_bitcast(k, magnitude, WEFT_U32), sign), WEFT_F32);
}

/* Storage element <-> carrier, for types of 8 bits and more. */
static weft_kval widen(weft_kernel *k, weft_dtype dtype, weft_kval stored) {
    return weft_dtype_is_float(dtype) ? weft_k_convert(k, stored, weft_index_carrier(dtype)) : stored;
}

static weft_kval narrow(weft_kernel *k, weft_dtype dtype, weft_kval value) {
    return weft_dtype_is_float(dtype) ? weft_k_convert(k, value, dtype) : value;
}

/* U8 code in the low bits <-> carrier, for types below 8 bits. */
static weft_kval decode_narrow(weft_kernel *k, weft_dtype dtype, weft_kval code) {
    if (dtype == WEFT_F4E2M1FN) return decode_f4(k, code);
    return wrap_narrow(k, dtype, weft_k_bitcast(k, code, weft_index_carrier(dtype)));
}

static weft_kval encode_narrow(weft_kernel *k, weft_dtype dtype, weft_kval value) {
    weft_kval code = dtype == WEFT_F4E2M1FN ? encode_f4(k, value) : weft_k_bitcast(k, value, WEFT_U8);
    return weft_k_and(k, code, integer_like(k, code, (1 << weft_dtype_bits(dtype)) - 1));
}

static weft_dtype unsigned_of(int bits) {
    return bits == 64 ? WEFT_U64 : bits == 32 ? WEFT_U32 : bits == 16 ? WEFT_U16 : WEFT_U8;
}

weft_kval weft_index_to_bits(weft_index_context *c, weft_dtype dtype, weft_kval value) {
    weft_kernel *k = c->kernel;
    int bits = weft_dtype_bits(dtype);
    if (dtype == WEFT_BOOL)
        return weft_k_select(k, value, weft_k_integer(k, WEFT_U8, 1), weft_k_integer(k, WEFT_U8, 0));
    if (bits < 8) return encode_narrow(k, dtype, value);
    return weft_k_bitcast(k, narrow(k, dtype, value), unsigned_of(bits));
}

weft_kval weft_index_from_bits(weft_index_context *c, weft_dtype dtype, weft_kval bits) {
    weft_kernel *k = c->kernel;
    if (dtype == WEFT_BOOL) return weft_k_ne(k, bits, integer_like(k, bits, 0));
    if (weft_dtype_bits(dtype) < 8) return decode_narrow(k, dtype, bits);
    return widen(k, dtype, weft_k_bitcast(k, bits, dtype));
}

/* What the printers may assume about the address: only GPU allocations are known to be aligned beyond their element. */
static void align_access(weft_index_context *c, weft_kval access, weft_dtype storage, weft_lane_index position) {
    if (weft_capability_is_cpu(c->kernel->capability) || c->kernel->failed) return;
    int64_t bytes = weft_lane_divisor(c, position);
    bytes = bytes == 0 || bytes > 16 ? 16 : bytes;
    bytes *= weft_dtype_bits(storage) / 8;
    int32_t align = 1;
    while (align < 16 && bytes % (align * 2) == 0) align *= 2;
    c->kernel->instrs[access].align_bytes = align;
}

/* Every other element, on CPUs: two loads side by side and a shuffle, far cheaper than a gather. Nothing but the
   elements in question is read. */
static bool deals(const weft_index_context *c, weft_dtype storage, weft_lane_index position, int lanes) {
    return c->kernel->capability->threads_max == 1 && weft_dtype_bits(storage) >= 32 && position.stride == 2 &&
           lanes >= 4 && lanes % 2 == 0 && !weft_lane_is_vector(c, position);
}

static weft_kval load_every_other(weft_index_context *c, weft_kval buffer, weft_dtype storage, weft_lane_index position,
                                  int lanes, weft_kval mask, weft_kval other) {
    weft_kernel *k = c->kernel;
    weft_kval masks[2] = {WEFT_KNONE, WEFT_KNONE}, half[2];
    if (mask != WEFT_KNONE) {
        weft_kval none = weft_k_constant_lanes(k, WEFT_BOOL, 0, lanes);
        for (int i = 0; i < 2; i++) masks[i] = weft_k_zip(k, mask, none, i);
    } else { /* the last element may lie past the end */
        other = weft_index_zero(c, storage);
        masks[1] = weft_k_lt(k, weft_k_iota(k, WEFT_I32, lanes), weft_k_integer(k, WEFT_I32, lanes - 1));
    }
    for (int i = 0; i < 2; i++)
        half[i] = weft_k_load(k, buffer, i ? weft_k_add(k, position.base, weft_k_index(k, lanes)) : position.base,
                              lanes, masks[i], masks[i] == WEFT_KNONE ? WEFT_KNONE : other);
    return weft_k_deal(k, half[0], half[1], 0);
}

static weft_kval load_storage(weft_index_context *c, weft_kval buffer, weft_dtype storage, weft_lane_index position,
                              const weft_point *point) {
    weft_kernel *k = c->kernel;
    bool invariant = weft_lane_invariant(c, position, point->lanes);
    int lanes = invariant ? 1 : point->lanes;
    weft_kval mask = weft_point_mask(c, point, lanes),
              other = mask == WEFT_KNONE ? WEFT_KNONE : weft_index_zero(c, storage);
    if (invariant) return weft_k_load(k, buffer, position.base, 1, mask, other);
    if (deals(c, storage, position, lanes)) {
        if (mask != WEFT_KNONE && weft_ktype_of(k, mask).lanes == 1) mask = weft_k_splat(k, mask, lanes);
        return load_every_other(c, buffer, storage, position, lanes, mask, other);
    }
    if (weft_lane_is_vector(c, position) || position.stride != 1)
        return weft_k_load(k, buffer, weft_lane_vector(c, position, lanes), lanes, mask, other);
    weft_kval value = weft_k_load(k, buffer, position.base, lanes, mask, other);
    if (!k->failed && weft_kernel_get(k, value)->op == WEFT_K_load) align_access(c, value, storage, position);
    return value;
}

static weft_kval load_narrow(weft_index_context *c, weft_kval buffer, weft_dtype dtype, const weft_point *point) {
    weft_kernel *k = c->kernel;
    int bits = weft_dtype_bits(dtype), per_byte = 8 / bits;
    int lanes = weft_lane_invariant(c, point->flat, point->lanes) ? 1 : point->lanes;
    weft_kval at = weft_lane_vector(c, point->flat, lanes);
    weft_kval byte = weft_k_binary(k, WEFT_K_shr, at, integer_like(k, at, per_byte == 2 ? 1 : 2));
    weft_kval shift = weft_k_mul(k, weft_k_and(k, at, integer_like(k, at, per_byte - 1)), integer_like(k, at, bits));
    weft_kval mask = weft_point_mask(c, point, lanes);
    weft_kval stored =
        weft_k_load(k, buffer, byte, lanes, mask, mask == WEFT_KNONE ? WEFT_KNONE : weft_k_integer(k, WEFT_U8, 0));
    weft_kval code = weft_k_binary(k, WEFT_K_shr, stored, weft_k_convert(k, shift, WEFT_U8));
    return decode_narrow(k, dtype, weft_k_and(k, code, integer_like(k, code, (1 << bits) - 1)));
}

weft_parts weft_index_load_point(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_point point) {
    weft_point_flat(c, &point);
    weft_dtype storage = weft_index_storage(dtype);
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) {
        weft_lane_index real = weft_lane_multiply(c, point.flat, 2, point.lanes);
        weft_lane_index imaginary = weft_lane_add(c, real, weft_lane_constant(c, 1), point.lanes);
        return (weft_parts){
            {load_storage(c, buffer, storage, real, &point), load_storage(c, buffer, storage, imaginary, &point)}};
    }
    if (weft_dtype_bits(dtype) < 8) return weft_parts_one(load_narrow(c, buffer, dtype, &point));
    return weft_parts_one(widen(c->kernel, dtype, load_storage(c, buffer, storage, point.flat, &point)));
}

static void store_storage(weft_index_context *c, weft_kval buffer, weft_dtype storage, weft_lane_index position,
                          const weft_point *point, weft_kval value) {
    weft_kernel *k = c->kernel;
    weft_kval mask = weft_point_mask(c, point, point->lanes);
    bool side_by_side = point->lanes == 1 || (!weft_lane_is_vector(c, position) && position.stride == 1);
    weft_kval index = side_by_side ? position.base : weft_lane_vector(c, position, point->lanes);
    size_t before = k->instr_count;
    weft_k_store(k, buffer, index, mask, value);
    if (side_by_side && k->instr_count > before &&
        weft_kernel_get(k, (weft_kval)k->instr_count - 1)->op == WEFT_K_store)
        align_access(c, (weft_kval)k->instr_count - 1, storage, position);
}

/* Whole bytes: lane i * per_byte + j supplies bits j of byte i; lanes that are off supply zeros, so that the padding of
   the last byte is zero. */
static void store_narrow(weft_index_context *c, weft_kval buffer, weft_dtype dtype, const weft_point *point,
                         weft_kval value) {
    weft_kernel *k = c->kernel;
    int bits = weft_dtype_bits(dtype), per_byte = 8 / bits, bytes = point->lanes / per_byte;
    if (point->lanes % per_byte || weft_lane_is_vector(c, point->flat) || point->flat.stride != 1 ||
        weft_lane_divisor(c, point->flat) % per_byte) {
        weft_index_problem(c, WEFT_INTERNAL, "a store of %s does not fill whole bytes", weft_dtype_name(dtype));
        return;
    }
    weft_kval code = encode_narrow(k, dtype, value), mask = weft_point_mask(c, point, point->lanes);
    if (mask != WEFT_KNONE) code = weft_k_select(k, mask, code, integer_like(k, code, 0));
    weft_kval packed = weft_k_splat(k, weft_k_integer(k, WEFT_U8, 0), bytes), on = WEFT_KNONE;
    if (mask != WEFT_KNONE) on = weft_k_splat(k, weft_k_integer(k, WEFT_BOOL, 0), bytes);
    for (int i = 0; i < bytes; i++) {
        weft_kval byte = weft_k_extract(k, code, i * per_byte);
        for (int j = 1; j < per_byte; j++) {
            weft_kval part = weft_k_extract(k, code, i * per_byte + j);
            byte = weft_k_or(k, byte, weft_k_binary(k, WEFT_K_shl, part, weft_k_integer(k, WEFT_U8, j * bits)));
        }
        packed = weft_k_insert(k, packed, i, byte);
        if (mask != WEFT_KNONE) on = weft_k_insert(k, on, i, weft_k_extract(k, mask, i * per_byte));
    }
    weft_kval shift = weft_k_index(k, per_byte == 2 ? 1 : 2);
    weft_k_store(k, buffer, weft_k_binary(k, WEFT_K_shr, point->flat.base, shift), on, packed);
}

void weft_index_store_point(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_point point,
                            weft_parts value) {
    weft_point_flat(c, &point);
    weft_dtype storage = weft_index_storage(dtype);
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) {
        weft_lane_index real = weft_lane_multiply(c, point.flat, 2, point.lanes);
        store_storage(c, buffer, storage, real, &point, value.part[0]);
        store_storage(c, buffer, storage, weft_lane_add(c, real, weft_lane_constant(c, 1), point.lanes), &point,
                      value.part[1]);
    } else if (weft_dtype_bits(dtype) < 8) {
        store_narrow(c, buffer, dtype, &point, value.part[0]);
    } else {
        store_storage(c, buffer, storage, point.flat, &point, narrow(c->kernel, dtype, value.part[0]));
    }
}

static weft_point memory_point(weft_lane_index position, int lanes, weft_kval mask) {
    return (weft_point){.rank = 1,
                        .lanes = lanes,
                        .has_flat = true,
                        .flat = position,
                        .edge = mask,
                        .scalar = WEFT_KNONE,
                        .vector = WEFT_KNONE};
}

weft_kval weft_index_load(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_lane_index position,
                          int lanes, weft_kval mask) {
    weft_parts parts = weft_index_load_point(c, buffer, dtype, memory_point(position, lanes, mask));
    return weft_parts_splat(c, parts, lanes).part[0];
}

void weft_index_store_buffer(weft_index_context *c, weft_kval buffer, weft_dtype dtype, weft_lane_index position,
                             int lanes, weft_kval mask, weft_kval value) {
    value = weft_parts_splat(c, weft_parts_one(value), lanes).part[0];
    weft_index_store_point(c, buffer, dtype, memory_point(position, lanes, mask), weft_parts_one(value));
}
