/* Rows of int16 times weights of COLUMNS kernels, for npu.c, for processors that don't multiply bytes; what does
 * is in dots.h. */
#ifndef ANYNPU_NPU_PRODUCTS_H
#define ANYNPU_NPU_PRODUCTS_H

#include <stdint.h>
#include <string.h>

#include "dots.h"
#include "npu.h"

/* A slice of the weights of COLUMNS kernels, as pairs with their offsets: (pairs, 2, COLUMNS). */
INLINE void unpack(const int8_t *weights, const int16_t *offsets, int64_t quads, int16_t *panel) {
    for (int64_t q = 0; q < quads; q++, weights += 4 * COLUMNS, panel += 4 * COLUMNS) {
        int8_t held[4 * COLUMNS];
        memcpy(held, weights, sizeof held);
        for (int i = 0; i < 4; i++)
            for (int c = 0; c < COLUMNS; c++)
                panel[i * COLUMNS + c] = (int16_t)(held[4 * c + i] + offsets[c]);
    }
}

#ifdef X86
/* The same for wide vectors: (pairs, COLUMNS, 2). */
WITH_AVX2 static void unpack_avx2(const int8_t *weights, const int16_t *offsets, int64_t quads,
                                  int16_t *panel) {
    const __m128i apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m256i twice[COLUMNS / 4];
    for (int f = 0; f < COLUMNS / 4; f++) {
        const __m128i four = _mm_loadl_epi64((const __m128i *)(offsets + 4 * f));
        twice[f] = _mm256_broadcastsi128_si256(_mm_unpacklo_epi16(four, four));
    }
    for (int64_t q = 0; q < quads; q++, weights += 4 * COLUMNS, panel += 4 * COLUMNS)
        for (int f = 0; f < COLUMNS / 4; f++) {
            const __m128i four = _mm_loadu_si128((const __m128i *)weights + f);
            const __m256i wide = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(four, apart));
            const __m256i both = _mm256_add_epi16(wide, twice[f]);
            _mm_storeu_si128((__m128i *)panel + f, _mm256_castsi256_si128(both));
            _mm_storeu_si128((__m128i *)(panel + 2 * COLUMNS) + f,
                             _mm256_extracti128_si256(both, 1));
        }
}
#endif

/* COLUMNS numbers at a time, in whatever vectors the processor has: compilers left to themselves choose
 * the other axis. */
typedef int16_t halves __attribute__((vector_size(2 * COLUMNS), aligned(2)));
typedef int32_t words __attribute__((vector_size(4 * COLUMNS), aligned(4)));

/* Add `pairs` pairs of products for `count` rows; `begins` sets the sums. */
INLINE void multiply(const int16_t *rows, int64_t stride, const int16_t *panel, int64_t pairs,
                     struct target t, const int count, int begins) {
    words total[ROWS] = {{0}};
    for (int64_t p = 0; p < pairs; p++, panel += 2 * COLUMNS) {
        const words first = __builtin_convertvector(*(const halves *)panel, words);
        const words second = __builtin_convertvector(*(const halves *)(panel + COLUMNS), words);
        for (int r = 0; r < count; r++) {
            total[r] += first * rows[r * stride + 2 * p];
            total[r] += second * rows[r * stride + 2 * p + 1];
        }
    }
    for (int r = 0; r < count; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int32_t *sum = t.sums + r * t.pixel + (c / 8) * t.second + c % 8;
            *sum = (begins ? 0 : *sum) + total[r][c];
        }
}

#ifdef X86
/* The same with all sums in registers. */
WITH_AVX2 INLINE void multiply_avx2(const int16_t *rows, int64_t stride, const int16_t *panel,
                                    int64_t pairs, struct target t, const int count, int begins) {
    __m256i total[ROWS * 2];
    for (int r = 0; r < count; r++)
        for (int v = 0; v < 2; v++)
            total[2 * r + v] =
                begins ? _mm256_setzero_si256()
                       : _mm256_loadu_si256((__m256i *)(t.sums + r * t.pixel + v * t.second));
    for (int64_t p = 0; p < pairs; p++, panel += 2 * COLUMNS) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)panel);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(panel + COLUMNS));
        UNROLLED for (int r = 0; r < count; r++) {
            int32_t pair;
            memcpy(&pair, rows + r * stride + 2 * p, sizeof pair);
            const __m256i both = _mm256_set1_epi32(pair);
            total[2 * r] = _mm256_add_epi32(total[2 * r], _mm256_madd_epi16(both, low));
            total[2 * r + 1] = _mm256_add_epi32(total[2 * r + 1], _mm256_madd_epi16(both, high));
            /* One row after another: all products first would need more registers than there are. */
            __asm__ volatile("" : "+x"(total[2 * r]), "+x"(total[2 * r + 1]));
        }
    }
    for (int r = 0; r < count; r++)
        for (int v = 0; v < 2; v++)
            _mm256_storeu_si256((__m256i *)(t.sums + r * t.pixel + v * t.second), total[2 * r + v]);
}
#endif

/* Sums without their last bits. */
INLINE void truncate_sums(int32_t *sums, int64_t count, int64_t bits, int64_t up) {
    const int32_t half = 1 << (bits - 1), mask = 2 * half - 1;
    for (int64_t i = 0; i < count; i++) {
        const int32_t below = sums[i] >> bits, rest = sums[i] & mask;
        sums[i] = below + (rest > half || (rest == half && (up || below & 1)));
    }
}

/* `most` rows have their sums in registers. */
#define MULTIPLY(name, keyword, most)                                                              \
    keyword static void name##_rows(const int16_t *rows, int64_t stride, const int16_t *panel,     \
                                    int64_t pairs, struct target t, int64_t count, int begins) {   \
        for (; count >= most; count -= most, rows += most * stride, t.sums += most * t.pixel)      \
            name(rows, stride, panel, pairs, t, most, begins);                                     \
        for (; count >= 2; count -= 2, rows += 2 * stride, t.sums += 2 * t.pixel)                  \
            name(rows, stride, panel, pairs, t, 2, begins);                                        \
        if (count)                                                                                 \
            name(rows, stride, panel, pairs, t, 1, begins);                                        \
    }

MULTIPLY(multiply, , 2)
#ifdef X86
MULTIPLY(multiply_avx2, WITH_AVX2, ROWS)
#endif

#endif
