/* The NPU's integer arithmetic on channel blocks: what NumPy would do in many passes, in one.
 *
 * Plain C11. Sums of a dense convolution are int32; those of a depthwise one are float, which are exact
 * while they stay below 2^24; stages compute in double, which is exact while values stay below 2^52.
 * Callers prove all of that when a model is loaded, so the results are those of the integers, bit for
 * bit, whatever the order and whether multiplications and additions are fused.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define HAS_WIDE (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define WIDE __attribute__((target("avx2,fma")))
#define PAIRS 1
#else
#define HAS_WIDE 0
#define WIDE
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, BLOCK = 60, ROWS = 6, ENTRIES = 513 };

/* int8 features in channel blocks; where `odd` is set, every second block lies there. */
struct features {
    const int8_t *base;
    const int8_t *odd;
    int64_t surface;
    int64_t line;
    int64_t pixel;
    int64_t surfaces;
    int64_t lanes;
    int64_t height;
    int64_t width;
    int64_t valid; /* channels behind these count as zero */
};

/* What one output pixel sees. */
struct window {
    int64_t height;
    int64_t width;
    int64_t stride_y;
    int64_t stride_x;
    int64_t dilation_y;
    int64_t dilation_x;
    int64_t top;
    int64_t left;
    int64_t out_height;
    int64_t out_width;
    int64_t padding;
};

/* (v + add) * multiply, or v * multiply + add; * positive or negative, rounded; then limits.
 * `add` and `multiply` have an entry a channel. */
struct stage {
    const double *add;
    const double *multiply;
    double positive;
    double negative;
    double lowest;
    double highest;
    int64_t multiply_first;
    int64_t only_negatives;
};

struct table {
    const double *negative;
    const double *positive;
    double negative_start;
    double positive_start;
    double positive_end;
    double negative_step; /* 1 / distance of entries */
    double positive_step;
    double negative_slope;
    double positive_slope;
};

enum operation { NONE, ADD, SUBTRACT, MAXIMUM, MINIMUM, MULTIPLY };

struct dpu {
    struct stage bs;
    struct stage bn;
    struct table table;
    struct features operand;
    double operand_offset;
    double operand_scale; /* with the shift */
    double product;       /* 2^-shift of a product */
    double lowest;        /* after the operation */
    double highest;
    double scale; /* of the output, with the shift */
    double offset;
    int64_t has_bs;
    int64_t has_bn;
    int64_t has_table;
    int64_t operation;
    int64_t has_limits;
    int64_t is_simple; /* BS adds first, BN multiplies first, and nothing follows but the output */
    int64_t is_positive;
};

struct writer {
    int8_t *base;
    int64_t line;
    int64_t pixel;
    int64_t surface;
    int64_t group;
    int64_t group_stride;
    int64_t width;
    int64_t channels;
    int64_t lanes;
    int64_t padding;
};

/* ------------------------------------------------------------------------------------- arithmetic */

/* To the nearest whole number, ties away from zero. */
INLINE double round_away(double v) {
    return __builtin_trunc(v + __builtin_copysign(0.5, v));
}

INLINE double clamp(double v, double lowest, double highest) {
    v = v < lowest ? lowest : v;
    return v > highest ? highest : v;
}

INLINE void run_stage(const struct stage *s, int64_t channel, double *v, int64_t count, const int lanes) {
    const double *a = s->add + channel, *m = s->multiply + channel;
    const double up = s->positive, down = s->negative, lowest = s->lowest, highest = s->highest;
    if (s->only_negatives) {
        for (int64_t i = 0; i < count; i++)
            for (int l = 0; l < lanes; l++) {
                double x = v[i * lanes + l];
                if (!s->multiply_first)
                    x += a[l];
                x = x < 0 ? x * m[l] : x;
                v[i * lanes + l] = s->multiply_first ? x + a[l] : x;
            }
    } else if (s->multiply_first) {
        for (int64_t i = 0; i < count; i++)
            for (int l = 0; l < lanes; l++)
                v[i * lanes + l] = v[i * lanes + l] * m[l] + a[l];
    } else {
        for (int64_t i = 0; i < count; i++)
            for (int l = 0; l < lanes; l++)
                v[i * lanes + l] = (v[i * lanes + l] + a[l]) * m[l];
    }
    const int64_t all = count * lanes;
    if (up == down) {
        if (up == 1)
            for (int64_t i = 0; i < all; i++)
                v[i] = clamp(v[i], lowest, highest);
        else
            for (int64_t i = 0; i < all; i++)
                v[i] = clamp(round_away(v[i] * up), lowest, highest);
    } else {
        for (int64_t i = 0; i < all; i++)
            v[i] = clamp(round_away(v[i] * (v[i] < 0 ? down : up)), lowest, highest);
    }
}

INLINE double between(const double *entries, double place) {
    double index = __builtin_floor(clamp(place, 0, ENTRIES - 2));
    double fraction = clamp(place - index, 0, 1);
    const double *left = entries + (int64_t)index;
    return left[0] + (left[1] - left[0]) * fraction;
}

static void look_up(const struct table *t, double *v, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double x = v[i], y;
        if (x > t->positive_end)
            y = t->positive[ENTRIES - 1] + (x - t->positive_end) * t->positive_slope;
        else if (x < t->negative_start)
            y = t->negative[0] + (x - t->negative_start) * t->negative_slope;
        else if (x < 0)
            y = between(t->negative, (x - t->negative_start) * t->negative_step);
        else
            y = between(t->positive, (x - t->positive_start) * t->positive_step);
        v[i] = nearbyint(y);
    }
}

INLINE const int8_t *surface_of(const struct features *f, int64_t s) {
    if (f->odd)
        return (s & 1 ? f->odd : f->base) + (s >> 1) * f->surface;
    return f->base + s * f->surface;
}

/* The operand's values for `count` pixels from number `first` on, converted. */
INLINE void load_operand(const struct dpu *d, int64_t s, int64_t first, int64_t count, double *e,
                         const int lanes) {
    const struct features *f = &d->operand;
    const int8_t *surface = surface_of(f, s);
    int64_t y = first / f->width, x = first % f->width;
    for (int64_t i = 0; i < count; i++) {
        const int8_t *atom = surface + y * f->line + x * f->pixel;
        for (int l = 0; l < lanes; l++)
            e[i * lanes + l] = round_away((atom[l] + d->operand_offset) * d->operand_scale);
        if (++x == f->width)
            x = 0, y++;
    }
}

INLINE void operate(const struct dpu *d, double *v, const double *e, int64_t count) {
    switch (d->operation) {
    case ADD:
        for (int64_t i = 0; i < count; i++)
            v[i] += e[i];
        break;
    case SUBTRACT:
        for (int64_t i = 0; i < count; i++)
            v[i] -= e[i];
        break;
    case MAXIMUM:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] < e[i] ? e[i] : v[i];
        break;
    case MINIMUM:
        for (int64_t i = 0; i < count; i++)
            v[i] = v[i] > e[i] ? e[i] : v[i];
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            v[i] = round_away(v[i] * e[i] * d->product);
    }
}

/* Store `count` atoms of surface `s`; lanes behind the last channel hold the padding. */
INLINE void store(const struct writer *w, int64_t s, int64_t first, int64_t count, const int8_t *q,
                  const int lanes) {
    int8_t *surface = w->base + s / w->group * w->group_stride + s % w->group * w->surface;
    int64_t y = first / w->width, x = first % w->width, rest = w->channels - s * lanes;
    for (int64_t i = 0; i < count; i++) {
        int8_t *atom = surface + y * w->line + x * w->pixel;
        memcpy(atom, q + i * lanes, lanes);
        for (int64_t l = rest; l < lanes; l++)
            atom[l] = (int8_t)w->padding;
        if (++x == w->width)
            x = 0, y++;
    }
}

INLINE void pack(const struct dpu *d, const int32_t *rounded, int64_t count, int8_t *q) {
    const int32_t offset = (int32_t)d->offset;
    for (int64_t i = 0; i < count; i++) {
        int32_t v = rounded[i] + offset;
        v = v < -128 ? -128 : v;
        q[i] = (int8_t)(v > 127 ? 127 : v);
    }
}

/* Both stages and the output in one pass, which is what most convolutions need. */
INLINE void finish_at_once(const struct dpu *d, int64_t s, int64_t count, const int32_t *sums, int8_t *q,
                           const int lanes, const int has_bn) {
    const double *a = d->bs.add + s * lanes, *m = d->bs.multiply + s * lanes;
    const double lowest = d->bs.lowest, highest = d->bs.highest, scale = d->scale;
    const double up = d->bs.positive, down = d->bs.negative;
    const double last_lowest = d->bn.lowest, last_highest = d->bn.highest;
    const double last_up = d->bn.positive, last_down = d->bn.negative;
    double last_add[LANES], if_positive[LANES], if_negative[LANES];
    for (int l = 0; has_bn && l < lanes; l++) {
        last_add[l] = d->bn.add[s * lanes + l];
        if_negative[l] = d->bn.multiply[s * lanes + l];
        if_positive[l] = d->bn.only_negatives ? 1 : if_negative[l];
    }
    int32_t rounded[BLOCK * LANES];
    for (int64_t i = 0; i < count; i++)
        for (int l = 0; l < lanes; l++) {
            double v = (sums[i * lanes + l] + a[l]) * m[l];
            v = clamp(round_away(v * (v < 0 ? down : up)), lowest, highest);
            if (has_bn) {
                v = v * (v < 0 ? if_negative[l] : if_positive[l]) + last_add[l];
                v = clamp(round_away(v * (v < 0 ? last_down : last_up)), last_lowest, last_highest);
            }
            v = clamp(v * scale, -(1 << 29), 1 << 29);
            rounded[i * lanes + l] = (int32_t)(v + __builtin_copysign(0.5, v));
        }
    pack(d, rounded, count * lanes, q);
}

/* The same for a ReLU and one shift: what is negative becomes zero, so that rounding has one direction.
 * Results fit into 30 bits. */
INLINE void finish_positive(const struct dpu *d, int64_t s, int64_t count, const int32_t *sums, int8_t *q,
                            const int lanes) {
    const double *a = d->bs.add + s * lanes;
    const double highest = d->bs.highest, scale = d->scale;
    double m[LANES];
    for (int l = 0; l < lanes; l++)
        m[l] = d->bs.multiply[s * lanes + l] * d->bs.positive;
    int32_t rounded[BLOCK * LANES];
    for (int64_t i = 0; i < count; i++)
        for (int l = 0; l < lanes; l++) {
            double v = __builtin_floor((sums[i * lanes + l] + a[l]) * m[l] + 0.5);
            rounded[i * lanes + l] = (int32_t)(clamp(v, 0, highest) * scale + 0.5);
        }
    pack(d, rounded, count * lanes, q);
}

INLINE void finish_in_stages(const struct dpu *d, int64_t s, int64_t first, int64_t count,
                             const int32_t *sums, int8_t *q, const int lanes) {
    const int64_t all = count * lanes;
    double v[BLOCK * LANES];
    for (int64_t i = 0; i < all; i++)
        v[i] = sums[i];
    if (d->has_bs)
        run_stage(&d->bs, s * lanes, v, count, lanes);
    if (d->has_bn)
        run_stage(&d->bn, s * lanes, v, count, lanes);
    if (d->has_table)
        look_up(&d->table, v, all);
    if (d->operation != NONE) {
        double e[BLOCK * LANES];
        load_operand(d, s, first, count, e, lanes);
        operate(d, v, e, all);
    }
    if (d->has_limits)
        for (int64_t i = 0; i < all; i++)
            v[i] = clamp(v[i], d->lowest, d->highest);
    for (int64_t i = 0; i < all; i++)
        q[i] = (int8_t)(int32_t)clamp(round_away(v[i] * d->scale) + d->offset, -128, 127);
}

/* Sums of one surface, (count, lanes), through the stages and into memory. */
INLINE void finish(const struct dpu *d, const struct writer *w, int64_t s, int64_t first, int64_t count,
                   const int32_t *sums, const int lanes) {
    int8_t q[BLOCK * LANES];
    if (d->is_positive)
        finish_positive(d, s, count, sums, q, lanes);
    else if (d->is_simple && d->has_bn)
        finish_at_once(d, s, count, sums, q, lanes, 1);
    else if (d->is_simple)
        finish_at_once(d, s, count, sums, q, lanes, 0);
    else
        finish_in_stages(d, s, first, count, sums, q, lanes);
    store(w, s, first, count, q, lanes);
}

/* ------------------------------------------------------------------------------------- operations */

/* One row of int16 a pixel: for each place of the kernel, all channels of the input there; an odd number
 * is filled up with a zero. */
INLINE void gather(const struct features *f, const struct window *k, int64_t first, int64_t count,
                   int64_t depth, int16_t *rows, const int64_t lanes) {
    const int64_t step = f->surfaces * lanes;
    /* Neighbours in a row of a picture, or of one channel block, lie side by side. */
    const int is_packed = step == lanes && f->pixel == lanes && k->dilation_x == 1 && f->valid >= lanes;
    int64_t oy = first / k->out_width, ox = first % k->out_width;
    for (int64_t i = 0; i < count; i++, rows += depth) {
        int16_t *row = rows;
        rows[depth - 1] = 0;
        for (int64_t ky = 0; ky < k->height; ky++) {
            const int64_t y = oy * k->stride_y + ky * k->dilation_y - k->top;
            const int64_t left = ox * k->stride_x - k->left;
            if (is_packed && y >= 0 && y < f->height && left >= 0 && left + k->width <= f->width) {
                const int8_t *pixels = f->base + y * f->line + left * f->pixel;
                for (int64_t c = 0; c < k->width * lanes; c++)
                    row[c] = pixels[c];
                row += k->width * lanes;
                continue;
            }
            for (int64_t kx = 0; kx < k->width; kx++, row += step) {
                const int64_t x = ox * k->stride_x + kx * k->dilation_x - k->left;
                if (y < 0 || y >= f->height || x < 0 || x >= f->width) {
                    for (int64_t c = 0; c < step; c++)
                        row[c] = (int16_t)k->padding;
                    continue;
                }
                const int8_t *atom = f->base + y * f->line + x * f->pixel;
                for (int64_t s = 0; s < f->surfaces; s++)
                    for (int64_t l = 0; l < lanes; l++)
                        row[s * lanes + l] = atom[s * f->surface + l];
                for (int64_t c = f->valid; c < step; c++)
                    row[c] = 0;
            }
        }
        if (++ox == k->out_width)
            ox = 0, oy++;
    }
}

/* (count, lanes) sums of products: rows of int16 times one surface's weights, which lie as
 * (depth / 2, lanes, 2). */
INLINE void multiply(const int16_t *rows, int64_t depth, const int16_t *weights, int32_t *sums,
                     const int lanes, const int count) {
    int32_t total[ROWS * LANES] = {0};
    for (int64_t p = 0; p < depth; p += 2, weights += 2 * lanes)
        for (int r = 0; r < count; r++) {
            const int32_t even = rows[r * depth + p], odd = rows[r * depth + p + 1];
            for (int l = 0; l < lanes; l++)
                total[r * lanes + l] += even * weights[2 * l] + odd * weights[2 * l + 1];
        }
    memcpy(sums, total, count * lanes * sizeof *sums);
}

#ifdef PAIRS
/* The same with two products an instruction and all sums in registers. */
WIDE INLINE void multiply_pairs(const int16_t *rows, int64_t depth, const int16_t *weights, int32_t *sums,
                                const int lanes, const int count) {
    const int vectors = lanes / 8;
    __m256i total[ROWS * LANES / 8];
    for (int i = 0; i < count * vectors; i++)
        total[i] = _mm256_setzero_si256();
    for (int64_t p = 0; p < depth; p += 2, weights += 2 * lanes) {
        __m256i factor[LANES / 8];
        for (int v = 0; v < vectors; v++)
            factor[v] = _mm256_loadu_si256((const __m256i *)(weights + 16 * v));
#pragma GCC unroll 12
        for (int r = 0; r < count; r++) {
            int32_t pair;
            memcpy(&pair, rows + r * depth + p, sizeof pair);
            const __m256i both = _mm256_set1_epi32(pair);
            for (int v = 0; v < vectors; v++)
                total[r * vectors + v] = _mm256_add_epi32(total[r * vectors + v],
                                                          _mm256_madd_epi16(both, factor[v]));
        }
    }
    for (int i = 0; i < count * vectors; i++)
        _mm256_storeu_si256((__m256i *)(sums + 8 * i), total[i]);
}

WIDE static void multiply_wide(const int16_t *rows, int64_t depth, const int16_t *weights, int32_t *sums,
                               int lanes) {
    if (lanes == 16)
        multiply_pairs(rows, depth, weights, sums, 16, ROWS);
    else
        multiply_pairs(rows, depth, weights, sums, 8, 2 * ROWS);
}
#endif

/* A dense convolution for `count` output pixels from number `first` on, `tile` (a multiple of BLOCK)
 * at a time, in `rows`. */
INLINE void dense(const struct dpu *d, const struct writer *w, const struct features *f,
                  const struct window *k, const int16_t *weights, int64_t depth, int64_t first,
                  int64_t count, int64_t tile, int16_t *rows, const int lanes, const int wide) {
    const int64_t surfaces = (w->channels + lanes - 1) / lanes;
    const int step = ROWS * LANES / lanes; /* rows whose sums fit into registers */
    int32_t sums[BLOCK * LANES];
    for (int64_t done = 0; done < count; done += tile) {
        const int64_t pixels = count - done < tile ? count - done : tile;
        if (f->lanes == lanes)
            gather(f, k, first + done, pixels, depth, rows, lanes);
        else
            gather(f, k, first + done, pixels, depth, rows, f->lanes);
        for (int64_t s = 0; s < surfaces; s++) {
            const int16_t *matrix = weights + s * depth * lanes;
            for (int64_t block = 0; block < pixels; block += BLOCK) {
                const int64_t n = pixels - block < BLOCK ? pixels - block : BLOCK;
                for (int64_t i = 0; i < n; i += step) {
                    const int16_t *some = rows + (block + i) * depth;
#ifdef PAIRS
                    if (wide)
                        multiply_wide(some, depth, matrix, sums + i * lanes, lanes);
                    else
#endif
                        multiply(some, depth, matrix, sums + i * lanes, lanes, step);
                }
                finish(d, w, s, first + done + block, n, sums, lanes);
            }
        }
    }
    (void)wide;
}

INLINE void process(const struct dpu *d, const struct writer *w, const struct features *f,
                    int64_t from, int64_t to, const int lanes) {
    const int64_t pixels = f->height * f->width;
    int32_t v[BLOCK * LANES];
    for (int64_t s = from; s < to; s++) {
        const int8_t *surface = surface_of(f, s);
        int64_t y = 0, x = 0;
        for (int64_t done = 0; done < pixels; done += BLOCK) {
            const int64_t n = pixels - done < BLOCK ? pixels - done : BLOCK;
            for (int64_t i = 0; i < n; i++) {
                const int8_t *atom = surface + y * f->line + x * f->pixel;
                for (int l = 0; l < lanes; l++)
                    v[i * lanes + l] = atom[l];
                if (++x == f->width)
                    x = 0, y++;
            }
            finish(d, w, s, done, n, v, lanes);
        }
    }
}

INLINE void convert_atom(const int8_t *source, float *target, int64_t valid, const int lanes) {
    for (int l = 0; l < lanes; l++)
        target[l] = source[l];
    for (int64_t l = valid < 0 ? 0 : valid; l < lanes; l++)
        target[l] = 0;
}

/* The input's surface as floats with padding round it: (rows, columns, lanes). */
INLINE void pad_plane(const struct features *f, const struct window *k, int64_t s, float *plane,
                      int64_t rows, int64_t columns, const int lanes) {
    const float padding = k->padding;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t y = r - k->top;
        for (int64_t c = 0; c < columns; c++, plane += lanes) {
            const int64_t x = c - k->left;
            if (y < 0 || y >= f->height || x < 0 || x >= f->width)
                for (int l = 0; l < lanes; l++)
                    plane[l] = padding;
            else
                convert_atom(f->base + s * f->surface + y * f->line + x * f->pixel, plane,
                             f->valid - s * lanes, lanes);
        }
    }
}

/* (count, lanes) sums over the places of the kernel, for neighbours in a row of the plane. */
INLINE void sum_places(const struct window *k, const float *seen, int64_t columns, const float *weights,
                       int64_t count, float *sums, const int lanes) {
    memset(sums, 0, count * lanes * sizeof *sums);
    for (int64_t ky = 0; ky < k->height; ky++)
        for (int64_t kx = 0; kx < k->width; kx++, weights += lanes) {
            const float *x = seen + (ky * k->dilation_y * columns + kx * k->dilation_x) * lanes;
            for (int64_t i = 0; i < count; i++)
                for (int l = 0; l < lanes; l++)
                    sums[i * lanes + l] += x[i * k->stride_x * lanes + l] * weights[l];
        }
}

#ifdef PAIRS
enum { TOGETHER = 5 };

/* Some pixels at a time, their sums in registers. */
WIDE INLINE void sum_together(const struct window *k, const float *seen, int64_t columns,
                              const float *weights, float *sums, const int lanes) {
    const int vectors = lanes / 8;
    __m256 total[TOGETHER * LANES / 8];
    for (int i = 0; i < TOGETHER * vectors; i++)
        total[i] = _mm256_setzero_ps();
    for (int64_t ky = 0; ky < k->height; ky++)
        for (int64_t kx = 0; kx < k->width; kx++, weights += lanes) {
            const float *x = seen + (ky * k->dilation_y * columns + kx * k->dilation_x) * lanes;
            for (int v = 0; v < vectors; v++) {
                const __m256 factor = _mm256_loadu_ps(weights + 8 * v);
#pragma GCC unroll 5
                for (int i = 0; i < TOGETHER; i++)
                    total[i * vectors + v] =
                        _mm256_fmadd_ps(_mm256_loadu_ps(x + i * k->stride_x * lanes + 8 * v), factor,
                                        total[i * vectors + v]);
            }
        }
    for (int i = 0; i < TOGETHER * vectors; i++)
        _mm256_storeu_ps(sums + 8 * i, total[i]);
}

WIDE static void sum_places_wide(const struct window *k, const float *seen, int64_t columns,
                                 const float *weights, int64_t count, float *sums, int lanes) {
    int64_t done = 0;
    for (; done + TOGETHER <= count; done += TOGETHER)
        if (lanes == 16)
            sum_together(k, seen + done * k->stride_x * 16, columns, weights, sums + done * 16, 16);
        else
            sum_together(k, seen + done * k->stride_x * 8, columns, weights, sums + done * 8, 8);
    if (done == count)
        return;
    sum_places(k, seen + done * k->stride_x * lanes, columns, weights, count - done,
               sums + done * lanes, lanes);
}
#endif

INLINE void depthwise(const struct dpu *d, const struct writer *w, const struct features *f,
                      const struct window *k, const float *weights, float *plane, int64_t from,
                      int64_t to, const int lanes, const int wide) {
    const int64_t rows = (k->out_height - 1) * k->stride_y + (k->height - 1) * k->dilation_y + 1;
    const int64_t columns = (k->out_width - 1) * k->stride_x + (k->width - 1) * k->dilation_x + 1;
    int32_t v[BLOCK * LANES];
    float sums[BLOCK * LANES];
    weights += from * k->height * k->width * lanes;
    for (int64_t s = from; s < to; s++, weights += k->height * k->width * lanes) {
        pad_plane(f, k, s, plane, rows, columns, lanes);
        for (int64_t oy = 0; oy < k->out_height; oy++)
            for (int64_t ox = 0; ox < k->out_width; ox += BLOCK) {
                const int64_t n = k->out_width - ox < BLOCK ? k->out_width - ox : BLOCK;
                const float *seen = plane + (oy * k->stride_y * columns + ox * k->stride_x) * lanes;
#ifdef PAIRS
                if (wide)
                    sum_places_wide(k, seen, columns, weights, n, sums, lanes);
                else
#endif
                    sum_places(k, seen, columns, weights, n, sums, lanes);
                for (int64_t i = 0; i < n * lanes; i++)
                    v[i] = (int32_t)sums[i];
                finish(d, w, s, oy * k->out_width + ox, n, v, lanes);
            }
    }
    (void)wide;
}

/* The greatest values of windows, or with `sign` -1 the least. */
INLINE void pool(const struct writer *w, const struct features *f, const struct window *k, int sign,
                 int64_t from, int64_t to, const int lanes) {
    int8_t best[LANES];
    for (int64_t s = from; s < to; s++)
        for (int64_t oy = 0; oy < k->out_height; oy++)
            for (int64_t ox = 0; ox < k->out_width; ox++) {
                memset(best, sign > 0 ? -128 : 127, sizeof best);
                for (int64_t ky = 0; ky < k->height; ky++)
                    for (int64_t kx = 0; kx < k->width; kx++) {
                        const int64_t y = oy * k->stride_y + ky - k->top;
                        const int64_t x = ox * k->stride_x + kx - k->left;
                        if (y < 0 || y >= f->height || x < 0 || x >= f->width)
                            continue;
                        const int8_t *atom =
                            f->base + s * f->surface + y * f->line + x * f->pixel;
                        if (sign > 0)
                            for (int l = 0; l < lanes; l++)
                                best[l] = best[l] < atom[l] ? atom[l] : best[l];
                        else
                            for (int l = 0; l < lanes; l++)
                                best[l] = best[l] > atom[l] ? atom[l] : best[l];
                    }
                store(w, s, oy * k->out_width + ox, 1, best, lanes);
            }
}

/* ------------------------------------------------------------------------------------------ calls */

/* Every function twice: for wide vectors where the processor has them, and for any. */
#define ON_ANY(name, parameters, body)                                                                 \
    WIDE static void name##_wide parameters body static void name##_narrow parameters body

#define BY_LANES(lanes, call16, call8)                                                                 \
    if ((lanes) == 16) {                                                                               \
        call16;                                                                                        \
    } else {                                                                                           \
        call8;                                                                                         \
    }

#define DENSE                                                                                          \
    (const struct dpu *d, const struct writer *w, const struct features *f, const struct window *k,    \
     const int16_t *weights, int64_t depth, int64_t first, int64_t count, int64_t tile, int16_t *rows)

WIDE static void dense_wide DENSE {
    BY_LANES(w->lanes, dense(d, w, f, k, weights, depth, first, count, tile, rows, 16, 1),
             dense(d, w, f, k, weights, depth, first, count, tile, rows, 8, 1))
}

static void dense_narrow DENSE {
    BY_LANES(w->lanes, dense(d, w, f, k, weights, depth, first, count, tile, rows, 16, 0),
             dense(d, w, f, k, weights, depth, first, count, tile, rows, 8, 0))
}

ON_ANY(process,
       (const struct dpu *d, const struct writer *w, const struct features *f, int64_t from, int64_t to),
       { BY_LANES(w->lanes, process(d, w, f, from, to, 16), process(d, w, f, from, to, 8)) })

#define DEPTHWISE                                                                                      \
    (const struct dpu *d, const struct writer *w, const struct features *f, const struct window *k,    \
     const float *weights, float *plane, int64_t from, int64_t to)

WIDE static void depthwise_wide DEPTHWISE {
    BY_LANES(w->lanes, depthwise(d, w, f, k, weights, plane, from, to, 16, 1),
             depthwise(d, w, f, k, weights, plane, from, to, 8, 1))
}

static void depthwise_narrow DEPTHWISE {
    BY_LANES(w->lanes, depthwise(d, w, f, k, weights, plane, from, to, 16, 0),
             depthwise(d, w, f, k, weights, plane, from, to, 8, 0))
}

ON_ANY(pool,
       (const struct writer *w, const struct features *f, const struct window *k, int sign, int64_t from,
        int64_t to),
       { BY_LANES(w->lanes, pool(w, f, k, sign, from, to, 16), pool(w, f, k, sign, from, to, 8)) })

#define CALL(name, ...)                                                                                \
    if (HAS_WIDE)                                                                                      \
        name##_wide(__VA_ARGS__);                                                                      \
    else                                                                                               \
        name##_narrow(__VA_ARGS__)

EXPORT void anynpu_npu_dense DENSE {
    CALL(dense, d, w, f, k, weights, depth, first, count, tile, rows);
}

/* The others work on surfaces `from` to `to`. */
EXPORT void anynpu_npu_process(const struct dpu *d, const struct writer *w, const struct features *f,
                               int64_t from, int64_t to) {
    CALL(process, d, w, f, from, to);
}

EXPORT void anynpu_npu_depthwise DEPTHWISE {
    CALL(depthwise, d, w, f, k, weights, plane, from, to);
}

EXPORT void anynpu_npu_pool(const struct writer *w, const struct features *f, const struct window *k,
                            int32_t sign, int64_t from, int64_t to) {
    CALL(pool, w, f, k, sign, from, to);
}
