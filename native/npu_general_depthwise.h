/* Convolutions channel by channel and pooling of any element, for npu_general.c. */
#ifndef ANYNPU_NPU_GENERAL_DEPTHWISE_H
#define ANYNPU_NPU_GENERAL_DEPTHWISE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "npu_general_finish.h"
#include "npu_general_integers.h"
#include "npu_general_products.h"
#include "npu_general_rows.h"

/* A ring of the input's rows with padding round them: row r of the spread, padded input lies at
 * r % reach. */
struct ring {
    float *rows;
    int64_t reach;
    int64_t columns;
    int64_t next;
};

/* Rows from `ring->next` to `end`, of one group. */
static void fill_ring(struct ring *ring, const struct features *f, const struct window *k,
                      int64_t g, int64_t end) {
    for (; ring->next < end; ring->next++) {
        float *row = ring->rows + ring->next % ring->reach * ring->columns * GROUP;
        const int64_t y = under(ring->next - k->top, k->inserted_y, f->height);
        if (y < 0 || k->inserted_x || k->left >= ring->columns) {
            fill(row, GROUP, ring->columns, GROUP, k->padding);
            for (int64_t c = 0; y >= 0 && c < ring->columns; c++) {
                const int64_t x = under(c - k->left, k->inserted_x, f->width);
                if (x >= 0)
                    load_row(f, g, y, x, 1, 1, row + c * GROUP);
            }
            continue;
        }
        const int64_t n = least(f->width, ring->columns - k->left), right = k->left + n;
        fill(row, GROUP, k->left, GROUP, k->padding);
        load_row(f, g, y, 0, 1, n, row + k->left * GROUP);
        fill(row + right * GROUP, GROUP, ring->columns - right, GROUP, k->padding);
    }
}

INLINE void combine(float *total, const float *x, const float *factor, const int method) {
    for (int l = 0; l < GROUP; l++) {
        const float product = method == PRODUCTS ? x[l] * factor[l] : x[l];
        if (method == GREATEST)
            total[l] = total[l] < x[l] || x[l] != x[l] ? x[l] : total[l];
        else if (method == LEAST)
            total[l] = total[l] > x[l] || x[l] != x[l] ? x[l] : total[l];
        else
            total[l] += product;
    }
}

/* (count, GROUP) results for neighbours from `column` of the ring on, for output row `oy`. */
INLINE void see_any(const struct ring *ring, const struct window *k, const float *factors,
                    int64_t oy, int64_t column, int64_t count, float *totals, const int method) {
    const float start = method == GREATEST ? -INFINITY : method == LEAST ? INFINITY : 0;
    for (int64_t i = 0; i < count * GROUP; i++)
        totals[i] = method == SUMS ? -0.0f : start; /* -0 + x is x */
    for (int64_t ky = 0; ky < k->height; ky++) {
        const int64_t r = oy * k->stride_y + ky * k->dilation_y;
        const float *row = ring->rows + (r % ring->reach * ring->columns + column) * GROUP;
        for (int64_t kx = 0; kx < k->width; kx++, factors += method == PRODUCTS ? GROUP : 0)
            for (int64_t i = 0; i < count; i++)
                combine(totals + i * GROUP, row + (i * k->stride_x + kx * k->dilation_x) * GROUP,
                        factors, method);
    }
}

INLINE void see_inline(const struct ring *ring, const struct window *k, const float *factors,
                       int64_t oy, int64_t column, int64_t count, float *totals, int64_t method) {
    switch (method) {
    case PRODUCTS: see_any(ring, k, factors, oy, column, count, totals, PRODUCTS); break;
    case SUMS: see_any(ring, k, factors, oy, column, count, totals, SUMS); break;
    case GREATEST: see_any(ring, k, factors, oy, column, count, totals, GREATEST); break;
    default: see_any(ring, k, factors, oy, column, count, totals, LEAST);
    }
}

IN_EACH_FORM(see,
             (const struct ring *ring, const struct window *k, const float *factors, int64_t oy,
              int64_t column, int64_t count, float *totals, int64_t method),
             (ring, k, factors, oy, column, count, totals, method))

#ifdef X86
/* Sums of exact products of some pixels, in registers. */
WITH_AVX2 INLINE void see_some(const struct ring *ring, const struct window *k,
                               const float *factors, int64_t oy, int64_t column, float *totals,
                               const int pixels) {
    __m256 total[2 * ROWS];
    for (int i = 0; i < 2 * pixels; i++)
        total[i] = _mm256_setzero_ps();
    for (int64_t ky = 0; ky < k->height; ky++) {
        const int64_t r = oy * k->stride_y + ky * k->dilation_y;
        const float *x = ring->rows + (r % ring->reach * ring->columns + column) * GROUP;
        for (int64_t kx = 0; kx < k->width; kx++, factors += GROUP, x += k->dilation_x * GROUP) {
            const __m256 low = _mm256_loadu_ps(factors), high = _mm256_loadu_ps(factors + 8);
#pragma GCC unroll 6
            for (int i = 0; i < pixels; i++) {
                const float *at = x + i * k->stride_x * GROUP;
                total[2 * i] = _mm256_fmadd_ps(_mm256_loadu_ps(at), low, total[2 * i]);
                total[2 * i + 1] = _mm256_fmadd_ps(_mm256_loadu_ps(at + 8), high, total[2 * i + 1]);
            }
        }
    }
    for (int i = 0; i < 2 * pixels; i++)
        _mm256_storeu_ps(totals + 8 * i, total[i]);
}

WITH_AVX2 static void see_products(const struct ring *ring, const struct window *k,
                                   const float *factors, int64_t oy, int64_t column, int64_t count,
                                   float *totals) {
    int64_t i = 0;
    for (; i + ROWS <= count; i += ROWS)
        see_some(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, ROWS);
    for (; i < count; i++)
        see_some(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 1);
}
#endif

#ifdef AVX512
WITH_AVX512_VNNI INLINE void see_tall(const struct ring *ring, const struct window *k,
                                      const float *factors, int64_t oy, int64_t column,
                                      float *totals, const int pixels) {
    __m512 total[TALL];
    for (int i = 0; i < pixels; i++)
        total[i] = _mm512_setzero_ps();
    for (int64_t ky = 0; ky < k->height; ky++) {
        const int64_t r = oy * k->stride_y + ky * k->dilation_y;
        const float *x = ring->rows + (r % ring->reach * ring->columns + column) * GROUP;
        for (int64_t kx = 0; kx < k->width; kx++, factors += GROUP, x += k->dilation_x * GROUP) {
            const __m512 factor = _mm512_loadu_ps(factors);
#pragma GCC unroll 14
            for (int i = 0; i < pixels; i++)
                total[i] =
                    _mm512_fmadd_ps(_mm512_loadu_ps(x + i * k->stride_x * GROUP), factor, total[i]);
        }
    }
    for (int i = 0; i < pixels; i++)
        _mm512_storeu_ps(totals + GROUP * i, total[i]);
}

WITH_AVX512_VNNI static void see_wide(const struct ring *ring, const struct window *k,
                                      const float *factors, int64_t oy, int64_t column,
                                      int64_t count, float *totals) {
    int64_t i = 0;
    for (; i + 12 <= count; i += 12)
        see_tall(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 12);
    for (; i + 4 <= count; i += 4)
        see_tall(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 4);
    for (; i < count; i++)
        see_tall(ring, k, factors, oy, column + i * k->stride_x, totals + i * GROUP, 1);
}
#endif

/* Sums of exact products in vectors, if there are such. */
static int see_fused(const struct ring *ring, const struct window *k, const float *factors,
                     int64_t oy, int64_t column, int64_t count, float *totals) {
#ifdef AVX512
    if (has_avx512(running_form)) {
        see_wide(ring, k, factors, oy, column, count, totals);
        return 1;
    }
#endif
#ifdef X86
    if (has_avx2(running_form)) {
        see_products(ring, k, factors, oy, column, count, totals);
        return 1;
    }
#endif
    (void)ring, (void)k, (void)factors, (void)oy, (void)column, (void)count, (void)totals;
    return 0;
}

/* One group's factors, (places, GROUP): runs of channels of one block. */
static void pack_channels(const struct weights *w, int64_t places, int64_t g, float *factors) {
    const int64_t size = size_of(w->element);
    memset(factors, 0, places * GROUP * sizeof *factors);
    for (int64_t c = g * GROUP, end = least(c + GROUP, w->channels), n; c < end; c += n) {
        const int64_t block = c / w->channel_group, lane = c % w->channel_group;
        const int64_t width = least(w->channel_group, w->channels - block * w->channel_group);
        const int64_t before = block * w->channel_group * places;
        n = least(end - c, width - lane);
        widen(w->base + (before + lane) * size, width * size, places, factors + c % GROUP, GROUP, n,
              w->element);
    }
    for (int64_t i = 0; w->offsets && i < places * GROUP; i++)
        factors[i] += w->offsets[g * GROUP + i % GROUP];
}

/* One group's rows `first` to `end`. */
static void see_rows(const struct depthwise *a, int64_t g, int64_t first, int64_t end,
                     float *scratch) {
    const struct window *k = &a->window;
    const int64_t places = a->method == PRODUCTS ? k->height * k->width : 0;
    struct ring ring = {scratch + places * GROUP, (k->height - 1) * k->dilation_y + 1,
                        (k->out_width - 1) * k->stride_x + (k->width - 1) * k->dilation_x + 1,
                        first * k->stride_y};
    ALIGNED float totals[BLOCK * GROUP];
    double whole[BLOCK * GROUP];
    struct finish how;
    begin_finish(&a->dpu, &a->writer, g, &how);
    if (a->method == PRODUCTS)
        pack_channels(&a->weights, places, g, scratch);
    for (int64_t oy = first; oy < end; oy++) {
        if (ring.next < oy * k->stride_y)
            ring.next = oy * k->stride_y;
        fill_ring(&ring, &a->features, k, g, oy * k->stride_y + ring.reach);
        for (int64_t ox = 0; ox < k->out_width; ox += BLOCK) {
            const int64_t n = least(k->out_width - ox, BLOCK);
            if (!(a->fused && see_fused(&ring, k, scratch, oy, ox * k->stride_x, n, totals)))
                see(&ring, k, scratch, oy, ox * k->stride_x, n, totals, a->method);
            if (!a->dpu.is_integer) {
                finish(&how, oy * k->out_width + ox, n, totals);
                continue;
            }
            for (int64_t i = 0; i < n * GROUP; i++)
                whole[i] = totals[i];
            truncate_sums(whole, n * GROUP, a->truncate, a->truncate_up);
            finish_integers(&a->dpu, &a->writer, g, oy * k->out_width + ox, n, whole);
        }
    }
}

#endif
