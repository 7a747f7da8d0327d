/* int8 convolutions channel by channel with AVX-512, for npu.c, row by row: pairs as in npu_depthwise.h, of only as
 * many of the input's rows as the kernel sees, which stay in the nearest cache; sums that never leave the registers,
 * and `run_whole`'s stages at once.
 *
 * PAIRED_TOGETHER neighbours go together, or fewer. What lies past a row's end is computed as well and dropped.
 */
#ifndef ANYNPU_NPU_DEPTHWISE_FUSED_H
#define ANYNPU_NPU_DEPTHWISE_FUSED_H

#if defined(X86) && defined(DOTS)
enum { MOST_PAIRS = 3 };

/* A vector that compilers are to have in a register just there. */
#ifdef ANYNPU_EMULATED
#define IN_A_REGISTER(vector) (void)0
#else
#define IN_A_REGISTER(vector) __asm__("" : "+v"(vector))
#endif

/* Rows of pairs in a circle. The kernel sees those from place `begin` on, which is the input's row `y`; from row
 * `missing` on there are none yet. What lies outside of the input has one row, after those. */
struct pair_rows {
    int16_t *base;
    int64_t row, count; /* values of a row, and how many there is room for */
    int64_t step;       /* pixels from a column to the next one */
    int64_t inside;     /* the first column whose pixels both lie in the input, */
    int64_t outside;    /* and the next one for which that isn't so */
    int64_t y, begin, missing;
};

/* No rows yet of those that output rows from `oy` on see. */
INLINE struct pair_rows no_rows(const struct int8_depthwise *a, int64_t oy, int16_t *base) {
    const struct window *k = &a->window;
    const int64_t last = a->features.width - 1 - k->dilation_x + k->left;
    struct pair_rows r = {0};
    r.base = base;
    r.row = 2 * LANES * a->columns;
    r.count = (k->height - 1) * k->dilation_y + 1;
    r.step = k->stride_x / a->apart;
    r.inside = least(steps_to(k->left, r.step), a->columns);
    r.outside = last < 0 ? 0 : least(last / r.step + 1, a->columns);
    r.outside = r.outside < r.inside ? r.inside : r.outside;
    r.y = r.missing = oy * k->stride_y - k->top;
    for (int64_t v = 0; v < r.row; v++)
        base[r.count * r.row + v] = (int16_t)k->padding;
    return r;
}

/* A place in the circle, from one less than twice around. */
INLINE int16_t *row_at(const struct pair_rows *r, int64_t place) {
    return r->base + (place < r->count ? place : place - r->count) * r->row;
}

/* A row's pairs. Each is stored as it is loaded later, at once. */
WITH_AVX512_VNNI static void pair_row_avx512(const struct int8_depthwise *a,
                                             const struct pair_rows *r, const int8_t *line,
                                             int64_t valid, int16_t *pairs) {
    static const int16_t in_turns[2 * LANES] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i order = _mm512_loadu_si512(in_turns);
    const __m128i mask = first_lanes(valid);
    const __m256i kept = _mm256_set_m128i(mask, mask);
    const int64_t dilation = a->window.dilation_x, pixel = a->features.pixel;
    int64_t x = -a->window.left;
    for (int64_t column = 0; column < a->columns; column++, x += r->step, pairs += 2 * LANES) {
        if (column == r->inside) {
            const int8_t *atom = line + x * pixel;
            const int64_t second = dilation * pixel, step = r->step * pixel;
            for (; column < r->outside; column++, atom += step, pairs += 2 * LANES) {
                const __m256i both =
                    second == LANES
                        ? _mm256_loadu_si256((const __m256i *)atom)
                        : _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(atom + second)),
                                           _mm_loadu_si128((const __m128i *)atom));
                const __m512i wide = _mm512_cvtepi8_epi16(_mm256_and_si256(both, kept));
                _mm512_storeu_si512(pairs, _mm512_permutexvar_epi16(order, wide));
            }
            x += (r->outside - r->inside) * r->step;
            if (column == a->columns)
                return;
        }
        const __m512i wide = join_avx512(load_edge(a, line, x, mask, LANES),
                                         load_edge(a, line, x + dilation, mask, LANES));
        _mm512_storeu_si512(pairs, _mm512_permutexvar_epi16(order, wide));
    }
}

/* Make rows those that an output row sees, which is not above the ones before. */
WITH_AVX512_VNNI INLINE void see_rows(const struct int8_depthwise *a, int64_t s, int64_t oy,
                                      struct pair_rows *r) {
    const struct features *f = &a->features;
    const int64_t top = oy * a->window.stride_y - a->window.top, below = top + r->count;
    const int64_t valid = f->valid - s * LANES < 0 ? 0 : f->valid - s * LANES;
    const int8_t *surface = (const int8_t *)f->base + s * f->surface;
    int64_t y = top > r->missing ? top : r->missing;
    for (r->begin += top - r->y; r->begin >= r->count; r->begin -= r->count)
        ;
    for (y = y < 0 ? 0 : y; y < least(below, f->height); y++)
        pair_row_avx512(a, r, surface + y * f->line, valid, row_at(r, r->begin + y - top));
    r->y = top;
    r->missing = below;
}

/* What a row of the kernel sees, by its distance from the first one. */
INLINE const int16_t *seen_row(const struct int8_depthwise *a, const struct pair_rows *r,
                               int64_t distance) {
    const int64_t y = r->y + distance;
    return y < 0 || y >= a->features.height ? r->base + r->count * r->row
                                            : row_at(r, r->begin + distance);
}

/* How many neighbours are computed together, of those that are left: most of a row, two parts of it, or a few
 * more than there are. */
INLINE int part_of_row(int64_t left) {
    return left == 1 ? 1 : left <= 4 ? 4 : left % 7 == 0 && left <= 14 ? 7 : PAIRED_TOGETHER;
}

/* Sums of neighbours that lie side by side, where each row of the kernel has so many pairs, so many columns apart:
 * a column is read once for all pairs that meet it. The order is the one that's written; compilers take another
 * one, for which there are too few registers. */
WITH_AVX512_VNNI INLINE void sum_known(const struct int8_depthwise *a, const struct pair_rows *r,
                                       int64_t place, const int16_t *w, __m512i *total,
                                       const int count, const int pairs, const int pair) {
    UNROLLED for (int i = 0; i < count; i++) total[i] = _mm512_setzero_si512();
    for (int64_t ky = 0; ky < a->window.height; ky++, w += 2 * LANES * pairs) {
        const int16_t *x = seen_row(a, r, ky * a->window.dilation_y) + place;
        __m512i held[MOST_PAIRS];
        __asm__("" : "+r"(x));
        UNROLLED for (int p = 0; p < pairs; p++) held[p] = _mm512_loadu_si512(w + 2 * LANES * p);
        UNROLLED for (int c = 0; c < count + (pairs - 1) * pair; c++) {
            __m512i seen = _mm512_loadu_si512(x + 2 * LANES * c);
            IN_A_REGISTER(seen);
            UNROLLED for (int p = 0; p < pairs; p++) {
                const int i = c - p * pair;
                if (i >= 0 && i < count) {
                    total[i] = _mm512_dpwssd_epi32(total[i], seen, held[p]);
                    IN_A_REGISTER(total[i]);
                }
            }
        }
    }
}

/* The same for any kernel, whose outputs see columns so far apart. */
WITH_AVX512_VNNI INLINE void sum_any(const struct int8_depthwise *a, const struct pair_rows *r,
                                     int64_t place, const int16_t *w, __m512i *total,
                                     const int64_t apart, const int count) {
    UNROLLED for (int i = 0; i < count; i++) total[i] = _mm512_setzero_si512();
    for (int64_t ky = 0; ky < a->window.height; ky++) {
        const int16_t *x = seen_row(a, r, ky * a->window.dilation_y) + place;
        for (int64_t p = 0; p < a->pairs; p++, w += 2 * LANES, x += 2 * LANES * a->pair) {
            const __m512i held = _mm512_loadu_si512(w);
            UNROLLED for (int i = 0; i < count; i++) total[i] =
                _mm512_dpwssd_epi32(total[i], _mm512_loadu_si512(x + 2 * LANES * apart * i), held);
        }
    }
}

WITH_AVX512_VNNI INLINE void sum_some(const struct int8_depthwise *a, const struct pair_rows *r,
                                      int64_t ox, const int16_t *w, __m512i *total,
                                      const int count) {
    const int64_t place = 2 * LANES * a->apart * ox;
    if (a->apart != 1 || count == 1)
        sum_any(a, r, place, w, total, a->apart, count);
    else if (a->pairs == 2 && a->pair == 2)
        sum_known(a, r, place, w, total, count, 2, 2);
    else if (a->pairs == 2 && a->pair == 1)
        sum_known(a, r, place, w, total, count, 2, 1);
    else if (a->pairs == 3 && a->pair == 2)
        sum_known(a, r, place, w, total, count, 3, 2);
    else if (a->pairs == 3 && a->pair == 1)
        sum_known(a, r, place, w, total, count, 3, 1);
    else
        sum_any(a, r, place, w, total, 1, count);
}

/* Neighbours' results with AVX-512, from sums that stay in registers. Results of which there is no `room` for
 * aren't stored. */
WITH_AVX512_VNNI INLINE void finish_some(const struct int8_depthwise *a, const struct pair_rows *r,
                                         int64_t ox, const int16_t *weights,
                                         const struct whole_stages_avx512 *w,
                                         const struct whole_channels_avx512 *channels, int8_t *q,
                                         int64_t room, const int count) {
    const int filled = (count + 3) / 4 * 4;
    int8_t held[PAIRED_TOGETHER * LANES], *target = filled <= room ? q : held;
    __m512i sums[PAIRED_TOGETHER];
    sum_some(a, r, ox, weights, sums, count);
    UNROLLED for (int i = count; i < filled; i++) sums[i] = sums[0];
    UNROLLED for (int i = 0; i < count; i += 4)
        run_four_avx512(w, channels, sums + i, NULL, target + i * LANES, 1, NOTHING);
    if (target == held)
        memcpy(q, held, least(count, room) * LANES);
}

/* A row's results from `q` on; what lies up to `room` may be overwritten. */
WITH_AVX512_VNNI INLINE void finish_row(const struct int8_depthwise *a, const struct pair_rows *r,
                                        const int16_t *weights, const struct whole_stages_avx512 *w,
                                        const struct whole_channels_avx512 *channels, int8_t *q,
                                        int64_t room) {
    const int64_t width = a->window.out_width;
    for (int64_t ox = 0, taken; ox < width; ox += taken, q += taken * LANES, room -= taken) {
        taken = part_of_row(width - ox);
        if (taken == PAIRED_TOGETHER)
            finish_some(a, r, ox, weights, w, channels, q, room, PAIRED_TOGETHER);
        else if (taken == 7)
            finish_some(a, r, ox, weights, w, channels, q, room, 7);
        else if (taken == 4)
            finish_some(a, r, ox, weights, w, channels, q, room, 4);
        else
            finish_some(a, r, ox, weights, w, channels, q, room, 1);
    }
}

/* What `convolve_rows` does, for results that lie one after another from `q` on: a row's last ones may overwrite
 * the next row's first, which come later. */
WITH_AVX512_VNNI static void convolve_rows_fused(const struct int8_depthwise *a, int64_t s,
                                                 int64_t oy, int64_t below, int16_t *pairs,
                                                 int8_t *q) {
    const int16_t *weights = a->weights + s * a->window.height * a->pairs * LANES * 2;
    const int64_t width = a->window.out_width;
    const struct whole_stages_avx512 w = read_stages_avx512(&a->dpu, NOTHING);
    const struct whole_channels_avx512 channels =
        read_whole_avx512(&a->dpu, s * LANES, LANES, NOTHING);
    struct pair_rows r = no_rows(a, oy, pairs);
    for (; oy < below; oy++, q += width * LANES) {
        see_rows(a, s, oy, &r);
        finish_row(a, &r, weights, &w, &channels, q, (below - oy) * width);
    }
}

/* Where they lie, if there is such a way for a surface; else NULL. */
INLINE int8_t *fused_rows(const struct int8_depthwise *a, int64_t s, int64_t oy) {
    const struct writer *w = &a->writer;
    if (running_form != AVX512_VNNI || w->lanes != LANES || !a->dpu.short_way.is_whole ||
        a->dpu.short_way.follow != NOTHING || a->truncate || w->channels < (s + 1) * LANES)
        return NULL;
    return atoms_in_a_row(surface_of_writer(w, s), w->line, w->pixel, w->width,
                          oy * a->window.out_width, LANES);
}
#endif

#endif
