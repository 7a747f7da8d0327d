/* Rows of floats times panels of weights, for npu_general.c: sums are float32, one product after the other,
 * place by place and channel by channel. */
#ifndef ANYNPU_NPU_GENERAL_PRODUCTS_H
#define ANYNPU_NPU_GENERAL_PRODUCTS_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "npu.h"

/* Places that a sum takes its factors from: so many lines, `step` floats apart. */
struct lines {
    int64_t count, step;
};

/* Sums of as many pixels fit into registers of four floats. */
#ifdef __aarch64__
enum { SOME = 4 };
#else
enum { SOME = 2 };
#endif

/* Add `count` products to each of (rows, GROUP) sums. */
INLINE void multiply_some(const float *rows, int64_t depth, const float *panel, int64_t count,
                          float *sums, const int pixels, int64_t fused) {
    float total[SOME * GROUP];
    memcpy(total, sums, pixels * GROUP * sizeof *total);
    for (int64_t p = 0; p < count; p++, panel += GROUP)
        for (int r = 0; r < pixels; r++) {
            const float x = rows[r * depth + p];
#ifdef __FP_FAST_FMAF
            if (fused) {
                for (int l = 0; l < GROUP; l++)
                    total[r * GROUP + l] = __builtin_fmaf(x, panel[l], total[r * GROUP + l]);
                continue;
            }
#endif
            for (int l = 0; l < GROUP; l++) {
                const float product = x * panel[l];
                total[r * GROUP + l] += product;
            }
        }
    memcpy(sums, total, pixels * GROUP * sizeof *total);
    (void)fused;
}

static void multiply_plain(const float *rows, int64_t depth, const float *panel, int64_t count,
                           float *sums, int64_t pixels, int64_t fused) {
    for (; pixels >= SOME; pixels -= SOME, rows += SOME * depth, sums += SOME * GROUP)
        multiply_some(rows, depth, panel, count, sums, SOME, fused);
    for (; pixels > 0; pixels--, rows += depth, sums += GROUP)
        multiply_some(rows, depth, panel, count, sums, 1, fused);
}

#ifdef X86
WITH_AVX2 INLINE void multiply_rows(const float *rows, int64_t depth, const float *panel,
                                    int64_t count, float *sums, const int pixels, const int fused) {
    __m256 total[2 * ROWS];
    for (int i = 0; i < 2 * pixels; i++)
        total[i] = _mm256_loadu_ps(sums + 8 * i);
    for (int64_t p = 0; p < count; p++, panel += GROUP) {
        const __m256 low = _mm256_loadu_ps(panel), high = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
        for (int r = 0; r < pixels; r++) {
            const __m256 x = _mm256_broadcast_ss(rows + r * depth + p);
            if (fused) {
                total[2 * r] = _mm256_fmadd_ps(x, low, total[2 * r]);
                total[2 * r + 1] = _mm256_fmadd_ps(x, high, total[2 * r + 1]);
            } else {
                total[2 * r] = _mm256_add_ps(total[2 * r], _mm256_mul_ps(x, low));
                total[2 * r + 1] = _mm256_add_ps(total[2 * r + 1], _mm256_mul_ps(x, high));
            }
        }
    }
    for (int i = 0; i < 2 * pixels; i++)
        _mm256_storeu_ps(sums + 8 * i, total[i]);
}

#define SOME_ROWS(n)                                                                               \
    case n:                                                                                        \
        if (fused)                                                                                 \
            multiply_rows(rows, depth, panel, count, sums, n, 1);                                  \
        else                                                                                       \
            multiply_rows(rows, depth, panel, count, sums, n, 0);                                  \
        break;

WITH_AVX2 static void multiply_avx2(const float *rows, int64_t depth, const float *panel,
                                    int64_t count, float *sums, int64_t pixels, int64_t fused) {
    for (; pixels > 0; pixels -= ROWS, rows += ROWS * depth, sums += ROWS * GROUP)
        switch (least(pixels, ROWS)) {
            SOME_ROWS(1)
            SOME_ROWS(2)
            SOME_ROWS(3)
            SOME_ROWS(4)
            SOME_ROWS(5)
            SOME_ROWS(6)
        }
}
#endif

#ifdef AVX512
enum { TALL = 14 };

/* The same with all of a pixel's sums in one register, for some lines; `begins` sets the sums. */
WITH_AVX512_VNNI INLINE void multiply_tall(const float *rows, int64_t depth, struct lines lines,
                                           const float *panel, int64_t count, float *sums,
                                           const int pixels, int begins) {
    __m512 total[TALL];
    for (int r = 0; r < pixels; r++)
        total[r] = begins ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + GROUP * r);
    for (int64_t l = 0; l < lines.count; l++, rows += lines.step)
        for (int64_t p = 0; p < count; p++, panel += GROUP) {
            const __m512 factors = _mm512_loadu_ps(panel);
#pragma GCC unroll 14
            for (int r = 0; r < pixels; r++)
                total[r] = _mm512_fmadd_ps(_mm512_set1_ps(rows[r * depth + p]), factors, total[r]);
        }
    for (int r = 0; r < pixels; r++)
        _mm512_storeu_ps(sums + GROUP * r, total[r]);
}

#define TALL_ROWS(n)                                                                               \
    case n: multiply_tall(rows, depth, lines, panel, count, sums, n, begins); break;

/* In parts of about the same height, of which none is so low that each sum waits for itself. */
WITH_AVX512_VNNI static void multiply_avx512(const float *rows, int64_t depth, struct lines lines,
                                             const float *panel, int64_t count, float *sums,
                                             int64_t pixels, int begins) {
    for (int64_t parts = (pixels + TALL - 1) / TALL, n; parts > 0; parts--) {
        n = pixels / parts;
        switch (n) {
            TALL_ROWS(1)
            TALL_ROWS(2)
            TALL_ROWS(3)
            TALL_ROWS(4)
            TALL_ROWS(5)
            TALL_ROWS(6)
            TALL_ROWS(7)
            TALL_ROWS(8)
            TALL_ROWS(9)
            TALL_ROWS(10)
            TALL_ROWS(11)
            TALL_ROWS(12)
            TALL_ROWS(13)
            TALL_ROWS(14)
        }
        pixels -= n, rows += n * depth, sums += n * GROUP;
    }
}
#endif

/* Sums of `count` products more of each line for each of some rows; `begins` sets them. */
static void multiply(const float *rows, int64_t depth, struct lines lines, const float *panel,
                     int64_t count, float *sums, int64_t pixels, int64_t fused, int begins) {
#ifdef AVX512
    if (has_avx512(running_form) && fused) {
        multiply_avx512(rows, depth, lines, panel, count, sums, pixels, begins);
        return;
    }
#endif
    if (begins)
        memset(sums, 0, pixels * GROUP * sizeof *sums);
    for (int64_t l = 0; l < lines.count; l++, rows += lines.step, panel += count * GROUP) {
#ifdef X86
        if (has_avx2(running_form)) {
            multiply_avx2(rows, depth, panel, count, sums, pixels, fused);
            continue;
        }
#endif
        multiply_plain(rows, depth, panel, count, sums, pixels, fused);
    }
}

#endif
