/* What becomes of sums with a second operand, for vip.c: a fused addition in small floats, or a product.
 *
 * soft/engines/vip/rounding.py says what is known of the addition. Its small floats are floats here.
 */
#ifndef ANYNPU_VIP_SECOND_H
#define ANYNPU_VIP_SECOND_H

#include "half.h"

enum { BLOCK = 64 }; /* values that get a second operand together */

/* A small float's last bit says that something was cut from it: a sum has at most 20 significant ones. A
 * number of which nothing is left is CUT_TO_NOTHING. */
#define CUT_TO_NOTHING 0x1p-100f

/* Not zero where two numbers differ, of which none is the other's opposite. As an integer, since gcc makes no
 * vectors of a choice between truth values. */
INLINE uint32_t difference(float a, float b) {
    return (bits_of_float(a) ^ bits_of_float(b)) << 1;
}

/* `what_is_cut` is zero for nothing. */
INLINE float with_cut(float value, uint32_t what_is_cut) {
    const uint32_t bits = bits_of_float(value) | (what_is_cut ? 1 : 0);
    return bits << 1 == 2 ? CUT_TO_NOTHING : float_of_bits(bits);
}

/* The small floats of a chip's fused addition. */
struct adder {
    uint32_t bits;
    float least;
    float largest;
};

static const struct adder short_adder = {10, 0x1p-6f, 0x1p9f - 0x1p-1f},
                          long_adder = {16, 0x1p-14f, 0x1p17f - 0x1p1f};

enum { EXPONENT = 23, EXPONENTS = 0xFF << EXPONENT, ONE = 127 };

/* As many significant bits as an adder has, toward zero, and within its limits. */
INLINE float limited(float value, struct adder adder) {
    const float kept =
        float_of_bits(bits_of_float(value) & ~UINT32_C(0) << (EXPONENT + 1 - adder.bits));
    const float below = kept > adder.largest ? adder.largest : kept;
    const float within = below < -adder.largest ? -adder.largest : below;
    return fabsf(within) < adder.least ? 0 : within;
}

/* A product within limits as an adder takes it. That float32 doesn't hold all of it is known behind limits,
 * too, but not of negative ones of which `has_relu` made zero. */
INLINE float first_bits(double product, double low, double high, int has_relu, struct adder adder) {
    const double value = clamped(product, low, high);
    const int is_kept = !has_relu | (product > 0);
    union {
        double real;
        uint64_t bits;
    } u = {value};
    u.bits &= ~UINT64_C(0) << (53 - adder.bits);
    const float taken = limited((float)u.real, adder);
    return with_cut(taken,
                    ((double)taken != value) | (is_kept & ((double)(float)product != product)));
}

/* The exponent of a number, or a very small one. */
INLINE int32_t exponent_of(float value) {
    const int32_t exponent = (int32_t)(bits_of_float(value) & EXPONENTS), smallest = (ONE - 60)
                                                                                     << EXPONENT;
    return exponent > smallest ? exponent : smallest;
}

/* A sum, exact but for what was cut from its terms. soft/engines/vip/rounding.py says what is known of this. */
struct long_sum {
    float value;
    uint32_t is_cut;
};

INLINE struct long_sum sum_of(float a, float b, struct adder adder) {
    const int32_t ea = exponent_of(a), eb = exponent_of(b), larger = ea > eb ? ea : eb,
                  smaller = ea > eb ? eb : ea, gap = larger - smaller,
                  guard = gap < 3 << EXPONENT ? gap : 3 << EXPONENT;
    const uint32_t of_units =
        (2 * ONE + adder.bits - 1) * (UINT32_C(1) << EXPONENT) - (uint32_t)(larger - guard);
    const float units = float_of_bits(of_units),
                unit = float_of_bits((UINT32_C(2) * ONE << EXPONENT) - of_units), all_a = a * units,
                all_b = b * units, first = truncf(all_a), second = truncf(all_b),
                total = first + second;
    const uint32_t first_cut = bits_of_float(first) ^ bits_of_float(all_a),
                   second_cut = bits_of_float(second) ^ bits_of_float(all_b),
                   borrowed = fabsf(a) < fabsf(b) ? first_cut : second_cut;
    /* One unit, of up to 2^20, nearer to zero. */
    const float nearer = truncf(total * (1 - 0x1p-21f));
    /* A product with CUT_TO_NOTHING isn't less. */
    const float sum = (a * b < -0x1p-50f) & (borrowed != 0) ? nearer : total;
    return (struct long_sum){unit * sum, first_cut | second_cut};
}

INLINE float small_sum(float a, float b, struct adder adder) {
    const struct long_sum sum = sum_of(a, b, adder);
    const float kept = limited(sum.value, adder);
    return with_cut(kept, sum.is_cut | difference(kept, sum.value));
}

/* The same for what becomes a byte, of which more bits change nothing, nor do limits beyond bytes. */
INLINE float last_sum(float a, float b, struct adder adder) {
    const struct long_sum sum = sum_of(a, b, adder);
    return float_of_bits(bits_of_float(sum.value) | (sum.is_cut ? 1 : 0));
}

/* What BLOCK numbers that an adder has taken become with as many of the second operand. */
INLINE void add_second(const struct convolution *c, float *taken, const float *others,
                       struct adder adder) {
    const float constant = (float)c->constant;
    if (c->addition == SHORT_SUM)
        for (int64_t i = 0; i < BLOCK; i++)
            taken[i] = last_sum(small_sum(taken[i], constant, adder), others[i], adder);
    else
        for (int64_t i = 0; i < BLOCK; i++)
            taken[i] = last_sum(small_sum(taken[i], others[i], adder), constant, adder);
}

/* As bytes, halves to even numbers. */
INLINE void round_small(const float *values, int32_t zero_point, uint8_t *bytes) {
    const float low = (float)-zero_point, high = (float)(255 - zero_point);
    for (int64_t i = 0; i < BLOCK; i++) {
        const float above = values[i] < low ? low : values[i];
        const float value = above > high ? high : above;
        bytes[i] = (uint8_t)((int32_t)(value + 0x1.8p23f - 0x1.8p23f) + zero_point);
    }
}

/* Products with the second operand as bytes. */
INLINE void multiply_second(const struct convolution *c, double scale, const int32_t *sums,
                            const float *others, uint8_t *bytes) {
    const double zero_point = (double)c->zero_point, low = c->low, high = c->high;
    const int32_t add = (int32_t)c->zero_point;
    for (int64_t i = 0; i < BLOCK; i++) {
        const float value = (float)(clamped(sums[i] * scale, low, high) * others[i]);
        bytes[i] = (uint8_t)(half_even(clamped(value, -zero_point, 255 - zero_point)) + add);
    }
}

/* BLOCK sums as an adder takes them. */
INLINE void take_sums(const struct convolution *c, double scale, const int32_t *sums, float *taken,
                      struct adder adder) {
    const double low = c->low, high = c->high;
    for (int64_t i = 0; i < BLOCK; i++)
        taken[i] = first_bits(sums[i] * scale, low, high, (int)c->has_relu, adder);
}

/* Up to BLOCK - 1 sums and bytes more are read, and as many bytes written. */
INLINE void finish_second_inline(const struct convolution *c, double scale, const int32_t *sums,
                                 int64_t count, const uint8_t *second, uint8_t *bytes) {
    float others[BLOCK], taken[BLOCK];
    for (int64_t first = 0; first < count; first += BLOCK) {
        for (int64_t i = 0; i < BLOCK; i++)
            others[i] = c->operands[second[first + i]];
        if (c->addition == PRODUCT) {
            multiply_second(c, scale, sums + first, others, bytes + first);
            continue;
        }
        if (c->addition == SHORT_SUM) {
            take_sums(c, scale, sums + first, taken, short_adder);
            add_second(c, taken, others, short_adder);
        } else {
            take_sums(c, scale, sums + first, taken, long_adder);
            add_second(c, taken, others, long_adder);
        }
        round_small(taken, (int32_t)c->zero_point, bytes + first);
    }
}

IN_EACH_FORM(finish_second,
             (const struct convolution *c, double scale, const int32_t *sums, int64_t count,
              const uint8_t *second, uint8_t *bytes),
             (c, scale, sums, count, second, bytes))

/* ------------------------------------------------------------------------- sums in vectors */

#ifdef X86
/* Whether float32 holds a number. */
INLINE int is_float(double number) {
    return (double)(float)number == number;
}

/* Whether float32 holds each of BLOCK sums. */
INLINE int are_small(const int32_t *sums) {
    uint32_t all = 0;
    for (int64_t i = 0; i < BLOCK; i++)
        all |= (uint32_t)(sums[i] ^ sums[i] >> 31);
    return all < 1 << (EXPONENT + 1);
}

/* Whether vectors of floats hold the scaled sums. */
INLINE int has_float_products(const struct convolution *c, double scale) {
    return is_float(scale) && is_float(c->low) && is_float(c->high) && c->low <= 0 && c->high >= 0;
}

/* The same in vectors, in the words of a form. Minus zero is zero, and no number is none. */
#define SMALL_SUMS(form, keyword, P, vector, integers, truths)                                     \
    keyword INLINE vector small_##form(vector value, truths is_cut, struct adder adder) {          \
        const int32_t bits = (int32_t)(~UINT32_C(0) << (EXPONENT + 1 - adder.bits));               \
        const vector some = bits_of_##form(value, P##_set1_epi32(bits));                           \
        const vector below = P##_min_ps(some, P##_set1_ps(adder.largest));                         \
        const vector within = P##_max_ps(below, P##_set1_ps(-adder.largest));                      \
        const truths is_none =                                                                     \
            is_below_##form(magnitude_##form(within), P##_set1_ps(adder.least));                   \
        const vector kept = choose_##form(is_none, P##_set1_ps(0), within);                        \
        const truths all = either_##form(is_cut, differ_##form(kept, value));                      \
        const vector nothing = P##_set1_ps(CUT_TO_NOTHING);                                        \
        return choose_##form(both_##form(all, is_none), nothing, marked_##form(kept, all));        \
    }                                                                                              \
    keyword INLINE integers exponent_##form(vector value) {                                        \
        return P##_max_epi32(whole_##form(bits_of_##form(value, P##_set1_epi32(EXPONENTS))),       \
                             P##_set1_epi32((ONE - 60) << EXPONENT));                              \
    }                                                                                              \
    keyword INLINE vector sum_##form(vector a, vector b, struct adder adder, truths *is_cut) {     \
        const integers ea = exponent_##form(a), eb = exponent_##form(b);                           \
        const integers larger = P##_max_epi32(ea, eb);                                             \
        const integers gap = P##_sub_epi32(larger, P##_min_epi32(ea, eb));                         \
        const integers guard = P##_min_epi32(gap, P##_set1_epi32(3 << EXPONENT));                  \
        const uint32_t ones = (2 * ONE + adder.bits - 1) * (UINT32_C(1) << EXPONENT);              \
        const integers of_units =                                                                  \
            P##_sub_epi32(P##_set1_epi32((int32_t)ones), P##_sub_epi32(larger, guard));            \
        const integers of_unit =                                                                   \
            P##_sub_epi32(P##_set1_epi32((int32_t)(UINT32_C(2) * ONE << EXPONENT)), of_units);     \
        const vector units = real_##form(of_units), unit = real_##form(of_unit);                   \
        const vector all_a = P##_mul_ps(a, units), all_b = P##_mul_ps(b, units);                   \
        const vector first = whole_part_##form(all_a), second = whole_part_##form(all_b);          \
        const vector total = P##_add_ps(first, second);                                            \
        const truths first_cut = differ_##form(first, all_a),                                      \
                     second_cut = differ_##form(second, all_b);                                    \
        const truths is_first = is_below_##form(magnitude_##form(a), magnitude_##form(b));         \
        const truths borrowed =                                                                    \
            either_##form(both_##form(is_first, first_cut), without_##form(second_cut, is_first)); \
        const truths is_apart = is_below_##form(P##_mul_ps(a, b), P##_set1_ps(-0x1p-50f));         \
        const vector nearer = whole_part_##form(P##_mul_ps(total, P##_set1_ps(1 - 0x1p-21f)));     \
        *is_cut = either_##form(first_cut, second_cut);                                            \
        return P##_mul_ps(unit, choose_##form(both_##form(is_apart, borrowed), nearer, total));    \
    }                                                                                              \
    /* A sum and a product's limits as an adder takes them. */                                     \
    keyword INLINE vector taken_##form(const struct convolution *c, double scale,                  \
                                       const int32_t *sums, struct adder adder) {                  \
        truths is_cut;                                                                             \
        const vector product = cut_product_##form(P##_cvtepi32_ps(whole_at_##form(sums)),          \
                                                  P##_set1_ps((float)scale), &is_cut);             \
        const vector above = P##_max_ps(product, P##_set1_ps((float)c->low));                      \
        const vector within = P##_min_ps(above, P##_set1_ps((float)c->high));                      \
        if (c->has_relu)                                                                           \
            is_cut = both_##form(is_cut, is_below_##form(P##_set1_ps(0), product));                \
        return small_##form(within, is_cut, adder);                                                \
    }                                                                                              \
    keyword INLINE void add_block_##form(const struct convolution *c, double scale, int is_simple, \
                                         const int32_t *sums, const uint8_t *second,               \
                                         uint8_t *bytes, struct adder adder, int is_short) {       \
        enum { HELD = sizeof(vector) / sizeof(float) };                                            \
        const vector constant = P##_set1_ps((float)c->constant),                                   \
                     low = P##_set1_ps((float)-c->zero_point),                                     \
                     high = P##_set1_ps((float)(255 - c->zero_point));                             \
        float taken[BLOCK], others[BLOCK];                                                         \
        if (is_simple)                                                                             \
            for (int64_t i = 0; i < BLOCK; i += HELD)                                              \
                P##_storeu_ps(taken + i, taken_##form(c, scale, sums + i, adder));                 \
        else                                                                                       \
            take_sums(c, scale, sums, taken, adder);                                               \
        for (int64_t i = 0; i < BLOCK; i++)                                                        \
            others[i] = c->operands[second[i]];                                                    \
        for (int64_t i = 0; i < BLOCK; i += HELD) {                                                \
            const vector other = is_short ? constant : P##_loadu_ps(others + i);                   \
            truths is_cut;                                                                         \
            const vector sum = sum_##form(P##_loadu_ps(taken + i), other, adder, &is_cut);         \
            P##_storeu_ps(taken + i, small_##form(sum, is_cut, adder));                            \
        }                                                                                          \
        for (int64_t i = 0; i < BLOCK; i += HELD) {                                                \
            const vector other = is_short ? P##_loadu_ps(others + i) : constant;                   \
            truths is_cut;                                                                         \
            const vector sum = sum_##form(P##_loadu_ps(taken + i), other, adder, &is_cut);         \
            const vector above = P##_max_ps(marked_##form(sum, is_cut), low);                      \
            const vector rounded = P##_add_ps(P##_min_ps(above, high), P##_set1_ps(WHOLE));        \
            store_bytes_##form(                                                                    \
                bytes + i, P##_sub_epi32(whole_##form(rounded),                                    \
                                         P##_set1_epi32(WHOLE_BITS - (int32_t)c->zero_point)));    \
        }                                                                                          \
    }                                                                                              \
    keyword static void add_##form(const struct convolution *c, double scale, const int32_t *sums, \
                                   int64_t count, const uint8_t *second, uint8_t *bytes) {         \
        const int has_products = has_float_products(c, scale);                                     \
        for (int64_t i = 0; i < count; i += BLOCK) {                                               \
            const int is_simple = has_products && are_small(sums + i);                             \
            if (c->addition == SHORT_SUM)                                                          \
                add_block_##form(c, scale, is_simple, sums + i, second + i, bytes + i,             \
                                 short_adder, 1);                                                  \
            else                                                                                   \
                add_block_##form(c, scale, is_simple, sums + i, second + i, bytes + i, long_adder, \
                                 0);                                                               \
        }                                                                                          \
    }

#define whole_avx2 _mm256_castps_si256
#define real_avx2 _mm256_castsi256_ps
#define both_avx2 _mm256_and_ps
#define either_avx2 _mm256_or_ps
#define without_avx2(a, b) _mm256_andnot_ps(b, a)
#define choose_avx2(truth, yes, no) _mm256_blendv_ps(no, yes, truth)
#define differ_avx2(a, b) _mm256_cmp_ps(a, b, _CMP_NEQ_UQ)
#define is_below_avx2(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define whole_part_avx2(v) _mm256_round_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define bits_of_avx2(v, bits) _mm256_and_ps(v, real_avx2(bits))
#define magnitude_avx2(v) bits_of_avx2(v, _mm256_set1_epi32(INT32_MAX))
#define whole_at_avx2(from) _mm256_loadu_si256((const __m256i *)(from))

WITH_AVX2 INLINE __m256 marked_avx2(__m256 value, __m256 truth) {
    return _mm256_or_ps(value, bits_of_avx2(truth, _mm256_set1_epi32(1)));
}

/* A product toward zero, and whether there is more of it. */
WITH_AVX2 INLINE __m256 cut_product_avx2(__m256 a, __m256 b, __m256 *is_more) {
    const __m256 product = _mm256_mul_ps(a, b), more = _mm256_fmsub_ps(a, b, product);
    *is_more = differ_avx2(more, _mm256_setzero_ps());
    /* What rounding added is taken off. */
    const __m256i is_longer =
        _mm256_srai_epi32(whole_avx2(both_avx2(*is_more, _mm256_xor_ps(product, more))), 31);
    return real_avx2(_mm256_add_epi32(whole_avx2(product), is_longer));
}

WITH_AVX2 INLINE void store_bytes_avx2(uint8_t *to, __m256i values) {
    const __m256i words = _mm256_packs_epi32(values, values),
                  bytes = _mm256_packus_epi16(words, words);
    _mm_storel_epi64((__m128i *)to, _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes),
                                                       _mm256_extracti128_si256(bytes, 1)));
}

SMALL_SUMS(avx2, WITH_AVX2, _mm256, __m256, __m256i, __m256)
#endif

#ifdef AVX512
#define whole_avx512 _mm512_castps_si512
#define real_avx512 _mm512_castsi512_ps
#define both_avx512(a, b) ((__mmask16)((a) & (b)))
#define either_avx512(a, b) ((__mmask16)((a) | (b)))
#define without_avx512(a, b) ((__mmask16)((a) & ~(b)))
#define choose_avx512(truth, yes, no) _mm512_mask_blend_ps(truth, no, yes)
#define differ_avx512(a, b) _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ)
#define is_below_avx512(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define whole_part_avx512(v) _mm512_roundscale_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define bits_of_avx512(v, bits) real_avx512(_mm512_and_si512(whole_avx512(v), bits))
#define magnitude_avx512(v) bits_of_avx512(v, _mm512_set1_epi32(INT32_MAX))
#define whole_at_avx512 _mm512_loadu_si512

WITH_AVX512_VNNI INLINE __m512 marked_avx512(__m512 value, __mmask16 truth) {
    const __m512i bits = whole_avx512(value);
    return real_avx512(_mm512_mask_or_epi32(bits, truth, bits, _mm512_set1_epi32(1)));
}

WITH_AVX512_VNNI INLINE __m512 cut_product_avx512(__m512 a, __m512 b, __mmask16 *is_more) {
    const __m512 product = _mm512_mul_round_ps(a, b, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    *is_more = differ_avx512(_mm512_fmsub_ps(a, b, product), _mm512_set1_ps(0));
    return product;
}

WITH_AVX512_VNNI INLINE void store_bytes_avx512(uint8_t *to, __m512i values) {
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(values));
}

SMALL_SUMS(avx512, WITH_AVX512_VNNI, _mm512, __m512, __m512i, __mmask16)
#endif

static void finish_with_second(const struct convolution *c, int64_t k, const int32_t *sums,
                               int64_t count, const uint8_t *second, uint8_t *bytes) {
#ifdef AVX512
    if (running_form == AVX512_VNNI && c->addition != PRODUCT) {
        add_avx512(c, c->scale[k], sums, count, second, bytes);
        return;
    }
#endif
#ifdef X86
    if (has_avx2(running_form) && c->addition != PRODUCT) {
        add_avx2(c, c->scale[k], sums, count, second, bytes);
        return;
    }
#endif
    finish_second(c, c->scale[k], sums, count, second, bytes);
}

#endif
