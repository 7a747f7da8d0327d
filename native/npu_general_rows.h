/* What convolutions see as rows of floats, for npu_general.c: for each place of the kernel, all channels of the
 * input there. */
#ifndef ANYNPU_NPU_GENERAL_ROWS_H
#define ANYNPU_NPU_GENERAL_ROWS_H

#include <stdint.h>

#include "npu_general_memory.h"

/* The input's row or column under one of the spread ones; -1 in padding. */
INLINE int64_t under(int64_t spread, int64_t inserted, int64_t size) {
    if (spread < 0 || spread % (inserted + 1))
        return -1;
    spread /= inserted + 1;
    return spread < size ? spread : -1;
}

/* The outputs [from, to) whose input column `first + output * step` exists; without inserted columns. A
 * step of 0 repeats one column. */
INLINE void existing(int64_t first, int64_t step, int64_t size, int64_t *from, int64_t *to) {
    if (step == 0) {
        *to = first >= 0 && first < size ? *to : *from;
        return;
    }
    const int64_t low = first >= 0 ? 0 : (-first + step - 1) / step;
    const int64_t high = first >= size ? 0 : (size - first + step - 1) / step;
    *from = *from > low ? *from : low;
    *to = *to < high ? *to : high;
}

static void fill(float *target, int64_t step, int64_t count, int64_t lanes, float value) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t l = 0; l < lanes; l++)
            target[i * step + l] = value;
}

/* All channels of `count` pixels `step` apart, to rows. Whole atoms are written: what follows the last
 * channel is overwritten by the next place, or lies between two rows. */
static void gather_pixels(const struct features *f, int64_t y, int64_t x, int64_t step,
                          int64_t count, float *rows, int64_t depth) {
    const int64_t valid = least(f->valid, f->channels), offset = y * f->line + x * f->pixel;
    int64_t c = 0;
#ifdef AVX512
    if (has_avx512(running_form) && f->element == FLOAT16 && f->lanes == 8)
        for (; c + 8 < valid; c += 16)
            widen_two(surface_of(f, c / 8) + offset, surface_of(f, c / 8 + 1) + offset,
                      step * f->pixel, count, rows + c, depth);
    if (has_avx512(running_form) && f->element == FLOAT16 && f->lanes == 4)
        for (; c + 12 < valid; c += 16) {
            const uint8_t *surfaces[4];
            for (int64_t s = 0; s < 4; s++)
                surfaces[s] = surface_of(f, c / 4 + s) + offset;
            widen_four_halves(surfaces, step * f->pixel, count, rows + c, depth);
        }
#endif
    for (; c < valid; c += f->lanes)
        widen(surface_of(f, c / f->lanes) + offset, step * f->pixel, count, rows + c, depth,
              f->lanes, f->element);
    if (valid < f->channels)
        fill(rows + valid, depth, count, f->channels - valid, 0);
    for (int64_t i = 0; f->conversion && i < count; i++)
        for (int64_t c = 0; c < f->channels; c++)
            rows[i * depth + c] = f->conversion[c % 4 * 256 + (int64_t)rows[i * depth + c] + 128];
}

/* What outputs [from, to) of a row see at one place of the kernel. */
static void gather_place(const struct features *f, const struct window *k, int64_t oy, int64_t ky,
                         int64_t kx, int64_t from, int64_t to, float *rows, int64_t depth) {
    const int64_t y =
        under(oy * k->stride_y + ky * k->dilation_y - k->top, k->inserted_y, f->height);
    const int64_t left = kx * k->dilation_x - k->left;
    int64_t begin = from, end = to;
    if (y < 0) {
        fill(rows, depth, to - from, f->channels, k->padding);
        return;
    }
    if (k->inserted_x) {
        for (int64_t ox = from; ox < to; ox++, rows += depth) {
            const int64_t x = under(ox * k->stride_x + left, k->inserted_x, f->width);
            if (x < 0)
                fill(rows, depth, 1, f->channels, k->padding);
            else
                gather_pixels(f, y, x, 1, 1, rows, depth);
        }
        return;
    }
    existing(left, k->stride_x, f->width, &begin, &end);
    if (begin >= end) {
        fill(rows, depth, to - from, f->channels, k->padding);
        return;
    }
    fill(rows, depth, begin - from, f->channels, k->padding);
    gather_pixels(f, y, begin * k->stride_x + left, k->stride_x, end - begin,
                  rows + (begin - from) * depth, depth);
    fill(rows + (end - from) * depth, depth, to - end, f->channels, k->padding);
}

/* A row of the kernel at once, where neighbours lie side by side; whether all of it exists. */
static int gather_line(const struct features *f, const struct window *k, int64_t oy, int64_t ky,
                       int64_t from, int64_t to, float *rows, int64_t depth) {
    const int64_t y = oy * k->stride_y + ky * k->dilation_y - k->top;
    const int64_t left = from * k->stride_x - k->left;
    const int64_t right = (to - 1) * k->stride_x - k->left + k->width;
    if (y < 0 || y >= f->height || left < 0 || right > f->width)
        return 0;
    widen(f->base + y * f->line + left * f->pixel, k->stride_x * f->pixel, to - from, rows, depth,
          k->width * f->channels, f->element);
    return 1;
}

/* One row of floats a pixel: for each place of the kernel, all channels of the input there. */
static void gather(const struct features *f, const struct window *k, int64_t first, int64_t count,
                   float *rows, int64_t depth) {
    const int is_packed = f->pixel == f->channels * size_of(f->element) &&
                          f->channels <= f->lanes && f->valid >= f->channels &&
                          k->dilation_x == 1 && !(k->inserted_x || k->inserted_y || f->conversion);
    int64_t oy = first / k->out_width, ox = first % k->out_width;
    while (count) {
        const int64_t n = least(count, k->out_width - ox);
        float *target = rows;
        for (int64_t ky = 0; ky < k->height; ky++, target += k->width * f->channels) {
            int64_t from = ox, to = ox;
            if (is_packed) {
                /* The outputs of which no place lies in the padding. */
                to = ox + n;
                existing(-k->left, k->stride_x, f->width, &from, &to);
                existing(k->width - 1 - k->left, k->stride_x, f->width, &from, &to);
                if (from >= to ||
                    !gather_line(f, k, oy, ky, from, to, target + (from - ox) * depth, depth))
                    from = to = ox;
            }
            for (int64_t kx = 0; kx < k->width; kx++) {
                float *place = target + kx * f->channels;
                if (from > ox)
                    gather_place(f, k, oy, ky, kx, ox, from, place, depth);
                if (to < ox + n)
                    gather_place(f, k, oy, ky, kx, to, ox + n, place + (to - ox) * depth, depth);
            }
        }
        rows += n * depth, count -= n, ox = 0, oy++;
    }
}

#endif
