/* What VeriSilicon's NN core and tensor processor do, on bytes in planes.
 *
 * Plain C11, with other forms of the hottest loops for AVX2 and, in vip_dots.h, for products of bytes.
 * Sums are int32 and scaled in double: the caller has proved that no sum leaves int32, so that products
 * with the 24 bits of a scale are exact and results are those of the reference, bit for bit. Rounding
 * is half away from zero.
 *
 * Every kernel has the form that steps.c calls: arguments, a part of the units of work, and a space of
 * the thread's own. Memory is only touched where a row of pixels is, which the caller has found to lie
 * inside, and to be no longer than its circular buffer.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "vip.h"
#include "vip_dots.h"

enum {
    VECTORS = 3, /* of pixels that are computed together */
    BIAS = 128,
    BLOCK = 64,    /* values that get a second operand together */
    LINE_END = 64, /* bytes behind a row that vectors may read or write */
};

INLINE int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

INLINE int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

INLINE int64_t up_to(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* A row's pixels: `count` of them from `first` on, what is left from `rest` on. */
struct row {
    uint8_t *first;
    uint8_t *rest;
    int64_t count;
};

/* A channel's first byte, from the beginning of its memory. */
INLINE int64_t channel_of(const struct planes *p, int64_t channel) {
    if (p->group == 1)
        return p->offset + channel * p->plane;
    return p->offset + channel / p->group * p->plane + channel % p->group;
}

/* A row of the channel that begins there. */
INLINE struct row row_at(const struct planes *p, int64_t address, int64_t y, int64_t width) {
    address += y * p->row * p->group;
    if (!p->size)
        return (struct row){p->base + address, p->base, width};
    if (address >= p->end)
        address -= ((address - p->end) / p->size + 1) * p->size;
    const int64_t room = p->end - address;
    if (room >= width * p->group)
        return (struct row){p->base + address, p->base, width};
    const int64_t before = least((room + p->group - 1) / p->group, width);
    return (struct row){p->base + address, p->base + address + before * p->group - p->size, before};
}

INLINE struct row row_of(const struct planes *p, int64_t channel, int64_t y, int64_t width) {
    return row_at(p, channel_of(p, channel), y, width);
}

/* ------------------------------------------------------------------ the image as 16-bit numbers */

/* Few bytes are quicker without a call. */
INLINE void copy_bytes(uint8_t *to, const uint8_t *from, int64_t count) {
    if (count >= 64) {
        memcpy(to, from, (size_t)count);
    } else if (count >= 16) {
        for (int64_t i = 0; i + 16 <= count; i += 16)
            memcpy(to + i, from + i, 16);
        memcpy(to + count - 16, from + count - 16, 16);
    } else if (count >= 8) {
        memcpy(to, from, 8);
        memcpy(to + count - 8, from + count - 8, 8);
    } else if (count >= 4) {
        memcpy(to, from, 4);
        memcpy(to + count - 4, from + count - 4, 4);
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i];
    }
}

INLINE void copy_part(const uint8_t *from, int64_t step, uint8_t *to, int64_t count) {
    if (step == 1)
        copy_bytes(to, from, count);
    else
        for (int64_t x = 0; x < count; x++)
            to[x] = from[x * step];
}

INLINE uint8_t border_of(const struct convolution *c) {
    return (uint8_t)((c->border + BIAS) ^ c->flip);
}

/* Pixels of a line that are the image's. */
INLINE int64_t inside(const struct convolution *c, int64_t count) {
    return least(c->width, count - c->left);
}

/* What lies beside the image in lines of bytes. */
INLINE void take_borders(const struct convolution *c, uint8_t *to, int64_t count) {
    const int64_t right = c->left + inside(c, count);
    memset(to, border_of(c), (size_t)c->left);
    memset(to + right, border_of(c), (size_t)(count - right));
}

/* The image's bytes of a row, which is there, of the channel that begins at an address. */
INLINE void take_pixels(const struct convolution *c, int64_t address, int64_t y, uint8_t *to,
                        int64_t count) {
    const int64_t there = inside(c, count);
    const struct row from = row_at(&c->source, address, y, there);
    copy_part(from.first, c->source.group, to + c->left, from.count);
    if (from.count < there)
        copy_part(from.rest, c->source.group, to + c->left + from.count, there - from.count);
}

/* Bytes of a row of the image as they lie, in `to`, with `left` and what is missing in the border. */
INLINE void take_row(const struct convolution *c, int64_t channel, int64_t y, uint8_t *to,
                     int64_t count) {
    if (channel >= c->channels || y < 0 || y >= c->height) {
        /* Channels that fill up a pair meet weights of zero. */
        memset(to, border_of(c), (size_t)count);
        return;
    }
    take_borders(c, to, count);
    take_pixels(c, channel_of(&c->source, channel), y, to, count);
}

/* The same as numbers of 16 bits. */
INLINE void widen(const struct convolution *c, int64_t channel, int64_t y, uint8_t *line,
                  int16_t *to, int64_t count) {
    const uint8_t flip = (uint8_t)c->flip ^ BIAS;
    take_row(c, channel, y, line, count);
    for (int64_t x = 0; x < count; x++)
        to[x] = (int8_t)(line[x] ^ flip);
}

INLINE int32_t pair(uint8_t a, uint8_t b, uint8_t flip) {
    const uint16_t low = (uint16_t)(int8_t)(a ^ flip), high = (uint16_t)(int8_t)(b ^ flip);
    return (int32_t)((uint32_t)low | (uint32_t)high << 16);
}

/* Pairs of `width` pixels from two channels' rows, those of each phase of the stride together. */
INLINE void pair_narrow(const uint8_t *line, const uint8_t *second, uint8_t flip, int64_t s,
                        int32_t *to, int64_t width) {
    for (int64_t phase = 0; phase < s; phase++)
        for (int64_t x = 0; x < width; x++)
            to[phase * width + x] = pair(line[s * x + phase], second[s * x + phase], flip);
}

#ifdef X86
WITH_AVX2 INLINE void store_pairs(__m128i bytes, __m128i flip, int32_t *to) {
    _mm256_storeu_si256((__m256i *)to, _mm256_cvtepi8_epi16(_mm_xor_si128(bytes, flip)));
}

/* The same; lines have LINE_END bytes more, and what is written past `width` is written again. */
WITH_AVX2 static void pair_wide(const uint8_t *line, const uint8_t *second, uint8_t flip, int64_t s,
                                int32_t *to, int64_t width) {
    const __m128i f = _mm_set1_epi8((char)flip), even = _mm_set1_epi16(255);
    if (s == 1) {
        for (int64_t x = 0; x < width; x += PIXELS)
            store_pairs(_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(line + x)),
                                          _mm_loadl_epi64((const __m128i *)(second + x))),
                        f, to + x);
        return;
    }
    for (int phase = 0; phase < 2; phase++, to += width)
        for (int64_t x = 0; x < width; x += PIXELS) {
            const __m128i a = _mm_loadu_si128((const __m128i *)(line + 2 * x));
            const __m128i b = _mm_loadu_si128((const __m128i *)(second + 2 * x));
            store_pairs(phase ? _mm_or_si128(_mm_srli_epi16(a, 8), _mm_andnot_si128(even, b))
                              : _mm_or_si128(_mm_and_si128(a, even), _mm_slli_epi16(b, 8)),
                        f, to + x);
        }
}
#endif

/* Rows from `y` on as pairs of channels: [pair][row][phase of the stride][pixel]. */
INLINE void pack(const struct convolution *c, int64_t y, int64_t rows, int32_t *packed,
                 uint8_t *lines, int is_wide) {
    const int64_t s = c->stride, width = c->packed_width, count = width * s;
    const uint8_t flip = (uint8_t)c->flip ^ BIAS;
    uint8_t *second = lines + count + LINE_END;
    for (int64_t channel = 0; channel < c->channels; channel += 2) {
        int32_t *to = packed + channel / 2 * c->packed_rows * count;
        for (int64_t r = 0; r < rows; r++, to += count) {
            take_row(c, channel, y + r, lines, count);
            take_row(c, channel + 1, y + r, second, count);
#ifdef X86
            if (is_wide)
                pair_wide(lines, second, flip, s, to, width);
            else
#endif
                pair_narrow(lines, second, flip, s, to, width);
        }
    }
    (void)is_wide;
}

/* ----------------------------------------------------------------------------------- weights */

/* Weights of bytes as pairs of 16-bit numbers, less the zero points of KERNELS kernels. */
INLINE void spread(const uint8_t *bytes, const int16_t *zero_points, int64_t taps, int32_t *pairs) {
    int16_t zero[2 * KERNELS];
    for (int k = 0; k < 2 * KERNELS; k++)
        zero[k] = zero_points[k / 2];
    int16_t *to = (int16_t *)pairs;
    for (int64_t t = 0; t < taps; t++)
        for (int k = 0; k < 2 * KERNELS; k++)
            to[t * 2 * KERNELS + k] = (int16_t)(bytes[t * 2 * KERNELS + k] - zero[k]);
}

/* The same of a depthwise kernel's `count` bytes. */
INLINE void spread_one(const uint8_t *bytes, int16_t zero_point, int64_t count, int32_t *pairs) {
    int16_t *to = (int16_t *)pairs;
    for (int64_t i = 0; i < count; i++)
        to[i] = (int16_t)(bytes[i] - zero_point);
}

/* -------------------------------------------------------------------------------------- sums */

/* Sums of KERNELS kernels for `count` vectors of pixels, each at its place of the packed image. */
INLINE void sum_narrow(const struct convolution *c, const int32_t *packed, const int32_t *weights,
                       const int32_t *bias, const int64_t *places, int64_t count, int32_t *sums,
                       int64_t stride) {
    for (int64_t v = 0; v < count; v++) {
        int32_t total[KERNELS][PIXELS];
        for (int k = 0; k < KERNELS; k++)
            for (int i = 0; i < PIXELS; i++)
                total[k][i] = bias[k];
        for (int64_t t = 0; t < c->tap_count; t++) {
            const int32_t *from = packed + c->taps[t] + places[v];
            for (int k = 0; k < KERNELS; k++) {
                const uint32_t w = (uint32_t)weights[t * KERNELS + k];
                const int32_t low = (int16_t)w, high = (int16_t)(w >> 16);
                for (int i = 0; i < PIXELS; i++)
                    total[k][i] += (int16_t)from[i] * low + (from[i] >> 16) * high;
            }
        }
        for (int k = 0; k < KERNELS; k++)
            memcpy(sums + k * stride + v * PIXELS, total[k], sizeof total[k]);
    }
}

#ifdef X86
#define COUNTS(F) F(1) F(2) F(3)
#define WIDE_SUM(N)                                                                                \
    WITH_AVX2 static void sum_wide_##N(                                                            \
        const int32_t *packed, const int32_t *taps, int64_t tap_count, const int32_t *weights,     \
        const int32_t *bias, const int64_t *places, int32_t *sums, int64_t stride) {               \
        __m256i total[KERNELS][N];                                                                 \
        const int32_t *from[N];                                                                    \
        for (int v = 0; v < N; v++)                                                                \
            from[v] = packed + places[v];                                                          \
        for (int k = 0; k < KERNELS; k++)                                                          \
            for (int v = 0; v < N; v++)                                                            \
                total[k][v] = _mm256_set1_epi32(bias[k]);                                          \
        for (int64_t t = 0; t < tap_count; t++) {                                                  \
            __m256i x[N];                                                                          \
            for (int v = 0; v < N; v++)                                                            \
                x[v] = _mm256_loadu_si256((const __m256i *)(from[v] + taps[t]));                   \
            for (int k = 0; k < KERNELS; k++) {                                                    \
                const __m256i w = _mm256_set1_epi32(weights[t * KERNELS + k]);                     \
                for (int v = 0; v < N; v++)                                                        \
                    total[k][v] = _mm256_add_epi32(total[k][v], _mm256_madd_epi16(x[v], w));       \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; k < KERNELS; k++)                                                          \
            for (int v = 0; v < N; v++)                                                            \
                _mm256_storeu_si256((__m256i *)(sums + k * stride + v * PIXELS), total[k][v]);     \
    }
COUNTS(WIDE_SUM)

WITH_AVX2 static void sum_wide(const struct convolution *c, const int32_t *packed,
                               const int32_t *weights, const int32_t *bias, const int64_t *places,
                               int64_t count, int32_t *sums, int64_t stride) {
    int64_t v = 0;
    for (; v + VECTORS <= count; v += VECTORS)
        sum_wide_3(packed, c->taps, c->tap_count, weights, bias, places + v, sums + v * PIXELS,
                   stride);
    if (count - v == 2)
        sum_wide_2(packed, c->taps, c->tap_count, weights, bias, places + v, sums + v * PIXELS,
                   stride);
    else if (count - v == 1)
        sum_wide_1(packed, c->taps, c->tap_count, weights, bias, places + v, sums + v * PIXELS,
                   stride);
}
#endif

/* One row of a depthwise kernel's sums from widened rows, which lie `pitch` apart. */
INLINE void depthwise_narrow(const struct convolution *c, const int16_t *rows, int64_t pitch,
                             const int32_t *weights, int32_t bias, int32_t *sums, int64_t count) {
    const int64_t pairs = (c->kernel_width + 1) / 2, s = c->stride;
    for (int64_t x = 0; x < count; x++)
        sums[x] = bias;
    for (int64_t ky = 0; ky < c->kernel_height; ky++)
        for (int64_t j = 0; j < pairs; j++) {
            const uint32_t w = (uint32_t)weights[ky * pairs + j];
            const int32_t low = (int16_t)w, high = (int16_t)(w >> 16);
            const int16_t *from = rows + ky * pitch + 2 * j;
            for (int64_t x = 0; x < count; x++)
                sums[x] += from[x * s] * low + from[x * s + 1] * high;
        }
}

#ifdef X86
/* Pairs that lie side by side belong to every second pixel; a row that begins one further on to the
 * others. */
WITH_AVX2 static void depthwise_wide(const struct convolution *c, const int16_t *rows,
                                     int64_t pitch, const int32_t *weights, int32_t bias,
                                     int32_t *sums, int64_t count) {
    const int64_t pairs = (c->kernel_width + 1) / 2, s = c->stride;
    for (int64_t x = 0; x < count; x += 2 * PIXELS / s) {
        __m256i even = _mm256_set1_epi32(bias), odd = even;
        for (int64_t ky = 0; ky < c->kernel_height; ky++) {
            const int16_t *from = rows + ky * pitch + x * s;
            for (int64_t j = 0; j < pairs; j++, from += 2) {
                const __m256i w = _mm256_set1_epi32(weights[ky * pairs + j]);
                const __m256i a = _mm256_loadu_si256((const __m256i *)from);
                even = _mm256_add_epi32(even, _mm256_madd_epi16(a, w));
                if (s == 1) {
                    const __m256i b = _mm256_loadu_si256((const __m256i *)(from + 1));
                    odd = _mm256_add_epi32(odd, _mm256_madd_epi16(b, w));
                }
            }
        }
        if (s == 1) {
            const __m256i low = _mm256_unpacklo_epi32(even, odd),
                          high = _mm256_unpackhi_epi32(even, odd);
            _mm256_storeu_si256((__m256i *)(sums + x), _mm256_permute2x128_si256(low, high, 0x20));
            _mm256_storeu_si256((__m256i *)(sums + x + 8),
                                _mm256_permute2x128_si256(low, high, 0x31));
        } else {
            _mm256_storeu_si256((__m256i *)(sums + x), even);
        }
    }
}
#endif

/* ----------------------------------------------------------------------- from sums to bytes */

INLINE double clamped(double value, double low, double high) {
    value = value < low ? low : value;
    return value > high ? high : value;
}

/* 1.5 * 2^52: a sum with it has whole numbers in its lower 32 bits, rounded, halves to even. */
#define WHOLE 0x1.8p52

INLINE int32_t half_even(double value) {
    return (int32_t)__builtin_rint(value);
}

/* A small float's last bit says that something was cut from it: a sum has at most 20 significant ones. A
 * number of which nothing is left is CUT_TO_NOTHING. */
#define CUT_TO_NOTHING 0x1p-100f

INLINE uint32_t bits_of(float value) {
    union {
        float real;
        uint32_t bits;
    } u = {value};
    return u.bits;
}

/* Not zero where two numbers differ, of which none is the other's opposite. As an integer, since gcc makes no
 * vectors of a choice between truth values. */
INLINE uint32_t difference(float a, float b) {
    return (bits_of(a) ^ bits_of(b)) << 1;
}

/* `what_is_cut` is zero for nothing. */
INLINE float with_cut(float value, uint32_t what_is_cut) {
    union {
        uint32_t bits;
        float real;
    } u = {bits_of(value) | (what_is_cut ? 1 : 0)};
    return u.bits << 1 == 2 ? CUT_TO_NOTHING : u.real;
}

/* The small floats of a chip's fused addition. */
struct adder {
    int bits;
    float least;
    float largest;
};

static const struct adder short_adder = {10, 0x1p-6f, 0x1p9f - 0x1p-1f},
                          long_adder = {16, 0x1p-14f, 0x1p17f - 0x1p1f};

/* A number as an adder takes it. */
INLINE float first_bits(double value, struct adder adder) {
    union {
        double real;
        uint64_t bits;
    } u = {value};
    u.bits &= ~UINT64_C(0) << (53 - adder.bits);
    const float kept = (float)u.real, size = fabsf(kept);
    const float limited = size > adder.largest ? copysignf(adder.largest, kept) : kept;
    const float taken = size < adder.least ? 0 : limited;
    return with_cut(taken, (double)taken != value);
}

INLINE float power_of(float value) {
    union {
        float real;
        uint32_t bits;
    } u = {fabsf(value)};
    const float smallest = 0x1p-60f;
    u.real = u.real < smallest ? smallest : u.real;
    u.bits &= UINT32_C(0xFF) << 23;
    return u.real;
}

/* One by a power of two, which is exact: products are quicker than quotients. */
INLINE float inverse_of(float power) {
    union {
        float real;
        uint32_t bits;
    } u = {power};
    u.bits = (UINT32_C(254) << 23) - u.bits;
    return u.real;
}

/* This many significant bits, toward zero. */
INLINE float cut(float value, int bits) {
    const float unit = power_of(value) * ldexpf(1, 1 - bits);
    return truncf(value * inverse_of(unit)) * unit;
}

/* soft/engines/vip/rounding.py says what is known of this. */
INLINE float small_sum(float a, float b, struct adder adder) {
    const float pa = power_of(a), pb = power_of(b), larger = pa > pb ? pa : pb,
                smaller = pa > pb ? pb : pa, gap = larger * inverse_of(smaller),
                guard = gap < 8 ? gap : 8,
                unit = larger * inverse_of(guard) * ldexpf(1, 1 - adder.bits),
                units = inverse_of(unit);
    const float first = truncf(a * units) * unit, second = truncf(b * units) * unit,
                total = first + second, left = fabsf(total) - unit,
                nearer = copysignf(left > 0 ? left : 0, total);
    const uint32_t first_cut = difference(first, a), second_cut = difference(second, b);
    const uint32_t borrowed = fabsf(a) < fabsf(b) ? first_cut : second_cut;
    /* A product with CUT_TO_NOTHING isn't less. */
    const float sum = (a * b < -0x1p-50f) & (borrowed != 0) ? nearer : total, size = fabsf(sum);
    const float limited =
        size > adder.largest ? copysignf(adder.largest, sum) : cut(sum, adder.bits);
    const float kept = size < adder.least ? 0 : limited;
    return with_cut(kept, first_cut | second_cut | difference(kept, sum));
}

/* Sums of channel k as bytes; `low` and `high` are the byte's own limits, too. */
INLINE void finish_narrow(const struct convolution *c, int64_t k, const int32_t *sums,
                          int64_t count, uint8_t *bytes) {
    const double scale = c->scale[k], zero_point = (double)c->zero_point;
    const double low = clamped(c->low, -zero_point, 255 - zero_point),
                 high = clamped(c->high, -zero_point, 255 - zero_point);
    const int32_t add = (int32_t)c->zero_point;
    if (c->negative) {
        const double negative = c->negative[k];
        for (int64_t i = 0; i < count; i++) {
            const double sum = sums[i], value = sum * scale;
            bytes[i] =
                (uint8_t)(half_even(clamped(value < 0 ? sum * negative : value, low, high)) + add);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(half_even(clamped(sums[i] * scale, low, high)) + add);
}

/* A limit of results. Rounding never changes an order, so limits may be rounded instead of what they limit. */
INLINE int32_t whole_limit(const struct convolution *c, double limit) {
    const double zero_point = (double)c->zero_point;
    return half_even(clamped(limit, -zero_point, 255 - zero_point));
}

#ifdef X86
WITH_AVX2 INLINE __m256d rounded_four(const int32_t *sums, __m256d scale, __m256d negative,
                                      int has_negative) {
    const __m256d sum = _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i *)sums));
    return _mm256_fmadd_pd(sum, has_negative ? _mm256_blendv_pd(scale, negative, sum) : scale,
                           _mm256_set1_pd(WHOLE));
}

WITH_AVX2 INLINE __m256i rounded_eight(const int32_t *sums, __m256d scale, __m256d negative,
                                       int has_negative) {
    const __m256d a = rounded_four(sums, scale, negative, has_negative);
    const __m256d b = rounded_four(sums + 4, scale, negative, has_negative);
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), _MM_SHUFFLE(2, 0, 2, 0)));
}

WITH_AVX2 INLINE void finish_vectors(const struct convolution *c, int64_t k, const int32_t *sums,
                                     int64_t count, uint8_t *bytes, int has_negative) {
    const __m256d scale = _mm256_set1_pd(c->scale[k]),
                  negative = has_negative ? _mm256_set1_pd(c->negative[k]) : scale;
    const int32_t low = whole_limit(c, c->low), high = whole_limit(c, c->high);
    const __m256i least = _mm256_set1_epi16((int16_t)low), most = _mm256_set1_epi16((int16_t)high),
                  add = _mm256_set1_epi16((int16_t)c->zero_point);
    for (int64_t i = 0; i < count; i += 16) {
        const __m256i first = rounded_eight(sums + i, scale, negative, has_negative),
                      second = rounded_eight(sums + i + 8, scale, negative, has_negative);
        const __m256i both = _mm256_packs_epi32(first, second);
        const __m256i limited = _mm256_min_epi16(_mm256_max_epi16(both, least), most);
        const __m256i moved = _mm256_add_epi16(limited, add);
        const __m256i packed = _mm256_packus_epi16(moved, moved);
        /* Two values in turn from both halves. */
        _mm_storeu_si128((__m128i *)(bytes + i),
                         _mm_unpacklo_epi16(_mm256_castsi256_si128(packed),
                                            _mm256_extracti128_si256(packed, 1)));
    }
}

/* The same; up to 15 sums more are read, and as many bytes written. */
WITH_AVX2 static void finish_wide(const struct convolution *c, int64_t k, const int32_t *sums,
                                  int64_t count, uint8_t *bytes) {
    if (c->negative)
        finish_vectors(c, k, sums, count, bytes, 1);
    else
        finish_vectors(c, k, sums, count, bytes, 0);
}
#endif

#ifdef BYTE_DOTS
WITH_AVX512_VNNI INLINE __m512i rounded_eight_512(const int32_t *sums, __m512d scale,
                                                  __m512d negative, int has_negative) {
    const __m512d sum = _mm512_cvtepi32_pd(_mm256_loadu_si256((const __m256i *)sums));
    const __m512d factor =
        has_negative
            ? _mm512_mask_blend_pd(_mm512_movepi64_mask(_mm512_castpd_si512(sum)), scale, negative)
            : scale;
    return _mm512_castpd_si512(_mm512_fmadd_pd(sum, factor, _mm512_set1_pd(WHOLE)));
}

WITH_AVX512_VNNI INLINE void finish_512(const struct convolution *c, int64_t k, const int32_t *sums,
                                        int64_t count, uint8_t *bytes, int has_negative) {
    const __m512d scale = _mm512_set1_pd(c->scale[k]),
                  negative = has_negative ? _mm512_set1_pd(c->negative[k]) : scale;
    const int32_t low = whole_limit(c, c->low), high = whole_limit(c, c->high);
    const __m512i least = _mm512_set1_epi32(low), most = _mm512_set1_epi32(high),
                  add = _mm512_set1_epi32((int32_t)c->zero_point),
                  lower =
                      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    for (int64_t i = 0; i < count; i += 16) {
        const __m512i first = rounded_eight_512(sums + i, scale, negative, has_negative),
                      second = rounded_eight_512(sums + i + 8, scale, negative, has_negative),
                      all = _mm512_permutex2var_epi32(first, lower, second),
                      limited = _mm512_min_epi32(_mm512_max_epi32(all, least), most);
        _mm_storeu_si128((__m128i *)(bytes + i),
                         _mm512_cvtepi32_epi8(_mm512_add_epi32(limited, add)));
    }
}

WITH_AVX512_VNNI static void finish_widest(const struct convolution *c, int64_t k,
                                           const int32_t *sums, int64_t count, uint8_t *bytes) {
    if (c->negative)
        finish_512(c, k, sums, count, bytes, 1);
    else
        finish_512(c, k, sums, count, bytes, 0);
}
#endif

INLINE void finish(const struct convolution *c, int64_t k, const int32_t *sums, int64_t count,
                   uint8_t *bytes, int is_wide) {
#ifdef BYTE_DOTS
    if (is_wide && c->has_small_sums && running_form == AVX512_VNNI) {
        finish_widest(c, k, sums, count, bytes);
        return;
    }
#endif
#ifdef X86
    if (is_wide && c->has_small_sums) {
        finish_wide(c, k, sums, count, bytes);
        return;
    }
#endif
    (void)is_wide;
    finish_narrow(c, k, sums, count, bytes);
}

/* What BLOCK values become with as many of the second operand. */
INLINE void add_second(const struct convolution *c, const double *values, const float *others,
                       float *results) {
    const float constant = (float)c->constant;
    float taken[BLOCK];
    if (c->addition == SHORT_SUM) {
        for (int64_t i = 0; i < BLOCK; i++)
            taken[i] = first_bits(values[i], short_adder);
        for (int64_t i = 0; i < BLOCK; i++)
            taken[i] = small_sum(taken[i], constant, short_adder);
        for (int64_t i = 0; i < BLOCK; i++)
            results[i] = small_sum(taken[i], others[i], short_adder);
    } else {
        for (int64_t i = 0; i < BLOCK; i++)
            taken[i] = first_bits(values[i], long_adder);
        for (int64_t i = 0; i < BLOCK; i++)
            taken[i] = small_sum(taken[i], others[i], long_adder);
        for (int64_t i = 0; i < BLOCK; i++)
            results[i] = small_sum(taken[i], constant, long_adder);
    }
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

/* Up to BLOCK - 1 sums and bytes more are read, and as many bytes written. */
INLINE void finish_second_inline(const struct convolution *c, double scale, const int32_t *sums,
                                 int64_t count, const uint8_t *second, uint8_t *bytes) {
    const double zero_point = (double)c->zero_point, low = c->low, high = c->high;
    const int32_t add = (int32_t)c->zero_point;
    double values[BLOCK];
    float others[BLOCK], results[BLOCK];
    for (int64_t first = 0; first < count; first += BLOCK) {
        for (int64_t i = 0; i < BLOCK; i++)
            values[i] = clamped(sums[first + i] * scale, low, high);
        for (int64_t i = 0; i < BLOCK; i++)
            others[i] = c->operands[second[first + i]];
        if (c->addition == PRODUCT) {
            for (int64_t i = 0; i < BLOCK; i++)
                bytes[first + i] = (uint8_t)(half_even(clamped(values[i] * others[i], -zero_point,
                                                               255 - zero_point)) +
                                             add);
            continue;
        }
        add_second(c, values, others, results);
        round_small(results, add, bytes + first);
    }
}
#ifdef BYTE_DOTS
WITH_AVX512_VNNI static void finish_second_avx512(const struct convolution *c, double scale,
                                                  const int32_t *sums, int64_t count,
                                                  const uint8_t *second, uint8_t *bytes) {
    finish_second_inline(c, scale, sums, count, second, bytes);
}
#endif
IN_EACH_FORM(finish_second,
             (const struct convolution *c, double scale, const int32_t *sums, int64_t count,
              const uint8_t *second, uint8_t *bytes),
             (c, scale, sums, count, second, bytes))

static void finish_with_second(const struct convolution *c, int64_t k, const int32_t *sums,
                               int64_t count, const uint8_t *second, uint8_t *bytes) {
#ifdef BYTE_DOTS
    if (running_form == AVX512_VNNI) {
        finish_second_avx512(c, c->scale[k], sums, count, second, bytes);
        return;
    }
#endif
    finish_second(c, c->scale[k], sums, count, second, bytes);
}

INLINE void store_part(uint8_t *to, int64_t step, uint8_t flip, const uint8_t *bytes,
                       int64_t count) {
    if (step == 1 && !flip)
        copy_bytes(to, bytes, count);
    else
        for (int64_t x = 0; x < count; x++)
            to[x * step] = bytes[x] ^ flip;
}

/* A row of bytes to where it belongs. */
INLINE void store(const struct convolution *c, int64_t k, int64_t y, const uint8_t *bytes) {
    const uint8_t flip = (uint8_t)c->output_flip;
    if (c->shuffles_depth) {
        /* Every second pixel, or fourth or eighth, of a row that isn't cut. */
        const int64_t side = c->shuffles_depth, within = k % (side * side);
        const struct row to =
            row_of(&c->target, k / (side * side), side * y + within / side, side * c->final_width);
        store_part(to.first + within % side, side, flip, bytes, c->final_width);
        return;
    }
    const struct row to = row_of(&c->target, k, y, c->final_width);
    store_part(to.first, c->target.group, flip, bytes, to.count);
    store_part(to.rest, c->target.group, flip, bytes + to.count, c->final_width - to.count);
}

/* The largest byte of each window of a row of windows; `line` is a row of the image, with what lies
 * beside it, where there is nothing larger. */
INLINE void maximum(const struct convolution *c, const uint8_t *rows, int64_t pitch, int64_t first,
                    int64_t count, int64_t y, uint8_t *line, uint8_t *bytes) {
    const int64_t top = y * c->pool_stride - c->pool_top, s = c->pool_stride;
    const int64_t end = (c->final_width - 1) * s + c->pool_size;
    const int64_t inside = least(c->out_width, end - c->pool_left);
    uint8_t *const at = line + c->pool_left;
    memset(line, 0, (size_t)end);
    for (int64_t r = most(top, first); r < least(top + c->pool_size, first + count); r++) {
        const uint8_t *row = rows + (r - first) * pitch;
        for (int64_t x = 0; x < inside; x++)
            at[x] = row[x] > at[x] ? row[x] : at[x];
    }
    memset(bytes, 0, (size_t)c->final_width);
    for (int64_t p = 0; p < c->pool_size; p++) {
        if (s == 1)
            for (int64_t x = 0; x < c->final_width; x++)
                bytes[x] = line[x + p] > bytes[x] ? line[x + p] : bytes[x];
        else if (s == 2)
            for (int64_t x = 0; x < c->final_width; x++)
                bytes[x] = line[2 * x + p] > bytes[x] ? line[2 * x + p] : bytes[x];
        else
            for (int64_t x = 0; x < c->final_width; x++)
                bytes[x] = line[s * x + p] > bytes[x] ? line[s * x + p] : bytes[x];
    }
}

/* How far apart rows of the result lie before they are stored. */
INLINE int64_t result_pitch(const struct convolution *c, int64_t pitch) {
    return c->pool_size ? c->final_width : pitch;
}

/* One kernel's sums of `count` rows from `first` on, `pitch` apart, as the rows y .. y_end of the result
 * in `results`; `space` is for what is before a maximum, or the second operand. */
INLINE void finish_rows(const struct convolution *c, int64_t k, const int32_t *sums, int64_t pitch,
                        int64_t first, int64_t count, int64_t y, int64_t y_end, uint8_t *results,
                        uint8_t *space, int is_wide) {
    if (c->addition) {
        const int64_t address = channel_of(&c->second, k), width = c->final_width;
        for (int64_t r = 0; r < y_end - y; r++) {
            const struct row second = row_at(&c->second, address, y + r, width);
            uint8_t *const to = space + r * pitch;
            copy_part(second.first, c->second.group, to, second.count);
            copy_part(second.rest, c->second.group, to + second.count, width - second.count);
        }
        finish_with_second(c, k, sums, count * pitch, space, results);
        return;
    }
    if (!c->pool_size) {
        finish(c, k, sums, count * pitch, results, is_wide);
        return;
    }
    finish(c, k, sums, count * pitch, space, is_wide);
    uint8_t *line = space + up_to(count * pitch, 16);
    for (; y < y_end; y++, results += c->final_width)
        maximum(c, space, pitch, first, count, y, line, results);
}

/* One kernel's sums to where its results belong. */
INLINE void write_rows(const struct convolution *c, int64_t k, const int32_t *sums, int64_t pitch,
                       int64_t first, int64_t count, int64_t y, int64_t y_end, uint8_t *bytes,
                       int is_wide) {
    const int64_t step = result_pitch(c, pitch);
    finish_rows(c, k, sums, pitch, first, count, y, y_end, bytes,
                bytes + (y_end - y) * step + LINE_END, is_wide);
    for (; y < y_end; y++, bytes += step)
        store(c, k, y, bytes);
}

/* ------------------------------------------------------------------------------- the kernels */

/* Rows of sums that the rows y .. y_end of the result come from. */
INLINE void rows_needed(const struct convolution *c, int64_t y, int64_t y_end, int64_t *first,
                        int64_t *count) {
    *first = y;
    int64_t end = y_end;
    if (c->pool_size) {
        *first = most(y * c->pool_stride - c->pool_top, 0);
        end = least((y_end - 1) * c->pool_stride - c->pool_top + c->pool_size, c->out_height);
    }
    *count = end - *first;
}

INLINE void dense(const struct convolution *c, int64_t first_unit, int64_t end_unit, void *scratch,
                  int is_wide) {
    const int64_t s = c->stride, vectors = (c->out_width + PIXELS - 1) / PIXELS;
    const int64_t pitch = vectors * PIXELS, line = c->packed_width * s;
    const int64_t most_rows = (c->packed_rows - c->kernel_height) / s + 1;
    int32_t *packed = scratch;
    int32_t *weights = packed + up_to((c->channels + 1) / 2 * c->packed_rows * line + PIXELS, 16);
    int32_t *sums = weights + c->tap_count * KERNELS;
    int64_t *places = (int64_t *)(sums + up_to(KERNELS * most_rows * pitch + 16, 16));
    uint8_t *lines = (uint8_t *)(places + most_rows * vectors);
    uint8_t *bytes = lines + 2 * (line + LINE_END);
    const int64_t groups = (c->out_channels + KERNELS - 1) / KERNELS;
    const int64_t parts = (groups + c->kernel_blocks - 1) / c->kernel_blocks;
    int64_t packed_block = -1, y = 0, y_end = 0, row = 0, count = 0;
    for (int64_t unit = first_unit; unit < end_unit; unit++) {
        const int64_t block = unit / parts, part = unit % parts;
        if (block != packed_block) {
            packed_block = block;
            y = block * c->rows;
            y_end = least(y + c->rows, c->final_height);
            rows_needed(c, y, y_end, &row, &count);
            pack(c, row * s - c->top, (count - 1) * s + c->kernel_height, packed, lines, is_wide);
            for (int64_t r = 0; r < count; r++)
                for (int64_t v = 0; v < vectors; v++)
                    places[r * vectors + v] = r * s * line + v * PIXELS;
        }
        const int64_t last = least((part + 1) * c->kernel_blocks, groups);
        for (int64_t group = part * c->kernel_blocks; group < last; group++) {
            const int32_t *bias = c->bias + group * KERNELS;
            spread(c->weights + group * c->tap_count * 2 * KERNELS,
                   c->weight_zero_points + group * KERNELS, c->tap_count, weights);
            const int64_t stride = most_rows * pitch;
#ifdef X86
            if (is_wide)
                sum_wide(c, packed, weights, bias, places, count * vectors, sums, stride);
            else
#endif
                sum_narrow(c, packed, weights, bias, places, count * vectors, sums, stride);
            for (int64_t k = 0; k < KERNELS && group * KERNELS + k < c->out_channels; k++)
                write_rows(c, group * KERNELS + k, sums + k * stride, pitch, row, count, y, y_end,
                           bytes, is_wide);
        }
    }
}

INLINE void depthwise(const struct convolution *c, int64_t first_unit, int64_t end_unit,
                      void *scratch, int is_wide) {
    const int64_t s = c->stride, pitch = up_to(c->out_width, 2 * PIXELS), line = c->packed_width;
    const int64_t most_rows = (c->packed_rows - c->kernel_height) / s + 1;
    const int64_t pairs = (c->kernel_width + 1) / 2 * c->kernel_height;
    int32_t weights[MOST_PAIRS];
    int16_t *rows = scratch;
    int32_t *sums = (int32_t *)(rows + up_to(c->packed_rows * line, 32));
    uint8_t *lines = (uint8_t *)(sums + most_rows * pitch + 16);
    uint8_t *bytes = lines + line + LINE_END;
    const int64_t parts = (c->out_channels + c->kernel_blocks - 1) / c->kernel_blocks;
    for (int64_t unit = first_unit; unit < end_unit; unit++) {
        const int64_t block = unit / parts, part = unit % parts;
        const int64_t y = block * c->rows, y_end = least(y + c->rows, c->final_height);
        int64_t row, count;
        rows_needed(c, y, y_end, &row, &count);
        const int64_t last = least((part + 1) * c->kernel_blocks, c->out_channels);
        for (int64_t k = part * c->kernel_blocks; k < last; k++) {
            for (int64_t r = 0; r < (count - 1) * s + c->kernel_height; r++)
                widen(c, k, row * s - c->top + r, lines, rows + r * line, line);
            spread_one(c->weights + k * pairs * 2, c->weight_zero_points[k], 2 * pairs, weights);
            for (int64_t r = 0; r < count; r++) {
                const int16_t *from = rows + r * s * line;
#ifdef X86
                if (is_wide)
                    depthwise_wide(c, from, line, weights, c->bias[k], sums + r * pitch,
                                   c->out_width);
                else
#endif
                    depthwise_narrow(c, from, line, weights, c->bias[k], sums + r * pitch,
                                     c->out_width);
            }
            write_rows(c, k, sums, pitch, row, count, y, y_end, bytes, is_wide);
        }
    }
}

#ifdef BYTE_DOTS
/* ------------------------------------------------------------------- the kernels, four bytes at a time */

/* Whether four channels from `channel` on lie side by side in `width` pixels of a row, which isn't cut. */
INLINE int are_beside(const struct planes *p, int64_t channel, int64_t channels, int64_t y,
                      int64_t width) {
    if (channel % p->group + QUAD > p->group || channel + QUAD > channels)
        return 0;
    if (!p->size)
        return 1;
    const struct row first = row_of(p, channel, y, width),
                     last = row_of(p, channel + QUAD - 1, y, width);
    return first.count == width && last.count == width && last.first == first.first + QUAD - 1;
}

/* A row's quads where channels lie side by side. */
INLINE void take_quads(const struct convolution *c, int64_t channel, int64_t y, int32_t *to,
                       int64_t count) {
    const int64_t step = c->source.group, there = inside(c, count);
    const uint8_t *from = row_of(&c->source, channel, y, there).first;
    const int32_t border = (int32_t)(0x01010101u * border_of(c));
    for (int64_t x = 0; x < c->left; x++)
        to[x] = border;
    for (int64_t x = 0; x < there; x++)
        memcpy(to + c->left + x, from + x * step, sizeof *to);
    for (int64_t x = c->left + there; x < count; x++)
        to[x] = border;
}

/* A thread's space for rows of four channels. */
struct four_rows {
    uint8_t *lines[QUAD];
    int32_t *quads;
};

INLINE uint8_t *divide_rows(struct four_rows *four, uint8_t *space, int64_t count) {
    four->quads = (int32_t *)space;
    space += 4 * up_to(count + LINE_END, 16);
    for (int i = 0; i < QUAD; i++, space += up_to(count + LINE_END, 16))
        four->lines[i] = space;
    return space;
}

INLINE int has_quads(const struct convolution *c, int64_t channel, int64_t y, int64_t count) {
    return y >= 0 && y < c->height &&
           are_beside(&c->source, channel, c->channels, y, inside(c, count));
}

/* Rows from `y` on in quads of channels: [quad][row][phase of the stride][pixel]. */
WITH_AVX2 static void pack_quads(const struct convolution *c, int64_t y, int64_t rows,
                                 int32_t *packed, struct four_rows *four) {
    const int64_t s = c->stride, width = c->packed_width, count = width * s;
    const uint8_t flip = (uint8_t)c->flip;
    for (int64_t channel = 0; channel < c->channels; channel += QUAD) {
        int32_t *to = packed + channel / QUAD * c->packed_rows * count;
        for (int64_t r = 0; r < rows; r++, to += count) {
            int32_t *const quads = s == 1 ? to : four->quads;
            if (has_quads(c, channel, y + r, count)) {
                take_quads(c, channel, y + r, quads, count);
                if (flip)
                    for (int64_t x = 0; x < count; x++)
                        quads[x] ^= (int32_t)(0x01010101u * flip);
            } else {
                for (int i = 0; i < QUAD; i++)
                    if (channel + i < up_to(c->channels, 2))
                        take_row(c, channel + i, y + r, four->lines[i], count);
                    else
                        /* Weights only have what fills up pairs: zeros for both. */
                        memset(four->lines[i], flip, (size_t)count);
                interleave((const uint8_t *const *)four->lines, flip, count, quads);
            }
            if (s == 2)
                for (int64_t x = 0; x < width; x++) {
                    to[x] = quads[2 * x];
                    to[width + x] = quads[2 * x + 1];
                }
        }
    }
}

/* Rows of results of `count` kernels, `size` bytes apart, to where they belong. */
WITH_AVX2 INLINE void store_rows(const struct convolution *c, int64_t k, int64_t count, int64_t y,
                                 int64_t y_end, const uint8_t *results, int64_t size, int64_t step,
                                 int32_t *quads) {
    const int64_t group = c->target.group, width = c->final_width;
    const uint8_t flip = (uint8_t)c->output_flip;
    if (!c->shuffles_depth && group == 1) {
        for (int64_t i = 0; i < count; i++)
            for (int64_t r = 0; r < y_end - y; r++) {
                const uint8_t *bytes = results + i * size + r * step;
                const struct row to =
                    row_at(&c->target, channel_of(&c->target, k + i), y + r, width);
                store_part(to.first, 1, flip, bytes, to.count);
                store_part(to.rest, 1, flip, bytes + to.count, width - to.count);
            }
        return;
    }
    for (; y < y_end; y++, results += step) {
        if (!c->shuffles_depth && count == QUAD &&
            are_beside(&c->target, k, c->out_channels, y, width)) {
            const uint8_t *const rows[] = {results, results + size, results + 2 * size,
                                           results + 3 * size};
            uint8_t *to = row_of(&c->target, k, y, width).first;
            interleave(rows, flip, width, quads);
            for (int64_t x = 0; x < width; x++)
                memcpy(to + x * group, quads + x, sizeof *quads);
            continue;
        }
        for (int64_t i = 0; i < count; i++)
            store(c, k + i, y, results + i * size);
    }
}

WITH_AVX2 INLINE void dense_dots(const struct convolution *c, int64_t first_unit, int64_t end_unit,
                                 void *scratch) {
    const int64_t s = c->stride, vectors = (c->out_width + PIXELS - 1) / PIXELS;
    const int64_t pitch = vectors * PIXELS, line = c->packed_width * s;
    const int64_t most_rows = (c->packed_rows - c->kernel_height) / s + 1;
    const int64_t quads = (c->channels + QUAD - 1) / QUAD;
    const int64_t step = result_pitch(c, pitch), size = most(most_rows, c->rows) * step + LINE_END;
    const int64_t together = running_form == AVX512_VNNI ? 2 : 1;
    int32_t *packed = scratch;
    struct quads q = {.packed = packed,
                      .taps = c->taps,
                      .tap_count = quads * c->kernel_height * c->kernel_width,
                      .stride = most_rows * pitch + 2 * PIXELS};
    q.weights = packed + up_to(quads * c->packed_rows * line + 2 * PIXELS, 16);
    int32_t *sums = q.weights + q.tap_count * MANY;
    int32_t *windows = sums + MANY * q.stride;
    int64_t *places = (int64_t *)(windows + q.stride);
    struct four_rows four;
    uint8_t *results = divide_rows(&four, (uint8_t *)(places + most_rows * vectors + 1),
                                   most(line, c->final_width));
    uint8_t *space = results + QUAD * size;
    const int64_t groups = (c->out_channels + KERNELS - 1) / KERNELS;
    const int64_t parts = (groups + c->kernel_blocks - 1) / c->kernel_blocks;
    int64_t packed_block = -1, y = 0, y_end = 0, row = 0, count = 0;
    int has_offsets = 0;
    for (int64_t k = 0; k < c->out_channels; k++)
        has_offsets |= c->weight_zero_points[k] != BIAS;
    for (int64_t unit = first_unit; unit < end_unit; unit++) {
        const int64_t block = unit / parts, part = unit % parts;
        if (block != packed_block) {
            packed_block = block;
            y = block * c->rows;
            y_end = least(y + c->rows, c->final_height);
            rows_needed(c, y, y_end, &row, &count);
            pack_quads(c, row * s - c->top, (count - 1) * s + c->kernel_height, packed, &four);
            for (int64_t r = 0; r < count; r++)
                for (int64_t v = 0; v < vectors; v++)
                    places[r * vectors + v] = r * s * line + v * PIXELS;
            places[count * vectors] = 0;
            if (has_offsets)
                sum_windows(&q, places, count * vectors, windows);
            q.windows = has_offsets ? windows : NULL;
        }
        const int64_t last = least((part + 1) * c->kernel_blocks, groups);
        for (int64_t group = part * c->kernel_blocks, blocks; group < last; group += blocks) {
            blocks = least(together, last - group);
            spread_quads(c, group, blocks, &q);
            sum_quads(&q, places, count * vectors, sums, blocks);
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t k = (group + b) * KERNELS,
                              kernels = least(KERNELS, c->out_channels - k);
                for (int64_t i = 0; i < kernels; i++)
                    finish_rows(c, k + i, sums + (b * KERNELS + i) * q.stride, pitch, row, count, y,
                                y_end, results + i * size, space, 1);
                store_rows(c, k, kernels, y, y_end, results, size, step, four.quads);
            }
        }
    }
}

/* Rows of `kernels` channels from `y` on, each pixel with the three that follow it. */
WITH_AVX2 INLINE void expand_rows(const struct convolution *c, int64_t k, int64_t kernels,
                                  int64_t y, int64_t count, int32_t *rows, int64_t pitch,
                                  int64_t channel_size, struct four_rows *four) {
    const int64_t s = c->stride, line = s * (pitch - 1) + QUAD;
    const uint8_t flip = (uint8_t)c->flip;
    const int32_t border = (int32_t)(0x01010101u * (border_of(c) ^ flip));
    const int is_grouped = kernels == QUAD && c->source.group >= QUAD;
    int64_t addresses[QUAD];
    for (int64_t i = 0; i < kernels; i++) {
        addresses[i] = channel_of(&c->source, k + i);
        take_borders(c, four->lines[i], line);
    }
    for (int64_t r = 0; r < count; r++, rows += pitch) {
        if (y + r < 0 || y + r >= c->height) {
            for (int64_t i = 0; i < kernels; i++)
                for (int64_t x = 0; x < pitch; x++)
                    rows[i * channel_size + x] = border;
            continue;
        }
        if (is_grouped && has_quads(c, k, y + r, line)) {
            take_quads(c, k, y + r, four->quads, line);
            separate(four->quads, line, four->lines);
        } else {
            for (int64_t i = 0; i < kernels; i++)
                take_pixels(c, addresses[i], y + r, four->lines[i], line);
        }
        for (int64_t i = 0; i < kernels; i++)
            expand(four->lines[i], flip, s, pitch, rows + i * channel_size);
    }
}

WITH_AVX2 INLINE void depthwise_dots(const struct convolution *c, int64_t first_unit,
                                     int64_t end_unit, void *scratch) {
    const int64_t s = c->stride, quads = (c->kernel_width + QUAD - 1) / QUAD;
    const int64_t pitch = c->out_width + (quads - 1) * QUAD / s, line = s * (pitch - 1) + QUAD;
    const int64_t most_rows = (c->packed_rows - c->kernel_height) / s + 1;
    const int64_t channel_size = c->packed_rows * pitch + LINE_END;
    const int64_t step = result_pitch(c, pitch), size = most(most_rows, c->rows) * step + LINE_END;
    int32_t *rows = scratch;
    int32_t *sums = rows + up_to(QUAD * channel_size, 16);
    struct four_rows four;
    uint8_t *results =
        divide_rows(&four, (uint8_t *)(sums + up_to(most_rows * pitch, 16) + LINE_END),
                    most(line, c->final_width));
    uint8_t *space = results + QUAD * size;
    const int64_t parts = (c->out_channels + c->kernel_blocks - 1) / c->kernel_blocks;
    for (int64_t unit = first_unit; unit < end_unit; unit++) {
        const int64_t block = unit / parts, part = unit % parts;
        const int64_t y = block * c->rows, y_end = least(y + c->rows, c->final_height);
        int64_t row, count;
        rows_needed(c, y, y_end, &row, &count);
        const int64_t last = least((part + 1) * c->kernel_blocks, c->out_channels);
        for (int64_t k = part * c->kernel_blocks, kernels; k < last; k += kernels) {
            kernels = least(QUAD, last - k);
            expand_rows(c, k, kernels, row * s - c->top, (count - 1) * s + c->kernel_height, rows,
                        pitch, channel_size, &four);
            for (int64_t i = 0; i < kernels; i++) {
                int8_t weights[PARTS][QUAD * MOST_PAIRS];
                int32_t bias;
                const int parts = spread_row_quads(c, k + i, &bias, weights);
                const int32_t *from = rows + i * channel_size;
                if (s == 1)
                    /* Rows lie as their sums do: one long row. */
                    sum_rows(c, from, pitch, bias, weights, parts, sums,
                             (count - 1) * pitch + c->out_width);
                else
                    for (int64_t r = 0; r < count; r++)
                        sum_rows(c, from + r * s * pitch, pitch, bias, weights, parts,
                                 sums + r * pitch, c->out_width);
                finish_rows(c, k + i, sums, pitch, row, count, y, y_end, results + i * size, space,
                            1);
            }
            store_rows(c, k, kernels, y, y_end, results, size, step, four.quads);
        }
    }
}

WITH_AVX2 static void convolve_dots(const struct convolution *c, int64_t first, int64_t end,
                                    void *scratch) {
    if (c->is_depthwise)
        depthwise_dots(c, first, end, scratch);
    else
        dense_dots(c, first, end, scratch);
}
#endif

static void convolve_narrow(const struct convolution *c, int64_t first, int64_t end,
                            void *scratch) {
    if (c->is_depthwise)
        depthwise(c, first, end, scratch, 0);
    else
        dense(c, first, end, scratch, 0);
}

#ifdef X86
WITH_AVX2 static void convolve_wide(const struct convolution *c, int64_t first, int64_t end,
                                    void *scratch) {
    if (c->is_depthwise)
        depthwise(c, first, end, scratch, 1);
    else
        dense(c, first, end, scratch, 1);
}
#endif

EXPORT void anynpu_vip_convolution(const void *arguments, int64_t first, int64_t end,
                                   void *scratch) {
#ifdef BYTE_DOTS
    if (has_dots(running_form)) {
        convolve_dots(arguments, first, end, scratch);
        return;
    }
#endif
#ifdef X86
    if (has_avx2(running_form)) {
        convolve_wide(arguments, first, end, scratch);
        return;
    }
#endif
    convolve_narrow(arguments, first, end, scratch);
}

/* Values of one block on either side. */
INLINE void move_run(const struct move *m, const uint8_t *source, const int32_t *origins,
                     uint8_t *target, const int32_t *places, int64_t count) {
    if (m->table)
        for (int64_t i = 0; i < count; i++)
            target[places[i]] = m->table[origins[i] == NOWHERE ? m->border : source[origins[i]]];
    else
        for (int64_t i = 0; i < count; i++)
            memcpy(target + places[i], source + origins[i], (size_t)m->item);
}

EXPORT void anynpu_vip_move(const void *arguments, int64_t first, int64_t end, void *scratch) {
    const struct move *m = arguments;
    const int64_t last = least(end * m->unit, m->count);
    (void)scratch;
    for (int64_t i = first * m->unit, count; i < last; i += count) {
        const struct places *const from = &m->origins, *const to = &m->places;
        const int64_t before = i % from->size, after = i % to->size;
        count = least(last - i, least(from->size - before, to->size - after));
        move_run(m, m->source + from->blocks[i / from->size], from->inside + before,
                 m->target + to->blocks[i / to->size], to->inside + after, count);
    }
}
