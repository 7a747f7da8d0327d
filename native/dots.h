/* Rows of bytes times the weights of DOT_COLUMNS kernels, with four products to a sum: one template, in the
 * words of each form that has such products.
 *
 * Weights lie as (quads, DOT_COLUMNS, 4). A row holds `depth` bytes, a multiple of eight, and after them their
 * sum as int32: an offset for all weights of a kernel is that many times the sum. On x86 one operand
 * has no sign. There weights have 128 added, which is taken off as another such offset. Sums wrap
 * round, so that only what they come to has to fit int32.
 */
#ifndef ANYNPU_DOTS_H
#define ANYNPU_DOTS_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"

enum {
    DOT_COLUMNS = 16,
    DOT_ROWS = 6,
    MOST_ROWS = 12,
    THIRD = 3,  /* every how many rows have a pointer */
    CHAINS = 4, /* of sums, at most */
};

/* Where the sums of DOT_COLUMNS kernels go: as atoms of one surface, or of two. */
struct target {
    int32_t *sums;
    int64_t pixel;
    int64_t second; /* distance of the second half of the columns */
};

/* Some rows that are multiplied: from one to the next, bytes of each, and which quads of them. Their sums
 * begin with the offsets, or go on with what there is. */
struct byte_rows {
    const int8_t *base;
    int64_t stride, depth, first, quads;
    int begins;
};

#ifdef DOTS
INLINE int32_t sum_of_row(const struct byte_rows *rows, int64_t row) {
    int32_t sum;
    memcpy(&sum, rows->base + row * rows->stride + rows->depth, sizeof sum);
    return sum;
}

INLINE int32_t quad_at(const int8_t *place) {
    int32_t four;
    memcpy(&four, place, sizeof four);
    return four;
}

/* Each form says what it is to
 *   begin the sums of some rows with their offsets, load them, store them,
 *   have none and join two,
 *   hold the weights of some quads, and add their products with what some rows have there.
 * TALL rows and DEEP quads go together. Rows are found by a pointer for every third of them, so that all fit
 * into registers; the sums of few rows are added up in chains, as a product takes longer than the next one
 * has to wait. */
#define MULTIPLY_BYTES(form, keyword, most, TALL, DEEP)                                            \
    keyword INLINE void add_quads_##form(struct sums_##form *sums, const int8_t *weights,          \
                                         const int8_t *const *row, int64_t stride, int64_t quad,   \
                                         const int count) {                                        \
        const struct held_##form held = hold_##form(weights + quad * 4 * DOT_COLUMNS);             \
        UNROLLED for (int r = 0; r < count; r += (TALL)) add_##form(                               \
            &sums[r / (TALL)], &held, row[r / THIRD] + r % THIRD * stride + 4 * quad, stride);     \
    }                                                                                              \
    keyword INLINE void sum_rows_##form(struct byte_rows rows, const int8_t *weights,              \
                                        const int16_t *offsets, const struct target *t,            \
                                        struct sums_##form *total, const int count) {              \
        struct sums_##form sums[CHAINS][(most) / (TALL)];                                          \
        const int8_t *row[MOST_ROWS / THIRD];                                                      \
        const int parts = count / (TALL);                                                          \
        const int chains = (DEEP) > 1 || count > 4 ? 1 : count > 1 ? 2 : CHAINS;                   \
        int64_t q = 0;                                                                             \
        UNROLLED for (int r = 0; r < parts; r++) {                                                 \
            sums[0][r] = rows.begins ? begin_##form(&rows, r, offsets) : load_##form(t, r);        \
            UNROLLED for (int c = 1; c < chains; c++) sums[c][r] = none_##form();                  \
        }                                                                                          \
        UNROLLED for (int i = 0; i * THIRD < count; i++) row[i] =                                  \
            rows.base + i * THIRD * rows.stride + 4 * rows.first;                                  \
        weights += rows.first * 4 * DOT_COLUMNS;                                                   \
        for (; q + chains * (DEEP) <= rows.quads; q += chains * (DEEP)) {                          \
            UNROLLED for (int c = 0; c < chains; c++)                                              \
                add_quads_##form(sums[c], weights, row, rows.stride, c, count);                    \
            weights += chains * (DEEP) * 4 * DOT_COLUMNS;                                          \
            UNROLLED for (int i = 0; i * THIRD < count; i++) {                                     \
                row[i] += chains * (DEEP) * 4;                                                     \
                __asm__("" : "+r"(row[i]));                                                        \
            }                                                                                      \
        }                                                                                          \
        for (int64_t left = 0; q + left < rows.quads; left += (DEEP))                              \
            add_quads_##form(sums[0], weights, row, rows.stride, left, count);                     \
        UNROLLED for (int r = 0; r < parts; r++) {                                                 \
            UNROLLED for (int c = 1; c < chains; c++) join_##form(&sums[0][r], &sums[c][r]);       \
            total[r] = sums[0][r];                                                                 \
        }                                                                                          \
    }                                                                                              \
    keyword INLINE void multiply_rows_##form(struct byte_rows rows, const int8_t *weights,         \
                                             const int16_t *offsets, struct target t,              \
                                             const int count) {                                    \
        struct sums_##form total[(most) / (TALL)];                                                 \
        sum_rows_##form(rows, weights, offsets, &t, total, count);                                 \
        UNROLLED for (int r = 0; r < count / (TALL); r++) store_##form(&t, r, &total[r]);          \
    }                                                                                              \
    keyword static void multiply_##form(struct byte_rows rows, const int8_t *weights,              \
                                        const int16_t *offsets, struct target t, int64_t count) {  \
        while (count >= (TALL)) {                                                                  \
            /* Parts of about the same size: few rows don't cover the time of a product. */        \
            const int64_t talls = count / (TALL), parts = (talls * (TALL) + (most) - 1) / (most);  \
            const int64_t taken = (talls + parts - 1) / parts * (TALL);                            \
            switch (taken) { EACH_COUNT(form, most, TALL) }                                        \
            rows.base += taken * rows.stride, t.sums += taken * t.pixel, count -= taken;           \
        }                                                                                          \
        if (!count)                                                                                \
            return;                                                                                \
        /* The same row once more, where rows go together. */                                      \
        rows.stride = 0, t.pixel = 0;                                                              \
        multiply_rows_##form(rows, weights, offsets, t, TALL);                                     \
    }

/* A number of rows in a function's variable as a constant. */
#define COUNT(form, most, TALL, rows_now)                                                          \
    case rows_now:                                                                                 \
        if ((rows_now) % (TALL) == 0 && (rows_now) <= (most))                                      \
            multiply_rows_##form(rows, weights, offsets, t, rows_now);                             \
        break;
#define EACH_COUNT(...)                                                                            \
    COUNT(__VA_ARGS__, 1)                                                                          \
    COUNT(__VA_ARGS__, 2)                                                                          \
    COUNT(__VA_ARGS__, 3)                                                                          \
    COUNT(__VA_ARGS__, 4)                                                                          \
    COUNT(__VA_ARGS__, 5)                                                                          \
    COUNT(__VA_ARGS__, 6)                                                                          \
    COUNT(__VA_ARGS__, 7)                                                                          \
    COUNT(__VA_ARGS__, 8)                                                                          \
    COUNT(__VA_ARGS__, 9)                                                                          \
    COUNT(__VA_ARGS__, 10)                                                                         \
    COUNT(__VA_ARGS__, 11)                                                                         \
    COUNT(__VA_ARGS__, 12)

#ifdef X86
enum { BIAS = 128 };

/* ---------------------------------------------------------------------------------------- AVX-VNNI */

struct sums_avx_vnni {
    __m256i half[2];
};

struct held_avx_vnni {
    __m256i half[2];
};

WITH_AVX_VNNI INLINE struct sums_avx_vnni begin_avx_vnni(const struct byte_rows *rows, int r,
                                                         const int16_t *offsets) {
    struct sums_avx_vnni begun;
    const __m256i sum = _mm256_set1_epi32(sum_of_row(rows, r));
    for (int h = 0; h < 2; h++) {
        const __m128i eight = _mm_loadu_si128((const __m128i *)offsets + h);
        const __m256i wide = _mm256_cvtepi16_epi32(eight);
        begun.half[h] = _mm256_mullo_epi32(_mm256_sub_epi32(wide, _mm256_set1_epi32(BIAS)), sum);
    }
    return begun;
}

WITH_AVX_VNNI INLINE struct sums_avx_vnni load_avx_vnni(const struct target *t, int r) {
    struct sums_avx_vnni loaded;
    for (int h = 0; h < 2; h++)
        loaded.half[h] = _mm256_loadu_si256((__m256i *)(t->sums + r * t->pixel + h * t->second));
    return loaded;
}

WITH_AVX_VNNI INLINE void store_avx_vnni(const struct target *t, int r,
                                         const struct sums_avx_vnni *sums) {
    for (int h = 0; h < 2; h++)
        _mm256_storeu_si256((__m256i *)(t->sums + r * t->pixel + h * t->second), sums->half[h]);
}

WITH_AVX_VNNI INLINE struct sums_avx_vnni none_avx_vnni(void) {
    const struct sums_avx_vnni none = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
    return none;
}

WITH_AVX_VNNI INLINE void join_avx_vnni(struct sums_avx_vnni *sums,
                                        const struct sums_avx_vnni *other) {
    for (int h = 0; h < 2; h++)
        sums->half[h] = _mm256_add_epi32(sums->half[h], other->half[h]);
}

WITH_AVX_VNNI INLINE struct held_avx_vnni hold_avx_vnni(const int8_t *weights) {
    struct held_avx_vnni held;
    for (int h = 0; h < 2; h++)
        held.half[h] = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)weights + h),
                                        _mm256_set1_epi8(-BIAS));
    return held;
}

WITH_AVX_VNNI INLINE void add_avx_vnni(struct sums_avx_vnni *sums, const struct held_avx_vnni *held,
                                       const int8_t *first, int64_t stride) {
    const __m256i row = _mm256_set1_epi32(quad_at(first));
    (void)stride;
    for (int h = 0; h < 2; h++)
        sums->half[h] = _mm256_dpbusd_avx_epi32(sums->half[h], held->half[h], row);
}

MULTIPLY_BYTES(avx_vnni, WITH_AVX_VNNI, DOT_ROWS, 1, 1)

/* ----------------------------------------------------------------------------------- AVX-512 VNNI */

struct sums_avx512_vnni {
    __m512i all;
};

struct held_avx512_vnni {
    __m512i all;
};

WITH_AVX512_VNNI INLINE __m512i join_avx512(__m256i first, __m256i second) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

WITH_AVX512_VNNI INLINE struct sums_avx512_vnni begin_avx512_vnni(const struct byte_rows *rows,
                                                                  int r, const int16_t *offsets) {
    const __m128i *eight = (const __m128i *)offsets;
    const __m512i wide = join_avx512(_mm256_cvtepi16_epi32(_mm_loadu_si128(eight)),
                                     _mm256_cvtepi16_epi32(_mm_loadu_si128(eight + 1)));
    const struct sums_avx512_vnni begun = {_mm512_mullo_epi32(
        _mm512_sub_epi32(wide, _mm512_set1_epi32(BIAS)), _mm512_set1_epi32(sum_of_row(rows, r)))};
    return begun;
}

WITH_AVX512_VNNI INLINE struct sums_avx512_vnni load_avx512_vnni(const struct target *t, int r) {
    const int32_t *sums = t->sums + r * t->pixel;
    const struct sums_avx512_vnni loaded = {
        t->second == DOT_COLUMNS / 2
            ? _mm512_loadu_si512(sums)
            : join_avx512(_mm256_loadu_si256((const __m256i *)sums),
                          _mm256_loadu_si256((const __m256i *)(sums + t->second)))};
    return loaded;
}

WITH_AVX512_VNNI INLINE void store_avx512_vnni(const struct target *t, int r,
                                               const struct sums_avx512_vnni *sums) {
    int32_t *target = t->sums + r * t->pixel;
    if (t->second == DOT_COLUMNS / 2) {
        _mm512_storeu_si512(target, sums->all);
        return;
    }
    _mm256_storeu_si256((__m256i *)target, _mm512_castsi512_si256(sums->all));
    _mm256_storeu_si256((__m256i *)(target + t->second), _mm512_extracti64x4_epi64(sums->all, 1));
}

WITH_AVX512_VNNI INLINE struct sums_avx512_vnni none_avx512_vnni(void) {
    const struct sums_avx512_vnni none = {_mm512_setzero_si512()};
    return none;
}

WITH_AVX512_VNNI INLINE void join_avx512_vnni(struct sums_avx512_vnni *sums,
                                              const struct sums_avx512_vnni *other) {
    sums->all = _mm512_add_epi32(sums->all, other->all);
}

WITH_AVX512_VNNI INLINE struct held_avx512_vnni hold_avx512_vnni(const int8_t *weights) {
    const struct held_avx512_vnni held = {
        _mm512_xor_si512(_mm512_loadu_si512(weights), _mm512_set1_epi8(-BIAS))};
    return held;
}

WITH_AVX512_VNNI INLINE void add_avx512_vnni(struct sums_avx512_vnni *sums,
                                             const struct held_avx512_vnni *held,
                                             const int8_t *first, int64_t stride) {
    sums->all = _mm512_dpbusd_epi32(sums->all, held->all, _mm512_set1_epi32(quad_at(first)));
    (void)stride;
}

/* As many rows as cover the time that a product takes. */
MULTIPLY_BYTES(avx512_vnni, WITH_AVX512_VNNI, 2 * DOT_ROWS, 1, 1)

/* Rows of bytes times weights, in the form that runs. */
static void multiply_bytes(struct byte_rows rows, const int8_t *weights, const int16_t *offsets,
                           struct target t, int64_t count) {
    if (running_form == AVX512_VNNI)
        multiply_avx512_vnni(rows, weights, offsets, t, count);
    else
        multiply_avx_vnni(rows, weights, offsets, t, count);
}

#else

/* ----------------------------------------------------------------------------- NEON's dot products */

struct sums_dotprod {
    int32x4_t four[DOT_COLUMNS / 4];
};

struct held_dotprod {
    int8x16_t four[DOT_COLUMNS / 4];
};

/* Four columns' place among the sums of a row. */
INLINE int32_t *four_of(const struct target *t, int64_t r, int f) {
    return t->sums + r * t->pixel + f / 2 * t->second + f % 2 * 4;
}

WITH_DOTPROD INLINE struct sums_dotprod begin_dotprod(const struct byte_rows *rows, int r,
                                                      const int16_t *offsets) {
    struct sums_dotprod begun;
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        begun.four[f] = vmulq_n_s32(vmovl_s16(vld1_s16(offsets + 4 * f)), sum_of_row(rows, r));
    return begun;
}

WITH_DOTPROD INLINE struct sums_dotprod load_dotprod(const struct target *t, int r) {
    struct sums_dotprod loaded;
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        loaded.four[f] = vld1q_s32(four_of(t, r, f));
    return loaded;
}

WITH_DOTPROD INLINE void store_dotprod(const struct target *t, int r,
                                       const struct sums_dotprod *sums) {
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        vst1q_s32(four_of(t, r, f), sums->four[f]);
}

WITH_DOTPROD INLINE struct sums_dotprod none_dotprod(void) {
    struct sums_dotprod none;
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        none.four[f] = vdupq_n_s32(0);
    return none;
}

WITH_DOTPROD INLINE void join_dotprod(struct sums_dotprod *sums, const struct sums_dotprod *other) {
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        sums->four[f] = vaddq_s32(sums->four[f], other->four[f]);
}

WITH_DOTPROD INLINE struct held_dotprod hold_dotprod(const int8_t *weights) {
    struct held_dotprod held;
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        held.four[f] = vld1q_s8(weights + 16 * f);
    return held;
}

WITH_DOTPROD INLINE void add_dotprod(struct sums_dotprod *sums, const struct held_dotprod *held,
                                     const int8_t *first, int64_t stride) {
    const int8x16_t row = vreinterpretq_s8_s32(vdupq_n_s32(quad_at(first)));
    (void)stride;
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        sums->four[f] = vdotq_s32(sums->four[f], held->four[f], row);
}

MULTIPLY_BYTES(dotprod, WITH_DOTPROD, DOT_ROWS, 1, 1)

/* ---------------------------------------------------------------------------- NEON's 2x2 products */

/* Two rows by two columns each: {first row: left, right; second row: left, right}. */
struct sums_i8mm {
    int32x4_t two[DOT_COLUMNS / 2];
};

/* Eight weights of each of two columns. */
struct held_i8mm {
    int8x16_t two[DOT_COLUMNS / 2];
};

WITH_I8MM INLINE void pair_i8mm(struct sums_i8mm *sums, int f, int32x4_t first, int32x4_t second) {
    sums->two[2 * f] = vcombine_s32(vget_low_s32(first), vget_low_s32(second));
    sums->two[2 * f + 1] = vcombine_s32(vget_high_s32(first), vget_high_s32(second));
}

WITH_I8MM INLINE struct sums_i8mm begin_i8mm(const struct byte_rows *rows, int r,
                                             const int16_t *offsets) {
    struct sums_i8mm begun;
    for (int f = 0; f < DOT_COLUMNS / 4; f++) {
        const int32x4_t wide = vmovl_s16(vld1_s16(offsets + 4 * f));
        pair_i8mm(&begun, f, vmulq_n_s32(wide, sum_of_row(rows, 2 * r)),
                  vmulq_n_s32(wide, sum_of_row(rows, 2 * r + 1)));
    }
    return begun;
}

WITH_I8MM INLINE struct sums_i8mm load_i8mm(const struct target *t, int r) {
    struct sums_i8mm loaded;
    for (int f = 0; f < DOT_COLUMNS / 4; f++)
        pair_i8mm(&loaded, f, vld1q_s32(four_of(t, 2 * r, f)), vld1q_s32(four_of(t, 2 * r + 1, f)));
    return loaded;
}

WITH_I8MM INLINE void store_i8mm(const struct target *t, int r, const struct sums_i8mm *sums) {
    for (int f = 0; f < DOT_COLUMNS / 4; f++) {
        const int32x4_t left = sums->two[2 * f], right = sums->two[2 * f + 1];
        vst1q_s32(four_of(t, 2 * r, f), vcombine_s32(vget_low_s32(left), vget_low_s32(right)));
        vst1q_s32(four_of(t, 2 * r + 1, f),
                  vcombine_s32(vget_high_s32(left), vget_high_s32(right)));
    }
}

WITH_I8MM INLINE struct sums_i8mm none_i8mm(void) {
    struct sums_i8mm none;
    for (int c = 0; c < DOT_COLUMNS / 2; c++)
        none.two[c] = vdupq_n_s32(0);
    return none;
}

WITH_I8MM INLINE void join_i8mm(struct sums_i8mm *sums, const struct sums_i8mm *other) {
    for (int c = 0; c < DOT_COLUMNS / 2; c++)
        sums->two[c] = vaddq_s32(sums->two[c], other->two[c]);
}

WITH_I8MM INLINE struct held_i8mm hold_i8mm(const int8_t *weights) {
    struct held_i8mm held;
    for (int f = 0; f < DOT_COLUMNS / 4; f++) {
        const int32x4_t quad = vreinterpretq_s32_s8(vld1q_s8(weights + 16 * f));
        const int32x4_t next = vreinterpretq_s32_s8(vld1q_s8(weights + 16 * f + 4 * DOT_COLUMNS));
        held.two[2 * f] = vreinterpretq_s8_s32(vzip1q_s32(quad, next));
        held.two[2 * f + 1] = vreinterpretq_s8_s32(vzip2q_s32(quad, next));
    }
    return held;
}

WITH_I8MM INLINE void add_i8mm(struct sums_i8mm *sums, const struct held_i8mm *held,
                               const int8_t *first, int64_t stride) {
    const int8x16_t both = vcombine_s8(vld1_s8(first), vld1_s8(first + stride));
    for (int c = 0; c < DOT_COLUMNS / 2; c++)
        sums->two[c] = vmmlaq_s32(sums->two[c], both, held->two[c]);
}

MULTIPLY_BYTES(i8mm, WITH_I8MM, DOT_ROWS, 2, 2)

/* Rows of bytes times weights, in the form that runs. */
static void multiply_bytes(struct byte_rows rows, const int8_t *weights, const int16_t *offsets,
                           struct target t, int64_t count) {
    if (running_form == I8MM)
        multiply_i8mm(rows, weights, offsets, t, count);
    else
        multiply_dotprod(rows, weights, offsets, t, count);
}
#endif
#endif

#endif
