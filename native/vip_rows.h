/* What shaders make of rows of bytes, for vip.c: products, factors, sums over windows, softmax, and a layer's
 * normalisation.
 *
 * Real numbers are float32, each product and each sum rounded, as the reference's are. Each line, a row of a
 * plane, is for itself; a unit of work is `unit` lines. Lines that are repeated are 0 bytes apart.
 */
#ifndef ANYNPU_VIP_ROWS_H
#define ANYNPU_VIP_ROWS_H

#include <math.h>

#include "vip_planes.h"

#include "vip_half.h"

enum {
    SUMMED_POWERS = 4, /* that are rounded together */
    BYTE_VALUES = 256,
};

INLINE uint8_t *line_at(const struct lines *l, int64_t rows, int64_t number) {
    return l->first + number / rows * l->plane + number % rows * l->row;
}

INLINE float float_at(const uint8_t *from) {
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* The nearest byte, halves to even; what is no number is 0. The sum's last bit is worth 1. */
INLINE uint8_t nearest_byte(float value) {
    value = value > 0 ? value : 0;
    value = value < UINT8_MAX ? value : UINT8_MAX;
    return (uint8_t)bits_of_float(value + 0x1p23f);
}

/* ---------------------------------------------------------------------------------- products */

/* (byte * factor + addend) * scale + constant, the first two whole numbers. */
INLINE void scale_bytes(const uint8_t *from, int32_t factor, int32_t addend, float scale,
                        float constant, uint8_t *to, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = nearest_byte((float)(from[i] * factor + addend) * scale + constant);
}

INLINE void row_factors_inline(const struct row_factors *p, int64_t first, int64_t end) {
    const int64_t size = sizeof(float);
    for (int64_t i = first * p->unit; i < least(end * p->unit, p->rows); i++)
        scale_bytes(line_at(&p->source, p->rows, i), 1, -(int32_t)p->zero_point,
                    float_at(p->factors + i * size), float_at(p->constants + i * size),
                    line_at(&p->target, p->rows, i), p->pixels);
}

INLINE void byte_products_inline(const struct byte_products *p, int64_t first, int64_t end) {
    const int32_t zero = (int32_t)p->zero_point, zero_other = (int32_t)p->other_zero_point;
    const float scale = (float)p->scale, constant = (float)p->constant;
    for (int64_t n = first * p->unit; n < least(end * p->unit, p->count); n++) {
        const uint8_t *const x = line_at(&p->source, p->rows, n), *const y = line_at(&p->other,
                                                                                     p->rows, n);
        uint8_t *const to = line_at(&p->target, p->rows, n);
        if (p->other_is_one) {
            scale_bytes(x, *y - zero_other, -*y * zero, scale, constant, to, p->pixels);
            continue;
        }
        for (int64_t i = 0; i < p->pixels; i++) {
            const int32_t product = x[i] * y[i] - x[i] * zero_other - y[i] * zero;
            to[i] = nearest_byte((float)product * scale + constant);
        }
    }
}

/* -------------------------------------------------------------------------------------- sums */

INLINE uint32_t sum_of_bytes(const uint8_t *from, int64_t count) {
    uint32_t total = 0;
    for (int64_t i = 0; i < count; i++)
        total += from[i];
    return total;
}

INLINE void window_sums_inline(const struct window_sums *p, int64_t first, int64_t end) {
    const float scale = (float)p->scale, constant = (float)p->constant;
    for (int64_t n = first * p->unit; n < least(end * p->unit, p->count); n++) {
        const uint8_t *const from = line_at(&p->source, p->rows, n);
        uint8_t *const to = line_at(&p->target, p->rows, n);
        for (int64_t i = 0; i < p->pixels; i++) {
            int64_t total = p->addend;
            for (int64_t y = 0; y < p->height; y++)
                total += sum_of_bytes(from + y * p->next_row + i * p->width, p->width);
            to[i] = nearest_byte((float)total * scale + constant);
        }
    }
}

/* ----------------------------------------------------------------------------- normalisation */

INLINE void layer_rows_inline(const struct layer_rows *p, int64_t first, int64_t end) {
    const float part = (float)p->part, epsilon = (float)p->epsilon, factor = (float)p->factor,
                constant = (float)p->constant;
    for (int64_t n = first * p->unit; n < least(end * p->unit, p->count); n++) {
        const uint8_t *const from = line_at(&p->source, p->rows, n);
        uint8_t *const to = line_at(&p->target, p->rows, n);
        int64_t total = p->sum_beyond, squares = p->squares_beyond;
        for (int64_t i = 0; i < p->pixels; i++) {
            total += from[i];
            squares += from[i] * from[i];
        }
        const float mean = (float)total * part;
        const float variance = (float)squares * part - mean * mean + epsilon;
        const float inverse = (float)(1 / sqrt((double)variance));
        for (int64_t i = 0; i < p->pixels; i++) {
            const float normal = p->scales[i] * inverse * ((float)from[i] - mean);
            to[i] = nearest_byte((normal + p->bias[i]) * factor + constant);
        }
    }
}

/* ----------------------------------------------------------------------------------- softmax */

INLINE uint8_t greatest_of(const uint8_t *from, int64_t count) {
    uint8_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found = from[i] > found ? from[i] : found;
    return found;
}

/* One over the sum of a row's powers, by its values: those that are rounded together are added in double. */
INLINE float part_of_powers(const float *powers, const uint8_t *from, int64_t count) {
    float total = 0;
    for (int64_t i = 0; i < count; i += SUMMED_POWERS) {
        double some = 0;
        for (int64_t k = i; k < least(i + SUMMED_POWERS, count); k++)
            some += (double)powers[from[k]];
        total += (float)some;
    }
    return 1 / total;
}

/* A line's results by its values, of which `greatest` is one. */
INLINE void softmax_rows_inline(const struct softmax_rows *p, int64_t first, int64_t end) {
    const float factor = (float)p->factor, constant = (float)p->constant;
    for (int64_t n = first * p->unit; n < least(end * p->unit, p->count); n++) {
        const uint8_t *const from = line_at(&p->source, p->rows, n);
        uint8_t *const to = line_at(&p->target, p->rows, n);
        const int64_t greatest = greatest_of(from, p->pixels);
        float powers[BYTE_VALUES];
        for (int64_t i = 0; i <= greatest; i++)
            powers[i] = p->powers[greatest - i];
        const float part = part_of_powers(powers, from, p->pixels);
        if (p->is_half) {
            uint16_t halves[BYTE_VALUES];
            for (int64_t i = 0; i <= greatest; i++)
                halves[i] = stored_half(powers[i] * part, 0);
            for (int64_t i = 0; i < p->pixels; i++)
                memcpy(to + i * (int64_t)sizeof *halves, halves + from[i], sizeof *halves);
            continue;
        }
        uint8_t bytes[BYTE_VALUES];
        for (int64_t i = 0; i <= greatest; i++)
            bytes[i] = nearest_byte(powers[i] * part * factor + constant);
        for (int64_t i = 0; i < p->pixels; i++)
            to[i] = bytes[from[i]];
    }
}

/* ------------------------------------------------------------------- products of two tensors */

/* Adds a factor times bytes less their zero point. */
INLINE void add_multiples(const uint8_t *from, int32_t zero_point, int32_t factor, int32_t *sums,
                          int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sums[i] += (from[i] - zero_point) * factor;
}

/* Halves go away from zero. */
INLINE void round_sums(const struct matrix_product *p, const int32_t *sums, uint8_t *to,
                       int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double value = sums[i] * p->scale;
        value = value > p->low ? value : p->low;
        value = value < p->high ? value : p->high;
        value = trunc(value + copysign(0.5, value)) + (double)p->zero_point;
        value = value > 0 ? value : 0;
        to[i] = (uint8_t)(value < UINT8_MAX ? value : UINT8_MAX);
    }
}

/* A unit of work is one kernel's row of pixels; `sums` has a place for each. */
INLINE void matrix_product_inline(const struct matrix_product *p, int64_t first, int64_t end,
                                  int32_t *sums) {
    for (int64_t unit = first; unit < end; unit++) {
        const int64_t kernel = unit / p->height, y = unit % p->height;
        const uint8_t *const weights = p->kernels + kernel * p->kernel_step;
        memset(sums, 0, (size_t)p->width * sizeof *sums);
        for (int64_t d = 0; d < p->depth; d++) {
            const int32_t factor = weights[d * p->weight_step] - (int32_t)p->kernel_zero_point;
            const struct row row = row_of(&p->source, d, y, p->width);
            add_multiples(row.first, (int32_t)p->input_zero_point, factor, sums, row.count);
            add_multiples(row.rest, (int32_t)p->input_zero_point, factor, sums + row.count,
                          p->width - row.count);
        }
        const struct row to = row_of(&p->target, kernel, y, p->width);
        round_sums(p, sums, to.first, to.count);
        round_sums(p, sums + to.count, to.rest, p->width - to.count);
    }
}

#define ROWS_IN_EACH_FORM(name)                                                                    \
    IN_EACH_FORM(name, (const struct name *p, int64_t first, int64_t end), (p, first, end))        \
    EXPORT void anynpu_vip_##name(const void *arguments, int64_t first, int64_t end,               \
                                  void *scratch) {                                                 \
        (void)scratch;                                                                             \
        name(arguments, first, end);                                                               \
    }

ROWS_IN_EACH_FORM(row_factors)
ROWS_IN_EACH_FORM(byte_products)
ROWS_IN_EACH_FORM(window_sums)
ROWS_IN_EACH_FORM(layer_rows)
ROWS_IN_EACH_FORM(softmax_rows)

IN_EACH_FORM(matrix_product,
             (const struct matrix_product *p, int64_t first, int64_t end, int32_t *sums),
             (p, first, end, sums))

EXPORT void anynpu_vip_matrix_product(const void *arguments, int64_t first, int64_t end,
                                      void *scratch) {
    matrix_product(arguments, first, end, scratch);
}

#endif
