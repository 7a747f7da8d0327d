/* Convolutions channel by channel, for vip.c: LANES channels at a time, as pairs of neighbours in a row.
 *
 * Rows of as many channels are laid out with what lies beside the image as pairs of numbers of 16 bits:
 * (rows, columns, lanes, 2). Columns are as far apart as neighbouring results. Weights lie as (blocks of
 * channels, height, pairs, lanes, 2), less their zero points; a pair's second one is zero where the kernel
 * ends. Results are brought back to planes.
 */
#ifndef ANYNPU_VIP_DEPTHWISE_H
#define ANYNPU_VIP_DEPTHWISE_H

enum {
    TOGETHER = 7, /* neighbours in a row whose sums are in registers */
    ATOM = 2 * LANES,
};

/* A unit's rows in a thread's space. */
struct lanes {
    int64_t pairs;   /* of a row of the kernel */
    int64_t apart;   /* columns from one of those to the next */
    int64_t columns; /* of a row */
    int64_t pixels;  /* of a row, with what lies beside the image */
    int64_t inside;  /* of those the image's */
    int64_t line;    /* bytes of a channel's rows one after another */
    int64_t size;    /* bytes of a channel's results */
    int16_t *rows;
    int32_t *sums;
    int32_t *lane; /* sums of one */
    int8_t *image; /* [row][pixel][lane] */
    uint8_t *lines;
    uint8_t *results;
    uint8_t *mixed; /* results of all lanes, pixel by pixel */
    uint8_t *space;
};

INLINE struct lanes lanes_of(const struct convolution *c, void *scratch) {
    const int64_t s = c->stride, most_rows = (c->packed_rows - c->kernel_height) / s + 1;
    struct lanes a = {.pairs = (c->kernel_width + 1) / 2, .apart = 2 / s};
    a.columns = c->packed_width;
    a.pixels = s * (a.columns - 1) + 2;
    a.inside = inside(c, a.pixels);
    a.line = c->packed_rows * a.inside + LINE_END;
    a.size = most(most_rows, c->rows) * most(c->out_width, c->final_width) + LINE_END;
    a.rows = scratch;
    a.sums = (int32_t *)(a.rows + up_to(c->packed_rows * a.columns, 2) * ATOM);
    a.lane = a.sums + most_rows * c->out_width * LANES + LINE_END;
    a.mixed = (uint8_t *)(a.lane + most_rows * c->out_width + LINE_END);
    a.image = (int8_t *)a.mixed + (most_rows * c->out_width + LANES) * LANES;
    a.lines = (uint8_t *)a.image + c->packed_rows * a.pixels * LANES;
    a.results = a.lines + LANES * a.line;
    a.space = a.results + LANES * a.size;
    return a;
}

/* A band of the image: `count` rows from `top` on, of which `first` .. `end` are the image's. */
struct band {
    int64_t top, count, first, end;
};

INLINE struct band band_of(const struct convolution *c, int64_t row, int64_t count) {
    struct band b = {.top = row * c->stride - c->top,
                     .count = (count - 1) * c->stride + c->kernel_height};
    b.first = least(most(-b.top, 0), b.count);
    b.end = most(least(b.count, c->height - b.top), b.first);
    return b;
}

/* What lies beyond the image, which is the same in all channels. */
INLINE void lay_borders(const struct convolution *c, const struct lanes *a, const struct band *b) {
    const int64_t right = c->left + a->inside;
    for (int64_t r = 0; r < b->count; r++) {
        if (r < b->first || r >= b->end) {
            int16_t *const to = a->rows + r * a->columns * ATOM;
            for (int64_t i = 0; i < a->columns * ATOM; i++)
                to[i] = (int16_t)c->border;
            continue;
        }
        int8_t *const to = a->image + r * a->pixels * LANES;
        memset(to, (int)c->border, (size_t)(c->left * LANES));
        memset(to + right * LANES, (int)c->border, (size_t)((a->pixels - right) * LANES));
    }
}

/* A channel's rows of a band, one after another. */
INLINE void take_band(const struct convolution *c, const struct band *b, int64_t channel,
                      int64_t width, uint8_t *to) {
    const int64_t address = channel_of(&c->source, channel), rows = b->end - b->first;
    const int is_one = is_one_row(&c->source, rows, width);
    const int64_t count = is_one ? rows * width : width, group = c->source.group;
    for (int64_t y = 0; y < (is_one ? 1 : rows); y++, to += count) {
        const struct row from = row_at(&c->source, address, b->top + b->first + y, count);
        copy_part(from.first, group, to, from.count);
        if (from.count < count)
            copy_part(from.rest, group, to + from.count, count - from.count);
    }
}

/* `count` pixels from lines to where rows of `width` have them, `pixels` apart. */
INLINE void mix_plain(const struct lanes *a, uint8_t flip, int64_t count, int8_t *to) {
    for (int64_t p = 0, x = 0; p < count; p++, x++, to += LANES) {
        if (x == a->inside) {
            to += (a->pixels - a->inside) * LANES;
            x = 0;
        }
        for (int l = 0; l < LANES; l++)
            to[l] = (int8_t)(a->lines[l * a->line + p] ^ flip);
    }
}

INLINE void pair_plain(const int8_t *image, int64_t step, int64_t columns, int16_t *to) {
    for (int64_t x = 0; x < columns; x++, image += step * LANES, to += ATOM)
        for (int l = 0; l < LANES; l++) {
            to[2 * l] = image[l];
            to[2 * l + 1] = image[l + LANES];
        }
}

#ifdef X86
/* Sixteen bytes of sixteen lanes, the other way round. */
WITH_AVX2 INLINE void transpose_bytes(__m128i v[LANES]) {
    UNROLLED for (int round = 0; round < 4; round++) {
        __m128i next[LANES];
        UNROLLED for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = _mm_unpacklo_epi8(v[i], v[i + LANES / 2]);
            next[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + LANES / 2]);
        }
        UNROLLED for (int i = 0; i < LANES; i++) v[i] = next[i];
    }
}

WITH_AVX2 static void mix_wide(const struct lanes *a, uint8_t flip, int64_t count, int8_t *to) {
    const __m128i f = _mm_set1_epi8((char)flip);
    for (int64_t p = 0, x = 0; p < count; p += LANES) {
        __m128i v[LANES];
        UNROLLED for (int l = 0; l < LANES; l++) v[l] =
            _mm_xor_si128(_mm_loadu_si128((const __m128i *)(a->lines + l * a->line + p)), f);
        transpose_bytes(v);
        for (int i = 0; i < least(LANES, count - p); i++, x++, to += LANES) {
            if (x == a->inside) {
                to += (a->pixels - a->inside) * LANES;
                x = 0;
            }
            _mm_storeu_si128((__m128i *)to, v[i]);
        }
    }
}

WITH_AVX2 static void pair_wide_lanes(const int8_t *image, int64_t step, int64_t columns,
                                      int16_t *to) {
    for (int64_t x = 0; x < columns; x++, image += step * LANES, to += ATOM) {
        const __m128i first = _mm_loadu_si128((const __m128i *)image),
                      second = _mm_loadu_si128((const __m128i *)(image + LANES));
        _mm256_storeu_si256((__m256i *)to, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(first, second)));
        _mm256_storeu_si256((__m256i *)(to + LANES),
                            _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(first, second)));
    }
}

/* Results of all lanes, pixel by pixel, as those of each. */
WITH_AVX2 static void divide_lanes(const struct lanes *a, int64_t count) {
    for (int64_t p = 0; p < count; p += LANES) {
        __m128i v[LANES];
        UNROLLED for (int i = 0; i < LANES; i++) v[i] =
            _mm_loadu_si128((const __m128i *)(a->mixed + (p + i) * LANES));
        transpose_bytes(v);
        UNROLLED for (int l = 0; l < LANES; l++)
            _mm_storeu_si128((__m128i *)(a->results + l * a->size + p), v[l]);
    }
}
#endif

INLINE void flip_lanes(const uint8_t *from, uint8_t flip, int8_t *to) {
    for (int i = 0; i < LANES; i += 8) {
        uint64_t lanes;
        memcpy(&lanes, from + i, sizeof lanes);
        lanes ^= flip * UINT64_C(0x0101010101010101);
        memcpy(to + i, &lanes, sizeof lanes);
    }
}

/* Rows of LANES channels where they lie side by side in memory; 0 where they don't. */
INLINE int take_mixed(const struct convolution *c, const struct lanes *a, const struct band *b,
                      int64_t k, int64_t lanes, uint8_t flip) {
    const struct planes *p = &c->source;
    if (lanes < LANES || k % p->group + LANES > p->group)
        return 0;
    for (int64_t r = b->first; r < b->end; r++)
        if (!are_beside(p, k, LANES, b->top + r, a->inside))
            return 0;
    for (int64_t r = b->first; r < b->end; r++) {
        const uint8_t *from = row_of(p, k, b->top + r, a->inside).first;
        int8_t *to = a->image + (r * a->pixels + c->left) * LANES;
        for (int64_t x = 0; x < a->inside; x++, from += p->group, to += LANES)
            flip_lanes(from, flip, to);
    }
    return 1;
}

/* A band's pairs of the channels from `k` on. */
INLINE void lay_lanes(const struct convolution *c, const struct lanes *a, const struct band *b,
                      int64_t k, int64_t lanes, int is_wide) {
    const uint8_t flip = (uint8_t)c->flip ^ BIAS;
    if (b->first == b->end)
        return;
    if (!take_mixed(c, a, b, k, lanes, flip)) {
        int8_t *const to = a->image + (b->first * a->pixels + c->left) * LANES;
        const int64_t count = (b->end - b->first) * a->inside;
        for (int64_t l = 0; l < lanes; l++)
            take_band(c, b, k + l, a->inside, a->lines + l * a->line);
#ifdef X86
        if (is_wide)
            mix_wide(a, flip, count, to);
        else
#endif
            mix_plain(a, flip, count, to);
    }
    for (int64_t r = b->first; r < b->end; r++) {
        const int8_t *image = a->image + r * a->pixels * LANES;
        int16_t *to = a->rows + r * a->columns * ATOM;
#ifdef X86
        if (is_wide)
            pair_wide_lanes(image, c->stride, a->columns, to);
        else
#endif
            pair_plain(image, c->stride, a->columns, to);
    }
    (void)is_wide;
}

/* -------------------------------------------------------------------------------------- sums */

/* (count, lanes) sums of neighbours in a row of results. */
INLINE void sum_lanes_plain(const struct convolution *c, const struct lanes *a, const int16_t *seen,
                            const int16_t *weights, const int32_t *bias, int64_t count,
                            int32_t *sums) {
    for (int64_t i = 0; i < count; i++, seen += ATOM, sums += LANES) {
        const int16_t *w = weights;
        memcpy(sums, bias, LANES * sizeof *sums);
        for (int64_t y = 0; y < c->kernel_height; y++)
            for (int64_t p = 0; p < a->pairs; p++, w += ATOM) {
                const int16_t *x = seen + (y * a->columns + p * a->apart) * ATOM;
                for (int l = 0; l < LANES; l++)
                    sums[l] += x[2 * l] * w[2 * l] + x[2 * l + 1] * w[2 * l + 1];
            }
    }
}

/* The same in vectors. ADD adds a pair's products to each of the sums in a vector. */
#define SUM_LANES(form, keyword, vector, LOAD, STORE, ADD)                                         \
    keyword INLINE void sum_some_lanes_##form(                                                     \
        const struct convolution *c, const struct lanes *a, const int16_t *seen,                   \
        const int16_t *weights, const int32_t *bias, int32_t *sums, const int count) {             \
        enum { HELD = sizeof(vector) / sizeof(int32_t) };                                          \
        for (int first = 0; first < LANES; first += HELD) {                                        \
            const int16_t *w = weights + 2 * first, *row = seen + 2 * first;                       \
            const vector start = LOAD((const vector *)(bias + first));                             \
            vector total[TOGETHER];                                                                \
            UNROLLED for (int i = 0; i < count; i++) total[i] = start;                             \
            for (int64_t y = 0; y < c->kernel_height; y++, row += ATOM * a->columns) {             \
                const int16_t *x = row;                                                            \
                for (int64_t p = 0; p < a->pairs; p++, w += ATOM, x += ATOM * a->apart) {          \
                    const vector held = LOAD((const vector *)w);                                   \
                    UNROLLED for (int i = 0; i < count; i++) total[i] =                            \
                        ADD(total[i], LOAD((const vector *)(x + ATOM * i)), held);                 \
                }                                                                                  \
            }                                                                                      \
            UNROLLED for (int i = 0; i < count; i++)                                               \
                STORE((vector *)(sums + i * LANES + first), total[i]);                             \
        }                                                                                          \
    }                                                                                              \
    keyword static void sum_lanes_##form(const struct convolution *c, const struct lanes *a,       \
                                         const int16_t *seen, const int16_t *weights,              \
                                         const int32_t *bias, int64_t count, int32_t *sums) {      \
        int64_t i = 0;                                                                             \
        for (; i + TOGETHER <= count; i += TOGETHER)                                               \
            sum_some_lanes_##form(c, a, seen + ATOM * i, weights, bias, sums + i * LANES,          \
                                  TOGETHER);                                                       \
        if (i < count && count >= TOGETHER) {                                                      \
            /* The last ones overlap with those before. */                                         \
            i = count - TOGETHER;                                                                  \
            sum_some_lanes_##form(c, a, seen + ATOM * i, weights, bias, sums + i * LANES,          \
                                  TOGETHER);                                                       \
            return;                                                                                \
        }                                                                                          \
        for (; i < count; i++)                                                                     \
            sum_some_lanes_##form(c, a, seen + ATOM * i, weights, bias, sums + i * LANES, 1);      \
    }

#ifdef X86
#define MULTIPLY_AND_ADD(sums, x, w) _mm256_add_epi32(sums, _mm256_madd_epi16(x, w))
SUM_LANES(avx2, WITH_AVX2, __m256i, _mm256_loadu_si256, _mm256_storeu_si256, MULTIPLY_AND_ADD)
#ifdef BYTE_DOTS
SUM_LANES(avx_vnni, WITH_AVX_VNNI, __m256i, _mm256_loadu_si256, _mm256_storeu_si256,
          _mm256_dpwssd_avx_epi32)
SUM_LANES(avx512_vnni, WITH_AVX512_VNNI, __m512i, _mm512_loadu_si512, _mm512_storeu_si512,
          _mm512_dpwssd_epi32)
#endif
#endif

/* In the form that runs. */
INLINE void sum_lanes(const struct convolution *c, const struct lanes *a, const int16_t *seen,
                      const int16_t *weights, const int32_t *bias, int64_t count, int32_t *sums,
                      int is_wide) {
#ifdef BYTE_DOTS
    if (is_wide && running_form == AVX512_VNNI) {
        sum_lanes_avx512_vnni(c, a, seen, weights, bias, count, sums);
        return;
    }
    if (is_wide && running_form == AVX_VNNI) {
        sum_lanes_avx_vnni(c, a, seen, weights, bias, count, sums);
        return;
    }
#endif
#ifdef X86
    if (is_wide) {
        sum_lanes_avx2(c, a, seen, weights, bias, count, sums);
        return;
    }
#endif
    (void)is_wide;
    sum_lanes_plain(c, a, seen, weights, bias, count, sums);
}

/* -------------------------------------------------------------------------------- the kernel */

#ifdef X86
/* `count` channels that lie side by side in both. */
INLINE void copy_pixels(const uint8_t *from, uint8_t *to, int64_t step, int64_t pixels,
                        const int64_t count) {
    for (int64_t x = 0; x < pixels; x++, from += LANES, to += step)
        copy_bytes(to, from, count);
}

/* A row of some channels from `k` on, of results as they are mixed. */
WITH_AVX2 static void store_pixels(const struct convolution *c, int64_t k, int64_t count, int64_t y,
                                   const uint8_t *from) {
    uint8_t *to = row_of(&c->target, k, y, c->final_width).first;
    const int64_t step = c->target.group, pixels = c->final_width;
    if (count == 16)
        copy_pixels(from, to, step, pixels, 16);
    else if (count == 9)
        copy_pixels(from, to, step, pixels, 9);
    else
        copy_pixels(from, to, step, pixels, count);
}

/* How many of `lanes` channels from `k` on are in one group of the target's. */
INLINE int64_t lanes_beside(const struct convolution *c, int64_t k, int64_t lanes) {
    return least(lanes, c->target.group - k % c->target.group);
}

/* Whether results of `lanes` channels from `k` on are stored as they are mixed. */
INLINE int stays_mixed(const struct convolution *c, int64_t k, int64_t lanes, int64_t y,
                       int64_t y_end) {
    if (c->target.group < QUAD || c->output_flip || shuffles_depth(c))
        return 0;
    for (int64_t l = 0, count; l < lanes; l += count) {
        count = lanes_beside(c, k + l, lanes - l);
        for (int64_t at = y; at < y_end; at++)
            if (!are_beside(&c->target, k + l, count, at, c->final_width))
                return 0;
    }
    return 1;
}

INLINE void store_mixed(const struct convolution *c, const struct lanes *a, int64_t k,
                        int64_t lanes, int64_t y, int64_t y_end) {
    const uint8_t *from = a->mixed;
    for (; y < y_end; y++, from += c->final_width * LANES)
        for (int64_t l = 0, count; l < lanes; l += count) {
            count = lanes_beside(c, k + l, lanes - l);
            store_pixels(c, k + l, count, y, from + l);
        }
}
#endif

/* Sums of `lanes` channels from `k` on to results; whether these are stored, too. */
INLINE int finish_lanes(const struct convolution *c, const struct lanes *a, int64_t k,
                        int64_t lanes, int64_t first, int64_t count, int64_t y, int64_t y_end,
                        int is_wide) {
    const int64_t pixels = count * c->out_width;
#ifdef X86
    if (is_wide && (c->program || (c->fits_float && !c->addition && !c->pool_size))) {
        if (c->program)
            finish_program(c->program, a->sums, pixels * LANES, a->mixed);
        else
            finish_fast(c, k, a->sums, pixels * LANES, a->mixed, 1);
        if (stays_mixed(c, k, lanes, y, y_end)) {
            store_mixed(c, a, k, lanes, y, y_end);
            return 1;
        }
        divide_lanes(a, pixels);
        return 0;
    }
#endif
    for (int64_t l = 0; l < lanes; l++) {
        for (int64_t i = 0; i < pixels; i++)
            a->lane[i] = a->sums[i * LANES + l];
        uint8_t *const results = a->results + l * a->size;
        if (c->pool_size) {
            finish_pooled(c, k + l, a->lane, c->out_width, first, count, y, y_end, results,
                          a->space, is_wide);
            continue;
        }
        if (c->addition)
            take_second(c, k + l, y, y_end, c->out_width, a->space);
        finish_part(c, k + l, a->lane, pixels, a->space, results, is_wide);
    }
    return 0;
}

/* `lanes` channels from `k` on of the result's rows `y` .. `y_end`. */
INLINE void convolve_lanes(const struct convolution *c, const struct lanes *a, const struct band *b,
                           int64_t k, int64_t lanes, int64_t row, int64_t count, int64_t y,
                           int64_t y_end, int is_wide) {
    const int16_t *weights =
        (const int16_t *)(const void *)c->weights + k / LANES * c->kernel_height * a->pairs * ATOM;
    lay_lanes(c, a, b, k, lanes, is_wide);
    for (int64_t r = 0; r < count; r++)
        sum_lanes(c, a, a->rows + r * c->stride * a->columns * ATOM, weights, c->bias + k,
                  c->out_width, a->sums + r * c->out_width * LANES, is_wide);
    if (finish_lanes(c, a, k, lanes, row, count, y, y_end, is_wide))
        return;
    store_rows(c, k, lanes, y, y_end, a->results, a->size,
               c->pool_size ? c->final_width : c->out_width, is_wide);
}

INLINE void depthwise(const struct convolution *c, int64_t first_unit, int64_t end_unit,
                      void *scratch, int is_wide) {
    const struct lanes a = lanes_of(c, scratch);
    const int64_t parts = (c->out_channels + c->kernel_blocks - 1) / c->kernel_blocks;
    int64_t laid = -1, y = 0, y_end = 0, row = 0, count = 0;
    struct band b = {0};
    for (int64_t unit = first_unit; unit < end_unit; unit++) {
        const int64_t block = unit / parts, first = unit % parts * c->kernel_blocks;
        if (block != laid) {
            laid = block;
            y = block * c->rows;
            y_end = least(y + c->rows, c->final_height);
            rows_needed(c, y, y_end, &row, &count);
            b = band_of(c, row, count);
            lay_borders(c, &a, &b);
        }
        const int64_t last = least(first + c->kernel_blocks, c->out_channels);
        for (int64_t k = first; k < last; k += LANES)
            convolve_lanes(c, &a, &b, k, least(LANES, last - k), row, count, y, y_end, is_wide);
    }
}

#endif
