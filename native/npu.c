/* The NPU's integer arithmetic on channel blocks: what NumPy would do in many passes, in one.
 *
 * Plain C11. Sums are float, which are exact while they stay below 2^24; stages compute in double, which
 * is exact while values stay below 2^52. Callers prove both when a model is loaded, so the results are
 * those of the integer arithmetic, bit for bit.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#define HAS_WIDE __builtin_cpu_supports("avx2")
#define WIDE __attribute__((target("avx2")))
#else
#define HAS_WIDE 0
#define WIDE
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, BLOCK = 64, ENTRIES = 513 };

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

/* Accumulators of one surface, (count, lanes), through the stages and into memory. */
INLINE void finish(const struct dpu *d, const struct writer *w, int64_t s, int64_t first, int64_t count,
                   double *v, const int lanes) {
    const int64_t all = count * lanes;
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
    int8_t q[BLOCK * LANES];
    for (int64_t i = 0; i < all; i++)
        q[i] = (int8_t)(int32_t)clamp(round_away(v[i] * d->scale) + d->offset, -128, 127);
    store(w, s, first, count, q, lanes);
}

/* ------------------------------------------------------------------------------------- operations */

INLINE void convert_atom(const int8_t *source, float *target, int64_t valid, const int64_t lanes) {
    for (int64_t l = 0; l < lanes; l++)
        target[l] = source[l];
    for (int64_t l = valid < 0 ? 0 : valid; l < lanes; l++)
        target[l] = 0;
}

/* One row of floats a pixel: for each place of the kernel, all channels of the input there. */
INLINE void gather(const struct features *f, const struct window *k, int64_t first, int64_t count,
                   float *rows, const int64_t lanes) {
    const int64_t step = f->surfaces * lanes;
    const float padding = k->padding;
    int64_t oy = first / k->out_width, ox = first % k->out_width;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t ky = 0; ky < k->height; ky++) {
            const int64_t y = oy * k->stride_y + ky * k->dilation_y - k->top;
            for (int64_t kx = 0; kx < k->width; kx++, rows += step) {
                const int64_t x = ox * k->stride_x + kx * k->dilation_x - k->left;
                if (y < 0 || y >= f->height || x < 0 || x >= f->width) {
                    for (int64_t c = 0; c < step; c++)
                        rows[c] = padding;
                    continue;
                }
                const int8_t *atom = f->base + y * f->line + x * f->pixel;
                for (int64_t s = 0; s < f->surfaces; s++)
                    convert_atom(atom + s * f->surface, rows + s * lanes, f->valid - s * lanes, lanes);
            }
        }
        if (++ox == k->out_width)
            ox = 0, oy++;
    }
}

/* Sums are float, or double where they don't fit. */
INLINE void finish_rows(const struct dpu *d, const struct writer *w, const float *narrow,
                        const double *wide, int64_t step, int64_t first, int64_t count,
                        const int lanes) {
    const int64_t surfaces = (w->channels + lanes - 1) / lanes;
    double v[BLOCK * LANES];
    for (int64_t done = 0; done < count; done += BLOCK) {
        const int64_t n = count - done < BLOCK ? count - done : BLOCK;
        for (int64_t s = 0; s < surfaces; s++) {
            const int64_t place = done * step + s * lanes;
            for (int64_t i = 0; i < n; i++)
                for (int l = 0; l < lanes; l++)
                    v[i * lanes + l] =
                        narrow ? narrow[place + i * step + l] : wide[place + i * step + l];
            finish(d, w, s, first + done, n, v, lanes);
        }
    }
}

INLINE void process(const struct dpu *d, const struct writer *w, const struct features *f,
                    const int lanes) {
    const int64_t pixels = f->height * f->width;
    double v[BLOCK * LANES];
    for (int64_t s = 0; s < f->surfaces; s++) {
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

INLINE void depthwise(const struct dpu *d, const struct writer *w, const struct features *f,
                      const struct window *k, const float *weights, float *plane, const int lanes) {
    const int64_t rows = (k->out_height - 1) * k->stride_y + (k->height - 1) * k->dilation_y + 1;
    const int64_t columns = (k->out_width - 1) * k->stride_x + (k->width - 1) * k->dilation_x + 1;
    double v[BLOCK * LANES];
    float sums[BLOCK * LANES];
    for (int64_t s = 0; s < f->surfaces; s++, weights += k->height * k->width * lanes) {
        pad_plane(f, k, s, plane, rows, columns, lanes);
        for (int64_t oy = 0; oy < k->out_height; oy++)
            for (int64_t ox = 0; ox < k->out_width; ox += BLOCK) {
                const int64_t n = k->out_width - ox < BLOCK ? k->out_width - ox : BLOCK;
                memset(sums, 0, sizeof sums);
                for (int64_t ky = 0; ky < k->height; ky++)
                    for (int64_t kx = 0; kx < k->width; kx++) {
                        const float *m = weights + (ky * k->width + kx) * lanes;
                        const float *x = plane + ((oy * k->stride_y + ky * k->dilation_y) * columns +
                                                  ox * k->stride_x + kx * k->dilation_x) * lanes;
                        for (int64_t i = 0; i < n; i++)
                            for (int l = 0; l < lanes; l++)
                                sums[i * lanes + l] += x[i * k->stride_x * lanes + l] * m[l];
                    }
                for (int64_t i = 0; i < n * lanes; i++)
                    v[i] = sums[i];
                finish(d, w, s, oy * k->out_width + ox, n, v, lanes);
            }
    }
}

/* The greatest values of windows, or with `sign` -1 the least. */
INLINE void pool(const struct writer *w, const struct features *f, const struct window *k, int sign,
                 const int lanes) {
    int8_t best[LANES];
    for (int64_t s = 0; s < f->surfaces; s++)
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

ON_ANY(gather, (const struct features *f, const struct window *k, int64_t first, int64_t count, float *rows), {
    if (f->lanes == 16)
        gather(f, k, first, count, rows, 16);
    else
        gather(f, k, first, count, rows, f->lanes);
})

ON_ANY(finish_rows,
       (const struct dpu *d, const struct writer *w, const float *narrow, const double *wide,
        int64_t step, int64_t first, int64_t count),
       { BY_LANES(w->lanes, finish_rows(d, w, narrow, wide, step, first, count, 16),
                  finish_rows(d, w, narrow, wide, step, first, count, 8)) })

ON_ANY(process, (const struct dpu *d, const struct writer *w, const struct features *f),
       { BY_LANES(w->lanes, process(d, w, f, 16), process(d, w, f, 8)) })

ON_ANY(depthwise,
       (const struct dpu *d, const struct writer *w, const struct features *f, const struct window *k,
        const float *weights, float *plane),
       { BY_LANES(w->lanes, depthwise(d, w, f, k, weights, plane, 16),
                  depthwise(d, w, f, k, weights, plane, 8)) })

ON_ANY(pool, (const struct writer *w, const struct features *f, const struct window *k, int sign),
       { BY_LANES(w->lanes, pool(w, f, k, sign, 16), pool(w, f, k, sign, 8)) })

#define CALL(name, ...)                                                                                \
    if (HAS_WIDE)                                                                                      \
        name##_wide(__VA_ARGS__);                                                                      \
    else                                                                                               \
        name##_narrow(__VA_ARGS__)

EXPORT void anynpu_npu_gather(const struct features *f, const struct window *k, int64_t first,
                              int64_t count, float *rows) {
    CALL(gather, f, k, first, count, rows);
}

EXPORT void anynpu_npu_finish(const struct dpu *d, const struct writer *w, const float *narrow,
                              const double *wide, int64_t step, int64_t first, int64_t count) {
    CALL(finish_rows, d, w, narrow, wide, step, first, count);
}

EXPORT void anynpu_npu_process(const struct dpu *d, const struct writer *w, const struct features *f) {
    CALL(process, d, w, f);
}

EXPORT void anynpu_npu_depthwise(const struct dpu *d, const struct writer *w, const struct features *f,
                                 const struct window *k, const float *weights, float *plane) {
    CALL(depthwise, d, w, f, k, weights, plane);
}

EXPORT void anynpu_npu_pool(const struct writer *w, const struct features *f, const struct window *k,
                            int32_t sign) {
    CALL(pool, w, f, k, sign);
}
